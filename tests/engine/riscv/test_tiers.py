"""From cold to hot code, and what becomes of engines and harts that are no longer needed."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections import Counter

import pytest

from softcard.core.space import Ram
from softcard.engine.riscv.jit import engine as jit
from softcard.engine.riscv.jit.engine import JitContext, JitEngine, Translation
from softcard.engine.riscv.jit.strides import strides
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.ir import llvm
from softcard.ir.background import Task
from softcard.ir.object_cache import ObjectCache
from softcard.isa.riscv.decode import assemble
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import CODE_TABLE, NO_ADDRESS, RETURN_ADDRESS, Hart
from tests.engine.riscv.rig import CACHE, CODE, DATA, ENGINES, UNKNOWN_ORIGIN, Rig, agree

LOOP = """
    loop: addi x7, x7, 3
    mul x8, x8, x7
    xor x8, x8, x6
    addi x6, x6, -1
    bne x6, x0, loop
"""


def translations(engine: JitEngine) -> list[Translation]:
    return [translation for versions in engine.translations.values() for translation in versions]


def wait(engine: JitEngine) -> None:
    """Until all code that was asked for is there."""
    deadline = time.monotonic() + 60
    while any(each.better is not None and not each.better.done for each in translations(engine)):
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.slow
def test_hot_code_is_optimised_in_the_background_and_taken_up() -> None:
    engine = JitEngine(cache=ObjectCache())
    rig, detector = Rig(engine), Rig(JitEngine(tier=llvm.QUICK, cache=CACHE))
    end = rig.place(LOOP)
    detector.place(LOOP)
    rounds = 200_000
    expected = detector.run(end, 10_000_000, x6=rounds, x8=1)
    assert rig.run(end, 10_000_000, x6=rounds, x8=1) == expected
    wait(engine)
    for _ in range(3):
        assert rig.run(end, 10_000_000, x6=rounds, x8=1) == expected
    (translation,) = [t for t in translations(engine) if t.region.entry == CODE]
    assert (translation.tier, translation.better) == (llvm.OPTIMISED, None)
    assert len(translation.old) == 1
    context = rig.hart.context
    assert isinstance(context, JitContext)
    slot = (CODE >> 1) & (jit.SLOTS - 1)
    assert context.tables[True][slot].tolist() == [CODE, translation.address]


def test_short_runs_heat_code_too() -> None:
    """A launch that ends long before its first slice still counts."""
    engine = JitEngine(cache=CACHE)
    rig = Rig(engine)
    end = rig.place(LOOP)
    for _ in range(jit.HOT // 50_000 + 4):
        rig.run(end, x6=10_000)
    assert any(t.tier == llvm.OPTIMISED or t.better is not None for t in translations(engine))
    wait(engine)
    for _ in range(jit.HOT // 50_000 + 2):
        rig.run(end, x6=10_000)
    assert translations(engine)[0].tier == llvm.OPTIMISED


def test_better_code_reaches_every_hart() -> None:
    engine = JitEngine(cache=CACHE)
    rig = Rig(engine)
    end = rig.place(LOOP)
    harts = [rig.hart, rig.new_hart(1)]
    for hart in harts:
        for _ in range(4):
            rig.run(end, hart=hart, x6=100)
    (translation,) = translations(engine)
    translation.better = Task(lambda: engine._compile(translation.region, True, llvm.OPTIMISED))
    translation.better.run()
    for hart in harts:
        context = hart.context
        assert isinstance(context, JitContext)
        context.work = jit.HOT
        rig.run(end, hart=hart, x6=100)
        assert context.tables[True][(CODE >> 1) & (jit.SLOTS - 1), 1] == translation.address
    assert translation.tier == llvm.OPTIMISED


def test_cold_code_is_not_translated() -> None:
    engine = JitEngine(cache=CACHE)
    rig = Rig(engine)
    end = rig.place("addi x5, x0, 1\naddi x6, x0, 2")
    for _ in range(jit.COLD_VISITS):
        rig.run(end)
    assert not engine.translations
    rig.run(end)
    assert len(translations(engine)) == 1


def test_an_error_in_the_background_is_reported_and_harms_no_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = JitEngine(cache=ObjectCache())
    rig = Rig(engine)
    end = rig.place(LOOP)
    for _ in range(4):
        rig.run(end, x6=10)
    (translation,) = translations(engine)
    reported: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)

    def fail(*_: object) -> bytes:
        raise jit.ModelBug("generated code does not verify")

    monkeypatch.setattr(jit.PROCESS, "compile_ir", fail)
    context = rig.hart.context
    assert isinstance(context, JitContext)
    for _ in range(3):
        context.work = jit.HOT
        assert rig.run(end, x6=100).retired == 500
        wait(engine)
    assert [str(each.exc_value) for each in reported] == ["generated code does not verify"]
    assert (translation.tier, translation.better) == (llvm.QUICK, None)


def test_code_of_a_closed_engine_is_not_optimised() -> None:
    engine = JitEngine(cache=ObjectCache())
    rig = Rig(engine)
    end = rig.place(LOOP)
    for _ in range(4):
        rig.run(end, x6=10)
    (translation,) = translations(engine)
    engine.close()
    assert engine._optimised(translation) is None


def test_a_hook_sees_every_instruction() -> None:
    seen: list[str] = []
    for name in ENGINES:
        seen.clear()
        rig = Rig(ENGINES[name](on_retire=lambda hart, insn: seen.append(insn.name)))
        end = rig.place(LOOP)
        outcome = rig.run(end, x6=3)
        assert seen == ["addi", "mul", "xor", "addi", "bne"] * 3
        assert outcome.retired == 15


def test_a_hook_may_come_later() -> None:
    engine = JitEngine(tier=llvm.QUICK, cache=CACHE)
    rig = Rig(engine)
    end = rig.place(LOOP)
    rig.run(end, x6=3)
    seen: list[Insn] = []
    engine.on_retire = lambda hart, insn: seen.append(insn)
    rig.run(end, x6=3)
    assert len(seen) == 15


# -- life and death


@pytest.mark.parametrize("name", ENGINES)
def test_harts_are_not_kept(name: str) -> None:
    rig = Rig(ENGINES[name]())
    end = rig.place(LOOP)
    for _ in range(3):
        harts = [rig.new_hart(n) for n in range(20)]
        for hart in harts:
            assert rig.run(end, hart=hart, x6=5).retired == 25
        gone = [weakref.ref(hart) for hart in harts]
        del harts, hart
        gc.collect()
        assert not any(ref() for ref in gone)
    assert len(rig.engine._contexts) == 0


def test_tables_cost_nothing_until_they_are_used() -> None:
    """Each hart has 34 MiB of them."""
    rig = Rig(ENGINES["quick"]())
    end = rig.place(LOOP)
    rig.run(end, x6=5)
    before = _resident()
    harts = []
    for n in range(20):
        harts.append(rig.new_hart(n))
        rig.run(end, hart=harts[-1], x6=5)
    assert _resident() - before < 20 << 20


def _resident() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        pytest.skip("no such file here")


def test_code_outlives_its_removal_until_the_hart_is_back() -> None:
    """Another hart's thread may remove code that this one is running."""
    engine = JitEngine(tier=llvm.QUICK, cache=CACHE)
    rig = Rig(engine)
    end = rig.place(LOOP)
    rig.run(end, x6=5)
    (code,) = [weakref.ref(translation.code) for translation in translations(engine)]
    engine.code_written(rig.host(CODE), 4)
    engine.translations.clear()
    gc.collect()
    assert code() is not None
    rig.run(end, 1, x6=5)
    gc.collect()
    assert code() is None


