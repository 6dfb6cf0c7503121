"""Output modifiers, clamp, op_sel, halves of registers, and what operands read: constants, literals, other sources."""

from __future__ import annotations

import struct

import pytest

from softcard.core.errors import BeyondModel, WireError
from softcard.isa.gcn.semantics.source import inline, literal
from softcard.isa.gcn.state import EXEC, M0
from tests.isa.gcn.semantics import float_oracle as fl
from tests.isa.gcn.semantics.alu_rig import FULL, GPUS, OLD, PARTIAL, Alu, forms, operation
from tests.isa.gcn.semantics.float_oracle import H, S

NO_IEEE = 0x0C0
"""binary32 denormals flushed, IEEE off: output modifiers work."""
NAN, ONE, TWO = 0x7FC00000, 0x3F800000, 0x40000000


def single(x: float) -> int:
    return int.from_bytes(struct.pack("<f", x), "little")


@pytest.mark.parametrize(("text", "factor"), [("mul:2", 2), ("mul:4", 4), ("div:2", 0.5)])
def test_omod(text: str, factor: float) -> None:
    alu = Alu("gfx900", NO_IEEE)
    alu.set_v(1, [single(x) for x in (3.0, -5.5, -0.0, 2.0**-126, 3e38, 0.0)] + [NAN] + [ONE] * 57)
    alu.run(f"v_mul_f32_e64 v0, v1, 1.0 {text}")
    halved = 0 if factor < 1 else single(2.0**-126 * factor)
    large = single(1.5e38) if factor < 1 else S.infinity
    assert alu.v(0)[:7] == [single(3 * factor), single(-5.5 * factor), 0, halved, large, 0, NAN]


@pytest.mark.parametrize("mode", [0x3C0, 0x0F0])
def test_omod_does_nothing_with_ieee_or_denormals(mode: int) -> None:
    alu = Alu("gfx900", mode)
    alu.set_v(1, [TWO] * 64)
    alu.run("v_mul_f32_e64 v0, v1, 1.0 mul:2")
    assert alu.v(0) == [TWO] * 64


@pytest.mark.parametrize(("mode", "nan"), [(0x3F0, 0), (0x2F0, NAN)])
def test_clamp_of_floats(mode: int, nan: int) -> None:
    alu = Alu("gfx803", mode)
    alu.set_v(1, [single(x) for x in (0.5, -0.5, 1.5, 1.0, -0.0, float("inf"), float("-inf"))] + [NAN] * 57)
    alu.run("v_mul_f32_e64 v0, v1, 1.0 clamp")
    assert alu.v(0)[:8] == [single(0.5), 0, ONE, ONE, 0, ONE, 0, nan]
    alu.run("v_cvt_f32_i32_e64 v0, v1 clamp")
    assert alu.v(0)[0] == ONE


def test_omod_comes_before_clamp() -> None:
    alu = Alu("gfx900", NO_IEEE | 0x100)
    alu.set_v(1, [single(0.375)] * 64)
    alu.run("v_mul_f32_e64 v0, v1, 1.0 clamp mul:2")
    assert alu.v(0) == [single(0.75)] * 64
    alu.run("v_mul_f32_e64 v0, v1, 1.0 clamp mul:4")
    assert alu.v(0) == [ONE] * 64


@pytest.mark.parametrize("gpu", GPUS[:3])
def test_negative_and_absolute_sources(gpu: str) -> None:
    alu = Alu(gpu)
    alu.set_v(1, [single(-3.0)] * 64)
    for text, value in (("v1", -3), ("-v1", 3), ("|v1|", 3), ("-|v1|", -3)):
        alu.run(f"v_add_f32_e64 v0, {text}, 0")
        assert alu.v(0) == [single(value)] * 64
    alu.set_v(2, [NAN] * 64)
    alu.run("v_max_f32_e64 v0, -v2, -v2")
    assert alu.v(0) == [NAN | 1 << 31] * 64


CLEARED = ("v_add_f16 v0, v1, v2", "v_rcp_f16 v0, v1", "v_add_u16 v0, v1, v2", "v_cvt_f16_f32 v0, v1")


