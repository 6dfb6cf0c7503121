"""The host's float control register for what a guest's MODE asks for."""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit.effects import Environment
from understudy.ir import llvm

MXCSR_MASKED: Final = 0x1F80
"""All exceptions masked."""
MXCSR_ROUNDING: Final = (0, 2, 1, 3)
"""The host's number of each of MODE's roundings."""


def float_control(wanted: Environment) -> int:
    """The value of the MXCSR."""
    control = MXCSR_MASKED | bool(wanted.daz) << 6 | bool(wanted.ftz) << 15
    return control | MXCSR_ROUNDING[wanted.rounding or 0] << 13


DEFAULT: Final = Environment(False, False, 0)
"""What hosts are set to unless told otherwise."""


def host_has(wanted: Environment) -> bool:
    """Whether translated code can set the host to that: without an MXCSR it leaves the setting as it is."""
    return llvm.is_x86() or wanted == DEFAULT
