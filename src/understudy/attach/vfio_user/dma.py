"""Guest memory as the client has mapped it: by shared memory where that is safe, by messages elsewhere."""

from __future__ import annotations

import mmap
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from understudy.attach.vfio_user import rules
from understudy.attach.vfio_user.messages import DmaMap, DmaMapFlags, DmaUnmap, DmaUnmapFlags
from understudy.attach.vfio_user.negotiation import Settings, SharedMemory
from understudy.attach.vfio_user.shared import SharedFiles
from understudy.core.errors import AccessFault
from understudy.core.memory_files import SHRINK, is_sealed
from understudy.core.pci import DirectRange

ADDRESS_END: Final = 1 << 64
READABLE: Final = int(DmaMapFlags.READABLE)
WRITEABLE: Final = int(DmaMapFlags.WRITEABLE)


class MessageMemory(Protocol):
    """Reaches the client's memory by DMA_READ and DMA_WRITE. Both raise `AccessFault`."""

    def read_memory(self, address: int, count: int) -> bytes:
        """`count` bytes at `address`."""

    def write_memory(self, address: int, data: bytes) -> None:
        """Store `data` at `address`."""


@dataclass(frozen=True, slots=True)
class Window:
    """One DMA region of the client; `view` is its memory where that is mapped into this process."""

    base: int
    size: int
    flags: int
    view: memoryview | None = None
    file: mmap.mmap | None = None
    start: int = 0
    """Where in `file` it begins."""

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.base + self.size


class _Table:
    """All windows by base. Replaced as a whole, so that any thread may look things up without a lock.

    `is_master` says whether the device may use any of them.
    """

    def __init__(self, windows: tuple[Window, ...], is_master: bool) -> None:
        self.windows = windows
        self.bases = tuple(window.base for window in windows)
        self.is_master = is_master
        self._direct: tuple[DirectRange, ...] | None = None

    def replaced(self, windows: tuple[Window, ...], changes_direct: bool) -> _Table:
        """Other windows; the direct ranges stay the same object unless they change."""
        table = _Table(windows, self.is_master)
        if not changes_direct:
            table._direct = self.direct()
        return table

    def direct(self) -> tuple[DirectRange, ...]:
        """The windows that are memory of this process and can be read, those together that lie together.

        Made when first asked for: a client that maps thousands of windows need not wait for each.
        """
        made = self._direct
        if made is None:
            made = self._direct = tuple(_merged(self.windows)) if self.is_master else ()
        return made


