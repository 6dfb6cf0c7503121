"""The host's float control register for what a guest's MODE asks for."""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit.effects import Environment

MXCSR_MASKED: Final = 0x1F80
"""All exceptions masked."""
MXCSR_ROUNDING: Final = (0, 2, 1, 3)
"""The host's number of each of MODE's roundings."""


def float_control(wanted: Environment) -> int:
    """The value of the MXCSR."""
    control = MXCSR_MASKED | bool(wanted.daz) << 6 | bool(wanted.ftz) << 15
    return control | MXCSR_ROUNDING[wanted.rounding or 0] << 13
