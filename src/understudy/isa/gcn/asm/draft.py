"""One instruction while its text is read: the fields of a form, as far as they are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.encoding.decode import LANE_NAMES
from understudy.isa.gcn.encoding.encode import find_format, names_of
from understudy.isa.gcn.encoding.operands import VGPR0
from understudy.isa.gcn.encoding.shape import NO_SADDR, Slot, visible_slots
from understudy.isa.gcn.insn import Op
from understudy.isa.gcn.target import Target

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
"""What fields hold that no text speaks of, where that is not 0."""


def is_mix(op: Op, form: str) -> bool:
    """Whether an operation of VOP3P chooses between whole and half sources."""
    return form == "VOP3P" and "mix" in op.name


class Draft:
    """`fields` begin with what an assembler assumes. With `labels` None no label's address is known yet."""

    def __init__(self, target: Target, op: Op, form: str, pc: int, labels: Mapping[str, int] | None) -> None:
        self.target, self.op, self.form, self.pc, self.labels = target, op, form, pc, labels
        self.names = names_of(find_format(target, op, form)) | ({"sdst"} if op.family == "vopc" else frozenset())
        unusual = op.name in LANE_NAMES or op.family == "flat" or is_mix(op, form)
        assumed: Mapping[str, int] = {} if unusual else _ASSUMED.get(form, {})
        absent = "sdst" if form == "VOPC" else "vdst" if form == "VOP3A" and op.family == "vopc" else ""
        self.fields = {name: assumed.get(name, 0) for name in self.names if name != absent}
        self.literal: int | None = None

    def visible(self) -> tuple[Slot, ...]:
        """The operands, by the fields so far."""
        return visible_slots(self.op, self.target, self.form, self.fields)

    def put(self, name: str, value: int, text: str) -> None:
        """Set a field that the form must have; `WireError` that calls it `text`."""
        if name not in self.names:
            raise WireError(f"{self.form} has no {text}")
        self.fields[name] = value
