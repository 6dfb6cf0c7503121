"""Snapshots, and the reset of the whole device."""

from __future__ import annotations

import pytest

from softcard.core.errors import RuleError
from softcard.device.fletcher.events import DeviceReset, KernelAborted
from tests.device.fletcher.rig import BUSY, DONE, IDLE, RESET, START, Rig, slow

every_profile = pytest.mark.parametrize("profile", ["spec", "hardware"])


@every_profile
def test_a_snapshot_holds_registers_state_and_memory(profile: str) -> None:
    rig = Rig(profile=profile)
    rig.control(START)
    assert rig.status == DONE | IDLE
    rig.device.read(8)
    state = rig.device.snapshot()
    rig.control(RESET)
    rig.set("ExampleBatch_lastidx", 1)
    rig.device.memory.write(rig.address, bytes(32))
    rig.device.restore(state)
    assert rig.device.read(12).value == 0, "the latch too"
    assert rig.result == 10
    assert rig.status == DONE | IDLE
    rig.control(RESET)
    rig.control(START)
    assert rig.status == DONE | IDLE
    assert rig.result == 10
    assert rig.lints == []


def test_a_busy_kernel_cannot_be_kept() -> None:
    rig = Rig(pacing=0)
    rig.control(START)
    with pytest.raises(RuleError, match="cannot take a snapshot while kernel Sum is busy: wait until it is done"):
        rig.device.snapshot()


def test_restore_ends_a_busy_kernel() -> None:
    rig = Rig(pacing=0)
    state = rig.device.snapshot()
    rig.control(START)
    rig.device.restore(state)
    assert rig.status == IDLE
    assert rig.named(KernelAborted)


@every_profile
def test_a_reset_of_the_device_is_power_on_but_for_memory(profile: str) -> None:
    rig = Rig(slow, 6, pacing=0, profile=profile)
    rig.set("step", 2)
    rig.control(START)
    rig.device.step()
    assert rig.status == BUSY
    rig.device.reset()
    assert rig.status == IDLE
    assert rig.get("step") == rig.get("slices") == rig.get("ExampleBatch_lastidx") == rig.result == 0
    assert rig.device.memory.read(rig.address, 8) == (1).to_bytes(8, "little")
    assert rig.named(DeviceReset)
