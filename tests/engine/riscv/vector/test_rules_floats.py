"""V 1.0, chapter 13: floats."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.engine.riscv.vector.machine import JUNK, After, bits, changed, d, e, illegal, run, s

BOX = 0xFFFF_FFFF << 32
NAN, NAN64, SIGNALLING, QUIET = 0x7FC0_0000, 0x7FF8 << 48, 0x7F80_0001, 0xFFC1_2345
NV, DZ, OF, UF, NX = 16, 8, 4, 2, 1
INF = math.inf
FLOATS = 3 << 13
VECTORS = 3 << 9


def on(text: str, a: Sequence[int], b: Sequence[int] = (), **more: object) -> After:
    """vs2 = v2 = a, vs1 = v3 = b, the destination v1."""
    return run(text, "e32,m1", len(a), {2: a, 3: b, **more.pop("v", {})}, **more)  # type: ignore[arg-type, call-overload, dict-item]


def values(text: str, a: Sequence[int], b: Sequence[int] = (), **more: object) -> list[int]:
    """The value of v1 afterwards."""
    return on(text, a, b, **more).v(1, len(a))


def test_float_width() -> None:
    for width in (8, 16):
        for text in ("vfadd.vv v1, v2, v3", "vfmv.v.f v1, f6", "vfclass.v v1, v2", "vmfeq.vv v1, v2, v3"):
            illegal(text, f"e{width},m1", f"the floats have {width} bits, expected 32 or 64", "float-width")
    illegal("vfwcvt.f.f.v v2, v4", "e64,m1", "128 bits", "float-width")
    illegal("vfncvt.f.f.w v2, v4", "e16,m1", "the floats have 16 bits", "float-width")
    assert run("vfwcvt.f.x.v v2, v4", "e16,m1", 2, {4: [1, -2]}).v(2, 2, 32) == s(1.0, -2.0)


def test_fs_off() -> None:
    for text in ("vfadd.vv v1, v2, v3", "vfmv.v.f v1, f6", "vfsgnj.vv v1, v2, v3", "vfslide1up.vf v1, v2, f6"):
        illegal(text, reported="mstatus.FS is Off", status=VECTORS)
    assert run("vadd.vv v1, v2, v3", status=VECTORS).cause is None


def test_fs_dirty() -> None:
    for text in ("vfdiv.vv v1, v2, v3", "vfmv.f.s f1, v2"):
        after = on(text, s(1.0), s(3.0), status=VECTORS | 1 << 13)
        assert after.status & FLOATS == FLOATS


def test_float_nan() -> None:
    after = on("vfadd.vv v1, v2, v3", [QUIET, SIGNALLING, *s(INF)], s(1.0, 1.0, -INF))
    assert (after.v(1, 3), after.fflags) == ([NAN] * 3, NV)


def test_float_flags() -> None:
    assert on("vfdiv.vv v1, v2, v3", s(1.0, 1.0, 2.0), s(1.0, 0.0, 2.0)).fflags == DZ
    mask = {0: bits(1, 0, 1)}
    assert on("vfdiv.vv v1, v2, v3, v0.t", s(1.0, 1.0, 2.0), s(1.0, 0.0, 2.0), v=mask).fflags == 0
    assert on("vfmul.vv v1, v2, v3", s(3e38, 1e-40), s(3e38, 1e-10)).fflags == OF | UF | NX


def test_float_add() -> None:
    assert values("vfadd.vv v1, v2, v3", s(1.0, 2.5), s(0.5, 0.25)) == s(1.5, 2.75)
    assert values("vfsub.vv v1, v2, v3", s(1.0, 2.5), s(0.5, 0.25)) == s(0.5, 2.25)
    assert values("vfrsub.vf v1, v2, f6", s(1.0, 2.5), f={6: BOX | s(3.0)[0]}) == s(2.0, 0.5)


def test_float_widening_add() -> None:
    tiny = 2.0**-60
    operands = {4: s(1.0, 2.0), 6: s(tiny, -1.0), 8: b"".join(e(64, each) for each in d(1e300, 5.0))}
    assert run("vfwadd.vv v2, v4, v6", vl=2, v=operands).v(2, 2, 64) == d(1.0 + tiny, 1.0)
    assert run("vfwsub.vv v2, v4, v6", vl=2, v=operands).v(2, 2, 64) == d(1.0, 3.0)
    assert run("vfwadd.wv v2, v8, v6", vl=2, v=operands).v(2, 2, 64) == d(1e300, 4.0)
    assert run("vfwsub.wf v2, v8, f6", vl=2, v=operands, f={6: BOX | s(2.0)[0]}).v(2, 2, 64) == d(1e300, 3.0)


def test_float_multiply() -> None:
    assert values("vfmul.vv v1, v2, v3", s(1.5, -2.0), s(2.0, 0.25)) == s(3.0, -0.5)
    assert values("vfdiv.vv v1, v2, v3", s(1.5, -2.0), s(2.0, 0.25)) == s(0.75, -8.0)
    assert values("vfrdiv.vf v1, v2, f6", s(1.5, -2.0), f={6: BOX | s(3.0)[0]}) == s(2.0, -1.5)


def test_float_widening_multiply() -> None:
    big = 3e38
    found = run("vfwmul.vv v2, v4, v6", vl=1, v={4: s(big), 6: s(big)})
    exact = run("vfwcvt.f.f.v v2, v4", vl=1, v={4: s(big)}).v(2, 1, 64)
    assert (found.v(2, 1, 64), found.fflags) == (run("vfmul.vv v1, v2, v2", "e64,m1", 1, {2: exact}).v(1, 1), 0)


def test_fused() -> None:
    """vd = 2, vs1 = v3 = 3, vs2 = v2 = 5; and 1 + 2**-24 is not rounded in between."""
    wanted = {"vfmacc": 17.0, "vfnmacc": -17.0, "vfmsac": 13.0, "vfnmsac": -13.0, "vfmadd": 11.0, "vfnmadd": -11.0,
              "vfmsub": 1.0, "vfnmsub": -1.0}  # fmt: skip
    for name, value in wanted.items():
        assert run(f"{name}.vv v1, v3, v2", vl=1, v={1: s(2.0), 2: s(5.0), 3: s(3.0)}).v(1, 1) == s(value)
        scalar = {6: BOX | s(3.0)[0]}
        assert run(f"{name}.vf v1, f6, v2", vl=1, v={1: s(2.0), 2: s(5.0)}, f=scalar).v(1, 1) == s(value)
    a = 1 + 2.0**-12
    after = run("vfmacc.vv v1, v3, v2", vl=1, v={1: s(-(a * a) + 2.0**-24), 2: s(a), 3: s(a)})
    assert after.v(1, 1) == s(2.0**-24)


def test_fused_widening() -> None:
    wanted = {"vfwmacc": 17.0, "vfwnmacc": -17.0, "vfwmsac": 13.0, "vfwnmsac": -13.0}
    for name, value in wanted.items():
        operands = {2: e(64, *d(2.0)), 4: s(5.0), 6: s(3.0)}
        assert run(f"{name}.vv v2, v6, v4", vl=1, v=operands).v(2, 1, 64) == d(value)


def test_square_root() -> None:
    after = on("vfsqrt.v v1, v2", s(4.0, 2.0, -0.0))
    assert (after.v(1, 3), after.fflags) == (s(2.0, 2**0.5, -0.0), NX)
    assert on("vfsqrt.v v1, v2", s(-1.0)).fflags == NV


def test_estimate_root() -> None:
    """The document's example rows: 1/sqrt of 1 is 0.99609375; of numbers without one infinities and NaN."""
    after = on("vfrsqrt7.v v1, v2", s(1.0, 4.0))
    assert (after.v(1, 2), after.fflags) == (s(0.99609375, 0.498046875), 0)
    after = on("vfrsqrt7.v v1, v2", s(0.0, -0.0))
    assert (after.v(1, 2), after.fflags) == (s(INF, -INF), DZ)
    after = on("vfrsqrt7.v v1, v2", s(-1.0, -INF))
    assert (after.v(1, 2), after.fflags) == ([NAN, NAN], NV)
    after = on("vfrsqrt7.v v1, v2", [*s(INF), QUIET])
    assert (after.v(1, 2), after.fflags) == ([0, NAN], 0)


