"""The standard output and standard error of commands.

Names in files may contain terminal control characters: within `escaping` they are shown escaped. `Output` accepts lines
from callers that must not block, such as devices and threads that hold a device's lock.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO, cast

from softcard.core.display import printable

ROOM: Final = 4 << 20
"""The maximum number of characters that may be queued for writing."""
INDENT: Final = "  "
"""The indentation of the later lines of a text that a narrow terminal breaks."""
GRACE_S: Final = 2.0
"""The time in seconds for which the end of the process waits until the reader has read the last lines."""


def unwritten() -> OSError | None:
    """Flush standard output and return None; if that fails, discard the rest of the output and return the error."""
    try:
        with suppress(ValueError, AttributeError):  # closed, or None: the process was started without one
            sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError, AttributeError):  # otherwise the interpreter flushes again at exit
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        return error
    return None


def is_closed() -> bool:
    """Return True if the reader of standard output has closed it."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))
    except (OSError, ValueError, AttributeError):  # not a file, as in tests, or None
        return False


class Escaping:
    """A text stream that escapes control characters, and otherwise behaves like the `stream` that it writes to."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text with control characters escaped."""
        self.stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts with control characters escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def exact(stream: TextIO) -> TextIO:
    """Return `stream` without escaping, for the output of guest programs and for Softcard's own control sequences."""
    return stream.stream if isinstance(stream, Escaping) else stream


@contextmanager
def escaping() -> Iterator[None]:
    """Escape control characters in everything that the block prints on standard output and standard error."""
    before = sys.stdout, sys.stderr
    made = [stream if stream is None else cast(TextIO, Escaping(exact(stream))) for stream in before]
    sys.stdout, sys.stderr = made
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def show_line(*phrases: str, to: TextIO | None = None) -> None:
    """Print phrases as one line of text; on a narrow terminal, in several lines.

    A line is broken between phrases where possible, or else between words; later lines are indented. In a pipe, the
    line is not broken unless the environment variable COLUMNS gives a width.
    """
    stream = sys.stdout if to is None else to
    if stream is not None and (stream.isatty() or "COLUMNS" in os.environ):
        from rich.console import Console  # here, since its import takes a while

        print("\n".join(broken(phrases, Console(file=stream).width)), file=stream)
    else:
        print(" ".join(phrases), file=stream)


def broken(phrases: Sequence[str], width: int) -> list[str]:
    """Return the phrases in lines of at most `width` columns; all lines but the first are indented.

    Words are broken only if no line holds them.
    """
    from softcard.report.diagnostic_text import cells, fold

    lines = [""]
    for phrase in phrases:
        joined = f"{lines[-1]} {phrase}".lstrip() if len(lines) == 1 else f"{lines[-1]} {phrase}"
        if cells(joined) <= width:
            lines[-1] = joined
            continue
        room = max(1, width - len(INDENT))
        first = room if lines != [""] else width
        for part in fold(phrase, first, room):
            lines = [part] if lines == [""] else [*lines, INDENT + part]
    return lines


class Output:
    """A queue of lines, which a separate thread writes in order.

    If the reader is too slow, lines are dropped and counted. If the pipe is closed, all lines are dropped."""

    def __init__(self, stream: TextIO | None = None, room: int = ROOM) -> None:
        """Start the thread. `stream` is standard output by default; at most `room` characters may wait."""
        self._stream = sys.stdout if stream is None else stream
        self._room = room
        self._changed = threading.Condition()
        self._lines: deque[str] = deque()
        self._waiting = 0
        self._unsaid = 0
        self._is_closed = False
        self._is_writing = False
        self._is_broken = self._stream is None  # the process was started without one
        self.dropped = 0
        """The number of dropped lines."""
        self._thread = threading.Thread(target=self._write_all, name="output", daemon=True)
        if self._stream is not None:
            with suppress(OSError, ValueError):
                self._stream.flush()
            self._thread.start()

    @property
    def stream(self) -> TextIO | None:
        """The stream; None if the process was started without one."""
        return self._stream

    def say(self, line: str, *, is_printable: bool = False) -> None:
        """Queue a line. This never blocks and never fails.

        Control characters are escaped, unless `is_printable`: the line may then contain escape sequences of
        Softcard."""
        line = line if is_printable else printable(line)
        with self._changed:
            if self._is_broken or self._is_closed or self._waiting + len(line) > self._room:
                self.dropped += 1
                self._unsaid += 1
                self._changed.notify_all()
                return
            self._report_dropped()
            self._lines.append(line)
            self._waiting += len(line) + 1
            self._changed.notify_all()

    def drain(self) -> None:
        """Wait until the queued lines are written, so that the caller can write to the stream itself.

        Give up if the reader does not read the lines in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_broken or not (self._lines or self._is_writing), GRACE_S)

    def close(self) -> None:
        """Write the queued lines and end the thread; give up if the reader does not read them in time."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(GRACE_S)

    def _write_all(self) -> None:
        while lines := self._take():
            try:
                self._write("".join(f"{line}\n" for line in lines))
            except (OSError, ValueError):  # ValueError: a file object that was closed
                with self._changed:
                    self._is_broken = True
                    self._changed.notify_all()
                    self.dropped += len(lines) + len(self._lines)
                return

    def _take(self) -> list[str]:
        """Wait for queued lines and return them; return an empty list after `close`."""
        with self._changed:
            self._is_writing = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._lines or self._unsaid or self._is_closed)
            if not self._lines:
                self._report_dropped()
            lines = list(self._lines)
            self._lines.clear()
            self._waiting = 0
            self._is_writing = bool(lines)
            return lines

    def _report_dropped(self) -> None:
        if self._unsaid:
            what = "1 line is" if self._unsaid == 1 else f"{self._unsaid} lines are"
            self._lines.append(f"({what} missing here: standard output was not read fast enough)")
            self._unsaid = 0

    def _write(self, text: str) -> None:
        """Write `text` to the file descriptor itself, not through the stream's buffer.

        A thread that holds the buffer's lock would block the end of the process.
        """
        stream = self._stream
        try:
            fd = stream.fileno()
        except (OSError, ValueError, AttributeError):  # not a file, as in tests
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
