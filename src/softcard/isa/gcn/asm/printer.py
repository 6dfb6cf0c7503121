"""The printer of decoded instructions in LLVM's assembly syntax; `asm.assembler` reads its text back bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from softcard.isa.gcn.asm.modifiers import modifiers
from softcard.isa.gcn.asm.operands import OPERANDS
from softcard.isa.gcn.encoding.shape import slots, visible_slots
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.operations.table import is_promoted

_INTERPOLATE: Final = frozenset({"v_interp_p1_f32", "v_interp_p2_f32", "v_interp_mov_f32"})


_BARE: Final = frozenset({"v_nop", "v_clrexcp", "v_readlane_b32", "v_writelane_b32"})
"""Mnemonics whose 32-bit form has no suffix although a VOP3 form exists."""


def text(insn: Insn, labels: Mapping[int, str] | None = None) -> str:
    """Return the assembly text of an instruction, for example ``"v_add_f32_e32 v1, v2, v3"``.

    A branch shows the label of its target if `labels` has the target's address. Otherwise it shows the distance
    in words, as an unsigned number of 16 bits."""
    return joined(insn, operand_texts(insn, labels))


def operand_texts(insn: Insn, labels: Mapping[int, str] | None = None) -> list[str]:
    """Return the texts of the operands that an instruction's text shows, in order."""
    target = branch_target(insn)
    label = (labels or {}).get(target, "") if target is not None else ""
    return [
        label if label and slot.kind == "target" else OPERANDS[slot.kind].show(insn, slot)
        for slot in visible_slots(insn.op, insn.target, insn.form, insn.fields)
    ]


def joined(insn: Insn, shown: Sequence[str]) -> str:
    """Return the text of an instruction: its mnemonic, the operand texts `shown`, and its modifiers, joined."""
    first = f"{shown[0]} " if insn.form == "EXP" else ""
    head = f"{mnemonic(insn)} {first}{', '.join(shown[1:] if first else shown)}".rstrip()
    return " ".join((head, *modifiers(insn)))


def branch_target(insn: Insn) -> int | None:
    """Return the address to which a branch with a fixed target jumps; None for other instructions."""
    if all(slot.kind != "target" for slot in slots(insn.op, insn.form)):
        return None
    return insn.next_pc + 4 * ((insn["simm16"] ^ 0x8000) - 0x8000)


def mnemonic(insn: Insn) -> str:
    """Return the mnemonic with the suffix of its encoding."""
    form = insn.form
    if form.endswith(("_SDWA", "_DPP")):
        return insn.name + form[4:].lower()
    if not (is_promoted(insn.op) or insn.name in _INTERPOLATE):
        return insn.name
    if insn.name in _BARE and not form.startswith("VOP3"):
        return insn.name
    return insn.name + ("_e64" if form.startswith("VOP3") else "_e32")
