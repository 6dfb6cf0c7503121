"""When the kernel works: in register accesses, or on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from understudy.core import worker
from understudy.core.errors import ModelBug, RuleError, UnderstudyError
from understudy.core.forks import FORKED, rest_before_forks, tell_forks
from understudy.core.limits import CLOSED
from understudy.core.telemetry import Telemetry
from understudy.device.fletcher.bus_words import FieldStore
from understudy.device.fletcher.events import KernelAborted, KernelFailed, KernelFinished, KernelStarted
from understudy.device.fletcher.job import Job, KernelFailure
from understudy.device.fletcher.kernel import Kernel
from understudy.device.fletcher.machine import Machine, State
from understudy.device.fletcher.runner import LiveRegisters, Run
from understudy.device.fletcher.settings import Settings

ALL: Final = 1 << 62
MOMENT_SECONDS: Final = 0.1
"""What a kernel may take to end while its device is being closed."""


class Execution:
    """The running kernel. All methods but the thread's own are called with the device's lock held."""

    def __init__(
        self, kernel: Kernel, settings: Settings, machine: Machine, store: FieldStore, telemetry: Telemetry
    ) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.last_error: UnderstudyError | None = None
        self._kernel = kernel
        self._settings = settings
        self._machine = machine
        self._store = store
        self._telemetry = telemetry
        self._run: Run | None = None
        self._wait = 0
        self._is_stepping = False
        self._pending: UnderstudyError | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._is_closed = False
        self._stopped: UnderstudyError | None = None
        """Where the kernel was that worked when the device was closed."""
        self._is_lost = False
        """Whether this process was forked while the device's thread was inside the kernel."""
        tell_forks(self)
        rest_before_forks(self)

    @property
    def is_at_rest(self) -> bool:
        """Whether the device's thread is not inside the kernel."""
        return not self._settings.threaded or self._run is None or not self._run.is_in_step

    def after_fork(self) -> None:
        """In a child process: the kernel's thread is made anew; the slice that it was in cannot be finished."""
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._is_lost = self._is_lost or not self.is_at_rest
        self._thread = None
        if self._run is not None:
            self._run.registers.lock = self.lock

    @property
    def is_stuck(self) -> bool:
        """Whether the kernel is busy and never finishes."""
        return self._stopped is not None or (self._run is not None and self._run.error is not None)

    def start(self, make_job: Callable[[LiveRegisters], Job]) -> None:
        """Begin a job."""
        self.last_error = self._pending = None
        registers = LiveRegisters(self._store, self.lock)
        job = make_job(registers)
        self._run = Run(self._kernel, job, registers)
        self._wait = self._settings.latency
        self._machine.enter(State.BUSY)
        if self._telemetry.listened:
            ranges = tuple((batch.name, *job.range_of(batch)) for batch in job.map.batches)
            self._telemetry.emit(lambda time: KernelStarted(time, self._kernel.name, ranges))
        self._wake()

    def _wake(self) -> None:
        """Where the kernel has a thread of its own, let it look."""
        if self._settings.threaded and not self._is_closed and self._run is not None:
            if self._thread is None:
                self._thread = worker.start(self, "fletcher")
            self.changed.notify_all()

    def end(self, by: str) -> None:
        """Nothing more of a running job happens."""
        run, self._run = self._run, None
        self.last_error = self._pending = None
        if run is None:
            return
        run.cut_off()
        if not self._settings.threaded and not run.is_in_step:
            run.close()  # else the thread that steps it does
        self._telemetry.emit(lambda time: KernelAborted(time, self._kernel.name, by))
        self.changed.notify_all()

    def after_access(self, *, started: bool = False) -> None:
        """A synchronous kernel's part of a register access, of the one that `started` it too.

        Writes count as well: the run-time library looks at the status of its writes only, so that it hears of what goes
        wrong in the first slice by the write that ends its start.
        """
        if self._settings.threaded:
            if self._thread is None:  # in a child process of the one where the kernel was started
                self._wake()
            return
        if self._run is None:
            return
        if self._settings.pacing is None:
            self.slices(ALL)
        elif started:
            return
        elif self._wait:
            self._wait -= 1
        else:
            self.slices(self._settings.pacing)

    def slices(self, limit: int) -> int:
        """Do slices on this thread. A kernel that uses its own device's registers does not come back in here."""
        done = 0
        if self._is_stepping:
            return 0
        self._is_stepping = True
        try:
            while done < limit and self._runnable():
                run = self._run
                assert run is not None
                done += 1
                self._after(run, run.step())
        finally:
            self._is_stepping = False
        return done

    def raise_pending(self) -> None:
        """Raise what went wrong since the last access, where the profile raises it."""
        if self._failure is not None:
            raise ModelBug("the device's thread has failed") from self._failure
        if self._is_lost:
            raise RuleError(FORKED)
        error, self._pending = self._pending, None
        if error is not None:
            raise error

    def wait_idle(self, timeout_seconds: float | None) -> bool:
        """Wait until the kernel is not busy, or stuck; whether it is not busy."""
        if self._settings.threaded:
            if self._thread is None:
                self._wake()
            self.changed.wait_for(
                lambda: not self._runnable() or self._is_closed or self._failure is not None or self._is_lost,
                timeout_seconds,
            )
        return self._machine.state is not State.BUSY

    def close(self) -> None:
        """End everything, without the lock. A kernel that does not end by itself within a moment is interrupted.

        One that is inside a call that is not Python's ends with that; nothing it does has an effect any more.
        """
        was_closed, self._is_closed = self._is_closed, True
        run, stopped = self._run, None
        if not self.lock.acquire(timeout=MOMENT_SECONDS):  # a thread works for a synchronous device
            assert run is not None
            stopped = run.stopped(CLOSED)
            run.interrupt()
            if not self.lock.acquire(timeout=MOMENT_SECONDS):
                run.cut_off()
                self._stopped = self.last_error = stopped
                return
        try:
            if run is not None:
                run.cut_off()
                if run.error is None and not was_closed:
                    self._stopped = stopped or run.stopped(CLOSED)
            self.end("close")
            self.last_error = self._stopped
            self.changed.notify_all()
            thread = self._thread
        finally:
            self.lock.release()
        if thread is None or thread is threading.current_thread():
            return
        thread.join(MOMENT_SECONDS)
        if thread.is_alive() and run is not None:
            run.interrupt()
            thread.join(MOMENT_SECONDS)
        if run is not None and not thread.is_alive():
            run.close()  # where it had left a slice by itself

    def _runnable(self) -> bool:
        return self._run is not None and self._run.error is None and not self._is_closed

    def _after(self, run: Run, finished: bool) -> None:
        """A slice of `run` is over."""
        if run is not self._run or run.registers.is_cut_off:
            run.close()
        elif finished:
            self._run = None
            self._machine.enter(State.DONE)
            result = run.job.result
            self._telemetry.emit(lambda time: KernelFinished(time, self._kernel.name, result, run.slices))
        elif run.error is not None:
            error = run.error
            self.last_error = error
            if self._settings.strict or isinstance(error, KernelFailure):
                self._pending = error
            self._telemetry.emit(lambda time: KernelFailed(time, self._kernel.name, error))
        self.changed.notify_all()

    def serve(self) -> None:
        """On the kernel's own thread: do what there is to do."""
        try:
            with self._telemetry.desk.held():
                while run := self._next():
                    finished = run.step()
                    with self.lock:
                        self._after(run, finished)
        except BaseException as failure:
            with self.lock:
                self._failure = failure
                self.changed.notify_all()
            raise

    def _next(self) -> Run | None:
        with self.lock:
            return self._run if self._runnable() and not self._is_closed else None

    @property
    def patience(self) -> float:
        """Seconds until that thread has to look again; the lock is held."""
        return 0.0 if self._is_closed or self._runnable() else worker.IDLE_SECONDS

    @property
    def is_closed(self) -> bool:
        """Whether nothing begins any more."""
        return self._is_closed
