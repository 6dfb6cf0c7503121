"""Start, stop, reset, and what status shows: kernels that differ, slices, errors of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from softcard.core.errors import RuleError, WireError
from softcard.device.fletcher.events import (
    KernelAborted,
    KernelFailed,
    KernelFinished,
    KernelStarted,
    RegisterAccess,
    RowsMoved,
)
from softcard.device.fletcher.job import Hang, Job, KernelFailure
from softcard.device.fletcher.kernel import Handshake
from softcard.device.fletcher.machine import State
from tests.device.fletcher.rig import BUSY, DONE, IDLE, RESET, START, STOP, Rig, add_up, slow

every_profile = pytest.mark.parametrize("profile", ["spec", "hardware"])


def stepped(rows: int = 6, step: int = 2, **settings: Any) -> Rig:
    """A kernel that is in the middle of its work, two slices done of three."""
    rig = Rig(slow, rows, pacing=0, **settings)
    rig.set("step", step)
    rig.control(START)
    rig.device.step(2)
    return rig


@every_profile
def test_start(profile: str) -> None:
    rig = Rig(profile=profile)
    rig.control(START)
    assert rig.status == DONE | IDLE
    assert rig.result == 10
    assert [event.ranges for event in rig.named(KernelStarted)] == [(("ExampleBatch", 0, 4),)]  # type: ignore[attr-defined]


@every_profile
def test_idle(profile: str) -> None:
    rig = Rig(profile=profile)
    assert rig.status == IDLE
    assert rig.device.state is State.IDLE


@every_profile
def test_busy(profile: str) -> None:
    rig = stepped(profile=profile)
    assert rig.status == BUSY
    assert rig.get("slices") == 2


@every_profile
def test_done(profile: str) -> None:
    rig = stepped(profile=profile)
    assert rig.device.step(10) == 2, "one that ends the third, one that finds no more"
    assert rig.status == DONE | IDLE
    assert rig.result == 21


def test_done_without_idle_where_the_kernel_is_so() -> None:
    rig = Rig(replace(add_up, handshake=Handshake(idle_when_done=False)))
    rig.control(START)
    assert rig.status == DONE


@every_profile
def test_done_and_result_hold_until_reset(profile: str) -> None:
    rig = Rig(profile=profile)
    rig.control(START)
    rig.control(START)
    assert rig.status == DONE | IDLE
    assert rig.lints == ["start-ignored"]
    assert rig.result == 10
    rig.control(RESET)
    assert rig.status == IDLE
    assert rig.result == 0


def test_a_restartable_kernel_begins_anew() -> None:
    rig = Rig(replace(add_up, handshake=Handshake(restartable=True)))
    rig.control(START)
    assert rig.status == DONE | IDLE
    rig.set("ExampleBatch_lastidx", 2)
    rig.control(START)
    assert rig.status == DONE | IDLE
    assert rig.result == 3


@every_profile
def test_stop(profile: str) -> None:
    rig = stepped(profile=profile)
    rig.control(STOP)
    assert rig.status == IDLE
    assert rig.device.step(5) == 0, "nothing is left to do"
    assert rig.result == 10
    assert rig.get("slices") == 2, "what it has done stays"
    assert [event.by for event in rig.named(KernelAborted)] == ["control stop"]  # type: ignore[attr-defined]


@every_profile
def test_reset(profile: str) -> None:
    rig = stepped(profile=profile)
    rig.control(RESET)
    assert rig.status == IDLE
    assert rig.result == 0
    assert rig.get("slices") == 0
    assert rig.get("step") == 2, "registers of the host stay"
    rig.control(START)
    rig.device.step(4)
    assert rig.result == 21


def test_a_kernel_may_heed_neither_while_it_works() -> None:
    rig = stepped()
    deaf = Rig(replace(slow, handshake=Handshake(heeds_stop=False, heeds_reset=False)), 6, pacing=0)
    deaf.set("step", 2)
    deaf.control(START)
    deaf.control(STOP)
    deaf.control(RESET)
    assert deaf.status == rig.status == BUSY
    deaf.device.step(4)
    assert deaf.status == DONE | IDLE
    deaf.control(RESET)
    assert deaf.status == IDLE


@pytest.mark.parametrize(
    ("before", "bits", "after"),
    [
        ("idle", START | STOP | RESET, BUSY),
        ("idle", STOP | RESET, IDLE),
        ("busy", START | STOP, IDLE),
        ("busy", START | RESET, IDLE),
        ("busy", 0, BUSY),
        ("done", START | RESET, IDLE),
        ("done", START | STOP, DONE | IDLE),
    ],
)
def test_several_control_bits_inspect_the_state_before(before: str, bits: int, after: int) -> None:
    rig = Rig(pacing=0)
    if before != "idle":
        rig.control(START)
    if before == "done":
        rig.device.step()
    rig.control(bits)
    assert rig.status == after


@every_profile
def test_return_value(profile: str) -> None:
    rig = Rig(replace(add_up, run=lambda job: -2), profile=profile)
    rig.control(START)
    assert rig.status == DONE | IDLE
    assert rig.result == 0xFFFF_FFFF_FFFF_FFFE


def test_pacing_and_latency_count_accesses() -> None:
    rig = Rig(slow, 6, latency=2)
    rig.set("step", 2)
    rig.control(START)
    assert [rig.status for _ in range(7)] == [BUSY, BUSY, BUSY, BUSY, BUSY, DONE | IDLE, DONE | IDLE]
    at_once = Rig(slow, 6, pacing=None)
    at_once.set("step", 1)
    at_once.control(START)
    assert at_once.status == DONE | IDLE


def test_events_report_what_happens() -> None:
    rig = Rig()
    rig.control(START)
    rig.status  # noqa: B018  # a read
    kinds = [type(event) for event in rig.events]
    assert kinds == [RegisterAccess, KernelStarted, RowsMoved, KernelFinished, RegisterAccess]
    assert [event.time for event in rig.events] == sorted(event.time for event in rig.events)


# ---- what goes wrong in a kernel ------------------------------------------------------------------------------------


def test_a_wrong_range_is_raised_by_the_access_in_spec() -> None:
    rig = Rig()
    rig.set("ExampleBatch_lastidx", 5)
    rig.control(START)
    with pytest.raises(RuleError, match=r"ExampleBatch_number_values = 0x1\d+: rows 0 to 5.*at kernel Sum"):
        rig.status  # noqa: B018  # a read
    assert rig.status == BUSY, "raised once, and busy for ever"
    assert rig.device.is_stuck
    assert rig.named(KernelFailed)
    rig.control(RESET)
    assert rig.device.last_error is None
    rig.set("ExampleBatch_lastidx", 4)
    rig.control(START)
    assert rig.status == DONE | IDLE


def test_a_wrong_range_is_kept_in_hardware() -> None:
    rig = Rig(profile="hardware")
    rig.set("ExampleBatch_lastidx", 5)
    rig.control(START)
    assert [rig.status for _ in range(3)] == [BUSY] * 3
    assert rig.device.is_stuck
    assert isinstance(rig.device.last_error, RuleError)


@every_profile
def test_a_mistake_in_the_kernels_code_is_raised_with_its_cause(profile: str) -> None:
    rig = Rig(replace(add_up, run=lambda job: 1 // 0), profile=profile)
    rig.control(START)
    with pytest.raises(KernelFailure, match=r"the kernel's code raised ZeroDivisionError: .*, at kernel Sum") as caught:
        rig.status  # noqa: B018  # a read
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("outcome", ["four", 1.5, object(), pa.scalar(1.5), pa.scalar(None, pa.int64())])
def test_a_result_that_is_no_integer(outcome: Any) -> None:
    rig = Rig(replace(add_up, run=lambda job: outcome))
    rig.control(START)
    with pytest.raises(KernelFailure, match=r"the kernel sets a register to .*, expected an integer, at kernel Sum"):
        rig.status  # noqa: B018  # a read


@pytest.mark.parametrize("outcome", [{"Out": pa.array([1, 2])}, pa.array(range(1000))])
def test_rows_in_place_of_a_result(outcome: Any) -> None:
    """An error is one line, whatever the value looks like."""
    rig = Rig(replace(add_up, run=lambda job: outcome))
    rig.control(START)
    with pytest.raises(
        KernelFailure, match=r"expected an integer; use job\.write\(batch, columns\) to write rows"
    ) as caught:
        rig.status  # noqa: B018  # a read
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("outcome", [np.int64(-6), pa.scalar(-6, pa.int64()), pa.scalar(-6, pa.int8()), -6])
def test_a_result_of_numpy_or_arrow(outcome: Any) -> None:
    rig = Rig(replace(add_up, run=lambda job: outcome))
    rig.control(START)
    assert rig.status == DONE | IDLE
    assert rig.result == 0xFFFF_FFFF_FFFF_FFFA


def test_a_kernel_that_leaves_the_process_does_not() -> None:
    def leave(job: Job) -> None:
        raise SystemExit(3)

    rig = Rig(replace(add_up, run=leave))
    rig.control(START)
    with pytest.raises(KernelFailure, match="the kernel's code raised SystemExit: 3"):
        rig.status  # noqa: B018  # a read


def test_a_kernel_may_hang_with_a_reason() -> None:
    def wait(job: Job) -> None:
        job.hang("an empty range has no last element")

    rig = Rig(replace(add_up, run=wait))
    rig.control(START)
    with pytest.raises(Hang, match="the kernel never finishes: an empty range has no last element, at kernel Sum"):
        rig.status  # noqa: B018  # a read
    assert rig.status == BUSY


def test_a_generator_cleans_up_when_it_is_stopped() -> None:
    seen = []

    def work(job: Job) -> Iterator[None]:
        try:
            while True:
                yield
        finally:
            seen.append("clean")

    rig = Rig(replace(add_up, run=work))
    rig.control(START)
    assert rig.status == BUSY
    rig.control(STOP)
    assert seen == ["clean"]


def test_what_a_stopped_kernel_does_in_its_clean_up_has_no_effect() -> None:
    def work(job: Job) -> Iterator[None]:
        try:
            while True:
                yield
        finally:
            job.result = 99

    rig = Rig(replace(add_up, run=work))
    rig.control(START)
    assert rig.status == BUSY
    rig.control(STOP)
    assert rig.status == IDLE
    assert rig.result == 0


def test_a_kernel_that_uses_its_own_device_does_not_run_twice() -> None:
    rigs: list[Rig] = []

    def work(job: Job) -> int:
        assert rigs[0].status == BUSY
        rigs[0].control(RESET)
        job.result = 7  # has no effect any more
        return 8

    rigs.append(Rig(replace(add_up, run=work)))
    rigs[0].control(START)
    assert rigs[0].status == IDLE
    assert rigs[0].result == 0


def test_only_synchronous_kernels_are_stepped() -> None:
    rig = Rig(execution="threaded")
    with pytest.raises(RuleError, match="step requires execution 'synchronous': a threaded device executes by itself"):
        rig.device.step()
    rig.device.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile": "fast"}, "profile is 'fast', expected one of spec, hardware"),
        ({"execution": "later"}, "execution is 'later', expected one of synchronous, threaded"),
        ({"pacing": -1}, "pacing is -1, expected 0 or more"),
        ({"latency": -1}, "latency is -1, expected 0 or more"),
        ({"memory_bytes": -1}, "memory_bytes is -1, expected 0 or more"),
        ({"execution": "threaded", "latency": 1}, "pacing and latency require execution 'synchronous'"),
    ],
)
def test_settings_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError, match=message):
        Rig(**options)
