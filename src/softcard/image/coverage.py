"""Coverage of source code by kernels: which lines and branches have run, from counted instructions and line tables.

The compiler inserts nothing: an engine counts the executions of each machine instruction, and the line table of the
code object has the source line of each. Files are written in the format of LCOV (`man geninfo`, "FILES").

- A line is executable if an instruction belongs to it. Lines without an instruction, which the compiler has dropped
  or which contain no code, are not mentioned.
- An instruction of an inlined function belongs to its own line, and to the lines of all calls around it.
- An execution of an instruction by a wave counts only if a lane was active, because waves also execute code that all of
  their lanes skip. If a line of a function has only scalar instructions, all of their executions count.
- Compilers move address computations to the beginning of a function. Instructions before the first branch do not count
  for a line that has vector instructions, some of them after that branch and none of the latter executed, unless a
  branch of the line itself decides on them.
- The count of a line in a function is that of its instruction with most executions. Counts of several functions and of
  several code objects are added.
- A function that was not executed is left out if all of its lines are also in other functions, into which it was
  inlined.
- A branch is a conditional branch instruction. Its outcomes are 0 (not taken) and 1 (taken). Branches of different
  code objects are different branches, even if they belong to one line: outcomes of two versions are not mixed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from softcard.core.display import count
from softcard.core.errors import SoftcardError, WireError
from softcard.engine.hooks import Executions
from softcard.image.elf.layout import SHT_DYNSYM, SHT_SYMTAB
from softcard.image.elf.lines import Lines
from softcard.image.elf.reader import ElfFile
from softcard.isa.gcn.target import TARGETS, Target

EXECUTABLE: Final = 4
"""The ELF section flag SHF_EXECINSTR."""
FUNCTION: Final = 2
"""The symbol type STT_FUNC."""
DESCRIPTOR: Final = ".kd"
"""The suffix of the symbols of kernel descriptors."""
HARTS: Final = "rv64"
"""The name of the instruction set of RISC-V harts; waves have the name of their processor, such as gfx942."""
VECTOR_FORMS: Final = ("VOP", "VINTRP", "DS", "FLAT", "MUBUF", "MTBUF", "MIMG", "EXP")
"""The beginnings of the names of encodings whose instructions the mask EXEC controls."""
BRANCH_OPCODES: Final = frozenset(range(4, 10))
"""The opcodes in the encoding SOPP of s_cbranch_scc0, scc1, vccz, vccnz, execz and execnz, on all generations."""
SOPP: Final = "SOPP"
NOT_TAKEN, TAKEN = 0, 1
Line = tuple[str, int]
"""The name of a source file, and the number of a line."""
BranchKey = tuple[int, int, int]
"""A line's number, the number of a branch, and the number of one of its outcomes."""


# ---- code ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of a code object: its address as linked, and its source lines, innermost first.

    `is_vector` is True if it does nothing without an active lane. `branch` is the number of a conditional branch, and
    otherwise None.
    """

    address: int
    lines: tuple[Line, ...]
    is_vector: bool = False
    branch: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function with those of its instructions that have a source line; `name` is "" for code without a symbol.

    `is_kernel` is True for a kernel of a GPU. `lines` has the lines of all instructions.
    """

    name: str
    is_kernel: bool
    instructions: tuple[Instruction, ...]
    lines: frozenset[Line]

    def is_copy_in(self, others: Set[Line]) -> bool:
        """Return True if all lines of the function, except those of its first instruction, are in `others`."""
        return self.lines - set(self.instructions[0].lines) <= others


