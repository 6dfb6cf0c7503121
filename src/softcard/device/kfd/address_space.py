"""The memory of one process as one agent accesses it: its mappings, and accesses of SDMA packets and PM4 commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from softcard.core.allocations import Allocations
from softcard.core.errors import AccessFault
from softcard.device.hsa.device import HsaDevice
from softcard.device.kfd.ioctls import Refused
from softcard.device.kfd.user_memory import Foreign, Piece
from softcard.engine.gcn.memory import Effects, Plain

if TYPE_CHECKING:
    from softcard.engine.gcn.hooks import ProgramShadow

USER_LIMIT: Final = 1 << 47
"""The end of the program's own addresses; apertures and the agents' own memory are above it."""


class AddressSpace:
    """The address space of one device; memory can be mapped while waves run.

    `unmapped` is called for each range that is unmapped. Its arguments are the range's first address and its end
    (exclusive)."""

    def __init__(self, device: HsaDevice, unmapped: Callable[[int, int], None] | None = None) -> None:
        self.memory = device.memory
        self.program: ProgramShadow | None = None
        """The shadow memory (definedness) of the program's device memory; None unless its check is enabled."""
        fill = device.settings.fill
        if fill:
            self.program = device.checks.program_memory(fill)
        self._unmapped = unmapped

    def map(self, address: int, pieces: Sequence[Piece], name: str, *, writable: bool) -> None:
        """Map the memory in `pieces` at `address`; raise `Refused`, without effect, if the range is not free.

        Waves and engines that store to memory which is not `writable` fault."""
        for piece in pieces:
            start, end = address + piece.start, address + piece.start + piece.size
            if start < 0 or end > USER_LIMIT:
                raise Refused(f"{name} at {start:#x}..{end:#x} must lie below {USER_LIMIT:#x}")
            for old in self.memory.between(start, end):
                raise Refused(f"{name} at {start:#x}..{end:#x} overlaps {old.name} at {old.base:#x}..{old.end:#x}")
        for piece in pieces:
            self.memory.map(address + piece.start, piece.what, writable=writable, name=name)
        if self.memory.guard is not None and pieces:
            self._note(self.memory.guard.allocations, address, address + pieces[-1].start + pieces[-1].size, name)

    def _note(self, known: Allocations, start: int, end: int, name: str) -> None:
        """Record the range from `start` to `end` as one allocation `name` in `known`, the memory check's table.

        Allocations that overlap the range are removed from the table."""
        for old in known.overlapping(start, end):
            known.forget(old.base)
        known.add(name, start, end - start)

    def unmap(self, address: int, pieces: Sequence[Piece]) -> None:
        """Unmap the `pieces` that `map` has mapped at `address`; waves that access them later fault."""
        for piece in pieces:
            self.memory.unmap(address + piece.start)
        if self._unmapped is not None and pieces:
            self._unmapped(address, address + pieces[-1].start + pieces[-1].size)
        if self.program is not None:
            self.program.freed(address)
        if self.memory.guard is not None:
            self.memory.guard.allocations.free(address)

    def replace(self, address: int, old: Sequence[Piece], new: Sequence[Piece], name: str, *, writable: bool) -> None:
        """Replace the mapping of `old` at `address` by `new`, pieces of shared memory with equal contents.

        Waves may access the memory during the call, because at every moment either `old` or `new` is mapped."""
        for piece in old:
            if not isinstance(piece.what, Foreign):
                continue
            end = piece.start + piece.size
            inside = [each for each in new if piece.start <= each.start < end]
            parts = [(address + each.start, each.what) for each in inside]
            self.memory.split(address + piece.start, parts, name=name, writable=writable)

    # ---- accesses of copy engines and PM4 commands -----------------------------------------------------------------

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy `size` bytes from `source` to `to` in ascending order.

        Raise `AccessFault` for an unmapped address.
        """
        done = 0
        while done < size:
            here, at, count = self._at(source + done, size - done, "read")
            there, into, room = self._at(to + done, min(size - done, count), "write")
            _move(there, into, here, at, room)
            done += room
        if self.program is not None:
            self.program.copied(to, source, size)

    def fill(self, to: int, word: int, size: int) -> None:
        """Fill `size` bytes at address `to` with the 32-bit word `word`."""
        pattern = memoryview(bytearray(word.to_bytes(4, "little") * (min(size, 1 << 20) // 4 + 1)))
        while size:
            part = pattern[: min(size, 1 << 20)]
            self.store(to, part)
            to, size = to + len(part), size - len(part)

    def load(self, source: int, size: int) -> bytes:
        """Return `size` bytes at address `source`."""
        data = bytearray(size)
        done = 0
        while done < size:
            here, at, count = self._at(source + done, size - done, "read")
            _move(memoryview(data), done, here, at, count)
            done += count
        return bytes(data)

    def store(self, to: int, data: memoryview) -> None:
        """Store the bytes `data` at address `to`."""
        done = 0
        while done < len(data):
            there, into, count = self._at(to + done, len(data) - done, "write")
            _move(there, into, data, done, count)
            done += count
        if self.program is not None:
            self.program.stored(to, len(data))

    def _at(self, address: int, size: int, access: str) -> tuple[memoryview | Foreign, int, int]:
        """Return the memory that contains `address`, the offset in it, and the number of contiguous bytes.

        The number is at most `size`. Raise `AccessFault` for an unmapped address; `access` is the kind of access
        (read or write) in its message."""
        found = self.memory.find(address)
        if isinstance(found, Plain) and (found.writable or access == "read"):
            return found.view, address - found.base, min(size, found.end - address)
        region = found.region if isinstance(found, Effects) else None
        if found is not None and isinstance(region, Foreign) and (region.writable or access == "read"):
            return region, address - found.base, min(size, found.end - address)
        what = "no memory there" if found is None else f"{found.name} is read-only"
        raise AccessFault(f"{access} of {size} bytes at {address:#x}: {what}", address=address, access=access)


def _move(to: memoryview | Foreign, into: int, source: memoryview | Foreign, at: int, size: int) -> None:
    """Copy `size` bytes from offset `at` of `source` to offset `into` of `to`.

    Both may be memory of this process, or foreign memory, which this process accesses by system calls because it
    belongs to another program."""
    if isinstance(to, memoryview):
        part = to[into : into + size]
        if isinstance(source, memoryview):
            part[:] = source[at : at + size]
        else:
            _foreign(source.client.read_into, source.address + at, part, "read")
    elif isinstance(source, memoryview):
        _foreign(to.client.write_from, to.address + into, source[at : at + size], "write")
    else:
        buffer = memoryview(bytearray(size))
        _foreign(source.client.read_into, source.address + at, buffer, "read")
        _foreign(to.client.write_from, to.address + into, buffer, "write")


def _foreign(move: Callable[[int, memoryview], None], address: int, part: memoryview, access: str) -> None:
    """Call `move` to read or write `part` at `address` in the memory of a program.

    Raise `AccessFault` if the program's memory there cannot be accessed.
    """
    try:
        move(address, part)
    except Refused as error:
        raise AccessFault(error.message, address=address, access=access) from None
