"""An instruction of every slot of every GFX9 processor, from gfx900 to gfx950, against what LLVM 22 made of it.

Each line of tests/vectors/gcn/gfx9.txt has the processors that have the slot, its bytes, and its text.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import pytest

from softcard.core.errors import SoftcardError
from softcard.isa.gcn.asm.assembler import assemble_one
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.encode import encode_insn
from softcard.isa.gcn.operations.table import OPS
from softcard.isa.gcn.target import target

PROCESSORS: Final = (
    "gfx900", "gfx904", "gfx906", "gfx909", "gfx90c", "gfx9-generic", "gfx908", "gfx90a", "gfx942", "gfx9-4-generic",
    "gfx950",
)  # fmt: skip
"""In the order of the table's columns."""
COUNTS: Final = dict(zip(PROCESSORS, (1831, 1831, 1845, 1831, 1831, 1828, 1887, 1823, 1893, 1855, 2002), strict=True))
"""Slots by processor."""
NO_DPP: Final = ("v_cvt_f64_i32_dpp", "v_cvt_f64_f32_dpp", "v_cvt_f64_u32_dpp")
"""Before gfx90a LLVM 22 takes them, while AMD's Vega manual lists them among the operations without DPP."""


@cache
def rows() -> tuple[tuple[str, bytes, str], ...]:
    """The flags of the processors, the bytes, and the text of each line."""
    lines = (Path(__file__).parents[2] / "vectors" / "gcn" / "gfx9.txt").read_text(encoding="utf-8").splitlines()
    return tuple(
        (flags, bytes.fromhex(code), shown) for flags, code, shown in (line.split(" ", maxsplit=2) for line in lines)
    )


def slots(processor: str) -> list[tuple[bytes, str]]:
    """The slots of one processor."""
    column = PROCESSORS.index(processor)
    is_older = target(processor).encoding == 9
    return [
        (code, shown)
        for flags, code, shown in rows()
        if flags[column] == "y" and not (is_older and shown.startswith(NO_DPP))
    ]


@pytest.mark.parametrize("processor", PROCESSORS)
def test_slots(processor: str) -> None:
    chosen, found = target(processor), slots(processor)
    assert len(found) == COUNTS[processor]
    for code, shown in found:
        insn = decode(chosen, code)
        assert text(insn) == shown
        assert insn.size == len(code)
        assert encode_insn(insn) == code, shown
        assert assemble_one(chosen, shown) == code, shown


@pytest.mark.parametrize("processor", PROCESSORS)
def test_what_a_processor_lacks_is_illegal(processor: str) -> None:
    chosen, own = target(processor), {shown for _, shown in slots(processor)}
    names = {shown.partition(" ")[0] for shown in own}
    for _, code, shown in rows():
        name = shown.partition(" ")[0]
        if name in names or name.startswith("v_mul_legacy"):  # with other operands, or in another encoding
            continue
        if chosen.matrix >= 3 and any(name in op.aliases for op in OPS):
            continue
        with pytest.raises(SoftcardError):
            assemble_one(chosen, shown)
        try:
            other = text(decode(chosen, code)).partition(" ")[0]
        except SoftcardError:
            continue
        assert other in names - {name}, shown


@pytest.mark.parametrize(
    ("processor", "line", "refusal"),
    [
        ("gfx90a", "v_interp_p1_f32 v0, v1, attr0.x", "gfx90a has no instruction 'v_interp_p1_f32'"),
        ("gfx942", "v_mac_f32 v0, v1, v2", "gfx942 has no instruction 'v_mac_f32'"),
        ("gfx942", "image_load v0, v1, s[8:15]", "gfx942 has no instruction 'image_load'"),
        ("gfx908", "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", "gfx908 has no instruction 'v_pk_fma_f32'"),
        ("gfx900", "v_mov_b32 a0, v1", "'a0' must be a vector register"),
        ("gfx942", "v_mov_b32 a0, v1", "'a0' must be a vector register"),
    ],
)
def test_refusals_name_instruction_and_processor(processor: str, line: str, refusal: str) -> None:
    with pytest.raises(SoftcardError) as caught:
        assemble_one(target(processor), line)
    assert refusal in str(caught.value)
