"""Untyped buffer operations against lane-by-lane oracles written from the manuals."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from softcard.isa.gcn.insn import Insn
from tests.isa.gcn.semantics.memory_rig import BASE, GPUS, M0, Model, Rig, mnemonics
from tests.isa.gcn.semantics.test_flat import ATOMIC, WIDTH, loaded

START = BASE + 0x800
RSRC, SOFFSET = 40, 50


@dataclass
class Buffer:
    """A V# in plain numbers."""

    stride: int = 0
    records: int = 0x1000
    swizzle: int = 0
    element: int = 1
    index_stride: int = 0
    add_tid: int = 0
    dfmt: int = 0
    nfmt: int = 0
    select: tuple[int, int, int, int] = (4, 5, 6, 7)
    base: int = START

    def words(self) -> list[int]:
        select = sum(s << 3 * k for k, s in enumerate(self.select))
        third = select | self.nfmt << 12 | self.dfmt << 15 | self.element << 19 | self.index_stride << 21
        high = self.base >> 32 | self.stride << 16 | self.swizzle << 31
        return [self.base & 0xFFFF_FFFF, high, self.records, third | self.add_tid << 23]


def place(m: Model, insn: Insn, b: Buffer, lane: int) -> tuple[int, int, bool | None]:
    """Address, bytes from the start of a raw buffer, and for buffers checked by record whether it is in range."""
    level = insn.target.level
    scalar = m.s[insn["soffset"]] if insn["soffset"] < 128 else insn["soffset"] - 128
    registers = [m.v[insn["vaddr"] + k][lane] for k in range(insn["idxen"] + insn["offen"])]
    index = (registers[0] if insn["idxen"] else 0) + (lane if b.add_tid else 0)
    offset = insn["offset"] + (registers[-1] if insn["offen"] else 0)
    index, offset = index & 0xFFFF_FFFF, offset & 0xFFFF_FFFF
    stride = b.stride | (b.dfmt << 14 if b.add_tid and level >= 8 else 0)
    if b.swizzle:
        element = 4 if level == 9 else 2 << b.element
        count = 8 << b.index_stride
        within = offset % element + element * (index % count)
        within += count * (index // count * stride + offset // element * element)
    else:
        within = index * stride + offset
    within &= 0xFFFF_FFFF
    raw = {7: stride == 0, 8: stride == 0 or not b.swizzle, 9: stride == 0 or not insn["idxen"]}[level]
    inside = None
    if not raw:
        indexed = insn["idxen"] or (b.add_tid if level == 7 else 1)
        inside = index < b.records and not (indexed and offset >= stride)
    return b.base + scalar + within, within + scalar, inside


def in_range(where: tuple[int, int, bool | None], b: Buffer, skip: int) -> bool:
    _, reach, inside = where
    return reach + skip < b.records if inside is None else inside


def oracle(m: Model, insn: Insn, b: Buffer) -> None:
    """Loads, stores and atomics by mnemonic."""
    _, verb, kind = insn.name.split("_", 2)
    if verb == "store":
        store(m, insn, b, kind)
        return
    for lane in m.lanes:
        where = place(m, insn, b, lane)
        at = where[0]
        if verb == "atomic":
            atomic(m, insn, lane, at, in_range(where, b, 0))
            continue
        w = WIDTH[kind.partition("_d16")[0]]
        n, unit = max(w // 32, 1), min(w // 8, 4)
        value = m.wide(insn["vdata"], lane, n)
        parts = [m.peek("global", at + 4 * k, unit) if in_range(where, b, 4 * k) else 0 for k in range(n)]
        memory = sum(part << 32 * k for k, part in enumerate(parts))
        m.set_wide(insn["vdata"], lane, n, loaded(kind, memory, value))


def store(m: Model, insn: Insn, b: Buffer, kind: str) -> None:
    """Lanes wholly in range first, so that it is clear what stays where lanes overlap."""
    w = WIDTH[kind.partition("_d16")[0]]
    n, unit = max(w // 32, 1), min(w // 8, 4)
    places = {lane: place(m, insn, b, lane) for lane in m.lanes}
    whole = [lane for lane in m.lanes if in_range(places[lane], b, 4 * (n - 1))]
    rest = [lane for lane in m.lanes if lane not in whole]
    order = [(lane, k) for lane in whole for k in range(n)] + [(lane, k) for k in range(n) for lane in rest]
    for lane, k in order:
        value = m.wide(insn["vdata"], lane, n) >> (16 if "d16_hi" in kind else 0)
        if in_range(places[lane], b, 4 * k):
            m.poke("global", places[lane][0] + 4 * k, unit, value >> 32 * k)


def atomic(m: Model, insn: Insn, lane: int, at: int, inside: bool) -> None:
    kind = insn.name.split("_")[2]
    n = 2 if insn.name.endswith("_x2") else 1
    at -= at % (4 * n)
    held = m.peek("global", at, 4 * n) if inside else 0
    data, second = m.wide(insn["vdata"], lane, n), m.wide(insn["vdata"] + n, lane, n)
    if inside:
        m.poke("global", at, 4 * n, ATOMIC[kind](32 * n, held, data, second))
    if insn["glc"]:
        m.set_wide(insn["vdata"], lane, n, held)


def untyped(gpu: str) -> list[str]:
    return [
        name for name in mnemonics("mubuf", gpu) if not any(part in name for part in ("format", "wbinv", "store_lds"))
    ]


BUFFERS = (
    Buffer(),
    Buffer(records=150),
    Buffer(stride=12, records=30),
    Buffer(stride=20, records=600),
    Buffer(stride=16, records=40, swizzle=1),
    Buffer(stride=8, records=200, swizzle=1, element=2, index_stride=1),
    Buffer(add_tid=1, swizzle=1, index_stride=3, records=0x1800),
    Buffer(add_tid=1, stride=24, records=50),
    Buffer(records=0),
)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("flags", [0, 1, 2, 3])
@pytest.mark.parametrize("gpu", GPUS)
def test_every_untyped_operation(subtests: pytest.Subtests, gpu: str, flags: int) -> None:
    for seed, name in enumerate(untyped(gpu)):
        with subtests.test(name):
            b = BUFFERS[(seed + 2 * flags) % len(BUFFERS)]
            check(gpu, name, b, flags, seed)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("b", BUFFERS, ids=range(len(BUFFERS)))
@pytest.mark.parametrize("gpu", GPUS)
def test_addressing(gpu: str, b: Buffer) -> None:
    for seed, name in enumerate(("load_dwordx2", "store_dword", "load_ushort", "store_dwordx3")):
        for flags in range(4):
            check(gpu, f"buffer_{name}", b, flags, seed)


def check(gpu: str, name: str, b: Buffer, flags: int, seed: int) -> None:
    rig = Rig(gpu, seed)
    unit = 8 if "atomic" in name else 1
    rig.set_s(RSRC, *b.words())
    rig.set_s(SOFFSET, 64)
    fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "idxen": flags & 1, "offen": flags >> 1, "offset": 8}
    fields |= {"soffset": SOFFSET if seed % 2 else 128 + 16, "glc": int("atomic" in name and seed % 3 > 0)}
    rig.set_v(2, rig.random(0, 60) if flags & 1 else rig.random(0, 60, unit))
    rig.set_v(3, rig.random(0, 60, unit))
    expected, insn = rig.model(), rig.insn("mubuf", name, **fields)
    oracle(expected, insn, b)
    rig.run("mubuf", name, **fields)
    rig.check(expected)


def test_64_bit_addresses_of_gfx7_check_no_range() -> None:
    for seed, name in enumerate(untyped("gfx700")):
        rig = Rig("gfx700", seed)
        rig.set_s(RSRC, 0x100, 0, 0, 0)
        rig.set_s(SOFFSET, 24)
        at = BASE + 0x40 + rig.random(0, 0x1000, 8)
        rig.set_v64(2, at)
        fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "addr64": 1, "offset": 8, "soffset": SOFFSET, "glc": seed % 2}
        if "atomic" not in name:
            fields["glc"] = 0
        expected, insn = rig.model(), rig.insn("mubuf", name, **fields)
        places = {lane: (int(at[lane]) + 0x100 + 24 + 8, 0, True) for lane in range(64)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "tests.isa.gcn.semantics.test_buffer.place", lambda m, i, b, lane, places=places: places[lane]
            )
            oracle(expected, insn, Buffer())
        rig.run("mubuf", name, **fields)
        rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", ["ubyte", "sbyte", "ushort", "sshort", "dword"])
def test_lds_flag_loads_to_lds_by_lane(gpu: str, name: str) -> None:
    rig = Rig(gpu, 3)
    b = Buffer(records=90)
    rig.set_s(RSRC, *b.words())
    rig.set_s(M0, 0xABCD_0100)
    rig.set_v(2, rig.random(0, 120))
    fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "offen": 1, "offset": 12, "lds": 1}
    expected, insn = rig.model(), rig.insn("mubuf", f"buffer_load_{name}", **fields)
    for lane in expected.lanes:
        where = place(expected, insn, b, lane)
        memory = expected.peek("global", where[0], WIDTH[name] // 8) if in_range(where, b, 0) else 0
        expected.poke("lds", 0x100 + 12 + 4 * lane, 4, loaded(name, memory, 0))
    rig.run("mubuf", f"buffer_load_{name}", **fields)
    rig.check(expected)


@pytest.mark.parametrize("count", [3, 4])
def test_gfx950_loads_all_dwords_to_lds(count: int) -> None:
    """Slots of 16 bytes for each lane, as for loads of FLAT; each dword has its own range check."""
    rig = Rig("gfx950", 3)
    b = Buffer(records=90)
    rig.set_s(RSRC, *b.words())
    rig.set_s(M0, 0xABCD_0100)
    rig.set_v(2, rig.random(0, 120))
    fields = {"vaddr": 2, "vdata": 8, "srsrc": RSRC, "offen": 1, "offset": 12, "lds": 1}
    expected, insn = rig.model(), rig.insn("mubuf", f"buffer_load_dwordx{count}", **fields)
    for lane in expected.lanes:
        where = place(expected, insn, b, lane)
        for k in range(count):
            word = expected.peek("global", where[0] + 4 * k, 4) if in_range(where, b, 4 * k) else 0
            expected.poke("lds", 0x100 + 12 + 16 * lane + 4 * k, 4, word)
    rig.run("mubuf", f"buffer_load_dwordx{count}", **fields)
    rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS[1:])
