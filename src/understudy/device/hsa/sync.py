"""The check of synchronisation between packets and the host: what waits for what never comes, and fences that lack.

Who waits is looked at when nobody can help any more: when the host itself waits and nothing is left to do, and when the
device is closed. Fences are what the strict memory finds (`fences`), where two packets, or one and the host, are
concerned; what is wrong inside of one kernel stays a finding of that memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from understudy.core.checks import SYNC
from understudy.core.errors import UnderstudyError
from understudy.core.findings import Finding, FindingLog
from understudy.core.words import signed
from understudy.device.hsa import rules
from understudy.device.hsa.packets import BarrierValuePacket, PacketType, signals_waited_for
from understudy.device.hsa.queues import Queue
from understudy.device.hsa.signals import Condition, Signal
from understudy.engine.gcn.strict.findings import Finding as Stale
from understudy.engine.gcn.strict.findings import Place

SIGNAL: Final = "signal-never-changes"
PACKET: Final = "packet-never-runs"
ACQUIRE: Final = "missing-acquire"
RELEASE: Final = "missing-release"
_FENCES: Final = {"stale line": ACQUIRE, "host store": ACQUIRE, "late store": RELEASE, "not released": RELEASE}
_HEADERS: Final = {
    ACQUIRE: "an acquire fence in the header of the packet that loads: system where the host stores, else agent",
    RELEASE: "a release fence in the header of the packet that stores: system where the host loads, else agent",
}


class PacketSync:
    """Looks at the queues of one device, and tells a log."""

    def __init__(self, log: FindingLog, queues: Sequence[Queue]) -> None:
        self._log = log
        self._queues = queues

    def never(self, address: int) -> None:
        """The host waits for a signal that can change no more. Where a queue has failed, that is said already."""
        if any(queue.error is not None for queue in self._queues):
            return
        waiting = self._waiting()
        named = [each for each in waiting if address in each[0].completions()] or waiting
        message = f"the host waits for signal {address:#x}, which nothing outstanding changes"
        found = Finding(SYNC, SIGNAL, message, address=address, rule=rules.SIGNAL_WAIT)
        found.other = "; ".join(f"{_next(queue)}, which waits {why}" for queue, why in named)
        found.space = f"signal {address:#x}"  # what makes it another finding than that of the next signal
        found.suggestion = "give the signal to a packet, or store it before waiting"
        self._log.note(found)

    def closed(self) -> None:
        """The device is closed: no signal changes any more."""
        for queue, why in self._waiting():
            handles, rule = set(_handles(queue)), _RULES.get(PacketType(queue.packet(queue.load_read_index())[0]))
            found = Finding(SYNC, PACKET, f"{_next(queue)} waits {why}, when the device is closed", rule=rule)
            others = [each.number for each in self._queues if each is not queue and handles & set(each.completions())]
            found.other = f"queue {others[0]}, whose packet would change it, and waits too" if others else ""
            found.space = _next(queue)
            found.suggestion = "wait for signals that the host stores or packets complete that can run"
            self._log.note(found)

    def _waiting(self) -> list[tuple[Queue, str]]:
        """Queues whose next packet waits for signals, and for which, in words."""
        pairs = [(queue, _waits(queue)) for queue in self._queues if queue.pending and queue.error is None]
        return [(queue, why) for queue, why in pairs if why]

    def fences(self, stale: Sequence[Stale]) -> list[Stale]:
        """Tell of what concerns the fences of packets; what is left."""
        left = []
        for each in stale:
            load, store = each.load, each.store
            if (
                isinstance(load, Place) and isinstance(store, Place) and load.packet == store.packet
            ) or each.kind not in _FENCES:
                left.append(each)
            else:
                self._fence(each)
        return left

    def _fence(self, each: Stale) -> None:
        kind, load, store = _FENCES[each.kind], each.load, each.store
        here, other = (load, store) if isinstance(load, Place) else (store, load)
        found = Finding(SYNC, kind, f"{each}", address=each.address, rule=rules.FENCE_SCOPES)
        if isinstance(here, Place):
            found.pc, found.insn, found.unit = here.pc, here.insn, f"wave {here.wave}"
        found.other = f"pc {other.pc:#x}" if isinstance(other, Place) else ""
        found.suggestion = _HEADERS[kind]
        self._log.note(found)


_RULES: Final = {
    PacketType.BARRIER_AND: rules.BARRIER_AND,
    PacketType.BARRIER_OR: rules.BARRIER_OR,
    PacketType.VENDOR_SPECIFIC: rules.BARRIER_VALUE,
}


def _next(queue: Queue) -> str:
    return f"queue {queue.number} packet {queue.load_read_index()}"


def _handles(queue: Queue) -> list[int]:
    """Signals that the next packet of a queue waits for, if it is one that waits."""
    return signals_waited_for(queue.packet(queue.load_read_index())) or []


def _waits(queue: Queue) -> str:
    """What the next packet of a queue waits for: ``for signal 0x1000, which is 1``; "" where it does not."""
    data = queue.packet(queue.load_read_index())
    handles = _handles(queue)
    try:
        values = [Signal(queue.device, handle).load() for handle in handles]
    except UnderstudyError:
        return ""  # the packet is refused when it is looked at
    if data[0] == PacketType.BARRIER_AND:
        wanted = [(handle, value) for handle, value in zip(handles, values, strict=True) if value]
    elif data[0] == PacketType.BARRIER_OR:
        wanted = list(zip(handles, values, strict=True)) if all(values) else []
    elif handles:
        packet = BarrierValuePacket.parse(data)
        value = signed(values[0] & packet.mask, 64)
        wanted = [] if Condition(packet.condition).holds(value, packet.value) else [(handles[0], values[0])]
    else:
        wanted = []
    join = " or " if data[0] == PacketType.BARRIER_OR else " and "
    shown = join.join(f"signal {handle:#x}, which is {value}" for handle, value in wanted)
    return f"for {shown}" if shown else ""
