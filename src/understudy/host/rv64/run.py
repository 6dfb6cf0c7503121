"""One RV64 program from its first instruction to its end, on one hart: what it printed, its status, all registers.

>>> from understudy.riscv import RV64, assemble_program
>>> code = ".globl _start; _start: li a0, 6; li a1, 7; mul a0, a0, a1; li a7, 93; ecall"
>>> RV64.run(assemble_program(code.replace("; ", "\\n"))).status
42
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Final

from understudy.core.errors import AccessFault, GuestFault, UnderstudyError, WireError
from understudy.core.limits import TimeLimit, checked_time_limit, default_time_limit
from understudy.core.registers import with_registers
from understudy.core.sources import bytes_of
from understudy.core.took import Took
from understudy.engine.riscv.api import Engine
from understudy.engine.riscv.jit.engine import JitEngine
from understudy.engine.riscv.moments import registers_of
from understudy.engine.riscv.reference import ReferenceEngine
from understudy.engine.riscv.stops import CAUSES, ECALL_U, Exit, Why
from understudy.host.rv64.calls import Calls, Exited, OnWrite
from understudy.host.rv64.htif import Ended, HostTarget
from understudy.host.rv64.memory import STACK_TOP, ProgramMemory
from understudy.image.riscv.kind import loadable
from understudy.image.riscv.program import ElfImage, read_elf
from understudy.isa.riscv import csr, csrnames
from understudy.isa.riscv.isa import ALL, Isa, isa_of
from understudy.isa.riscv.state import FFLAGS, FRM, RETIRED, F, Hart, U, X

ISA: Final = ALL.name
BASE: Final = 0x1_0000
MAILBOX: Final = "tohost"
ANSWERS: Final = "fromhost"
VLEN: Final = 512
"""Bits of vector registers, unless somebody asks for others."""
SIGNATURE: Final = ("begin_signature", "end_signature")
SLICE: Final = 50_000_000
A0, A7, SP = 10, 17, 2
AT_NULL, AT_PAGESZ, AT_RANDOM = 0, 6, 25
ENGINES: Final[dict[str, type[ReferenceEngine]]] = {"jit": JitEngine, "reference": ReferenceEngine}
_MASK64: Final = (1 << 64) - 1


class StepLimit(GuestFault):
    """A program ran for more instructions than it was allowed."""


@dataclass(frozen=True, slots=True)
class ProgramResult(Took):
    """A program that ended: its `status`, what it printed, and the hart's registers then.

    `x` and `f` are raw bits; `signature` is the memory from begin_signature to end_signature, b"" where the program has
    no such symbols. `time` is the host's, in seconds.
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

    __repr__ = Took.__repr__

    @property
    def _name(self) -> str:
        return f"program that ended with {self.status}"

    def signature_text(self, word_bytes: int = 4) -> str:
        """The signature as riscv-arch-test has it: a little-endian word of so many bytes a line, in hexadecimal."""
        words = (self.signature[at : at + word_bytes] for at in range(0, len(self.signature), word_bytes))
        return "".join(f"{int.from_bytes(word, 'little'):0{2 * word_bytes}x}\n" for word in words)


