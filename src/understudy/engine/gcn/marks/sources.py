"""Where marks come from by the instructions themselves: which results are approximate, which are exact again."""

from __future__ import annotations

from typing import Final

from understudy.core.checks import FIDELITY
from understudy.isa.gcn.insn import Insn

EXACT_BY_STEPS: Final = ("v_div_fixup", "v_rcp_iflag")


def is_source(kind: str, insn: Insn) -> bool:
    """Whether results of an instruction are marked by themselves."""
    return source_of(kind, insn) is True


def source_of(kind: str, insn: Insn) -> bool | None:
    """Whether results of an instruction are marked by themselves (True), never (False), or as their operands (None).

    v_div_fixup ends the division sequence of the manuals, whose steps make the quotient exact. v_rcp_iflag is the
    manuals' for divisions of integers, which compilers write out with steps that do the same.
    """
    if kind != FIDELITY:
        return None
    if insn.op.name.startswith(EXACT_BY_STEPS):
        return False
    if insn.op.accuracy.kind == "approximate":
        return True
    return None
