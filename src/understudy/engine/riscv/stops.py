"""Why an engine handed a hart back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from understudy.isa.riscv.assembler import text
from understudy.isa.riscv.format import REGISTERS
from understudy.isa.riscv.insn import Insn


class Why(Enum):
    """Reason of an `Exit`."""

    FUEL = "fuel"
    """The instruction budget is used up; exactly that many instructions retired."""
    RETURN = "return"
    """pc reached the hart's return address; nothing there was executed."""
    WAIT = "wait"
    """A wfi retired, or the hart has polled as often as it may: nothing will happen here soon, let others run. Going
    on at once is allowed."""
    ALONE = "alone"
    """The instruction at pc is an atomic or a fence, and the hart runs beside others (`state.SHARED`): it has not
    begun, and wants to run when they do not."""
    TRAP = "trap"
    """An instruction trapped; mcause, mepc, mtval and mstatus are set as the hart's trap entry does,
    pc is at the trap vector, the instruction did not retire."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a run ended.

    `pc` is the instruction it is about (for a trap: the trapping one), `cause` and `value` are the trap's mcause
    and mtval, `detail` is a sentence for people, `error` the error that the memory or the decoder raised. `insn` is the
    instruction that trapped, None where it could not be fetched, and `base` what its register rs1 held.
    """

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
        """The text of the instruction that trapped, with its base register where an access failed; "" if unknown."""
        if self.insn is None:
            return ""
        words = text(self.insn, self.pc)
        return f"{words}, {REGISTERS[self.insn.rs1]} = {self.base:#x}" if self.cause in DATA_CAUSES else words


class Trap(Exception):
    """A synchronous exception on its way from a meaning to the engine's loop."""

    def __init__(self, cause: int, value: int = 0, error: Exception | None = None) -> None:
        super().__init__(cause, value)
        self.cause = cause
        self.value = value
        self.error = error


class Alone(Exception):
    """An instruction that synchronizes harts, met while others run: see `Why.ALONE`."""


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
"""Causes that are about the address of an access."""

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
