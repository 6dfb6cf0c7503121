"""Types of generated C and OpenCL C, their constants, and how each dialect writes what they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.campaign.generators.choices import Choices, chance, pick


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar, or a vector of `width` of them: ``uint``, ``uint4``."""

    base: str
    width: int = 1

    @property
    def name(self) -> str:
        """What it is called."""
        return self.base if self.width == 1 else f"{self.base}{self.width}"

    @property
    def bits(self) -> int:
        """Of an element."""
        return BITS[self.base]

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.base in ("float", "double")

    @property
    def is_signed(self) -> bool:
        """Whether elements are integers below zero too."""
        return not self.is_float and not self.base.startswith("u")

    def of(self, base: str) -> Type:
        """As many of another type."""
        return Type(base, self.width)

    @property
    def unsigned(self) -> Type:
        """As many bits, as unsigned integers."""
        return self.of(UNSIGNED[self.bits])

    @property
    def signed(self) -> Type:
        """As many bits, as signed integers: what comparing vectors gives."""
        return self.of(SIGNED[self.bits])


BITS: Final = {
    "char": 8, "uchar": 8, "short": 16, "ushort": 16, "int": 32, "uint": 32, "long": 64, "ulong": 64,
    "float": 32, "double": 64,
}  # fmt: skip
UNSIGNED: Final = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
SIGNED: Final = {8: "char", 16: "short", 32: "int", 64: "long"}
INTEGERS: Final = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
OFTEN: Final = ("int", "uint", "int", "uint", "long", "ulong", *INTEGERS, "float", "double")
WIDTHS: Final = (1, 1, 1, 1, 1, 2, 3, 4, 4, 8)
UINT: Final = Type("uint")
ULONG: Final = Type("ulong")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a language writes vectors. `masks_shifts`: amounts of shifts count modulo the width, as OpenCL C has it."""

    is_opencl: bool

    @property
    def masks_shifts(self) -> bool:
        """Whether amounts of shifts count modulo the width."""
        return self.is_opencl

    def cast(self, to: Type, text: str, came_from: Type) -> str:
        """The same bits as another type; of scalars that are no floating-point numbers, the value modulo its bits."""
        if to == came_from:
            return text
        if to.width == 1 and not to.is_float and not came_from.is_float:
            return f"(({to.name})({text}))"
        if self.is_opencl:
            return f"__builtin_astype({text}, {to.name})"
        if to.width > 1:
            return f"(({to.name})({text}))"
        return f"as_{to.name}_{came_from.name}({text})"

    def vector(self, kind: Type, elements: list[str]) -> str:
        """A vector of these."""
        inside = ", ".join(elements)
        return f"(({kind.name})({inside}))" if self.is_opencl else f"(({kind.name}){{{inside}}})"

    def zero(self, kind: Type) -> str:
        """Nothing of a type."""
        if kind.width == 1:
            return f"(({kind.name})0)"
        return self.vector(kind, ["0"] * kind.width)


def draw_type(choices: Choices, vectors: bool = True) -> Type:
    """Any type."""
    return Type(pick(choices, OFTEN), pick(choices, WIDTHS) if vectors else 1)


def constant(choices: Choices, kind: Type) -> str:
    """A literal of a scalar's type; numbers at the borders are as likely as others."""
    if kind.is_float:
        return _float(choices, kind.base)
    bits = kind.bits
    how = choices.integer(0, 5)
    if how <= 2:
        value = choices.integer(0, 9)
    elif how == 3:
        value = pick(choices, (1 << bits - 1, (1 << bits - 1) - 1, (1 << bits) - 1, 1 << bits // 2, (1 << bits) - 2))
    else:
        value = choices.integer(0, (1 << min(bits, 62)) - 1)
    suffix = "ul" if bits == 64 else "u"
    return f"(({kind.name}){value:#x}{suffix})" if value > 9 else f"(({kind.name}){value})"


def _float(choices: Choices, base: str) -> str:
    """Numbers that the type holds exactly, written so that no compiler rounds them."""
    suffix = "f" if base == "float" else ""
    mantissa = choices.integer(0, (1 << 20) - 1) if chance(choices, 40) else choices.integer(0, 16)
    exponent = choices.integer(-30, 12) if chance(choices, 40) else 0
    sign = "-" if chance(choices, 30) else ""
    return f"({sign}{mantissa:#x}p{exponent}{suffix})"
