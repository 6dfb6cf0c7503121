"""The checks that need marks, loaded where somebody asks for one: all of the instruction set goes with them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from understudy.core.checks import MARKED

if TYPE_CHECKING:
    from understudy.core.findings import FindingLog
    from understudy.engine.gcn.marks.check import MarkCheck
    from understudy.engine.gcn.memory import GpuMemory


def marks_of(checks: Collection[str], memory: GpuMemory, log: FindingLog | None) -> MarkCheck | None:
    """What looks after the marks of a memory, and tells a log; None where no check needs any."""
    if log is None or not MARKED.intersection(checks):
        return None
    from understudy.engine.gcn.marks.check import MarkCheck

    return MarkCheck.of(checks, memory, log)
