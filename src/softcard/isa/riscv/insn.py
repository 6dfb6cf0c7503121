"""The class of decoded RISC-V instructions, which semantics, engines and disassembly read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from softcard.core.errors import GuestFault
from softcard.isa.riscv.algebra import Ops, SystemOps

if TYPE_CHECKING:
    from softcard.core.rule import Rule

Semantics = Callable[[Ops, "Insn"], None]
SystemSemantics = Callable[[SystemOps, "Insn"], None]
"""The semantics of an instruction whose flow is ``system``."""


@dataclass(frozen=True, slots=True)
class Spec:
    """The table entry of one mnemonic: its extension, control flow and semantics.

    `flow` is one of ``next`` (falls through), ``branch`` (conditional, pc-relative), ``jump`` (pc-relative),
    ``indirect`` (computed) and ``system`` (executed by the reference engine only). `extension` is the name of one
    extension: I M A F D V Zve64d Zicsr Zifencei Zicond Zfh Zba Zbb Zbc Zbs Priv."""

    name: str
    extension: str
    flow: str
    semantics: SystemSemantics
    """The function that executes the instruction; it is of type `Semantics` unless `flow` is ``system``."""


@dataclass(frozen=True, slots=True)
class Insn:
    """One decoded instruction. Fields that an instruction does not have are 0.

    - `imm`: the sign-extended immediate in bytes (for lui and auipc, shifted left by 12); for csr instructions
      the CSR number, and `rs1` may be the 5-bit immediate
    - vector registers are in the fields at their bit positions: vd and vs3 in `rd`, vs1 in `rs1`, vs2 in `rs2`;
      if `vm` is 0, v0 is the mask
    - `word`: the fetched word; a compressed instruction has a 16-bit `word` and `length` 2, the name and the
      fields of its base instruction, and its compressed mnemonic in `alias`"""

    spec: Spec
    word: int
    length: int = 4
    rd: int = 0
    rs1: int = 0
    rs2: int = 0
    rs3: int = 0
    imm: int = 0
    rm: int = 0
    aq: int = 0
    rl: int = 0
    vm: int = 0
    alias: str = ""

    @property
    def name(self) -> str:
        """The mnemonic of the base instruction."""
        return self.spec.name


class IllegalInstruction(GuestFault):
    """The error for an illegal instruction (mcause 2). `word` is the fetched word, 0 if unknown."""

    def __init__(self, message: str, *, word: int = 0, rule: Rule | None = None) -> None:
        super().__init__(message, rule=rule)
        self.word = word