class RV64:
    """Runs RV64 programs."""

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

        A file with the symbol ``tohost`` is a bare-metal test: it runs in machine mode, takes its own traps, and ends
        by a store to tohost, whose value shifted right by one is the status; other words there do a call or show a
        byte (see `htif`). Every other one is a static program of Linux in user mode: it gets a stack with `arguments`,
        and the calls read (of `stdin`), write, writev, brk and exit; `on_write` is called with 1 or 2 and the bytes.
        `isa` says which instructions there are, `vlen` how many bits a vector register has (512, or what Zvl*b of `isa`
        says), `engine` is "jit", "reference", or an engine, which is closed then. What goes wrong is an error with the
        pc: `GuestFault` for a trap that nobody takes, `BeyondModel` for another call, `StepLimit` and `TimeLimit`.
        """
        if isinstance(engine, str) and engine not in ENGINES:
            raise WireError(f"no engine {engine!r}, expected jit or reference")
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
    """The bits of a vector register; `WireError` for fewer than the instruction set asks for."""
    if vlen is None:
        return isa.least_vlen or VLEN
    if vlen < isa.least_vlen:
        raise WireError(f"{isa} asks for vector registers of {isa.least_vlen} bits, vlen is {vlen}")
    return vlen


class _Run:
    """One program on one hart."""

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
        self._memory = memory = ProgramMemory(image.segments, found.address if found else None)
        self._calls = Calls(memory, *calls)
        if self._is_bare:
            self._word_at(MAILBOX)
            memory.on_mail = HostTarget(memory, self._calls, self._word_at(ANSWERS)).told
        isa, vlen = hart_kind
        self._hart = hart = Hart(0, memory, isa)
        csr.reset(hart, vlen)
        hart.pc = image.entry
        if not self._is_bare:
            hart.privilege = U
            hart.csr[csrnames.SCOUNTEREN] = 0xFFFF_FFFF
            hart.set_x(SP, self._stack(arguments))

    def _word_at(self, name: str) -> int | None:
        """The address of a symbol of the host's; `WireError` where no word of memory is there."""
        symbol = (self._image.symbols or {}).get(name)
        if symbol is None:
            return None
        try:
            self._memory.read(symbol.address, 8)
        except AccessFault as error:
            raise WireError(f"symbol {name} at {symbol.address:#x}: {error.message}") from None
        return symbol.address

    def result(self, step_limit: int | None, seconds: float | None) -> ProgramResult:
        hart, start = self._hart, time.perf_counter()
        if seconds is not None:
            self._engine.between_slices = lambda _: self._look(start, seconds)
        try:
            status = self._status(step_limit)
        except UnderstudyError as error:
            raise self._placed(error) from None
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
            return ended.status

    def _trap(self, exit_: Exit) -> None:
        hart = self._hart
        if self._is_bare:
            if hart.csr.get(csrnames.MTVEC, 0) & ~3:
                return
        elif exit_.cause == ECALL_U:
            hart.privilege, hart.pc = U, exit_.pc
            hart.words[RETIRED] += 1
            hart.set_x(A0, self._calls.call(hart.x(A7), hart.x(A0), hart.x(A0 + 1), hart.x(A0 + 2)))
            hart.pc = exit_.pc + 4
            return
        hart.pc = exit_.pc
        cause = CAUSES.get(exit_.cause, f"cause {exit_.cause}")
        known = exit_.error if isinstance(exit_.error, UnderstudyError) else None
        detail = known.message if known else exit_.detail
        if not self._is_bare and "needs privilege" in detail:
            detail += f"; a program with the symbol {MAILBOX} begins in machine mode"
        shown = f" ({exit_.instruction})" if exit_.instruction else ""
        message = (detail if detail.startswith(cause) else f"{cause}: {detail}") + shown
        failed = GuestFault(message, rule=known.rule if known else None)
        raise with_registers(failed, registers_of(hart, exit_.pc, exit_.instruction))

    def _look(self, start: float, seconds: float) -> None:
        if time.perf_counter() - start > seconds:
            raise TimeLimit(f"the program did not end within {seconds:g} s (time_limit_seconds)")

    def _placed(self, error: UnderstudyError) -> UnderstudyError:
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
        """The stack of a fresh process: count, arguments, environment, auxiliary vector; gives where it begins."""
        at = STACK_TOP - 16
        random = at
        places = []
        for text in arguments:
            data = text.encode("utf-8", "surrogateescape") + b"\0"
            at -= len(data)
            self._memory.write(at, data)
            places.append(at)
        words = [len(places), *places, 0, 0, AT_PAGESZ, 4096, AT_RANDOM, random, AT_NULL, 0]
        at = (at - 8 * len(words)) & ~15
        self._memory.write(at, b"".join((word & _MASK64).to_bytes(8, "little") for word in words))
        return at
