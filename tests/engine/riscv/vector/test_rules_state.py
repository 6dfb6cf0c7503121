"""V 1.0, chapters 2 to 4: parameters, registers and CSRs, where elements lie."""

from __future__ import annotations

import pytest

from softcard.core.errors import WireError
from softcard.engine.riscv.api import LOAD_ACCESS
from softcard.isa.riscv.vector.vtype import VILL
from tests.engine.riscv.rig import DATA
from tests.engine.riscv.vector.machine import JUNK, After, bits, e, illegal, run

OFF, INITIAL, CLEAN, DIRTY = (k << 9 for k in range(4))
FLOATS = 3 << 13
J8, J32 = JUNK, JUNK * 0x1010101
WHOLE = {1: 512, 2: 256, 4: 128, 8: 64}


def vset(vtype: int, avl: int = 1 << 20, **more: object) -> After:
    """vsetvl x5 with vtype and AVL of one's own."""
    return run("vsetvl x5, x6, x7", x={6: avl, 7: vtype}, **more)  # type: ignore[arg-type]


def test_elen() -> None:
    assert vset(0b011_000).vtype == 0b011_000
    assert vset(0b100_000).vtype == VILL
    illegal("vwadd.vv v2, v4, v6", "e64,m1", "the elements have 128 bits", "eew-supported")


@pytest.mark.parametrize("vlen", [64, 128, 256, 512, 1024, 65536])
def test_vlen(vlen: int) -> None:
    assert vset(0, vlen=vlen).vl == vlen // 8
    with pytest.raises(WireError, match="a power of two"):
        run("vid.v v1", vlen=vlen + 64 if vlen > 64 else 32)


def test_csrs() -> None:
    for name, value in (("vstart", 5), ("vxsat", 1), ("vxrm", 2), ("vcsr", 5)):
        after = run(f"csrrw x0, {name}, x6; csrrs x5, {name}, x0; csrrw x0, vstart, x0", x={6: value})
        assert after.x[5] == value
    for name, value in (("vl", 3), ("vtype", 0x10), ("vlenb", 64)):
        assert run(f"csrrs x5, {name}, x0", vl=3).x[5] == value
        illegal(f"csrrw x0, {name}, x6", reported="read-only csr")


def test_registers() -> None:
    for n in (0, 1, 31):
        after = run(f"vmv.v.i v{n}, -1", "e64,m1", 8)
        assert after.v(n, 8, 64) == [(1 << 64) - 1] * 8
        assert after.vectors.count(0xFF) == 64
        assert len(after.vectors) == 32 * 64


def test_vs_off() -> None:
    for text in ("vadd.vv v1, v2, v3", "vle32.v v1, (x10)", "vsetivli x0, 1, e8,m1,ta,ma", "vmv1r.v v1, v2"):
        illegal(text, reported="mstatus.VS is Off", rule="vs-off", status=OFF | FLOATS)
    for name in ("vstart", "vxsat", "vxrm", "vcsr", "vl", "vtype", "vlenb"):
        illegal(f"csrrs x5, {name}, x0", reported="mstatus.VS is Off", status=OFF | FLOATS)


def test_vs_dirty() -> None:
    for before in (INITIAL, CLEAN):
        for text in ("vadd.vv v1, v2, v3", "vsetivli x0, 1, e8,m1,ta,ma", "vle8.v v1, (x10)", "csrrwi x0, vxrm, 1"):
            assert run(text, status=before | FLOATS).status & DIRTY == DIRTY
        assert run("addi x5, x0, 1", status=before | FLOATS).status & DIRTY == before


def test_sd() -> None:
    for text, status, sd in (("csrrwi x0, vxrm, 1; ", INITIAL, 1), ("", INITIAL, 0), ("", DIRTY, 1)):
        after = run(text + "csrrs x5, mstatus, x0", status=status)
        assert after.x[5] >> 63 == sd


def test_vs_shadow() -> None:
    for vs in (INITIAL, CLEAN, DIRTY):
        assert run("csrrs x5, sstatus, x0", status=vs | FLOATS).x[5] & DIRTY == vs
    assert run("csrrc x0, sstatus, x6", x={6: DIRTY}).status & DIRTY == OFF


def test_misa_v() -> None:
    assert run("csrrs x5, misa, x0").x[5] >> 21 & 1 == 1


def test_vtype_by_vset() -> None:
    for text in ("csrrw x0, vtype, x6", "csrrs x0, vtype, x6", "csrrci x0, vtype, 1"):
        assert illegal(text, reported="read-only csr", x={6: 1}).vtype == 0x10


