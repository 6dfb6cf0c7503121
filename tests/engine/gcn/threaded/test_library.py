"""The library of handlers: each kind is compiled once, then comes from the folder."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.threaded import library as module
from softcard.engine.gcn.threaded.library import Library, shared_library
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.ir import llvm
from softcard.ir.background import Task
from softcard.ir.object_cache import ObjectCache
from tests.agree.gcn.bench import widths
from tests.engine.gcn.jit.test_jit import store
from tests.engine.gcn.programs import dwords, program

TEXT = "s_movk_i32 s8, 3 | again: | v_add_u32_e32 v3, 7, v3 | s_sub_u32 s8, s8, 1 | s_cmp_lg_u32 s8, 0 | "
TEXT += "s_cbranch_scc1 again | v_add_u32_e32 v3, v0, v3 |"
HANDLERS = 11
"""Kinds of instructions in it that do something."""


def run(folder: Path) -> int:
    """The program in what might be a process of its own: how many handlers were compiled."""
    shared_library.cache_clear()
    engine = JitEngine(threads=1, cache=ObjectCache(folder))
    dispatch = program(TEXT + store(3), poison=0)
    engine.run(dispatch)
    engine.close()
    assert dwords(dispatch, 64) == [21 + lane for lane in range(64)]
    shared_library.cache_clear()
    return engine.library.compiled


def test_a_second_process_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tmp_path) == HANDLERS

    def refuse(text: str, tier: int) -> bytes:
        raise AssertionError("compiled")

    monkeypatch.setattr(llvm, "compile_ir", refuse)
    assert run(tmp_path) == 0


def test_another_kernel_at_another_address_shares_handlers(tmp_path: Path) -> None:
    run(tmp_path)
    shared_library.cache_clear()
    engine = JitEngine(threads=1, cache=ObjectCache(tmp_path))
    engine.run(program("s_nop 0 | v_add_u32_e32 v77, 9, v99 | s_mov_b32 s7, s9 | s_endpgm"))
    assert engine.library.compiled == 1  # s_mov_b32
    engine.close()
    shared_library.cache_clear()


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-1])])
def test_objects_that_are_gone_or_damaged_are_compiled_again(tmp_path: Path, damage: object) -> None:
    run(tmp_path)
    for path in tmp_path.iterdir():
        if path.is_file() and path.read_bytes()[32:36] == b"\x7fELF":
            damage(path)  # type: ignore[operator]
    assert run(tmp_path) == HANDLERS
    assert run(tmp_path) == 0


def test_a_damaged_index_is_as_if_there_were_none(tmp_path: Path) -> None:
    run(tmp_path)
    library = Library(ObjectCache(tmp_path), widths()[-1])
    (tmp_path / library.key).write_bytes(b"{}")
    assert run(tmp_path) == HANDLERS


def test_another_translator_has_a_library_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path)
    monkeypatch.setattr(module, "translator_key", lambda: b"another")
    assert run(tmp_path) == HANDLERS


def test_what_two_processes_add_serves_both(tmp_path: Path) -> None:
    first, second = (JitEngine(threads=1, cache=ObjectCache(tmp_path)) for _ in range(2))
    first.library, second.library = (Library(ObjectCache(tmp_path), first.lanes) for _ in range(2))
    first.run(program("s_mov_b32 s7, s9 | s_endpgm"))
    second.run(program("s_not_b32 s7, s9 | s_endpgm"))
    assert [each.library.compiled for each in (first, second)] == [2, 1], "s_endpgm was there"
    third = Library(ObjectCache(tmp_path), first.lanes)
    assert sum("s_mov_b32" in key or "s_not_b32" in key or "s_endpgm" in key for key in third.index) == 3


def test_a_kind_without_a_handler_is_asked_for_once(tmp_path: Path) -> None:
    """A scalar store is for the reference engine, whatever its operands; faults come from there, with their place."""
    engine = JitEngine(threads=1, cache=ObjectCache(tmp_path))
    with pytest.raises(SoftcardError, match="at pc 0x100004"):
        engine.run(program("s_mov_b32 s2, 0 | s_store_dword s2, s[2:3], 0x0 | s_endpgm"))
    engine.close()


def test_handlers_are_optimised_where_much_is_run(tmp_path: Path) -> None:
    """And programs that run already have them: same records, other addresses. The next process begins with them."""
    engine = JitEngine(threads=1, cache=ObjectCache(tmp_path), tier=Tier.THREADED)
    engine.library = Library(ObjectCache(tmp_path), engine.lanes)
    dispatch = program(TEXT + store(3), poison=0)
    launch = engine.prepare(dispatch)
    launch.run()
    made = launch.code.programs[dispatch.entry, dispatch.mode]
    before = made.records[made.handled].copy()
    assert not engine.library.is_optimising
    for _ in range(module.WORTH):
        launch.run()
    assert engine.library.is_optimising
    deadline = time.monotonic() + 60
    while engine.library.is_optimising:
        assert time.monotonic() < deadline
        time.sleep(0.005)
        launch.run()
    assert (made.records[made.handled] != before).all()
    assert launch.run().instructions == 3 * 4 + 7
    assert dwords(dispatch, 64) == [21 + lane for lane in range(64)]
    index = Library(ObjectCache(tmp_path), 16).index
    assert all(known is None or known.is_optimised for known in map(index.__getitem__, index))
    assert run(tmp_path) == 0


def test_two_threads_take_up_what_was_optimised(tmp_path: Path) -> None:
    """Another one was faster, between the look and the lock."""
    library = Library(ObjectCache(tmp_path), widths()[-1])
    task: Task[list[str]] = Task(list)
    task.run()

    class Late:
        def __enter__(self) -> None:
            library._optimising.clear()

        def __exit__(self, *_: object) -> None:
            pass

    library._optimising, library.lock = {task: []}, Late()  # type: ignore[assignment]
    library.adopt()
    assert not library.is_optimising
