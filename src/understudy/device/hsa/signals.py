"""Signals: amd_signal_t in guest memory, and the operations of "Signal kernel machine code" from the host.

All state lies in guest memory, where kernels change it too; operations are atomic against them. A doorbell's operations
are stores to the address that its signal names.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NoReturn

from understudy.core.errors import AccessFault, RuleError, UnderstudyError, WireError
from understudy.core.words import U64, signed
from understudy.device.hsa import rules
from understudy.device.hsa.atomics import Word
from understudy.device.hsa.doorbell_encoding import legacy_value
from understudy.device.hsa.interfaces import World
from understudy.device.hsa.records import SIGNAL_ALIGNMENT, SIGNAL_BYTES, AmdQueue, AmdSignal, HsaQueue, SignalKind

VALUE_AT: Final = AmdSignal.offset_of("value")
_KIND, _VALUE, _MAILBOX, _EVENT = (
    AmdSignal.offset_of(name) // 8 for name in ("kind", "value", "event_mailbox_ptr", "event_id")
)
_QUEUE_PTR: Final = AmdSignal.offset_of("queue_ptr") // 8
_LOCK_AT: Final = AmdQueue.offset_of("legacy_doorbell_lock")
_MOST_AT: Final = AmdQueue.offset_of("max_legacy_doorbell_dispatch_id_plus_1")
_SIZE_AT: Final = HsaQueue.offset_of("size")
_WRITE_AT: Final = AmdQueue.offset_of("write_dispatch_id")
_READ_AT: Final = AmdQueue.offset_of("read_dispatch_id")
_U32: Final = 0xFFFF_FFFF
_USER: Final = int(SignalKind.USER)
_DOORBELLS: Final = (int(SignalKind.DOORBELL), int(SignalKind.LEGACY_DOORBELL))
POLL_SECONDS: Final = 0.001
"""How often a waiting thread looks at a value that a kernel or foreign code may change without telling."""
LOCK_SECONDS = 2.0
"""How long a legacy doorbell's lock is tried for: whoever holds it has a few stores to do."""

LOAD_ORDERS: Final = frozenset({"rlx", "scacq"})
STORE_ORDERS: Final = frozenset({"rlx", "screl"})
RMW_ORDERS: Final = frozenset({"rlx", "scacq", "screl", "scar"})


class Condition(IntEnum):
    """What a wait waits for. HSA has the first four; the document lists six (erratum 6)."""

    EQ = 0
    NE = 1
    LT = 2
    GTE = 3
    GT = 4
    LE = 5

    def holds(self, value: int, compare: int) -> bool:
        """Whether a signal's value fulfils it."""
        return _HOLDS[self](value, compare)


_HOLDS: Final[dict[Condition, Callable[[int, int], bool]]] = {
    Condition.EQ: int.__eq__,
    Condition.NE: int.__ne__,
    Condition.LT: int.__lt__,
    Condition.GTE: int.__ge__,
    Condition.GT: int.__gt__,
    Condition.LE: int.__le__,
}


