"""A campaign's file: TOML that says which matrix to run."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from math import prod
from pathlib import Path
from typing import Any, Final

from understudy.campaign.errors import CampaignError
from understudy.campaign.generators.choices import Seeded
from understudy.campaign.generators.registry import GENERATORS
from understudy.campaign.lines import Lines
from understudy.campaign.task import GENERATE, Input, Task
from understudy.core.errors import WireError, close_to
from understudy.core.sources import Unreadable, bytes_of

ENGINES: Final = ("jit", "reference")
CHECKS: Final = ("plain", "exact", "strict")
"""plain; the first byte behind an array is a fault; the strict memory, whose caches may be stale."""
MOST_SECONDS: Final = 86_400.0
MOST_TEXT_BYTES: Final = 64 << 20
MOST_PROGRAM_BYTES: Final = 1 << 30
AXES: Final = ("kernels", "inputs", "agents", "compilers", "options", "engines", "checks")
_DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(AXES, ("",)), "engines": ("jit",), "checks": ("plain",),
}  # fmt: skip
_SPAN: Final = re.compile(r"(\d+)\.\.(\d+)")
_TOP: Final = ("campaign", "matrix", "inputs")
_CAMPAIGN: Final = ("name", "time-limit", "batch", "together")
_INPUT: Final = ("arguments", "grid", "group", "expect")
BATCH: Final = 16
MOST_TOGETHER: Final = 500


@dataclass(frozen=True, slots=True)
class Program:
    """A file with kernels, as workers get it, or a generator."""

    name: str
    content: str
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Matrix:
    """All combinations of its axes, or so many of them for each seed."""

    programs: tuple[Program, ...]
    axes: Mapping[str, tuple[str, ...]]
    seeds: Sequence[int]
    lines: Mapping[str, int]
    combinations: int = 0

    def __len__(self) -> int:
        return len(self.programs) * len(self.seeds) * (self.combinations or prod(map(len, self.axes.values())))

    def points(self, program: Program, number: int) -> list[tuple[str, ...]]:
        """Values of all axes: all combinations, or those that seeds of this number get, drawn anew for each number."""
        found = list(product(*(self.axes[name] for name in AXES)))
        if not self.combinations:
            return found
        choices = Seeded(f"{program.name} {number}")
        return [found.pop(choices.integer(0, len(found) - 1)) for _ in range(self.combinations)]


@dataclass(frozen=True, slots=True)
class Plan:
    """A campaign as its file says it. `batch` tasks are sent to a worker together; times are in seconds.

    Programs whose seeds give the same number when divided by `together` are compiled as one source.
    """

    name: str
    path: str
    text: str = field(repr=False)
    matrices: tuple[Matrix, ...]
    inputs: Mapping[str, Input]
    time_limit: float = 60.0
    batch: int = BATCH
    together: int = 1

    def __len__(self) -> int:
        return sum(map(len, self.matrices))

    def tasks(self) -> Iterator[Task]:
        """All tasks, those of one program and seed behind each other, or those that are compiled together."""
        for matrix in self.matrices:
            seeds = [(number, list(some)) for number, some in groupby(matrix.seeds, lambda n: n // self.together)]
            for program, (number, some) in product(matrix.programs, seeds):
                points = matrix.points(program, number)
                for (kernel, given, agent, compiler, options, engine, check), seed in product(points, some):
                    yield Task(
                        program.name, program.content, kernel, given, self.inputs[given], agent, compiler, options,
                        engine, check, seed, self.time_limit, matrix.lines["kernels"],
                    )  # fmt: skip

    def data(self, name: str) -> bytes:
        """What is in a program's file; nothing of generated ones."""
        return next(each.data for matrix in self.matrices for each in matrix.programs if each.name == name)

    @property
    def compilers(self) -> tuple[str, ...]:
        """All compilers that are named."""
        named = (each for matrix in self.matrices for each in matrix.axes["compilers"] if each)
        return tuple(dict.fromkeys(named))


