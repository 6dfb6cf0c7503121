"""The memory of one process as one agent sees it: what is mapped where, and what a copy engine does to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from understudy.core.allocations import Allocations
from understudy.core.errors import AccessFault
from understudy.device.hsa.device import HsaDevice
from understudy.device.kfd.errors import Refused
from understudy.device.kfd.user_memory import Foreign, Piece
from understudy.engine.gcn.memory import Effects, Plain

USER_LIMIT: Final = 1 << 47
"""Below it addresses are the program's own; what lies above are apertures, and what devices have themselves."""


class AddressSpace:
    """The address space of one device. Mapping is possible while waves run.

    `unmapped` hears of what is taken out: first address, and the first behind it.
    """

    def __init__(self, device: HsaDevice, unmapped: Callable[[int, int], None] | None = None) -> None:
        self.memory = device.memory
        self._unmapped = unmapped

    def map(self, address: int, pieces: Sequence[Piece], name: str) -> None:
        """Put `pieces` at an address; `Refused` where something is there, and then nothing is mapped."""
        for piece in pieces:
            start, end = address + piece.start, address + piece.start + piece.size
            if start < 0 or end > USER_LIMIT:
                raise Refused(f"{name} at {start:#x}..{end:#x} must lie below {USER_LIMIT:#x}")
            for old in self.memory.between(start, end):
                raise Refused(f"{name} at {start:#x}..{end:#x} overlaps {old.name} at {old.base:#x}..{old.end:#x}")
        for piece in pieces:
            self.memory.map(address + piece.start, piece.what, name=name)
        if self.memory.guard is not None and pieces:
            self._note(self.memory.guard.allocations, address, address + pieces[-1].start + pieces[-1].size, name)

    def _note(self, known: Allocations, start: int, end: int, name: str) -> None:
        """Tell a check of memory of what is there from now on. What was there before is known no more."""
        for old in known:
            if old.base < end and start < old.end:
                known.forget(old.base)
        known.add(name, start, end - start)

    def unmap(self, address: int, pieces: Sequence[Piece]) -> None:
        """Take out what `map` put there. Waves that run and reach for it find nothing."""
        for piece in pieces:
            self.memory.unmap(address + piece.start)
        if self._unmapped is not None and pieces:
            self._unmapped(address, address + pieces[-1].start + pieces[-1].size)
        if self.memory.guard is not None:
            self.memory.guard.allocations.free(address)

    def replace(self, address: int, old: Sequence[Piece], new: Sequence[Piece], name: str) -> None:
        """In place of `old` lies `new` from now on, at no time nothing: the same bytes, which have become shared."""
        for piece in old:
            if not isinstance(piece.what, Foreign):
                continue
            end = piece.start + piece.size
            inside = [each for each in new if piece.start <= each.start < end]
            self.memory.split(address + piece.start, [(address + each.start, each.what) for each in inside], name=name)

    # ---- what a copy engine does ---------------------------------------------------------------------------------

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes, in rising order; `AccessFault` where nothing is mapped."""
        while size:
            here, at, count = self._at(source, size, "read")
            there, into, room = self._at(to, min(size, count), "write")
            _move(there, into, here, at, room)
            to, source, size = to + room, source + room, size - room

    def fill(self, to: int, word: int, size: int) -> None:
        """Store a word of 32 bits, and again, to `size` bytes."""
        pattern = memoryview(bytearray(word.to_bytes(4, "little") * (min(size, 1 << 20) // 4 + 1)))
        while size:
            part = pattern[: min(size, 1 << 20)]
            self.store(to, part)
            to, size = to + len(part), size - len(part)

    def load(self, source: int, size: int) -> bytes:
        """Bytes from an address."""
        data = bytearray(size)
        done = 0
        while done < size:
            here, at, count = self._at(source + done, size - done, "read")
            _move(memoryview(data), done, here, at, count)
            done += count
        return bytes(data)

    def store(self, to: int, data: memoryview) -> None:
        """Store bytes."""
        done = 0
        while done < len(data):
            there, into, count = self._at(to + done, len(data) - done, "write")
            _move(there, into, data, done, count)
            done += count

    def _at(self, address: int, size: int, access: str) -> tuple[memoryview | Foreign, int, int]:
        """What lies at an address, where in it, and how many of `size` bytes it has."""
        found = self.memory.find(address)
        if isinstance(found, Plain) and (found.writable or access == "read"):
            return found.view, address - found.base, min(size, found.end - address)
        if isinstance(found, Effects) and isinstance(found.region, Foreign):
            return found.region, address - found.base, min(size, found.end - address)
        text = f"{access} of {size} bytes at {address:#x} by a copy engine: no memory there"
        raise AccessFault(text, address=address, access=access)


def _move(to: memoryview | Foreign, into: int, source: memoryview | Foreign, at: int, size: int) -> None:
    """Copy between memory here and foreign memory."""
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
    """Move bytes from or to a program."""
    try:
        move(address, part)
    except Refused as error:
        raise AccessFault(error.message, address=address, access=access) from None
