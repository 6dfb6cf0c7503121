"""Signals and doorbells: amd_signal_t in guest memory, and the host's operations of "Signal kernel machine code".

All state is in guest memory. Kernels change it, too, so the operations are atomic. An operation on a doorbell
signal is a store to the address that the signal contains."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NoReturn

from softcard.core.errors import AccessFault, RuleError, SoftcardError, WireError
from softcard.core.space import Unit
from softcard.core.words import U32, U64, signed
from softcard.device.hsa import rules
from softcard.device.hsa.interfaces import World
from softcard.device.hsa.memory.atomics import Word
from softcard.device.hsa.native_packets import Q
from softcard.device.hsa.queues.packets import PACKET_BYTES
from softcard.device.hsa.queues.records import SIGNAL_ALIGNMENT, SIGNAL_BYTES, AmdQueue, AmdSignal, HsaQueue, SignalKind
from softcard.device.hsa.settings import HOST, Settings
from softcard.engine.gcn.host_clock import HostClock
from softcard.isa.gcn.target import GFX7, GFX9

# ---- doorbells -------------------------------------------------------------------------------------------------------
# Hardware doorbells: a write-only page with one doorbell per queue, and the encoding of doorbell values.


DOORBELL_BYTES: Final = 8
"""The distance in bytes between the addresses of two doorbells."""
DOORBELL_PAGES: Final = 2
DOORBELLS: Final = DOORBELL_PAGES * 4096 // DOORBELL_BYTES


class DoorbellPage:
    """The memory region of doorbells. A store calls `ring` with the doorbell's number and the stored value."""

    def __init__(self, level: int, ring: Callable[[int, int], None]) -> None:
        self.level = level
        self.size = DOORBELLS * DOORBELL_BYTES
        self._ring = ring
        self.width = 8 if level == GFX9 else 4

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Return None, so that code does not access this region directly: stores to it have side effects."""
        return None

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Raise `AccessFault`: doorbells are write-only."""
        raise AccessFault(
            f"read of {size} bytes from doorbell {offset // DOORBELL_BYTES}, which is write-only",
            address=offset, access="read", rule=rules.DOORBELL_WRITE_ONLY,
        )  # fmt: skip

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Ring a doorbell; raise `AccessFault` for stores of another width or between doorbells."""
        number, rest = divmod(offset, DOORBELL_BYTES)
        if rest or len(data) != self.width:
            raise AccessFault(
                f"store of {len(data)} bytes at byte {rest} of doorbell {number}, expected {self.width} at byte 0",
                address=offset, access="write", rule=rules.DOORBELL_WIDTH,
            )  # fmt: skip
        self._ring(number, int.from_bytes(data, "little"))


# ---- values of doorbells ---------------------------------------------------------------------------------------------
# The values of hardware doorbells, and the packets that they announce: plain arithmetic for both sides.
#
# "Signal kernel machine code", AMD_SIGNAL_KIND_LEGACY_DOORBELL.


DWORDS = PACKET_BYTES // 4


def legacy_value(index: int, size: int, level: int) -> int:
    """Return the value to write to a legacy doorbell in order to announce all packets before `index`.

    On GFX7 the value counts dwords, modulo twice the ring size `size`. Doorbells have 32 bits, whatever size a
    damaged queue has."""
    if level == GFX7:
        return (index & (size << 1) - 1) * DWORDS & U32
    return index & U32


def limit_of(value: int, level: int, read_id: int, size: int) -> int:
    """Return the index after the last packet that the doorbell value `value` announces.

    A GFX7 value counts dwords modulo twice the ring size `size`, a GFX8 value counts packets modulo 2**32. Such a
    value stands for several indices; the result is the one nearest to `read_id`, the packet processor's read
    index. A GFX9 value is the id of the last packet."""
    if level > 8:
        return value + 1 & U64
    if level == GFX7:
        span, index = 2 * size, value // DWORDS
    else:
        span, index = 1 << 32, value
    return read_id + (index - read_id) % span & U64


# ---- signals ---------------------------------------------------------------------------------------------------------
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
"""The interval in seconds at which a waiting thread polls a value that may change without a notification.

