"""The host's float control register for what a guest's MODE asks for."""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.effects import Environment
from understudy.ir import llvm
from understudy.ir.builder import LaneText
from understudy.isa.gcn.state import Mode

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


def of_mode(bits: int) -> Environment:
    """The host's setting that binary32 needs under MODE."""
    mode = Mode.decode(bits)
    inputs, results = mode.keeps("s")
    return Environment(not inputs, not results, mode.round32)


class FloatControl:
    """The host's float control. `now` is what it is set to in this block."""

    def __init__(self, text: LaneText) -> None:
        self.text = text
        self.now = DEFAULT

    def set(self, wanted: Environment) -> None:
        """Set it."""
        if not host_has(wanted):
            raise Untranslated
        if not llvm.is_x86():
            return
        control = float_control(wanted)
        at = f"csr{control}"
        self.text.alloca(f"%{at} = alloca i32")
        self.text.put(f"store i32 {control}, ptr %{at}")
        self.text.call_void("llvm.x86.sse.ldmxcsr", f"ptr %{at}")
