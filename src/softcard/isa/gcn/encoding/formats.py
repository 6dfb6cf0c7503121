"""The encodings of each generation: their bit fields, and the selection of an encoding by a word's highest bits.

The nine highest bits of an instruction's first word determine its encoding. Patterns are written from the most
significant bit down (see `isa.pattern`); those of several words have the last word first. ``-`` is a bit that decoding
ignores, because compilers leave some of these non-zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from softcard.isa.gcn.target import ENCODINGS, GFX7, GFX8, GFX9, GFX90A, GFX940
from softcard.isa.pattern import Kind, Pattern, Piece

# fmt: off
_WIDTHS: Final = {
    "op": 0, "sdst": 7, "ssrc0": 8, "ssrc1": 8, "simm16": 16,
    "sdata": 7, "sbase": 6, "imm": 1, "glc": 1, "nv": 1, "soffset_en": 1, "soffset": 0, "offset": 0,
    "vdst": 8, "src0": 9, "src1": 0, "src2": 9, "abs": 3, "neg": 3, "neg_hi": 3, "omod": 2, "clamp": 1,
    "op_sel": 0, "op_sel_hi": 0,
    "dst_sel": 3, "dst_unused": 2, "src0_sel": 3, "src1_sel": 3, "src0_sext": 1, "src1_sext": 1,
    "s0": 1, "s1": 1, "sd": 1,
    "dpp_ctrl": 9, "bound_ctrl": 1, "bank_mask": 4, "row_mask": 4,
    "addr": 8, "data": 8, "data0": 8, "data1": 8, "offset0": 8, "offset1": 8, "gds": 1,
    "saddr": 7, "seg": 2, "slc": 1, "lds": 1, "tfe": 1,
    "vdata": 8, "vaddr": 8, "srsrc": 5, "ssamp": 5, "offen": 1, "idxen": 1, "addr64": 1, "dfmt": 4, "nfmt": 3,
    "dmask": 4, "unorm": 1, "da": 1, "r128": 1, "lwe": 1, "d16": 1,
    "tgt": 6, "en": 4, "compr": 1, "done": 1, "vm": 1, "vsrc0": 8, "vsrc1": 8, "vsrc2": 8, "vsrc3": 8,
    "vsrc": 8, "attr": 6, "chan": 2,
    "acc": 1, "scc": 1, "sve": 1, "acc0": 1, "acc1": 1, "acc_cd": 1, "cbsz": 3, "abid": 4, "blgp": 3,
    "scale_a": 9, "scale_b": 9,
}
# fmt: on
KINDS: Final = {name: Kind(name, width) for name, width in _WIDTHS.items()} | {
    "soff": Kind("offset", signed=True),
    "s0code": Kind("src0"),
    "s1code": Kind("src1", 8),
}


@dataclass(frozen=True, slots=True)
class Format:
    """An encoding of one generation. `family` is the family of the operations that it encodes.

    The opcode is at bit `code_at` under the mask `code_mask`, which is 0 for an encoding without an opcode. It is in
    the first word, except that of VOP3PX, which is in the third.
    """

    name: str
    family: str
    pattern: Pattern
    size: int
    code_at: int
    code_mask: int


# fmt: off
_COMMON: Final = (
    ("SOP1",   "sop1", "101111101 sdst op[7:0] ssrc0"),
    ("SOPC",   "sopc", "101111110 op[6:0] ssrc1 ssrc0"),
    ("SOPP",   "sopp", "101111111 op[6:0] simm16"),
    ("SOPK",   "sopk", "1011 op[4:0] sdst simm16"),
    ("SOP2",   "sop2", "10 op[6:0] sdst ssrc1 ssrc0"),
    ("VOP1",   "vop1", "0111111 vdst op[7:0] src0"),
    ("VOPC",   "vopc", "0111110 op[7:0] src1[7:0] src0"),
    ("VOP2",   "vop2", "0 op[5:0] vdst src1[7:0] src0"),
)
_VOP3_HIGH: Final = "neg omod src2 src1[8:0] src0 "
_VOP3P_HIGH: Final = "neg op_sel_hi[1:0] src2 src1[8:0] src0 "
_DS_HIGH: Final = "vdst data1 data0 addr "
_MIMG_HIGH: Final = " ----- ssamp srsrc vdata vaddr 111100 slc op[6:0] lwe tfe r128 da glc unorm dmask --------"
_BUFFER_HIGH7: Final = "soffset[7:0] tfe slc - srsrc vdata vaddr "
_BUFFER_HIGH8: Final = "soffset[7:0] tfe -- srsrc vdata vaddr "
_BUFFER_LOW: Final = " glc idxen offen offset[11:0]"
_EXP_HIGH: Final = "vsrc3 vsrc2 vsrc1 vsrc0 "
_GFX7: Final = (
    *_COMMON,
    ("SMRD",   "smem",   "11000 op[4:0] sdst sbase imm offset[7:0]"),
    ("VOP3A",  "vop3",   _VOP3_HIGH + "110100 op[8:0] ----- clamp abs vdst"),
    ("VOP3B",  "vop3",   _VOP3_HIGH + "110100 op[8:0] -- sdst vdst"),
    ("VINTRP", "vintrp", "110010 vdst op[1:0] attr chan vsrc"),
    ("DS",     "ds",     _DS_HIGH + "110110 op[7:0] gds - offset1 offset0"),
    ("FLAT",   "flat",   "vdst tfe ------- data addr 110111 - op[6:0] slc glc ----------------"),
    ("MUBUF",  "mubuf",  _BUFFER_HIGH7 + "111000 - op[6:0] - lds addr64" + _BUFFER_LOW),
    ("MTBUF",  "mtbuf",  _BUFFER_HIGH7 + "111010 nfmt dfmt op[2:0] addr64" + _BUFFER_LOW),
    ("MIMG",   "mimg",   "-" + _MIMG_HIGH),
    ("EXP",    "exp",    _EXP_HIGH + "111110 ------------- vm done compr tgt en"),
)
_GFX8_9: Final = (
    *_COMMON,
    ("VOP3B",  "vop3",   _VOP3_HIGH + "110100 op[9:0] clamp sdst vdst"),
    ("VINTRP", "vintrp", "110101 vdst op[1:0] attr chan vsrc"),
    ("DS",     "ds",     _DS_HIGH + "110110 - op[7:0] gds offset1 offset0"),
    ("MUBUF",  "mubuf",  _BUFFER_HIGH8 + "111000 - op[6:0] slc lds -" + _BUFFER_LOW),
    ("MTBUF",  "mtbuf",  _BUFFER_HIGH7 + "111010 nfmt dfmt op[3:0]" + _BUFFER_LOW),
    ("MIMG",   "mimg",   "d16" + _MIMG_HIGH),
    ("EXP",    "exp",    _EXP_HIGH + "110001 ------------- vm done compr tgt en"),
)
_GFX8: Final = (
    *_GFX8_9,
    ("SMEM",   "smem",   "------------ offset[19:0] 110000 op[7:0] imm glc --- sdata sbase"),
    ("VOP3A",  "vop3",   _VOP3_HIGH + "110100 op[9:0] clamp ---- abs vdst"),
    ("FLAT",   "flat",   "vdst tfe ------- data addr 110111 - op[6:0] slc glc ----------------"),
)
_FLAT9: Final = "110111 - op[6:0] slc glc"
_GFX9_ON: Final = (
    ("SMEM",   "smem",   "soffset[6:0] ---- soff[20:0] 110000 op[7:0] imm glc nv soffset_en - sdata sbase"),
    ("VOP3A",  "vop3",   _VOP3_HIGH + "110100 op[9:0] clamp op_sel[3:0] abs vdst"),
    ("VOP3P",  "vop3p",  _VOP3P_HIGH + "110100111 op[6:0] clamp op_sel_hi[2] op_sel[2:0] neg_hi vdst"),
)
_MAI_HIGH: Final = "blgp acc1 acc0 src2 src1[8:0] src0 110100111 op[6:0] "
_GFX9: Final = (
    *_GFX8_9,
    *_GFX9_ON,
    ("MAI",    "mai",    _MAI_HIGH + "- abid cbsz vdst"),
    ("FLAT",   "flat",   f"vdst nv saddr data addr {_FLAT9} seg lds offset[12:0]"),
    ("FLAT",   "global", f"vdst nv saddr data addr {_FLAT9} seg lds soff[12:0]"),
)
_MTBUF_HIGH90A: Final = "soffset[7:0] acc slc scc srsrc vdata vaddr "
_MIMG_90A: Final = "d16 ----- ssamp srsrc vdata vaddr 111100 slc op[6:0] lwe acc r128 da glc unorm dmask scc -------"
_GFX90A_ON: Final = (
    *_COMMON,
    *_GFX9_ON,
    ("VOP3B",  "vop3",   _VOP3_HIGH + "110100 op[9:0] clamp sdst vdst"),
    ("MAI",    "mai",    _MAI_HIGH + "acc_cd abid cbsz vdst"),
    ("DS",     "ds",     _DS_HIGH + "110110 acc op[7:0] gds offset1 offset0"),
    ("MUBUF",  "mubuf",  "soffset[7:0] acc -- srsrc vdata vaddr 111000 - op[6:0] slc lds scc" + _BUFFER_LOW),
    ("MTBUF",  "mtbuf",  _MTBUF_HIGH90A + "111010 nfmt dfmt op[3:0]" + _BUFFER_LOW),
)
_FLAT90A: Final = "110111 scc op[6:0] slc glc"
_GFX90A: Final = (
    *_GFX90A_ON,
    ("MIMG",   "mimg",   _MIMG_90A),
    ("FLAT",   "flat",   f"vdst acc saddr data addr {_FLAT90A} seg lds offset[12:0]"),
    ("FLAT",   "global", f"vdst acc saddr data addr {_FLAT90A} seg lds soff[12:0]"),
)
_GFX940: Final = (
    *_GFX90A_ON,
    ("VOP3PX", "vop3px", _MAI_HIGH + "acc_cd 0001 cbsz vdst --- op_sel_hi[1:0] --------- scale_b scale_a "
                         "1101001110101100 --- op_sel[1:0] -----------"),
    ("FLAT",   "flat",   f"vdst acc saddr data addr {_FLAT90A} seg sve offset[12:0]"),
    ("FLAT",   "global", f"vdst acc saddr data addr {_FLAT90A} seg sve soff[12:0]"),
)
# fmt: on

_SDWA_LOW: Final = " clamp dst_unused dst_sel s0code[7:0]"
_SDWA_HEAD: Final = "s1 - abs[1] neg[1] src1_sext src1_sel s0 - abs[0] neg[0] src0_sext src0_sel"
_SDWA: Final = {
    GFX8: "-- abs[1] neg[1] src1_sext src1_sel -- abs[0] neg[0] src0_sext src0_sel --" + _SDWA_LOW,
    GFX9: _SDWA_HEAD + " omod" + _SDWA_LOW,
}
_DPP: Final = "row_mask bank_mask abs[1] neg[1] abs[0] neg[0] bound_ctrl -- dpp_ctrl s0code[7:0]"
_LOW: Final = {
    "VOP1": ("vop1", "0111111 vdst op[7:0]"),
    "VOP2": ("vop2", "0 op[5:0] vdst s1code"),
    "VOPC": ("vopc", "0111110 op[7:0] s1code"),
}
SDWA_CODE: Final = 249
DPP_CODE: Final = 250


def _extended(level: int) -> tuple[tuple[str, str, str], ...]:
    """Return the name, the operation family and the bit pattern of each SDWA and DPP form of a generation.

    In each pattern the second word precedes the first word, whose field SRC0 selects the form."""
    if level == GFX7:
        return ()
    plain = _SDWA[min(level, GFX9)]
    compare = f"{_SDWA_HEAD} sd sdst s0code[7:0]" if level >= GFX9 else plain
    rows = []
    for name, (family, low) in _LOW.items():
        rows.append((f"{name}_SDWA", family, f"{compare if name == 'VOPC' else plain} {low} {SDWA_CODE:09b}"))
        if name != "VOPC":
            rows.append((f"{name}_DPP", family, f"{_DPP} {low} {DPP_CODE:09b}"))
    return tuple(rows)


def _format(name: str, family: str, pattern: str) -> Format:
    width = 32 * (_WORDS.get(name) or (2 if "_" in name else 1))
    parsed = Pattern.parse(pattern, width, KINDS)
    code = next((field.pieces[0] for field in parsed.fields if field.name == "op"), Piece(0, 0, 0))
    return Format(name, family, parsed, width // 8, code.at, (1 << code.width) - 1)


_WORDS: Final = {
    **dict.fromkeys(("VOP3A", "VOP3B", "VOP3P", "MAI", "SMEM", "DS", "FLAT", "MUBUF", "MTBUF", "MIMG", "EXP"), 2),
    "VOP3PX": 4,
}
"""The number of words of an encoding without a literal, by name. SDWA and DPP forms have two, all others one."""
MATRIX_FORMS: Final = frozenset({"MAI", "VOP3PX"})
"""The encodings of matrix instructions."""
FORMATS: Final = {
    level: tuple(_format(*row) for row in (*rows, *_extended(level)))
    for level, rows in ((GFX7, _GFX7), (GFX8, _GFX8), (GFX9, _GFX9), (GFX90A, _GFX90A), (GFX940, _GFX940))
}
"""All encodings by `Target.encoding`."""
LONGEST: Final = max(fmt.size for formats in FORMATS.values() for fmt in formats)
"""The number of bytes of the longest instruction. Only encodings of one word can have a literal."""


@cache
def format_of(level: int, name: str, family: str = "") -> Format:
    """Return the encoding with the name `name`.

    From GFX9 on FLAT has two encodings, for flat and for segment instructions; `family` selects one.
    """
    for fmt in FORMATS[level]:
        if fmt.name == name and (not family or fmt.family == family or level < GFX9 or name != "FLAT"):
            return fmt
    raise KeyError(name)


_ORDER: Final = ("SOP1", "SOPC", "SOPP", "SOPK", "SOP2", "VOP1", "VOPC", "VOP2", "VOP3P")
SHIFT: Final = 23
"""The number of low bits of the first word that do not affect the selection of the encoding."""


def _starts(level: int) -> tuple[Format | None, ...]:
    """Return the encoding for each value of the nine highest bits: the first in `_ORDER` that matches, or None.

    VOP3B, MAI and VOP3PX are left out, as their bits are those of VOP3A and VOP3P.
    """
    found: list[Format | None] = []
    plain = [fmt for fmt in FORMATS[level] if "_" not in fmt.name and fmt.name not in ("VOP3B", *MATRIX_FORMS)]
    plain.sort(key=lambda fmt: _ORDER.index(fmt.name) if fmt.name in _ORDER else len(_ORDER))
    for top in range(1 << 32 - SHIFT):
        word, deciding = top << SHIFT, 0xFFFF_FFFF << SHIFT & 0xFFFF_FFFF
        fits = (f for f in plain if (f.pattern.match ^ word) & f.pattern.mask & deciding == 0)
        found.append(next(fits, None))
    return tuple(found)


STARTS: Final = {level: _starts(level) for level in ENCODINGS}
"""The encoding for each value of a word's nine highest bits, by `Target.encoding`, or None."""
