"""What a vector instruction reads and writes: register groups and masks, and which of them may overlap (V 1.0, 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.core.rule import Rule
from understudy.isa.riscv.insn import IllegalInstruction
from understudy.isa.riscv.vector import rules
from understudy.isa.riscv.vector.vtype import ELEN, LEAST_LMUL, MOST_LMUL
from understudy.isa.word import Value


@dataclass(frozen=True, slots=True)
class Group:
    """2**`emul` registers from number `n`, of elements of `width` bits."""

    n: int
    width: int
    emul: int

    @property
    def registers(self) -> int:
        """How many."""
        return 1 << self.emul if self.emul > 0 else 1


@dataclass(frozen=True, slots=True)
class Mask:
    """Register `n` as a mask: element k is bit k."""

    n: int
    width: int = 1
    emul: int = 0
    registers: int = 1


@dataclass(frozen=True, slots=True)
class Scalar:
    """The same value for all elements."""

    width: int
    value: Value


@dataclass(frozen=True, slots=True)
class Index:
    """The number of an element itself."""

    width: int = 64


@dataclass(frozen=True, slots=True)
class Slid:
    """Elements of `group`, each `offset` (64 bits) places further up or down; 0 where there is none."""

    group: Group
    offset: Value
    up: bool

    @property
    def width(self) -> int:
        """Of an element."""
        return self.group.width


@dataclass(frozen=True, slots=True)
class Picked:
    """The element of `group` that `index` tells, whatever vl is; 0 behind the group's end."""

    group: Group
    index: Group | Scalar

    @property
    def width(self) -> int:
        """Of an element."""
        return self.group.width


@dataclass(frozen=True, slots=True)
class Before:
    """How many bits of `mask` that take part are 1 before an element, as a number of `width` bits."""

    mask: Mask
    masked: bool
    width: int


@dataclass(frozen=True, slots=True)
class Walk:
    """Addresses of elements: `base` and, for element k, `step` bytes for each unit of element k of `offsets`.

    `step` is a number where the instruction has it; else, as `base`, a value of 64 bits.
    """

    base: Value
    offsets: Source
    step: int | Value


INDEX: Final = Index()
V0: Final = Mask(0)
Place = Group | Mask
Source = Group | Mask | Scalar | Index | Slid | Picked | Before


def refuse(why: str, rule: Rule) -> IllegalInstruction:
    """A reserved encoding."""
    return IllegalInstruction(f"reserved vector encoding: {why}", rule=rule)


def check_group(group: Group, fields: int = 1) -> None:
    """Of `fields` groups one after the other: an element and a length that exist, and registers that do."""
    if not 8 <= group.width <= ELEN:
        raise refuse(f"elements of {group.width} bits: there are 8, 16, 32 and 64", rules.EEW_SUPPORTED)
    if not LEAST_LMUL <= group.emul <= MOST_LMUL:
        length = f"{1 << group.emul}" if group.emul >= 0 else f"1/{1 << -group.emul}"
        raise refuse(f"EMUL {length} for elements of {group.width} bits: it goes from 1/8 to 8", rules.EMUL_RANGE)
    if group.n % group.registers:
        raise refuse(f"v{group.n} does not begin a group of {group.registers} registers", rules.GROUP_START)
    if fields * group.registers > 8:
        why = f"{fields} fields of {group.registers} registers: at most 8 registers in all"
        raise refuse(why, rules.SEGMENT_REGISTERS)
    if group.n + fields * group.registers > 32:
        why = f"{fields} fields of {group.registers} registers from v{group.n} end behind v31"
        raise refuse(why, rules.SEGMENT_END)


def check(dest: Place, sources: tuple[Source, ...], masked: bool, apart: Rule | None = None) -> None:
    """Refuse groups that do not exist and overlaps that are reserved; `apart`: the rule that allows none."""
    places = [source for source in sources if isinstance(source, (Group, Mask))]
    for place in (dest, *places):
        if isinstance(place, Group):
            check_group(place)
    if masked and isinstance(dest, Group):
        check_unmasked(dest.n)
    for source in places:
        if _overlap(dest, source) and (apart or not _may_overlap(dest, source)):
            raise refuse(f"{_name(dest)} may not overlap {_name(source)} here", apart or rules.OVERLAP)


def check_unmasked(n: int) -> None:
    """The destination of a masked instruction begins at register `n`."""
    if n == 0:
        raise refuse("the destination overlaps the mask v0", rules.MASK_OVERLAP)


def _overlap(a: Place, b: Place) -> bool:
    return a.n < b.n + b.registers and b.n < a.n + a.registers


def _may_overlap(dest: Place, source: Place) -> bool:
    """Equal widths; a narrower one where a wider source begins; a wider one that ends where its source does."""
    if dest.width == source.width:
        return True
    if dest.width < source.width:
        return dest.n == source.n
    return isinstance(source, Group) and source.emul >= 0 and dest.n + dest.registers == source.n + source.registers


def _name(place: Place) -> str:
    if place.registers == 1:
        return f"v{place.n}"
    return f"v{place.n} to v{place.n + place.registers - 1}"