def test_estimate_reciprocal() -> None:
    after = on("vfrec7.v v1, v2", s(1.0, -2.0))
    assert (after.v(1, 2), after.fflags) == (s(0.99609375, -0.498046875), 0)
    after = on("vfrec7.v v1, v2", s(0.0, -0.0))
    assert (after.v(1, 2), after.fflags) == (s(INF, -INF), DZ)
    after = on("vfrec7.v v1, v2", s(INF, -INF))
    assert (after.v(1, 2), after.fflags) == (s(0.0, -0.0), 0)
    for frm, wanted in ((0, 0x7F80_0000), (1, 0x7F7F_FFFF), (2, 0x7F7F_FFFF), (3, 0x7F80_0000), (4, 0x7F80_0000)):
        after = on("vfrec7.v v1, v2", [1], frm=frm)
        assert (after.v(1, 1), after.fflags) == ([wanted], NX | OF)


def test_float_least_most() -> None:
    a, b = [*s(-0.0, 1.0), QUIET, SIGNALLING], [*s(0.0, 2.0, 3.0), SIGNALLING]
    least, most = on("vfmin.vv v1, v2, v3", a, b), on("vfmax.vv v1, v2, v3", a, b)
    assert least.v(1, 4) == [*s(-0.0, 1.0, 3.0), NAN]
    assert most.v(1, 4) == [*s(0.0, 2.0, 3.0), NAN]
    assert least.fflags == most.fflags == NV
    assert on("vfmin.vv v1, v2, v3", [QUIET], s(1.0)).fflags == 0


