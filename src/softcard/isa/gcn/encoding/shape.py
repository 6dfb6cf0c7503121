"""The visible operands of an instruction and their widths, shared by printer, assembler and decoder.

If the semantics of an operation have a signature, the operands follow from its fields. Otherwise `Op.operands` or
`SPECIAL` lists them in the order of the assembly text, each as ``field:words`` (1 word by default). ``=type`` follows
if the type matters (``lane`` is a scalar source of a vector operation), ``@s`` for a scalar destination in a vector
field, and ``/glc`` if the operand exists only with that flag.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

from softcard.core.errors import ModelBug
from softcard.isa.gcn.insn import Op
from softcard.isa.gcn.target import GFX90A, GFX940, TARGETS, Target

IMPLICIT: Final = frozenset({"scc", "exec", "old", "level", "ocp", "table"})
"""The types in signatures that do not correspond to a visible operand."""
NO_SADDR: Final = 0x7F
LITERAL_FORMS: Final = frozenset({"SOP1", "SOP2", "SOPC", "VOP1", "VOP2", "VOPC"})
"""The forms in which a source may be a literal constant."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One visible operand: its field (or `vcc`, `literal`), its number of registers, and its type.

    `kind` is one of:

    - ``v``, ``a`` or ``va``: the number of a vector register, an accumulation register, or either.
    - ``vsrc``, ``asrc`` or ``vasrc``: the operand code of such a register.
    - ``s``: the operand code of a scalar.
    - ``src``: any operand code.
    - ``csrc``: the operand code of a constant, or of a vector or accumulation register.
    - The name of a special operand.

    If `flag` is not empty, the operand exists only in instructions in which the field called `flag` is 1."""

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
"""The operand lists of operations whose semantics lack a signature, by newest mnemonic."""
_SOPP_NUMBER: Final = frozenset({
    "s_nop", "s_setkill", "s_sethalt", "s_sleep", "s_setprio", "s_trap", "s_incperflevel", "s_decperflevel",
})  # fmt: skip
# fmt: on


def truth_table(fields: Mapping[str, int]) -> int:
    """Return the truth table of v_bitop3, which is stored in the bits of OMOD, ABS and NEG."""
    return fields["omod"] << 6 | fields["abs"] << 3 | fields["neg"]


def words_of(type_: str) -> int:
    """Return the number of registers that a value of the type `type_` occupies."""
    bits = int(type_[1:]) if type_[1:].isdigit() else 32
    return max(1, bits // 32)


@cache
def slots(op: Op, form: str) -> tuple[Slot, ...]:
    """Return all operands that `op` may have in encoding `form`, in the order of the text.

    `visible` selects the operands of one instruction among them."""
    if op.operands:
        data = "probe" if "atc_probe" in op.name else "sdst" if form == "SMRD" else "sdata"
        return parse(op.operands.replace("sdata", data))
    if op.family in ("sopk", "sopp") or op.signature is None:
        return parse(_special(op))
    return (*_results(op, form), *_sources(op, form))


def _address_words(fields: Mapping[str, int]) -> int:
    return 2 if fields.get("addr64") else fields["idxen"] + fields["offen"]


VARIANT: Final[Mapping[str, Callable[[Mapping[str, int]], tuple[int, ...]]]] = {
    "FLAT": lambda fields: (
        fields.get("lds", 0),
        fields["glc"],
        fields.get("saddr", NO_SADDR) != NO_SADDR,
        fields.get("sve", 1),
    ),
    **dict.fromkeys(
        ("MUBUF", "MTBUF"), lambda fields: (_address_words(fields), fields.get("lds", 0), fields.get("tfe", 0))
    ),
    "MIMG": lambda fields: (fields["dmask"].bit_count(), fields.get("d16", 0), fields.get("tfe", 0)),
    **dict.fromkeys(("MAI", "VOP3PX"), lambda fields: (fields["cbsz"], fields["blgp"])),
    **dict.fromkeys(("SMRD", "SMEM"), lambda fields: (fields["imm"], fields.get("soffset_en", 0))),
}
"""The function, by form, that returns the field values on which the operands and their widths depend.

Forms without an entry have no such fields.
"""


@lru_cache(1 << 14)
def visible(op: Op, target: str, form: str, variant: tuple[int, ...]) -> tuple[Slot, ...]:
    """Return the operands that an instruction's text shows on a processor.

    `variant` holds the field values that determine these operands. The form's function in `VARIANT` returns it."""
    arrange = _ARRANGERS.get(form)
    shape = slots(op, form)
    if arrange:
        shape = tuple(arrange(op, TARGETS[target], shape, *variant))
    if form in WITH_ACC and TARGETS[target].encoding >= GFX90A:
        shape = tuple(replace(slot, kind="va") if slot.field in DATA else slot for slot in shape)
    return shape


