"""The register tables agree with the document's IDs and with each other."""

from itertools import pairwise

import pytest

from softcard.core.errors import WireError
from softcard.device.refsi import registers as r


def test_cmp_registers_are_at_the_documents_ids() -> None:
    names = {offset: register.element(index) for register, index, offset in r.CMP.elements()}
    assert len(names) == 39
    assert [names[number] for number in range(7)] == [
        "CMP_SCRATCH",
        "CMP_ENTRY_PT_FN",
        "CMP_KUB_DESC",
        "CMP_KARGS_INFO",
        "CMP_TSD_INFO",
        "CMP_STACK_TOP",
        "CMP_RETURN_ADDR",
    ]
    for first, name in ((8, "BASE"), (16, "TARGET"), (24, "MODE"), (32, "SCALE")):
        assert [names[first + k] for k in range(8)] == [f"CMP_REG_WINDOW_{name}{k}" for k in range(8)]
    assert max(names) + 1 == r.NUM_CMP_REGISTERS
    with pytest.raises(WireError, match=r"reserved range 0x7\.\.0x7"):
        r.CMP.find(7, "w")


def test_fields_are_where_the_document_puts_them() -> None:
    assert r.KUB_DESC.decode(0x0001_0000_5300_0000) == {"KUB_ADDR": 0x5300_0000, "KUB_SIZE": 1}
    assert r.KARGS_INFO.decode(0x10_0000_4000_00) == {"DUMMY": 0, "KARGS_OFFSET": 0x40, "KARGS_SIZE": 0x10}
    assert r.TSD_INFO.encode(TSD_OFFSET=8, TSD_SIZE=0x10) == 0x100000080000
    mode = r.WINDOW_MODE.encode(ACTIVE=1, MODE="PER_HART", SIZE=0xFFF)
    assert mode == 0xFFF_0000_0003
    assert r.WINDOW_MODE.explain(mode, 2) == (
        "CMP_REG_WINDOW_MODE2 = 0xfff00000003: ACTIVE=1 MODE=1 (PER_HART) INTERLEAVE=0 PERMS=0 STRIDE=0 SIZE=0xfff"
    )


def test_dma_and_counters() -> None:
    assert r.DMA.offset_of("DMAXFERSIZE2") == 7
    assert r.DMA.offset_of("DMAXFERDSTSTRIDE1") == 11
    assert r.PERF_COUNTERS.offset_of("BRANCH_INSN") == 17
    assert r.PERF_COUNTERS.offset_of("GLOBAL_COUNTER31") == 63
    assert len(list(r.PERF_COUNTERS.elements())) == r.NUM_COUNTERS


def test_memory_maps_do_not_overlap() -> None:
    for entries in (r.M1_MAP, r.G1_MAP):
        spans = sorted((entry.base, entry.end) for entry in entries)
        assert all(one[1] <= two[0] for one, two in pairwise(spans))
    assert r.M1_MAP[1].end == 0xC000_0000
