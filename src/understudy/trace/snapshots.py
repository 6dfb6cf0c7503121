"""Registers at chosen moments, for a report: events that hold them (`registers-taken`), and where those stand.

Errors of kernels have `registers`, too: those that are certain where nobody asked for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from understudy.trace.reading import Record
from understudy.trace.text import value_text

MOST: Final = 64
"""Snapshots that a report shows."""
VALUES: Final = frozenset({"scalars", "vectors"})
"""Fields that are shown there, not with the event."""
REGISTERS: Final = "registers"
"""The field that has those of an error."""
FAULT: Final = "fault"
_PLACE: Final = ("hart", "instance", "wave", "group", "index", "queue")


class Snapshots:
    """The first ones of a trace, and how many there are."""

    def __init__(self) -> None:
        self.count = 0
        self._taken: list[tuple[int, Record]] = []
        self._fault = ""
        """The pc of the last fault of which all registers were told."""
        self._held: Any = None
        """Registers of the last error: several events may have one."""

    def take(self, record: Record, order: int) -> None:
        """Keep event number `order`, if there is room for it."""
        self.count += 1
        if len(self._taken) < MOST:
            self._taken.append((order, record))
        if record["why"] == FAULT:
            self._fault = str(record.get("pc", ""))

    def take_fault(self, record: Record, order: int) -> None:
        """Keep the registers of the error of event number `order`, unless all registers were told of there."""
        held: Any = record[REGISTERS]
        if not isinstance(held, dict) or held == self._held or held.get("pc") == self._fault:
            return
        self._held = held
        places: dict[str, Any] = {name: record[name] for name in _PLACE if name in record}
        values: dict[str, Any] = dict(_pairs(held.get("scalars")) + _pairs(held.get("vectors")))
        self.take({**held, **places, "scalars": values, "vectors": {}, "why": FAULT}, order)
        self._fault = ""

    def columns(self, event_of: Sequence[int] | Any) -> list[list[Any]]:
        """Event, why, place, pc, instruction, and the registers by name: scalar ones, those of lanes."""
        return [
            [
                *(int(event_of[order]), str(record["why"]), _place(record), str(record.get("pc", ""))),
                str(record.get("instruction") or ""),
                *(_pairs(record.get(name)) for name in ("scalars", "vectors")),
            ]
            for order, record in self._taken
        ]


def _place(record: Record) -> str:
    parts = [(name, record[name]) for name in _PLACE if record.get(name) is not None]
    names = {"index": "packet"}
    said = [str(record["place"])] if record.get("place") else []
    return ", ".join(said + [f"{names.get(name, name)} {_shown(value)}" for name, value in parts])


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else value_text(value)


def _pairs(values: Any) -> list[list[str]]:
    return [[name, str(value)] for name, value in values.items()] if isinstance(values, dict) else []
