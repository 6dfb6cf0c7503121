"""Said once where a host's processor is one that an engine has no machine code for: nothing is slow without a word."""

from __future__ import annotations

from functools import cache
from typing import Final

from understudy.core.caller import warn_caller
from understudy.ir import llvm

HARTS: Final = "RISC-V kernels run on the reference engine, at about a million instructions a second"
WAVES: Final = "wave code that flushes denormals or rounds otherwise than to nearest runs on the reference engine"


class SlowHostWarning(UserWarning):
    """The JIT engine is asked for on a host that is not x86: results are the same, slowly."""


def warn_where_slow(what: str) -> None:
    """Warn, once in a process, that `what` on hosts whose processor is not an x86."""
    if not llvm.is_x86():
        _warn(what)


@cache
def _warn(what: str) -> None:
    warn_caller(f"this host is not an x86: {what}", SlowHostWarning)
