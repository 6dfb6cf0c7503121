"""Semantics of untyped buffer operations: loads and stores of bytes to four dwords, atomics, LDS transfers."""

from __future__ import annotations

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Execution, Insn
from softcard.isa.gcn.semantics.access import (
    Transfer,
    lds_slots,
    loaded,
    narrowed,
    set_vregs,
    stored,
    takes_compare,
    to_lds,
    vreg,
    words,
)
from softcard.isa.gcn.semantics.buffer_address import Places, places, resource
from softcard.isa.gcn.word import Word


def fetch(b: Builder, p: Places, bits: int) -> list[Word]:
    """Load `bits` bits per lane as 32-bit words; each dword has its own range check and is 0 if out of range."""
    if p.reach is None:
        return b.load("global", bits, p.at)
    values = []
    for skip in range(0, max(bits // 8, 4), 4):
        values += b.load("global", min(bits, 32), p.at + skip if skip else p.at, p.inside(skip))
    return values


def put(b: Builder, p: Places, bits: int, values: list[Word]) -> None:
    """Store 32-bit values, except for dwords out of range.

    The lanes whose dwords are all in range are stored first, lane by lane. Then the remaining dwords are stored."""
    last = p.inside(4 * (len(values) - 1))
    b.store("global", bits, p.at, values, last)
    if last is None:
        return
    for k, value in enumerate(values[:-1]):
        b.store("global", 32, p.at + 4 * k if k else p.at, [value], narrowed(p.inside(4 * k), ~last))


def give(b: Builder, i: Insn, values: list[Word]) -> None:
    """Write the loaded `values` of each lane to LDS if the lds flag is set, else to the data registers.

    LDS receives one dword, except that gfx950 writes all of a load of three or four. With the tfe flag, the register
    after the last data register is set to 0 ("no texture fail")."""
    if i.get("lds"):
        is_wide = "gfx950" in i.target.has and len(values) > 2
        to_lds(b, i["offset"], values if is_wide else values[:1])
    else:
        set_vregs(b, i["vdata"], [*values, b.const(32, 0)] if i.get("tfe") else values)


def load(how: Transfer) -> Execution:
    """Return the semantics of a buffer load: vdata = buffer[address]."""

    def semantics(b: Builder, i: Insn) -> None:
        values = fetch(b, places(b, i, resource(b, i)), how.bits)
        give(b, i, loaded(b, how, values, i["vdata"]))

    return semantics


def store(how: Transfer) -> Execution:
    """Return the semantics of a buffer store: buffer[address] = vdata."""
    return lambda b, i: put(b, places(b, i, resource(b, i)), how.bits, stored(b, how, i["vdata"]))


def store_lds(b: Builder, i: Insn) -> None:
    """Execute a store from LDS: buffer[address] = LDS[M0[15:0] + offset + 4 * lane]."""
    values = b.load("lds", 32, lds_slots(b, i["offset"]))
    put(b, places(b, i, resource(b, i)), 32, values)


def atomic(kind: str, bits: int) -> Execution:
    """Return the semantics of an atomic: buffer[address] = kind(buffer[address], vdata).

    With glc, vdata = the old value in memory (0 if out of range).
    """

    def semantics(b: Builder, i: Insn) -> None:
        p = places(b, i, resource(b, i))
        where = p.inside()
        v = vreg(b, i["vdata"], bits)
        compare = vreg(b, i["vdata"] + bits // 32, bits) if takes_compare(kind) else None
        old = b.atomic("global", kind, bits, p.at & -bits // 8, v, compare, where)
        if i["glc"]:
            set_vregs(b, i["vdata"], words(old if where is None else where.select(old, 0)))

    return semantics


def order(what: str) -> Execution:
    """Return the semantics of the cache operation `what`."""
    return lambda b, i: b.order(what)
