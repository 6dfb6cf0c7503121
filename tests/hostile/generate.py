"""Hostile input, drawn from a `Random`: numbers near edges, command buffers, kernels and scripts that went wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Final

from softcard.device.refsi.commands import (
    Command,
    CopyMem64,
    Finish,
    Header,
    LoadReg64,
    Nop,
    Opcode,
    RunInstances,
    RunKernelSlice,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
    encode_header,
)
from softcard.device.refsi.registers import (
    DMA_BASE,
    DRAM_BASE,
    DRAM_SIZE,
    ENTRY_PT_FN,
    KARGS_INFO,
    KUB_DESC,
    NUM_CMP_REGISTERS,
    PERF_COUNTERS_BASE,
    RETURN_ADDR,
    STACK_TOP,
    TCDM_BASE,
    TCDM_HART_BASE,
    TCDM_SIZE,
    TSD_INFO,
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_SCALE,
    WINDOW_TARGET,
)
from softcard.isa.riscv.decode import assemble
from tests.device.refsi.recordings import FOLDER, load

MASK64: Final = (1 << 64) - 1
MASK32: Final = (1 << 32) - 1
BUFFER: Final = 0x4F00_0000
CODE: Final = 0x6100_0000
DATA: Final = 0x5000_0000
OUTPUT: Final = 0x5100_0000
WINDOW: Final = 0x3000_0000
ELF: Final = 0x1_0000
HART_WINDOW: Final = 0x1400_0000
DRAM_END: Final = DRAM_BASE + DRAM_SIZE
EDGES: Final = (
    0,
    0x1000,
    ELF,
    TCDM_BASE,
    TCDM_HART_BASE,
    TCDM_BASE + TCDM_SIZE,
    HART_WINDOW,
    HART_WINDOW + 0x8_0000,
    DMA_BASE,
    DMA_BASE + 0x100,
    PERF_COUNTERS_BASE,
    PERF_COUNTERS_BASE + 0x100,
    PERF_COUNTERS_BASE + 0x200,
    WINDOW,
    WINDOW + 0x1000,
    DRAM_BASE,
    BUFFER,
    DATA,
    OUTPUT,
    CODE,
    DRAM_END,
    1 << 32,
    1 << 56,
    1 << 63,
    1 << 64,
)
"""Where memories, registers, windows and address spaces begin and end."""
SIZES: Final = (0, 1, 2, 4, 7, 8, 9, 16, 24, 32, 64, 100, 256, 4096, 65536)
HUGE: Final = (1 << 31, MASK32, 1 << 32, 1 << 40, (1 << 61) + 1, 1 << 63, MASK64)
MODES: Final = (
    0x01,
    0x01,
    0x03,
    0x03,
    0x05,
    0x07,
    0x00,
    0x09,
    0x0B,
    0x10B,
    0xC0B,
    0x21,
    0x11,
    0x41,
    0x1F01,
    0x81,
    0xFFFFFFFF,
)
"""Low halves of WINDOW_MODE: on and off, every mode, interleaved, with limits, with reserved bits."""


def address(random: Random) -> int:
    """A 64-bit address: mostly in memory, often at an edge, now and then anywhere."""
    choice = random.randrange(10)
    if choice < 4:
        return random.choice((DATA, OUTPUT, TCDM_BASE, TCDM_HART_BASE, WINDOW, BUFFER)) + 8 * random.randrange(64)
    if choice < 8:
        return (
            random.choice(EDGES) + random.choice((0, 0, 0, 8, -8, 1, -1, 4, 4096, -4096, 8 * random.randrange(64)))
            & MASK64
        )
    if choice == 8:
        return random.getrandbits(32)
    return random.getrandbits(64)


def size(random: Random) -> int:
    """A size, count or stride: small, or far too large."""
    choice = random.randrange(8)
    if choice < 5:
        return random.choice(SIZES)
    if choice < 7:
        return random.choice(HUGE) - random.choice((0, 0, 1, 8))
    return random.randrange(1 << 16)


def word(random: Random) -> int:
    """Any 64-bit word."""
    choice = random.randrange(5)
    if choice == 0:
        return address(random)
    if choice == 1:
        return size(random)
    if choice == 2:
        return 1 << random.randrange(64)
    if choice == 3:
        return random.getrandbits(64)
    return random.randrange(256)


def unit_chunk(random: Random) -> int:
    """A UNIT chunk: every kind, indices that exist and that do not, junk in the other bits."""
    junk = random.getrandbits(40) << 24 if random.random() < 0.1 else 0
    return (random.randrange(6) << 24 | random.choice((0, 1, 3, 4, 255, 0xFFFF))) ^ junk & MASK64


def window(random: Random, index: int | None = None) -> list[Command]:
    """Writes to a window's four registers: in any order, sometimes not all of them, mostly with a usable mode."""
    number = random.randrange(8) if index is None else index
    low, span = random.choice(MODES), random.choice((8, 0x1000, 0x1_0000, 0x8_0000, 1 << 31, 1 << 32, size(random)))
    if random.random() < 0.1:
        low = random.getrandbits(32)
    writes: list[Command] = [
        WriteReg64(WINDOW_BASE.offset + number, random.choice((WINDOW, WINDOW + 8, ELF, HART_WINDOW, address(random)))),
        WriteReg64(WINDOW_TARGET.offset + number, random.choice((OUTPUT, TCDM_HART_BASE, DMA_BASE, address(random)))),
        WriteReg64(WINDOW_SCALE.offset + number, random.choice((0, 0xFFF_00000001, 0x1F, word(random)))),
        WriteReg64(WINDOW_MODE.offset + number, (span - 1 & MASK32) << 32 | low),
    ]
    if random.random() < 0.2:
        random.shuffle(writes)
    return writes[: random.choice((4, 4, 4, 3, 2))]