def read_plan(path: Path) -> Plan:
    """The campaign of a file; `CampaignError` with the line of what is wrong. Programs are found beside the file."""
    try:
        text = bytes_of(path, "a campaign", MOST_TEXT_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise CampaignError(f"cannot read {path}: it is no text") from None
    except WireError as error:
        raise CampaignError(error.message) from None
    return parse_plan(text, str(path), path.parent)


def parse_plan(text: str, path: str, folder: Path) -> Plan:
    """The campaign that a text says, with programs beside `folder`; `CampaignError` likewise."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
        line = re.search(r"at line (\d+)", reason)
        raise CampaignError(reason).at("line", f"{path}:{line[1] if line else text.count(chr(10)) + 1}") from None
    return _Reader(document, Lines(text), path, folder).plan(text)


class _Reader:
    """Reads one document, and says on which line it cannot."""

    def __init__(self, document: dict[str, Any], lines: Lines, path: str, folder: Path) -> None:
        self._document, self._lines, self._path, self._folder = document, lines, path, folder

    def plan(self, text: str) -> Plan:
        self._known("", self._document, _TOP)
        head = self._table("campaign", self._document.get("campaign", {}))
        self._known("campaign", head, _CAMPAIGN)
        inputs = {"": Input()} | {name: self._input(name) for name in self._inputs()}
        matrices = self._document.get("matrix")
        if not isinstance(matrices, list) or not matrices or not all(isinstance(each, dict) for each in matrices):
            raise self._wrong("no [[matrix]] that says what to run", "matrix")
        together = self._count("campaign", "together", head.get("together", 1), MOST_TOGETHER)
        batch = self._count("campaign", "batch", head.get("batch", max(BATCH, together)), 10_000)
        return Plan(
            self._text("campaign", "name", head.get("name", Path(self._path).stem)),
            self._path,
            text,
            tuple(self._matrix(each, number, inputs) for number, each in enumerate(matrices)),
            inputs,
            self._seconds(head.get("time-limit", 60.0)),
            batch,
            together,
        )

    # ---- tables ----------------------------------------------------------------------------------------------------

    def _inputs(self) -> dict[str, Any]:
        return self._table("inputs", self._document.get("inputs", {}))

    def _input(self, name: str) -> Input:
        table = f"inputs.{name}"
        given = self._table(table, self._inputs()[name])
        self._known(table, given, _INPUT)
        texts = {key: self._texts(table, key, given.get(key, []), 0) for key in ("arguments", "expect")}
        sizes = {key: self._text(table, key, given.get(key, "")) for key in ("grid", "group")}
        return Input(texts["arguments"], sizes["grid"], sizes["group"], texts["expect"])

    def _matrix(self, given: dict[str, Any], number: int, inputs: Mapping[str, Input]) -> Matrix:
        self._known("matrix", given, ("programs", "seeds", "combinations", *AXES), number)
        axes = {name: self._axis(name, given, number) for name in AXES}
        for key, allowed in (("engines", ENGINES), ("checks", CHECKS), ("inputs", tuple(inputs))):
            for value in axes[key]:
                if value not in allowed:
                    known = ", ".join(each for each in allowed if each) or "no [inputs.NAME]"
                    near = close_to(value, allowed) or f", there are {known}"
                    raise self._wrong(f"{key}: {value!r}{near}", "matrix", key, number)
        lines = {key: self._lines.of("matrix", key, number) for key in ("programs", *AXES)}
        programs = tuple(self._programs(given, number))
        most = prod(map(len, axes.values()))
        wanted = 0
        if "combinations" in given:
            wanted = self._count("matrix", "combinations", given["combinations"], most, number)
        return Matrix(programs, axes, self._seeds(given.get("seeds", [0]), number), lines, wanted)

    def _axis(self, name: str, given: dict[str, Any], number: int) -> tuple[str, ...]:
        if name not in given:
            return _DEFAULTS[name]
        texts = self._texts("matrix", name, given[name], number)
        if not texts:
            raise self._wrong(f"{name} is empty: nothing would be run", "matrix", name, number)
        return tuple(dict.fromkeys(texts))

    def _programs(self, given: dict[str, Any], number: int) -> Iterator[Program]:
        names = self._texts("matrix", "programs", given.get("programs", []), number)
        if not names:
            raise self._wrong("no programs: files, or generate:NAME", "matrix", "programs", number)
        for name in dict.fromkeys(names):
            if name.startswith(GENERATE):
                yield self._generated(name, number)
            else:
                yield from self._files(name, number)

    def _generated(self, name: str, number: int) -> Program:
        short = name.removeprefix(GENERATE)
        if short not in GENERATORS:
            known = close_to(short, GENERATORS) or f", there are {', '.join(GENERATORS)}"
            raise self._wrong(f"no generator {short!r}{known}", "matrix", "programs", number)
        return Program(name, f"{short} {GENERATORS[short].version}")

    def _files(self, pattern: str, number: int) -> Iterator[Program]:
        try:
            is_one = not re.search(r"[*?\[]", pattern)
            paths = [self._folder / pattern] if is_one else sorted(self._folder.glob(pattern))
            found = [(path, bytes_of(path, "a program", MOST_PROGRAM_BYTES)) for path in paths]
        except (WireError, ValueError, NotImplementedError) as error:
            reason = error.why if isinstance(error, Unreadable) else str(error)
            raise self._wrong(f"cannot read program {pattern}: {reason}", "matrix", "programs", number) from None
        if not found:
            raise self._wrong(f"no file is called {pattern}", "matrix", "programs", number)
        for path, data in found:
            name = path.relative_to(self._folder) if path.is_relative_to(self._folder) else path
            yield Program(str(name), hashlib.sha256(data).hexdigest()[:16], data)

    # ---- values ----------------------------------------------------------------------------------------------------

    def _seeds(self, given: Any, number: int) -> Sequence[int]:
        if isinstance(given, str) and (match := _SPAN.fullmatch(given)):
            first, last = int(match[1]), int(match[2])
            if first <= last < 1 << 63:
                return range(first, last + 1)
        elif isinstance(given, list) and given and all(map(_is_seed, given)):
            return tuple(dict.fromkeys(given))
        text = f'seeds {given!r}, expected a list of numbers, or their first and last like "0..99"'
        raise self._wrong(text, "matrix", "seeds", number)

    def _seconds(self, given: Any) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= MOST_SECONDS:
            text = f"time-limit {given!r}, expected seconds of one task, up to {MOST_SECONDS:g}"
            raise self._wrong(text, "campaign", "time-limit")
        return float(given)

    def _count(self, table: str, key: str, given: Any, most: int, number: int = 0) -> int:
        if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= most:
            return given
        raise self._wrong(f"{key} {given!r}, expected 1 to {most}", table, key, number)

    def _table(self, name: str, given: Any) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise self._wrong(f"{name} is no table", name)
        return given

    def _texts(self, table: str, key: str, given: Any, number: int) -> tuple[str, ...]:
        if isinstance(given, list) and all(isinstance(each, str) for each in given):
            return tuple(given)
        raise self._wrong(f"{key} {given!r}, expected a list of texts", table, key, number)

    def _text(self, table: str, key: str, given: Any) -> str:
        if isinstance(given, str):
            return given
        raise self._wrong(f"{key} {given!r}, expected a text", table, key)

    def _known(self, table: str, given: dict[str, Any], known: Sequence[str], number: int = 0) -> None:
        for key in given:
            if key not in known:
                near = close_to(key, known) or f", there are {', '.join(known)}"
                text = f"no such key: {key}{near}"
                raise self._wrong(text, table or key, key, number)

    def _wrong(self, text: str, table: str, key: str = "", number: int = 0) -> CampaignError:
        return CampaignError(text).at("line", f"{self._path}:{self._lines.of(table, key, number)}")


def _is_seed(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 63
