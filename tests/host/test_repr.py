"""The repr of devices at a prompt or in a debugger: one line, in every state, without any change of the state."""

from __future__ import annotations

from softcard.device.acceldev.device import AcceldevDevice
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.kernels import find
from softcard.device.hsa.device import HsaDevice
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.toolkit.builder import CommandBuffer
from softcard.host.acceldev.acceldev import Acceldev
from softcard.host.fletcher.platform import Platform
from softcard.host.hsa.gpu import Gpu
from softcard.host.refsi.driver import RefSiDriver
from softcard.host.refsi.refsi import RefSi


def test_refsi() -> None:
    with RefSi.open(engine="reference") as device:
        assert repr(device) == "<RefSi m, profile spec, open>"
    assert repr(device) == "<RefSi closed>"
    with RefSiDriver.open("g", profile="refsidrv") as driver:
        assert repr(driver) == "<RefSiDriver g, profile refsidrv, open>"


def test_refsi_device() -> None:
    device = RefSiDevice(engine="reference")
    assert repr(device) == "<RefSiDevice M1, profile spec, engine reference>"
    data = CommandBuffer().finish().to_bytes()
    device.write(0x6000_0000, data)
    device.submit(0x6000_0000, len(data))
    assert repr(device) == "<RefSiDevice M1, profile spec, engine reference, 1 buffer waiting>"
    assert repr(device).endswith("1 buffer waiting>"), "it is not run by looking"
    device.wait()
    assert repr(device) == "<RefSiDevice M1, profile spec, engine reference>"
    assert repr(RefSiDevice("g", profile="refsidrv")) == "<RefSiDevice G1, profile refsidrv, engine jit>"


def test_acceldev() -> None:
    with Acceldev.open() as device:
        assert repr(device) == "<Acceldev open, 0 contexts>"
        with device.open_context():
            assert repr(device) == "<Acceldev open, 1 context>"
    assert repr(device) == "<Acceldev closed, 0 contexts>"
    bare = AcceldevDevice(execution="threaded", engine="reference")
    assert repr(bare) == "<AcceldevDevice threaded, engine reference, open>"
    bare.close()
    assert repr(bare) == "<AcceldevDevice threaded, engine reference, closed>"


def test_gpu_and_its_signals() -> None:
    with Gpu.open("gfx803", engine="reference") as gpu:
        assert repr(gpu) == "<Gpu gfx803, synchronous, engine reference, 0 queues>"
        queue = gpu.queue()
        assert repr(gpu) == "<Gpu gfx803, synchronous, engine reference, 1 queue>"
        signal = gpu.signal(-3)
        assert repr(signal) == f"<signal at {signal.address:#x}: -3>"
        assert repr(queue.doorbell) == f"<signal at {queue.doorbell.address:#x}: kind {queue.doorbell.kind}>"
        assert queue.doorbell.kind < 0
        gpu.device.destroy_signal(signal)
        assert repr(signal) == f"<signal at {signal.address:#x}: gone>"
    assert repr(gpu) == "<Gpu gfx803, synchronous, engine reference, closed>"
    with HsaDevice("gfx900") as device:
        assert repr(device) == "<HsaDevice gfx900, synchronous, engine jit, 0 queues>"


def test_fletcher() -> None:
    kernel = find("sum")
    device = FletcherDevice(kernel.map(), kernel, profile="hardware")
    assert repr(device) == "<FletcherDevice kernel sum, profile hardware, idle>"
    platform = Platform(device)
    assert repr(platform) == f"<Platform {platform.name()}, not open>"
    with platform:
        assert repr(platform) == f"<Platform {platform.name()}, open>"