@pytest.mark.parametrize("gpu", ["gfx803", "gfx900"])
def test_most_halves_clear_the_other_half(gpu: str) -> None:
    for text in CLEARED:
        alu = Alu(gpu)
        alu.set_v(1, [0x1234_3C00] * 64)
        alu.set_v(2, [0x5678_4000] * 64)
        alu.run(text)
        assert all(n >> 16 == 0 for n in alu.v(0)), text


@pytest.mark.parametrize(("gpu", "kept"), [("gfx803", 0), ("gfx900", OLD >> 16)])
def test_new_operations_of_gfx9_keep_the_other_half(gpu: str, kept: int) -> None:
    for text in (
        "v_mad_f16 v0, v1, v2, v1",
        "v_mad_u16 v0, v1, v2, v1",
        "v_mac_f16 v0, v1, v2",
        "v_fma_f16 v0, v1, v1, v2",
    ):
        alu = Alu(gpu)
        alu.set_v(1, [0x1234_3C00] * 64)
        alu.set_v(2, [0x5678_4000] * 64)
        alu.run(text)
        assert all(n >> 16 == kept for n in alu.v(0)), text


def test_legacy_operations_of_gfx9_clear_it() -> None:
    for text in (
        "v_mad_legacy_f16 v0, v1, v2, v1",
        "v_mad_legacy_u16 v0, v1, v2, v1",
        "v_fma_legacy_f16 v0, v1, v1, v2",
    ):
        alu = Alu("gfx900")
        alu.set_v(1, [0x1234_3C00] * 64)
        alu.set_v(2, [0x5678_4000] * 64)
        alu.run(text)
        assert all(n >> 16 == 0 for n in alu.v(0)), text


@pytest.mark.parametrize("select", range(16))
def test_op_sel(select: int) -> None:
    alu = Alu("gfx900", exec_=PARTIAL)
    sources = (0x0003_0005, 0x0007_000B, 0x0100_0200)
    for n, value in enumerate(sources, 1):
        alu.set_v(n, [value] * 64)
    bits = [select >> k & 1 for k in range(4)]
    alu.run(f"v_mad_u16 v0, v1, v2, v3 op_sel:[{','.join(map(str, bits))}]")
    a, b, c = (value >> 16 if bit else value & 0xFFFF for value, bit in zip(sources, bits, strict=False))
    result = a * b + c
    expected = OLD & 0xFFFF | result << 16 if bits[3] else OLD & 0xFFFF_0000 | result
    for lane, got in enumerate(alu.v(0)):
        assert got == (expected if PARTIAL >> lane & 1 else OLD)


def test_op_sel_of_wider_results() -> None:
    alu = Alu("gfx900")
    alu.set_v(1, [0x0003_FFFE] * 64)
    alu.set_v(2, [0x0007_000B] * 64)
    alu.set_v(3, [0xFFFF_0000] * 64)
    alu.run("v_mad_i32_i16 v0, v1, v2, v3 op_sel:[0,1,0,0]")
    assert alu.v(0) == [(-2 * 7 + 0xFFFF_0000) & 0xFFFF_FFFF] * 64
    alu.run("v_pack_b32_f16 v0, -v1, v2 op_sel:[1,0,0]")
    assert alu.v(0) == [0x000B_8003] * 64


FLOATS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0)


def test_inline_constants() -> None:
    for n in range(65):
        assert {inline(128 + n, kind) for kind in ("b16", "i32", "f32", "u64", "f64")} == {n}
    for n in range(1, 17):
        assert {inline(192 + n, kind) for kind in ("b16", "i32", "f32", "u64", "f64")} == {-n}
    for code, x in enumerate(FLOATS, 240):
        assert inline(code, "f16") == inline(code, "h16") == int.from_bytes(struct.pack("<e", x), "little")
        assert inline(code, "f32") == inline(code, "b32") == inline(code, "u16") == inline(code, "p16") == single(x)
        assert inline(code, "f64") == inline(code, "b64") == int.from_bytes(struct.pack("<d", x), "little")
    assert [inline(248, kind) for kind in ("f16", "f32", "f64")] == [0x3118, 0x3E22F983, 0x3FC45F306DC9C882]
    with pytest.raises(WireError, match="operand code 209 is reserved"):
        inline(209, "b32")


