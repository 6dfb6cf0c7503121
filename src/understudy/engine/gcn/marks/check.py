"""The checks `init` and `fidelity` of a device: what was seen of marked values becomes findings."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from understudy.core.checks import FIDELITY, INIT
from understudy.core.findings import Finding, FindingLog, Level
from understudy.engine.gcn.marks.marking import KINDS, Marking
from understudy.engine.gcn.marks.origins import origin_of
from understudy.engine.gcn.marks.sights import Sight, Site, Touch
from understudy.isa.gcn.asm.printer import text

if TYPE_CHECKING:
    from understudy.engine.gcn.api import Dispatch
    from understudy.engine.gcn.memory import GpuMemory

KIND: Final = {INIT: "undefined", FIDELITY: "approximate"}
WHAT: Final = {
    "branch": "decides where the wave goes",
    "exec": "decides which lanes go on",
    "address": "is an address or a register's number",
    "atomic": "is an operand of an atomic operation",
}
SUGGESTION: Final = {
    INIT: "write it before, on every way that leads here and in every lane",
    FIDELITY: "leave a margin, or compute it by operations that are exact",
}
RESULT: Final = "undefined-result"


class MarkCheck:
    """Looks after the marks of one memory, and tells a log of what was seen."""

    def __init__(self, marking: Marking, log: FindingLog) -> None:
        self.marking = marking
        self.log = log
        self._told: dict[Site, int] = {}

    @classmethod
    def of(cls, checks: Collection[str], memory: GpuMemory, log: FindingLog | None) -> MarkCheck | None:
        """The one that settings ask for; None where they do not."""
        kinds = tuple(kind for kind in KINDS if kind in checks)
        return None if not kinds or log is None else cls(Marking(memory, kinds), log)

    def tell(self, dispatch: Dispatch) -> None:
        """Waves of a dispatch have run: tell of what is new."""
        sights = self.marking.sights
        for site, count in sights.counts().items():
            new = count - self._told.get(site, 0)
            if new:
                self._told[site] = count
                self.log.note(self._finding(dispatch, sights.sites[site], new))

    def _finding(self, dispatch: Dispatch, sight: Sight, count: int) -> Finding:
        adjective = KIND[sight.kind]
        origin = origin_of(dispatch, sight.insn, sight.kind, self.marking.sights)
        message = f"an {adjective} value {WHAT[sight.what]}" + (f": it is that of {origin}" if origin else "")
        return Finding(
            sight.kind,
            f"{adjective}-{sight.what}",
            message,
            Level.ERROR if sight.kind == INIT else Level.WARNING,
            insn=text(sight.insn),
            pc=sight.insn.pc,
            suggestion=SUGGESTION[sight.kind],
            count=count,
            **_who(sight),
        )

    # ---- what the host reads back --------------------------------------------------------------------------------
    def read_back(self, address: int, array: np.ndarray[Any, Any], name: str) -> None:
        """The host gets an array that waves have stored in: tell of elements that were stored, but never computed.

        Of a structure its fields count, what lies between them does not.
        """
        if INIT not in self.marking.kinds:
            return
        touch = self._stored(address, array.nbytes)
        if touch is None:
            return
        plane = self.marking.planes[self.marking.kinds.index(INIT)]
        marks = np.frombuffer(plane.read(address, array.nbytes), np.uint8).reshape(-1, array.dtype.itemsize)
        bad = np.flatnonzero(marks[:, _bytes_of(array.dtype)].any(axis=1))
        if not len(bad):
            return
        message = f"{len(bad)} elements of {name} were stored, but never computed: the first is number {int(bad[0])}"
        insn = self._insn(touch)
        self.log.note(
            Finding(
                INIT,
                RESULT,
                message,
                access="write",
                space="global",
                address=touch.address,
                size=touch.size,
                pc=touch.pc,
                insn=insn,
                suggestion=SUGGESTION[INIT],
                count=len(bad),
                lanes=touch.party.lanes,
                unit=f"wave {touch.party.wave}",
                group=",".join(map(str, touch.party.group)),
            )
        )

    def _stored(self, address: int, size: int) -> Touch | None:
        """The first store of undefined bits to some memory; it is told of once."""
        stored = self.marking.sights.stored
        keys = [key for key in stored if key[:2] == (INIT, "global") and address <= key[2] < address + size]
        found = [stored.pop(key) for key in keys]
        return min(found, key=lambda touch: touch.address, default=None)

    def _insn(self, touch: Touch) -> str:
        return "" if touch.insn is None else text(touch.insn)


def _who(sight: Sight) -> dict[str, Any]:
    party = sight.first
    return {"lanes": party.lanes, "unit": f"wave {party.wave}", "group": ",".join(map(str, party.group))}


def _bytes_of(dtype: np.dtype[Any], start: int = 0) -> list[int]:
    """The bytes of an element that are part of a value."""
    if dtype.fields is not None:
        return [byte for kind, at, *_ in dtype.fields.values() for byte in _bytes_of(kind, start + at)]
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        count = int(np.prod(shape))
        return [byte for number in range(count) for byte in _bytes_of(base, start + number * base.itemsize)]
    return list(range(start, start + dtype.itemsize))
