"""V 1.0, chapters 7 to 9: loads and stores."""

from __future__ import annotations

import pytest

from softcard.engine.riscv.api import LOAD_ACCESS, LOAD_MISALIGNED, STORE_ACCESS, STORE_MISALIGNED
from tests.engine.riscv.rig import DATA, DATA_BYTES, DEVICE
from tests.engine.riscv.vector.machine import JUNK, bits, changed, e, illegal, run

END = DATA + DATA_BYTES
J8, J16, J32 = JUNK, JUNK * 0x101, JUNK * 0x1010101
COUNT = bytes(range(256))
ALL = bytes([JUNK])


def test_memory_masked() -> None:
    mask = {0: bits(1, 0, 1, 0), 1: [1, 2, 3, 4]}
    assert run("vle32.v v2, (x10), v0.t", v=mask, memory=[5, 6, 7, 8]).v(2, 4) == [5, J32, 7, J32]
    assert run("vse32.v v1, (x10), v0.t", v=mask).m(0, 4) == [1, J32, 3, J32]


def test_eew_encoded() -> None:
    assert run("vle8.v v1, (x10)", "e64,m1", 8, memory=COUNT).v(1, 9, 8) == [*range(8), J8]
    after = run("vluxei8.v v1, (x10), v2", "e32,m1", 4, {2: e(8, 12, 8, 4, 0)}, memory=[1, 2, 3, 4])
    assert after.v(1, 4) == [4, 3, 2, 1]


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_unit_stride(width: int) -> None:
    values = list(range(1, 9))
    assert run(f"vle{width}.v v1, (x10)", f"e{width},m1", 8, memory=values).v(1, 8) == values
    after = run(f"vse{width}.v v1, (x10)", f"e{width},m1", 8, {1: values})
    assert after.m(0, 8) == values
    assert after.memory[width:] == ALL * (4096 - width)


def test_strided() -> None:
    assert run("vlse16.v v1, (x10), x6", "e16,m1", 4, memory=COUNT, x={6: 10}).v(1, 4) == [0x100, 0xB0A, 0x1514, 0x1F1E]
    after = run("vsse8.v v1, (x10), x6", "e8,m1", 3, {1: [1, 2, 3]}, x={6: 2})
    assert after.m(0, 6) == [1, J8, 2, J8, 3, J8]


def test_strided_any() -> None:
    after = run("vlse32.v v1, (x10), x6", x={10: DATA + 12, 6: -4}, memory=[1, 2, 3, 4])
    assert after.v(1, 4) == [4, 3, 2, 1]
    assert run("vlse32.v v1, (x10), x6", x={6: 0}, memory=[7]).v(1, 4) == [7] * 4
    assert run("vsse32.v v1, (x10), x6", x={6: 0}, v={1: [1, 2, 3, 4]}).m(0, 2) == [4, J32]


def test_strided_x0() -> None:
    """A register that counts its reads sees every element."""
    after = run("vlse32.v v1, (x10), x0", x={10: DEVICE})
    assert (len(after.log), after.v(1, 4)) == (4, [1, 2, 3, 4])


def test_strided_zero() -> None:
    after = run("vlse32.v v1, (x10), x6", x={10: DEVICE, 6: 0})
    assert (len(after.log), after.v(1, 4)) == (4, [1, 2, 3, 4])


def test_indexed() -> None:
    after = run("vloxei16.v v1, (x10), v2", "e32,m1", 4, {2: e(16, 4, 0, 4, 12)}, memory=[1, 2, 3, 4])
    assert after.v(1, 4) == [2, 1, 2, 4]
    after = run("vsoxei64.v v1, (x10), v4", "e32,m1", 3, {1: [1, 2, 3], 4: e(64, 8, 0, -4)}, x={10: DATA + 4})
    assert after.m(0, 4) == [3, 2, J32, 1]


def test_index_extended() -> None:
    memory = bytes(range(256)) * 2
    after = run("vluxei8.v v1, (x10), v2", "e8,m1", 2, {2: [0xFF, 0x80]}, memory=memory, x={10: DATA + 4})
    assert after.v(1, 2) == [3, 0x84]


