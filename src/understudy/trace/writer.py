"""What all trace formats share: a probe that writes to a file or a text stream until it is closed."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from understudy.core.event import Event, Probes
from understudy.trace.reading import Record
from understudy.trace.values import to_object


class TraceWriter(ABC):
    """A context manager and a probe: every event it is called with is written to `to`.

    `to` is a path, which is created or overwritten as UTF-8 with ``\\n`` line ends and closed at the end, or a text
    stream, which stays open. Same events, same bytes.
    """

    def __init__(self, to: str | os.PathLike[str] | TextIO) -> None:
        self._owned: TextIO | None = None
        self._cancels: list[Callable[[], None]] = []
        self._is_open = True
        if isinstance(to, (str, os.PathLike)):
            self._owned = open(to, "w", encoding="utf-8", newline="\n")  # noqa: SIM115  # closed by close()
            self._out: TextIO = self._owned
        else:
            self._out = to

    def __call__(self, event: Event) -> None:
        """Write one event."""
        self.write(to_object(event))

    @abstractmethod
    def write(self, record: Record) -> None:
        """Write one event that is a record already, as `understudy.trace.reading` reads them."""

    def finish(self) -> None:  # noqa: B027  # most formats need no end
        """Write what the format wants at the end."""

    def follow(self, probes: Probes) -> Self:
        """Subscribe to a device's events until this is closed."""
        self._cancels.append(probes.subscribe(self, later=True))
        return self

    def close(self) -> None:
        """Unsubscribe, end the trace, and close the file if it was opened here; a second time has no effect."""
        if not self._is_open:
            return
        self._is_open = False
        for cancel in self._cancels:
            cancel()
        try:
            self.finish()
        finally:
            if self._owned is not None:
                self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
