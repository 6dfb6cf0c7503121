"""Programs and heat, kept: what a second process takes from the folder, and what it must not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.threaded import library as library_module
from softcard.engine.gcn.threaded.library import Library
from softcard.engine.gcn.threaded.unlinked import UnlinkedProgram
from softcard.engine.gcn.tiered import engine as jit
from softcard.engine.gcn.tiered import translator
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.runtime import shared_runtime
from softcard.engine.gcn.tiered.translation import Tier
from softcard.ir import llvm
from softcard.ir.compile_process import PROCESS
from softcard.ir.object_cache import ObjectCache
from tests.engine.gcn.jit.test_jit import store
from tests.engine.gcn.programs import dwords, program

LOOP = "v_mov_b32_e32 v3, 0 | s_movk_i32 s8, 300 | again: | v_add_u32_e32 v3, s8, v3 | s_sub_u32 s8, s8, 1 |"
LOOP += "s_cmp_lg_u32 s8, 0 | s_cbranch_scc1 again | v_mul_f32_e32 v4, 0.5, v3 | v_xor_b32_e32 v3, v4, v3 |"
TEXT = LOOP + store(3)


def new(folder: Path, tier: Tier | None = Tier.THREADED) -> JitEngine:
    """An engine as another process would have it."""
    made = JitEngine(threads=1, cache=ObjectCache(folder), tier=tier)
    made.library = Library(ObjectCache(folder), made.lanes)
    return made


def run(engine: JitEngine, text: str = TEXT) -> Dispatch:
    """The same as on the reference engine."""
    dispatch, expected = program(text), program(text)
    assert engine.run(dispatch).instructions == ReferenceEngine().run(expected).instructions
    assert dwords(dispatch, 64) == dwords(expected, 64)
    return dispatch


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Programs that are made from code from here on."""
    found: list[object] = []
    build = translator.build_program

    def counted(*arguments: object) -> UnlinkedProgram:
        found.append(arguments)
        return build(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(translator, "build_program", counted)
    return found


def test_a_second_process_makes_no_program(tmp_path: Path, made: list[object]) -> None:
    run(new(tmp_path))
    assert len(made) == 1
    run(new(tmp_path))
    assert len(made) == 1


def test_neither_does_one_that_has_the_code_elsewhere(tmp_path: Path, made: list[object]) -> None:
    run(new(tmp_path))
    here, there = (replace(each, entry=each.entry + 20) for each in (program("s_endpgm |" * 5 + TEXT) for _ in "12"))
    assert new(tmp_path).run(here).instructions == ReferenceEngine().run(there).instructions
    assert dwords(here, 64) == dwords(there, 64)
    assert any(dwords(here, 64))
    assert len(made) == 1


def test_code_with_the_same_beginning_is_other_code(tmp_path: Path, made: list[object]) -> None:
    """And both are known from then on, though they are listed together."""
    long = "v_add_u32_e32 v3, 1, v3 |" * 300
    one, other = ("v_mov_b32_e32 v3, 0 |" + long + f"v_add_u32_e32 v3, {n}, v3 |" + store(3) for n in (5, 7))
    run(new(tmp_path), one)
    assert dwords(run(new(tmp_path), other), 1) == [307]
    assert len(made) == 2
    for text in (one, other):
        run(new(tmp_path), text)
    assert len(made) == 2


def test_code_that_has_changed_is_other_code(tmp_path: Path, made: list[object]) -> None:
    """One bit of a constant, which no kind depends on."""
    run(new(tmp_path))
    before = dwords(run(new(tmp_path)), 64)
    assert dwords(run(new(tmp_path), TEXT.replace("0.5", "-0.5")), 64) != before
    assert len(made) == 2


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-1])])
def test_what_is_gone_or_damaged_is_made_again(tmp_path: Path, made: list[object], damage: object) -> None:
    run(new(tmp_path))
    for path in tmp_path.iterdir():
        damage(path)  # type: ignore[operator]
    run(new(tmp_path))
    assert len(made) == 2


def test_a_program_whose_handlers_are_gone_is_made_again(tmp_path: Path, made: list[object]) -> None:
    run(new(tmp_path))
    for path in tmp_path.iterdir():
        if path.read_bytes()[32:36] == b"\x7fELF":
            path.unlink()
    second = new(tmp_path)
    run(second)
    assert len(made) == 2
    assert second.library.compiled


