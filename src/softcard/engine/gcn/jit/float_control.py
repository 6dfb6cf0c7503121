"""The settings of the host's floating-point control register (MXCSR) that a guest's MODE requires."""

from __future__ import annotations

from typing import Final

from softcard.engine.gcn.effects import Environment
from softcard.engine.gcn.jit.basics import Untranslated
from softcard.ir import llvm
from softcard.ir.builder import LaneText
from softcard.isa.gcn.state import Mode

MXCSR_MASKED: Final = 0x1F80
"""The MXCSR bits that mask all exceptions."""
MXCSR_ROUNDING: Final = (0, 2, 1, 3)
"""The host's number for each of MODE's rounding modes."""


def float_control(wanted: Environment) -> int:
    """Return the value of the MXCSR for this floating-point control."""
    control = MXCSR_MASKED | bool(wanted.daz) << 6 | bool(wanted.ftz) << 15
    return control | MXCSR_ROUNDING[wanted.rounding or 0] << 13


DEFAULT: Final = Environment(False, False, 0)
"""The floating-point control that hosts have by default."""


def host_has(wanted: Environment) -> bool:
    """Return True if translated code can set this floating-point control on the host.

    Hosts without an MXCSR have only the default setting.
    """
    return llvm.is_x86() or wanted == DEFAULT


def of_mode(bits: int) -> Environment:
    """Return the host's floating-point control that binary32 operations need under the MODE `bits`."""
    mode = Mode.decode(bits)
    inputs, results = mode.keeps_denormals("s")
    return Environment(not inputs, not results, mode.round32)


class FloatControl:
    """The emitter of changes to the host's floating-point control.

    `now` is the setting at the present point of the block."""

    def __init__(self, text: LaneText) -> None:
        self.text = text
        self.now = DEFAULT

    def set(self, wanted: Environment) -> None:
        """Emit the change of the floating-point control to this setting."""
        if not host_has(wanted):
            raise Untranslated
        if not llvm.is_x86():
            return
        control = float_control(wanted)
        at = self.text.slot(f"%csr{control}", "i32")
        at.store(control, type="i32")
        self.text.call_void("llvm.x86.sse.ldmxcsr", at.typed)
