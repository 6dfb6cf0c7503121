"""The driver of Acceldev in Python: contexts, buffers, runs, waits, and error handling.

The calls and error numbers are those of the original driver's ioctls, so a driver author can compare it with a driver
in C.

>>> from softcard.device.acceldev.commands import Fence, Fill
>>> with Acceldev.open() as device, device.open_context() as context:
...     data = context.create_buffer(8192)
...     code = context.create_code(Fill(value=7, buffer_slot=data.slot, start=0, length=8192), Fence())
...     context.run(code)
...     context.wait(1)
...     print(data.array("u4")[:3], data.array("u4").sum())
[7 7 7] 14336
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from softcard.core.display import RichDisplay, Rows, count
from softcard.core.errors import SoftcardError
from softcard.core.record import Record
from softcard.core.rule import Rule
from softcard.core.words import U32, align_up
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import (
    BUFFER_BYTES,
    FENCE_COUNTER,
    STATUS,
    STATUS_ERROR,
    WORD_BYTES,
    BindSlotCommand,
    ContextConfig,
    FenceCommand,
    Fill,
    NopCommand,
    RunCommand,
    UserCommand,
    page_table,
    user_code,
    words_of,
)
from softcard.device.acceldev.registers import ACCELDEV_PAGE_SIZE, Interrupt
from softcard.device.acceldev.settings import AcceldevOptions
from softcard.host.acceldev.port import MEMORY_BYTES, AcceldevPort, LocalPort
from softcard.host.run_statistics import RunStatistics, logged

__all__ = ["CODE", "DATA", "Acceldev", "Buffer", "Context", "DriverError"]


# ---- submission of commands ------------------------------------------------------------------------------------------
# Submission of commands as in a kernel driver: fences, and a software queue that feeds the device's queue.
#
# The device's queue holds 255 commands and drops further ones. Its interrupt for fences compares the fence counter
# with one value only, CMD_FENCE_WAIT. So commands wait in the software queue, and are submitted in batches that each
# end with a FENCE. CMD_FENCE_WAIT always contains the number of the oldest unfinished batch's fence.


Done = Callable[[], None]


def reached(counter: int, fence: int) -> bool:
    """Return True if a 32-bit fence counter has reached or passed `fence`, allowing for wrap-around.

    The counter counts as past the fence if it is ahead by less than half of the range.
    """
    return counter - fence & U32 < 1 << 31


@dataclass(frozen=True, slots=True)
class _Entry:
    words: tuple[int, ...]
    done: Done | None


@dataclass(slots=True)
class _Batch:
    """A batch of commands in the device's queue. It ends with the FENCE whose number is `number`."""

    number: int
    entries: list[_Entry] = field(default_factory=list)


