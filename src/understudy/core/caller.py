"""Warnings that show the line of the host's program that led to them, not one of ours."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Final

_PACKAGE: Final = __name__.partition(".")[0]


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


def _host_frame() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return frame