def transfer(random: Random) -> list[Command]:
    """Writes to the DMA registers as a transfer has them, with one or two numbers gone wrong."""
    dimension = random.choice((1, 2, 2, 3, 3))
    rows = [random.choice((1, 8, 24, 64)), random.choice((1, 2, 5)), random.choice((1, 2, 3))]
    step = rows[0] + random.choice((0, 0, 8, 1))
    values = {
        3: DATA,
        4: OUTPUT,
        5: rows[0],
        6: rows[1],
        7: rows[2],
        8: step,
        9: step * rows[1],
        10: step,
        11: step * rows[1],
    }
    for _ in range(random.randrange(3)):
        place = random.choice(list(values))
        values[place] = address(random) if place < 5 else size(random)
    control = 1 | dimension << 4 | random.choice((0xC0, 0xC0, 0, 0x80, 0x40))
    if random.random() < 0.1:
        control = word(random)
    out: list[Command] = [StoreImm64(DMA_BASE + 8 * index, value) for index, value in values.items()]
    out.append(StoreImm64(DMA_BASE, control))
    if random.random() < 0.7:
        out.append(StoreImm64(DMA_BASE + 16, random.choice((1, 1, 2, 0, MASK32, word(random)))))
    return out


def launch(random: Random) -> list[Command]:
    """A kernel command and its registers; the code at `CODE` is whatever the caller put there."""
    instances = random.choice((0, 1, 1, 2, 5, 9, 1 << 32, MASK64))
    harts = random.choice((0, 1, 2, 4, 4, 5, 255))
    out: list[Command] = [
        WriteReg64(ENTRY_PT_FN.offset, random.choice((CODE, CODE, CODE, CODE + 2, 0, address(random)))),
        WriteReg64(STACK_TOP.offset, random.choice((0, TCDM_HART_BASE + 0x8_0000, address(random)))),
        WriteReg64(RETURN_ADDR.offset, random.choice((0, 0xDEAD_0000, CODE, address(random)))),
    ]
    if random.random() < 0.6:
        return [*out, RunInstances(harts, instances, tuple(word(random) for _ in range(random.randrange(8))))]
    offset, length = (
        random.choice((0, 8, 64, size(random) & 0xFF_FFFF)),
        random.choice((0, 8, 64, size(random) & 0xFF_FFFF)),
    )
    block = (random.choice((DATA, OUTPUT, address(random))) & (1 << 48) - 1) | random.choice((0, 1, 4, 0xFFFF)) << 48
    return [
        *out,
        WriteReg64(KUB_DESC.offset, block),
        WriteReg64(KARGS_INFO.offset, offset << 16 | length << 40),
        WriteReg64(TSD_INFO.offset, random.choice((0, length << 16 | offset << 40))),
        RunKernelSlice(harts, instances, word(random)),
    ]


def one(random: Random) -> list[Command]:
    """One command of any opcode with fields that may or may not make sense."""
    register = random.choice((0, 1, 5, 6, 7, 8, 24, 39, 40, 255, MASK32, random.randrange(NUM_CMP_REGISTERS)))
    copied = random.choice((0, 1, 4, 31, 33, 64, 65, 1000, 1 << 29, MASK32))
    makers: Sequence[Callable[[], Command]] = (
        lambda: Nop(random.getrandbits(32), tuple(word(random) for _ in range(random.randrange(3)))),
        lambda: WriteReg64(random.choice((0, 0, register)), word(random)),
        lambda: LoadReg64(random.choice((0, 0, register)), address(random)),
        lambda: StoreReg64(random.choice((0, 0, register)), address(random)),
        lambda: StoreImm64(address(random) & MASK32, word(random)),
        lambda: CopyMem64(copied, address(random), address(random), unit_chunk(random)),
        lambda: SyncCache(random.choice((0, 1, 2, 3, 3, 4, random.getrandbits(32)))),
    )
    return [random.choice(makers)()]


