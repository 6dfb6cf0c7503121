"""Representations of the float registers of a region, found by abstract interpretation of the semantics.

Inside translated code a float register has the form that its uses need, so that a chain of additions stays in host
float registers. A representation is a format and a kind:

    =========  ============================================================================================
    ``"I"``    all 64 bits as an integer, as the architecture sees them; a binary16 always has this form
    ``"S"``    a NaN-boxed binary32, kept as a host float; ``"D"``: a binary64, kept as a host double
    ``"x"``    kind exact: the value has its architectural bits
    ``"r"``    kind raw: a NaN may carry the host's payload and stands for the canonical NaN
    ``"b"``    kind both: certainly not a NaN with a payload, so exact and raw agree
    =========  ============================================================================================

Arithmetic yields values of kind raw. They are made canonical only when their bits are read. That is exact, since every
operation gives the same result for any quiet NaN, and host arithmetic never yields a signalling NaN.
"""

from __future__ import annotations

from typing import Any, Final, cast

from softcard.engine.riscv.jit.region import Block, Region
from softcard.isa.riscv.algebra import SystemOps
from softcard.isa.riscv.unitstate import FLOAT_EXTENSIONS

Rep = tuple[str, str]
INTEGER: Final[Rep] = ("I", "x")
Reps = dict[int, Rep]
FORMAT = {"s": "S", "d": "D"}


class _Scan:
    """The abstract domain in which the semantics of instructions are interpreted to find float representations.

    The abstract value of a float is its kind. The abstract value of an integer is "0" if it is known to be 0,
    else None."""

    def __init__(self, reps: Reps) -> None:
        self.reps = reps
        self.pc = self.next_pc = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None

    def x(self, n: int) -> str | None:
        return None if n else "0"

    def trunc(self, to: int, w: int, a: str | None) -> str | None:
        return a

    def f(self, n: int, fmt: str) -> str:
        rep = self.reps.get(n, INTEGER)
        return rep[1] if rep[0] == FORMAT.get(fmt) else "x"

    def set_f(self, n: int, fmt: str, v: str) -> None:
        self.reps[n] = (FORMAT[fmt], v) if fmt in FORMAT else INTEGER

    def f_from_bits(self, fmt: str, v: str | None) -> str:
        return "b" if v == "0" else "x"

    def fneg(self, fmt: str, a: str) -> str:
        return a if a == "x" else "r"

    def int_to_f(self, *arguments: object) -> str:
        return "b"

    fmin = fmax = int_to_f

    def fadd(self, *arguments: object) -> str:
        return "r"

    fsub = fmul = fdiv = fsqrt = fma = f_to_f = fadd


def after(block: Block, reps: Reps) -> Reps:
    """Return the representations after `block`, given those before it."""
    scan = _Scan(dict(reps))
    for _, insn in block.insns:
        if insn.spec.extension in FLOAT_EXTENSIONS:
            insn.spec.semantics(cast("SystemOps", scan), insn)
        elif insn.name == "vfmv.f.s":  # in the format of vtype
            scan.reps[insn.rd] = INTEGER
    return {n: rep for n, rep in scan.reps.items() if rep != INTEGER}


def join(a: Reps, b: Reps) -> Reps:
    """Return representations to which the registers of both `a` and `b` can be converted without loss."""
    out: Reps = {}
    for n in a.keys() & b.keys():
        (fmt, kind), (other, kind2) = a[n], b[n]
        if fmt == other:
            out[n] = (fmt, kind if kind2 == "b" or kind == "x" else kind2)
    return out


def analyse(region: Region) -> dict[int, Reps]:
    """Return the float representations at the start of each block.

    At entries from outside the region all registers are integers. Loop heads do not count as entries: to resume at a
    loop head, an entry point converts the registers to the loop's representations.
    """
    before: dict[int, Reps] = {entry: {} for entry in region.entries}
    work = sorted(before)
    while work:
        start = work.pop(0)
        block = region.blocks[start]
        out = after(block, before[start])
        for successor in block.successors:
            if successor not in region.blocks:
                continue
            old = before.get(successor)
            new = out if old is None else join(old, out)
            if old is None or new != old:
                before[successor] = new
                if successor not in work:
                    work.append(successor)
    for start in region.blocks:
        before.setdefault(start, {})
    return before
