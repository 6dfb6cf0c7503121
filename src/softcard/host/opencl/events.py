"""Events and command queues: the order in which commands run, and the threads that run them.

A command runs when its queue and its wait list allow it. Commands of a queue run one at a time, in a thread of the
queue or in the thread of a call that waits for them. A command that the program itself performs, such as a copy into
its memory, keeps its queue busy until the program has performed it.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from softcard.core.display import count
from softcard.core.errors import ModelBug, SoftcardError
from softcard.host.opencl import constants as cl
from softcard.host.opencl.errors import OpenClError, require
from softcard.host.opencl.objects import SLOT_WORDS, Callback, Context, Copy, Device, Object, Platform, now

QUEUED_AT, SUBMITTED_AT, STARTED_AT, ENDED_AT, COMPLETED_AT = range(1, 6)
"""The words of a slot that hold times."""
MOST_PENDING: Final = 4096
"""The maximum number of pending commands; the queue is flushed when it has more."""


class Event(Object):
    """An event of a command or of the user. `owner` is its queue, or the context of a user event."""

    kind = "event"

    def __init__(self, owner: CommandQueue | Context, handle: int, slot: int, status: int) -> None:
        super().__init__(owner.platform, handle)
        self.owner = owner
        self.context = owner.context if isinstance(owner, CommandQueue) else owner
        self.status = status
        """The execution status: CL_QUEUED and so on, or a negative error code."""
        self._at = slot * SLOT_WORDS
        self._callbacks: list[tuple[int, Callback]] = []

    @property
    def is_complete(self) -> bool:
        """True if the command has ended, with or without an error."""
        return self.status <= cl.COMPLETE

    def set_time(self, word: int) -> None:
        """Write the present time to a word of the event's slot."""
        if self._at:
            self.platform.slots[self._at + word] = now()

    def set_status(self, status: int) -> None:
        """Set the status and call the callbacks that wait for it. The caller holds the lock `changed`."""
        self.status = status
        if self._at:
            slots, has_times = self.platform.slots, isinstance(self.owner, CommandQueue) and self.owner.is_profiling
            slots[self._at] = status & 0xFFFFFFFF | has_times << 32
        due = [each for each in self._callbacks if status <= each[0]]
        self._callbacks = [each for each in self._callbacks if status > each[0]]
        for wanted, callback in due:
            self._call(callback, status if status < 0 else wanted)

    def forgotten(self) -> None:
        """Stop writing to the slot, because the program may use it for another event."""
        with self.platform.changed:
            self._at = 0

    def add_callback(self, wanted: int, callback: Callback) -> None:
        """Call a function of the program when the status `wanted` is reached."""
        with self.platform.changed:
            if self.status <= wanted:
                self._call(callback, self.status if self.status < 0 else wanted)
            else:
                self._callbacks.append((wanted, callback))

    def _call(self, callback: Callback, status: int) -> None:
        self.platform.later(lambda: self.platform.client.call_event(callback, self.handle, status))


class Used(Protocol):
    """An object whose memory is freed only after the commands that use it have ended."""

    def begin_use(self) -> None:
        """Handle the enqueueing of a command that uses the object."""

    def end_use(self) -> None:
        """Handle the end of a command that uses the object."""


