"""Exceptions that rsrc2 enables become queue errors; those that it does not are only noted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from softcard.device.hsa.exceptions import QueueError
from tests.device.hsa.rig import KERNARG, Bench, dispatch

Make = Callable[..., Bench]
INVALID, DENORMAL, DIVISION, OVERFLOW, UNDERFLOW, INEXACT, INTEGER = (1 << n for n in range(24, 31))
ALL = 0x7F << 24
WATCH = 1 << 13


def outcome(rig: Bench, text: str, enabled: int) -> str:
    """What is raised by a kernel with these exceptions enabled: the error's text, or nothing."""
    rig.errors.clear()
    queue = rig.new_queue()
    done = rig.device.create_signal(1)
    queue.submit(dispatch(rig.kernel(f"{text}\ns_endpgm", [KERNARG], rsrc2=enabled), signal=done))
    if not rig.errors:
        assert done.load() == 0
        return ""
    code, error = rig.errors[0]
    assert code == QueueError.EXCEPTION
    assert "at pc" in str(error)
    return str(error).partition(",  ")[0]


def check(rig: Bench, text: str, enabled: int, name: str) -> None:
    """Trapped where enabled, not otherwise."""
    assert outcome(rig, text, enabled).startswith(f"exception: {name}")
    assert outcome(rig, text, ALL & ~enabled & ~INEXACT & ~DENORMAL & ~UNDERFLOW) == ""
    assert outcome(rig, text, 0) == ""


def moves(*values: int) -> str:
    return "\n".join(f"v_mov_b32 v{n}, {value:#x}" for n, value in enumerate(values))


INFINITY, SIGNALLING, TINY, ONE, THREE, LARGE = 0x7F800000, 0x7F800001, 1, 0x3F800000, 0x40400000, 0x7F7FFFFF


@pytest.mark.parametrize(
    "text",
    [
        moves(INFINITY, INFINITY) + "\nv_sub_f32 v2, v0, v1",
        moves(INFINITY, 0) + "\nv_mul_f32 v2, v0, v1",
        moves(SIGNALLING, ONE) + "\nv_add_f32 v2, v0, v1",
        moves(0xBF800000) + "\nv_sqrt_f32 v2, v0",
    ],
)
def test_fp_invalid(bench: Make, text: str) -> None:
    check(bench(), text, INVALID, "invalid")


def test_fp_denormal(bench: Make) -> None:
    check(bench(), moves(TINY, ONE) + "\nv_mul_f32 v2, v0, v1", DENORMAL, "denormal source")


def test_fp_division(bench: Make) -> None:
    check(bench(), moves(0) + "\nv_rcp_f32 v2, v0", DIVISION, "division by zero")


def test_fp_overflow(bench: Make) -> None:
    check(bench(), moves(LARGE, LARGE) + "\nv_add_f32 v2, v0, v1", OVERFLOW, "overflow")


def test_fp_underflow(bench: Make) -> None:
    check(bench(), moves(0x00800001, 0x3F000001) + "\nv_mul_f32 v2, v0, v1", UNDERFLOW, "underflow")


def test_fp_inexact(bench: Make) -> None:
    check(bench(), moves(ONE, 0x30000000) + "\nv_add_f32 v2, v0, v1", INEXACT, "inexact")


def test_int_division(bench: Make) -> None:
    text = moves(0) + "\nv_rcp_iflag_f32 v2, v0"
    check(bench(), text, INTEGER, "integer division by zero")
    assert outcome(bench(), text, DIVISION) == ""


def test_inactive_lanes_raise_nothing(bench: Make) -> None:
    text = moves(INFINITY, INFINITY) + "\ns_mov_b64 exec, 0\nv_sub_f32 v2, v0, v1"
    assert outcome(bench(), text, ALL) == ""


def test_exact_operations_raise_nothing(bench: Make) -> None:
    text = (
        moves(ONE, THREE)
        + "\nv_add_f32 v2, v0, v1\nv_mul_f32 v2, v2, v1\nv_ldexp_f32 v2, v2, 3\nv_cvt_f64_f32 v[4:5], v2"
    )
    assert outcome(bench(), text, ALL) == ""


def test_address_watch(bench: Make) -> None:
    rig = bench()
    address, words = rig.words()
    text = "v_mov_b32 v0, s0\nv_mov_b32 v1, s1\nv_mov_b32 v2, 1\nflat_store_dword v[0:1], v2\ns_endpgm"
    kernel = rig.kernel(text, rsrc2=WATCH)
    rig.queue.submit(dispatch(kernel, address))
    assert (rig.errors, words[0]) == ([], 1)
    rig.device.watch(address + 64, 4)
    rig.queue.submit(dispatch(kernel, address), dispatch(kernel, address + 64))
    assert rig.errors[0][0] == QueueError.EXCEPTION
    assert "exception: address watch" in str(rig.errors[0][1])
    assert "at AQL packet 2" in str(rig.errors[0][1])


def test_flags_are_kept_for_the_wave(bench: Make) -> None:
    """TRAPSTS shows what was raised, trapped or not."""
    rig = bench()
    address, words = rig.words()
    text = f"""
        {moves(LARGE, LARGE)}
        v_add_f32 v2, v0, v1
        s_getreg_b32 s4, hwreg(HW_REG_TRAPSTS, 0, 9)
        v_mov_b32 v0, s0
        v_mov_b32 v1, s1
        v_mov_b32 v2, s4
        flat_store_dword v[0:1], v2
        s_endpgm
    """
    rig.queue.submit(dispatch(rig.kernel(text, rsrc2=INTEGER), address))
    assert rig.errors == []
    assert words[0] == 1 << 3 | 1 << 5
