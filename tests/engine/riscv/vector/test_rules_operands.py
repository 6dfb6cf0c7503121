"""V 1.0, chapters 5, 6, 10, 17 and 18: operands, masks, vl, scalars, traps."""

from __future__ import annotations

import pytest

from softcard.core.errors import WireError
from softcard.engine.riscv.api import LOAD_ACCESS, STORE_ACCESS
from softcard.isa.riscv.isa import isa_of
from softcard.isa.riscv.vector.vtype import VILL
from tests.engine.riscv.rig import DATA, DATA_BYTES
from tests.engine.riscv.vector.machine import JUNK, After, bits, changed, d, e, illegal, run, s

END = DATA + DATA_BYTES
J8, J16, J32 = JUNK, JUNK * 0x101, JUNK * 0x1010101
NAN = 0x7FC0_0000
BOX = 0xFFFF_FFFF << 32


def test_scalar_any_register() -> None:
    assert run("vmv.x.s x5, v3", "e32,m8", v={3: [9]}).x[5] == 9
    assert run("vmv.s.x v5, x6", "e32,m8", x={6: 7}).v(5, 2) == [7, J32]
    assert run("vredsum.vs v1, v8, v3", "e32,m8", v={8: [1, 2, 3, 4], 3: [10]}).v(1, 1) == [20]


def test_eew_emul() -> None:
    after = run("vle8.v v1, (x10)", "e32,m4", 64, memory=bytes(range(64)))
    assert after.v(1, 64, 8) == list(range(64))
    illegal("vle64.v v4, (x10)", "e32,m4", "v4 cannot begin a group of 8 registers", "group-start")


def test_emul_range() -> None:
    illegal("vle64.v v8, (x10)", "e32,m8", "EMUL is 16 for elements of 64 bits, expected 1/8 to 8", "emul-range")
    assert run("vle8.v v8, (x10)", "e64,m1").cause is None
    illegal("vwadd.vv v0, v8, v16", "e8,m8", "EMUL is 16", "emul-range")


def test_overlap_equal() -> None:
    after = run("vadd.vv v8, v8, v8", "e8,m8", 3, {8: [1, 2, 3]})
    assert after.v(8, 3) == [2, 4, 6]


def test_overlap_narrower() -> None:
    assert run("vnsrl.wi v8, v8, 8", "e8,m1", 4, {8: e(16, 0x100, 0x200, 0x300, 0x400)}).v(8, 4) == [1, 2, 3, 4]
    assert run("vmseq.vi v8, v8, 2", "e8,m2", 4, {8: [1, 2, 3, 2]}).mask(8, 4) == [0, 1, 0, 1]


def test_overlap_wider() -> None:
    assert run("vzext.vf2 v8, v9", "e16,m2", 4, {9: e(8, 1, 2, 3, 4)}).v(8, 4) == [1, 2, 3, 4]
    assert run("vwaddu.vv v8, v9, v9", "e8,m1", 4, {9: [1, 2, 3, 4]}).v(8, 4, 16) == [2, 4, 6, 8]


def test_overlap() -> None:
    illegal("vnsrl.wi v9, v8, 8", "e8,m1", "the destination v9 must not overlap the source v8 to v9", "overlap")
    illegal("vzext.vf2 v8, v8", "e16,m2", "the destination v8 to v9 must not overlap the source v8", "overlap")
    illegal("vwadd.vv v8, v8, v10", "e8,m1", "the destination v8 to v9 must not overlap the source v8", "overlap")
    illegal("vmseq.vv v9, v8, v10", "e8,m2", "the destination v9 must not overlap the source v8 to v9", "overlap")
    illegal("vzext.vf2 v8, v8", "e16,m1", "the destination v8 must not overlap the source v8", "overlap")


def test_overlap_agnostic() -> None:
    after = run("vnsrl.wi v8, v8, 8, v0.t", "e8,m1", 3, {0: bits(1, 0, 1), 8: e(16, 0x1234, 0x5678, 0x9ABC)})
    assert after.v(8, 4) == [0x12, 0x12, 0x9A, 0x56]


