"""Assembly text of decoded instructions, in the words of LLVM's assembler; `assembler.py` reads it back bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from understudy.isa.gcn.asm import macros
from understudy.isa.gcn.asm.constants import literal
from understudy.isa.gcn.asm.modifiers import modifiers
from understudy.isa.gcn.encoding.operands import LITERAL, VGPR0, names
from understudy.isa.gcn.encoding.shape import VARIANT, Slot, slots, visible
from understudy.isa.gcn.insn import Insn, Op
from understudy.isa.gcn.operations.table import is_promoted
from understudy.isa.gcn.target import GFX7

_INTERPOLATE: Final = frozenset({"v_interp_p1_f32", "v_interp_p2_f32", "v_interp_mov_f32"})


_BARE: Final = frozenset({"v_nop", "v_clrexcp", "v_readlane_b32", "v_writelane_b32"})
"""Names whose 32-bit form has no suffix although there is a VOP3 form."""


def text(insn: Insn, labels: Mapping[int, str] | None = None) -> str:
    """The instruction as an assembler writes it: ``"v_add_f32_e32 v1, v2, v3"``, ``"s_cbranch_scc0 65532"``.

    A branch names its target where `labels` has its address, else the signed word distance as 16 unsigned bits.
    """
    target = branch_target(insn) if labels else None
    if labels and target is not None and target in labels:
        shown = [labels[target] if slot.kind == "target" else operand(insn, slot) for slot in shown_slots(insn)]
    else:
        shown = [operand(insn, slot) for slot in shown_slots(insn)]
    first = f"{shown.pop(0)} " if insn.form == "EXP" else ""
    head = f"{mnemonic(insn)} {first}{', '.join(shown)}".rstrip()
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


def shown_slots(insn: Insn) -> tuple[Slot, ...]:
    """The operands that the text shows."""
    vary = VARIANT.get(insn.form)
    return visible(insn.op, insn.target.name, insn.form, vary(insn.fields) if vary else ())


def operand(insn: Insn, slot: Slot) -> str:
    """The text of one operand."""
    return _WRITERS[slot.kind](insn, slot)


def _source(insn: Insn, slot: Slot) -> str:
    code = insn[slot.field]
    shown = literal(insn.literal or 0, slot.words, slot.type) if code == LITERAL else _name(insn, slot)
    if slot.field.startswith("ssrc"):
        return shown
    k = int(slot.field[-1]) if slot.field.startswith("src") else 0
    if insn.get(f"{slot.field}_sext"):
        return f"sext({shown})"
    is_mix = insn.form == "VOP3P" and "mix" in insn.op.name
    if not (is_mix or takes_sign(insn.op, slot.type)) or (insn.form == "VOP3P" and not is_mix):
        return shown
    negative, absolute = insn.get("neg") >> k & 1, insn.get("neg_hi" if is_mix else "abs") >> k & 1
    if absolute:
        shown = f"|{shown}|"
    if not negative:
        return shown
    is_number = code < VGPR0 and (128 <= code <= 208 or 240 <= code <= 248 or code == LITERAL)
    return f"neg({shown})" if is_number and not absolute else f"-{shown}"


def takes_sign(op: Op, type_: str) -> bool:
    """Whether a source of that type can be negated and made absolute: floats, and what v_cndmask_b32 chooses from."""
    return type_.startswith("f") or (op.name == "v_cndmask_b32" and type_ != "m64")


def _number(insn: Insn, slot: Slot) -> str:
    value = insn["simm16"]
    return f"{value:#x}" if insn.form == "SOPK" or value > 64 else str(value)


def _name(insn: Insn, slot: Slot) -> str:
    return names(insn.target.level, slot.kind, slot.words, slot.type)[insn[slot.field]]


def _scalar(insn: Insn, code: int) -> str:
    return names(insn.target.level, "s", 1, "b32")[code]


def _scalar_offset(insn: Insn, slot: Slot) -> str:
    """The offset of a scalar memory access: an immediate, a register or (GFX9) both."""
    if insn.target.level == GFX7:
        if insn["imm"]:
            return f"{insn['offset']:#x}"
        if insn["offset"] == LITERAL:
            value = insn.literal or 0
            return f"{value:#x}" if value > 0xFF else f"lit({value:#x})"
        return _scalar(insn, insn["offset"])
    if insn.get("soffset_en"):
        return _scalar(insn, insn["soffset"])
    return f"{insn['offset']:#x}" if insn["imm"] else _scalar(insn, insn["offset"] & 0x7F)


def _probe(insn: Insn, slot: Slot) -> str:
    return f"{insn['sdata']:#x}" if insn["sdata"] > 64 else str(insn["sdata"])


def _export_source(insn: Insn, slot: Slot) -> str:
    k = int(slot.field[-1])
    register = insn[f"vsrc{k // 2}"] if insn["compr"] else insn[slot.field]
    return f"v{register}" if insn["en"] >> k & 1 else "off"


EXPORTS: Final = (
    *(f"mrt{n}" for n in range(8)), "mrtz", "null", "invalid_target_10", "invalid_target_11",
    *(f"pos{n}" for n in range(4)), *(f"invalid_target_{n}" for n in range(16, 32)), *(f"param{n}" for n in range(32)),
)  # fmt: skip
"""Names of export targets by number."""
PARAMETERS: Final = ("p10", "p20", "p0")


def _attribute(insn: Insn, slot: Slot) -> str:
    if insn.form == "VINTRP":
        return f"attr{insn['attr']}.{'xyzw'[insn['chan']]}"
    return f"attr{insn['src0'] & 63}.{'xyzw'[insn['src0'] >> 6 & 3]}"


def _parameter(insn: Insn, slot: Slot) -> str:
    code = insn["vsrc"] if insn.form == "VINTRP" else insn["src1"]
    return PARAMETERS[code] if code < 3 else f"invalid_param_{code}"


_WRITERS: Final[Mapping[str, Callable[[Insn, Slot], str]]] = {
    "v": _name, "s": _name, "saddr": _name, "src": _source,
    "vcc": lambda insn, slot: "vcc",
    "off": lambda insn, slot: "off",
    "offset": _scalar_offset,
    "probe": _probe,
    "literal": lambda insn, slot: f"{insn.literal or 0:#x}",
    "simm16": _number,
    "quiet": lambda insn, slot: str(insn["simm16"]) if insn["simm16"] else "",
    "target": lambda insn, slot: str(insn["simm16"]),
    "waitcnt": lambda insn, slot: macros.waits(insn["simm16"], insn.target.level),
    "message": lambda insn, slot: macros.message(insn["simm16"], insn.target.level),
    "hwreg": lambda insn, slot: macros.hardware_register(insn["simm16"], insn.target.level),
    "gpr_idx": lambda insn, slot: macros.index_modes(insn["ssrc1"], insn.target.level),
    "gpr_mode": lambda insn, slot: macros.index_modes(insn["simm16"], insn.target.level),
    "export": lambda insn, slot: EXPORTS[insn["tgt"]],
    "vsrc0": _export_source, "vsrc1": _export_source, "vsrc2": _export_source, "vsrc3": _export_source,
    "attr": _attribute,
    "param": _parameter,
}  # fmt: skip
"""How an operand of each kind is written."""
