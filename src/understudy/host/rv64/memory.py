"""The memory of one program: its segments, a heap behind the last one, and a stack; one word may be a mailbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from understudy.core.errors import AccessFault, WireError
from understudy.core.space import PAGE_SIZE, AddressSpace, Ram, Unit
from understudy.core.words import align_down, align_up
from understudy.image.riscv.program import Segment

STACK_TOP: Final = 0xF000_0000
STACK_BYTES: Final = 8 << 20
HEAP_BYTES: Final = 256 << 20
NEAR: Final = 1 << 20
"""Segments that lie no farther apart are one piece of memory."""
ME: Final = Unit(0)
_MASK64: Final = (1 << 64) - 1
_ADDRESS_LIMIT: Final = 1 << 32


class ProgramMemory:
    """`HartPort` of a program. Memory has no permissions; what is nowhere mapped faults.

    `mailbox` is the address of a word, None for none: `on_mail` is called with what it holds after a store, unless 0.
    """

    def __init__(self, segments: Sequence[Segment], mailbox: int | None = None) -> None:
        self.space = AddressSpace()
        self.mailbox = mailbox
        self.on_mail: Callable[[int], None] | None = None
        pieces = _pieces(segments)
        self.heap = pieces[-1][1]
        self.break_ = self.heap
        room = STACK_TOP - STACK_BYTES
        pieces[-1] = pieces[-1][0], max(self.heap, min(self.heap + HEAP_BYTES, room if self.heap <= room else 0))
        self.heap_end = pieces[-1][1]
        if any(first < STACK_TOP and end > room for first, end in pieces) or self.heap_end > _ADDRESS_LIMIT:
            raise WireError(
                f"segments up to {self.heap:#x} leave no room for the stack, {room:#x}..{STACK_TOP:#x}: link below"
            )
        for first, end in pieces:
            self.space.map(first, Ram(end - first), "program")
        self.space.map(room, Ram(STACK_BYTES), "stack")
        for segment in segments:
            self.write(segment.address, segment.data)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of one piece of memory; `AccessFault` for what is none."""
        return self.space.read(address, size, ME)

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into one piece of memory; `AccessFault` for what is none."""
        if data:
            self.space.write(address, data, ME)

    def clear_mailbox(self) -> None:
        """What the mailbox held is done."""
        if self.mailbox is not None:
            self.write(self.mailbox, bytes(8))

    # -- as a hart sees it

    def load(self, address: int, size: int) -> int:
        """See `HartPort`."""
        return int.from_bytes(self.space.read(address, size, ME), "little")

    def store(self, address: int, size: int, value: int) -> None:
        """See `HartPort`."""
        self.space.write(address, (value & (1 << 8 * size) - 1).to_bytes(size, "little"), ME)
        if self.mailbox is not None and address <= self.mailbox < address + size:
            word = self.load(self.mailbox, 8)
            if word and self.on_mail is not None:
                self.on_mail(word)

    def fetch(self, address: int) -> int:
        """See `HartPort`."""
        return int.from_bytes(self.space.read(address, 2, ME), "little")

    def page(self, address: int, access: str) -> int | None:
        """See `HartPort`."""
        page = address & -PAGE_SIZE
        found = self.space.find(address)
        if found is None:
            raise AccessFault(f"{access} at {address:#x}: no memory there", address=address, access=access)
        if access == "store" and self.mailbox is not None and page == self.mailbox & -PAGE_SIZE:
            return None
        host = found.region.host_address(page - found.base, ME)
        return None if host is None else (host - page) & _MASK64

    def extent(self, address: int, access: str) -> tuple[int, int]:
        """See `ExtentPort`."""
        found = self.space.find(address)
        if found is None:
            return address, address
        if access == "load" or self.mailbox is None:
            return found.base, found.end
        hole = self.mailbox & -PAGE_SIZE
        return (found.base, min(hole, found.end)) if address < hole else (max(hole + PAGE_SIZE, found.base), found.end)


def _pieces(segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """Whole pages, those near each other as one, in order."""
    pieces: list[tuple[int, int]] = []
    for segment in sorted(segments, key=lambda each: each.address):
        first, end = align_down(segment.address, PAGE_SIZE), align_up(segment.end, PAGE_SIZE)
        if pieces and first <= pieces[-1][1] + NEAR:
            pieces[-1] = pieces[-1][0], max(pieces[-1][1], end)
        else:
            pieces.append((first, end))
    if not pieces:
        raise WireError("the program has no PT_LOAD segment, expected code to run")
    return pieces
