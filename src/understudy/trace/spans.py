"""Which events begin and end something: pairs of records, for every format that draws what lasts.

``x-started`` (``-begun``, ``-launched``) begins, and ``x-finished`` (``-ended``, ``-completed``, ``-aborted``,
``-failed``) of the same thread ends the latest open one whose common fields hold the same values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from understudy.trace.reading import Record

_HEX: Final = re.compile("0x[0-9a-f]+")
_MOMENTS: Final = frozenset({"user-command-started"})
"""Kinds that sound like a beginning, and of whose end no event tells."""
STARTS: Final = ("-started", "-begun", "-launched")
INSTANCE: Final = "instance"
"""The stem of what runs a kernel of RefSi on a hart: each has a number of its own."""
_COMMAND: Final = "command"
LAUNCH: Final = "kernel-launch"
"""What a device tells of a kernel of RefSi."""
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
        if self.kernel and self.stem != INSTANCE:
            return self.kernel
        if self.stem == "wave" and isinstance(group := self.start.get("group"), list):
            return ",".join(map(str, group))  # the thread has the number of the wave
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

    @property
    def frame(self) -> str:
        """What a profile calls it: the kernel, whichever instance of it that is, else its name."""
        return self.kernel or self.name

    def fields(self, end: Record) -> Record:
        """The fields of both its events."""
        return {name: value for name, value in {**self.start, **end}.items() if name not in ("time", "event")}


class OpenSpans:
    """What has begun and not ended."""

    def __init__(self) -> None:
        self._open: dict[str, list[Span]] = {}
        self._kernels: dict[int, str] = {}
        """By kernel object or entry, of the code that was loaded."""
        self._launched = ""

    def begin(self, record: Record, thread: str, order: int = 0) -> bool:
        """Whether the event begins something, which is remembered."""
        stem = _stem(str(record["event"]), STARTS)
        if stem:
            self._open.setdefault(thread, []).append(Span(stem, thread, record, order, self._running(record)))
        elif isinstance(kernels := record.get("kernels"), dict):
            self._kernels.update({place: name for name, place in kernels.items() if isinstance(place, int)})
        elif record["event"] == LAUNCH:
            self._launch(str(record.get("entry")))
        return bool(stem)

    def _launch(self, entry: str) -> None:
        """A kernel of RefSi: the command that launches it is open, and its instances come."""
        self._launched = self._named(entry) or f"kernel at {entry}"
        for opened in self._open.values():
            for index, span in enumerate(opened):
                if span.stem == _COMMAND and not span.kernel:
                    opened[index] = replace(span, kernel=self._launched)

    def _running(self, record: Record) -> str:
        if record["event"] == f"{INSTANCE}-started":
            return self._launched
        return self.kernel(record)

    def kernel(self, record: Record) -> str:
        """The kernel that a packet or a launch is of, as far as the trace tells."""
        if not self._kernels:
            return ""
        packet = record.get("packet")
        return self._named(packet.get("kernel_object") if isinstance(packet, dict) else record.get("entry"))

    def _named(self, place: object) -> str:
        return self._kernels.get(int(place, 16), "") if isinstance(place, str) and _HEX.fullmatch(place) else ""

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
