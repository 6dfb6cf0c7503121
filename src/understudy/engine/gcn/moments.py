"""Registers of waves at chosen moments: before instructions, where a wave fails, traps, or ends.

Waves run on the reference engine for it (`reference.moments`), so that all registers are what they are: translated code
keeps none that nobody reads again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from understudy.engine.gcn.api import Dispatch
from understudy.isa.gcn.state import EXEC, FLAT_SCRATCH, M0, MODE, MODE_BITS, SCC, VCC, Wave

ROW: Final = 8
"""Scalar registers are told of by so many, up to the last that is not 0."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Registers of a wave: `scalars` by name, and `vectors` by name, a word for each lane from 0 on, in hex.

    `why`: ``before`` the instruction, at its ``fault`` or ``trap``, at the wave's ``end``.
    """

    why: str
    group: tuple[int, int, int]
    wave: int
    pc: int
    instruction: str
    scalars: dict[str, str]
    vectors: dict[str, str]


@dataclass(slots=True, eq=False)
class Moments:
    """Which moments those are: before instructions at `pcs`, at faults and traps, with `at_end` at waves' ends.

    At most `most` snapshots are taken; `left_out` counts those that would have been more.
    """

    most: int
    pcs: set[int] = field(default_factory=set)
    at_end: bool = False
    taken: int = 0
    left_out: int = 0
    tell: Callable[[Snapshot], None] | None = None

    def take(self, why: str, dispatch: Dispatch, group: tuple[int, int, int], wave: Wave, pc: int, said: str) -> None:
        """Take a snapshot, if there is room for it and somebody to hear of it."""
        if self.tell is None:
            return
        if self.taken >= self.most:
            self.left_out += 1
            return
        self.taken += 1
        self.tell(Snapshot(why, group, wave.index, pc, said, _scalars(dispatch, wave), _vectors(dispatch, wave)))


def _scalars(dispatch: Dispatch, wave: Wave) -> dict[str, str]:
    words = wave.words
    found = {
        "exec": f"0x{wave.s64(EXEC):016x}",
        "vcc": f"0x{wave.s64(VCC):016x}",
        "scc": str(int(words[SCC])),
        "m0": f"0x{int(wave.sgpr[M0]):08x}",
        "flat_scratch": f"0x{wave.s64(FLAT_SCRATCH[dispatch.target.level]):016x}",
        "mode": f"0x{int(words[MODE]) & MODE_BITS:08x}",
    }
    used = wave.sgpr[: min(dispatch.sgpr_count, FLAT_SCRATCH[dispatch.target.level])]
    last = max((number for number, value in enumerate(used.tolist()) if value), default=0)
    for number, value in enumerate(used[: (last // ROW + 1) * ROW].tolist()):
        found[f"s{number}"] = f"0x{value:08x}"
    return found


def _vectors(dispatch: Dispatch, wave: Wave) -> dict[str, str]:
    rows = wave.vgpr[: dispatch.vgpr_count].tolist()
    return {f"v{number}": " ".join(f"{value:08x}" for value in row) for number, row in enumerate(rows)}
