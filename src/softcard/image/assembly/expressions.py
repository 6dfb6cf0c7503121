"""Expressions of assembly files: numbers, symbols and operators, as GNU's and LLVM's assemblers read them.

Numbers have 64 bits. Literals range up to 2^64 - 1; results of operations wrap around. Comparisons and divisions are
those of signed numbers, as in both of these assemblers. A true comparison is -1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from softcard.core.display import count
from softcard.core.errors import WireError

NAME: Final = r"[A-Za-z_.$][\w.$]*"
"""A regular expression that matches symbol names."""
MAX_DEPTH: Final = 64
"""The deepest nesting of brackets in an expression that is accepted."""
BITS: Final = 64
"""The number of bits of a value."""
LEADING_ZEROS: Final = 100
"""The largest accepted number of leading zeros in a number."""
_TOKEN: Final = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+[bf]\b|\d+|'(?:\\.|[^\\'])'?|" + NAME + r"|<<|>>|<=|>=|==|!=|&&|\|\||.)"
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}


@dataclass(frozen=True, slots=True)
class Value:
    """A number, or an address in the section `section` ("" for a plain number).

    `is_known` is False while a symbol in the expression has no address yet; `number` is then only an assumption.
    """

    number: int
    section: str = ""
    is_known: bool = True


Function = Callable[..., int]


class Names(Protocol):
    """The interface by which an expression finds the values of symbols and functions."""

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions that an expression may call, by name."""

    def value_of(self, name: str) -> Value:
        """Return the value of a symbol, of ``.``, or of a local label such as ``1b``.

        Raise `WireError` if it is undefined."""


Binary = Callable[[int, int], int]


def _wrapped(number: int) -> int:
    """Return the result of an operation as a 64-bit number.

    A number that signed or unsigned 64 bits can hold is unchanged; any other one wraps around to a signed number."""
    return number if -1 << BITS - 1 <= number < 1 << BITS else _signed(number)


def _signed(number: int) -> int:
    half = 1 << BITS - 1
    return (number + half & (1 << BITS) - 1) - half


def _of_signed(operation: Binary) -> Binary:
    return lambda a, b: operation(_signed(a), _signed(b))


def _quotient(a: int, b: int) -> int:
    if not b:
        raise WireError("division by 0")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _shift(a: int, b: int) -> int:
    if not 0 <= b < 64:
        raise WireError(f"the shift amount is {b}, expected 0 to 63")
    return a << b


_OPERATORS: Final[dict[str, tuple[int, Binary]]] = {
    "||": (1, lambda a, b: int(bool(a or b))),
    "&&": (2, lambda a, b: int(bool(a and b))),
    "|": (3, lambda a, b: a | b),
    "^": (4, lambda a, b: a ^ b),
    "&": (5, lambda a, b: a & b),
    "==": (6, _of_signed(lambda a, b: -(a == b))),
    "!=": (6, _of_signed(lambda a, b: -(a != b))),
    "<": (7, _of_signed(lambda a, b: -(a < b))),
    "<=": (7, _of_signed(lambda a, b: -(a <= b))),
    ">": (7, _of_signed(lambda a, b: -(a > b))),
    ">=": (7, _of_signed(lambda a, b: -(a >= b))),
    "<<": (8, _shift),
    ">>": (8, lambda a, b: (a & (1 << 64) - 1) >> min(b, 64) if b >= 0 else _shift(a, b)),
    "+": (9, lambda a, b: a + b),
    "-": (9, lambda a, b: a - b),
    "*": (10, lambda a, b: a * b),
    "/": (10, _of_signed(_quotient)),
    "%": (10, _of_signed(lambda a, b: a - b * _quotient(a, b))),
}
_UNARY: Final[dict[str, Callable[[int], int]]] = {
    "-": lambda a: -a,
    "+": lambda a: a,
    "~": lambda a: ~a,
    "!": lambda a: int(not a),
}


