"""Translation of vector expressions in native functions to LLVM IR.

`lanes` describes the vectors; `native_llvm` translates everything else.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from softcard.ir import lanes, llvm
from softcard.ir.builder import Text
from softcard.ir.integers import signed
from softcard.ir.native_source import Readable, Source
from softcard.ir.operand import POINTER, Operand, with_lanes

OPERATORS: Final = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
}  # fmt: skip
TESTS: Final = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "ult", ast.LtE: "ule", ast.Gt: "ugt", ast.GtE: "uge",
}  # fmt: skip
WORD: Final = "i64"
DWORD: Final = "i32"
BITS: Final = {WORD: 64, DWORD: 32}
FLAG: Final = "i1"
PARAMETER: Final = "%a."
"""The prefix of the IR names of parameters."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a vector: `count` elements of `WORD`, `DWORD` or `FLAG`.

    `bits` is the width of an element; for flags, it is the width of the words or dwords whose comparison gave them.
    """

    element: str
    count: int
    bits: int = 64

    @property
    def width(self) -> int:
        """The number of elements in one part of the vector; a part fills one host register."""
        return min(self.count, _register_words() * 64 // self.bits)

    @property
    def flags(self) -> Kind:
        """The type of the flags that result from the comparison of two vectors of this type."""
        return Kind(FLAG, self.count, self.bits)

    @property
    def parts(self) -> int:
        """The number of parts, one per host register."""
        return self.count // self.width

    @property
    def part(self) -> str:
        """The LLVM type of one part of the vector."""
        return f"<{self.width} x {self.element}>"

    @property
    def whole(self) -> str:
        """The LLVM type of the whole vector, all parts joined, as it is passed in one argument of a call."""
        return f"<{self.count} x {self.element}>"


@cache
def _register_words() -> int:
    return lanes.register_words(llvm.host_features())


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector in IR: the names of its parts, each of which fills a host register, lowest lanes first."""

    kind: Kind
    parts: tuple[Operand, ...]


Bound = Vector | Operand
"""The value bound to a name: a vector, or the IR name of a word."""


