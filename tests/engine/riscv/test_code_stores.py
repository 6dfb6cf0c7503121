"""Code that is executed without FENCE.I since it was stored."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from softcard.core.findings import Finding
from softcard.core.space import Ram
from softcard.device.refsi.profiles import SpecProfile
from softcard.engine.riscv.code_stores.engines import CodeStoreEngine, CodeStores
from softcard.engine.riscv.code_stores.layout import NUMBERS, StoreRam
from softcard.engine.riscv.code_stores.translated import TranslatedCodeStoreEngine
from softcard.host.refsi.refsi import RefSi
from softcard.image.assembly.program import assemble
from softcard.ir import llvm
from softcard.isa.riscv import csrnames
from tests.engine.riscv.rig import CACHE, CODE, DATA, FlatPort, OddPort, Rig, WidePort
from tests.engine.riscv.test_selfmodifying import word

PATCH = "addi x7, x0, 5"


def checked(coherent: bool = True, port: type[FlatPort] = WidePort) -> tuple[Rig, list[Finding]]:
    found: list[Finding] = []
    return Rig(CodeStoreEngine(found.append, coherent=coherent), port), found


def _fits(text: str, shift: int) -> bool:
    """Return True if an address may have this distance from a multiple of 8, less 2."""
    size = 1 if "b x8" in text or "e8" in text else 2 if "h x8" in text or "e16" in text else 4 if "w" in text else 8
    return (shift + 2) % size == 0


def translated(tier: int, port: type[FlatPort] = WidePort) -> tuple[Rig, list[Finding]]:
    found: list[Finding] = []
    rams: list[Ram] = []
    engine = TranslatedCodeStoreEngine(found.append, rams=lambda: rams, tier=tier, cache=CACHE)
    rig = Rig(engine, port, StoreRam)
    rams += [rig.code, rig.data]
    return rig, found


ENGINES: dict[str, Callable[[type[FlatPort]], Rig]] = {
    "reference": lambda port: checked(port=port)[0],
    "quick": lambda port: translated(llvm.QUICK, port)[0],
    "optimised": lambda port: translated(llvm.OPTIMISED, port)[0],
}
STORES = {
    "sb x8, 0(x11)": (1, 0),
    "sh x8, 0(x11)": (2, 0),
    "sw x8, 0(x11)": (4, 0),
    "sd x8, 0(x11)": (8, 0),
    "fsd f8, 0(x11)": (8, 0),
    "amoadd.w x9, x8, (x11)": (4, 0),
    "lr.d x9, (x11)\nsc.d x9, x8, (x11)": (8, 1),
    "lr.w x9, (x11)\naddi x9, x9, 1\nsw x9, 0(x11)\nsc.w x9, x8, (x11)": (4, 2),
    "lr.w x9, (x12)\nsc.w x9, x8, (x11)": (0, 1),
    "vsetivli x9, 3, e8, m1, ta, ma\nvse8.v v4, (x11)": (3, 1),
    "vsetvli x9, x0, e8, m1, ta, ma\nvse8.v v4, (x11)": (64, 1),
    "vsetivli x9, 5, e16, m4, ta, ma\nvse16.v v4, (x11)": (10, 1),
    "vsetvli x9, x0, e32, m8, ta, ma\nvse32.v v8, (x11)": (512, 1),
    "vsetivli x9, 2, e32, m1, ta, ma\nvsseg2e32.v v4, (x11)": (16, 1),
}
"""By program: the number of bytes that it stores at x11, and the index of the storing instruction."""
START, ROUNDS = DATA + 0x10A, 6
CASES = [(text, shift) for text in STORES for shift in (-2, 0, 1) if _fits(text, shift)]


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("text", "shift"), CASES)
@pytest.mark.parametrize("port", [WidePort, OddPort])
def test_each_store_is_noted_halfword_by_halfword(name: str, text: str, shift: int, port: type[FlatPort]) -> None:
    """Stores are recorded the first time and later on, when translated code does it by itself; after a fence, too."""
    if port is OddPort and any(word in text for word in ("lr.", "amo")):
        return  # no atomics there
    rig, (size, which) = ENGINES[name](port), STORES[text]
    engine, hart, other = rig.engine, rig.hart, rig.new_hart(1)
    assert isinstance(engine, CodeStores)
    hart.csr[csrnames.MSTATUS] |= 3 << 9
    begin = "addi x6, x0, " + str(ROUNDS)
    end = rig.place(f"{begin}\nloop: {text}\nadd x11, x11, x10\naddi x6, x6, -1\nbne x6, x0, loop")
    start, skew, kept = START + shift, int(port is OddPort), set[int]()
    first = rig.host(DATA)
    for stride, fence in ((0, True), (size, True), (size, True), (0, True), (2 * size, False), (size, True)):
        if fence:
            engine.flush_code(hart)
            kept.clear()
        rig.run(end, x8=1, x10=stride, x11=start, x12=DATA + 0x4000)
        kept |= {start + k * stride + n + skew & -2 for k in range(ROUNDS) for n in range(size)}
        noted = {at: engine.unfenced(hart, first + at - DATA) for at in range(DATA, DATA + 0x2000, 2)}
        where = CODE + 4 + 4 * which
        assert {at: found for at, found in noted.items() if found} == dict.fromkeys(sorted(kept), (where, 0))
        assert all(engine.unfenced(other, first + at - DATA) == (where, 0) for at in kept)


KINDS: dict[str, Callable[[], tuple[Rig, list[Finding]]]] = {
    "coherent": checked,
    "not coherent": lambda: checked(coherent=False),
    "quick": lambda: translated(llvm.QUICK),
    "optimised": lambda: translated(llvm.OPTIMISED),
}
EACH = pytest.mark.parametrize("kind", KINDS)


@EACH
def test_a_patch_without_a_fence_is_reported_with_both_places(kind: str) -> None:
    rig, found = KINDS[kind]()
    end = rig.place("sw x8, 0(x11)\naddi x0, x0, 0\naddi x7, x0, 1")
    rig.run(end, x8=word(PATCH), x11=CODE + 8)
    [each] = found
    assert (each.place, each.other) == (f"pc {CODE + 8:#x}, hart 0", f"pc {CODE:#x}, hart 0")
    assert each.message == "addi t2,zero,5 was stored, and is executed without a FENCE.I after the store"
    assert each.rule is not None
    assert each.rule.id == "riscv/fence-i"
    assert each.suggestion == "execute fence.i on hart 0 before this instruction"


@EACH
def test_with_a_fence_nothing_is_reported(kind: str) -> None:
    rig, found = KINDS[kind]()
    end = rig.place("sw x8, 0(x11)\nfence.i\naddi x7, x0, 1")
    assert rig.run(end, x8=word(PATCH), x11=CODE + 8).x[7] == 5
    assert found == []


@EACH
def test_other_translations_are_no_fence(kind: str) -> None:
    rig, found = KINDS[kind]()
    end = rig.place("sw x8, 0(x11)\nsfence.vma x0, x0\naddi x7, x0, 1")
    assert rig.run(end, x8=word(PATCH), x11=CODE + 8).x[7] == 5
    assert len(found) == 1


@EACH
def test_a_fence_before_the_store_is_none(kind: str) -> None:
    rig, found = KINDS[kind]()
    end = rig.place("fence.i\nsw x8, 0(x11)\naddi x7, x0, 1")
    rig.run(end, x8=word(PATCH), x11=CODE + 8)
    assert len(found) == 1


@EACH
def test_new_code_in_memory_that_was_never_executed_needs_one_too(kind: str) -> None:
    for fence, count in (("addi x0, x0, 0", 1), ("fence.i", 0)):
        rig, found = KINDS[kind]()
        end = rig.place(f"sw x8, 0(x11)\nsw x9, 4(x11)\n{fence}\njalr x1, 0(x11)")
        rig.run(end, x8=word("addi x7, x7, 3"), x9=word("jalr x0, 0(x1)"), x11=DATA)
        assert len({each.pc for each in found}) == 2 * count


@EACH
def test_the_fence_of_another_hart_does_not_count(kind: str) -> None:
    rig, found = KINDS[kind]()
    end = rig.place("addi x7, x0, 1", CODE + 0x100)
    rig.place("sw x8, 0(x11)\nfence.i", CODE)
    rig.run(CODE + 8, x8=word(PATCH), x11=CODE + 0x100)
    rig.run(end, pc=CODE + 0x100, hart=rig.new_hart(1))
    [each] = found
    assert (each.place, each.other) == (f"pc {CODE + 0x100:#x}, hart 1", f"pc {CODE:#x}, hart 0")


@EACH
def test_atomics_and_data_beside_code(kind: str) -> None:
    rig, found = KINDS[kind]()
    end = rig.place("amoswap.w x0, x8, (x11)\nsw x8, 0(x12)\naddi x7, x0, 1\naddi x0, x0, 0\naddi x0, x0, 0")
    rig.run(end, x8=word(PATCH), x11=CODE + 8, x12=CODE + 0x40)
    assert [each.pc for each in found] == [CODE + 8]


@EACH
def test_code_that_was_translated_before_it_was_stored(kind: str) -> None:
    """Each instruction is reported once where it is executed, and translated code continues after that."""
    rig, found = KINDS[kind]()
    end = rig.place("loop: addi x7, x7, 1\nbeq x6, x0, on\naddi x7, x7, 1\non: addi x5, x5, -1\nbne x5, x0, loop")
    rig.place("sw x8, 0(x11)\nsw x8, 0(x12)\nfence rw, rw", CODE + 0x100)
    for _ in range(3):
        rig.run(end, x5=200)
    assert not found
    rig.run(CODE + 0x10C, pc=CODE + 0x100, x8=word("addi x7, x7, 9"), x11=CODE, x12=CODE + 8)
    for skips, reported in ((0, [CODE]), (0, [CODE]), (1, [CODE, CODE + 8]), (1, [CODE, CODE + 8])):
        rig.engine.flush_pages(rig.hart)  # is no fence
        rig.run(end, x5=200, x6=skips)
        assert [each.pc for each in found] == reported
    before = rig.engine.interpreted
    rig.run(end, x5=200, x6=1)
    assert rig.engine.interpreted - before < 10 or not isinstance(rig.engine, TranslatedCodeStoreEngine)


@EACH
def test_cached_code_is_checked_when_it_is_fetched(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each time only where a store would not drop it."""
    rig, found = KINDS[kind]()
    asked: list[int] = []
    ask = CodeStores.to_report
    monkeypatch.setattr(
        CodeStores, "to_report", lambda self, hart, pc, insn: asked.append(pc) or ask(self, hart, pc, insn)
    )
    end = rig.place("loop: sw x8, 0(x11)\naddi x6, x6, -1\nbne x6, x0, loop")
    for _ in range(20):
        rig.run(end, x6=5, x8=1, x11=DATA)
    assert (len(asked) < 30) == (kind != "not coherent")
    assert not found


