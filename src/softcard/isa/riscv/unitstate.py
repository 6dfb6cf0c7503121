"""The FS and VS fields of mstatus, which enable the float and vector registers and record writes to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.core.rule import Rule
from softcard.isa.riscv.csrnames import MSTATUS
from softcard.isa.riscv.insn import IllegalInstruction
from softcard.isa.riscv.state import Hart
from softcard.isa.riscv.vector.rules import VS_OFF

FLOAT_EXTENSIONS: Final = ("F", "D", "Zfh")
"""The extensions with scalar float instructions."""
OFF, DIRTY = 0, 3


@dataclass(frozen=True, slots=True)
class UnitState:
    """A two-bit field of mstatus: its name, its lowest bit, the kind of instructions it enables, and the rule."""

    name: str
    shift: int
    kind: str
    rule: Rule | None = None

    def is_dirty(self, hart: Hart) -> bool:
        """Return True if the field is "dirty": the unit is on, and its registers may have been changed."""
        return hart.csr.get(MSTATUS, 0) >> self.shift & 3 == DIRTY

    def use(self, hart: Hart) -> None:
        """Prepare the execution of an instruction of the unit: set the field to "dirty".

        Raise `IllegalInstruction` if the unit is off.
        """
        status = hart.csr.get(MSTATUS, 0)
        if status >> self.shift & 3 == OFF:
            raise IllegalInstruction(f"{self.kind} instruction while mstatus.{self.name} is Off", rule=self.rule)
        hart.csr[MSTATUS] = status | DIRTY << self.shift


FLOATS: Final = UnitState("FS", 13, "float")
VECTORS: Final = UnitState("VS", 9, "vector", VS_OFF)
