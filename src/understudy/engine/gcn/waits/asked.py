"""The check of waits, loaded where somebody asks for it: all of the instruction set goes with it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from understudy.core.checks import WAITS

if TYPE_CHECKING:
    from understudy.core.findings import FindingLog
    from understudy.engine.gcn.waits.checker import WaitChecker


def waits_of(checks: Collection[str], log: FindingLog | None) -> WaitChecker | None:
    """What looks at the waits of kernels that run, and tells a log; None where nobody asked for it."""
    if log is None or WAITS not in checks:
        return None
    from understudy.engine.gcn.waits.checker import WaitChecker

    return WaitChecker(log.note)
