"""Command buffers of any kind end with a status that says what, where and which clause, and never with an exception."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.errors import AccessFault, BeyondModel, WireError
from softcard.device.refsi.commands import (
    BufferStatus,
    Command,
    CopyMem64,
    Finish,
    LoadReg64,
    RunInstances,
    StoreImm64,
    WriteReg64,
    encode_all,
)
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.registers import DMA_BASE, DRAM_BASE, ENTRY_PT_FN, RETURN_ADDR, WINDOW_BASE
from softcard.device.refsi.toolkit.builder import REFSIDRV, SPEC
from softcard.device.refsi.toolkit.lint import lint
from softcard.device.refsi.toolkit.listing import lines
from tests.hostile import generate
from tests.hostile.checks import (
    ENGINES,
    PROFILES,
    check_buffer,
    check_status,
    check_usable,
    fresh,
    in_time,
    place,
    run_buffer,
)
from tests.hostile.generate import BUFFER, CODE, DATA, OUTPUT, WINDOW

QUICK = 5
"""Seconds within which what is refused, or done at once, must be over."""
EVERY_PROFILE = pytest.mark.parametrize("profile", PROFILES)
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)

WORDS = st.integers(0, (1 << 64) - 1)
HEADERS = st.builds(
    lambda opcode, count, inline, low: inline << 32 | 3 << 30 | count << 16 | opcode << 8 | low,
    st.integers(0, 11),
    st.integers(0, 18),
    st.one_of(st.integers(0, 41), st.integers(0, (1 << 32) - 1), st.sampled_from([DATA, OUTPUT, DMA_BASE, WINDOW])),
    st.sampled_from([0] * 9 + [1]),
)
VALUES = st.one_of(
    st.integers(0, 64), WORDS, st.sampled_from([*generate.EDGES[:-1], *generate.HUGE, DATA, OUTPUT, CODE])
)


def pack(words: list[int]) -> bytes:
    return struct.pack(f"<{len(words)}Q", *words)


# ---- any input -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.one_of(HEADERS, VALUES), max_size=24), st.integers(0, 7))
def test_chunks_that_look_like_commands(words: list[int], cut: int) -> None:
    data = pack(words)
    check_buffer(data[: len(data) - cut])


@pytest.mark.slow
@settings(max_examples=120)
@given(st.randoms(use_true_random=False))
def test_commands_with_random_fields(random: Random) -> None:
    check_buffer(generate.buffer(random), generate.code(random))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.sampled_from(generate.recorded_buffers()), st.integers(0, 1 << 16))
def test_recorded_buffers_cut_anywhere(words: tuple[int, ...], cut: int) -> None:
    data = pack(list(words))
    check_buffer(data[: cut % (len(data) + 1)])


@pytest.mark.slow
@settings(max_examples=60)
@given(st.sampled_from(generate.recorded_buffers()), st.sets(st.integers(0, 1 << 16), min_size=1, max_size=4))
def test_recorded_buffers_with_flipped_bits(words: tuple[int, ...], places: set[int]) -> None:
    data = bytearray(pack(list(words)))
    for bit in places:
        data[bit // 8 % len(data)] ^= 1 << bit % 8
    check_buffer(bytes(data))


@settings(max_examples=150)
@given(st.one_of(st.binary(max_size=80), st.lists(st.one_of(HEADERS, VALUES), max_size=24).map(pack)))
def test_tools_that_only_look_at_buffers(data: bytes) -> None:
    """The listing and the lint take anything; the listing shows every byte."""
    shown = lines(data)
    assert all("\n" not in str(line) for line in shown)
    for profile in PROFILES:
        for finding in lint(data, profile=profile):
            assert "\n" not in str(finding)


# ---- what is told ----------------------------------------------------------------------------------------------------


def broken(*commands: Command | int) -> bytes:
    """Commands and single chunks."""
    return b"".join(part.to_bytes(8, "little") if isinstance(part, int) else encode_all([part]) for part in commands)


@EVERY_ENGINE
def test_a_failed_command_is_reported_with_its_place_and_clause(engine: str) -> None:
    device = fresh(SPEC, engine)
    status = run_buffer(device, encode_all([StoreImm64(DATA, 1), StoreImm64(0x100, 2), Finish()]))
    assert (status.commands, status.command, status.chunk, status.offset) == (1, 1, 2, 16)
    assert status.opcode == "STORE_IMM64"
    assert status.error is not None
    assert status.error.rule is not None
    assert str(status.error) == (
        "write of 8 bytes at 0x100: no memory there, at command 1 (STORE_IMM64), at byte 0x10, at buffer 1, "
        f"[{status.error.rule.id}: {status.error.rule.clause}]"
    )
    check_usable(device)


@EVERY_ENGINE
@pytest.mark.parametrize(
    ("chunk", "message", "rule"),
    [
        (0x1_C002_0200, "header 0x00000001c0020200 without its payload", "chunks"),
        (0x0_C000_0B00, "unknown opcode 11", "header-opcode"),
        (0x0_C000_0101, "reserved bits 7-0 are 0x1, expected 0", "header-reserved"),
        (0x0_8000_0100, "packet identifier (bits 31-30) is 2, expected 3", "header-packet-id"),
        (0x0_C001_0100, "count (bits 29-16) is 1, expected an even number", "header-count"),
        (0x0_C002_0100, "FINISH: count announces 1 payload chunks, expected 0", "header-count"),
    ],
)
def test_what_is_no_command_is_reported_with_its_chunk(engine: str, chunk: int, message: str, rule: str) -> None:
    status = run_buffer(fresh(SPEC, engine), broken(StoreImm64(DATA, 1), chunk))
    error = status.error
    assert isinstance(error, WireError)
    assert (status.commands, status.command, status.chunk, status.offset) == (1, 1, 2, 16)
    expected = "WRITE_REG64: 1 payload chunks announced, but the buffer ends after 0" if rule == "chunks" else message
    assert expected in error.message
    assert ", at chunk 2, at byte 0x10, at command 1, at buffer 1, [refsi/" in str(error)
    assert error.rule is not None
    assert error.rule.id == f"refsi/{rule}"
    assert str(error).endswith(f"[{error.rule.id}: General Command Format]")


@EVERY_PROFILE
@EVERY_ENGINE
@pytest.mark.parametrize(
    ("address", "size"),
    [(0, 64), (DRAM_BASE - 8, 16), (1 << 63, 8), ((1 << 64) - 8, 64), (1 << 70, 8), (-8, 16), (DMA_BASE + 4, 4)],
)
def test_a_buffer_that_is_nowhere(profile: str, engine: str, address: int, size: int) -> None:
    device = fresh(profile, engine)
    device.submit(address, size)
    (status,) = device.wait()
    assert isinstance(status.error, AccessFault | WireError)
    check_status(status, b"", profile)
    assert status.chunk is None
    if profile == SPEC:
        check_usable(device)


@EVERY_PROFILE
@EVERY_ENGINE
@pytest.mark.parametrize("size", [(1 << 64) - 8, 1 << 64, 1 << 65, 1 << 33])
def test_a_buffer_larger_than_memory(profile: str, engine: str, size: int) -> None:
    """The reference adds address and size modulo 2^64, and walks on from there."""
    device = fresh(profile, engine)
    place(device, BUFFER, encode_all([StoreImm64(DATA, 5), Finish()]))
    device.submit(BUFFER, size)
    with in_time(QUICK):
        (status,) = device.wait()
    assert status.ok == (profile == REFSIDRV and size != 1 << 33)
    if profile == SPEC:
        assert isinstance(status.error, AccessFault)
        check_usable(device)


# ---- what could take forever -----------------------------------------------------------------------------------------


def dma(
    sizes: tuple[int, ...],
    source: int = DATA,
    target: int = OUTPUT,
    by: tuple[int, int] = (0, 0),
    to: tuple[int, int] = (0, 0),
    strides: int = 0xC0,
) -> list[Command]:
    """Start a transfer and wait for it."""
    sizes_in_full = (*sizes, 0, 0)[:3]
    values = (source, target, *sizes_in_full, *by, *to)
    writes: list[Command] = [StoreImm64(DMA_BASE + 8 * index, value) for index, value in enumerate(values, 3)]
    start = 1 | len(sizes) << 4 | (strides if len(sizes) > 1 else 0)
    return [*writes, StoreImm64(DMA_BASE, start), StoreImm64(DMA_BASE + 16, 1)]


def quickly(profile: str, engine: str, *commands: Command, code: bytes = b"") -> BufferStatus:
    """Run commands, which must take no time to speak of."""
    device = fresh(profile, engine)
    data = encode_all([*commands, Finish()])
    with in_time(QUICK):
        status = run_buffer(device, data, code)
    check_status(status, data, profile)
    if profile == SPEC:
        check_usable(device)
    return status


@EVERY_PROFILE
@pytest.mark.parametrize("count", [(1 << 32) - 1, 1 << 31, (1 << 28) + 1])
def test_a_copy_larger_than_memory(profile: str, count: int) -> None:
    status = quickly(profile, "jit", CopyMem64(count, DRAM_BASE, DRAM_BASE + 8))
    assert isinstance(status.error, AccessFault)
    assert "COPY_MEM64" in str(status.error)


def test_a_copy_of_elements_onto_themselves_that_are_too_many() -> None:
    status = quickly(SPEC, "jit", CopyMem64(1 << 24, DATA, DATA + 4))
    assert isinstance(status.error, BeyondModel)
    assert status.error.message == (
        "COPY_MEM64 of 16777216 elements with overlapping source and destination is modelled only with at most "
        "1048576 elements"
    )


@EVERY_PROFILE
@pytest.mark.parametrize(
    "commands",
    [
        dma((1 << 63,)),
        dma(((1 << 64) - 1,)),
        dma((8, 1 << 40), by=(0, 0), to=(8, 0)),
        dma((8, 1 << 40, 1 << 40), by=(8, 64), to=(8, 64)),
        dma((1 << 40, 1 << 40, 1 << 40), strides=0),
        dma((8, 2), by=(1 << 63, 0), to=(8, 0)),
        dma((8, 2), by=(8, 0), to=((1 << 64) - 8, 0)),
    ],
    ids=lambda commands: "",
)
def test_a_transfer_larger_than_memory(profile: str, commands: list[Command]) -> None:
    status = quickly(profile, "jit", *commands)
    assert isinstance(status.error, AccessFault if profile == SPEC else AccessFault | ReferenceCrash), status


@EVERY_PROFILE
@pytest.mark.parametrize("strides", [((1 << 63, 16), (16, 16)), ((16, 16), (1 << 63, 16)), ((16, 1 << 63), (16, 16))])
def test_strides_that_are_never_taken(profile: str, strides: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """A single row has no next one, a single plane neither."""
    by, to = strides
    sizes = (8, 1, 2) if 1 << 63 in (by[0], to[0]) else (8, 2, 1)
    status = quickly(profile, "jit", StoreImm64(DATA, 7), *dma(sizes, by=by, to=to))
    # The reference compares the plane stride with SIZE1 only.
    assert status.ok, status


@pytest.mark.parametrize(
    "commands",
    [dma((1, 1 << 27), target=DATA + (1 << 26), by=(1, 0), to=(1, 0)), dma((2, 1, 1 << 27), strides=0)],
    ids=["rows", "planes"],
)
def test_overlapping_rows_that_the_reference_moves_one_by_one(commands: list[Command]) -> None:
    status = quickly(REFSIDRV, "jit", *commands)
    assert isinstance(status.error, BeyondModel)
    assert "a DMA transfer of 134217728 overlapping rows" in status.error.message


def test_a_copy_through_a_window_that_reaches_further_than_its_memory() -> None:
    commands = (
        WriteReg64(WINDOW_BASE.offset, 0xD000_0000),
        WriteReg64(WINDOW_BASE.offset + 8, DRAM_BASE + 0x7F00_0000),
        WriteReg64(WINDOW_BASE.offset + 16, (1 << 64) - (1 << 32) | 1),
        CopyMem64((1 << 29) - 2, 0xD000_0000, 0xD000_0000),
    )
    status = quickly(REFSIDRV, "jit", *commands)
    assert status.error is not None
    assert status.error.message == "read of 8 bytes at 0xd1000000 is refused"


@pytest.mark.slow
@EVERY_PROFILE
def test_thousands_of_transfers_at_once(profile: str) -> None:
    started = [StoreImm64(DMA_BASE, 0x11)] * 5000
    status = quickly(profile, "jit", *dma((8,))[:-1], *started, StoreImm64(DMA_BASE + 16, 5001))
    assert status.ok, status


@EVERY_PROFILE
@EVERY_ENGINE
@pytest.mark.parametrize("harts", [0, 1, 2])
@pytest.mark.parametrize("entry", [CODE, 0xDEAD_0000], ids=["code", "return address"])
def test_2_to_the_64_instances(profile: str, engine: str, harts: int, entry: int) -> None:
    commands = (
        WriteReg64(ENTRY_PT_FN.offset, entry),
        WriteReg64(RETURN_ADDR.offset, 0xDEAD_0000),
        RunInstances(harts, (1 << 64) - 1),
    )
    status = quickly(profile, engine, *commands, code=generate.assemble("jalr zero, 0(ra)"))
    assert "the kernel command has not ended after 1000 instructions" in str(status.error)
    assert status.hart is not None


@EVERY_PROFILE
@EVERY_ENGINE
def test_many_plain_commands_with_nothing_mapped_behind_memory(profile: str, engine: str) -> None:
    """Nobody listens, so that they run in bulk; DRAM is the last memory there is."""
    device = fresh(profile, engine)
    status = run_buffer(device, encode_all([*(StoreImm64(DATA + 8 * k, k) for k in range(40)), Finish()]))
    assert status.ok, status
    assert device.read(DATA + 8 * 39, 8) == (39).to_bytes(8, "little")


@EVERY_ENGINE
def test_bulk_does_not_read_what_may_only_be_written(engine: str) -> None:
    """Permissions hold for every command of a long run, whatever the ones before did there."""
    write_only = [
        WriteReg64(WINDOW_BASE.offset, WINDOW),
        WriteReg64(WINDOW_BASE.offset + 8, OUTPUT),
        WriteReg64(WINDOW_BASE.offset + 16, 0xFFF << 32 | 0x21),
    ]
    stores = [StoreImm64(WINDOW + 8 * k, k) for k in range(40)]
    data = encode_all([*write_only, *stores, LoadReg64(0, WINDOW), Finish()])
    status = run_buffer(fresh(SPEC, engine), data)
    check_status(status, data, SPEC)
    assert (status.commands, status.opcode) == (43, "LOAD_REG64")
    assert "PERMS 0b010 do not permit reading" in str(status.error)
