"""Who executes commands and when: the register access that makes them runnable, or a thread of the device's own."""

from __future__ import annotations

import threading
from typing import Final

from understudy.core import worker
from understudy.core.errors import ModelBug, RuleError
from understudy.core.forks import FORKED, rest_before_forks, tell_forks
from understudy.core.limits import CLOSED, note_interrupt
from understudy.core.lint import LintDesk
from understudy.device.acceldev.memory import Aborted, Gate
from understudy.device.acceldev.processor import QUANTUM, Processor
from understudy.device.acceldev.settings import Settings

_ALL: Final = 1 << 62


class Executor:
    """Steps the processor as the settings say."""

    def __init__(self, gate: Gate, processor: Processor, settings: Settings, desk: LintDesk) -> None:
        self._desk = desk
        self._gate = gate
        self._processor = processor
        self._settings = settings
        self._is_busy = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._is_lost = False
        """Whether this process was forked while another thread was amid a command."""
        self.is_closed = False
        tell_forks(self)
        rest_before_forks(gate)

    def after_fork(self) -> None:
        """In a child process: the device's thread is made anew; what it was amid cannot be finished."""
        self._is_lost = self._gate.after_fork() or self._is_lost
        self._is_busy = self._is_busy and not self._is_lost
        self._thread = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing would without a further register access."""
        with self._gate.lock:
            return not self._processor.runnable and not self._gate.is_entered

    def wait_idle(self, timeout_seconds: float | None) -> bool:
        """Wait until it is so; False if it is not in time, or if no thread of the device will bring it about."""
        if not self._settings.threaded:
            return self.is_idle
        with self._gate.changed:
            return self._gate.changed.wait_for(
                lambda: self.is_idle or self.is_closed or self._failure is not None or self._is_lost, timeout_seconds
            )

    def after_access(self) -> None:
        """A register was accessed: execute, or wake the thread that does."""
        if self._failure is not None:
            raise ModelBug("the device's thread has failed") from self._failure
        if self._is_lost:
            raise RuleError(FORKED)
        if not self._processor.runnable:
            return
        if self._settings.threaded:
            self._wake()
        else:
            self.work(_ALL if self._settings.pacing is None else self._settings.pacing)

    def work(self, budget: int) -> int:
        """Execute up to `budget` commands on this thread; gives their number.

        Nested calls, by an observer of the line, leave the work to the outer one.
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
        """Execute nothing any more, and end the thread."""
        with self._gate.changed:
            self.is_closed = True
            self._processor.stop(CLOSED)
            self._gate.close_all()
            self._gate.changed.notify_all()
        # A thread inside a call of the DMA port may need the calling thread to come back: it ends by itself then.
        if self._thread is not None and not self._gate.mine and not self._gate.is_outside:
            self._thread.join()

    def _step(self, limit: int) -> int:
        """One step of the processor; the gate was entered."""
        try:
            return self._processor.step(limit)
        except Aborted:
            return 0
        finally:
            self._gate.leave()

    def _wake(self) -> None:
        with self._gate.changed:
            if self._thread is None and not self.is_closed:
                self._thread = worker.start(self, "acceldev")
            self._gate.changed.notify_all()

    def serve(self) -> None:
        """On the device's own thread: execute what there is."""
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
        """Notified when there may be something to do."""
        return self._gate.changed

    @property
    def patience(self) -> float:
        """Seconds until that thread has to look again; the lock is held."""
        return 0.0 if self.is_closed or self._processor.runnable else worker.IDLE_SECONDS

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
