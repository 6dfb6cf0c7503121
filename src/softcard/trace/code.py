"""The executed code in a report: disassembly with execution counts, accuracy of operations, and source lines.

`listing_of` takes loaded code: an `Executable` of AMD HSA, a `Program` of RefSi or of AMD OpenCL 2.0, or a kernel of
Fletcher, which is a Python function. `CommandCode` collects the user commands of Acceldev, whose events contain them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from softcard.core.errors import SoftcardError
from softcard.image.elf.lines import Lines, Place, read_lines

if TYPE_CHECKING:
    from softcard.device.fletcher.kernel import Kernel as FletcherKernel
    from softcard.host.amdcl2.program import Program as OpenclProgram
    from softcard.host.hsa.executable import Executable
    from softcard.host.refsi.program import Program as RefsiProgram
    from softcard.image.riscv.program import ElfImage
    from softcard.isa.gcn.target import Target
    from softcard.trace.writer import Device

    Loaded: TypeAlias = Executable | FletcherKernel | OpenclProgram | RefsiProgram

MOST_ROWS: Final = 20_000
"""The maximum number of instructions, over all functions, that a report shows."""
MOST_SOURCE_BYTES: Final = 1 << 20
SOURCES: Final = frozenset(
    (".c", ".cc", ".cl", ".cpp", ".cxx", ".h", ".hh", ".hip", ".hpp", ".inc", ".ll", ".py", ".rs", ".s", ".S", ".zig")
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

PYTHON: Final = "Python"
"""The target of the listings of kernels that are Python functions."""

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
    address: str = ""
    """The address as text, where it is not `pc` in hex."""


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
    - `is_source`: True if there is no machine code: the rows are the lines of the sources
    - `is_counted`: False if executions were not counted; then `functions` holds all functions, with counts of 0"""

    name: str
    target: str
    functions: tuple[Function, ...]
    silent: tuple[str, ...]
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_counted: bool = True
    is_source: bool = False

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
    from softcard.device.fletcher.kernel import Kernel
    from softcard.host.hsa.executable import Executable
    from softcard.host.refsi.program import Program

    if isinstance(loaded, Executable):
        return _of_executable(loaded, counts, name)
    if isinstance(loaded, Kernel):
        return _of_python(loaded, name)
    return _of_refsi(loaded, counts, name) if isinstance(loaded, Program) else _of_opencl(loaded, counts, name)


def loaded_on(device: Device) -> list[Listing]:
    """Return the listings of the code that is loaded on a device, with counts if it counts instructions."""
    from softcard.host.amdcl2.program import Program as OpenclProgram
    from softcard.host.hsa.gpu import Gpu
    from softcard.host.refsi.refsi import RefSi

    programs: list[Loaded] = []
    if isinstance(device, Gpu):
        programs += device.executables
    elif isinstance(device, RefSi):
        programs += [] if device.program is None else [device.program]
    elif isinstance(device, OpenclProgram):
        programs.append(device)
    elif (kernel := _kernel_of(device)) is not None:
        programs.append(kernel)
    found = []
    for program in programs:
        counts = None
        if isinstance(device, (Gpu, RefSi, OpenclProgram)):
            with suppress(SoftcardError):  # the device does not count
                counts = device.instruction_counts()
        with suppress(SoftcardError):  # it was unloaded, or its device is closed
            found.append(listing_of(program, counts))
    return found


def _kernel_of(device: Device) -> FletcherKernel | None:
    from softcard.device.fletcher.device import FletcherDevice
    from softcard.host.fletcher.platform import Platform

    known = getattr(device.port, "device", None) if isinstance(device, Platform) else device
    return known.kernel if isinstance(known, FletcherDevice) else None


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
        {loaded.source_name: loaded.source_lines},
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


