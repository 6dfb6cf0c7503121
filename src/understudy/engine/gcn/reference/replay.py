"""Instructions that run often: what their meaning asks of the algebra, written down once as a Python function.

A meaning never looks at a value, so that the calls it makes depend on the instruction and MODE alone. `record` lets it
make them on a `Recorder`, and gives a function that makes the same calls in the same order, without the frame's work of
finding out which. Plain integer operations are written out where it is known which values are scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.reference.lane_integer import MASK, LaneIntegers, lanes_of
from understudy.engine.gcn.reference.lanes import PARTS
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import Mode

Replay = Callable[[Any], None]

SCALARS: Final = frozenset(("s", "s64", "scc", "s_indexed", "hwreg", "time", "lane", "scalar_atomic", "aperture"))
"""Operations whose results are scalars whatever they are given."""
LANES: Final = frozenset(("v", "v_at", "v_indexed", "mask", "lane_bits", "lane_id", "active", "atomic"))
INTEGERS: Final = frozenset(name for name in vars(LaneIntegers) if not name.startswith("__"))
PART_OF: Final = {name: part for part, kind in PARTS.items() for name in dir(kind) if not name.startswith("_")}
"""Where `Lanes` has an operation from, if it is not its own."""
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
"""What an operation of more than one bit is on two scalars, and on lanes of which one at least is no constant."""
ACCESS: Final = {"s": "o.sgpr[{0}]", "v": "o.rows[{0}].copy()"}
"""The most frequent ones, as `Lanes` does them."""


class Unrecordable(Exception):
    """A meaning looked at a value, or did something else that cannot be written down."""


class Symbol:
    """A value that is known only when the function runs."""

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
    """An algebra that writes down what is asked of it."""

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
        """A value of `w` bits as lanes."""
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
    """What executing `insn` under `mode` asks of the algebra, as a function of that; None if it cannot be written.

    `plain`: registers and parts may be asked past the algebra's own operations (`ACCESS`, `PART_OF`).
    """
    if insn.op.concrete or insn.op.told is not None:
        return None
    recorder = Recorder(mode, plain)
    try:
        execute(recorder, insn)
    except (Unrecordable, UnderstudyError, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    lines = [f"{', '.join(PARTS)} = {', '.join(f'o.{part}' for part in PARTS)}", *recorder.lines]
    code = "def replay(o):\n" + "".join(f"    {line}\n" for line in lines)
    names: dict[str, Any] = recorder.constants
    exec(code, names)
    replay: Replay = names["replay"]
    return replay
