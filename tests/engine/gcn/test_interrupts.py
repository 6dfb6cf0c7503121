"""What ends waves from outside: Ctrl-C, a limit of time, whoever stops the device. At once, on any engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import pytest

from softcard.core.limits import Stopped, TimeLimit, Watch
from softcard.core.order import Arbiter
from softcard.engine.gcn.api import Dispatch, Engine
from softcard.engine.gcn.pause import TICKS
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.reference.exceptions import ExceptionEngine, Exceptions
from softcard.engine.gcn.strict.coherence import StrictEngine
from tests.engine.gcn.jit.test_jit import engine, store
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import CODE
from tests.interrupting import SOON, interrupted, soon

FOREVER: Final = 1 << 60
ENDLESS: Final = {
    "branch": "again: | s_branch again",
    "arithmetic": "again: | v_add_u32_e32 v1, 1, v1 | s_add_u32 s8, s8, 1 | s_branch again",
    "barriers": "again: | s_barrier | s_branch again",
    "pauses": "again: | s_sleep 1 | s_branch again",
    "steps": "again: | s_sethalt 0 | s_branch again",
    "far jumps": "s_getpc_b64 s[4:5] | s_nop 0 | s_setpc_b64 s[4:5]",
}
ENGINES: Final[dict[str, Callable[[], Engine]]] = {
    "one thread": lambda: engine(threads=1),
    "two threads": lambda: engine(threads=2),
    "reference": ReferenceEngine,
    "strict": StrictEngine,
    "exceptions": lambda: ExceptionEngine(Exceptions.INVALID),
}

everywhere = pytest.mark.parametrize("name", ENGINES)


@cache
def named(name: str) -> Engine:
    """One for all tests of that engine."""
    return ENGINES[name]()


def many(text: str, groups: int = 8, **options: Any) -> Dispatch:
    """Work-groups of two waves each, that have no limit worth the name."""
    options.setdefault("step_limit", FOREVER)
    return program(text, size=(128, 1, 1), groups=[(n, 0, 0) for n in range(groups)], **options)


def still_works(one: Engine) -> None:
    """An engine runs the next kernel as if nothing had been."""
    dispatch = program("v_add_u32_e32 v2, 1, v0\n" + store(2))
    one.run(dispatch)
    assert dwords(dispatch, 64) == [n + 1 for n in range(64)]


@pytest.mark.parametrize("loop", ENDLESS)
@everywhere
def test_ctrl_c_ends_endless_kernels(name: str, loop: str) -> None:
    one = named(name)
    with soon(), pytest.raises(KeyboardInterrupt), interrupted(0.15):
        one.run(many(ENDLESS[loop]))
    still_works(one)


def test_ctrl_c_between_two_turns_of_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which of the waves ran last, and where that is."""
    turns: list[int] = []

    def order(self: Arbiter, ready: list[Any]) -> list[Any]:
        turns.append(len(ready))
        if len(turns) > 3:
            raise KeyboardInterrupt
        return ready

    monkeypatch.setattr(Arbiter, "order", order)
    with pytest.raises(KeyboardInterrupt) as caught:
        named("reference").run(many(ENDLESS["pauses"]))
    (note,) = caught.value.__notes__
    assert note == f"the run was interrupted before its end, at pc {CODE + 4:#x}, at wave 1, at work-group 0,0,0"


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_long_honest_dispatches(threads: int) -> None:
    """Each wave ends soon, but there are a million groups of them."""
    text = "s_movk_i32 s8, 10000 | again: | s_sub_u32 s8, s8, 1 | s_cmp_lg_u32 s8, 0 | s_cbranch_scc1 again | s_endpgm"
    one, dispatch = engine(threads=threads), many(text, groups=1_000_000)
    with soon(), pytest.raises(KeyboardInterrupt), interrupted():
        one.run(dispatch)
    still_works(one)


def test_a_launch_that_was_interrupted_can_run_again() -> None:
    """Nothing of the interrupted run is left in it: not even counts."""
    dispatch = many("again: | s_cmp_eq_u32 s3, 0 | s_cbranch_scc1 again | s_endpgm", groups=64)
    launch = engine(threads=2).prepare(dispatch)
    for _ in range(2):
        with soon(), pytest.raises(KeyboardInterrupt), interrupted():
            launch.run(np.array([0, 0, 0, 0], np.uint32))
        assert launch.run(np.array([0, 0, 0, 1], np.uint32)).instructions == 64 * 2 * 3


@pytest.mark.parametrize("loop", ENDLESS)
@everywhere
def test_time_limits_name_what_ran(name: str, loop: str) -> None:
    one, watch = named(name), Watch(0.1)
    with soon(), pytest.raises(TimeLimit) as caught:
        one.run(many(ENDLESS[loop], step_limit=1 << 50, watch=watch))
    text = str(caught.value)
    assert text.startswith("the kernel did not end within 0.1 s (time_limit_seconds; step_limit is 1125899906842624): ")
    assert " instructions, " in text
    assert "of them s_sleep" in text
    assert [place.kind for place in caught.value.path] == ["pc", "wave", "work-group"]
    still_works(one)


@everywhere
def test_a_stop_ends_waves_on_every_thread(name: str) -> None:
    one, watch, failed = named(name), Watch(None), []

    def work() -> None:
        try:
            one.run(many(ENDLESS["arithmetic"], watch=watch))
        except Stopped as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.3)
    watch.stopped = "somebody pulled the plug"
    thread.join(SOON)
    assert not thread.is_alive()
    assert str(failed[0]).startswith("somebody pulled the plug while the kernel ran: the wave ")
    still_works(one)


def test_time_limits_do_not_count_time_between_launches() -> None:
    one, dispatch = engine(), program("s_endpgm", watch=Watch(0.3))
    launch = one.prepare(dispatch)
    for _ in range(3):
        launch.run()
        time.sleep(0.4)


def test_helpers_do_not_run_on_when_the_caller_gives_up() -> None:
    """Every thread is back when the exception is: nobody writes into memory behind its owner's back."""
    one = engine(threads=2)
    with soon(), pytest.raises(KeyboardInterrupt), interrupted():
        one.run(many(ENDLESS["arithmetic"]))
    assert not TICKS._users
    assert one.pool().submit(int).result(SOON) == 0
    one.close()


def test_the_clock_thread_ends_when_nothing_runs() -> None:
    engine().run(program("s_endpgm"))
    before = time.monotonic()
    while any(each.name == "softcard-ticks" for each in threading.enumerate()):
        assert time.monotonic() - before < SOON
        time.sleep(0.05)
    with soon(), pytest.raises(KeyboardInterrupt), interrupted():
        engine().run(many(ENDLESS["branch"]))
