"""The client's memory for the device's DMA: mapped into this process if that is safe, or else accessed by messages."""

from __future__ import annotations

import mmap
import os
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from softcard.attach.vfio_user import rules
from softcard.attach.vfio_user.messages import DmaMap, DmaMapFlags, DmaUnmap, DmaUnmapFlags
from softcard.attach.vfio_user.negotiation import Settings, SharedMemory
from softcard.core.errors import AccessFault, RuleError
from softcard.core.files import SHRINK, is_sealed
from softcard.core.pci import DirectRange
from softcard.core.words import align_down

# ---- shared files ----------------------------------------------------------------------------------------------------
# Files of the client mapped into this process: each once, whatever the number of windows in it.


class SharedFiles:
    """The client's files that are mapped into this process. If possible, DMA regions of one file share one mapping.

    A mapping exists as long as any view of it, and counts against the limit on mappings for that time."""

    def __init__(self) -> None:
        self._whole: weakref.WeakValueDictionary[tuple[int, int, bool], mmap.mmap] = weakref.WeakValueDictionary()
        """The mappings of whole files by device number, inode, and whether they are writable."""
        self._alive: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

    def map(self, request: DmaMap, fd: int, most: int) -> tuple[mmap.mmap, int] | None:
        """Return a mapping of file `fd` and the offset in it at which the requested DMA region begins.

        Return None if the file needs a new mapping and `most` mappings exist already. Raise `RuleError` for a file that
        is too small or cannot be mapped.
        """
        try:
            status = os.fstat(fd)
            if request.offset + request.size > status.st_size:
                raise _unmappable(
                    f"the DMA window needs bytes {request.offset:#x}..{request.offset + request.size:#x} of a file of "
                    f"{status.st_size:#x} bytes"
                )
            key = status.st_dev, status.st_ino, bool(request.flags & DmaMapFlags.WRITEABLE)
            whole = self._whole.get(key)
            if whole is not None and request.offset + request.size <= len(whole):
                return whole, request.offset
            if len(self._alive) >= most:
                return None
            return self._new(key, fd, status.st_size, request)
        except (OSError, ValueError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise _unmappable(f"the file descriptor cannot be mapped: {why}") from None

    def _new(self, key: tuple[int, int, bool], fd: int, size: int, request: DmaMap) -> tuple[mmap.mmap, int]:
        """Map the whole file `fd`, and return the mapping and the offset in it of the DMA region `request`.

        If the whole file exceeds this process's limits, map only the DMA region. `key` identifies the file in
        `_whole`, and `size` is the size of the file."""
        try:
            whole = self._whole[key] = _mapped(fd, 0, size, key[2])
        except (OSError, ValueError, OverflowError):
            start = align_down(request.offset, mmap.ALLOCATIONGRANULARITY)
            part = _mapped(fd, start, request.offset - start + request.size, key[2])
            self._alive.add(part)
            return part, request.offset - start
        self._alive.add(whole)
        return whole, request.offset


def _unmappable(text: str) -> RuleError:
    return rules.broken(rules.DMA_MAP_FD, DmaMap, "offset", text)


def _mapped(fd: int, start: int, size: int, writeable: bool) -> mmap.mmap:
    prot = mmap.PROT_READ | (mmap.PROT_WRITE if writeable else 0)
    return mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=prot, offset=start)


# ---- guest memory ----------------------------------------------------------------------------------------------------


ADDRESS_END: Final = 1 << 64
READABLE: Final = int(DmaMapFlags.READABLE)
WRITEABLE: Final = int(DmaMapFlags.WRITEABLE)


class MessageMemory(Protocol):
    """The interface for access to the client's memory by DMA_READ and DMA_WRITE; it raises `AccessFault`."""

    def read_memory(self, address: int, count: int) -> bytes:
        """Return `count` bytes at `address`."""

    def write_memory(self, address: int, data: bytes) -> None:
        """Store `data` at `address`."""


