"""The plug-in of coverage.py: it adds the lines and branches of kernels to the data that coverage.py stores.

Kernels in Python files (Triton) become lines of these files, which coverage.py itself reports. Coverage.py knows the
statements of a Python file from its syntax, so that lines which the compiler has dropped are derived from the others
(`statements_run`). Other files are reported by `KernelFileReporter`. The lines and branches that such a file has are in
the file `TABLE` beside the data file, because the data has only what was executed.

The plug-in is a configurer, not a file tracer: it takes no part in the measurement of Python code, so that all cores of
coverage.py support it.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Final

import coverage
from coverage import files
from coverage.exceptions import ConfigError, NoSource
from coverage.parser import PythonParser
from coverage.plugin import FileReporter
from coverage.types import TConfigurable

from softcard.host.coverage import Recording, start
from softcard.image.coverage import Coverage, FileCoverage

PLUGIN: Final = "softcard.coverage.KernelPlugin"
"""The name by which coverage.py's data names the plug-in."""
TABLE: Final = ".softcard-coverage.json"
"""The name of the file, beside coverage.py's data file, with the executable lines and branches of kernel files."""
PYTHON: Final = ".py"
Arc = tuple[int, int]


def check_options(options: Mapping[str, str]) -> None:
    """Raise an error for options in coverage.py's configuration, because the plug-in has none."""
    if options:
        raise ConfigError(f"[softcard.coverage] has {', '.join(options)}, expected no options: delete the section")


# ---- the table of kernel files ---------------------------------------------------------------------------------------


class Table:
    """The table of lines and branches of kernel files, in the folder of coverage.py's data file `data_file`.

    Each source has the digest of its text: after a change, the entries of the old text are dropped.
    """

    def __init__(self, data_file: str) -> None:
        self._path = Path(data_file).absolute().with_name(TABLE)

    def add(self, found: Mapping[str, FileCoverage]) -> None:
        """Add files; processes that add files at the same time wait for each other."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            known = _entries(file.read())
            for name, each in found.items():
                digest = _digest(name)
                lines, branches = set(each.lines), {(line, branch) for line, branch, _ in each.branches}
                if name in known and known[name][0] == digest:
                    lines |= known[name][1]
                    branches |= known[name][2]
                known[name] = digest, lines, branches
            file.seek(0)
            json.dump({name: [digest, sorted(lines), sorted(branches)] for name, (digest, lines, branches)
                       in known.items()}, file)  # fmt: skip
            file.truncate()

    def of(self, name: str) -> tuple[set[int], set[tuple[int, int]]]:
        """Return the executable lines of a file, and its branches as pairs of line and number.

        Raise `NoSource` if the table lacks the file in its present version."""
        try:
            known = _entries(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            known = {}
        digest, lines, branches = known.get(name, ("", set[int](), set[tuple[int, int]]()))
        if digest != _digest(name):
            raise NoSource(
                f"{self._path} has no lines of this version of {name}: run the kernels again, or copy the file that "
                "their run has written"
            )
        return lines, branches


def _entries(text: str) -> dict[str, tuple[str, set[int], set[tuple[int, int]]]]:
    return {
        name: (digest, set(lines), {(line, branch) for line, branch in branches})
        for name, (digest, lines, branches) in json.loads(text or "{}").items()
    }


def _digest(name: str) -> str:
    try:
        return hashlib.sha256(Path(name).read_bytes()).hexdigest()
    except OSError:
        return "no source"


# ---- reports ---------------------------------------------------------------------------------------------------------


class KernelFileReporter(FileReporter):
    """The statements and branches of a source file of kernels, for coverage.py's reports.

    A branch is a conditional branch instruction. It has two arcs from its line, to negative numbers (`arc_of`).
    """

    def __init__(self, filename: str, table: Table) -> None:
        super().__init__(filename)
        self._lines, self._branches = table.of(os.path.abspath(filename))

    def lines(self) -> set[int]:
        """Return the executable lines."""
        return self._lines

    def arcs(self) -> set[Arc]:
        """Return the arcs of all outcomes of branches."""
        return {arc_of(line, branch, outcome) for line, branch in self._branches for outcome in (0, 1)}

    def exit_counts(self) -> dict[int, int]:
        """Return the number of outcomes of the branches of each line."""
        found: dict[int, int] = {}
        for line, _ in self._branches:
            found[line] = found.get(line, 0) + 2
        return found

    def missing_arc_description(self, start: int, end: int, executed_arcs: Iterable[Arc] | None = None) -> str:
        """Return a text about an outcome of a branch that has not occurred."""
        number = sorted(branch for line, branch in self._branches if line == start).index(-end >> 1) + 1
        outcome = "taken" if -end & 1 else "not taken"
        return f"branch instruction {number} of line {start} was never {outcome}"

    def arc_description(self, start: int, end: int) -> str:
        """Return a text about an outcome of a branch."""
        return "the branch instruction is taken" if -end & 1 else "the branch instruction is not taken"


def arc_of(line: int, branch: int, outcome: int) -> Arc:
    """Return the arc that stands for an outcome of a branch of a line: 0 (not taken) or 1 (taken)."""
    return line, -(branch << 1 | outcome)


# ---- Python files ----------------------------------------------------------------------------------------------------


def statements_run(source: str, lines: Mapping[int, int]) -> set[int]:
    """Return the lines of Python statements that kernels have executed; `lines` has the counts of executable lines.

    A statement without an executable line was dropped by the compiler, or merged with others. It was executed if a
    statement after it in the same block was, or the one before it. If all statements of a block were dropped, they
    were executed if the statement around them was, except in an ``if`` whose condition is a constant: the block is
    absent then. A function without executable lines was executed if an executed statement of the file calls it.
    """
    functions = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)]
    found = {line for line, count in lines.items() if count}
    todo = {each.name: each for each in functions}
    while True:
        called = {name for each in functions for name in _called(each, found)}
        ready = [each for each in todo.values() if _lines_of(each) & found or each.name in called]
        for each in ready:
            del todo[each.name]
            body = each.body[1:] if ast.get_docstring(each) is not None else each.body
            _Function(each, lines, found).add_block(body, is_entered=True)
        if not ready:
            return found


def _lines_of(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, [])
        if block:
            yield block


def _head_of(node: ast.stmt) -> set[int]:
    """Return the lines of a statement without those of the statements inside of it."""
    return _lines_of(node) - {line for block in _blocks(node) for each in block for line in _lines_of(each)}


def _called(function: ast.FunctionDef, ran: Set[int]) -> Iterator[str]:
    """Yield the names of the functions that executed lines of a function call."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.lineno in ran:
            yield node.func.id