def test_literals() -> None:
    assert literal(0x80001234, "f64") == 0x80001234_00000000
    assert literal(0x80001234, "i64") == 0x80001234 - (1 << 32)
    assert literal(0x80001234, "b64") == literal(0x80001234, "u32") == 0x80001234


@pytest.mark.parametrize("gpu", GPUS[:3])
def test_constants_in_instructions(gpu: str) -> None:
    alu = Alu(gpu)
    alu.run("s_mov_b64 s[4:5], -3", "s_mov_b32 s6, 0x12345678", "s_mov_b64 s[8:9], 1.0", "v_mov_b32 v1, 0xabcdef01")
    assert alu.s64(4) == FULL - 2
    assert alu.s(6) == 0x12345678
    assert alu.s64(8) == 0x3FF0000000000000
    assert alu.v(1) == [0xABCDEF01] * 64
    alu.run("v_cvt_f32_f64 v2, 0x40080000", "v_mov_b32 v3, -2.0", "v_ldexp_f64 v[4:5], 1.0, -1")
    assert alu.v(2) == [single(3.0)] * 64
    assert alu.v(3) == [single(-2.0)] * 64
    assert alu.v(4, 64) == [0x3FE0000000000000] * 64


@pytest.mark.parametrize(("gpu", "one"), [("gfx700", 0), ("gfx803", ONE), ("gfx900", ONE)])
def test_halves_of_inline_floats(gpu: str, one: int) -> None:
    """GFX7 has no 16-bit constants: an operand of 16 bits sees the lower half of the binary32 number."""
    alu = Alu(gpu)
    alu.execute(operation("v_cvt_f32_f16", gpu), "VOP1", src0=242, vdst=0)
    assert alu.v(0) == [one] * 64


def test_madmk_and_madak_take_literals() -> None:
    alu = Alu("gfx900")
    alu.set_v(1, [single(3.0)] * 64)
    alu.set_v(2, [single(5.0)] * 64)
    alu.run("v_madmk_f32 v0, v1, 0x40e00000, v2")
    assert alu.v(0) == [single(26.0)] * 64
    alu.run("v_madak_f32 v0, v1, v2, 0x40e00000")
    assert alu.v(0) == [single(22.0)] * 64


def test_special_sources() -> None:
    alu = Alu("gfx900", exec_=0)
    alu.scc = 1
    alu.set_s64(106, 0)
    alu.run("s_mov_b32 s4, src_execz", "s_mov_b32 s5, src_vccz", "s_mov_b32 s6, src_scc")
    assert [alu.s(n) for n in (4, 5, 6)] == [1, 1, 1]
    alu.set_s64(106, 1 << 40)
    alu.set_s64(EXEC, 1 << 40)
    alu.run(
        "s_mov_b32 s4, src_execz",
        "s_mov_b32 s5, src_vccz",
        "s_mov_b64 s[8:9], src_shared_base",
        "s_mov_b64 s[10:11], src_private_base",
    )
    assert [alu.s(n) for n in (4, 5)] == [0, 0]
    assert alu.s64(8) == 1 << 48
    assert alu.s64(10) == 2 << 48
    alu.run("s_mov_b32 s12, src_shared_base")
    assert alu.s(12) == 0
    with pytest.raises(BeyondModel, match="pixel shading"):
        alu.run("s_mov_b32 s4, src_pops_exiting_wave_id")


@pytest.mark.parametrize(("kind", "value"), [(0, 0x85), (1, 0x8685), (2, 0x88878685), (4, 0xFFFFFF85), (5, 0xFFFF8685)])
def test_lds_direct(kind: int, value: int) -> None:
    alu = Alu("gfx900")
    alu.lds[4:8] = [0x85, 0x86, 0x87, 0x88]
    alu.set_s(M0, kind << 16 | 4)
    alu.run("v_mov_b32 v0, src_lds_direct")
    assert alu.v(0) == [value] * 64


