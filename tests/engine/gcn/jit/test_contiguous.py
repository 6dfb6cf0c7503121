"""Accesses side by side, all at one place, and neither, of every width: in line or by helpers, the same."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
import pytest

from softcard.core.errors import SoftcardError
from softcard.core.space import Ram
from softcard.engine.gcn.jit.layout import chunk_lanes
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.ir import llvm
from tests.engine.gcn.programs import program
from tests.engine.gcn.rig import DATA, DATA_BYTES

WIDTHS = [lanes for lanes in (4, 8, 16) if lanes <= chunk_lanes(llvm.host_features())]
SIZES = {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}
LOADS = {"byte": "ubyte", "short": "sshort"}
SHARE = {"byte": "b8", "short": "b16", "dword": "b32", "dwordx2": "b64", "dwordx3": "b96", "dwordx4": "b128"}
SHARE_LOADS = {"byte": "i8", "short": "u16"}
PLACES = ("side by side", "one place", "backwards", "two runs", "swizzled", "overlapping")
MASKS = ("-1", "0", "0xff", "0xfffffffe", "0x7f0f0f0f")
FROM, TO = 0x1000, 0x8000

every_lanes = pytest.mark.parametrize("lanes", WIDTHS)
every_size = pytest.mark.parametrize("width", SIZES)
every_place = pytest.mark.parametrize("place", PLACES)


@cache
def jit(lanes: int) -> JitEngine:
    """One for all tests of a width."""
    return JitEngine(threads=1, tier=Tier.THREADED, lanes=lanes)


def offsets(place: str, size: int) -> str:
    """v1 = where each lane accesses, from 0 on."""
    by_lane = f"v_mul_u32_u24_e32 v1, {size}, v0"
    return {
        "side by side": by_lane,
        "one place": f"v_mov_b32_e32 v1, {3 * size}",
        "backwards": f"v_sub_u32_e32 v1, 63, v0 | v_mul_u32_u24_e32 v1, {size}, v1",
        "swizzled": f"v_xor_b32_e32 v1, 21, v0 | v_mul_u32_u24_e32 v1, {size}, v1",
        "overlapping": "v_lshlrev_b32_e32 v1, 2, v0",
        "two runs": f"{by_lane} | v_cmp_lt_u32_e32 vcc, 37, v0 | v_addc_co_u32_e32 v1, vcc, 0, v1, vcc",
    }[place]


def outcomes(text: str, engine: JitEngine | None = None, name: str = "gfx900") -> list[tuple[str, bytes]]:
    """How a program ends, and what it leaves behind: on the reference, or twice on the JIT, which then knows memory.

    Memory is not compared where a store faults: chunks before it may be stored.
    """
    dispatch = program(text, name, lds_bytes=2048)
    data = dispatch.memory.plain(DATA, DATA_BYTES)
    assert data is not None
    run = (lambda: ReferenceEngine().run(dispatch)) if engine is None else engine.prepare(dispatch).run
    found = []
    for _ in range(1 if engine is None else 2):
        data.bytes[:] = np.random.default_rng(1).integers(0, 256, DATA_BYTES, dtype=np.uint8)
        try:
            end = str(run().instructions)
        except SoftcardError as error:
            found.append((str(error), b""))
        else:
            found.append((end, bytes(data.view)))
    return found


@lru_cache(maxsize=16)
def on_reference(text: str) -> tuple[str, bytes]:
    """The same for all widths, which follow each other."""
    (expected,) = outcomes(text)
    return expected


def same(lanes: int, lines: list[str], ok: bool = True) -> None:
    """Both engines end alike."""
    text = " | ".join([*lines, "s_endpgm"])
    expected = on_reference(text)
    assert expected[0].isdigit() is ok, expected[0]
    assert outcomes(text, jit(lanes)) == [expected, expected]


def show(size: int) -> list[str]:
    """Every lane stores the dwords from v10 on, far from each other."""
    lines = ["s_mov_b64 exec, -1", f"v_lshlrev_b32_e32 v8, 4, v0 | v_add_u32_e32 v8, {DATA + TO:#x}, v8"]
    return [*lines, *(f"global_store_dword v[8:9], v{10 + n}, off offset:{4 * n}" for n in range(max(size // 4, 1)))]


def filled(size: int) -> list[str]:
    """v10 on: something of every lane."""
    return [f"v_mul_u32_u24_e32 v{10 + n}, 0x{n + 1}0305, v0" for n in range(max(size // 4, 1))]


def registers(size: int) -> str:
    return "v10" if size <= 4 else f"v[10:{9 + size // 4}]"


@pytest.mark.one_in(5)
@every_lanes
@every_size
@every_place
@pytest.mark.parametrize("family", ["global", "flat"])
def test_loads(lanes: int, width: str, place: str, family: str) -> None:
    size = SIZES[width]
    off = ", off" if family == "global" else ""
    for mask in MASKS:
        lines = [
            *filled(size), "v_mov_b32_e32 v9, 0 | v_mov_b32_e32 v2, 0", offsets(place, size),
            f"v_add_u32_e32 v1, {DATA + FROM:#x}, v1", f"s_mov_b64 exec, {mask}",
            f"{family}_load_{LOADS.get(width, width)} {registers(size)}, v[1:2]{off}", *show(size),
        ]  # fmt: skip
        same(lanes, lines)


@pytest.mark.one_in(5)
@every_lanes
@every_size
@every_place
@pytest.mark.parametrize("family", ["global", "flat"])
def test_stores(lanes: int, width: str, place: str, family: str) -> None:
    size = SIZES[width]
    off = ", off" if family == "global" else ""
    for mask in MASKS:
        lines = [
            *filled(size), "v_mov_b32_e32 v2, 0", offsets(place, size), f"v_add_u32_e32 v1, {DATA + FROM:#x}, v1",
            f"s_mov_b64 exec, {mask}", f"{family}_store_{width} v[1:2], {registers(size)}{off}",
        ]  # fmt: skip
        same(lanes, lines)


@every_lanes
@every_size
@every_place
def test_share(lanes: int, width: str, place: str) -> None:
    """LDS, whose end the lanes reach: what lies beyond it reads 0."""
    size = SIZES[width]
    for mask, base in (("-1", 0), ("0x7f0f0f0f", 64), ("-1", 2048 - 40 * size), ("-1", 2048 - 4 * size)):
        lines = [
            *filled(size), "v_mov_b32_e32 v9, 0", offsets(place, size), f"v_add_u32_e32 v1, {base}, v1",
            f"s_mov_b64 exec, {mask}", f"ds_write_{SHARE[width]} v1, {registers(size)}",
            "s_mov_b64 exec, -1", f"ds_read_{SHARE_LOADS.get(width, SHARE[width])} {registers(size)}, v1", *show(size),
        ]  # fmt: skip
        same(lanes, lines)


@every_lanes
@every_size
@pytest.mark.parametrize("kind", ["load", "store"])
def test_the_end_of_memory(lanes: int, width: str, kind: str) -> None:
    """The last chunk that fits, and the first that does not, where the lanes beyond are active or not."""
    size = SIZES[width]
    name = LOADS.get(width, width) if kind == "load" else width
    data = f"{registers(size)}, v[1:2]" if kind == "load" else f"v[1:2], {registers(size)}"
    for beyond in (0, 1, 5, 64):
        for mask in ("-1", "0xffff", "1"):
            begin = DATA + DATA_BYTES - (64 - beyond) * size
            lines = [
                *filled(size), "v_mov_b32_e32 v2, 0", offsets("side by side", size),
                f"v_add_u32_e32 v1, {begin:#x}, v1", f"s_mov_b64 exec, {mask}", f"global_{kind}_{name} {data}, off",
            ]  # fmt: skip
            active = {"-1": 64, "0xffff": 16, "1": 1}[mask]
            same(lanes, lines, ok=active <= 64 - beyond)


BORDER = 1 << 32
AROUND = 0x2000
"""Memory that lies on both sides of an address whose lower half is 0."""


@every_lanes
@pytest.mark.parametrize(
    ("base", "index"),
    [
        (BORDER - 0x80, 0),  # the sum wraps around inside a chunk or between two
        (BORDER - 0x84, 0),
        (BORDER - 0x40, -0x40),  # so does the index, which is negative
        (BORDER + 0x1000, -0x20),
        (BORDER + 0x20, -0x40),  # both
        (BORDER - 0x1000, 0x800),
        (0x800, BORDER - 0x10),  # the index gets an upper half inside a chunk
    ],
)
@pytest.mark.parametrize("step", [0, 4, 8])
def test_sums_that_carry(lanes: int, base: int, index: int, step: int) -> None:
    """base + index + step * lane in 64 bits, from halves, as compilers write it."""
    first = index & (1 << 64) - 1
    text = f"""
    s_mov_b32 s4, {base & 0xFFFF_FFFF:#x}
    s_mov_b32 s5, {base >> 32}
    v_mul_u32_u24_e32 v1, {step}, v0
    v_mov_b32_e32 v6, {first & 0xFFFF_FFFF:#x}
    v_add_co_u32_e32 v1, vcc, v6, v1
    v_mov_b32_e32 v2, {first >> 32:#x}
    v_addc_co_u32_e32 v2, vcc, 0, v2, vcc
    v_add_co_u32_e32 v3, vcc, s4, v1
    v_mov_b32_e32 v4, s5
    v_addc_co_u32_e32 v4, vcc, v4, v2, vcc
    global_load_dword v10, v[3:4], off
    v_lshlrev_b32_e32 v8, 2, v0
    v_add_u32_e32 v8, {DATA:#x}, v8
    v_mov_b32_e32 v9, 0
    global_store_dword v[8:9], v10, off
    v_add_u32_e32 v11, 7, v0
    global_store_dword v[3:4], v11, off
    s_endpgm
    """
    found = []
    for run in (ReferenceEngine().run, jit(lanes).run):
        dispatch = program(text)
        ram = Ram(2 * AROUND)
        array = np.frombuffer(ram.view, np.uint32)
        array[:] = np.arange(len(array))
        dispatch.memory.map(BORDER - AROUND, ram)
        run(dispatch)
        run(dispatch)
        found.append((dispatch.memory.read(DATA, 256), array.tolist()))
    assert found[0] == found[1]
    at = [(base + index + step * lane - BORDER + AROUND) & (1 << 64) - 1 for lane in range(64)]
    assert [found[0][1][offset // 4] for offset in at] == [7 + (63 if step == 0 else lane) for lane in range(64)]


LOADED = f"""
global_load_dword v10, v[3:4], off
v_lshlrev_b32_e32 v8, 2, v0
v_add_u32_e32 v8, {DATA:#x}, v8
v_mov_b32_e32 v9, 0
global_store_dword v[8:9], v10, off
s_endpgm
"""
NO_CARRY = f"""
s_mov_b32 s4, 0xffff{0x1_0000 - AROUND:x}
v_lshlrev_b32_e32 v1, 2, v0
v_add_u32_e32 v1, 0xffffff08, v1    ; wraps around at lane 62, and nobody carries
v_add_co_u32_e32 v3, vcc, s4, v1
v_mov_b32_e32 v4, s0                ; 0, but who knows
v_addc_co_u32_e32 v4, vcc, 0, v4, vcc
"""
OTHER_CARRY = f"""
s_mov_b32 s4, 0xffff{0x1_0000 - AROUND:x}
v_lshlrev_b32_e32 v1, 2, v0
v_add_co_u32_e32 v3, vcc, s4, v1
v_mov_b32_e32 v4, s0                ; 0, but who knows
v_cmp_lt_u32_e32 vcc, 31, v0        ; the carry of something else
v_addc_co_u32_e32 v4, vcc, 0, v4, vcc
"""


@every_lanes
@pytest.mark.parametrize(
    ("text", "lanes_above"), [(NO_CARRY, range(62)), (OTHER_CARRY, range(32, 64))], ids=["none", "other"]
)
def test_sums_with_another_carry(lanes: int, text: str, lanes_above: range) -> None:
    """Some lanes are 4 GiB above the others."""
    dispatch = program(text + LOADED)
    for place, value in ((0, 1), (BORDER, 2)):
        ram = Ram(2 * AROUND)
        np.frombuffer(ram.view, np.uint32)[:] = value
        dispatch.memory.map(BORDER - AROUND + place - 4096, ram)
    for run in (ReferenceEngine().run, jit(lanes).run, jit(lanes).run):
        run(dispatch)
        found = np.frombuffer(dispatch.memory.read(DATA, 256), np.uint32)
        assert found.tolist() == [1 + (lane in lanes_above) for lane in range(64)]
