"""Assembly text of decoded instructions, in the words of LLVM's assembler; `assembler.py` reads it back bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.asm import macros
from understudy.isa.gcn.asm.modifiers import modifiers
from understudy.isa.gcn.encoding.operands import LITERAL, NO_REGISTER, VGPR0, literal, scalar, source, vgpr
from understudy.isa.gcn.encoding.shape import Slot, slots
from understudy.isa.gcn.insn import Insn, Op
from understudy.isa.gcn.operations.table import is_promoted
from understudy.isa.gcn.target import GFX7, Target

NO_SADDR: Final = 0x7F
_INTERPOLATE: Final = frozenset({"v_interp_p1_f32", "v_interp_p2_f32", "v_interp_mov_f32"})


_BARE: Final = frozenset({"v_nop", "v_clrexcp", "v_readlane_b32", "v_writelane_b32"})
"""Names whose 32-bit form has no suffix although there is a VOP3 form."""


def text(insn: Insn, labels: Mapping[int, str] | None = None) -> str:
    """The instruction as an assembler writes it: ``"v_add_f32_e32 v1, v2, v3"``, ``"s_cbranch_scc0 65532"``.

    A branch names its target where `labels` has its address, else the signed word distance as 16 unsigned bits.
    """
    target = branch_target(insn) if labels else None
    if labels and target is not None and target in labels:
        shown = [labels[target] if slot.kind == "target" else operand(insn, slot) for slot in visible(insn)]
    else:
        shown = [operand(insn, slot) for slot in visible(insn)]
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


def visible(insn: Insn) -> list[Slot]:
    """The operands that the text shows, with the widths that flags give them."""
    shape = list(slots(insn.op, insn.form))
    if insn.form in _VISIBLE:
        shape = _VISIBLE[insn.form](insn, shape)
    return [slot for slot in shape if not slot.flag or insn.get(slot.flag)]


def operand(insn: Insn, slot: Slot) -> str:
    """The text of one operand; `WireError` for what the processor reserves."""
    return _WRITERS[slot.kind](insn, slot)


def _flat(insn: Insn, shape: list[Slot]) -> list[Slot]:
    """With a scalar base the address is a 32-bit offset (GLOBAL) or absent (SCRATCH); loads to LDS have no VDST."""
    kept = []
    for slot in shape:
        if slot.field == "vdst" and insn.get("lds"):
            continue
        if slot.field == "addr" and insn.op.family != "flat" and insn["saddr"] != NO_SADDR:
            slot = Slot("off", kind="off") if insn.op.family == "scratch" else Slot("addr", 1, kind="v")
        kept.append(slot)
    return kept


def _buffer(insn: Insn, shape: list[Slot]) -> list[Slot]:
    if not shape:
        return shape
    kept = []
    words = 2 if insn.get("addr64") else insn["idxen"] + insn["offen"]
    for slot in shape:
        if slot.field == "vdata":
            if insn.get("lds"):
                continue
            slot = Slot("vdata", buffer_data_words(insn.op, insn.target, slot.words) + insn["tfe"], kind="v")
        if slot.field != "vaddr":
            kept.append(slot)
        if slot.field == "vdata":
            kept.append(Slot("vaddr", words, kind="v") if words else Slot("off", kind="off"))
    if insn.get("lds") and words and any(slot.field == "vdata" for slot in shape):
        kept.insert(0, Slot("vaddr", words, kind="v"))
    elif insn.get("lds") and any(slot.field == "vdata" for slot in shape):
        kept.insert(0, Slot("off", kind="off"))
    return kept


def buffer_data_words(op: Op, target: Target, words: int) -> int:
    """Data registers of a buffer operation whose operand list says `words`; 16-bit data may lie two in a register."""
    _, is_half, components = op.name.partition("format_d16_")
    if not is_half or components.strip("xyzw"):
        return words
    return (len(components) + 1) // 2 if packs_halves(target) else len(components)


def image_address_words(op: Op) -> int:
    """The fewest address registers of an image operation: those of one dimension, gradients and LOD counted once."""
    parts = op.name.removeprefix("image_").split("_")
    if parts[0] not in ("sample", "gather4", "gather4h"):
        return 1
    return 1 + sum(part in ("b", "c", "d", "cd", "o") for part in parts[1:])


def image_data_words(op: Op, target: Target, fields: Mapping[str, int]) -> int:
    """Data registers of an image operation: by DMASK, D16 and TFE."""
    words = max(1, fields["dmask"].bit_count())
    if op.name.startswith("image_gather4"):
        words = 4
    if fields.get("d16") and packs_halves(target):
        words = (words + 1) // 2
    return words + fields["tfe"]


def packs_halves(target: Target) -> bool:
    """Whether 16-bit data lie two in a register (GFX9 and gfx810), not one."""
    return target.level > 8 or target.name == "gfx810"


def _image(insn: Insn, shape: list[Slot]) -> list[Slot]:
    made = [
        Slot("vdata", image_data_words(insn.op, insn.target, insn.fields), kind="v"),
        Slot("vaddr", image_address_words(insn.op), kind="v"),
        Slot("srsrc", 8, kind="s"),
    ]
    if insn.op.name.startswith(("image_sample", "image_gather4", "image_get_lod")):
        made.append(Slot("ssamp", 4, kind="s"))
    return made


_VISIBLE: Final[Mapping[str, Callable[[Insn, list[Slot]], list[Slot]]]] = {
    "FLAT": _flat, "MUBUF": _buffer, "MTBUF": _buffer, "MIMG": _image,
}  # fmt: skip


def _source(insn: Insn, slot: Slot) -> str:
    code = insn[slot.field]
    value = insn.literal if not insn.form.startswith("VOP3") else None
    shown = source(insn.target, code, slot.words, slot.type, value)
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


def _scalar(insn: Insn, code: int, words: int) -> str:
    """Scalar registers, not status sources; code -1 stands for VCC."""
    if code > NO_REGISTER:
        raise WireError(f"operand code {code} is no scalar register")
    return scalar(insn.target, code, words) if code >= 0 else "vcc"


def _scalar_offset(insn: Insn, slot: Slot) -> str:
    """The offset of a scalar memory access: an immediate, a register or (GFX9) both."""
    if insn.target.level == GFX7:
        if insn["imm"]:
            return f"{insn['offset']:#x}"
        if insn["offset"] == LITERAL:
            value = insn.literal or 0
            return f"{value:#x}" if value > 0xFF else f"lit({value:#x})"
        return _scalar(insn, insn["offset"], 1)
    if insn.get("soffset_en"):
        return _scalar(insn, insn["soffset"], 1)
    return f"{insn['offset']:#x}" if insn["imm"] else _scalar(insn, insn["offset"] & 0x7F, 1)


def _saddr(insn: Insn, slot: Slot) -> str:
    return "off" if insn["saddr"] == NO_SADDR else _scalar(insn, insn["saddr"], slot.words)


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
    "v": lambda insn, slot: vgpr(insn[slot.field], slot.words),
    "s": lambda insn, slot: _scalar(insn, insn[slot.field], slot.words),
    "src": _source,
    "vcc": lambda insn, slot: "vcc",
    "off": lambda insn, slot: "off",
    "saddr": _saddr,
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


def check(insn: Insn) -> None:
    """`WireError` where an operand names what the processor does not have."""
    for slot in visible(insn):
        operand(insn, slot)


__all__ = ["WireError", "branch_target", "check", "literal", "mnemonic", "operand", "text", "visible"]
