"""The reference engine with exceptions: instructions set bits of TRAPSTS, and trap if an exception is enabled.

The bits are those of TRAPSTS.EXCP. The exception enables in compute_pgm_rsrc2 have the same order. Each float
operation is computed a second time, lane by lane, in integers, which yields the IEEE 754 flags.
Approximations (reciprocals, roots) raise only division by zero and invalid operation. This engine is slow.
Therefore waves that do not enable exceptions run on engines that ignore them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntFlag
from typing import Any, Final

import numpy as np

from softcard.core.errors import GuestFault
from softcard.engine.gcn.api import Dispatch, Statistics
from softcard.engine.gcn.reference.engine import Stepper
from softcard.engine.gcn.reference.groups import Groups
from softcard.engine.gcn.reference.lane_atomic import LaneAtomics
from softcard.engine.gcn.reference.lane_float import BITS, EXACT, LaneFloats, flushed
from softcard.engine.gcn.reference.lane_integer import Value, lanes_of
from softcard.engine.gcn.reference.lane_memory import Current
from softcard.engine.gcn.reference.lanes import Lanes, View
from softcard.ir import softfloat
from softcard.ir.softfloat import DZ, FORMATS, NV, NX, OF, UF
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import TRAPSTS

INTEGER_DIVISION: Final = "v_rcp_iflag_f32"
"""The only instruction whose division by zero sets the flag of an integer division by zero."""


class Exceptions(IntFlag):
    """The exception bits of TRAPSTS.EXCP."""

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
    """The fault of an instruction that causes an exception which the wave enables.

    The wave traps after this instruction.
    """

    def __init__(self, raised: Exceptions) -> None:
        names = ", ".join(str(each.name).lower().replace("_", " ") for each in Exceptions if each & raised)
        super().__init__(f"exception: {names}")
        self.raised = raised


class Watch:
    """A recorder of the exceptions of waves: their bits of TRAPSTS.EXCP accumulate in `raised`.

    An access to an address in one of the ranges `watched` sets the bit ADDRESS_WATCH.
    """

    def __init__(self, watched: Sequence[range] = ()) -> None:
        self.raised = Exceptions(0)
        self.watched = watched
        self.current = Current()

    def note(self, flags: int) -> None:
        """Record IEEE 754 exception flags."""
        for flag, exception in _IEEE:
            if flags & flag:
                self.raised |= exception

    def check_address(self, space: str, bits: int, address: Value, where: Value | None) -> None:
        """Record an address-watch exception if lanes access watched addresses."""
        if not self.watched or space not in ("global", "flat"):
            return
        addresses: Any = lanes_of(64, address) if type(address) is int else address
        for at in addresses[self.current.lanes_where(where)].tolist():
            if any(at < area.stop and area.start < at + bits // 8 for area in self.watched):
                self.raised |= Exceptions.ADDRESS_WATCH


class WatchedFloats(LaneFloats):
    """The float operations, extended to record their exceptions."""

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
        """Compute a * 2**n, and record its exceptions."""
        self._each(fmt, env, lambda x, power, rounding: softfloat.scale(fmt, x, power, rounding)[1], a, n)
        return super().fldexp(fmt, a, n, env)

    def fconvert(self, to: str, fmt: str, a: Value, env: str | None = None, rounding: int | None = None) -> Value:
        """Convert to another format, and record exceptions."""
        self._each(fmt, env, lambda x, _, mode: softfloat.convert(to, fmt, x, mode)[1], a, 0)
        return super().fconvert(to, fmt, a, env, rounding)

    def _each(self, fmt: str, env: str | None, flags: Callable[[int, int, int], int], a: Value, n: Value) -> None:
        """Record the exception flags of an operation on a float and a signed number, for each lane."""
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
    """The memory operations, extended to record accesses to watched addresses."""

    def __init__(self, dispatch: Dispatch, watch: Watch) -> None:
        super().__init__(dispatch.memory, dispatch.gds, watch.current)
        self.watch = watch

    def load(self, space: str, bits: int, address: Value, where: Value | None = None) -> list[Value]:
        """Load per-lane values, and record accesses to watched addresses."""
        self.watch.check_address(space, bits, address, where)
        return super().load(space, bits, address, where)

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Store per-lane values, and record accesses to watched addresses."""
        self.watch.check_address(space, bits, address, where)
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
        """Perform an atomic operation of each lane, and record accesses to watched addresses."""
        self.watch.check_address(space, bits, address, where)
        return super().atomic(space, kind, bits, address, v, compare, where)


class WatchingStepper(Stepper):
    """The executor of single instructions that raises `EnabledException` after an enabled exception.

    `enabled` has the enabled exceptions.
    """

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
    """The engine for dispatches whose waves enable exceptions."""

    def __init__(self, enabled: Exceptions, watched: Sequence[range] = ()) -> None:
        self.enabled = enabled
        self.watched = watched

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run all work-groups to their end, or raise `EnabledException` if a wave traps."""
        return Groups(dispatch, WatchingStepper(dispatch, self.enabled, self.watched)).run()
