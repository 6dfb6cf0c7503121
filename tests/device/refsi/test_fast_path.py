"""Plain commands in bulk: the same registers, memory, status and words as one by one, whatever is in the buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.device.refsi.m1 import BUFFER, RETURN, Bench, window
from understudy.device.refsi import registers as r
from understudy.device.refsi.cmp import WORTH_WHILE
from understudy.device.refsi.commands import (
    Command,
    Finish,
    Header,
    LoadReg64,
    Nop,
    Opcode,
    StoreImm64,
    StoreReg64,
    WriteReg64,
    encode_all,
    encode_header,
)
from understudy.device.refsi.device import RefSiDevice
from understudy.device.refsi.fast_path import MAX_EXTENTS, Bulk, commands
from understudy.device.refsi.status import BufferStatus
from understudy.isa.riscv.decode import assemble

PROFILES = ("spec", "refsidrv")
BOTH = pytest.mark.parametrize("profile", PROFILES)
OUT, OUT_BYTES = 0x5000_0000, 0x2000
WINDOW, WRITE_ONLY, READ_ONLY = 0x3000_0000, 0x3100_0000, 0x3200_0000
WINDOW_BYTES = 0x1000
PADDING = [Nop()] * (WORTH_WHILE + 8)
WATCHED = ((OUT, OUT_BYTES), (OUT + 0x10_0000, WINDOW_BYTES), (r.TCDM_BASE, 0x400), (BUFFER, 0x1800))


class Machine(Bench):
    """A device without kernels, which nobody listens to."""

    def __init__(self, profile: str) -> None:
        self.device = RefSiDevice("m", profile=profile, engine="jit", threads=1)
        self.device.write(RETURN, assemble("addi a0, zero, 0; addi a7, zero, 0; ecall", RETURN))
        where = OUT + 0x10_0000
        commands = [*window(2, WINDOW, where, WINDOW_BYTES)]
        if profile == "spec":
            commands += [*window(3, WRITE_ONLY, where, WINDOW_BYTES, perms=2)]
            commands += [*window(4, READ_ONLY, where, WINDOW_BYTES, perms=1)]
        assert self.run(*commands).ok


class Pair:
    """Two devices in the same state: one runs plain commands in bulk, the other never does."""

    def __init__(self, profile: str) -> None:
        self.benches = [Machine(profile), Machine(profile)]
        processor = self.benches[1].device.processor
        assert processor is not None
        processor._written = None

    def both(self, data: bytes) -> list[BufferStatus]:
        """Run the same buffer on both; everything to be seen must be the same."""
        statuses, seen = [], []
        for bench in self.benches:
            for address, size in WATCHED:
                bench.device.write(address, bytes(range(256)) * (size // 256))
            registers = bench.device.registers
            for n in range(7):
                registers[n] = 0x1000 * n + OUT
            status = bench.words(data)
            memory = [bench.device.read(address, size) for address, size in WATCHED]
            seen.append((list(registers), memory, shown(status)))
            statuses.append(status)
        assert seen[0] == seen[1]
        return statuses


def shown(status: BufferStatus) -> tuple[object, ...]:
    error = status.error
    return (
        (status.ok, status.commands, status.steps, status.command, status.opcode, status.chunk),
        None if error is None else (type(error), str(error), error.rule),
    )


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep out of the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
        pair.cache_clear()


@cache
def pair(profile: str) -> Pair:
    return Pair(profile)


def words(*values: int) -> bytes:
    return b"".join((value & (1 << 64) - 1).to_bytes(8, "little") for value in values)


ADDRESSES = st.one_of(
    st.integers(0, OUT_BYTES // 8 - 1).map(lambda n: OUT + 8 * n),
    st.integers(0, 96).map(lambda n: BUFFER + 8 * n),
    st.sampled_from((WINDOW, WINDOW + WINDOW_BYTES - 8, WRITE_ONLY, WRITE_ONLY + 8, READ_ONLY, READ_ONLY + 8)),
    st.sampled_from((r.TCDM_BASE, r.TCDM_BASE + 8, r.TCDM_BASE - 8, OUT + 4, OUT + 1, WINDOW + WINDOW_BYTES - 4)),
    st.sampled_from((r.DRAM_BASE, r.DRAM_BASE - 8, r.DRAM_BASE + r.DRAM_SIZE - 8, r.DRAM_BASE + r.DRAM_SIZE)),
    st.sampled_from((0, 8, 1 << 32, (1 << 64) - 8, (1 << 64) - 4, r.DMA_BASE, r.PERF_COUNTERS_BASE)),
)
VALUES = st.one_of(st.integers(0, (1 << 64) - 1), ADDRESSES)
REGISTERS = st.one_of(st.integers(0, 6), st.sampled_from((7, 24, 39, 40, 1 << 31)))
COMMANDS = st.one_of(
    st.builds(Nop, st.integers(0, 9), st.lists(VALUES, max_size=2).map(tuple)),
    st.builds(WriteReg64, st.integers(0, 7), VALUES),
    st.builds(LoadReg64, REGISTERS, ADDRESSES),
    st.builds(StoreReg64, REGISTERS, ADDRESSES),
    st.builds(StoreImm64, ADDRESSES.map(lambda a: a & 0xFFFF_FFFF), VALUES),
    st.builds(StoreImm64, st.integers(0, 255).map(lambda n: OUT + 8 * n), VALUES),
    st.builds(StoreReg64, st.integers(0, 6), st.integers(0, 255).map(lambda n: OUT + 8 * n)),
)
HEADERS = st.builds(
    lambda opcode, count, low, packet, inline: low | opcode << 8 | count << 16 | packet << 30 | inline << 32,
    st.sampled_from((*(int(op) for op in Opcode if "RUN" not in op.name), 10, 255)),
    st.one_of(st.integers(0, 6), st.integers(0, (1 << 14) - 1)),
    st.sampled_from((0, 0, 0, 1, 128)),
    st.sampled_from((3, 3, 3, 0, 1)),
    st.one_of(st.integers(0, 41), st.integers(OUT, OUT + 64)),
)


@BOTH
@given(st.data())
@settings(max_examples=150, deadline=None)
def test_random_commands(profile: str, data: st.DataObject) -> None:
    commands: list[Command] = data.draw(st.lists(COMMANDS, max_size=30))
    odd = data.draw(st.lists(st.tuples(st.integers(0, 60), HEADERS), max_size=2))
    finish = [Finish()] if data.draw(st.booleans()) else []
    chunks = list(np.frombuffer(encode_all([*commands, *finish, *PADDING]), dtype=np.uint64).tolist())
    for place, header in odd:
        chunks[place % len(chunks)] = header
    cut = data.draw(st.one_of(st.just(len(chunks)), st.integers(1, len(chunks))))
    pair(profile).both(words(*chunks[:cut]))


@BOTH
@given(st.lists(st.builds(StoreImm64, st.integers(0, 96).map(lambda n: BUFFER + 8 * n), HEADERS | VALUES), max_size=20))
@settings(max_examples=30, deadline=None)
def test_buffers_that_write_into_themselves(profile: str, commands: Sequence[Command]) -> None:
    pair(profile).both(encode_all([*commands, *PADDING]))


@BOTH
def test_every_plain_command_is_done_in_bulk(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is: the comparison above would hold if nothing ever were."""
    done: list[int] = []
    run = Bulk.run

    def count(self: Bulk, chunks: memoryview[int], chunk: int, end: int) -> tuple[int, int]:
        position, commands = run(self, chunks, chunk, end)
        done.append(commands)
        return position, commands

    monkeypatch.setattr(Bulk, "run", count)
    both = pair(profile)
    plain = [
        WriteReg64(0, 1),
        StoreReg64(0, OUT),
        LoadReg64(6, OUT),
        StoreImm64(OUT + 8, 7),
        StoreReg64(6, r.TCDM_BASE),
        Nop(3),
    ]
    status, _ = both.both(encode_all([*plain * 10, *PADDING]))
    assert status.ok
    assert done == [60 + len(PADDING)] == [status.commands]
    done.clear()
    status, _ = both.both(encode_all([*plain, Nop(0, (1,)), *plain, Finish(), *PADDING]))
    assert done == [6, 6]
    assert status.commands == 14
    done.clear()
    both.both(encode_all([*plain, WriteReg64(7, 1), *PADDING]))
    both.both(encode_all([*plain, LoadReg64(1, OUT + 4), *PADDING]))
    both.both(encode_all([*plain, StoreImm64(OUT + 1, 1), *PADDING]))
    both.both(encode_all([*plain, StoreReg64(1, r.DMA_BASE), *PADDING]))
    assert [commands for commands in done if commands == 6] == [6] * 4


