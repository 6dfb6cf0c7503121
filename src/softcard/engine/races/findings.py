"""Findings of races: their text, one finding with a count for each site, and the accesses that a host access meets."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

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
        self._reported[site] = replace(finding, capture=None)
        self.log.note(finding)

    def locate(self, finding: Finding) -> None:
        """Add to a finding the names of its functions and its source lines, as far as they are known."""
        for namer in self.log.namers:
            namer(finding)


# ---- bytes of a host access ------------------------------------------------------------------------------------------
# The host accesses many bytes at once, which kernels have accessed by single instructions.


PIECE: Final = 1 << 16
"""The number of bytes of a host access that are checked at a time."""

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class FirstAccess:
    """The first byte of an earlier access, with its access record and the record's kind.

    `size` is the number of accessed bytes.
    """

    address: int
    record: int
    row: int
    size: int


class FirstAccesses:
    """A collector of earlier accesses to a range of bytes, each by its first byte in the range.

    The range is processed in segments. For each segment, call `add` once for each kind of record in shadow cells, in
    the order of the kinds, and then call `end_piece`."""

    def __init__(self) -> None:
        self.found: dict[int, FirstAccess] = {}
        """The accesses found so far, by a key that identifies the access, such as its launch and site."""
        self._rows: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []

    def add(self, row: int, keys: Numbers, addresses: Numbers, records: Numbers) -> None:
        """Add the accessed bytes that one kind of shadow record (`row`) contains.

        For each byte, `keys` has the key of the access, `addresses` the address, and `records` the access record.
        """
        if len(keys):
            self._rows.append((keys, addresses, np.full(len(keys), row), records))

    def end_piece(self) -> None:
        """End a segment of bytes: merge the accesses that `add` has collected for it into `found`."""
        if not self._rows:
            return
        keys, addresses, rows, records = (np.concatenate(each) for each in zip(*self._rows, strict=True))
        self._rows.clear()
        order = np.lexsort((rows, addresses, keys))
        keys, addresses = keys[order], addresses[order]
        starts = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
        is_another = np.diff(addresses, prepend=-1) != 0
        is_another[starts] = True
        for start, size in zip(starts.tolist(), np.add.reduceat(is_another, starts).tolist(), strict=True):
            key, at = int(keys[start]), order[start]
            known = self.found.setdefault(key, FirstAccess(int(addresses[start]), int(records[at]), int(rows[at]), 0))
            known.size += size