def test_readlane_readfirstlane_writelane() -> None:
    for gpu in GPUS[:3]:
        alu = Alu(gpu, exec_=0xFF00)
        alu.set_v(1, [1000 + n for n in range(64)])
        alu.set_s(4, 64 + 37)
        alu.set_s(5, 0xCAFE)
        alu.run(
            "v_readlane_b32 s6, v1, s4",
            "v_readlane_b32 s7, v1, 3",
            "v_readfirstlane_b32 s8, v1",
            "v_writelane_b32 v2, s5, s4",
        )
        assert [alu.s(n) for n in (6, 7, 8)] == [1037, 1003, 1008]
        assert alu.v(2) == [0xCAFE if n == 37 else OLD for n in range(64)]
        alu.set_s64(EXEC, 0)
        alu.run("v_readfirstlane_b32 s8, v1")
        assert alu.s(8) == 1000


def test_swap() -> None:
    alu = Alu("gfx900", exec_=PARTIAL)
    alu.set_v(1, list(range(64)))
    alu.set_v(2, list(range(100, 164)))
    alu.run("v_swap_b32 v1, v2")
    for lane, (a, b) in enumerate(zip(alu.v(1), alu.v(2), strict=True)):
        assert (a, b) == ((100 + lane, lane) if PARTIAL >> lane & 1 else (lane, 100 + lane))


def test_nothing_happens_in_nops() -> None:
    for gpu in GPUS[:3]:
        for text in ("v_nop", "v_clrexcp", "s_nop 0"):
            alu = Alu(gpu)
            before = alu.wave.block.tobytes()
            assert alu.run(text) == 4
            assert alu.wave.block.tobytes() == before


@pytest.mark.parametrize("name", ["v_mov_fed_b32", "s_mov_fed_b32", "s_mov_regrd_b32", "s_getreg_regrd_b32"])
def test_undocumented_operations_are_beyond_the_model(name: str) -> None:
    op = operation(name, "gfx700")
    with pytest.raises(BeyondModel, match=f"{name} is not modelled: the manuals do not"):
        Alu("gfx700").execute(op, forms(op)[0], sdst=4, simm16=0)


# ---- VOP3P -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("op_sel", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("op_sel_hi", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_packed_operations_pick_halves(op_sel: tuple[int, int], op_sel_hi: tuple[int, int]) -> None:
    alu = Alu("gfx900")
    a, b = 0x0300_0005, 0x0011_0700
    alu.set_v(1, [a] * 64)
    alu.set_v(2, [b] * 64)
    alu.run(f"v_pk_add_u16 v0, v1, v2 op_sel:[{op_sel[0]},{op_sel[1]}] op_sel_hi:[{op_sel_hi[0]},{op_sel_hi[1]}]")
    halves = [
        sum(value >> 16 if bit else value & 0xFFFF for value, bit in zip((a, b), bits, strict=True))
        for bits in (op_sel, op_sel_hi)
    ]
    assert alu.v(0) == [halves[1] << 16 | halves[0]] * 64


PACKED = {"v_pk_add_f16": fl.add, "v_pk_mul_f16": fl.mul, "v_pk_fma_f16": fl.fma}


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("mode", [0x3F0, 0x300, 0x3FA])
def test_packed_floats(name: str, mode: int) -> None:
    alu = Alu("gfx900", mode)
    count = 3 if "fma" in name else 2
    hard = fl.HARD[H]
    columns = [
        [hard[(n * (k + 3) + k) % len(hard)] | hard[(n * (k + 5) + 1) % len(hard)] << 16 for n in range(64)]
        for k in range(count)
    ]
    for k, column in enumerate(columns):
        alu.set_v(k + 1, column)
    alu.run(f"{name} v0, {', '.join(f'v{k + 1}' for k in range(count))}")
    for lane, got in enumerate(alu.v(0)):
        for at in (0, 16):
            sources = [column[lane] >> at & 0xFFFF for column in columns]
            assert got >> at & 0xFFFF == PACKED[name](H, *sources, fl.env_of(mode, H)), [hex(x) for x in sources]


