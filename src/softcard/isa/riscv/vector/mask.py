"""Instructions on masks (V 1.0, chapter 15)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.vector import rules
from softcard.isa.riscv.vector.algebra import VectorOps, VectorSemantics
from softcard.isa.riscv.vector.groups import INDEX, Before, Mask, check
from softcard.isa.riscv.vector.integer import same
from softcard.isa.riscv.vector.rows import VectorRow, element, is_masked, own, pattern, section
from softcard.isa.riscv.word import Word


def logical(f: Callable[[Word, Word], Word]) -> VectorSemantics:
    """Return the semantics of a logical mask operation: vd = f(vs2, vs1), bit by bit."""

    def semantics(o: VectorOps, i: Insn) -> None:
        o.vector()
        sources = (Mask(i.rs2), Mask(i.rs1))
        o.v_map(Mask(i.rd), sources, element(f, sources), masked=False)

    return semantics


def count(o: VectorOps, i: Insn) -> None:
    """Execute vcpop.m: rd = the number of active mask bits that are 1."""
    o.vector()
    o.set_x(i.rd, o.v_count(Mask(i.rs2), is_masked(i)))


def first(o: VectorOps, i: Insn) -> None:
    """Execute vfirst.m: rd = the index of the first active mask bit that is 1, or -1."""
    o.vector()
    o.set_x(i.rd, o.v_find(Mask(i.rs2), is_masked(i)))


Seen = Callable[[Word, Word], Word]


def around_first(f: Seen) -> VectorSemantics:
    """Return the semantics of vmsbf, vmsif or vmsof, which set bits of mask vd around the first 1 bit of vs2.

    Each bit of vd becomes f(seen, same bit of vs2), where seen is 1 if an earlier bit of vs2 is 1."""

    def g(before: Word, bit: Word) -> Word:
        return f(before != 0, bit)

    def semantics(o: VectorOps, i: Insn) -> None:
        o.vector()
        dest, mask = Mask(i.rd), Mask(i.rs2)
        others = (mask, Mask(0)) if is_masked(i) else (mask,)
        check(dest, others, masked=False, no_overlap=rules.AROUND_FIRST_OVERLAP)
        sources = Before(mask, is_masked(i), 32), mask
        o.v_map(dest, sources, element(g, sources), is_masked(i))

    return semantics


def iota(o: VectorOps, i: Insn) -> None:
    """Execute viota.m: each element of vd = the number of bits of vs2 before that element that are 1."""
    t = o.vector()
    dest, mask = own(i, t), Mask(i.rs2)
    check(dest, (mask,), is_masked(i), no_overlap=rules.IOTA_OVERLAP)
    sources = (Before(mask, is_masked(i), t.sew),)
    o.v_map(dest, sources, element(same, sources), is_masked(i))


def identity(o: VectorOps, i: Insn) -> None:
    """Execute vid.v: vd = the index of each element."""
    t = o.vector()
    dest = own(i, t)
    check(dest, (), is_masked(i))
    o.v_map(dest, (INDEX,), element(_LOW[t.sew], (INDEX,)), is_masked(i))


_LOW: Final = {w: (lambda k, w=w: k.to(w)) for w in (8, 16, 32, 64)}


LOGICAL: Final[tuple[tuple[str, str, Callable[[Word, Word], Word]], ...]] = (
    ("vmandn", "011000", lambda a, b: a & ~b),
    ("vmand",  "011001", lambda a, b: a & b),
    ("vmor",   "011010", lambda a, b: a | b),
    ("vmxor",  "011011", lambda a, b: a ^ b),
    ("vmorn",  "011100", lambda a, b: a | ~b),
    ("vmnand", "011101", lambda a, b: ~(a & b)),
    ("vmnor",  "011110", lambda a, b: ~(a | b)),
    ("vmxnor", "011111", lambda a, b: ~(a ^ b)),
)  # fmt: skip

AROUND_FIRST: Final[tuple[tuple[str, str, Seen], ...]] = (
    ("vmsbf", "00001", lambda seen, bit: ~(seen | bit)),
    ("vmsof", "00010", lambda seen, bit: ~seen & bit),
    ("vmsif", "00011", lambda seen, bit: ~seen),
)  # fmt: skip


def _rows() -> Iterator[VectorRow]:
    for name, funct6, f in LOGICAL:
        yield f"{name}.mm", pattern(funct6, "mvv", vm="1"), "vd, vs2, vs1", logical(f)
    yield "vcpop.m", pattern("010000", "mvv", first="10000", vd="rd"), "rd, vs2[, vm]", count
    yield "vfirst.m", pattern("010000", "mvv", first="10001", vd="rd"), "rd, vs2[, vm]", first
    for name, code, f in AROUND_FIRST:
        yield f"{name}.m", pattern("010100", "mvv", first=code), "vd, vs2[, vm]", around_first(f)
    yield "viota.m", pattern("010100", "mvv", first="10000"), "vd, vs2[, vm]", iota
    yield "vid.v", pattern("010100", "mvv", first="10001", vs2="00000"), "vd[, vm]", identity


MASK: Final = section(_rows())
