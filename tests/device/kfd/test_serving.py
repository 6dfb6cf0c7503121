"""Threads that look at doorbells for programs of ROCm."""

from softcard.device.hsa.device import HsaDevice
from softcard.device.kfd.serving import AqlEngine


def test_a_doorbell_that_rings_after_the_program_has_ended_is_lost() -> None:
    """The thread that looks at doorbells ends after its device: a program that is killed may have rung meanwhile."""
    device = HsaDevice("gfx900")
    queue, engine = device.create_queue(16), AqlEngine(device)
    device.close()
    engine.ring(queue.slot, 1)
    assert (engine.work(), engine.has_work) == (0, False)
