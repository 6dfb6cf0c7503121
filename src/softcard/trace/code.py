"""The executed code in a report: disassembly with execution counts, accuracy of operations, and source lines.

`listing_of` takes loaded code: an `Executable` of AMD HSA, or a `Program` of RefSi or of AMD OpenCL 2.0.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from softcard.core.errors import SoftcardError
from softcard.image.elf.lines import Lines, Place, read_lines

if TYPE_CHECKING:
    from softcard.host.amdcl2.program import Program as OpenclProgram
    from softcard.host.hsa.executable import Executable
    from softcard.host.refsi.program import Program as RefsiProgram
    from softcard.image.riscv.program import ElfImage
    from softcard.isa.gcn.target import Target

    Loaded: TypeAlias = Executable | OpenclProgram | RefsiProgram

MOST_ROWS: Final = 20_000
"""The maximum number of instructions, over all functions, that a report shows."""
MOST_SOURCE_BYTES: Final = 1 << 20
SOURCES: Final = frozenset(
    (".c", ".cc", ".cl", ".cpp", ".cxx", ".h", ".hh", ".hip", ".hpp", ".inc", ".ll", ".rs", ".s", ".S", ".zig")
)
"""The suffixes of source files that are shown.

Debug information may name any file, such as a private one; files with other suffixes are not shown.
"""
GAP: Final = 64
"""The largest distance in bytes between executed instructions that are shown as one function.

It applies to code without symbols.
"""
ENDS: Final = ("s_endpgm", "c.jr")
"""The operations that end a function: execution does not continue at the next instruction."""
FUNCTION: Final = 2
"""The symbol type STT_FUNC."""
EXECUTABLE: Final = 4
"""The ELF section flag SHF_EXECINSTR."""

Extent = tuple[str, int, int]
"""The name, address and size in bytes of a function."""
Read = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class Row:
    """An instruction of a listing: its number of executions, and the accuracy (`fidelity`) of its operation.

    `bound` is the error bound of an approximate operation.
    """

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
    """A function of a listing, or a range of code without a symbol, with the rows of its instructions."""

    name: str
    address: int
    rows: tuple[Row, ...]

    @property
    def count(self) -> int:
        """The number of instructions that retired in the function."""
        return sum(row.count for row in self.rows)


@dataclass(frozen=True, slots=True)
class Listing:
    """The executed functions of a program with counts, those with most retired instructions first.

    - `target`: the processor that the code is for
    - `silent`: the names of functions that were not executed
    - `sources`: the lines of the source files that can be read
    - `is_counted`: False if executions were not counted; then `functions` holds all functions, with counts of 0"""

    name: str
    target: str
    functions: tuple[Function, ...]
    silent: tuple[str, ...]
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_counted: bool = True

    def operations(self) -> Counter[tuple[str, str, str]]:
        """Return the number of executions of each operation, by its (name, accuracy, error bound)."""
        found: Counter[tuple[str, str, str]] = Counter()
        for function in self.functions:
            for row in function.rows:
                if row.count:
                    found[row.operation, row.fidelity, row.bound] += row.count
        return found


def listing_of(loaded: Loaded, counts: Mapping[int, int] | None, name: str = "") -> Listing:
    """Return the listing of a loaded program; `counts` are the `instruction_counts` of its device.

    If `counts` is None, the listing holds all code of the program."""
    from softcard.host.hsa.executable import Executable
    from softcard.host.refsi.program import Program

    if isinstance(loaded, Executable):
        return _of_executable(loaded, counts, name)
    return _of_refsi(loaded, counts, name) if isinstance(loaded, Program) else _of_opencl(loaded, counts, name)


def _of_executable(loaded: Executable, counts: Mapping[int, int] | None, name: str) -> Listing:
    from softcard.isa.gcn.target import TARGETS

    elf, base = loaded.code.elf, loaded.base
    sized = {each.name: each.size for each in (*elf.symbols, *elf.dynamic_symbols) if each.kind == FUNCTION}
    functions = [(each, loaded.symbols[each], size) for each, size in sized.items() if size and each in loaded.symbols]
    if counts is None:
        functions += _unsized(loaded, [at for _, at, _ in functions])
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


def _unsized(loaded: Executable, known: Sequence[int]) -> list[Extent]:
    """Return the extents of kernels whose symbol has no size.

    Each extent reaches to the start of the next function, or to the end of the section."""
    entries = {kernel.image.entry + loaded.base: name for name, kernel in loaded.kernels.items()}
    ends = [
        section.header.addr + section.header.size + loaded.base
        for section in loaded.code.elf.named_sections()
        if section.header.flags & EXECUTABLE
    ]
    starts = sorted({*entries, *known, *ends})
    found = []
    for at in entries.keys() - set(known):
        end = next((each for each in starts if each > at), at)
        found.append((entries[at], at, end - at))
    return found


def _of_opencl(loaded: OpenclProgram, counts: Mapping[int, int] | None, name: str) -> Listing:
    functions = []
    for each, image in loaded.container.kernels.items():
        entry = loaded.code.kernels[each] + image.header.kernel_code_entry_byte_offset
        functions.append((each, entry, len(image.code)))
    return made_listing(name or "program", GcnText(loaded.target), functions, loaded.read_code, counts, Lines([]).at)


def _of_refsi(loaded: RefsiProgram, counts: Mapping[int, int] | None, name: str) -> Listing:
    functions = functions_of(loaded.image)
    return made_listing(name or "program", RiscvText(), functions, loaded.read_code, counts, loaded.place_of)


def functions_of(image: ElfImage) -> list[Extent]:
    """Return the functions of a RISC-V program."""
    symbols = (image.symbols or {}).values()
    return [(each.name, each.address, each.size) for each in symbols if each.kind == FUNCTION and each.size]


# ---- instruction sets ----------------------------------------------------------------------------------------------


class GcnText:
    """A disassembler for an AMD processor that also returns the accuracy of each operation."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.name = target.name

    @property
    def longest(self) -> int:
        """The size in bytes of the longest instruction."""
        from softcard.isa.gcn.encoding.formats import LONGEST

        return LONGEST

    def rows(self, code: bytes, pc: int, names: Mapping[int, str]) -> Iterator[Row]:
        """Yield a `Row` for each instruction of `code`, which begins at address `pc`; `names` are labels by address."""
        from softcard.isa.gcn.asm.listing import listing

        for line in listing(self._target, code, pc, names):
            insn = line.insn
            if insn is None:
                yield Row(line.pc, line.shown, line.label, 0, "")
            else:
                accuracy = insn.op.accuracy
                yield Row(line.pc, line.shown, line.label, 0, insn.name, accuracy.kind, accuracy.bound)