class Signal:
    """The signal at `address`: its operations as the host performs them.

    Values are signed and have `bits` bits; in the small machine model 32, and the upper half of the field is not used.
    `order` is checked against what HSA allows for the operation. `RuleError` for what the signal's kind does not
    support, and for a signal that has gone with its memory; `AccessFault` where there is no signal.
    """

    __slots__ = ("_block", "_parts", "_version", "_view", "_world", "address", "bits", "word")

    def __init__(self, world: World, address: int) -> None:
        if address % SIGNAL_ALIGNMENT:
            raise RuleError(
                f"signal at {address:#x}, expected a multiple of {SIGNAL_ALIGNMENT}", rule=rules.SIGNAL_HANDLE
            )
        self.address = address
        self.bits = world.signal_bits
        self._world = world
        self._block = world.block(address)
        self._parts: tuple[Word, Word, Word, Word, Word, int] | None = None
        self._look()
        self.word = Word(world.memory, address + VALUE_AT, self.bits)

    def __repr__(self) -> str:
        try:
            kind = self.kind
            state = str(self.word.load()) if kind == SignalKind.USER else f"kind {kind}" if kind else "gone"
        except UnderstudyError:
            state = "gone"
        return f"<signal at {self.address:#x}: {state}>"

    def view(self) -> memoryview:
        """Its 64 bytes as signed 64-bit words."""
        memory = self._world.memory
        if self._version != memory.version:
            if self._world.block(self.address) is not self._block:
                raise RuleError(f"signal at {self.address:#x} was destroyed", rule=rules.SIGNAL_HANDLE)
            self._look()
        return self._view

    def _look(self) -> None:
        """Find out where its memory is now."""
        memory = self._world.memory
        version, found = memory.version, memory.plain(self.address, SIGNAL_BYTES, store=True)
        if found is None:
            memory.check(self.address, SIGNAL_BYTES, "write")
            text = f"signal at {self.address:#x}: not plain memory"
            raise AccessFault(text, address=self.address, access="write", rule=rules.SIGNAL_HANDLE)
        start = self.address - found.base
        self._view = found.view[start : start + SIGNAL_BYTES].cast("q")
        self._version = version

    def record(self) -> AmdSignal:
        """All fields as they are now."""
        return AmdSignal.parse(self.view().cast("B"))

    @property
    def kind(self) -> int:
        """Its amd_signal_kind_t."""
        return int(self.view()[_KIND])

    # ---- operations ----------------------------------------------------------------------------------------------

    def load(self, order: str = "scacq") -> int:
        """Signal Load."""
        if order not in LOAD_ORDERS:
            _refuse(order, LOAD_ORDERS, "load")
        self._user("load")
        value = self.word.load()
        self._world.saw(self.address)
        return value

    def store(self, value: int, order: str = "screl") -> None:
        """Signal Store; of a doorbell: tell the packet processor that packets up to number `value` are there."""
        if order not in STORE_ORDERS:
            _refuse(order, STORE_ORDERS, "store")
        view = self.view()
        kind = view[_KIND]
        if kind == _USER:
            self.word.store(value)
            self._notify()
        elif kind in _DOORBELLS:
            try:
                if kind == _DOORBELLS[0]:  # the value field holds the address of the hardware's doorbell
                    self._world.memory.write(view[_VALUE] & U64, (value & U64).to_bytes(8, "little"))
                else:
                    self._store_legacy(value)
            except UnderstudyError as error:
                self._world.tell_lints(error)
                raise
            if self._world.desk.pending:
                self._world.tell_lints()
        else:
            self._user("store")

    def rmw(self, operation: str, value: int, order: str = "scar") -> int:
        """Signal add, sub, min, max, and, or, xor or exch; the value before."""
        if order not in RMW_ORDERS:
            _refuse(order, RMW_ORDERS, operation)
        self._user(operation)
        before = self.word.rmw(operation, value)
        self._world.saw(self.address)
        self._notify()
        return before

    def increment(self, order: str = "scar") -> int:
        """Signal increment; the value before."""
        return self.rmw("add", 1, order)

    def decrement(self, order: str = "scar") -> int:
        """Signal decrement; the value before."""
        return self.rmw("sub", 1, order)

    def cas(self, expected: int, value: int, order: str = "scar") -> int:
        """Signal compare-and-swap; the value before."""
        if order not in RMW_ORDERS:
            _refuse(order, RMW_ORDERS, "cas")
        self._user("cas")
        before = self.word.cas(expected, value)
        self._world.saw(self.address)
        if before == signed(expected, self.bits):
            self._notify()
        return before

    def wait(
        self,
        condition: Condition,
        compare: int = 0,
        timeout_seconds: float | None = None,
        order: str = "scacq",
    ) -> int:
        """Wait until the value fulfils the condition; the value that did, or the last one when the time is over.

        A device without a thread of its own works meanwhile. Without a time-out, a `RuleError` with the queue's error
        where nothing is left that could change the value.
        """
        if order not in LOAD_ORDERS:
            _refuse(order, LOAD_ORDERS, "wait")
        try:
            value = self._wait(condition, compare, timeout_seconds)
        except UnderstudyError as error:
            self._world.tell_lints(error)
            raise
        if self._world.desk.pending:
            self._world.tell_lints()
        return value

    def _wait(self, condition: Condition, compare: int, timeout_seconds: float | None) -> int:
        self._user("wait")
        world, load, holds = self._world, self.word.load, _HOLDS[condition]
        value = load()
        if holds(value, compare):
            world.waited(self.address)
            return value
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            moved = world.progress()
            value = load()
            if holds(value, compare):
                world.waited(self.address)
                return value
            left = POLL_SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                return value
            if moved:
                continue
            if end is None:
                self._check_stuck(condition, compare)
            world.await_change(min(left, POLL_SECONDS))

    def _check_stuck(self, condition: Condition, compare: int) -> None:
        world = self._world
        # Whoever was at work may have looked before the packet came whose doorbell was stale: look once more.
        if world.stuck(self.address) is None or world.progress():
            return
        error, value = world.stuck(self.address), self.word.load()
        if error is not None and not condition.holds(value, compare):
            world.never(self.address)
            text = f"signal {self.address:#x} is {value} and will never be {condition.name} {compare}: {error.message}"
            raise RuleError(text, rule=error.rule or rules.SIGNAL_WAIT, path=error.path) from error

    # ---- parts ---------------------------------------------------------------------------------------------------

    def _user(self, operation: str) -> None:
        kind = self.view()[_KIND]
        if kind == _USER:
            return
        text = f"{operation} of signal {self.address:#x}: kind {kind}"
        if kind in _DOORBELLS:
            raise RuleError(f"{text} is a doorbell, which can only be stored to", rule=rules.DOORBELL_STORES_ONLY)
        raise RuleError(f"{text}, expected 1 (a user signal)", rule=rules.SIGNAL_KINDS)

    def _notify(self) -> None:
        """After a change: the mailbox, and those who wait."""
        view, world = self.view(), self._world
        if view[_MAILBOX]:
            notify(world, view)
        world.signal_changed()

    def _store_legacy(self, value: int) -> None:
        """The sequence of AMD_SIGNAL_KIND_LEGACY_DOORBELL, step by step in guest memory."""
        memory = self._world.memory
        hardware = self.view()[_VALUE] & U64
        lock, most, write, read, size, level = self._legacy(hardware)
        end = 0.0
        while lock.cas(0, 1) != 0:
            end = end or time.monotonic() + LOCK_SECONDS
            if time.monotonic() > end:
                raise RuleError(f"legacy_doorbell_lock at {lock.address:#x} is never released", rule=rules.LEGACY_LOCK)
            time.sleep(0)
        try:
            if value & U64 >= most.load_unsigned():  # else stale: a later packet has been signalled already
                most.store(value + 1)
                packets, index = size.load_unsigned(), value + 1
                if self.bits == 32:
                    index = min(write.load(), read.load() + packets)
                memory.write(hardware, legacy_value(index, packets, level).to_bytes(4, "little"))
        finally:
            lock.store(0)

    def _legacy(self, hardware: int) -> tuple[Word, Word, Word, Word, Word, int]:
        """The fields of the queue that a legacy doorbell's store goes through, and the generation."""
        memory = self._world.memory
        address = self.view()[_QUEUE_PTR] & U64
        if self._parts is None or self._parts[0].address != address + _LOCK_AT:
            level = int(getattr(getattr(memory.find(hardware), "region", None), "level", 8))
            lock, size = (Word(memory, address + at, 32) for at in (_LOCK_AT, _SIZE_AT))
            most, write, read = (Word(memory, address + at) for at in (_MOST_AT, _WRITE_AT, _READ_AT))
            self._parts = lock, most, write, read, size, level
        return self._parts


def notify(world: World, view: memoryview) -> None:
    """Send the event of a signal that has a mailbox: the id goes there, then an interrupt with its low 8 bits."""
    mailbox = view[_MAILBOX] & U64
    if mailbox:
        event = view[_EVENT] & _U32
        Word(world.memory, mailbox).store(event)
        world.interrupt(event & 0xFF)


def _refuse(order: str, orders: frozenset[str], operation: str) -> NoReturn:
    raise WireError(f"{operation} of a signal with order {order!r}, expected {', '.join(sorted(orders))}")
