r"""A run of one RV64 program on one hart, from its first instruction to its end.

The result has the text that it printed, its status, and all registers.

>>> from softcard.riscv import RV64, assemble_program
>>> code = ".globl _start; _start: li a0, 6; li a1, 7; mul a0, a0, a1; li a7, 93; ecall"
>>> RV64.run(assemble_program(code.replace("; ", "\n"))).status
42
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Final

from softcard.core.errors import (
    AccessFault,
    BeyondModel,
    GuestFault,
    SoftcardError,
    WireError,
    with_console,
    with_registers,
)
from softcard.core.files import bytes_of
from softcard.core.limits import TimeLimit, checked_time_limit, default_time_limit
from softcard.core.space import PAGE_SIZE
from softcard.engine.riscv.api import CAUSES, ECALL_U, ILLEGAL, LOAD_MISALIGNED, STORE_MISALIGNED, Engine, Exit, Why
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.engine.riscv.tracepoints import registers_of
from softcard.host.run_statistics import RunStatistics
from softcard.host.rv64.calls import Calls, Ended, Exited, HostTarget, OnWrite
from softcard.host.rv64.linux import PROCESS, LinuxCalls
from softcard.host.rv64.memory import STACK_TOP, ProgramMemory
from softcard.image.elf.layout import ProgramHeader
from softcard.image.riscv.kind import loadable
from softcard.image.riscv.program import ElfImage, read_elf
from softcard.isa.riscv import csr, csrnames
from softcard.isa.riscv.decode import unmodelled
from softcard.isa.riscv.isa import ALL, MISALIGNED, Isa, isa_of, of_linux
from softcard.isa.riscv.state import FFLAGS, FRM, RETIRED, F, Hart, U, X

ISA: Final = ALL.name
BASE: Final = 0x1_0000
MAILBOX: Final = "tohost"
ANSWERS: Final = "fromhost"
VLEN: Final = 512
"""The default number of bits of vector registers."""
GAVE_UP: Final = 1337
"""The value by which riscv-tests report an unexpected trap.

