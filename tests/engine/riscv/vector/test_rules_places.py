"""V 1.0, chapters 14 to 16: reductions, masks, and elements to other places."""

from __future__ import annotations

import pytest

from softcard.isa.riscv.vector.vtype import VILL
from tests.engine.riscv.vector.machine import JUNK, bits, changed, e, illegal, run, s

J8, J32 = JUNK, JUNK * 0x1010101
BOX = 0xFFFF_FFFF << 32
NAN, SIGNALLING = 0x7FC0_0000, 0x7F80_0001
MIDDLE = "vstart is 1, expected 0: only loads and stores can start in the middle of a vector"


# ---- reductions ----------------------------------------------------------------------------------------------------


def test_reduction_scalar() -> None:
    after = run("vredsum.vs v3, v8, v5", "e8,m8", 4, {8: [1, 2, 3, 4], 5: [100, 200]})
    assert after.v(3, 64) == [110] + [J8] * 63
    assert run("vredsum.vs v8, v8, v8", "e8,m8", 4, {8: [1, 2, 3, 4]}).v(8, 4) == [11, 2, 3, 4]


def test_reduction_masked() -> None:
    operands = {0: bits(0, 1, 0, 1), 2: [1, 2, 3, 4], 3: [10]}
    assert run("vredsum.vs v1, v2, v3, v0.t", "e8,m1", 4, operands).v(1, 1) == [16]
    assert run("vredsum.vs v0, v2, v3, v0.t", "e8,m1", 4, operands).v(0, 1) == [16]
    assert run("vredsum.vs v1, v2, v3, v0.t", "e8,m1", 4, {**operands, 0: bits(0)}).v(1, 1) == [10]


def test_reduction_nothing() -> None:
    for text in (
        "vredsum.vs v1, v2, v3",
        "vwredsumu.vs v1, v2, v3",
        "vfredosum.vs v1, v2, v3",
        "vfredmax.vs v1, v2, v3",
    ):
        assert run(text, vl=0, v={3: [1]}).v(1, 1) == [J32]


def test_reduction_vstart() -> None:
    for text in ("vredsum.vs v1, v2, v3", "vfredusum.vs v1, v2, v3", "vwredsum.vs v1, v2, v3"):
        illegal(text, reported=MIDDLE, rule="vstart-never", vstart=1)


def test_reduction() -> None:
    operands = {2: [0xF0, 0x3C, 0x81], 3: [0x70]}
    wanted = {"sum": 0xF0 + 0x3C + 0x81 + 0x70 & 0xFF, "and": 0, "or": 0xFD, "xor": 0xF0 ^ 0x3C ^ 0x81 ^ 0x70,
              "minu": 0x3C, "min": 0x81, "maxu": 0xF0, "max": 0x70}  # fmt: skip
    for name, value in wanted.items():
        assert run(f"vred{name}.vs v1, v2, v3", "e8,m1", 3, operands).v(1, 1) == [value]


def test_reduction_widening() -> None:
    operands = {2: [0xFF, 0x80], 3: e(16, 0x1000)}
    assert run("vwredsumu.vs v1, v2, v3", "e8,m1", 2, operands).v(1, 1, 16) == [0x117F]
    assert run("vwredsum.vs v1, v2, v3", "e8,m1", 2, operands).v(1, 1, 16) == [0x0F7F]


def test_reduction_ordered() -> None:
    """2**24 swallows ones that come one by one."""
    values = {2: s(1.0, 1.0, -(2.0**24), 1.0), 3: s(2.0**24)}
    after = run("vfredosum.vs v1, v2, v3", v=values)
    assert (after.v(1, 2), after.fflags) == ([*s(1.0), J32], 1)


def test_reduction_copied() -> None:
    after = run("vfredosum.vs v1, v2, v3, v0.t", v={0: bits(0), 2: s(1.0), 3: [SIGNALLING]})
    assert (after.v(1, 1), after.fflags) == ([SIGNALLING], 0)


def test_reduction_unordered() -> None:
    values = {2: s(1.0, 1.0, -(2.0**24), 1.0), 3: s(2.0**24)}
    assert run("vfredusum.vs v1, v2, v3", v=values).v(1, 1) == s(1.0)


