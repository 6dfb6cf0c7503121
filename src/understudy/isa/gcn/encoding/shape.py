"""Which operands an instruction shows and how wide they are: what text, assembler and decoder agree on.

Operations with a signature show what it names, field by field. The others say it themselves in `Op.operands`, or stand
in `SPECIAL` here, in the order of the assembly text: ``field:words``, words 1 if not given, with ``=type`` where the
type matters (``lane`` is a scalar source of a vector operation), ``@s`` for a scalar destination in a vector field and
``/glc`` where it is there only with that flag.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from understudy.core.errors import ModelBug
from understudy.isa.gcn.insn import Op
from understudy.isa.gcn.target import TARGETS, Target

IMPLICIT: Final = frozenset({"scc", "exec", "old", "level"})
"""Types of a signature that no operand stands for."""
NO_SADDR: Final = 0x7F
LITERAL_FORMS: Final = frozenset({"SOP1", "SOP2", "SOPC", "VOP1", "VOP2", "VOPC"})
"""Forms whose sources may be a literal constant."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One operand: the field it comes from (or `vcc`, `literal`), how many registers it names, its type.

    `kind` is ``v`` for a number of a vector register, ``s`` for a scalar operand code, ``src`` for a code of the whole
    operand space, else the name of a special operand. `flag`: there only where that field is set.
    """

    field: str
    words: int = 1
    type: str = "b32"
    kind: str = "src"
    flag: str = ""


_KIND: Final = {
    **dict.fromkeys(("vdst", "addr", "data", "data0", "data1", "vdata", "vsrc"), "v"),
    **dict.fromkeys(("sdst", "sdata", "sbase", "srsrc", "ssamp"), "s"),
    **dict.fromkeys(("ssrc0", "ssrc1", "src0", "src1", "src2", "soffset"), "src"),
}
_TOKEN: Final = re.compile(r"(?P<field>\w+)(:(?P<words>\d+))?(=(?P<type>\w+))?(@(?P<kind>\w+))?(/(?P<flag>\w+))?")

# fmt: off
SPECIAL: Final = {
    "s_getpc_b64": "sdst:2", "s_setpc_b64": "ssrc0:2", "s_swappc_b64": "sdst:2 ssrc0:2", "s_rfe_b64": "ssrc0:2",
    "s_cbranch_join": "ssrc0", "s_set_gpr_idx_idx": "ssrc0",
    "s_mov_regrd_b32": "sdst ssrc0", "s_mov_fed_b32": "sdst ssrc0",
    "s_movrels_b32": "sdst ssrc0", "s_movreld_b32": "sdst ssrc0",
    "s_movrels_b64": "sdst:2 ssrc0:2", "s_movreld_b64": "sdst:2 ssrc0:2",
    "s_cbranch_g_fork": "ssrc0:2 ssrc1:2", "s_rfe_restore_b64": "ssrc0:2 ssrc1",
    "s_setvskip": "ssrc0 ssrc1", "s_set_gpr_idx_on": "ssrc0 gpr_idx",
    "s_getreg_b32": "sdst hwreg", "s_getreg_regrd_b32": "sdst hwreg",
    "s_setreg_b32": "hwreg sdst", "s_setreg_imm32_b32": "hwreg literal",
    "s_cbranch_i_fork": "sdst:2 target", "s_call_b64": "sdst:2 target",
    "s_waitcnt": "waitcnt", "s_sendmsg": "message", "s_sendmsghalt": "message",
    "s_set_gpr_idx_mode": "gpr_mode", "s_endpgm": "quiet",
    "v_readfirstlane_b32": "vdst@s src0", "v_readlane_b32": "vdst@s src0 src1=lane",
    "v_writelane_b32": "vdst src0=lane src1=lane",
    "v_swap_b32": "vdst src0",
    "v_movreld_b32": "vdst src0", "v_movrels_b32": "vdst src0", "v_movrelsd_b32": "vdst src0",
}
"""Operands by newest name, for operations whose meaning does everything itself."""
_SOPP_NUMBER: Final = frozenset({
    "s_nop", "s_setkill", "s_sethalt", "s_sleep", "s_setprio", "s_trap", "s_incperflevel", "s_decperflevel",
})  # fmt: skip
# fmt: on


def words_of(type_: str) -> int:
    """Registers that a value of this type takes."""
    bits = int(type_[1:]) if type_[1:].isdigit() else 32
    return max(1, bits // 32)


@cache
def slots(op: Op, form: str) -> tuple[Slot, ...]:
    """The operands of `op` in that form, as its text lists them; `visible` says what flags make of them."""
    if op.operands:
        data = "probe" if "atc_probe" in op.name else "sdst" if form == "SMRD" else "sdata"
        return parse(op.operands.replace("sdata", data))
    if op.family in ("sopk", "sopp") or op.signature is None:
        return parse(_special(op))
    return (*_results(op, form), *_sources(op, form))


def _address_words(fields: Mapping[str, int]) -> int:
    return 2 if fields.get("addr64") else fields["idxen"] + fields["offen"]


VARIANT: Final[Mapping[str, Callable[[Mapping[str, int]], tuple[int, ...]]]] = {
    "FLAT": lambda fields: (fields.get("lds", 0), fields["glc"], fields.get("saddr", NO_SADDR) != NO_SADDR),
    **dict.fromkeys(("MUBUF", "MTBUF"), lambda fields: (_address_words(fields), fields.get("lds", 0), fields["tfe"])),
    "MIMG": lambda fields: (fields["dmask"].bit_count(), fields.get("d16", 0), fields["tfe"]),
    **dict.fromkeys(("SMRD", "SMEM"), lambda fields: (fields["imm"], fields.get("soffset_en", 0))),
}
"""What of the fields decides which operands there are and how wide, by form; nothing in the others."""


@lru_cache(1 << 14)
def visible(op: Op, target: str, form: str, variant: tuple[int, ...]) -> tuple[Slot, ...]:
    """The operands that the text shows on a processor, with the widths that a `VARIANT` of the form gives them."""
    arrange = {"FLAT": _flat, "MUBUF": _buffer, "MTBUF": _buffer, "MIMG": _image}.get(form)
    shape = slots(op, form)
    return tuple(arrange(op, TARGETS[target], shape, *variant)) if arrange else shape


def visible_slots(op: Op, target: Target, form: str, fields: Mapping[str, int]) -> tuple[Slot, ...]:
    """The operands that the text shows where the fields are these."""
    vary = VARIANT.get(form)
    return visible(op, target.name, form, vary(fields) if vary else ())


def _flat(op: Op, target: Target, shape: tuple[Slot, ...], lds: int, glc: int, has_base: int) -> Iterator[Slot]:
    """With a scalar base the address is a 32-bit offset (GLOBAL) or absent (SCRATCH); loads to LDS have no VDST."""
    for slot in shape:
        if slot.field == "addr" and op.family != "flat" and has_base:
            yield Slot("off", kind="off") if op.family == "scratch" else Slot("addr", 1, kind="v")
        elif not (slot.field == "vdst" and lds) and not (slot.flag and not glc):
            yield slot


def _buffer(op: Op, target: Target, shape: tuple[Slot, ...], words: int, lds: int, tfe: int) -> Iterator[Slot]:
    """Offsets in registers as the flags say; loads to LDS have no VDATA."""
    for slot in shape:
        if slot.field == "vaddr":
            yield Slot("vaddr", words, kind="v") if words else Slot("off", kind="off")
        elif slot.field != "vdata":
            yield slot
        elif not lds:
            yield Slot("vdata", _buffer_data_words(op, target, slot.words) + tfe, kind="v")


def _buffer_data_words(op: Op, target: Target, words: int) -> int:
    """Data registers of a buffer operation whose operand list says `words`; 16-bit data may lie two in a register."""
    _, is_half, components = op.name.partition("format_d16_")
    if not is_half or components.strip("xyzw"):
        return words
    return (len(components) + 1) // 2 if _packs_halves(target) else len(components)


def _image(op: Op, target: Target, shape: tuple[Slot, ...], count: int, d16: int, tfe: int) -> Iterator[Slot]:
    """Data by DMASK, D16 and TFE; of the address the fewest registers: of one dimension, gradients and LOD once."""
    parts = op.name.removeprefix("image_").split("_")
    is_sampled = parts[0] in ("sample", "gather4", "gather4h")
    further = sum(part in ("b", "c", "d", "cd", "o") for part in parts[1:]) if is_sampled else 0
    words = 4 if op.name.startswith("image_gather4") else max(1, count)
    if d16 and _packs_halves(target):
        words = (words + 1) // 2
    for slot in shape:
        if slot.field == "vdata":
            yield Slot("vdata", words + tfe, kind="v")
        elif slot.field == "vaddr":
            yield Slot("vaddr", 1 + further, kind="v")
        else:
            yield slot


def _packs_halves(target: Target) -> bool:
    """Whether 16-bit data lie two in a register (GFX9 and gfx810), not one."""
    return target.level > 8 or target.name == "gfx810"


def parse(operands: str) -> tuple[Slot, ...]:
    """The slots of an operand list."""
    made = []
    for token in operands.split():
        parts = _TOKEN.fullmatch(token)
        if parts is None:
            raise ModelBug(f"operand list {operands!r}: {token!r} must be field:words")
        field = parts["field"]
        kind = parts["kind"] or _KIND.get(field, field)
        made.append(Slot(field, int(parts["words"] or 1), parts["type"] or "b32", kind, parts["flag"] or ""))
    return tuple(made)


def _special(op: Op) -> str:
    if op.name in SPECIAL:
        return SPECIAL[op.name]
    if op.family == "sopk":
        return "sdst simm16@hex16"
    if op.family == "sopp":
        if op.name in _SOPP_NUMBER:
            return "simm16"
        return "target" if op.name.startswith(("s_branch", "s_cbranch")) else ""
    return ""


def _results(op: Op, form: str) -> tuple[Slot, ...]:
    made = []
    for type_ in op.results:
        if type_ in IMPLICIT:
            continue
        if form.startswith("S"):
            made.append(Slot("sdst", words_of(type_), type_, "s"))
        elif type_ == "m64":
            is_field = form.startswith("VOP3") or form == "VOPC_SDWA"
            made.append(Slot("sdst", 2, "m64", "s") if is_field else Slot("vcc", 2, "m64", "vcc"))
        else:
            made.append(Slot("vdst", words_of(type_), type_, "v"))
    return tuple(made)


_FIELDS: Final = {"SOP1": 1, "VOP1": 1, "SOP2": 2, "SOPC": 2, "VOP2": 2, "VOPC": 2, "VOP3": 3}


def _sources(op: Op, form: str) -> tuple[Slot, ...]:
    count = _FIELDS[form[:4]]
    prefix = "ssrc" if form.startswith("S") else "src"
    made: list[Slot] = []
    at = 0
    for type_ in op.sources:
        if type_ in IMPLICIT:
            continue
        if type_ == "k32":
            made.append(Slot("literal", 1, "f16" if op.name.endswith("_f16") else "f32", "literal"))
        elif at < count:
            made.append(Slot(f"{prefix}{at}", words_of(type_), type_))
            at += 1
        elif type_ == "m64" and form.startswith("VOP2"):
            made.append(Slot("vcc", 2, "m64", "vcc"))
    return tuple(made)
