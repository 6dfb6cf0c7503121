"""Registers of a region: IR values within a block, stack slots between blocks.

Float registers have one of the representations in `floatreps`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.engine.riscv.jit.emit_integer import Integers
from softcard.engine.riscv.jit.floatreps import FORMAT, INTEGER, Rep, Reps
from softcard.ir.builder import Text
from softcard.ir.operand import Operand
from softcard.isa.riscv import state as layout

TYPE: Final = {"h": "half", "s": "float", "d": "double"}
BITS: Final = {"h": 16, "s": 32, "d": 64}
CANONICAL: Final = "0x7FF8000000000000"
"""The canonical NaN as an IR literal, for binary32 and binary64."""
CANONICAL_HALF: Final = "0xH7E00"
QUIET: Final = {"h": 0x7E00, "s": 0x7FC0_0000}
"""The bits of the canonical NaN in the formats that are NaN-boxed."""


@dataclass(frozen=True, slots=True)
class FloatValue:
    """A float value: its format, its kind (see `floatreps`), and the name of its IR value."""

    fmt: str
    kind: str
    name: Operand


class Representations:
    """Conversions between the representations of float values (see `floatreps`).

    `float_of` maps the name of an IR value that holds a float's bits to the float that they were made from.
    """

    def __init__(self, text: Text, ints: Integers) -> None:
        self.text = text
        self.ints = ints
        self.float_of: dict[str, FloatValue] = {}

    def type(self, fmt: str) -> str:
        """Return the LLVM type of floats of a format."""
        return TYPE[fmt]

    def nan(self, fmt: str) -> Operand:
        """Return the canonical NaN."""
        return self.text.operand(self.type(fmt), CANONICAL_HALF if fmt == "h" else CANONICAL)

    def exact(self, v: FloatValue) -> FloatValue:
        """Return the value with its architectural bits: a NaN of kind raw becomes the canonical NaN."""
        if v.kind != "r":
            return v
        nan = v.name.is_unordered(v.name)
        return FloatValue(v.fmt, "b", nan.select(self.nan(v.fmt), v.name))

    def f_bits(self, fmt: str, v: FloatValue) -> Operand:
        """Return the bit pattern of a float."""
        v = self.exact(v)
        return v.name.bitcast(self.ints.type(BITS[fmt]))

    def f_from_bits(self, fmt: str, v: Operand) -> FloatValue:
        """Return the float with this bit pattern."""
        return FloatValue(fmt, "b" if v == "0" else "x", v.bitcast(self.type(fmt)))

    def as_integer(self, v: FloatValue) -> Operand:
        """Return all 64 register bits of a float."""
        v = self.exact(v)
        bits = v.name.bitcast(f"i{BITS[v.fmt]}")
        if v.fmt != "d":
            wide = bits.zext("i64")
            boxed = wide | -1 << BITS[v.fmt]
            self.float_of[boxed] = v
            return boxed
        self.float_of[bits] = v
        return bits

    def from_integer(self, fmt: str, raw: Operand) -> FloatValue:
        """Return a register's 64 bits interpreted in a float format."""
        if fmt == "d":
            return FloatValue("d", "x", raw.bitcast("double"))
        w = BITS[fmt]
        low = raw.trunc(f"i{w}")
        loose = raw < -1 << w
        bits = loose.select(QUIET[fmt], low)
        return FloatValue(fmt, "x", bits.bitcast(TYPE[fmt]))

    def convert_rep(self, v: FloatValue | Operand, want: Rep) -> FloatValue | Operand:
        """Convert a register's value to another representation."""
        if want == INTEGER:
            return self.as_integer(v) if isinstance(v, FloatValue) else v
        fmt = want[0].lower()
        if isinstance(v, Operand) or v.fmt != fmt:
            v = self.from_integer(fmt, self.as_integer(v) if isinstance(v, FloatValue) else v)
        return self.exact(v) if want[1] == "x" else v