def test_packed_signs_minima_and_clamp() -> None:
    alu = Alu("gfx900")
    alu.set_v(1, [0x3C00_4000] * 64)
    alu.set_v(2, [0x4200_4400] * 64)
    alu.run("v_pk_add_f16 v0, v1, v2 neg_lo:[1,0] neg_hi:[0,1]")
    assert alu.v(0) == [0xC000_4000] * 64
    alu.run("v_pk_min_f16 v0, v1, v2", "v_pk_max_f16 v3, v1, v2", "v_pk_mul_f16 v4, v1, v2 clamp")
    assert (alu.v(0)[0], alu.v(3)[0], alu.v(4)[0]) == (0x3C00_4000, 0x4200_4400, 0x3C00_3C00)


def test_packed_constants_sit_in_the_low_half() -> None:
    alu = Alu("gfx900")
    alu.set_v(1, [0x0001_0002] * 64)
    alu.run(
        "v_pk_add_f16 v0, v1, 1.0 op_sel_hi:[1,0]", "v_pk_add_u16 v2, v1, 3 op_sel_hi:[1,0]", "v_pk_add_i16 v3, v1, -1"
    )
    assert alu.v(0)[0] == 0x3C00_3C00
    assert alu.v(2)[0] == 0x0004_0005
    assert alu.v(3)[0] == 0x0000_0001


@pytest.mark.parametrize(("gpu", "fused"), [("gfx900", False), ("gfx906", True)])
def test_mixed_multiply_add(gpu: str, fused: bool) -> None:
    name = "v_fma_mix" if fused else "v_mad_mix"
    alu = Alu(gpu, exec_=PARTIAL, mode=0x3C0)
    a, b, c = single(1.0000001), 0x3C01_4000, single(-1.0000001)
    alu.set_v(1, [a] * 64)
    alu.set_v(2, [b] * 64)
    alu.set_v(3, [c] * 64)
    env = fl.env_of(0x3C0, S)
    half = fl.convert(S, H, b >> 16, fl.Env())

    def multiply_add(x: int, y: int, z: int) -> int:
        return fl.fma(S, x, y, z, env) if fused else fl.add(S, fl.mul(S, x, y, env), z, env)

    alu.run(f"{name}_f32 v0, v1, v2, v3 op_sel:[0,1,0] op_sel_hi:[0,1,0]")
    wanted = multiply_add(a, half, c)
    assert [n for lane, n in enumerate(alu.v(0)) if PARTIAL >> lane & 1] == [wanted] * PARTIAL.bit_count()
    alu.run(f"{name}_f32 v0, -v1, |v2|, v3 op_sel:[0,1,0] op_sel_hi:[0,1,0]")
    assert alu.v(0)[0] == multiply_add(a ^ 1 << 31, half, c)
    result = fl.convert(H, S, wanted, fl.env_of(0x3C0, H))
    for suffix, expected in (("lo", OLD & 0xFFFF0000 | result), ("hi", OLD & 0xFFFF | result << 16)):
        alu.run(f"{name}{suffix}_f16 v4, v1, v2, v3 op_sel:[0,1,0] op_sel_hi:[0,1,0]")
        assert alu.v(4)[0] == expected
        alu.set_v(4, [OLD] * 64)


def test_dot2_of_halves() -> None:
    alu = Alu("gfx906")
    alu.set_v(1, [0x4000_3C00] * 64)
    alu.set_v(2, [0x4400_4200] * 64)
    alu.set_v(3, [single(0.5)] * 64)
    alu.run("v_dot2_f32_f16 v0, v1, v2, v3")
    assert alu.v(0) == [single(0.5 + 3 + 8)] * 64
    alu.run("v_dot2_f32_f16 v0, v1, v2, v3 neg_lo:[1,0,1] neg_hi:[0,1,0]")
    assert alu.v(0) == [single(-0.5 - 3 - 8)] * 64
