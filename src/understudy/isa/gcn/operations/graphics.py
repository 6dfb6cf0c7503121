"""What only graphics uses: exports and parameter interpolation. Decoded and shown, not executed."""

from __future__ import annotations

from typing import Final

from understudy.core.errors import BeyondModel
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Accuracy, Insn, Op, ops


def beyond(b: Builder, i: Insn) -> None:
    """`BeyondModel`: there are no vertices and no pixels here."""
    raise BeyondModel(f"{i.name} is of the graphics pipeline, which is not modelled")


ABSENT: Final = Accuracy("absent", "", "of the graphics pipeline")
_EXPORT: Final = "export vsrc0 vsrc1 vsrc2 vsrc3"
_VOP3: Final = {"operands": "vdst src1=f32 attr"}
_VOP3_ADD: Final = {"operands": "vdst src1=f32 attr src2=f16"}
# fmt: off
OPS: Final[tuple[Op, ...]] = (
    *ops("exp", (("exp", 0, 0, 0, None, beyond),), operands=_EXPORT, accuracy=ABSENT),
    *ops("vintrp", (
        # name                    GFX7  GFX8   GFX9
        ("v_interp_p1_f32",       0x0,  0x0,   0x0, None, beyond, {"operands": "vdst vsrc attr"}),
        ("v_interp_p2_f32",       0x1,  0x1,   0x1, None, beyond, {"operands": "vdst vsrc attr"}),
        ("v_interp_mov_f32",      0x2,  0x2,   0x2, None, beyond, {"operands": "vdst param attr"}),
    ), accuracy=ABSENT),
    *ops("vop3", (
        ("v_interp_p1_f32",       None, 0x270, 0x270, None, beyond, _VOP3),
        ("v_interp_p2_f32",       None, 0x271, 0x271, None, beyond, _VOP3),
        ("v_interp_mov_f32",      None, 0x272, 0x272, None, beyond, {"operands": "vdst param attr"}),
        ("v_interp_p1ll_f16",     None, 0x274, 0x274, None, beyond, _VOP3),
        ("v_interp_p1lv_f16",     None, 0x275, 0x275, None, beyond, _VOP3_ADD),
        ("-|v_interp_p2_f16|v_interp_p2_legacy_f16", None, 0x276, 0x276, None, beyond, _VOP3_ADD),
        ("v_interp_p2_f16",       None, None,  0x277, None, beyond, _VOP3_ADD),
    ), accuracy=ABSENT),
)
# fmt: on
"""Exports and interpolation; the VOP3 forms of interpolation are operations of their own (they take modifiers)."""