def test_what_may_be_written_may_not_therefore_be_read() -> None:
    """A store makes an extent known; a load through the same write-only window is still refused."""
    both = pair("spec")
    status, _ = both.both(encode_all([StoreImm64(WRITE_ONLY, 5), LoadReg64(0, WRITE_ONLY), *PADDING]))
    assert (status.command, status.opcode) == (1, "LOAD_REG64")
    assert "does not permit" in str(status.error)
    status, _ = both.both(encode_all([LoadReg64(0, READ_ONLY), StoreReg64(0, READ_ONLY), *PADDING]))
    assert (status.command, status.opcode) == (1, "STORE_REG64")


@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_table_of_extents_starts_over_when_full(is_compiled: bool) -> None:
    memory = np.zeros(64 * (MAX_EXTENTS + 8), dtype=np.uint64)
    base, asked = 0x1000, []

    def direct(address: int, access: str) -> tuple[int, int, int] | None:
        asked.append((address, access))
        start = base + (address - base) // 512 * 512
        return start, start + 512, int(memory.ctypes.data) - base

    written: list[tuple[int, int]] = []
    registers = np.zeros(r.NUM_CMP_REGISTERS, dtype=np.uint64)
    bulk = Bulk(registers.data.cast("B").cast("Q"), direct, lambda host, size: written.append((host, size)), False)
    if not is_compiled:  # the same function, as Python
        bulk._run = commands
    stores = [StoreImm64(base + 512 * n + 8, n) for n in range(MAX_EXTENTS + 8)] * 2
    chunks = memoryview(encode_all(stores)).cast("Q")
    assert bulk.run(chunks, 0, len(chunks)) == (len(chunks), len(stores))
    assert memory[1::64].tolist() == list(range(MAX_EXTENTS + 8))
    assert len(asked) == 2 * (MAX_EXTENTS + 8)
    first = int(memory.ctypes.data) + 8
    assert written == [(first, 512 * (MAX_EXTENTS + 7) + 8)]


