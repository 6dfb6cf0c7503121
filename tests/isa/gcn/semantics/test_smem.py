"""SMRD and SMEM against oracles written from the manuals."""

from __future__ import annotations

import re

import pytest

from softcard.core.errors import AccessFault
from softcard.isa.gcn.state import RETIRED
from tests.isa.gcn.semantics.memory_rig import BASE, GPUS, Rig, mnemonics
from tests.isa.gcn.semantics.test_flat import ATOMIC

SBASE, DATA, OFFSET = 8, 32, 20


def dwords(name: str) -> int:
    found = re.search(r"dword(?:x(\d+))?", name)
    return int(found[1] or 1) if found else 0


def fields(gpu: str, kind: str) -> tuple[dict[str, int], int]:
    """Fields of an offset of some kind, and the bytes it means (s20 holds 0x123)."""
    if gpu == "gfx700":
        return {"imm": ({"imm": 1, "offset": 0x48}, 0x120), "reg": ({"imm": 0, "offset": OFFSET}, 0x123)}[kind]
    return {
        "imm": ({"imm": 1, "offset": 0x123}, 0x123),
        "reg": ({"imm": 0, "offset": OFFSET}, 0x123),
        "negative": ({"imm": 1, "offset": -0x41 & 0x1F_FFFF}, -0x41),
        "both": ({"imm": 1, "soffset_en": 1, "soffset": OFFSET, "offset": 0x31}, 0x154),
        "soffset": ({"imm": 0, "soffset_en": 1, "soffset": OFFSET, "offset": 0x31}, 0x123),
    }[kind]


def kinds(gpu: str) -> list[str]:
    return ["imm", "reg"] + (["negative", "both", "soffset"] if gpu == "gfx900" else [])


def prepared(gpu: str, seed: int) -> Rig:
    rig = Rig(gpu, seed)
    rig.set_s64(SBASE, BASE + 0x401)
    rig.set_s(OFFSET, 0x123)
    return rig


@pytest.mark.parametrize("gpu", GPUS)
def test_loads(gpu: str) -> None:
    register = "sdst" if gpu == "gfx700" else "sdata"
    for name in mnemonics("smem", gpu, "s_load"):
        for seed, kind in enumerate(kinds(gpu)):
            rig = prepared(gpu, seed)
            extra, offset = fields(gpu, kind)
            expected = rig.model()
            for k in range(dwords(name)):
                expected.s[DATA + k] = expected.peek("global", (BASE + 0x401 + offset & ~3) + 4 * k, 4)
            rig.run("smem", name, **{register: DATA, "sbase": SBASE}, **extra)
            rig.check(expected)


def test_gfx7_literal_counts_dwords() -> None:
    rig = prepared("gfx700", 1)
    expected = rig.model()
    expected.s[DATA] = expected.peek("global", BASE + 0x400 + 0x404, 4)
    rig.run("smem", "s_load_dword", literal=0x101, sdst=DATA, sbase=SBASE, imm=0, offset=255)
    rig.check(expected)


def test_a_load_may_overwrite_its_base() -> None:
    rig = prepared("gfx900", 1)
    expected = rig.model()
    for k in range(4):
        expected.s[SBASE + k] = expected.peek("global", BASE + 0x400 + 4 * k, 4)
    rig.run("smem", "s_load_dwordx4", sdata=SBASE, sbase=SBASE, imm=1)
    rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS[1:])
def test_stores(gpu: str) -> None:
    for name in mnemonics("smem", gpu, "s_store"):
        for seed, kind in enumerate(kinds(gpu)):
            rig = prepared(gpu, seed)
            extra, offset = fields(gpu, kind)
            expected = rig.model()
            for k in range(dwords(name)):
                expected.poke("global", (BASE + 0x401 + offset & ~3) + 4 * k, 4, expected.s[DATA + k])
            rig.run("smem", name, sdata=DATA, sbase=SBASE, **extra)
            rig.check(expected)


def test_scratch_offsets_count_64_bytes() -> None:
    for name in mnemonics("smem", "gfx900", "s_scratch"):
        rig = prepared("gfx900", 1)
        rig.set_s(OFFSET, 3)
        expected = rig.model()
        for k in range(dwords(name)):
            at = BASE + 0x400 + 3 * 64 + 8 + 4 * k
            if "load" in name:
                expected.s[DATA + k] = expected.peek("global", at, 4)
            else:
                expected.poke("global", at, 4, expected.s[DATA + k])
        rig.run("smem", name, sdata=DATA, sbase=SBASE, imm=1, offset=8, soffset_en=1, soffset=OFFSET)
        rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(("records", "stride"), [(0x12C, 0), (0x4B, 4), (0, 0), (0x1000, 0), (1, 0x12C)])
