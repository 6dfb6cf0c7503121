"""The execution of a kernel: inside the host's register accesses, or on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from softcard.core import threads
from softcard.core.device import Telemetry
from softcard.core.errors import ModelBug, RuleError, SoftcardError
from softcard.core.limits import CLOSED
from softcard.core.threads import FORKED, reset_after_fork, rest_before_forks
from softcard.device.fletcher.bus import FieldStore
from softcard.device.fletcher.events import KernelAborted, KernelFailed, KernelFinished, KernelStarted
from softcard.device.fletcher.job import Job, KernelFailure
from softcard.device.fletcher.kernel import Kernel
from softcard.device.fletcher.machine import Machine, State
from softcard.device.fletcher.runner import LiveRegisters, Run
from softcard.device.fletcher.settings import Settings

ALL: Final = 1 << 62
GRACE_SECONDS: Final = 0.1
"""The time in seconds that a kernel has to end while its device is being closed."""


class Execution:
    """The executor of a device's kernel, which runs inside the host's register accesses or on a thread of its own.

    Methods are called with the device's lock held, except for those that the kernel's thread calls."""

    def __init__(
        self, kernel: Kernel, settings: Settings, machine: Machine, store: FieldStore, telemetry: Telemetry
    ) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.last_error: SoftcardError | None = None
        self._kernel = kernel
        self._settings = settings
        self._machine = machine
        self._store = store
        self._telemetry = telemetry
        self._run: Run | None = None
        self._wait = 0
        self._is_stepping = False
        self._pending: SoftcardError | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._is_closed = False
        self._stopped: SoftcardError | None = None
        """The error of a kernel that was running when the device was closed, with the kernel's line."""
        self._is_lost = False
        """True if this process was forked while the device's thread was inside the kernel."""
        reset_after_fork(self)
        rest_before_forks(self)

    @property
    def is_at_rest(self) -> bool:
        """True unless the kernel has its own thread and this thread is executing a slice of the kernel."""
        return not self._settings.threaded or self._run is None or not self._run.is_in_step

    def after_fork(self) -> None:
        """Prepare the executor for use in a child process: the kernel gets a new thread.

        If the parent's kernel thread was inside a slice at the time of the fork, the child process cannot finish that
        slice."""
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._is_lost = self._is_lost or not self.is_at_rest
        self._thread = None
        if self._run is not None:
            self._run.registers.lock = self.lock

    @property
    def is_stuck(self) -> bool:
        """True if the kernel is busy and never finishes."""
        return self._stopped is not None or (self._run is not None and self._run.error is not None)

    def start(self, make_job: Callable[[LiveRegisters], Job]) -> None:
        """Start the kernel: run the job that `make_job` creates."""
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
        """Wake the kernel's own thread, if it has one."""
        if self._settings.threaded and not self._is_closed and self._run is not None:
            if self._thread is None:
                self._thread = threads.start_worker(self, "fletcher")
            self.changed.notify_all()

    def end(self, by: str) -> None:
        """End the running job, so that it has no further effect; `by` is the name of the cause."""
        run, self._run = self._run, None
        self.last_error = self._pending = None
        if run is None:
            return
        run.cut_off()
        if not self._settings.threaded and not run.is_in_step:
            run.close()  # otherwise the thread that steps it closes it
        self._telemetry.emit(lambda time: KernelAborted(time, self._kernel.name, by))
        self.changed.notify_all()

    def after_access(self, *, started: bool = False) -> None:
        """Execute the slices of a synchronous kernel that are due after a register access.

        `started` is True for the access that starts the kernel. Slices are due after writes, too, not only after
        reads: the run-time library checks the status of its writes, but not the values of its reads. An error of
        the first slice is therefore reported to the library by the first write after the start."""
        if self._settings.threaded:
            if self._thread is None:  # in a child process, after a start in the parent process
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
        """Execute up to `limit` slices on the calling thread; return the number of executed slices.

        Return 0 at once if the caller is the kernel itself, which has accessed a register of its own device."""
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
        except BaseException as cause:  # Ctrl-C in the kernel's code, which cannot be resumed
            if not isinstance(cause, Exception):
                self.abandon(cause)
            raise
        finally:
            self._is_stepping = False
        return done

    def raise_pending(self) -> None:
        """Raise the kernel's error that has occurred since the last register access, if there is one.

        In profile "hardware", raise only errors that are bugs in the kernel itself."""
        if self._failure is not None:
            text = f"the device's thread has failed: {type(self._failure).__name__}: {self._failure}"
            raise ModelBug(text) from self._failure
        if self._is_lost:
            raise RuleError(FORKED)
        error, self._pending = self._pending, None
        if error is not None:
            raise error

    def wait_idle(self, timeout_seconds: float | None) -> bool:
        """Wait until the kernel is not busy, or is stuck; return True if it is not busy."""
        if self._settings.threaded:
            if self._thread is None:
                self._wake()
            self.changed.wait_for(
                lambda: not self._runnable() or self._is_closed or self._failure is not None or self._is_lost,
                timeout_seconds,
            )
        return self._machine.state is not State.BUSY

    def abandon(self, cause: BaseException) -> None:
        """End the running kernel because the host stopped waiting for it; the device stays busy until a reset."""
        run = self._run
        if run is None or run.error is not None:
            return
        run.error = self.last_error = run.stopped(f"the host was interrupted ({type(cause).__name__})")
        run.cut_off()
        run.interrupt()
        self.changed.notify_all()

    def close(self) -> None:
        """End the kernel and its thread; the caller must not hold the lock.

        A kernel that runs for more than `GRACE_SECONDS` is interrupted. If it is inside a call that is not Python
        code, it ends when that call returns; until then it has no further effect."""
        was_closed, self._is_closed = self._is_closed, True
        run, stopped = self._run, None
        if not self.lock.acquire(timeout=GRACE_SECONDS):  # a thread runs a slice of a synchronous device
            assert run is not None
            stopped = run.stopped(CLOSED)
            run.interrupt()
            if not self.lock.acquire(timeout=GRACE_SECONDS):
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
        thread.join(GRACE_SECONDS)
        if thread.is_alive() and run is not None:
            run.interrupt()
            thread.join(GRACE_SECONDS)
        if run is not None and not thread.is_alive():
            run.close()  # it had left a slice by itself

    def _runnable(self) -> bool:
        return self._run is not None and self._run.error is None and not self._is_closed

    def _after(self, run: Run, finished: bool) -> None:
        """Update the device's state after a slice of `run`; `finished` is True after the kernel's last slice."""
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
        """Run the kernel's slices on its own thread, until the device is closed."""
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
    def poll_timeout(self) -> float:
        """The seconds after which the kernel's thread has to check for work again.

        Read this only while the lock is held.
        """
        return 0.0 if self._is_closed or self._runnable() else threads.IDLE_SECONDS

    @property
    def is_closed(self) -> bool:
        """True if the device was closed; no kernel can be started then."""
        return self._is_closed