def test_engines_are_not_kept() -> None:
    refs = []
    for n in range(12):
        rig = Rig(JitEngine(tier=(None, llvm.QUICK, llvm.OPTIMISED)[n % 3], cache=CACHE))
        end = rig.place(LOOP)
        for _ in range(4):
            rig.run(end, x6=20)
        refs.append(weakref.ref(rig.engine))
    del rig
    gc.collect()
    assert not any(ref() for ref in refs)


def test_an_engine_may_go_while_its_code_is_optimised() -> None:
    for _ in range(3):
        engine = JitEngine(cache=ObjectCache())
        rig = Rig(engine)
        end = rig.place(LOOP)
        for _ in range(4):
            rig.run(end, x6=10)
        engine._tier_up(translations(engine)[0])
        task = translations(engine)[0].better
        assert task is not None
        del engine, rig
        gc.collect()
        deadline = time.monotonic() + 60
        while not task.done:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        assert isinstance(task.result(), llvm.Code)


def test_functions_keep_their_code() -> None:
    text = "define i64 @seven() {\n  ret i64 7\n}\n"
    import ctypes

    function = llvm.Code(llvm.compile_ir(text, llvm.QUICK)).function("seven", ctypes.c_uint64)
    gc.collect()
    for _ in range(5):
        llvm.Code(llvm.compile_ir(text.replace("7", "8"), llvm.QUICK))
    assert function() == 7
    with pytest.raises(jit.ModelBug, match="generated code does not verify"):
        llvm.compile_ir("define i64 @seven() {\n  ret i32 7\n}\n", llvm.QUICK)