def test_stores_from_lds(gpu: str) -> None:
    rig = Rig(gpu, 3)
    b = Buffer(stride=8, records=400)
    rig.set_s(RSRC, *b.words())
    rig.set_s(M0, 0x40)
    rig.set_v(2, rig.random(0, 60))
    fields = {"vaddr": 2, "srsrc": RSRC, "idxen": 1, "offset": 4}
    expected, insn = rig.model(), rig.insn("mubuf", "buffer_store_lds_dword", **fields)
    for lane in expected.lanes:
        where = place(expected, insn, b, lane)
        if in_range(where, b, 0):
            expected.poke("global", where[0], 4, expected.peek("lds", 0x44 + 4 * lane, 4))
    rig.run("mubuf", "buffer_store_lds_dword", **fields)
    rig.check(expected)


def test_tfe_writes_a_zero_behind_the_data() -> None:
    rig = Rig("gfx900", 3)
    rig.set_s(RSRC, *Buffer().words())
    rig.run("mubuf", "buffer_load_dwordx2", vdata=8, srsrc=RSRC, tfe=1)
    memory = rig.model()
    for lane in memory.lanes:
        wanted = [memory.peek("global", START, 4), memory.peek("global", START + 4, 4), 0]
        assert [memory.v[8 + k][lane] for k in range(3)] == wanted


