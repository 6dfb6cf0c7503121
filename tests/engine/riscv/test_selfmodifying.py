"""Guests that write code: at once visible where engines are coherent, else from the next flush on."""

from __future__ import annotations

import random

import pytest

from softcard.core.space import PAGE_SIZE, Ram
from softcard.engine.riscv.jit.engine import MAX_VERSIONS, JitContext, JitEngine
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.ir import llvm
from softcard.isa.riscv.decode import assemble
from tests.engine.riscv.rig import (
    CACHE,
    CODE,
    DATA,
    DATA_END,
    ENGINES,
    UNKNOWN_ORIGIN,
    FlatPort,
    Rig,
    WidePort,
    agree,
    brief,
)

EVERY = pytest.mark.parametrize("name", ENGINES)
PAGES = pytest.mark.parametrize("port", [FlatPort, WidePort])


def word(text: str) -> int:
    return int.from_bytes(assemble(text), "little")


PATCH = """
    loop: addi x5, x5, 1
    target: addi x7, x7, 1
    beq x5, x9, patch
    next: bne x5, x6, loop
    jal x0, end
    patch: sw x8, 0(x11)
    jal x0, next
    end: addi x12, x0, 1
"""


@PAGES
def test_a_store_into_the_running_region(port: type[FlatPort]) -> None:
    """From the next round on the new instruction runs."""
    results: dict[str, list[object]] = {}
    for name, make in ENGINES.items():
        rig, results[name] = Rig(make(), port), []
        for fuel in (10_000, 10_000, 7, 30, 31, 32, 33, 10_000):
            end = rig.place(PATCH)
            outcome = rig.run(end, fuel, x6=20, x8=word("addi x7, x7, 100"), x9=10, x11=CODE + 4)
            assert outcome.x[7] == 10 + 10 * 100 if fuel == 10_000 else outcome.retired == fuel
            results[name].append(brief(outcome))
    assert results["reference"] == results["quick"] == results["optimised"]


def test_a_store_to_the_next_instruction() -> None:
    text = "sw x8, 0(x11)\naddi x7, x7, 1\naddi x7, x7, 1\n"
    for outcome in agree(
        "loop: " + text + "addi x6, x6, -1\nbne x6, x0, loop", x6=3, x8=word("addi x7, x7, 50"), x11=CODE + 4
    ):
        assert outcome.x[7] == 3 * 51


FILL = """
    loop: sw x8, 0(x10)
    addi x10, x10, 4
    addi x6, x6, -1
    bne x6, x0, loop
"""
COUNT = "addi x7, x7, 1\njalr x0, 0(x1)"


@EVERY
@PAGES
@pytest.mark.parametrize("first", [0, 3, 6])
def test_a_walk_over_code_elsewhere(name: str, port: type[FlatPort], first: int) -> None:
    """A fill that began in plain memory reaches a page of code, whichever page was written first."""
    rig = Rig(ENGINES[name](), port)
    end = rig.place(FILL)
    rig.run(end, x6=1, x10=DATA + first * PAGE_SIZE)
    function = DATA + 6 * PAGE_SIZE + 0x40
    rig.place(COUNT, function)
    for _ in range(3):
        assert rig.run(end, pc=function, x1=end).x[7] == 1
    pages, new = 4, word("addi x7, x7, 9")
    rig.run(end, x6=pages * 1024 + 0x11, x8=new, x10=function - pages * PAGE_SIZE - 0x40)
    outcome = rig.run(end, pc=function, x1=end)
    assert outcome.x[7] == 9


@EVERY
def test_code_written_by_others(name: str) -> None:
    rig = Rig(ENGINES[name]())
    for n in (1, 2, 3, 1):
        end = rig.place(f"loop: addi x7, x7, {n}\naddi x6, x6, -1\nbne x6, x0, loop")
        assert [rig.run(end, x6=10).x[7] for _ in range(2)] == [10 * n] * 2
    rig.code.view[0:4] = assemble("addi x7, x7, 9")  # without a notification of the engine
    assert rig.run(end, x6=10).x[7] == 10
    rig.engine.code_written(rig.host(CODE) - PAGE_SIZE, PAGE_SIZE)
    assert rig.run(end, x6=10).x[7] == 10, "another page"
    rig.engine.code_written(rig.host(CODE) - 100, 101)
    assert rig.run(end, x6=10).x[7] == 90
    rig.engine.code_written(rig.host(CODE), 0)
    rig.engine.code_written(0, 1 << 62)
    assert rig.run(end, x6=10).x[7] == 90


