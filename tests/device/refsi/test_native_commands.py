"""Native commands: the same registers, memory, status, words and events as one by one, whatever is in the buffer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from softcard.core.event import Event
from softcard.device.refsi import native_commands
from softcard.device.refsi import registers as r
from softcard.device.refsi.commands import (
    BufferStatus,
    Command,
    CopyMem64,
    Finish,
    Header,
    LoadReg64,
    Nop,
    Opcode,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
    encode_all,
    encode_header,
)
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.events import BufferFinished, CommandFinished, RegisterAccess
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR
from softcard.device.refsi.native_commands import DONE, MALFORMED, MAX_EXTENTS, READ, WRITE, commands
from softcard.device.refsi.spec.memory import SpecMemory
from softcard.isa.riscv.decode import assemble
from tests.device.refsi.m1 import BUFFER, RETURN, Bench, window
from tests.device.refsi.one_by_one import one_by_one

PROFILES = ("spec", "refsidrv")
BOTH = pytest.mark.parametrize("profile", PROFILES)
OUT, OUT_BYTES = 0x5000_0000, 0x2000
WINDOW, WRITE_ONLY, READ_ONLY = 0x3000_0000, 0x3100_0000, 0x3200_0000
WINDOW_BYTES = 0x1000
PADDING = [Nop()] * 40
WATCHED = ((OUT, OUT_BYTES), (OUT + 0x10_0000, WINDOW_BYTES), (r.TCDM_BASE, 0x400), (BUFFER, 0x1800))


class Machine(Bench):
    """A device without kernels, which nobody listens to."""

    def __init__(self, profile: str) -> None:
        self.device = RefSiDevice("m", profile=profile, engine="jit", threads=1)
        self.device.write(RETURN, assemble("addi a0, zero, 0; addi a7, zero, 0; ecall", RETURN))
        self.open_windows()

    def close_windows(self) -> None:
        """The host sees memory as it is."""
        for number in range(8):
            self.device.memory.window_register(r.WINDOW_MODE.offset + number, 0)

    def open_windows(self) -> None:
        """As every buffer finds them."""
        where, profile = OUT + 0x10_0000, self.device.profile_name
        commands = [*window(2, WINDOW, where, WINDOW_BYTES)]
        if profile == "spec":
            commands += [*window(3, WRITE_ONLY, where, WINDOW_BYTES, perms=2)]
            commands += [*window(4, READ_ONLY, where, WINDOW_BYTES, perms=1)]
        assert self.run(*commands).ok


class Pair:
    """Devices in the same state: with compiled commands, with the same ones as Python, and one by one."""

    def __init__(self, profile: str) -> None:
        self.benches = [Machine(profile), Machine(profile), Machine(profile)]
        processor = self.benches[1].device.processor
        assert processor is not None
        processor.machine._run = commands
        one_by_one(self.benches[2].device)

    def both(self, data: bytes, listens: str = "") -> list[BufferStatus]:
        """Run the same buffer on all; everything to be seen must be the same."""
        statuses, seen = [], []
        for bench in self.benches:
            bench.close_windows()
            events: list[Event] = []
            cancel = None
            if listens:
                cancel = bench.device.probes.subscribe(events.append, *KINDS[listens], later=listens != "live")
            for address, size in WATCHED:
                bench.device.write(address, bytes(range(256)) * (size // 256))
            registers = bench.device.registers
            for n in range(7):
                registers[n] = 0x1000 * n + OUT
            bench.open_windows()
            if listens:
                events.clear()
            status = bench.words(data)
            if cancel is not None:
                cancel()
            bench.close_windows()
            memory = [bench.device.read(address, size) for address, size in WATCHED]
            heard = [reported(event) for event in events]
            seen.append((list(registers), memory, shown(status), dma(bench.device), heard))
            statuses.append(status)
        assert seen[0] == seen[2]
        assert seen[1] == seen[2]
        return statuses


KINDS: dict[str, tuple[type[Event], ...]] = {"live": (), "later": (), "some": (CommandFinished, RegisterAccess)}


def reported(event: Event) -> object:
    return shown(event.status) if isinstance(event, BufferFinished) else event


def dma(device: RefSiDevice) -> object:
    """What the command processor sees of the DMA controller."""
    memory = device.memory
    if not isinstance(memory, SpecMemory):
        return None
    context = memory.dma.context(COMMAND_PROCESSOR)
    return list(context.values), context.started, context.done, list(context.outstanding)


def shown(status: BufferStatus) -> tuple[object, ...]:
    error = status.error
    return (
        (status.ok, status.commands, status.steps, status.command, status.opcode, status.chunk),
        None if error is None else (type(error), str(error), error.rule),
    )


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
UNITS = st.sampled_from((0, 1 << 24, 2 << 24, 2 << 24 | 1, 3 << 24, 3 << 24 | 9, 4 << 24, 5 << 24, 1 << 16, 1 << 32))
WINDOW_VALUES = st.one_of(
    VALUES,
    st.sampled_from((0, 1, 0xFFF_0000_0001, 0xFFF_0000_0003, 0xFFF_0000_0007, 0x7FF_0000_0011, 0xFFF_0000_0C09)),
    st.sampled_from((WINDOW, OUT, OUT + 0x10_0000, r.DMA_BASE, r.TCDM_BASE, BUFFER)),
)
DMA_REGISTERS = st.integers(0, 13).map(lambda n: r.DMA_BASE + 8 * n)


def transfer(source: int, target: int, size: int, control: int, ends: list[Command]) -> list[Command]:
    """The commands that start a transfer, and what comes behind."""
    writes = {r.DMA_SRCADDR: source, r.DMA_DSTADDR: target, r.DMA_XFERSIZE: size, r.DMA_CTRL: control}
    return [StoreImm64(r.DMA_BASE + 8 * register.offset, value) for register, value in writes.items()] + ends


ENDS = st.sampled_from(
    (
        [],
        [StoreImm64(r.DMA_BASE + 16, 1 << 40)],
        [LoadReg64(0, r.DMA_BASE + 8), StoreReg64(0, r.DMA_BASE + 16)],
        [LoadReg64(1, r.DMA_BASE + 16)],
        [StoreImm64(r.DMA_BASE + 16, 2)],
    )
)
TRANSFERS = st.builds(
    transfer,
    ADDRESSES | st.integers(OUT, OUT + 0x400),
    ADDRESSES | st.integers(OUT, OUT + 0x400),
    st.integers(0, 100),
    st.sampled_from((0x11, 0x11, 0x11, 0x11, 0x10, 0x21, 0x51, 0x01, 0x111)),
    ENDS,
)
COMMANDS = st.one_of(
    st.builds(Nop, st.integers(0, 9), st.lists(VALUES, max_size=2).map(tuple)),
    st.builds(WriteReg64, st.integers(0, 7), VALUES),
    st.builds(LoadReg64, REGISTERS, ADDRESSES),
    st.builds(StoreReg64, REGISTERS, ADDRESSES),
    st.builds(StoreImm64, ADDRESSES.map(lambda a: a & 0xFFFF_FFFF), VALUES),
    st.builds(CopyMem64, st.integers(0, 40), ADDRESSES, ADDRESSES, UNITS),
    st.builds(SyncCache, st.integers(0, 4)),
    st.builds(WriteReg64, st.sampled_from((10, 18, 26, 27, 29, 34)), WINDOW_VALUES),
    st.builds(StoreImm64, DMA_REGISTERS, VALUES | st.integers(0, 130)),
    st.builds(StoreReg64, st.integers(0, 6), DMA_REGISTERS),
    st.builds(LoadReg64, st.integers(0, 6), DMA_REGISTERS),
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
    parts = data.draw(st.lists(st.one_of(COMMANDS.map(lambda each: [each]), TRANSFERS), max_size=30))
    commands: list[Command] = [command for part in parts for command in part]
    odd = data.draw(st.lists(st.tuples(st.integers(0, 60), HEADERS), max_size=2))
    finish = [Finish()] if data.draw(st.booleans()) else []
    chunks = list(np.frombuffer(encode_all([*commands, *finish, *PADDING]), dtype=np.uint64).tolist())
    for place, header in odd:
        chunks[place % len(chunks)] = header
    cut = data.draw(st.one_of(st.just(len(chunks)), st.integers(1, len(chunks))))
    pair(profile).both(words(*chunks[:cut]), data.draw(st.sampled_from(("", "", *KINDS))))


@BOTH
@given(st.lists(st.builds(StoreImm64, st.integers(0, 96).map(lambda n: BUFFER + 8 * n), HEADERS | VALUES), max_size=20))
@settings(max_examples=30, deadline=None)
def test_buffers_that_write_into_themselves(profile: str, commands: Sequence[Command]) -> None:
    pair(profile).both(encode_all([*commands, *PADDING]))


class Counted(Machine):
    """One that counts how often commands stopped for something."""

    def __init__(self, profile: str) -> None:
        super().__init__(profile)
        processor = self.device.processor
        assert processor is not None
        self.stops: list[int] = []
        run = processor.machine.run

        def counted(listens: bool, is_live: bool) -> int:
            self.stops.append(run(listens, is_live))
            return self.stops[-1]

        processor.machine.run = counted  # type: ignore[method-assign]


@BOTH
def test_plain_commands_stop_for_nothing(profile: str) -> None:
    """The comparison above would hold if they always did."""
    bench = Counted(profile)
    plain = [
        WriteReg64(0, 1),
        StoreReg64(0, OUT),
        LoadReg64(6, OUT),
        StoreImm64(OUT + 8, 7),
        StoreReg64(6, r.TCDM_BASE),
        Nop(3),
        Nop(0, (1,)),
        CopyMem64(32, OUT, OUT + 0x800),
    ]
    assert bench.words(encode_all([*plain * 10, *PADDING])).commands == 80 + len(PADDING)
    assert bench.stops == [DONE]
    bench.stops.clear()
    bench.words(encode_all([*plain, LoadReg64(1, OUT + 4), *plain, StoreImm64(OUT + 1, 1), Finish(), *PADDING]))
    assert bench.stops == [READ, WRITE, DONE]
    bench.stops.clear()
    special = [*window(2, WINDOW, OUT, WINDOW_BYTES), SyncCache(3), *transfer(OUT, OUT + 0x100, 64, 0x11, [])]
    special += [LoadReg64(0, r.DMA_BASE + 8), StoreReg64(0, r.DMA_BASE + 16)]
    assert bench.run(*special).ok
    assert bench.stops[-1] == DONE
    assert (len(bench.stops) == 1) is (profile == "spec")
    assert bench.r64(OUT + 0x100, 8) == bench.r64(OUT, 8)


def test_what_may_be_written_may_not_therefore_be_read() -> None:
    """A store makes an extent known; a load through the same write-only window is still refused."""
    both = pair("spec")
    status, *_ = both.both(encode_all([StoreImm64(WRITE_ONLY, 5), LoadReg64(0, WRITE_ONLY), *PADDING]))
    assert (status.command, status.opcode) == (1, "LOAD_REG64")
    assert "do not permit" in str(status.error)
    status, *_ = both.both(encode_all([LoadReg64(0, READ_ONLY), StoreReg64(0, READ_ONLY), *PADDING]))
    assert (status.command, status.opcode) == (1, "STORE_REG64")


@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_table_of_extents_starts_over_when_full(is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = np.zeros(64 * (MAX_EXTENTS + 8), dtype=np.uint64)
    base, asked = 0x1000, []
    profile = Pair("spec").benches[0].device.processor.profile  # type: ignore[union-attr]

    def direct(address: int, access: str) -> tuple[int, int, int] | None:
        asked.append((address, access))
        start = base + (address - base) // 512 * 512
        return start, start + 512, int(memory.ctypes.data) - base

    written: list[tuple[int, int]] = []
    monkeypatch.setattr(profile, "direct", direct)
    monkeypatch.setattr(profile, "wrote", lambda host, size: written.append((host, size)))
    registers = np.zeros(r.NUM_CMP_REGISTERS, dtype=np.uint64)
    bulk = native_commands.Machine(registers.data.cast("B").cast("Q"), profile, compiled=is_compiled)
    stores = [StoreImm64(base + 512 * n + 8, n) for n in range(MAX_EXTENTS + 8)] * 2
    chunks = memoryview(encode_all(stores)).cast("Q")
    bulk.open(chunks, len(chunks))
    assert bulk.run(False, False) == DONE
    bulk.flush()
    assert (bulk.block.position, bulk.block.done) == (len(chunks), len(stores))
    assert memory[1::64].tolist() == list(range(MAX_EXTENTS + 8))
    assert len(asked) == 2 * (MAX_EXTENTS + 8)
    first = int(memory.ctypes.data) + 8
    assert written == [(first, 512 * (MAX_EXTENTS + 7) + 8)]


def test_nothing_written_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = Pair("spec").benches[0].device.processor.profile  # type: ignore[union-attr]
    written: list[tuple[int, int]] = []
    monkeypatch.setattr(profile, "direct", lambda address, access: None)
    monkeypatch.setattr(profile, "wrote", lambda *x: written.append(x))
    registers = np.zeros(r.NUM_CMP_REGISTERS, dtype=np.uint64)
    bulk = native_commands.Machine(registers.data.cast("B").cast("Q"), profile, compiled=True)
    chunks = memoryview(encode_all([Nop(), WriteReg64(3, 9), StoreImm64(8, 1)])).cast("Q")
    bulk.open(chunks, len(chunks))
    assert bulk.run(False, False) == WRITE
    bulk.flush()
    assert (bulk.block.position, bulk.block.done) == (3, 2)
    assert registers[3] == 9
    assert written == []
    for data in (b"", words(0)):
        bulk.open(memoryview(data).cast("Q"), len(data) // 8)
        assert bulk.run(False, False) == (MALFORMED if data else DONE)
        assert (bulk.block.position, bulk.block.done) == (0, 0)


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
def test_kernels_see_code_that_commands_wrote(profile: str) -> None:
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
    assert results[0] == results[1] == results[2]
    if profile == "spec":
        assert results[0] == [5, 5, 5, 6, 6, 6, 7, 7, 7]
