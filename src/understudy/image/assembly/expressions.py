"""Expressions of assembly files: numbers, symbols and operators, as GNU's and LLVM's assemblers read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from understudy.core.errors import WireError

NAME: Final = r"[A-Za-z_.$][\w.$]*"
"""What names of symbols look like."""
MAX_DEPTH: Final = 64
"""Deepest nesting of brackets that is read."""
_TOKEN: Final = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+[bf]\b|\d+|'(?:\\.|[^\\'])'?|" + NAME + r"|<<|>>|<=|>=|==|!=|&&|\|\||.)"
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}


@dataclass(frozen=True, slots=True)
class Value:
    """A number; `section` names the section that it is an address in, "" for a plain number.

    `is_known` is False while a symbol in it has no address yet: the number then is a guess.
    """

    number: int
    section: str = ""
    is_known: bool = True


Function = Callable[..., int]


class Names(Protocol):
    """What knows symbols, and functions of an assembler's own."""

    @property
    def functions(self) -> Mapping[str, Function]:
        """Functions of numbers, by name."""

    def value_of(self, name: str) -> Value:
        """The value of a symbol, of ``.``, or of a local label such as ``1b``; `WireError` where there is none."""


Binary = Callable[[int, int], int]


def _quotient(a: int, b: int) -> int:
    if not b:
        raise WireError("division by 0")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _shift(a: int, b: int) -> int:
    if not 0 <= b < 64:
        raise WireError(f"a shift by {b}, expected 0 to 63")
    return a << b


_OPERATORS: Final[dict[str, tuple[int, Binary]]] = {
    "||": (1, lambda a, b: int(bool(a or b))),
    "&&": (2, lambda a, b: int(bool(a and b))),
    "|": (3, lambda a, b: a | b),
    "^": (4, lambda a, b: a ^ b),
    "&": (5, lambda a, b: a & b),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">": (7, lambda a, b: int(a > b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, _shift),
    ">>": (8, lambda a, b: (a & (1 << 64) - 1) >> min(b, 64) if b >= 0 else _shift(a, b)),
    "+": (9, lambda a, b: a + b),
    "-": (9, lambda a, b: a - b),
    "*": (10, lambda a, b: a * b),
    "/": (10, _quotient),
    "%": (10, lambda a, b: a - b * _quotient(a, b)),
}
_UNARY: Final[dict[str, Callable[[int], int]]] = {
    "-": lambda a: -a,
    "+": lambda a: a,
    "~": lambda a: ~a,
    "!": lambda a: int(not a),
}


def evaluate(text: str, names: Names) -> Value:
    """The value of an expression; `WireError` for what is none."""
    tokens = _TOKEN.findall(text)
    value, rest = _Reader(tokens, names, text).binary(0, 0, 0)
    if rest != len(tokens):
        raise WireError(f"{text.strip()!r} is no expression: {tokens[rest]!r} is not expected")
    return value


class _Reader:
    def __init__(self, tokens: list[str], names: Names, text: str) -> None:
        self._tokens, self._names, self._text = tokens, names, text

    def binary(self, at: int, least: int, depth: int) -> tuple[Value, int]:
        """An expression whose operators bind as `least` or stronger, and where it ends."""
        if depth > MAX_DEPTH:
            raise WireError(f"an expression that nests more than {MAX_DEPTH} deep")
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
            raise WireError(f"{self._text.strip()!r} ends too early" if self._text.strip() else "a number is missing")
        token = self._tokens[at]
        if token in _UNARY:
            if depth > MAX_DEPTH:
                raise WireError(f"an expression that nests more than {MAX_DEPTH} deep")
            value, at = self.unary(at + 1, depth + 1)
            return Value(_UNARY[token](value.number), "" if token != "+" else value.section, value.is_known), at
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
        try:
            octal = len(token) > 1 and token.isdigit() and token[0] == "0"
            return Value(int(token, 8 if octal else 0)), at + 1
        except ValueError:
            raise WireError(f"{self._text.strip()!r} is no expression: {token!r} is no number") from None

    def _call(self, name: str, at: int, depth: int) -> tuple[Value, int]:
        values = []
        while True:
            value, at = self.binary(at, 0, depth + 1)
            values.append(value)
            if self._tokens[at : at + 1] != [","]:
                break
            at += 1
        try:
            number = self._names.functions[name](*(each.number for each in values))
        except TypeError:
            raise WireError(f"{name}() does not take {len(values)} values") from None
        return Value(number, "", all(each.is_known for each in values)), self._expect(")", at)

    def _expect(self, token: str, at: int) -> int:
        if self._tokens[at : at + 1] != [token]:
            raise WireError(f"{self._text.strip()!r} is no expression: a {token} is missing")
        return at + 1


def _joined(operator: str, function: Binary, left: Value, right: Value) -> Value:
    section = ""
    if operator in "+-" and bool(left.section) != bool(right.section):
        section = left.section or right.section
    return Value(function(left.number, right.number), section, left.is_known and right.is_known)