def test_buffer_accesses_stop_at_the_end_of_the_buffer(gpu: str, records: int, stride: int) -> None:
    names = mnemonics("smem", gpu, "s_buffer_load") + mnemonics("smem", gpu, "s_buffer_store")
    register = "sdst" if gpu == "gfx700" else "sdata"
    for seed, name in enumerate(names):
        rig = prepared(gpu, seed)
        rig.set_s(SBASE, BASE & 0xFFFF_FFFF, BASE >> 32 | stride << 16, records, 0xFFFF_FFFF)
        extra, offset = fields(gpu, ("imm", "reg")[seed % 2])
        size = records * (stride or 1)
        expected = rig.model()
        for k in range(dwords(name)):
            at = (offset & ~3) + 4 * k
            if "load" in name:
                expected.s[DATA + k] = expected.peek("global", BASE + at, 4) if at < size else 0
            elif at < size:
                expected.poke("global", BASE + at, 4, expected.s[DATA + k])
        rig.run("smem", name, **{register: DATA, "sbase": SBASE}, **extra)
        rig.check(expected)


def test_a_null_buffer_is_never_reached() -> None:
    rig = prepared("gfx900", 1)
    rig.set_s(SBASE, 0, 0, 0, 0)
    for name in mnemonics("smem", "gfx900", "s_buffer"):
        rig.run("smem", name, sdata=DATA, sbase=SBASE, imm=1, offset=0)


@pytest.mark.parametrize("glc", [0, 1])
@pytest.mark.parametrize("buffer", ["", "buffer_"])
def test_atomics(glc: int, buffer: str) -> None:
    names = mnemonics("smem", "gfx900", f"s_{buffer}atomic")
    assert len(names) == 26
    for seed, name in enumerate(names):
        rig = prepared("gfx900", seed)
        n = 2 if name.endswith("_x2") else 1
        if buffer:
            rig.set_s(SBASE, BASE & 0xFFFF_FFFF, BASE >> 32, 0x200, 0)
        at = (BASE + (0x123 if buffer else 0x401 + 0x123)) // (4 * n) * (4 * n)
        rig.set_s(DATA, *(int(x) for x in rig.rng.integers(0, 1 << 32, 4)))
        if seed % 2:
            held = int.from_bytes(rig.memory.read(at, 4 * n), "little")
            rig.set_s(DATA + n, *(held >> 32 * k for k in range(n)))
        expected = rig.model()
        held = expected.peek("global", at, 4 * n)
        data, second = (sum(expected.s[DATA + h * n + k] << 32 * k for k in range(n)) for h in (0, 1))
        kind = name.split("atomic_")[1].removesuffix("_x2")
        expected.poke("global", at, 4 * n, ATOMIC[kind](32 * n, held, data, second))
        for k in range(n if glc else 0):
            expected.s[DATA + k] = held >> 32 * k & 0xFFFF_FFFF
        rig.run("smem", name, sdata=DATA, sbase=SBASE, imm=1, offset=0x123, glc=glc)
        rig.check(expected)


def test_a_buffer_atomic_out_of_range_gives_0() -> None:
    rig = prepared("gfx900", 1)
    rig.set_s(SBASE, BASE & 0xFFFF_FFFF, BASE >> 32, 0x100, 0)
    expected = rig.model()
    expected.s[DATA] = 0
    rig.run("smem", "s_buffer_atomic_add", sdata=DATA, sbase=SBASE, imm=1, offset=0x100, glc=1)
    rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
def test_clocks_count_instructions(gpu: str) -> None:
    register = "sdst" if gpu == "gfx700" else "sdata"
    rig = prepared(gpu, 1)
    for name in mnemonics("smem", gpu, "mem") + mnemonics("smem", gpu, "s_memreal"):
        rig.wave.words[RETIRED] = 0x1_0000_0005
        rig.run("smem", name, **{register: DATA})
        assert rig.wave.s64(DATA) == 0x1_0000_0005


@pytest.mark.parametrize("gpu", GPUS)
def test_cache_operations_change_nothing(gpu: str) -> None:
    rig = prepared(gpu, 1)
    expected = rig.model()
    names = mnemonics("smem", gpu, "dcache") + mnemonics("smem", gpu, "atc_probe")
    for name in names:
        rig.run("smem", name)
    rig.check(expected)
    assert len(names) == {"gfx700": 2, "gfx803": 6, "gfx900": 8}[gpu]


def test_a_bad_address_faults() -> None:
    rig = prepared("gfx900", 1)
    rig.set_s64(SBASE, 0x9000)
    with pytest.raises(AccessFault, match="0x9010"):
        rig.run("smem", "s_load_dwordx2", sdata=DATA, sbase=SBASE, imm=1, offset=0x10)


def test_registers_beyond_the_last_are_not_written() -> None:
    rig = prepared("gfx900", 1)
    rig.run("smem", "s_load_dwordx16", sdata=120, sbase=SBASE, imm=1)
    assert [int(x) for x in rig.wave.sgpr[120:128]] == [
        rig.model().peek("global", BASE + 0x400 + 4 * k, 4) for k in range(8)
    ]
