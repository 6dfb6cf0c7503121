"""V 1.0, chapters 11 and 12: integers and fixed point."""

from __future__ import annotations

from collections.abc import Sequence

from tests.engine.riscv.vector.machine import JUNK, After, bits, changed, e, illegal, run

J8, J16 = JUNK, JUNK * 0x101
UP, EVEN, DOWN, ODD = range(4)


def on(text: str, a: Sequence[int], b: Sequence[int] = (), vtype: str = "e8,m1", **more: object) -> After:
    """vs2 = v2 = a, vs1 = v3 = b, the destination v1."""
    return run(text, vtype, len(a), {2: a, 3: b, **more.pop("v", {})}, **more)  # type: ignore[arg-type, call-overload, dict-item]


def values(text: str, a: Sequence[int], b: Sequence[int] = (), vtype: str = "e8,m1", **more: object) -> list[int]:
    """The value of v1 afterwards."""
    return on(text, a, b, vtype, **more).v(1, len(a))


def test_integer_add() -> None:
    assert values("vadd.vv v1, v2, v3", [0xFF, 1], [2, 3]) == [1, 4]
    assert values("vsub.vv v1, v2, v3", [0, 9], [1, 3]) == [0xFF, 6]
    assert values("vrsub.vx v1, v2, x6", [1, 9], x={6: 5}) == [4, 0xFC]
    assert values("vrsub.vi v1, v2, -1", [1, 9]) == [0xFE, 0xF6]


def test_widening_add() -> None:
    def wide(text: str, a: Sequence[int]) -> list[int]:
        return run(text, "e8,m1", 2, {4: a, 6: [0xFF, 2]}).v(2, 2, 16)

    assert wide("vwaddu.vv v2, v4, v6", [0xFF, 1]) == [0x1FE, 3]
    assert wide("vwadd.vv v2, v4, v6", [0xFF, 1]) == [0xFFFE, 3]
    assert wide("vwsubu.vv v2, v4, v6", [0xFE, 1]) == [0xFFFF, 0xFFFF]
    assert wide("vwsub.vv v2, v4, v6", [0x7F, 0x80]) == [0x80, 0xFF7E]
    assert run("vwadd.wv v2, v4, v6", "e8,m1", 1, {4: e(16, 0x100), 6: [0xFF]}).v(2, 1, 16) == [0xFF]
    assert run("vwaddu.wv v2, v4, v6", "e8,m1", 1, {4: e(16, 0x100), 6: [0xFF]}).v(2, 1, 16) == [0x1FF]