@EACH
def test_what_all_harts_fetch_anew_is_not_reported(kind: str) -> None:
    """By harts that have not run yet either; what is stored from then on is."""
    rig, found = KINDS[kind]()
    end = rig.place("addi x7, x0, 1", CODE + 0x100)
    following = rig.place("sw x8, 0(x11)")
    rig.run(following, x8=word(PATCH), x11=CODE + 0x100)
    rig.engine.code_synced()
    rig.run(end, pc=CODE + 0x100)
    rig.run(end, pc=CODE + 0x100, hart=rig.new_hart(1))
    assert not found
    rig.run(following, x8=word(PATCH), x11=CODE + 0x100)
    rig.run(end, pc=CODE + 0x100, hart=rig.new_hart(2))
    assert [each.unit for each in found] == ["hart 2"]


@pytest.mark.parametrize("size", [4, 400])
@pytest.mark.parametrize("syncs", [False, True])
def test_numbers_are_used_again(syncs: bool, size: int) -> None:
    """The numbers of halfwords keep their meaning when all numbers are used up, and unused ones are freed."""
    rig, found = translated(llvm.QUICK)
    engine, hart = rig.engine, rig.hart
    assert isinstance(engine, CodeStores)
    following = rig.place("sw x8, 0(x11)")
    rig.run(following, x11=DATA, x8=word("jalr x0, 0(x1)"))
    for n in range(NUMBERS + 1000):
        if syncs:
            engine.code_synced()
        else:
            engine.fetches_anew(hart)
        hart.pc = CODE + 2 * (n % 5000)
        engine.noted(hart, rig.host(DATA + 0x100), size)
    assert all(engine.unfenced(hart, rig.host(DATA + at)) == (hart.pc, 0) for at in (0x102, 0x100 + size - 2))
    assert engine.unfenced(hart, rig.host(DATA + 0x100 + size)) is None
    rig.run(following, pc=DATA, x1=following, hart=rig.new_hart(1))
    assert [each.other for each in found] == [f"pc {CODE:#x}, hart 0"] * (not syncs)


