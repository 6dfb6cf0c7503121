"""FLAT, GLOBAL and SCRATCH against lane-by-lane oracles written from the manuals."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from softcard.core.errors import AccessFault
from softcard.isa.gcn.insn import Insn
from tests.isa.gcn.semantics.memory_rig import (
    BASE,
    FULL,
    GPUS,
    LANE_BYTES,
    M0,
    PRIVATE,
    SHARED,
    SIZE,
    Model,
    Rig,
    mnemonics,
)

WIDTH = {
    "ubyte": 8, "sbyte": 8, "byte": 8, "ushort": 16, "sshort": 16, "short": 16,
    "dword": 32, "dwordx2": 64, "dwordx3": 96, "dwordx4": 128,
}  # fmt: skip


def signed(w: int, n: int) -> int:
    return n - (1 << w) if n >> w - 1 else n


def as_float(w: int, n: int) -> float:
    return float(struct.unpack("<f" if w == 32 else "<d", n.to_bytes(w // 8, "little"))[0])


# fmt: off
ATOMIC: dict[str, Callable[[int, int, int, int], int]] = {
    # name: memory after, from width, memory, data, second data
    "swap":     lambda w, m, d, c: d,
    "cmpswap":  lambda w, m, d, c: d if m == c else m,
    "add":      lambda w, m, d, c: m + d,
    "sub":      lambda w, m, d, c: m - d,
    "smin":     lambda w, m, d, c: min(signed(w, m), signed(w, d)),
    "smax":     lambda w, m, d, c: max(signed(w, m), signed(w, d)),
    "umin":     lambda w, m, d, c: min(m, d),
    "umax":     lambda w, m, d, c: max(m, d),
    "and":      lambda w, m, d, c: m & d,
    "or":       lambda w, m, d, c: m | d,
    "xor":      lambda w, m, d, c: m ^ d,
    "inc":      lambda w, m, d, c: m + 1 if m < d else 0,
    "dec":      lambda w, m, d, c: m - 1 if m <= d and m != 0 else d,
    "fcmpswap": lambda w, m, d, c: d if as_float(w, m) == as_float(w, c) else m,
    "fmin":     lambda w, m, d, c: d if as_float(w, d) < as_float(w, m) else m,
    "fmax":     lambda w, m, d, c: d if as_float(w, d) > as_float(w, m) else m,
}
# fmt: on


def loaded(name: str, memory: int, old: int) -> int:
    """Return the register value after loading `memory`, by the type in the mnemonic."""
    kind, _, half = name.partition("_d16")
    w = WIDTH[kind]
    value = signed(w, memory) if kind[0] == "s" and kind != "short" else memory
    if "d16" in name:
        return old & 0xFFFF | (value & 0xFFFF) << 16 if half == "_hi" else old & 0xFFFF_0000 | value & 0xFFFF
    return value & (1 << max(w, 32)) - 1


def oracle(m: Model, insn: Insn, address: Callable[[int], tuple[str, int]]) -> None:
    """Loads, stores and atomics by mnemonic; `address` of a lane: space and place."""
    _, verb, kind = insn.name.split("_", 2)
    for lane in m.lanes:
        space, at = address(lane)
        if verb == "load":
            w = WIDTH[kind.partition("_d16")[0]]
            old = m.wide(insn["vdst"], lane, max(w // 32, 1))
            m.set_wide(insn["vdst"], lane, max(w // 32, 1), loaded(kind, m.peek(space, at, w // 8), old))
        elif verb == "store":
            w = WIDTH[kind.partition("_d16")[0]]
            value = m.wide(insn["data"], lane, max(w // 32, 1)) >> (16 if "d16_hi" in kind else 0)
            m.poke(space, at, w // 8, value)
        else:
            atomic(m, insn, lane, space, at)


def atomic(m: Model, insn: Insn, lane: int, space: str, at: int) -> None:
    kind = insn.name.split("_")[2]
    n = 2 if insn.name.endswith("_x2") else 1
    held = m.peek(space, at, 4 * n)
    data, second = m.wide(insn["data"], lane, n), m.wide(insn["data"] + n, lane, n)
    m.poke(space, at, 4 * n, ATOMIC[kind](32 * n, held, data, second))
    if insn["glc"]:
        m.set_wide(insn["vdst"], lane, n, held)


def close_values(rig: Rig, register: int) -> None:
    """Make data and memory small and often equal, so that comparisons go both ways."""
    rig.ram[:] = np.tile(np.array([0, 0, 0x80, 0x3F, 0, 0, 0xF0, 0x3F], np.uint8), SIZE // 8)
    rig.ram[::3] &= 0x81
    for k in range(4):
        rig.set_v(
            register + k, rig.rng.choice([0, 1, 0x3F80_0000, 0x3FF0_0000, 0x8000_0000, 0x7FC0_0000, 0xBF80_0000], 64)
        )


def addresses(rig: Rig, size: int, step: int) -> np.ndarray:
    """Random places, several lanes at the same one."""
    return BASE + rig.random(64, SIZE - 64 - size, step)


@pytest.mark.parametrize("glc", [0, 1])
@pytest.mark.parametrize("gpu", GPUS)
def test_every_flat_operation_at_global_addresses(subtests: pytest.Subtests, gpu: str, glc: int) -> None:
    for seed, name in enumerate(mnemonics("flat", gpu)):
        with subtests.test(name):
            rig = Rig(gpu, seed * 2 + glc)
            is_atomic = "atomic" in name
            if is_atomic and glc:
                close_values(rig, 8)
            at = addresses(rig, 16, 8 if is_atomic else 1)
            offset = 0 if gpu != "gfx900" or is_atomic else 37
            rig.set_v64(2, at)
            fields = {"addr": 2, "data": 8, "vdst": 2 if glc else 20, "glc": glc if is_atomic else 0, "offset": offset}
            expected, insn = rig.model(), rig.insn("flat", name, **fields)
            oracle(expected, insn, lambda lane, at=at, offset=offset: ("global", int(at[lane]) + offset))
            rig.run("flat", name, **fields)
            rig.check(expected)


@pytest.mark.parametrize("saddr", [0x7F, 10])
def test_every_global_operation(subtests: pytest.Subtests, saddr: int) -> None:
    for seed, name in enumerate(mnemonics("global", "gfx900")):
        with subtests.test(name):
            rig = Rig("gfx900", seed)
            step = 8 if "atomic" in name else 1
            if saddr == 0x7F:
                at = addresses(rig, 16, step)
                rig.set_v64(2, at)
            else:
                far = rig.random(0x8000_0000, 0x8000_0000 + SIZE - 256, step)
                rig.set_s64(10, BASE + 64 - 0x8000_0000)
                rig.set_v(2, far)
                at = BASE + 64 - 0x8000_0000 + far
            fields = {"addr": 2, "data": 8, "vdst": 20, "glc": int("atomic" in name), "offset": -64, "saddr": saddr}
            expected, insn = rig.model(), rig.insn("global", name, **fields)
            oracle(expected, insn, lambda lane, at=at: ("global", int(at[lane]) - 64))
            rig.run("global", name, **fields)
            rig.check(expected)


def private_place(lane: int, offset: int) -> int:
    """Return the address of a private byte: dwords of the lanes are adjacent."""
    return offset // 4 * 256 + lane * 4 + offset % 4


class Private(Model):
    """Private memory of a lane, seen in the lane's own order."""

    lane = 0

    def peek(self, space: str, address: int, size: int) -> int:
        if space != "private":
            return super().peek(space, address, size)
        parts = (super(Private, self).peek("private", private_place(self.lane, address + k), 1) for k in range(size))
        return sum(part << 8 * k for k, part in enumerate(parts))

    def poke(self, space: str, address: int, size: int, value: int) -> None:
        if space != "private":
            return super().poke(space, address, size, value)
        for k in range(size):
            super().poke("private", private_place(self.lane, address + k), 1, value >> 8 * k & 0xFF)
        return None


