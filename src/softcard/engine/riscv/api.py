"""The interface of an engine to its device, and the reasons for which an engine stops running a hart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from softcard.engine.hooks import Executions
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.format import REGISTERS
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import Hart

# ---- reasons to stop -------------------------------------------------------------------------------------------------
# The reasons for which an engine returns a hart.


class Why(Enum):
    """The reason of an `Exit` from an engine."""

    FUEL = "fuel"
    """The fuel is used up; exactly that many instructions retired."""
    RETURN = "return"
    """The pc has reached the hart's return address; nothing there was executed."""
    WAIT = "wait"
    """A wfi retired, or the hart has reached its limit of polls.

    A device should run other harts next, since this hart waits for them. Running this hart again at once is allowed.
    """
    ALONE = "alone"
    """The instruction at pc is an atomic or a fence, and the hart runs in parallel with others.

    The instruction has not begun, and must run while the other harts do not (see `state.SHARED`).
    """
    TRAP = "trap"
    """An instruction trapped and did not retire.

    mcause, mepc, mtval and mstatus are set as the hart's trap entry does, and pc is at the trap vector.
    """


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a hart's time slice on an engine; `why` is the reason.

    - `pc`: the address of the instruction concerned (for a trap: the trapping instruction).
    - `cause` and `value`: mcause and mtval of a trap.
    - `detail`: a sentence for people.
    - `error`: the error that the memory or the decoder raised.
    - `insn`: the instruction that trapped, or None if it could not be fetched.
    - `base`: the value of the register rs1 of `insn`."""

    why: Why
    pc: int
    cause: int = 0
    value: int = 0
    detail: str = ""
    error: Exception | None = None
    insn: Insn | None = None
    base: int = 0

    @property
    def instruction(self) -> str:
        """The text of the instruction that trapped, with its base register if an access failed; "" if unknown."""
        if self.insn is None:
            return ""
        words = text(self.insn, self.pc)
        return f"{words}, {REGISTERS[self.insn.rs1]} = {self.base:#x}" if self.cause in DATA_CAUSES else words


class Trap(Exception):
    """A synchronous exception, raised by an instruction's semantics and caught by the engine's loop."""

    def __init__(self, cause: int, value: int = 0, error: Exception | None = None) -> None:
        super().__init__(cause, value)
        self.cause = cause
        self.value = value
        self.error = error


class Alone(Exception):
    """Raised if an instruction that synchronises harts is reached while others run: see `Why.ALONE`."""


# Causes of the privileged architecture, table "mcause values after trap".
FETCH_MISALIGNED = 0
FETCH_ACCESS = 1
ILLEGAL = 2
BREAKPOINT = 3
LOAD_MISALIGNED = 4
LOAD_ACCESS = 5
STORE_MISALIGNED = 6
STORE_ACCESS = 7
ECALL_U = 8
ECALL_S = 9
ECALL_M = 11

DATA_CAUSES = (LOAD_MISALIGNED, LOAD_ACCESS, STORE_MISALIGNED, STORE_ACCESS)
"""The trap causes whose trap value is the address of an access."""

CAUSES = {
    FETCH_MISALIGNED: "instruction address misaligned",
    FETCH_ACCESS: "instruction access fault",
    ILLEGAL: "illegal instruction",
    BREAKPOINT: "breakpoint",
    LOAD_MISALIGNED: "load address misaligned",
    LOAD_ACCESS: "load access fault",
    STORE_MISALIGNED: "store/AMO address misaligned",
    STORE_ACCESS: "store/AMO access fault",
    ECALL_U: "environment call from U-mode",
    ECALL_S: "environment call from S-mode",
    ECALL_M: "environment call from M-mode",
}


# ---- engines ---------------------------------------------------------------------------------------------------------


class Engine(Protocol):
    """The interface of an engine that runs harts. The reference engine and the JIT engine are interchangeable."""

    between_slices: Callable[[Hart], None] | None
    """A callback on the hart's thread, at least about 20 times a second while the hart runs; it may raise."""
    compiling_seconds: float
    """The seconds that harts have waited for the compilation of code."""
    interpreted: int
    """The number of instructions that were interpreted, not executed as machine code, since the engine was made."""

    def run(self, hart: Hart, fuel: int) -> Exit:
        """Run a hart for at most `fuel` instructions, or until its time slice ends for another reason; return the exit.

        A reservation lasts for one time slice: it is lost after the exits FUEL and WAIT, where other harts may
        store next."""

    @property
    def translates(self) -> bool:
        """True if the engine has translated code for harts: see `translated`."""

    def translated(self, hart: Hart) -> int:
        """Return the host address of the compiled function that runs a hart (`jit.dispatcher`).

        The function returns an exit code when the hart's FUEL instructions are used up, or earlier. Call this method
        only if `translates` is true. The function is valid for this hart and for the other harts that it was requested
        for, until another method of the engine is called.
        """

    def worked(self, hart: Hart, instructions: int) -> None:
        """Count `instructions` more retired instructions of `hart`: it has run the function from `translated`."""

    def flush_code(self, hart: Hart) -> None:
        """Drop the cached instructions of `hart` (after fence.i, SYNC_CACHE or reset)."""

    def flush_pages(self, hart: Hart) -> None:
        """Drop the cached page translations of `hart` (after window changes, SYNC_CACHE or sfence.vma)."""

    def code_synced(self) -> None:
        """Note that the device has flushed the instruction caches of all harts, or has been reset."""

    def trapped(self, hart: Hart) -> None:
        """Note that the device has made `hart` take a trap.

        This empties the hart's simulated translation buffer.
        """

    def remapped(self) -> None:
        """Note that addresses may now map to other memory.

        The harts' simulated translation buffers keep their entries."""

    def instruction_counts(self) -> dict[int, int]:
        """Return the number of times that the instruction at each pc has retired since the engine was made.

        The engine must have been set up to count instructions.
        """

    def executions(self) -> Executions:
        """Return the executions of the instruction at each pc since the engine was made.

        The engine must have been set up to count instructions.
        """

    def executed(self) -> dict[int, Insn]:
        """Return the instruction at each pc in `instruction_counts`; if a pc had several, return one of them."""

    def close(self) -> None:
        """Release memory and threads; harts cannot run afterwards."""

    def code_written(self, host_address: int, size: int) -> None:
        """Note that the host, DMA or the command processor wrote `size` bytes at `host_address`.

        Reservations of these bytes end, and coherent engines drop cached instructions that were fetched from them.
        """

    def code_exposed(self, holds: Callable[[int, int], bool]) -> None:
        """Note that memory may have been written without a call of `code_written`.

        This concerns memory for which `holds(host_address, size)` is true. Coherent engines drop cached instructions
        that were fetched from it.
        """
