"""The parser of a campaign file: a TOML file that describes the matrices of tasks to run."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from math import prod
from pathlib import Path
from typing import Any, Final

from softcard.campaign.compilation import NATIVE
from softcard.campaign.generators.registry import COMPILED, GENERATORS
from softcard.campaign.generators.tree import Seeded
from softcard.campaign.perform import generated_kind
from softcard.campaign.task import GENERATE, CampaignError, Input, Task
from softcard.core.display import printable
from softcard.core.errors import WireError, close_to
from softcard.core.files import Unreadable, bytes_of

# ---- line numbers ----------------------------------------------------------------------------------------------------
# Line numbers of keys in a TOML file: errors need them, and the parser does not provide them.


_TABLE: Final = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_\-\"']+)\s*=")


class TomlLines:
    """The line numbers of the tables and keys of a TOML file; elements of arrays of tables are numbered."""

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, int, str], int] = {}
        table, number = "", 0
        counts: dict[str, int] = {}
        for line, content in enumerate(text.splitlines(), 1):
            if match := _TABLE.match(content):
                table = match[2].replace('"', "").replace("'", "")
                number = counts.get(table, -1) + 1 if match[1] == "[[" else 0
                counts[table] = number
                self._lines.setdefault((table, number, ""), line)
            elif match := _KEY.match(content):
                self._lines.setdefault((table, number, match[1].strip("\"'")), line)

    def of(self, table: str, key: str = "", number: int = 0) -> int:
        """Return the line number of `key` in `table`; `number` is the element's number in an array of tables.

        If the key is missing, return the table's line, and if the table is missing too, 1.
        """
        return self._lines.get((table, number, key)) or self._lines.get((table, number, "")) or 1


# ---- plan ------------------------------------------------------------------------------------------------------------


ENGINES: Final = ("jit", "reference", NATIVE)
"""The engines; `native` is the host's processor, which runs the source of each program once."""
CHECKS: Final = ("plain", "exact", "strict")
"""The names of the ways in which a task's memory accesses are checked.

With `exact`, the first byte past the end of an array faults; with `strict`, memory has caches that may hold stale data.
"""
MOST_SECONDS: Final = 86_400.0
MOST_TEXT_BYTES: Final = 64 << 20
MOST_PROGRAM_BYTES: Final = 1 << 30
AXES: Final = ("kernels", "inputs", "agents", "compilers", "options", "engines", "checks")
_DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(AXES, ("",)), "engines": ("jit",), "checks": ("plain",),
}  # fmt: skip
MOST_DEPTH: Final = 64
"""The maximum nesting depth of a value that is shown in a message; Python's own limit is larger."""
MOST_SHOWN: Final = 200
"""The maximum number of characters of a value in a message."""
_SPAN: Final = re.compile(r"(\d{1,20})\.\.(\d{1,20})")
_BRACKETS: Final = re.compile(r'"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#.*|[\[\]{}]')
_TOP: Final = ("campaign", "matrix", "inputs")
_CAMPAIGN: Final = ("name", "time-limit", "batch", "together")
_INPUT: Final = ("arguments", "grid", "group", "expect")
BATCH: Final = 16
MOST_TOGETHER: Final = 500


