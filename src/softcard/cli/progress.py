"""Progress of long work on a terminal: rate and time left, shown only after `DELAY_S` seconds."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO, TypeVar

from softcard.cli.output import exact
from softcard.core.display import count

if TYPE_CHECKING:
    from rich.progress import Progress

DELAY_S: Final = 2.0
"""The time in seconds after which work shows its progress; shorter work shows nothing."""
BAR_COLUMNS: Final = 20
WIDE_COLUMNS: Final = 80
"""The minimum width of a terminal on which progress has a bar besides numbers."""
POLL_S: Final = 0.25
"""The time in seconds between two calls of a function that returns the state of work."""
STEP_BYTES: Final = 1 << 18
"""The number of bytes after which a bar advances."""
BYTES: Final = "bytes"
"""The unit of work that consists of reading or writing bytes."""

Item = TypeVar("Item")


def is_terminal() -> bool:
    """Return True if standard error is a terminal that can show progress; colours forced in a pipe are not enough."""
    stream = exact(sys.stderr) if sys.stderr is not None else None
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")
    except ValueError:  # closed
        return False


class Bar:
    """The progress of one piece of work. Any thread may call it; without a terminal, it shows nothing."""

    def __init__(
        self, what: str, total: float | None, unit: str, state: Callable[[], str] | None, is_shown: bool
    ) -> None:
        self._what, self._total, self._unit, self._state = what, total, unit, state
        self._start = time.monotonic()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._done = 0.0
        self._note = ""
        self._bars: Progress | None = None
        self._thread: threading.Thread | None = None
        if is_shown:
            self._thread = threading.Thread(target=self._show, name="progress", daemon=True)
            self._thread.start()

    def advance(self, amount: float = 1) -> None:
        """Add to the amount of work that is done."""
        with self._lock:
            self._done += amount
            self._refresh()

    def update(self, done: float, note: str = "") -> None:
        """Set the amount of work that is done, and a note about it."""
        with self._lock:
            self._done, self._note = done, note
            self._refresh()

    def begin(self, done: float) -> None:
        """Begin the measurement of the rate; `done` was done before."""
        with self._lock:
            self._done = done
            if self._bars is not None:
                self._bars.reset(self._bars.task_ids[0], completed=int(done))

    def print(self, text: str, to: TextIO | None = None) -> None:
        """Print a line on `to`, or standard error, above the bar if it is shown and both are terminals."""
        stream = sys.stderr if to is None else to
        with self._lock:
            if self._bars is not None and stream.isatty():
                self._bars.console.print(text, highlight=False, markup=False, soft_wrap=True)
            else:
                print(text, file=stream, flush=True)

    @property
    def is_shown(self) -> bool:
        """True if the progress is on the terminal now."""
        return self._bars is not None and self._bars.live.is_started

    def end(self) -> None:
        """Remove the progress from the terminal."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _refresh(self) -> None:
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[0], completed=self._done, note=self._note)

    def _show(self) -> None:
        """Show the bar from `DELAY_S` on until the work ends; rich is imported only then."""
        if self._ended.wait(DELAY_S):
            return
        bars = _bars(self._total is not None, self._unit)
        with self._lock:
            task = bars.add_task(self._what, total=self._total, completed=int(self._done), note=self._note)
            bars.tasks[0].start_time = bars.get_time() - (time.monotonic() - self._start)
            self._bars = bars
        with bars:
            while not self._ended.wait(POLL_S):
                if self._state is not None:
                    bars.update(task, note=self._state())


def _bars(has_total: bool, unit: str) -> Progress:
    """Return rich's display of progress, with the columns for work with or without a known total."""
    from rich import progress
    from rich.table import Column
    from rich.text import Text

    from softcard.cli.tables import Terminal

    class Rate(progress.ProgressColumn):
        """The rate of the work."""

        def render(self, task: progress.Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.{0 if speed >= 100 else 1}f}/s", "progress.data.speed")

    def column() -> Column:
        return Column(no_wrap=True)

    console = Terminal(stderr=True)
    text = progress.TextColumn("{task.description}", markup=False, table_column=column())
    note = progress.TextColumn("{task.fields[note]}", markup=False, table_column=column())
    bar = [progress.BarColumn(BAR_COLUMNS)] if console.width >= WIDE_COLUMNS else []
    left = progress.TimeRemainingColumn(table_column=column())
    columns: list[progress.ProgressColumn]
    if not has_total:
        columns = [progress.SpinnerColumn(), text, progress.TimeElapsedColumn(table_column=column()), note]
    elif unit == BYTES:
        size = progress.DownloadColumn(table_column=column()) if bar else progress.TaskProgressColumn()
        columns = [text, *bar, size, progress.TransferSpeedColumn(table_column=column()), left]
    else:
        done = progress.MofNCompleteColumn(table_column=column())
        name = progress.TextColumn(unit, table_column=column())
        columns = [text, *bar, done, name, Rate(table_column=column()), left, note]
    return progress.Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)


@contextmanager
def progress(
    what: str,
    total: float | None = None,
    unit: str = "",
    state: Callable[[], str] | None = None,
    is_quiet: bool = False,
) -> Iterator[Bar]:
    """Show the progress of the block on a terminal if it takes more than `DELAY_S`.

    `what` names the work, and `total` is its amount in `unit`; without it the time that has passed is shown. `state`
    returns a note, and is called from another thread. With `is_quiet`, nothing is shown, because the work itself
    prints."""
    bar = Bar(what, total, unit, state, is_shown=not is_quiet and is_terminal())
    try:
        yield bar
    finally:
        bar.end()


def tracked(items: Iterable[Item], what: str, total: int, unit: str = "") -> Iterator[Item]:
    """Yield items, and show how many were processed."""
    with progress(what, total, unit) as bar:
        for item in items:
            yield item
            bar.advance()


def counted(lines: Iterable[bytes], bar: Bar) -> Iterator[bytes]:
    """Yield lines, and advance a bar by their bytes."""
    size = 0
    for line in lines:
        yield line
        size += len(line)
        if size >= STEP_BYTES:
            bar.advance(size)
            size = 0


def compiled_code() -> str:
    """Return the amount of code that LLVM has compiled for this process, as text."""
    from softcard.ir.llvm import STATISTICS

    if not STATISTICS.modules:
        return ""
    return f"{count(STATISTICS.modules, 'module')} compiled ({STATISTICS.characters / 1e6:.1f} MB of IR)"


def size_of(file: BinaryIO) -> int | None:
    """Return the size of an open file; None if it is a pipe or a device."""
    try:
        about = os.fstat(file.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return about.st_size if stat.S_ISREG(about.st_mode) else None
