"""Matrix operations of CDNA (MFMA, SMFMAC), and moves between vector and accumulation registers (VOP3P).

Matrix instructions have an encoding of their own (MAI) and ignore EXEC. D and C are accumulation registers on gfx908;
from gfx90a on they may be accumulation or vector registers. SMFMAC has no operand C: it adds to the old D, and its
third source holds the indices of the sparse A.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from softcard.core.errors import BeyondModel, GuestFault
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.encoding import operands
from softcard.isa.gcn.insn import EXACT, Insn, Op, Row, chosen, ops
from softcard.isa.gcn.semantics import source
from softcard.isa.gcn.semantics.matrix.table import FORMATS, Type, Use, check_fields, matrices
from softcard.isa.gcn.state import VGPRS, register_name

# fmt: off
OLD_ROWS: Final = (
    # name                            opcode, registers of D, A and B
    ("v_mfma_f32_32x32x1f32",          0x40, 32, 1, 1),
    ("v_mfma_f32_16x16x1f32",          0x41, 16, 1, 1),
    ("v_mfma_f32_4x4x1f32",            0x42,  4, 1, 1),
    ("v_mfma_f32_32x32x2f32",          0x44, 16, 1, 1),
    ("v_mfma_f32_16x16x4f32",          0x45,  4, 1, 1),
    ("v_mfma_f32_32x32x4f16",          0x48, 32, 2, 2),
    ("v_mfma_f32_16x16x4f16",          0x49, 16, 2, 2),
    ("v_mfma_f32_4x4x4f16",            0x4A,  4, 2, 2),
    ("v_mfma_f32_32x32x8f16",          0x4C, 16, 2, 2),
    ("v_mfma_f32_16x16x16f16",         0x4D,  4, 2, 2),
    ("v_mfma_i32_32x32x4i8",           0x50, 32, 1, 1),
    ("v_mfma_i32_16x16x4i8",           0x51, 16, 1, 1),
    ("v_mfma_i32_4x4x4i8",             0x52,  4, 1, 1),
    ("v_mfma_i32_32x32x8i8",           0x54, 16, 1, 1),
    ("v_mfma_i32_16x16x16i8",          0x55,  4, 1, 1),
    ("v_mfma_f32_32x32x2bf16",         0x68, 32, 1, 1),
    ("v_mfma_f32_16x16x2bf16",         0x69, 16, 1, 1),
    ("v_mfma_f32_4x4x2bf16",           0x6B,  4, 1, 1),
    ("v_mfma_f32_32x32x4bf16",         0x6C, 16, 1, 1),
    ("v_mfma_f32_16x16x8bf16",         0x6D,  4, 1, 1),
)
OLD_90A_ROWS: Final = (
    # name                            opcode, registers of D, A and B
    ("v_mfma_f32_32x32x4bf16_1k",      0x63, 32, 2, 2),
    ("v_mfma_f32_16x16x4bf16_1k",      0x64, 16, 2, 2),
    ("v_mfma_f32_4x4x4bf16_1k",        0x65,  4, 2, 2),
    ("v_mfma_f32_32x32x8bf16_1k",      0x66, 16, 2, 2),
    ("v_mfma_f32_16x16x16bf16_1k",     0x67,  4, 2, 2),
    ("v_mfma_f64_16x16x4f64",          0x6E,  8, 2, 2),
    ("v_mfma_f64_4x4x4f64",            0x6F,  2, 2, 2),
)
NEW_ROWS: Final = (
    # name                            opcode, registers of D, A and B
    ("v_mfma_f32_32x32x1_2b_f32",      0x40, 32, 1, 1),
    ("v_mfma_f32_16x16x1_4b_f32",      0x41, 16, 1, 1),
    ("v_mfma_f32_4x4x1_16b_f32",       0x42,  4, 1, 1),
    ("v_mfma_f32_32x32x2_f32",         0x44, 16, 1, 1),
    ("v_mfma_f32_16x16x4_f32",         0x45,  4, 1, 1),
    ("v_mfma_f32_32x32x4_2b_f16",      0x48, 32, 2, 2),
    ("v_mfma_f32_16x16x4_4b_f16",      0x49, 16, 2, 2),
    ("v_mfma_f32_4x4x4_16b_f16",       0x4A,  4, 2, 2),
    ("v_mfma_f32_32x32x8_f16",         0x4C, 16, 2, 2),
    ("v_mfma_f32_16x16x16_f16",        0x4D,  4, 2, 2),
    ("v_mfma_i32_32x32x4_2b_i8",       0x50, 32, 1, 1),
    ("v_mfma_i32_16x16x4_4b_i8",       0x51, 16, 1, 1),
    ("v_mfma_i32_4x4x4_16b_i8",        0x52,  4, 1, 1),
    ("v_mfma_i32_32x32x16_i8",         0x56, 16, 2, 2),
    ("v_mfma_i32_16x16x32_i8",         0x57,  4, 2, 2),
    ("v_mfma_f32_32x32x4_2b_bf16",     0x5D, 32, 2, 2),
    ("v_mfma_f32_16x16x4_4b_bf16",     0x5E, 16, 2, 2),
    ("v_mfma_f32_4x4x4_16b_bf16",      0x5F,  4, 2, 2),
    ("v_mfma_f32_32x32x8_bf16",        0x60, 16, 2, 2),
    ("v_mfma_f32_16x16x16_bf16",       0x61,  4, 2, 2),
    ("v_smfmac_f32_16x16x32_f16",      0x62,  4, 2, 4),
    ("v_smfmac_f32_32x32x16_f16",      0x64, 16, 2, 4),
    ("v_smfmac_f32_16x16x32_bf16",     0x66,  4, 2, 4),
    ("v_smfmac_f32_32x32x16_bf16",     0x68, 16, 2, 4),
    ("v_smfmac_i32_16x16x64_i8",       0x6A,  4, 2, 4),
    ("v_smfmac_i32_32x32x32_i8",       0x6C, 16, 2, 4),
    ("v_mfma_f64_16x16x4_f64",         0x6E,  8, 2, 2),
    ("v_mfma_f64_4x4x4_4b_f64",        0x6F,  2, 2, 2),
)
FP8_ROWS: Final = (
    # name                            opcode, registers of D, A and B
    ("v_mfma_f32_16x16x32_bf8_bf8",    0x70,  4, 2, 2),
    ("v_mfma_f32_16x16x32_bf8_fp8",    0x71,  4, 2, 2),
    ("v_mfma_f32_16x16x32_fp8_bf8",    0x72,  4, 2, 2),
    ("v_mfma_f32_16x16x32_fp8_fp8",    0x73,  4, 2, 2),
    ("v_mfma_f32_32x32x16_bf8_bf8",    0x74, 16, 2, 2),
    ("v_mfma_f32_32x32x16_bf8_fp8",    0x75, 16, 2, 2),
    ("v_mfma_f32_32x32x16_fp8_bf8",    0x76, 16, 2, 2),
    ("v_mfma_f32_32x32x16_fp8_fp8",    0x77, 16, 2, 2),
    ("v_smfmac_f32_16x16x64_bf8_bf8",  0x78,  4, 2, 4),
    ("v_smfmac_f32_16x16x64_bf8_fp8",  0x79,  4, 2, 4),
    ("v_smfmac_f32_16x16x64_fp8_bf8",  0x7A,  4, 2, 4),
    ("v_smfmac_f32_16x16x64_fp8_fp8",  0x7B,  4, 2, 4),
    ("v_smfmac_f32_32x32x32_bf8_bf8",  0x7C, 16, 2, 4),
    ("v_smfmac_f32_32x32x32_bf8_fp8",  0x7D, 16, 2, 4),
    ("v_smfmac_f32_32x32x32_fp8_bf8",  0x7E, 16, 2, 4),
    ("v_smfmac_f32_32x32x32_fp8_fp8",  0x7F, 16, 2, 4),
)
XF32_ROWS: Final = (
    # name                            opcode, registers of D, A and B
    ("v_mfma_f32_16x16x8_xf32",        0x3E,  4, 2, 2),
    ("v_mfma_f32_32x32x4_xf32",        0x3F, 16, 2, 2),
)
GFX950_ROWS: Final = (
    # name                            opcode, registers of D, A and B
    ("v_mfma_f32_16x16x128_f8f6f4",    0x2D,  4, 8, 8),
    ("v_mfma_f32_32x32x64_f8f6f4",     0x2E, 16, 8, 8),
    ("v_mfma_f32_16x16x32_bf16",       0x35,  4, 4, 4),
    ("v_mfma_i32_16x16x64_i8",         0x36,  4, 4, 4),
    ("v_mfma_f32_32x32x16_bf16",       0x37, 16, 4, 4),
    ("v_mfma_i32_32x32x32_i8",         0x38, 16, 4, 4),
    ("v_smfmac_f32_16x16x64_bf16",     0x39,  4, 4, 8),
    ("v_smfmac_i32_16x16x128_i8",      0x3A,  4, 4, 8),
    ("v_smfmac_f32_16x16x128_bf8_bf8", 0x3B,  4, 4, 8),
    ("v_smfmac_f32_16x16x128_bf8_fp8", 0x3C,  4, 4, 8),
    ("v_smfmac_f32_16x16x128_fp8_bf8", 0x3D,  4, 4, 8),
    ("v_smfmac_f32_16x16x128_fp8_fp8", 0x43,  4, 4, 8),
    ("v_smfmac_f32_32x32x32_bf16",     0x46, 16, 4, 8),
    ("v_smfmac_i32_32x32x64_i8",       0x47, 16, 4, 8),
    ("v_smfmac_f32_32x32x64_bf8_bf8",  0x4B, 16, 4, 8),
    ("v_smfmac_f32_32x32x64_bf8_fp8",  0x4E, 16, 4, 8),
    ("v_smfmac_f32_32x32x64_fp8_bf8",  0x4F, 16, 4, 8),
    ("v_smfmac_f32_32x32x64_fp8_fp8",  0x53, 16, 4, 8),
    ("v_mfma_f32_16x16x32_f16",        0x54,  4, 4, 4),
    ("v_mfma_f32_32x32x16_f16",        0x55, 16, 4, 4),
    ("v_smfmac_f32_16x16x64_f16",      0x5A,  4, 4, 8),
    ("v_smfmac_f32_32x32x32_f16",      0x5B, 16, 4, 8),
)
SCALED_ROWS: Final = (
    # name                                 opcode, registers of D, A and B
    ("v_mfma_scale_f32_16x16x128_f8f6f4",  0x2D,  4, 8, 8),
    ("v_mfma_scale_f32_32x32x64_f8f6f4",   0x2E, 16, 8, 8),
)
# fmt: on
SETS: Final = (
    (OLD_ROWS, {"needs": "mai", "lacks": "gfx940"}),
    (OLD_90A_ROWS, {"needs": "gfx90a", "lacks": "gfx940"}),
    (NEW_ROWS, {"needs": "gfx940"}),
    (FP8_ROWS, {"needs": "fp8"}),
    (XF32_ROWS, {"needs": "xf32"}),
    (GFX950_ROWS, {"needs": "gfx950"}),
)
"""The tables of matrix operations of one MAI encoding, each with the `Op` fields that select their processors."""
SCALED_SETS: Final = ((SCALED_ROWS, {"needs": "gfx950"}),)
"""The tables of matrix operations with scales (VOP3PX), each with the `Op` fields that select their processors.

