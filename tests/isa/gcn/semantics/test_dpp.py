"""DPP: the lane that every control names, bounds, masks, partial EXEC."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.isa.gcn.semantics.alu_rig import FULL, OLD, PARTIAL, Alu

Source = Callable[[int], int | None]
"""The lane that a lane reads, or None."""


def in_row(f: Callable[[int], int]) -> Source:
    """Of a place in a row of 16 lanes."""

    def source(lane: int) -> int | None:
        place = f(lane % 16)
        return lane - lane % 16 + place if 0 <= place < 16 else None

    return source


def in_wave(f: Callable[[int], int]) -> Source:
    return lambda lane: f(lane) if 0 <= f(lane) < 64 else None


CONTROLS: dict[str, Source] = {
    "quad_perm:[0,1,2,3]": lambda lane: lane,
    "quad_perm:[3,2,1,0]": lambda lane: lane ^ 3,
    "quad_perm:[1,1,3,0]": lambda lane: lane & ~3 | (1, 1, 3, 0)[lane & 3],
    **{f"row_shl:{n}": in_row(lambda k, n=n: k + n) for n in range(1, 16)},
    **{f"row_shr:{n}": in_row(lambda k, n=n: k - n) for n in range(1, 16)},
    **{f"row_ror:{n}": in_row(lambda k, n=n: (k - n) % 16) for n in range(1, 16)},
    "wave_shl:1": in_wave(lambda lane: lane + 1),
    "wave_rol:1": lambda lane: (lane + 1) % 64,
    "wave_shr:1": in_wave(lambda lane: lane - 1),
    "wave_ror:1": lambda lane: (lane - 1) % 64,
    "row_mirror": in_row(lambda k: 15 - k),
    "row_half_mirror": in_row(lambda k: k & 8 | 7 - k % 8),
    "row_bcast:15": lambda lane: lane // 16 * 16 - 1 if lane >= 16 else None,
    "row_bcast:31": lambda lane: 31 if lane >= 32 else None,
}  # fmt: skip
VALUES = [0x1000 + 3 * n for n in range(64)]
OTHER = [0x7_0000 + 0x100 * n for n in range(64)]


def expected(
    source: Source, exec_: int, bound: bool, rows: int, banks: int, result: Callable[[int, int], int]
) -> list[int]:
    """v0 lane by lane; `result` is of source 0 and the lane."""
    found = []
    for lane in range(64):
        written = exec_ >> lane & 1 and rows >> lane // 16 & 1 and banks >> lane % 16 // 4 & 1
        at = source(lane)
        valid = at is not None and exec_ >> at & 1
        if not written or not (valid or bound):
            found.append(OLD)
        else:
            found.append(result(VALUES[at] if valid and at is not None else 0, lane))
    return found


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("gpu", ["gfx803", "gfx900"])
def test_every_control(gpu: str, control: str) -> None:
    for exec_ in (FULL, PARTIAL):
        for bound in ("", " bound_ctrl:0"):
            alu = Alu(gpu, exec_=exec_)
            alu.set_v(1, VALUES)
            alu.run(f"v_mov_b32_dpp v0, v1 {control} row_mask:0xf bank_mask:0xf{bound}")
            assert alu.v(0) == expected(CONTROLS[control], exec_, bool(bound), 15, 15, lambda a, lane: a)


@pytest.mark.parametrize("masks", [(0xA, 0xF), (0xF, 0x5), (0x3, 0xC), (0, 0)])
def test_row_and_bank_masks(masks: tuple[int, int]) -> None:
    rows, banks = masks
    alu = Alu(exec_=PARTIAL)
    alu.set_v(1, VALUES)
    alu.set_v(2, OTHER)
    alu.run(f"v_xor_b32_dpp v0, v1, v2 row_shr:3 row_mask:{rows:#x} bank_mask:{banks:#x} bound_ctrl:0")
    assert alu.v(0) == expected(CONTROLS["row_shr:3"], PARTIAL, True, rows, banks, lambda a, lane: a ^ OTHER[lane])


def test_a_register_may_be_source_and_destination() -> None:
    alu = Alu()
    alu.set_v(1, VALUES)
    alu.run("v_add_u32_dpp v1, v1, v1 row_ror:1 row_mask:0xf bank_mask:0xf")
    assert alu.v(1) == [VALUES[lane] + VALUES[lane - lane % 16 + (lane - 1) % 16] for lane in range(64)]


def test_modifiers_and_carries() -> None:
    alu = Alu()
    alu.set_v(1, [0x3F800000] * 64)
    alu.set_v(2, [0xC0000000] * 64)
    alu.run("v_add_f32_dpp v0, -v1, |v2| row_mirror row_mask:0xf bank_mask:0xf")
    assert alu.v(0) == [0x3F800000] * 64
    alu.set_v(1, [0xFFFF_FFFF if n % 2 else 0 for n in range(64)])
    alu.set_v(2, [1] * 64)
    alu.run("v_add_co_u32_dpp v0, vcc, v1, v2 quad_perm:[1,0,3,2] row_mask:0x7 bank_mask:0xf")
    assert alu.s64(106) == 0x0000_5555_5555_5555
