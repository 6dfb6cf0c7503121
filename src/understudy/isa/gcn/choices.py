"""What the ISA manuals leave open, or disagree about, and our answers (`docs/gcn.md` lists them)."""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice
from understudy.isa.gcn.choices_memory import MEMORY_CHOICES
from understudy.isa.gcn.insn import Accuracy

CHOICES: Final = (
    Choice(
        "gcn/nan-results",
        "The manuals do not say which NaN an arithmetic operation gives.",
        "The canonical one: positive, quiet, payload 0. Operations that pass a NaN on (minima, v_div_fixup) quiet it.",
        "Tests and programs rarely look at payloads, and one NaN makes both engines agree at no cost.",
    ),
    Choice(
        "gcn/inline-16",
        "The manuals give inline floats one value per operand size, but not what a 16-bit integer operand gets.",
        "16-bit float operands get the binary16 number in the low half and 0 above; 16-bit integer operands see a half "
        "of the binary32 number, and so does every 16-bit operand of GFX7.",
        "LLVM encodes packed constants this way, with a comment that hardware does so.",
    ),
    Choice(
        "gcn/literal-64",
        "The manuals give literals 32 bits and do not say for every operand how 64 are made of them.",
        "Floats: the upper half, zeros below; signed integers: sign-extended; other 64-bit operands: zero-extended.",
        "LLVM emits s_mov_b64 with a literal only where the value fits in 32 unsigned bits.",
    ),
    Choice(
        "gcn/high-half",
        "What a 16-bit result does to the other half of its register differs by generation and operation.",
        "GFX8 clears it. GFX9 clears it too, but for operations new in GFX9's long encoding and v_mac_f16, v_madmk_f16 "
        "and v_madak_f16, which keep it.",
        "LLVM's list of operations that clear it, which says it was found by experiment. AMD's pseudo-code of a later "
        "chip clears it for the three multiply-adds too; compilers do not rely on either.",
    ),
    Choice(
        "gcn/omod",
        "Whether an output modifier acts on the rounded result.",
        "It multiplies the rounded result, flushes denormals and makes -0 a +0; it does nothing while MODE keeps "
        "denormals or IEEE is set.",
        "The manuals say when it is ignored and that it is not IEEE-compatible.",
    ),
    Choice(
        "gcn/integer-clamp",
        "The manuals do not list which integer operations saturate under the clamp bit.",
        "Sums, differences, multiply-adds, 24-bit products and sums of differences do; v_mul_lo and shifts ignore it.",
        "LLVM's assembler accepts clamp on these from GFX8 on.",
    ),
    Choice(
        "gcn/dpp-invalid",
        "Sources disagree on what a lane gets whose source lane is missing or outside of EXEC when BOUND_CTRL is 0.",
        "It is not written. With BOUND_CTRL 1 it reads 0.",
        "LLVM's update.dpp, whose first operand is what such lanes keep.",
    ),
    Choice(
        "gcn/sdwa-old",
        "Which part of the destination v_mac reads as its addend under SDWA.",
        "All of it, not the part that dst_sel names.",
        "The manuals give selects to the two sources and the destination only.",
    ),
    Choice(
        "gcn/minmax-denormals",
        "Whether minima and maxima flush denormals.",
        "On GFX9 as MODE says; GFX7 and GFX8 pass them on.",
        "LLVM uses v_max to canonicalise from GFX9 on, and a multiplication before.",
    ),
    Choice(
        "gcn/minmax-zeros",
        "The manuals order -0 and +0 for two operands only; AMD's pseudo-code of v_med3 takes them for equal.",
        "-0 is below +0 everywhere, also in v_min3, v_max3 and v_med3.",
        "They are defined by the operations on two operands; v_med3 of -0, -0, +0 was seen to be -0 on a later chip.",
    ),
    Choice(
        "gcn/mad-f16-denormals",
        "Whether v_mad_f16, v_mac_f16 and v_mad_mix flush denormals.",
        "Like v_mad_f32: always, with a rounded product; v_mad_mix those of binary16 too, sources and results.",
        "LLVM and Mesa form them only where denormals are flushed. v_fma_mix follows MODE.",
    ),
    Choice(
        "gcn/fract-below-one",
        "x - floor(x) rounds to 1 for small negative x.",
        "v_fract gives the largest number below 1 there.",
        "LLVM replaces min(x - floor(x), largest below 1) by v_fract from GFX7 on.",
    ),
    Choice(
        "gcn/frexp-special",
        "One source gives exponent -1 and a NaN mantissa for infinities and NaNs, another 0 and the source.",
        "Exponent 0; the mantissa is the source, a NaN quieted.",
        "AMD's own pseudo-code.",
    ),
    Choice(
        "gcn/cvt-nan",
        "One source lets v_cvt_flr and v_cvt_rpi turn NaNs into the largest or smallest integer.",
        "0, as all conversions do.",
        "AMD's own pseudo-code uses one conversion for all.",
    ),
    Choice(
        "gcn/pk-u8-rounding",
        "How v_cvt_pk_u8_f32 and v_cvt_pkaccum_u8_f32 round.",
        "As MODE says for binary32.",
        "The one public description that says anything; a GFX9 chip was seen to round to nearest where MODE says so.",
    ),
    Choice(
        "gcn/norm-rounding",
        "How conversions to normalised integers round, and what the lowest one is.",
        "To nearest even, -32767 to 32767 or 0 to 65535, NaN to 0.",
        "The one public description that says anything.",
    ),
    Choice(
        "gcn/approximations",
        "The manuals give error bounds for reciprocals, roots, exponentials, logarithms and sines.",
        "Nearly correctly rounded results. binary32 forms flush denormals always, the others follow MODE.",
        "Within every bound, alike in both engines; the manuals say which forms support denormals.",
    ),
    Choice(
        "gcn/sine-domain",
        "Sources give [-1, 1] or [-256, 256] revolutions as the domain of v_sin and v_cos.",
        "[-256, 256]; beyond it 0 and 1, NaN of infinities.",
        "AMD's manual.",
    ),
    Choice(
        "gcn/cvt-f32-f64-rounding",
        "Which rounding of MODE v_cvt_f32_f64 takes; one description says that of binary32.",
        "That of binary64 and binary16. Denormal results are flushed as MODE says for binary32.",
        "LLVM sets it for conversions that ask for a rounding.",
    ),
    Choice(
        "gcn/flush-tininess",
        "Whether a result that rounding makes the least normal number is flushed as a denormal.",
        "A result is flushed where it is below the normal numbers after rounding as if exponents had no end.",
        "IEEE 754 allows it, and the hosts of the model do it.",
    ),
    Choice(
        "gcn/max-scc",
        "Manuals disagree on SCC of s_max where the sources are equal.",
        "1: the first source was taken.",
        "AMD's newer pseudo-code; compilers do not use this SCC.",
    ),
    Choice(
        "gcn/mad-legacy-zero",
        "Whether v_mad_legacy and v_mac_legacy give the addend as it is, or +0 plus it, where a factor is a zero.",
        "+0 plus the addend: a -0 becomes +0.",
        "LLVM's folding of the same rule says that returning the addend would be wrong.",
    ),
    Choice(
        "gcn/div-fixup",
        "AMD's pseudo-code of v_div_fixup_f32 and v_div_fixup_f64 passes on a quotient that is a NaN.",
        "It becomes an infinity where neither source is a NaN.",
        "Another description says so, and quotients that overflow have become NaNs in the compilers' sequence.",
    ),
    Choice(
        "gcn/trig-preop",
        "AMD's pseudo-code of v_trig_preop_f64 keeps the lowest bits of the shifted digits; LLVM's folding gives 0 "
        "beyond digit 1120 and passes NaNs on.",
        "The highest 53 bits, of 1201 digits in all; NaNs count as exponents of 2047.",
        "Argument reductions need the highest bits and stay below digit 1120.",
    ),
    Choice(
        "gcn/mqsad-wrap",
        "One description lets v_mqsad_u32_u8 saturate, AMD's pseudo-code has no bound.",
        "It wraps; with the clamp bit it saturates.",
        "As all sums of differences.",
    ),
    Choice(
        "gcn/div-scale",
        "AMD's pseudo-code of v_div_scale mixes up the case of a tiny quotient by a huge denominator.",
        "There the denominator is scaled down, and v_div_fmas scales back. Infinities and NaNs pass.",
        "Compilers' division sequences must give correctly rounded quotients.",
    ),
    Choice(
        "gcn/div-fmas",
        "AMD's pseudo-code of v_div_fmas multiplies by 2**32 or 2**64 always.",
        "By 2**64 (2**128) where the addend is 2 or more, else by 2**-64 (2**-128), with one rounding.",
        "Another description says so from tests of hardware, and only this undoes v_div_scale.",
    ),
    Choice(
        "gcn/dot2-f16",
        "Order and rounding of the sums of v_dot2_f32_f16 are not documented for gfx906.",
        "The addend plus the product of the low halves, then that of the high ones, each rounded, denormals flushed.",
        "AMD's pseudo-code of a later chip.",
    ),
    Choice(
        "gcn/hwreg-writes",
        "Which bits s_setreg may change.",
        "All of MODE and TRAPSTS, none of the others.",
        "Programs set rounding, denormals and exceptions; the rest describes the wave.",
    ),
    *MEMORY_CHOICES,
)
"""All of them, in the order of the documents."""

BY_ID: Final = {choice.id: choice for choice in CHOICES}


def chosen(name: str) -> dict[str, Accuracy]:
    """The extras of an operation whose ordinary results depend on the choice of that name."""
    return {"accuracy": Accuracy("chosen", "", BY_ID[f"gcn/{name}"].id)}