class _Function:
    """The completion of one function's executed lines, `ran`, by statements that the compiler has dropped.

    `lines` has the counts of executable lines."""

    def __init__(self, node: ast.FunctionDef, lines: Mapping[int, int], ran: set[int]) -> None:
        self._lines = lines
        self._ran = ran
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        values = {each.arg for each in arguments if not _is_constexpr(each.annotation)}
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                values.add(each.id)
        for each in ast.walk(node):
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and _is_constexpr(each.annotation):
                values.discard(each.target.id)
        self._values = values
        """The names whose values the compiler does not know."""

    def add_block(self, block: list[ast.stmt], *, is_entered: bool) -> None:
        """Add the first line of each statement of a block that was dropped, but must have been executed, to `ran`.

        `is_entered` states that the block was executed if it has no executable line at all."""
        was_run = [bool(_lines_of(each) & self._ran) for each in block]
        is_dropped = [not _head_of(each) & self._lines.keys() for each in block]
        if not any(was_run) and not (is_entered and not any(_lines_of(each) & self._lines.keys() for each in block)):
            return
        last = max((number for number, each in enumerate(was_run) if each), default=-1)
        for number, each in enumerate(block):
            if number > last and not is_dropped[number]:
                break
            if is_dropped[number] or (was_run[number] and not _head_of(each) & self._ran):
                self._ran.add(each.lineno)
            is_open = not (isinstance(each, ast.If) and self._is_constant(each.test))
            for inner in _blocks(each):
                self.add_block(inner, is_entered=is_open)

    def _is_constant(self, test: ast.expr) -> bool:
        """Return True if the compiler knows the value of a condition."""
        if isinstance(test, ast.Compare) and all(isinstance(each, (ast.Is, ast.IsNot)) for each in test.ops):
            return True
        return not any(isinstance(each, ast.Name) and each.id in self._values for each in ast.walk(test))


def _is_constexpr(annotation: ast.expr | None) -> bool:
    return annotation is not None and "constexpr" in ast.unparse(annotation)


def certain_arcs(arcs: Iterable[Arc], ran: Set[int], both_ways: Set[int]) -> set[Arc]:
    """Return the arcs between statements that must have been executed, given the executed lines.

    `arcs` are all possible arcs, and `both_ways` the lines with a branch instruction of which both outcomes have
    occurred. An arc is certain if no other statement that ran leads to its end, or if its start cannot have gone
    anywhere else.
    """
    after: dict[int, set[int]] = {}
    before: dict[int, set[int]] = {}
    for first, second in arcs:
        after.setdefault(first, set()).add(second)
        before.setdefault(second, set()).add(first)

    def may_run(line: int) -> bool:
        return line < 0 or line in ran

    found: set[Arc] = set()
    for first, ends in after.items():
        if first < 0:
            continue
        possible = {each for each in ends if may_run(each)} if first in ran else set[int]()
        for second in possible:
            is_only_way = not any(each in ran for each in before[second] if each != first)
            if len(possible) == 1 or first in both_ways or (second > 0 and is_only_way):
                found.add((first, second))
    return found