@dataclass(frozen=True, slots=True)
class Program:
    """A program of a campaign: a generator, or a file of kernels.

    For a file, `data` is a copy of the content, which is passed to the workers."""

    name: str
    content: str
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix of tasks: all combinations of the values on its axes.

    If `combinations` is not 0, only that many combinations are drawn at random for each program and seed group.
    A seed group has the seeds with the same value of ``seed // Plan.together``."""

    programs: tuple[Program, ...]
    axes: Mapping[str, tuple[str, ...]]
    seeds: Sequence[int]
    lines: Mapping[str, int]
    combinations: int = 0
    is_native: bool = False
    """True if each program also runs on the host's processor, which may be the matrix's only engine."""

    def __len__(self) -> int:
        points = self.combinations or prod(map(len, self.axes.values()))
        return len(self.programs) * len(self.seeds) * (points + self.is_native * self._inputs)

    @property
    def _inputs(self) -> int:
        return len(self.axes["kernels"]) * len(self.axes["inputs"])

    def points(self, program: Program, number: int) -> list[tuple[str, ...]]:
        """Return the combinations of axis values for `program` in seed group `number` (see `Matrix`).

        These are all combinations, or a random selection of them. If the matrix also asks for runs on the host's
        processor, one combination for each kernel and input is added for these runs."""
        found = list(product(*(self.axes[name] for name in AXES)))
        if self.combinations:
            choices = Seeded(f"{program.name} {number}")
            found = [found.pop(choices.integer(0, len(found) - 1)) for _ in range(self.combinations)]
        if self.is_native:
            own = product(self.axes["kernels"], self.axes["inputs"])
            found += [(kernel, input_name, "", "", "", NATIVE, "plain") for kernel, input_name in own]
        return found


