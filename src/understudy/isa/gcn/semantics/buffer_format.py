"""Typed buffer operations: the format comes from the V# (MUBUF) or from the instruction (MTBUF).

These are `concrete`: they look at the scalar parts of the V# and compute with NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.core.errors import BeyondModel
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Execution, Insn
from understudy.isa.gcn.semantics import memory_formats as formats
from understudy.isa.gcn.semantics.access import merge, set_vregs, vregs
from understudy.isa.gcn.semantics.buffer_address import Places, Resource, places, resource
from understudy.isa.gcn.semantics.buffer_plain import give
from understudy.isa.gcn.target import GFX8
from understudy.isa.gcn.word import Word

IDENTITY = (4, 5, 6, 7)


def lanes(v: Word) -> formats.Lanes:
    """A 32-bit value as an array of 64 lanes."""
    return np.broadcast_to(np.asarray(v.known(32, "a component"), np.uint32), 64)


def of_lanes(b: Builder, values: Sequence[formats.Lanes]) -> list[Word]:
    """Arrays of 64 lanes as 32-bit values."""
    return [b.word(32, v) for v in values]


def shape(i: Insn, r: Resource, in_instruction: bool) -> tuple[int, int, tuple[int, ...]]:
    """Data format, number format and where each register's component comes from (0, 1, 4 to 7: x to w)."""
    word = r.word3.number
    if in_instruction:
        return i["dfmt"], i["nfmt"], IDENTITY
    data = 0 if i.target.level >= GFX8 and word >> 23 & 1 else word >> 15 & 15
    return data, word >> 12 & 7, tuple(word >> 3 * k & 7 for k in range(4))


def check(i: Insn, nfmt: int) -> None:
    """Number format 6 was SNORM_OGL up to GFX7 and is reserved since."""
    if nfmt == formats.SNORM_OGL and i.target.level >= GFX8:
        raise BeyondModel(f"{i.name}: number format 6 is reserved on {i.target}")


def element(b: Builder, p: Places, size: int) -> list[formats.Lanes]:
    """The dwords of the elements, which are in range or not as a whole."""
    where = p.inside()
    values = b.load("global", 8 * (size if size < 4 else size & ~3), p.at, where)
    return [lanes(v if where is None else where.select(v, 0)) for v in values]


def packed(i: Insn) -> bool:
    """Whether d16 data lies two to a register: not on GFX8 before gfx810."""
    return i.target.level > GFX8 or i.target.name == "gfx810"


def pack(i: Insn, values: list[formats.Lanes]) -> list[formats.Lanes]:
    """Registers with 16-bit components."""
    if not packed(i):
        return values
    values = [*values, np.zeros_like(values[0])] if len(values) % 2 else values
    return [low | high << np.uint32(16) for low, high in zip(values[::2], values[1::2], strict=True)]


def fetch(b: Builder, i: Insn, count: int, in_instruction: bool) -> tuple[int, list[formats.Lanes]]:
    """Number format and the first `count` components as registers get them."""
    r = resource(b, i)
    dfmt, nfmt, select = shape(i, r, in_instruction)
    check(i, nfmt)
    p = places(b, i, r)
    if not dfmt:
        return nfmt, [np.zeros(64, np.uint32)] * count
    found = formats.read(dfmt, nfmt, element(b, p, formats.element_bytes(dfmt, image=False)), image=False)
    inside = p.inside()
    reached = np.ones(64, bool) if inside is None else np.broadcast_to(np.asarray(inside.value, bool), 64)
    values = []
    for source in select[:count]:
        if source >= 4:
            values.append(np.where(reached, found[source - 4], np.uint32(0)).astype(np.uint32))
        else:
            values.append(np.full(64, formats.one(nfmt) if source == 1 else 0, np.uint32))
    return nfmt, values


def load(count: int, *, half: bool, in_instruction: bool) -> Execution:
    """vdata = the first `count` components of the element, converted."""

    def meaning(b: Builder, i: Insn) -> None:
        nfmt, values = fetch(b, i, count, in_instruction)
        give(b, i, of_lanes(b, pack(i, [formats.to_d16(nfmt, v) for v in values]) if half else values))

    return meaning


def load_high(b: Builder, i: Insn) -> None:
    """The high half of vdata = the first component, as 16 bits."""
    nfmt, values = fetch(b, i, 1, False)
    (half,) = of_lanes(b, [formats.to_d16(nfmt, values[0])])
    set_vregs(b, i["vdata"], [merge("hi", b.v(i["vdata"]), half)])


def unpack(b: Builder, i: Insn, count: int) -> list[formats.Lanes]:
    """16-bit components from registers, in the low halves."""
    if not packed(i):
        return [lanes(v) for v in vregs(b, i["vdata"], count)]
    registers = [lanes(v) for v in vregs(b, i["vdata"], (count + 1) // 2)]
    return [registers[k // 2] >> np.uint32(k % 2 * 16) for k in range(count)]


def deposit(b: Builder, i: Insn, values: list[formats.Lanes], half: bool, in_instruction: bool) -> None:
    """Store components into the element; what the instruction does not give is stored as 0."""
    r = resource(b, i)
    dfmt, nfmt, select = shape(i, r, in_instruction)
    check(i, nfmt)
    p = places(b, i, r)
    if not dfmt:
        return
    values = [formats.from_d16(nfmt, v) for v in values] if half else values
    given = dict(reversed([(source, v) for source, v in zip(select, values, strict=False) if source >= 4]))
    parts = [given.get(4 + k, np.zeros(64, np.uint32)) for k in range(4)]
    size = formats.element_bytes(dfmt, image=False)
    b.store("global", 8 * size, p.at, of_lanes(b, formats.write(dfmt, nfmt, parts, image=False)), p.inside())


def store(count: int, *, half: bool, in_instruction: bool) -> Execution:
    """The element = the first `count` components, converted."""

    def meaning(b: Builder, i: Insn) -> None:
        values = unpack(b, i, count) if half else [lanes(v) for v in vregs(b, i["vdata"], count)]
        deposit(b, i, values, half, in_instruction)

    return meaning


def store_high(b: Builder, i: Insn) -> None:
    """The element = the high half of vdata."""
    deposit(b, i, [lanes(b.v(i["vdata"])) >> np.uint32(16)], True, False)