@pytest.mark.parametrize("saddr", [0x7F, 11])
def test_every_scratch_operation(subtests: pytest.Subtests, saddr: int) -> None:
    for seed, name in enumerate(mnemonics("scratch", "gfx900")):
        with subtests.test(name):
            rig = Rig("gfx900", seed)
            at = rig.random(32, LANE_BYTES - 32, 1)
            if saddr != 0x7F:
                at[:] = at[0]
                rig.set_s(11, int(at[0]))
            else:
                rig.set_v(2, at)
            fields = {"addr": 2, "data": 8, "vdst": 20, "offset": -7, "saddr": saddr}
            expected, insn = Private(rig), rig.insn("scratch", name, **fields)

            def place(lane: int, at: np.ndarray = at, expected: Private = expected) -> tuple[str, int]:
                expected.lane = lane
                return "private", int(at[lane]) - 7

            oracle(expected, insn, place)
            rig.run("scratch", name, **fields)
            rig.check(expected)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", ["flat_load_dwordx2", "flat_store_dword", "flat_load_ubyte", "flat_atomic_add"])
def test_apertures_send_each_lane_to_its_memory(gpu: str, name: str) -> None:
    rig = Rig(gpu, 5)
    spaces = rig.rng.choice(3, 64)
    low = rig.random(0, LANE_BYTES - 16, 4)
    rig.set_v64(2, np.choose(spaces, [BASE + low, SHARED + low, PRIVATE + low]))
    fields = {"addr": 2, "data": 8, "vdst": 20, "glc": 0}
    expected, insn = Private(rig), rig.insn("flat", name, **fields)

    def place(lane: int) -> tuple[str, int]:
        expected.lane = lane
        space = ("global", "lds", "private")[spaces[lane]]
        return space, int(low[lane]) + (BASE if space == "global" else 0)

    oracle(expected, insn, place)
    rig.run("flat", name, **fields)
    rig.check(expected)