Their trap handlers store it, combined with the number of the test, to tohost.
"""
ECALLS: Final = (8, 9, 10, 11)
SIGNATURE: Final = ("begin_signature", "end_signature")
SLICE: Final = 50_000_000
A0, A7, SP = 10, 17, 2
AT_NULL, AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_ENTRY = 0, 3, 4, 5, 6, 9
AT_UID, AT_EUID, AT_GID, AT_EGID, AT_HWCAP, AT_CLKTCK, AT_SECURE, AT_RANDOM, AT_EXECFN = (
    11,
    12,
    13,
    14,
    16,
    17,
    23,
    25,
    31,
)
RANDOM: Final = bytes(range(0x51, 0x61))
"""The sixteen random bytes that C libraries use for stack canaries, equal in every run."""
ENGINES: Final[dict[str, type[ReferenceEngine]]] = {"jit": JitEngine, "reference": ReferenceEngine}
_MASK64: Final = (1 << 64) - 1


class StepLimit(GuestFault):
    """The error for a program that runs for more instructions than allowed."""


@dataclass(frozen=True, slots=True)
class ProgramResult(RunStatistics):
    """The result of a program that ended: its `status`, the text that it printed, and the final registers.

    `x` and `f` are raw bits of the hart's registers. `signature` is the memory from the symbol begin_signature to
    end_signature; b"" if the program lacks these symbols. `time` is the run time on the host in seconds. `interpreted`
    is the number of instructions that were interpreted instead of translated.
    """

    status: int
    console: bytes
    pc: int
    x: tuple[int, ...] = field(repr=False)
    f: tuple[int, ...] = field(repr=False)
    fcsr: int
    instructions: int
    signature: bytes = field(default=b"", repr=False)
    bytes: int = 0
    time: float = field(default=0.0, compare=False)
    interpreted: int = field(default=0, compare=False)

    __repr__ = RunStatistics.__repr__

    @property
    def _name(self) -> str:
        return f"program that ended with {self.status}"

    def signature_text(self, word_bytes: int = 4) -> str:
        """Return the signature as text in the format of riscv-arch-test.

        Each line is a little-endian word of `word_bytes` bytes, in hexadecimal.
        """
        words = (self.signature[at : at + word_bytes] for at in range(0, len(self.signature), word_bytes))
        return "".join(f"{int.from_bytes(word, 'little'):0{2 * word_bytes}x}\n" for word in words)


class RV64:
    """The public class for runs of RV64 programs; see `run`."""

    @staticmethod
    def run(
        source: bytes | str | PathLike[str],
        arguments: Sequence[str] = ("program",),
        *,
        isa: str = ISA,
        vlen: int | None = None,
        stdin: bytes = b"",
        engine: str | Engine = "jit",
        step_limit: int | None = None,
        time_limit_seconds: float | None = None,
        on_write: OnWrite | None = None,
    ) -> ProgramResult:
        """Run an ELF file (its bytes, or its path) from its entry point to its end.

        A file with the symbol ``tohost`` is a bare-metal test. It runs in machine mode with its own trap handler,
        and ends by a store to tohost; the stored value shifted right by one is the status. Other values stored to
        tohost make a system call or print a byte (see `HostTarget`).

        Every other file is a static program for Linux in user mode. It gets a stack with `arguments`, the system
        calls of the module `linux`, and `stdin` as its input. Misaligned loads and stores are allowed.

        `on_write` is called with the file descriptor (1 or 2) and the bytes that the program writes. `isa` is the
        instruction set, and `vlen` the number of bits of a vector register (by default 512, or that of Zvl*b in
        `isa`). `engine` is "jit", "reference", or an engine object, which is closed after the run.

        Errors carry the pc: `GuestFault` for a trap without a handler, `BeyondModel` for an unsupported call,
        `StepLimit` and `TimeLimit`. Their `console` holds the text that the program had printed."""
        if isinstance(engine, str) and engine not in ENGINES:
            raise WireError(f"unknown engine {engine!r}, expected jit or reference")
        data = bytes_of(source, "a RISC-V program")
        image = loadable(read_elf(data), data, BASE)
        made = ENGINES[engine]() if isinstance(engine, str) else engine
        seconds = default_time_limit() if time_limit_seconds is None else checked_time_limit(time_limit_seconds)
        try:
            found, calls = isa_of(isa), (stdin, on_write)
            hart_kind = found, checked_vlen(vlen, found)
            return _Run(image, made, hart_kind, tuple(arguments), calls).result(step_limit, seconds)
        finally:
            made.close()


def checked_vlen(vlen: int | None, isa: Isa) -> int:
    """Return the number of bits of a vector register: `vlen`, or a default if it is None.

    Raise `WireError` if the instruction set `isa` needs longer vector registers.
    """
    if vlen is None:
        return isa.least_vlen or VLEN
    if vlen < isa.least_vlen:
        raise WireError(f"{isa} requires vector registers of {isa.least_vlen} bits or more, but vlen is {vlen}")
    return vlen


class _Run:
    """One run of a program on one hart."""

    def __init__(
        self,
        image: ElfImage,
        engine: Engine,
        hart_kind: tuple[Isa, int],
        arguments: tuple[str, ...],
        calls: tuple[bytes, OnWrite | None],
    ) -> None:
        self._image = image
        self._engine = engine
        found = (image.symbols or {}).get(MAILBOX)
        self._is_bare = found is not None
        self._unexpected: Exit | None = None
        """The last trap that the program took, unless it was a system call."""
        self._memory = memory = ProgramMemory(image.segments, found.address if found else None)
        self._calls = (
            Calls(memory, *calls)
            if self._is_bare
            else LinuxCalls(memory, *calls, lambda: self._hart.retired, lambda: engine.flush_pages(self._hart))
        )
        if self._is_bare:
            self._word_at(MAILBOX)
            memory.on_mail = HostTarget(memory, self._calls, self._word_at(ANSWERS)).handle
        isa, vlen = hart_kind
        if not self._is_bare:
            isa = of_linux(isa)
        self._hart = hart = Hart(0, memory, isa)
        csr.reset(hart, vlen)
        hart.pc = image.entry
        if not self._is_bare:
            hart.privilege = U
            hart.csr[csrnames.SCOUNTEREN] = 0xFFFF_FFFF
            hart.set_x(SP, self._stack(arguments))

    def _word_at(self, name: str) -> int | None:
        """Return the address of the symbol `name` of the host-target interface; None if the file lacks it.

        Raise `WireError` if the address is not in the program's memory.
        """
        symbol = (self._image.symbols or {}).get(name)
        if symbol is None:
            return None
        try:
            self._memory.read(symbol.address, 8)
        except AccessFault as error:
            raise WireError(f"symbol {name} does not lie in the program's memory: {error.message}") from None
        return symbol.address

    def result(self, step_limit: int | None, seconds: float | None) -> ProgramResult:
        hart, start, interpreted = self._hart, time.perf_counter(), self._engine.interpreted
        if seconds is not None:
            self._engine.between_slices = lambda _: self._poll_limits(start, seconds)
        try:
            status = self._status(step_limit)
        except SoftcardError as error:
            raise self._placed(with_console(error, bytes(self._calls.output))) from None
        instructions, words = hart.retired, hart.words
        return ProgramResult(
            status,
            bytes(self._calls.output),
            hart.pc,
            tuple(words[X : X + 32]),
            tuple(words[F : F + 32]),
            words[FRM] << 5 | words[FFLAGS],
            instructions,
            self._signature(),
            time=time.perf_counter() - start,
            interpreted=self._engine.interpreted - interpreted,
        )

    def _status(self, step_limit: int | None) -> int:
        hart = self._hart
        try:
            while True:
                left = SLICE if step_limit is None else step_limit - hart.retired
                if left <= 0:
                    raise StepLimit(f"the program has not ended after {step_limit} instructions (step_limit)")
                if self._engine.between_slices is not None:
                    self._engine.between_slices(hart)
                exit_ = self._engine.run(hart, min(left, SLICE))
                if exit_.why is Why.TRAP:
                    self._trap(exit_)
        except Exited as ended:
            return ended.code
        except Ended as ended:
            hart.words[RETIRED] += 1
            if self._unexpected is not None and (ended.status << 1 | 1) & GAVE_UP == GAVE_UP:
                raise self._unhandled_trap(self._unexpected, ended.status << 1 | 1) from None
            return ended.status

    def _unhandled_trap(self, exit_: Exit, word: int) -> SoftcardError:
        """Return the error for a trap that the program took and could not handle."""
        message = self._message(exit_)
        name = unmodelled(exit_.value) if exit_.cause == ILLEGAL else ""
        if exit_.cause in (LOAD_MISALIGNED, STORE_MISALIGNED):
            message += f"; with the extension {MISALIGNED} in isa these accesses work"
        text = f"the program's trap handler ended the program (tohost = {word:#x}) after {message}"
        failed = BeyondModel(text) if name else GuestFault(text)
        return failed.at("pc", exit_.pc, self._image.name_at(exit_.pc))

    def _trap(self, exit_: Exit) -> None:
        hart = self._hart
        if self._is_bare:
            if hart.csr.get(csrnames.MTVEC, 0) & ~3:
                self._unexpected = None if exit_.cause in ECALLS else exit_
                return
        elif exit_.cause == ECALL_U:
            hart.privilege, hart.pc = U, exit_.pc
            hart.words[RETIRED] += 1
            hart.set_x(A0, self._calls.call(hart.x(A7), *(hart.x(A0 + n) for n in range(6))))
            hart.pc = exit_.pc + 4
            return
        hart.pc = exit_.pc
        known = exit_.error if isinstance(exit_.error, SoftcardError) else None
        failed = GuestFault(self._message(exit_), rule=known.rule if known else None)
        raise with_registers(failed, registers_of(hart, exit_.pc, exit_.instruction))

    def _message(self, exit_: Exit) -> str:
        cause = CAUSES.get(exit_.cause, f"cause {exit_.cause}")
        known = exit_.error if isinstance(exit_.error, SoftcardError) else None
        detail = known.message if known else exit_.detail
        if not self._is_bare and "requires privilege" in detail:
            detail += f"; a program with the symbol {MAILBOX} starts in machine mode"
        shown = f" ({exit_.instruction})" if exit_.instruction else ""
        return (detail if detail.startswith(cause) else f"{cause}: {detail}") + shown

    def _poll_limits(self, start: float, seconds: float) -> None:
        if time.perf_counter() - self._engine.compiling_seconds - start > seconds:
            raise TimeLimit(f"the program did not end within {seconds:g} s (time_limit_seconds)")

    def _placed(self, error: SoftcardError) -> SoftcardError:
        if any(place.kind == "pc" for place in error.path):
            return error
        return error.at("pc", self._hart.pc, self._image.name_at(self._hart.pc))

    def _signature(self) -> bytes:
        symbols = self._image.symbols or {}
        if not all(name in symbols for name in SIGNATURE):
            return b""
        first, end = (symbols[name].address for name in SIGNATURE)
        return self._memory.read(first, end - first) if end > first else b""

    def _stack(self, arguments: tuple[str, ...]) -> int:
        """Write the initial stack of a process, and return its address.

        It holds the number of arguments, the arguments, the environment, and the auxiliary vector.
        """
        at = random = STACK_TOP - len(RANDOM)
        self._memory.write(random, RANDOM)
        places = []
        for text in arguments:
            data = text.encode("utf-8", "surrogateescape") + b"\0"
            at -= len(data)
            self._memory.write(at, data)
            places.append(at)
        image = self._image
        letters = (each for each in self._hart.isa.extensions if len(each) == 1)
        vector = {
            AT_PHDR: image.headers_at,
            AT_PHENT: ProgramHeader.size_bytes,
            AT_PHNUM: image.num_headers,
            AT_PAGESZ: PAGE_SIZE,
            AT_ENTRY: image.entry,
            **dict.fromkeys((AT_UID, AT_EUID, AT_GID, AT_EGID), PROCESS),
            AT_HWCAP: sum(1 << ord(each) - ord("A") for each in letters),
            AT_CLKTCK: 100,
            AT_SECURE: 0,
            AT_RANDOM: random,
            AT_EXECFN: places[0] if places else random,
            AT_NULL: 0,
        }
        words = [len(places), *places, 0, 0, *(word for pair in vector.items() for word in pair)]
        at = (at - 8 * len(words)) & ~15
        self._memory.write(at, b"".join((word & _MASK64).to_bytes(8, "little") for word in words))
        return at