DATA: Final = frozenset({"vdst", "data", "data0", "data1", "vdata"})
"""The fields of memory operations that may be accumulation registers from gfx90a on, all of them or none."""
WITH_ACC: Final = frozenset({"DS", "FLAT", "MUBUF", "MTBUF", "MIMG"})
"""The forms with fields that may be accumulation registers (see `DATA`)."""


@cache
def data_fields(op: Op, form: str) -> tuple[str, ...]:
    """Return the data fields of an operation that may be accumulation registers from gfx90a on (see `DATA`)."""
    return tuple(slot.field for slot in slots(op, form) if slot.field in DATA)


def visible_slots(op: Op, target: Target, form: str, fields: Mapping[str, int]) -> tuple[Slot, ...]:
    """Return the operands that the text shows for the given field values."""
    vary = VARIANT.get(form)
    return visible(op, target.name, form, vary(fields) if vary else ())


def _flat(
    op: Op, target: Target, shape: tuple[Slot, ...], lds: int, glc: int, has_base: int, has_offset: int
) -> Iterator[Slot]:
    """Yield the operands of a FLAT, GLOBAL or SCRATCH instruction; `shape` lists all that the operation may have.

    With a scalar base, the address register is a 32-bit offset (GLOBAL) or absent (SCRATCH). From gfx942 on,
    `has_offset` is 1 if SCRATCH has a 32-bit offset in a register. Loads to LDS have no VDST."""
    for slot in shape:
        if slot.field == "addr" and op.family == "scratch" and target.encoding >= GFX940:
            yield slot if has_offset else Slot("off", kind="off")
        elif slot.field == "addr" and op.family != "flat" and has_base:
            yield Slot("off", kind="off") if op.family == "scratch" else Slot("addr", 1, kind="v")
        elif not (slot.field == "vdst" and lds) and not (slot.flag and not glc):
            yield slot


def _buffer(op: Op, target: Target, shape: tuple[Slot, ...], words: int, lds: int, tfe: int) -> Iterator[Slot]:
    """Yield the operands of a buffer instruction; `shape` lists all that the operation may have.

    `words` is the number of address registers, which the flags addr64, idxen and offen determine. Loads to LDS
    have no VDATA. With `tfe`, VDATA has one more register."""
    for slot in shape:
        if slot.field == "vaddr":
            yield Slot("vaddr", words, kind="v") if words else Slot("off", kind="off")
        elif slot.field != "vdata":
            yield slot
        elif not lds:
            yield Slot("vdata", _buffer_data_words(op, target, slot.words) + tfe, kind="v")


def _buffer_data_words(op: Op, target: Target, words: int) -> int:
    """Return the number of data registers of a buffer operation; `words` is the number in its operand list.

    GFX9 may pack two 16-bit values into one register.
    """
    _, is_half, components = op.name.partition("format_d16_")
    if not is_half or components.strip("xyzw"):
        return words
    return (len(components) + 1) // 2 if _packs_halves(target) else len(components)


def _image(op: Op, target: Target, shape: tuple[Slot, ...], count: int, d16: int, tfe: int) -> Iterator[Slot]:
    """Yield the operands of an image instruction; `shape` lists all that the operation may have.

    DMASK (`count` is its number of ones), D16 and TFE determine the number of data registers. The number of
    address registers is the minimum: one for a coordinate, and one each for offset, bias, comparison value and
    gradients."""
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


FORMAT_WORDS: Final = (8, 8, 6, 6, 4)
"""The number of registers of a matrix of the f8f6f4 instructions, by format: FP8, BF8, FP6, BF6, FP4."""


def _matrix(op: Op, target: Target, shape: tuple[Slot, ...], cbsz: int, blgp: int) -> Iterator[Slot]:
    """Yield the operands of a matrix instruction; `shape` lists them with their default widths.

    For the f8f6f4 instructions CBSZ and BLGP are the formats of A and B, which determine their number of
    registers."""
    formats = {"src0": cbsz, "src1": blgp} if op.name.endswith("f8f6f4") else {}
    for slot in shape:
        number = formats.get(slot.field)
        if number is None or number >= len(FORMAT_WORDS):
            yield slot
        else:
            yield replace(slot, words=FORMAT_WORDS[number])


_ARRANGERS: Final[Mapping[str, Callable[..., Iterator[Slot]]]] = {
    "FLAT": _flat, "MUBUF": _buffer, "MTBUF": _buffer, "MIMG": _image, "MAI": _matrix,
    "VOP3PX": _matrix,
}  # fmt: skip


def _packs_halves(target: Target) -> bool:
    """Return True if a register holds two 16-bit data values, as on GFX9 and gfx810; False if it holds one."""
    return target.level > 8 or target.name == "gfx810"


def parse(operands: str) -> tuple[Slot, ...]:
    """Return the operands in the operand list `operands`, whose notation the module docstring describes."""
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
