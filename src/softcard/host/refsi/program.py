"""Programs for RefSi: an ELF file in device memory, the address windows and stacks of harts, and causes of errors.

The memory layout is that of the RefSi reference host. Executables are linked below 0x8000000, and harts reach them in
DRAM through window 0. Each hart sees its share of TCDM (tightly coupled data memory) at 0x14000000 through window 1;
its stack begins at the end of that share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from softcard.core.display import RichDisplay, Rows, count, some
from softcard.core.errors import AccessFault, BeyondModel, RuleError, SoftcardError, WireError
from softcard.core.errors import Place as ErrorPlace
from softcard.core.findings import Finding, through
from softcard.core.space import PAGE_SIZE
from softcard.core.words import align_down, align_up
from softcard.device.refsi.registers import DRAM_BASE, DRAM_SIZE, TCDM_HART_BASE, TCDM_HART_SIZE
from softcard.device.refsi.toolkit.builder import READ, WRITE, CommandBuffer
from softcard.host.refsi.driver import RefSiDriver
from softcard.host.snapshot_points import choose
from softcard.image.elf.lines import Lines, Place, read_lines
from softcard.image.elf.reader import ElfFile
from softcard.image.riscv.program import ElfImage, Segment, read_elf
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.decode import assemble, decode, length
from softcard.isa.riscv.insn import IllegalInstruction, Insn
from softcard.isa.riscv.unitstate import FLOAT_EXTENSIONS

ELF_BASE: Final = 0x1_0000
ELF_END: Final = 0x800_0000
"""The end of the address range of executables.

The device maps nothing in this range, so a window can be opened there.
"""
HART_BASE: Final = 0x1400_0000
"""The address at which each hart sees its share of TCDM (tightly coupled data memory)."""
ELF_WINDOW: Final = 0
HART_WINDOW: Final = 1
FLOATS: Final = {"f32": "fmv.w.x", "f64": "fmv.d.x"}
"""The parameter types that the C ABI passes in float registers, with the instruction that moves bits there."""
LEAP: Final = "auipc t0, 0; ld t0, {}(t0); jalr zero, 0(t0)"
"""The assembly of a jump to an address in memory.

The placeholder is the distance from the jump to the word that holds the address.
"""
ZERO_FILL_BYTES: Final = 1 << 20
CURE: Final = (
    "link the program with -Wl,-Ttext-segment=0x10000 (lld: -Wl,--image-base=0x10000), or use softcard refsi build"
)
"""The advice in error messages about ELF segments at unusable addresses."""
EXIT_STUB: Final = "addi a0,zero,0; addi a7,zero,0; ecall"
"""The code at the return address of kernels, as in the RefSi reference host: it ends the instance by ECALL.