def test_sign_injection() -> None:
    a, b = [*s(1.0, -2.0), SIGNALLING], s(-1.0, -1.0, -1.0)
    assert values("vfsgnj.vv v1, v2, v3", a, b) == [*s(-1.0, -2.0), SIGNALLING | 1 << 31]
    assert values("vfsgnjn.vv v1, v2, v3", a, b) == [*s(1.0, 2.0), SIGNALLING]
    assert values("vfsgnjx.vv v1, v2, v3", a, b) == [*s(-1.0, 2.0), SIGNALLING | 1 << 31]


def test_float_compare() -> None:
    a, b = [*s(1.0, -0.0, 3.0), QUIET], s(1.0, 0.0, 4.0, 1.0)
    wanted = {"vmfeq": [1, 1, 0, 0], "vmfne": [0, 0, 1, 1], "vmflt": [0, 0, 1, 0], "vmfle": [1, 1, 1, 0]}
    for name, each in wanted.items():
        assert on(f"{name}.vv v1, v2, v3", a, b).mask(1, 4) == each
    scalar = {6: BOX | s(1.0)[0]}
    assert on("vmfgt.vf v1, v2, f6", a, f=scalar).mask(1, 4) == [0, 0, 1, 0]
    assert on("vmfge.vf v1, v2, f6", a, f=scalar).mask(1, 4) == [1, 0, 1, 0]


def test_float_compare_flags() -> None:
    for name in ("vmfeq", "vmfne"):
        assert on(f"{name}.vv v1, v2, v3", [QUIET], s(1.0)).fflags == 0
        assert on(f"{name}.vv v1, v2, v3", [SIGNALLING], s(1.0)).fflags == NV
    for text in ("vmflt.vv v1, v2, v3", "vmfle.vv v1, v2, v3", "vmfgt.vf v1, v2, f6", "vmfge.vf v1, v2, f6"):
        assert on(text, [QUIET], s(1.0)).fflags == NV


