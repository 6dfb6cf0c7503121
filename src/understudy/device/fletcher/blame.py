"""Where in a kernel's code an exception came from: its author wants to see their own line, not ours or a library's."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Final

OURS: Final = str(Path(__file__).parents[2])
"""The package's folder."""
_LIBRARIES: Final = (OURS, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))


def behind(tb: TracebackType | None, file: str) -> TracebackType | None:
    """A traceback without the frames of `file` that it begins with."""
    while tb is not None and tb.tb_frame.f_code.co_filename == file:
        tb = tb.tb_next
    return tb


def place_of(tb: TracebackType | None) -> tuple[str, str] | None:
    """The innermost line that is in the file the traceback begins in, or in no library: its place, and its function.

    None where that is a line of this package, or there is none.
    """
    return _own(traceback.extract_tb(tb))


def line_of(frame: FrameType | None, caller: CodeType) -> tuple[str, str] | None:
    """The same of a thread that is inside the kernel, which `caller` has called, or of a generator that waits."""
    inside = []
    for each, line in traceback.walk_stack(frame) if frame is not None else ():
        if each.f_code is caller:
            break
        inside.append((each, line))
    own = [pair for pair in inside if not _is_library(pair[0].f_code.co_filename)]
    return _own(traceback.StackSummary.extract(iter(own[:1])))


def _own(frames: Sequence[traceback.FrameSummary]) -> tuple[str, str] | None:
    own = [frame for frame in frames if frame.filename == frames[0].filename or not _is_library(frame.filename)]
    if not own or own[-1].filename.startswith(OURS):
        return None
    return f"{own[-1].lineno} of {own[-1].filename}", own[-1].name


def _is_library(file: str) -> bool:
    return file.startswith((*_LIBRARIES, "<frozen "))
