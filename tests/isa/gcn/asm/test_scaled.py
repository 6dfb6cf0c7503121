"""Matrix instructions with scales (VOP3PX, 16 bytes): texts and encodings against LLVM 22, which Zig contains."""

from __future__ import annotations

import importlib.util
import random
import re
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from softcard.core.errors import SoftcardError
from softcard.isa.gcn.asm.assembler import assemble_one
from softcard.isa.gcn.asm.listing import listing
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.encoding.bounds import format_names, instruction_bounds
from softcard.isa.gcn.encoding.decode import IllegalInstruction, decode
from softcard.isa.gcn.encoding.encode import encode_insn
from softcard.isa.gcn.target import target

GFX950 = target("gfx950")
SHAPES = {"16x16x128": 4, "32x32x64": 16}
"""The registers of D, by shape."""
SIZES = (8, 8, 6, 6, 4)
"""The registers of A or B, by format."""
VECTORS = (
    (
        "0000acd31e3f02000008add304195204",
        "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[20:23], v30, v31 op_sel_hi:[0,0,0]",
    ),
    (
        "0018acd31e3f02180008add304195204",
        "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[20:23], v30, v31 op_sel:[1,1,0] "
        "op_sel_hi:[1,1,0]",
    ),
    (
        "0000acd3023f0200008aaed30419ca4b",
        "v_mfma_scale_f32_32x32x64_f8f6f4 a[0:15], a[4:9], v[12:17], 1.0, v2, v31 op_sel_hi:[0,0,0] cbsz:2 blgp:2",
    ),
)
"""What LLVM 22 makes of instructions."""
VARIANTS = (
    ("", 0),
    (" op_sel_hi:[0,0]", 0),
    (" op_sel:[1,1,1] op_sel_hi:[1,1,1]", 1),
    (" op_sel:[1,1] op_sel_hi:[1,1]", 1),
    (" op_sel:[0] op_sel_hi:[0]", 0),
)
"""Modifiers that LLVM accepts, and the number of the vector that has them, or 0."""
REFUSED = (
    ("v[0:3], v[4:11], v[12:19], v[20:23], v30, s31", "'s31' must be a vector register"),
    ("v[0:3], v[4:11], v[12:19], v[20:23], a3, v31", "'a3' must be a vector register"),
    ("v[0:3], v[4:11], v[12:19], v[20:23], 2, v31", "'2' must be a vector register"),
    ("v[0:3], v[5:12], v[12:19], v[20:23], v30, v31", "v5 cannot begin 8 registers on gfx950"),
    ("a[0:3], v[4:11], v[12:19], v[20:23], v30, v31", "the result and the addend must be either both vector regis"),
    ("v[0:3], v[4:11], v[12:15], v[20:23], v30, v31", "v[12:15] must name 8 registers in this operand"),
    ("v[0:3], v[4:11], v[12:19], v[20:23], v30, v31 abid:1", "the encoding VOP3PX does not support abid"),
    ("v[0:3], v[4:11], v[12:19], v[20:23], v30, v31 neg:[1,0]", "f8f6f4 does not support neg on gfx950"),
    ("v[0:3], v[4:11], v[12:19], v[20:23], v30, v31 op_sel:[2,0]", "op_sel must be a list like [0,1]"),
    ("v[0:3], v[4:11], v[12:19], v[20:23], v30", "v_mfma_scale_f32_16x16x128_f8f6f4 takes 6 operands here, not 5"),
)
"""Operands that LLVM refuses too."""


@pytest.mark.parametrize(("code", "shown"), VECTORS)
def test_vectors(code: str, shown: str) -> None:
    data = bytes.fromhex(code)
    insn = decode(GFX950, data)
    assert (text(insn), insn.size, insn.form) == (shown, 16, "VOP3PX")
    assert encode_insn(insn) == data
    assert assemble_one(GFX950, shown) == data


@pytest.mark.parametrize(("modifiers", "vector"), VARIANTS)
def test_modifiers_of_the_scales(modifiers: str, vector: int) -> None:
    code = assemble_one(GFX950, VECTORS[0][1].replace(" op_sel_hi:[0,0,0]", modifiers))
    assert code.hex() == VECTORS[vector][0]


@pytest.mark.parametrize(("operands", "message"), REFUSED)
def test_refusals(operands: str, message: str) -> None:
    with pytest.raises(SoftcardError) as caught:
        assemble_one(GFX950, f"v_mfma_scale_f32_16x16x128_f8f6f4 {operands}")
    assert message in str(caught.value)


def test_the_addend_may_not_overlap_a_part_of_the_result() -> None:
    """LLVM 22 omits this test for f8f6f4 instructions."""
    with pytest.raises(
        SoftcardError, match="the addend must be exactly the registers of the result, or share none of them"
    ):
        assemble_one(GFX950, "v_mfma_scale_f32_32x32x64_f8f6f4 v[0:15], v[16:23], v[24:31], v[8:23], v32, v33")


@pytest.mark.parametrize("name", ["gfx942", "gfx9-4-generic", "gfx90a", "gfx900"])
def test_other_processors_have_none(name: str) -> None:
    with pytest.raises(SoftcardError, match=f"{name} has no instruction 'v_mfma_scale_f32_16x16x128_f8f6f4'"):
        assemble_one(target(name), VECTORS[0][1])
    with pytest.raises(IllegalInstruction):
        decode(target(name), bytes.fromhex(VECTORS[0][0]))


