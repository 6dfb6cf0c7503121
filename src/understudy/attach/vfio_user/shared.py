"""Files of the client mapped into this process: each once, however many windows lie in it."""

from __future__ import annotations

import mmap
import os
import weakref

from understudy.attach.vfio_user import rules
from understudy.attach.vfio_user.messages import DmaMap, DmaMapFlags
from understudy.core.errors import RuleError
from understudy.core.words import align_down


class SharedFiles:
    """Mappings of files. One lives as long as a view of it, and counts for that long."""

    def __init__(self) -> None:
        self._whole: weakref.WeakValueDictionary[tuple[int, int, bool], mmap.mmap] = weakref.WeakValueDictionary()
        """By device and inode of the file, and whether it can be written."""
        self._alive: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

    def map(self, request: DmaMap, fd: int, most: int) -> tuple[mmap.mmap, int] | None:
        """A mapping and where in it the window begins; None where that would be one mapping more than `most`.

        `RuleError` where the file does not do.
        """
        try:
            status = os.fstat(fd)
            if request.offset + request.size > status.st_size:
                raise _unmappable(
                    f"the file has {status.st_size:#x} bytes, and the window would be "
                    f"{request.offset:#x}..{request.offset + request.size:#x} of it"
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
            raise _unmappable(f"the descriptor cannot be mapped: {why}") from None

    def _new(self, key: tuple[int, int, bool], fd: int, size: int, request: DmaMap) -> tuple[mmap.mmap, int]:
        """All of the file, or only the window where that is more than this process can have."""
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
