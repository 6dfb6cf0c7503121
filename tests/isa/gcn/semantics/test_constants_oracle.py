"""LLVM 19 as judge of constants in assembly text: which spellings are inline constants, literals, or neither.

Where LLVM takes a line, so do we, with the same bytes; what it refuses and we take is named.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest

from softcard.core.errors import WireError
from softcard.isa.gcn.asm.assembler import assemble_one
from softcard.isa.gcn.encoding.operands import FLOATS, HALVES
from softcard.isa.gcn.target import TARGETS
from tests.isa.gcn.asm.llvm import assembled, needs_llvm

pytestmark = needs_llvm

EVERYWHERE = (
    "v_mov_b32 v0, {}", "v_add_f32 v0, {}, v1", "v_add_f32_e64 v0, {}, v1", "v_add_f32_e64 v0, v1, {}",
    "v_fma_f32 v0, v1, v2, {}", "v_mad_u32_u24 v0, v1, v2, {}", "v_cvt_f32_u32 v0, {}", "v_cvt_f32_f64 v0, {}",
    "v_add_f64 v[0:1], {}, v[2:3]", "v_fma_f64 v[0:1], v[2:3], {}, v[4:5]", "v_ldexp_f64 v[0:1], {}, v2",
    "v_ldexp_f64 v[0:1], v[2:3], {}", "v_ldexp_f32 v0, v1, {}", "v_cmp_eq_f64 vcc, {}, v[2:3]",
    "v_cmp_eq_u64 vcc, {}, v[2:3]", "v_cmp_class_f32 vcc, {}, v1", "v_trunc_f64 v[0:1], {}",
    "v_alignbit_b32 v0, {}, v1, v2", "v_mad_u64_u32 v[0:1], vcc, v2, v3, {}", "v_sad_u8 v0, v1, {}, v2",
    "v_madak_f32 v0, v1, v2, {}", "v_madmk_f32 v0, v1, {}, v2",
    "v_cvt_pkrtz_f16_f32_e64 v0, {}, v1", "v_cvt_f32_f16 v0, {}", "s_mov_b32 s0, {}",
    "s_mov_b64 s[0:1], {}", "s_add_u32 s0, {}, s1", "s_and_b64 s[0:1], {}, s[2:3]", "s_lshl_b64 s[0:1], s[2:3], {}",
    "s_lshl_b64 s[0:1], {}, s2", "s_cmp_eq_u32 s0, {}", "s_bfe_u64 s[0:1], {}, s2", "s_cselect_b32 s0, {}, s1",
    "v_div_scale_f64 v[0:1], vcc, {}, v[2:3], v[4:5]", "buffer_load_dword v0, off, s[4:7], {}",
)  # fmt: skip
FROM_GFX8 = (
    "v_add_f16 v0, {}, v1", "v_add_f16_e64 v0, {}, v1", "v_fma_f16 v0, v1, v2, {}", "v_cmp_eq_f16 vcc, {}, v1",
    "v_add_u16 v0, {}, v1", "v_mad_u16 v0, v1, v2, {}", "v_max_i16 v0, {}, v1", "v_lshlrev_b16 v0, {}, v1",
    "v_cmp_eq_i16 vcc, {}, v1", "v_cvt_f16_u16 v0, {}",
    "v_lshlrev_b64 v[0:1], {}, v[2:3]", "v_lshlrev_b64 v[0:1], v2, {}",
)  # fmt: skip
FROM_GFX9 = ("v_pk_add_f16 v0, {}, v1", "v_pk_fma_f16 v0, v1, {}, v2", "v_pk_add_u16 v0, {}, v1")
FORMS = {
    "gfx700": EVERYWHERE,
    "gfx803": EVERYWHERE + FROM_GFX8,
    "gfx900": EVERYWHERE + FROM_GFX8 + FROM_GFX9,
}
NAMED = tuple(
    """
    0.0 0.00 .0 0. -0.0 .5 0.5 0.50 5.0e-1 500.0e-3 -.5 1. 1.00 1.0e0 1.0e+0 10.0e-1 20e-1 -1. 2.00 -2. 4. 40.0e-1 -4.00
    0.15915494 0.159154943 0.15915493667125702 0.1591549 0.15915494309189532 0.15915494309189533 0.1591797 0.15918
    -0.15915494 1.00000001 1.0000001 0.99999999 1.0005 1.0004 8.0 64.0 -16.0 1.1 1.5 65504.0 65519.0 65520.0 1.0e38
    3.5e38 1.0e39 1.0e-38 1.0e-40 1.0e-45 1.0e-46 1.0e300 6.0e-8 5.9604644775390625e-8 1.0e-5 9.8813129168e-324
    0x1p0 0x1.0p-1 0x1.8p1 0 1 64 65 -16 -17 0x40 0x3c00 0x3800 0x3118 0xc400 0x3f800000 0xbf800000 0x3e22f983
    -0x3f800000 0x3ff0000000000000 0x3fc45f306dc9c882 0xc010000000000000 0x3ff00000 0xfffffff0 0xffffffff
    0xfffffffffffffff0 0x80000000
""".split()  # noqa: SIM905  # columns of numbers
)


def spellings(seed: int, count: int) -> Iterator[str]:
    """Values of the float constants and their neighbours in all formats, spelled at random."""
    rng = random.Random(seed)
    for _ in range(count):
        value = float(rng.choice((*FLOATS.values(), "0.0")))
        form, kind = rng.choice((("<e", "<H"), ("<f", "<I"), ("<d", "<Q")))
        (bits,) = struct.unpack(kind, struct.pack(form, value))
        near = bits + rng.choice((0, 0, 0, 1, 2, 7)) * rng.choice((1, 1 << 13, 1 << 29))
        (value,) = struct.unpack(form, struct.pack(kind, near % (1 << 8 * struct.calcsize(kind))))
        if not abs(value) < 1e300:
            continue
        text = rng.choice((f"{value:.{rng.randrange(1, 25)}f}", f"{value:.{rng.randrange(1, 20)}e}", repr(value)))
        if "e" in text or "." not in text:
            yield text
            continue
        text += "0" * rng.randrange(3)
        yield text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") and rng.random() < 0.3 else text


def is_named(line: str, text: str) -> bool:
    """Constants that we accept and LLVM refuses: hexadecimal literals of 16-bit operands with more than 16 bits."""
    return "16" in line and text.startswith(("0x", "-0x")) and "p" not in text


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("processor", FORMS)
def test_constants_are_what_llvm_makes_of_them(processor: str, seed: int) -> None:
    texts = sorted({*(NAMED if not seed else ()), *spellings(seed, 150)})
    pairs = [(form.format(text), text) for form in FORMS[processor] for text in texts]
    wrong = []
    for (line, text), theirs in zip(pairs, assembled(processor, [line for line, _ in pairs]), strict=True):
        try:
            ours = assemble_one(TARGETS[processor], line)
        except WireError:
            ours = None
        if ours != theirs and not (theirs is None and is_named(line, text)):
            wrong.append(f"{line}: {ours.hex() if ours else None}, LLVM {theirs.hex() if theirs else None}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(pairs)}", *wrong[:40]])


def test_half_constants_are_the_binary16_of_the_others() -> None:
    for code, text in FLOATS.items():
        assert struct.unpack("<H", struct.pack("<e", float(text)))[0] == HALVES[code]
