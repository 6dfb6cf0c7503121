"""Registers of a region: IR values inside a block, slots of the function between blocks, floats in several forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.engine.riscv.jit.emit_integer import Integers
from understudy.engine.riscv.jit.floatreps import FORMAT, INTEGER, Rep, Reps
from understudy.ir.builder import Text
from understudy.isa.riscv import state as layout

TYPE: Final = {"h": "half", "s": "float", "d": "double"}
BITS: Final = {"h": 16, "s": 32, "d": 64}
CANONICAL: Final = "0x7FF8000000000000"
"""The canonical NaN as an IR literal, for binary32 and binary64."""
CANONICAL_HALF: Final = "0xH7E00"
QUIET: Final = {"h": 0x7E00, "s": 0x7FC0_0000}
"""Its bits in the formats that are boxed."""


@dataclass(frozen=True, slots=True)
class Held:
    """A float value: its format, kind (see `floatreps`) and IR name."""

    fmt: str
    kind: str
    name: str


class Representations:
    """Float values in their forms. `float_of` has, by the name of its bits, the float that they were made from."""

    def __init__(self, text: Text, ints: Integers) -> None:
        self.text = text
        self.ints = ints
        self.float_of: dict[str, Held] = {}

    def type(self, fmt: str) -> str:
        """The type of floats."""
        return TYPE[fmt]

    def nan(self, fmt: str) -> str:
        """The canonical NaN."""
        return CANONICAL_HALF if fmt == "h" else CANONICAL

    def exact(self, v: Held) -> Held:
        """The same value with its own bits: a raw NaN becomes the canonical one."""
        if v.kind != "r":
            return v
        ty = self.type(v.fmt)
        nan = self.text.let(f"fcmp uno {ty} {v.name}, {v.name}")
        return Held(
            v.fmt, "b", self.text.let(f"select {self.ints.type(1)} {nan}, {ty} {self.nan(v.fmt)}, {ty} {v.name}")
        )

    def f_bits(self, fmt: str, v: Held) -> str:
        """Bit pattern."""
        v = self.exact(v)
        return self.text.let(f"bitcast {self.type(fmt)} {v.name} to {self.ints.type(BITS[fmt])}")

    def f_from_bits(self, fmt: str, v: str) -> Held:
        """The float with this bit pattern."""
        return Held(
            fmt, "b" if v == "0" else "x", self.text.let(f"bitcast {self.ints.type(BITS[fmt])} {v} to {self.type(fmt)}")
        )

    def as_integer(self, v: Held) -> str:
        """All 64 register bits of a float."""
        v = self.exact(v)
        bits = self.text.let(f"bitcast {TYPE[v.fmt]} {v.name} to i{BITS[v.fmt]}")
        if v.fmt != "d":
            wide = self.text.let(f"zext i{BITS[v.fmt]} {bits} to i64")
            boxed = self.text.let(f"or i64 {wide}, {-1 << BITS[v.fmt]}")
            self.float_of[boxed] = v
            return boxed
        self.float_of[bits] = v
        return bits

    def from_integer(self, fmt: str, raw: str) -> Held:
        """A register's 64 bits read in a format."""
        if fmt == "d":
            return Held("d", "x", self.text.let(f"bitcast i64 {raw} to double"))
        w = BITS[fmt]
        low = self.text.let(f"trunc i64 {raw} to i{w}")
        loose = self.text.let(f"icmp ult i64 {raw}, {-1 << w}")
        bits = self.text.let(f"select i1 {loose}, i{w} {QUIET[fmt]}, i{w} {low}")
        return Held(fmt, "x", self.text.let(f"bitcast i{w} {bits} to {TYPE[fmt]}"))

    def convert_rep(self, v: Held | str, want: Rep) -> Held | str:
        """Bring a register's value into another representation."""
        if want == INTEGER:
            return self.as_integer(v) if isinstance(v, Held) else v
        fmt = want[0].lower()
        if isinstance(v, str) or v.fmt != fmt:
            v = self.from_integer(fmt, self.as_integer(v) if isinstance(v, Held) else v)
        return self.exact(v) if want[1] == "x" else v


