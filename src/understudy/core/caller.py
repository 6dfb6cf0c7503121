"""Which line of the host's program led to something: warnings show it, allocations keep it."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Final

_PACKAGE: Final = __name__.partition(".")[0]
_NOBODYS: Final = (_PACKAGE, "threading", "typer", "click")
"""Where the innermost line is not the host's program's: in servers' threads, and under the command line."""


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn at the innermost line that is not this package's."""
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
    """``file:line`` of the innermost line that is not this package's; "" where there is none."""
    frame = _host_frame()
    if frame.f_globals.get("__name__", "").partition(".")[0] in _NOBODYS:
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _host_frame() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return frame