class Command:
    """A command of a queue. `action` carries it out; `copies` are copies that the program performs instead.

    `uses` are the memory objects and the program that must live as long as the command.

    `waits` are the events of its wait list, and `event` is its own event, or None. `after` is called when the command
    has completed without an error. If the caller `performs` the copies, they are part of the reply to its call. With
    `follows_all`, the command waits for all earlier commands of its queue, and later commands wait for an `is_barrier`.
    """

    __slots__ = (
        "action", "after", "copies", "event", "follows_all", "is_barrier", "is_complete", "is_due", "performs", "queue",
        "uses", "waits",
    )  # fmt: skip

    def __init__(
        self,
        queue: CommandQueue,
        waits: Sequence[Event] | None,
        event: Event | None,
        action: Callable[[], object] | None = None,
        *,
        uses: Sequence[Used] = (),
        copies: Sequence[Copy] = (),
        after: Callable[[], object] | None = None,
        performs: bool = False,
        follows_all: bool = False,
        is_barrier: bool = False,
    ) -> None:
        self.queue = queue
        self.waits = tuple(waits or ())
        self.event = event
        self.action = action
        self.uses = uses
        self.copies = copies
        self.after = after
        self.performs = performs
        self.follows_all = follows_all
        self.is_barrier = is_barrier
        self.is_due = False
        """True if it is the program's turn to perform the copies."""
        self.is_complete = False

    @property
    def is_ready(self) -> bool:
        """True if all events of the wait list are complete."""
        return all(each.status <= cl.COMPLETE for each in self.waits)

    @property
    def has_failed(self) -> bool:
        """True if an event of the wait list has failed, so that the command must not run."""
        return any(each.status < 0 for each in self.waits)

    def perform(self) -> None:
        """Carry out the command in this process, or let the program perform its copies."""
        if self.action is not None:
            self.action()
        if self.copies:
            self.queue.platform.client.copy(self.copies)

    def guarded(self, action: Callable[[], object]) -> int:
        """Call a function that is a part of the command; report its error, and return the status of the command."""
        platform, context = self.queue.platform, self.queue.context
        try:
            action()
        except OpenClError as error:
            platform.report_error(error, context)
            return error.status
        except SoftcardError as error:
            platform.report_error(error, context)
        except Exception:  # noqa: BLE001  # else the queue would be busy for ever
            platform.report_error(ModelBug(f"a command failed: {traceback.format_exc()}"), context)
        else:
            return cl.COMPLETE
        return cl.OUT_OF_RESOURCES

    def complete(self, status: int = cl.COMPLETE) -> None:
        """End the command with a status, and let the queue go on. The caller does not hold the lock `changed`."""
        if status == cl.COMPLETE and self.after is not None:
            status = self.guarded(self.after)
        with self.queue.platform.changed:
            self.is_complete = True
            self.queue.end_command()
            if self.event is not None:
                self.event.set_time(ENDED_AT)
                self.event.set_time(COMPLETED_AT)
                self.event.set_status(status)
            self.queue.platform.changed.notify_all()
        for each in self.uses:
            each.end_use()