class AliasPort(WidePort):
    """Shows the code a second time, at `ALIAS` + `shift`: not at a page border if `shift` is odd."""

    shift = 0

    def _real(self, address: int) -> int:
        return address - ALIAS - self.shift + CODE if ALIAS <= address < ALIAS + 0x8000 else address

    def load(self, address: int, size: int) -> int:
        return super().load(self._real(address), size)

    def store(self, address: int, size: int, value: int) -> None:
        super().store(self._real(address), size, value)

    def fetch(self, address: int) -> int:
        return super().fetch(self._real(address))

    def page(self, address: int, access: str) -> int | None:
        found = super().page(self._real(address), access)
        return None if found is None else found + self._real(address) - address

    def extent(self, address: int, access: str) -> tuple[int, int]:
        if not ALIAS <= address < ALIAS + 0x8000:
            return super().extent(address, access)
        return ALIAS + self.shift, ALIAS + 0x8000


class ShiftedPort(AliasPort):
    shift = 0x804


ALIAS = 0x20_0000


@EVERY
@pytest.mark.parametrize("port", [AliasPort, ShiftedPort])
@pytest.mark.parametrize("offset", [0, 0x7F0, 0x1020])
def test_stores_through_another_address(name: str, port: type[AliasPort], offset: int) -> None:
    """Code is noticed by where it lies, not by the address it runs at, in both directions."""
    for runs_at, written_at in ((CODE, ALIAS + port.shift), (ALIAS + port.shift, CODE)):
        rig = Rig(ENGINES[name](), port)
        writer = CODE + 0x6000
        end = rig.place("sw x8, 0(x11)", writer)
        rig.place(COUNT, CODE + offset)
        for n in (1, 2, 3):
            rig.run(end, pc=writer, x8=word(f"addi x7, x7, {n}"), x11=written_at + offset)
            for _ in range(2):
                assert rig.run(end, pc=runs_at + offset, x1=end).x[7] == n


@EVERY
def test_code_in_two_pages_of_the_host_and_one_of_the_guest(name: str) -> None:
    rig = Rig(ENGINES[name](), ShiftedPort)
    first = 0xFFC  # the second instruction is in the host's next page
    rig.place("addi x9, x9, 1\n" + COUNT, CODE + first)
    end = rig.place("sw x8, 0(x11)", CODE + 0x6000)
    for n in (1, 2, 3):
        rig.run(end, pc=CODE + 0x6000, x8=word(f"addi x7, x7, {n}"), x11=CODE + first + 4)
        for _ in range(2):
            assert rig.run(end, pc=ALIAS + ShiftedPort.shift + first, x1=end).x[7] == n


@EVERY
def test_two_harts_see_each_others_code(name: str) -> None:
    rig = Rig(ENGINES[name]())
    other = rig.new_hart(1)
    end = rig.place("sw x8, 0(x11)", CODE + 0x800)
    rig.place(COUNT)
    for n in (1, 2, 3):
        rig.run(end, pc=CODE + 0x800, hart=other, x8=word(f"addi x7, x7, {n}"), x11=CODE)
        for hart in (rig.hart, other):
            assert rig.run(end, hart=hart, x1=end).x[7] == n


# -- not coherent


@EVERY
@pytest.mark.parametrize("flush", ["flush_code", "flush_pages then flush_code", "fence.i", "trap"])
def test_old_code_runs_until_a_flush(name: str, flush: str) -> None:
    rig = Rig(ENGINES[name](coherent=False))
    end = rig.place("loop: addi x7, x7, 1\naddi x6, x6, -1\nbne x6, x0, loop\njal x0, end\nend:")
    rig.place("fence.i\njalr x0, 0(x1)", CODE + 0x100)
    rig.place("ecall", CODE + 0x200)
    assert [rig.run(end, x6=10).x[7] for _ in range(2)] == [10, 10]
    for n in (2, 3):
        rig.code.view[0:4] = assemble(f"addi x7, x7, {n}")
        rig.engine.code_written(rig.host(CODE), 4)
        assert rig.run(end, x6=10).x[7] == 10 * (n - 1), "still the old code"
        if flush.endswith("flush_code"):
            rig.engine.flush_code(rig.hart)
        elif flush == "fence.i":
            rig.run(end, pc=CODE + 0x100, x1=end)
        else:
            assert rig.run(end, pc=CODE + 0x200).ending == "trap"
            assert rig.run(end, x6=10).x[7] == 10 * (n - 1), "a trap is no flush here"
            rig.engine.flush_code(rig.hart)
        assert rig.run(end, x6=10).x[7] == 10 * n


