"""What is where in the register map of one Fletcher design: the records that `build.fletcher_map` makes.

All addresses are byte addresses on the bus, the map's `offset` included. The document counts registers of four bytes,
and prints byte addresses; a host program counts registers from the map's start (`register_index`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Literal, TypeVar

import pyarrow as pa

from understudy.core.errors import WireError
from understudy.core.shown import Rows, Shown, some
from understudy.device.fletcher.map.flatten import BufferKind
from understudy.device.fletcher.map.registers import CONTROL, REGISTER_BYTES, RESULT, STATUS

Behaviour = Literal["strobe", "status", "control"]
Profile = Literal["fletchgen", "runtime", "spec"]


class Mode(Enum):
    """What the kernel does with a RecordBatch: ``fletcher_mode`` of its schema."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class BufferSlot:
    """The 64-bit register that takes the address of one Arrow buffer.

    `batch` indexes `FletcherMap.batches`. `path` holds the names of the field and of struct members on the way down; a
    list adds nothing. `node` holds the indices on the way down, list items included (the first one is the field), so
    that (`node`, `kind`) is unique in a batch. `address` is the byte address of the low half.
    """

    batch: int
    path: tuple[str, ...]
    kind: BufferKind
    name: str
    address: int
    node: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """One RecordBatch: its buffers in the order of their registers, and its index range registers.

    `first_index` and `last_index` (exclusive) are byte addresses of 32-bit registers.
    """

    name: str
    mode: Mode
    schema: pa.Schema
    buffers: tuple[BufferSlot, ...]
    first_index: int
    last_index: int


@dataclass(frozen=True, slots=True)
class CustomRegister:
    """A register of the kernel's own: `behaviour` c (control) is written by the host, s (status) by the kernel.

    `width` is in bits. `init` is what a simulation would write before it starts; hardware starts with 0.
    """

    name: str
    width: int
    behaviour: Literal["c", "s"]
    init: int | None
    address: int


@dataclass(frozen=True, slots=True)
class ProfileStream:
    """A profiled stream: six 32-bit counters from byte address `address` on, in the order of `PROFILE_COUNTERS`.

    `name` is ``Profile_P_s_chars_1``; `path` the names on the way down; `batch` indexes `FletcherMap.batches`. `node`
    is that of the array whose elements the stream carries; the characters of a string count as its child 0.
    """

    batch: int
    name: str
    address: int
    path: tuple[str, ...]
    node: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MmioField:
    """A named run of bits. `lsb` counts in the bus word that holds byte `address`; a wide field goes on behind it.

    So on a 32-bit bus the field's bit 0 is bit `lsb` of the register at `address`; on a 64-bit bus a field at address
    4 has `lsb` 32.
    """

    name: str
    address: int
    lsb: int
    width: int
    behaviour: Behaviour
    doc: str


@dataclass(frozen=True)
class FletcherMap(Shown):
    """The register map of a design. `size_bytes` is the number of bytes from `offset` to the end of the last register.

    `buffers` are those of all batches in register order. `profile_enable` and `profile_clear` are None only in
    profile `spec` where nothing is profiled.
    """

    profile: Profile
    bus_width: int
    offset: int
    batches: tuple[BatchLayout, ...]
    buffers: tuple[BufferSlot, ...]
    customs: tuple[CustomRegister, ...]
    profile_enable: int | None
    profile_clear: int | None
    streams: tuple[ProfileStream, ...]
    fields: tuple[MmioField, ...]
    size_bytes: int

    def __repr__(self) -> str:
        names = some(batch.name for batch in self.batches)
        return f"<register map of {names}: {self.size_bytes} bytes, profile {self.profile}>"

    def _rows(self) -> Rows:
        yield "byte", "bits", "behaviour", "register"
        for each in self.fields:
            yield f"{each.address:#x}", f"{each.lsb + each.width - 1}:{each.lsb}", each.behaviour, each.name

    @property
    def control(self) -> int:
        """Byte address of start, stop and reset."""
        return self.offset + CONTROL

    @property
    def status(self) -> int:
        """Byte address of idle, busy and done."""
        return self.offset + STATUS

    @property
    def result(self) -> int:
        """Byte address of the 64-bit return value."""
        return self.offset + RESULT

    def register_index(self, address: int) -> int:
        """The index a host program uses for the 32-bit register at byte address `address`."""
        return (address - self.offset) // REGISTER_BYTES

    def batch(self, name: str) -> BatchLayout:
        """The RecordBatch called `name`; `WireError` if there is none."""
        return _named(self.batches, name, "RecordBatch")

    def custom(self, name: str) -> CustomRegister:
        """The custom register called `name`; `WireError` if there is none."""
        return _named(self.customs, name, "custom register")

    @cached_property
    def by_name(self) -> dict[str, MmioField]:
        """Every field by its name."""
        return {field.name: field for field in self.fields}


_Named = TypeVar("_Named", BatchLayout, CustomRegister)


def _named(items: Sequence[_Named], name: str, what: str) -> _Named:
    for item in items:
        if item.name == name:
            return item
    known = " ".join(item.name for item in items) or "none"
    raise WireError(f"the map has no {what} {name} (it has: {known})")
