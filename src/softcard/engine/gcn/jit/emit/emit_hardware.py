"""Hardware registers and clocks in translated code."""

from __future__ import annotations

from typing import Final

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.emit.emit_control import Control, set_word, word
from softcard.engine.gcn.jit.emit.emit_helpers import LIKELY
from softcard.engine.gcn.jit.emit.emit_integer import Integers
from softcard.engine.gcn.jit.emit.emit_memory import Memory
from softcard.engine.gcn.jit.emit.emit_registers import ScalarFile
from softcard.engine.gcn.jit.float_control import FloatControl, of_mode
from softcard.ir.builder import LaneText, Value
from softcard.isa.gcn import state
from softcard.isa.gcn.state import (
    EXEC,
    EXECZ,
    HW_HW_ID,
    HW_IB_STS,
    HW_LDS_ALLOC,
    HW_MODE,
    HW_SH_MEM_BASES,
    HW_STATUS,
    HW_TRAPSTS,
    HW_XCC_ID,
    IN_GROUP,
    MODE_BITS,
    VALID,
    VCC,
    VCCZ,
    XCC_AT,
)

WORDS: Final = {HW_TRAPSTS: state.TRAPSTS, HW_HW_ID: state.HW_ID}
"""The hardware registers that are stored as a word of the wave's state."""


class Hardware:
    """The emitter of accesses to hardware registers and clocks.

    MODE is known at translation time, as it is part of the block's key.
    """

    def __init__(
        self,
        text: LaneText,
        ints: Integers,
        scalars: ScalarFile,
        control: Control,
        memory: Memory,
        float_control: FloatControl,
    ) -> None:
        self.text = text
        self.ints = ints
        self.scalars = scalars
        self.control = control
        self.memory = memory
        self.float_control = float_control

    def hwreg(self, number: int) -> Value:
        """Emit the value of a hardware register for s_getreg; it equals the value on the reference engine."""
        o = self.ints
        if number == HW_MODE:
            return o.const(32, self.control.mode & MODE_BITS)
        if number == HW_STATUS:
            return self._status()
        if number in WORDS:
            return self._low(word(self.text, WORDS[number]))
        if number == HW_XCC_ID:
            return o.trunc(32, 64, o.lshr(64, Value(64, False, word(self.text, state.HW_ID)), o.const(64, XCC_AT)))
        if number == HW_LDS_ALLOC:
            size = self._low(word(self.text, state.LDS_SIZE))
            return o.shl(32, o.lshr(32, o.add(32, size, o.const(32, 511)), o.const(32, 9)), o.const(32, 12))
        if number == HW_IB_STS:
            return o.const(32, 0)
        if number == HW_SH_MEM_BASES:
            private, shared = (
                o.trunc(32, 64, o.lshr(64, self.memory.aperture(which), o.const(64, 48)))
                for which in ("private", "shared")
            )
            return o.or_(32, private, o.shl(32, shared, o.const(32, 16)))
        raise Untranslated

    def _status(self) -> Value:
        o = self.ints
        found = o.or_(32, o.zext(32, 1, self.scalars.scc()), o.const(32, 1 << IN_GROUP | 1 << VALID))
        for n, bit in ((EXEC, EXECZ), (VCC, VCCZ)):
            is_zero = o.zext(32, 1, o.eq(64, self.scalars.s64(n), o.const(64, 0)))
            found = o.or_(32, found, o.shl(32, is_zero, o.const(32, bit)))
        return found

    def _low(self, name: str) -> Value:
        return self.ints.trunc(32, 64, Value(64, False, name))

    def set_hwreg(self, number: int, v: Value) -> None:
        """Emit a write of TRAPSTS or MODE.

        After a write of a value of MODE that is unknown at translation time, the code exits to the dispatcher, which
        looks up the next block. It also exits if the emitter knows the value of a scalar register that the region did
        not know: then the region has no next block for the new value of MODE."""
        text, o = self.text, self.ints
        if number == HW_TRAPSTS:
            set_word(text, state.TRAPSTS, text.bits(o.zext(64, 32, v)))
            return
        above = self.control.mode & ~MODE_BITS
        set_word(text, state.MODE, text.bits(o.or_(64, o.zext(64, 32, v), o.const(64, above))))
        is_last = self.control.block.nodes[self.control.index].effects.flow == "indirect"
        if v.number is None or is_last:
            self.control.exit_to_lookup()
        elif of_mode(above | v.number) != self.float_control.now:
            self.float_control.set(of_mode(above | v.number))

    def time(self, kind: str) -> Value:
        """Emit the time for s_memtime or s_memrealtime (`kind`).

        It is the number of instructions executed before this one, or the time of the launch's clock.
        """
        text = self.text
        left = word(text, layout.LIMIT) + self.control.unspent()
        spent = word(text, layout.GRANTED) - left
        retired = spent + word(text, state.SLEPT)
        clock = word(text, layout.CLOCK)
        before, has_clock, on = text.label, text.fresh("clock"), text.fresh("on")
        text.branch(clock.eq(0), on, has_clock, LIKELY)
        text.start(has_clock)
        function = clock.inttoptr().load("ptr")
        time = text.invoke("i64", function, clock)
        text.jump(on)
        text.start(on)
        return Value(64, False, text.phi("i64", (retired, before), (time, has_clock)))
