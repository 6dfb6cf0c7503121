"""The stubs: functions of records that belong to no instruction.

They handle fuel, jumps, float control, and exits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.emit.emit_control import set_word, word
from softcard.engine.gcn.threaded.records import (
    BEGIN_TARGET_AT,
    CODE_AT,
    CONTROL_AT,
    COUNT_AT,
    FUEL_BYTES,
    HEAD_BYTES,
    IDLE,
    NEEDS_AT,
    PROFILE_AT,
    REGION_AT,
    TAKEN,
    TAKEN_PROFILE_AT,
    TARGET_AT,
)
from softcard.ir import llvm
from softcard.ir.builder import LaneText
from softcard.ir.operand import Operand
from softcard.isa.gcn import state


class _StubEmitter:
    """The emitter of one stub."""

    def __init__(self) -> None:
        self.text = LaneText(4)

    def field(self, at: int, kind: str = "i64") -> Operand:
        """Emit the load of a field of the record."""
        return self.place(at).load(kind)

    def place(self, at: int) -> Operand:
        """Emit the address of a field of the record."""
        return self.text.pointer("%rec").offset(at)

    def go_on(self, record: Operand) -> None:
        """Emit a tail call of a record's function."""
        function = record.load("ptr")
        found = self.text.define("i64", f"musttail call i64 {function}(ptr %st, ptr {record})")
        self.text.ret(found)

    def set_float_control(self) -> None:
        """Emit code that sets the host's float control to the value in the record."""
        if llvm.is_x86():
            self.text.call_void("llvm.x86.sse.ldmxcsr", f"ptr {self.place(CONTROL_AT)}")

    def out(self, code: Operand | int) -> None:
        """Emit a return to the dispatcher with the exit code `code`, at the record's pc."""
        set_word(self.text, state.PC, self.field(8))
        set_word(self.text, layout.TEMPLATE, 0)
        self.text.ret(code)

    def pay(self) -> None:
        """Emit code that subtracts the block's instructions from the fuel, and counts its execution."""
        text = self.text
        set_word(text, state.FUEL, word(text, state.FUEL) - self.field(COUNT_AT))
        self.count(PROFILE_AT)

    def count(self, at: int, first: int = 0, by: Operand | int = 1) -> None:
        """Emit code that adds `by` to a profile counter.

        Its number is that of the counter in the record's field at offset `at`, plus `first`."""
        profile = word(self.text, layout.PROFILE).inttoptr()
        counter = profile.offset(self.field(at) + 8 * first if first else self.field(at))
        seen = counter.load("i64")
        counter.store(seen + by)

    def count_idle(self) -> None:
        """Emit code that counts an execution of the block without an active lane, if EXEC is 0."""
        text = self.text
        mask = text.pointer("%st").offset(state.SGPR_AT + 4 * state.EXEC).load("i64")
        self.count(PROFILE_AT, IDLE, mask.eq(0).zext("i64"))


def _enter(g: _StubEmitter) -> None:
    g.go_on(g.text.pointer("%rec"))


def _begin(g: _StubEmitter) -> None:
    g.set_float_control()
    g.go_on(g.field(BEGIN_TARGET_AT, "ptr"))


def _goto(g: _StubEmitter) -> None:
    g.go_on(g.field(TARGET_AT, "ptr"))


def _fuel(g: _StubEmitter) -> None:
    g.pay()
    g.go_on(g.place(FUEL_BYTES))


def _counted_fuel(g: _StubEmitter) -> None:
    g.count_idle()
    _fuel(g)


def _head(g: _StubEmitter, is_counted: bool = False) -> None:
    text = g.text
    low = word(text, state.FUEL) < g.field(NEEDS_AT)
    text.branch(low, "out", "on")
    text.start("on")
    if is_counted:
        g.count_idle()
    g.pay()
    g.go_on(g.place(HEAD_BYTES))
    text.start("out")
    g.out(layout.OUT_OF_FUEL)


def _counted_head(g: _StubEmitter) -> None:
    _head(g, is_counted=True)


def _taken(g: _StubEmitter) -> None:
    """Emit the stub that counts a taken branch, and continues at the branch's target."""
    g.count(TAKEN_PROFILE_AT, TAKEN)
    _goto(g)


def _leave(g: _StubEmitter) -> None:
    text = g.text
    back = g.field(16, "i32").zext("i64")
    set_word(text, state.FUEL, word(text, state.FUEL) + back)
    g.out(g.field(CODE_AT))


def _hot(g: _StubEmitter) -> None:
    """Emit the stub that enters the optimised code of a block.

    It stores the pc and the optimised function's address in the wave's state. The address is needed to complete
    side exits of strip-mined loops. It also clears the word TEMPLATE, which identifies the initial values that
    the wave's scalar registers still have, because earlier code may have written scalar registers."""
    text = g.text
    set_word(text, layout.TEMPLATE, 0)
    set_word(text, state.PC, g.field(8))
    set_word(text, layout.FUNCTION, g.field(REGION_AT))
    function, entry = g.field(REGION_AT, "ptr"), g.field(REGION_AT + 8, "ptr")
    found = text.define("i64", f"musttail call i64 {function}(ptr %st, ptr {entry})")
    text.ret(found)


FUNCTIONS: Final[dict[str, Callable[[_StubEmitter], None]]] = {
    "enter": _enter, "begin": _begin, "goto": _goto, "fuel": _fuel, "head": _head, "leave": _leave,
    "hot": _hot, "counted_fuel": _counted_fuel, "counted_head": _counted_head, "taken": _taken,
}  # fmt: skip
"""The emitters of the stubs, by name."""


def stubs() -> str:
    """Return the LLVM IR of a module with all stubs."""
    lines: list[str] = []
    declarations: dict[str, str] = {}
    for name, write in FUNCTIONS.items():
        g = _StubEmitter()
        write(g)
        lines += [f"define i64 @{name}(ptr %st, ptr %rec) {{", *g.text.lines, "}"]
        declarations |= g.text.declarations
    return "\n".join([*lines, *declarations.values(), ""])
