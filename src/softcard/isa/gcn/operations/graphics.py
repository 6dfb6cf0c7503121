"""Operations for graphics only: exports and interpolation. They are decoded and printed, not executed."""

from __future__ import annotations

from typing import Final

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Accuracy, Insn, Op, ops


def beyond(b: Builder, i: Insn) -> None:
    """Raise `BeyondModel`: the processing of vertices and pixels is not modelled."""
    raise BeyondModel(f"{i.name} belongs to the graphics pipeline, which is not modelled")


ABSENT: Final = Accuracy("absent", "", "of the graphics pipeline")
_EXPORT: Final = "export vsrc0 vsrc1 vsrc2 vsrc3"
_VOP3: Final = {"operands": "vdst src1=f32 attr"}
_VOP3_ADD: Final = {"operands": "vdst src1=f32 attr src2=f16"}
# fmt: off
OPS: Final[tuple[Op, ...]] = (
    *ops("exp", (("exp", 0, 0, 0, None, beyond),), operands=_EXPORT, accuracy=ABSENT, lacks="gfx90a"),
    *ops("vintrp", (
        # name                    GFX7  GFX8   GFX9
        ("v_interp_p1_f32",       0x0,  0x0,   0x0, None, beyond, {"operands": "vdst vsrc attr"}),
        ("v_interp_p2_f32",       0x1,  0x1,   0x1, None, beyond, {"operands": "vdst vsrc attr"}),
        ("v_interp_mov_f32",      0x2,  0x2,   0x2, None, beyond, {"operands": "vdst param attr"}),
    ), accuracy=ABSENT, lacks="gfx90a"),
    *ops("vop3", (
        ("v_interp_p1_f32",       None, 0x270, 0x270, None, beyond, _VOP3),
        ("v_interp_p2_f32",       None, 0x271, 0x271, None, beyond, _VOP3),
        ("v_interp_mov_f32",      None, 0x272, 0x272, None, beyond, {"operands": "vdst param attr"}),
        ("v_interp_p1ll_f16",     None, 0x274, 0x274, None, beyond, _VOP3),
        ("v_interp_p1lv_f16",     None, 0x275, 0x275, None, beyond, _VOP3_ADD),
        ("-|v_interp_p2_f16|v_interp_p2_legacy_f16", None, 0x276, 0x276, None, beyond, _VOP3_ADD),
        ("v_interp_p2_f16",       None, None,  0x277, None, beyond, _VOP3_ADD),
    ), accuracy=ABSENT, lacks="gfx90a"),
)
# fmt: on
"""The operations of exports and interpolation.

The VOP3 forms of interpolation are separate operations, since they take modifiers.
"""