The device ends an instance when it reaches this address; the code runs only if the instance continues.
"""


ELF_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class Kernel(RichDisplay):
    """A kernel of a loaded program: its name, its entry point, and the types of its parameters if they are known."""

    name: str
    entry: int
    program: Program
    parameters: tuple[str, ...] | None = None
    """The types of the function's parameters, the instance's first, or None if they are unknown.

    A type is f32, f64, ptr, i8 to u64, or any other name for a value in an integer register.
    """

    def __repr__(self) -> str:
        return f"<kernel {self.name} at {self.entry:#x}>"

    def _rows(self) -> Rows:
        rows: list[tuple[str, ...]] = [(), ("entry", f"{self.entry:#x}"), ("stack top", f"{self.program.stack_top:#x}")]
        return [*rows, ("parameters", ", ".join(self.parameters))] if self.parameters else rows


class Program(RichDisplay):
    """An ELF image in device memory, ready to launch.

    `data` is the content of the ELF file, whose debug information gives the parameter types of kernels. A launch passes
    the hart's initial `stack_top` and the `return_address` of the kernel.
    """

    def __init__(self, driver: RefSiDriver, image: ElfImage, profile: str, data: bytes = b"") -> None:
        self.image = image
        self.file = data
        self._entries: dict[tuple[int, tuple[str, ...]], int] = {}
        self._driver = driver
        self._profile = profile
        self._allocated: list[int] = []
        info = driver.info
        self.hart_share = align_down(TCDM_HART_SIZE // (info.cores * info.harts_per_core), PAGE_SIZE)
        self.stack_top = HART_BASE + self.hart_share
        self.return_address = 0
        self._log = log = driver.port.log
        if log is not None:
            log.namers.append(self._complete)
        try:
            self._load()
        except BaseException:
            self.unload()
            raise

    def __repr__(self) -> str:
        return f"<program, {count(len(self.image.segments), 'segment')}: {some(self.kernels)}>"

    def _rows(self) -> Rows:
        yield "kernel", "entry"
        for name in self.kernels:
            yield name, f"{self.image.symbol(name).address:#x}"

    def kernel(self, name: str, parameters: Sequence[str] | None = None) -> Kernel:
        """Return the kernel called `name`; raise a `WireError` that lists the existing kernels if there is none.

        `parameters` are the types of the function's parameters (see `Kernel`), by default those of the file's debug
        information."""
        entry = self.image.symbol(name).address
        if parameters is None:
            return Kernel(name, entry, self, self._signatures.get(name))
        return Kernel(name, entry, self, tuple(parameters))

    @cached_property
    def _signatures(self) -> dict[str, tuple[str, ...]]:
        from softcard.image.elf.dwarf import signatures  # here: few programs have debug information

        return signatures(self.file)

    def entry(self, kernel: Kernel, given: int) -> int:
        """Return the address at which a launch with `given` arguments starts the kernel.

        The command processor passes all arguments in integer registers, after the integers that every kernel receives.
        If the C ABI expects some arguments in float registers, the result is the address of a stub that moves them
        there and jumps to the kernel; otherwise it is the kernel's own entry point.
        """
        types = (kernel.parameters or ())[:given]
        if not any(each in FLOATS for each in types):
            return kernel.entry
        key = kernel.entry, types
        if key not in self._entries:
            code = moves(types, given)
            code = kernel.entry.to_bytes(8, "little") + code + assemble(LEAP.format(-8 - len(code)))
            place = self._allocate(len(code))
            self._driver.write(place, code)
            self._entries[key] = place + 8
        return self._entries[key]

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the program's kernels: all global symbols in executable segments."""
        return self.image.kernels

    def read_code(self, address: int, size: int) -> bytes:
        """Return `size` bytes of code at the address `address` as harts see it.

        The code may be the program's or other code that the host has stored.
        """
        return self.image.read(address, size) or self._driver.read(address, size)

    @property
    def is_loaded(self) -> bool:
        """True if the program is in device memory."""
        return bool(self._allocated)

    def _complete(self, finding: Finding) -> None:
        """Add the source location to a finding whose pc lies in the program's code."""
        pc = finding.pc
        name = "" if pc is None else self.image.name_at(pc)
        if name and pc is not None:
            finding.at, finding.insn = name, self._text(pc)
            place = self.place_of(pc)
            if place is not None:
                finding.source, finding.frames, finding.column = str(place), place.frames, place.column
            elif near := self.lines.around(pc - self.distance, self.image.before(pc)[1] - self.distance):
                lines = f"the compiler gives this instruction no line, the nearest are {' and '.join(map(str, near))}"
                finding.suggestion = f"{finding.suggestion}; {lines}" if finding.suggestion else lines

    def place_of(self, pc: int) -> Place | None:
        """Return the source line of the instruction at `pc`; None if it is unknown."""
        return self.lines.at(pc - self.distance) if self.file else None

    def snapshot_at(self, points: Sequence[str]) -> None:
        """Set the points at which the device takes snapshots of registers, in addition to faults.

        A point is a pc (``0x...``), SYMBOL[+OFFSET], FILE:LINE, or "end". Raise `WireError` for an unknown symbol or
        line, and if the device was opened without the setting `snapshots`.
        """
        names = {each.name: each.address for each in (self.image.symbols or {}).values() if each.name}
        segments = self.image.segments
        code = range(min(each.address for each in segments), max(each.address + len(each.data) for each in segments), 2)
        choose(self._driver.port.tracepoints, points, names, code, self.place_of)

    @cached_property
    def elf(self) -> ElfFile:
        """The program's file."""
        return ElfFile(self.file, ELF_BITS)

    @cached_property
    def lines(self) -> Lines:
        """The line table of the program, with addresses as linked."""
        return read_lines(self.elf)

    def _text(self, pc: int) -> str:
        """Return the disassembly of the instruction at `pc`; "" if the file has no code there."""
        word = int.from_bytes(self.image.read(pc, 4), "little")
        try:
            return text(decode(word if length(word & 0xFFFF) == 4 else word & 0xFFFF), pc)
        except (BeyondModel, IllegalInstruction):
            return ""

    @cached_property
    def distance(self) -> int:
        """The number of bytes by which the program was moved up from the addresses for which it was linked."""
        linked = min((segment.address for segment in read_elf(self.file).segments), default=0)
        return min((segment.address for segment in self.image.segments), default=0) - linked

    def unload(self) -> None:
        """Free the program's memory. Its window is closed when the next program is loaded.

        After `shutdown` the call has no effect.
        """
        log = self._log
        if log is not None and self._complete in log.namers:
            log.namers.remove(self._complete)
        for address in self._allocated:
            self._driver.free(address)
        self._allocated.clear()
        self._entries.clear()

    def _load(self) -> None:
        self._reserve()
        windowed = [segment for segment in self.image.segments if ELF_BASE <= segment.address < ELF_END]
        buffer = CommandBuffer(self._profile).close_window(ELF_WINDOW).close_window(HART_WINDOW)
        if windowed:
            low = align_down(min(segment.address for segment in windowed), PAGE_SIZE)
            high = align_up(max(segment.end for segment in windowed), PAGE_SIZE)
            if high > ELF_END:
                raise _misplaced(max(windowed, key=lambda segment: segment.end))
            target = self._allocate(high - low)
            buffer.window(ELF_WINDOW, base=low, target=target, size=high - low)
            for segment in windowed:
                self._write(segment, target - low + segment.address)
        for segment in self.image.segments:
            if segment not in windowed:
                self._write(segment, segment.address)
        stub = assemble(EXIT_STUB)
        self.return_address = self._allocate(len(stub))
        self._driver.write(self.return_address, stub)
        buffer.window(
            HART_WINDOW,
            base=HART_BASE,
            target=TCDM_HART_BASE,
            size=self.hart_share,
            mode="PER_HART",
            scale=self.hart_share,
            perms=READ | WRITE,
        )
        self._driver.run(buffer.sync_cache().finish())

    def _reserve(self) -> None:
        """Reserve the DRAM pages of the ELF segments, so that no array is allocated there.

        Raise `WireError` if a segment lies in harts' private memory, or if its pages are in use.
        """
        pages: set[tuple[int, int]] = set()
        for segment in self.image.segments:
            if segment.address < TCDM_HART_BASE + TCDM_HART_SIZE and segment.end > TCDM_HART_BASE:
                raise WireError(
                    f"ELF segment at {segment.address:#x}..{segment.end:#x} overlaps the private memory of the harts, "
                    f"{TCDM_HART_BASE:#x}..{TCDM_HART_BASE + TCDM_HART_SIZE:#x}, expected {ELF_BASE:#x}..{ELF_END:#x}: "
                    f"{CURE}"
                )
            first = max(align_down(segment.address, PAGE_SIZE), DRAM_BASE)
            last = min(align_up(segment.end, PAGE_SIZE), DRAM_BASE + DRAM_SIZE)
            if first < last:
                pages.add((first, last))
        for first, last in _merged(pages):
            if not self._driver.port.reserve(first, last - first):
                raise WireError(
                    f"ELF segments take device memory at {first:#x}..{last:#x}, which is in use: "
                    f"load the program before arrays are allocated, or {CURE}"
                )
            self._allocated.append(first)

    def _allocate(self, size: int) -> int:
        address = self._driver.allocate(align_up(size, PAGE_SIZE), PAGE_SIZE)
        self._allocated.append(address)
        return address

    def _write(self, segment: Segment, address: int) -> None:
        try:
            for offset, data in _pieces(segment):
                self._driver.write(address + offset, data)
        except AccessFault as error:
            raise _misplaced(segment) from error


