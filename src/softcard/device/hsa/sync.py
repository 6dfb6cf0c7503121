"""The check of synchronisation between packets and the host: waits that never end, and missing fences.

Waits are checked when the device can make no more progress: when the host itself waits and no packet can run, and when
the device is closed. Missing fences are findings of the strict memory (`fences`) that concern two packets, or a packet
and the host. This check does not change findings about errors inside one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from softcard.core.checks import SYNC
from softcard.core.errors import SoftcardError
from softcard.core.findings import Finding, FindingLog
from softcard.core.words import signed
from softcard.device.hsa import rules
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.packets import BarrierValuePacket, PacketType, signals_waited_for
from softcard.device.hsa.queues.signals import Condition, Signal
from softcard.engine.gcn.hooks import Check
from softcard.engine.gcn.strict.findings import Finding as Stale
from softcard.engine.gcn.strict.findings import Place

SIGNAL: Final = "signal-never-changes"
PACKET: Final = "packet-never-runs"
ACQUIRE: Final = "missing-acquire"
RELEASE: Final = "missing-release"
_FENCES: Final = {"stale line": ACQUIRE, "host store": ACQUIRE, "late store": RELEASE, "not released": RELEASE}
_HEADERS: Final = {
    ACQUIRE: "an acquire fence in the header of the packet that loads: system where the host stores, else agent",
    RELEASE: "a release fence in the header of the packet that stores: system where the host loads, else agent",
}


class PacketSync(Check):
    """The check "sync" of the queues of one device. The check adds its findings to a log."""

    name = SYNC

    def __init__(self, log: FindingLog, queues: Sequence[Queue]) -> None:
        self._log = log
        self._queues = queues

    def host_blocks(self, address: int) -> None:
        """Report that the host waits for the signal at `address`, which cannot change any more.

        Report nothing if a queue has failed, because the wait then raises the error of that queue.
        """
        if any(queue.error is not None for queue in self._queues):
            return
        waiting = self._waiting()
        named = [each for each in waiting if address in each[0].completions()] or waiting
        message = f"the host waits for signal {address:#x}, which no pending work changes"
        found = Finding(SYNC, SIGNAL, message, address=address, rule=rules.SIGNAL_WAIT)
        found.other = "; ".join(f"{_next(queue)}, which waits {why}" for queue, why in named)
        found.space = f"signal {address:#x}"  # distinguishes this finding from that of the next signal
        found.suggestion = "give the signal to a packet, or store it before waiting"
        self._log.note(found)

    def device_closes(self) -> None:
        """Report the packets that still wait when the device is closed, because no signal can change after that."""
        for queue, why in self._waiting():
            handles, rule = set(_handles(queue)), _RULES.get(PacketType(queue.packet(queue.load_read_index())[0]))
            found = Finding(SYNC, PACKET, f"{_next(queue)} still waits {why} when the device is closed", rule=rule)
            others = [each.number for each in self._queues if each is not queue and handles & set(each.completions())]
            found.other = (
                f"queue {others[0]}, whose packet would change the signal, but waits as well" if others else ""
            )
            found.space = _next(queue)
            found.suggestion = (
                "let packets wait only for signals that the host stores, or that a packet that can run completes"
            )
            self._log.note(found)

    def _waiting(self) -> list[tuple[Queue, str]]:
        """Return the queues whose next packet waits for signals, each with a text that describes the wait."""
        pairs = [(queue, _waits(queue)) for queue in self._queues if queue.pending and queue.error is None]
        return [(queue, why) for queue, why in pairs if why]

    def stale_accesses(self, found: list[Stale]) -> list[Stale]:
        """Report the accesses in `found` that packet fences would order; return the other ones.

        Each item of `found` is a read of stale data, or a store that the host or another packet cannot see."""
        left = []
        for each in found:
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
    """Return the handles of the signals that the next packet of `queue` waits for."""
    return signals_waited_for(queue.packet(queue.load_read_index())) or []


def _waits(queue: Queue) -> str:
    """Return a text that describes the wait of a queue's next packet, such as ``for signal 0x1000, which is 1``.

    Return "" if the packet does not wait."""
    data = queue.packet(queue.load_read_index())
    handles = _handles(queue)
    try:
        values = [Signal(queue.device, handle).load() for handle in handles]
    except SoftcardError:
        return ""  # the processor will refuse the packet
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
