"""The classes of a Fletcher design's register map, which `build.fletcher_map` makes.

All addresses are byte addresses on the bus, including the map's `offset`. The Fletcher specification uses
other units: its text counts registers of four bytes, its tables count bytes. A host program counts registers
from the map's start (`register_index`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Literal, TypeVar

import pyarrow as pa

from softcard.core.display import RichDisplay, Rows, some
from softcard.core.errors import WireError
from softcard.device.fletcher.map.flatten import BufferKind
from softcard.device.fletcher.map.registers import CONTROL, REGISTER_BYTES, RESULT, STATUS

Behaviour = Literal["strobe", "status", "control"]
Profile = Literal["fletchgen", "runtime", "spec"]


class Mode(Enum):
    """The kernel's use of a RecordBatch, as its schema's ``fletcher_mode`` declares it."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class BufferSlot:
    """The 64-bit register for the address of one Arrow buffer.

    `batch` is an index of `FletcherMap.batches`. `path` has the names of the field and of nested struct members;
    list items have no name in it. `node` has the indices of the field and of its nested children, including list
    items, so that (`node`, `kind`) is unique in a batch. `address` is the byte address of the register's low
    half."""

    batch: int
    path: tuple[str, ...]
    kind: BufferKind
    name: str
    address: int
    node: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """The registers of one RecordBatch: its buffers in register order, and its index range registers.

    `first_index` and `last_index` (exclusive) are the byte addresses of 32-bit registers.
    """

    name: str
    mode: Mode
    schema: pa.Schema
    buffers: tuple[BufferSlot, ...]
    first_index: int
    last_index: int


@dataclass(frozen=True, slots=True)
class CustomRegister:
    """A custom register of the kernel.

    `behaviour` is c for a control register, which the host writes, or s for a status register, which the kernel writes.
    `width` is in bits. `init` is the value that a simulation writes before it starts; hardware starts with 0.
    """

    name: str
    width: int
    behaviour: Literal["c", "s"]
    init: int | None
    address: int


@dataclass(frozen=True, slots=True)
class ProfileStream:
    """A profiled stream: six 32-bit counters from byte address `address`, in the order of `PROFILE_COUNTERS`.

    `name` is for instance ``Profile_P_s_chars_1``; `path` has the names of the nested fields; `batch` is an index of
    `FletcherMap.batches`. `node` identifies the array whose elements the stream carries; the characters of a string
    count as its child 0.
    """

    batch: int
    name: str
    address: int
    path: tuple[str, ...]
    node: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MmioField:
    """A named range of bits of a register.

    `lsb` is its lowest bit in the bus word that contains byte `address`. If the field does not fit into this
    word, it continues in the next words. On a 32-bit bus, the field's bit 0 is bit `lsb` of the register at
    `address`. On a 64-bit bus, a field at address 4 has `lsb` 32."""

    name: str
    address: int
    lsb: int
    width: int
    behaviour: Behaviour
    doc: str


@dataclass(frozen=True)
class FletcherMap(RichDisplay):
    """The register map of a design. It occupies `size_bytes` bytes, from `offset` to the end of the last register.

    `buffers` are the buffer registers of all RecordBatches, in register order. `profile_enable` and
    `profile_clear` are None only in profile `spec` if no field is profiled."""

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
        """The byte address of the control register, which has the bits start, stop and reset."""
        return self.offset + CONTROL

    @property
    def status(self) -> int:
        """The byte address of the status register, which has the bits idle, busy and done."""
        return self.offset + STATUS

    @property
    def result(self) -> int:
        """The byte address of the 64-bit return value."""
        return self.offset + RESULT

    def register_index(self, address: int) -> int:
        """Return the index by which a host program accesses the 32-bit register at byte address `address`."""
        return (address - self.offset) // REGISTER_BYTES

    def batch(self, name: str) -> BatchLayout:
        """Return the RecordBatch called `name`; raise `WireError` for an unknown name."""
        return _named(self.batches, name, "RecordBatch")

    def custom(self, name: str) -> CustomRegister:
        """Return the custom register called `name`; raise `WireError` for an unknown name."""
        return _named(self.customs, name, "custom register")

    @cached_property
    def by_name(self) -> dict[str, MmioField]:
        """The fields by name."""
        return {field.name: field for field in self.fields}


_Named = TypeVar("_Named", BatchLayout, CustomRegister)


def _named(items: Sequence[_Named], name: str, what: str) -> _Named:
    for item in items:
        if item.name == name:
            return item
    known = " ".join(item.name for item in items) or "none"
    raise WireError(f"the register map has no {what} {name} (it has: {known})")
