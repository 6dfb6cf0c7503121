"""Register snapshots of waves: before instructions, at faults and traps, and at the ends of waves.

Waves then run on the reference engine (`reference.tracepoints`), so that all registers are exact: translated code does
not store dead registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from softcard.engine.gcn.api import Dispatch
from softcard.isa.gcn.state import EXEC, FLAT_SCRATCH, M0, MODE, MODE_BITS, SCC, VCC, VGPRS, Wave, register_name

ROW: Final = 8
"""The number of scalar registers in a group: a snapshot contains whole groups.

The last group in a snapshot is the last one that has a register which is not 0.
"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The registers of a wave at one point of execution.

    `scalars` and `vectors` are by name; a vector register has a word for each lane from 0 on, in hex. `why` is
    ``before`` for the point before an instruction, ``fault`` or ``trap`` for one at the instruction, or ``end`` for the
    wave's end.
    """

    why: str
    group: tuple[int, int, int]
    wave: int
    pc: int
    instruction: str
    scalars: dict[str, str]
    vectors: dict[str, str]


@dataclass(slots=True, eq=False)
class Tracepoints:
    """The points of execution at which snapshots are taken, and the callback that receives the snapshots.

    The points are: before the instructions at `pcs`; at faults and traps; and, if `at_end` is true, at the ends of
    waves. At most `most` snapshots are taken; `left_out` is the number of snapshots that were not taken for this
    reason.
    """

    most: int
    pcs: set[int] = field(default_factory=set)
    at_end: bool = False
    taken: int = 0
    left_out: int = 0
    on_snapshot: Callable[[Snapshot], None] | None = None

    def take(self, why: str, dispatch: Dispatch, group: tuple[int, int, int], wave: Wave, pc: int, said: str) -> None:
        """Take a snapshot and pass it to `on_snapshot`; after `most` snapshots, only count it in `left_out`.

        Without a callback nothing is done. `why` is as in `Snapshot`; `said` is the text of the instruction at `pc`.
        """
        if self.on_snapshot is None:
            return
        if self.taken >= self.most:
            self.left_out += 1
            return
        self.taken += 1
        self.on_snapshot(Snapshot(why, group, wave.index, pc, said, _scalars(dispatch, wave), _vectors(dispatch, wave)))


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
    if dispatch.target.matrix:
        rows += [*[[]] * (VGPRS - len(rows)), *wave.acc.tolist()]
    return {register_name(number): " ".join(f"{value:08x}" for value in row) for number, row in enumerate(rows) if row}
