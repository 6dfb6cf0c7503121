"""The acquire and release fences of packets, for a memory that models caches (coherence "strict").

- Acquire at agent scope invalidates the first-level caches. At system scope, it also invalidates the lines of
  host memory in the second-level cache.
- Release at agent scope waits until stores have arrived at the second level. At system scope, it writes the
  second level back.
- If an agent has several second-level caches, both scopes write back and invalidate all of them.
- A packet without fences relies on those of other packets."""

from __future__ import annotations

from typing import Any

from softcard.core.device import Telemetry
from softcard.core.lint import Lint
from softcard.core.snapshot import Stateful
from softcard.device.hsa.events import Incoherent
from softcard.device.hsa.queues.packets import ACQUIRE_SHIFT, PACKET_BYTES, RELEASE_SHIFT, SIGNAL_AT
from softcard.device.hsa.settings import Settings
from softcard.engine.gcn.hooks import NO_CHECKS, Checks
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.strict.caches import AGENT, SCOPES, SYSTEM
from softcard.engine.gcn.strict.coherence import StrictEngine
from softcard.engine.gcn.strict.findings import Finding, Host


class Fences(Stateful):
    """The acquire and release fences of one device's packets, for a memory that models caches.

    The engine is a `StrictEngine` that leaves these fences to the packet processor. Findings are added to `findings`,
    except for those that `checks` report.
    """

    STATE = ("engine", "_unseen")

    def __init__(
        self,
        memory: GpuMemory,
        settings: Settings,
        telemetry: Telemetry,
        findings: list[Any],
        checks: Checks = NO_CHECKS,
        xccs: int = 1,
    ) -> None:
        self.engine = StrictEngine(seed=settings.seed or 0, fenced=True, xccs=xccs)
        self._memory = memory
        self._findings = findings
        self._checks = checks
        self._threaded = settings.threaded
        self._telemetry = telemetry
        self._unseen: dict[int, list[Finding]] = {}
        """For each completion signal, the findings about memory that the host could not see after the signal."""

    def acquire(self, queue: int, index: int, packet: bytes) -> None:
        """Carry out the acquire fence of packet `index` of queue number `queue`, as the packet begins."""
        self.engine.acquire(self._memory, _scope(packet, ACQUIRE_SHIFT), _name(queue, index))

    def release(self, queue: int, index: int, packet: bytes) -> None:
        """Carry out the release fence of a packet at its end, before its completion signal changes."""
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
        if scope < AGENT:  # stores that arrive without a fence might have arrived later
            self.engine.release(memory, scope)

    def flush(self) -> None:
        """Write back and invalidate all caches, so that waves can run on another engine."""
        self.engine.release(self._memory)
        self.engine.acquire(self._memory)

    def waited(self, signal: int) -> None:
        """Report, at the end of the host's wait for `signal`, the memory whose changes the host cannot see."""
        self.report(self._unseen.pop(signal, []))

    def host_accessed(self, address: int, size: int) -> None:
        """Report stores that the host cannot see when it requests a view of `size` bytes at `address`."""
        if not self._threaded:
            host = Host(f"the host asked for {size} bytes at {address:#x}")
            fence = "no packet has had a release fence at scope system since"
            self.report(self.engine.unseen(self._memory, host, fence, address, size))

    def report(self, findings: list[Finding]) -> None:
        """Store findings, and report them to subscribers."""
        telemetry = self._telemetry
        for finding in self._checks.stale_accesses(findings):
            self._findings.append(finding)
            time = telemetry.clock()
            telemetry.report(Incoherent(time, finding), Lint(time, "incoherent", str(finding)))


def _scope(packet: bytes, shift: int) -> int:
    """Return the fence scope at bit `shift` of a packet's header; the value 3 is treated as system scope."""
    return min(int.from_bytes(packet[:2], "little") >> shift & 3, SYSTEM)


def _name(queue: int, index: int) -> str:
    return f"queue {queue} packet {index}"
