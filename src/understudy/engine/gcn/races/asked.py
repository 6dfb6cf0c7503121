"""The check of races, loaded where somebody asks for it: all of the instruction set goes with it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from understudy.core.checks import LANES, RACES

if TYPE_CHECKING:
    from understudy.core.findings import FindingLog
    from understudy.engine.gcn.memory import GpuMemory
    from understudy.engine.gcn.races.watch import RaceWatch


def races_of(
    checks: Collection[str], memory: GpuMemory, log: FindingLog | None, equal_stores: bool = False
) -> RaceWatch | None:
    """What looks for races of the waves that see one memory, and tells a log; None where nobody asked for it.

    `equal_stores`: stores that leave memory as it is are told of, too.
    """
    if log is None or RACES not in checks:
        return None
    from understudy.engine.gcn.races.watch import RaceWatch

    return RaceWatch(memory, log, equal_stores, LANES in checks)
