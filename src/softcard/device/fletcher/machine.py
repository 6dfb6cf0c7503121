"""The kernel's state (idle, busy, done) in the status register, and the effect of control bits on it."""

from __future__ import annotations

from enum import Enum
from typing import Final

from softcard.core.snapshot import Stateful
from softcard.device.fletcher.bus import FieldStore
from softcard.device.fletcher.kernel import Handshake
from softcard.device.fletcher.map.layout import FletcherMap


class State(Enum):
    """The state of the kernel."""

    IDLE = "idle"
    BUSY = "busy"
    DONE = "done"


class Do(Enum):
    """The actions that a device carries out for writes to the register control."""

    START = "start"
    STOP = "stop"
    RESET = "reset"
    IGNORE_START = "ignore start"


_PLAIN: Final = {State.IDLE: (1, 0, 0), State.BUSY: (0, 1, 0), State.DONE: (0, 0, 1)}


class Machine(Stateful):
    """The kernel's state, and the status bits that follow from it."""

    STATE = ("state",)

    def __init__(self, layout: FletcherMap, store: FieldStore, handshake: Handshake) -> None:
        self._map = layout
        self._store = store
        self._handshake = handshake
        self.state = State.IDLE
        self.enter(State.IDLE)

    def enter(self, state: State) -> None:
        """Change to `state` and update the status bits."""
        self.state = state
        idle, busy, done = _PLAIN[state]
        self._store.drive("idle", idle or int(state is State.DONE and self._handshake.idle_when_done))
        self._store.drive("busy", busy)
        self._store.drive("done", done)

    def control(self, pulses: tuple[str, ...]) -> tuple[Do, ...]:
        """Return the actions for the control bits called `pulses`, to which the host has written 1.

        If the host writes start together with stop or reset, the effect of start depends on the state before the
        write (choice several-bits)."""
        state, shake = self.state, self._handshake
        found = []
        if "reset" in pulses and (state is State.DONE or (state is State.BUSY and shake.heeds_reset)):
            found.append(Do.RESET)
        elif "stop" in pulses and state is State.BUSY and shake.heeds_stop:
            found.append(Do.STOP)
        if "start" in pulses:
            if state is State.IDLE or (state is State.DONE and shake.restartable):
                found.append(Do.START)
            else:
                found.append(Do.IGNORE_START)
        return tuple(found)

    def clear(self) -> None:
        """Set the result and the custom status registers to 0, as after the control reset."""
        self._store.set64(self._map.result, 0)
        for custom in self._map.customs:
            if custom.behaviour == "s":
                self._store.set(custom.address, 0)
