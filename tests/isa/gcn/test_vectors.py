"""An instruction of every slot against what LLVM 19 made of it, without LLVM: decoding, text, assembling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from softcard.isa.gcn.asm.assembler import assemble_one, forms
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.encode import encode_insn
from softcard.isa.gcn.operations.table import OPS
from softcard.isa.gcn.target import TARGETS

FOLDER = Path(__file__).parents[2] / "vectors" / "gcn"
_NOT_DISTINGUISHED = {("v_nop", "VOP3A"), ("v_clrexcp", "VOP3A")}
"""LLVM shows these VOP3 forms without a suffix."""
_HALF_LITERAL = {("v_madmk_f16", "VOP2"), ("v_madak_f16", "VOP2")}
"""LLVM takes no literal of more than 16 bits here."""
_NOT_IN_LLVM = {
    ("ds_condxchg32_rtn_b128", "DS"), ("s_mov_fed_b32", "SOP1"), ("s_mov_regrd_b32", "SOP1"),
    ("s_getreg_regrd_b32", "SOPK"), ("v_mov_fed_b32", "VOP1"), ("v_mov_fed_b32", "VOP3A"),
    ("v_readlane_b32", "VOP3A"), ("v_writelane_b32", "VOP3A"),
}  # fmt: skip
"""In AMD's GFX7 manual only."""
WITHOUT = {
    "gfx700": _NOT_IN_LLVM,
    "gfx803": _NOT_DISTINGUISHED | _HALF_LITERAL,
    "gfx900": _NOT_DISTINGUISHED | _HALF_LITERAL,
    "gfx906": _NOT_DISTINGUISHED | _HALF_LITERAL,
}
"""Slots that need no vector, by processor."""
SLOTS = {"gfx700": 1194, "gfx803": 1601, "gfx900": 1850, "gfx906": 1864}


def lines(processor: str) -> Iterator[tuple[bytes, str]]:
    """Bytes and text; gfx906 has all of gfx900 but the mixed multiply-adds, whose opcodes mean fused ones there."""
    names = ("gfx900", "gfx906") if processor == "gfx906" else (processor,)
    for name in names:
        for line in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
            code, _, shown = line.partition("  ")
            if name == processor or not shown.startswith("v_mad_mix"):
                yield bytes.fromhex(code), shown


@pytest.mark.parametrize("processor", SLOTS)
def test_vectors(processor: str) -> None:
    target = TARGETS[processor]
    for code, shown in lines(processor):
        insn = decode(target, code)
        assert text(insn) == shown
        assert insn.size == len(code)
        assert encode_insn(insn) == code
        assert assemble_one(target, shown) == code, shown


@pytest.mark.parametrize("processor", SLOTS)
def test_every_slot_has_a_vector(processor: str) -> None:
    target = TARGETS[processor]
    slots = {(op.family, op.name, form) for op in OPS if op.on(target) for form in forms(target, op)}
    assert len(slots) == SLOTS[processor]
    insns = [decode(target, code) for code, _ in lines(processor)]
    missing = slots - {(insn.op.family, insn.op.name, insn.form) for insn in insns}
    assert {(name, form) for _, name, form in missing} == WITHOUT[processor]