def _merged(windows: tuple[Window, ...]) -> Iterator[DirectRange]:
    """Windows whose addresses and whose bytes follow each other, as one range."""
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
    """The `DmaPort` of the device. It outlives sessions: between them there is no memory at all.

    The receiving thread maps and unmaps; any thread reads and writes. An access that began before an unmap may end
    after it: it then touches memory that this process still holds, and the client has not been answered yet or is gone.
    """

    def __init__(
        self, settings: Settings, failed: Callable[[AccessFault], None], gone: Callable[[], None] = lambda: None
    ) -> None:
        """`failed` is told of each access that fails, `gone` when shared memory has gone that a device may hold."""
        self._settings = settings
        self._failed = failed
        self._gone = gone
        self._table = _Table((), not settings.bus_master)
        self._files = SharedFiles()
        self._messages: MessageMemory | None = None

    # What the device uses.

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes at `address`; `AccessFault` where that is no memory that can be read."""
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
        """Store `data` at `address`; `AccessFault` where that is no memory that can be written."""
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
        """The windows that are memory of this process and can be read; the same tuple until something changes."""
        return self._table.direct()

    # What the session uses.

    def attach(self, messages: MessageMemory | None) -> None:
        """Reach what is not shared through `messages`; None: nothing can be reached that way."""
        self._messages = messages

    def set_bus_master(self, enabled: bool) -> None:
        """The Bus Master bit of the Command register changed."""
        if self._settings.bus_master and enabled != self._table.is_master:
            self._table = _Table(self._table.windows, enabled)
            if not enabled:
                self._gone()

    def map(self, request: DmaMap, fd: int | None, limit: int) -> tuple[Window, str]:
        """Add a window; gives it and the reason why it is not shared memory, if it is not. `fd` stays the caller's."""
        self._check_new(request, limit)
        window, reason = self._share(request, fd)
        table = self._table
        index = bisect_right(table.bases, window.base)
        windows = (*table.windows[:index], window, *table.windows[index:])
        self._table = table.replaced(windows, window.view is not None)
        return window, reason

    def unmap(self, request: DmaUnmap) -> tuple[Window, ...]:
        """Take out the windows that lie in the range of `request`, or all; gives what was taken.

        There may be many or none (choice `vfio-user/unmap-range`), but none is cut in two.
        """
        if request.flags == DmaUnmapFlags.ALL and request.address == request.size == 0:
            return self.clear()
        if request.flags:
            raise rules.broken(rules.DMA_UNMAP_FLAGS, DmaUnmap, "flags", f"flags must be 0, not {request.flags:#x}")
        here = _range(request.address, request.size)
        end = request.address + request.size
        if not request.size or end > ADDRESS_END:
            raise rules.broken(rules.DMA_UNMAP_EXACT, DmaUnmap, "size", f"no window can lie at {here}")
        table = self._table
        first = bisect_left(table.bases, request.address)
        behind = bisect_left(table.bases, end)
        for window in table.windows[max(0, first - 1) : first] + table.windows[max(first, behind - 1) : behind]:
            if window.base < request.address < window.end or window.base < end < window.end:
                raise rules.broken(
                    rules.DMA_UNMAP_EXACT,
                    DmaUnmap,
                    "address",
                    f"{here} would cut the window at {_range(window.base, window.size)}",
                )
        gone = table.windows[first:behind]
        if gone:
            is_direct = any(window.view is not None for window in gone)
            self._table = table.replaced(table.windows[:first] + table.windows[behind:], is_direct)
            if is_direct:
                self._gone()
        return gone

    def clear(self) -> tuple[Window, ...]:
        """Take out everything; gives what was taken. Mappings go with the last view of them."""
        gone = self._table.windows
        self._table = self._table.replaced((), True)
        self._gone()
        return gone

    def _check_new(self, request: DmaMap, limit: int) -> None:
        table = self._table
        here = _range(request.address, request.size)
        if not request.size or request.address + request.size > ADDRESS_END:
            raise rules.broken(rules.DMA_MAP_RANGE, DmaMap, "size", f"no window can lie at {here}")
        if not request.flags or request.flags & ~(READABLE | WRITEABLE):
            raise rules.broken(
                rules.DMA_MAP_FLAGS,
                DmaMap,
                "flags",
                f"flags must be readable (1), writeable (2) or both, not {request.flags:#x}",
            )
        if len(table.windows) >= limit:
            raise rules.broken(rules.DMA_MAP_COUNT, DmaMap, "address", f"{limit} windows are mapped already")
        index = bisect_right(table.bases, request.address)
        for near in table.windows[max(0, index - 1) : index + 1]:
            if near.base < request.address + request.size and request.address < near.end:
                raise rules.broken(
                    rules.DMA_MAP_OVERLAP,
                    DmaMap,
                    "address",
                    f"a window at {here} would overlap the one at {_range(near.base, near.size)}",
                )

    def _share(self, request: DmaMap, fd: int | None) -> tuple[Window, str]:
        """The window with the client's memory, mapped; or without, and why it is left to messages."""
        window = Window(request.address, request.size, request.flags)
        if fd is None:
            return window, "no descriptor came with it"
        if self._settings.shared_memory is SharedMemory.NONE:
            return window, "shared memory is switched off"
        if self._settings.shared_memory is SharedMemory.SEALED and not is_sealed(fd, SHRINK, ask=True):
            return window, "the file behind it is not sealed against shrinking"
        mapped = self._files.map(request, fd, self._settings.max_direct_maps)
        if mapped is None:
            return window, f"{self._settings.max_direct_maps} files are mapped already"
        file, start = mapped
        view = memoryview(file)[start : start + request.size]
        return Window(request.address, request.size, request.flags, view, file, start), ""

    def _single(self, address: int, size: int, need: int) -> Window | None:
        """The window that holds all of it and allows it, or None where the long way must find out more."""
        table = self._table
        index = bisect_right(table.bases, address) - 1
        if index < 0 or size <= 0 or not table.is_master:
            return None
        window = table.windows[index]
        return window if address + size <= window.end and window.flags & need else None

    def _split(self, address: int, size: int, need: int, access: str) -> list[tuple[Window, int, int]]:
        """Which windows an access touches: window, address and bytes of each part; checked before any is touched."""
        what = f"{access} of {size} bytes at {address:#x}"
        if size < 0 or address < 0:
            raise AccessFault(f"{what}: not possible", address=address, access=access)
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
                    f"{what}: the window at {_range(window.base, window.size)} does not allow it",
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
                f"{access} at {address:#x}: the client that mapped it is gone", address=address, access=access
            )
        return messages


def _range(base: int, size: int) -> str:
    return f"{base:#x}..{base + size:#x}"