def evaluate(text: str, names: Names) -> Value:
    """Return the value of the expression in `text`; raise `WireError` if it is invalid."""
    tokens = _TOKEN.findall(text)
    value, rest = _Reader(tokens, names, text).binary(0, 0, 0)
    if rest != len(tokens):
        raise WireError(f"{text.strip()!r} must be an expression: {tokens[rest]!r} is not expected")
    return value


class _Reader:
    def __init__(self, tokens: list[str], names: Names, text: str) -> None:
        self._tokens, self._names, self._text = tokens, names, text

    def binary(self, at: int, least: int, depth: int) -> tuple[Value, int]:
        """Parse operands and binary operators from token `at` on; return the value and the next token's index.

        Parsing ends before the first operator that binds less strongly than `least`.
        """
        if depth > MAX_DEPTH:
            raise WireError(f"the expression nests more than {MAX_DEPTH} deep")
        left, at = self.unary(at, depth)
        while at < len(self._tokens):
            operator = self._tokens[at]
            strength, function = _OPERATORS.get(operator, (-1, None))
            if function is None or strength < least:
                break
            right, at = self.binary(at + 1, strength + 1, depth + 1)
            left = _joined(operator, function, left, right)
        return left, at

    def unary(self, at: int, depth: int) -> tuple[Value, int]:
        if at >= len(self._tokens):
            raise WireError(
                f"{self._text.strip()!r} ends before a value" if self._text.strip() else "a number is missing"
            )
        token = self._tokens[at]
        if token in _UNARY:
            if depth > MAX_DEPTH:
                raise WireError(f"the expression nests more than {MAX_DEPTH} deep")
            value, at = self.unary(at + 1, depth + 1)
            return Value(
                _wrapped(_UNARY[token](value.number)), "" if token != "+" else value.section, value.is_known
            ), at
        if token == "(":
            value, at = self.binary(at + 1, 0, depth + 1)
            return value, self._expect(")", at)
        if token in self._names.functions and self._tokens[at + 1 : at + 2] == ["("]:
            return self._call(token, at + 2, depth)
        if re.fullmatch(NAME, token) or re.fullmatch(r"\d+[bf]", token):
            return self._names.value_of(token), at + 1
        if token[0] == "'":
            body = token[1:].removesuffix("'") or "'"
            return Value(ord(_ESCAPES.get(body[1], body[1]) if body[0] == "\\" and body[1:] else body[0])), at + 1
        return Value(self._literal(token)), at + 1

    def _literal(self, token: str) -> int:
        octal = len(token) > 1 and token.isdigit() and token[0] == "0"
        if len(token) <= 2 + BITS + LEADING_ZEROS:
            try:
                number = int(token, 8 if octal else 0)
            except ValueError:
                raise WireError(f"{self._text.strip()!r} must be an expression: {token!r} is not a number") from None
            if number < 1 << BITS:
                return number
        shown = token if len(token) <= 40 else f"{token[:20]}...{token[-10:]} ({len(token)} characters)"
        raise WireError(f"the number {shown} does not fit {BITS} bits")

    def _call(self, name: str, at: int, depth: int) -> tuple[Value, int]:
        values = []
        while True:
            value, at = self.binary(at, 0, depth + 1)
            values.append(value)
            if self._tokens[at : at + 1] != [","]:
                break
            at += 1
        try:
            number = _wrapped(self._names.functions[name](*(each.number for each in values)))
        except TypeError:
            raise WireError(f"{name}() does not take {count(len(values), 'value')}") from None
        return Value(number, "", all(each.is_known for each in values)), self._expect(")", at)

    def _expect(self, token: str, at: int) -> int:
        if self._tokens[at : at + 1] != [token]:
            raise WireError(f"{self._text.strip()!r} must be an expression: a {token} is missing")
        return at + 1


def _joined(operator: str, function: Binary, left: Value, right: Value) -> Value:
    section = ""
    if operator in "+-" and bool(left.section) != bool(right.section):
        section = left.section or right.section
    return Value(_wrapped(function(left.number, right.number)), section, left.is_known and right.is_known)