@EVERY
def test_stores_to_code_are_plain_where_not_coherent(name: str) -> None:
    rig = Rig(ENGINES[name](coherent=False))
    end = rig.place("sw x8, 0(x11)\naddi x7, x7, 1")
    for target in (DATA, CODE + 4, CODE + 4):
        assert rig.run(end, x8=word("addi x7, x7, 5"), x11=target).x[7] == 1
    assert rig.code.read(4, 4, UNKNOWN_ORIGIN) == assemble("addi x7, x7, 5")
    assert not rig.engine.code_pages


# -- the reference simulator's caches


def test_the_simulators_instruction_cache_has_1024_entries() -> None:
    """Two pcs 2 KiB apart share an entry: running the one makes the other be fetched anew."""
    rig = Rig(ReferenceEngine(coherent=False, tlb_entries=256))
    end = rig.place(COUNT)
    rig.place("addi x9, x9, 1\njalr x0, 0(x1)", CODE + 2048)
    rig.place("addi x9, x9, 1\njalr x0, 0(x1)", CODE + 1024)
    assert rig.run(end, x1=end).x[7] == 1
    rig.code.view[0:4] = assemble("addi x7, x7, 2")
    assert rig.run(end, x1=end).x[7] == 1
    rig.run(end, pc=CODE + 1024, x1=end)
    assert rig.run(end, x1=end).x[7] == 1, "1 KiB away is another entry"
    rig.run(end, pc=CODE + 2048, x1=end)
    assert rig.run(end, x1=end).x[7] == 2


@EVERY
def test_the_simulators_traps_flush(name: str) -> None:
    rig = Rig(ENGINES[name](coherent=False, tlb_entries=256))
    end = rig.place(COUNT)
    rig.place("ecall", CODE + 0x200)
    for n in (2, 3):
        assert rig.run(end, x1=end).x[7] == n - 1
        rig.code.view[0:4] = assemble(f"addi x7, x7, {n}")
        assert rig.run(end, x1=end).x[7] == n - 1
        assert rig.run(end, pc=CODE + 0x200).ending == "trap"
        assert rig.run(end, x1=end).x[7] == n


@EVERY
def test_the_simulators_pages_stay_until_flushed(name: str) -> None:
    rig = Rig(ENGINES[name](coherent=False, tlb_entries=256))
    end = rig.place("ld x5, 0(x10)\nsd x8, 8(x10)")
    rig.space.write(DATA, (11).to_bytes(8, "little"), UNKNOWN_ORIGIN)
    assert rig.run(end, x10=DATA, x8=1).x[5] == 11
    old = rig.space.unmap(DATA)
    new = Ram(PAGE_SIZE)
    rig.space.map(DATA, new, "new")
    new.view[0:1] = b"\x16"
    for _ in range(2):
        assert rig.run(end, x10=DATA, x8=2).x[5] == 11
    assert old.region.read(8, 1, UNKNOWN_ORIGIN) == b"\2"
    rig.engine.flush_code(rig.hart)
    assert rig.run(end, x10=DATA, x8=3).x[5] == 11, "only instructions were flushed"
    rig.engine.flush_pages(rig.hart)
    for _ in range(2):
        assert rig.run(end, x10=DATA, x8=4).x[5] == 22
    assert (old.region.read(8, 1, UNKNOWN_ORIGIN), new.read(8, 1, UNKNOWN_ORIGIN)) == (b"\3", b"\4")


@EVERY
def test_one_entry_of_the_simulators_buffer_serves_pages_in_turn(name: str) -> None:
    rig = Rig(ENGINES[name](coherent=False, tlb_entries=1))
    end = rig.place(
        "loop: ld x5, 0(x10)\nld x7, 0(x11)\nadd x8, x8, x5\nadd x8, x8, x7\naddi x6, x6, -1\nbne x6, x0, loop"
    )
    rig.data.view[0:1], rig.data.view[0x3000:0x3001] = b"\1", b"\2"
    for _ in range(2):
        assert rig.run(end, x10=DATA, x11=DATA + 0x3000, x6=9).x[8] == 27


