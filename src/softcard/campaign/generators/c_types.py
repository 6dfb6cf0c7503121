"""The types and constants of generated C and OpenCL C, and the syntax in which the two languages differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.campaign.generators.tree import Choices, chance, pick


@dataclass(frozen=True, slots=True)
class Type:
    """A C scalar type, or a vector type of `width` elements, such as ``uint`` or ``uint4``."""

    base: str
    width: int = 1

    @property
    def name(self) -> str:
        """The type's name in C, for example ``uint`` or ``uint4``."""
        return self.base if self.width == 1 else f"{self.base}{self.width}"

    @property
    def bits(self) -> int:
        """The number of bits of an element."""
        return BITS[self.base]

    @property
    def is_float(self) -> bool:
        """True if elements are floating-point numbers."""
        return self.base in ("float", "double")

    @property
    def is_signed(self) -> bool:
        """True if elements are signed integers."""
        return not self.is_float and not self.base.startswith("u")

    def of(self, base: str) -> Type:
        """Return the type with this width and the element type `base`."""
        return Type(base, self.width)

    @property
    def unsigned(self) -> Type:
        """The unsigned integer type of the same width and size."""
        return self.of(UNSIGNED[self.bits])

    @property
    def signed(self) -> Type:
        """The signed integer type of the same width and size: the result type of a comparison of vectors."""
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
    """The syntax of C or of OpenCL C for vectors and casts."""

    is_opencl: bool

    @property
    def masks_shifts(self) -> bool:
        """True if the language takes shift amounts modulo the operand's width in bits, as OpenCL C does."""
        return self.is_opencl

    def cast(self, to: Type, text: str, came_from: Type) -> str:
        """Return the expression `text` of type `came_from` with its bits reinterpreted as type `to`.

        Between integer scalars, the cast converts modulo 2^bits instead."""
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
        """Return a vector expression of type `kind` with the given elements."""
        inside = ", ".join(elements)
        return f"(({kind.name})({inside}))" if self.is_opencl else f"(({kind.name}){{{inside}}})"

    def zero(self, kind: Type) -> str:
        """Return the zero of type `kind`, as text."""
        if kind.width == 1:
            return f"(({kind.name})0)"
        return self.vector(kind, ["0"] * kind.width)


def draw_type(choices: Choices, vectors: bool = True) -> Type:
    """Draw a random scalar type, or with `vectors` a random scalar or vector type."""
    return Type(pick(choices, OFTEN), pick(choices, WIDTHS) if vectors else 1)


def constant(choices: Choices, kind: Type) -> str:
    """Draw a random literal of the scalar type `kind`.

    At least half of the integers are from 0 to 9. One in six is near a power of 2, such as a limit of the type."""
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
    """Draw a random number that ``float`` and ``double`` represent exactly, as a literal of the type `base`.

    The literal is hexadecimal, so that no compiler rounds it."""
    suffix = "f" if base == "float" else ""
    mantissa = choices.integer(0, (1 << 20) - 1) if chance(choices, 40) else choices.integer(0, 16)
    exponent = choices.integer(-30, 12) if chance(choices, 40) else 0
    sign = "-" if chance(choices, 30) else ""
    return f"({sign}{mantissa:#x}p{exponent}{suffix})"