def test_two_widths() -> None:
    assert run("vwaddu.wv v4, v2, v2", "e8,m1", 2, {2: e(8, 1, 2, 3, 4)}).v(4, 2, 16) == [0x202, 0x405]
    assert run("vadd.vv v1, v0, v0, v0.t", "e8,m1", 4, {0: [6, 1, 1, 1]}).v(1, 4) == [J8, 2, 2, J8]


def test_inactive_no_exception() -> None:
    mask = {0: bits(1, 1, 0, 0)}
    assert run("vle32.v v1, (x10), v0.t", v=mask, x={10: END - 8}).cause is None
    assert run("vse32.v v1, (x10), v0.t", v=mask, x={10: END - 8}).cause is None
    assert run("vluxei32.v v1, (x0), v2, v0.t", v={0: bits(0, 0, 0, 0), 2: [8, 8, 8, 8]}).cause is None
    assert run("vfadd.vv v1, v2, v2, v0.t", v={0: bits(0, 1), 2: [0x7F80_0001, *s(1.0, 1.0, 1.0)]}).fflags == 0


def test_mask_v0() -> None:
    after = run("vadd.vi v1, v2, 1, v0.t", "e8,m1", 4, {0: bits(0, 1, 1, 0), 2: [1, 2, 3, 4]})
    assert after.v(1, 4) == [J8, 3, 4, J8]


def test_mask_overlap() -> None:
    for text in (
        "vadd.vi v0, v2, 1, v0.t",
        "vle8.v v0, (x10), v0.t",
        "vid.v v0, v0.t",
        "vslidedown.vi v0, v2, 1, v0.t",
    ):
        illegal(
            text, "e8,m1", "the destination of a masked instruction is v0, the mask, expected another", "mask-overlap"
        )
    illegal(
        "vmerge.vim v0, v2, 1, v0",
        "e8,m1",
        "the destination of a masked instruction is v0, the mask, expected another",
        "mask-overlap",
    )


def test_mask_overlap_allowed() -> None:
    after = run("vmseq.vi v0, v2, 2, v0.t", "e8,m1", 4, {0: bits(0, 1, 1, 0), 2: [2, 2, 3, 4]})
    assert after.mask(0, 4) == [0, 1, 0, 0]
    after = run("vredsum.vs v0, v2, v3, v0.t", "e8,m1", 4, {0: bits(0, 1, 1, 0), 2: [1, 2, 3, 4], 3: [10]})
    assert after.v(0, 1) == [15]


def test_vm_bit() -> None:
    word = changed("vadd.vi v1, v2, 1", 1 << 25, 0)
    after = run(word, "e8,m1", 2, {0: bits(0, 1), 2: [1, 2]})
    assert after.v(1, 2) == [J8, 3]
    assert run(word | 1 << 25, "e8,m1", 2, {0: bits(0, 1), 2: [1, 2]}).v(1, 2) == [2, 3]


def test_prestart() -> None:
    after = run("vle32.v v1, (x10)", vstart=2, x={10: DATA - 8}, memory=[1, 2])
    assert (after.cause, after.v(1, 4)) == (None, [J32, J32, 1, 2])


def test_tail_no_exception() -> None:
    assert run("vle32.v v1, (x10)", vl=2, x={10: END - 8}).cause is None
    assert run("vlse32.v v1, (x10), x6", vl=1, x={10: END - 8, 6: 64}).cause is None
    assert run("vfadd.vv v1, v2, v2", vl=1, v={2: [*s(1.0), 0x7F80_0001]}).fflags == 0


# ---- chapter 6 -----------------------------------------------------------------------------------------------------


def test_vset() -> None:
    for text in ("vsetvli x5, x6, e16,m2,ta,mu", "vsetivli x5, 9, e16,m2,ta,mu", "vsetvl x5, x6, x7"):
        after = run(text, x={6: 9, 7: 0b0100_1001})
        assert (after.vl, after.x[5], after.vtype) == (9, 9, 0b0100_1001)


