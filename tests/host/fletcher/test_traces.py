"""The host library makes the calls of the real run-time, line for line: recorded traces replayed on the device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.kernel import Kernel as VirtualKernel
from softcard.device.fletcher.kernel import named_schema
from softcard.device.fletcher.map.build import fletcher_map
from softcard.host.fletcher.platform import Context, Kernel, Platform
from tests.host.fletcher.trace import TracePort

VECTORS = Path(__file__).parents[2] / "vectors" / "fletcher"
NUMBERS = pa.record_batch([pa.array([1, -3, 3, -7])], schema=named_schema("R", [("number", pa.int64())]))
STRINGS = pa.record_batch([pa.array(["ab", "c"])], schema=named_schema("A", [("s", pa.string())]))
BYTES = pa.record_batch([pa.array([1, 2, 3], pa.uint8())], schema=named_schema("B", [("x", pa.uint8())]))
NULLS = pa.record_batch([pa.array([1, None, 3], pa.int32())], schema=named_schema("N", pa.schema([("x", pa.int32())])))

Session = Callable[[Context, Kernel], None]


def trace(batches: list[pa.RecordBatch], session: Session, *, custom: tuple[str, ...] = (), kind: str = "any") -> str:
    """The trace of a session on a kernel that returns -6, and is busy for the two looks that the recorded one was."""
    layout = fletcher_map([batch.schema for batch in batches], custom=custom)
    port = TracePort(FletcherDevice(layout, VirtualKernel("fake", lambda job: -6), latency=3))
    with Platform(port) as platform, Context(platform) as context:
        for batch in batches:
            context.queue_record_batch(batch, kind)
        context.enable()
        session(context, Kernel(context))
    return "\n".join(port.lines) + "\n"


def run(context: Context, kernel: Kernel) -> None:
    kernel.start()
    kernel.wait_for_finish()
    assert kernel.get_return("int64") == -6


def run_and_read_64_bits(context: Context, kernel: Kernel) -> None:
    run(context, kernel)
    assert context.platform.read_mmio_64(2) == 0xFFFF_FFFF_FFFF_FFFA


def reset_and_arguments(context: Context, kernel: Kernel) -> None:
    kernel.reset()
    kernel.set_range(0, 1, 3)
    kernel.set_arguments([7, 0xDEADBEEF])
    run(context, kernel)


@pytest.mark.parametrize(
    ("name", "batches", "session", "custom", "kind"),
    [
        ("sum", [NUMBERS], run_and_read_64_bits, (), "any"),
        ("args_range", [NUMBERS], reset_and_arguments, ("c:32:a", "c:32:b"), "any"),
        ("multi", [STRINGS, BYTES], run, (), "any"),
        ("nullable_nulls", [NULLS], run, (), "cache"),
    ],
)
def test_the_recorded_trace(
    name: str, batches: list[pa.RecordBatch], session: Session, custom: tuple[str, ...], kind: str
) -> None:
    assert trace(batches, session, custom=custom, kind=kind) == (VECTORS / f"trace_{name}.txt").read_text()


ALL_VALID = pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(b"\x03"), pa.py_buffer(bytes(8))])


@pytest.mark.parametrize(
    "column",
    [pa.array([1, 2], pa.int32()), ALL_VALID, pa.array([1, 2, None], pa.int32()).slice(0, 2)],
    ids=["no bitmap", "a bitmap without nulls", "nulls outside of a slice"],
)
def test_a_nullable_field_without_nulls_prepares_nothing(column: pa.Array) -> None:
    """Measured on the real run-time: the validity buffer is an allocation of no bytes."""
    batch = pa.record_batch([column], schema=NULLS.schema)
    lines = trace([batch], lambda context, kernel: kernel.start()).splitlines()
    size = column.buffers()[1].size
    assert lines[1:4] == ["Prepare host=(nil) size=0", "Malloc 0 -> 0x100000000", f"Prepare host=ptr size={size}"]


def test_runtime_sets() -> None:
    """Registers are set by the library, given RecordBatches: first and last index, then all addresses."""
    lines = trace([STRINGS, BYTES], lambda context, kernel: kernel.start()).splitlines()
    writes = [int(line.split()[1]) for line in lines if line.startswith("W")]
    assert writes == [*range(4, 14), 0, 0]


def test_the_second_start_writes_no_metadata() -> None:
    def twice(context: Context, kernel: Kernel) -> None:
        run(context, kernel)
        kernel.reset()
        kernel.set_range(0, 0, 2)
        run(context, kernel)

    lines = trace([NUMBERS], twice).splitlines()
    starts = [number for number, line in enumerate(lines) if line == "W    0 (byte 0x000) <= 0x00000001"]
    assert lines[starts[1] - 1] == "W    5 (byte 0x014) <= 0x00000002"


def test_stop_is_a_bit_and_0() -> None:
    def start_and_stop(context: Context, kernel: Kernel) -> None:
        kernel.start()
        kernel.stop()

    lines = trace([NUMBERS], start_and_stop).splitlines()
    assert lines[-4:-2] == ["W    0 (byte 0x000) <= 0x00000002", "W    0 (byte 0x000) <= 0x00000000"]
