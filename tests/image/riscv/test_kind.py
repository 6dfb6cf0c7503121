"""Kinds of ELF file: what is refused and why, and what position-independent ones need."""

from __future__ import annotations

import random
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.errors import WireError
from softcard.host.refsi.refsi import RefSi
from softcard.image.riscv.kind import loadable
from softcard.image.riscv.program import read_elf
from tests.host.programs import ET_DYN, program

BASE = 0x1_0000
DATA = 0x4000
"""The address at which the tables of the files here are linked; code is at 0x1000."""
TEXT = "auipc t0, 0x3; ld t1, 0(t0); ld t1, 0(t1); sd t1, 0(a1)"
"""Code that loads through the pointer at DATA, 0x3000 after the code."""
NULL = struct.pack("<QQ", 0, 0)


def load(data: bytes, base: int = BASE) -> object:
    return loadable(read_elf(data), data, base)


def rela(*entries: tuple[int, int, int]) -> bytes:
    return b"".join(struct.pack("<QQq", *entry) for entry in entries)


def pie(relocations: bytes, tags: list[tuple[int, int]], pointer: int = 0, base: int = 0x1000) -> bytes:
    """A position-independent file: a pointer and the number 42, then relocations, then the dynamic section."""
    at = base + 0x3000
    table = at + 16
    dynamic = table + len(relocations)
    section = b"".join(struct.pack("<QQ", tag, value) for tag, value in tags) + NULL
    data = struct.pack("<QQ", pointer, 42) + relocations + section
    return program(TEXT, base=base, kind=ET_DYN, segments=[(at, data)], dynamic=dynamic)


def with_rela(*entries: tuple[int, int, int]) -> bytes:
    table = rela(*entries)
    return pie(table, [(7, DATA + 16), (8, len(table)), (9, 24)])


def packed(*words: int) -> bytes:
    table = struct.pack(f"<{len(words)}Q", *words)
    return pie(table, [(36, DATA + 16), (35, len(table)), (37, 8)], pointer=DATA + 8)


@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
@pytest.mark.parametrize(
    "data", [with_rela((DATA, 3, DATA + 8)), with_rela((0, 0, 0), (DATA, 3, DATA + 8)), packed(DATA)]
)
def test_position_independent_files_run(data: bytes, profile: str) -> None:
    with RefSi.open(profile=profile) as device:
        loaded = device.load_elf(data)
        assert loaded.kernel("kernel").entry == 0x1_1000
        out = device.zeros(1, np.int64)
        device.launch("kernel", 1, [out])
        assert out.array[0] == 42


def test_a_file_linked_high_stays() -> None:
    base = 0x2_1000
    table = rela((base + 0x3000, 3, base + 0x3008))
    data = pie(table, [(7, base + 0x3010), (8, len(table)), (9, 24)], base=base)
    with RefSi.open() as device:
        assert device.load_elf(data).kernel("kernel").entry == base
        out = device.zeros(1, np.int64)
        device.launch("kernel", 1, [out])
        assert out.array[0] == 42


def test_bitmaps_reach_the_words_behind() -> None:
    data = pie(
        struct.pack("<4Q", 0x5000, 1 | 1 << 1 | 1 << 3, 1 | 1 << 63, 0x5000),
        [(36, DATA + 16), (35, 24), (37, 8)],
    )
    words = bytearray(8 * 200)
    whole = program(
        TEXT,
        base=0x1000,
        kind=ET_DYN,
        segments=[(DATA, bytes(data_of(data))), (0x5000, bytes(words))],
        dynamic=DATA + 48,
    )
    image = loadable(read_elf(whole), whole, BASE)
    found = np.frombuffer(image.segments[2].data, np.uint64)
    assert np.flatnonzero(found).tolist() == [0, 1, 3, 63 + 63]
    assert set(found[[0, 1, 3, 126]]) == {BASE}


