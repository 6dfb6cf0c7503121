"""Graphics instructions are decoded and printed, and raise that they are not modelled."""

from __future__ import annotations

import pytest

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.operations.graphics import OPS
from softcard.isa.gcn.target import TARGETS


@pytest.mark.parametrize("op", OPS, ids=lambda op: f"{op.family}-{op.name}")
def test_graphics_is_not_modelled(op) -> None:  # type: ignore[no-untyped-def]
    source = {
        "exp": "exp mrt0 v0, v1, v2, v3 done",
        "v_interp_mov_f32": "v_interp_mov_f32 v0, p10, attr0.x",
        "v_interp_p1_f32": "v_interp_p1_f32 v0, v1, attr0.x",
    }.get(op.name, "v_interp_p2_f32 v0, v1, attr0.x")
    target = TARGETS["gfx900"]
    insn = decode(target, assemble(target, source))
    with pytest.raises(BeyondModel, match=f"^{insn.name} belongs to the graphics pipeline, which is not modelled$"):
        op.semantics(None, insn)
    assert op.accuracy.kind == "absent"