@dataclass(frozen=True, slots=True)
class Plan:
    """A campaign, as its file describes it. A worker gets `batch` tasks at a time; times are in seconds.

    The programs whose seeds have the same value of ``seed // together`` are compiled as one source."""

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
        """Yield all tasks; the tasks of one program and seed, or of one combined source, are adjacent."""
        for matrix in self.matrices:
            seeds = [(number, list(some)) for number, some in groupby(matrix.seeds, lambda n: n // self.together)]
            for program, (number, some) in product(matrix.programs, seeds):
                points = matrix.points(program, number)
                for (kernel, input_name, agent, compiler, options, engine, check), seed in product(points, some):
                    yield Task(
                        program.name, program.content, kernel, input_name, self.inputs[input_name], agent, compiler,
                        options, engine, check, seed, self.time_limit, matrix.lines["kernels"],
                    )  # fmt: skip

    def data(self, name: str) -> bytes:
        """Return the content of a program's file; b"" for a generator."""
        return next(each.data for matrix in self.matrices for each in matrix.programs if each.name == name)

    @property
    def compilers(self) -> tuple[str, ...]:
        """The names of all compilers that the campaign uses."""
        named = (each for matrix in self.matrices for each in matrix.axes["compilers"] if each)
        return tuple(dict.fromkeys(named))


def read_plan(path: Path) -> Plan:
    """Read a campaign file; raise `CampaignError` with the line of a mistake.

    Program paths in it are relative to the file's folder.
    """
    try:
        text = bytes_of(path, "a campaign", MOST_TEXT_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise CampaignError(f"cannot read {path}: expected text in UTF-8") from None
    except WireError as error:
        raise CampaignError(error.message) from None
    return parse_plan(text, str(path), path.parent)


def parse_plan(text: str, path: str, folder: Path) -> Plan:
    """Parse a campaign whose program paths are relative to `folder`.

    Raise `CampaignError` with the line of a mistake.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
        place = re.search(r" \(at line (\d+), column (\d+)\)$", reason)
        where = f"{place[1]}:{place[2]}" if place else str(text.count("\n") + 1)
        raise CampaignError(reason[: place.start()] if place else reason).at("line", f"{path}:{where}") from None
    except ValueError:  # valid TOML, but Python limits the digits of an integer
        most = sys.get_int_max_str_digits()
        long = next((found for found in re.finditer(r"\d[\d_]*", text) if len(found[0]) > most), None)
        raise CampaignError(f"a number has more than {most} digits").at("line", _place(path, text, long)) from None
    except RecursionError:
        deep = next((found for found, depth in _opened(text) if depth > MOST_DEPTH), None)
        reason = f"arrays or tables nest more than {MOST_DEPTH} deep"
        raise CampaignError(reason).at("line", _place(path, text, deep)) from None
    return _Reader(document, TomlLines(text), path, folder).plan(text)


def _place(path: str, text: str, found: re.Match[str] | None) -> str:
    return f"{path}:{text.count(chr(10), 0, found.start() if found else 0) + 1}"


def _opened(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield each bracket outside the strings and comments of a TOML text, and the nesting depth after the bracket."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        yield found, depth


def _shown(value: Any) -> str:
    """Return a value as text for messages; very long numbers and very deep nesting are abbreviated."""
    if _nests_deeper(value, MOST_DEPTH):
        return "a value that is too large to show"
    try:
        text = repr(value)
    except ValueError:
        return (
            f"a number of {value.bit_length()} bits" if isinstance(value, int) else "a value that is too large to show"
        )
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 20]} ... {text[-15:]}"


def _nests_deeper(value: Any, levels: int) -> bool:
    """Return True if tables and arrays nest more than `levels` deep.

    The limit is fixed, because Python's own recursion limit depends on the process."""
    inner = [value]
    for _ in range(levels):
        inner = [
            each
            for one in inner
            if isinstance(one, dict | list)
            for each in (one.values() if isinstance(one, dict) else one)
        ]
    return any(isinstance(one, dict | list) for one in inner)


class _Reader:
    """The parser of one campaign file; its errors have the line of the mistake."""

    def __init__(self, document: dict[str, Any], lines: TomlLines, path: str, folder: Path) -> None:
        self._document, self._lines, self._path, self._folder = document, lines, path, folder

    def plan(self, text: str) -> Plan:
        self._known("", self._document, _TOP)
        head = self._table("campaign", self._document.get("campaign", {}))
        self._known("campaign", head, _CAMPAIGN)
        inputs = {"": Input()} | {name: self._input(name) for name in self._inputs()}
        matrices = self._document.get("matrix")
        if not isinstance(matrices, list) or not matrices or not all(isinstance(each, dict) for each in matrices):
            raise self._wrong("expected a table [[matrix]] with the programs to run", "matrix")
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
        entries = self._table(table, self._inputs()[name])
        self._known(table, entries, _INPUT)
        texts = {key: self._texts(table, key, entries.get(key, []), 0) for key in ("arguments", "expect")}
        sizes = {key: self._text(table, key, entries.get(key, "")) for key in ("grid", "group")}
        return Input(texts["arguments"], sizes["grid"], sizes["group"], texts["expect"])

    def _matrix(self, entries: dict[str, Any], number: int, inputs: Mapping[str, Input]) -> Matrix:
        self._known("matrix", entries, ("programs", "seeds", "combinations", *AXES), number)
        axes = {name: self._axis(name, entries, number) for name in AXES}
        for key, allowed in (("engines", ENGINES), ("checks", CHECKS), ("inputs", tuple(inputs))):
            for value in axes[key]:
                if value not in allowed:
                    known = ", ".join(each for each in allowed if each)
                    listed = f", expected one of {known}" if known else ", expected the NAME of a table [inputs.NAME]"
                    near = close_to(value, allowed) or listed
                    raise self._wrong(f"unknown value {_shown(value)} of {key}{near}", "matrix", key, number)
        lines = {key: self._lines.of("matrix", key, number) for key in ("programs", *AXES)}
        programs = tuple(self._programs(entries, number))
        most = prod(map(len, axes.values()))
        wanted = 0
        if "combinations" in entries:
            wanted = self._count("matrix", "combinations", entries["combinations"], most, number)
        is_native = NATIVE in axes["engines"]
        if is_native:
            axes["engines"] = tuple(each for each in axes["engines"] if each != NATIVE)
            self._compiled_here(programs, number)
        return Matrix(programs, axes, self._seeds(entries.get("seeds", [0]), number), lines, wanted, is_native)

    def _compiled_here(self, programs: Sequence[Program], number: int) -> None:
        """Raise an error if one of the programs cannot be compiled for the host's processor.

        `number` is the number of the matrix that contains them.
        """
        for each in programs:
            name = each.name.removeprefix(GENERATE)
            kind = GENERATORS[name].runs_as if name != each.name else generated_kind(each.name)
            if kind not in COMPILED:
                known = ", ".join(name for name, each in GENERATORS.items() if each.runs_as in COMPILED)
                raise self._wrong(
                    f"engine {NATIVE!r} runs only generated programs in C and OpenCL C ({known}, or files of them), "
                    f"not {each.name}",
                    "matrix", "engines", number,
                )  # fmt: skip

    def _axis(self, name: str, entries: dict[str, Any], number: int) -> tuple[str, ...]:
        if name not in entries:
            return _DEFAULTS[name]
        texts = self._texts("matrix", name, entries[name], number)
        if not texts:
            raise self._wrong(
                f"{name} is an empty list, so nothing would run: give one value or more", "matrix", name, number
            )
        return tuple(dict.fromkeys(texts))

    def _programs(self, entries: dict[str, Any], number: int) -> Iterator[Program]:
        names = self._texts("matrix", "programs", entries.get("programs", []), number)
        if not names:
            raise self._wrong("programs is empty, expected files or generate:NAME", "matrix", "programs", number)
        for name in dict.fromkeys(names):
            if name.startswith(GENERATE):
                yield self._generated(name, number)
            else:
                yield from self._files(name, number)

    def _generated(self, name: str, number: int) -> Program:
        short = name.removeprefix(GENERATE)
        if short not in GENERATORS:
            known = close_to(short, GENERATORS) or f", expected one of {', '.join(GENERATORS)}"
            raise self._wrong(f"unknown generator {short!r}{known}", "matrix", "programs", number)
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
            raise self._wrong(f"no file matches {pattern}", "matrix", "programs", number)
        for path, data in found:
            name = path.relative_to(self._folder) if path.is_relative_to(self._folder) else path
            if not _is_utf8(str(name)):
                shown = printable(os.fsencode(name).decode("utf-8", "backslashreplace"))
                text = f"the name of program {shown}: expected UTF-8, the encoding of results; rename the file"
                raise self._wrong(text, "matrix", "programs", number)
            yield Program(str(name), hashlib.sha256(data).hexdigest()[:16], data)

    # ---- values ----------------------------------------------------------------------------------------------------

    def _seeds(self, value: Any, number: int) -> Sequence[int]:
        if isinstance(value, str) and (match := _SPAN.fullmatch(value)):
            first, last = int(match[1]), int(match[2])
            if first <= last < 1 << 63:
                return range(first, last + 1)
        elif isinstance(value, list) and value and all(map(_is_seed, value)):
            return tuple(dict.fromkeys(value))
        text = f'seeds is {_shown(value)}, expected a list of numbers, or the first and the last like "0..99"'
        raise self._wrong(text, "matrix", "seeds", number)

    def _seconds(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST_SECONDS:
            text = f"time-limit is {_shown(value)}, expected a number of seconds for one task, up to {MOST_SECONDS:g}"
            raise self._wrong(text, "campaign", "time-limit")
        return float(value)

    def _count(self, table: str, key: str, value: Any, most: int, number: int = 0) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
            return value
        raise self._wrong(f"{key} is {_shown(value)}, expected a whole number from 1 to {most}", table, key, number)

    def _table(self, name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(f"{name} is {_shown(value)}, expected a table", name)
        return value

    def _texts(self, table: str, key: str, value: Any, number: int) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        raise self._wrong(f"{key} is {_shown(value)}, expected a list of strings", table, key, number)

    def _text(self, table: str, key: str, value: Any) -> str:
        if isinstance(value, str):
            return value
        raise self._wrong(f"{key} is {_shown(value)}, expected a string", table, key)

    def _known(self, table: str, entries: dict[str, Any], known: Sequence[str], number: int = 0) -> None:
        for key in entries:
            if key not in known:
                near = close_to(key, known) or f", expected one of {', '.join(known)}"
                text = f"unknown key {key}{near}"
                raise self._wrong(text, table or key, key, number)

    def _wrong(self, text: str, table: str, key: str = "", number: int = 0) -> CampaignError:
        where = f"{self._path}:{self._lines.of(table, key, number)}"
        return CampaignError(text).in_operand(key or table).at("line", where)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_seed(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
