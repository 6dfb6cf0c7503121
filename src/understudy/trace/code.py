"""Code that ran, for a report: disassembly with counts, how true each operation is modelled, and where it comes from.

`listing_of` takes what a host loaded: an `Executable` of AMD HSA, a `Program` of RefSi or of AMD OpenCL 2.0.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from understudy.core.errors import UnderstudyError
from understudy.image.elf.lines import Lines, Place, read_lines

if TYPE_CHECKING:
    from understudy.host.amdcl2.program import Program as OpenclProgram
    from understudy.host.hsa.executable import Executable
    from understudy.host.refsi.program import Program as RefsiProgram
    from understudy.image.riscv.program import ElfImage
    from understudy.isa.gcn.target import Target

    Loaded: TypeAlias = Executable | OpenclProgram | RefsiProgram

MOST_ROWS: Final = 20_000
"""Instructions of all functions together that a report shows."""
MOST_SOURCE_BYTES: Final = 1 << 20
SOURCES: Final = frozenset(
    (".c", ".cc", ".cl", ".cpp", ".cxx", ".h", ".hh", ".hip", ".hpp", ".inc", ".ll", ".rs", ".s", ".S", ".zig")
)
"""Suffixes of files that are shown: a file may name any other as its source."""
GAP: Final = 64
"""Bytes between executed instructions up to which they are shown as one piece, where no symbol says so."""
LONGEST: Final = 12
"""Bytes of an instruction."""
ENDS: Final = ("s_endpgm", "c.jr")
"""Operations behind which nothing is executed."""
FUNCTION: Final = 2
"""STT_FUNC."""

Extent = tuple[str, int, int]
"""Name, address and bytes of a function."""
Read = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class Row:
    """An instruction: how often it retired, and how true its operation is modelled (`bound`: of an approximation)."""

    pc: int
    text: str
    label: str
    count: int
    operation: str
    fidelity: str = "exact"
    bound: str = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A function, or a piece of code without a name of its own."""

    name: str
    address: int
    rows: tuple[Row, ...]

    @property
    def count(self) -> int:
        """Instructions of it that retired."""
        return sum(row.count for row in self.rows)


@dataclass(frozen=True, slots=True)
class Listing:
    """The functions of a program that were executed, those first that executed most; `silent` names the others.

    `target` is what the code is for; `sources` are the lines of the files that it comes from, as far as they are here.
    """

    name: str
    target: str
    functions: tuple[Function, ...]
    silent: tuple[str, ...]
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def operations(self) -> Counter[tuple[str, str, str]]:
        """How often each operation retired, with its fidelity and bound."""
        found: Counter[tuple[str, str, str]] = Counter()
        for function in self.functions:
            for row in function.rows:
                if row.count:
                    found[row.operation, row.fidelity, row.bound] += row.count
        return found


def listing_of(loaded: Loaded, counts: Mapping[int, int], name: str = "") -> Listing:
    """What a program executed, by the counts of its device (`instruction_counts`)."""
    from understudy.host.hsa.executable import Executable
    from understudy.host.refsi.program import Program

    if isinstance(loaded, Executable):
        return _of_executable(loaded, counts, name)
    return _of_refsi(loaded, counts, name) if isinstance(loaded, Program) else _of_opencl(loaded, counts, name)


def _of_executable(loaded: Executable, counts: Mapping[int, int], name: str) -> Listing:
    from understudy.isa.gcn.target import TARGETS

    elf, base = loaded.code.elf, loaded.base
    sized = {each.name: each.size for each in (*elf.symbols, *elf.dynamic_symbols) if each.kind == FUNCTION}
    functions = [(each, loaded.symbols[each], size) for each, size in sized.items() if size and each in loaded.symbols]
    lines = read_lines(elf)
    target = TARGETS[loaded.agent]
    return made_listing(
        name or "code object",
        GcnText(target),
        functions,
        loaded.read_code,
        counts,
        lambda pc: lines.at(pc - base),
        loaded.name_at,
    )


def _of_opencl(loaded: OpenclProgram, counts: Mapping[int, int], name: str) -> Listing:
    functions = []
    for each, image in loaded.container.kernels.items():
        entry = loaded.code.kernels[each] + image.header.kernel_code_entry_byte_offset
        functions.append((each, entry, len(image.code)))
    return made_listing(name or "program", GcnText(loaded.target), functions, loaded.read_code, counts, Lines([]).at)


def _of_refsi(loaded: RefsiProgram, counts: Mapping[int, int], name: str) -> Listing:
    functions = functions_of(loaded.image)
    return made_listing(name or "program", RiscvText(), functions, loaded.read_code, counts, loaded.place_of)


def functions_of(image: ElfImage) -> list[Extent]:
    """The functions of a program for RISC-V."""
    symbols = (image.symbols or {}).values()
    return [(each.name, each.address, each.size) for each in symbols if each.kind == FUNCTION and each.size]