def commands(random: Random) -> list[Command]:
    """A buffer of mostly valid commands."""
    out: list[Command] = []
    for _ in range(random.randrange(1, 6)):
        out += random.choice((one, one, window, transfer, launch))(random)
    if random.random() < 0.15:
        # Long runs of plain commands go another way through the device.
        out += [command for _ in range(40) for command in plain(random)]
    return [*out, Finish()] if random.random() < 0.7 else out


def plain(random: Random) -> list[Command]:
    """One of the commands that may run in bulk, on memory most of the time."""
    at = random.choice((DATA, OUTPUT, TCDM_BASE, WINDOW)) + 8 * random.randrange(32)
    if random.random() < 0.03:
        at = address(random)
    register = random.choice((0, 0, 1, 5, 6, 7, 8, 40)) if random.random() < 0.05 else random.randrange(7)
    return [
        random.choice(
            (
                Nop(),
                WriteReg64(register, word(random)),
                LoadReg64(register, at),
                StoreReg64(register, at),
                StoreImm64(at & MASK32, at),
            )
        )
    ]


def words_of(parts: Sequence[Command]) -> list[int]:
    """The chunks of commands."""
    return [chunk for command in parts for chunk in command.encode()]


def broken(random: Random, words: list[int]) -> list[int]:
    """The same chunks with a few mistakes: bits flipped, chunks lost, repeated, swapped, headers made up."""
    words = list(words)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if not words:
            return [word(random)]
        place = random.randrange(len(words))
        match random.randrange(7):
            case 0 | 1:
                words[place] ^= 1 << random.randrange(64)
            case 2:
                del words[place:]
            case 3:
                del words[place]
            case 4:
                words.insert(place, random.choice(words))
            case 5:
                header = encode_header(Header(random.randrange(12), random.randrange(4), random.getrandbits(32)))
                words[place] = header
            case 6:
                words[place] = word(random)
    return words


def buffer(random: Random) -> bytes:
    """A hostile command buffer of any kind."""
    choice = random.randrange(10)
    if choice == 0:
        words = [random.getrandbits(64) for _ in range(random.randrange(12))]
    elif choice == 1:
        words = [headed(random) for _ in range(random.randrange(1, 20))]
    elif choice < 6:
        words = words_of(commands(random))
    elif choice < 8:
        words = broken(random, words_of(commands(random)))
    else:
        words = broken(random, list(random.choice(recorded_buffers())))
    data = struct.pack(f"<{len(words)}Q", *words)
    return data[: -random.randrange(1, 8)] if data and random.random() < 0.05 else data


def code(random: Random) -> bytes:
    """What kernel commands may find at `CODE`: nothing, an end, anything, a loop, a loop of calls of the host."""
    texts = (
        "addi a0, zero, 0; jalr zero, 0(ra)",
        f"addi a0, a0, 1; jal zero, {CODE}",
        f"addi a7, zero, {random.randrange(4)}; ecall; jal zero, {CODE}",
        f"sd a2, 0(a1); addi a1, a1, 8; jal zero, {CODE}",
    )
    choice = random.randrange(len(texts) + 2)
    if choice < len(texts):
        return assemble(texts[choice], CODE)
    return random.randbytes(64) if choice == len(texts) else b""


def headed(random: Random) -> int:
    """A chunk that may be a header: a known opcode, a count near the right one, any inline chunk."""
    opcode = random.choice(list(Opcode))
    return (
        random.getrandbits(32) << 32 | 0xC000_0000 | random.randrange(9) << 16 | opcode << 8 | (random.random() < 0.05)
    )


@cache
def recorded_scripts() -> tuple[tuple[str, ...], ...]:
    """The lines of every recording."""
    return tuple(tuple(load(path)["script"]) for path in sorted(FOLDER.glob("*.json")))


@cache
def recorded_buffers() -> tuple[tuple[int, ...], ...]:
    """The chunks of every command buffer in the recordings."""
    lines = {line for script in recorded_scripts() for line in script if line.startswith("cb ")}
    return tuple(tuple(int(token, 0) for token in line.split()[1:]) for line in sorted(lines))
