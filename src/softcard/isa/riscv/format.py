"""Shared definitions of all extensions' tables: field names, operand texts, and helpers of semantics.

Field names are those of the ISA manual (volume I, chapters "RV32I", "C" and "RV32/64G Instruction Set Listings"); a
prime marks the 3-bit registers x8..x15 of compressed instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from softcard.isa.pattern import Kind, Pattern
from softcard.isa.riscv.algebra import Ops
from softcard.isa.riscv.csrnames import CSR_NUMBERS, csr_name
from softcard.isa.riscv.insn import Insn, Semantics, Spec, SystemSemantics
from softcard.isa.riscv.rows import Operand, Row
from softcard.isa.riscv.vector import vtype
from softcard.isa.word import Value

_SAVED: Final = [f"s{k}" for k in range(2, 12)]
_INTEGER: Final = ["zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", *(f"a{k}" for k in range(8))]
REGISTERS: Final = (*_INTEGER, *_SAVED, "t3", "t4", "t5", "t6")
"""ABI names of the integer registers."""
_FLOAT: Final = [*(f"ft{k}" for k in range(8)), "fs0", "fs1", *(f"fa{k}" for k in range(8))]
FLOAT_REGISTERS: Final = (*_FLOAT, *("f" + name for name in _SAVED), "ft8", "ft9", "ft10", "ft11")
"""ABI names of the float registers."""
ROUNDING: Final = ("rne", "rtz", "rdn", "rup", "rmm", "unknown", "unknown", "dyn")
"""The names of the rounding modes; 5 and 6 are reserved, 7 selects the mode in `frm`."""

KINDS: Final = {
    "rd":     Kind("rd",  5),   "rd'":  Kind("rd",  3, bias=8),
    "rs1":    Kind("rs1", 5),   "rs1'": Kind("rs1", 3, bias=8),
    "rs2":    Kind("rs2", 5),   "rs2'": Kind("rs2", 3, bias=8),
    "rs3":    Kind("rs3", 5),
    "rm":     Kind("rm",  3),
    "aq":     Kind("aq",  1),
    "rl":     Kind("rl",  1),
    "imm":    Kind("imm", signed=True),
    "nzimm":  Kind("imm", signed=True, never=(0,)),
    "uimm":   Kind("imm"),
    "nzuimm": Kind("imm", never=(0,)),
    "csr":    Kind("imm", 12),
    "zimm":   Kind("rs1", 5),
    "order":  Kind("order", 12),
    "vd":     Kind("rd",  5),
    "vs1":    Kind("rs1", 5),
    "vs2":    Kind("rs2", 5),
    "vm":     Kind("vm",  1),
}  # fmt: skip
"""The names of fields in patterns.

