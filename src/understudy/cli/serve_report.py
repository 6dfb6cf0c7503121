"""What `understudy serve acceldev` says of a client and its driver: a line each, of equal ones the first few, a sum."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.attach.vfio_user import events as session
from understudy.cli.serving import Repeated, rule_of
from understudy.device.acceldev import events
from understudy.device.acceldev.commands import FenceCommand
from understudy.device.acceldev.registers import CMDS_BUFFER_SIZE, Interrupt

if TYPE_CHECKING:
    from understudy.core.errors import UnderstudyError
    from understudy.core.event import Event


class Report:
    """A probe of a server and of its device. `say` must not wait: it is called while the device's lock is held."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        """A client comes: everything is counted anew."""
        self._findings = Repeated(self._say)
        self._told: UnderstudyError | None = None
        self._commands = self._fences = self._user_fences = self._deepest = 0
        self._raised: Counter[str] = Counter()
        self._cleared: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        """Hear of an event, from any thread."""
        with self._lock:
            self._hear(event)

    def _hear(self, event: Event) -> None:
        match event:
            case events.CommandQueued(free=free):
                self._deepest = max(self._deepest, CMDS_BUFFER_SIZE - free)
            case events.CommandStarted(command=FenceCommand()):
                self._fences += 1
            case events.CommandFinished(error=error, fences=fences):
                self._commands += 1
                self._user_fences += fences
                if error is not None and error is not self._told:
                    self._findings.tell(f"error {rule_of(error)}", f"error: {error}")
            case events.ContextErrored(context=context, error=error):
                self._told = error
                self._findings.tell(f"error {rule_of(error)}", f"context {context} errored: {error}")
            case events.InterruptRaised(interrupt=interrupt, coalesced=False):
                self._raised[str(interrupt.name)] += 1
            case events.InterruptCleared(interrupts=interrupts):
                self._cleared.update(str(each.name) for each in interrupts)
            case events.Coalesced(interrupt=Interrupt.USER_FENCE_WAIT):
                self._findings.count("lint interrupt-coalesced (USER_FENCE_WAIT)")
            case events.Coalesced(interrupt=interrupt):
                self._findings.tell(f"lint interrupt-coalesced ({interrupt.name})", f"lint: {event}")
            case events.Lint(check=check):
                self._findings.tell(f"lint {check}", f"lint: {event}")
            case _:
                self._hear_session(event)

    def _hear_session(self, event: Event) -> None:
        match event:
            case session.Connected(session=number):
                self._begin()
                self._say(f"client {number} connected")
            case session.Disconnected(session=number, error=error):
                why = "" if error is None or error is self._told else f": {error}"
                self._say(f"client {number} is gone{why}")
            case session.Waits(time=time, session=number):
                silent = "" if time else ", which has said nothing"
                text = f"another client waits: client {number} is connected{silent}"
                self._findings.tell("another client waited", text)
            case session.TurnedAway(reason=reason):
                self._findings.tell("turned away", f"turned away: {reason}")
            case session.Refused(error=error):
                if self._findings.tell(f"refused {rule_of(error)}", f"refused: {error}"):
                    self._told = error
            case session.DmaFailed():
                self._findings.count("DMA failed")  # the command that wanted it fails, and is told of
            case session.Mapped(direct=False, reason=reason, flags=flags) if flags & 2 and "sealed" in reason:
                text = f"guest memory at {event.address:#x} is reached by messages, which is slow: {reason}"
                self._findings.tell("slow guest memory", text)

    def sum_up(self) -> None:
        """Say what the last client's driver did, and how often what was found."""
        with self._lock:
            if self._commands or self._raised:
                self._say(
                    f"summary: {self._commands} commands, at most {self._deepest} in the queue; {self._fences} FENCEs, "
                    f"{self._user_fences} user FENCEs; interrupts raised: {_counts(self._raised)}; "
                    f"cleared: {_counts(self._cleared)}"
                )
            if self._findings.counts:
                self._say(f"summary: {_counts(self._findings.counts)}")


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number} x {what}" for what, number in counts.items()) or "none"