def moves(types: Sequence[str], given: int) -> bytes:
    """Return code that moves arguments from integer registers to the registers in which the C ABI expects them.

    `types` are the types of the kernel's parameters; `given` is the number of words passed in a0, a1, ..."""
    integers, floats, lines = 0, 0, []
    for number in range(given):
        kind = types[number] if number < len(types) else ""
        if kind in FLOATS:
            lines.append(f"{FLOATS[kind]} fa{floats}, a{number}")
            floats += 1
            continue
        if integers != number:
            lines.append(f"addi a{integers}, a{number}, 0")
        integers += 1
    return b"".join(assemble(line) for line in lines)


def _pieces(segment: Segment) -> Iterator[tuple[int, bytes]]:
    if segment.data:
        yield 0, segment.data
    for offset in range(len(segment.data), segment.memory_size, ZERO_FILL_BYTES):
        yield offset, bytes(min(ZERO_FILL_BYTES, segment.memory_size - offset))


def _merged(ranges: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return address ranges (start, end) in order; adjacent and overlapping ranges are merged."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _misplaced(segment: Segment) -> WireError:
    return WireError(
        f"ELF segment at {segment.address:#x}..{segment.end:#x} fits neither {ELF_BASE:#x}..{ELF_END:#x}, which "
        f"reaches DRAM through a window, nor a memory of the device: {CURE}"
    )


def check_loaded(program: Program | None) -> Program:
    """Return `program` if it is in device memory; raise a `RuleError` otherwise."""
    if program is None or not program.is_loaded:
        raise RuleError("the program is not loaded: call load_elf first (a new program replaces the loaded one)")
    return program


# ---- errors of kernels -----------------------------------------------------------------------------------------------
# Details that a program's symbols and layout add to the error of a kernel.


GP: Final = 3
GLOBAL_POINTER: Final = "__global_pointer$"
STACK_REACH: Final = 1 << 20
"""The distance in bytes below a stack within which an access counts as a stack overflow."""
MOST_SEGMENTS: Final = 4
"""The largest number of segments that an error message lists."""
LONGEST_FUNCTION: Final = 1 << 14
"""The number of bytes of code before a fault that are searched for an access to gp."""


def explained(error: SoftcardError, kernel: Kernel) -> SoftcardError:
    """Return `error` with details added: the kernel's name, the function of each pc, and a likely cause."""
    program = kernel.program
    at = next((place for place in error.path if place.kind == "pc"), None)
    error.path = tuple(_named(place, program) if place.kind == "pc" else place for place in error.path)
    if isinstance(error, AccessFault) and at:
        error.message += _cause(error.address, int(at.where, 16), program)
    elif isinstance(error, IllegalInstruction) and at and not at.what:
        error.message += _overwritten(int(at.where, 16), program)
    return error.at("kernel", kernel.name)


def _named(place: ErrorPlace, program: Program) -> ErrorPlace:
    name = program.image.name_at(int(place.where, 16))
    line = program.place_of(int(place.where, 16))
    source = "" if line is None else through(str(line), line.frames)
    text = ", ".join(filter(None, (": ".join(filter(None, (name, place.what))), source)))
    known = ("", 0) if line is None else (str(line), line.column)
    return ErrorPlace(place.kind, place.where, text, name, place.what, *known)


def _cause(address: int, pc: int, program: Program) -> str:
    """Return the likely cause of a faulting access to `address` by the instruction at `pc`; "" if it is unknown."""
    if HART_BASE - STACK_REACH <= address < HART_BASE:
        return f" (below this hart's stack, which lies at {HART_BASE:#x}..{program.stack_top:#x})"
    pointer = (program.image.symbols or {}).get(GLOBAL_POINTER)
    if pointer is not None and _relies_on_gp(pc, program):
        return (
            f" (the code uses gp, which no code sets: the linker expects {GLOBAL_POINTER} = "
            f"{pointer.address:#x} there; link with -Wl,--no-relax)"
        )
    if ELF_BASE <= address < ELF_END:
        lying = sorted((segment.address, segment.end) for segment in program.image.segments)
        shown = ", ".join(f"{first:#x}..{end:#x}" for first, end in lying[:MOST_SEGMENTS])
        return f" (outside the program, whose segments lie at {shown}{', ...' if len(lying) > MOST_SEGMENTS else ''})"
    return ""


def _overwritten(pc: int, program: Program) -> str:
    """Return a note that the code at `pc`, where memory holds an invalid instruction, was overwritten.

    The note shows the instruction that the ELF file has at `pc`. It is "" if the ELF file has no valid
    instruction there."""
    insn = _decoded(program.image.read(pc, 4))
    return f" (the program file has {text(insn, pc)} there: its code was overwritten)" if insn else ""


def _relies_on_gp(pc: int, program: Program) -> bool:
    """Return True if the code from the preceding symbol up to `pc` reads the register gp and never writes it."""
    name, start = program.image.before(pc)
    if not name or pc - start > LONGEST_FUNCTION:
        return False
    code = program.image.read(start, pc - start + 4)
    reads, at = False, 0
    while at <= pc - start:
        insn = _decoded(code[at : at + 4])
        if insn is None or insn.rd == GP:
            return False
        reads |= insn.rs1 == GP or (insn.rs2 == GP and insn.spec.extension not in FLOAT_EXTENSIONS)
        at += insn.length
    return reads


def _decoded(code: bytes) -> Insn | None:
    word = int.from_bytes(code, "little")
    try:
        return decode(word if length(word & 0xFFFF) == 4 else word & 0xFFFF)
    except (BeyondModel, IllegalInstruction):
        return None
