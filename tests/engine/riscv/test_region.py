"""Regions: blocks, entries, loop heads and budgets of small and of random programs."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from softcard.engine.riscv.jit.region import LIMIT, Region, discover, is_call
from softcard.isa.riscv.decode import assemble, decode
from tests.engine.riscv.rig import CODE, fetcher


def region(text: str, stops: frozenset[int] = frozenset(), native_float: bool = True, at: int = CODE) -> Region:
    return discover(at, fetcher(text, at), stops, native_float)


def test_a_straight_run_ends_where_nothing_can_run() -> None:
    found = region("addi x1, x0, 1\naddi x2, x0, 2")
    assert list(found.blocks) == [CODE]
    assert found.blocks[CODE].successors == (CODE + 8,)
    assert (found.size, found.blocks[CODE].cost, found.blocks[CODE].end) == (2, 2, CODE + 8)
    assert (found.entries, found.heads, found.budget) == ({CODE}, set(), {CODE: 2})
    assert found.address_ranges == [(CODE, CODE + 8)]


def test_a_diamond_in_a_loop() -> None:
    text = """
        loop: beq x1, x2, else
        addi x3, x3, 1
        jal x0, join
        else: addi x4, x4, 1
        join: addi x5, x5, 1
        bne x5, x6, loop
        addi x7, x7, 1
    """
    found = region(text)
    assert sorted(start - CODE for start in found.blocks) == [0, 4, 12, 16, 24]
    assert found.heads == {CODE}
    assert found.budget == {CODE: 6}, "the longest way is through the jump, and the exit is no check"
    assert not found.calls_itself


def test_a_loop_of_one_block_needs_its_own_length() -> None:
    found = region("addi x1, x0, 9\nloop: addi x1, x1, -1\nbne x1, x0, loop\naddi x2, x0, 1\naddi x3, x0, 1")
    assert found.budget == {CODE: 1, CODE + 4: 2, CODE + 12: 2}


def test_a_system_instruction_is_left_and_can_be_entered_behind() -> None:
    found = region("addi x1, x0, 1\necall\naddi x2, x0, 2")
    first = found.blocks[CODE]
    assert (len(first.insns), first.cost, first.successors) == (2, 1, ())
    assert found.entries == {CODE, CODE + 8}
    assert region("ecall").blocks[CODE].cost == 0
    assert region("ecall").budget == {CODE: 0}


def test_floats_may_be_left_too() -> None:
    text = "addi x1, x0, 1\nfadd.s f1, f2, f3\naddi x2, x0, 2"
    assert len(region(text).blocks) == 1
    found = region(text, native_float=False)
    assert (found.blocks[CODE].cost, found.entries) == (1, {CODE, CODE + 8})


def test_calls_lead_to_blocks_of_the_region_only_if_something_else_does() -> None:
    inside = region("jal x1, f\nbeq x5, x0, f\naddi x2, x0, 1\nf: addi x3, x0, 1\njalr x0, 0(x1)")
    assert inside.blocks[CODE].successors == (CODE + 12,)
    assert inside.calls_itself
    alone = region("jal x1, f\njalr x0, 0(x5)\nf: addi x3, x0, 1")
    assert alone.blocks[CODE].successors == ()
    assert not alone.calls_itself
    assert not alone.holds(CODE + 8)
    itself = region("f: addi x1, x1, 1\njal x1, f\njalr x0, 0(x1)")
    assert itself.calls_itself
    assert itself.entries == {CODE, CODE + 8}
    assert itself.heads == {CODE}


def test_stops_are_left_out() -> None:
    text = "addi x1, x0, 1\naddi x2, x0, 2\naddi x3, x0, 3"
    found = region(text, frozenset({CODE + 4}))
    assert (found.size, found.blocks[CODE].successors) == (1, (CODE + 4,))
    assert not found.holds(CODE + 4)
    assert found.holds(CODE + 2)
    assert region(text, frozenset({CODE})).blocks == {}
    assert region("", frozenset()).blocks == {}


def test_a_region_has_a_largest_size() -> None:
    found = region("\n".join(["addi x1, x1, 1"] * (LIMIT + 100)))
    assert found.size == LIMIT
    assert found.blocks[CODE].successors == (CODE + 4 * LIMIT,)


def test_a_jump_into_the_middle_of_an_instruction() -> None:
    """A 32-bit instruction whose upper half is an instruction too."""
    word = int.from_bytes(assemble("lui x5, 0x50"), "little")
    hidden = int.from_bytes(assemble("c.addi x6, 1"), "little")
    code = assemble(f"jal x0, {CODE + 6}", CODE) + (word & 0xFFFF | hidden << 16).to_bytes(4, "little")

    def fetch(pc: int) -> object:
        data = code[pc - CODE : pc - CODE + 4]
        value = int.from_bytes(data, "little")
        return decode(value if value & 3 == 3 and len(data) == 4 else value & 0xFFFF) if len(data) >= 2 else None

    found = discover(CODE, fetch)  # type: ignore[arg-type]
    assert sorted(start - CODE for start in found.blocks) == [0, 6]
    assert found.holds(CODE + 6)


def test_code_around_the_end_of_the_address_space_is_left() -> None:
    """A loop over the end would have no head by address."""
    top = (1 << 64) - 8
    add = decode(int.from_bytes(assemble("addi x1, x1, 1"), "little"))
    found = discover(top, dict.fromkeys((top, top + 4, 0, 4), add).get)
    assert (list(found.blocks), found.size) == ([top], 1)
    assert found.blocks[top].successors == (top + 4,)


# -- random programs

COUNT = 14


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Branches, jumps, calls, returns and others between `COUNT` places."""
    lines = []
    for n in range(COUNT):
        target = f"l{draw(st.integers(0, COUNT))}"
        kind = draw(
            st.sampled_from(("addi x5, x5, 1",) * 3 + ("beq", "beq", "jump", "call", "ret", "ecall", "c.addi x6, 1"))
        )
        text = {
            "beq": f"beq x1, x2, {target}",
            "jump": f"jal x0, {target}",
            "call": f"jal x1, {target}",
            "ret": "jalr x0, 0(x1)",
        }.get(kind, kind)
        lines.append(f"l{n}: {text}")
    return "\n".join([*lines, f"l{COUNT}: addi x7, x7, 1"])


