"""Where V 1.0 leaves a choice (isa/riscv/vector/choices.toml): what kernels see, in all profiles and engines."""

from __future__ import annotations

import struct

import pytest

from softcard.device.refsi.commands import BufferStatus
from tests.device.refsi.m1 import CODE, OUT, Bench

STORE = f"lui t6, {OUT >> 12:#x}; vs1r.v v1, (t6)"


@pytest.fixture(params=[("spec", "reference"), ("spec", "jit"), ("refsidrv", "reference"), ("refsidrv", "jit")])
def bench(request: pytest.FixtureRequest) -> Bench:
    profile, engine = request.param
    return Bench(profile, engine)


def run(bench: Bench, text: str, at: int = CODE) -> BufferStatus:
    """Run a text as a kernel of one instance."""
    lines = "; ".join(line.strip() for line in text.strip().splitlines())
    return bench.run(*bench.kernel(bench.code(f"{lines}; jalr zero, 0(ra)", at)))


def test_agnostic_elements_keep_their_values(bench: Bench) -> None:
    text = f"""vsetvli t0, zero, e8,m1,ta,ma; vmv.v.i v0, 5; vmv.v.i v1, 7; vmv.v.i v2, 9
    vsetivli t0, 4, e8,m1,ta,ma; vadd.vi v1, v2, 1, v0.t; {STORE}"""
    assert run(bench, text).ok
    assert bench.device.read(OUT, 64) == bytes([10, 7, 10, 7] + [7] * 60)
    text = f"""vsetvli t0, zero, e8,m1,ta,ma; vmv.v.i v1, -1; vmv.v.i v2, 0
    vsetivli t0, 9, e8,m1,ta,ma; vmseq.vi v1, v2, 1; {STORE}"""
    assert run(bench, text, CODE + 0x1000).ok
    assert bench.device.read(OUT, 64) == bytes([0, 0xFE] + [0xFF] * 62)


def test_arithmetic_is_illegal_while_vstart_is_not_0(bench: Bench) -> None:
    status = run(bench, "vsetivli t0, 4, e8,m1,ta,ma; csrrwi zero, vstart, 1; vadd.vv v1, v2, v3")
    assert "vstart is 1, expected 0: only loads and stores can start in the middle of a vector" in str(status.error)


@pytest.mark.parametrize("access", ["vle32.v v1, (t1)", "vse32.v v1, (t1)", "vlse32.v v1, (t1), t2"])
def test_misaligned_elements_trap(bench: Bench, access: str) -> None:
    text = f"vsetivli t0, 4, e32,m1,ta,ma; lui t1, {OUT >> 12:#x}; addi t1, t1, 2; addi t2, zero, 4; {access}"
    status = run(bench, text)
    assert not status.ok
    assert "misaligned" in str(status.error).lower()


def test_a_register_may_be_read_twice(bench: Bench) -> None:
    """v2 as 8-bit elements and as the low half of 16-bit ones; v0 as operand and as mask."""
    text = f"vsetivli t0, 4, e8,m1,ta,ma; vid.v v2; vwaddu.wv v4, v2, v2; vmv1r.v v1, v4; {STORE}"
    assert run(bench, text).ok
    assert struct.unpack("<4H", bench.device.read(OUT, 8)) == (0x0100, 0x0303, 0x0002, 0x0003)
    text = f"vsetivli t0, 4, e8,m1,ta,ma; vmv.v.i v0, 6; vmv.v.i v1, 0; vadd.vv v1, v0, v0, v0.t; {STORE}"
    assert run(bench, text, CODE + 0x1000).ok
    assert bench.device.read(OUT, 4) == bytes([0, 12, 12, 0])


def test_sums_are_in_element_order(bench: Bench) -> None:
    """2**24 + 1 + 1 in this order loses both ones; a NaN's payload stays where nothing is added."""
    text = f"""vsetivli t0, 3, e32,m1,ta,ma; vmv.v.i v3, 0; lui t1, 0x4b800; vmv.s.x v3, t1; lui t1, 0x3f800
    vmv.v.x v2, t1; vfredusum.vs v1, v2, v3; {STORE}"""
    assert run(bench, text).ok
    assert struct.unpack("<f", bench.device.read(OUT, 4)) == (2.0**24,)
    text = f"""vsetivli t0, 3, e32,m1,ta,ma; vmv.v.i v0, 0; lui t1, 0x7f812; vmv.s.x v3, t1
    vfredusum.vs v1, v2, v3, v0.t; {STORE}"""
    assert run(bench, text, CODE + 0x1000).ok
    assert struct.unpack("<I", bench.device.read(OUT, 4)) == (0x7F812000,)