def test_reduction_float_extremes() -> None:
    values = {2: [*s(1.0, -0.0, 0.0), NAN], 3: s(5.0)}
    assert run("vfredmin.vs v1, v2, v3", v=values).v(1, 1) == s(-0.0)
    assert run("vfredmax.vs v1, v2, v3", v=values).v(1, 1) == s(5.0)
    for name in ("vfredmin", "vfredmax"):
        after = run(f"{name}.vs v1, v2, v3, v0.t", v={0: bits(0), 2: s(1.0), 3: [SIGNALLING]})
        assert (after.v(1, 1), after.fflags) == ([SIGNALLING], 0)


def test_reduction_float_widening() -> None:
    values = {2: s(2.0**24, 1.0, 1.0), 3: e(64, 0)}
    for name in ("vfwredosum", "vfwredusum"):
        assert run(f"{name}.vs v1, v2, v3", vl=3, v=values).v(1, 1, 64) == [0x4170_0000_2000_0000]


# ---- masks ---------------------------------------------------------------------------------------------------------


def test_mask_logic() -> None:
    a, b = bits(0, 0, 1, 1), bits(0, 1, 0, 1)
    wanted = {"vmand": [0, 0, 0, 1], "vmnand": [1, 1, 1, 0], "vmandn": [0, 0, 1, 0], "vmxor": [0, 1, 1, 0],
              "vmor": [0, 1, 1, 1], "vmnor": [1, 0, 0, 0], "vmorn": [1, 0, 1, 1], "vmxnor": [1, 0, 0, 1]}  # fmt: skip
    for name, each in wanted.items():
        for vtype in ("e8,m1", "e64,m8"):
            assert run(f"{name}.mm v1, v2, v3", vtype, 4, {2: a, 3: b}).mask(1, 4) == each
            assert run(f"{name}.mm v3, v2, v3", vtype, 4, {2: a, 3: b}).mask(3, 4) == each


def test_mask_logic_masked() -> None:
    for name in ("vmand", "vmnand", "vmandn", "vmxor", "vmor", "vmnor", "vmorn", "vmxnor"):
        illegal(changed(f"{name}.mm v1, v2, v3", 1 << 25, 0))


def test_count() -> None:
    masks = {0: bits(1, 1, 0, 1), 2: bits(1, 0, 1, 1, 1, 1)}
    assert run("vcpop.m x5, v2", "e8,m1", 4, masks).x[5] == 3
    assert run("vcpop.m x5, v2, v0.t", "e8,m1", 4, masks).x[5] == 2
    assert run("vcpop.m x5, v2", "e8,m1", 0, masks, x={5: 7}).x[5] == 0


def test_count_vstart() -> None:
    illegal("vcpop.m x5, v2", reported=MIDDLE, rule="vstart-never", vstart=1)


def test_find_first() -> None:
    masks = {0: bits(1, 1, 0, 1), 2: bits(0, 0, 1, 1)}
    assert run("vfirst.m x5, v2", "e8,m1", 4, masks).x[5] == 2
    assert run("vfirst.m x5, v2, v0.t", "e8,m1", 4, masks).x[5] == 3
    assert run("vfirst.m x5, v2", "e8,m1", 2, masks).x[5] == (1 << 64) - 1


def test_find_first_vstart() -> None:
    illegal("vfirst.m x5, v2", reported=MIDDLE, rule="vstart-never", vstart=1)


EXAMPLE = {0: bits(1, 1, 0, 0, 0, 0, 1, 1), 1: bits(), 3: bits(0, 0, 1, 0, 1, 0, 0, 1), 4: bits(1), 5: bits()}
"""As in the document; numbers of elements go up from the left here."""


def around(name: str, n: int, masked: str = "") -> list[int]:
    return run(f"{name}.m v1, v{n}{masked}", "e8,m1", 8, EXAMPLE).mask(1, 8)


def test_before_first() -> None:
    assert around("vmsbf", 3) == [1, 1, 0, 0, 0, 0, 0, 0]
    assert around("vmsbf", 4) == [0] * 8
    assert around("vmsbf", 5) == [1] * 8
    assert around("vmsbf", 3, ", v0.t") == [1, 1, 0, 0, 0, 0, 1, 0]