def test_a_hart_may_change_engines() -> None:
    rig = Rig(ReferenceEngine())
    end = rig.place(LOOP)
    engines = [make() for make in ENGINES.values()]
    expected = rig.run(end, x6=9)
    for engine in engines * 2 + engines[::-1]:
        rig.engine = engine
        assert rig.run(end, x6=9) == expected


def test_a_reset_hart_runs_on() -> None:
    for make in ENGINES.values():
        rig = Rig(make())
        end = rig.place(LOOP)
        expected = rig.run(end, x6=9)
        rig.hart.reset()
        assert rig.hart.words[RETURN_ADDRESS] == NO_ADDRESS
        assert rig.run(end, x6=9).x == expected.x


# -- whatever a guest or a host may do


@pytest.mark.parametrize("pc", [(1 << 64) - 1, (1 << 64) - 2, 0, 1, 2, 1 << 32, CODE + 1, DATA - 2, 0x80_0000])
def test_entries_that_are_no_code(pc: int) -> None:
    """All ones is what the rows of an empty code table might match."""
    results = {}
    for name, make in ENGINES.items():
        rig = Rig(make())
        rig.place(LOOP)
        for native in (0, 5):
            results[name, native] = [rig.run(CODE + 20, 10, pc=pc, frm=native) for _ in range(3)]
        assert results[name, 0] == results["reference", 0]
        assert results[name, 5] == results["reference", 5]


@pytest.mark.parametrize("target", [0, 1, 2, 3, (1 << 64) - 1, (1 << 64) - 2, (1 << 63) + 2, CODE + 2, CODE + 21])
def test_jumps_to_anywhere(target: int) -> None:
    agree("addi x5, x5, 1\njalr x1, 0(x10)\naddi x6, x0, 1", (10, 10, 2, 1), x10=target)


def test_code_in_the_first_page_and_at_the_end_of_what_is_direct() -> None:
    for base in (0, (1 << 32) - 0x1000, (1 << 32) - 24):
        results = {}
        for name, make in ENGINES.items():
            rig = Rig(make())
            rig.space.map(base & -0x1000, Ram(0x1000), "there")
            code = assemble("loop: addi x7, x7, 1\naddi x6, x6, -1\nbne x6, x0, loop\njalr x0, 0(x1)", base)
            rig.space.write(base, code, UNKNOWN_ORIGIN)
            results[name] = [rig.run(base + 12, fuel, pc=base, x6=5) for fuel in (100, 100, 7)]
            results[name] += [rig.run(NO_ADDRESS, 30, pc=base, x6=5, x1=base) for _ in range(2)]
        assert results["reference"] == results["quick"] == results["optimised"]


def test_code_around_the_end_of_the_address_space() -> None:
    results = {}
    for name, make in ENGINES.items():
        rig = Rig(make())
        top = (1 << 64) - 0x1000
        rig.space.map(top, Ram(0x1000), "top")
        rig.space.map(0, Ram(0x1000), "bottom")
        code = assemble("addi x5, x5, 1\naddi x6, x6, 1\naddi x7, x7, 1\nbeq x0, x0, back\nback:")[:12]
        rig.space.write((1 << 64) - 8, code[:8], UNKNOWN_ORIGIN)
        rig.space.write(0, code[8:] + (0xFF5FF06F).to_bytes(4, "little"), UNKNOWN_ORIGIN)  # jal x0, -12
        results[name] = [rig.run(NO_ADDRESS, fuel, pc=(1 << 64) - 8) for fuel in (50, 51, 3)]
    assert results["reference"] == results["quick"] == results["optimised"]
    assert results["quick"][0].retired == 50


def test_regions_larger_than_the_limit() -> None:
    text = (
        "loop: "
        + "\n".join(["addi x5, x5, 1"] * 2300)
        + "\naddi x6, x6, -1\nbeq x6, x0, end\njal x0, loop\nend: addi x7, x7, 1"
    )
    agree(text, (10_000, 10_000, 4000), x6=3)


def test_a_region_of_system_instructions() -> None:
    agree(
        "loop: csrrs x5, minstret, x0\nfence.i\ncsrrw x0, mscratch, x5\naddi x6, x6, -1\nbne x6, x0, loop",
        (100, 100, 7),
        x6=5,
    )


