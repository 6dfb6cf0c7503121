"""The decoded RISC-V instruction: the record that meanings, engines and texts read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.core.errors import GuestFault
from understudy.isa.riscv.algebra import Ops, SystemOps

if TYPE_CHECKING:
    from understudy.core.rule import Rule

Meaning = Callable[[Ops, "Insn"], None]
SystemMeaning = Callable[[SystemOps, "Insn"], None]
"""Of an instruction whose flow is ``system``."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What the table knows of one mnemonic.

    `flow` is one of ``next`` (falls through), ``branch`` (conditional, pc-relative), ``jump`` (pc-relative),
    ``indirect`` (computed) and ``system`` (runs on the reference engine only).
    `extension` is one letter or name: I M A F D V Zve64d Zicsr Zifencei Zicond Zfh Zba Zbb Zbc Zbs Priv.
    """

    name: str
    extension: str
    flow: str
    meaning: SystemMeaning
    """A `Meaning` unless `flow` is ``system``."""


@dataclass(frozen=True, slots=True)
class Insn:
    """One decoded instruction. Fields an instruction does not have are 0.

    `imm` is the sign-extended immediate in bytes (lui/auipc: already shifted by 12); for csr instructions `imm` is
    the csr number and `rs1` may be the 5-bit immediate. Vector registers are the fields at their places: vd and vs3
    `rd`, vs1 `rs1`, vs2 `rs2`; `vm` 0 makes v0 their mask. `word` is what was fetched: a 16-bit `word` with `length`
    2 for compressed forms, whose `name` and fields are those of the base instruction and whose `alias` is the
    compressed mnemonic.
    """

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
        """The base mnemonic."""
        return self.spec.name


class IllegalInstruction(GuestFault):
    """An illegal instruction (mcause 2). `word` is what was fetched, 0 where the raiser does not know it."""

    def __init__(self, message: str, *, word: int = 0, rule: Rule | None = None) -> None:
        super().__init__(message, rule=rule)
        self.word = word
