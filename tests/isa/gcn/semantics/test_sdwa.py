"""SDWA: every select of sources and destinations, extension, what happens to unused bits, modifiers, scalar sources."""

from __future__ import annotations

from random import Random

import pytest

from tests.isa.gcn.semantics.alu_rig import FULL, OLD, PARTIAL, Alu, signed

SELECTS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
RANDOM = Random(7)
A = [RANDOM.getrandbits(32) for _ in range(64)]
B = [RANDOM.getrandbits(32) for _ in range(64)]


def part(select: str, value: int, sext: bool = False) -> int:
    """A source as the operation sees it."""
    kind, _, number = select.partition("_")
    if kind == "DWORD":
        return value
    bits = 8 if kind == "BYTE" else 16
    field = value >> bits * int(number) & (1 << bits) - 1
    return signed(bits, field) & 0xFFFF_FFFF if sext else field


def placed(select: str, unused: str, value: int, old: int) -> int:
    """Return the value of the destination afterwards."""
    kind, _, number = select.partition("_")
    if kind == "DWORD":
        return value
    bits = 8 if kind == "BYTE" else 16
    at = bits * int(number)
    field = value & (1 << bits) - 1
    if unused == "UNUSED_PAD":
        return field << at
    if unused == "UNUSED_SEXT":
        return signed(bits, field) << at & 0xFFFF_FFFF
    return old & ~((1 << bits) - 1 << at) & 0xFFFF_FFFF | field << at


def loaded(gpu: str, exec_: int = FULL, mode: int = 0x3F0) -> Alu:
    alu = Alu(gpu, mode, exec_)
    alu.set_v(1, A)
    alu.set_v(2, B)
    return alu


@pytest.mark.parametrize("gpu", ["gfx803", "gfx900"])
def test_every_select(gpu: str) -> None:
    for src0 in SELECTS:
        for src1 in SELECTS:
            for sext in (False, True):
                alu = loaded(gpu)
                first = "sext(v1)" if sext else "v1"
                alu.run(f"v_xor_b32_sdwa v0, {first}, v2 dst_sel:DWORD src0_sel:{src0} src1_sel:{src1}")
                assert alu.v(0) == [part(src0, a, sext) ^ part(src1, b) for a, b in zip(A, B, strict=True)]


@pytest.mark.parametrize("gpu", ["gfx803", "gfx900"])
@pytest.mark.parametrize("unused", UNUSED)
def test_every_destination(gpu: str, unused: str) -> None:
    for dst in SELECTS:
        alu = loaded(gpu, PARTIAL)
        alu.run(f"v_mov_b32_sdwa v0, v1 dst_sel:{dst} dst_unused:{unused} src0_sel:DWORD")
        for lane, got in enumerate(alu.v(0)):
            assert got == (placed(dst, unused, A[lane], OLD) if PARTIAL >> lane & 1 else OLD)


@pytest.mark.parametrize("gpu", ["gfx803", "gfx900"])
def test_sixteen_bit_results(gpu: str) -> None:
    for dst in ("WORD_0", "WORD_1", "DWORD"):
        for unused in UNUSED:
            alu = loaded(gpu)
            alu.run(
                f"v_add_u16_sdwa v0, sext(v1), v2 dst_sel:{dst} dst_unused:{unused} src0_sel:BYTE_3 src1_sel:WORD_1"
            )
            for a, b, got in zip(A, B, alu.v(0), strict=True):
                total = part("BYTE_3", a, True) + part("WORD_1", b) & 0xFFFF
                assert got == placed(dst, unused, total, OLD)


@pytest.mark.parametrize("gpu", ["gfx803", "gfx900"])
def test_float_modifiers(gpu: str) -> None:
    alu = loaded(gpu)
    alu.set_v(1, [0xC000_3C00] * 64)
    alu.set_v(2, [0x4000_C400] * 64)
    alu.run("v_add_f16_sdwa v0, -v1, |v2| dst_sel:DWORD src0_sel:WORD_1 src1_sel:WORD_0")
    assert alu.v(0) == [0x4600] * 64
    alu.run("v_mul_f16_sdwa v0, |v1|, v2 clamp dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:WORD_1")
    assert alu.v(0) == [0x3C00_0000] * 64


def test_gfx9_scalar_sources_and_output_modifiers() -> None:
    alu = loaded("gfx900", mode=0x0C0)
    alu.set_s(4, 0x3F80_1234)
    alu.run("v_and_b32_sdwa v0, s4, v2 dst_sel:DWORD src0_sel:WORD_1 src1_sel:DWORD")
    assert alu.v(0) == [0x3F80 & b for b in B]
    alu.set_v(2, [0x40000000] * 64)
    alu.run("v_add_f32_sdwa v0, v2, v2 mul:4 dst_sel:DWORD src0_sel:DWORD src1_sel:DWORD")
    assert alu.v(0) == [0x41800000] * 64


def test_comparisons() -> None:
    for gpu, where in (("gfx803", "vcc"), ("gfx900", "s[4:5]")):
        alu = loaded(gpu, PARTIAL)
        alu.run(f"v_cmp_lt_u32_sdwa {where}, v1, v2 src0_sel:BYTE_1 src1_sel:BYTE_2")
        expected = sum((part("BYTE_1", a) < part("BYTE_2", b)) << n for n, (a, b) in enumerate(zip(A, B, strict=True)))
        assert alu.s64(106 if gpu == "gfx803" else 4) == expected & PARTIAL


def test_carries_go_to_vcc() -> None:
    alu = loaded("gfx803")
    alu.run("v_add_u32_sdwa v0, vcc, v1, v2 dst_sel:DWORD src0_sel:DWORD src1_sel:WORD_1")
    sums = [a + (b >> 16) for a, b in zip(A, B, strict=True)]
    assert alu.v(0) == [n & 0xFFFF_FFFF for n in sums]
    assert alu.s64(106) == sum((n >> 32) << lane for lane, n in enumerate(sums))


def test_mac_adds_to_the_whole_destination() -> None:
    alu = loaded("gfx803", mode=0x3C0)
    alu.set_v(0, [0x40400000] * 64)
    alu.set_v(1, [0x40000000] * 64)
    alu.run("v_mac_f32_sdwa v0, v1, v1 dst_sel:DWORD src0_sel:DWORD src1_sel:DWORD")
    assert alu.v(0) == [0x40E00000] * 64
