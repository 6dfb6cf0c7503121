"""The state of an instruction during the parsing of its text: the fields that are known so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from softcard.core.errors import WireError
from softcard.isa.gcn.encoding.decode import LANE_NAMES
from softcard.isa.gcn.encoding.encode import find_format, names_of
from softcard.isa.gcn.encoding.operands import VGPR0
from softcard.isa.gcn.encoding.shape import NO_SADDR, Slot, visible_slots
from softcard.isa.gcn.insn import Op
from softcard.isa.gcn.target import Target

_VECTORS: Final = {"src0": VGPR0, "src1": VGPR0}
_SDWA: Final = _VECTORS | {"src0_sel": 6, "src1_sel": 6, "sdst": -1}
_DPP: Final = _VECTORS | {"dpp_ctrl": 0xE4, "row_mask": 15, "bank_mask": 15}
_ASSUMED: Final[Mapping[str, Mapping[str, int]]] = {
    "VOP2": _VECTORS,
    "VOPC": _VECTORS,
    "VOP3P": {"op_sel_hi": 7},
    "VOP1_SDWA": _SDWA | {"src1_sel": 0, "dst_sel": 6, "dst_unused": 2},
    "VOP2_SDWA": _SDWA | {"dst_sel": 6, "dst_unused": 2},
    "VOPC_SDWA": _SDWA,
    "VOP1_DPP": _DPP,
    "VOP2_DPP": _DPP,
    "FLAT": {"saddr": NO_SADDR},
    "MTBUF": {"dfmt": 1},
}
"""The default values of fields that an instruction's text does not show, if they are not 0; by form."""


def is_mix(op: Op, form: str) -> bool:
    """Return True if each source of a VOP3P operation may have 32 or 16 bits (as in v_mad_mix_f32)."""
    return form == "VOP3P" and "mix" in op.name


class InsnBuilder:
    """An instruction whose text is being parsed; its `fields` have their default values until they are parsed.

    If `labels` is None, the addresses of labels are not known yet."""

    def __init__(self, target: Target, op: Op, form: str, pc: int, labels: Mapping[str, int] | None) -> None:
        self.target, self.op, self.form, self.pc, self.labels = target, op, form, pc, labels
        self.names = names_of(find_format(target, op, form)) | ({"sdst"} if op.family == "vopc" else frozenset())
        unusual = op.name in LANE_NAMES or op.family == "flat" or is_mix(op, form)
        assumed: Mapping[str, int] = {} if unusual else _ASSUMED.get(form, {})
        absent = "sdst" if form == "VOPC" else "vdst" if form == "VOP3A" and op.family == "vopc" else ""
        self.fields = {name: assumed.get(name, 0) for name in self.names if name != absent}
        if form == "VOP1_SDWA" and op.name.startswith(("v_cvt_f32_fp8", "v_cvt_f32_bf8", "v_cvt_pk_f32")):
            self.fields["dst_unused"] = 0
        self.literal: int | None = None

    def visible(self) -> tuple[Slot, ...]:
        """Return the operands that the text shows, according to the fields parsed so far."""
        return visible_slots(self.op, self.target, self.form, self.fields)

    def put(self, name: str, value: int, text: str) -> None:
        """Set the field `name`; raise `WireError` if the encoding lacks it. The error message quotes `text`."""
        if name not in self.names:
            raise WireError(f"the encoding {self.form} does not support {text}")
        self.fields[name] = value