# ---- measurement -----------------------------------------------------------------------------------------------------


class KernelPlugin(coverage.CoveragePlugin):
    """A plug-in of coverage.py that records which lines and branches of kernels this process executes.

    Each time coverage.py saves its data, the plug-in adds what it has recorded to that data.
    """

    def __init__(self) -> None:
        self._data_file = ".coverage"
        self._attached: coverage.Coverage | None = None
        self._recording: Recording | None = None

    def configure(self, config: TConfigurable) -> None:
        """Begin to record the kernels of devices that are opened from now on."""
        self._data_file = str(config.get_option("run:data_file"))
        self._recording = start()
        self._recording.on_device = self._attach

    def file_reporter(self, filename: str) -> FileReporter:
        """Return the reporter of a file of kernels that is not in Python."""
        return KernelFileReporter(filename, Table(self._data_file))

    def _attach(self) -> None:
        """Let the object that measures this process store the kernels' coverage before it saves its data.

        Coverage.py does not call plug-ins when it saves data, so its method `save` is wrapped."""
        measuring = coverage.Coverage.current()
        if measuring is None or measuring is self._attached:
            return
        self._attached = measuring
        save: Callable[[], None] = measuring.save

        def save_with_kernels() -> None:
            assert self._recording is not None
            store(measuring, self._recording.read(), self._data_file)
            save()

        measuring.save = save_with_kernels  # type: ignore[method-assign]


def store(measuring: coverage.Coverage, found: Coverage, data_file: str) -> None:
    """Add the coverage of kernels to the data of a `coverage.Coverage`, and to the table beside its data file."""
    is_measured = _filter(measuring)
    chosen = {name: each for name, each in found.files.items() if os.path.isfile(name) and is_measured(name)}
    if not chosen:
        return
    others = {name: each for name, each in chosen.items() if not name.endswith(PYTHON)}
    is_relative = bool(measuring.get_option("run:relative_files"))
    stored = {name: files.relative_filename(name) if is_relative else name for name in chosen}
    data = measuring.get_data()
    if measuring.get_option("run:branch"):
        arcs = {stored[name]: _python_arcs(name, each) for name, each in chosen.items() if name not in others}
        arcs |= {stored[name]: _kernel_arcs(each) for name, each in others.items()}
        data.add_arcs(arcs)
    else:
        lines = {
            stored[name]: {line for line, count in each.lines.items() if count} if name in others
            else statements_run(Path(name).read_text(encoding="utf-8"), each.lines)
            for name, each in chosen.items()
        }  # fmt: skip
        data.add_lines(lines)
    if others:
        Table(data_file).add(others)
        data.touch_files([stored[name] for name in others], PLUGIN)


def _python_arcs(name: str, found: FileCoverage) -> set[Arc]:
    """Return the executed arcs of a Python file; an arc from a line to itself says only that the line was executed."""
    source = Path(name).read_text(encoding="utf-8")
    parser = PythonParser(text=source, filename=name)
    parser.parse_source()
    ran = set(parser.translate_lines(statements_run(source, found.lines)))
    both_ways = set(parser.translate_lines(found.both_ways()))
    return {(line, line) for line in ran} | certain_arcs(parser.arcs(), ran, both_ways)


def _kernel_arcs(found: FileCoverage) -> set[Arc]:
    lines = {(line, line) for line, count in found.lines.items() if count}
    return lines | {arc_of(*key) for key, taken in found.branches.items() if taken}


def _filter(measuring: coverage.Coverage) -> Callable[[str], bool]:
    """Return a function that returns True for the files that the configuration selects for measurement."""

    def option(name: str) -> list[str]:
        value = measuring.get_option(f"run:{name}")
        return [str(each) for each in value] if isinstance(value, list) else []

    sources = [*option("source"), *option("source_dirs"), *option("source_pkgs")]
    folders = [folder for each in sources for folder in _folders(each)]
    include, omit = (files.GlobMatcher(files.prep_patterns(option(name)), name) for name in ("include", "omit"))
    installed = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]

    def is_measured(name: str) -> bool:
        if folders:
            is_chosen = any(Path(name).is_relative_to(folder) for folder in folders)
        elif option("include"):
            is_chosen = include.match(name)
        else:
            is_chosen = not any(Path(name).is_relative_to(folder) for folder in installed)
        return is_chosen and not omit.match(name)

    return is_measured


def _folders(source: str) -> list[str]:
    """Return the folders of an entry of the configuration's `source`: a folder, or the name of a package."""
    if os.path.isdir(source):
        return [os.path.abspath(source)]
    from importlib.util import find_spec

    try:
        found = find_spec(source)
    except (ImportError, ValueError):
        return []
    return [] if found is None else list(found.submodule_search_locations or ())
