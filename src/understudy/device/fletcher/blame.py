"""Where in a kernel's code an exception came from: its author wants to see their own line, not ours or a library's."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from types import TracebackType
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
    frames = traceback.extract_tb(tb)
    own = [frame for frame in frames if frame.filename == frames[0].filename or not _is_library(frame.filename)]
    if not own or own[-1].filename.startswith(OURS):
        return None
    return f"{own[-1].lineno} of {own[-1].filename}", own[-1].name


def _is_library(file: str) -> bool:
    return file.startswith((*_LIBRARIES, "<frozen "))
