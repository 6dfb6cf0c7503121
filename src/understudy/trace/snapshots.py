"""Registers at chosen moments, for a report: events that hold them (`registers-taken`), and where those stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from understudy.trace.reading import Record
from understudy.trace.text import value_text

MOST: Final = 64
"""Snapshots that a report shows."""
VALUES: Final = frozenset({"scalars", "vectors"})
"""Fields that are shown there, not with the event."""
_PLACE: Final = ("hart", "instance", "wave", "group", "index", "queue")


class Snapshots:
    """The first ones of a trace, and how many there are."""

    def __init__(self) -> None:
        self.count = 0
        self._taken: list[tuple[int, Record]] = []

    def take(self, record: Record, order: int) -> None:
        """Keep event number `order`, if there is room for it."""
        self.count += 1
        if len(self._taken) < MOST:
            self._taken.append((order, record))

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
    return ", ".join(f"{names.get(name, name)} {_shown(value)}" for name, value in parts)


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else value_text(value)


def _pairs(values: Any) -> list[list[str]]:
    return [[name, str(value)] for name, value in values.items()] if isinstance(values, dict) else []