def data_of(file: bytes) -> bytes:
    return read_elf(file).segments[1].data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (with_rela((DATA, 2, 0)), "R_RISCV_64 at 0x4000 needs a dynamic loader, which no device has"),
        (with_rela((DATA, 3, 0), (DATA, 5, 0)), "R_RISCV_JUMP_SLOT at 0x4000 needs a dynamic loader"),
        (with_rela((DATA, 58, 0)), "R_RISCV_IRELATIVE at 0x4000"),
        (with_rela((DATA, 200, 0)), "relocation 200 at 0x4000"),
        (
            with_rela((0x9000_0000, 3, 0)),
            "a relocation of 8 bytes at 0x90000000 lies outside of the bytes of all segments",
        ),
        (with_rela((0, 3, 0)), "a relocation of 8 bytes at 0x0 lies outside of the bytes of all segments"),
        (packed(0x9000_0000), "a relocation of 8 bytes at 0x90000000"),
        (pie(b"", [(7, 0x9000), (8, 24)]), "relocations at 0x9000..0x9018 lie outside of the bytes of all segments"),
        (pie(b"", [(7, DATA), (8, 1 << 40)]), "lie outside of the bytes of all segments"),
        (pie(b"", [(23, 0x9000), (2, 24)]), "relocations at 0x9000..0x9018"),
        (pie(b"", [(9, 12)]), "DT_RELAENT is 0xc, expected 0x18"),
        (packed(*[DATA, *[(1 << 64) - 1] * 3]), "a relocation of 8 bytes at"),
    ],
)
def test_refusals(data: bytes, message: str) -> None:
    with pytest.raises(WireError) as caught:
        load(data)
    assert message in str(caught.value)
    assert "at byte 0x" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (1, "e_type is 0x1, expected 2 (executable) or 3 (position-independent): this is a relocatable object: link"),
        (1, "link it, for instance with ld.lld --image-base=0x10000, at byte 0x10"),
        (4, "a core dump: load the program that it came from, at byte 0x10"),
        (0, "not a program, at byte 0x10"),
        (0xFE00, "e_type is 0xfe00"),
    ],
)
def test_kinds(kind: int, message: str) -> None:
    data = program(TEXT, kind=kind)
    with RefSi.open(engine="reference") as device, pytest.raises(WireError) as caught:
        device.load_elf(data)
    assert message in str(caught.value)


def test_32_bit_files() -> None:
    head = struct.pack("<HHIIIIIHHHHHH", 2, 243, 1, 0x10000, 52, 0, 0, 52, 32, 0, 40, 0, 0)
    with RefSi.open(engine="reference") as device, pytest.raises(WireError) as caught:
        device.load_elf(b"\x7fELF\x01\x01\x01" + bytes(9) + head)
    expected = "EI_CLASS is 1 (32-bit), expected 2 (64-bit): compile with -march=rv64gc -mabi=lp64d, at byte 0x4"
    assert expected in str(caught.value)


def test_a_dynamic_section_behind_the_file() -> None:
    data = bytearray(with_rela((DATA, 3, 0)))
    header = 64 + 2 * 56
    struct.pack_into("<Q", data, header + 32, 1 << 40)
    with pytest.raises(WireError, match=r"dynamic section at 0x\w+\.\.0x\w+ exceeds the file's .*, at byte 0xb0"):
        load(bytes(data))


def test_more_relocations_than_bytes() -> None:
    """A small table of bitmaps cannot make much work."""
    words = [word for _ in range(300) for word in (DATA, *[(1 << 64) - 1] * 40)]
    table = struct.pack(f"<{len(words)}Q", *words)
    section = struct.pack("<QQQQ", 36, DATA + 0x10000, 35, len(table)) + NULL
    data = program(
        TEXT,
        base=0x1000,
        kind=ET_DYN,
        segments=[(DATA, bytes(0x10000) + table + section)],
        dynamic=DATA + 0x10000 + len(table),
    )
    with pytest.raises(WireError, match=r"the number of relocations exceeds the file's 0x\w+ bytes, at byte 0x"):
        load(data)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([with_rela((DATA, 3, DATA + 8)), packed(DATA, 3, 5)]))
def test_damaged_files_are_refused_or_loaded(seed: int, data: bytes) -> None:
    """Nothing but an error of ours, in no more work than the file is worth."""
    chance = random.Random(seed)
    damaged = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(damaged))
        size = chance.choice((1, 2, 4, 8))
        damaged[at : at + size] = chance.getrandbits(8 * size).to_bytes(size, "little")
    raw = bytes(damaged[: chance.choice((len(damaged), chance.randrange(len(damaged))))])
    with suppress(WireError):
        image = loadable(read_elf(raw), raw, BASE)
        assert all(len(segment.data) <= len(raw) for segment in image.segments)
