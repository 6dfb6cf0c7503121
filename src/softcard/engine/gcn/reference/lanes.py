"""The reference engine's operations interface for one wave at a time: registers, lanes, memory and control."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcard.core.errors import BeyondModel, GuestFault, Registers, SoftcardError
from softcard.engine.gcn.api import QUIET_HINTS, Dispatch, OnHint, OnTrap
from softcard.engine.gcn.host_clock import HostClock
from softcard.engine.gcn.matrix.stated import multiply
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.lane_atomic import LaneAtomics
from softcard.engine.gcn.reference.lane_float import LaneFloats
from softcard.engine.gcn.reference.lane_integer import Array, LaneIntegers, Value, lanes_of
from softcard.engine.gcn.reference.lane_memory import LaneMemory, bits_of, mask_of
from softcard.ir.composed import Composed
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.execute import selector_values
from softcard.isa.gcn.semantics.matrix.table import Use
from softcard.isa.gcn.state import (
    AT_BARRIER,
    ENDED,
    EXEC,
    EXECZ,
    FULL,
    HW_GPR_ALLOC,
    HW_HW_ID,
    HW_IB_STS,
    HW_ID,
    HW_LDS_ALLOC,
    HW_MODE,
    HW_SH_MEM_BASES,
    HW_STATUS,
    HW_TRAPSTS,
    HW_XCC_ID,
    IN_GROUP,
    INDEXED_SGPRS,
    LANES,
    LDS_SIZE,
    MODE,
    MODE_BITS,
    RETIRED,
    SCC,
    SLEPT,
    STATUS,
    TRAPSTS,
    VALID,
    VCC,
    VCCZ,
    VGPRS,
    XCC_AT,
    Mode,
    Wave,
)

M32: Final = 0xFFFF_FFFF
LANE_IDS: Final[Array] = np.arange(LANES, dtype=np.uint32)


class View:
    """A wave's state block, with objects through which Python accesses single registers cheaply.

    `has_accumulators` is True if the rows after the vector registers are accumulation registers, as on gfx908 and
    later."""

    __slots__ = ("rows", "sgpr", "wave", "words")

    def __init__(self, wave: Wave, has_accumulators: bool = False) -> None:
        self.wave = wave
        self.rows: list[Array] = [*wave.vgpr, *wave.acc] if has_accumulators else list(wave.vgpr)
        self.sgpr = wave.sgpr.data
        self.words = wave.words.data


PARTS: Final = {"integers": LaneIntegers, "floats": LaneFloats, "accesses": LaneAtomics}
"""The components of `Lanes` that provide the operations it does not define itself."""


class Lanes(Composed, **PARTS):
    """The reference engine's `isa.gcn.algebra.WaveAlgebra`: the operations that instruction semantics call.

    This class defines registers and control; components define the other operations. `begin` selects the wave and
    the instruction. `target` is the pc at which execution continues. If `is_plain`, replayed instructions
    (`replay.py`) may read registers directly instead of calling `s` and `v`; then no subclass may override these
    methods. `replays` is True if instructions may be replayed at all. `vgprs` and `sgprs` are the numbers of
    allocated registers, which only s_getreg returns. `accesses` and `floats` are the components for memory and
    floats; if one is None, the standard component is used."""

    is_plain = True
    replays = True

    def __init__(
        self,
        memory: GpuMemory,
        gds: Any = None,
        on_hint: OnHint | None = None,
        on_trap: OnTrap | None = None,
        vgprs: int = VGPRS,
        sgprs: int = 102,
        accesses: LaneMemory | None = None,
        floats: LaneFloats | None = None,
        clock: HostClock | None = None,
    ) -> None:
        self.accesses = LaneAtomics(memory, gds) if accesses is None else accesses
        self.floats = LaneFloats() if floats is None else floats
        self.integers = LaneIntegers()
        self.current = self.accesses.current
        self.on_hint = on_hint
        self.on_trap = on_trap
        self.clock = clock
        self.target = 0
        self.mode = self.floats.mode
        self._allocated = (vgprs, sgprs)
        self.restricted: int | None = None
        self._mode_bits = -1

    @staticmethod
    def of(dispatch: Dispatch, accesses: LaneMemory | None = None, floats: LaneFloats | None = None) -> Lanes:
        """Return the operations interface for a dispatch's waves.

        `accesses` and `floats` replace its components for memory accesses and floats. If `accesses` is None, the
        dispatch's checks may provide that component."""
        if accesses is None and dispatch.checks.every:
            accesses = dispatch.checks.accesses(dispatch)
        return Lanes(
            dispatch.memory,
            dispatch.gds,
            dispatch.on_hint,
            dispatch.on_trap,
            dispatch.vgpr_count,
            dispatch.sgpr_count,
            accesses,
            floats,
            dispatch.clock,
        )

    def begin(self, view: View, insn: Insn, lanes: int | None = None) -> None:
        """Prepare for one instruction of a wave, restricted to the lanes of the mask `lanes` if it is given."""
        current = self.current
        self.view = view
        self.rows = view.rows
        current.wave = view.wave
        self.sgpr = current.sgpr = view.sgpr
        self.words = current.words = view.words
        self.target = insn.next_pc
        bits = view.sgpr[EXEC] | view.sgpr[EXEC + 1] << 32
        self.restricted = lanes
        if lanes is not None:
            bits &= lanes
        if bits != current.exec_bits:
            current.exec_bits = bits
            current.exec = mask_of(bits)
        if view.words[MODE] != self._mode_bits:
            self._mode_bits = view.words[MODE]
            self.mode = self.floats.mode = Mode.decode(self._mode_bits)

    # -- scalar state

    def s(self, n: int) -> int:
        """Return the scalar register with operand code n."""
        return self.sgpr[n]

    def set_s(self, n: int, v: int) -> None:
        """Write scalar register n."""
        self.sgpr[n] = v

    def s64(self, n: int) -> int:
        """Return scalar registers n and n + 1."""
        return self.sgpr[n] | self.sgpr[n + 1] << 32

    def set_s64(self, n: int, v: int) -> None:
        """Write scalar registers n and n + 1."""
        self.sgpr[n + 1] = v >> 32
        self.sgpr[n] = v & M32

    def scc(self) -> int:
        """Return SCC, the scalar condition code."""
        return int(self.words[SCC])

    def set_scc(self, v: int) -> None:
        """Write SCC."""
        self.words[SCC] = v

    def s_indexed(self, n: int, offset: int, w: int = 32) -> int:
        """Return scalar register n + offset; an offset out of range reads register n."""
        index = self._indexed(n, offset, w, n)
        return self.s64(index) if w == 64 else self.s(index)

    def set_s_indexed(self, n: int, offset: int, v: int, w: int = 32) -> None:
        """Write scalar register n + offset; an offset out of range writes nothing."""
        index = self._indexed(n, offset, w, None)
        if index is not None:
            (self.set_s64 if w == 64 else self.set_s)(index, v)

    def _indexed(self, n: int, offset: int, w: int, otherwise: Any) -> Any:
        index = (n + offset) & M32
        return index if index + w // 32 <= INDEXED_SGPRS else otherwise

    def hwreg(self, number: int) -> int:
        """Return the value of a hardware register for s_getreg.

        Raise `BeyondModel` for registers that are not modelled, such as those of traps and debuggers."""
        words = self.words
        if number == HW_MODE:
            return int(words[MODE]) & MODE_BITS
        if number == HW_STATUS:
            flags = words[SCC] | (self.current.exec_bits == 0) << EXECZ | (self.s64(VCC) == 0) << VCCZ
            return int(flags | 1 << IN_GROUP | 1 << VALID)
        if number == HW_TRAPSTS:
            return int(words[TRAPSTS]) & M32
        if number == HW_HW_ID:
            return int(words[HW_ID]) & M32
        if number == HW_XCC_ID:
            return int(words[HW_ID]) >> XCC_AT
        if number == HW_GPR_ALLOC:
            vgprs, sgprs = self._allocated
            return (-(-vgprs // 4) - 1) << 8 | (-(-sgprs // 16) - 1) << 24
        if number == HW_LDS_ALLOC:
            return -(-int(words[LDS_SIZE]) // 512) << 12
        if number == HW_IB_STS:
            return 0
        if number == HW_SH_MEM_BASES:
            return self.accesses.aperture("private") >> 48 | self.accesses.aperture("shared") >> 48 << 16
        raise BeyondModel(f"hardware register {number} is not modelled")

    def set_hwreg(self, number: int, v: int) -> None:
        """Write MODE or TRAPSTS; other hardware registers are read-only, and writing them has no effect."""
        if number == HW_MODE:
            self.words[MODE] = self.words[MODE] & ~MODE_BITS | v
        elif number == HW_TRAPSTS:
            self.words[TRAPSTS] = v
        elif number > HW_IB_STS:
            raise BeyondModel(f"hardware register {number} is not modelled")

    def time(self, kind: str) -> int:
        """Return a clock: the wave's instruction count, or the host's clock."""
        return int(self.words[RETIRED]) if self.clock is None else self.clock.now()

    # -- lanes

    def v(self, n: int) -> Array:
        """Return vector register n."""
        return self.rows[n].copy()

    def set_v(self, n: int, v: Value, where: Value | None = None) -> None:
        """Write vector register n in the lanes of EXEC (and of `where`)."""
        self._put(self.rows[n], v, where)

    def _put(self, row: Array, v: Value, where: Value | None) -> None:
        if type(v) is int:
            v = lanes_of(32, v)
        if where is not None:
            mask = (mask_of(FULL if where else 0) if type(where) is int else where) & self.current.exec
            np.copyto(row, v, casting="no", where=mask)
        elif self.current.exec_bits == FULL:
            np.copyto(row, v, casting="no")
        else:
            np.copyto(row, v, casting="no", where=self.current.exec)

    def mask(self, n: int) -> Array:
        """Return scalar registers n and n + 1 as a lane mask."""
        return mask_of(self.s64(n))

    def set_mask(self, n: int, m: Value) -> None:
        """Set scalar registers n and n + 1 to the lane mask `m`, with 0 for lanes outside EXEC."""
        if type(m) is int:
            bits = self.current.exec_bits if m else 0
        else:
            bits = bits_of(m) & self.current.exec_bits
        if self.restricted is not None:
            bits |= self.s64(n) & ~self.restricted
        self.set_s64(n, bits)

    def lane_bits(self, b: int) -> Array:
        """Return the bits of a 64-bit scalar as a lane mask."""
        return mask_of(b)

    def lane_id(self) -> Array:
        """Return the lane numbers, 0 to 63."""
        return LANE_IDS

    def active(self) -> Array:
        """Return EXEC as a lane mask."""
        return self.current.exec

    # -- across lanes

    def v_at(self, n: int, lane: Value) -> Array:
        """Return, for each lane, the value of vector register n in the lane whose number is in `lane`."""
        chosen: Array = self.rows[n][lanes_of(32, lane) if type(lane) is int else lane]
        return chosen

    def push(self, n: int, v: Value, lane: Value) -> None:
        """Write the value `v` of each active lane to vector register n of the lane whose number is in `lane`.

        If several lanes write to one lane, the value of the highest one remains. Active lanes to which no lane writes
        get 0."""
        lanes = self.current.lanes_where(None)
        result = np.zeros(LANES, np.uint32)
        names: Array = lanes_of(32, lane) if type(lane) is int else lane
        values: Array = lanes_of(32, v) if type(v) is int else v
        for to, value in zip(names[lanes].tolist(), values[lanes].tolist(), strict=True):
            result[to] = value
        self.set_v(n, result)

    def lane(self, n: int, lane: int) -> int:
        """Return vector register n of one lane."""
        return int(self.rows[n][lane])

    def set_lane(self, n: int, lane: int, v: int) -> None:
        """Write vector register n of one lane, regardless of EXEC."""
        self.rows[n][lane] = v

    def matrix(self, use: Use) -> None:
        """Compute a matrix instruction as the rules define it."""
        multiply(use, self.view.wave)

    def v_indexed(self, n: int, offset: int) -> Array:
        """Return vector register n + offset; an offset out of range reads register 0."""
        index = (n + offset) & M32
        return self.v(index if index < VGPRS else 0)

    def set_v_indexed(self, n: int, offset: int, v: Value) -> None:
        """Write vector register n + offset; an offset out of range writes nothing."""
        index = (n + offset) & M32
        if index < VGPRS:
            self.set_v(index, v)

    # -- control

    def order(self, what: str, n: int = 0) -> None:
        """Ignore waits: each access completes within its instruction."""

    def branch(self, c: int, target: int) -> None:
        """Go to `target` if `c` is 1."""
        if c:
            self.target = target

    def jump(self, target: int) -> None:
        """Go to `target`."""
        self.target = target

    def jump_to(self, target: int) -> None:
        """Go to a computed address, whose two low bits are ignored."""
        self.target = target & ~3

    def end(self) -> None:
        """End the wave."""
        self.words[STATUS] = ENDED

    def barrier(self) -> None:
        """Wait for the other waves of the work-group."""
        self.words[STATUS] = AT_BARRIER

    def hint(self, what: str, n: int = 0) -> None:
        """Count a pause (s_sleep), or pass another scheduling hint to the device.

        Engines end the wave's time slice at a pause."""
        if what == "sleep":
            self.words[SLEPT] += 1
        elif self.on_hint is not None and what not in QUIET_HINTS:
            self.on_hint(self.view.wave, what, n)

    def trap(self, number: int) -> None:
        """Call the trap handler for s_trap `number`.

        Raise `GuestFault` if there is no handler, or if the handler stops the wave."""
        if self.on_trap is None:
            raise GuestFault(f"s_trap {number}: there is no trap handler")
        if not self.on_trap(self.view.wave, number):
            raise GuestFault(f"s_trap {number}: the trap handler stopped the wave")


def specialised(lanes: Any, insn: Insn) -> Insn:
    """Return an instruction whose semantics register values select, specialised for the present values.

    `lanes` is the operations interface, for which `begin` has been called. Other instructions are returned unchanged.
    """
    if insn.op.selectors is None:
        return insn
    return insn.specific(selector_values(Builder(lanes), insn))


def registers_at(dispatch: Dispatch, wave: Wave, insn: Insn, lane: int | None) -> Registers | None:
    """Return the registers that `insn`, which the wave executes next, reads; vector registers in lane `lane`.

    Return None if the instruction cannot be specialised."""
    from softcard.engine.gcn.effects import registers_read  # few kernels have findings
    from softcard.isa.gcn.asm.printer import text

    try:
        if insn.op.selectors is not None:
            lanes = Lanes.of(dispatch, LaneAtomics(dispatch.memory))
            lanes.begin(View(wave), insn)
            insn = specialised(lanes, insn)
        return registers_read(insn, wave, lane, text(insn))
    except (SoftcardError, IndexError):
        return None