def test_numbers_of_halfwords_in_cells_that_have_one_are_free() -> None:
    """Stores that were recorded one by one are replaced when a run overwrites them."""
    rig, _ = translated(llvm.QUICK)
    engine, hart = rig.engine, rig.hart
    assert isinstance(engine, CodeStores)
    for n in range(NUMBERS * 2):
        engine.fetches_anew(hart)
        hart.pc = CODE
        engine.noted(hart, rig.host(DATA + 2 * (n % 0x8000)), 2)
        if n % 0x400 == 0x3FF:
            hart.pc = CODE + 2
            engine.noted(hart, rig.host(DATA), 0x10000)
    assert {engine.unfenced(hart, rig.host(DATA + at)) for at in range(0, 0x10000, 2)} == {(CODE + 2, 0)}


def test_more_than_there_are_numbers_for_is_beyond_the_model() -> None:
    rig, _ = translated(llvm.QUICK)
    engine = rig.engine
    assert isinstance(engine, CodeStores)

    def store_all() -> None:
        for n in range(NUMBERS):
            engine.fetches_anew(rig.hart)
            engine.noted(rig.hart, rig.host(DATA + 2 * n), 2)

    with pytest.raises(BeyondModel, match="more than 32768 different store instructions"):
        store_all()
    engine.noted(rig.hart, rig.host(DATA), 2)  # the next kernel has numbers again
    assert engine.unfenced(rig.hart, rig.host(DATA)) == (rig.hart.pc, rig.hart.index)


