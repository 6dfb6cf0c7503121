"""The recording of coverage: devices that are opened meanwhile count instructions, and report them here.

A device reports the executions of a code object when the code object is unloaded, when the device is closed, reset or
restored, and whenever the recording is read.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from softcard.core.settings import count_by_default
from softcard.engine.hooks import Executions
from softcard.image.coverage import CodeLines, Coverage
from softcard.image.elf.lines import Lines
from softcard.image.elf.reader import ElfFile


class DeviceCoverage:
    """The code objects of one device, whose executions are recorded.

    `executions` returns the executions that the device has counted so far, and `isa` is the name of its instruction
    set."""

    def __init__(self, recording: Recording, isa: str, executions: Callable[[], Executions]) -> None:
        self._recording = recording
        self._isa = isa
        self._executions = executions
        self._loaded: dict[int, tuple[ElfFile, Callable[[], Lines], str]] = {}
        self._made: weakref.WeakKeyDictionary[ElfFile, CodeLines] = weakref.WeakKeyDictionary()
        self._reported = Executions()
        """The executions that were already reported.

        Code that is loaded at an address begins at the number that earlier code at the address has reached.
        """
        self._known: set[int] = set()
        """The base addresses of the code objects that were reported at least once."""
        self._lock = threading.RLock()

    def load(self, base: int, elf: ElfFile, lines: Callable[[], Lines], name: str) -> None:
        """Follow a code object that was loaded at address `base`.

        `lines` returns its line table, and `name` names it for the user."""
        with self._lock:
            self._loaded[base] = elf, lines, name

    def unload(self, base: int) -> None:
        """Report the executions of the code object at address `base`, which is about to be unloaded."""
        with self._lock:
            self.report()
            self._loaded.pop(base, None)
            self._known.discard(base)

    def report(self) -> None:
        """Report the executions of all code objects since the last report."""
        with self._lock:
            if not self._loaded:
                return
            new = self._executions() - self._reported
            self._reported += new
            ran = sorted(new.counts)
            for base, (elf, lines, name) in self._loaded.items():
                code = self._code(elf, lines)
                is_new = base not in self._known
                part = new if bisect_left(ran, base) < bisect_left(ran, base + code.end) else Executions()
                if part.counts or is_new:
                    self._recording.add(code, part, base, name)
                    self._known.add(base)

    def close(self) -> None:
        """Report the executions of all code objects, and stop to follow them. The device may be closed afterwards."""
        with self._lock:
            self.report()
            self._loaded.clear()
            self._recording.devices.discard(self)

    def _code(self, elf: ElfFile, lines: Callable[[], Lines]) -> CodeLines:
        found = self._made.get(elf)
        if found is None:
            found = self._made[elf] = CodeLines(elf, lines(), self._isa)
        return found


class Recording:
    """A recording of the coverage of all kernels of this process.

    `read` returns the coverage so far."""

    def __init__(self) -> None:
        self.devices: set[DeviceCoverage] = set()
        self.on_device: Callable[[], None] = lambda: None
        """A function that is called when a device is opened."""
        self._coverage = Coverage()
        self._lock = threading.RLock()

    def add(self, code: CodeLines, executions: Executions, base: int, name: str) -> None:
        """Add the executions of a code object at address `base`, whose name is `name`."""
        with self._lock:
            self._coverage.add_code(code, executions, base)
            if not code.functions and any(executions.counts):
                self._coverage.without_lines.add(name)

    def read(self) -> Coverage:
        """Return the coverage so far, with the executions of devices that are still open."""
        for each in tuple(self.devices):
            each.report()
        return self._coverage


_RECORDINGS: Final[list[Recording]] = []
"""The recording of this process, if there is one."""


def start() -> Recording:
    """Begin to record coverage, or continue; devices that are opened from now on count instructions."""
    if not _RECORDINGS:
        _RECORDINGS.append(Recording())
        count_by_default(True)
    return _RECORDINGS[0]


def stop() -> None:
    """End the recording; devices that are opened from now on do not count instructions."""
    count_by_default(False)
    _RECORDINGS.clear()


@contextmanager
def record() -> Iterator[Recording]:
    """Record the coverage of kernels on devices that are opened in the ``with`` block.

    >>> from softcard import Gpu, coverage
    >>> with coverage.record() as recording, Gpu.open("gfx900") as gpu:
    ...     gpu.run(gpu.compile(source), "saxpy", 64, args=[2.0, x, y])
    >>> recording.read().write_lcov("kernels.info")

    In the block of another recording, the result is that recording."""
    is_own = not _RECORDINGS
    recording = start()
    try:
        yield recording
        recording.read()
    finally:
        if is_own:
            stop()


def device_coverage(owner: object, isa: str, executions: Callable[[], Executions]) -> DeviceCoverage | None:
    """Return the object that records the code of a new device; None if no coverage is recorded.

    `owner` is the host's object for the device. If it is deleted without being closed, its executions are reported.
    """
    if not _RECORDINGS:
        return None
    made = DeviceCoverage(_RECORDINGS[0], isa, executions)
    _RECORDINGS[0].devices.add(made)
    _RECORDINGS[0].on_device()
    weakref.finalize(owner, made.close).atexit = False
    return made
