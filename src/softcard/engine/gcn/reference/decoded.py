"""Decoded instructions of a memory, for the reference engine and for translators.

The module does not import the reference engine, which most launches of translated code never need.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from softcard.core.errors import AccessFault, BeyondModel, GuestFault
from softcard.engine.gcn.api import INSTRUCTION_FETCH
from softcard.engine.gcn.memory import GpuMemory
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.formats import LONGEST
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.target import Target

if TYPE_CHECKING:
    from softcard.engine.gcn.reference.replay import Replay


@dataclass(slots=True)
class Cached:
    """A decoded instruction and the location of its words. It is valid while memory holds the same words.

    `uses` counts executions. `replays` maps a value of MODE to a recording of the instruction (see `replay`), or
    to None if it cannot be recorded."""

    insn: Insn
    words: memoryview
    index: int
    first: int
    second: int | None
    more: list[int] = field(default_factory=list)
    """The words after the second one."""
    uses: int = 0
    replays: dict[int, Replay | None] = field(default_factory=dict)

    def holds(self) -> bool:
        """Return True if memory still holds the instruction's words."""
        words, index = self.words, self.index
        if words[index] != self.first or not (self.second is None or words[index + 1] == self.second):
            return False
        return not self.more or words[index + 2 : index + 2 + len(self.more)].tolist() == self.more


class DecodedCode:
    """The cache of the instructions of a memory, decoded for one processor. It is not thread-safe.

    `known` are decoded instructions by address, valid for the present mappings."""

    def __init__(self, target: Target, memory: GpuMemory, known: dict[int, Cached] | None = None) -> None:
        self.target = target
        self.memory = memory
        self._known = {} if known is None else known
        self._version = memory.version

    def fetch(self, pc: int) -> Insn:
        """Return the instruction at `pc` for a translator, or raise a fault if there is none.

        A translator may read the instruction in advance and more than once. Therefore raise `BeyondModel` if reading
        it could have effects; then only `step` may read it, once for each execution."""
        if self.memory.plain(pc, 4) is None and self.memory.find(pc) is not None:
            raise BeyondModel("instructions outside of RAM cannot be translated").at("pc", pc)
        return self.at(pc).insn

    def at(self, pc: int) -> Cached:
        """Return the instruction at `pc`, or raise a fault if there is none."""
        if self.memory.version != self._version:
            self._version = self.memory.version
            self._known.clear()
        cached = self._known.get(pc)
        return cached if cached is not None and cached.holds() else self._decode(pc)

    def _decode(self, pc: int) -> Cached:
        if pc & 3:
            raise GuestFault("the address of an instruction must be a multiple of 4").at("pc", pc)
        found = self.memory.plain(pc, 4)
        if found is None or (pc - found.base) & 3:
            return Cached(decode(self.target, self._slowly(pc), pc), memoryview(b""), 0, 0, None)
        words, index = found.code, (pc - found.base) >> 2
        insn = decode(self.target, words[index : index + LONGEST // 4].tolist(), pc)
        second = insn.words[1] if len(insn.words) > 1 else None
        cached = self._known[pc] = Cached(insn, words, index, insn.words[0], second, list(insn.words[2:]))
        return cached

    def _slowly(self, pc: int) -> list[int]:
        """Return the words at `pc`, read one by one.

        This is needed if the code is not, or only partly, in plain memory."""
        words: list[int] = []
        for at in range(pc, pc + LONGEST, 4):
            try:
                words.append(int.from_bytes(self.memory.read(at, 4), "little"))
            except AccessFault as fault:
                if not words:
                    raise fault.at("pc", pc, INSTRUCTION_FETCH) from None
                break
        return words