SOURCE = """
.text
.globl patch
patch:
    la t0, place
    lw t1, replacement
    sw t1, 0(t0)
    {}
    j place
.p2align 2
replacement:
    addi a1, zero, 700
.p2align 2
place:
    addi a1, zero, 100
    ret
"""


@pytest.mark.parametrize(("fence", "count"), [("nop", 1), ("fence.i", 0)])
@pytest.mark.parametrize(("profile", "check"), [("spec", "waits"), ("spec", "all"), ("refsidrv", "waits")])
def test_kernels_of_refsi(fence: str, count: int, profile: str, check: str) -> None:
    with RefSi.open(check=check, profile=profile, count_instructions=True) as device:
        device.load_elf(assemble(SOURCE.format(fence), "rv64gc", 0x1_0000).elf())
        device.launch("patch", 1, [])
        assert [each.name for each in device.findings] == ["waits/fence-i"] * count
        assert sum(device.instruction_counts().values()) >= 8


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_sync_cache_between_launches_is_a_fence(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SYNC_CACHE between launches does not leave machine code: engines are notified of it afterwards."""
    monkeypatch.setattr(SpecProfile, "sync", None)
    source = """
.text
.globl patch
patch:
    la a2, place
    sw a1, 0(a2)
    ret
.globl place
.p2align 3
place:
    addi a1, zero, 100
    ret
"""
    with RefSi.open(check="waits", engine=engine) as device:
        device.load_elf(assemble(source, "rv64gc", 0x1_0000).elf())
        for _ in range(2):
            device.launch("patch", 1, [word(PATCH)])
            device.launch("place", 1, [])
        assert not device.findings


LOOP = """
.text
.globl fill
fill:
    li t0, 20000
again:
    sd t0, 0(a1)
    lw t2, 4(a1)
    addi t0, t0, -1
    bnez t0, again
    ret
"""


@pytest.mark.parametrize("check", ["waits", "all"])
def test_harts_are_translated_under_the_check(check: str) -> None:
    with RefSi.open(check=check) as device:
        device.load_elf(assemble(LOOP, "rv64gc", 0x1_0000).elf())
        array = device.zeros(1024, np.int64)
        device.launch("fill", 4, [array])
        assert device.launch("fill", 4, [array]).interpreted < 2000
        assert "waits" not in [each.check for each in device.findings]