The opcodes are those of the operations without scales."""
PROCESSOR: Final = {"gfx9-4-generic": "gfx942"}
"""The processor whose matrix table a generic target uses."""


def matrix(b: Builder, i: Insn) -> None:
    """Execute a matrix instruction."""
    if b.mode.gpr_idx:
        raise BeyondModel(f"{i.name} is not modelled while GPR indexing is on")
    b.matrix(use_of(i))


def chosen_arithmetic(i: Insn) -> str:
    """Return the name of the Choice that defines the sums of a matrix instruction.

    Return "" for sums that were measured on hardware or are exact, and for other instructions."""
    found = matrices().get((PROCESSOR.get(i.target.name, i.target.name), i.op.name))
    return found.source if found is not None and found.is_chosen else ""


def use_of(i: Insn) -> Use:
    """Return the fields and registers of a matrix instruction; raise `GuestFault` if a register does not exist."""
    found = matrices()[PROCESSOR.get(i.target.name, i.target.name), i.op.name]
    cbsz, abid, blgp = i.get("cbsz"), i.get("abid"), i.get("blgp")
    check_fields(found, cbsz, abid, blgp)
    a_type, b_type = found.a, found.b
    if found.takes_formats:
        if max(cbsz, blgp) >= len(FORMATS):
            raise BeyondModel(f"{i.name} cbsz:{cbsz} blgp:{blgp}: expected formats below {len(FORMATS)}")
        a_type, b_type, cbsz, blgp = FORMATS[cbsz], FORMATS[blgp], 0, 0
    d, code = i["vdst"], i["src2"]
    register, constant = code - operands.VGPR0, 0
    c: int | None = register
    index: int | None = None
    if found.is_sparse:
        c, index = d, register
    elif code < operands.VGPR0:
        c, constant = None, source.inline(code, "f64" if found.d == Type.F64 else "f32")
    a, own_b = i["src0"] - operands.VGPR0, i["src1"] - operands.VGPR0
    use = Use(found, a_type, b_type, cbsz, abid, blgp, a, own_b, d, c, constant, index)
    if found.is_scaled:
        scales = i["scale_a"] - operands.VGPR0, i["scale_b"] - operands.VGPR0
        low, high = i["op_sel"], i["op_sel_hi"]
        use = replace(use, scales=scales, scale_bytes=(low & 1 | (high & 1) << 1, low >> 1 | high & 2))
    for rows in (use.a_rows, use.b_rows, use.c_rows, use.d_rows):
        if len(rows) and rows[0] // VGPRS != rows[-1] // VGPRS:
            first = register_name(rows[0])
            raise GuestFault(f"{i.name}: the {len(rows)} registers from {first} on do not all exist")
    return use


def rows(sets: Iterable[tuple[Sequence[tuple[str, int, int, int, int]], dict[str, str]]]) -> Iterator[Row]:
    """Yield the table rows of the matrix operations in `sets`."""
    named = {name: processor for processor, name in reversed(matrices())}
    for table, processors in sets:
        for name, code, d, a, b in table:
            is_sparse = name.startswith("v_smfmac")
            addend = "src2@vsrc" if is_sparse else f"src2:{d}{'=f64' if name.startswith('v_mfma_f64') else '=f32'}@csrc"
            found = matrices()[named[name], name]
            scales = " scale_a@vsrc scale_b@vsrc" if found.is_scaled else ""
            extras: dict[str, Any] = {
                "operands": f"vdst:{d}@va src0:{a}@vasrc src1:{b}@vasrc {addend}{scales}",
                "aliases": older_name(name) if table is NEW_ROWS else (),
                "accuracy": EXACT,
            }
            if found.is_chosen:
                extras |= chosen(found.source.removeprefix("gcn/"))
            yield name, None, None, code, None, matrix, extras | processors


def older_name(name: str) -> tuple[str, ...]:
    """Return the name that a matrix operation had before gfx942, as a tuple with one element; () if it had none.

    Assemblers still accept this name."""
    found = re.fullmatch(r"(v_mfma_\w+?_\d+x\d+x\d+)(?:_\d+b)?_(bf16|f16|f32|f64|i8)", name)
    return (found[1] + found[2] + ("_1k" if found[2] == "bf16" else ""),) if found else ()


# fmt: off
OPS: Final[tuple[Op, ...]] = (
    *ops("mai", tuple(rows(SETS))),
    *ops("vop3px", tuple(rows(SCALED_SETS))),
    *ops("vop3p", (
        ("v_accvgpr_read_b32",  None, None, 0x58, "b32 = b32", lambda a: a, {"operands": "vdst src0@asrc"}),
        ("v_accvgpr_write_b32", None, None, 0x59, "b32 = b32", lambda a: a, {"operands": "vdst@a src0"}),
    ), needs="mai"),
    *ops("vop1", (
        ("v_accvgpr_mov_b32",   None, None, 0x52, "b32 = b32", lambda a: a, {"operands": "vdst@a src0@asrc"}),
    ), needs="gfx90a"),
)
# fmt: on
"""All matrix operations, and the moves between vector and accumulation registers."""
