"""What a device tells of single waves, where its settings ask for it: when each began, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from understudy.core.event import Event
from understudy.core.quick import made_quickly
from understudy.core.telemetry import Telemetry
from understudy.engine.gcn.api import Dispatch
from understudy.engine.gcn.wave_log import WaveLog


@made_quickly
@dataclass(frozen=True, slots=True)
class WaveStarted(Event):
    """Wave `wave` of work-group `group` of packet `index` begins; no queue and packet on AMD OpenCL 2.0."""

    queue: int | None
    index: int | None
    group: tuple[int, int, int]
    wave: int


@made_quickly
@dataclass(frozen=True, slots=True)
class WaveEnded(Event):
    """A wave ``ended`` after so many instructions, ``failed``, or was ``stopped`` because another one failed.

    Times are as if groups had run one after the other, and the waves of a group in turns of one instruction.
    """

    queue: int | None
    index: int | None
    group: tuple[int, int, int]
    wave: int
    how: str
    instructions: int | None


@dataclass(frozen=True, slots=True)
class WavesLeftOut(Event):
    """Of so many more waves of packet `index` there are no events: the setting `trace_waves` bounds them."""

    queue: int | None
    index: int | None
    waves: int


KINDS = (WaveStarted, WaveEnded, WavesLeftOut)


class WaveTeller:
    """Tells of the waves of launches, of `most` of each; nothing where that is 0 or nobody listens."""

    def __init__(self, telemetry: Telemetry, most: int) -> None:
        self._telemetry = telemetry
        self._most = most

    def follow(self, dispatch: Dispatch) -> Dispatch:
        """A dispatch that is about to run, so that its waves can be told of."""
        if not self._most or not self._telemetry.wants(*KINDS):
            return dispatch
        counts = dispatch.shapes.waves[dispatch.groups[:, 3]]
        return replace(dispatch, waves=WaveLog(counts, self._most))

    def tell(self, dispatch: Dispatch, queue: int | None = None, index: int | None = None) -> None:
        """It has run, or failed."""
        if dispatch.waves is not None:
            begin = self._telemetry.clock()
            self._telemetry.probes.emit_all(_events(dispatch.waves, dispatch, begin, queue, index))


def _events(log: WaveLog, dispatch: Dispatch, begin: int, queue: int | None, index: int | None) -> Iterator[Event]:
    last = begin
    for step, number, wave, life in log.moments():
        last = begin + step
        x, y, z, _ = dispatch.groups[number].tolist()
        if life is None:
            yield WaveStarted(last, queue, index, (x, y, z), wave)
        else:
            yield WaveEnded(last, queue, index, (x, y, z), wave, life.how, life.instructions)
    if log.omitted:
        yield WavesLeftOut(last, queue, index, log.omitted)
