"""How a region keeps its float registers: found by running the meanings over an algebra of representations.

Inside translated code a float register is kept as what it is used for, so that a chain of additions stays in host
float registers. A representation is a format and a kind:

=========  ============================================================================================
``("I")``  all 64 bits as an integer, as the architecture sees them; a binary16 always
``"S"``    a NaN-boxed binary32, kept as a host float; ``"D"``: a binary64, kept as a host double
``"x"``    kind exact: these very bits
``"r"``    kind raw: a NaN may carry the host's payload and stands for the canonical NaN
``"b"``    kind both: certainly not a NaN with a payload, so exact and raw agree
=========  ============================================================================================

Arithmetic makes raw values; making them canonical is put off until somebody looks at the bits. That is exact:
every operation gives the same result for any quiet NaN, and host arithmetic never yields a signalling one.
"""

from __future__ import annotations

from typing import Any, Final, cast

from understudy.engine.riscv.jit.region import Block, Region
from understudy.isa.riscv.algebra import SystemOps
from understudy.isa.riscv.floatstate import EXTENSIONS

Rep = tuple[str, str]
INTEGER: Final[Rep] = ("I", "x")
Reps = dict[int, Rep]
FORMAT = {"s": "S", "d": "D"}


class _Scan:
    """An algebra whose floats are kinds and whose integers are None, or "0" for a known zero."""

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
    """Representations behind `block`, given those before it."""
    scan = _Scan(dict(reps))
    for _, insn in block.insns:
        if insn.spec.extension in EXTENSIONS:
            insn.spec.meaning(cast("SystemOps", scan), insn)
        elif insn.name == "vfmv.f.s":  # in the format that vtype tells
            scan.reps[insn.rd] = INTEGER
    return {n: rep for n, rep in scan.reps.items() if rep != INTEGER}


def join(a: Reps, b: Reps) -> Reps:
    """The representation that both can be brought into without loss."""
    out: Reps = {}
    for n in a.keys() & b.keys():
        (fmt, kind), (other, kind2) = a[n], b[n]
        if fmt == other:
            out[n] = (fmt, kind if kind2 == "b" or kind == "x" else kind2)
    return out


def analyse(region: Region) -> dict[int, Reps]:
    """Representations at the start of each block. Entries from outside see integers only; loop heads do not
    count as entries: whoever resumes there brings the registers into the loop's representation."""
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