def test_memory_that_has_no_page_starts() -> None:
    """A region of guest memory that begins and ends inside pages: code there runs, and the rest faults."""
    results = {}
    for name, make in ENGINES.items():
        rig = Rig(make())
        rig.space.map(0x20_0800, Ram(0x1000), "odd")
        code = assemble("loop: addi x7, x7, 1\nsw x7, 0(x10)\naddi x6, x6, -1\nbne x6, x0, loop", 0x20_0900)
        rig.space.write(0x20_0900, code, UNKNOWN_ORIGIN)
        results[name] = [rig.run(0x20_0910, fuel, pc=0x20_0900, x6=5, x10=0x20_1000) for fuel in (100, 100, 7)]
    assert results["reference"] == results["quick"] == results["optimised"]
    assert results["quick"][0].ending == "return"


def test_state_is_shared_in_place() -> None:
    rig = Rig(ENGINES["quick"]())
    assert isinstance(rig.hart, Hart)
    end = rig.place(LOOP)
    rig.run(end, x6=2)
    assert rig.hart.words[CODE_TABLE]


def test_where_a_turn_ended_no_code_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn ends in the middle of straight code: it goes on to where code can be entered, with the same outcome."""
    monkeypatch.setattr(jit, "END_VISITS", 1000)
    monkeypatch.setattr(jit, "INSIDE_VISITS", 1000)
    body = "\n".join(f"add x{8 + n % 16}, x{8 + n * 5 % 16}, x{8 + n * 7 % 16}\naddi x7, x7, 1" for n in range(60))
    source = f"loop:\n{body}\naddi x6, x6, -1\nbne x6, x0, loop"
    outcomes = []
    for make in (ReferenceEngine, lambda: JitEngine(cache=ObjectCache())):
        engine = make()
        rig = Rig(engine)
        end = rig.place(source)
        hart = rig.hart
        hart.pc, hart.words[RETURN_ADDRESS] = CODE, end
        for n in range(32):
            hart.words[n] = 3300 if n == 6 else n if n >= 8 else 0
        turns = []
        while hart.pc != end:
            engine.run(hart, 1009)  # not a multiple of a round
            turns.append((hart.pc, hart.retired))
        outcomes.append((turns, [int(n) for n in hart.words[:32]]))
        if isinstance(engine, JitEngine):
            assert max(Counter(pc for pc, _ in turns).values()) > jit.COLD_VISITS
            assert len(translations(engine)) <= 2
        engine.close()
    assert outcomes[0] == outcomes[1]


def test_a_place_inside_that_is_visited_often_gets_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "INSIDE_VISITS", 6)
    engine = JitEngine(cache=CACHE)
    rig = Rig(engine)
    end = rig.place("loop:\n" + "addi x7, x7, 1\n" * 50 + "addi x6, x6, -1\nbne x6, x0, loop")
    for _ in range(4):
        rig.run(end, x6=100)
    assert len(translations(engine)) == 1
    for _ in range(8):
        rig.run(end, pc=CODE + 40, x6=100)
    assert {each.region.entry for each in translations(engine)} == {CODE, CODE + 40}


WALK = """
    loop: lbu x7, 0(x10)
    sb x7, 0(x11)
    addi x10, x10, 1
    addi x11, x11, 1
    addi x6, x6, -1
    bne x6, x0, loop
"""
POLL = """
    loop: lw x7, 0(x10)
    addi x9, x7, 0
    beq x9, x0, loop
"""


def test_a_turn_that_ends_in_a_loop_leaves_the_loop_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that begins in the middle of a loop leads to where it begins, from where it is measured."""
    monkeypatch.setattr(jit, "INSIDE_VISITS", 6)
    engine = JitEngine(cache=ObjectCache())
    rig = Rig(engine)
    end = rig.place("addi x5, x0, 0" + WALK)
    for _ in range(12):
        for pc in (CODE, CODE + 12):
            rig.run(end, pc=pc, x6=40, x10=DATA, x11=DATA + 64)
    context = rig.hart.context
    assert isinstance(context, JitContext)
    installed = context.installed[context.native]
    assert installed.keys() == {CODE, CODE + 4, CODE + 12}
    assert installed[CODE + 4].region.entry == CODE
    assert strides(installed[CODE + 4].region.blocks[CODE + 4])
    assert CODE + 4 not in installed[CODE + 12].region.blocks


def test_code_that_begins_in_the_middle_of_polling_has_all_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polling is determined for the whole loop."""
    monkeypatch.setattr(jit, "INSIDE_VISITS", 6)
    engine = JitEngine(cache=ObjectCache())
    rig = Rig(engine)
    end = rig.place(POLL)
    rig.space.write(DATA, bytes([1]), UNKNOWN_ORIGIN)
    for _ in range(12):
        for pc in (CODE, CODE + 4):
            rig.run(end, pc=pc, x10=DATA)
    (inside,) = [each.region for each in translations(engine) if each.region.entry == CODE + 4]
    assert inside.polls == {CODE + 8}