class CommandQueue:
    """The queue of commands that were submitted and that the device has not finished.

    Callers must hold the driver's lock."""

    def __init__(self, port: AcceldevPort) -> None:
        self._port = port
        self._waiting: deque[_Entry] = deque()
        self._batches: deque[_Batch] = deque()
        self._number = 0
        self.submitted = 0
        """The number of commands submitted so far."""
        self.finished = 0
        """The number of commands that the device has finished; it finishes them in order."""
        self._is_feeding = False

    @property
    def is_empty(self) -> bool:
        """True if the device has finished all submitted commands."""
        return not self._waiting and not self._batches

    def put(self, command: Record, done: Done | None = None) -> None:
        """Add a command to the software queue, from which it moves to the device's queue when that has room.

        `done` is called when the device has finished the command."""
        self._waiting.append(_Entry(words_of(command), done))
        self.submitted += 1
        self.feed()

    def feed(self) -> None:
        """Move waiting commands into the device's queue.

        A nested call, from an interrupt handler, does nothing: the outer call goes on to move commands.
        """
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._waiting and (room := self._port.read(r.CMD_MANUAL_FREE.offset)) >= 2:
                self._feed_batch(room - 1)
        finally:
            self._is_feeding = False

    def complete(self) -> None:
        """Handle the FENCE_WAIT interrupt: remove finished batches, and set CMD_FENCE_WAIT for the next one."""
        while True:
            last = self._port.read(r.CMD_FENCE_LAST.offset)
            while self._batches and reached(last, self._batches[0].number):
                for entry in self._batches.popleft().entries:
                    self.finished += 1
                    if entry.done is not None:
                        entry.done()
            if not self._batches:
                return
            # The batch may finish just before this write; only reading CMD_FENCE_LAST after it shows that.
            self._port.write(r.CMD_FENCE_WAIT.offset, self._batches[0].number)
            if not reached(self._port.read(r.CMD_FENCE_LAST.offset), self._batches[0].number):
                return

    def drop(self) -> None:
        """Treat all unfinished commands as done, because the device is closed and does not use memory any more."""
        entries = [*(entry for batch in self._batches for entry in batch.entries), *self._waiting]
        self._batches.clear()
        self._waiting.clear()
        for entry in entries:
            if entry.done is not None:
                entry.done()

    def _feed_batch(self, most: int) -> None:
        self._number = self._number + 1 & U32
        batch = _Batch(self._number, [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))])
        if not self._batches:
            self._port.write(r.CMD_FENCE_WAIT.offset, batch.number)
        self._batches.append(batch)
        for entry in batch.entries:
            self._feed_words(entry.words)
        self._feed_words(words_of(FenceCommand(value=batch.number)))

    def _feed_words(self, words: tuple[int, ...]) -> None:
        for offset, word in zip(range(r.CMD_MANUAL_FEED.offset, r.FEED_END, r.REGISTER_BYTES), words, strict=True):
            self._port.write(offset, word)


# ---- buffers ---------------------------------------------------------------------------------------------------------
# Buffers: memory pages that the device accesses through a page table and Python sees as contiguous bytes.


CODE: Final = "code"
DATA: Final = "data"


class DriverError(SoftcardError):
    """A failed call of the driver; `errno` is the error number that the C driver's system call would return."""

    def __init__(self, number: int, message: str, *, rule: Rule | None = None) -> None:
        name = "EDEADLK" if number == errno.EDEADLK else errno.errorcode[number]  # errorcode names it EDEADLOCK
        super().__init__(f"{name} ({os.strerror(number)}): {message}", rule=rule)
        self.errno = number


Closer = Callable[["Buffer", Callable[[], None]], None]


Scalar = TypeVar("Scalar", bound=np.generic)