@pytest.mark.parametrize("gpu", GPUS)
def test_null_buffers_are_never_reached(gpu: str) -> None:
    rig = Rig(gpu, 3)
    rig.set_s(RSRC, 0, 0, 0, 0)
    expected = rig.model()
    for name in mnemonics("mubuf", gpu, "store_d") + mnemonics("mubuf", gpu, "atomic"):
        rig.run("mubuf", name, vdata=8, vaddr=2, srsrc=RSRC, offen=1)
    rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
def test_scratch_as_drivers_set_it_up(gpu: str) -> None:
    """Stride 0, swizzled, lanes added, elements of 4 bytes, 64 lanes side by side: each lane has its own dwords."""
    rig = Rig(gpu, 3)
    b = Buffer(records=0x1000, swizzle=1, add_tid=1, index_stride=3, dfmt=4, nfmt=4)
    rig.set_s(RSRC, *b.words())
    rig.set_s(SOFFSET, 512)
    rig.set_v(2, rig.random(0, 32, 4))
    expected = rig.model()
    for lane in expected.lanes:
        dword = (expected.v[2][lane] + 4) // 4
        expected.poke("global", START + 512 + dword * 256 + 4 * lane, 4, expected.v[8][lane])
    rig.run("mubuf", "buffer_store_dword", vdata=8, vaddr=2, srsrc=RSRC, soffset=SOFFSET, offen=1, offset=4)
    rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
def test_cache_operations_change_nothing(gpu: str) -> None:
    rig = Rig(gpu, 3)
    expected = rig.model()
    for name in mnemonics("mubuf", gpu, "wbinvl1"):
        rig.run("mubuf", name)
    rig.check(expected)