class Registers:
    """Registers are read into IR values at first use in a block and written to their slots where it ends.

    `reps` are the representations of float registers. `slots` are those of them that were ever asked for.
    """

    def __init__(self, text: Text, representations: Representations) -> None:
        self.text = text
        self.representations = representations
        self.used_x: set[int] = set()
        self.written_x: set[int] = set()
        self.slots: set[tuple[int, str]] = set()
        self.written_f: set[int] = set()
        self.begin({})

    def begin(self, reps: Reps) -> None:
        """A block begins, where float registers are represented like this."""
        self.xs: dict[int, str] = {}
        self.fs: dict[int, Held | str] = {}
        self.dirty_x: set[int] = set()
        self.dirty_f: set[int] = set()
        self.reps = dict(reps)
        self.representations.float_of.clear()

    def x(self, n: int) -> str:
        """Integer register."""
        if not n:
            return "0"
        if n not in self.xs:
            self.used_x.add(n)
            self.xs[n] = self.text.let(f"load i64, ptr %x{n}")
        return self.xs[n]

    def set_x(self, n: int, v: str) -> None:
        """Write an integer register."""
        if n:
            self.xs[n] = v
            self.dirty_x.add(n)
            self.used_x.add(n)
            self.written_x.add(n)

    def held(self, n: int) -> Held | str:
        """Float register as this block has it."""
        if n not in self.fs:
            fmt, kind = self.reps.get(n, INTEGER)
            self.slots.add((n, fmt))
            ty = "i64" if fmt == "I" else TYPE[fmt.lower()]
            name = self.text.let(f"load {ty}, ptr %f{fmt}{n}")
            self.fs[n] = name if fmt == "I" else Held(fmt.lower(), kind, name)
        return self.fs[n]

    def f(self, n: int, fmt: str) -> Held:
        """Register in a format."""
        v = self.held(n)
        if isinstance(v, Held) and v.fmt == fmt:
            return v
        return self.representations.from_integer(fmt, self.representations.as_integer(v) if isinstance(v, Held) else v)

    def set_f(self, n: int, fmt: str, v: Held) -> None:
        """Write a register."""
        if fmt in FORMAT:
            self.fs[n] = v
            self.reps[n] = (FORMAT[fmt], v.kind)
        else:
            self.fs[n] = self.representations.as_integer(v)
            self.reps[n] = INTEGER
        self.dirty_f.add(n)
        self.written_f.add(n)

    def f_raw(self, n: int) -> str:
        """All 64 bits."""
        v = self.held(n)
        return self.representations.as_integer(v) if isinstance(v, Held) else v

    def flush(self) -> None:
        """Write what is dirty to its slot."""
        for n in sorted(self.dirty_x):
            self.text.put(f"store i64 {self.xs[n]}, ptr %x{n}")
        for n in sorted(self.dirty_f):
            self._spill(n)

    def _spill(self, n: int) -> None:
        v = self.fs[n]
        fmt = v.fmt.upper() if isinstance(v, Held) else "I"
        self.slots.add((n, fmt))
        ty, name = (TYPE[v.fmt], v.name) if isinstance(v, Held) else ("i64", v)
        self.text.put(f"store {ty} {name}, ptr %f{fmt}{n}")

    def store_as(self, n: int, want: Rep) -> None:
        """Write a float register to its slot for another representation."""
        v = self.representations.convert_rep(self.held(n), want)
        self.slots.add((n, want[0]))
        ty, name = (TYPE[v.fmt], v.name) if isinstance(v, Held) else ("i64", v)
        self.text.put(f"store {ty} {name}, ptr %f{want[0]}{n}")

    # -- the hart's state

    def enter(self) -> list[str]:
        """Lines for the head of the function: slots, filled from the hart."""
        out: list[str] = []
        for n in sorted(self.used_x):
            out += [
                f"  %qx{n} = getelementptr i64, ptr %st, i64 {layout.X + n}",
                f"  %x{n} = alloca i64",
                f"  %ix{n} = load i64, ptr %qx{n}",
                f"  store i64 %ix{n}, ptr %x{n}",
            ]
        for n in sorted({n for n, _ in self.slots} | self.written_f):
            out += [
                f"  %qf{n} = getelementptr i64, ptr %st, i64 {layout.F + n}",
                f"  %fI{n} = alloca i64",
                f"  %if{n} = load i64, ptr %qf{n}",
                f"  store i64 %if{n}, ptr %fI{n}",
            ]
        return out + [f"  %f{fmt}{n} = alloca {TYPE[fmt.lower()]}" for n, fmt in sorted(self.slots) if fmt != "I"]

    def leave(self) -> None:
        """Slots go back to the hart."""
        for n in sorted(self.written_x):
            self.text.put(f"store i64 {self.text.let(f'load i64, ptr %x{n}')}, ptr %qx{n}")
        for n in sorted(self.written_f):
            self.text.put(f"store i64 {self.text.let(f'load i64, ptr %fI{n}')}, ptr %qf{n}")
