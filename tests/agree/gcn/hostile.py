"""Code that nobody should run: blobs, wild jumps, code that ends in nothing, code that writes code, endless loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import Target
from tests.agree.gcn import values
from tests.agree.gcn.bench import CODE, CODE_BYTES
from tests.agree.gcn.insns import ANCHOR, Maker, Rng, every
from tests.agree.gcn.programs import Builder, plain

ENDPGM: Final = 0xBF81_0000
Attack = Callable[[Rng, Target], bytes]


def words(code: list[int]) -> bytes:
    """Little-endian words."""
    return np.array(code, np.uint32).tobytes()


def text(target: Target, *lines: str) -> bytes:
    """Assembled lines."""
    return assemble(target, "\n".join(lines) + "\n")


def blob(rng: Rng, target: Target) -> bytes:
    """Random words; sometimes with the first bits of encodings that exist."""
    code: list[int] = rng.integers(0, 1 << 32, size=int(rng.integers(1, 64)), dtype=np.uint32).tolist()
    if rng.random() < 0.6:
        heads = (
            0x7E00_0000,
            0xD800_0000,
            0xDC00_0000,
            0xE000_0000,
            0xC000_0000,
            0xB000_0000,
            0xBE80_0000,
            0xBF00_0000,
            0xBF80_0000,
            0xD100_0000,
            0x2000_0000,
        )
        code = [word & 0x00FF_FFFF | values.pick(rng, heads) for word in code]
    return words(code)


def fields(rng: Rng, target: Target) -> bytes:
    """Instructions that decode, with registers anywhere."""
    maker, pairs = Maker(rng, target, wild=1.0), every(target)
    return b"".join(maker.make(*values.pick(rng, pairs))[0] for _ in range(int(rng.integers(1, 20))))


def jumps(rng: Rng, target: Target) -> bytes:
    """Branches to anywhere in and around the program, also into the middle of instructions."""
    builder = Builder(rng, target)
    builder.prologue()
    pairs = plain(target)
    code = b"".join(item.code for item in builder.items)
    for _ in range(int(rng.integers(4, 40))):
        if rng.random() < 0.4:
            distance = int(rng.integers(-20, 20)) if rng.random() < 0.9 else int(rng.integers(-0x8000, 0x8000))
            opcode = int(values.pick(rng, (2, 4, 5, 6, 7, 8, 9)))
            code += words([0xBF80_0000 | opcode << 16 | distance & 0xFFFF])
        else:
            code += builder.maker.make(*values.pick(rng, pairs))[0]
    return code + words([ENDPGM])


def to_the_edge(rng: Rng, target: Target) -> bytes:
    """A block that fills all of the code's memory and runs out of it, perhaps inside an instruction."""
    one: bytes = values.pick(
        rng, (words([0x7E02_0302]), words([0xBF80_0000]), text(target, "s_add_u32 s40, s41, 0x12345678"))
    )
    count = CODE_BYTES // len(one)
    tail: bytes = values.pick(rng, (b"", text(target, "s_mov_b32 s40, 0x12345678")[:4]))
    return (one * count)[: CODE_BYTES - len(tail)] + tail


def far_jump(rng: Rng, target: Target) -> bytes:
    """A computed jump to a bad place: unmapped, odd, beyond 48 bits, data, the last word."""
    places = (
        0,
        2,
        CODE + CODE_BYTES,
        CODE + CODE_BYTES - 4,
        CODE + 2,
        0x20_0000,
        0x38_0000,
        0x40_0804,
        0x40_0810,
        1 << 48,
        (1 << 64) - 4,
    )
    place = values.pick(rng, places)
    return text(
        target, f"s_mov_b32 s40, {place & 0xFFFF_FFFF:#x}", f"s_mov_b32 s41, {place >> 32:#x}", "s_setpc_b64 s[40:41]"
    )


def self_modifying(rng: Rng, target: Target) -> bytes:
    """Stores over an instruction in front, invalidates the instruction cache, and runs into it; in a loop."""
    new = values.pick(rng, (0x7E50_0281, 0x7E50_0282, ENDPGM, 0xBF80_0000, 0xFFFF_FFFF))
    lines = [
        "s_mov_b32 exec_lo, 1",
        "s_mov_b32 exec_hi, 0",
        "s_mov_b32 s80, 3",
        f"v_mov_b32 v40, {CODE + 4 * 20:#x}",
        "v_mov_b32 v41, 0",
        f"v_mov_b32 v42, {new:#x}",
    ]
    code = text(target, *lines)
    store = text(target, "flat_store_dword v[40:41], v42", "s_waitcnt 0", "s_icache_inv")
    code += words([0xBF80_0000]) * (12 - len(code) // 4) + store
    code += words([0xBF80_0000]) * (20 - len(code) // 4)
    code += words([0x7E50_0280])  # v_mov_b32 v40', replaced
    back = (12 - (len(code) // 4 + 3)) & 0xFFFF
    return code + text(target, "s_sub_u32 s80, s80, 1", "s_cmp_gt_i32 s80, 0") + words([0xBF85_0000 | back, ENDPGM])


def endless(rng: Rng, target: Target) -> bytes:
    """A loop without an end, of any length, with or without something in it."""
    builder = Builder(rng, target)
    pairs = [pair for pair in plain(target) if pair[0].family in ("vop1", "vop2", "sop1", "sop2", "sopp")]
    body = b"".join(builder.maker.make(*values.pick(rng, pairs))[0] for _ in range(int(rng.integers(0, 6))))
    return body + words([0xBF82_0000 | (-1 - len(body) // 4) & 0xFFFF])


def entries(rng: Rng, target: Target) -> bytes:
    """Thousands of places at which translated code might be entered."""
    one: bytes = values.pick(
        rng,
        (
            words([0xBF8E_0001]),
            words([0xBF8A_0000]),
            *(text(target, each, "v_mov_b32 v40, v41") for each in ("s_sleep 1", "s_sethalt 0")),
        ),
    )
    return one * int(rng.integers(1, 4000)) + words([ENDPGM])


def modes(rng: Rng, target: Target) -> bytes:
    """MODE is another one each time around."""
    code = text(
        target, "s_add_u32 s40, s40, 1", "s_setreg_b32 hwreg(HW_REG_MODE, 0, 10), s40", "v_add_f32 v40, v41, v42"
    )
    return code + words([0xBF82_0000 | (-1 - len(code) // 4) & 0xFFFF])


def computed(rng: Rng, target: Target) -> bytes:
    """Jumps through registers back and forth over the same code."""
    code = text(
        target, "s_add_u32 s42, s42, 1", "s_and_b32 s40, s42, 7", "s_lshl_b32 s40, s40, 2",
        f"s_add_u32 s40, s40, s{ANCHOR}", "s_mov_b32 s41, 0", "s_setpc_b64 s[40:41]",
        "v_mov_b32 v40, s42", "s_branch 65528",
    )  # fmt: skip
    return code + words([ENDPGM])


ATTACKS: Final = (
    blob, blob, fields, fields, jumps, jumps, to_the_edge, far_jump, self_modifying, endless, entries, modes, computed,
)  # fmt: skip
