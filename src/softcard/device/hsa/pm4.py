"""PM4, the native commands of the packet processor: their encoding, and those that runtimes put into AQL queues.

The commands of PM4 queues are in `device.kfd.compute_queue`. AMD's runtime invalidates caches before it runs code
that it has just written. For this, it uses an ACQUIRE_MEM command in an indirect buffer. On GFX9 a vendor packet
contains the buffer's address. On GFX7 and GFX8 the 16 dwords of a ring slot are commands: NOP, INDIRECT_BUFFER, and
a RELEASE_MEM whose event frees the slot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np

from softcard.core.errors import SoftcardError
from softcard.device.hsa import rules
from softcard.device.hsa.exceptions import PacketRefused, QueueError
from softcard.device.hsa.queues.packets import Pm4IbPacket
from softcard.engine.gcn.memory import GpuMemory

if TYPE_CHECKING:
    from softcard.device.hsa.fences import Fences

TYPE_3: Final = 3
"""The packet type 3, in bits 31:30 of a PM4 header.

Bits 29:16 are the number of following dwords minus 1, bits 15:8 the command.
"""
TYPE_2: Final = 2
"""The packet type 2, in bits 31:30 of a PM4 header: a filler of one dword."""
SLOT_RELEASED: Final = 7 << 8
"""The second dword of a RELEASE_MEM that frees its ring slot.

Its EVENT_INDEX 7 announces the end of an AQL packet.
"""
MOST_COUNT: Final = 0x3FFF
"""The maximum of the count in a header, bits 29:16."""
MOST_DWORDS: Final = 1 << 20
"""The maximum size of an indirect buffer, in dwords."""


class Command(IntEnum):
    """The PM4 commands, as encoded in bits 15:8 of a type 3 header."""

    NOP = 0x10
    DISPATCH_DIRECT = 0x15
    PRED_EXEC = 0x23
    WRITE_DATA = 0x37
    WAIT_REG_MEM = 0x3C
    INDIRECT_BUFFER = 0x3F
    EVENT_WRITE = 0x46
    RELEASE_MEM = 0x49
    ACQUIRE_MEM = 0x58
    SET_SH_REG = 0x76


class Pm4:
    """The executor of PM4 commands. With coherence "strict", `fences` executes their cache operations."""

    def __init__(self, memory: GpuMemory, fences: Fences | None) -> None:
        self._memory = memory
        self._fences = fences

    def flush(self) -> None:
        """Execute the cache operations of an ACQUIRE_MEM: all caches are written back and invalidated."""
        if self._fences is not None:
            self._fences.flush()

    def slot(self, data: bytes) -> None:
        """Execute the PM4 commands in a ring slot, as hardware of GFX7 and GFX8 does."""
        there = list(_commands(np.frombuffer(data, "<u4").tolist()))
        if [kind for kind, _ in there if kind != Command.NOP] != [Command.INDIRECT_BUFFER, Command.RELEASE_MEM]:
            named = ", ".join(command_name(kind) for kind, _ in there)
            _refuse(f"a packet slot has the PM4 commands {named}, expected NOP, INDIRECT_BUFFER and RELEASE_MEM")
        if there[-1][1] != [SLOT_RELEASED, 0, 0, 0, 0, 0]:
            _refuse("RELEASE_MEM does not free its packet slot, expected the AQL event and nothing else")
        for kind, body in there:
            if kind == Command.INDIRECT_BUFFER:
                self._indirect(body)

    def packet(self, data: bytes) -> None:
        """Execute the commands in the indirect buffer that a vendor packet refers to."""
        there = list(_commands(Pm4IbPacket.parse(data).ib_jump_cmd))
        if [kind for kind, _ in there] != [Command.INDIRECT_BUFFER]:
            _refuse(
                f"the vendor packet has PM4 command {', '.join(command_name(kind) for kind, _ in there)}, expected "
                "INDIRECT_BUFFER"
            )
        self._indirect(there[0][1])

    def _indirect(self, body: Sequence[int]) -> None:
        if len(body) != 3:
            _refuse(f"INDIRECT_BUFFER has {len(body) + 1} dwords, expected 4")
        address, count = body[0] & ~3 | (body[1] & 0xFFFF) << 32, body[2] % MOST_DWORDS
        words = np.frombuffer(self._memory.read(address, 4 * count), "<u4").tolist()
        try:
            for kind, _ in _commands(words):
                if kind == Command.ACQUIRE_MEM:
                    self.flush()
                elif kind != Command.NOP:
                    _refuse(f"PM4 command {command_name(kind)} is not modelled, expected ACQUIRE_MEM or NOP")
        except SoftcardError as error:
            raise error.at("indirect buffer", f"{address:#x}") from None


def header(word: int) -> tuple[int, int] | None:
    """Return the opcode and the number of following dwords of the PM4 command with the header `word`.

    For a filler of one dword the result is `Command.NOP` and 0: a packet of type 2, or NOP with the count 0x3FFF. For
    other words, return None."""
    kind, opcode, count = word >> 30, word >> 8 & 0xFF, (word >> 16 & MOST_COUNT) + 1
    if kind == TYPE_2 or (kind == TYPE_3 and opcode == Command.NOP and count == MOST_COUNT + 1):
        return int(Command.NOP), 0
    return (opcode, count) if kind == TYPE_3 else None


def _commands(words: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield each PM4 command with the list of dwords after its header."""
    at = 0
    while at < len(words):
        found = header(words[at])
        if found is None:
            _refuse(f"{words[at]:#010x} at dword {at} is not the header of a PM4 command")
        kind, count = found
        if at + 1 + count > len(words):
            _refuse(
                f"PM4 command {command_name(kind)} at dword {at} has {count + 1} dwords, but the buffer ends at dword "
                f"{len(words)}"
            )
        if count:
            yield kind, list(words[at + 1 : at + 1 + count])
        at += 1 + count


def command_name(kind: int) -> str:
    """Return the name of the PM4 command with the opcode `kind`, or the opcode if it is unknown."""
    return Command(kind).name if kind in list(Command) else f"{kind:#04x}"


def _refuse(text: str) -> NoReturn:
    raise PacketRefused(text, QueueError.INVALID_VENDOR_PACKET, rules.VENDOR_PACKET)
