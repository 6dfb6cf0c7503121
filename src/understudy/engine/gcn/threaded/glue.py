"""The functions of records that are no instructions: fuel of a block, jumps, float control, and ways out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.emit_control import set_word, word
from understudy.engine.gcn.threaded.records import (
    BEGIN_TARGET_AT,
    CODE_AT,
    CONTROL_AT,
    COUNT_AT,
    FUEL_BYTES,
    HEAD_BYTES,
    HEAT_AT,
    NEEDS_AT,
    REGION_AT,
    TARGET_AT,
)
from understudy.ir import llvm
from understudy.ir.builder import LaneText
from understudy.isa.gcn import state


class _Glue:
    """One function being written."""

    def __init__(self) -> None:
        self.text = LaneText(4)

    def field(self, at: int, kind: str = "i64") -> str:
        """A field of the record."""
        return self.text.let(f"load {kind}, ptr {self.place(at)}")

    def place(self, at: int) -> str:
        """Where a field lies."""
        return self.text.let(f"getelementptr i8, ptr %rec, i64 {at}")

    def go_on(self, record: str) -> None:
        """Go on with a record."""
        function = self.text.let(f"load ptr, ptr {record}")
        found = self.text.let(f"musttail call i64 {function}(ptr %st, ptr {record})")
        self.text.put(f"ret i64 {found}")

    def set_float_control(self) -> None:
        """Set the host's to what the record has; there are no records for what a host cannot be set to."""
        if llvm.is_x86():
            self.text.call_void("llvm.x86.sse.ldmxcsr", f"ptr {self.place(CONTROL_AT)}")

    def out(self, code: str) -> None:
        """Hand over at the record's pc."""
        set_word(self.text, state.PC, self.field(8))
        set_word(self.text, layout.TEMPLATE, "0")
        self.text.put(f"ret i64 {code}")

    def pay(self) -> None:
        """Take the block's fuel and count its visit."""
        text = self.text
        set_word(text, state.FUEL, text.let(f"sub i64 {word(text, state.FUEL)}, {self.field(COUNT_AT)}"))
        heat = text.let(f"inttoptr i64 {word(text, layout.HEAT)} to ptr")
        counter = text.let(f"getelementptr i8, ptr {heat}, i64 {self.field(HEAT_AT)}")
        seen = text.let(f"load i64, ptr {counter}")
        text.put(f"store i64 {text.let(f'add i64 {seen}, 1')}, ptr {counter}")


def _enter(g: _Glue) -> None:
    g.go_on("%rec")


def _begin(g: _Glue) -> None:
    g.set_float_control()
    g.go_on(g.field(BEGIN_TARGET_AT, "ptr"))


def _goto(g: _Glue) -> None:
    g.go_on(g.field(TARGET_AT, "ptr"))


def _fuel(g: _Glue) -> None:
    g.pay()
    g.go_on(g.place(FUEL_BYTES))


def _head(g: _Glue) -> None:
    text = g.text
    low = text.let(f"icmp ult i64 {word(text, state.FUEL)}, {g.field(NEEDS_AT)}")
    text.branch(low, "out", "on")
    text.start("on")
    g.pay()
    g.go_on(g.place(HEAD_BYTES))
    text.start("out")
    g.out(str(layout.OUT_OF_FUEL))


def _leave(g: _Glue) -> None:
    text = g.text
    back = text.let(f"zext i32 {g.field(16, 'i32')} to i64")
    set_word(text, state.FUEL, text.let(f"add i64 {word(text, state.FUEL)}, {back}"))
    g.out(g.field(CODE_AT))


def _hot(g: _Glue) -> None:
    """Optimised code finds its place by pc, and the way to finish its strips by the function's address.

    What came before it has written registers where the wave's first ones were; it need not say so where the wave ends.
    """
    text = g.text
    set_word(text, layout.TEMPLATE, "0")
    set_word(text, state.PC, g.field(8))
    set_word(text, layout.FUNCTION, g.field(REGION_AT))
    function, entry = g.field(REGION_AT, "ptr"), g.field(REGION_AT + 8, "ptr")
    found = text.let(f"musttail call i64 {function}(ptr %st, ptr {entry})")
    text.put(f"ret i64 {found}")


FUNCTIONS: Final[dict[str, Callable[[_Glue], None]]] = {
    "enter": _enter, "begin": _begin, "goto": _goto, "fuel": _fuel, "head": _head, "leave": _leave,
    "hot": _hot,
}  # fmt: skip
"""The functions by name."""


def glue() -> str:
    """The text of a module that has them all."""
    lines: list[str] = []
    declarations: dict[str, str] = {}
    for name, write in FUNCTIONS.items():
        g = _Glue()
        write(g)
        lines += [f"define i64 @{name}(ptr %st, ptr %rec) {{", *g.text.lines, "}"]
        declarations |= g.text.declarations
    return "\n".join([*lines, *declarations.values(), ""])