def test_vtype_fields() -> None:
    assert run("vsetvli x5, x0, e16,mf2,ta,mu").vtype == 1 << 6 | 1 << 3 | 7
    assert run("vsetvli x5, x0, e64,m4,tu,ma").vtype == 1 << 7 | 3 << 3 | 2
    assert run("vsetvli x5, x0, e64,mf8,ta,ma").vtype == 1 << 63


def test_vsew() -> None:
    for vsew in range(8):
        after = vset(vsew << 3)
        assert after.vl == (512 // (8 << vsew) if vsew < 4 else 0)
        assert after.vtype == (vsew << 3 if vsew < 4 else VILL)


def test_vlmul() -> None:
    lengths = {vlmul: vset(vlmul).vl for vlmul in range(8)}
    assert lengths == {0: 64, 1: 128, 2: 256, 3: 512, 4: 0, 5: 8, 6: 16, 7: 32}
    assert vset(4).vtype == VILL


def test_lmul_fractions() -> None:
    for sew, least in ((8, 5), (16, 6), (32, 7), (64, 0)):
        field = (sew // 8).bit_length() - 1 << 3
        for vlmul in (5, 6, 7, 0):
            assert (vset(field | vlmul).vtype != VILL) == ((vlmul or 8) >= (least or 8))


def test_vlmax() -> None:
    for vlen in (128, 512):
        for vsew in range(4):
            for vlmul in range(4):
                assert vset(vsew << 3 | vlmul, vlen=vlen).vl == (1 << vlmul) * vlen // (8 << vsew)


def test_groups() -> None:
    for lmul in (2, 4, 8):
        after = run("vmv.v.i v8, 1", f"e8,m{lmul}", 64 * lmul)
        assert after.vectors[: 8 * 64] == bytes([JUNK]) * 512
        assert after.v(8, 64 * lmul) == [1] * 64 * lmul
        assert after.vectors[(8 + lmul) * 64 :] == bytes([JUNK]) * (32 - 8 - lmul) * 64


def test_group_start() -> None:
    for lmul in (2, 4, 8):
        for n in (1, lmul // 2, lmul + 1):
            for text in (f"vadd.vv v{n}, v8, v16", f"vadd.vv v8, v{n}, v16", f"vadd.vv v8, v16, v{n}"):
                illegal(text, f"e8,m{lmul}", f"v{n} cannot begin a group of {lmul} registers", "group-start")


def test_mask_one_register() -> None:
    after = run("vmseq.vv v1, v8, v16", "e8,m8", 512)
    assert after.mask(1, 512) == [1] * 512
    assert after.v(2, 64) == [J8] * 64


def test_tail_undisturbed() -> None:
    for policy in ("tu,mu", "tu,ma"):
        after = run("vmv.v.i v1, 3", f"e32,m1,{policy}", 2)
        assert after.v(1, 16) == [3, 3] + [J32] * 14


def test_mask_undisturbed() -> None:
    for policy in ("tu,mu", "ta,mu"):
        after = run("vadd.vi v1, v2, 1, v0.t", f"e32,m1,{policy}", 4, {0: bits(1, 0, 0, 1), 2: [1, 2, 3, 4]})
        assert after.v(1, 4) == [2, J32, J32, 5]


def test_agnostic() -> None:
    after = run("vadd.vi v1, v2, 1, v0.t", "e32,m1,ta,ma", 4, {0: bits(1, 0, 0, 1), 2: [1, 2, 3, 4]})
    assert after.v(1, 6) == [2, J32, J32, 5, J32, J32]


def test_mask_tail() -> None:
    after = run("vmseq.vv v1, v2, v2", "e8,m1,tu,mu", 3, {1: e(8, 0x50)})
    assert after.v(1, 2) == [0x57, J8]
    assert run("vmxnor.mm v1, v1, v1", "e8,m1,ta,ma", 3, {1: e(8, 0x50)}).v(1, 2) == [0x57, J8]


def test_vill_illegal() -> None:
    for text in ("vadd.vv v1, v2, v3", "vle8.v v1, (x10)", "vmv.x.s x5, v1", "vcpop.m x5, v1", "vfadd.vv v1, v2, v3"):
        illegal(text, VILL, "vtype.vill is set", "vill-illegal")


def test_vill_independent() -> None:
    after = run("vl1re8.v v1, (x10); vs1r.v v1, (x6)", VILL, memory=bytes(range(64)), x={6: DATA + 64})
    assert after.memory[64:128] == bytes(range(64))
    assert run("vsetivli x5, 4, e8,m1,ta,ma", VILL).vl == 4


def test_vill_zero() -> None:
    for asked in (0xFF | 4, 1 << 8, 0x20, 1 << 62 | 3, VILL | 3):
        after = vset(asked)
        assert (after.vtype, after.vl, after.x[5]) == (VILL, 0, 0)


def test_vl_by_vset() -> None:
    for text in ("csrrw x0, vl, x6", "csrrsi x0, vl, 1", "csrrc x0, vl, x6"):
        assert illegal(text, reported="read-only csr", x={6: 1}).vl == 4
    for text in ("vadd.vv v1, v2, v3", "vle32.v v1, (x10)", "vcpop.m x5, v2", "vcompress.vm v1, v2, v0"):
        assert run(text).vl == 4
    assert run("vle32ff.v v1, (x10)", x={10: DATA + (0x21_0000 - 8)}).vl == 2


NOTHING = (
    "vadd.vv v1, v2, v3", "vmv.s.x v1, x6", "vfmv.s.f v1, f6", "vredsum.vs v1, v2, v3", "vfredosum.vs v1, v2, v3",
    "vslideup.vi v1, v2, 1", "vslide1up.vx v1, v2, x6", "vslide1down.vx v1, v2, x6", "vslidedown.vi v1, v2, 1",
    "vmseq.vv v1, v2, v3", "vmand.mm v1, v2, v3", "vmsbf.m v1, v2", "viota.m v1, v2", "vid.v v1",
    "vrgather.vi v1, v2, 0",
    "vcompress.vm v1, v2, v3", "vle32.v v1, (x6)", "vlse32.v v1, (x6), x7", "vluxei32.v v1, (x6), v2", "vlm.v v1, (x6)",
    "vlseg2e32.v v1, (x6)", "vle32ff.v v1, (x6)", "vmv.v.i v1, 1", "vfmv.v.f v1, f6", "vmerge.vim v1, v2, 1, v0",
)  # fmt: skip


@pytest.mark.parametrize("text", NOTHING)
def test_nothing_written(text: str) -> None:
    """Not even from address 6."""
    assert run(text, vl=0, x={6: 6}).vectors == bytes([JUNK]) * 2048
    if text.startswith("vl"):
        assert run(text, vl=4, vstart=4, x={6: 6}).vectors == bytes([JUNK]) * 2048


def test_scalar_written() -> None:
    assert run("vmv.x.s x5, v2", vl=0, v={2: [7]}).x[5] == 7
    assert run("vfmv.f.s f5, v2", vl=0, v={2: [7]}).f[5] == 0xFFFF_FFFF_0000_0007
    assert run("vcpop.m x5, v2", vl=0, x={5: 9}).x[5] == 0
    assert run("vfirst.m x5, v2", vl=0).x[5] == (1 << 64) - 1


def test_vlenb() -> None:
    for vlen in (64, 128, 512, 4096):
        assert run("csrrs x5, vlenb, x0", vlen=vlen).x[5] == vlen // 8


def test_vstart_bits() -> None:
    for vlen in (128, 512):
        after = run("csrrw x0, vstart, x6; csrrs x5, vstart, x0; csrrwi x0, vstart, 0", x={6: -1}, vlen=vlen)
        assert after.x[5] == vlen - 1


def test_vstart_zero() -> None:
    for text in ("vle32.v v1, (x10)", "vse32.v v1, (x10)", "vsetvli x5, x0, e8,m1,ta,ma", "vl1re32.v v1, (x10)"):
        assert run(text, vstart=1).vstart == 0


def test_vstart_resumes() -> None:
    assert run("vle32.v v1, (x10)", vstart=2, memory=[1, 2, 3, 4]).v(1, 4) == [J32, J32, 3, 4]
    assert run("vse32.v v1, (x10)", vstart=2, v={1: [1, 2, 3, 4]}).m(0, 4) == [J32, J32, 3, 4]


def test_vstart_illegal_keeps() -> None:
    assert illegal("vadd.vv v1, v2, v3", reported="vstart is 2", rule="vstart-never", vstart=2).vstart == 2
    assert illegal("vle64.v v1, (x10)", "e8,m8", reported="EMUL", rule="emul-range", vstart=2).vstart == 2


def test_vstart_behind() -> None:
    for vstart in (4, 5, 200):
        after = run("vle32.v v1, (x6)", vstart=vstart, x={6: 4})
        assert (after.vstart, after.cause, after.vectors) == (0, None, bytes([JUNK]) * 2048)


def test_vstart_beyond() -> None:
    after = run("vle64.v v1, (x6)", "e64,m1", 8, vstart=200, x={6: 8})
    assert (after.vstart, after.cause, after.vectors) == (0, None, bytes([JUNK]) * 2048)
    illegal("vadd.vv v1, v2, v3", "e64,m1", "vstart is 200, expected 0: only loads", "vstart-never", vstart=200)


def test_vstart_never() -> None:
    for text in ("vadd.vv v1, v2, v3", "vmv.x.s x5, v1", "vid.v v1", "vfadd.vv v1, v2, v3", "vmv1r.v v1, v2"):
        illegal(
            text,
            reported="vstart is 1, expected 0: only loads and stores can start in the middle of a vector",
            rule="vstart-never",
            vstart=1,
        )


def test_rounding() -> None:
    """Of 0 to 7 quarters, and of -8 to -1."""
    up, even, down, odd = range(4)
    wanted = {up: [0, 0, 1, 1, 1, 1, 2, 2], even: [0, 0, 0, 1, 1, 1, 2, 2], down: [0] * 4 + [1] * 4,
              odd: [0, 1, 1, 1, 1, 1, 1, 1]}  # fmt: skip
    for mode, values in wanted.items():
        assert run("vssrl.vi v1, v2, 2", "e8,m1", 8, {2: range(8)}, vcsr=mode << 1).v(1, 8) == values
        after = run("vssra.vi v1, v2, 2", "e8,m1", 8, {2: range(-8, 0)}, vcsr=mode << 1)
        assert after.v(1, 8) == [value - 2 & 0xFF for value in values]


def test_vxrm_bits() -> None:
    assert run("csrrw x0, vxrm, x6; csrrs x5, vxrm, x0", x={6: -1}).x[5] == 3


def test_vxsat() -> None:
    assert run("csrrw x0, vxsat, x6; csrrs x5, vxsat, x0", x={6: -1}).x[5] == 1
    add = "vsaddu.vv v1, v2, v3"
    assert run(add, v={2: [1] * 4, 3: [1] * 4}).vcsr == 0
    assert run(add, v={2: [1] * 4, 3: [-1, 1, 1, 1]}).vcsr == 1
    assert run(add, v={2: [1] * 4, 3: [1] * 4}, vcsr=1).vcsr == 1


def test_vcsr() -> None:
    after = run("csrrw x0, vcsr, x6; csrrs x5, vxrm, x0; csrrs x7, vxsat, x0; csrrs x8, vcsr, x0", x={6: -1})
    assert (after.x[5], after.x[7], after.x[8]) == (3, 1, 7)
    assert run("csrrwi x0, vxrm, 2; csrrwi x0, vxsat, 1").vcsr == 5


def test_reset() -> None:
    from softcard.isa.riscv import csr
    from tests.engine.riscv.rig import ENGINES, Rig

    rig = Rig(ENGINES["reference"]())
    csr.reset(rig.hart)
    vl, vtype = csr.read(rig.hart, 0xC20, 3), csr.read(rig.hart, 0xC21, 3)
    after = run("vsetvl x0, x6, x7", x={6: vl, 7: vtype})
    assert (after.vl, after.vtype) == (vl, vtype) == (0, VILL)


def test_element_order() -> None:
    after = run("vle32.v v1, (x10)", memory=bytes(range(16)))
    assert after.v(1, 4) == [0x03020100, 0x07060504, 0x0B0A0908, 0x0F0E0D0C]
    assert after.v(1, 2, 64) == [0x0706050403020100, 0x0F0E0D0C0B0A0908]
    assert after.v(1, 16, 8) == list(range(16))


def test_fraction_tail() -> None:
    after = run("vsetvli x5, x0, e16,mf4,tu,mu; vid.v v1", "e8,m1")
    assert after.x[5] == 8
    assert after.v(1, 10, 16) == [*range(8), JUNK * 0x101, JUNK * 0x101]


def test_group_order() -> None:
    after = run("vid.v v8", "e16,m4", 128, vlen=512)
    assert [after.v(8 + k, 32) for k in range(4)] == [list(range(32 * k, 32 * k + 32)) for k in range(4)]


def test_mixed_width() -> None:
    values = {4: e(8, *range(32)), 8: e(16, *range(0, 3200, 100))}
    assert run("vwaddu.wv v8, v8, v4", "e8,mf2", 32, values).v(8, 32, 16) == [101 * k for k in range(32)]


def test_mask_layout() -> None:
    for vtype in ("e8,m1", "e64,m4", "e16,mf4"):
        after = run("vmseq.vi v1, v4, 3", vtype, 5, {4: [3, 0, 3, 3, 0]})
        assert after.mask(1, 5) == [1, 0, 1, 1, 0]


def test_a_trap_is_reported_with_its_element() -> None:
    after = run("vle32.v v1, (x10)", x={10: DATA + 0x21_0000 - 8})
    assert (after.cause, after.vstart, after.pc) == (LOAD_ACCESS, 2, 0)