# ---- instruction sets ----------------------------------------------------------------------------------------------


class GcnText:
    """Instructions of a processor of AMD's."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.name = target.name

    def rows(self, code: bytes, pc: int, names: Mapping[int, str]) -> Iterator[Row]:
        """Every instruction of `code`, which stands at address `pc`; `names` are those of places."""
        from understudy.isa.gcn.asm.listing import listing

        for line in listing(self._target, code, pc, names):
            insn = line.insn
            if insn is None:
                yield Row(line.pc, line.shown, line.label, 0, "")
            else:
                accuracy = insn.op.accuracy
                yield Row(line.pc, line.shown, line.label, 0, insn.name, accuracy.kind, accuracy.bound)


class RiscvText:
    """Instructions of RISC-V, all of which are exact."""

    name = "rv64"

    def rows(self, code: bytes, pc: int, names: Mapping[int, str]) -> Iterator[Row]:
        """Every instruction of `code`, which stands at address `pc`; `names` are those of places."""
        from understudy.isa.riscv.listing import listing

        for line in listing(code, pc, names):
            operation = "" if line.refusal is not None else line.shown.partition(" ")[0]
            yield Row(line.pc, line.shown, line.label, 0, operation)


# ---- from counts to rows -------------------------------------------------------------------------------------------


def made_listing(
    name: str,
    isa: GcnText | RiscvText,
    functions: Sequence[Extent],
    read: Read,
    counts: Mapping[int, int],
    place: Callable[[int], Place | None],
    name_at: Callable[[int], str] = lambda pc: "",
) -> Listing:
    """What was executed of `functions`, and as pieces what lies in none of them."""
    executed = sorted(counts)
    symbols = _distinct(functions)
    extents = [extent for extent in symbols if _within(executed, extent)]
    silent = tuple(extent[0] for extent in symbols if extent not in extents)
    left = [pc for pc in executed if not any(at <= pc < at + size for _, at, size in extents)]
    pieces = _pieces(left, name_at)
    extents += [(each, at, last - at + LONGEST) for each, at, last in pieces]
    lasts = {at: last for _, at, last in pieces}
    names = {at: each for each, at, _ in symbols}
    found: list[Function] = []
    room = MOST_ROWS
    for each, at, size in sorted(extents, key=lambda extent: -sum(counts[pc] for pc in _within(executed, extent))):
        rows = tuple(
            Row(
                row.pc,
                row.text,
                row.label,
                counts.get(row.pc, 0),
                row.operation,
                row.fidelity,
                row.bound,
                place(row.pc),
            )
            for row in isa.rows(_bytes(read, at, size), at, names)
        )
        rows = _until_end(rows, lasts[at])[:room] if at in lasts else rows[:room]
        room -= len(rows)
        found.append(Function(each, at, rows))
    places = {row.place.file for function in found for row in function.rows if row.place is not None and row.count}
    return Listing(name, isa.name, tuple(found), silent, dict(_sources(sorted(places))))


def _until_end(rows: tuple[Row, ...], last: int) -> tuple[Row, ...]:
    """Without what lies behind the last instruction that was executed, but for one where that does not end it.

    There something may have failed.
    """
    done = sum(each.pc <= last for each in rows)
    return rows[:done] if done and rows[done - 1].operation in ENDS else rows[: done + 1]


def _distinct(functions: Sequence[Extent]) -> list[Extent]:
    """Each function once, by address; of several names the first."""
    found: dict[int, Extent] = {}
    for extent in functions:
        found.setdefault(extent[1], extent)
    return sorted(found.values(), key=lambda extent: extent[1])


def _within(executed: Sequence[int], extent: Extent) -> Sequence[int]:
    return executed[bisect_left(executed, extent[1]) : bisect_left(executed, extent[1] + extent[2])]


def _pieces(executed: Sequence[int], name_at: Callable[[int], str]) -> list[tuple[str, int, int]]:
    """Code that no symbol names, as pieces of what lies close together: name, first and last address."""
    runs: list[list[int]] = []
    for pc in executed:
        if runs and pc - runs[-1][-1] <= GAP:
            runs[-1].append(pc)
        else:
            runs.append([pc])
    return [(name_at(run[0]) or f"{run[0]:#x}", run[0], run[-1]) for run in runs]


def _bytes(read: Read, address: int, size: int) -> bytes:
    """Code as it is in memory; as much as there is of its last instruction."""
    for less in range(0, LONGEST, 2):
        try:
            return read(address, size - less)
        except UnderstudyError:
            continue
    return b""


def _sources(files: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for file in files:
        path = Path(file)
        try:
            if path.suffix in SOURCES and path.is_file() and path.stat().st_size <= MOST_SOURCE_BYTES:
                yield file, tuple(path.read_text(encoding="utf-8", errors="replace").splitlines())
        except OSError:
            continue
