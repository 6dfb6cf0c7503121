"""DS against lane-by-lane oracles written from the manuals."""

from __future__ import annotations

import re

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.insn import Insn
from tests.isa.gcn.semantics.memory_rig import EXEC, FULL, GDS, GPUS, LDS, M0, Model, Rig, mnemonics
from tests.isa.gcn.semantics.test_flat import ATOMIC, as_float, signed

NAME = re.compile(
    r"ds_(?P<what>[a-z]+?)(?P<two>2(?:st64)?)?(?P<back>_rtn)?_(?P<type>[a-z])(?P<bits>\d+)(?P<d16>_d16(_hi)?)?"
)
KIND = {
    "inc": "inc", "dec": "dec", "add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "wrxchg": "swap",
}  # fmt: skip


def changed(what: str, letter: str, w: int, m: int, a: int, b: int) -> int:
    """Memory after an atomic: m before, a = data0, b = data1."""
    if what == "rsub":
        return a - m
    if what == "mskor":
        return m & ~a | b
    if what == "cmpst":
        equal = as_float(w, m) == as_float(w, a) if letter == "f" else m == a
        return b if equal else m
    if what in ("min", "max"):
        return ATOMIC[{"i": "s", "u": "u", "f": "f"}[letter] + what](w, m, a, 0)
    if what == "add" and letter == "f":
        with np.errstate(all="ignore"):
            total = np.uint32(m).view(np.float32) + np.uint32(a).view(np.float32)
        return 0x7FC0_0000 if np.isnan(total) else int(np.float32(total).view(np.uint32))
    return ATOMIC[KIND[what]](w, m, a, 0)


class Share:
    """LDS or GDS as an instruction sees it: offsets, alignment, limits."""

    def __init__(self, m: Model, insn: Insn) -> None:
        self.m, self.gds, self.level = m, bool(insn["gds"]), insn.target.level
        self.space = "gds" if self.gds else "lds"

    def place(self, address: int, size: int, atomic: bool) -> int | None:
        """The byte where an access happens; None out of range."""
        address &= 0xFFFF_FFFF
        if self.level < 9 or self.gds or atomic:
            unit = {1: 1, 2: 2, 4: 4, 8: 8, 12: 16, 16: 16}[size]
            address -= address % unit
        limit = {True: self.m.s[M0] & 0xFFFF, False: self.m.s[M0] if self.level < 9 else 1 << 33}[self.gds]
        if address + size > limit:
            return None
        address += self.m.s[M0] >> 16 if self.gds else 0
        return address if address + size <= (GDS if self.gds else LDS) else None

    def get(self, address: int, size: int, atomic: bool = False) -> int:
        at = self.place(address, size, atomic)
        return 0 if at is None else self.m.peek(self.space, at, size)

    def put(self, address: int, size: int, value: int, atomic: bool = False) -> None:
        at = self.place(address, size, atomic)
        if at is not None:
            self.m.poke(self.space, at, size, value)


def oracle(m: Model, insn: Insn) -> None:
    """Reads, writes, exchanges and atomics by mnemonic."""
    parts = NAME.fullmatch(insn.name)
    assert parts is not None, insn.name
    what, bits = parts["what"], int(parts["bits"])
    size, n = bits // 8, max(bits // 32, 1)
    share = Share(m, insn)
    step = {None: 0, "2": size, "2st64": 64 * size}[parts["two"]]
    offsets = [insn["offset0"] * step, insn["offset1"] * step] if step else [insn["offset0"] | insn["offset1"] << 8]
    reads: dict[int, list[int]] = {lane: [] for lane in m.lanes}
    for offset, data in zip(offsets, ("data0", "data1"), strict=False):
        for lane in m.lanes:
            at = m.v[insn["addr"]][lane] + offset
            value = m.wide(insn[data], lane, n)
            if what == "read":
                reads[lane].append(read(share, parts, at, size))
            elif what == "write":
                share.put(at, size, value >> 16 if parts["d16"] == "_d16_hi" else value)
            else:
                held = share.get(at, size, True)
                second = m.wide(insn["data1"], lane, n)
                share.put(at, size, changed(what, parts["type"], bits, held, value, second), True)
                reads[lane].append(held)
    if what == "read" or parts["back"]:
        for lane, values in reads.items():
            for k, value in enumerate(values):
                give(m, insn["vdst"] + k * n, lane, n, value, parts["d16"])


