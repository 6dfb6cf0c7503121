"""Loads whose address was loaded: which ones they are, and that a wrong guess of their memory changes nothing."""

from __future__ import annotations

import itertools
import struct

import pytest

from softcard.engine.riscv.api import LOAD_ACCESS, LOAD_MISALIGNED
from softcard.engine.riscv.jit.emit_region import chases
from softcard.engine.riscv.jit.region import discover
from tests.engine.riscv.rig import CODE, DATA, DATA_END, DEVICE, agree, fetcher

END = "bne x10, x0, loop"


def found(body: str) -> list[int]:
    """Return the numbers of the instructions of a loop with this body that are chases; all have four bytes."""
    region = discover(CODE, fetcher(f"loop: {body}\n{END}"))
    return sorted((pc - CODE) // 4 for pc in chases(region.blocks[CODE]))


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        ("ld x10, 0(x10)", [0]),
        ("ld x5, 8(x10)\nld x10, 0(x10)", [0, 1]),
        ("lwu x5, 0(x6)\nslli x5, x5, 3\nadd x7, x5, x8\nld x9, 0(x7)", [3]),
        ("ld x9, 0(x7)\nadd x7, x8, x9\nsd x9, 0(x7)", [0]),
        ("ld x5, 0(x6)\naddi x6, x6, 8", []),
        ("sd x5, 0(x5)\nld x5, 0(x6)", []),
        ("add x5, x6, x7\nld x5, 0(x5)\naddi x6, x6, 8", []),
        ("ld x0, 0(x6)\nld x5, 0(x0)", []),
    ],
)
def test_which_loads_they_are(body: str, numbers: list[int]) -> None:
    assert found(body) == numbers


def test_only_in_loops_of_one_block() -> None:
    region = discover(CODE, fetcher("ld x10, 0(x10)\nld x10, 0(x10)"))
    assert chases(region.blocks[CODE]) == frozenset()


def chain(*places: int) -> bytes:
    """Memory from DATA on where each place (in it) holds the next one."""
    memory = bytearray(0x4000)
    for here, following in itertools.pairwise(places):
        if DATA <= here < DATA + len(memory):
            memory[here - DATA : here - DATA + 8] = struct.pack("<Q", following)
    return bytes(memory)


LIST = f"loop: addi x6, x6, 1\nld x10, 0(x10)\n{END}"


def test_a_list_through_one_memory() -> None:
    places = [DATA + 8 * (k * 1021 % 2048) for k in range(200)]
    for outcome in agree(LIST, (100_000, 301), memory=chain(*places, 0), x10=DATA)[:1]:
        assert (outcome.x[6], outcome.x[10]) == (200, 0)


def test_a_list_that_goes_from_one_memory_to_another_and_back() -> None:
    """The second is that of the code; its words lead back."""
    other = CODE + 0x2000
    lay = "sd x21, 0(x20)\nsd x22, 8(x20)\nsd x0, 16(x20)\n"
    memory = bytearray(chain(DATA, other))
    memory[64:72], memory[128:136] = struct.pack("<Q", other + 8), struct.pack("<Q", other + 16)
    places = {"x20": other, "x21": DATA + 64, "x22": DATA + 128}
    outcome = agree(lay + LIST, (100_000,) * 4, memory=bytes(memory), x10=DATA, **places)[-1]
    assert (outcome.x[6], outcome.x[10]) == (6, 0)


@pytest.mark.parametrize(
    ("end", "cause"), [(DATA_END, LOAD_ACCESS), (DATA + 3, LOAD_MISALIGNED), (1 << 40, LOAD_ACCESS)]
)
def test_a_list_that_ends_badly(end: int, cause: int) -> None:
    for outcome in agree(LIST, (100_000,) * 3, memory=chain(DATA, DATA + 4096, end), x10=DATA):
        assert (outcome.cause, outcome.value, outcome.x[6]) == (cause, end, 3)


def test_a_list_through_registers_of_a_device() -> None:
    """They give 0 at first, which ends it."""
    outcome = agree(LIST, (100_000,) * 3, memory=chain(DATA, DATA + 8, DEVICE), x10=DATA)[0]
    assert [entry[:2] for entry in outcome.log] == [("read", 0)]
