"""Lines for standard output from those who must not wait for it: a device, and whoever holds its lock."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Final, TextIO

ROOM: Final = 4 << 20
"""Characters that may wait to be written."""
GRACE_S: Final = 2.0
"""How long to wait at the end for somebody to read what is left."""


def unwritten() -> OSError | None:
    """Write what is left for standard output; why it cannot be, and then it is dropped."""
    try:
        with suppress(ValueError, AttributeError):  # closed, or none: a process that was started without one
            sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError, AttributeError):  # or the interpreter would try once more at its end
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        return error
    return None


class Output:
    """Writes lines by a thread of its own, in their order.

    Where nobody reads them in time, lines are dropped and counted; where nobody ever will (a closed pipe), all are.
    """

    def __init__(self, stream: TextIO | None = None, room: int = ROOM) -> None:
        """`stream` is standard output unless given, `room` how many characters may wait."""
        self._stream = sys.stdout if stream is None else stream
        self._room = room
        self._changed = threading.Condition()
        self._lines: deque[str] = deque()
        self._waiting = 0
        self._unsaid = 0
        self._is_closed = False
        self._is_broken = self._stream is None  # a process that was started without one
        self.dropped = 0
        """Lines that were not written, and will not be."""
        self._thread = threading.Thread(target=self._write_all, name="output", daemon=True)
        if self._stream is not None:
            with suppress(OSError, ValueError):
                self._stream.flush()
            self._thread.start()

    def say(self, line: str) -> None:
        """Write a line some time. Never waits and never fails."""
        with self._changed:
            if self._is_broken or self._is_closed or self._waiting + len(line) > self._room:
                self.dropped += 1
                self._unsaid += 1
                self._changed.notify()
                return
            self._tell_unsaid()
            self._lines.append(line)
            self._waiting += len(line) + 1
            self._changed.notify()

    def close(self) -> None:
        """Write what is left, unless nobody reads it."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(GRACE_S)

    def _write_all(self) -> None:
        while lines := self._take():
            try:
                self._write("".join(f"{line}\n" for line in lines))
            except (OSError, ValueError):  # ValueError: a file object that was closed
                with self._changed:
                    self._is_broken = True
                    self.dropped += len(lines) + len(self._lines)
                return

    def _take(self) -> list[str]:
        """All lines that are there; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._unsaid or self._is_closed)
            if not self._lines:
                self._tell_unsaid()
            lines = list(self._lines)
            self._lines.clear()
            self._waiting = 0
            return lines

    def _tell_unsaid(self) -> None:
        if self._unsaid:
            what = "1 line is" if self._unsaid == 1 else f"{self._unsaid} lines are"
            self._lines.append(f"({what} missing here, not read in time)")
            self._unsaid = 0

    def _write(self, text: str) -> None:
        """Write past the file object's buffer, whose lock nobody may hold when the process ends."""
        stream = self._stream
        try:
            fd = stream.fileno()
        except (OSError, ValueError, AttributeError):  # no file, as in tests
            stream.write(text)
            stream.flush()
            return
        data = memoryview(text.encode(stream.encoding or "utf-8", "backslashreplace"))
        while data:
            try:
                data = data[os.write(fd, data) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(fd, select.POLLOUT)
                poll.poll()
