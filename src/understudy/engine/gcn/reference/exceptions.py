"""The reference engine with exceptions: what each instruction raises goes into TRAPSTS, and traps where it is enabled.

Bits are those of TRAPSTS.EXCP and, in the same order, of the exception enables in compute_pgm_rsrc2. Float operations
are computed again, lane by lane, in integers, which gives the IEEE 754 flags; approximations (reciprocals, roots) raise
division by zero and invalid operation only. Slow: engines without it ignore exceptions, as waves do that enable none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntFlag
from typing import Any, Final

import numpy as np

from understudy.core.errors import GuestFault
from understudy.engine.gcn.api import Dispatch, Statistics
from understudy.engine.gcn.group import Groups
from understudy.engine.gcn.reference.engine import Stepper
from understudy.engine.gcn.reference.lane_atomic import LaneAtomics
from understudy.engine.gcn.reference.lane_float import EXACT, LaneFloats
from understudy.engine.gcn.reference.lane_integer import Value, lanes_of
from understudy.engine.gcn.reference.lane_memory import Current
from understudy.engine.gcn.reference.lane_rounding import BITS, flushed
from understudy.engine.gcn.reference.lanes import Lanes, View
from understudy.ir import softfloat
from understudy.ir.softfloat import DZ, FORMATS, NV, NX, OF, UF
from understudy.isa.gcn.asm.printer import text
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import TRAPSTS

INTEGER_DIVISION: Final = "v_rcp_iflag_f32"
"""The one instruction whose division by zero counts as an integer one."""


class Exceptions(IntFlag):
    """TRAPSTS.EXCP."""

    INVALID = 1 << 0
    DENORMAL_SOURCE = 1 << 1
    DIVISION_BY_ZERO = 1 << 2
    OVERFLOW = 1 << 3
    UNDERFLOW = 1 << 4
    INEXACT = 1 << 5
    INTEGER_DIVISION_BY_ZERO = 1 << 6
    ADDRESS_WATCH = 1 << 7
    MEMORY_VIOLATION = 1 << 8


_IEEE: Final = (
    (NV, Exceptions.INVALID),
    (DZ, Exceptions.DIVISION_BY_ZERO),
    (OF, Exceptions.OVERFLOW),
    (UF, Exceptions.UNDERFLOW),
    (NX, Exceptions.INEXACT),
)


class EnabledException(GuestFault):
    """An exception that the wave enables: it traps behind the instruction."""

    def __init__(self, raised: Exceptions) -> None:
        names = ", ".join(str(each.name).lower().replace("_", " ") for each in Exceptions if each & raised)
        super().__init__(f"exception: {names}")
        self.raised = raised


class Watch:
    """What instructions raise: in `raised`. `watched`: guest addresses whose accesses raise."""

    def __init__(self, watched: Sequence[range] = ()) -> None:
        self.raised = Exceptions(0)
        self.watched = watched
        self.current = Current()

    def note(self, flags: int) -> None:
        """IEEE flags have been raised."""
        for flag, exception in _IEEE:
            if flags & flag:
                self.raised |= exception

    def look(self, space: str, bits: int, address: Value, where: Value | None) -> None:
        """Lanes access memory."""
        if not self.watched or space not in ("global", "flat"):
            return
        addresses: Any = lanes_of(64, address) if type(address) is int else address
        for at in addresses[self.current.lanes_where(where)].tolist():
            if any(at < area.stop and area.start < at + bits // 8 for area in self.watched):
                self.raised |= Exceptions.ADDRESS_WATCH


class WatchedFloats(LaneFloats):
    """Floats that note what they raise."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def _arithmetic(self, kind: str, fmt: str, env: str | None, *operands: Value) -> Value:
        arrays = [lanes_of(BITS[fmt], a) if type(a) is int else a for a in operands]
        e = self.environment(fmt, env)
        lanes = np.flatnonzero(self.watch.current.exec)
        values = [(a if e.inputs else flushed(fmt, a))[lanes].tolist() for a in arrays]
        f = FORMATS[fmt]
        if env != "raw" and any(0 < n & ~f.sign < f.hidden for a in arrays for n in a[lanes].tolist()):
            self.watch.raised |= Exceptions.DENORMAL_SOURCE
        flags = 0
        for numbers in zip(*values, strict=True):
            flags |= EXACT[kind](fmt, *numbers, e.rounding)[1]
        self.watch.note(flags & (NV | DZ) if env == "raw" else flags)
        return super()._arithmetic(kind, fmt, env, *operands)

    def fldexp(self, fmt: str, a: Value, n: Value, env: str | None = None) -> Value:
        """a * 2**n."""
        self._each(fmt, env, lambda x, power, rounding: softfloat.scale(fmt, x, power, rounding)[1], a, n)
        return super().fldexp(fmt, a, n, env)

    def fconvert(self, to: str, fmt: str, a: Value, env: str | None = None, rounding: int | None = None) -> Value:
        """Another format."""
        self._each(fmt, env, lambda x, _, mode: softfloat.convert(to, fmt, x, mode)[1], a, 0)
        return super().fconvert(to, fmt, a, env, rounding)

    def _each(self, fmt: str, env: str | None, flags: Callable[[int, int, int], int], a: Value, n: Value) -> None:
        """Note the flags of an operation on a float and a signed number."""
        if env == "raw":
            return
        e = self.environment(fmt, env)
        lanes = np.flatnonzero(self.watch.current.exec)
        x = lanes_of(BITS[fmt], a) if type(a) is int else a
        powers = (lanes_of(32, n) if type(n) is int else n).view(np.int32)[lanes].tolist()
        found = 0
        for number, power in zip((x if e.inputs else flushed(fmt, x))[lanes].tolist(), powers, strict=True):
            found |= flags(number, power, e.rounding)
        self.watch.note(found)