@dataclass(frozen=True, slots=True)
class Window:
    """A DMA region of the client; `view` is its memory if that is mapped into this process, or else None."""

    base: int
    size: int
    flags: int
    view: memoryview | None = None
    file: mmap.mmap | None = None
    start: int = 0
    """The offset in `file` at which the region begins."""

    @property
    def end(self) -> int:
        """The first address after the window."""
        return self.base + self.size


class _Table:
    """An immutable table of all DMA windows, sorted by base. It is replaced as a whole, so that reads need no lock.

    `is_master` is True if the device may use the windows.
    """

    def __init__(self, windows: tuple[Window, ...], is_master: bool) -> None:
        self.windows = windows
        self.bases = tuple(window.base for window in windows)
        self.is_master = is_master
        self._direct: tuple[DirectRange, ...] | None = None

    def replaced(self, windows: tuple[Window, ...], changes_direct: bool) -> _Table:
        """Return a new table of `windows`.

        Unless `changes_direct`, the new table takes over the direct ranges (see `direct`) of this table.
        """
        table = _Table(windows, self.is_master)
        if not changes_direct:
            table._direct = self.direct()
        return table

    def direct(self) -> tuple[DirectRange, ...]:
        """Return the readable ranges that are mapped into this process; adjacent windows form one range.

        The list is computed at its first use, so that a client that maps thousands of windows does not wait for each
        computation.
        """
        made = self._direct
        if made is None:
            made = self._direct = tuple(_merged(self.windows)) if self.is_master else ()
        return made


def _merged(windows: tuple[Window, ...]) -> Iterator[DirectRange]:
    """Yield the address ranges of the mapped `windows`; windows adjacent in address and in memory form one range."""
    first: Window | None = None
    end = 0
    for window in windows:
        if window.file is None or not window.flags & READABLE:
            continue
        if first is not None:
            if window.file is first.file and window.base == end and window.start - first.start == end - first.base:
                end = window.end
                continue
            yield _range_of(first, end)
        first, end = window, window.end
    if first is not None:
        yield _range_of(first, end)


def _range_of(first: Window, end: int) -> DirectRange:
    assert first.file is not None
    return DirectRange(first.base, memoryview(first.file)[first.start : first.start + end - first.base])