def test_index_ordered() -> None:
    for width in (8, 16, 32, 64):
        index = {1: [1, 2, 3, 4], 8: e(width, 0, 4, 0, 0)}
        assert run(f"vsoxei{width}.v v1, (x10), v8", v=index).m(0, 2) == [4, 2]
    after = run("vsoxei8.v v1, (x10), v8", v={1: [1, 2, 3, 4], 8: e(8, 8, 0, 4, 0)}, x={10: DEVICE})
    assert [entry[1] for entry in after.log] == [8, 0, 4, 0]


def test_index_unordered() -> None:
    after = run("vsuxei8.v v1, (x10), v8", v={1: [1, 2, 3, 4], 8: e(8, 8, 0, 4, 0)}, x={10: DEVICE})
    assert [entry[1] for entry in after.log] == [8, 0, 4, 0]


LUMOP = 31 << 20


@pytest.mark.parametrize("code", [n for n in range(32) if n not in (0, 8, 11, 16)])
def test_lumop(code: int) -> None:
    illegal(changed("vle8.v v1, (x10)", LUMOP, code << 20), "e8,m1")


@pytest.mark.parametrize("code", [n for n in range(32) if n not in (0, 8, 11)])
def test_sumop(code: int) -> None:
    illegal(changed("vse8.v v1, (x10)", LUMOP, code << 20), "e8,m1")


def test_memory_emul() -> None:
    for text in ("vle64.v v8, (x10)", "vse64.v v8, (x10)", "vluxei64.v v8, (x10), v16", "vlse64.v v8, (x10), x6"):
        illegal(text, "e32,m8", "EMUL is 16 for elements of 64 bits", "emul-range")


def test_eew_supported() -> None:
    """Widths of 128 bits and more have mew 1; narrower ones than 8 come from SEW / 8."""
    illegal("vzext.vf8 v1, v2", "e32,m1", "the elements have 4 bits, expected 8, 16, 32 or 64", "eew-supported")
    illegal("vsext.vf4 v1, v2", "e16,m1", "the elements have 4 bits", "eew-supported")


def test_mew() -> None:
    for text in ("vle8.v v1, (x10)", "vle64.v v1, (x10)", "vse32.v v1, (x10)", "vluxei16.v v1, (x10), v2"):
        illegal(changed(text, 0, 1 << 28), "e8,m1")


def test_mask_access() -> None:
    after = run("vlm.v v1, (x10)", "e64,m8", 17, memory=COUNT[1:])
    assert after.v(1, 4, 8) == [1, 2, 3, J8]
    assert run("vsm.v v1, (x10)", "e8,mf8", 8, {1: e(8, 7, 8)}).m(0, 2) == [7, J8]
    assert run("vlm.v v1, (x6)", vl=0).cause is None
    illegal(changed("vlm.v v1, (x10)", 1 << 25, 0), "e8,m1")


def test_mask_access_vstart() -> None:
    assert run("vlm.v v1, (x10)", "e8,m1", 32, memory=COUNT, vstart=2).v(1, 5) == [J8, J8, 2, 3, J8]
    after = run("vlm.v v1, (x10)", "e8,m1", 32, x={10: END - 3})
    assert (after.cause, after.vstart, after.value) == (LOAD_ACCESS, 3, END)


# ---- fault-only-first ----------------------------------------------------------------------------------------------


def test_first_fault() -> None:
    after = run("vle32ff.v v1, (x10)", x={10: END})
    assert (after.cause, after.vstart, after.vl, after.value) == (LOAD_ACCESS, 0, 4, END)
    masked = {0: bits(0, 1, 1, 1)}
    after = run("vle32ff.v v1, (x10), v0.t", v=masked, x={10: END - 4})
    assert (after.cause, after.vl, after.vstart) == (None, 1, 0)


def test_first_fault_vl() -> None:
    for there in (1, 2, 3):
        after = run("vle32ff.v v1, (x10)", x={10: END - 4 * there})
        assert (after.cause, after.vl, after.vstart) == (None, there, 0)
        assert after.v(1, 4)[there:] == [J32] * (4 - there)


def test_first_fault_spurious() -> None:
    """None is."""
    after = run("vle32ff.v v1, (x10)", "e32,m1", 8, x={10: END - 8})
    assert (after.vl, after.v(1, 8)[2:]) == (2, [J32] * 6)


def test_first_fault_fewer() -> None:
    after = run("vle32ff.v v1, (x10)", memory=[1, 2, 3, 4])
    assert (after.vl, after.v(1, 4)) == (4, [1, 2, 3, 4])