Kernels and code of other programs change values in this way.
"""
LOCK_SECONDS = 2.0
"""The maximum time in seconds to acquire a legacy doorbell's lock; its holder makes only a few stores."""

LOAD_ORDERS: Final = frozenset({"rlx", "scacq"})
STORE_ORDERS: Final = frozenset({"rlx", "screl"})
RMW_ORDERS: Final = frozenset({"rlx", "scacq", "screl", "scar"})


class Condition(IntEnum):
    """The conditions of a wait.

    HSA has only the first four; the ROCm Code Object specification has all six (erratum 6)."""

    EQ = 0
    NE = 1
    LT = 2
    GTE = 3
    GT = 4
    LE = 5

    def holds(self, value: int, compare: int) -> bool:
        """Return True if `value` fulfils this condition with respect to `compare`."""
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
    """The signal at `address`, with its operations as the host performs them.

    Values are signed and have `bits` bits. In the small machine model they have 32 bits, and the upper half of
    the value field is not used. Raise `RuleError` for an `order` that HSA does not allow for the operation, for
    an operation that the signal's kind does not support, and for a signal whose memory was freed. Raise
    `AccessFault` if `address` is not the address of a signal."""

    __slots__ = ("_block", "_parts", "_version", "_view", "_world", "address", "bits", "word")

    def __init__(self, world: World, address: int) -> None:
        if address % SIGNAL_ALIGNMENT:
            raise RuleError(
                f"the signal's address is {address:#x}, expected a multiple of {SIGNAL_ALIGNMENT}",
                rule=rules.SIGNAL_HANDLE,
            )
        self.address = address
        self.bits = world.signal_bits
        self._world = world
        self._block = world.block(address)
        self._parts: tuple[Word, Word, Word, Word, Word, int] | None = None
        self._report_read()
        self.word = Word(world.memory, address + VALUE_AT, self.bits)

    def __repr__(self) -> str:
        try:
            kind = self.kind
            state = str(self.word.load()) if kind == SignalKind.USER else f"kind {kind}" if kind else "gone"
        except SoftcardError:
            state = "gone"
        return f"<signal at {self.address:#x}: {state}>"

    def view(self) -> memoryview:
        """Return a view of the signal's 64 bytes as signed 64-bit words."""
        memory = self._world.memory
        if self._version != memory.version:
            if self._world.block(self.address) is not self._block:
                raise RuleError(f"signal at {self.address:#x} was destroyed", rule=rules.SIGNAL_HANDLE)
            self._report_read()
        return self._view

    def _report_read(self) -> None:
        """Look up the memory of this process that holds the signal, and cache a view of it for `view`.

        Raise `AccessFault` if the signal is not in plain RAM."""
        memory = self._world.memory
        version, found = memory.version, memory.plain(self.address, SIGNAL_BYTES, store=True)
        if found is None:
            memory.check(self.address, SIGNAL_BYTES, "write")
            text = f"the signal at {self.address:#x} is not in RAM"
            raise AccessFault(text, address=self.address, access="write", rule=rules.SIGNAL_HANDLE)
        start = self.address - found.base
        self._view = found.view[start : start + SIGNAL_BYTES].cast("q")
        self._version = version

    def record(self) -> AmdSignal:
        """Return all fields of the signal with their current values."""
        return AmdSignal.parse(self.view().cast("B"))

    @property
    def kind(self) -> int:
        """The signal's kind, an amd_signal_kind_t."""
        return int(self.view()[_KIND])

    # ---- operations ----------------------------------------------------------------------------------------------

    def load(self, order: str = "scacq") -> int:
        """Return the value of the signal (HSA's Signal Load)."""
        if order not in LOAD_ORDERS:
            _refuse(order, LOAD_ORDERS, "load")
        self._user("load")
        value = self.word.load()
        self._world.signal_was_read(self.address)
        return value

    def store(self, value: int, order: str = "screl") -> None:
        """Set the signal to `value` (HSA's Signal Store).

        If the signal is a doorbell, announce the packets up to index `value` instead."""
        if order not in STORE_ORDERS:
            _refuse(order, STORE_ORDERS, "store")
        view = self.view()
        kind = view[_KIND]
        if kind == _USER:
            self._world.check_host_store()
            self.word.store(value)
            self._notify()
        elif kind in _DOORBELLS:
            try:
                if kind == _DOORBELLS[0]:  # the value field holds the address of the hardware's doorbell
                    self._world.memory.write(view[_VALUE] & U64, (value & U64).to_bytes(8, "little"))
                else:
                    self._store_legacy(value)
            except SoftcardError as error:
                self._world.report_lints(error, with_findings=False)
                raise
            if self._world.desk.pending:
                self._world.report_lints(with_findings=False)
        else:
            self._user("store")

    def rmw(self, operation: str, value: int, order: str = "scar") -> int:
        """Execute HSA's Signal add, sub, min, max, and, or, xor or exch; return the previous value."""
        if order not in RMW_ORDERS:
            _refuse(order, RMW_ORDERS, operation)
        self._user(operation)
        self._world.check_host_store()
        before = self.word.rmw(operation, value)
        self._world.signal_was_read(self.address)
        self._notify()
        return before

    def increment(self, order: str = "scar") -> int:
        """Increment the value; return the previous value."""
        return self.rmw("add", 1, order)

    def decrement(self, order: str = "scar") -> int:
        """Decrement the value; return the previous value."""
        return self.rmw("sub", 1, order)

    def cas(self, expected: int, value: int, order: str = "scar") -> int:
        """Set the value to `value` if it is `expected`; return the previous value."""
        if order not in RMW_ORDERS:
            _refuse(order, RMW_ORDERS, "cas")
        self._user("cas")
        self._world.check_host_store()
        before = self.word.cas(expected, value)
        self._world.signal_was_read(self.address)
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
        """Wait until the value fulfils `condition` with respect to `compare`; return the value.

        After the timeout, return the last value. A device without its own thread processes packets during the wait.
        Without a timeout, raise `RuleError` with the queue's error if the value cannot change any more. Ctrl-C also
        ends the kernels that can change the value."""
        if order not in LOAD_ORDERS:
            _refuse(order, LOAD_ORDERS, "wait")
        try:
            value = self._wait(condition, compare, timeout_seconds)
        except SoftcardError as error:
            self._world.report_lints(error)
            raise
        except BaseException as cause:
            self._world.abandon(self.address, cause)
            raise
        if self._world.desk.pending or self._world.desk.findings:
            self._world.report_lints()
        return value

    def _wait(self, condition: Condition, compare: int, timeout_seconds: float | None) -> int:
        self._user("wait")
        world, load, holds = self._world, self.word.load, _HOLDS[condition]
        value = load()
        if holds(value, compare):
            world.waited(self.address)
            return value
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        era = world.era
        while True:
            moved = world.progress()
            if world.era != era:
                text = f"the device was reset or restored while the host waited for signal {self.address:#x}"
                raise RuleError(f"{text}: end all waits before a reset or restore", rule=rules.SIGNAL_WAIT)
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
        # A busy thread may have polled before the packet came whose doorbell was stale: poll once more.
        if world.stuck(self.address) is None or world.progress():
            return
        error, value = world.stuck(self.address), self.word.load()
        if error is not None and not condition.holds(value, compare):
            world.never(self.address)
            text = f"signal {self.address:#x} is {value} and will never be {condition.name} {compare}: {error.message}"
            raise RuleError(text, rule=error.rule or rules.SIGNAL_WAIT, path=error.path) from error

    # ---- helpers ---------------------------------------------------------------------------------------------------

    def _user(self, operation: str) -> None:
        kind = self.view()[_KIND]
        if kind == _USER:
            return
        text = f"{operation} of signal {self.address:#x}: its kind is {kind}"
        if kind in _DOORBELLS:
            raise RuleError(f"{text} (a doorbell), which can only be stored to", rule=rules.DOORBELL_STORES_ONLY)
        raise RuleError(f"{text}, expected 1 (a user signal)", rule=rules.SIGNAL_KINDS)

    def _notify(self) -> None:
        """Report a change of the value to the signal's mailbox and to the threads that wait for the signal."""
        notify(self._world, *event_of(self.view()))
        self._world.signal_changed(self.address)

    def _store_legacy(self, value: int) -> None:
        """Store `value` to an AMD_SIGNAL_KIND_LEGACY_DOORBELL, by the same steps in guest memory as a kernel."""
        memory = self._world.memory
        hardware = self.view()[_VALUE] & U64
        lock, most, write, read, size, level = self._legacy(hardware)
        end = 0.0
        while lock.cas(0, 1) != 0:
            end = end or time.monotonic() + LOCK_SECONDS
            if time.monotonic() > end:
                raise RuleError(
                    f"legacy_doorbell_lock at {lock.address:#x} was not released within {LOCK_SECONDS:g} s",
                    rule=rules.LEGACY_LOCK,
                )
            time.sleep(0)
        try:
            if value & U64 >= most.load_unsigned():  # otherwise stale: a later packet was announced already
                most.store(value + 1)
                packets, index = size.load_unsigned(), value + 1
                if self.bits == 32:
                    index = min(write.load(), read.load() + packets)
                memory.write(hardware, legacy_value(index, packets, level).to_bytes(4, "little"))
        finally:
            lock.store(0)

    def _legacy(self, hardware: int) -> tuple[Word, Word, Word, Word, Word, int]:
        """Return the words of amd_queue_t that a store to a legacy doorbell uses, and the hardware's GFX level."""
        memory = self._world.memory
        address = self.view()[_QUEUE_PTR] & U64
        if self._parts is None or self._parts[0].address != address + _LOCK_AT:
            level = int(getattr(getattr(memory.find(hardware), "region", None), "level", 8))
            lock, size = (Word(memory, address + at, 32) for at in (_LOCK_AT, _SIZE_AT))
            most, write, read = (Word(memory, address + at) for at in (_MOST_AT, _WRITE_AT, _READ_AT))
            self._parts = lock, most, write, read, size, level
        return self._parts