class VectorWriter:
    """A translator of the vector expressions in one native function.

    `value` translates a scalar expression, and `check` raises an error for a name that may be unassigned. `inner`
    returns the translator of an inlined function. `bound` holds the names that have one value throughout the function.
    """

    def __init__(
        self,
        source: Source,
        text: Text,
        value: Callable[[ast.AST], Operand],
        check: Callable[[ast.Name], None],
        inner: Callable[[Readable, dict[str, Bound], dict[str, int]], VectorWriter],
        bound: dict[str, Bound],
    ) -> None:
        self.source = source
        self.text = text
        self.value = value
        self.check = check
        self.inner = inner
        self.bound = bound
        self.kinds: dict[str, Kind] = {}
        """The vector type of each local name that holds a vector in stack slots."""
        self.head: list[str] = []
        """The instructions to be placed at the head of the function."""
        self.splats: dict[tuple[str, Kind], Operand] = {}
        """The vectors made in `head` whose lanes all hold one word, by word and type."""
        self.is_used = bool(bound) or any(
            self.source.function.global_(name) in lanes.OPERATIONS
            for name in source.function.function.__code__.co_names
        )

    # ---- kinds ---------------------------------------------------------------------------------------------------
    def kind(self, node: ast.AST) -> Kind | None:
        """Return the vector type of an expression; None if it is a word."""
        return self._kind(node) if self.is_used else None

    def _kind(self, node: ast.AST) -> Kind | None:
        match node:
            case ast.Name(id=name):
                bound = self.bound.get(name)
                return bound.kind if isinstance(bound, Vector) else self.kinds.get(name)
            case ast.BinOp(left=left, right=right):
                return self._kind(left) or self._kind(right)
            case ast.UnaryOp(op=ast.Invert() | ast.USub(), operand=operand):
                return self._kind(operand)
            case ast.Compare(left=left, comparators=[right]):
                sides = self._kind(left) or self._kind(right)
                return sides and sides.flags
            case ast.IfExp(test=test, body=body, orelse=orelse):
                static = self.source.static(test)
                if static is not None:
                    return self._kind(body if static else orelse)
                decides = self._kind(test)
                return decides and (self._kind(body) or self._kind(orelse) or Kind(WORD, decides.count))
            case ast.Call(func=function, args=arguments):
                return self._kind_of_call(self.source.value(function), arguments)
        return None

    def _kind_of_call(self, function: Any, arguments: list[ast.expr]) -> Kind | None:
        if function in (lanes.spread_dword, lanes.load_dwords):
            return Kind(DWORD, self._number(arguments[1]), BITS[DWORD])
        if function in (lanes.spread, lanes.load_words, lanes.flags_of):
            element = FLAG if function is lanes.flags_of else WORD
            return Kind(element, self._number(arguments[1]))
        if function is lanes.lane_numbers:
            return Kind(WORD, self._number(arguments[0]))
        if function is lanes.gather:
            return self._kind(arguments[0])
        if isinstance(function, Readable):
            kinds = [self._kind(each) for each in arguments]
            return _result(function, tuple(kinds)) if any(kinds) else None
        return None

    def _number(self, node: ast.AST) -> int:
        found = self.source.constant(node)
        return (
            self.source.refuse(node, "must be a constant that is known when the function is compiled")
            if found is None
            else found
        )

    # ---- values --------------------------------------------------------------------------------------------------
    def vector(self, node: ast.AST, kind: Kind | None = None) -> Vector:
        """Write a vector expression, and return the vector.

        If the expression is a word, return a vector of type `kind` with the word in every lane."""
        if self.kind(node) is None:
            assert kind is not None
            return self._spread(node, kind)
        match node:
            case ast.Name(id=name):
                bound = self.bound.get(name)
                if isinstance(bound, Vector):
                    return bound
                self.check(node)
                return self._read(name)
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, self.vector(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(node, left, op, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                test = TESTS.get(type(op)) or self.source.refuse(node)
                one, other = self._both(node, left, right, *BITS)
                return _each(one.kind.flags, lambda a, b: a.compare(test, b), one, other)
            case ast.IfExp(test=decides, body=body, orelse=orelse):
                static = self.source.static(decides)
                if static is not None:
                    return self.vector(body if static else orelse)
                flags = self.vector(decides)
                kind = self.kind(node)
                assert kind is not None
                if flags.kind != kind.flags:
                    self.source.refuse(node, f"selects lanes of {kind.bits} bits by flags of {flags.kind.bits} bits")
                one, other = self.vector(body, kind), self.vector(orelse, kind)
                return _each(kind, Operand.select, flags, one, other)
            case ast.Call(func=function, args=arguments) if not node.keywords:
                return self._call(node, self.source.value(function), arguments)
        return self.source.refuse(node)

    def whole(self, node: ast.AST) -> Operand:
        """Write a vector expression, and return its parts joined to one LLVM vector, as an argument of a call."""
        value = self.vector(node)
        parts, width = list(value.parts), value.kind.width
        while len(parts) > 1:
            order = ", ".join(f"i32 {each}" for each in range(2 * width))
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.text.shuffle(a, f"<{2 * width} x i32> <{order}>", b) for a, b in pairs]
            width *= 2
        return parts[0]

    def slots(self, name: str, kind: Kind) -> dict[str, str]:
        """Return the stack slots of a local name, one for each part of its vector: their types by slot name."""
        return {f"%v.{name}.{number}": kind.part for number in range(kind.parts)}

    def assign(self, name: str, value: Vector) -> None:
        """Write an assignment of a vector to a local name."""
        for slot, part in zip(self.slots(name, value.kind), value.parts, strict=True):
            self.text.pointer(slot).store(part)

    def _read(self, name: str) -> Vector:
        kind = self.kinds[name]
        return Vector(kind, tuple(self.text.pointer(slot).load(kind.part) for slot in self.slots(name, kind)))

    def _both(self, node: ast.AST, left: ast.expr, right: ast.expr, *elements: str) -> tuple[Vector, Vector]:
        kinds = [kind for kind in (self.kind(left), self.kind(right)) if kind is not None]
        if len(set(kinds)) != 1 or kinds[0].element not in elements:
            self.source.refuse(node, f"mixes vectors of different types: {' and '.join(each.whole for each in kinds)}")
        return self.vector(left, kinds[0]), self.vector(right, kinds[0])

    def _unary(self, op: ast.unaryop, value: Vector) -> Vector:
        kind = value.kind
        return _each(kind, Operand.__invert__ if isinstance(op, ast.Invert) else lambda part: 0 - part, value)

    def _binary(self, node: ast.AST, left: ast.expr, op: ast.operator, right: ast.expr) -> Vector:
        kind = self.kind(node)
        assert kind is not None
        if kind.element == FLAG and not isinstance(op, ast.BitAnd | ast.BitOr):
            self.source.refuse(node, "operates on flags, which support only & and |")
        one, other = self._both(node, left, right, kind.element)
        if type(op) in OPERATORS:
            return _each(kind, lambda a, b: a.binary(OPERATORS[type(op)], b), one, other)
        if not isinstance(op, ast.LShift | ast.RShift):
            self.source.refuse(node)
        operation = "shl" if isinstance(op, ast.LShift) else "lshr"
        number = self.source.constant(right)
        if number is not None and 0 <= number < kind.bits:
            return _each(kind, lambda a, b: a.binary(operation, b), one, other)
        fits = _each(kind.flags, lambda by: by < kind.bits, other)
        by = _each(kind, lambda by: by & kind.bits - 1, other)
        moved = _each(kind, lambda a, b: a.binary(operation, b), one, by)
        return _each(kind, lambda flag, word: flag.select(word, 0), fits, moved)

    def _spread(self, node: ast.AST, kind: Kind) -> Vector:
        """Write a vector that holds a word in every lane."""
        if kind.element == FLAG:
            self.source.refuse(node, "is a word, expected a vector of flags")
        number = self.source.constant(node)
        if number is not None:
            lane = signed(kind.bits, number & (1 << kind.bits) - 1)
            return Vector(kind, (self.text.constant(kind.part, lane),) * kind.parts)
        word = self.value(node)
        if not word.startswith(PARAMETER):
            return Vector(kind, (self._splat(word, kind),) * kind.parts)
        # Once for all places, whichever of them is reached first.
        key = word, kind
        if key not in self.splats:
            lines, self.text.lines = self.text.lines, self.head
            self.splats[key] = self._splat(word, kind)
            self.text.lines = lines
        return Vector(kind, (self.splats[key],) * kind.parts)

    def _splat(self, word: Operand, kind: Kind) -> Operand:
        lane = word if kind.element == WORD else word.trunc(kind.element)
        one = self.text.operand(kind.part, "poison").with_lane(0, lane)
        return self.text.shuffle(one, f"<{kind.width} x i32> zeroinitializer")

    # ---- calls ---------------------------------------------------------------------------------------------------
    def _call(self, node: ast.Call, function: Any, arguments: list[ast.expr]) -> Vector:
        kind = self.kind(node)
        assert kind is not None
        if isinstance(function, Readable):
            made = self.expanded(node, function, arguments)
            assert isinstance(made, Vector)
            return made
        if function in (lanes.spread, lanes.spread_dword):
            return self._spread(arguments[0], kind)
        if function is lanes.lane_numbers:
            numbers = [", ".join(f"i64 {each}" for each in range(at, at + kind.width)) for at in _starts(kind)]
            return Vector(kind, tuple(self.text.operand(kind.part, f"<{each}>") for each in numbers))
        if function in (lanes.load_words, lanes.load_dwords):
            align = kind.bits // 8
            return Vector(kind, tuple(at.load(kind.part, align=align) for at in self._places(arguments[0], kind)))
        if function is lanes.flags_of:
            return Vector(kind, tuple(self._flags(self.value(arguments[0]), kind)))
        if function is lanes.gather:
            return self._gather(kind, *arguments)
        return self.source.refuse(node)

    def _flags(self, bits: Operand, kind: Kind) -> Iterator[Operand]:
        for at in _starts(kind):
            moved = bits >> at if at else bits
            yield moved.trunc(f"i{kind.width}").bitcast(kind.part)

    def _places(self, node: ast.expr, kind: Kind) -> Iterator[Operand]:
        """Yield a pointer to each part of a vector in memory; `node` is the expression of its address."""
        base = self.value(node).inttoptr()
        for at in _starts(kind):
            yield base.element(kind.element, at) if at else base

    def _gather(self, kind: Kind, addresses: ast.expr, mask: ast.expr, other: ast.expr | None = None) -> Vector:
        places, flags = self.vector(addresses), self.vector(mask)
        if kind.element != WORD:
            self.source.refuse(addresses, "are dwords where addresses are expected")
        if other is None:
            return _each(
                kind, lambda at, flag: self.text.gathered(kind.part, _pointers(at), flag, align=8), places, flags
            )
        others = self.vector(other, kind)
        return _each(
            kind,
            lambda at, flag, word: self.text.gathered(kind.part, _pointers(at), flag, align=8, other=word),
            places,
            flags,
            others,
        )

    def scatter(self, words: ast.expr, addresses: ast.expr, mask: ast.expr) -> None:
        """Write a store of each lane to its own address, if the lane's flag in `mask` is set."""
        places = self.vector(addresses)
        values = self.vector(words, places.kind), places, self.vector(mask)
        for word, at, flags in zip(*(each.parts for each in values), strict=True):
            self.text.scatter(word, _pointers(at), flags, align=8)

    def store_words(self, address: ast.expr, words: ast.expr, *, bits: int) -> None:
        """Write a store of a vector of words or dwords (`bits` is 64 or 32) to adjacent memory."""
        value = self.vector(words)
        if value.kind.bits != bits or value.kind.element == FLAG:
            self.source.refuse(words, f"is a vector of {value.kind.whole} where lanes of {bits} bits are expected")
        for place, part in zip(self._places(address, value.kind), value.parts, strict=True):
            place.store(part, align=value.kind.bits // 8)

    def lane(self, words: ast.expr, number: ast.expr) -> Operand:
        """Write the extraction of one lane; return it as a word."""
        value = self.vector(words)
        part, at = divmod(self._number(number), value.kind.width)
        one = value.parts[part].lane(at)
        return one if value.kind.element == WORD else one.zext(WORD)

    def bits_of(self, flags: ast.expr) -> Operand:
        """Write the conversion of flags to bits; return them as a word."""
        value = self.vector(flags)
        words = [part.bitcast(f"i{value.kind.width}").zext(WORD) for part in value.parts]
        made = words[0]
        for at, word in zip(_starts(value.kind)[1:], words[1:], strict=True):
            made = made | word << at
        return made

    def any_of(self, flags: ast.expr) -> Operand:
        """Write a test for any flag that is 1; return the i1."""
        # Masks of registers are combined as integers: vectors of flags wider than a register take shuffles of masks.
        value = self.vector(flags)
        first, *others = [part.bitcast(f"i{value.kind.width}") for part in value.parts]
        for other in others:
            first = first | other
        return first.ne(0)

    def expanded(self, node: ast.Call, function: Readable, arguments: list[ast.expr]) -> Bound:
        """Inline a function called with vectors: write its assignments, and return its result."""
        bound: dict[str, Bound] = {}
        constants: dict[str, int] = {}
        assigned = Source(function).assigned
        for name, each in zip(function.parameters, arguments, strict=True):
            number = self.source.constant(each)
            if number is not None and name not in assigned:
                constants[name] = number
            else:
                bound[name] = self.value(each) if self.kind(each) is None else self.vector(each)
        inner = self.inner(function, bound, constants)
        for target, value in _sequence(inner.source):
            made = inner.value(value) if inner.kind(value) is None else inner.vector(value)
            if target is None:
                return made
            inner.bound[target] = made
        raise AssertionError(function.name)


def _each(kind: Kind, write: Callable[..., Operand], *operands: Vector) -> Vector:
    """Return a vector of type `kind` whose parts are computed by `write` from the operands' parts.

    Part k is the result of `write` for part k of each operand."""
    rows = zip(*(each.parts for each in operands), strict=True)
    return Vector(kind, tuple(write(*row) for row in rows))


def _pointers(addresses: Operand) -> Operand:
    """Write the conversion of a vector of addresses to pointers."""
    return addresses.inttoptr(with_lanes(addresses.type, POINTER))


def _starts(kind: Kind) -> range:
    """Return the number of the first lane of each part."""
    return range(0, kind.count, kind.width)


def _sequence(source: Source) -> Iterator[tuple[str | None, ast.expr]]:
    """Yield the assignments of a function as (name, expression), and its result as (None, expression).

    Any other statement raises an error.
    """
    for node in source.tree.body:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Return(value=ast.expr() as value):
                yield None, value
                return
            case _:
                source.refuse(
                    node, "is not allowed in a function of vectors, which has assignments to names and one return only"
                )
    source.refuse(source.tree, "returns no vector")


def _no_inner(function: Readable, bound: dict[str, Bound], constants: dict[str, int]) -> VectorWriter:
    raise AssertionError(function.name)


@cache
def _result(function: Readable, kinds: tuple[Kind | None, ...]) -> Kind | None:
    """Return the vector type of a function's result for arguments of the given types; None for a word."""
    text = Text()
    word = text.word("")
    bound: dict[str, Bound] = {
        name: word if kind is None else Vector(kind, ()) for name, kind in zip(function.parameters, kinds, strict=True)
    }
    writer = VectorWriter(Source(function), text, lambda node: word, print, _no_inner, bound)
    for name, value in _sequence(writer.source):
        kind = writer.kind(value)
        if name is None:
            return kind
        writer.bound[name] = word if kind is None else Vector(kind, ())
    return None
