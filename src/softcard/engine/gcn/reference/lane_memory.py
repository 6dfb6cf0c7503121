"""The memory accesses of the reference engine: gathers and scatters in global and private memory, LDS and GDS.

If all lanes' addresses lie in one mapping of plain memory, one NumPy operation makes the access. Otherwise lanes access
`GpuMemory` one after the other, the lowest first. If a store faults for any lane, memory is unchanged.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import AccessFault, ModelBug
from softcard.engine.gcn.memory import GpuMemory, Plain, plain
from softcard.engine.gcn.reference.lane_integer import Array, Value, any_lane, lanes_of
from softcard.isa.gcn.semantics.pointer import pointer_of
from softcard.isa.gcn.state import (
    FLAT_AT,
    FLAT_BASE,
    FLAT_FORM,
    FORM_ADDRESS,
    FORM_NONE,
    FULL,
    LANES,
    LDS_BASE,
    LDS_NOTE,
    LDS_SIZE,
    MODE,
    NOTE_SIZE,
    NOTE_STORE,
    PRIVATE_BASE,
    SCRATCH_AT,
    SCRATCH_SIZE,
    SGPR_AT,
    SHARED_BASE,
    Mode,
    Wave,
)

Indices = npt.NDArray[np.int64]
Rows = list[Array]
"""The type of an access's data: for each dword, a uint32 array over the accessing lanes."""

ARANGE: Final = tuple(np.arange(n, dtype=np.int64) for n in range(65))
ALL_LANES: Final[Indices] = np.arange(LANES)
LIMIT: Final = (1 << 32) - 1
"""The distance from an aperture's base to its last byte."""
ADDRESSES: Final = (1 << 48) - 1
"""The mask of the significant bits of an address."""
ROW: Final = 4 * LANES
"""The distance in bytes between consecutive dwords of one lane in private memory.

The dwords of the 64 lanes are interleaved there.
"""
_masks: dict[int, Array] = {}
_indices: dict[int, Indices] = {}
_CACHED_INDICES: Final = 4096


def mask_of(bits: int) -> Array:
    """Return 64 bits as a mask of 64 lanes; read-only, because it is shared."""
    found = _masks.get(bits)
    if found is None:
        if len(_masks) >= _CACHED_INDICES:
            _masks.clear()
        data = np.frombuffer(bits.to_bytes(8, "little"), np.uint8)
        found = np.unpackbits(data, bitorder="little").view(np.bool_)
        found.setflags(write=False)
        _masks[bits] = found
    return found