class CodeLines:
    """The functions of a code object, with their instructions and source lines.

    `isa` is the name of a GPU, or `HARTS`.
    """

    def __init__(self, elf: ElfFile, lines: Lines, isa: str) -> None:
        self.isa = isa
        sections = [
            (each.header.addr, elf.contents(each))
            for each in elf.sections
            if each.header.flags & EXECUTABLE and each.header.size
        ]
        ranges = lines.ranges()
        digest = hashlib.sha256(b"".join(data for _, data in sections)).digest()
        found: list[Instruction] = []
        for start, data in sections:
            for low, high in ranges:
                first, end = max(low, start), min(high, start + len(data))
                code = data[first - start : end - start] if first < end else b""
                for address, is_vector, is_branch in _instructions(code, first, isa):
                    place = lines.at(address)
                    own = () if place is None else place.user_lines()
                    if own:
                        branch = _branch_number(digest, address) if is_branch else None
                        found.append(Instruction(address, own, is_vector, branch))
        self.functions = tuple(_functions(elf, found))
        self.end = max((start + len(data) for start, data in sections), default=0)
        """The first address after the code, or 0."""


def _functions(elf: ElfFile, instructions: Iterable[Instruction]) -> Iterator[Function]:
    """Yield the functions of a code object that have some of `instructions`."""
    symbols = [*elf.symbol_table(SHT_SYMTAB), *elf.symbol_table(SHT_DYNSYM)]
    names = {each.value: each.name for each in symbols if each.kind == FUNCTION and each.is_defined}
    kernels = {each.name.removesuffix(DESCRIPTOR) for each in symbols if each.name.endswith(DESCRIPTOR)}
    starts = sorted(names)
    parts: dict[str, list[Instruction]] = {}
    for each in instructions:
        number = bisect_right(starts, each.address) - 1
        parts.setdefault(names[starts[number]] if number >= 0 else "", []).append(each)
    for name, part in parts.items():
        yield Function(name, name in kernels, tuple(part), frozenset(line for each in part for line in each.lines))


def _branch_number(digest: bytes, address: int) -> int:
    """Return a number for a branch that is the same in every run of the same code object, and only there."""
    return int.from_bytes(hashlib.sha256(digest + address.to_bytes(8, "little")).digest()[:4], "little") >> 1


def _instructions(code: bytes, start: int, isa: str) -> Iterator[tuple[int, bool, bool]]:
    """Yield, for each instruction of `code`, its address, whether it is a vector instruction, and whether it branches.

    The first instruction is at address `start`. A branch to the next instruction does not count as one."""
    return _of_harts(code, start) if isa == HARTS else _of_waves(code, start, TARGETS[isa])


def _of_waves(code: bytes, start: int, target: Target) -> Iterator[tuple[int, bool, bool]]:
    from softcard.isa.gcn.encoding.bounds import format_names, instruction_bounds

    words = np.frombuffer(code[: len(code) & -4], np.uint32)
    if not len(words):
        return
    names = format_names(target.encoding)
    vectors = [name.startswith(VECTOR_FORMS) for name in names]
    sopp = names.index(SOPP)
    bounds = instruction_bounds(target, words)
    for at, form in zip(bounds.starts.tolist(), bounds.formats.tolist(), strict=True):
        word = int(words[at])
        branches = form == sopp and word >> 16 & 0x7F in BRANCH_OPCODES and word & 0xFFFF != 0
        yield start + 4 * at, vectors[form], branches


def _of_harts(code: bytes, start: int) -> Iterator[tuple[int, bool, bool]]:
    from softcard.isa.riscv.decode import decode, length  # GPUs import this module and do not need RISC-V

    at = 0
    while at + 2 <= len(code):
        size = length(int.from_bytes(code[at : at + 2], "little"))
        try:
            insn = decode(int.from_bytes(code[at : at + size], "little"))
            branches = insn.spec.flow == "branch" and insn.imm != size
        except SoftcardError:  # data between functions
            branches = False
        yield start + at, False, branches
        at += size