`order` holds fm, pred and succ of a fence; `vm` is 0 if v0 is the mask of a vector instruction.
"""


def _register(names: tuple[str, ...], field: str) -> Operand:
    numbers = {name: n for n, name in enumerate(names)}
    numbers |= {("x" if names is REGISTERS else "f") + str(n): n for n in range(32)}
    if names is REGISTERS:
        numbers["fp"] = 8

    def read(text: str, pc: int | None) -> int:
        if text not in numbers:
            raise ValueError(text)
        return numbers[text]

    return Operand(field, lambda n, pc: names[n], read)


def _number(text: str, pc: int | None) -> int:
    return int(text, 0)


def _read_high(text: str, pc: int | None) -> int:
    number = int(text, 0)
    if not -0x80000 <= number <= 0xFFFFF:
        raise ValueError(text)
    return ((number & 0xFFFFF ^ 0x80000) - 0x80000) << 12


def _read_target(text: str, pc: int | None) -> int:
    if text.startswith("."):
        return int(text[1:] or "0", 0)
    if pc is None:
        raise ValueError(text)
    return int(text, 0) - pc


def _read_csr(text: str, pc: int | None) -> int:
    return CSR_NUMBERS[text] if text in CSR_NUMBERS else int(text, 0)


def _read_rounding(text: str, pc: int | None) -> int:
    if text == "unknown":
        raise ValueError(text)
    return ROUNDING.index(text)


def _show_order(order: int, pc: int | None) -> str:
    sets = ["".join(c for bit, c in enumerate("wroi") if part >> bit & 1)[::-1] for part in (order >> 4, order)]
    return ",".join(text or "unknown" for text in sets)


def _read_order(text: str, pc: int | None) -> int:
    parts = ["" if part in ("unknown", "0") else part for part in text.split(",")]
    if not all(re.fullmatch("i?o?r?w?", part) for part in parts):
        raise ValueError(text)
    pred, succ = (sum(1 << "wroi".index(c) for c in part) for part in parts)
    return pred << 4 | succ


def _vector(field: str) -> Operand:
    numbers = {f"v{n}": n for n in range(32)}

    def read(text: str, pc: int | None) -> int:
        if text not in numbers:
            raise ValueError(text)
        return numbers[text]

    return Operand(field, lambda n, pc: f"v{n}", read)


def _read_mask(text: str, pc: int | None) -> int:
    if text != "v0.t":
        raise ValueError(text)
    return 0


def _read_vtype(text: str, pc: int | None) -> int:
    return vtype.TEXTS[text] if text in vtype.TEXTS else int(text, 0)


OPERANDS: Final = {
    "rd":     _register(REGISTERS, "rd"),
    "rs1":    _register(REGISTERS, "rs1"),
    "rs2":    _register(REGISTERS, "rs2"),
    "fd":     _register(FLOAT_REGISTERS, "rd"),
    "fs1":    _register(FLOAT_REGISTERS, "rs1"),
    "fs2":    _register(FLOAT_REGISTERS, "rs2"),
    "fs3":    _register(FLOAT_REGISTERS, "rs3"),
    "imm":    Operand("imm", lambda n, pc: str(n), _number),
    "hint":   Operand("imm", lambda n, pc: str(n) if n else "", _number),
    "shamt":  Operand("imm", lambda n, pc: hex(n), _number),
    "high":   Operand("imm", lambda n, pc: hex(n >> 12 & 0xFFFFF), _read_high),
    "target": Operand("imm", lambda n, pc: f".{n:+d}" if pc is None else hex(pc + n & (1 << 64) - 1), _read_target),
    "csr":    Operand("imm", lambda n, pc: csr_name(n), _read_csr),
    "zimm":   Operand("rs1", lambda n, pc: str(n), _number),
    "rm":     Operand("rm",  lambda n, pc: "" if n == 7 else ROUNDING[n], _read_rounding, absent=7),
    "exact":  Operand("rm",  lambda n, pc: "" if n == 0 else ROUNDING[n], _read_rounding, absent=0),
    "vd":     _vector("rd"),
    "vs1":    _vector("rs1"),
    "vs2":    _vector("rs2"),
    "vm":     Operand("vm",  lambda n, pc: "" if n else "v0.t", _read_mask, absent=1),
    "vtype":  Operand("imm", lambda n, pc: vtype.show(n), _read_vtype, form=r"[\w,]+"),
    "order":  Operand("order", _show_order, _read_order, form=r"\w+,\w+", absent=0xFF),
}  # fmt: skip
"""The placeholders of operand texts. `exact` is the rounding mode of a conversion that never rounds."""

RowSource = tuple[str, str, str, Semantics | SystemSemantics]
"""An instruction as a tuple: mnemonic, pattern, operands and semantics."""


def section(extension: str, rows: Iterable[RowSource], flow: str = "next") -> tuple[Row[Spec], ...]:
    """Return the table rows of instructions of one extension that have the same `flow` (see `Spec`)."""
    return tuple(
        Row(name, Pattern.parse(pattern, 32, KINDS), operands, Spec(name, extension, flow, semantics))
        for name, pattern, operands, semantics in rows
    )


def low(o: Ops, w: int, v: Value) -> Value:
    """Return the low `w` bits of a 64-bit value."""
    return v if w == 64 else o.trunc(w, 64, v)


def get(o: Ops, w: int, n: int) -> Value:
    """Return the low `w` bits of integer register `n`."""
    return low(o, w, o.x(n))


def put(o: Ops, w: int, n: int, v: Value) -> None:
    """Write a `w`-bit value to integer register `n`, sign-extended."""
    o.set_x(n, v if w == 64 else o.sext(64, w, v))


def address(o: Ops, i: Insn) -> Value:
    """Return rs1 + imm, the address of a load or store."""
    return o.add(64, o.x(i.rs1), o.const(64, i.imm))