def bits_of(mask: Array) -> int:
    """Return a lane mask as 64 bits."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


class Current:
    """The context of an instruction: the wave, its `words` and scalar registers, and the active lanes.

    `group` has the coordinates of the wave's work-group, if they were set.
    """

    wave: Wave
    words: Any
    sgpr: memoryview
    group: tuple[int, int, int] = (0, 0, 0)

    def __init__(self) -> None:
        self.exec_bits = FULL
        self.exec = mask_of(FULL)

    @property
    def mode(self) -> Mode:
        """The MODE register, decoded."""
        return Mode.decode(self.words[MODE])

    def lanes_where(self, where: Value | None) -> Indices:
        """Return the numbers of the lanes that are set in EXEC and in `where`, in order."""
        bits = self.exec_bits
        if where is not None:
            if type(where) is not int:
                return np.flatnonzero(where & self.exec)
            if not where:
                bits = 0
        if bits == FULL:
            return ALL_LANES
        found = _indices.get(bits)
        if found is None:
            if len(_indices) >= _CACHED_INDICES:
                _indices.clear()
            found = _indices[bits] = np.flatnonzero(mask_of(bits))
        return found


class LaneMemory:
    """The loads and stores of `isa.gcn.algebra.WaveAlgebra`, for the wave and the lanes that `current` names."""

    def __init__(
        self, memory: GpuMemory, gds: npt.NDArray[np.uint8] | None = None, current: Current | None = None
    ) -> None:
        self.memory = memory
        self.current = Current() if current is None else current
        self._gds = shared(0 if gds is None else int(gds.ctypes.data), 0 if gds is None else gds.size, "GDS")
        self._lds = self._gds
        self._lds_key = (0, 0)

    def load(self, space: str, bits: int, address: Value, where: Value | None = None) -> list[Value]:
        """Load per-lane values: one value of up to 32 bits, or several dwords."""
        lanes, size = self.current.lanes_where(where), bits >> 3
        addresses = self._addresses(space, address, lanes)
        parts = self._spaces(space, addresses)
        if lanes is ALL_LANES and len(parts) == 1:
            return self._read(parts[0][0], size, addresses, lanes)
        result = [np.zeros(LANES, np.uint32) for _ in range(max(size >> 2, 1))]
        for part, chosen in parts:
            owners = lanes if chosen is None else lanes[chosen]
            rows = self._read(part, size, addresses if chosen is None else addresses[chosen], owners)
            for row, values in zip(result, rows, strict=True):
                row[owners] = values
        return result

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Store per-lane values."""
        lanes, size = self.current.lanes_where(where), bits >> 3
        addresses = self._addresses(space, address, lanes)
        rows = [lanes_of(32, v) if type(v) is int else v for v in values]
        data = rows if lanes is ALL_LANES else [row[lanes] for row in rows]
        parts = self._spaces(space, addresses)
        if len(parts) == 1:
            self._write(parts[0][0], size, addresses, lanes, data)
            return
        for part, chosen in parts:
            self._check_write(part, size, addresses[chosen], lanes[chosen])
        for part, chosen in parts:
            self._write(part, size, addresses[chosen], lanes[chosen], [row[chosen] for row in data])

    def _addresses(self, space: str, address: Value, lanes: Indices) -> Array:
        """Return the addresses of `lanes`: unsigned 64-bit addresses, or signed offsets in LDS and GDS."""
        w = 32 if space in ("lds", "gds") else 64
        every: Array = lanes_of(w, address) if type(address) is int else address
        chosen: Array = every if lanes is ALL_LANES else every[lanes]
        return chosen.astype(np.int64) if w == 32 else chosen

    def _spaces(self, space: str, addresses: Array) -> list[tuple[str, Any]]:
        """Split addresses by address space, and return each space with the indices of its addresses.

        The indices are None if all addresses are in one space.
        """
        if not len(addresses):
            return []
        if space != "flat":
            return [(space, None)]
        high = addresses >> lanes_of(64, 32)[: len(addresses)]
        shared = high == np.uint64(self.current.words[SHARED_BASE] >> 32)
        private = high == np.uint64(self.current.words[PRIVATE_BASE] >> 32)
        if not (any_lane(shared) or any_lane(private)):
            return [("global", None)]
        parts = (("shared", shared), ("private", private), ("global", ~(shared | private)))
        found = [(name, np.flatnonzero(chosen)) for name, chosen in parts if any_lane(chosen)]
        return found if len(found) > 1 else [(found[0][0], None)]

    def _read(self, space: str, size: int, addresses: Array, lanes: Indices) -> Rows:
        if space == "global":
            return self._gather(size, addresses, lanes)
        if space == "private":
            return self._private(size, addresses, lanes, "read", None)
        share, at = self._share_at(space, addresses)
        outside = at > share.end - size
        if not any_lane(outside):
            return _take(share, at, size)
        self._note_beyond(space, at, outside, size)
        inside = np.flatnonzero(~outside)
        result = [np.zeros(len(at), np.uint32) for _ in range(max(size >> 2, 1))]
        if len(inside):
            for row, values in zip(result, _take(share, at[inside], size), strict=True):
                row[inside] = values
        return result

    def _write(self, space: str, size: int, addresses: Array, lanes: Indices, data: Rows) -> None:
        if space == "global":
            self._scatter(size, addresses, lanes, data)
        elif space == "private":
            self._private(size, addresses, lanes, "write", data)
        else:
            share, at = self._share_at(space, addresses)
            outside = at > share.end - size
            if any_lane(outside):
                self._note_beyond(space, at, outside, size, is_store=True)
                inside = np.flatnonzero(~outside)
                at, data = at[inside], [row[inside] for row in data]
            if len(at):
                _put(share, at, size, data)

    def _check_write(self, space: str, size: int, addresses: Array, lanes: Indices) -> None:
        if space == "global":
            for lane, address in zip(lanes.tolist(), addresses.tolist(), strict=True):
                self._lane(lane, self.memory.check, address, size, "write")
        elif space == "private":
            self._offsets(size, addresses, lanes, "write")

    # -- global memory

    def _reach(self, size: int, addresses: Array, store: bool) -> tuple[Plain, Array] | None:
        """Return the plain memory that contains all addresses, and their offsets in it.

        Return None if the addresses do not lie in one mapping of plain memory, or if it rejects a store.
        """
        found = self.memory.plain(int(addresses[0]), size, store)
        if found is None:
            return None
        at = addresses - np.uint64(found.base)
        if any_lane(at > np.uint64(found.end - found.base - size)):
            return None
        return found, at.view(np.int64)

    def _gather(self, size: int, addresses: Array, lanes: Indices) -> Rows:
        reached = self._reach(size, addresses, False)
        if reached is not None:
            return _take(*reached, size)
        read = self.memory.read
        parts = [self._lane(n, read, a, size) for n, a in zip(lanes.tolist(), addresses.tolist(), strict=True)]
        return dwords_of_bytes(np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), size))

    def _scatter(self, size: int, addresses: Array, lanes: Indices, data: Rows) -> None:
        reached = self._reach(size, addresses, True)
        if reached is not None:
            _put(*reached, size, data)
            return
        self._check_write("global", size, addresses, lanes)
        for row, lane, address in zip(bytes_of_rows(data, size), lanes.tolist(), addresses.tolist(), strict=True):
            self._lane(lane, self.memory.write, address, row.tobytes())

    def _lane(self, lane: int, access: Callable[..., Any], *arguments: Any) -> Any:
        """Perform the access of one lane. If it raises a fault, add the lane's number to the fault."""
        try:
            return access(*arguments)
        except AccessFault as fault:
            raise fault.at("lane", lane) from None

    # -- private memory

    def _private_memory(self) -> tuple[int, int]:
        """Return the address of the wave's private memory and the number of its bytes for each lane.

        If the waves use FLAT_SCRATCH, the address comes from that register."""
        words = self.current.words
        form, size = words[FLAT_FORM], words[SCRATCH_SIZE]
        if form == FORM_NONE:
            return words[SCRATCH_AT], size
        low = words[FLAT_AT] - SGPR_AT >> 2
        first, second = self.current.sgpr[low], self.current.sgpr[low + 1]
        if form == FORM_ADDRESS:
            return (first | second << 32) & ADDRESSES, size
        return words[FLAT_BASE] + (second << 8) & ADDRESSES, min(first, size)

    def _offsets(self, size: int, addresses: Array, lanes: Indices, access: str) -> Array:
        """Return the addresses of lanes in the private aperture as offsets into the private memory of each lane.

        Raise a fault for the first lane whose access exceeds its private memory."""
        offsets, limit = (addresses & np.uint64(LIMIT)).astype(np.int64), self._private_memory()[1]
        said = " (from FLAT_SCRATCH)" if limit < self.current.words[SCRATCH_SIZE] else ""
        outside = offsets + size > limit
        if any_lane(outside):
            first = int(np.flatnonzero(outside)[0])
            address = pointer_of(self.current.mode, int(addresses[first]))
            text = (
                f"{access} of {size} bytes at {address:#x} is out of bounds: a lane has {limit:#x} bytes of private "
                f"memory{said}"
            )
            raise AccessFault(text, address=address, access=access).at("lane", int(lanes[first]))
        return offsets

    def _private(self, size: int, addresses: Array, lanes: Indices, access: str, data: Rows | None) -> Rows:
        """Read private memory, or write `data` to it if that is not None; return the rows of dwords read."""
        offsets = self._offsets(size, addresses, lanes, access)
        try:
            return self._swizzled(size, offsets, lanes, data)
        except AccessFault as fault:
            where = "the wave's own" if self.current.words[FLAT_FORM] == FORM_NONE else "where FLAT_SCRATCH says"
            raise fault.at("private memory", where) from None

    def _swizzled(self, size: int, offsets: Array, lanes: Indices, data: Rows | None) -> Rows:
        unit = 4 if size >= 4 and not int(np.bitwise_or.reduce(offsets)) & 3 else 1
        count = size // unit
        at = offsets[:, None] + unit * ARANGE[count]
        guest = self._private_memory()[0] + (at >> 2) * ROW + 4 * lanes[:, None] + (at & 3)
        flat, owners = guest.reshape(-1).astype(np.uint64), np.repeat(lanes, count)
        if data is None:
            units = self._gather(unit, flat, owners)[0].reshape(len(lanes), count)
            return list(np.ascontiguousarray(units.T)) if unit == 4 else dwords_of_bytes(units.astype(np.uint8))
        rows = np.stack(data, axis=1) if unit == 4 else bytes_of_rows(data, size).astype(np.uint32)
        self._scatter(unit, flat, owners, [np.ascontiguousarray(rows).reshape(-1)])
        return data

    # -- LDS and GDS

    def _share_at(self, space: str, addresses: Array) -> tuple[Plain, Array]:
        """Return LDS or GDS as plain memory, and the offsets of the addresses in it."""
        if space == "shared":
            return self._local(), (addresses & np.uint64(LIMIT)).astype(np.int64)
        if space == "lds":
            return self._local(), addresses
        if space == "gds":
            return self._gds, addresses
        raise ModelBug(f"unknown address space {space!r}")

    def _note_beyond(self, space: str, at: Array, outside: Array, size: int, *, is_store: bool = False) -> None:
        """Record an access past the end of LDS by one of the lanes that `outside` selects."""
        if space != "gds":
            note_beyond(self.current.words, int(at[int(np.flatnonzero(outside)[0])]), size, is_store=is_store)

    def _local(self) -> Plain:
        key = (self.current.words[LDS_BASE], self.current.words[LDS_SIZE])
        if key != self._lds_key:
            self._lds, self._lds_key = shared(*key, "LDS"), key
        return self._lds

    # -- scalar memory

    def scalar_load(self, dwords: int, address: int, where: int | None = None) -> list[int]:
        """Load dwords from a guest address, whose two low bits are ignored; return zeros if `where` is 0."""
        if where == 0:
            return [0] * dwords
        data = self.memory.read(address & ~3, 4 * dwords)
        return [int.from_bytes(data[k : k + 4], "little") for k in range(0, 4 * dwords, 4)]

    def scalar_store(self, address: int, values: Sequence[int], where: int | None = None) -> None:
        """Store dwords to a guest address, whose two low bits are ignored; do nothing if `where` is 0."""
        if where == 0:
            return
        self.memory.write(address & ~3, b"".join(v.to_bytes(4, "little") for v in values))

    def aperture(self, which: str) -> int:
        """Return the base or the last byte of a flat aperture, as `which` selects.

        The result is a pointer in the representation of the engines, see `isa.gcn.pointer`."""
        name, _, limit = which.partition("_")
        if name not in ("shared", "private") or limit not in ("", "limit"):
            raise ModelBug(f"unknown aperture {which!r}")
        return int(self.current.words[SHARED_BASE if name == "shared" else PRIVATE_BASE]) | (LIMIT if limit else 0)