def test_including_first() -> None:
    assert around("vmsif", 3) == [1, 1, 1, 0, 0, 0, 0, 0]
    assert around("vmsif", 4) == [1, 0, 0, 0, 0, 0, 0, 0]
    assert around("vmsif", 3, ", v0.t") == [1, 1, 0, 0, 0, 0, 1, 1]


def test_only_first() -> None:
    assert around("vmsof", 3) == [0, 0, 1, 0, 0, 0, 0, 0]
    assert around("vmsof", 4) == [1, 0, 0, 0, 0, 0, 0, 0]
    assert around("vmsof", 3, ", v0.t") == [0, 0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("name", ["vmsbf", "vmsif", "vmsof"])
def test_around_first_overlap(name: str) -> None:
    illegal(
        f"{name}.m v2, v2", reported="the destination v2 must not overlap the source v2", rule="around-first-overlap"
    )
    illegal(
        f"{name}.m v0, v2, v0.t",
        reported="the destination v0 must not overlap the source v0",
        rule="around-first-overlap",
    )
    assert run(f"{name}.m v0, v2").cause is None


@pytest.mark.parametrize("name", ["vmsbf", "vmsif", "vmsof"])
def test_around_first_vstart(name: str) -> None:
    illegal(f"{name}.m v1, v2", reported=MIDDLE, rule="vstart-never", vstart=1)


def test_iota() -> None:
    masks = {0: bits(1, 1, 0, 1, 0, 1, 1, 1), 2: bits(1, 0, 0, 0, 1, 0, 0, 1), 4: [9, 8, 7, 6, 5, 4, 3, 2]}
    assert run("viota.m v4, v2", "e8,m1", 8, masks).v(4, 8) == [0, 1, 1, 1, 1, 2, 2, 2]
    assert run("viota.m v4, v2, v0.t", "e8,m1", 8, masks).v(4, 8) == [0, 1, 7, 1, 5, 1, 1, 1]
    many = run("viota.m v8, v2", "e8,m8", 300, {2: b"\xff" * 64}).v(8, 300)
    assert many == [k & 0xFF for k in range(300)]


def test_iota_overlap() -> None:
    illegal("viota.m v2, v2", reported="the destination v2 must not overlap the source v2", rule="iota-overlap")
    illegal("viota.m v2, v3", "e8,m2", "the destination v2 to v3 must not overlap the source v3", "iota-overlap")
    illegal(
        "viota.m v0, v2, v0.t",
        reported="the destination of a masked instruction is v0, the mask, expected another",
        rule="mask-overlap",
    )


def test_iota_vstart() -> None:
    illegal("viota.m v1, v2", reported=MIDDLE, rule="vstart-never", vstart=1)


def test_element_index() -> None:
    assert run("vid.v v8, v0.t", "e32,m1", 4, {0: bits(1, 0, 1, 1)}).v(8, 4) == [0, J32, 2, 3]
    assert run("vid.v v8", "e8,m8", 300).v(8, 300) == [k & 0xFF for k in range(300)]


def test_element_index_vs2() -> None:
    illegal(changed("vid.v v8", 0, 1 << 20))


# ---- moves ---------------------------------------------------------------------------------------------------------


def test_move_to_x() -> None:
    for vtype, value, wanted in (("e8,m8", 0x80, -0x80), ("e16,m1", 0x7FFF, 0x7FFF), ("e64,m1", 1 << 63, -(1 << 63))):
        for vl in (0, 1):
            assert run("vmv.x.s x5, v3", vtype, vl, {3: [value]}).x[5] == wanted & (1 << 64) - 1


def test_move_from_x() -> None:
    assert run("vmv.s.x v3, x6", "e8,m8", 9, x={6: 0x1234}).v(3, 2) == [0x34, J8]
    assert run("vmv.s.x v3, x6", "e8,m8", 0, x={6: 0x1234}).v(3, 1) == [J8]


def test_move_x_masked() -> None:
    for text in ("vmv.x.s x5, v3", "vmv.s.x v3, x6"):
        illegal(changed(text, 1 << 25, 0))


def test_move_to_f() -> None:
    assert run("vfmv.f.s f5, v3", v={3: s(1.5)}).f[5] == BOX | s(1.5)[0]
    assert run("vfmv.f.s f5, v3", "e64,m1", v={3: [5]}).f[5] == 5


def test_move_from_f() -> None:
    assert run("vfmv.s.f v3, f6", f={6: BOX | s(1.5)[0]}).v(3, 2) == [*s(1.5), J32]
    assert run("vfmv.s.f v3, f6", f={6: s(1.5)[0]}).v(3, 1) == [NAN]
    assert run("vfmv.s.f v3, f6", vl=0, f={6: BOX}).v(3, 1) == [J32]


def test_move_f_masked() -> None:
    for text in ("vfmv.f.s f5, v3", "vfmv.s.f v3, f6"):
        illegal(changed(text, 1 << 25, 0))


# ---- slides --------------------------------------------------------------------------------------------------------

FIVE = {0: bits(1, 1, 0, 1), 2: [10, 11, 12, 13, 14]}


def test_slide_masked() -> None:
    assert run("vslideup.vi v1, v2, 1, v0.t", "e8,m1", 4, FIVE).v(1, 5) == [J8, 10, J8, 12, J8]
    assert run("vslidedown.vi v1, v2, 1, v0.t", "e8,m1", 4, FIVE).v(1, 5) == [11, 12, J8, 14, J8]
    assert run("vslide1up.vx v1, v2, x6, v0.t", "e8,m1", 4, FIVE, x={6: 7}).v(1, 5) == [7, 10, J8, 12, J8]
    assert run("vslide1down.vx v1, v2, x6, v0.t", "e8,m1", 4, FIVE, x={6: 7}).v(1, 5) == [11, 12, J8, 7, J8]


def test_slide_offset() -> None:
    for offset in (1 << 8, 1 << 32, (1 << 64) - 1, 1 << 63):
        assert run("vslideup.vx v1, v2, x6", "e8,m1", 4, FIVE, x={6: offset}).v(1, 4) == [J8] * 4
        assert run("vslidedown.vx v1, v2, x6", "e8,m1", 4, FIVE, x={6: offset}).v(1, 4) == [0] * 4


def test_slide_up() -> None:
    assert run("vslideup.vx v1, v2, x6", "e8,m1", 5, FIVE, x={6: 2}).v(1, 6) == [J8, J8, 10, 11, 12, J8]
    assert run("vslideup.vi v1, v2, 5", "e8,m1", 5, FIVE).v(1, 6) == [J8] * 6


def test_slide_up_overlap() -> None:
    illegal(
        "vslideup.vi v2, v2, 1", reported="the destination v2 must not overlap the source v2", rule="slide-up-overlap"
    )
    illegal(
        "vslideup.vx v2, v2, x6", reported="the destination v2 must not overlap the source v2", rule="slide-up-overlap"
    )
    assert run("vslidedown.vi v2, v2, 1").cause is None


def test_slide_down() -> None:
    whole = {2: list(range(64))}
    assert run("vslidedown.vi v1, v2, 10", "e8,m1", 4, whole).v(1, 5) == [10, 11, 12, 13, J8]
    assert run("vslidedown.vx v1, v2, x6", "e8,m1", 4, whole, x={6: 62}).v(1, 4) == [62, 63, 0, 0]


def test_slide_one_up() -> None:
    assert run("vslide1up.vx v1, v2, x6", "e8,m1", 4, FIVE, x={6: 0x107}).v(1, 5) == [7, 10, 11, 12, J8]


def test_slide_one_up_float() -> None:
    after = run("vfslide1up.vf v1, v2, f6", v={2: [1, 2, 3, 4]}, f={6: s(1.0)[0]})
    assert after.v(1, 5) == [NAN, 1, 2, 3, J32]


def test_slide_one_up_overlap() -> None:
    illegal(
        "vslide1up.vx v2, v2, x6",
        reported="the destination v2 must not overlap the source v2",
        rule="slide-one-up-overlap",
    )
    illegal(
        "vfslide1up.vf v2, v2, f6",
        reported="the destination v2 must not overlap the source v2",
        rule="slide-one-up-overlap",
    )


def test_slide_one_down() -> None:
    assert run("vslide1down.vx v1, v2, x6", "e8,m1", 4, FIVE, x={6: 0x107}).v(1, 5) == [11, 12, 13, 7, J8]


def test_slide_one_down_float() -> None:
    after = run("vfslide1down.vf v2, v2, f6", v={2: [1, 2, 3, 4]}, f={6: BOX | s(1.0)[0]})
    assert after.v(2, 4) == [2, 3, 4, *s(1.0)]


# ---- gathers, compress, copies -------------------------------------------------------------------------------------


def test_gather() -> None:
    values = {2: list(range(100, 164)), 3: [63, 0, 64, 255]}
    assert run("vrgather.vv v1, v2, v3", "e8,m1", 4, values).v(1, 5) == [163, 100, 0, 0, J8]


def test_gather_scalar() -> None:
    values = {2: list(range(100, 164))}
    assert run("vrgather.vx v1, v2, x6", "e8,m1", 3, values, x={6: 63}).v(1, 4) == [163] * 3 + [J8]
    assert run("vrgather.vx v1, v2, x6", "e8,m1", 3, values, x={6: 256}).v(1, 3) == [0] * 3
    assert run("vrgather.vi v1, v2, 31", "e8,m1", 2, values).v(1, 2) == [131] * 2


def test_gather_ei16() -> None:
    values = {2: list(range(64)), 4: e(16, 63, 1, 64, 0x101)}
    assert run("vrgatherei16.vv v1, v2, v4", "e8,m1", 4, values).v(1, 4) == [63, 1, 0, 0]
    illegal("vrgatherei16.vv v8, v16, v24", "e8,m8", "EMUL is 16 for elements of 16 bits", "emul-range")
    assert run("vrgatherei16.vv v1, v2, v4", "e64,m1", 2, {2: [5, 6, 7], 4: e(16, 2, 0)}).v(1, 2) == [7, 5]


def test_gather_overlap() -> None:
    for text in ("vrgather.vv v1, v1, v3", "vrgather.vv v1, v2, v1", "vrgather.vx v1, v1, x6", "vrgather.vi v1, v1, 0"):
        illegal(text, reported="the destination v1 must not overlap the source v1", rule="gather-overlap")
    illegal(
        "vrgatherei16.vv v1, v2, v1", "e16,m1", "the destination v1 must not overlap the source v1", "gather-overlap"
    )


def test_compress() -> None:
    values = {2: list(range(10, 19)), 3: bits(1, 0, 1, 0, 0, 1, 0, 1, 1)}
    assert run("vcompress.vm v1, v2, v3", "e8,m1", 9, values).v(1, 7) == [10, 12, 15, 17, 18, J8, J8]


def test_compress_masked() -> None:
    illegal(changed("vcompress.vm v1, v2, v3", 1 << 25, 0))


def test_compress_overlap() -> None:
    for text in ("vcompress.vm v1, v1, v3", "vcompress.vm v1, v2, v1"):
        illegal(text, reported="the destination v1 must not overlap the source v1", rule="compress-overlap")


def test_compress_vstart() -> None:
    illegal("vcompress.vm v1, v2, v3", reported=MIDDLE, rule="vstart-never", vstart=1)


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_whole_move(count: int) -> None:
    values = bytes(k * 3 & 255 for k in range(64 * count))
    after = run(f"vmv{count}r.v v8, v16", "e64,m1", 0, {16: values})
    assert after.vectors[512:1024] == values + bytes([JUNK]) * (512 - 64 * count)
    for other in (2, 4, 5, 6, 8, 31):
        illegal(changed("vmv1r.v v8, v16", 31 << 15, other << 15))


def test_whole_move_group() -> None:
    for text in ("vmv2r.v v9, v16", "vmv2r.v v8, v17", "vmv8r.v v4, v8"):
        illegal(text, reported="cannot begin a group", rule="whole-move-group")


def test_whole_move_vill() -> None:
    illegal("vmv1r.v v1, v2", VILL, "vtype.vill is set", "vill-illegal")