def test_vtype_source() -> None:
    assert run("vsetvl x5, x6, x7", x={6: 1, 7: 0b1101_1010}).vtype == 0b1101_1010
    assert run("vsetvli x5, x6, e64,m4,ta,ma").vtype == 0b1101_1010
    assert run("vsetivli x5, 1, e64,m4,ta,ma").vtype == 0b1101_1010


def test_vtype_unsupported() -> None:
    for text in ("vsetvli x5, x6, e64,mf2,ta,ma", "vsetivli x5, 4, e64,mf2,ta,ma", "vsetvl x5, x6, x7"):
        after = run(text, x={6: 4, 7: 1 << 9})
        assert (after.vl, after.x[5], after.vtype) == (0, 0, VILL)


def test_avl_register() -> None:
    assert [run("vsetvli x5, x6, e8,m1,ta,ma", x={6: avl}).vl for avl in (0, 3, 64, -1)] == [0, 3, 64, 64]


def test_avl_most() -> None:
    after = run("vsetvli x5, x0, e8,m8,ta,ma", vl=1)
    assert after.vl == after.x[5] == 512


def test_avl_kept() -> None:
    after = run("vsetvli x0, x0, e64,m2,ta,ma", "e32,m1", vl=3)
    assert (after.vl, after.vtype, after.x[0]) == (3, 0b1101_1001, 0)


def test_avl_kept_vlmax() -> None:
    assert run("vsetvli x0, x0, e64,m1,ta,ma", "e8,m1", vl=60).vl == 8
    assert run("vsetvli x0, x0, e8,m1,ta,ma", "e64,m1", vl=8).vl == 8


def test_avl_kept_vill() -> None:
    after = run("vsetvli x0, x0, e8,m1,ta,ma", VILL)
    assert (after.vtype, after.vl) == (0xC0, 0)


def test_avl_immediate() -> None:
    assert [run(f"vsetivli x5, {n}, e8,m1,ta,ma").vl for n in (0, 1, 31)] == [0, 1, 31]
    assert run("vsetivli x5, 31, e64,m1,ta,ma").vl == 8


def vl_of(avl: int) -> int:
    return run("vsetvli x5, x6, e8,m1,ta,ma", x={6: avl}).vl


def test_vl_within() -> None:
    assert [vl_of(avl) for avl in range(65)] == list(range(65))


def test_vl_between() -> None:
    assert {vl_of(avl) for avl in range(65, 128)} == {64}


def test_vl_beyond() -> None:
    assert [vl_of(avl) for avl in (128, 129, 1 << 40, (1 << 64) - 1)] == [64] * 4


def test_vl_again() -> None:
    after = run("vsetvli x5, x6, e8,m1,ta,ma; vsetvli x7, x5, e64,m8,ta,ma", x={6: 100})
    assert after.x[5] == after.x[7] == 64


# ---- chapter 10 ----------------------------------------------------------------------------------------------------


def test_operands() -> None:
    values = {2: [10, 20, 30, 40], 3: [1, 2, 3, 4]}
    assert run("vsub.vv v1, v2, v3", v=values).v(1, 4) == [9, 18, 27, 36]
    assert run("vsub.vx v1, v2, x6", v=values, x={6: 5}).v(1, 4) == [5, 15, 25, 35]
    assert run("vadd.vi v1, v2, 5", v=values).v(1, 4) == [15, 25, 35, 45]
    floats = {2: s(10.0, 20.0, 30.0, 40.0), 3: s(1.0, 2.0, 3.0, 4.0)}
    assert run("vfsub.vv v1, v2, v3", v=floats).v(1, 4) == s(9.0, 18.0, 27.0, 36.0)
    assert run("vfsub.vf v1, v2, f6", v=floats, f={6: BOX | s(5.0)[0]}).v(1, 4) == s(5.0, 15.0, 25.0, 35.0)