class WatchedMemory(LaneAtomics):
    """Memory that notes accesses to watched addresses."""

    def __init__(self, dispatch: Dispatch, watch: Watch) -> None:
        super().__init__(dispatch.memory, dispatch.gds, watch.current)
        self.watch = watch

    def load(self, space: str, bits: int, address: Value, where: Value | None = None) -> list[Value]:
        """Per-lane values from memory."""
        self.watch.look(space, bits, address, where)
        return super().load(space, bits, address, where)

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Per-lane values to memory."""
        self.watch.look(space, bits, address, where)
        super().store(space, bits, address, values, where)

    def atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Value,
        v: Value,
        compare: Value | None = None,
        where: Value | None = None,
    ) -> Value:
        """Read, modify, write, lane after lane."""
        self.watch.look(space, bits, address, where)
        return super().atomic(space, kind, bits, address, v, compare, where)


class WatchingStepper(Stepper):
    """Executes instructions; those that raise what `enabled` names trap."""

    def __init__(self, dispatch: Dispatch, enabled: Exceptions, watched: Sequence[range] = ()) -> None:
        self.watch = Watch(watched)
        lanes = Lanes.of(dispatch, WatchedMemory(dispatch, self.watch), WatchedFloats(self.watch))
        super().__init__(dispatch, lanes=lanes)
        self.enabled = enabled

    def _step(self, view: View, lanes: int | None) -> Insn:
        self.watch.raised = Exceptions(0)
        insn = super()._step(view, lanes)
        raised = self.watch.raised
        if insn.op.name == INTEGER_DIVISION and raised & Exceptions.DIVISION_BY_ZERO:
            raised = raised & ~Exceptions.DIVISION_BY_ZERO | Exceptions.INTEGER_DIVISION_BY_ZERO
        view.words[TRAPSTS] |= int(raised)
        if raised & self.enabled:
            raise EnabledException(raised & self.enabled).at("pc", insn.pc, text(insn))
        return insn


class ExceptionEngine:
    """Runs dispatches whose waves enable exceptions."""

    def __init__(self, enabled: Exceptions, watched: Sequence[range] = ()) -> None:
        self.enabled = enabled
        self.watched = watched

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run all groups to their end; `EnabledException` where one of them traps."""
        return Groups(dispatch, WatchingStepper(dispatch, self.enabled, self.watched)).run()