@given(programs(), st.integers(0, COUNT * 4), st.booleans())
@settings(max_examples=150, deadline=None)
def test_budgets_are_upper_bounds_and_every_cycle_is_checked(text: str, stop: int, native: bool) -> None:
    found = region(text, frozenset({CODE + 2 * stop}) - {CODE}, native)
    checks = set(found.budget)
    assert (found.entries | found.heads) & found.blocks.keys() <= checks
    assert found.entries | found.heads <= found.blocks.keys()

    def longest(start: int, on_way: tuple[int, ...]) -> int:
        assert start not in on_way, "a cycle without a check"
        block = found.blocks[start]
        onward = [s for s in block.successors if s in found.blocks and s not in checks]
        return block.cost + max((longest(s, (*on_way, start)) for s in onward), default=0)

    for start, budget in found.budget.items():
        assert budget == longest(start, ())


@given(programs())
@settings(max_examples=100, deadline=None)
def test_blocks_are_straight_and_their_successors_are_known(text: str) -> None:
    fetch = fetcher(text)
    found = region(text)
    for start, block in found.blocks.items():
        assert block.start == start == block.insns[0][0]
        for (pc, insn), (following, _) in zip(block.insns, block.insns[1:], strict=False):
            assert insn.spec.flow == "next"
            assert following == pc + insn.length
            assert following not in found.blocks
        pc, insn = block.insns[-1]
        assert insn == fetch(pc)
        assert found.holds(pc)
        if is_call(insn) or insn.spec.flow == "system":
            following = pc + insn.length
            assert following in found.entries or fetch(following) is None or found.size == LIMIT
