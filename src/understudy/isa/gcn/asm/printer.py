"""Assembly text of decoded instructions, in the words of LLVM's assembler; `assembler.py` reads it back bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from understudy.isa.gcn.asm.modifiers import modifiers
from understudy.isa.gcn.asm.operands import OPERANDS
from understudy.isa.gcn.encoding.shape import slots, visible_slots
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.operations.table import is_promoted

_INTERPOLATE: Final = frozenset({"v_interp_p1_f32", "v_interp_p2_f32", "v_interp_mov_f32"})


_BARE: Final = frozenset({"v_nop", "v_clrexcp", "v_readlane_b32", "v_writelane_b32"})
"""Names whose 32-bit form has no suffix although there is a VOP3 form."""


def text(insn: Insn, labels: Mapping[int, str] | None = None) -> str:
    """The instruction as an assembler writes it: ``"v_add_f32_e32 v1, v2, v3"``, ``"s_cbranch_scc0 65532"``.

    A branch names its target where `labels` has its address, else the signed word distance as 16 unsigned bits.
    """
    return joined(insn, operand_texts(insn, labels))


def operand_texts(insn: Insn, labels: Mapping[int, str] | None = None) -> list[str]:
    """The operands that the text shows, one by one."""
    target = branch_target(insn)
    label = (labels or {}).get(target, "") if target is not None else ""
    return [
        label if label and slot.kind == "target" else OPERANDS[slot.kind].show(insn, slot)
        for slot in visible_slots(insn.op, insn.target, insn.form, insn.fields)
    ]


def joined(insn: Insn, shown: Sequence[str]) -> str:
    """The text of an instruction whose operands are shown like this."""
    first = f"{shown[0]} " if insn.form == "EXP" else ""
    head = f"{mnemonic(insn)} {first}{', '.join(shown[1:] if first else shown)}".rstrip()
    return " ".join((head, *modifiers(insn)))


def branch_target(insn: Insn) -> int | None:
    """The address that a branch with a fixed target jumps to, else None."""
    if all(slot.kind != "target" for slot in slots(insn.op, insn.form)):
        return None
    return insn.next_pc + 4 * ((insn["simm16"] ^ 0x8000) - 0x8000)


def mnemonic(insn: Insn) -> str:
    """The name with the suffix that says which encoding it has."""
    form = insn.form
    if form.endswith(("_SDWA", "_DPP")):
        return insn.name + form[4:].lower()
    if not (is_promoted(insn.op) or insn.name in _INTERPOLATE):
        return insn.name
    if insn.name in _BARE and not form.startswith("VOP3"):
        return insn.name
    return insn.name + ("_e64" if form.startswith("VOP3") else "_e32")