def event_of(view: memoryview) -> tuple[int, int]:
    """Return the event_mailbox_ptr and the event id of a signal; the pointer is 0 without a mailbox."""
    return view[_MAILBOX] & U64, view[_EVENT] & _U32


def notify(world: World, mailbox: int, event: int) -> None:
    """Send the event with the id `event` of a signal whose mailbox is at address `mailbox`.

    Store the id in the mailbox, then send an interrupt with the low 8 bits of the id."""
    if mailbox:
        Word(world.memory, mailbox).store(event)
        world.interrupt(event & 0xFF)


def _refuse(order: str, orders: frozenset[str], operation: str) -> NoReturn:
    raise WireError(
        f"memory order {order!r} is not valid for {operation} of a signal, expected one of {', '.join(sorted(orders))}"
    )


# ---- timestamps of completion signals --------------------------------------------------------------------------------
# The timestamps of completion signals: the device's instructions, or the host's nanoseconds.


class Timestamps:
    """The source of one device's timestamps: its instruction count `ticks`, or the host's clock.

    `clock` is the host's clock if the settings select it, else None.
    """

    def __init__(self, settings: Settings, ticks: memoryview) -> None:
        self._ticks = ticks
        self.clock = HostClock.find() if settings.timestamps == HOST else None
        self.is_host = self.clock is not None

    def now(self) -> int:
        """Return the current time for a timestamp."""
        return self._ticks[0] if self.clock is None else self.clock.now()

    def configure(self, words: Any) -> None:
        """Make the native code that processes a queue's packets use the same clock as this object.

        `words` are the words of the queue's `QueueBlock`."""
        if self.clock is not None:
            words[Q["clock_gettime"]], words[Q["clock_id"]] = self.clock.function, self.clock.id
