"""The base class of the writers of all trace formats: a subscriber that writes to a file or a text stream."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO, TypeAlias

from softcard.core.errors import WireError
from softcard.core.event import Event, Probes
from softcard.trace.values import Record, to_object

if TYPE_CHECKING:
    from softcard.device.acceldev.device import AcceldevDevice
    from softcard.device.fletcher.device import FletcherDevice
    from softcard.device.hsa.device import HsaDevice
    from softcard.device.refsi.device import RefSiDevice
    from softcard.host.acceldev.acceldev import Acceldev
    from softcard.host.amdcl2.program import Program
    from softcard.host.fletcher.platform import Platform
    from softcard.host.hsa.gpu import Gpu
    from softcard.host.refsi.refsi import RefSi

    Device: TypeAlias = (
        Acceldev | AcceldevDevice | FletcherDevice | Gpu | HsaDevice | Platform | Program | RefSi | RefSiDevice
    )


def probes_of(device: Device) -> Probes:
    """Return the probes of a device, an object of the host that stands for it, or a program with its device."""
    for path in PROBES:
        found: object = device
        for name in path.split("."):
            found = getattr(found, name, None)
        if isinstance(found, Probes):
            return found
    raise WireError(f"a trace cannot follow {device!r}, expected a device, or the probes of one")


PROBES: Final = ("probes", "port.probes", "device.probes", "port.device.probes")
"""The attributes at which hosts and devices have their probes."""


class TraceWriter(ABC):
    """A context manager and subscriber that writes every event to `to`, a path or a text stream.

    If `to` is a path, the file is created or overwritten, as UTF-8 with line feeds as line ends, and closed at
    the end. A stream stays open. The same events always give the same bytes."""

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
        """Write one event to the trace."""
        self.write(to_object(event))

    @abstractmethod
    def write(self, record: Record) -> None:
        """Write one event, given as a record: the form in which `softcard.trace.values` returns events."""

    def finish(self) -> None:  # noqa: B027  # most formats need no end
        """Write the end of the file after the last event; by default, write nothing."""

    def follow(self, device: Probes | Device) -> Self:
        """Subscribe to the events of a device, or of its `probes`, until this writer is closed; return the writer."""
        probes = device if isinstance(device, Probes) else probes_of(device)
        self._cancels.append(probes.subscribe(self, later=True))
        return self

    def close(self) -> None:
        """Unsubscribe, write the end of the trace, and close the file if this writer opened it.

        A second call has no effect.
        """
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