def test_scalar_truncated() -> None:
    assert run("vadd.vx v1, v2, x6", "e8,m1", 2, {2: [1, 2]}, x={6: 0x1234_5680}).v(1, 2) == [0x81, 0x82]
    assert run("vmv.v.x v1, x6", "e64,m1", 1, x={6: -2}).v(1, 1) == [(1 << 64) - 2]


def test_immediate() -> None:
    assert run("vadd.vi v1, v2, -16", "e8,m1", 1, {2: [1]}).v(1, 1) == [0xF1]
    assert run("vmsgtu.vi v1, v2, -1", "e8,m1", 1, {1: e(8, 0), 2: [0xFF]}).mask(1, 1) == [0]
    assert run("vsll.vi v1, v2, 31", "e64,m1", 1, {2: [1]}).v(1, 1) == [1 << 31]
    assert run("vslidedown.vi v1, v2, 31", "e8,m1", 1, {2: [*range(64)]}).v(1, 1) == [31]
    assert run("vrgather.vi v1, v2, 30", "e8,m1", 1, {2: [*range(64)]}).v(1, 1) == [30]
    assert run("vnclipu.wi v1, v2, 31", "e32,m1", 1, {2: e(64, 1 << 40)}).v(1, 1) == [512]


def test_nan_boxed() -> None:
    for text in ("vfmv.v.f v1, f6", "vfmv.s.f v1, f6", "vfadd.vf v1, v2, f6", "vfmerge.vfm v1, v2, f6, v0"):
        values = {0: bits(1), 2: s(1.0)}
        assert run(text, vl=1, v=values, f={6: s(2.0)[0]}).v(1, 1) == [NAN]
        assert run(text, vl=1, v=values, f={6: BOX | s(2.0)[0]}).v(1, 1) == s(3.0 if "add" in text else 2.0)


def test_frm() -> None:
    third = {0: 0x3EAA_AAAB, 1: 0x3EAA_AAAA, 2: 0x3EAA_AAAA, 3: 0x3EAA_AAAB, 4: 0x3EAA_AAAB}
    for frm, wanted in third.items():
        assert run("vfdiv.vv v1, v2, v3", vl=1, v={2: s(1.0), 3: s(3.0)}, frm=frm).v(1, 1) == [wanted]


def test_frm_reserved() -> None:
    for frm in (5, 6, 7):
        for text in ("vfadd.vv v1, v2, v3", "vfsgnj.vv v1, v2, v3", "vfmv.f.s f1, v2", "vfcvt.rtz.x.f.v v1, v2"):
            illegal(text, reported=f"frm is {frm}, which is reserved", rule="frm-reserved", frm=frm)
    illegal("vfadd.vv v1, v2, v3", reported="frm is 5, which is reserved", rule="frm-reserved", frm=5, vl=0)
    assert run("vadd.vv v1, v2, v3", frm=7).cause is None


def test_widening() -> None:
    values = {4: e(8, 200, 100), 5: e(8, 100, 100), 6: e(16, 1000, 2000)}
    assert run("vwaddu.vv v2, v4, v5", "e8,m1", 2, values).v(2, 2, 16) == [300, 200]
    assert run("vwaddu.wv v2, v6, v5", "e8,m1", 2, values).v(2, 2, 16) == [1100, 2100]
    after = run("vwaddu.vv v8, v4, v6", "e8,m2", 128, {4: [1] * 128, 6: [2] * 128})
    assert after.v(8, 128, 16) == [3] * 128


def test_widening_range() -> None:
    illegal("vwadd.vv v2, v4, v6", "e64,m1", "the elements have 128 bits", "eew-supported")
    illegal("vwadd.vv v0, v8, v16", "e8,m8", "EMUL is 16", "emul-range")
    illegal("vwadd.vv v1, v4, v6", "e8,m1", "v1 cannot begin a group of 2 registers", "group-start")
    illegal("vfwadd.vv v2, v4, v6", "e64,m1", "the floats have 128 bits", "float-width")


