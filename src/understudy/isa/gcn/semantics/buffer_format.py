"""Typed buffer operations: the format comes from the V# (MUBUF), which tells it, or from the instruction (MTBUF)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from understudy.core.errors import BeyondModel
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Execution, Insn, ToldExecution
from understudy.isa.gcn.semantics import memory_formats as formats
from understudy.isa.gcn.semantics.access import merge, set_vregs, sregs, vregs
from understudy.isa.gcn.semantics.buffer_address import Places, places, resource
from understudy.isa.gcn.semantics.buffer_plain import give
from understudy.isa.gcn.target import GFX8
from understudy.isa.gcn.word import Word

IDENTITY = (4, 5, 6, 7)


@dataclass(frozen=True, slots=True)
class Shape:
    """Data format, number format and where each register's component comes from (0, 1, 4 to 7: x to w)."""

    dfmt: int
    nfmt: int
    select: tuple[int, ...]


Shaped = Callable[[Builder, Insn, Shape], None]
"""A meaning that is given the format."""


def from_instruction(meaning: Shaped) -> Execution:
    """The meaning where the instruction says the format."""
    return lambda b, i: meaning(b, i, Shape(i["dfmt"], i["nfmt"], IDENTITY))


def from_resource(meaning: Shaped) -> ToldExecution:
    """The meaning where the V# says it: see `told`."""

    def told_meaning(b: Builder, i: Insn, numbers: tuple[int, ...]) -> None:
        (word,) = numbers
        meaning(b, i, Shape(word >> 15, word >> 12 & 7, tuple(word >> 3 * k & 7 for k in range(4))))

    return told_meaning


def told(b: Builder, i: Insn) -> list[Word]:
    """DST_SEL, number format and data format of the V#, in the lower half; no data format where its bits are stride."""
    word = sregs(b, i["srsrc"], 4)[3]
    data = word[18:15]
    return [word[14:0] | (word[23].select(0, data) if i.target.level >= GFX8 else data) << 15]


def check(i: Insn, nfmt: int) -> None:
    """Number format 6 was SNORM_OGL up to GFX7 and is reserved since."""
    if nfmt == formats.SNORM_OGL and i.target.level >= GFX8:
        raise BeyondModel(f"{i.name}: number format 6 is reserved on {i.target}")


def element(b: Builder, p: Places, size: int) -> list[Word]:
    """The dwords of the elements, which are in range or not as a whole; whatever out of range."""
    return b.load("global", 8 * size, p.at, p.inside())


def packed(i: Insn) -> bool:
    """Whether d16 data lies two to a register: not on GFX8 before gfx810."""
    return i.target.level > GFX8 or i.target.name == "gfx810"


def pack(i: Insn, values: list[Word]) -> list[Word]:
    """Registers with 16-bit components."""
    if not packed(i):
        return values
    values = [*values, values[0].const(0)] if len(values) % 2 else values
    return [low | high << 16 for low, high in zip(values[::2], values[1::2], strict=True)]


def fetch(b: Builder, i: Insn, count: int, s: Shape) -> list[Word]:
    """The first `count` components as registers get them."""
    r = resource(b, i)
    check(i, s.nfmt)
    p = places(b, i, r)
    if not s.dfmt:
        return [b.const(32, 0)] * count
    found = formats.read(s.dfmt, s.nfmt, element(b, p, formats.element_bytes(s.dfmt, image=False)), image=False)
    inside = p.inside()
    values = []
    for source in s.select[:count]:
        if source >= 4:
            values.append(found[source - 4] if inside is None else inside.select(found[source - 4], 0))
        else:
            values.append(b.const(32, formats.one(s.nfmt) if source == 1 else 0))
    return values


def load(count: int, *, half: bool) -> Shaped:
    """vdata = the first `count` components of the element, converted."""

    def meaning(b: Builder, i: Insn, s: Shape) -> None:
        values = fetch(b, i, count, s)
        give(b, i, pack(i, [formats.to_d16(s.nfmt, v) for v in values]) if half else values)

    return meaning


def load_high(b: Builder, i: Insn, s: Shape) -> None:
    """The high half of vdata = the first component, as 16 bits."""
    (value,) = fetch(b, i, 1, s)
    set_vregs(b, i["vdata"], [merge("hi", b.v(i["vdata"]), formats.to_d16(s.nfmt, value))])


def unpack(b: Builder, i: Insn, count: int) -> list[Word]:
    """16-bit components from registers, in the low halves."""
    if not packed(i):
        return vregs(b, i["vdata"], count)
    registers = vregs(b, i["vdata"], (count + 1) // 2)
    return [registers[k // 2][31:16] if k % 2 else registers[k // 2] for k in range(count)]


def deposit(b: Builder, i: Insn, values: list[Word], half: bool, s: Shape) -> None:
    """Store components into the element; what the instruction does not give is stored as 0."""
    r = resource(b, i)
    check(i, s.nfmt)
    p = places(b, i, r)
    if not s.dfmt:
        return
    values = [formats.from_d16(s.nfmt, v) for v in values] if half else values
    given = dict(reversed([(source, v) for source, v in zip(s.select, values, strict=False) if source >= 4]))
    parts = [given.get(4 + k, b.const(32, 0)) for k in range(4)]
    size = formats.element_bytes(s.dfmt, image=False)
    b.store("global", 8 * size, p.at, formats.write(s.dfmt, s.nfmt, parts, image=False), p.inside())


def store(count: int, *, half: bool) -> Shaped:
    """The element = the first `count` components, converted."""

    def meaning(b: Builder, i: Insn, s: Shape) -> None:
        values = unpack(b, i, count) if half else vregs(b, i["vdata"], count)
        deposit(b, i, values, half, s)

    return meaning


def store_high(b: Builder, i: Insn, s: Shape) -> None:
    """The element = the high half of vdata."""
    deposit(b, i, [b.v(i["vdata"])[31:16]], True, s)