class Registers:
    """The registers of a region: read into IR values on first use in a block, and written to slots at its end.

    `reps` contains the representations of the float registers in the current block. `slots` contains all slots that
    were requested so far.
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
        """Begin a block in which float registers have the representations `reps`."""
        self.xs: dict[int, Operand] = {}
        self.fs: dict[int, FloatValue | Operand] = {}
        self.dirty_x: set[int] = set()
        self.dirty_f: set[int] = set()
        self.reps = dict(reps)
        self.representations.float_of.clear()

    def x(self, n: int) -> Operand:
        """Return an integer register."""
        if not n:
            return self.text.word(0)
        if n not in self.xs:
            self.used_x.add(n)
            self.xs[n] = self.text.pointer(f"%x{n}").load("i64")
        return self.xs[n]

    def set_x(self, n: int, v: Operand) -> None:
        """Write an integer register."""
        if n:
            self.xs[n] = v
            self.dirty_x.add(n)
            self.used_x.add(n)
            self.written_x.add(n)

    def float_value(self, n: int) -> FloatValue | Operand:
        """Return a float register in its representation in this block."""
        if n not in self.fs:
            fmt, kind = self.reps.get(n, INTEGER)
            self.slots.add((n, fmt))
            ty = "i64" if fmt == "I" else TYPE[fmt.lower()]
            name = self.text.pointer(f"%f{fmt}{n}").load(ty)
            self.fs[n] = name if fmt == "I" else FloatValue(fmt.lower(), kind, name)
        return self.fs[n]

    def f(self, n: int, fmt: str) -> FloatValue:
        """Return a float register in a format."""
        v = self.float_value(n)
        if isinstance(v, FloatValue) and v.fmt == fmt:
            return v
        return self.representations.from_integer(
            fmt, self.representations.as_integer(v) if isinstance(v, FloatValue) else v
        )

    def set_f(self, n: int, fmt: str, v: FloatValue) -> None:
        """Write a float register."""
        if fmt in FORMAT:
            self.fs[n] = v
            self.reps[n] = (FORMAT[fmt], v.kind)
        else:
            self.fs[n] = self.representations.as_integer(v)
            self.reps[n] = INTEGER
        self.dirty_f.add(n)
        self.written_f.add(n)

    def f_raw(self, n: int) -> Operand:
        """Return all 64 bits of a float register."""
        v = self.float_value(n)
        return self.representations.as_integer(v) if isinstance(v, FloatValue) else v

    def flush(self) -> None:
        """Emit writes of all changed registers to their slots."""
        for n in sorted(self.dirty_x):
            self.text.pointer(f"%x{n}").store(self.xs[n])
        for n in sorted(self.dirty_f):
            self._spill(n)

    def _spill(self, n: int) -> None:
        v = self.fs[n]
        fmt = v.fmt.upper() if isinstance(v, FloatValue) else "I"
        self.slots.add((n, fmt))
        self.text.pointer(f"%f{fmt}{n}").store(v.name if isinstance(v, FloatValue) else v)

    def store_as(self, n: int, want: Rep) -> None:
        """Emit a write of float register `n` to its slot for the representation `want`."""
        v = self.representations.convert_rep(self.float_value(n), want)
        self.slots.add((n, want[0]))
        self.text.pointer(f"%f{want[0]}{n}").store(v.name if isinstance(v, FloatValue) else v)

    # -- the hart's state

    def enter(self) -> None:
        """Emit code at the head of the function that fills the slots from the hart's state."""
        for n in sorted(self.used_x):
            self._fill(f"x{n}", f"x{n}", layout.X + n)
        for n in sorted({n for n, _ in self.slots} | self.written_f):
            self._fill(f"f{n}", f"fI{n}", layout.F + n)
        for n, fmt in sorted(self.slots):
            if fmt != "I":
                self.text.variable(f"%f{fmt}{n}", TYPE[fmt.lower()])

    def _fill(self, register: str, slot: str, word: int) -> None:
        """Emit code at the head of the function that fills a slot from word number `word` of the hart's state."""
        text = self.text
        place = text.named(f"%q{register}", text.pointer("%st").element("i64", word))
        text.variable(f"%{slot}", "i64").store(text.named(f"%i{register}", place.load("i64")))

    def leave(self) -> None:
        """Emit code that writes the slots back to the hart's state."""
        for n in sorted(self.written_x):
            self.text.pointer(f"%qx{n}").store(self.text.pointer(f"%x{n}").load("i64"))
        for n in sorted(self.written_f):
            self.text.pointer(f"%qf{n}").store(self.text.pointer(f"%fI{n}").load("i64"))