class Buffer:
    """A code or data buffer of `size` bytes.

    `slot` is the slot of a data buffer, None for a code buffer. `table` is the address of its page table.
    """

    def __init__(self, port: AcceldevPort, size: int, slot: int | None, table: int, pages: int, closer: Closer) -> None:
        self.size = size
        self.slot = slot
        self.table, self._pages = table, pages
        self._port = port
        self._closer = closer
        self._is_closed = False

    def __repr__(self) -> str:
        kind = "code" if self.slot is None else f"slot {self.slot}"
        return f"<buffer of {self.size:,} bytes, {'closed' if self._is_closed else kind}>"

    @property
    def view(self) -> memoryview:
        """The bytes of the buffer, writable and shared with the device; invalid after `close`."""
        self._check_open()
        return self._port.view(self._pages, self.size)

    @overload
    def array(self) -> NDArray[np.uint8]: ...

    @overload
    def array(self, dtype: type[Scalar] | np.dtype[Scalar]) -> NDArray[Scalar]: ...

    @overload
    def array(self, dtype: DTypeLike) -> NDArray[np.generic]: ...

    def array(self, dtype: DTypeLike = np.uint8) -> NDArray[np.generic]:
        """Return the buffer's bytes as an array that shares its memory, with as many whole elements as fit."""
        kind = np.dtype(dtype)
        return np.frombuffer(self.view, dtype=kind, count=self.size // kind.itemsize)

    def write(self, data: bytes, offset: int = 0) -> None:
        """Store `data` at `offset`; raise `DriverError` EINVAL if it does not fit."""
        if not 0 <= offset <= self.size - len(data):
            raise DriverError(
                errno.EINVAL, f"{len(data)} bytes at {offset:#x} do not fit the buffer of {self.size} bytes"
            )
        self.view[offset : offset + len(data)] = data

    def close(self) -> None:
        """Unbind the buffer, and free its pages when the device has finished with them.

        Further calls have no effect.
        """
        if not self._is_closed:
            self._is_closed = True
            self._closer(self, self._release)

    def _release(self) -> None:
        self._port.free(self._pages)
        self._port.free(self.table)

    def _check_open(self) -> None:
        if self._is_closed:
            raise DriverError(errno.EBADF, "the buffer is closed")

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def make_buffer(port: AcceldevPort, size: int, kind: str, slot: int | None, closer: Closer) -> Buffer:
    """Return a zeroed buffer of `size` bytes: allocate its pages, and write its page table.

    `closer` is the function that the buffer's `close` calls with the buffer and a function that frees its
    memory. Raise `DriverError` EINVAL for a wrong size or kind, and ENOMEM if there is not enough free memory."""
    if kind not in (CODE, DATA):
        raise DriverError(errno.EINVAL, f"the kind of buffer is {kind!r}, expected {CODE!r} or {DATA!r}")
    if not 1 <= size <= BUFFER_BYTES:
        raise DriverError(errno.EINVAL, f"the size of the buffer is {size} bytes, expected 1 to {BUFFER_BYTES}")
    pages = port.allocate(size)
    table = port.allocate(ACCELDEV_PAGE_SIZE) if pages else 0
    if not table:
        port.free(pages)
        raise DriverError(errno.ENOMEM, f"cannot allocate memory for a buffer of {size} bytes")
    end = pages + align_up(size, ACCELDEV_PAGE_SIZE)
    port.view(table, ACCELDEV_PAGE_SIZE)[:] = page_table(range(pages, end, ACCELDEV_PAGE_SIZE))
    return Buffer(port, size, slot, table, pages, closer)


# ---- the driver ------------------------------------------------------------------------------------------------------
GRACE_SECONDS: Final = 0.1
"""The time in seconds that a device has to finish its work when it is closed."""
POLL_SECONDS: Final = 0.1
"""The interval in seconds at which a waiting driver tests if the device was closed.

The device does not raise an interrupt when it is closed.
"""
RECORDS_BYTES: Final = r.ACCELDEV_MAX_CONTEXTS * ContextConfig.size_bytes


@dataclass(frozen=True, slots=True)
class Result(RunStatistics):
    """The result of user commands: their number, the bytes that FILL commands wrote, and the seconds taken."""

    instructions: int
    bytes: int
    time: float = field(default=0.0, compare=False)

    __repr__ = RunStatistics.__repr__

    @property
    def _name(self) -> str:
        return "user commands"


class Acceldev(RichDisplay):
    """An Acceldev device with its driver. `open_context` corresponds to opening the character device.

    Calls are allowed from any thread. Interrupts are handled at once, on the thread that raises the interrupt line.
    """

    def __init__(self, port: AcceldevPort) -> None:
        self.port = port
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.queue = CommandQueue(port)
        self.contexts: dict[int, Context] = {}
        self.failure: DriverError | None = None
        self._is_closed = False
        self._records = port.allocate(RECORDS_BYTES)
        if not self._records:
            raise DriverError(
                errno.ENOMEM, f"cannot allocate memory for the records of {r.ACCELDEV_MAX_CONTEXTS} contexts"
            )
        self._cancel = port.line.observe(lambda level: self.handle_interrupt() if level else None)
        self._start_up()

    def __repr__(self) -> str:
        return f"<Acceldev {'closed' if self._is_closed else 'open'}, {count(len(self.contexts), 'context')}>"

    def _rows(self) -> Rows:
        yield "context", "buffers", "fences", "errored"
        for index, context in self.contexts.items():
            yield index, context.count, context.fence_counter, context.is_errored

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.port,)

    @classmethod
    def open(cls, memory_bytes: int = MEMORY_BYTES, **settings: Unpack[AcceldevOptions]) -> Self:
        """Return a fresh device in this process with `memory_bytes` of memory; `settings` are those of the device."""
        return cls(LocalPort(memory_bytes, **settings))

    def open_context(self) -> Context:
        """Return a new context; raise `DriverError` EBUSY if all 255 are open."""
        with self.lock:
            self._check_open()
            free = next((index for index in range(r.ACCELDEV_MAX_CONTEXTS) if index not in self.contexts), None)
            if free is None:
                raise DriverError(errno.EBUSY, f"all {r.ACCELDEV_MAX_CONTEXTS} contexts are in use: close one first")
            context = Context(self, free, self._records + free * ContextConfig.size_bytes)
            self.contexts[free] = context
            return context

    def handle_interrupt(self) -> None:
        """Handle an interrupt: acknowledge it, remove finished commands, and submit waiting ones to the device.

        The error FEED_ERROR (a command was dropped) is stored in `failure`."""
        with self.changed:
            while pending := Interrupt(self.port.read(r.INTR.offset) & r.INTERRUPTS):
                # Acknowledged before anything is evaluated: later events raise a new interrupt.
                self.port.write(r.INTR.offset, pending)
                if Interrupt.FEED_ERROR in pending:
                    self.failure = DriverError(
                        errno.EIO, "the driver submitted a command to a full queue, and the device dropped it"
                    )
                if Interrupt.FENCE_WAIT in pending:
                    self.queue.complete()
            self.queue.feed()
            self.changed.notify_all()

    def wait_until(self, done: Callable[[], bool], what: str, timeout_seconds: float | None = None) -> None:
        """Let the device work until `done` returns True; the caller must not hold the lock.

        `what` describes the awaited event in messages. Raise `DriverError` ETIMEDOUT after `timeout_seconds`. Raise
        EDEADLK if no queued command is left that could make `done` return True. Raise ENODEV if the device or this
        driver is closed during the wait."""
        self._check_open()
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self.changed:
            while not done():
                if self._is_closed or self.port.is_gone:
                    raise self._closed()
                if self.failure is not None:
                    raise self.failure
                if self.queue.is_empty:
                    raise DriverError(errno.EDEADLK, f"{what} will never be reached: all queued commands have finished")
                if self.port.work() or self._is_closed:
                    continue
                if not self.port.works_alone:
                    if self._catches_up():
                        continue
                    raise DriverError(errno.EDEADLK, f"{what} will never be reached: the device has stopped")
                left = POLL_SECONDS if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    raise DriverError(errno.ETIMEDOUT, f"{what} was not reached within {timeout_seconds} s")
                self.changed.wait(min(left, POLL_SECONDS))

    def _catches_up(self) -> bool:
        """Complete the work of an interrupt handler that an exception such as Ctrl-C ended early.

        The handler had acknowledged the interrupt, so the device does not raise it again. Return True if the call
        found commands that have finished."""
        before = self.queue.finished
        self.queue.complete()
        self.queue.feed()
        return self.queue.finished > before

    def wait_finished(self, timeout_seconds: float | None = None) -> None:
        """Wait until the device has finished all commands that are queued at the time of the call.

        Commands that other threads queue later are not waited for."""
        with self.lock:
            last = self.queue.submitted
        self.wait_until(lambda: self.queue.finished >= last, "the end of all commands", timeout_seconds)

    def close(self) -> None:
        """Close all contexts and shut the device down; further calls have no effect.

        Work that the device cannot finish within `GRACE_SECONDS` is dropped: waits for it fail with ENODEV.
        """
        if self._is_closed:
            return
        if self._finishes_soon():
            for context in list(self.contexts.values()):
                context.close()
            with self.lock:
                self._is_closed = True
                self.port.write(r.ENABLE.offset, 0)
                self.port.write(r.INTR_ENABLE.offset, 0)
                self._cancel()
            self.port.close()
        else:
            self._is_closed = True
            self.port.close()
            with self.changed:
                self._cancel()
                self.queue.drop()
                for context in list(self.contexts.values()):
                    context.drop()
                self.queue.drop()
                self.contexts.clear()
                self.changed.notify_all()
        self.port.free(self._records)

    def _finishes_soon(self) -> bool:
        """Return True if the device is idle, or becomes idle within `GRACE_SECONDS`."""
        if not self.lock.acquire(timeout=GRACE_SECONDS):
            return False  # a waiting thread holds the lock, and runs a device without a thread of its own
        try:
            if self.queue.is_empty or not self.port.works_alone:
                return self.queue.is_empty
        finally:
            self.lock.release()
        try:
            self.wait_finished(GRACE_SECONDS)
        except DriverError:
            return False
        return True

    def _start_up(self) -> None:
        """Start the device, in the order of the section "Starting the Device" of the Acceldev specification."""
        write = self.port.write
        write(r.INTR.offset, U32)
        write(r.INTR_ENABLE.offset, r.INTERRUPTS)
        write(r.CONTEXTS_CONFIGS_LO.offset, self._records & U32)
        write(r.CONTEXTS_CONFIGS_HI.offset, self._records >> 32)
        write(r.ENABLE.offset, 1)
        write(r.CMD_FENCE_LAST.offset, 0)
        write(r.CMD_FENCE_WAIT.offset, 0)

    def _check_open(self) -> None:
        if self._is_closed:
            raise DriverError(errno.ENODEV, "the device is closed")

    def _closed(self) -> DriverError:
        stopped = self.port.stopped()
        error = DriverError(errno.ENODEV, "the device is closed" if stopped is None else stopped.message)
        error.path = () if stopped is None else stopped.path
        return error

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Context:
    """One open context of the device: its record in device memory, its buffers and its fences.

    After an error, every call but `close` fails with EIO.
    """

    def __init__(self, device: Acceldev, index: int, record: int) -> None:
        self.index = index
        self._device = device
        self._record = device.port.view(record, ContextConfig.size_bytes)
        self._record[:] = bytes(ContextConfig.size_bytes)
        self._buffers: dict[int, Buffer] = {}
        self._codes: list[Buffer] = []
        self._is_closed = False

    def __repr__(self) -> str:
        if self._is_closed:
            return f"<context {self.index}, closed>"
        errored = ", errored" if self.is_errored else ""
        return f"<context {self.index}, {count(self.count, 'buffer')}{errored}>"

    @property
    def count(self) -> int:
        """The number of open buffers of the context."""
        return len(self._buffers) + len(self._codes)

    @property
    def fence_counter(self) -> int:
        """The number of the context's user FENCEs that the device has counted, modulo 2**32."""
        return int.from_bytes(self._record[FENCE_COUNTER : FENCE_COUNTER + WORD_BYTES], "little")

    @property
    def is_errored(self) -> bool:
        """True if the device has set the error flag of the context."""
        return bool(self._record[STATUS] & STATUS_ERROR)

    def create_buffer(self, size: int, kind: str = DATA) -> Buffer:
        """Create a zeroed buffer of `size` bytes, 1 to 4 MiB (ACCELDEV_IOCTL_CREATE_BUFFER).

        `kind` is "data" or "code". Data buffers take the lowest free slot. Raise `DriverError` EINVAL for a wrong
        size or kind, ENOSPC if all 16 slots are taken, and ENOMEM if there is not enough free memory."""
        with self._device.lock:
            self._check_open()
            slot = None
            if kind == DATA:
                slot = next((each for each in range(r.ACCELDEV_NUM_BUFFERS) if each not in self._buffers), None)
                if slot is None:
                    raise DriverError(errno.ENOSPC, f"all {r.ACCELDEV_NUM_BUFFERS} slots of the context are in use")
            buffer = make_buffer(self._device.port, size, kind, slot, self._close_buffer)
            if slot is None:
                self._codes.append(buffer)
            else:
                self._buffers[slot] = buffer
                command = BindSlotCommand(context=self.index, slot_number=slot, table=buffer.table)
                self._device.queue.put(command)
            return buffer

    def create_code(self, *commands: UserCommand) -> Buffer:
        """Return a new code buffer that holds exactly these commands."""
        data = user_code(commands)
        buffer = self.create_buffer(len(data), CODE)
        buffer.write(data)
        return buffer

    def run(self, code: Buffer, address: int = 0, size: int | None = None) -> None:
        """Queue the user commands in `size` bytes of a code buffer, from byte `address` on (ACCELDEV_IOCTL_RUN).

        By default `size` is the rest of the buffer. Raise `DriverError` EIO if the context has failed. Raise
        `DriverError` EINVAL if `code` is not a code buffer of this context, if `address` or `size` does not fit
        32 bits, or if `address` is not a multiple of 4. Ranges past the buffer's end are detected by the device,
        not by the driver."""
        with self._device.lock:
            self._check_open()
            if self.is_errored:
                raise self._errored()
            if code not in self._codes:
                raise DriverError(errno.EINVAL, "cannot run the buffer, expected an open code buffer of this context")
            length = code.size - address if size is None else size
            if address % WORD_BYTES or not 0 <= address <= U32 or not 0 <= length <= U32:
                raise DriverError(
                    errno.EINVAL,
                    f"cannot run {length} bytes at {address:#x}, expected a size and an address that fit 32 bits, and "
                    f"an address that is a multiple of {WORD_BYTES}",
                )
            command = RunCommand(context=self.index, table=code.table, offset=address, size=length)
            self._device.queue.put(command)

    def wait(self, fence: int, timeout_seconds: float | None = None) -> None:
        """Wait for the context's `fence`-th user FENCE, counted from 1 modulo 2**32 (ACCELDEV_IOCTL_WAIT).

        Raise `DriverError` EIO if the context has failed, even if the fence was reached; EDEADLK if the fence can never
        be reached (the original driver would wait for a signal); and ETIMEDOUT after `timeout_seconds`.
        """
        self._check_open()
        self._device.wait_until(
            lambda: self.is_errored or reached(self.fence_counter, fence), f"fence {fence}", timeout_seconds
        )
        if self.is_errored:
            raise self._errored()

    def drain(self, timeout_seconds: float | None = None) -> None:
        """Wait until the device has finished all queued commands; raise `DriverError` EIO after a context error."""
        self._check_open()
        self._device.wait_finished(timeout_seconds)
        if self.is_errored:
            raise self._errored()

    def execute(self, *commands: UserCommand) -> Result:
        """Run `commands` from a temporary code buffer, wait until they have finished, and return their result."""
        code = self.create_code(*commands)
        start = time.perf_counter()
        try:
            self.run(code)
            self.drain()
        finally:
            code.close()
        filled = sum(each.length for each in commands if isinstance(each, Fill))
        return logged(Result(len(commands), filled, time.perf_counter() - start))

    def close(self) -> None:
        """Unbind and free all buffers, wait until the device does not use them any more, and free the context."""
        with self._device.lock:
            if self._is_closed:
                return
            for buffer in [*self._buffers.values(), *self._codes]:
                buffer.close()
            self._is_closed = True
        self._device.wait_finished()
        with self._device.lock:
            # Zeroed now rather than at the next open, so that memory keeps no data of this context.
            self._record[:] = bytes(ContextConfig.size_bytes)
            del self._device.contexts[self.index]

    def drop(self) -> None:
        """Close all buffers and clear the context's record in device memory, because the device is closed.

        The caller must hold the device's lock."""
        self._is_closed = True
        for buffer in [*self._buffers.values(), *self._codes]:
            buffer.close()
        self._record[:] = bytes(ContextConfig.size_bytes)

    def _close_buffer(self, buffer: Buffer, release: Callable[[], None]) -> None:
        """Unbind a buffer, and register `release`, which frees its pages.

        The driver calls `release` when the device has finished all commands that were queued before."""
        with self._device.lock:
            command: NopCommand | BindSlotCommand = NopCommand()
            if buffer.slot is None:
                self._codes.remove(buffer)
            else:
                del self._buffers[buffer.slot]
                command = BindSlotCommand(context=self.index, slot_number=buffer.slot, table=0)
            self._device.queue.put(command, release)

    def _check_open(self) -> None:
        if self._is_closed:
            raise DriverError(errno.EBADF, "the context is closed")

    def _errored(self) -> DriverError:
        cause = self._device.port.explain(self.index)
        why = "" if cause is None else f": {cause.message}"
        error = DriverError(errno.EIO, f"context {self.index} has failed{why}", rule=cause.rule if cause else None)
        error.path = cause.path if cause else ()
        return error

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