def test_nothing_written_is_not_told() -> None:
    written: list[tuple[int, int]] = []
    registers = np.zeros(r.NUM_CMP_REGISTERS, dtype=np.uint64)
    bulk = Bulk(registers.data.cast("B").cast("Q"), lambda a, b: None, lambda *x: written.append(x), False)
    chunks = memoryview(encode_all([Nop(), WriteReg64(3, 9), StoreImm64(8, 1)])).cast("Q")
    assert bulk.run(chunks, 0, len(chunks)) == (3, 2)
    assert registers[3] == 9
    assert written == []
    assert bulk.run(chunks, 3, 3) == (3, 0)
    assert bulk.run(memoryview(words(0)).cast("Q"), 0, 1) == (0, 0)


@BOTH
def test_headers_and_payloads_at_the_end(profile: str) -> None:
    both = pair(profile)
    good = encode_all(PADDING)
    for opcode in (op for op in Opcode if "RUN" not in op.name):
        for chunks in (0, 1, 2, 8191):
            for low in (0, 1, 1 << 16):
                both.both(good + words(encode_header(Header(opcode, chunks, 1)) | low))
    for tail in (b"\0" * 3, words(1), words(3 << 30, 5)):
        both.both(good + tail)


@BOTH
def test_kernels_see_code_that_was_written_in_bulk(profile: str) -> None:
    """Where engines are coherent: the code that stores wrote replaces the translated one."""
    results = []
    for bench in Pair(profile).benches:
        seen = []
        for value in (5, 6, 7):
            at = 0x6100_0000
            text = f"addi x5, x0, {value}\nlui x6, 0x50000\nsw x5, 0(x6)\njalr x0, 0(x1)\n"
            code = np.frombuffer(assemble(text, at), dtype=np.uint64).tolist()
            stores = [StoreImm64(at + 8 * n, int(word)) for n, word in enumerate(code)]
            for _ in range(3):
                bench.device.write(OUT, bytes(8))
                status = bench.run(*PADDING, *stores, *PADDING, *bench.kernel(at, instances=2))
                assert status.ok, status
                seen.append(bench.r64(OUT)[0])
        results.append(seen)
    assert results[0] == results[1]
    if profile == "spec":
        assert results[0] == [5, 5, 5, 6, 6, 6, 7, 7, 7]
