"""Spans of time: pairs of events that begin and end the same work, for all formats that draw durations.

An event ``x-started`` (``-begun``, ``-launched``) begins a span of x. An event ``x-finished`` (``-ended``,
``-completed``, ``-aborted``, ``-failed``) of the same thread ends the latest open span of x, provided that
all fields that both events have are equal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from softcard.device.kfd.loaded_code import UNNAMED, is_of_runtime
from softcard.trace.values import DIAGNOSTIC, Record

_HEX: Final = re.compile("0x[0-9a-f]+")
_INSTANTS: Final = frozenset({"user-command-started"})
"""The kinds of events that begin no span although their suffix suggests it: they have no event for the end."""
STARTS: Final = ("-started", "-begun", "-launched")
INSTANCE: Final = "instance"
"""The stem (kind without suffix) of the events of RefSi's kernel instances, which run on harts."""
_COMMAND: Final = "command"
LAUNCH: Final = "kernel-launch"
"""The kind of the event that announces the launch of a RefSi kernel."""
ENDS: Final = ("-finished", "-ended", "-completed", "-aborted", "-failed")


@dataclass(frozen=True, slots=True)
class Span:
    """A span that began with the event `start`, the event with number `order` in the trace.

    `stem` is the kind of that event without its suffix. `kernel` is the name of the kernel that runs in the
    span, or ""."""

    stem: str
    thread: str
    start: Record
    order: int = 0
    kernel: str = ""

    @property
    def name(self) -> str:
        """The name for display: the kernel's name, if the span runs a kernel and is not a single instance of it.

        The name of a wave's span consists of the coordinates of its work-group. Otherwise, if the start event has a
        field with the name `stem`, the name is the text or the type of the record in that field (``write-reg64``),
        or `stem` followed by its number (``instance 3``). Without such a field the name is `stem`."""
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
        """The name of the span in profiles: the name of the kernel that runs in it, else `name`.

        In contrast to `name`, it is the same for all instances of a kernel."""
        return self.kernel or self.name

    def fields(self, end: Record) -> Record:
        """Return the fields of the event that begins the span, merged with those of `end`, without time and kind."""
        return {
            name: value for name, value in {**self.start, **end}.items() if name not in ("time", "event", DIAGNOSTIC)
        }


class OpenSpans:
    """The spans of a trace that have begun and not yet ended."""

    def __init__(self) -> None:
        self._open: dict[str, list[Span]] = {}
        self._kernels: dict[int, str] = {}
        """The names of loaded kernels by the address of the kernel object or the entry."""
        self._launched = ""

    def begin(self, record: Record, thread: str, order: int = 0) -> bool:
        """Add the span that an event begins; return False if the event begins none.

        Names of loaded and launched kernels are recorded as well.
        """
        stem = _stem(str(record["event"]), STARTS)
        if stem:
            self._open.setdefault(thread, []).append(Span(stem, thread, record, order, self._running(record)))
        elif isinstance(kernels := record.get("kernels"), dict):
            self._kernels.update({place: name for name, place in kernels.items() if isinstance(place, int)})
        elif record["event"] == LAUNCH:
            self._launch(str(record.get("entry")))
        return bool(stem)

    def _launch(self, entry: str) -> None:
        """Record the name of a launched RefSi kernel for the launching command's open span and for later instances."""
        self._launched = self._named(entry) or f"{UNNAMED}{entry}"
        for opened in self._open.values():
            for index, span in enumerate(opened):
                if span.stem == _COMMAND and not span.kernel:
                    opened[index] = replace(span, kernel=self._launched)

    @property
    def has_own_kernels(self) -> bool:
        """True if the trace names a kernel that does not belong to a run-time library."""
        return any(not is_of_runtime(name) for name in self._kernels.values())

    def _running(self, record: Record) -> str:
        if record["event"] == f"{INSTANCE}-started":
            return self._launched
        return self.kernel(record)

    def kernel(self, record: Record) -> str:
        """Return the name of the kernel that a packet or launch starts; "" if the trace does not contain the name."""
        if not self._kernels:
            return ""
        packet = record.get("packet")
        if isinstance(packet, dict):
            return self._named(packet.get("kernel_object"))
        return self._named(record.get("kernel_object") or record.get("entry"))

    def _named(self, place: object) -> str:
        return self._kernels.get(int(place, 16), "") if isinstance(place, str) and _HEX.fullmatch(place) else ""

    def end(self, record: Record, thread: str) -> Span | None:
        """Remove and return the span that an event ends; return None if the event ends none."""
        stem = _stem(str(record["event"]), ENDS)
        opened = self._open.get(thread, []) if stem else []
        for index in range(len(opened) - 1, -1, -1):
            if opened[index].stem == stem and _agree(opened[index].start, record):
                return opened.pop(index)
        return None

    def since(self, span: Span) -> bool:
        """Return True if a span of the same thread that began after `span` is still open: then they do not nest."""
        opened = self._open.get(span.thread, [])
        return bool(opened) and opened[-1].order > span.order

    def rest(self) -> Iterator[Span]:
        """Yield the spans that are still open, in the order in which they began."""
        yield from sorted((span for spans in self._open.values() for span in spans), key=lambda span: span.order)


@lru_cache(1024)
def _stem(kind: str, suffixes: tuple[str, ...]) -> str:
    if kind in _INSTANTS:
        return ""
    return next((kind.removesuffix(suffix) for suffix in suffixes if kind.endswith(suffix)), "")


def _agree(start: Record, end: Record) -> bool:
    return all(start[name] == value for name, value in end.items() if name in start and name not in ("time", "event"))
