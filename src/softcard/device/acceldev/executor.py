"""The execution of commands, either in the register access that makes them ready or on the device's own thread."""

from __future__ import annotations

import threading
from typing import Final

from softcard.core import threads
from softcard.core.errors import ModelBug, RuleError
from softcard.core.limits import CLOSED, note_interrupt
from softcard.core.lint import LintDesk
from softcard.core.threads import FORKED, reset_after_fork, rest_before_forks
from softcard.device.acceldev.memory import Aborted, Gate
from softcard.device.acceldev.processor import QUANTUM, Processor
from softcard.device.acceldev.settings import Settings

_ALL: Final = 1 << 62


class Executor:
    """The component that lets the command processor execute commands.

    The settings determine whether it does so during register accesses or on the device's own thread, and how
    fast."""

    def __init__(self, gate: Gate, processor: Processor, settings: Settings, desk: LintDesk) -> None:
        self._desk = desk
        self._gate = gate
        self._processor = processor
        self._settings = settings
        self._is_busy = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._is_lost = False
        """True if this process was forked while another thread executed a command."""
        self.is_closed = False
        reset_after_fork(self)
        rest_before_forks(gate)

    def after_fork(self) -> None:
        """Prepare a child process: the device gets a new thread.

        A command that the old thread was executing cannot be finished.
        """
        self._is_lost = self._gate.after_fork() or self._is_lost
        self._is_busy = self._is_busy and not self._is_lost
        self._thread = None

    @property
    def is_idle(self) -> bool:
        """True if no command is running, and none can start before the next register access."""
        with self._gate.lock:
            return not self._processor.runnable and not self._gate.is_entered

    def wait_idle(self, timeout_seconds: float | None) -> bool:
        """Wait until the device's thread has no work, or cannot continue; return False after the timeout.

        The thread cannot continue if the device is closed or the thread has failed. A synchronous device has no
        such thread. Then do not wait: return True if the device is idle."""
        if not self._settings.threaded:
            return self.is_idle
        with self._gate.changed:
            return self._gate.changed.wait_for(
                lambda: self.is_idle or self.is_closed or self._failure is not None or self._is_lost, timeout_seconds
            )

    def after_access(self) -> None:
        """Execute the commands that are ready after a register access, or wake the device's thread to do so."""
        if self._failure is not None:
            text = f"the device's thread has failed: {type(self._failure).__name__}: {self._failure}"
            raise ModelBug(text) from self._failure
        if self._is_lost:
            raise RuleError(FORKED)
        if not self._processor.runnable:
            return
        if self._settings.threaded:
            self._wake()
        else:
            self.work(_ALL if self._settings.pacing is None else self._settings.pacing)

    def work(self, budget: int) -> int:
        """Execute up to `budget` commands on the calling thread; return the number of executed commands.

        An observer of the interrupt line may call this again while it runs; such a nested call returns at once and
        leaves the commands to the outer call.
        """
        done = 0
        with self._gate.lock:
            if self._is_busy or self.is_closed:
                return 0
            self._is_busy = True
        try:
            while True:
                with self._gate.changed:
                    if done >= budget or not self._processor.runnable:
                        self._is_busy = False
                        self._gate.changed.notify_all()
                        return done
                    self._gate.enter()
                done += self._step(budget - done)
        except BaseException as cause:
            self._is_busy = False
            run = self._processor.run
            if run is not None:
                note_interrupt(cause, ("user command", run.position), ("context", run.context.index))
            raise

    def close(self) -> None:
        """Stop executing, and end the thread."""
        with self._gate.changed:
            self.is_closed = True
            self._processor.stop(CLOSED)
            self._gate.close_all()
            self._gate.changed.notify_all()
        # A thread inside a call of the DMA port may need the calling thread in order to return: do not wait for it.
        if self._thread is not None and not self._gate.mine and not self._gate.is_outside:
            self._thread.join()

    def _step(self, limit: int) -> int:
        """Let the processor execute one step of up to `limit` commands; return the number of executed commands.

        The caller has entered the `Gate`, and this method leaves it."""
        try:
            return self._processor.step(limit)
        except Aborted:
            return 0
        finally:
            self._gate.leave()

    def _wake(self) -> None:
        with self._gate.changed:
            if self._thread is None and not self.is_closed:
                self._thread = threads.start_worker(self, "acceldev")
            self._gate.changed.notify_all()

    def serve(self) -> None:
        """Execute commands on the device's own thread while there are commands that can be executed."""
        try:
            with self._desk.held():
                while self._enter_if_runnable():
                    before = self._processor.run
                    self._step(QUANTUM)
                    if self._settings.pause_seconds and before is None:
                        self._rest()
        except BaseException as failure:
            with self._gate.changed:
                self._failure = failure
                self._gate.changed.notify_all()
            raise

    @property
    def changed(self) -> threading.Condition:
        """The condition that is notified when there may be commands for the device's thread to execute."""
        return self._gate.changed

    @property
    def poll_timeout(self) -> float:
        """The seconds after which the device's thread has to check for commands again.

        Read this only while the device's lock is held.
        """
        return 0.0 if self.is_closed or self._processor.runnable else threads.IDLE_SECONDS

    def _enter_if_runnable(self) -> bool:
        with self._gate.changed:
            self._gate.let_others_go_first()
            if self.is_closed or not self._processor.runnable:
                return False
            self._gate.enter()
            return True

    def _rest(self) -> None:
        with self._gate.changed:
            self._gate.changed.wait_for(lambda: self.is_closed, self._settings.pause_seconds)
