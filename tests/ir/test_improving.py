"""Native functions that are compiled quickly, and optimised after many uses: what is kept, and when they change."""

import ctypes
import os
import time
from pathlib import Path

import pytest

from softcard.ir import background, llvm
from softcard.ir.background import Improving
from softcard.ir.native import native
from softcard.ir.native_source import SourceChanged
from softcard.ir.object_cache import ObjectCache


@native
def total(count: int) -> int:
    found = 0
    for number in range(count):
        found += number
    return found


class Tiers(list[int]):
    """The tiers that are compiled from here on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        compile_ir = llvm.compile_ir

        def counted(text: str, tier: int) -> bytes:
            if "@total" in text:
                self.append(tier)
            return compile_ir(text, tier)

        monkeypatch.setattr(llvm, "compile_ir", counted)
        monkeypatch.setattr(background.PROCESS, "compile_ir", counted)


def answer(made: Improving) -> int:
    return int(made.code.function("total", ctypes.c_uint64, ctypes.c_uint64)(10))


def used_until_better(made: Improving) -> None:
    before, deadline = made.code, time.monotonic() + 300
    while made.use() is before:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_quick_first_then_optimised_and_nothing_is_compiled_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiers = Tiers(monkeypatch)
    made = Improving(ObjectCache(tmp_path), total, worth=3)
    first = made.code
    assert answer(made) == 45
    assert [made.use() is first for _ in range(3)] == [True] * 3
    assert tiers == [llvm.QUICK]
    again = Improving(ObjectCache(tmp_path), total, worth=3)
    assert not again.is_optimised
    assert tiers == [llvm.QUICK]
    used_until_better(made)
    assert made.is_optimised
    assert answer(made) == 45
    assert tiers == [llvm.QUICK, llvm.OPTIMISED]
    better = made.code
    assert made.use() is better
    third = Improving(ObjectCache(tmp_path), total, worth=3)
    assert third.is_optimised
    assert answer(third) == 45
    assert tiers == [llvm.QUICK, llvm.OPTIMISED]


def test_code_that_runs_stays_when_better_code_comes(tmp_path: Path) -> None:
    made = Improving(ObjectCache(tmp_path), total, worth=0)
    at = made.code.address("total")
    used_until_better(made)
    assert made.code.address("total") != at
    assert ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)(at)(10) == 45


def test_sources_that_have_changed_meanwhile_leave_the_code_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Improving(ObjectCache(tmp_path), total, worth=0)

    def changed(*_: object) -> str:
        raise SourceChanged("total() has changed since it was loaded")

    monkeypatch.setattr("softcard.ir.native_llvm.module", changed)
    first, deadline = made.code, time.monotonic() + 300
    while not made.is_optimised:
        assert time.monotonic() < deadline
        assert made.use() is first
        time.sleep(0.001)
    assert made.use() is first
    assert answer(made) == 45
    assert Improving(ObjectCache(tmp_path), total, worth=0).is_optimised is False


def test_a_forked_child_asks_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Improving(ObjectCache(tmp_path), total, worth=0)
    monkeypatch.setattr(background.BACKGROUND, "submit", lambda work: background.Task(work))  # never done
    made.use()
    monkeypatch.undo()
    child = os.fork()
    if not child:
        status = 1
        try:
            used_until_better(made)
            status = 0 if answer(made) == 45 else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
