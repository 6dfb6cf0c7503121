"""Untyped buffer operations: loads and stores of bytes to four dwords, atomics, transfers to and from LDS."""

from __future__ import annotations

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Execution, Insn
from understudy.isa.gcn.semantics.access import (
    Transfer,
    lds_slots,
    loaded,
    narrowed,
    set_vregs,
    stored,
    takes_compare,
    vreg,
    words,
)
from understudy.isa.gcn.semantics.buffer_address import Places, places, resource
from understudy.isa.gcn.word import Word


def fetch(b: Builder, p: Places, bits: int) -> list[Word]:
    """What memory holds, as 32-bit values; 0 out of range. Every dword is checked for itself."""
    if p.reach is None:
        return b.load("global", bits, p.at)
    values = []
    for skip in range(0, max(bits // 8, 4), 4):
        values += b.load("global", min(bits, 32), p.at + skip if skip else p.at, p.inside(skip))
    return values


def put(b: Builder, p: Places, bits: int, values: list[Word]) -> None:
    """Store 32-bit values; no dword out of range. Lanes wholly in range come first, lane after lane."""
    last = p.inside(4 * (len(values) - 1))
    b.store("global", bits, p.at, values, last)
    if last is None:
        return
    for k, value in enumerate(values[:-1]):
        b.store("global", 32, p.at + 4 * k if k else p.at, [value], narrowed(p.inside(4 * k), ~last))


def give(b: Builder, i: Insn, values: list[Word]) -> None:
    """Write what was loaded to LDS (lds flag), or to registers, with 0 ("no texture fail") behind it (tfe flag)."""
    if i.get("lds"):
        b.store("lds", 32, lds_slots(b, i["offset"]), values[:1])
    else:
        set_vregs(b, i["vdata"], [*values, b.const(32, 0)] if i["tfe"] else values)


def load(how: Transfer) -> Execution:
    """vdata = buffer[address]."""

    def meaning(b: Builder, i: Insn) -> None:
        values = fetch(b, places(b, i, resource(b, i)), how.bits)
        give(b, i, loaded(b, how, values, i["vdata"]))

    return meaning


def store(how: Transfer) -> Execution:
    """buffer[address] = vdata."""
    return lambda b, i: put(b, places(b, i, resource(b, i)), how.bits, stored(b, how, i["vdata"]))


def store_lds(b: Builder, i: Insn) -> None:
    """buffer[address] = LDS[M0[15:0] + offset + 4 * lane]."""
    values = b.load("lds", 32, lds_slots(b, i["offset"]))
    put(b, places(b, i, resource(b, i)), 32, values)


def atomic(kind: str, bits: int) -> Execution:
    """buffer[address] = kind(buffer[address], vdata); with glc vdata = what it held (0 out of range)."""

    def meaning(b: Builder, i: Insn) -> None:
        p = places(b, i, resource(b, i))
        where = p.inside()
        v = vreg(b, i["vdata"], bits)
        compare = vreg(b, i["vdata"] + bits // 32, bits) if takes_compare(kind) else None
        old = b.atomic("global", kind, bits, p.at & -bits // 8, v, compare, where)
        if i["glc"]:
            set_vregs(b, i["vdata"], words(old if where is None else where.select(old, 0)))

    return meaning


def order(what: str) -> Execution:
    """A cache operation."""
    return lambda b, i: b.order(what)
