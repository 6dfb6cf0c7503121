"""Semantics of typed buffer operations.

The format is in the V# (MUBUF) or in the instruction (MTBUF). For MUBUF the format bits of the V# select the variant of
the semantics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Execution, Insn, SpecialisedExecution
from softcard.isa.gcn.semantics import memory_formats as formats
from softcard.isa.gcn.semantics.access import merge, set_vregs, sregs, vregs
from softcard.isa.gcn.semantics.buffer_plain import Places, give, places, resource
from softcard.isa.gcn.target import GFX8
from softcard.isa.gcn.word import Word

IDENTITY = (4, 5, 6, 7)


@dataclass(frozen=True, slots=True)
class Shape:
    """The format of a typed access: data format, number format, and the component that each register gets.

    `select` gives the component of each register as a DST_SEL code: 0 and 1 are constants, 4 to 7 are x to w."""

    dfmt: int
    nfmt: int
    select: tuple[int, ...]


Shaped = Callable[[Builder, Insn, Shape], None]
"""The type of semantics that take the format of a typed access as an argument."""


def from_instruction(semantics: Shaped) -> Execution:
    """Convert `semantics` to those of a typed operation whose format is in the instruction (MTBUF)."""
    return lambda b, i: semantics(b, i, Shape(i["dfmt"], i["nfmt"], IDENTITY))


def from_resource(semantics: Shaped) -> SpecialisedExecution:
    """Convert `semantics` to those of a typed operation whose format is in the V# (MUBUF); see `selectors`."""

    def specialised(b: Builder, i: Insn, numbers: tuple[int, ...]) -> None:
        (word,) = numbers
        semantics(b, i, Shape(word >> 15, word >> 12 & 7, tuple(word >> 3 * k & 7 for k in range(4))))

    return specialised


def selectors(b: Builder, i: Insn) -> list[Word]:
    """Return the scalars of the V# that select a typed operation's variant: DST_SEL, number format, data format.

    The data format is 0 if its bits are part of the stride.
    """
    word = sregs(b, i["srsrc"], 4)[3]
    data = word[18:15]
    return [word[14:0] | (word[23].select(0, data) if i.target.level >= GFX8 else data) << 15]


def check(i: Insn, nfmt: int) -> None:
    """Raise `BeyondModel` for number format 6 on GFX8 and GFX9, where it is reserved (on GFX7 it is SNORM_OGL)."""
    if nfmt == formats.SNORM_OGL and i.target.level >= GFX8:
        raise BeyondModel(f"{i.name}: number format 6 is reserved on {i.target}")


def element(b: Builder, p: Places, size: int) -> list[Word]:
    """Load one element of `size` bytes per lane as dwords; the range check covers the whole element.

    The values of lanes out of range are unspecified.
    """
    return b.load("global", 8 * size, p.at, p.inside())


def packed(i: Insn) -> bool:
    """Return True if a register holds two d16 values, as on all processors except GFX8 before gfx810."""
    return i.target.level > GFX8 or i.target.name == "gfx810"


def pack(i: Insn, values: list[Word]) -> list[Word]:
    """Return the register contents for 16-bit components: two per register if `packed(i)`, else one per register."""
    if not packed(i):
        return values
    values = [*values, values[0].const(0)] if len(values) % 2 else values
    return [low | high << 16 for low, high in zip(values[::2], values[1::2], strict=True)]


def fetch(b: Builder, i: Insn, count: int, s: Shape) -> list[Word]:
    """Load the element of each lane in the format `s`; return its first `count` components as register values."""
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
    """Return the semantics of a typed load: vdata = the first `count` components of the element, converted.

    If `half` is True, each component becomes 16 bits in the registers (d16)."""

    def semantics(b: Builder, i: Insn, s: Shape) -> None:
        values = fetch(b, i, count, s)
        give(b, i, pack(i, [formats.to_d16(s.nfmt, v) for v in values]) if half else values)

    return semantics


def load_high(b: Builder, i: Insn, s: Shape) -> None:
    """Execute a load to the high half of vdata: the first component of the element, as 16 bits."""
    (value,) = fetch(b, i, 1, s)
    set_vregs(b, i["vdata"], [merge("hi", b.v(i["vdata"]), formats.to_d16(s.nfmt, value))])


def unpack(b: Builder, i: Insn, count: int) -> list[Word]:
    """Return the `count` 16-bit components in the data registers, each in the low half of a word."""
    if not packed(i):
        return vregs(b, i["vdata"], count)
    registers = vregs(b, i["vdata"], (count + 1) // 2)
    return [registers[k // 2][31:16] if k % 2 else registers[k // 2] for k in range(count)]


def deposit(b: Builder, i: Insn, values: list[Word], half: bool, s: Shape) -> None:
    """Convert the components `values` to the format `s` and store them as the element of each lane.

    If `half` is True, the values have 16 bits (d16). Components that `values` does not have are stored as 0."""
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
    """Return the semantics of a typed store: the element = the first `count` components, converted.

    If `half` is True, each component has 16 bits in the registers (d16)."""

    def semantics(b: Builder, i: Insn, s: Shape) -> None:
        values = unpack(b, i, count) if half else vregs(b, i["vdata"], count)
        deposit(b, i, values, half, s)

    return semantics


def store_high(b: Builder, i: Insn, s: Shape) -> None:
    """Execute a store of the high half of vdata to the element."""
    deposit(b, i, [b.v(i["vdata"])[31:16]], True, s)