def read(share: Share, parts: re.Match[str], at: int, size: int) -> int:
    value = share.get(at, size)
    if parts["type"] == "i":
        value = signed(8 * size, value) & 0xFFFF_FFFF
    return value


def give(m: Model, register: int, lane: int, n: int, value: int, half: str | None) -> None:
    old = m.v[register][lane]
    if half == "_d16":
        value = old & 0xFFFF_0000 | value & 0xFFFF
    elif half == "_d16_hi":
        value = old & 0xFFFF | (value & 0xFFFF) << 16
    m.set_wide(register, lane, n, value)


def regular(gpu: str) -> list[str]:
    special = "nop|gws|src2|swizzle|permute|append|consume|ordered|addtid|condxchg|wrap"
    return [name for name in mnemonics("ds", gpu) if not re.search(special, name)]


FIELDS = {"addr": 2, "data0": 8, "data1": 12, "vdst": 20}


@pytest.mark.parametrize("gds", [0, 1])
@pytest.mark.parametrize("gpu", GPUS)
def test_every_regular_operation(subtests: pytest.Subtests, gpu: str, gds: int) -> None:
    for seed, name in enumerate(regular(gpu)):
        with subtests.test(name):
            rig = Rig(gpu, seed)
            rig.set_s(M0, 0x0040_0150 if gds else [0xFFFF_FFFF, LDS - 300, 5][seed % 3])
            hard = [0, 1, 5, 0x3F80_0000, 0x8000_0000, 0x7FC0_0000, 0xBF80_0000, 0xFFFF_FFFF]
            for register in range(8, 16):
                rig.set_v(register, rig.rng.choice(hard, 64))
            rig.lds.view(np.uint32)[:] = rig.rng.choice(hard, LDS // 4)
            rig.set_v(2, rig.random(0, LDS + 64, 1))
            fields = FIELDS | {"offset0": int(rig.rng.integers(256)), "offset1": seed % 2, "gds": gds}
            expected, insn = rig.model(), rig.insn("ds", name, **fields)
            oracle(expected, insn)
            rig.run("ds", name, **fields)
            rig.check(expected)


def test_results_may_overlap_the_address() -> None:
    for name in ("ds_read2_b64", "ds_read_b128", "ds_wrxchg2_rtn_b64", "ds_add_rtn_u64"):
        rig = Rig("gfx900", 9)
        rig.set_v(2, rig.random(0, LDS - 64, 8))
        fields = FIELDS | {"vdst": 1, "data0": 2, "offset1": 3}
        rig.set_v(3, rig.random(0, 99))
        expected, insn = rig.model(), rig.insn("ds", name, **fields)
        oracle(expected, insn)
        rig.run("ds", name, **fields)
        rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
def test_src2_operations_take_their_operand_from_memory(subtests: pytest.Subtests, gpu: str) -> None:
    names = mnemonics("ds", gpu, "_src2_")
    for seed, name in enumerate(names):
        with subtests.test(name):
            for offset in (0x8000, 0x0003, 0x7FFE):
                rig = Rig(gpu, seed)
                bits = int(name[-2:])
                # Distances of A and B that no two lanes share, so that the order of lanes does not matter.
                first = 8 * np.arange(64) + 64
                distance = 128 if offset == 0x8000 else (3 if offset == 3 else -2)
                rig.set_v(2, first | (distance << 17) & 0xFFFF_FFFF if offset == 0x8000 else first)
                fields = {"addr": 2, "offset0": offset & 0xFF, "offset1": offset >> 8}
                expected = rig.model()
                source_oracle(expected, name, bits, first, distance * 4)
                rig.run("ds", name, **fields)
                rig.check(expected)


def source_oracle(m: Model, name: str, bits: int, first: np.ndarray, distance: int) -> None:
    what, letter = name.split("_")[1], name[-3]
    size = bits // 8
    held = {n: m.peek("lds", (int(first[n]) + distance & 0xFFFF) // size * size, size) for n in m.lanes}
    for n in m.lanes:
        at = int(first[n])
        old = m.peek("lds", at, size)
        m.poke("lds", at, size, held[n] if what == "write" else changed(what, letter, bits, old, held[n], 0))


def swizzle_source(lane: int, offset: int, gfx9: bool) -> int:
    """The lane that `lane` reads, from the manual's pseudo-code."""
    if gfx9 and offset >= 0xE000:
        mask = offset & 31
        j = int(f"{lane & 31:05b}"[::-1], 2) >> bin(mask).count("1")
        return j | lane & mask | lane & 32
    if gfx9 and offset >= 0xC000:
        rotate, mask = offset >> 5 & 31, offset & 31
        rotate = -rotate if offset & 0x400 else rotate
        return lane & mask | (lane + rotate) & 31 & ~mask | lane & 32
    if offset & 0x8000:
        return (lane & 0x3C) + (offset >> 2 * (lane & 3) & 3)
    return (lane & 32) + (((lane & 31 & offset & 31) | offset >> 5 & 31) ^ offset >> 10 & 31)


@pytest.mark.parametrize("gpu", GPUS)
def test_swizzle(gpu: str) -> None:
    offsets = [
        0x801F,
        0x001F,
        0x401F,
        0x041F,
        0x03E0,
        0x7FFF,
        0x80E4,
        0x8000,
        0xC021,
        0xC420,
        0xC3E7,
        0xE000,
        0xE010,
        0xE01F,
    ]
    for seed, offset in enumerate(offsets):
        rig = Rig(gpu, seed)
        expected = rig.model()
        lanes = set(expected.lanes)
        for lane in lanes:
            source = swizzle_source(lane, offset, gpu == "gfx900")
            expected.v[20][lane] = int(rig.wave.vgpr[2, source]) if source in lanes else 0
        rig.run("ds", "ds_swizzle_b32", addr=2, vdst=20, offset0=offset & 0xFF, offset1=offset >> 8)
        rig.check(expected)


def test_swizzle_examples_of_the_manual() -> None:
    fft = "1 11 9 19 5 15 d 1d 3 13 b 1b 7 17 f 1f 2 12 a 1a 6 16 e 1e 4 14 c 1c 8 18 10 20"
    odd = "1 4 3 6 5 8 7 a 9 c b e d 10 f 12 11 14 13 16 15 18 17 1a 19 1c 1b 1e 1d 20 1f 2"
    for offset, text in ((0xE000, fft), (0xC021, odd)):
        rig = Rig("gfx900", 0, FULL)
        rig.set_v(2, np.arange(64) + 1)
        rig.run("ds", "ds_swizzle_b32", addr=2, vdst=20, offset0=offset & 0xFF, offset1=offset >> 8)
        assert rig.wave.vgpr[20, :32].tolist() == [int(x, 16) for x in text.split()]


@pytest.mark.parametrize("gpu", GPUS[1:])
@pytest.mark.parametrize("vdst", [20, 8])
def test_permute_and_bpermute(gpu: str, vdst: int) -> None:
    rig = Rig(gpu, 3)
    rig.set_v(2, rig.random(0, 1 << 32))
    fields = {"addr": 2, "data0": 8, "vdst": vdst, "offset0": 12}
    expected = rig.model()
    data, lanes = list(expected.v[8]), expected.lanes
    named = [(expected.v[2][lane] + 12) // 4 % 64 for lane in range(64)]
    pulled = {lane: data[named[lane]] if named[lane] in lanes else 0 for lane in lanes}
    for lane in lanes:
        expected.v[vdst][lane] = pulled[lane]
    rig.run("ds", "ds_bpermute_b32", **fields)
    rig.check(expected)

    rig = Rig(gpu, 4)
    expected = rig.model()
    data, lanes = list(expected.v[8]), expected.lanes
    pushed = dict.fromkeys(range(64), 0)
    for lane in lanes:
        pushed[(expected.v[2][lane] + 12) // 4 % 64] = data[lane]
    for lane in lanes:
        expected.v[vdst][lane] = pushed[lane]
    rig.run("ds", "ds_permute_b32", **fields)
    rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(("name", "sign"), [("ds_append", 1), ("ds_consume", -1)])
@pytest.mark.parametrize("gds", [0, 1])
def test_append_and_consume(gpu: str, name: str, sign: int, gds: int) -> None:
    rig = Rig(gpu, 3)
    rig.set_s(M0, 0x0020_0040)
    at, space = (0x20, "gds") if gds else (0x40, "lds")
    expected = rig.model()
    held = expected.peek(space, at + 8, 4)
    expected.poke(space, at + 8, 4, held + sign * len(expected.lanes))
    for lane in expected.lanes:
        expected.v[20][lane] = held
    rig.run("ds", name, vdst=20, offset0=8, gds=gds)
    rig.check(expected)


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("exec_mask", [0xFF00, 0])
def test_ordered_count(code: int, exec_mask: int) -> None:
    rig = Rig("gfx803", 3, exec_mask)
    rig.set_s(M0, 0x0010_0000)
    expected = rig.model()
    held, value = expected.peek("gds", 0x18, 4), expected.v[2][8] if exec_mask else 0
    expected.poke("gds", 0x18, 4, value if code else held + value)
    for lane in expected.lanes:
        expected.v[20][lane] = held
    rig.run("ds", "ds_ordered_count", vdst=20, addr=2, offset0=8, offset1=code << 4, gds=1)
    rig.check(expected)


def test_ordered_wrap_is_beyond_the_model() -> None:
    with pytest.raises(BeyondModel, match=r"ds_ordered_count: operation 3 of offset1\[5:4\] is not modelled"):
        Rig("gfx803").run("ds", "ds_ordered_count", vdst=20, addr=2, offset1=0x30, gds=1)


@pytest.mark.parametrize("gpu", GPUS)
def test_global_wave_sync_is_beyond_the_model(gpu: str) -> None:
    names = mnemonics("ds", gpu, "gws")
    assert len(names) == 6
    for name in names:
        with pytest.raises(BeyondModel, match=f"{name}: global wave sync"):
            Rig(gpu).run("ds", name)


@pytest.mark.parametrize("gpu", GPUS)
def test_wrap(gpu: str) -> None:
    rig = Rig(gpu, 3)
    rig.set_v(2, rig.random(0, 64, 4))
    rig.set_v(8, rig.random(0, 20))
    rig.set_v(12, rig.random(0, 40))
    rig.lds.view(np.uint32)[:] = rig.rng.integers(0, 30, LDS // 4)
    expected = rig.model()
    for lane in expected.lanes:
        at = expected.v[2][lane] + 4
        m, a, b = expected.peek("lds", at, 4), expected.v[8][lane], expected.v[12][lane]
        expected.poke("lds", at, 4, m - a if m >= a else m + b)
        expected.v[2][lane] = m
    rig.run("ds", "ds_wrap_rtn_b32", addr=2, data0=8, data1=12, vdst=2, offset0=4)
    rig.check(expected)


@pytest.mark.parametrize(("gpu", "dwords"), [("gfx700", 2), ("gfx700", 4), ("gfx803", 2), ("gfx900", 2)])
def test_conditional_exchange(gpu: str, dwords: int) -> None:
    rig = Rig(gpu, 3)
    rig.set_v(2, 4 + 16 * np.arange(64))
    expected = rig.model()
    for lane in expected.lanes:
        at = (4 + 16 * lane + 3) // (4 * dwords) * (4 * dwords)
        for k in range(dwords):
            held, new = expected.peek("lds", at + 4 * k, 4), expected.v[8 + k][lane]
            if new >> 31:
                expected.poke("lds", at + 4 * k, 4, new & 0x7FFF_FFFF)
            expected.v[20 + k][lane] = held
    rig.run("ds", f"ds_condxchg32_rtn_b{32 * dwords}", addr=2, data0=8, vdst=20, offset0=3)
    rig.check(expected)


def test_addresses_by_lane() -> None:
    rig = Rig("gfx900", 3)
    rig.set_s(M0, 0xFFFF_0100)
    expected = rig.model()
    for lane in expected.lanes:
        expected.v[20][lane] = expected.peek("lds", 0x110 + 4 * lane, 4)
    rig.run("ds", "ds_read_addtid_b32", vdst=20, offset0=0x10)
    for lane in expected.lanes:
        expected.poke("lds", 0x204 + 4 * lane, 4, expected.v[8][lane])
    rig.run("ds", "ds_write_addtid_b32", data0=8, offset0=4, offset1=1)
    rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
def test_nothing_happens_without_lanes(gpu: str) -> None:
    rig = Rig(gpu, 3, exec_mask=0)
    expected = rig.model()
    for name in mnemonics("ds", gpu):
        if not re.search("gws|ordered", name):
            rig.run("ds", name, **FIELDS)
    rig.check(expected)
    assert rig.model().s[EXEC] == 0
