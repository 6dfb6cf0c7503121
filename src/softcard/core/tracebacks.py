"""Tracebacks that end at the line that called Softcard, since Softcard's own frames do not help the user.

The module that defines the errors calls `install`, which therefore takes effect for all devices. Calls to
devices do not become slower. Hooks that a program has set itself are not replaced. With the environment
variable ``SOFTCARD_TRACEBACK=full`` all frames are shown."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


VARIABLE: Final = "SOFTCARD_TRACEBACK"
FULL: Final = "full"
OURS: Final = {"softcard"}
"""The packages whose frames are not the user's: this one, and frameworks that call it for the user."""
_WHOLE: Final = "_shows_all_frames"
_SHELLS: Final = ("IPython", "ipykernel")
"""The names of the packages whose frames a notebook's own traceback would omit."""


def is_full() -> bool:
    """Return True if tracebacks must show all frames, as ``SOFTCARD_TRACEBACK=full`` requests."""
    return os.environ.get(VARIABLE, "") == FULL


def without_own_frames(trace: TracebackType | None, *more: str) -> TracebackType | None:
    """Return a traceback without the frames of the packages `OURS` and `more`."""
    frames = []
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0]
        if package not in OURS and package not in more:
            frames.append(trace)
        trace = trace.tb_next
    found = None
    for each in reversed(frames):
        found = TracebackType(found, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return found


@contextmanager
def shortened(error: BaseException, *more: str) -> Iterator[None]:
    """Remove this package's frames from an error, and from its causes and contexts, during the ``with`` block.

    Frames of the packages `more` are removed too, and notes with registers, which the attribute `registers` has. All
    are restored at the end of the block.
    """
    before: list[tuple[BaseException, TracebackType | None, list[str] | None]] = []
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            notes = getattr(each, "__notes__", None)
            before.append((each, each.__traceback__, notes))
            each.__traceback__ = without_own_frames(each.__traceback__, *more)
            if notes is not None:
                registers = str(getattr(each, "registers", None))
                each.__notes__ = [note for note in notes if note != registers]
            left += [each.__cause__, None if each.__suppress_context__ else each.__context__]
    try:
        yield
    finally:
        for each, trace, notes in before:
            each.__traceback__ = trace
            if notes is not None:
                each.__notes__ = notes


def show_whole(error: BaseException) -> None:
    """Let tracebacks of `error` show all frames from then on."""
    setattr(error, _WHOLE, True)


def lines_of(error: BaseException, *, whole: bool = False) -> list[str]:
    """Return the lines of the traceback of `error`, as IPython expects them.

    The traceback omits Softcard's frames, unless `whole` is True or `is_full` returns True."""
    import traceback

    if whole or is_full():
        return "".join(traceback.format_exception(error)).splitlines()
    with shortened(error, *_SHELLS):
        return "".join(traceback.format_exception(error)).splitlines()


def install(kind: type[BaseException], but: type[BaseException]) -> None:
    """Install hooks that omit Softcard's frames from tracebacks of uncaught errors of class `kind`.

    Tracebacks of errors of class `but` keep all frames."""

    def is_shortened(error: BaseException | None) -> bool:
        is_ours = isinstance(error, kind) and not isinstance(error, but)
        return is_ours and not is_full() and not hasattr(error, _WHOLE)

    def show(type_: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not is_shortened(error):
            sys.__excepthook__(type_, error, trace)
            return
        with shortened(error):
            sys.__excepthook__(type_, error, error.__traceback__)

    def show_of_thread(arguments: threading.ExceptHookArgs) -> None:
        error = arguments.exc_value
        if error is None or not is_shortened(error):
            threading.__excepthook__(arguments)
            return
        with shortened(error):
            threading.__excepthook__(
                threading.ExceptHookArgs((arguments.exc_type, error, error.__traceback__, arguments.thread))
            )

    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = show
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = show_of_thread


_PACKAGE: Final = __name__.partition(".")[0]
_NOT_USER_CODE: Final = (_PACKAGE, "threading", "typer", "click")
"""The packages whose frames are outermost if Softcard was not called by a host program.

That is the case in threads of servers, and on the command line.
"""


def warn_caller(text: str, category: type[Warning]) -> None:
    """Issue a warning that points to the innermost line outside this package."""
    host = _host_frame()
    warnings.warn_explicit(
        text,
        category,
        host.f_code.co_filename,
        host.f_lineno,
        host.f_globals.get("__name__"),
        host.f_globals.setdefault("__warningregistry__", {}),
    )


def host_line() -> str:
    """Return the innermost line outside this package as ``file:line``; "" if all frames belong to this package."""
    frame = _host_frame()
    if frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_USER_CODE:
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _host_frame() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        frame = frame.f_back
    return frame
