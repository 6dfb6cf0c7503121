"""A kernel with a thread of its own: registers answer while it works, and stop and reset end it at any moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from softcard.core.errors import ModelBug, RuleError
from softcard.device.fletcher.job import Job, KernelFailure
from tests.device.fletcher.rig import BUSY, DONE, IDLE, RESET, START, STOP, Rig, add_up, slow


class Gates:
    """A kernel whose slices wait for the test."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.left = threading.Event()

    def run(self, job: Job) -> Iterator[None]:
        try:
            while True:
                self.entered.release()
                assert self.go_on.acquire(timeout=60)
                job.result += 1
                yield
        finally:
            self.left.set()


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
def rig(gates: Gates) -> Iterator[Rig]:
    rig = Rig(replace(add_up, run=gates.run), execution="threaded")
    yield rig
    for _ in range(3):
        gates.go_on.release()
    rig.device.close()


def enter(gates: Gates) -> None:
    assert gates.entered.acquire(timeout=60)


def test_it_finishes_by_itself() -> None:
    rig = Rig(slow, rows=100, execution="threaded")
    rig.set("step", 7)
    rig.control(START)
    assert rig.device.wait_idle(60)
    assert rig.status == DONE | IDLE
    assert rig.result == 5050
    rig.control(RESET)
    rig.control(START)
    assert rig.device.wait_idle(60)
    assert rig.result == 5050
    rig.device.close()


def test_registers_answer_while_it_works(rig: Rig, gates: Gates) -> None:
    rig.control(START)
    enter(gates)
    assert rig.status == BUSY
    assert not rig.device.wait_idle(0)
    gates.go_on.release()
    enter(gates)
    assert rig.result == 1


@pytest.mark.parametrize("bit", [STOP, RESET])
def test_what_it_does_after_the_end_has_no_effect(rig: Rig, gates: Gates, bit: int) -> None:
    rig.control(START)
    enter(gates)
    gates.go_on.release()
    enter(gates)
    rig.control(bit)
    assert rig.status == IDLE, "at once"
    gates.go_on.release()
    assert gates.left.wait(60), "the generator was closed"
    assert rig.result == (1 if bit == STOP else 0)


def test_it_starts_again_while_the_old_job_still_unwinds(rig: Rig, gates: Gates) -> None:
    rig.control(START)
    enter(gates)
    rig.control(RESET)
    rig.control(START)
    assert rig.status == BUSY
    gates.go_on.release()  # the old job runs into its end, the new one begins
    enter(gates)
    gates.go_on.release()
    enter(gates)
    assert rig.result == 1


def test_errors_are_raised_by_the_next_access() -> None:
    rig = Rig(execution="threaded")
    rig.set("ExampleBatch_lastidx", 5)
    rig.control(START)
    rig.device.wait_idle(60)
    with pytest.raises(RuleError, match="rows 0 to 5"):
        rig.status  # noqa: B018  # a read
    assert rig.device.is_stuck
    rig.device.close()


def test_mistakes_of_a_kernel_are_raised_by_the_next_access() -> None:
    rig = Rig(replace(add_up, run=lambda job: 1 // 0), execution="threaded", profile="hardware")
    rig.control(START)
    rig.device.wait_idle(60)
    with pytest.raises(KernelFailure, match="ZeroDivisionError"):
        rig.status  # noqa: B018  # a read
    rig.device.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_fails_for_good_is_reported() -> None:
    def leave(job: Job) -> None:
        raise KeyboardInterrupt

    rig = Rig(replace(add_up, run=leave), execution="threaded")
    rig.control(START)
    rig.device.wait_idle(60)
    with pytest.raises(ModelBug, match="the device's thread has failed"):
        rig.status  # noqa: B018  # a read
    rig.device.close()


def test_a_closed_device_does_nothing_more(gates: Gates) -> None:
    rig = Rig(replace(add_up, run=gates.run), execution="threaded")
    rig.control(START)
    enter(gates)
    gates.go_on.release()
    gates.go_on.release()
    rig.device.close()
    assert gates.left.is_set()
    rig.control(START)
    rig.device.close()
    untouched = Rig(execution="threaded")
    untouched.device.close()
