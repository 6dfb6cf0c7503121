"""Expressions of generated C and OpenCL C: each has one defined value, for any values of its operands.

Integers wrap, since arithmetic is done on unsigned types of at least 32 bits. Shift amounts and indices are masked, and
divisors are neither 0 nor -1. Floating-point numbers are only added, subtracted, multiplied, compared and converted,
and those of type `double` divided as well: IEEE 754 defines the rounding of these operations. A floating-point value is
converted to an integer only if it fits. Before the bits of a floating-point value are read, every NaN is replaced by
one bit pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from softcard.campaign.generators.c_types import (
    BITS,
    INTEGERS,
    UINT,
    Dialect,
    Type,
    constant,
    draw_type,
)
from softcard.campaign.generators.tree import Choices, Node, chance, pick

DEEPEST: Final = 4
COMPARISONS: Final = ("<", "<=", ">", ">=", "==", "!=")
NAN: Final = {"float": "0x7fc00000u", "double": "0x7ff8000000000000ul"}
LETTERS: Final = "xyzw"


@dataclass(slots=True)
class Scope:
    """The names that expressions may read: variables by type, arrays with their lengths, and functions."""

    variables: dict[Type, list[str]] = field(default_factory=dict)
    arrays: dict[Type, list[tuple[str, int]]] = field(default_factory=dict)
    functions: dict[Type, list[tuple[str, tuple[Type, ...]]]] = field(default_factory=dict)

    def add(self, kind: Type, name: str) -> None:
        """Add the variable `name` of type `kind`, or another expression that can be read like a variable."""
        self.variables.setdefault(kind, []).append(name)


class Expressions:
    """The random generator of expressions. To "draw" an expression means to choose it at random."""

    def __init__(self, choices: Choices, dialect: Dialect, deepest: int = DEEPEST) -> None:
        self.choices, self.dialect, self._deepest = choices, dialect, deepest

    def node(self, kind: Type, form: str, *kids: Node) -> Node:
        """Return a syntax node of type `kind`: the text `form` with the texts of `kids` in its placeholders."""
        return Node(form, list(kids), kind.name, self.dialect.zero(kind))

    def draw(self, kind: Type, scope: Scope, depth: int = 0) -> Node:
        """Draw a random expression of type `kind` over the names in `scope`."""
        if depth >= self._deepest or chance(self.choices, 12 + 14 * depth):
            return self.simple(kind, scope)
        makers = self._makers(kind)
        return pick(self.choices, makers)(kind, scope, depth + 1)

    def simple(self, kind: Type, scope: Scope) -> Node:
        """Draw a random variable or constant of type `kind`."""
        known = scope.variables.get(kind)
        if known and chance(self.choices, 75):
            return self.node(kind, pick(self.choices, known))
        if kind.width == 1:
            return self._scalar(kind, scope)
        element = Type(kind.base)
        first, *rest = (self._scalar(element, scope) for _ in range(kind.width))
        return self.node(kind, self.dialect.vector(kind, ["{}"] * kind.width), first, *rest)

    def _scalar(self, kind: Type, scope: Scope) -> Node:
        """Draw a random constant of type `kind`, or a variable of another type converted to it."""
        others = [each for each in scope.variables if each.width == 1 and not each.is_float and scope.variables[each]]
        if others and chance(self.choices, 60):
            other = pick(self.choices, others)
            return self.node(kind, f"(({kind.name}){pick(self.choices, scope.variables[other])})")
        return self.node(kind, constant(self.choices, kind))

    # ---- expressions by type -----------------------------------------------------------------------------------------

    def _makers(self, kind: Type) -> list[Callable[[Type, Scope, int], Node]]:
        makers: list[Callable[[Type, Scope, int], Node]] = [self._choice, self._converted, self._converted, self._read]
        if kind.is_float:
            makers += [self._float, self._float, self._float]
        else:
            makers += [self._integer, self._integer, self._integer, self._shift, self._divided, self._unary]
            makers += [self._compared, self._bits]
        if kind.width > 1:
            makers += [self._built, self._swizzled]
        elif not kind.is_float:
            makers += [self._logical, self._counted, self._high]
        return makers

    def _computed(self, kind: Type) -> Type:
        """Return the unsigned type in which arithmetic on integers of type `kind` is done."""
        return UINT if kind.width == 1 and kind.bits < 32 else kind.unsigned

    def _integer(self, kind: Type, scope: Scope, depth: int) -> Node:
        computed = self._computed(kind)
        operator = pick(self.choices, ("+", "-", "*", "&", "|", "^"))
        left, right = self.draw(kind, scope, depth), self.draw(kind, scope, depth)
        operand = self.dialect.cast(computed, "{}", kind)
        return self.node(kind, self.dialect.cast(kind, f"({operand} {operator} {operand})", computed), left, right)

    def _shift(self, kind: Type, scope: Scope, depth: int) -> Node:
        value, amount = self.draw(kind, scope, depth), self.draw(kind, scope, depth)
        left = chance(self.choices, 50)
        computed = self._computed(kind) if left else kind
        width = max(kind.bits, 32) if kind.width == 1 else kind.bits
        masked = "{}"
        if not self.dialect.masks_shifts or chance(self.choices, 50):
            masked = f"({{}} & {self._same(kind, str(width - 1))})"
        operand = self.dialect.cast(computed, "{}", kind)
        masked = masked if kind.width == 1 else self.dialect.cast(computed, masked, kind)
        form = f"({operand} {'<<' if left else '>>'} {masked})"
        return self.node(kind, self.dialect.cast(kind, form, computed), value, amount)

    def _divided(self, kind: Type, scope: Scope, depth: int) -> Node:
        value, divisor = self.draw(kind, scope, depth), self.draw(kind, scope, depth)
        operator = pick(self.choices, ("/", "%"))
        one, most = self._same(kind, "1"), self._same(kind, f"{(1 << kind.bits - 1) - 1:#x}")
        guarded = f"({{}} & {most} | {one})" if kind.is_signed else f"({{}} | {one})"
        return self.node(kind, f"(({kind.name})({{}} {operator} {guarded}))" if kind.width == 1
                         else f"({{}} {operator} {guarded})", value, divisor)  # fmt: skip

    def _same(self, kind: Type, text: str) -> str:
        """Return `text` as a constant of type `kind`: for a vector type, a vector with `text` in all elements."""
        if kind.width == 1:
            return f"(({kind.name}){text})"
        return self.dialect.vector(kind, [text] * kind.width)

    def _unary(self, kind: Type, scope: Scope, depth: int) -> Node:
        operator = pick(self.choices, ("~", "-"))
        computed = self._computed(kind)
        form = f"({operator}{self.dialect.cast(computed, '{}', kind)})"
        return self.node(kind, self.dialect.cast(kind, form, computed), self.draw(kind, scope, depth))

    def _float(self, kind: Type, scope: Scope, depth: int) -> Node:
        operators = ("+", "-", "*", "/") if kind.base == "double" and kind.width == 1 else ("+", "-", "*")
        form = f"({{}} {pick(self.choices, operators)} {{}})"
        return self.node(kind, form, self.draw(kind, scope, depth), self.draw(kind, scope, depth))

    def _compared(self, kind: Type, scope: Scope, depth: int) -> Node:
        """Draw a random comparison: 0 or 1 for scalars, 0 or -1 in each element for vectors."""
        operator = pick(self.choices, COMPARISONS)
        if kind.width == 1:
            other = draw_type(self.choices, vectors=False)
            form = f"(({kind.name})({{}} {operator} {{}}))"
            return self.node(kind, form, self.draw(other, scope, depth), self.draw(other, scope, depth))
        others = [each for each in BITS if BITS[each] == kind.bits]
        other = kind.of(pick(self.choices, others))
        form = self.dialect.cast(kind, f"({{}} {operator} {{}})", kind.signed)
        return self.node(kind, form, self.draw(other, scope, depth), self.draw(other, scope, depth))

    def _choice(self, kind: Type, scope: Scope, depth: int) -> Node:
        one, other = self.draw(kind, scope, depth), self.draw(kind, scope, depth)
        return self.node(kind, "({} ? {} : {})", self.condition(scope, depth), one, other)

    def condition(self, scope: Scope, depth: int = 0) -> Node:
        """Draw a random comparison of two scalars, or a test of the lowest bit of a random number."""
        if chance(self.choices, 70):
            other = draw_type(self.choices, vectors=False)
            left, right = self.draw(other, scope, depth + 1), self.draw(other, scope, depth + 1)
            form = f"({{}} {pick(self.choices, COMPARISONS)} {{}})"
            return Node(form, [left, right], "condition", "0")
        return Node("({} & 1u)", [self.draw(UINT, scope, depth + 1)], "condition", "0")

    def _converted(self, kind: Type, scope: Scope, depth: int) -> Node:
        """Draw a random value of another type, converted to `kind`."""
        other = kind.of(pick(self.choices, tuple(BITS)))
        value = self.draw(other, scope, depth)
        if other.is_float and not kind.is_float:
            return self.bits_of(other, value, kind)
        if kind.width > 1:
            return self.node(kind, f"__builtin_convertvector({{}}, {kind.name})", value)
        return self.node(kind, f"(({kind.name}){{}})", value)

    def bits_of(self, came_from: Type, value: Node, to: Type) -> Node:
        """Draw an expression of the integer type `to` that depends on the floating-point expression `value`.

        For a scalar it may be the value converted to ``int``, or 7 if the value does not fit. Otherwise it is the
        bits of `value` converted to `to`, with one bit pattern for all NaNs."""
        if came_from.width == 1 and chance(self.choices, 50):
            return self.node(to, f"(({to.name})to_int_{came_from.base}({{}}))", value)
        same = came_from.unsigned
        text = self.canonical(came_from)
        if to.width == 1:
            return self.node(to, f"(({to.name}){text})", value)
        if to == same:
            return self.node(to, text, value)
        return self.node(to, f"__builtin_convertvector({text}, {to.name})", value)

    @staticmethod
    def canonical(kind: Type) -> str:
        """Return a C function call that returns the bits of its operand, with one bit pattern for all NaNs.

        The call has a placeholder for its operand, which has the floating-point type `kind`."""
        return f"bits_{kind.name}({{}})"

    def _read(self, kind: Type, scope: Scope, depth: int) -> Node:
        """Draw a random array element or function call of type `kind`; if there is neither, a simple expression."""
        arrays, functions = scope.arrays.get(kind, []), scope.functions.get(kind, [])
        if functions and chance(self.choices, 50):
            name, parameters = pick(self.choices, functions)
            kids = [self.draw(each, scope, depth + 1) for each in parameters]
            return self.node(kind, f"{name}({', '.join(['{}'] * len(kids))})", *kids)
        if arrays:
            name, length = pick(self.choices, arrays)
            return self.node(kind, f"{name}[{{}} & {length - 1}u]", self.draw(UINT, scope, depth))
        return self.simple(kind, scope)

    def _bits(self, kind: Type, scope: Scope, depth: int) -> Node:
        """Draw a random rotation or bit field extraction."""
        if kind.width > 1 or kind.bits < 32:
            return self._integer(kind, scope, depth)
        computed = kind.unsigned
        amount = self.choices.integer(1, kind.bits - 1)
        if chance(self.choices, 50):
            value = self.draw(kind, scope, depth)
            form = f"(({kind.name})rotate_{computed.name}(({computed.name}){{}}, {amount}u))"
            return self.node(kind, form, value)
        mask = (1 << self.choices.integer(1, kind.bits - 1)) - 1
        return self.node(kind, f"(({{}} >> {amount}) & (({kind.name}){mask:#x}))", self.draw(kind, scope, depth))

    # ---- vectors -----------------------------------------------------------------------------------------------------

    def _built(self, kind: Type, scope: Scope, depth: int) -> Node:
        element = Type(kind.base)
        kids = [self.draw(element, scope, depth + 1) for _ in range(kind.width)]
        return self.node(kind, self.dialect.vector(kind, ["{}"] * kind.width), *kids)

    def _swizzled(self, kind: Type, scope: Scope, depth: int) -> Node:
        width = pick(self.choices, (2, 4, 8))
        value = self.draw(Type(kind.base, width), scope, depth)
        places = "".join(f"{self.choices.integer(0, width - 1):x}" for _ in range(kind.width))
        return self.node(kind, f"{{}}.s{places}", value)

    # ---- scalars -----------------------------------------------------------------------------------------------------

    def _logical(self, kind: Type, scope: Scope, depth: int) -> Node:
        how = self.choices.integer(0, 2)
        if how == 2:
            return self.node(kind, f"(({kind.name})!{{}})", self.condition(scope, depth))
        form = f"(({kind.name})({{}} {('&&', '||')[how]} {{}}))"
        return self.node(kind, form, self.condition(scope, depth), self.condition(scope, depth))

    def _counted(self, kind: Type, scope: Scope, depth: int) -> Node:
        """Draw a random operation that counts bits or swaps bytes."""
        name, other = pick(self.choices, COUNTS)
        return self.node(kind, f"(({kind.name}){name}({{}}))", self.draw(Type(other), scope, depth))

    def _high(self, kind: Type, scope: Scope, depth: int) -> Node:
        """Draw at random the upper half of a product, an element of a vector, or a minimum or maximum."""
        how = self.choices.integer(0, 2)
        if how == 0:
            form = f"(({kind.name})(((ulong)(uint){{}} * (uint){{}}) >> 32))"
            return self.node(kind, form, self.draw(kind, scope, depth), self.draw(kind, scope, depth))
        if how == 1:
            width = pick(self.choices, (2, 4))
            form = f"{{}}.{pick(self.choices, LETTERS[:width])}"
            return self.node(kind, form, self.draw(Type(kind.base, width), scope, depth))
        form = f"{pick(self.choices, ('least', 'most'))}_{kind.name}({{}}, {{}})"
        return self.node(kind, form, self.draw(kind, scope, depth), self.draw(kind, scope, depth))


COUNTS: Final = (
    ("__builtin_popcount", "uint"), ("__builtin_popcountl", "ulong"), ("leading_uint", "uint"),
    ("leading_ulong", "ulong"), ("trailing_uint", "uint"), ("trailing_ulong", "ulong"),
    ("__builtin_bswap32", "uint"), ("__builtin_bswap64", "ulong"),
)  # fmt: skip


def prelude(dialect: Dialect) -> str:
    """Return the functions that generated expressions call; every generated program begins with them."""
    text = ["typedef unsigned char uchar; typedef unsigned short ushort;"]
    text += ["typedef unsigned int uint; typedef unsigned long ulong;"]
    widths = (2, 3, 4, 8)
    text += [
        " ".join(f"typedef {base} {base}{n} __attribute__((ext_vector_type({n})));" for n in widths) for base in BITS
    ]
    if not dialect.is_opencl:
        for to, came_from in (("uint", "float"), ("float", "uint"), ("ulong", "double"), ("double", "ulong"),
                              ("int", "float"), ("float", "int"), ("long", "double"), ("double", "long")):  # fmt: skip
            copied = f"{to} y; __builtin_memcpy(&y, &x, sizeof y); return y;"
            text.append(f"static inline {to} as_{to}_{came_from}({came_from} x) {{ {copied} }}")
    for kind in (Type(base, width) for base in ("float", "double") for width in (1, *widths)):
        text.append(_bits_of(dialect, kind))
    for base, most in (("float", "2147483520.0f"), ("double", "2147483647.0")):
        inside = f"return x >= -2147483648.0{'f' if base == 'float' else ''} && x <= {most} ? (int)x : 7;"
        text.append(f"static inline int to_int_{base}({base} x) {{ {inside} }}")
    for base, bits, suffix in (("uint", 32, ""), ("ulong", 64, "l")):
        text += [
            f"static inline {base} rotate_{base}({base} x, uint n) {{ return x << n | x >> ({bits} - n); }}",
            f"static inline uint leading_{base}({base} x) {{ return x ? __builtin_clz{suffix}(x) : {bits}; }}",
            f"static inline uint trailing_{base}({base} x) {{ return x ? __builtin_ctz{suffix}(x) : {bits}; }}",
        ]
    for base in INTEGERS:
        text += [
            f"static inline {base} {name}_{base}({base} x, {base} y) {{ return x {sign} y ? x : y; }}"
            for name, sign in (("least", "<"), ("most", ">"))
        ]
    return "\n".join(text)


def _bits_of(dialect: Dialect, kind: Type) -> str:
    same = kind.unsigned
    head = f"static inline {same.name} bits_{kind.name}({kind.name} x)"
    if kind.width == 1:
        cast = f"__builtin_astype(x, {same.name})" if dialect.is_opencl else f"as_{same.name}_{kind.name}(x)"
        return f"{head} {{ return x == x ? {cast} : {NAN[kind.base]}; }}"
    mask = dialect.cast(same, "(x == x)", kind.signed)
    nan = dialect.vector(same, [NAN[kind.base]] * kind.width)
    return f"{head} {{ {same.name} m = {mask}; return {dialect.cast(same, 'x', kind)} & m | {nan} & ~m; }}"