# ---- results ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class FileCoverage:
    """The coverage of one source file.

    - `lines`: the count of each executable line.
    - `branches`: the count of each outcome of each branch; None if the branch itself has not run.
    - `functions`: the first line of each function, and the number of its calls.
    """

    lines: dict[int, int] = field(default_factory=dict)
    branches: dict[BranchKey, int | None] = field(default_factory=dict)
    functions: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, other: FileCoverage) -> None:
        """Add the counts of another run."""
        for line, number in other.lines.items():
            self.lines[line] = self.lines.get(line, 0) + number
        for key, taken in other.branches.items():
            known = self.branches.get(key)
            self.branches[key] = taken if known is None else known + (taken or 0)
        for name, (line, number) in other.functions.items():
            self.functions[name] = line, self.functions.get(name, (line, 0))[1] + number

    def both_ways(self) -> set[int]:
        """Return the lines that have a branch of which both outcomes have occurred."""
        outcomes: dict[tuple[int, int], int] = {}
        for (line, branch, _), taken in self.branches.items():
            outcomes[line, branch] = outcomes.get((line, branch), 0) + bool(taken)
        return {line for (line, _), number in outcomes.items() if number > 1}


class Coverage:
    """The coverage of source files, by name, as merged from all recorded kernels.

    `without_lines` has the names of code objects that ran but have no line table."""

    def __init__(self) -> None:
        self.files: dict[str, FileCoverage] = {}
        self.without_lines: set[str] = set()

    def __repr__(self) -> str:
        return f"<coverage: {self.summary()}>"

    def summary(self) -> str:
        """Return a text with the number of executed lines."""
        lines = [number for each in self.files.values() for number in each.lines.values()]
        text = f"{sum(map(bool, lines)):,} of {count(len(lines), 'line')} of {count(len(self.files), 'file')}"
        if not self.without_lines:
            return text
        names = ", ".join(sorted(self.without_lines))
        return f"{text}, none of {names}, which has no line table (compile it with -gline-tables-only)"

    def add_code(self, code: CodeLines, executions: Executions, base: int = 0) -> None:
        """Add the executions of a code object that is loaded at address `base`, counted from the address 0."""
        counts = executions.counts
        ran = {each for each in code.functions if any(counts[base + insn.address] for insn in each.instructions)}
        others = frozenset[Line]().union(*(each.lines for each in code.functions if each in ran or each.is_kernel))
        found: dict[str, FileCoverage] = {}
        for each in code.functions:
            if each in ran or each.is_kernel or not each.is_copy_in(others):
                _add_function(found, each, executions, base)
        self._add(found)

    def merge(self, other: Coverage) -> None:
        """Add the counts of another run."""
        self._add(other.files)
        self.without_lines |= other.without_lines

    def _add(self, files: dict[str, FileCoverage]) -> None:
        for name, each in files.items():
            self.files.setdefault(_absolute(name), FileCoverage()).add(each)

    # ---- LCOV --------------------------------------------------------------------------------------------------------
    def lcov(self) -> str:
        """Return the coverage of the files that exist, in the format of LCOV.

        Sources that were passed as text have no file, and viewers of LCOV refuse names without one."""
        files = sorted((name, each) for name, each in self.files.items() if os.path.isfile(name))
        return "".join(f"{row}\n" for name, each in files for row in _records(name, each))

    @classmethod
    def from_lcov(cls, text: str, name: str = "LCOV file") -> Coverage:
        """Return the coverage in a text in the format of LCOV; raise `WireError` if it is damaged.

        Records without lines, branches and functions of source files are ignored. `name` names the text in errors."""
        made, here = cls(), FileCoverage()
        source = ""
        for number, row in enumerate(text.splitlines(), 1):
            kind, _, rest = row.strip().partition(":")
            try:
                if kind == "SF":
                    source, here = rest, FileCoverage()
                elif kind == "DA":
                    line, times = rest.split(",")[:2]
                    here.lines[int(line)] = here.lines.get(int(line), 0) + int(times)
                elif kind == "FN":
                    line, *_, function = rest.split(",")
                    here.functions[function] = int(line), 0
                elif kind == "FNDA":
                    times, _, function = rest.partition(",")
                    line_number, known = here.functions.get(function, (0, 0))
                    here.functions[function] = line_number, known + int(times)
                elif kind == "BRDA":
                    line, branch, outcome, times = rest.split(",")
                    key = int(line), int(branch), int(outcome)
                    here.branches[key] = None if times == "-" else int(times)
                elif kind == "end_of_record" and source:
                    made._add({source: here})
                    source = ""
            except ValueError:
                text = f"line {number} of {name} is {row!r}, expected a record of LCOV such as DA:12,1"
                raise WireError(f"{text}: name another file, or delete this one") from None
        return made

    def write_lcov(self, path: str | os.PathLike[str]) -> None:
        """Add the coverage to a file in the format of LCOV, which is created if it does not exist.

        Processes that write the same file wait for each other. Raise `WireError` if the file has another format.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            whole = Coverage.from_lcov(file.read().decode("utf-8", "surrogateescape"), os.fspath(path))
            whole.merge(self)
            data = whole.lcov().encode("utf-8", "surrogateescape")
            file.seek(0)
            file.write(data)
            file.truncate()


def _add_function(found: dict[str, FileCoverage], function: Function, executions: Executions, base: int) -> None:
    """Add the executions of a function, whose code object is loaded at address `base`, to the files in `found`."""
    active: Counter[Line] = Counter()
    late: Counter[Line] = Counter()
    scalar: Counter[Line] = Counter()
    vectors, lates, deciding = set[Line](), set[Line](), set[Line]()
    is_late = False
    for each in function.instructions:
        pc = base + each.address
        number = executions.counts[pc]
        some = number - executions.idle[pc]
        for line in each.lines:
            active[line] = max(active[line], some)
            scalar[line] = max(scalar[line], number)
            late[line] = max(late[line], some if is_late else 0)
        if each.is_vector:
            vectors.update(each.lines)
        if is_late:
            lates.update(each.lines)
        if each.branch is not None:
            is_late = True
            deciding.update(each.lines if number else ())
            file, line_number = each.lines[0]
            taken = executions.taken[pc]
            branches = found.setdefault(file, FileCoverage()).branches
            branches[line_number, each.branch, NOT_TAKEN] = number - taken if number else None
            branches[line_number, each.branch, TAKEN] = taken if number else None
    for line in function.lines:
        counts = active if line in vectors else scalar
        is_moved = line in lates and not late[line] and line not in deciding and line in vectors
        here = found.setdefault(line[0], FileCoverage()).lines
        here[line[1]] = here.get(line[1], 0) + (0 if is_moved else counts[line])
    first = function.instructions[0]
    if function.name:
        file, line_number = first.lines[-1]
        found[file].functions[function.name] = line_number, executions.counts[base + first.address]


def _absolute(name: str) -> str:
    return os.path.abspath(name)


def _records(name: str, file: FileCoverage) -> Iterator[str]:
    """Yield the records of one source file."""
    yield "TN:"
    yield f"SF:{name}"
    functions = sorted(file.functions.items(), key=lambda each: (each[1][0], each[0]))
    yield from (f"FN:{line},{function}" for function, (line, _) in functions)
    yield from (f"FNDA:{count},{function}" for function, (_, count) in functions)
    yield from _totals("FN", (count for _, (_, count) in functions))
    for (line, branch, outcome), taken in sorted(file.branches.items()):
        yield f"BRDA:{line},{branch},{outcome},{'-' if taken is None else taken}"
    yield from _totals("BR", (taken or 0 for taken in file.branches.values()))
    yield from (f"DA:{line},{count}" for line, count in sorted(file.lines.items()))
    yield from _totals("L", file.lines.values())
    yield "end_of_record"


def _totals(kind: str, counts: Iterable[int]) -> tuple[str, str]:
    every = list(counts)
    return f"{kind}F:{len(every)}", f"{kind}H:{sum(map(bool, every))}"