@pytest.mark.parametrize("name", ["ubyte", "sbyte", "ushort", "sshort", "dword"])
def test_lds_flag_loads_to_lds_by_lane(name: str) -> None:
    rig = Rig("gfx900", 3)
    at = addresses(rig, 4, 1)
    rig.set_v64(2, at)
    rig.set_s(M0, 0xABCD_0100)
    expected = rig.model()
    for lane in expected.lanes:
        value = loaded(name, expected.peek("global", int(at[lane]) + 12, WIDTH[name] // 8), 0)
        expected.poke("lds", 0x100 + 12 + 4 * lane, 4, value)
    rig.run("global", f"global_load_{name}", addr=2, vdst=20, lds=1, offset=12)
    rig.check(expected)


def test_tfe_writes_a_zero_behind_the_data() -> None:
    rig = Rig("gfx803", 1)
    rig.set_v64(2, addresses(rig, 4, 4))
    expected = rig.model()
    oracle(expected, rig.insn("flat", "flat_load_dword", addr=2, vdst=20), lambda n: ("global", expected.wide(2, n, 2)))
    for lane in expected.lanes:
        expected.v[21][lane] = 0
    rig.run("flat", "flat_load_dword", addr=2, vdst=20, tfe=1)
    rig.check(expected)


def test_inactive_lanes_reach_no_memory_and_no_register() -> None:
    rig = Rig("gfx900", 2, exec_mask=0)
    expected = rig.model()
    for name in mnemonics("global", "gfx900"):
        rig.run("global", name, addr=2, data=8, vdst=20, glc=1)
    rig.check(expected)


def test_a_bad_address_names_the_first_lane_and_changes_nothing() -> None:
    rig = Rig("gfx900", 2, exec_mask=FULL)
    at = addresses(rig, 8, 8)
    at[17] = at[40] = 0x5000
    rig.set_v64(2, at)
    expected = rig.model()
    for name in ("global_load_dwordx2", "global_store_dword", "global_atomic_add"):
        with pytest.raises(AccessFault, match=r"0x5000.*at lane 17"):
            rig.run("global", name, addr=2, data=8, vdst=20, glc=1)
    rig.check(expected)


def test_registers_beyond_the_last_are_not_written_and_read_as_register_0() -> None:
    rig = Rig("gfx900", 4)
    rig.set_v64(2, BASE + 16 * np.arange(64))
    rig.run("global", "global_load_dwordx4", addr=2, vdst=254)
    memory, lane = rig.model(), int(np.flatnonzero(np.asarray(rig.lanes.current.exec))[0])
    assert int(rig.wave.vgpr[254, lane]) == memory.peek("global", BASE + 16 * lane, 4)
    assert int(rig.wave.vgpr[255, lane]) == memory.peek("global", BASE + 16 * lane + 4, 4)
    rig.run("global", "global_store_dwordx4", addr=2, data=255)
    assert rig.model().peek("global", BASE + 16 * lane + 4, 4) == memory.v[0][lane]


@pytest.mark.parametrize(("offset", "expected"), [(4096 + 12, 12), (4096, 0), (4095, 4095), (8191, 4095)])
def test_flat_ignores_the_highest_bit_of_its_offset(offset: int, expected: int) -> None:
    for name in ("flat_load_dword", "flat_store_byte", "flat_atomic_add"):
        rig = Rig("gfx900", offset)
        at = BASE + 4 * np.arange(64, dtype=np.uint64) + 4 - expected % 4
        rig.set_v64(2, at)
        fields = {"addr": 2, "data": 8, "vdst": 20, "offset": offset}
        wanted = rig.model()
        oracle(wanted, rig.insn("flat", name, **fields), lambda lane, at=at: ("global", int(at[lane]) + expected))
        rig.run("flat", name, **fields)
        rig.check(wanted)


def test_global_has_all_bits_of_its_offset() -> None:
    rig = Rig("gfx900", 1)
    at = BASE + 64 + 4 * np.arange(64, dtype=np.uint64)
    rig.set_v64(2, at)
    expected = rig.model()
    fields = {"addr": 2, "vdst": 20, "offset": -4}
    oracle(expected, rig.insn("global", "global_load_dword", **fields), lambda lane: ("global", int(at[lane]) - 4))
    rig.run("global", "global_load_dword", **fields)
    rig.check(expected)
