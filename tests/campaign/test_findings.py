"""Programs that compilers got wrong: where ziglang's is right, both engines give what a few lines of Python do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from softcard.campaign.compilation import compile_generated
from softcard.campaign.generators.opencl import GRID
from softcard.campaign.perform import perform, run_generated, run_kernel
from softcard.campaign.task import Task
from softcard.campaign.triage import groups
from softcard.campaign.worker import row_of
from softcard.host.compiling import named

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


def towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def least_divided(gid: int, x: int) -> int:
    y = 0xFFFF_FFFF if gid & 2 else x | 0x1001_0001
    if gid & 1:
        x = 0x8800_8080
    c = (x >> 16 ^ 0x8000) - 0x8000
    if gid & 1:
        c = -0x8000
    pairs = (signed(x), signed(y)), (c, (y >> 16 ^ 0x8000) - 0x8000), ((x >> 28 ^ 8) - 8, (y >> 28 ^ 8) - 8)
    return sum((towards_zero(a, b) & 0xFFFF_FFFF) << 20 * n for n, (a, b) in enumerate(pairs)) & MASK


def float_remainder(gid: int, x: int) -> int:
    return 7 * (gid & 127) + 0xFFFF_FFFB % ((gid & 63) + 1)


def division_24(gid: int, x: int) -> int:
    return (0xE3170D - (gid & 0x80)) // 0xC32


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
    "float-remainder": (float_remainder, "-O1"),
    "division-24": (division_24, "-O0"),
    "least-divided": (least_divided, ""),
}
"""The results that are right, and options with which ziglang's compiler has them; "" where no options do."""


def test_every_program_is_tested() -> None:
    assert {path.name.removesuffix(".opencl.cl") for path in FOLDER.iterdir()} == set(PROGRAMS)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("name", [name for name, (_, options) in PROGRAMS.items() if options])
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


@pytest.mark.slow
@pytest.mark.oracle
def test_this_machine_gives_what_is_right() -> None:
    """All compilers for AMD GPUs agree about some wrong results: the campaign reports them all."""
    if named("ziglang") is None:
        pytest.skip("ziglang is not installed")
    rows = []
    for name in ("least-divided", "division-24", "reload"):
        model, _ = PROGRAMS[name]
        source = (FOLDER / f"{name}.opencl.cl").read_bytes()
        own = Task(f"{name}.opencl.cl", "", engine="native")
        found, compiled = run_generated(own, source)
        expected = np.array([model(gid, x) for gid, x in enumerate(X)], np.uint64)
        assert (np.frombuffer(found.result[: 8 * GRID], np.uint64) == expected).all()
        assert compiled is not None
        assert "clang version" in compiled.version
        both = [
            own,
            *(
                replace(own, agent="gfx900", compiler="ziglang", options=options, engine="jit")
                for options in ("-O0", "-O2")
            ),
        ]
        rows += [row_of(task, 0) | perform(task, source, run_generated) for task in both]
    found_groups = {group.signature: [each.row["options"] for each in group.failures] for group in groups(rows)}
    assert found_groups == {
        "least-divided.opencl.cl differs: gfx900 ziglang -O0, gfx900 ziglang -O2 against native": ["-O0", "-O2"],
        "division-24.opencl.cl differs: gfx900 ziglang -O2 against native": ["-O2"],
    }
