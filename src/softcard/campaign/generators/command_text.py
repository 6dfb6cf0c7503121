"""Random valid command buffers of RefSi and Acceldev, and valid sequences of AQL packets, as text.

Command buffers of RefSi are listings for `softcard refsi encode`. The text for Acceldev and AQL has one
command on each line, a word followed by numbers. Acceldev has ``fill SLOT VALUE START LENGTH``, ``fence`` and
``nop``; AQL has ``add CELL VALUE GRID GROUP BARRIER``, ``and`` and ``or``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from softcard.campaign.generators.tree import Choices, Node, leaf, lines, pick
from softcard.device.refsi.commands import (
    CHUNK_BYTES,
    CopyMem64,
    LoadReg64,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
)
from softcard.device.refsi.registers import DRAM_BASE, NUM_CMP_REGISTERS
from softcard.device.refsi.toolkit.listing import text

MOST_COMMANDS: Final = 40
REFSI_BYTES: Final = 1 << 12
"""The number of bytes at the start of DRAM that generated commands write; the command buffer is elsewhere."""
ACCELDEV_SLOTS: Final = (4096, 8192)
AQL_CELLS: Final = 16
_WORD: Final = (1 << 64) - 1
_COPIED: Final = 8
_SCRATCH: Final = 0
"""The number of the RefSi register CMP_SCRATCH, which has no side effects."""
_UNITS: Final = (0, 2 << 24, 3 << 24)


def _list(choices: Choices, one: Callable[[Choices], str], ending: str = "") -> Node:
    commands = [Node(one(choices), may_go=True) for _ in range(choices.integer(1, MOST_COMMANDS))]
    return lines(*commands, *([leaf(ending)] if ending else []), leaf(""))


def make_refsi(choices: Choices) -> Node:
    """Draw a random command buffer that writes, copies and reads a part of DRAM, and the scratch register."""
    return _list(choices, _refsi, "FINISH")


def _refsi(choices: Choices) -> str:
    def place() -> int:
        return DRAM_BASE + CHUNK_BYTES * choices.integer(0, REFSI_BYTES // CHUNK_BYTES - _COPIED)

    how = choices.integer(0, 9)
    if how <= 2:
        return text(StoreImm64(place(), choices.integer(0, _WORD)))
    if how <= 5:
        return text(CopyMem64(choices.integer(0, _COPIED), place(), place(), pick(choices, _UNITS)))
    if how == 6:
        return text(WriteReg64(_SCRATCH, choices.integer(0, (1 << 32) - 1)))
    if how == 7:
        return text(LoadReg64(_SCRATCH, place()))
    if how == 8:
        return text(StoreReg64(pick(choices, [n for n in range(NUM_CMP_REGISTERS) if n != _WINDOW]), place()))
    return text(SyncCache(choices.integer(1, 3)))


_WINDOW: Final = 7
"""The number of a write-only RefSi register, which generated commands do not read."""


def make_acceldev(choices: Choices) -> Node:
    """Draw random user commands that fill parts of two buffers."""
    return _list(choices, _acceldev)


def _acceldev(choices: Choices) -> str:
    how = choices.integer(0, 9)
    if how <= 1:
        return pick(choices, ("fence", "nop"))
    slot = choices.integer(0, len(ACCELDEV_SLOTS) - 1)
    start = choices.integer(0, ACCELDEV_SLOTS[slot])
    length = choices.integer(0, ACCELDEV_SLOTS[slot] - start)
    return f"fill {slot} {choices.integer(0, (1 << 32) - 1):#x} {start} {length}"


def make_aql(choices: Choices) -> Node:
    """Draw random AQL packets: barriers, and kernels in which each work-item adds a number to a memory cell."""
    return _list(choices, _aql)


def _aql(choices: Choices) -> str:
    how = choices.integer(0, 5)
    if how == 0:
        return pick(choices, ("and", "or"))
    value = choices.integer(0, (1 << 32) - 1)
    grid, group, cell = choices.integer(1, 200), choices.integer(1, 130), choices.integer(0, AQL_CELLS - 1)
    return f"add {cell} {value:#x} {grid} {group} {choices.integer(0, 1)}"