class DmaMemory:
    """The `DmaPort` of the device. It persists across sessions; between sessions no memory is mapped.

    The receiving thread maps and unmaps, and any thread may read and write. An access that began before an unmap may
    end after it. It then accesses memory that this process still holds mapped; the client has not received the reply to
    its unmap yet, or has disconnected.
    """

    def __init__(
        self, settings: Settings, failed: Callable[[AccessFault], None], gone: Callable[[], None] = lambda: None
    ) -> None:
        """Create a port without windows.

        `failed` is called with the error of each failed access. `gone` is called after the client has unmapped shared
        memory, as the device may still have views of it.
        """
        self._settings = settings
        self._failed = failed
        self._gone = gone
        self._table = _Table((), not settings.bus_master)
        self._files = SharedFiles()
        self._messages: MessageMemory | None = None

    # The interface for the device.

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes at `address`; raise `AccessFault` for memory that is not mapped or not readable."""
        window = self._single(address, size, READABLE)
        if window is not None and window.view is not None:
            start = address - window.base
            return bytes(window.view[start : start + size])
        try:
            parts = self._split(address, size, READABLE, "read")
            return b"".join(self._read_window(window, at, count) for window, at, count in parts)
        except AccessFault as fault:
            self._failed(fault)
            raise

    def write(self, address: int, data: bytes) -> None:
        """Store `data` at `address`; raise `AccessFault` for memory that is not mapped or not writable."""
        size = len(data)
        window = self._single(address, size, WRITEABLE)
        if window is not None and window.view is not None:
            start = address - window.base
            window.view[start : start + size] = data
            return
        try:
            for window, at, count in self._split(address, size, WRITEABLE, "write"):
                self._write_window(window, at, data[at - address : at - address + count])
        except AccessFault as fault:
            self._failed(fault)
            raise

    def direct(self) -> tuple[DirectRange, ...]:
        """Return the readable ranges that are mapped into this process.

        The function returns the same tuple object until the ranges change."""
        return self._table.direct()

    # The interface for the session.

    def attach(self, messages: MessageMemory | None) -> None:
        """Use `messages` to access memory that is not shared; with None, such accesses fail."""
        self._messages = messages

    def set_bus_master(self, enabled: bool) -> None:
        """Apply a change of the Bus Master bit of the Command register."""
        if self._settings.bus_master and enabled != self._table.is_master:
            self._table = _Table(self._table.windows, enabled)
            if not enabled:
                self._gone()

    def map(self, request: DmaMap, fd: int | None, limit: int) -> tuple[Window, str]:
        """Add the DMA region of `request` as a window. The caller owns `fd`.

        Raise `RuleError` for an invalid region, or if there are `limit` windows already. Return the window, and the
        reason why its memory is not mapped into this process; "" if it is mapped."""
        self._check_new(request, limit)
        window, reason = self._share(request, fd)
        table = self._table
        index = bisect_right(table.bases, window.base)
        windows = (*table.windows[:index], window, *table.windows[index:])
        self._table = table.replaced(windows, window.view is not None)
        return window, reason

    def unmap(self, request: DmaUnmap) -> tuple[Window, ...]:
        """Remove the windows in the range of `request`, or all windows if `request` has the flag ALL; return them.

        The range may contain many windows or none, as Linux VFIO permits, but it must not split a window. The
        vfio-user specification wants exactly one window (`vfio-user/unmap-range` in ``choices.toml``)."""
        if request.flags == DmaUnmapFlags.ALL and request.address == request.size == 0:
            return self.clear()
        if request.flags:
            raise rules.broken(rules.DMA_UNMAP_FLAGS, DmaUnmap, "flags", f"flags must be 0, not {request.flags:#x}")
        here = _range(request.address, request.size)
        end = request.address + request.size
        if not request.size or end > ADDRESS_END:
            raise rules.broken(
                rules.DMA_UNMAP_EXACT,
                DmaUnmap,
                "size",
                f"the range to unmap must have at least 1 byte and end at or below 2^64, not be {here}",
            )
        table = self._table
        first = bisect_left(table.bases, request.address)
        after = bisect_left(table.bases, end)
        for window in table.windows[max(0, first - 1) : first] + table.windows[max(first, after - 1) : after]:
            if window.base < request.address < window.end or window.base < end < window.end:
                raise rules.broken(
                    rules.DMA_UNMAP_EXACT,
                    DmaUnmap,
                    "address",
                    f"unmapping {here} would split the DMA window {_range(window.base, window.size)}: unmap all of it",
                )
        gone = table.windows[first:after]
        if gone:
            is_direct = any(window.view is not None for window in gone)
            self._table = table.replaced(table.windows[:first] + table.windows[after:], is_direct)
            if is_direct:
                self._gone()
        return gone

    def clear(self) -> tuple[Window, ...]:
        """Remove all windows and return them. A file stays mapped until its last view is released."""
        gone = self._table.windows
        self._table = self._table.replaced((), True)
        self._gone()
        return gone

    def _check_new(self, request: DmaMap, limit: int) -> None:
        table = self._table
        here = _range(request.address, request.size)
        if not request.size or request.address + request.size > ADDRESS_END:
            raise rules.broken(
                rules.DMA_MAP_RANGE,
                DmaMap,
                "size",
                f"a DMA window must have at least 1 byte and end at or below 2^64, not be {here}",
            )
        if not request.flags or request.flags & ~(READABLE | WRITEABLE):
            raise rules.broken(
                rules.DMA_MAP_FLAGS,
                DmaMap,
                "flags",
                f"flags must be 1 (readable), 2 (writeable) or 3 (both), not {request.flags:#x}",
            )
        if len(table.windows) >= limit:
            raise rules.broken(
                rules.DMA_MAP_COUNT, DmaMap, "address", f"{limit} DMA windows are mapped already, which is the maximum"
            )
        index = bisect_right(table.bases, request.address)
        for near in table.windows[max(0, index - 1) : index + 1]:
            if near.base < request.address + request.size and request.address < near.end:
                raise rules.broken(
                    rules.DMA_MAP_OVERLAP,
                    DmaMap,
                    "address",
                    f"the DMA window {here} would overlap the mapped DMA window {_range(near.base, near.size)}",
                )

    def _share(self, request: DmaMap, fd: int | None) -> tuple[Window, str]:
        """Return a window for the DMA region `request`, and the reason why its memory is not mapped into this process.

        The reason is "" if the memory is mapped. `fd` is the descriptor of the client's memory; None without one."""
        window = Window(request.address, request.size, request.flags)
        if fd is None:
            return window, "no file descriptor came with the mapping"
        if self._settings.shared_memory is SharedMemory.NONE:
            return window, "the server was started without shared memory"
        if self._settings.shared_memory is SharedMemory.SEALED and not is_sealed(fd, SHRINK, ask=True):
            return window, "the file of the mapping is not sealed against shrinking"
        mapped = self._files.map(request, fd, self._settings.max_direct_maps)
        if mapped is None:
            return window, f"{self._settings.max_direct_maps} files are mapped already, which is the maximum"
        file, start = mapped
        view = memoryview(file)[start : start + request.size]
        return Window(request.address, request.size, request.flags, view, file, start), ""

    def _single(self, address: int, size: int, need: int) -> Window | None:
        """Return the window that contains the whole access and permits the access kind `need`.

        Return None otherwise; `_split` then has to check the access.
        """
        table = self._table
        index = bisect_right(table.bases, address) - 1
        if index < 0 or size <= 0 or not table.is_master:
            return None
        window = table.windows[index]
        return window if address + size <= window.end and window.flags & need else None

    def _split(self, address: int, size: int, need: int, access: str) -> list[tuple[Window, int, int]]:
        """Split an access at the boundaries of windows, and return the window, address and size of each piece of it.

        Raise `AccessFault` unless windows that permit the access contain the whole address range."""
        what = f"{access} of {size} bytes at {address:#x}"
        if size < 0 or address < 0:
            raise AccessFault(f"{what}: address and size must be 0 or more", address=address, access=access)
        table = self._table
        if not table.is_master:
            raise AccessFault(
                f"{what}: bus mastering is disabled", address=address, access=access, rule=rules.BUS_MASTER
            )
        parts: list[tuple[Window, int, int]] = []
        at, end = address, address + size
        while at < end:
            index = bisect_right(table.bases, at) - 1
            if index < 0 or table.windows[index].end <= at:
                raise AccessFault(
                    f"{what}: nothing is mapped at {at:#x}", address=at, access=access, rule=rules.DMA_MAPPED
                )
            window = table.windows[index]
            if not window.flags & need:
                raise AccessFault(
                    f"{what}: the window at {_range(window.base, window.size)} does not allow a {access}",
                    address=at,
                    access=access,
                    rule=rules.DMA_ACCESS,
                )
            count = min(end, window.end) - at
            parts.append((window, at, count))
            at += count
        return parts

    def _read_window(self, window: Window, address: int, count: int) -> bytes:
        if window.view is not None:
            return bytes(window.view[address - window.base : address - window.base + count])
        return self._by_message(address, "read").read_memory(address, count)

    def _write_window(self, window: Window, address: int, data: bytes) -> None:
        if window.view is not None:
            window.view[address - window.base : address - window.base + len(data)] = data
        else:
            self._by_message(address, "write").write_memory(address, data)

    def _by_message(self, address: int, access: str) -> MessageMemory:
        messages = self._messages
        if messages is None:
            raise AccessFault(
                f"{access} at {address:#x}: the client that mapped this DMA window has disconnected",
                address=address,
                access=access,
            )
        return messages


def _range(base: int, size: int) -> str:
    return f"{base:#x}..{base + size:#x}"
