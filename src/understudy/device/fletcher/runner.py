"""One start of a kernel, slice by slice, on whatever thread."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from understudy.core.errors import UnderstudyError
from understudy.core.limits import Stopped
from understudy.device.fletcher.blame import behind, line_of, place_of
from understudy.device.fletcher.bus_words import FieldStore
from understudy.device.fletcher.job import Hang, Job, KernelFailure, whole
from understudy.device.fletcher.kernel import Kernel

E = TypeVar("E", bound=UnderstudyError)


class Aborted(BaseException):  # no error, and nothing that a kernel could catch by accident
    """The job was stopped or reset while it ran: nothing more of it may happen."""


def _abort(thread: int) -> None:
    """Have a thread of Python raise `Aborted` as soon as it executes Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Aborted))


def _let_abort_arrive() -> None:
    """Have an `Aborted` that may be on its way to this thread arrive here, and not later.

    To take it back instead would leave the interpreter looking for it for ever, and (in 3.11) hang in the next
    function that is traced.
    """
    ctrl_c: KeyboardInterrupt | None = None
    while True:
        try:
            _abort(threading.get_ident())
            while True:
                pass
        except Aborted:
            break
        except KeyboardInterrupt as late:
            ctrl_c = late
    if ctrl_c is not None:
        raise ctrl_c


class LiveRegisters:
    """The registers as a job reaches them, until it is cut off. `lock` guards the device's state."""

    def __init__(self, store: FieldStore, lock: threading.RLock) -> None:
        self._store = store
        self.lock = lock
        self.is_cut_off = False

    def value(self, address: int) -> int:
        """What the control field at `address` holds."""
        with self.alive():
            return self._store.value(address)

    def value64(self, address: int) -> int:
        """What the 64 bits from `address` on hold."""
        with self.alive():
            return self._store.value64(address)

    def set(self, address: int, value: int) -> None:
        """Drive the status field at `address`."""
        with self.alive():
            self._store.set(address, value)

    def set64(self, address: int, value: int) -> None:
        """Drive the 64 bits from `address` on."""
        with self.alive():
            self._store.set64(address, value)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Within this the job cannot be cut off; `Aborted` if it was."""
        with self.lock:
            if self.is_cut_off:
                raise Aborted
            yield


class Run:
    """A job and how far its kernel has got. `error` says why it never finishes."""

    def __init__(self, kernel: Kernel, job: Job, registers: LiveRegisters) -> None:
        self.kernel = kernel
        self.job = job
        self.registers = registers
        self.slices = 0
        self.error: UnderstudyError | None = None
        self._thread = 0
        self._is_interrupted = False
        self._guard = threading.Lock()
        self._steps: Iterator[Any] | None = None

    @property
    def is_in_step(self) -> bool:
        """Whether a thread is inside the kernel."""
        return self._thread != 0

    def step(self) -> bool:
        """Do the next slice; True when the kernel has finished, and the job's result stands.

        What goes wrong is kept in `error`, except for what is no `Exception`.
        """
        self.slices += 1
        try:
            self._thread = threading.get_ident()
            try:
                return self._step()
            except Aborted:
                return False
            except UnderstudyError as error:
                self.error = self._placed(error, error)
            except (Exception, SystemExit) as failure:  # noqa: BLE001  # its author's code may raise anything
                self.error = self._failure(failure)
            finally:
                self._leave()
        except Aborted:  # by `interrupt`, just when the slice was over
            self._leave()
        return False

    def _leave(self) -> None:
        """The thread is not inside the kernel any more, and `interrupt` has no effect on it, not even a late one."""
        with self._guard:
            if self._is_interrupted:
                _let_abort_arrive()
            self._thread, self._is_interrupted = 0, False

    def interrupt(self) -> None:
        """Have the thread that is inside the kernel, if one is, leave it before its next line."""
        with self._guard:
            if self._thread:
                self._is_interrupted = True
                _abort(self._thread)

    def stopped(self, why: str) -> Stopped:
        """That the kernel does not finish, with the line where it is."""
        frame = getattr(self._steps, "gi_frame", None) or sys._current_frames().get(self._thread)
        place = line_of(frame, Run._step.__code__)
        stopped = Stopped(f"{why} while the kernel worked")
        if place is not None:
            stopped.at("line", *place)
        return stopped.at("kernel", self.kernel.name)

    def cut_off(self) -> None:
        """Nothing that the kernel does from now on has an effect. The device's lock is held."""
        self.registers.is_cut_off = True

    def close(self) -> None:
        """Let a generator clean up; on the thread that steps it, after `cut_off`."""
        close = getattr(self._steps, "close", None)
        if close is not None:
            try:
                close()
            except Aborted:
                pass  # its clean-up wanted to work on
            except (Exception, SystemExit) as failure:  # noqa: BLE001  # as in step
                self.error = self._failure(failure)
        self._steps = None

    def _step(self) -> bool:
        if self._steps is None:
            with self.registers.alive():
                pass
            outcome = self.kernel.run(self.job)
            if not isinstance(outcome, Iterator):
                self._take(outcome)
                return True
            self._steps = outcome
        try:
            next(self._steps)
        except StopIteration as stop:
            self._take(stop.value)
            return True
        return False

    def _take(self, outcome: object) -> None:
        """What the kernel has returned is the result, unless it is None."""
        if outcome is not None:
            self.job.result = whole(outcome)

    def _failure(self, failure: BaseException) -> KernelFailure:
        error = KernelFailure(f"the kernel's code raised {type(failure).__name__}: {failure}")
        error.__cause__ = failure.with_traceback(behind(failure.__traceback__, __file__))
        return self._placed(error, failure)

    def _placed(self, error: E, failure: BaseException) -> E:
        """`error` with the line of the kernel's code that `failure` came from, and the kernel's name.

        A `Hang` is meant, and says why itself.
        """
        place = None if isinstance(failure, Hang) else place_of(behind(failure.__traceback__, __file__))
        if place is not None:
            error.at("line", *place)
        return error.at("kernel", self.kernel.name)
