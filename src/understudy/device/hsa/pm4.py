"""PM4: the packet processor's own commands, as far as runtimes put them into queues.

AMD's runtime has caches invalidated before code runs that it has just written, by an ACQUIRE_MEM in an indirect buffer.
On GFX9 a vendor packet names the buffer. Before that the 16 dwords of a slot are commands: NOP, INDIRECT_BUFFER, and
a RELEASE_MEM whose event gives the slot back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np

from understudy.core.errors import UnderstudyError
from understudy.device.hsa import rules
from understudy.device.hsa.exceptions import PacketRefused, QueueError
from understudy.device.hsa.packets import Pm4IbPacket
from understudy.engine.gcn.memory import GpuMemory

if TYPE_CHECKING:
    from understudy.device.hsa.fences import Fences

TYPE_3: Final = 3
"""Bits 31:30 of a header: the dwords behind it number bits 29:16, and one more; the command is bits 15:8."""
TYPE_2: Final = 2
"""A filler of one dword."""
SLOT_RELEASED: Final = 7 << 8
"""Second dword of RELEASE_MEM: EVENT_INDEX, the end of an AQL packet."""
MOST_DWORDS: Final = 1 << 20
"""Dwords of an indirect buffer that its command can name."""


class Command(IntEnum):
    """Bits 15:8 of a header."""

    NOP = 0x10
    INDIRECT_BUFFER = 0x3F
    RELEASE_MEM = 0x49
    ACQUIRE_MEM = 0x58


class Pm4:
    """Executes what comes in packets. `fences` are those of a strict memory."""

    def __init__(self, memory: GpuMemory, fences: Fences | None) -> None:
        self._memory = memory
        self._fences = fences

    def slot(self, data: bytes) -> None:
        """The commands that a slot consists of."""
        there = list(_commands(np.frombuffer(data, "<u4").tolist()))
        if [kind for kind, _ in there if kind != Command.NOP] != [Command.INDIRECT_BUFFER, Command.RELEASE_MEM]:
            named = ", ".join(_name(kind) for kind, _ in there)
            _refuse(f"a slot of PM4 commands {named}, expected NOP, INDIRECT_BUFFER and RELEASE_MEM")
        if there[-1][1] != [SLOT_RELEASED, 0, 0, 0, 0, 0]:
            _refuse("a RELEASE_MEM that does not give its slot back, expected the event of AQL and nothing else")
        for kind, body in there:
            if kind == Command.INDIRECT_BUFFER:
                self._indirect(body)

    def packet(self, data: bytes) -> None:
        """The vendor packet that names an indirect buffer."""
        there = list(_commands(Pm4IbPacket.parse(data).ib_jump_cmd))
        if [kind for kind, _ in there] != [Command.INDIRECT_BUFFER]:
            _refuse(f"PM4 command {', '.join(_name(kind) for kind, _ in there)} in a packet, expected INDIRECT_BUFFER")
        self._indirect(there[0][1])

    def _indirect(self, body: Sequence[int]) -> None:
        if len(body) != 3:
            _refuse(f"INDIRECT_BUFFER of {len(body) + 1} dwords, expected 4")
        address, count = body[0] & ~3 | (body[1] & 0xFFFF) << 32, body[2] % MOST_DWORDS
        words = np.frombuffer(self._memory.read(address, 4 * count), "<u4").tolist()
        try:
            for kind, _ in _commands(words):
                if kind == Command.ACQUIRE_MEM:
                    if self._fences is not None:
                        self._fences.flush()
                elif kind != Command.NOP:
                    _refuse(f"PM4 command {_name(kind)} is not modelled, expected ACQUIRE_MEM or NOP")
        except UnderstudyError as error:
            raise error.at("indirect buffer", f"{address:#x}") from None


def _commands(words: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Commands and what follows their headers."""
    at = 0
    while at < len(words):
        header = words[at]
        kind, count = header >> 30, (header >> 16 & 0x3FFF) + 1
        if kind == TYPE_2:
            at += 1
            continue
        if kind != TYPE_3:
            _refuse(f"{header:#010x} at dword {at} is no header of a PM4 command")
        if at + 1 + count > len(words):
            _refuse(f"PM4 command {_name(header >> 8 & 0xFF)} of {count + 1} dwords at dword {at} of {len(words)}")
        yield header >> 8 & 0xFF, list(words[at + 1 : at + 1 + count])
        at += 1 + count


def _name(kind: int) -> str:
    return Command(kind).name if kind in list(Command) else f"{kind:#04x}"


def _refuse(text: str) -> NoReturn:
    raise PacketRefused(text, QueueError.INVALID_VENDOR_PACKET, rules.VENDOR_PACKET)
