"""Rules of "Command Processor Reference" and "General Command Format"."""

from __future__ import annotations

import pytest

from softcard.device.refsi.commands import CopyMem64, Nop, StoreImm64, WriteReg64, encode_all
from softcard.device.refsi.events import CommandFinished, CommandStarted
from tests.device.refsi.m1 import OUT, Bench
from tests.device.refsi.rig import refused_words

FINISH_WORD = 0xC000_0100


def test_refsi_in_order(bench: Bench) -> None:
    copies = [CopyMem64(1, OUT, OUT + 8), StoreImm64(OUT, 2), CopyMem64(1, OUT, OUT + 16)]
    assert bench.run(StoreImm64(OUT, 1), *copies).ok
    assert bench.r64(OUT, 3) == [2, 1, 2]
    steps = [
        (type(event), event.index) for event in bench.events if isinstance(event, CommandStarted | CommandFinished)
    ]
    assert steps == [(kind, index) for index in range(5) for kind in (CommandStarted, CommandFinished)]


def test_refsi_chunks(bench: Bench) -> None:
    assert bench.run(WriteReg64(0, 1), CopyMem64(0, OUT, OUT), Nop(0, (1, 2, 3))).ok
    assert [event.chunk for event in bench.seen(CommandStarted)] == [0, 2, 6, 10]
    header = encode_all([CopyMem64(1, OUT, OUT)])[:8]
    text = "COPY_MEM64: 3 payload chunks announced, but the buffer ends after 1"
    words = [0xC000_0000, int.from_bytes(header, "little"), OUT]
    refused_words(bench, "chunks", text, words, command=1, chunk=1)


def test_refsi_little_endian(bench: Bench) -> None:
    assert bench.words(bytes.fromhex("00 02 02 c0 00 00 00 00  88 77 66 55 44 33 22 11")).ok
    assert bench.device.registers[0] == 0x1122_3344_5566_7788
    swapped = int.from_bytes(bytes.fromhex("00 00 00 00 c0 02 02 00"), "little")
    text = "header 0x000202c000000000: packet identifier (bits 31-30) is 0, expected 3"
    refused_words(bench, "header-packet-id", text, [swapped, 0])


def test_refsi_header_reserved(bench: Bench) -> None:
    text = "header 0x00000000c0000180: reserved bits 7-0 are 0x80, expected 0"
    refused_words(bench, "header-reserved", text, [0xC000_0000, FINISH_WORD | 0x80], command=1, chunk=1)


@pytest.mark.parametrize("opcode", [10, 0x80, 0xFF])
def test_refsi_header_opcode(bench: Bench, opcode: int) -> None:
    text = f"header {0xC000_0000 | opcode << 8:#018x}: unknown opcode {opcode}"
    refused_words(bench, "header-opcode", text, [0xC000_0000 | opcode << 8])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (0xC001_0200, "header 0x00000000c0010200: count (bits 29-16) is 1, expected an even number"),
        (0xC000_0200, "WRITE_REG64: count announces 0 payload chunks, expected 1"),
        (0xC004_0200, "WRITE_REG64: count announces 2 payload chunks, expected 1"),
        (0xC002_0100, "FINISH: count announces 1 payload chunks, expected 0"),
        (0x0000_0300_C004_0800, "RUN_INSTANCES: count announces 2 payload chunks, expected 4"),
    ],
)
def test_refsi_header_count(bench: Bench, header: int, message: str) -> None:
    refused_words(bench, "header-count", message, [0xC002_0000, 0, header, 0, 0, 0, 0], command=1, chunk=2)


@pytest.mark.parametrize("identifier", [0, 1, 2])
def test_refsi_header_packet_id(bench: Bench, identifier: int) -> None:
    header = FINISH_WORD & 0x3FFF_FFFF | identifier << 30
    text = f"header {header:#018x}: packet identifier (bits 31-30) is {identifier}, expected 3"
    refused_words(bench, "header-packet-id", text, [header])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (0x0000_0100_C004_0700, "RUN_KERNEL_SLICE: inline chunk 0x100 has bits 0x100 outside of its fields"),
        (0x8000_0001_C002_0800, "RUN_INSTANCES: inline chunk 0x80000001 has bits 0x80000000 outside of its fields"),
    ],
)
def test_refsi_zero_extension(bench: Bench, header: int, message: str) -> None:
    refused_words(bench, "zero-extension", message, [header, 1, 0])
