"""Programs that compilers got wrong: where ziglang's is right, both engines give what a few lines of Python do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from understudy.campaign.compilation import compile_generated
from understudy.campaign.generators.opencl import GRID
from understudy.campaign.perform import run_kernel
from understudy.campaign.task import Task
from understudy.host.compiling import named

FOLDER: Final = Path(__file__).parents[2] / "examples" / "campaigns" / "findings"
MASK: Final = (1 << 64) - 1
PRIME: Final = 0x9E37_79B9_7F4A_7C15


def numbers() -> list[int]:
    """What the kernels of generators get, computed anew."""
    found = []
    for n in range(GRID):
        state = (n + 1) * PRIME & MASK
        state ^= state >> 29
        found.append(state >> n % 60 & 0xFFFF_FFFF)
    return found


X: Final = numbers()


def signed(byte: int) -> int:
    return (byte & 255 ^ 128) - 128


def division(gid: int, x: int) -> int:
    if gid & 1:
        return (-(x & 7) & 0xFFFF_FFFF) // (x >> 3 & 0xFFFF | 1)
    return x % (signed(x) & MASK | 1)


def or_all_ones(gid: int, x: int) -> int:
    return MASK if gid & 127 == 0 or gid & 7 == 0 else 0


def or_upper_half(gid: int, x: int) -> int:
    other = X[(gid * 5 + 1) & 255]
    return (~x | (other & 0xFFFF ^ 0x8000) - 0x8000) & MASK


def lost_store(gid: int, x: int) -> int:
    product = 0x11C5_75CD_09DD_EDAC * 0xDF5_0CA5_1FC4_9D59
    hashed = 0
    for each in (0, product, 0, *(gid & 127, 0, 0) * 15):
        hashed = (hashed ^ each & MASK) * PRIME & MASK
    return hashed


def select_byte(gid: int, x: int) -> int:
    lid = gid & 127
    chosen = (x, 0, lid, 0) if gid == 0 else (x, lid, 0, 0)
    hashed = 0
    for each in chosen[:3]:
        hashed = (hashed ^ signed(each) & MASK) << 8 & MASK
    return hashed


def loop_condition(gid: int, x: int) -> int:
    lid, v, a = gid & 127, 0, [0] * 4
    for i in range(2):
        for _ in range(3):
            if float(v < gid) == lid:
                break
            v = int((np.float32(v) + np.float32(i)).view(np.uint32))
            a[lid & 3] = int(np.float32(lid if v > 0 else X[(gid * 5 + 1) & 255]).view(np.uint32))
    hashed = 0
    for each in (0, 0, 0, v & 255, *(part for value in a for part in (0, 0, value, 0))):
        hashed = (hashed ^ each) * PRIME & MASK
    return hashed


def insert_byte(gid: int, x: int) -> int:
    array = bytearray([x & 255] * 8)
    array[X[(gid * 5 + 1) & 255] & 7] = 0
    return int.from_bytes(array, "little")


def high_product(gid: int, x: int) -> int:
    return signed((signed(x) & 0xFFFF_FFFF) ** 2 >> 32) & MASK


def switch(gid: int, x: int) -> int:
    v1, v2, f = [0] * 4, 0, [0] * 4
    match gid & 7:
        case 0:
            v2 = -5 & MASK if x & 1 else 0
        case 2:
            v1[0] = gid & 127
        case 4:
            f[1] = 0x3FC0_0000
        case _:
            v2 = x.bit_count()
    hashed = 0
    for each in (*v1, v2, *f):
        hashed = (hashed ^ each) * PRIME & MASK
    return hashed


def endless_loop(gid: int, x: int) -> int:
    lid, other = gid & 127, X[(gid * 5 + 1) & 255]
    v = -7.0 if lid & 2 and not other & 1 else 0.0
    element = ~other if other & 1 and x else other
    hashed = 0
    for each in (0, int(np.float64(v).view(np.uint64)), (element & 0xFFFF_FFFF ^ 1 << 31) - (1 << 31), 0, 0, 0):
        hashed = (hashed ^ each & MASK) * PRIME & MASK
    return hashed


def reload(gid: int, x: int) -> int:
    return (gid & 1) << 16


PROGRAMS: Final[dict[str, tuple[Callable[[int, int], int], str]]] = {
    "division": (division, "-O1"),
    "or-all-ones": (or_all_ones, "-O0"),
    "or-upper-half": (or_upper_half, "-O2"),
    "lost-store": (lost_store, "-O1"),
    "select-byte": (select_byte, "-O1"),
    "loop-condition": (loop_condition, "-O1"),
    "insert-byte": (insert_byte, "-O1"),
    "high-product": (high_product, "-O1"),
    "switch": (switch, "-O0"),
    "endless-loop": (endless_loop, "-O1"),
    "reload": (reload, "-O0"),
}


def test_every_program_is_tested() -> None:
    assert {path.name.removesuffix(".opencl.cl") for path in FOLDER.iterdir()} == set(PROGRAMS)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("name", PROGRAMS)
def test_both_engines_give_what_is_right(name: str) -> None:
    if named("ziglang") is None:
        pytest.skip("ziglang is not installed")
    model, options = PROGRAMS[name]
    source = (FOLDER / f"{name}.opencl.cl").read_bytes()
    expected = np.array([model(gid, x) for gid, x in enumerate(X)], np.uint64)
    for agent in ("gfx803", "gfx900"):
        code = compile_generated(source, "opencl", agent, "ziglang", options).code
        for engine in ("jit", "reference"):
            found = run_kernel(code, agent, Task(name, "", engine=engine))
            assert (np.frombuffer(found.result[: 8 * GRID], np.uint64) == expected).all()
