"""The job of Acceldev's kernel driver, in Python: contexts, buffers, runs, waits, and what happens after errors.

The calls are those of the original driver's ioctls, and so are their error numbers; a driver author can lay this beside
a driver in C.

>>> from understudy.device.acceldev.commands import Fence, Fill
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
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from understudy.core.shown import Rows, Shown, count
from understudy.core.took import Took, told
from understudy.core.words import U32
from understudy.device.acceldev import registers as r
from understudy.device.acceldev.commands import (
    FENCE_COUNTER,
    STATUS,
    STATUS_ERROR,
    WORD_BYTES,
    BindSlotCommand,
    ContextConfig,
    Fill,
    NopCommand,
    RunCommand,
    UserCommand,
    user_code,
)
from understudy.device.acceldev.registers import Interrupt
from understudy.host.acceldev.buffer import CODE, DATA, Buffer, DriverError, make_buffer
from understudy.host.acceldev.port import MEMORY_BYTES, AcceldevPort, LocalPort
from understudy.host.acceldev.queue import CommandQueue, reached

__all__ = ["CODE", "DATA", "Acceldev", "Buffer", "Context", "DriverError"]

MOMENT_SECONDS: Final = 0.1
"""What a device may take to finish while it is being closed."""
LOOK_SECONDS: Final = 0.1
"""How long a driver sleeps before it looks whether the device is still there: nothing tells it of that."""
RECORDS_BYTES: Final = r.ACCELDEV_MAX_CONTEXTS * ContextConfig.size_bytes


@dataclass(frozen=True, slots=True)
class Result(Took):
    """What executing user commands took: their number, the bytes that they filled, and seconds."""

    instructions: int
    bytes: int
    time: float = field(default=0.0, compare=False)

    __repr__ = Took.__repr__

    @property
    def _name(self) -> str:
        return "user commands"


class Acceldev(Shown):
    """An Acceldev and its driver. `open_context` is what opening the character device does.

    Any thread may call. Interrupts are handled as they occur, on the thread that the line rises on.
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
            raise DriverError(errno.ENOMEM, f"no memory for the records of {r.ACCELDEV_MAX_CONTEXTS} contexts")
        self._cancel = port.line.observe(lambda level: self.handle_interrupt() if level else None)
        self._start_up()

    def __repr__(self) -> str:
        return f"<Acceldev {'closed' if self._is_closed else 'open'}, {count(len(self.contexts), 'context')}>"

    def _rows(self) -> Rows:
        yield "context", "buffers", "fences", "errored"
        for index, context in self.contexts.items():
            yield index, context.count, context.fence_counter, context.is_errored

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.port,)

    @classmethod
    def open(cls, memory_bytes: int = MEMORY_BYTES, **settings: Any) -> Self:
        """A fresh device in this process with `memory_bytes` of memory; `settings` are those of the device."""
        return cls(LocalPort(memory_bytes, **settings))

    def open_context(self) -> Context:
        """A context of its own; `DriverError` EBUSY if all 255 are open."""
        with self.lock:
            self._check_open()
            free = next((index for index in range(r.ACCELDEV_MAX_CONTEXTS) if index not in self.contexts), None)
            if free is None:
                raise DriverError(errno.EBUSY, f"all {r.ACCELDEV_MAX_CONTEXTS} contexts are open")
            context = Context(self, free, self._records + free * ContextConfig.size_bytes)
            self.contexts[free] = context
            return context

    def handle_interrupt(self) -> None:
        """The interrupt handler: acknowledge, then look at what the device has left in registers and records."""
        with self.changed:
            while pending := Interrupt(self.port.read(r.INTR.offset) & r.INTERRUPTS):
                # Acknowledged before anything is looked at: what happens from now on raises a new interrupt.
                self.port.write(r.INTR.offset, pending)
                if Interrupt.FEED_ERROR in pending:
                    self.failure = DriverError(errno.EIO, "a command was lost in a full queue: a mistake of the driver")
                if Interrupt.FENCE_WAIT in pending:
                    self.queue.complete()
            self.queue.feed()
            self.changed.notify_all()

    def wait_until(self, done: Callable[[], bool], what: str, timeout_seconds: float | None = None) -> None:
        """Let the device work until `done`; the caller does not hold the lock.

        `DriverError` ETIMEDOUT after `timeout_seconds`, EDEADLK where nothing is queued that could bring it about, or
        ENODEV where the device or this driver of it is closed meanwhile.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self.changed:
            while not done():
                if self._is_closed or self.port.is_gone:
                    raise self._closed()
                if self.failure is not None:
                    raise self.failure
                if self.queue.is_empty:
                    raise DriverError(errno.EDEADLK, f"{what} never comes: everything queued has finished")
                if self.port.work() or self._is_closed:
                    continue
                if not self.port.works_alone:
                    if self._catches_up():
                        continue
                    raise DriverError(errno.EDEADLK, f"{what} never comes: the device has stopped")
                left = LOOK_SECONDS if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    raise DriverError(errno.ETIMEDOUT, f"{what} did not come in {timeout_seconds} s")
                self.changed.wait(min(left, LOOK_SECONDS))

    def _catches_up(self) -> bool:
        """Whether an interrupt was acknowledged whose handler was broken off, by Ctrl-C for one: do its work."""
        before = self.queue.finished
        self.queue.complete()
        self.queue.feed()
        return self.queue.finished > before

    def wait_finished(self, timeout_seconds: float | None = None) -> None:
        """Wait until the device has finished all that is queued now, whatever others queue meanwhile."""
        with self.lock:
            last = self.queue.submitted
        self.wait_until(lambda: self.queue.finished >= last, "the end of all commands", timeout_seconds)

    def close(self) -> None:
        """Close all contexts and shut the device down; once is enough.

        What the device cannot finish within a moment it does not finish: whoever waits for that gets ENODEV.
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
        """Whether the device has nothing to do, or has done it in a moment."""
        if not self.lock.acquire(timeout=MOMENT_SECONDS):
            return False  # a thread that waits has it, and works for a device that has no thread
        try:
            if self.queue.is_empty or not self.port.works_alone:
                return self.queue.is_empty
        finally:
            self.lock.release()
        try:
            self.wait_finished(MOMENT_SECONDS)
        except DriverError:
            return False
        return True

    def _start_up(self) -> None:
        """Starting the Device, in the document's order."""
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
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Context:
    """One open context: its record, its buffers and its fences. After an error everything but `close` gives EIO."""

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
        """Buffers that are open."""
        return len(self._buffers) + len(self._codes)

    @property
    def fence_counter(self) -> int:
        """How many user FENCEs the device has counted, modulo 2**32."""
        return int.from_bytes(self._record[FENCE_COUNTER : FENCE_COUNTER + WORD_BYTES], "little")

    @property
    def is_errored(self) -> bool:
        """Whether the device has marked the context as errored."""
        return bool(self._record[STATUS] & STATUS_ERROR)

    def create_buffer(self, size: int, kind: str = DATA) -> Buffer:
        """ACCELDEV_IOCTL_CREATE_BUFFER: `size` bytes, 1 to 4 MiB, of zeros; a data buffer takes the lowest free slot.

        `DriverError`: EINVAL for the size or kind, ENOSPC if all 16 slots are taken, ENOMEM.
        """
        with self._device.lock:
            self._check_open()
            slot = None
            if kind == DATA:
                slot = next((each for each in range(r.ACCELDEV_NUM_BUFFERS) if each not in self._buffers), None)
                if slot is None:
                    raise DriverError(errno.ENOSPC, f"all {r.ACCELDEV_NUM_BUFFERS} slots of the context are taken")
            buffer = make_buffer(self._device.port, size, kind, slot, self._close_buffer)
            if slot is None:
                self._codes.append(buffer)
            else:
                self._buffers[slot] = buffer
                command = BindSlotCommand(context=self.index, slot_number=slot, table=buffer.table)
                self._device.queue.put(command)
            return buffer

    def create_code(self, *commands: UserCommand) -> Buffer:
        """A code buffer with these commands, as large as they are."""
        data = user_code(commands)
        buffer = self.create_buffer(len(data), CODE)
        buffer.write(data)
        return buffer

    def run(self, code: Buffer, address: int = 0, size: int | None = None) -> None:
        """ACCELDEV_IOCTL_RUN: queue the user commands in `size` bytes from byte `address` of a code buffer.

        `size` is the rest of the buffer unless given. `DriverError`: EIO if the context is errored, EINVAL for a
        buffer that is no code buffer of this context and for values that the device cannot be given. What lies
        behind the buffer's end is the device's to find out.
        """
        with self._device.lock:
            self._check_open()
            if self.is_errored:
                raise self._errored()
            if code not in self._codes:
                raise DriverError(errno.EINVAL, "the buffer is no open code buffer of this context")
            length = code.size - address if size is None else size
            if address % WORD_BYTES or not 0 <= address <= U32 or not 0 <= length <= U32:
                raise DriverError(
                    errno.EINVAL,
                    f"run of {length} bytes at {address:#x}, expected 32-bit values and a multiple of {WORD_BYTES}",
                )
            command = RunCommand(context=self.index, table=code.table, offset=address, size=length)
            self._device.queue.put(command)

    def wait(self, fence: int, timeout_seconds: float | None = None) -> None:
        """ACCELDEV_IOCTL_WAIT: wait for the `fence`-th user FENCE of this context, counted from 1, modulo 2**32.

        `DriverError` EIO if the context is errored, even where the fence was reached; EDEADLK if the fence can never
        be reached (the original waits for a signal then); ETIMEDOUT.
        """
        self._check_open()
        self._device.wait_until(
            lambda: self.is_errored or reached(self.fence_counter, fence), f"fence {fence}", timeout_seconds
        )
        if self.is_errored:
            raise self._errored()

    def drain(self, timeout_seconds: float | None = None) -> None:
        """Wait until the device has finished all that was queued; `DriverError` EIO if the context is errored."""
        self._device.wait_finished(timeout_seconds)
        if self.is_errored:
            raise self._errored()

    def execute(self, *commands: UserCommand) -> Result:
        """Run these commands from a code buffer of their own, and wait until all of them are done."""
        code = self.create_code(*commands)
        start = time.perf_counter()
        try:
            self.run(code)
            self.drain()
        finally:
            code.close()
        filled = sum(each.length for each in commands if isinstance(each, Fill))
        return told(Result(len(commands), filled, time.perf_counter() - start))

    def close(self) -> None:
        """Unbind and free all buffers, wait until the device has let go of them, and free the context."""
        with self._device.lock:
            if self._is_closed:
                return
            for buffer in [*self._buffers.values(), *self._codes]:
                buffer.close()
            self._is_closed = True
        self._device.wait_finished()
        with self._device.lock:
            # Zeroed now rather than at the next open: nothing of this context is left in memory.
            self._record[:] = bytes(ContextConfig.size_bytes)
            del self._device.contexts[self.index]

    def drop(self) -> None:
        """The device is gone: free everything. The device's lock is held."""
        self._is_closed = True
        for buffer in [*self._buffers.values(), *self._codes]:
            buffer.close()
        self._record[:] = bytes(ContextConfig.size_bytes)

    def _close_buffer(self, buffer: Buffer, release: Callable[[], None]) -> None:
        """The device may use the buffer until all commands before have finished; its pages are freed then."""
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
        error = DriverError(errno.EIO, f"context {self.index} is errored{why}", rule=cause.rule if cause else None)
        error.path = cause.path if cause else ()
        return error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
