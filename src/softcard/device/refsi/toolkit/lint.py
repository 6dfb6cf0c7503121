"""A linter of command buffers, which finds mistakes without running them.

A buffer is checked alone. Registers and windows may have been set by an earlier buffer, so a missing command is a
warning. A violation of the RefSi M1 specification, or a command that is known to abort a buffer, is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from softcard.core.diagnostics import Diagnostic
from softcard.core.display import RichDisplay, Rows
from softcard.core.errors import WireError
from softcard.core.findings import Level
from softcard.core.rule import Rule
from softcard.core.space import PAGE_SIZE
from softcard.device.refsi import rules
from softcard.device.refsi.commands import (
    CHUNK_BYTES,
    COMMANDS,
    HEADER,
    UNIT,
    CacheFlags,
    Command,
    CopyMem64,
    Finish,
    LoadReg64,
    Nop,
    RunInstances,
    RunKernelSlice,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
)
from softcard.device.refsi.registers import (
    CMP,
    DMA,
    DMA_BASE,
    DMA_CTRL,
    DMA_SIZE,
    ENTRY_PT_FN,
    FIRST_WINDOW_REGISTER,
    KARGS_INFO,
    KUB_DESC,
    M1_HARTS,
    M1_MAP,
    NUM_WINDOWS,
    PERF_COUNTERS_BASE,
    PERF_COUNTERS_SIZE,
    REGISTER_BYTES,
    RETURN_ADDR,
    STACK_TOP,
    TCDM_HART_SIZE,
    TSD_INFO,
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_SCALE,
    WINDOW_TARGET,
    MemoryKind,
)
from softcard.device.refsi.toolkit.builder import KUB_UNIT_BYTES
from softcard.device.refsi.toolkit.listing import Line, lines, register_name

# ---- state of the linter ---------------------------------------------------------------------------------------------
# The state that the linter tracks through a command buffer, and the checks on it. See `lint`.


Found = Iterator[tuple[str, str, Rule | None]]
"""The findings about one command, as (name of the check, message, rule)."""

STACK_ALIGNMENT: Final = 16
PER_HART, PER_CORE, RESERVED_MODE = 1, 2, 3
_MEMORY: Final = (MemoryKind.DRAM, MemoryKind.TCDM, MemoryKind.TCIM)
_REGISTER_AREAS: Final = ((DMA_BASE, DMA_SIZE), (PERF_COUNTERS_BASE, PERF_COUNTERS_SIZE))


@dataclass(frozen=True, slots=True)
class _Window:
    """An open window as the registers describe it."""

    number: int
    base: int
    target: int
    size: int
    mode: int

    @property
    def end(self) -> int:
        return self.base + self.size


class Walk:
    """The state of the linter while it checks the commands of one buffer in order.

    It holds the registers that the buffer has written, open windows, and whether a DMA transfer is
    outstanding. It also holds whether a kernel has run since the last SYNC_CACHE of the data cache."""

    def __init__(self, harts: int, profile: str) -> None:
        self.harts = harts
        self.profile = profile
        self.registers: dict[int, int] = {}
        self.windows: dict[int, _Window] = {}
        self.dma_pending = False
        self.kernel_unsynced = False
        self.kernel_ran = False
        self.stale_window: int | None = None

    def step(self, command: Command) -> Found:
        """Yield the findings about the next command, and update the state with its effects."""
        match command:
            case WriteReg64(number, value):
                yield from self._write(number, value)
            case LoadReg64(number, address):
                yield from self._load(number, address)
            case StoreReg64(number, address):
                yield from _register(number)
                yield from self._access(address, CHUNK_BYTES, "DST_ADDR", rules.STORE_ADDRESS)
                self._dma_store(address, None)
            case StoreImm64(address, value):
                yield from self._access(address, CHUNK_BYTES, "DST_ADDR_LO", rules.STORE_IMM_ADDRESS)
                yield from self._dma_control(address, value)
                self._dma_store(address, value)
            case CopyMem64(count, source, target, unit):
                yield from self._copy(count, source, target, unit)
            case RunKernelSlice(max_harts, instances, _):
                yield from self._slice(max_harts)
                yield from self._run(max_harts, instances)
            case RunInstances(max_harts, instances, _):
                yield from self._run(max_harts, instances)
                self.kernel_unsynced |= bool(instances)
            case SyncCache(flags):
                if flags & CacheFlags.CMP_CACHE_SYNC_ACC_DCACHE:
                    self.kernel_unsynced, self.stale_window = False, None

    def end(self) -> Found:
        """Yield a finding if the buffer ends without a wait for a DMA transfer that it started."""
        if self.dma_pending:
            yield (
                "dma-wait",
                "the buffer ends without a wait for its last DMA transfer",
                rules.SCRATCH_DMA_WAIT,
            )

    # ---- registers -----------------------------------------------------------------------------------------------

    def _write(self, number: int, value: int) -> Found:
        bad = list(_register(number))
        yield from bad
        if bad:
            return
        register, index = CMP.find(number, "w")
        if register is ENTRY_PT_FN and register.reserved_bits(value):
            text = f"entry point {value:#x} does not fit 32 bits, expected bits 63-32 to be 0"
            yield "entry-32-bit", text, rules.ENTRY_32_BIT
        elif register.reserved_bits(value):
            text = f"reserved bits {register.reserved_bits(value):#x} of {register.element(index)} are set, expected 0"
            yield "register-reserved", text, None
        if register is STACK_TOP and value % STACK_ALIGNMENT:
            yield (
                "stack-alignment",
                f"stack top {value:#x} is not a multiple of 16, as the RISC-V calling convention requires",
                None,
            )
        before = self.registers.get(number)
        self.registers[number] = value
        if number >= FIRST_WINDOW_REGISTER:
            yield from self._window(number, before)

    def _load(self, number: int, address: int) -> Found:
        yield from _register(number)
        yield from self._access(address, CHUNK_BYTES, "SRC_ADDR", rules.LOAD_ADDRESS)
        yield from self._reads("LOAD_REG64")
        self.registers.pop(number, None)
        if FIRST_WINDOW_REGISTER <= number < FIRST_WINDOW_REGISTER + 4 * NUM_WINDOWS:
            text = f"{register_name(number)} is loaded from memory: the reference driver then does not move the window"
            yield "window-load", text, rules.LOAD_REG64
            self.windows.pop(number % NUM_WINDOWS, None)

    # ---- windows -------------------------------------------------------------------------------------------------

    def _window(self, number: int, before: int | None) -> Found:
        index = number % NUM_WINDOWS
        changed = before != self.registers[number]
        is_mode = WINDOW_MODE.offset <= number < WINDOW_MODE.offset + NUM_WINDOWS
        if self.kernel_ran and changed:
            self.stale_window = index
        if not is_mode:
            if index in self.windows and changed:
                text = (
                    f"{register_name(number)} is written while window {index} is active: the reference driver closes "
                    "the window, expected BASE, TARGET and SCALE before MODE"
                )
                yield "window-order", text, rules.WINDOW_ACTIVE
            return
        yield from _mode_fields(self.registers[number])
        self.windows.pop(index, None)
        if not WINDOW_MODE.get(self.registers[number], "ACTIVE"):
            return
        base, target = (self.registers.get(r.offset + index) for r in (WINDOW_BASE, WINDOW_TARGET))
        if base is None or target is None:
            text = f"window {index} is activated before this buffer has written its BASE and TARGET"
            yield "window-order", text, rules.WINDOW_ACTIVE
            return
        mode = WINDOW_MODE.decode(self.registers[number])
        yield from self._open(_Window(index, base, target, mode["SIZE"] + 1, mode["MODE"]))

    def _open(self, window: _Window) -> Found:
        here = f"window {window.number}"
        for name, value in (("base", window.base), ("target", window.target), ("size", window.size)):
            if value % PAGE_SIZE:
                text = (
                    f"{here} has a {name} of {value:#x}: harts map memory in pages of 4 KiB, so accesses around its "
                    "ends may succeed"
                )
                yield "window-alignment", text, None
        for low, high, name in (*self._areas(), *self._open_windows()):
            if window.base < high and low < window.end:
                text = f"{here} at {window.base:#x}..{window.end:#x} overlaps {name} at {low:#x}..{high:#x}"
                yield "window-overlap", text, rules.MEMORY_OVERLAP
        areas = [(low, high) for low, high, _ in self._areas() if low <= window.target < high]
        scale = self._scale(window) if window.mode == PER_HART else 0
        last = window.target + scale * (self.harts - 1) + window.size
        if not areas:
            yield (
                "window-target",
                f"{here} has target {window.target:#x}, where there is no memory",
                rules.WINDOW_TARGET,
            )
        elif last > areas[0][1]:
            text = f"{here} reaches up to {last:#x}, past the end of its target memory at {areas[0][1]:#x}"
            yield "window-target", text, rules.WINDOW_TARGET
        if window.mode == PER_HART and scale < window.size:
            text = f"{here} is PER_HART with {window.size:#x} bytes every {scale:#x}: the areas of harts overlap"
            yield "window-scale", text, rules.WINDOW_PER_HART
        self.windows[window.number] = window

    def _scale(self, window: _Window) -> int:
        fields = WINDOW_SCALE.decode(self.registers.get(WINDOW_SCALE.offset + window.number, 0))
        if not fields["SCALE_A"]:
            return 0
        exponent = fields["SCALE_A"] - (0 if self.profile == "spec" else 1)
        return (fields["SCALE_B"] + 1) << exponent

    def _areas(self) -> Iterator[tuple[int, int, str]]:
        yield from ((entry.base, entry.end, entry.kind.name) for entry in M1_MAP)

    def _open_windows(self) -> Iterator[tuple[int, int, str]]:
        yield from ((window.base, window.end, f"window {window.number}") for window in self.windows.values())

    # ---- memory --------------------------------------------------------------------------------------------------

    def _access(self, address: int, size: int, field: str, rule: Rule) -> Found:
        for base, length in _REGISTER_AREAS:
            if base < address + size and address < base + length:
                yield from _register_access(address, field)
                return
        for low, high, name in (*self._areas(), *self._open_windows()):
            if low <= address < high:
                if address + size > high:
                    yield "address", f"{field} {address:#x} with {size:#x} bytes exceeds the end of {name}", rule
                return
        text = f"{field} {address:#x} is in no memory and in no window that this buffer opens"
        yield "address", text, rule

    def _copy(self, count: int, source: int, target: int, unit: int) -> Found:
        if source % CHUNK_BYTES:
            text = f"SRC_ADDR {source:#x} is not a multiple of 8: the reference driver aborts the buffer"
            yield "copy-alignment", text, rules.COPY_ADDRESS
        size = count * CHUNK_BYTES
        yield from self._reads("COPY_MEM64")
        kind, index = UNIT.get(unit, "KIND"), UNIT.get(unit, "INDEX")
        counters = PERF_COUNTERS_BASE <= source < PERF_COUNTERS_BASE + PERF_COUNTERS_SIZE
        if counters and kind != 3:
            text = f"counters are read as unit {unit:#x}, expected a hart (kind 3), which each counter belongs to"
            yield "counter-unit", text, rules.COPY_UNIT
        if kind == 3 and index >= self.harts:
            yield "counter-unit", f"UNIT names hart {index}, but the device has {self.harts} harts", rules.COPY_UNIT
        for field, address in (("SRC_ADDR", source), ("DST_ADDR", target)):
            inside = [(low, high) for low, high, _ in self._areas() if low <= address < high]
            if inside and address + size > inside[0][1]:
                text = f"{size:#x} bytes at {field} {address:#x} exceed the end of the memory at {inside[0][1]:#x}"
                yield "copy-range", text, rules.COPY_ADDRESS
            elif count:
                yield from self._access(address, CHUNK_BYTES, field, rules.COPY_ADDRESS)

    def _reads(self, what: str) -> Found:
        if self.kernel_unsynced:
            text = f"{what} reads memory after RUN_INSTANCES without a SYNC_CACHE of the data cache between"
            yield "kernel-sync", text, rules.RUN_NO_FLUSH
            self.kernel_unsynced = False  # one finding per kernel is enough

    # ---- DMA -----------------------------------------------------------------------------------------------------

    def _dma_control(self, address: int, value: int) -> Found:
        if address != DMA_BASE + DMA_CTRL.offset * REGISTER_BYTES:
            return
        if DMA_CTRL.reserved_bits(value):
            text = f"reserved bits {DMA_CTRL.reserved_bits(value):#x} of DMACTRL are set"
            yield "dma-control", text, rules.DMA_CTRL_RESERVED
        fields = DMA_CTRL.decode(value)
        if not fields["START"]:
            return
        if fields["DIM"] == 0:
            yield "dma-control", "a transfer is started with dimension 0", rules.DMA_DIMENSION
        if fields["DIM"] == 1 and (fields["STRIDE_DST"] or fields["STRIDE_SRC"]):
            yield "dma-control", "a 1D transfer is started with strides", rules.DMA_STRIDE_1D
        if fields["DIM"] == 3 and not (fields["STRIDE_DST"] and fields["STRIDE_SRC"]):
            text = "a 3D transfer does not use both strides: the reference driver lets its third dimension overlap"
            yield "dma-planes", text, rules.DMA_SEQUENTIAL
        yield from self._reads("the DMA transfer")
        self.dma_pending = True

    def _dma_store(self, address: int, value: int | None) -> None:
        if address == DMA_BASE + DMA.offset_of("DMADONESEQ") * REGISTER_BYTES:
            self.dma_pending = False

    # ---- kernels -------------------------------------------------------------------------------------------------

    def _run(self, max_harts: int, instances: int) -> Found:
        self.kernel_ran = True
        if max_harts > self.harts:
            text = (
                f"MAX_HARTS {max_harts} exceeds the device's {self.harts} harts: the reference driver crashes its host"
            )
            yield "max-harts", text, rules.RUN_MAX_HARTS
        if not instances:
            yield "no-instances", "NUM_INSTANCES is 0: nothing runs", None
        missing = [r.name for r in (ENTRY_PT_FN, STACK_TOP, RETURN_ADDR) if r.offset not in self.registers]
        if missing:
            text = f"this buffer does not set {', '.join(missing)} before the kernel runs"
            yield "run-registers", text, rules.RUN_REGISTERS
        if self.registers.get(RETURN_ADDR.offset) == 0:
            text = "CMP_RETURN_ADDR is 0 when the kernel runs, expected the address of code that ends the hart"
            yield "run-registers", text, rules.RUN_REGISTERS
        if self.registers.get(ENTRY_PT_FN.offset) == 0:
            yield "entry-zero", "CMP_ENTRY_PT_FN is 0 when the kernel runs", rules.ENTRY_SET
        if self.dma_pending:
            yield "dma-wait", "a kernel runs while a DMA transfer is not waited for", rules.SCRATCH_DMA_WAIT
            self.dma_pending = False
        if self.stale_window is not None:
            text = (
                f"window {self.stale_window} was changed after a kernel ran, without a SYNC_CACHE of the data cache: "
                "harts may still use the old mapping"
            )
            yield "window-sync", text, rules.SYNC_INVALIDATE
            self.stale_window = None
        yield from self._stack(max_harts, instances)

    def _stack(self, max_harts: int, instances: int) -> Found:
        top = self.registers.get(STACK_TOP.offset)
        alone = max_harts == 1 or instances == 1
        if not top or alone:
            return
        if any(low < top <= high for low, high, name in self._areas() if MemoryKind[name] in _MEMORY):
            text = f"stack top {top:#x} is plain memory: all harts share one stack, expected a PER_HART window"
            yield "stack-shared", text, rules.STACK_TOP

    def _slice(self, max_harts: int) -> Found:
        kub, kargs, tsd = (self.registers.get(r.offset) for r in (KUB_DESC, KARGS_INFO, TSD_INFO))
        size = KUB_UNIT_BYTES * KUB_DESC.get(kub, "KUB_SIZE") if kub is not None else None
        parts = ((kargs, KARGS_INFO, "KARGS", rules.KARGS_SET), (tsd, TSD_INFO, "TSD", rules.KUB_SIZE_UNIT))
        for value, register, name, rule in parts:
            if value is None or not register.get(value, f"{name}_SIZE"):
                continue
            end = register.get(value, f"{name}_OFFSET") + register.get(value, f"{name}_SIZE")
            if size is None:
                yield "kub-missing", f"{register.name} is set, but this buffer does not set CMP_KUB_DESC", rule
            elif end > size:
                text = f"{name} ends at {end:#x}, past the {size:#x} bytes of the Kernel Uniform Block"
                yield "kub-range", text, rules.KUB_SIZE_UNIT
        share = TCDM_HART_SIZE // min(max_harts or self.harts, self.harts)
        if tsd is not None and TSD_INFO.get(tsd, "TSD_SIZE") > share:
            text = (
                f"TSD_SIZE {TSD_INFO.get(tsd, 'TSD_SIZE'):#x} exceeds the {share:#x} bytes of TCDM that each hart has"
            )
            yield "tsd-share", text, rules.TSD_OWN_COPY


def _register(number: int) -> Found:
    try:
        CMP.find(number, "w")
    except WireError:
        text = f"there is no CMP register {number}, expected 0 .. 6 or 8 .. 39"
        yield "register", text, rules.REG_IDX


def _mode_fields(value: int) -> Found:
    fields = WINDOW_MODE.decode(value)
    if WINDOW_MODE.reserved_bits(value):
        text = f"reserved bits {WINDOW_MODE.reserved_bits(value):#x} of the window's MODE register are set"
        yield "register-reserved", text, rules.WINDOW_RESERVED
    if fields["MODE"] == RESERVED_MODE:
        yield "window-mode", "window mode 3 is reserved", rules.WINDOW_MODE_RESERVED
    if fields["MODE"] == PER_CORE:
        yield "window-per-core", "the reference driver aborts at window mode PER_CORE", rules.WINDOW_PER_CORE
    if fields["INTERLEAVE"] or fields["STRIDE"]:
        text = "the reference driver ignores INTERLEAVE and STRIDE"
        yield "window-interleave", text, rules.WINDOW_INTERLEAVE


def _register_access(address: int, field: str) -> Found:
    if address % REGISTER_BYTES:
        text = f"{field} {address:#x} is inside a memory-mapped register, expected a multiple of 8"
        yield "register-access", text, rules.REGISTER_WHOLE
        return
    number = (address - DMA_BASE) // REGISTER_BYTES
    if any(number in span for span in DMA.reserved):
        yield "register-access", f"{field} {address:#x} is not a DMA register", rules.DMA_REGISTER


# ---- linter ----------------------------------------------------------------------------------------------------------


__all__ = ["CHECKS", "Finding", "Severity", "lint"]


class Severity(Enum):
    """The severity of a finding."""

    ERROR = "error"
    """The severity of a command that violates the RefSi M1 specification, or is known to abort the buffer."""
    WARNING = "warning"
    """The severity of a likely mistake, or of a point on which specification and reference driver differ."""
    NOTE = "note"
    """The severity of mere information."""


@dataclass(frozen=True, slots=True)
class Finding(RichDisplay):
    """One mistake: its severity, the check that found it, its location (byte offset, chunk, command) and its rule."""

    severity: Severity
    check: str
    offset: int
    command: str
    message: str
    rule: Rule | None = None

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> Rows:
        yield ()
        yield "severity", self.severity.value
        yield "check", self.check
        yield "place", f"byte {self.offset:#x}, chunk {self.chunk}"
        yield "command", self.command
        yield "rule", f"{self.rule.id}: {self.rule.text} ({self.rule.clause})" if self.rule else ""

    @property
    def chunk(self) -> int:
        """The index of the chunk that contains byte `offset`."""
        return self.offset // CHUNK_BYTES

    def diagnostic(self) -> Diagnostic:
        """Return the finding as a diagnostic."""
        where = f"byte {self.offset:#x}, chunk {self.chunk}" + (f" ({self.command})" if self.command else "")
        level = Level(self.severity.value)
        return Diagnostic(level, self.check, self.message, where, byte=self.offset, kernel=self.command, rule=self.rule)

    def __str__(self) -> str:
        what = f" ({self.command})" if self.command else ""
        clause = f" [{self.rule.id}: {self.rule.clause}]" if self.rule else ""
        place = f"at byte {self.offset:#x}, chunk {self.chunk}{what}"
        return f"{self.severity.value}: {self.check}: {self.message}, {place}{clause}"


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

CHECKS: Final[dict[str, Severity]] = {
    # undecodable chunks
    "header-packet-id": _E,
    "header-reserved": _E,
    "header-opcode": _E,
    "header-count": _E,
    "chunks": _E,
    "zero-extension": _E,
    "copy-unit": _E,
    "sync-flags": _E,
    "trailing-bytes": _E,
    # the order of commands
    "nop": _N,
    "finish-missing": _W,
    "chunks-after-finish": _W,
    # registers
    "register": _E,
    "register-reserved": _W,
    "entry-32-bit": _E,
    # memory commands
    "address": _W,
    "register-access": _E,
    "copy-alignment": _W,
    "copy-range": _E,
    "counter-unit": _E,
    # windows
    "window-order": _W,
    "window-load": _W,
    "window-mode": _E,
    "window-per-core": _W,
    "window-interleave": _W,
    "window-alignment": _W,
    "window-target": _E,
    "window-overlap": _E,
    "window-scale": _W,
    "window-sync": _W,
    # kernels
    "max-harts": _E,
    "no-instances": _N,
    "run-registers": _W,
    "entry-zero": _E,
    "stack-alignment": _W,
    "stack-shared": _W,
    "kernel-sync": _W,
    "kub-range": _E,
    "kub-missing": _W,
    "tsd-share": _E,
    # DMA
    "dma-control": _E,
    "dma-planes": _W,
    "dma-wait": _W,
}
"""Every check by name, with the severity of its findings."""


def lint(data: bytes, *, harts: int = M1_HARTS, profile: str = "spec") -> list[Finding]:
    """Return the findings of a command buffer in the order of their offsets. The buffer is not run.

    Any bytes are valid input. `harts` is the number of harts of the device. `profile` ("spec" or "refsidrv") matters
    for the scaling factor of windows, which the RefSi M1 specification and the reference driver interpret differently.
    """
    findings: list[Finding] = []
    all_lines = list(lines(data))
    walk = Walk(harts, profile)
    finish = None
    for line in all_lines:
        if finish is not None:
            findings.append(
                _finding(
                    "chunks-after-finish", line.offset, "", f"{_rest(all_lines, line)}, since FINISH comes before them"
                )
            )
            break
        if line.error is not None:
            found = _undecodable(line)
            findings.append(found)
            finish = line if found.command == "FINISH" else None
        elif line.command is None:
            if line.text.startswith(".byte"):
                findings.append(_finding("trailing-bytes", line.offset, "", line.comment, rules.CHUNKS))
        else:
            name = line.command.opcode.name
            if isinstance(line.command, Nop):
                findings.append(_finding("nop", line.offset, name, "the document has no opcode 0"))
            findings += (
                _finding(check, line.offset, name, text, rule) for check, text, rule in walk.step(line.command)
            )
            finish = line if isinstance(line.command, Finish) else None
    end = finish.offset if finish else len(data) // CHUNK_BYTES * CHUNK_BYTES
    if finish is None:
        message = "the buffer does not end with FINISH (the reference driver executes it to the end of its size)"
        findings.append(_finding("finish-missing", end, "", message, rules.FINISH_END))
    findings += (_finding(check, end, "", text, rule) for check, text, rule in walk.end())
    return sorted(findings, key=lambda finding: finding.offset)


def _finding(check: str, offset: int, command: str, message: str, rule: Rule | None = None) -> Finding:
    return Finding(CHECKS[check], check, offset, command, message, rule)


def _undecodable(line: Line) -> Finding:
    error = line.error
    assert isinstance(error, WireError)
    check = error.rule.id.partition("/")[2] if error.rule else "chunks"
    opcode = HEADER.get(int.from_bytes(line.data[:CHUNK_BYTES], "little"), "OPCODE")
    kind = COMMANDS.get(opcode)
    name = kind.opcode.name if kind and check not in ("header-packet-id", "header-reserved") else ""
    return _finding(check, line.offset, name, error.message, error.rule)


def _rest(all_lines: list[Line], first: Line) -> str:
    count = (all_lines[-1].offset - first.offset + len(all_lines[-1].data)) // CHUNK_BYTES
    return f"the last {count} chunks of the command buffer are never read"