def _of_python(kernel: FletcherKernel, name: str) -> Listing:
    """Return the source lines of a kernel's Python function; without a source, a listing without functions."""
    import inspect

    function = inspect.unwrap(kernel.run)
    try:
        file, (lines, first) = inspect.getsourcefile(function) or "", inspect.getsourcelines(function)
    except (OSError, TypeError):  # it was entered in an interpreter, or is not written in Python
        return Listing(name or kernel.name, PYTHON, (), (), {}, is_counted=False, is_source=True)
    first = max(first, 1)
    rows = tuple(
        Row(number, line.rstrip("\r\n"), "", 0, "", place=Place(file, number))
        for number, line in enumerate(lines, first)
    )
    sources = {file: ("",) * (first - 1) + tuple(row.text for row in rows)}  # the rest of the file does not matter
    return Listing(
        name or Path(file).name, PYTHON, (Function(kernel.name, first, rows),), (), sources,
        is_counted=False, is_source=True,
    )  # fmt: skip


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
    texts: Mapping[str, tuple[str, ...]] | None = None,
) -> Listing:
    """Return the listing of those of `functions` that were executed, and of executed code outside of functions.

    `isa` disassembles the code that `read` returns. `place` returns the source line of an address. A range of
    code outside of functions is named by `name_at`, or by its address. `texts` has the lines of sources without a
    file, by their names in debug information. If `counts` is None, the listing holds
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
    sources = {file: lines for file, lines in (texts or {}).items() if file in places}
    sources |= _sources(sorted(places - sources.keys()))
    return Listing(name, isa.name, tuple(found), silent, sources, is_counted)


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


# ---- commands --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Buffer:
    """A code buffer of a context that was run: its commands by offset, the number of runs, and the failed offset."""

    number: int
    commands: list[tuple[int, str]] = field(default_factory=list)
    runs: int = 1
    failed: int | None = None


class CommandCode:
    """The code buffers that contexts of Acceldev have run, with the commands that were executed.

    Buffers with the same executed commands are listed once, with the number of runs; a failed one is listed alone."""

    def __init__(self) -> None:
        self._buffers: dict[object, list[_Buffer]] = {}
        """The buffers of each context, in the order of their first runs; the last one may be running."""
        self._runs: dict[object, int] = {}
        self._known: dict[object, _Buffer] = {}
        """The buffers that did not fail, by context and commands."""

    def take(self, context: object, offset: int, text: str) -> None:
        """Add a user command of `context` that begins; `offset` is its position in the code buffer in bytes."""
        buffers = self._buffers.setdefault(context, [])
        if (
            not buffers
            or not buffers[-1].commands
            or offset <= buffers[-1].commands[-1][0]
            or self._has_failed(context)
        ):
            self._merge(context)
            self._runs[context] = self._runs.get(context, 0) + 1
            buffers.append(_Buffer(self._runs[context]))
        buffers[-1].commands.append((offset, text))

    def _has_failed(self, context: object) -> bool:
        return self._buffers[context][-1].failed is not None

    def fail(self, context: object) -> str:
        """Record that the current user command of `context` has failed, and return its address; "" without one."""
        buffers = self._buffers.get(context)
        if not buffers or not buffers[-1].commands:
            return ""
        buffers[-1].failed = buffers[-1].commands[-1][0]
        return _command_address(context, buffers[-1], buffers[-1].failed)

    def _merge(self, context: object) -> None:
        """Count the last buffer of a context, which is complete, as a run of an earlier, equal buffer."""
        buffers = self._buffers[context]
        if not buffers or buffers[-1].failed is not None:
            return
        last = buffers[-1]
        same = self._known.setdefault((context, tuple(last.commands)), last)
        if same is not last:
            same.runs += 1
            buffers.pop()

    def listings(self) -> list[Listing]:
        """Return a listing for each context, with a function for each code buffer."""
        found = []
        for context, buffers in self._buffers.items():
            self._merge(context)
            room = MOST_ROWS
            functions = []
            for each in buffers:
                counts = [each.runs - (each.failed == offset) for offset, _ in each.commands]
                rows = tuple(
                    Row(
                        offset, text, "", count, text.partition(" ")[0], address=_command_address(context, each, offset)
                    )
                    for (offset, text), count in zip(each.commands[:room], counts, strict=False)
                )
                room -= len(rows)
                name = f"run {each.number}" + (f" and {each.runs - 1} more" if each.runs > 1 else "")
                functions.append(Function(name, 0, rows))
            found.append(Listing(f"context {context}", COMMANDS, tuple(functions), ()))
        return found


def _command_address(context: object, buffer: _Buffer, offset: int) -> str:
    return f"{f'context {context}, ' if context else ''}run {buffer.number}+{offset:#x}"


COMMANDS: Final = "user commands"
"""The target of the listings of Acceldev's user commands."""