def test_narrowing() -> None:
    values = {4: e(16, 0x1234, 0x5678), 6: e(8, 4, 8)}
    assert run("vnsrl.wv v2, v4, v6", "e8,m1", 2, values).v(2, 2) == [0x23, 0x56]


def test_narrowing_range() -> None:
    illegal("vnsrl.wi v2, v4, 1", "e64,m1", "the elements have 128 bits", "eew-supported")
    illegal("vnsrl.wi v0, v8, 1", "e8,m8", "EMUL is 16", "emul-range")
    illegal("vnsrl.wi v2, v5, 1", "e8,m1", "v5 cannot begin a group of 2 registers", "group-start")


# ---- chapters 17 and 18 --------------------------------------------------------------------------------------------


def test_trap_element() -> None:
    for text, cause in (("vlse64.v v1, (x10), x6", LOAD_ACCESS), ("vsse64.v v1, (x10), x6", STORE_ACCESS)):
        after = run(f"addi x5, x0, 1; {text}", "e64,m1", 6, x={10: END - 32, 6: 8})
        assert (after.cause, after.vstart, after.pc, after.value) == (cause, 4, 4, END)


def resumed(after: After, text: str) -> After:
    """Go on where it stopped, with memory that is there."""
    return run(text, "e64,m1", 6, {n: after.v(n, 8) for n in range(32)}, vstart=after.vstart, memory=[9, 8, 7, 6, 5, 4])


@pytest.mark.parametrize("text", ["vle64.v v1, (x10)", "vluxei64.v v1, (x10), v2"])
def test_precise(text: str) -> None:
    offsets = {2: [0, 8, 16, 24, 32, 40]}
    after = run(text, "e64,m1", 6, offsets, x={10: END - 32})
    assert (after.cause, after.vstart) == (LOAD_ACCESS, 4)
    assert after.v(1, 4) == [0, 0, 0, 0]
    assert after.v(1, 6)[4:] == [JUNK * 0x0101_0101_0101_0101] * 2
    assert resumed(after, text).v(1, 6) == [0, 0, 0, 0, 5, 4]


def test_zvl() -> None:
    assert isa_of("rv64gcv_zvl256b") is isa_of("RV64GCV_Zvl128b_Zvl256b")
    assert (isa_of("rv64gcv_zvl256b").least_vlen, isa_of("rv64gcv").least_vlen) == (256, 0)
    assert repr(isa_of("rv64gcv_zbb_zvl1024b")) == "RV64GCV_Zbb_Zvl1024b"
    for name, reported in (
        ("rv64gcv_zvl100b", "the width in 'Zvl100b' must be a power of two from 32 to 65536"),
        ("rv64gcv_zvl16b", "the width in 'Zvl16b' must be a power of two"),
        ("rv64gc_zvl128b", "'Zvl128b' requires V"),
    ):
        with pytest.raises(WireError, match=reported):
            isa_of(name)


def test_zve() -> None:
    for part in ("zve32x", "zve32f", "zve64x", "zve64f", "zve64d"):
        assert isa_of(f"rv64gcv_{part}") is isa_of("rv64gcv")
        with pytest.raises(WireError, match=f"'{part.capitalize()}' is modelled only with V"):
            isa_of(f"rv64gc_{part}")


def test_v_includes() -> None:
    isa = isa_of("rv64iv")
    assert {"V", "F", "D", "Zve64d"} <= isa.extensions
    for width in (8, 16, 32, 64):
        assert run("vadd.vi v1, v2, 1", f"e{width},m1", 1, {2: [1]}).v(1, 1) == [2]
    assert run("vfadd.vv v1, v2, v2", "e64,m1", 1, {2: d(1.5)}).v(1, 1) == d(3.0)
    assert run("vfadd.vv v1, v2, v2", "e32,m1", 1, {2: s(1.5)}).v(1, 1) == s(3.0)