def test_extension() -> None:
    for part in (2, 4, 8):
        source = {2: e(64 // part, 0x7F, 1 << 64 // part - 1)}
        top = (1 << 64) - (1 << 64 // part - 1)
        assert run(f"vzext.vf{part} v1, v2", "e64,m1", 2, source).v(1, 2) == [0x7F, 1 << 64 // part - 1]
        assert run(f"vsext.vf{part} v1, v2", "e64,m1", 2, source).v(1, 2) == [0x7F, top]


def test_extension_range() -> None:
    for text in ("vzext.vf2 v1, v2", "vsext.vf4 v1, v2", "vzext.vf8 v1, v2"):
        illegal(text, "e8,m1", "expected 8, 16, 32 or 64", "eew-supported")


def test_carry() -> None:
    carry = {0: bits(1, 0, 1)}
    assert values("vadc.vvm v1, v2, v3, v0", [1, 1, 0xFF], [1, 1, 0], v=carry) == [3, 2, 0]
    assert values("vadc.vim v1, v2, -1, v0", [1, 1, 0xFF], v=carry) == [1, 0, 0xFF]
    assert values("vsbc.vxm v1, v2, x6, v0", [1, 1, 0], x={6: 1}, v=carry) == [0xFF, 0, 0xFE]


def test_carry_unmasked() -> None:
    for text in ("vadc.vvm v1, v2, v3, v0", "vadc.vim v1, v2, 1, v0", "vsbc.vvm v1, v2, v3, v0"):
        illegal(changed(text, 0, 1 << 25))


def test_carry_destination() -> None:
    for text in ("vadc.vvm v0, v2, v3, v0", "vsbc.vxm v0, v2, x6, v0"):
        illegal(
            text,
            reported="the destination of a masked instruction is v0, the mask, expected another",
            rule="mask-overlap",
        )


def test_carry_out() -> None:
    carry = {0: bits(1, 0, 1)}
    assert on("vmadc.vvm v1, v2, v3, v0", [0xFE, 0xFE, 0xFF], [1, 1, 0], v=carry).mask(1, 3) == [1, 0, 1]
    assert on("vmadc.vv v1, v2, v3", [0xFF, 0xFE], [1, 1]).mask(1, 2) == [1, 0]
    assert on("vmsbc.vvm v1, v2, v3, v0", [1, 1, 2], [1, 1, 1], v=carry).mask(1, 3) == [1, 0, 0]
    assert on("vmsbc.vx v1, v2, x6", [1, 2], x={6: 2}).mask(1, 2) == [1, 0]
    assert on("vmadc.vim v0, v2, -1, v0", [0, 1, 1], v=carry).mask(0, 3) == [1, 1, 1]


def test_logic() -> None:
    assert values("vand.vv v1, v2, v3", [0b1100], [0b1010]) == [0b1000]
    assert values("vor.vi v1, v2, -8", [0b1101]) == [0xFD]
    assert values("vxor.vx v1, v2, x6", [0b1100], x={6: 0b1010}) == [0b0110]


def test_shift() -> None:
    assert values("vsll.vv v1, v2, v3", [1, 1, 0x81], [3, 8, 9]) == [8, 1, 2]
    assert values("vsrl.vx v1, v2, x6", [0x80, 0x81], x={6: 0xF9}) == [0x40, 0x40]
    assert values("vsra.vi v1, v2, 31", [0x80, 0x40]) == [0xFF, 0]
    assert values("vsrl.vi v1, v2, 31", [1 << 63], vtype="e64,m1") == [1 << 32]


def test_narrowing_shift() -> None:
    def narrow(text: str, *amounts: int) -> list[int]:
        return run(text, "e8,m1", 2, {4: e(16, 0x8123, 0x8123), 3: amounts}, x={6: amounts[0]}).v(1, 2)

    assert narrow("vnsrl.wv v1, v4, v3", 8, 24) == [0x81, 0x81]
    assert narrow("vnsra.wv v1, v4, v3", 12, 15) == [0xF8, 0xFF]
    assert narrow("vnsrl.wx v1, v4, x6", 0xF4) == [0x12, 0x12]
    assert narrow("vnsrl.wi v1, v4, 20", 0) == [0x12, 0x12]


def test_compare() -> None:
    def is_(name: str, a: Sequence[int], b: Sequence[int]) -> list[int]:
        return on(f"{name}.vv v1, v2, v3", a, b).mask(1, len(a))

    a, b = [1, 0xFF, 0x80, 5], [1, 1, 0x7F, 6]
    assert is_("vmseq", a, b) == [1, 0, 0, 0]
    assert is_("vmsne", a, b) == [0, 1, 1, 1]
    assert is_("vmsltu", a, b) == [0, 0, 0, 1]
    assert is_("vmslt", a, b) == [0, 1, 1, 1]
    assert is_("vmsleu", a, b) == [1, 0, 0, 1]
    assert is_("vmsle", a, b) == [1, 1, 1, 1]
    assert on("vmsgtu.vx v1, v2, x6", a, x={6: 1}).mask(1, 4) == [0, 1, 1, 1]
    assert on("vmsgt.vx v1, v2, x6", a, x={6: 1}).mask(1, 4) == [0, 0, 0, 1]


def test_compare_to_v0() -> None:
    mask = {0: bits(1, 1, 0, 0)}
    assert on("vmslt.vv v0, v2, v3, v0.t", [1, 9, 1, 9], [5] * 4, v=mask).mask(0, 4) == [1, 0, 0, 0]
    assert on("vmseq.vv v2, v2, v3", [1, 9], [1, 5]).mask(2, 2) == [1, 0]


def test_compare_immediate() -> None:
    assert on("vmsleu.vi v1, v2, -1", [0, 0xFF]).mask(1, 2) == [1, 1]
    assert on("vmsgtu.vi v1, v2, -2", [0xFE, 0xFF]).mask(1, 2) == [0, 1]
    assert on("vmseq.vi v1, v2, -1", [0xFFFF, 0xFF], vtype="e16,m1").mask(1, 2) == [1, 0]


def test_least_most() -> None:
    a, b = [1, 0xFF], [2, 0x7F]
    assert values("vminu.vv v1, v2, v3", a, b) == [1, 0x7F]
    assert values("vmin.vv v1, v2, v3", a, b) == [1, 0xFF]
    assert values("vmaxu.vv v1, v2, v3", a, b) == [2, 0xFF]
    assert values("vmax.vv v1, v2, v3", a, b) == [2, 0x7F]


def test_multiply() -> None:
    a, b = [0x80, 0xFF, 7], [0x80, 0xFF, 5]
    assert values("vmul.vv v1, v2, v3", a, b) == [0, 1, 35]
    assert values("vmulh.vv v1, v2, v3", a, b) == [0x40, 0, 0]
    assert values("vmulhu.vv v1, v2, v3", a, b) == [0x40, 0xFE, 0]
    assert values("vmulhsu.vv v1, v2, v3", a, b) == [0xC0, 0xFF, 0]
    for name, product in (("vmulh", 1), ("vmulhu", (1 << 64) - 2), ("vmulhsu", (1 << 64) - 1)):
        wide = values(f"{name}.vv v1, v2, v3", [(1 << 64) - 1], [(1 << 64) - 1], "e64,m1")
        assert wide == [product if name != "vmulh" else 0]


def test_divide() -> None:
    a, b = [0x80, 0x80, 7, 0xF9], [0xFF, 0, 0, 2]
    assert values("vdiv.vv v1, v2, v3", a, b) == [0x80, 0xFF, 0xFF, 0xFD]
    assert values("vrem.vv v1, v2, v3", a, b) == [0, 0x80, 7, 0xFF]
    assert values("vdivu.vv v1, v2, v3", a, b) == [0, 0xFF, 0xFF, 0x7C]
    assert values("vremu.vv v1, v2, v3", a, b) == [0x80, 0x80, 7, 1]


def test_widening_multiply() -> None:
    def wide(name: str) -> list[int]:
        return run(f"{name}.vv v2, v4, v6", "e8,m1", 2, {4: [0xFF, 0x80], 6: [0xFF, 2]}).v(2, 2, 16)

    assert wide("vwmul") == [1, 0xFF00]
    assert wide("vwmulu") == [0xFE01, 0x100]
    assert wide("vwmulsu") == [0xFF01, 0xFF00]


def test_multiply_add() -> None:
    def with_vd(name: str) -> list[int]:
        return run(f"{name}.vv v1, v3, v2", "e8,m1", 2, {1: [2, 3], 2: [10, 20], 3: [5, 6]}).v(1, 2)

    assert with_vd("vmacc") == [52, 123]
    assert with_vd("vnmsac") == [2 - 50 & 0xFF, 3 - 120 & 0xFF]
    assert with_vd("vmadd") == [20, 38]
    assert with_vd("vnmsub") == [0, 2]


def test_widening_multiply_add() -> None:
    def wide(text: str) -> list[int]:
        return run(text, "e8,m1", 1, {2: e(16, 1), 4: [0xFF], 6: [0x80]}, x={6: 0x80}).v(2, 1, 16)

    assert wide("vwmaccu.vv v2, v6, v4") == [0x80 * 0xFF + 1]
    assert wide("vwmacc.vv v2, v6, v4") == [0x81]
    assert wide("vwmaccsu.vv v2, v6, v4") == [1 - 0x80 * 0xFF & 0xFFFF]
    assert wide("vwmaccus.vx v2, x6, v4") == [1 - 0x80 & 0xFFFF]


def test_merge() -> None:
    mask = {0: bits(1, 0, 1)}
    assert values("vmerge.vvm v1, v2, v3, v0", [1, 2, 3], [4, 5, 6], v=mask) == [4, 2, 6]
    assert values("vmerge.vxm v1, v2, x6, v0", [1, 2, 3], x={6: 9}, v=mask) == [9, 2, 9]
    assert values("vmerge.vim v1, v2, -1, v0", [1, 2, 3], v=mask) == [0xFF, 2, 0xFF]


def test_move() -> None:
    assert run("vmv.v.v v1, v3", "e8,m1", 2, {3: [7, 8]}).v(1, 3) == [7, 8, J8]
    assert run("vmv.v.x v1, x6", "e8,m1", 2, x={6: 0x123}).v(1, 3) == [0x23, 0x23, J8]
    assert run("vmv.v.i v1, -2", "e8,m1", 2).v(1, 3) == [0xFE, 0xFE, J8]


def test_move_vs2() -> None:
    for text in ("vmv.v.v v1, v3", "vmv.v.x v1, x6", "vmv.v.i v1, 1"):
        illegal(changed(text, 0, 1 << 20))


# ---- chapter 12 ----------------------------------------------------------------------------------------------------


def test_saturating() -> None:
    for text, a, b, wanted in (
        ("vsaddu.vv v1, v2, v3", 0xFF, 1, 0xFF),
        ("vsadd.vv v1, v2, v3", 0x7F, 1, 0x7F),
        ("vsadd.vv v1, v2, v3", 0x80, 0xFF, 0x80),
        ("vssubu.vv v1, v2, v3", 0, 1, 0),
        ("vssub.vv v1, v2, v3", 0x80, 1, 0x80),
        ("vssub.vv v1, v2, v3", 0x7F, 0xFF, 0x7F),
    ):
        after = on(text, [3, a], [2, b])
        assert after.v(1, 2) == [1 if "sub" in text else 5, wanted]
        assert after.vcsr == 1
        assert on(text, [3], [2]).vcsr == 0
    assert on("vsaddu.vi v1, v2, -1", [1]).v(1, 1) == [0xFF]


def test_averaging() -> None:
    a, b = [0xFF, 3, 0x80], [0xFF, 2, 0x80]
    assert values("vaaddu.vv v1, v2, v3", a, b, vcsr=UP << 1) == [0xFF, 3, 0x80]
    assert values("vaadd.vv v1, v2, v3", a, b, vcsr=DOWN << 1) == [0xFF, 2, 0x80]
    assert values("vasub.vv v1, v2, v3", [0x7F, 1], [0x80, 2], vcsr=DOWN << 1) == [0x7F, 0xFF]
    assert values("vasubu.vv v1, v2, v3", [0, 5], [1, 2], vcsr=EVEN << 1) == [0, 2]
    assert values("vasubu.vv v1, v2, v3", [0], [2], vcsr=EVEN << 1) == [0xFF]
    assert values("vasub.vv v1, v2, v3", [0x7F], [0x80], vcsr=UP << 1) == [0x80]
    assert on("vaaddu.vv v1, v2, v3", a, b, vcsr=ODD << 1).vcsr == ODD << 1


def test_fractional_multiply() -> None:
    after = on("vsmul.vv v1, v2, v3", [0x80, 0x40, 0x41], [0x80, 0x40, 0x41])
    assert (after.v(1, 3), after.vcsr) == ([0x7F, 0x20, 0x21], 1)
    assert values("vsmul.vv v1, v2, v3", [0x41], [0x41], vcsr=ODD << 1) == [0x21]
    assert values("vsmul.vv v1, v2, v3", [1, 0xFF], [1, 1], vcsr=DOWN << 1) == [0, 0xFF]


def test_scaling_shift() -> None:
    assert values("vssrl.vv v1, v2, v3", [0x83, 0x83], [2, 10], vcsr=UP << 1) == [0x21, 0x21]
    assert values("vssra.vx v1, v2, x6", [0x83], x={6: 0xFA}, vcsr=DOWN << 1) == [0xE0]
    assert values("vssra.vi v1, v2, 1", [0x83], vcsr=EVEN << 1) == [0xC2]


def test_clip() -> None:
    def clip(text: str, *wide: int, vcsr: int = 0) -> After:
        return run(text, "e8,m1", len(wide), {4: e(16, *wide), 3: [4, 20]}, x={6: 20}, vcsr=vcsr)

    after = clip("vnclipu.wv v1, v4, v3", 0xFFF, 0x0FF8, vcsr=DOWN << 1)
    assert (after.v(1, 2), after.vcsr) == ([0xFF, 0xFF], DOWN << 1)
    after = clip("vnclipu.wv v1, v4, v3", 0xFFF, 0x100, vcsr=UP << 1)
    assert (after.v(1, 2), after.vcsr & 1) == ([0xFF, 0x10], 1)
    after = clip("vnclip.wx v1, v4, x6", 0x8000, 0x7FF, 0x800)
    assert (after.v(1, 3), after.vcsr & 1) == ([0x80, 0x7F, 0x7F], 1)
    assert clip("vnclip.wi v1, v4, 31", 0x8000, 0x7FFF).v(1, 2) == [0xFF, 1]
