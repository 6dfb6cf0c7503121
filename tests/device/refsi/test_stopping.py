"""Ctrl-C, `close` and limits of time against kernels that do not end, on fast paths and slow ones."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from tests.device.refsi.test_sharing import PROGRAM
from tests.device.test_forks import in_a_child
from tests.engine.gcn.test_interrupts import SOON, interrupted, soon
from understudy.core.errors import RuleError
from understudy.core.event import Event
from understudy.core.limits import Stopped, TimeLimit
from understudy.device.refsi.events import InstanceStarted
from understudy.host.refsi.refsi import RefSi
from understudy.isa.riscv.decode import assemble

WORK = "lui t5, 0x200; busy: addi t5, t5, -1; bne t5, zero, busy; "
"""More than what harts do before they go on threads."""
AFTER_SECONDS = 0.15
"""Until somebody stops the kernel."""
ENDLESS = {
    "branch": "loop: jal zero, loop",
    "arithmetic": "loop: addi t0, t0, 1; jal zero, loop",
    "polling": "loop: ld t0, 0(a1); beq t0, zero, loop; jalr zero, 0(ra)",
    "atomics": "addi t1, zero, 1; loop: amoadd.d t0, t1, (a1); jal zero, loop",
    "one by one": WORK + "loop: csrrs t0, cycle, zero; jal zero, loop",
    "registers": WORK + "lui t1, 0x20002; loop: ld t0, 8(t1); jal zero, loop",
    "instances": "jalr zero, 0(ra)",
}
WAYS: list[tuple[Any, ...]] = [
    ("spec", "jit", 1, {}),
    ("spec", "jit", 2, {}),
    ("spec", "reference", 1, {}),
    ("spec", "jit", 1, {"coherence": "strict"}),
    ("refsidrv", "jit", 1, {}),
    ("refsidrv", "reference", 1, {}),
    ("refsidrv", "jit", 1, {"profile_level": 3}),
]
everywhere = pytest.mark.parametrize(("profile", "engine", "threads", "more"), WAYS)
any_loop = pytest.mark.parametrize("loop", ENDLESS)


class Endless:
    """A device with a kernel that does not end."""

    def __init__(self, loop: str, profile: str, engine: str, threads: int, **more: Any) -> None:
        self.device = RefSi.open(profile=profile, engine=engine, threads=threads, lints="off", **more)
        self.program = self.device.load_elf(PROGRAM)
        code = assemble(ENDLESS[loop].replace("; ", "\n"))
        place = self.device.array(np.frombuffer(code + bytes(-len(code) % 8), np.uint64))
        self.data = self.device.zeros(256, np.uint64)
        self.kernel = type(self.program.kernel("k_alone"))("mine", place.address, self.program)
        self.instances = 1 << 62 if loop == "instances" else 4

    def run(self) -> None:
        self.device.launch(self.kernel, self.instances, [self.data])

    def still_works(self) -> None:
        assert self.device.launch("k_spinlock", 4, [self.device.zeros(256, np.uint64), 3]).status.ok


@any_loop
@everywhere
def test_ctrl_c(profile: str, engine: str, threads: int, more: dict[str, Any], loop: str) -> None:
    endless = Endless(loop, profile, engine, threads, time_limit_seconds=None, **more)
    with soon(), pytest.raises(KeyboardInterrupt) as caught, interrupted(AFTER_SECONDS):
        endless.run()
    (note,) = caught.value.__notes__
    assert note.startswith("what ran is not finished, at pc 0x")
    assert "of hart 0, at pc 0x" in note
    steps = endless.device.port.steps  # type: ignore[attr-defined]
    time.sleep(0.05)
    assert endless.device.port.steps == steps, "no hart runs on"  # type: ignore[attr-defined]
    endless.still_works()
    endless.device.close()


@any_loop
@everywhere
def test_close_on_another_thread(profile: str, engine: str, threads: int, more: dict[str, Any], loop: str) -> None:
    before = set(threading.enumerate())
    endless = Endless(loop, profile, engine, threads, time_limit_seconds=None, **more)
    closer = threading.Timer(AFTER_SECONDS, endless.device.close)
    closer.start()
    with soon(), pytest.raises(Stopped) as caught:
        endless.run()
    closer.join(SOON)
    text = str(caught.value)
    assert text.startswith("the device was closed while the kernel ran: the hart has retired ")
    assert {"pc", "hart", "command", "kernel"} <= {place.kind for place in caught.value.path}
    assert not [each for each in set(threading.enumerate()) - before if each.name.startswith("understudy-hart")]
    with pytest.raises(RuleError, match="the device was shut down"):
        endless.run()


@any_loop
@everywhere
def test_time_limit(profile: str, engine: str, threads: int, more: dict[str, Any], loop: str) -> None:
    endless = Endless(loop, profile, engine, threads, time_limit_seconds=0.1, **more)
    with soon(), pytest.raises(TimeLimit, match=r"did not end within 0\.1 s") as caught:
        endless.run()
    assert {"pc", "hart", "command", "kernel"} <= {place.kind for place in caught.value.path}
    endless.device.close()


@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
def test_close_by_a_probe(profile: str) -> None:
    """Memory goes when nobody uses it any more: not under the kernel."""
    endless = Endless("polling", profile, "jit", 1, time_limit_seconds=None)

    def close(event: Event) -> None:
        endless.device.close()

    endless.device.port.probes.subscribe(close, InstanceStarted)
    with soon(), pytest.raises(Stopped, match="the device was closed while the kernel ran"):
        endless.run()


def test_a_fork_amid_a_kernel() -> None:
    endless = Endless("branch", "spec", "jit", 2, time_limit_seconds=None)

    def run() -> None:
        with pytest.raises(Stopped):
            endless.run()

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.3)

    def refused() -> None:
        with pytest.raises(RuleError, match="another thread was using the device when this process was forked"):
            endless.device.read(endless.data.address, 8)
        endless.device.close()

    in_a_child(refused)
    with soon():
        endless.device.close()
        thread.join(SOON)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_fork_between_kernels(threads: int) -> None:
    with RefSi.open(threads=threads) as device:
        device.load_elf(PROGRAM)

        def run() -> None:
            data = device.zeros(256, np.uint64)
            assert device.launch("k_alone", 4, [data, 1_000_000]).status.ok
            assert device.launch("k_barrier", 4, [data, 60]).status.ok

        run()
        in_a_child(run)
        run()
