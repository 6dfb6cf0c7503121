"""Programs: an ELF file in device memory, the windows through which harts see it, and their stacks.

The layout is the reference host's: executables are linked below 0x8000000 and reach DRAM through window 0; each hart's
share of TCDM appears to it at 0x14000000 through window 1, with its stack at the far end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from understudy.core.errors import AccessFault, BeyondModel, RuleError, WireError
from understudy.core.findings import Finding
from understudy.core.shown import Rows, Shown, count, some
from understudy.core.space import PAGE_SIZE
from understudy.core.words import align_down, align_up
from understudy.device.refsi.registers import DRAM_BASE, DRAM_SIZE, TCDM_HART_BASE, TCDM_HART_SIZE
from understudy.device.refsi.toolkit.builder import READ, WRITE, CommandBuffer
from understudy.host.refsi.driver import RefSiDriver
from understudy.image.elf.lines import Lines, Place, read_lines
from understudy.image.elf.reader import ElfFile
from understudy.image.riscv.program import ElfImage, Segment, read_elf
from understudy.isa.riscv.assembler import text
from understudy.isa.riscv.decode import assemble, decode, length
from understudy.isa.riscv.insn import IllegalInstruction

ELF_BASE: Final = 0x1_0000
ELF_END: Final = 0x800_0000
"""Where executables are linked; nothing of the device lies there, so that a window can."""
HART_BASE: Final = 0x1400_0000
"""Where a hart sees its share of TCDM."""
ELF_WINDOW: Final = 0
HART_WINDOW: Final = 1
FLOATS: Final = {"f32": "fmv.w.x", "f64": "fmv.d.x"}
"""Types of parameters that the C ABI passes in float registers, and what moves their bits there."""
LEAP: Final = "auipc t0, 0; ld t0, {}(t0); jalr zero, 0(t0)"
"""A jump to the address that stands so far from it."""
ZERO_FILL_BYTES: Final = 1 << 20
CURE: Final = "link it with -Wl,-Ttext-segment=0x10000 (lld: -Wl,--image-base=0x10000), or use understudy refsi build"
"""What to do about segments that lie where they cannot."""
EXIT_STUB: Final = "addi a0,zero,0; addi a7,zero,0; ecall"
"""Code at the return address, as the reference host has it: instances end there, and it would end one that went on."""


ELF_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class Kernel(Shown):
    """A kernel of a loaded program: its name and entry point."""

    name: str
    entry: int
    program: Program
    parameters: tuple[str, ...] | None = None
    """Types of the function's parameters, the instance's first: f32, f64, or anything else for what goes in an integer
    register; None where nobody knows."""

    def __repr__(self) -> str:
        return f"<kernel {self.name} at {self.entry:#x}>"

    def _rows(self) -> Rows:
        rows: list[tuple[str, ...]] = [(), ("entry", f"{self.entry:#x}"), ("stack top", f"{self.program.stack_top:#x}")]
        return [*rows, ("parameters", ", ".join(self.parameters))] if self.parameters else rows


class Program(Shown):
    """An ELF image in device memory, ready to launch. `stack_top` and `return_address` are what launches set.

    `data` is the `file`, whose debug information says what parameters kernels have.
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
        log = driver.port.log
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
        """The kernel called `name`; `WireError` that says what there is instead.

        `parameters` are the types of the function's parameters (see `Kernel`), by default those that the file's debug
        information tells.
        """
        entry = self.image.symbol(name).address
        if parameters is None:
            return Kernel(name, entry, self, self._signatures.get(name))
        return Kernel(name, entry, self, tuple(parameters))

    @cached_property
    def _signatures(self) -> dict[str, tuple[str, ...]]:
        from understudy.image.elf.dwarf import signatures  # few programs have what it reads

        return signatures(self.file)

    def entry(self, kernel: Kernel, given: int) -> int:
        """Where a launch with `given` arguments, and as many integers before them as the kernel has, begins.

        The command processor passes arguments in integer registers. Where the C ABI has some of them in float
        registers, that is a few instructions which move them there and go on in the kernel.
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
        """Names of all global symbols in executable segments."""
        return self.image.kernels

    def read_code(self, address: int, size: int) -> bytes:
        """Code as harts see it: of the program, or of what the host has put into memory beside it."""
        return self.image.read(address, size) or self._driver.read(address, size)

    @property
    def is_loaded(self) -> bool:
        """Whether the program is in device memory."""
        return bool(self._allocated)

    def _complete(self, finding: Finding) -> None:
        """Say where in its source a finding is, if it is in its code."""
        pc = finding.pc
        name = "" if pc is None else self.image.name_at(pc)
        if name and pc is not None:
            finding.at, finding.insn = name, self._text(pc)
            finding.source = str(self.place_of(pc) or "")

    def place_of(self, pc: int) -> Place | None:
        """The line that the instruction there comes from; None where nobody says."""
        return self._lines.at(pc - self._distance) if self.file else None

    @cached_property
    def _lines(self) -> Lines:
        """Where its instructions come from."""
        return read_lines(ElfFile(self.file, ELF_BITS))

    def _text(self, pc: int) -> str:
        """The instruction there; "" where the file has none."""
        word = int.from_bytes(self.image.read(pc, 4), "little")
        try:
            return text(decode(word if length(word & 0xFFFF) == 4 else word & 0xFFFF), pc)
        except (BeyondModel, IllegalInstruction):
            return ""

    @cached_property
    def _distance(self) -> int:
        """How far it was moved up from where it was linked."""
        linked = min((segment.address for segment in read_elf(self.file).segments), default=0)
        return min((segment.address for segment in self.image.segments), default=0) - linked

    def unload(self) -> None:
        """Give the program's memory back. Its window is closed when the next program is loaded."""
        log = self._driver.port.log
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
        """Take the pages of DRAM that segments lie in, so that no array comes there; refuse harts' own memory."""
        pages: set[tuple[int, int]] = set()
        for segment in self.image.segments:
            if segment.address < TCDM_HART_BASE + TCDM_HART_SIZE and segment.end > TCDM_HART_BASE:
                raise WireError(
                    f"ELF segment at {segment.address:#x}..{segment.end:#x} lies in the harts' own memory, "
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
                    f"ELF segments take device memory at {first:#x}..{last:#x}, which is in use, expected free memory: "
                    f"load the program before arrays are made, or {CURE}"
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
    """Code that brings `given` words in a0, a1, ... to where the C ABI has parameters of these types."""
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
    """Ranges in order, those that touch or overlap as one."""
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
    """`program`, if it is in device memory; else a `RuleError`."""
    if program is None or not program.is_loaded:
        raise RuleError("no program is loaded, expected load_elf before (a new program replaces the old one)")
    return program