class CommandQueue(Object):
    """A command queue of a device, in order or out of order."""

    kind = "queue"

    def __init__(
        self, context: Context, handle: int, device: Device, properties: int, words: tuple[int, ...] | None = None
    ) -> None:
        super().__init__(context.platform, handle)
        self.context = context
        self.device = device
        self.properties = properties
        self.words = words
        """The properties as the program passed them, without the 0."""
        self.is_profiling = bool(properties & cl.QUEUE_PROFILING_ENABLE)
        self.is_out_of_order = bool(properties & cl.QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        self.is_busy = False
        """True while a command runs, or waits for the program to perform it."""
        self._pending: deque[Command] = deque()
        self._is_flushed = False
        self._flushed = threading.Condition(self.platform.lock)
        """The condition on which only the queue's thread waits, so that other changes do not wake it."""
        self._waiting = 0
        """The number of threads that wait in `work` until a command can run."""
        self._thread: threading.Thread | None = None

    def released(self) -> None:
        """Flush the queue, as clReleaseCommandQueue does."""
        super().released()
        self.flush()
        with self._flushed:
            self._flushed.notify_all()  # the thread ends if nothing is pending

    def end_command(self) -> None:
        """Let the next command run. The caller holds the lock `changed`."""
        self.is_busy = False
        if self.is_released:
            self._flushed.notify_all()  # the queue's thread ends

    def enqueue(self, command: Command) -> None:
        """Append a command."""
        for each in command.waits:
            require(
                each.context is self.context,
                cl.INVALID_CONTEXT,
                "an event of the wait list belongs to another context than the queue, expected the same one",
            )
        for used in command.uses:
            used.begin_use()
        with self.platform.changed:
            if command.event is not None:
                self.platform.add(command.event)
                command.event.set_time(QUEUED_AT)
                command.event.set_status(cl.QUEUED)
            self._pending.append(command)
            if len(self._pending) > MOST_PENDING:
                self.flush()
            elif self._waiting:
                self.platform.changed.notify_all()

    def event(self, place: tuple[int, int]) -> Event | None:
        """Return the event of a new command at a handle and slot of the program; None if the program wants none."""
        return Event(self, place[0], place[1], cl.QUEUED) if place[0] else None

    # ---- running -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Let the queue's thread run the commands."""
        with self.platform.changed:
            if not self._pending:
                return
            self._is_flushed = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="queue", daemon=True)
                self._thread.start()
            self._flushed.notify_all()

    def _run(self) -> None:
        """Run the commands of flushed queues until the queue is released and empty."""
        while True:
            with self.platform.changed:
                while not self._is_flushed:
                    if self.is_released and not self._pending and not self.is_busy:
                        self._thread = None
                        return
                    self._flushed.wait()
                self._is_flushed = False
            self.work(lambda: False)

    def work(self, is_done: Callable[[], bool]) -> None:
        """Run commands until `is_done` returns True or no command is left, and wait while none can run."""
        changed = self.platform.changed
        changed.acquire()
        try:
            while not is_done():
                if not self.is_busy:
                    command = self._next()
                    if command is not None:
                        self.is_busy = True
                        self._begin(command)
                        if command.is_due:
                            continue
                        changed.release()
                        try:
                            self._carry_out(command)
                        finally:
                            changed.acquire()
                        continue
                    if not self._pending:
                        return
                self._waiting += 1
                changed.wait()
                self._waiting -= 1
        finally:
            changed.release()

    def finish(self) -> None:
        """Run commands until all that were enqueued before the call have ended."""
        with self.platform.changed:
            last = list(self._pending)
        self.work(lambda: not self.is_busy and all(each.is_complete for each in last))

    def waiting_for_user(self) -> list[Command]:
        """Return the commands that wait for an event of the user. The caller holds the lock `changed`."""
        return [
            each
            for each in self._pending
            if any(not event.is_complete and not isinstance(event.owner, CommandQueue) for event in each.waits)
        ]

    def _next(self) -> Command | None:
        """Remove and return the next command that may run, or None. Flush the queues that it waits for."""
        for number, command in enumerate(self._pending):
            if command.is_ready and not (command.follows_all and number):
                del self._pending[number]
                return command
            for each in command.waits:
                if not each.is_complete and isinstance(each.owner, CommandQueue) and each.owner is not self:
                    each.owner.flush()
            if command.is_barrier or not self.is_out_of_order:
                return None
        return None

    def _begin(self, command: Command) -> None:
        """Mark a command as running; let the program perform it if `performs` is set."""
        event = command.event
        if event is not None:
            event.set_time(SUBMITTED_AT)
            event.set_time(STARTED_AT)
            event.set_status(cl.RUNNING)
        if command.performs and not command.has_failed:
            command.is_due = True
            self.platform.changed.notify_all()

    def _carry_out(self, command: Command) -> None:
        """Carry out a command that has begun, unless an event that it waited for has failed."""
        if command.has_failed:
            command.complete(cl.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        else:
            command.complete(command.guarded(command.perform))


def finish_all(platform: Platform) -> None:
    """Let all commands end, because the program ends. Commands that wait for an event of the user fail."""
    queues = [each for each in tuple(platform.objects.values()) if isinstance(each, CommandQueue)]
    with platform.changed:
        waiting = [each for queue in queues for each in queue.waiting_for_user()]
        for event in {event for command in waiting for event in command.waits if not event.is_complete}:
            if not isinstance(event.owner, CommandQueue):
                event.set_status(cl.OUT_OF_RESOURCES)
        platform.changed.notify_all()
    for queue in queues:
        queue.finish()
    if waiting:
        platform.warn(
            "event-never-set",
            f"{count(len(waiting), 'command')} waited for user events whose status the program has never set",
            waiting[0].queue.context,
            "call clSetUserEventStatus for each user event (OpenCL 3.0, 5.11)",
        )


def wait_for(events: Sequence[Event]) -> None:
    """Wait until events are complete, and run the commands of their queues meanwhile.

    Raise `OpenClError` if one of them has failed.
    """
    for event in events[1:]:
        if isinstance(event.owner, CommandQueue) and event.owner is not events[0].owner:
            event.owner.flush()
    for event in events:
        if isinstance(event.owner, CommandQueue):
            event.owner.work(lambda event=event: event.is_complete)  # type: ignore[misc]
    platform = events[0].platform
    with platform.changed:
        while not all(each.is_complete for each in events):
            platform.changed.wait()
    require(
        all(each.status >= 0 for each in events),
        cl.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
        "a command of the wait list has failed",
    )
