"""Operands of vector instructions (register groups, masks, others) and their permitted overlaps (V 1.0, 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.core.rule import Rule
from softcard.isa.riscv.insn import IllegalInstruction
from softcard.isa.riscv.vector import rules
from softcard.isa.riscv.vector.vtype import ELEN, LEAST_LMUL, MOST_LMUL
from softcard.isa.word import Value


@dataclass(frozen=True, slots=True)
class Group:
    """A register group operand: 2**`emul` registers from number `n` on, with elements of `width` bits."""

    n: int
    width: int
    emul: int

    @property
    def registers(self) -> int:
        """The number of registers of the group, at least 1."""
        return 1 << self.emul if self.emul > 0 else 1


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask operand: bit k of register `n` belongs to element k."""

    n: int
    width: int = 1
    emul: int = 0
    registers: int = 1


@dataclass(frozen=True, slots=True)
class Scalar:
    """An operand with one value for all elements."""

    width: int
    value: Value


@dataclass(frozen=True, slots=True)
class Index:
    """An operand whose value for each element is the element's index."""

    width: int = 64


@dataclass(frozen=True, slots=True)
class Slid:
    """An operand that is `group` with its elements shifted by `offset` (64 bits) positions, up or down.

    Elements from outside of the group are 0.
    """

    group: Group
    offset: Value
    up: bool

    @property
    def width(self) -> int:
        """The width of an element in bits."""
        return self.group.width


@dataclass(frozen=True, slots=True)
class Picked:
    """An operand for a gather: element number `index` of `group`, regardless of vl; 0 past the group's end."""

    group: Group
    index: Group | Scalar

    @property
    def width(self) -> int:
        """The width of an element in bits."""
        return self.group.width


@dataclass(frozen=True, slots=True)
class Before:
    """An operand that is, for each element, the number of earlier 1 bits of `mask`, as `width` bits.

    With `masked`, only bits of active elements count.
    """

    mask: Mask
    masked: bool
    width: int


@dataclass(frozen=True, slots=True)
class Walk:
    """The memory addresses of a vector's elements: the address of element k is `base` + `step` * offsets[k].

    `base` is a 64-bit value. `step` is an int if it is known from the instruction, else a 64-bit value.
    """

    base: Value
    offsets: Source
    step: int | Value


INDEX: Final = Index()
V0: Final = Mask(0)
Place = Group | Mask
Source = Group | Mask | Scalar | Index | Slid | Picked | Before


def refuse(why: str, rule: Rule) -> IllegalInstruction:
    """Return the error for a reserved encoding; `why` is the reason, `rule` the violated rule."""
    return IllegalInstruction(f"reserved vector encoding: {why}", rule=rule)


def check_group(group: Group, fields: int = 1) -> None:
    """Raise an error if the register group `group`, or a segment of `fields` such groups, is invalid.

    It is invalid if its element width, its length or its register numbers are not permitted."""
    if not 8 <= group.width <= ELEN:
        raise refuse(f"the elements have {group.width} bits, expected 8, 16, 32 or 64", rules.EEW_SUPPORTED)
    if not LEAST_LMUL <= group.emul <= MOST_LMUL:
        length = f"{1 << group.emul}" if group.emul >= 0 else f"1/{1 << -group.emul}"
        raise refuse(f"EMUL is {length} for elements of {group.width} bits, expected 1/8 to 8", rules.EMUL_RANGE)
    if group.n % group.registers:
        raise refuse(
            f"v{group.n} cannot begin a group of {group.registers} registers, expected a multiple of {group.registers}",
            rules.GROUP_START,
        )
    if fields * group.registers > 8:
        why = f"{fields} fields of {group.registers} registers need more than 8 registers"
        raise refuse(why, rules.SEGMENT_REGISTERS)
    if group.n + fields * group.registers > 32:
        why = f"{fields} fields of {group.registers} registers from v{group.n} end after v31"
        raise refuse(why, rules.SEGMENT_END)


def check(dest: Place, sources: tuple[Source, ...], masked: bool, no_overlap: Rule | None = None) -> None:
    """Raise an error if a register group is invalid, or if `dest` overlaps a source in a reserved way.

    If the instruction permits no overlap at all, `no_overlap` is the rule to which the error for an overlap
    refers."""
    places = [source for source in sources if isinstance(source, (Group, Mask))]
    for place in (dest, *places):
        if isinstance(place, Group):
            check_group(place)
    if masked and isinstance(dest, Group):
        check_unmasked(dest.n)
    for source in places:
        if _overlap(dest, source) and (no_overlap is not None or not _may_overlap(dest, source)):
            text = f"the destination {_name(dest)} must not overlap the source {_name(source)} in this instruction"
            raise refuse(text, no_overlap or rules.OVERLAP)


def check_unmasked(n: int) -> None:
    """Raise an error if `n`, the destination of a masked instruction, is v0."""
    if n == 0:
        raise refuse("the destination of a masked instruction is v0, the mask, expected another", rules.MASK_OVERLAP)


def _overlap(a: Place, b: Place) -> bool:
    return a.n < b.n + b.registers and b.n < a.n + a.registers


def _may_overlap(dest: Place, source: Place) -> bool:
    """Return True if the operands `dest` and `source`, whose registers overlap, are allowed to overlap.

    This is allowed in three cases: the element widths are equal; the destination is narrower and starts at the
    same register as the source; the destination is wider and ends at the same register as the source."""
    if dest.width == source.width:
        return True
    if dest.width < source.width:
        return dest.n == source.n
    return isinstance(source, Group) and source.emul >= 0 and dest.n + dest.registers == source.n + source.registers


def _name(place: Place) -> str:
    if place.registers == 1:
        return f"v{place.n}"
    return f"v{place.n} to v{place.n + place.registers - 1}"
