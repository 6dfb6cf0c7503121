"""Findings of races: their text, and one finding with a count for all races of the same instructions."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from softcard.core.findings import Finding, FindingLog


def race_message(access: str, size: int, place: str, earlier: str, between: str) -> str:
    """Return the message of a race finding; `size` is the number of bytes, or 0 if that is not known.

    `access` is the later access, `place` its location, and `earlier` the earlier access. `between` names the kind of
    agents that made both accesses, for example "harts".
    """
    extent = f" of {size} bytes" if size else ""
    article = "an" if earlier[0] in "aeiou" else "a"
    accesses = f"{access}{extent} at {place} and {article} {earlier} of the same bytes"
    return f"{accesses} by {between} without a happens-before order"


def host_and(work: str) -> str:
    """Return the argument `between` of `race_message` for a race of the host with `work`."""
    return f"the host and {work} that it has not waited for,"


class RaceFindings:
    """The race findings in a log: one finding for each site, with a count of the site's races.

    A *site* is a hashable key that all races between the same pair of instructions share.
    """

    def __init__(self, log: FindingLog) -> None:
        self.log = log
        self._reported: dict[Hashable, Finding] = {}

    def has_counted(self, site: Hashable, count: int = 1) -> bool:
        """Add `count` to the races of a site; return False, adding nothing, if the site was not reported yet."""
        known = self._reported.get(site)
        if known is not None:
            self.log.note(replace(known, count=count))
        return known is not None

    def report(self, site: Hashable, finding: Finding) -> None:
        """Report the first race of a site: write the finding to the log."""
        self._reported[site] = replace(finding)
        self.log.note(finding)

    def locate(self, finding: Finding) -> None:
        """Add to a finding the names of its functions and its source lines, as far as they are known."""
        for namer in self.log.namers:
            namer(finding)