# ---- segments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", range(2, 9))
def test_segment_fields(fields: int) -> None:
    after = run(f"vlseg{fields}e8.v v4, (x10)", "e8,m1", 3, memory=COUNT)
    for k in range(fields):
        assert after.v(4 + k, 4) == [k, k + fields, k + 2 * fields, J8]
    after = run("vlseg2e8.v v4, (x10)", "e8,m2", 3, memory=COUNT)
    assert (after.v(4, 3), after.v(6, 3)) == ([0, 2, 4], [1, 3, 5])


def test_segment_registers() -> None:
    for fields, lmul in ((3, 4), (5, 2), (2, 8)):
        reported = f"{fields} fields of {lmul} registers need more than 8 registers"
        illegal(f"vlseg{fields}e8.v v8, (x10)", f"e8,m{lmul}", reported, "segment-registers")
        illegal(f"vsseg{fields}e8.v v8, (x10)", f"e8,m{lmul}", reported, "segment-registers")


def test_segment_end() -> None:
    illegal("vlseg8e8.v v25, (x10)", "e8,m1", "8 fields of 1 registers from v25 end after v31", "segment-end")
    illegal("vsseg4e8.v v26, (x10)", "e8,m2", "4 fields of 2 registers from v26 end after v31", "segment-end")
    assert run("vlseg8e8.v v24, (x10)", "e8,m1").cause is None


def test_segment_whole() -> None:
    after = run("vlseg2e8.v v4, (x10), v0.t", "e8,m1", 3, {0: bits(1, 0, 1)}, memory=COUNT)
    assert (after.v(4, 4), after.v(5, 4)) == ([0, J8, 4, J8], [1, J8, 5, J8])
    after = run("vsseg2e8.v v4, (x10), v0.t", "e8,m1", 3, {0: bits(1, 0, 1), 4: [1, 2, 3], 5: [4, 5, 6]})
    assert after.m(0, 7) == [1, 4, J8, J8, 3, 6, J8]


def test_segment_vstart() -> None:
    after = run("vlseg3e32.v v4, (x10)", x={10: END - 28})
    assert (after.cause, after.vstart, after.value) == (LOAD_ACCESS, 2, END)
    after = run("vsseg3e32.v v4, (x10)", x={10: END - 28})
    assert (after.cause, after.vstart, after.value) == (STORE_ACCESS, 2, END)
    after = run("vlseg2e8.v v4, (x10)", "e8,m1", 3, memory=COUNT, vstart=1)
    assert (after.v(4, 3), after.v(5, 3)) == ([J8, 2, 4], [J8, 3, 5])


def test_segment_unit() -> None:
    after = run("vsseg3e16.v v4, (x10)", "e16,m1", 2, {4: [1, 2], 5: [3, 4], 6: [5, 6]})
    assert after.m(0, 7) == [1, 3, 5, 2, 4, 6, J16]


def test_segment_first_fault() -> None:
    """It writes the fields before the one that faults."""
    after = run("vlseg2e32ff.v v4, (x10)", x={10: END - 12})
    assert (after.cause, after.vl, after.v(4, 3), after.v(5, 3)) == (None, 1, [0, 0, J32], [0, J32, J32])
    assert run("vlseg2e32ff.v v4, (x10)", x={10: END - 4}).cause == LOAD_ACCESS


def test_segment_strided() -> None:
    after = run("vlsseg2e8.v v4, (x10), x6", "e8,m1", 3, memory=COUNT, x={6: 5})
    assert (after.v(4, 3), after.v(5, 3)) == ([0, 5, 10], [1, 6, 11])


def test_segment_order() -> None:
    values = {4: [1, 2, 3], 5: [4, 5, 6]}
    assert run("vssseg2e8.v v4, (x10), x6", "e8,m1", 3, values, x={6: 1}).m(0, 5) == [1, 2, 3, 6, J8]
    assert run("vssseg2e8.v v4, (x10), x0", "e8,m1", 3, values).m(0, 3) == [3, 6, J8]


