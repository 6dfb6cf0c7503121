"""Hardware registers and clocks in translated code."""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.emit_control import Control, set_word, word
from understudy.engine.gcn.jit.emit_helpers import LIKELY
from understudy.engine.gcn.jit.emit_integer import Integers
from understudy.engine.gcn.jit.emit_memory import Memory
from understudy.engine.gcn.jit.emit_registers import ScalarFile
from understudy.engine.gcn.jit.float_control import FloatControl, of_mode
from understudy.ir.builder import LaneText, Value
from understudy.isa.gcn import state
from understudy.isa.gcn.hwreg import (
    EXECZ,
    HW_HW_ID,
    HW_IB_STS,
    HW_LDS_ALLOC,
    HW_MODE,
    HW_SH_MEM_BASES,
    HW_STATUS,
    HW_TRAPSTS,
    IN_GROUP,
    VALID,
    VCCZ,
)
from understudy.isa.gcn.state import EXEC, MODE_BITS, VCC

WORDS: Final = {HW_TRAPSTS: state.TRAPSTS, HW_HW_ID: state.HW_ID}
"""Those that are a word of the wave."""


class Hardware:
    """Hardware registers of the algebra. MODE is known everywhere: it is part of the place."""

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
        """A hardware register of s_getreg, as the reference engine has it."""
        o = self.ints
        if number == HW_MODE:
            return o.const(32, self.control.mode & MODE_BITS)
        if number == HW_STATUS:
            return self._status()
        if number in WORDS:
            return self._low(word(self.text, WORDS[number]))
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
        """Write TRAPSTS or MODE. What MODE becomes is known, or the code for it is looked up."""
        text, o = self.text, self.ints
        if number == HW_TRAPSTS:
            set_word(text, state.TRAPSTS, text.bits(o.zext(64, 32, v)))
            return
        above = self.control.mode & ~MODE_BITS
        set_word(text, state.MODE, text.bits(o.or_(64, o.zext(64, 32, v), o.const(64, above))))
        if v.number is None:
            self.control.look_up()
        elif of_mode(above | v.number) != self.float_control.now:
            self.float_control.set(of_mode(above | v.number))

    def time(self, kind: str) -> Value:
        """Instructions of the wave before this one, or what the clock that it was given makes of them."""
        text = self.text
        left = text.let(f"add i64 {word(text, layout.LIMIT)}, {self.control.unspent()}")
        spent = text.let(f"sub i64 {word(text, layout.GRANTED)}, {left}")
        retired = text.let(f"add i64 {spent}, {word(text, state.SLEPT)}")
        clock = word(text, layout.CLOCK)
        before, asked, on = text.label, text.fresh("clock"), text.fresh("on")
        text.branch(text.let(f"icmp eq i64 {clock}, 0"), on, asked, LIKELY)
        text.start(asked)
        function = text.let(f"load ptr, ptr {text.let(f'inttoptr i64 {clock} to ptr')}")
        told = text.let(f"call i64 {function}(i64 {clock})")
        text.put(f"br label %{on}")
        text.start(on)
        return Value(64, False, text.let(f"phi i64 [ {retired}, %{before} ], [ {told}, %{asked} ]"))
