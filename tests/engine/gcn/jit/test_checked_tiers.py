"""Code with checks is compiled quickly at first. The background thread optimises it, and findings stay the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.shadow.check import EngineShadow
from softcard.engine.gcn.shadow.device_shadow import KINDS, DeviceShadow
from softcard.engine.gcn.tiered import translation
from softcard.engine.gcn.tiered.engine import POLL_SECONDS, JitEngine
from softcard.engine.gcn.tiered.translation import CodeSpace, Tier, Translation
from softcard.ir import llvm
from softcard.ir.background import BACKGROUND, Task
from softcard.ir.object_cache import ObjectCache
from tests.engine.gcn.programs import program
from tests.engine.gcn.rig import CODE, DATA

TEXT = (
    "s_mov_b32 s4, 0x200000 | s_mov_b32 s5, 0 | v_mov_b32 v5, 0 | v_lshlrev_b32 v3, 2, v0 | v_add_u32 v4, s4, v3"
    " | flat_load_dword v8, v[4:5] | s_waitcnt vmcnt(0) lgkmcnt(0) | v_add_u32 v9, v8, v0"
    " | v_mov_b32 v4, s4 | flat_store_dword v[4:5], v0 offset:1024 | v_cmp_gt_u32 vcc, 5, v9"
    " | s_and_b64 exec, exec, vcc | s_endpgm"
)
"""Lanes decide by a loaded value, which may be undefined. All work-groups store to one dword without any order."""
UNDEFINED = 41, 1


class Checked:
    """A program that runs on an engine with the checks of definedness and of races."""

    def __init__(self, engine: JitEngine, undefined: tuple[int, int] | None = UNDEFINED) -> None:
        self.engine = engine
        dispatch = program(TEXT, size=(128, 1, 1), groups=[(0, 0, 0), (1, 0, 0)])
        self.shadow = DeviceShadow(dispatch.memory, KINDS)
        if undefined is not None:
            self.shadow.undefined(DATA + undefined[0], undefined[1])
        self.findings = list[Finding]()
        self.watch = RaceWatch(dispatch.memory, FindingLog(self.findings))
        self.dispatch: Dispatch = replace(dispatch, checks=Checks(EngineShadow(self.shadow), self.watch))

    def run(self) -> tuple[int, list[Any]]:
        """The number of instructions of a launch, and the uses of undefined values and the races so far."""
        self.watch.begin()
        instructions = self.engine.run(self.dispatch).instructions
        races = [(each.kind, each.pc, each.other_pc) for each in self.findings]
        return instructions, [sorted(self.shadow.uses.counts().items(), key=str), races]

    @property
    def code(self) -> CodeSpace:
        """The code with these checks."""
        return self.engine.code(self.dispatch.target, self.dispatch.memory, self.dispatch.checks.instrumentation)

    @property
    def translations(self) -> list[Translation]:
        """The present translations."""
        following = (each.made for each in self.code._following.values())
        return list(dict.fromkeys([*self.code._made.values(), *following]))


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[Task[Any]]:
    """The tasks that the background thread would run; code is worth optimising after one instruction."""
    found: list[Task[Any]] = []

    def submit(work: Callable[[], Any]) -> Task[Any]:
        found.append(Task(work))
        return found[-1]

    monkeypatch.setattr(BACKGROUND, "submit", submit)
    monkeypatch.setattr(translation, "WORTH", 1)
    monkeypatch.setattr(translation.PROCESS, "compile_ir", llvm.compile_ir)
    return found


def made_optimised(one: Checked, tasks: list[Task[Any]]) -> None:
    """Run a program and the tasks in turn until no task is left."""
    deadline, done = time.monotonic() + 300, 0
    while any(not each.is_optimised for each in one.translations):
        assert time.monotonic() < deadline
        for task in tasks[done:]:
            task.run()
        done = len(tasks)
        time.sleep(POLL_SECONDS)
        one.run()


@pytest.mark.parametrize("undefined", [None, UNDEFINED], ids=["defined", "undefined"])
def test_quick_code_and_optimised_code_have_the_same_findings(
    tasks: list[Task[Any]], undefined: tuple[int, int] | None
) -> None:
    """Also where code that assumes defined values has met an undefined one."""
    wanted = Checked(JitEngine(threads=1, tier=Tier.OPTIMISED, cache=ObjectCache()), undefined)
    one = Checked(JitEngine(threads=1, cache=ObjectCache()), undefined)
    first = wanted.run()
    assert first[1][0 if undefined else 1]
    assert one.run() == first
    assert not any(each.is_optimised for each in one.translations)
    assert all(each.is_optimised for each in wanted.translations)
    made_optimised(one, tasks)
    assert not one.code._quick
    before = sum(one.shadow.uses.counts().values())
    assert one.run()[0] == first[0]
    uses = sum(number for _, number in first[1][0])
    assert sum(one.shadow.uses.counts().values()) - before == uses
    again = Checked(one.engine, undefined)
    assert again.run() == first


def test_first_tier_is_never_optimised(tasks: list[Task[Any]]) -> None:
    one = Checked(JitEngine(threads=1, tier=Tier.THREADED, cache=ObjectCache()))
    wanted = Checked(JitEngine(threads=1, tier=Tier.OPTIMISED, cache=ObjectCache())).run()
    assert one.run() == wanted
    for _ in range(3):
        time.sleep(POLL_SECONDS)
        one.run()
    assert not tasks
    assert not any(each.is_optimised for each in one.translations)


def test_caches_have_the_best_code(tasks: list[Task[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A second engine compiles nothing: it takes quick code, and optimised code as soon as that exists."""
    cache = ObjectCache()
    one = Checked(JitEngine(threads=1, cache=cache))
    wanted = one.run()

    def fail(text: str, tier: int) -> bytes:
        raise AssertionError(f"{len(text)} characters were compiled again at tier {tier}")

    with monkeypatch.context() as patch:
        patch.setattr(llvm, "compile_ir", fail)
        two = Checked(JitEngine(threads=1, cache=cache))
        assert two.run() == wanted
        assert not any(each.is_optimised for each in two.translations)
    made_optimised(one, tasks)
    monkeypatch.setattr(llvm, "compile_ir", fail)
    three = Checked(JitEngine(threads=1, cache=cache))
    assert three.run() == wanted
    assert all(each.is_optimised for each in three.translations)


def test_checked_code_that_is_gone_is_not_optimised(tasks: list[Task[Any]]) -> None:
    """Another program is loaded in its place while its code is being optimised."""
    one = Checked(JitEngine(threads=1, cache=ObjectCache()))
    one.run()
    while not tasks:
        time.sleep(POLL_SECONDS)
        one.run()
    end = program("s_nop 0 | s_endpgm").memory.read(CODE, 8)
    one.dispatch.memory.write(CODE, end)
    waves = 4
    assert one.run()[0] == waves * 2
    tasks[0].run()
    time.sleep(POLL_SECONDS)
    assert one.run()[0] == waves * 2


def test_a_child_process_optimises_checked_code_again(tasks: list[Task[Any]]) -> None:
    one = Checked(JitEngine(threads=1, cache=ObjectCache()))
    one.run()
    while not tasks:
        time.sleep(POLL_SECONDS)
        one.run()
    one.engine.after_fork()
    assert not one.engine.is_tiering_up
    tasks.clear()
    made_optimised(one, tasks)
    assert tasks
