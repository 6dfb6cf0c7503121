"""Acquire and release fences of packets, where a strict memory makes them matter.

Acquire at scope agent invalidates the first-level caches, at scope system what the second level has of memory as well.
Release at scope agent waits for stores to arrive at the second level, at scope system writes it back. A packet without
them relies on those of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.core.lint import Lint
from understudy.core.snapshot import Stateful
from understudy.core.telemetry import Telemetry
from understudy.device.hsa.events import Incoherent
from understudy.device.hsa.packets import ACQUIRE_SHIFT, PACKET_BYTES, RELEASE_SHIFT, SIGNAL_AT
from understudy.device.hsa.settings import Settings
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.strict.caches import AGENT, SCOPES, SYSTEM
from understudy.engine.gcn.strict.coherence import StrictEngine
from understudy.engine.gcn.strict.findings import Finding, Host

if TYPE_CHECKING:
    from understudy.device.hsa.sync import PacketSync


class Fences(Stateful):
    """The fences of one device. Its engine is a `StrictEngine` that leaves them to the packet processor.

    What is found is added to `findings`; what concerns fences of packets goes to `sync`, where somebody asked for it.
    """

    STATE = ("engine", "_unseen")

    def __init__(
        self,
        memory: GpuMemory,
        settings: Settings,
        telemetry: Telemetry,
        findings: list[Any],
        sync: PacketSync | None = None,
    ) -> None:
        self.engine = StrictEngine(seed=settings.seed or 0, fenced=True)
        self._memory = memory
        self._findings = findings
        self._sync = sync
        self._threaded = settings.threaded
        self._telemetry = telemetry
        self._unseen: dict[int, list[Finding]] = {}
        """By completion signal: what the host would not see though the signal tells that it may look."""

    def acquire(self, queue: int, index: int, packet: bytes) -> None:
        """Packet `index` of queue number `queue` begins."""
        self.engine.acquire(self._memory, _scope(packet, ACQUIRE_SHIFT), _name(queue, index))

    def release(self, queue: int, index: int, packet: bytes) -> None:
        """It is over; its completion signal comes next."""
        memory, scope = self._memory, _scope(packet, RELEASE_SHIFT)
        handle = int.from_bytes(packet[SIGNAL_AT:PACKET_BYTES], "little")
        if scope >= AGENT:
            self.engine.release(memory, scope)
        if scope == SYSTEM:
            self._unseen.clear()
        elif handle:
            host = Host(f"the host's wait for signal {handle:#x} ended")
            fence = f"{_name(queue, index)} released at scope {SCOPES[scope]}"
            self._unseen[handle] = self.engine.unseen(memory, host, fence)
        if scope < AGENT:  # what arrives by itself might have come later
            self.engine.release(memory, scope)

    def flush(self) -> None:
        """Make all of memory what everybody sees: for waves that run on another engine."""
        self.engine.release(self._memory)
        self.engine.acquire(self._memory)

    def waited(self, signal: int) -> None:
        """The host's wait for a signal ended."""
        self.tell(self._unseen.pop(signal, []))

    def looked(self, address: int, size: int) -> None:
        """The host asked for a view of memory."""
        if not self._threaded:
            host = Host(f"the host asked for {size} bytes at {address:#x}")
            fence = "no packet released at scope system since"
            self.tell(self.engine.unseen(self._memory, host, fence, address, size))

    def tell(self, findings: list[Finding]) -> None:
        """Keep findings, and tell who listens."""
        telemetry = self._telemetry
        if self._sync is not None:
            findings = self._sync.fences(findings)
        for finding in findings:
            self._findings.append(finding)
            time = telemetry.clock()
            telemetry.report(Incoherent(time, finding), Lint(time, "incoherent", str(finding)))


def _scope(packet: bytes, shift: int) -> int:
    """A scope of a packet's header; 3 counts as system."""
    return min(int.from_bytes(packet[:2], "little") >> shift & 3, SYSTEM)


def _name(queue: int, index: int) -> str:
    return f"queue {queue} packet {index}"