def test_classify() -> None:
    kinds = [*s(-INF, -1.0), 0x8000_0001, *s(-0.0, 0.0), 1, *s(1.0, INF), SIGNALLING, QUIET]
    assert values("vfclass.v v1, v2", kinds) == [1 << k for k in range(10)]


def test_float_merge() -> None:
    mask = {0: bits(1, 0, 1)}
    assert values("vfmerge.vfm v1, v2, f6, v0", s(1.0, 2.0, 3.0), f={6: BOX | s(9.0)[0]}, v=mask) == s(9.0, 2.0, 9.0)


def test_float_move() -> None:
    after = run("vfmv.v.f v1, f6", vl=2, f={6: BOX | s(9.0)[0]})
    assert after.v(1, 3) == [*s(9.0, 9.0), JUNK * 0x1010101]
    illegal(changed("vfmv.v.f v1, f6", 0, 1 << 20))


def test_convert() -> None:
    a = s(1.5, -1.5, 3e9, 1e20)
    after = on("vfcvt.x.f.v v1, v2", a)
    assert (after.v(1, 4), after.fflags) == ([2, (1 << 32) - 2, 0x7FFF_FFFF, 0x7FFF_FFFF], NV | NX)
    assert values("vfcvt.rtz.x.f.v v1, v2", a)[:2] == [1, (1 << 32) - 1]
    after = on("vfcvt.xu.f.v v1, v2", [*a, QUIET])
    assert after.v(1, 5) == [2, 0, 3_000_000_000, 0xFFFF_FFFF, 0xFFFF_FFFF]
    assert values("vfcvt.rtz.xu.f.v v1, v2", a)[:2] == [1, 0]
    assert values("vfcvt.f.x.v v1, v2", [1, 0xFFFF_FFFF]) == s(1.0, -1.0)
    assert values("vfcvt.f.xu.v v1, v2", [1, 0xFFFF_FFFF]) == s(1.0, 2.0**32)
    assert values("vfcvt.x.f.v v1, v2", a, frm=3)[:2] == [2, (1 << 32) - 1]


def test_convert_widening() -> None:
    def wide(name: str, *a: int) -> list[int]:
        return run(f"vfwcvt.{name}.v v2, v4", vl=len(a), v={4: a}).v(2, len(a), 64)

    assert wide("f.f", *s(1.1, -INF), SIGNALLING)[1:] == [*d(-INF), NAN64]
    assert wide("f.x", 0xFFFF_FFFF) == d(-1.0)
    assert wide("f.xu", 0xFFFF_FFFF) == d(4294967295.0)
    assert wide("x.f", *s(1e18, -2.5)) == [999999984306749440, (1 << 64) - 2]
    assert wide("rtz.xu.f", *s(2.9)) == [2]


def test_convert_narrowing() -> None:
    def narrow(name: str, *a: int, frm: int = 0) -> After:
        return run(f"vfncvt.{name}.w v1, v4", vl=len(a), v={4: e(64, *a)}, frm=frm)

    assert narrow("f.f", *d(1.1, 1e300)).v(1, 2) == s(1.1, INF)
    assert narrow("f.f", *d(1.1), frm=1).v(1, 1) == [s(1.1)[0] - 1]
    after = narrow("rod.f.f", *d(1.1, 1.0, 1e300))
    assert after.v(1, 3) == [s(1.1)[0] if s(1.1)[0] & 1 else s(1.1)[0] - 1, *s(1.0), 0x7F7F_FFFF]
    assert narrow("x.f", *d(2.5, -3e9)).v(1, 2) == [2, 0x8000_0000]
    assert narrow("rtz.xu.f", *d(2.9, -1.0)).v(1, 2) == [2, 0]
    assert narrow("f.xu", (1 << 64) - 1).v(1, 1) == s(2.0**64)