class RiscvText:
    """A disassembler for RISC-V, whose operations all have the accuracy "exact"."""

    name = "rv64"
    longest = 4
    """The size in bytes of the longest instruction."""

    def rows(self, code: bytes, pc: int, names: Mapping[int, str]) -> Iterator[Row]:
        """Yield a `Row` for each instruction of `code`, which begins at address `pc`; `names` are labels by address."""
        from softcard.isa.riscv.listing import listing

        for line in listing(code, pc, names):
            operation = "" if line.refusal is not None else line.shown.partition(" ")[0]
            yield Row(line.pc, line.shown, line.label, 0, operation)


# ---- from counts to rows -------------------------------------------------------------------------------------------


def made_listing(
    name: str,
    isa: GcnText | RiscvText,
    functions: Sequence[Extent],
    read: Read,
    counts: Mapping[int, int] | None,
    place: Callable[[int], Place | None],
    name_at: Callable[[int], str] = lambda pc: "",
) -> Listing:
    """Return the listing of those of `functions` that were executed, and of executed code outside of functions.

    `isa` disassembles the code that `read` returns. `place` returns the source line of an address. A range of
    code outside of functions is named by `name_at`, or by its address. If `counts` is None, the listing holds
    all functions."""
    is_counted, counts = counts is not None, counts or {}
    executed = sorted(counts)
    symbols = _distinct(functions)
    extents = [extent for extent in symbols if not is_counted or _within(executed, extent)]
    silent = tuple(extent[0] for extent in symbols if extent not in extents)
    left = [pc for pc in executed if not any(at <= pc < at + size for _, at, size in extents)]
    pieces = _pieces(left, name_at)
    extents += [(each, at, last - at + isa.longest) for each, at, last in pieces]
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
            for row in isa.rows(_bytes(read, at, size, isa.longest), at, names)
        )
        rows = _until_end(rows, lasts[at])[:room] if at in lasts else rows[:room]
        room -= len(rows)
        found.append(Function(each, at, rows))
    places = {
        row.place.file
        for function in found
        for row in function.rows
        if row.place is not None and (row.count or not is_counted)
    }
    return Listing(name, isa.name, tuple(found), silent, dict(_sources(sorted(places))), is_counted)


def _until_end(rows: tuple[Row, ...], last: int) -> tuple[Row, ...]:
    """Return the rows of code without a symbol up to the last executed instruction, which is at address `last`.

    Unless that instruction ends a function, the result includes the next row too: its instruction may have
    failed, and failed instructions are not counted as executed."""
    done = sum(each.pc <= last for each in rows)
    return rows[:done] if done and rows[done - 1].operation in ENDS else rows[: done + 1]


def _distinct(functions: Sequence[Extent]) -> list[Extent]:
    """Return one function for each address, sorted by address; if several have the same address, the first is used."""
    found: dict[int, Extent] = {}
    for extent in functions:
        found.setdefault(extent[1], extent)
    return sorted(found.values(), key=lambda extent: extent[1])


def _within(executed: Sequence[int], extent: Extent) -> Sequence[int]:
    return executed[bisect_left(executed, extent[1]) : bisect_left(executed, extent[1] + extent[2])]


def _pieces(executed: Sequence[int], name_at: Callable[[int], str]) -> list[tuple[str, int, int]]:
    """Return executed code without a symbol in pieces, which are ranges of nearby instructions.

    Each piece is a tuple of its name, and the addresses of its first and its last instruction. `executed` are
    the addresses of all instructions, and `name_at` returns the name of an address or ""."""
    runs: list[list[int]] = []
    for pc in executed:
        if runs and pc - runs[-1][-1] <= GAP:
            runs[-1].append(pc)
        else:
            runs.append([pc])
    return [(name_at(run[0]) or f"{run[0]:#x}", run[0], run[-1]) for run in runs]


def _bytes(read: Read, address: int, size: int, longest: int) -> bytes:
    """Return `size` bytes of code from memory, or fewer if memory ends within the last instruction.

    An instruction has up to `longest` bytes.
    """
    for less in range(0, longest, 2):
        try:
            return read(address, size - less)
        except SoftcardError:
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
