"""What the tests of the Fletcher device share: maps of the vectors, kernels to try things with, a device and a host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from softcard.core.event import Event
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.events import Lint
from softcard.device.fletcher.job import Job
from softcard.device.fletcher.kernel import Kernel, kernel
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.map.layout import FletcherMap
from softcard.image.arrow_schema import read_schema

VECTORS = Path(__file__).parents[2] / "vectors" / "fletcher"
REGS = ("c:16:cat", "s:64:dog", "s:32:fish")
IDLE, BUSY, DONE = 1, 2, 4
START, STOP, RESET = 1, 2, 4


def vector_map(name: str, **options: Any) -> FletcherMap:
    """The map of the schema files of a vector."""
    files = sorted(VECTORS.glob(f"{name}.?.as"))
    return fletcher_map([read_schema(file.read_bytes()) for file in files], **options)


@kernel("Sum", read={"ExampleBatch": [("number", pa.int64())]})
def add_up(job: Job) -> int:
    return int(pc.sum(job.batch()["number"]).as_py())


@kernel("Slow", read={"ExampleBatch": [("number", pa.int64())]}, custom=["c:8:step", "s:32:slices", "s:16:last"])
def slow(job: Job) -> Iterator[None]:
    """Adds up `step` rows in each slice, and multiplies nothing by anything."""
    for count, part in enumerate(job.slices(rows=job.control("step")), 1):
        job.result += pc.sum(part["number"]).as_py()
        job.set_status("slices", count)
        job.set_status("last", part["number"][-1].as_py())
        yield


class Rig:
    """A device with rows 1, 2, 3, ... for its kernel, as a host puts them there."""

    def __init__(self, program: Kernel = add_up, rows: int = 4, **settings: Any) -> None:
        self.device = FletcherDevice(program.map(), program, **settings)
        self.map = self.device.map
        self.events: list[Event] = []
        self.device.probes.subscribe(self.events.append)
        if program.schemas:
            batch = self.map.batches[0]
            self.address = self.device.memory.adopt(np.arange(1, rows + 1, dtype=np.int64))
            self.device.write(batch.first_index, 0)
            self.device.write(batch.last_index, rows)
            self.write64(batch.buffers[0].address, self.address)
        self.events.clear()

    @property
    def lints(self) -> list[str]:
        return [event.check for event in self.events if isinstance(event, Lint)]

    @property
    def status(self) -> int:
        return self.device.read(self.map.status).value

    @property
    def result(self) -> int:
        low = self.device.read(self.map.result).value
        return self.device.read(self.map.result + 4).value << 32 | low

    def write64(self, address: int, value: int) -> None:
        self.device.write(address, value & 0xFFFF_FFFF)
        self.device.write(address + 4, value >> 32)

    def control(self, bits: int) -> None:
        self.device.write(self.map.control, bits)

    def set(self, name: str, value: int) -> None:
        self.device.write(self.map.by_name[name].address, value)

    def get(self, name: str) -> int:
        return self.device.read(self.map.by_name[name].address).value

    def named(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]
