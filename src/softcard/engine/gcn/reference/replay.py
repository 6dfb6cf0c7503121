"""Recordings of frequently executed instructions as Python functions.

Such a function makes the calls to the operations interface that the instruction's semantics make. Semantics
never branch on a value, so the calls depend only on the instruction and MODE. `record` runs the semantics on
a `Recorder`, and returns a function that makes the same calls in the same order, without the cost of
evaluating the semantics again. Plain integer operations are inlined if it is known which values are scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.reference.lane_integer import MASK, LaneIntegers, lanes_of
from softcard.engine.gcn.reference.lanes import PARTS
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import Mode

Replay = Callable[[Any], None]

SCALARS: Final = frozenset(("s", "s64", "scc", "s_indexed", "hwreg", "time", "lane", "scalar_atomic", "aperture"))
"""Names of operations whose results are scalars for any operands."""
LANES: Final = frozenset(("v", "v_at", "v_indexed", "mask", "lane_bits", "lane_id", "active", "atomic"))
INTEGERS: Final = frozenset(name for name in vars(LaneIntegers) if not name.startswith("__"))
PART_OF: Final = {name: part for part, kind in PARTS.items() for name in dir(kind) if not name.startswith("_")}
"""The component of `Lanes` that provides an operation, for operations that `Lanes` does not define itself."""
# fmt: off
INLINE: Final = {
    "add":  ("({0} + {1}) & {mask}", "{0} + {1}"),
    "sub":  ("({0} - {1}) & {mask}", "{0} - {1}"),
    "mul":  ("{0} * {1} & {mask}",   "{0} * {1}"),
    "and_": ("{0} & {1}",            "{0} & {1}"),
    "or_":  ("{0} | {1}",            "{0} | {1}"),
    "xor":  ("{0} ^ {1}",            "{0} ^ {1}"),
    "shl":  ("{0} << {1} & {mask}",  "{0} << {1}"),
    "lshr": ("{0} >> {1}",           "{0} >> {1}"),
    "eq":   ("int({0} == {1})",      "{0} == {1}"),
    "ne":   ("int({0} != {1})",      "{0} != {1}"),
    "ult":  ("int({0} < {1})",       "{0} < {1}"),
    "ule":  ("int({0} <= {1})",      "{0} <= {1}"),
}
# fmt: on
"""Python expressions that inline operations wider than one bit: one on two scalars, one on lanes.

In the second expression at least one operand is a variable with lanes.
"""
ACCESS: Final = {"s": "o.sgpr[{0}]", "v": "o.rows[{0}].copy()"}
"""Python expressions that inline the most frequent register reads, with the results of `Lanes`."""


class Unrecordable(Exception):
    """The exception of semantics that branch on a value, or do something else that cannot be recorded."""


class Symbol:
    """A variable of the recorded function, which stands for a value unknown at recording time."""

    __slots__ = ("name", "scalar")

    def __init__(self, name: str, scalar: bool) -> None:
        self.name = name
        self.scalar = scalar

    def __bool__(self) -> bool:
        raise Unrecordable

    def __eq__(self, other: object) -> bool:
        raise Unrecordable

    __hash__ = None  # type: ignore[assignment]


class Recorder:
    """An operations interface that records the calls of its methods as lines of Python."""

    def __init__(self, mode: Mode, plain: bool = True) -> None:
        self.mode = mode
        self._access, self._part_of = (ACCESS, PART_OF) if plain else ({}, {})
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {"lanes_of": lanes_of}
        self._fold = LaneIntegers()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments, **named: self._call(name, arguments, named)

    def _call(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if name in INTEGERS:
            if not any(isinstance(each, Symbol) for each in arguments):
                return getattr(self._fold, name)(*arguments, **named)
            if name in INLINE and arguments[0] > 1 and not named:
                return self._inline(name, *arguments)
        shown = [self._show(each) for each in arguments] + [f"{key}={self._show(v)}" for key, v in named.items()]
        call = f"{self._part_of.get(name, 'o')}.{name}({', '.join(shown)})"
        if name in self._access:
            call = self._access[name].format(*shown)
        if name in ("load", "scalar_load"):
            return self._list(
                call, arguments[0] if name == "scalar_load" else max(arguments[1] // 32, 1), name != "load"
            )
        symbols = [each for each in (*arguments, *named.values()) if isinstance(each, Symbol)]
        scalar = name in SCALARS or (name not in LANES and all(each.scalar for each in symbols))
        return self._result(call, scalar)

    def _result(self, text: str, scalar: bool) -> Symbol:
        symbol = Symbol(f"t{len(self.lines)}", scalar)
        self.lines.append(f"{symbol.name} = {text}")
        return symbol

    def _list(self, call: str, count: int, scalar: bool) -> list[Symbol]:
        whole = self._result(call, scalar)
        return [Symbol(f"{whole.name}[{k}]", scalar) for k in range(count)]

    def _inline(self, name: str, w: int, a: Any, b: Any) -> Symbol:
        scalar, lanes = INLINE[name]
        if all(not isinstance(each, Symbol) or each.scalar for each in (a, b)):
            return self._result(scalar.format(self._show(a), self._show(b), mask=MASK[w]), True)
        return self._result(lanes.format(self._lanes(w, a), self._lanes(w, b)), False)

    def _lanes(self, w: int, value: Any) -> str:
        """Return the Python expression that converts a `w`-bit value to lanes."""
        if isinstance(value, Symbol):
            return f"lanes_of({w}, {value.name})" if value.scalar else value.name
        name = f"k{w}_{value}"
        self.constants[name] = lanes_of(w, value)
        return name

    def _show(self, value: Any) -> str:
        if isinstance(value, Symbol):
            return value.name
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self._show(each) for each in value)}]"
        if value is None or isinstance(value, (int, str)):
            return repr(value)
        raise Unrecordable


def record(execute: Callable[[Any, Insn], None], insn: Insn, mode: Mode, plain: bool = True) -> Replay | None:
    """Return a function that makes the same calls as executing `insn` under `mode`; None if that is impossible.

    If `plain`, the function reads registers directly (`ACCESS`) and calls components directly (`PART_OF`)
    where possible."""
    if insn.op.concrete or insn.op.selectors is not None:
        return None
    recorder = Recorder(mode, plain)
    try:
        execute(recorder, insn)
    except (Unrecordable, SoftcardError, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    lines = [f"{', '.join(PARTS)} = {', '.join(f'o.{part}' for part in PARTS)}", *recorder.lines]
    code = "def replay(o):\n" + "".join(f"    {line}\n" for line in lines)
    names: dict[str, Any] = recorder.constants
    exec(code, names)
    replay: Replay = names["replay"]
    return replay
