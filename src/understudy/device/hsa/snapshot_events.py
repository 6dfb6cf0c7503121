"""What a device tells of registers at chosen moments, where its settings ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from understudy.core.event import Event
from understudy.core.telemetry import Telemetry

if TYPE_CHECKING:
    from understudy.engine.gcn.moments import Moments, Snapshot


_NOTHING: Final = nullcontext()


@dataclass(frozen=True, slots=True)
class RegistersTaken(Event):
    """Registers of a wave: ``before`` the instruction, at its ``fault`` or ``trap``, or at the wave's ``end``.

    `vectors` has a word for each lane, from lane 0 on. Programs of AMD OpenCL 2.0 have neither `queue` nor `index`.
    """

    queue: int | None
    index: int | None
    group: tuple[int, int, int]
    wave: int
    why: str
    pc: int
    instruction: str
    scalars: Mapping[str, str]
    vectors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RegistersLeftOut(Event):
    """Of so many more moments of packet `index` nothing is told: the setting `snapshots` bounds them."""

    queue: int | None
    index: int | None
    moments: int


class SnapshotTeller:
    """Tells of what `moments` come by; nothing without."""

    def __init__(self, telemetry: Telemetry, moments: Moments | None) -> None:
        self._telemetry = telemetry
        self._moments = moments

    def of(self, queue: int | None = None, index: int | None = None) -> AbstractContextManager[None]:
        """A packet runs in here, or a kernel of a program."""
        moments = self._moments
        if moments is None or not self._telemetry.wants(RegistersTaken):
            return _NOTHING
        return self._telling(moments, queue, index)

    @contextmanager
    def _telling(self, moments: Moments, queue: int | None, index: int | None) -> Iterator[None]:
        telemetry = self._telemetry

        def tell(it: Snapshot) -> None:
            telemetry.emit(
                lambda time: RegistersTaken(
                    *(time, queue, index, it.group, it.wave, it.why, it.pc, it.instruction, it.scalars, it.vectors)
                )
            )

        outer, before = moments.tell, moments.left_out
        moments.tell = tell
        try:
            yield
        finally:
            moments.tell = outer
            more = moments.left_out - before
            if more:
                telemetry.emit(lambda time: RegistersLeftOut(time, queue, index, more))