def test_segment_indexed() -> None:
    index = {8: e(8, 6, 0, 2)}
    after = run("vluxseg2ei8.v v4, (x10), v8", "e8,m1", 3, index, memory=COUNT)
    assert (after.v(4, 3), after.v(5, 3)) == ([6, 0, 2], [7, 1, 3])
    after = run("vsoxseg2ei8.v v4, (x10), v8", "e8,m1", 3, {**index, 4: [1, 2, 3], 5: [4, 5, 6]})
    assert after.m(0, 8) == [2, 5, 3, 6, J8, J8, 1, 4]


def test_segment_index_overlap() -> None:
    for order in "uo":
        illegal(
            f"vl{order}xseg2ei8.v v4, (x10), v5",
            "e8,m1",
            "the destination v5 must not overlap the source v5",
            "segment-index-overlap",
        )
    assert run("vsuxseg2ei8.v v4, (x10), v5", "e8,m1", 1, {5: [0]}).cause is None


# ---- whole registers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_whole_registers(count: int) -> None:
    memory = bytes(k * 7 & 255 for k in range(64 * count))
    for vtype, vl in (("e64,m1", 1), ("e8,m8", 0)):
        after = run(f"vl{count}re8.v v8, (x10)", vtype, vl, memory=memory)
        assert after.vectors[512 : 512 + 64 * count] == memory
        assert after.vectors[512 + 64 * count :] == ALL * (2048 - 512 - 64 * count)
        after = run(f"vs{count}r.v v8, (x10)", vtype, vl, {8: memory})
        assert after.memory == memory + ALL * (4096 - 64 * count)


def test_whole_eew() -> None:
    for width in (8, 16, 32, 64):
        assert run(f"vl1re{width}.v v1, (x10)", memory=COUNT).v(1, 64, 8) == list(range(64))
        assert run(f"vl1re{width}.v v1, (x10)", x={10: END - 8}).vstart == 64 // width
    assert run("vs1r.v v1, (x10)", x={10: DATA + 1}).m(0, 2, 8) == [J8, J8]


def test_whole_count() -> None:
    for nf in (2, 4, 5, 6):
        illegal(changed("vl1re8.v v8, (x10)", 7 << 29, nf << 29))
        illegal(changed("vs1r.v v8, (x10)", 7 << 29, nf << 29))


def test_whole_group() -> None:
    for count in (2, 4, 8):
        reported = f"v{count // 2} cannot begin a group of {count} registers"
        illegal(f"vl{count}re8.v v{count // 2}, (x10)", reported=reported, rule="whole-group")
        illegal(f"vs{count}r.v v{count // 2}, (x10)", reported=reported, rule="whole-group")


def test_whole_misaligned() -> None:
    after = run("vl1re32.v v1, (x10)", x={10: DATA + 2}, memory=COUNT)
    assert (after.cause, after.vstart, after.value) == (LOAD_MISALIGNED, 0, DATA + 2)


def test_whole_vstart() -> None:
    after = run("vl1re32.v v1, (x10)", memory=COUNT, vstart=15)
    assert (after.v(1, 15), after.v(1, 64, 8)[60:], after.vstart) == ([J32] * 15, [60, 61, 62, 63], 0)
    after = run("vl1re32.v v1, (x6)", vstart=16)
    assert (after.cause, after.vstart, after.vectors) == (None, 0, ALL * 2048)


# ---- chapters 8 and 9 ----------------------------------------------------------------------------------------------


def test_misaligned() -> None:
    for text, cause in (("vle32.v v1, (x10)", LOAD_MISALIGNED), ("vse32.v v1, (x10)", STORE_MISALIGNED)):
        after = run(text, x={10: DATA + 2})
        assert (after.cause, after.vstart, after.value) == (cause, 0, DATA + 2)
    after = run("vlse32.v v1, (x10), x6", x={6: 5})
    assert (after.cause, after.vstart, after.value) == (LOAD_MISALIGNED, 1, DATA + 5)
    assert run("vle8.v v1, (x10)", "e32,m1", 3, x={10: DATA + 1}).cause is None


def test_program_order() -> None:
    text = "vse32.v v1, (x10); vle32.v v2, (x6); vse32.v v3, (x6); lw x5, 4(x10); vlse32.v v4, (x10), x0"
    after = run(text, v={1: [1, 2, 3, 4], 3: [5, 6, 7, 8]}, x={6: DATA + 4}, memory=[0] * 8)
    assert after.v(2, 4) == [2, 3, 4, 0]
    assert after.x[5] == 5
    assert after.v(4, 4) == [1] * 4