def test_handlers_of_a_kept_program_are_optimised_where_it_runs_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Library, "_optimise", lambda *_: None)
    run(new(tmp_path))
    monkeypatch.undo()
    second, dispatch = new(tmp_path), program(TEXT)
    launch = second.prepare(dispatch)
    launch.run()
    assert not second.library.is_optimising
    for _ in range(library_module.WORTH):
        launch.run()
    deadline = time.monotonic() + 60
    while second.library.is_optimising:
        assert time.monotonic() < deadline
        time.sleep(0.005)
        launch.run()
    known = Library(ObjectCache(tmp_path), second.lanes).index
    program_ = launch.code.programs[dispatch.entry, dispatch.mode]
    assert len(list(known)) > 5
    assert all(each is None or each.is_optimised for each in map(known.__getitem__, known))
    addresses = {second.library.find(key)[0] for key in known if known[key]}  # type: ignore[index]
    assert set(program_.records[program_.handled].tolist()) <= addresses


# ---- heat ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hot_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a process in which the program became hot."""
    folder = tmp_path_factory.mktemp("hot")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(jit, "HOT", 900)
        monkeypatch.setattr(jit, "POLL_SECONDS", 0.0)
        engine, dispatch = new(folder, tier=None), program(TEXT)
        launch, deadline = engine.prepare(dispatch), time.monotonic() + 60
        launch.run()
        while not launch.code.programs[dispatch.entry, dispatch.mode].replaced or engine.is_tiering_up:
            assert time.monotonic() < deadline
            time.sleep(0.02)  # the process that compiles has a lower priority
            launch.run()
        engine.close()
    return folder


@pytest.fixture
def heated(hot_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder. Programs become hot as early as there."""
    monkeypatch.setattr(jit, "HOT", 900)
    monkeypatch.setattr(jit, "POLL_SECONDS", 0.0)
    return shutil.copytree(hot_folder, tmp_path / "hot")


def test_what_was_hot_is_optimised_code_at_once(heated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without anything being compiled, emitted or discovered, at another address too."""

    def refuse(*_: object) -> bytes:
        raise AssertionError("compiled")

    monkeypatch.setattr(llvm, "compile_ir", refuse)
    monkeypatch.setattr(PROCESS, "compile_ir", refuse)
    monkeypatch.setattr(translator, "discover", refuse)
    second = new(heated, tier=None)
    dispatch = run(second)
    code = second.code(dispatch.target, dispatch.memory)
    assert code.programs[dispatch.entry, dispatch.mode].replaced
    assert int(np.sum(second.profile(0))) < 300, "the loop ran as threaded code"


def test_a_forced_tier_is_what_it_says(heated: Path) -> None:
    second = new(heated, tier=Tier.THREADED)
    dispatch = run(second)
    assert not second.code(dispatch.target, dispatch.memory).programs[dispatch.entry, dispatch.mode].replaced


def test_an_object_that_is_gone_leaves_threaded_code(heated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = new(heated, tier=None)
    monkeypatch.setattr(ObjectCache, "get", _without_regions(ObjectCache.get))
    dispatch = run(second)
    assert not second.code(dispatch.target, dispatch.memory).programs[dispatch.entry, dispatch.mode].replaced


def _without_regions(get: object) -> object:
    def found(self: ObjectCache, key: str, fresh: bool = False) -> bytes | None:
        data: bytes | None = get(self, key, fresh)  # type: ignore[operator]
        return None if data is not None and b"\0region\0" in data else data

    return found


# ---- processes -------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
import numpy as np
from softcard import Gpu
from softcard.hsa import demo_code
with Gpu.open("gfx900") as gpu:
    x, y = gpu.array(np.arange(1000, dtype=np.float32)), gpu.zeros(1000)
    gpu.run(gpu.load(demo_code()), "saxpy", 1000, 128, [2.0, x, y])
    assert (y == 2 * np.arange(1000)).all()
HEAVY = ("llvmlite.binding", "softcard.isa.gcn.operations", "softcard.isa.gcn.semantics", "softcard.isa.gcn.asm",
         "softcard.engine.gcn.reference", "softcard.engine.gcn.threaded.frontend", "softcard.engine.gcn.jit.region")
print(sorted(name for name in sys.modules if name.startswith(HEAVY)))
"""


def test_a_second_process_loads_neither_llvm_nor_the_instruction_set(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    first, second = (
        subprocess.check_output([sys.executable, "-c", SCRIPT], env=environment, text=True).strip() for _ in range(2)
    )
    assert "llvmlite.binding" in first
    assert second == "[]"


def test_the_runtime_is_shared(tmp_path: Path) -> None:
    """What one engine of a process has compiled, or improved, others have too."""
    engine = JitEngine(threads=1, cache=ObjectCache(tmp_path))
    assert shared_runtime(tmp_path, engine.lanes) is engine.runtime
