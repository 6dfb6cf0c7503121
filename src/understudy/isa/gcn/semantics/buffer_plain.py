"""Untyped buffer operations: loads and stores of bytes to four dwords, atomics, transfers to and from LDS."""

from __future__ import annotations

from typing import Any

from understudy.isa.gcn.insn import Insn, Meaning
from understudy.isa.gcn.semantics.access import (
    Transfer,
    Value,
    lds_slots,
    loaded,
    set_vregs,
    stored,
    takes_compare,
    vreg,
    words,
)
from understudy.isa.gcn.semantics.buffer_address import Places, aligned, places, resource


def fetch(o: Any, p: Places, bits: int) -> list[Value]:
    """What memory holds, as 32-bit values; 0 out of range. Every dword is checked for itself."""
    if p.reach is None:
        values: list[Value] = o.load("global", bits, p.at)
        return values
    values = []
    for k in range(max(bits // 32, 1)):
        where = p.inside(o, 4 * k)
        at = o.add(64, p.at, o.const(64, 4 * k)) if k else p.at
        value = o.load("global", min(bits, 32), at, where)[0]
        values.append(o.select(32, where, value, o.const(32, 0)))
    return values


def put(o: Any, p: Places, bits: int, values: list[Value]) -> None:
    """Store 32-bit values; no dword out of range. Lanes wholly in range come first, lane after lane."""
    last = p.inside(o, 4 * (len(values) - 1))
    o.store("global", bits, p.at, values, last)
    if last is None:
        return
    for k, value in enumerate(values[:-1]):
        at = o.add(64, p.at, o.const(64, 4 * k)) if k else p.at
        o.store("global", 32, at, [value], o.and_(1, p.inside(o, 4 * k), o.not_(1, last)))


def give(o: Any, i: Insn, values: list[Value]) -> None:
    """Write what was loaded to LDS (lds flag), or to registers, with 0 ("no texture fail") behind it (tfe flag)."""
    if i.get("lds"):
        o.store("lds", 32, lds_slots(o, i["offset"]), values[:1])
    else:
        set_vregs(o, i["vdata"], [*values, o.const(32, 0)] if i["tfe"] else values)


def load(how: Transfer) -> Meaning:
    """vdata = buffer[address]."""

    def meaning(o: Any, i: Insn) -> None:
        values = fetch(o, places(o, i, resource(o, i)), how.bits)
        give(o, i, loaded(o, how, values, i["vdata"]))

    return meaning


def store(how: Transfer) -> Meaning:
    """buffer[address] = vdata."""

    def meaning(o: Any, i: Insn) -> None:
        put(o, places(o, i, resource(o, i)), how.bits, stored(o, how, i["vdata"]))

    return meaning


def store_lds(o: Any, i: Insn) -> None:
    """buffer[address] = LDS[M0[15:0] + offset + 4 * lane]."""
    values = o.load("lds", 32, lds_slots(o, i["offset"]))
    put(o, places(o, i, resource(o, i)), 32, values)


def atomic(kind: str, bits: int) -> Meaning:
    """buffer[address] = kind(buffer[address], vdata); with glc vdata = what it held (0 out of range)."""

    def meaning(o: Any, i: Insn) -> None:
        p = places(o, i, resource(o, i))
        where = p.inside(o)
        v = vreg(o, i["vdata"], bits)
        compare = vreg(o, i["vdata"] + bits // 32, bits) if takes_compare(kind) else None
        old = o.atomic("global", kind, bits, aligned(o, p, bits // 8), v, compare, where)
        if i["glc"]:
            old = old if where is None else o.select(bits, where, old, o.const(bits, 0))
            set_vregs(o, i["vdata"], words(o, old, bits))

    return meaning


def order(what: str) -> Meaning:
    """A cache operation."""
    return lambda o, i: o.order(what)