def note_beyond(words: Any, offset: int, size: int, *, is_store: bool) -> None:
    """Record an access past the end of LDS in the word LDS_NOTE, if the launch provides this word."""
    cell = int(words[LDS_NOTE])
    if cell:
        ctypes.c_uint64.from_address(cell).value = offset & LIMIT | size << NOTE_SIZE | is_store << NOTE_STORE


def shared(base: int, size: int, name: str) -> Plain:
    """Return LDS or GDS, given by its host address `base`, as plain memory at address 0."""
    if not (base and size):
        return plain(0, np.zeros(0, np.uint8), name=name)
    return plain(0, np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(base)), np.uint8), name=name)


def dwords_of_bytes(bytes_: npt.NDArray[np.uint8]) -> Rows:
    """Return an array uint8[lanes, size] as rows of dwords; sizes below 4 are zero-extended."""
    size = bytes_.shape[1]
    if size == 1:
        return [bytes_[:, 0].astype(np.uint32)]
    if size == 2:
        return [bytes_.view(np.uint16)[:, 0].astype(np.uint32)]
    return list(np.ascontiguousarray(bytes_.view(np.uint32).T))


def bytes_of_rows(data: Rows, size: int) -> npt.NDArray[np.uint8]:
    """Return rows of dwords as an array uint8[lanes, size]."""
    stacked: Array = np.stack(data, axis=1)
    return stacked.view(np.uint8)[:, :size]


def _take(memory: Plain, at: Array, size: int) -> Rows:
    """Load `size` bytes per lane from offsets that lie inside the memory."""
    if size >= 4 and not int(np.bitwise_or.reduce(at)) & 3:
        index = at >> 2
        return [memory.words.take(index + k if k else index) for k in range(size >> 2)]
    return dwords_of_bytes(memory.bytes[at[:, None] + ARANGE[size]])


def _put(memory: Plain, at: Array, size: int, data: Rows) -> None:
    """Store data at offsets that lie inside the memory.

    Where lanes overlap, the value of the highest lane remains.
    """
    if size < 4 or int(np.bitwise_or.reduce(at)) & 3:
        memory.bytes[at[:, None] + ARANGE[size]] = bytes_of_rows(data, size)
    elif size == 4:
        memory.words[at >> 2] = data[0]
    else:
        memory.words[(at >> 2)[:, None] + ARANGE[size >> 2]] = np.stack(data, axis=1)
