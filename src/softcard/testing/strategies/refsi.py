"""Strategies for command buffers of RefSi M1, with the device profile "spec"."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from softcard.core.errors import WireError
from softcard.device.refsi import registers as r
from softcard.device.refsi.commands import (
    CHUNK_BYTES,
    COMMANDS,
    Command,
    CopyMem64,
    Finish,
    LoadReg64,
    Nop,
    RunInstances,
    RunKernelSlice,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
)
from softcard.testing.strategies.drawn import Drawn, drawn

WORD: Final = st.integers(0, (1 << 64) - 1)
HALF: Final = st.integers(0, (1 << 32) - 1)
BYTE: Final = st.integers(0, 255)
UNIT: Final = st.builds(lambda kind, index: kind << 24 | index, st.integers(0, 4), st.integers(0, 0xFFFF))
MOST_COMMANDS: Final = 6
"""The maximum number of commands before the invalid one, and also of commands after it."""
ELEMENTS: Final = 8
"""The maximum number of elements that a drawn COPY_MEM64 command copies."""
PLAIN_REGISTERS: Final = range(r.RETURN_ADDR.offset + 1)
"""The offsets of the CMP registers that a command may change without opening a memory window."""
REGISTERS: Final = frozenset(range(r.NUM_CMP_REGISTERS)) - {7}
NOWHERE: Final = range(0, 0x1000, CHUNK_BYTES)
"""Addresses at which RefSi has no memory."""


def refsi_commands() -> SearchStrategy[Command]:
    """Draw any command that can be encoded, valid or not."""
    return st.one_of(
        st.builds(Nop, HALF, st.lists(WORD, max_size=5).map(tuple)),
        st.builds(Finish, HALF),
        st.builds(WriteReg64, HALF, WORD),
        st.builds(LoadReg64, HALF, WORD),
        st.builds(StoreReg64, HALF, WORD),
        st.builds(StoreImm64, HALF, WORD),
        st.builds(CopyMem64, HALF, WORD, WORD, UNIT),
        st.builds(RunKernelSlice, BYTE, WORD, WORD),
        st.builds(RunInstances, BYTE, WORD, st.lists(WORD, max_size=7).map(tuple)),
        st.builds(SyncCache, st.integers(0, 3)),
    )


def refsi_buffers(
    *, breaks: Collection[str] | None = None, memory: range = range(r.DRAM_BASE, r.DRAM_BASE + 0x1000)
) -> SearchStrategy[Drawn[bytes]]:
    """Draw RefSi command buffers as bytes; they end with FINISH and start no kernels.

    A valid one accesses only `memory`, a range of addresses below 4 GiB, and the registers of the CMP (the command
    processor). `breaks` lists the ids of the rules that may be broken, one at a time.
    """
    if memory.start < NOWHERE.stop or memory.stop > 1 << 32 or len(memory) < 2 * CHUNK_BYTES:
        text = f"memory has {len(memory)} bytes at {memory.start:#x}, expected 16 bytes or more between 4 KiB and 4 GiB"
        raise WireError(text)
    whole = range(memory.start + CHUNK_BYTES - 1 & -CHUNK_BYTES, memory.stop - CHUNK_BYTES + 1, CHUNK_BYTES)
    commands = _commands(whole)
    wrong = _wrong(commands, whole)
    mistakes = {f"refsi/{name}": partial(_around, commands, one) for name, one in wrong.items()}
    mistakes["refsi/chunks"] = partial(_cut, commands)
    return drawn(partial(_around, commands, None), mistakes, breaks)


def _commands(memory: range) -> SearchStrategy[Command]:
    places = st.sampled_from(memory)
    first = st.sampled_from(memory[: max(1, len(memory) - ELEMENTS + 1)])
    count = st.integers(0, min(ELEMENTS, len(memory)))
    return st.one_of(
        st.builds(WriteReg64, st.sampled_from(PLAIN_REGISTERS), HALF),
        st.builds(StoreImm64, places, WORD),
        st.builds(LoadReg64, st.just(0), places),
        st.builds(StoreReg64, st.sampled_from(sorted(REGISTERS)), places),
        st.builds(CopyMem64, count, first, first, st.sampled_from([0, 2 << 24, 3 << 24, 3 << 24 | 3])),
        st.builds(SyncCache, st.integers(1, 3)),
    )


def _around(commands: SearchStrategy[Command], wrong: SearchStrategy[tuple[int, ...]] | None, draw: DrawFn) -> bytes:
    """Draw valid commands as command-buffer bytes.

    If `wrong` is given, an invalid command drawn from it follows, and then further commands, which are never
    reached."""
    some = st.lists(commands, max_size=MOST_COMMANDS)
    chunks = [chunk for command in draw(some) for chunk in command.encode()]
    if wrong is not None:
        chunks += draw(wrong)
        chunks += [chunk for command in draw(some) for chunk in command.encode()]
    return _bytes([*chunks, *Finish().encode()])


def _cut(commands: SearchStrategy[Command], draw: DrawFn) -> bytes:
    """Draw a command buffer without FINISH whose last command lacks chunks of its payload."""
    whole = draw(st.lists(commands, max_size=MOST_COMMANDS))
    last = draw(commands.filter(lambda command: bool(command.payload))).encode()
    chunks = [chunk for command in whole for chunk in command.encode()]
    return _bytes([*chunks, *last[: draw(st.integers(1, len(last) - 1))]])


def _bytes(chunks: list[int]) -> bytes:
    return b"".join(chunk.to_bytes(CHUNK_BYTES, "little") for chunk in chunks)


def _wrong(commands: SearchStrategy[Command], memory: range) -> dict[str, SearchStrategy[tuple[int, ...]]]:
    """Return a strategy for the chunks of a command that breaks a rule, for each rule id."""
    places, nowhere = st.sampled_from(memory), st.sampled_from(NOWHERE)
    registers = st.just(7) | st.integers(r.NUM_CMP_REGISTERS, (1 << 32) - 1)
    windows = st.sampled_from([r.WINDOW_MODE.offset + n for n in range(8)])
    return {
        "header-packet-id": st.builds(_with_bits, commands, st.just(30), st.just(2), st.integers(0, 2)),
        "header-reserved": st.builds(_with_bits, commands, st.just(0), st.just(8), st.integers(1, 255)),
        "header-opcode": st.builds(_with_bits, commands, st.just(8), st.just(8), st.integers(len(COMMANDS), 255)),
        "header-count": st.builds(_miscounted, commands, st.integers(0, 31)),
        "zero-extension": st.builds(
            _extended,
            st.builds(RunInstances, BYTE, WORD, st.lists(WORD, max_size=7).map(tuple)),
            st.integers(1, 1 << 20),
        ),
        "reg-idx": _encoded(
            st.builds(WriteReg64, registers, WORD)
            | st.builds(LoadReg64, registers, places)
            | st.builds(StoreReg64, registers, places)
        ),
        "load-address": _encoded(st.builds(LoadReg64, st.just(0), nowhere)),
        "store-address": _encoded(st.builds(StoreReg64, st.just(0), nowhere)),
        "store-imm-address": _encoded(st.builds(StoreImm64, nowhere, WORD)),
        "copy-address": _encoded(
            st.builds(CopyMem64, st.just(1), nowhere, places) | st.builds(CopyMem64, st.just(1), places, nowhere)
        ),
        "copy-unit": _encoded(
            st.builds(CopyMem64, st.just(1), places, places, st.integers(5, 255).map(lambda kind: kind << 24))
            | st.builds(CopyMem64, st.just(1), places, places, st.integers(32, 63).map(lambda bit: 1 << bit))
        ),
        "sync-flags": _encoded(st.builds(SyncCache, st.integers(4, (1 << 32) - 1))),
        "window-mode-reserved": _encoded(st.builds(lambda at, size: WriteReg64(at, size << 32 | 7), windows, HALF)),
    }


def _encoded(commands: SearchStrategy[Command]) -> SearchStrategy[tuple[int, ...]]:
    return commands.map(lambda command: command.encode())


def _with_bits(command: Command, low: int, width: int, value: int) -> tuple[int, ...]:
    """Return a command's chunks with a bit range of the header (`low`, `width`) set to `value`."""
    header, *payload = command.encode()
    return header & ~((1 << width) - 1 << low) | value << low, *payload


def _miscounted(command: Command, count: int) -> tuple[int, ...]:
    """Return a command's chunks with a wrong payload count in the header.

    The wrong counts are all numbers except the right one; `count` is the index of one of them."""
    right = 2 * len(command.payload)
    return _with_bits(command, 16, 14, count + (count >= right))


def _extended(command: Command, more: int) -> tuple[int, ...]:
    """Return a command's chunks with `more` written to the unused bits above the fields of the inline chunk."""
    header, *payload = command.encode()
    width = max(part.lsb + part.width for part in command.INLINE.fields)
    return header | more << 32 + width, *payload
