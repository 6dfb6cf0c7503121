"""Launches: sizes and options, files without code, what there is to wait for when the device is closed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import RuleError, WireError
from softcard.device.hsa.queues.packets import BarrierPacket
from softcard.host.hsa.gpu import Gpu, demo_code

VECTORS = Path(__file__).parents[2] / "vectors" / "hsa-inspect"


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    with Gpu.open("gfx900", threads=1) as opened:
        yield opened


def test_sizes_of_numpy(gpu: Gpu) -> None:
    x, y = gpu.array(np.ones(64, np.float32)), gpu.zeros(64)
    gpu.run(demo_code(), "saxpy", np.int64(64), np.uint8(32), [1, x, y])
    gpu.run(demo_code(), "saxpy", np.array([64, 1]), (np.int32(32), 1), [1, x, y], offset=np.int64(0))
    assert y[63] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offset": (1, 2, 3, 4)}, r"offset \(1, 2, 3, 4\) has 4 dimensions, expected 1 to 3"),
        ({"offset": -1}, r"offset is \(-1,\), expected sizes of 0 or more"),
        ({"group_bytes": -5}, "group_bytes is -5, expected 0 or more"),
        ({"stack_bytes": -5}, "stack_bytes is -5, expected 0 or more"),
    ],
)
def test_options_that_cannot_be(gpu: Gpu, options: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError, match=message):
        gpu.run(demo_code(), "saxpy", 64, args=[1, gpu.zeros(64), gpu.zeros(64)], **options)


@pytest.mark.parametrize("execution", ["synchronous", "threaded", "manual"])
def test_launches_and_close(execution: str) -> None:
    """A launch after close is refused; one that is left then does not let anybody wait for ever."""
    gpu = Gpu.open("gfx900", threads=1, execution=execution)
    kernel, queue, gate, x = gpu.load(demo_code()).kernel("saxpy"), gpu.queue(4), gpu.signal(1), gpu.zeros(64)
    queue.submit(BarrierPacket(dep_signal=(gate.address, 0, 0, 0, 0)).pack())
    launch = gpu.dispatch(kernel, 64, args=[1, x, x], queue=queue)
    gpu.close()
    with pytest.raises(RuleError, match="the device was closed, at kernel saxpy"):
        launch.wait()
    with pytest.raises(RuleError, match="the device was closed"):
        gpu.run(demo_code(), "saxpy", 64, args=[1, x, x])
    with pytest.raises(RuleError, match="the device was closed"):
        gpu.dispatch(kernel, 64, args=[1, x, x], queue=queue)


def allocations(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the blocks that are allocated from now on."""
    made, allocate = [], gpu.device.allocate

    def noted(size: int, *given: Any, name: str = "", **more: Any) -> int:
        made.append(name)
        return allocate(size, *given, name=name, **more)

    monkeypatch.setattr(gpu.device, "allocate", noted)
    return made


def test_run_uses_the_memory_of_the_launch_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with Gpu.open("gfx900") as gpu:
        x, y, code = gpu.array(np.arange(64, dtype=np.float32)), gpu.zeros(64), gpu.load(demo_code())
        made = allocations(gpu, monkeypatch)
        for number in range(5):
            gpu.run(code, "saxpy", 64, args=[float(number), x, y])
        assert made.count("kernel arguments") == 1
        assert (y == x * sum(range(5))).all()
        state = gpu.snapshot()
        gpu.run(code, "saxpy", 64, args=[1.0, x, y])
        gpu.restore(state)
        gpu.run(code, "saxpy", 64, args=[2.0, x, y])
        assert (y == x * 12).all()
        assert made.count("kernel arguments") == 3
        gpu.dispatch(code.kernel("saxpy"), 64, args=[1.0, x, y]).wait()  # its signal belongs to the caller
        assert made.count("kernel arguments") == 4


def test_checks_get_memory_of_its_own_for_each_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    with Gpu.open("gfx900", check="memory") as gpu:
        x, y, code = gpu.array(np.arange(64, dtype=np.float32)), gpu.zeros(64), gpu.load(demo_code())
        made = allocations(gpu, monkeypatch)
        for _ in range(3):
            gpu.run(code, "saxpy", 64, args=[1.0, x, y])
        assert made.count("kernel arguments") == 3


def test_memory_behind_the_arguments_of_a_launch_is_zero() -> None:
    """A shorter kernarg segment in the memory of a longer one leaves nothing of it."""
    with Gpu.open("gfx900") as gpu:
        x, y, code = gpu.array(np.arange(64, dtype=np.float32)), gpu.zeros(64), gpu.load(demo_code())
        arguments = struct.pack("<fxxxxQQ", 1, gpu.address(x), gpu.address(y)).ljust(256, b"\0")
        gpu.run(code, "saxpy", 64, args=arguments.ljust(512, b"\xff"))
        (room,) = gpu._launch_memory
        gpu.run(code, "saxpy", 64, args=[1.0, x, y])
        assert gpu._launch_memory == [room]
        assert not any(gpu.device.memory.read(room.signal.address + 448, 64))


def test_files_of_debug_information_only(gpu: Gpu) -> None:
    """As ``llvm-objcopy --only-keep-debug`` leaves them: sections of code have no bytes in the file."""
    data = bytearray((VECTORS / "v4.co").read_bytes())
    sections, count = struct.unpack_from("<Q", data, 0x28)[0], struct.unpack_from("<H", data, 0x3C)[0]
    for number in range(count):
        kind, flags = struct.unpack_from("<IQ", data, sections + 64 * number + 4)
        if kind == 1 and flags & 2:
            struct.pack_into("<I", data, sections + 64 * number + 4, 8)
    text = r"section \.rodata has no bytes in the file \(does it have debug information only\?\), at kernel scale"
    with pytest.raises(RuleError, match=text):
        gpu.load(bytes(data))