class SplitPort(WidePort):
    """A port like a window that begins amid a page: the memory of a page depends on which of its bytes is accessed."""

    def page(self, address: int, access: str) -> int | None:
        found = super().page(address, access)
        return found if found is None or address < DATA + 0x2800 else found + 0x10_0000

    def extent(self, address: int, access: str) -> tuple[int, int]:
        return (DATA, DATA + 0x2800) if address < DATA + 0x2800 else (DATA + 0x2800, DATA + 0x10_0000)


@pytest.mark.parametrize(("port", "least"), [(WidePort, 8), (SplitPort, 2)])
def test_pages_come_and_go_as_in_the_simulators_buffer(port: type[FlatPort], least: int) -> None:
    """Whatever loads, stores and atomics of pages that take each other's entries; most misses are made good in line."""
    accesses = ("ld x5, 0(x{0})", "sd x6, 8(x{0})", "amoadd.d x7, x6, (x{0})")
    body = [f"{accesses[n % 3].format(10 + n % 7)}\nadd x6, x6, x5" for n in range(21)]
    draw = random.Random(5)
    places = [[DATA + 0x1000 * draw.randrange(12) + 16 * draw.randrange(254) for _ in range(7)] for _ in range(60)]
    found: dict[str, list[object]] = {"reference": [], "quick": []}
    interpreted = []
    for name, seen in found.items():
        rig = Rig(ENGINES[name](coherent=False, tlb_entries=4), port)
        rig.data.view[:] = (bytes(range(251)) * (rig.data.size // 251 + 1))[: rig.data.size]
        end = rig.place("\n".join(["loop:", *body, "addi x9, x9, -1", "bne x9, x0, loop"]))
        for turn, its in enumerate(places):
            if turn % 20 == 11:
                rig.engine.flush_pages(rig.hart)
            seen += [rig.run(end, x9=5, **{f"x{10 + n}": place for n, place in enumerate(its)}), bytes(rig.data.view)]
            pages, host = rig.engine.context(rig.hart).pages, rig.data.base_host
            for table in (pages.load, pages.store):
                seen.append({page: word - host for page, word in enumerate(table[: DATA_END >> 12]) if word})
        interpreted.append(rig.engine.interpreted)
    assert found["reference"] == found["quick"]
    assert interpreted[1] * least < interpreted[0]


# -- bounds


def test_versions_of_rewritten_code_do_not_pile_up() -> None:
    engine = JitEngine(tier=llvm.QUICK, cache=CACHE)
    rig = Rig(engine)
    end = rig.place("sw x8, 0(x11)\nfence.i\naddi x7, x7, 0")
    for n in range(3 * MAX_VERSIONS):
        assert rig.run(end, x8=word(f"addi x7, x7, {n}"), x11=CODE + 8).x[7] == n
    assert max(map(len, engine.translations.values())) <= MAX_VERSIONS
    context = rig.hart.context
    assert isinstance(context, JitContext)
    assert len(context.dropped) <= 2


@pytest.mark.parametrize("coherent", [True, False])
def test_the_same_code_is_taken_up_again(coherent: bool) -> None:
    engine = JitEngine(tier=llvm.QUICK, cache=CACHE, coherent=coherent)
    rig = Rig(engine)
    end = rig.place("loop: addi x7, x7, 1\naddi x6, x6, -1\nbne x6, x0, loop")
    for _ in range(5):
        assert rig.run(end, x6=4).x[7] == 4
        engine.flush_code(rig.hart)
    assert rig.run(end, hart=rig.new_hart(1), x6=4).x[7] == 4
    assert [len(versions) for versions in engine.translations.values()] == [1]


def test_code_that_cannot_be_guarded_runs_on_the_reference() -> None:
    """Code above 4 GiB, where stores could not be noticed."""
    high = 1 << 33
    text = """
        loop: addi x7, x7, 1
        addi x6, x6, -1
        bne x6, x0, loop
        sw x8, 0(x11)
        addi x9, x9, -1
        addi x6, x0, 5
        bne x9, x0, loop
    """
    for make in ENGINES.values():
        rig = Rig(make())
        rig.space.map(high, Ram(PAGE_SIZE), "high")
        code = assemble(text, high)
        rig.space.write(high, code, UNKNOWN_ORIGIN)
        outcome = rig.run(high + len(code), pc=high, x6=5, x8=word("addi x7, x7, 10"), x9=3, x11=high)
        assert outcome.x[7] == 5 + 2 * 50
