"""Limits of time and Ctrl-C for AMD OpenCL 2.0 programs."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import RuleError, WireError
from softcard.core.limits import Stopped, TimeLimit
from softcard.host.amdcl2.program import Program, load
from softcard.image.amdcl2.build import pointer
from softcard.image.amdcl2.writer import ProgramSource, write_container
from tests.device.test_forks import in_a_child
from tests.host.amdcl2.rig import NEWEST, kernel, program
from tests.interrupting import SOON, interrupted, soon


def endless(engine: str) -> Program:
    return program("gfx900", kernel("gfx900", "k", "again: s_branch again", [pointer("o", "uint*")]), engine=engine)


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_time_limit_of_a_run_and_of_a_program(engine: str) -> None:
    found, out = endless(engine), np.zeros(1, np.uint32)
    options = {"step_limit": 1 << 60}
    with soon(), pytest.raises(TimeLimit, match=r"within 0\.2 s \(time_limit_seconds; step_limit is .*at kernel k"):
        found.kernel("k").run(64, 64, [out], time_limit_seconds=0.2, **options)
    found.time_limit_seconds = 0.1
    with soon(), pytest.raises(TimeLimit, match=r"within 0\.1 s"):
        found.kernel("k").run(64, 64, [out], **options)


def test_kernels_that_run_in_callbacks_have_time_limits_of_their_own() -> None:
    text = "s_sendmsg 1\nagain: s_branch again"
    found = program("gfx900", kernel("gfx900", "k", text, []), kernel("gfx900", "other", "s_endpgm", []))

    def heard(*_: Any) -> None:
        found.kernel("other").run(64, 64, time_limit_seconds=100)

    with soon(), pytest.raises(TimeLimit, match=r"within 0\.2 s"):
        found.kernel("k").run(64, 64, step_limit=1 << 60, time_limit_seconds=0.2, on_hint=heard)


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_ctrl_c(engine: str) -> None:
    found, out = endless(engine), np.zeros(1, np.uint32)
    for _ in range(2):
        with soon(), pytest.raises(KeyboardInterrupt) as caught, interrupted():
            found.kernel("k").run(64, 64, [out], step_limit=1 << 60)
        (note,) = caught.value.__notes__
        assert note.startswith("the run was interrupted before its end, at pc 0x")
        assert ", at wave 0" in note
    found.reset()


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_close_on_another_thread(engine: str) -> None:
    found, out = endless(engine), np.zeros(1, np.uint32)
    closer = threading.Timer(0.3, found.close)
    closer.start()
    with soon(), pytest.raises(Stopped, match=r"the device was closed while the kernel ran: .*, at wave 0, .*kernel k"):
        found.kernel("k").run(64, 64, [out], step_limit=1 << 60)
    closer.join(SOON)
    with pytest.raises(RuleError, match="the program was closed"):
        found.kernel("k").run(64, 64, [out])


def test_a_fork_amid_a_kernel() -> None:
    found, out = endless("jit"), np.zeros(1, np.uint32)

    def run() -> None:
        with pytest.raises(Stopped):
            found.kernel("k").run(64, 64, [out], step_limit=1 << 60)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.3)

    def refused() -> None:
        with pytest.raises(RuleError, match="another thread was using the device when this process was forked"):
            found.kernel("k").run(64, 64, [out])
        found.close()

    in_a_child(refused)
    with soon():
        found.close()
        thread.join(SOON)


def test_time_limits_of_programs_are_checked() -> None:
    data = write_container(ProgramSource("gfx900", NEWEST, 64, [kernel("gfx900", "k", "s_endpgm", [])]))
    assert load(data, time_limit_seconds=5).time_limit_seconds == 5
    assert load(data, time_limit_seconds=None).time_limit_seconds is None
    with pytest.raises(WireError, match="time_limit_seconds is 'x', expected a number of seconds above 0, or None"):
        load(data, time_limit_seconds="x")  # type: ignore[arg-type]