def test_both_halves_belong_together() -> None:
    """A load of scales before anything else than an instruction that uses them is an instruction of its own."""
    whole = bytes.fromhex(VECTORS[0][0])
    words = [int.from_bytes(whole[at : at + 4], "little") for at in range(0, 16, 4)]
    for third in (words[2] & ~0x7800, words[2] | 0x1000, 0xD3E0_0800, 0xBF80_0000):
        insn = decode(GFX950, [*words[:2], third, words[3]])
        assert (insn.name, insn.size) == ("v_mfma_ld_scale_b32", 8)
    for length in (8, 12):
        assert decode(GFX950, whole[:length]).size == 8
    ignored = [words[0] | 0xE7FF, words[1] | 0xE7FC_0000, *words[2:]]
    assert text(decode(GFX950, ignored)) == VECTORS[0][1]


def test_bounds_and_listings_have_the_whole_instruction() -> None:
    parts = [bytes.fromhex(code) for code, _ in VECTORS]
    alone, wait = assemble_one(GFX950, "v_mfma_ld_scale_b32 v1, v2"), assemble_one(GFX950, "s_nop 3")
    code = b"".join([parts[0], wait, alone, wait, parts[1], parts[2], alone])
    _, sizes, numbers = instruction_bounds(GFX950, np.frombuffer(code, np.uint32))
    assert sizes.tolist() == [4, 1, 2, 1, 4, 4, 2]
    names = format_names(GFX950.encoding)
    assert [names[number] for number in numbers] == ["VOP3PX", "SOPP", "VOP3P", "SOPP", "VOP3PX", "VOP3PX", "VOP3P"]
    lines = listing(GFX950, code)
    assert [line.shown for line in lines if len(line.code) == 16] == [shown for _, shown in VECTORS]
    assert b"".join(assemble_one(GFX950, line.shown) for line in lines) == code
    assert [len(line.code) // 4 for line in lines] == sizes.tolist()


# ---- LLVM 22 ---------------------------------------------------------------------------------------------------------
def llvm(lines: Sequence[str]) -> list[tuple[str, str] | None]:
    """The text and the bytes of each line by LLVM's assembler, None for a line that it refuses."""
    zig = [sys.executable, "-m", "ziglang", "clang", "-cc1as", "-triple", "amdgcn-amd-amdhsa", "-target-cpu", "gfx950"]

    def run(source: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*zig, "-filetype", "asm", "-show-encoding", "-", "-o", "-"],
            input="".join(f"{line}\n" for line in source), capture_output=True, text=True, check=False,
        )  # fmt: skip

    wrong = {int(number) for number in re.findall(r"^<stdin>:(\d+):\d+: error", run(lines).stderr, re.MULTILINE)}
    result = run([line for number, line in enumerate(lines, 1) if number not in wrong])
    assert result.returncode == 0, result.stderr
    found = re.findall(r"^\s*(v_\S.*?)\s*; encoding: \[(.*)\]$", result.stdout, re.MULTILINE)
    made = iter((shown, bytes(int(byte, 16) for byte in code.split(",")).hex()) for shown, code in found)
    return [None if number in wrong else next(made) for number, _ in enumerate(lines, 1)]


def random_line(rng: random.Random) -> str:
    """An instruction with random operands, some of them wrong."""
    shape = rng.choice(list(SHAPES))
    count = SHAPES[shape]

    def group(words: int, files: str = "va") -> str:
        first = rng.randrange(0, 257 - words, 1 if rng.random() < 0.03 else 2)
        return f"{rng.choice(files)}[{first}:{first + words - 1}]"

    formats = [rng.randrange(5) for _ in range(2)]
    file = rng.choice("va")
    d = group(count, file)
    c = rng.choice([d, group(count, file), group(count), "0", "1.0", "-16", "0.15915494"])
    scales = [rng.choice([f"v{rng.randrange(256)}"] * 12 + ["s3", "a4", "1.0", "vcc_lo"]) for _ in range(2)]
    shown = [f"v_mfma_scale_f32_{shape}_f8f6f4 {d}, {', '.join(group(SIZES[each]) for each in formats)}, {c}, "]
    shown.append(", ".join(scales))
    for name in ("op_sel", "op_sel_hi"):
        if rng.random() < 0.6:
            bits = [rng.randrange(2) for _ in range(rng.choice([2, 3]))]
            shown.append(f" {name}:[{','.join(map(str, bits))}]")
    for name, number in zip(("cbsz", "blgp"), formats, strict=True):
        if number or rng.random() < 0.2:
            shown.append(f" {name}:{number}")
    return "".join(shown)


@pytest.mark.oracle
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs LLVM 22 (package ziglang)")
def test_random_operands_as_llvm_has_them() -> None:
    rng = random.Random(37)
    lines = [random_line(rng) for _ in range(3000)]
    lines += [f"v_mfma_scale_f32_16x16x128_f8f6f4 {operands}" for operands, _ in REFUSED]
    accepted = refused = 0
    for line, theirs in zip(lines, llvm(lines), strict=True):
        try:
            code = assemble_one(GFX950, line)
        except SoftcardError as error:
            message = error.message
        else:
            assert theirs == (text(decode(GFX950, code)), code.hex()), line
            accepted += 1
            continue
        refused += theirs is None
        assert theirs is None or "the addend must be exactly the registers of the result" in message, line
    assert accepted > 1000
    assert refused > 500
