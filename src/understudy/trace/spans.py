"""Which events begin and end something: pairs of records, for every format that draws what lasts.

``x-started`` (``-begun``, ``-launched``) begins, and ``x-finished`` (``-ended``, ``-completed``, ``-aborted``,
``-failed``) of the same thread ends the latest open one whose common fields hold the same values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from understudy.trace.reading import Record

_MOMENTS: Final = frozenset({"user-command-started"})
"""Kinds that sound like a beginning, and of whose end no event tells."""
STARTS: Final = ("-started", "-begun", "-launched")
ENDS: Final = ("-finished", "-ended", "-completed", "-aborted", "-failed")


@dataclass(frozen=True, slots=True)
class Span:
    """What began with `start`, the `order`-th event: `stem` is its kind without the ending.

    `kernel` is the one that it runs, where that is known.
    """

    stem: str
    thread: str
    start: Record
    order: int = 0
    kernel: str = ""

    @property
    def name(self) -> str:
        """The kernel, or the stem, made telling by the field of the same name: ``instance 3``, ``write-reg64``."""
        if self.kernel:
            return self.kernel
        subject = self.start.get(self.stem.replace("-", "_"))
        match subject:
            case None:
                return self.stem
            case str():
                return subject
            case {"type": str(kind)}:
                return kind
            case _:
                return f"{self.stem} {subject}"

    def fields(self, end: Record) -> Record:
        """The fields of both its events."""
        return {name: value for name, value in {**self.start, **end}.items() if name not in ("time", "event")}


class OpenSpans:
    """What has begun and not ended."""

    def __init__(self) -> None:
        self._open: dict[str, list[Span]] = {}
        self._kernels: dict[int, str] = {}
        """By kernel object, of the code that was loaded."""

    def begin(self, record: Record, thread: str, order: int = 0) -> bool:
        """Whether the event begins something, which is remembered."""
        stem = _stem(str(record["event"]), STARTS)
        if stem:
            self._open.setdefault(thread, []).append(Span(stem, thread, record, order, self._kernel(record)))
        elif isinstance(kernels := record.get("kernels"), dict):
            self._kernels.update({place: name for name, place in kernels.items() if isinstance(place, int)})
        return bool(stem)

    def _kernel(self, record: Record) -> str:
        packet = record.get("packet") if self._kernels else None
        if not isinstance(packet, dict) or not isinstance(place := packet.get("kernel_object"), str):
            return ""
        return self._kernels.get(int(place, 16), "")

    def end(self, record: Record, thread: str) -> Span | None:
        """What the event ends, which is forgotten; None if it ends nothing."""
        stem = _stem(str(record["event"]), ENDS)
        opened = self._open.get(thread, []) if stem else []
        for index in range(len(opened) - 1, -1, -1):
            if opened[index].stem == stem and _agree(opened[index].start, record):
                return opened.pop(index)
        return None

    def since(self, span: Span) -> bool:
        """Whether something of the span's thread began after it and is open: then the span does not hold it."""
        opened = self._open.get(span.thread, [])
        return bool(opened) and opened[-1].order > span.order

    def rest(self) -> Iterator[Span]:
        """What nothing has ended, in the order in which it began."""
        yield from sorted((span for spans in self._open.values() for span in spans), key=lambda span: span.order)


@lru_cache(1024)
def _stem(kind: str, suffixes: tuple[str, ...]) -> str:
    if kind in _MOMENTS:
        return ""
    return next((kind.removesuffix(suffix) for suffix in suffixes if kind.endswith(suffix)), "")


def _agree(start: Record, end: Record) -> bool:
    return all(start[name] == value for name, value in end.items() if name in start and name not in ("time", "event"))
