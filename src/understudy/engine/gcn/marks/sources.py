"""Where marks come from by the instructions themselves: which results are approximate, which are exact again."""

from __future__ import annotations

from understudy.core.checks import FIDELITY
from understudy.isa.gcn.insn import Insn


def source_of(kind: str, insn: Insn) -> bool | None:
    """Whether results of an instruction are marked by themselves (True), never (False), or as their operands (None).

    v_div_fixup ends the division sequence of the manuals, whose steps make the quotient exact.
    """
    if kind != FIDELITY:
        return None
    if insn.op.accuracy.kind == "approximate":
        return True
    return False if insn.op.name.startswith("v_div_fixup") else None
