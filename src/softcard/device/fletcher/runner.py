"""The execution of one start of a kernel, slice by slice, on any thread."""

from __future__ import annotations

import ctypes
import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, TypeVar

from softcard.core.errors import SoftcardError
from softcard.core.limits import Stopped
from softcard.device.fletcher.bus import FieldStore
from softcard.device.fletcher.job import Hang, Job, KernelFailure, whole
from softcard.device.fletcher.kernel import Kernel

# ---- tracebacks ------------------------------------------------------------------------------------------------------
# Traceback filters: find the line of a kernel's code that raised an exception, without our or a library's frames.


OURS: Final = str(Path(__file__).parents[2])
"""The folder of the package softcard."""
_LIBRARIES: Final = (OURS, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))


def without_leading(tb: TracebackType | None, file: str) -> TracebackType | None:
    """Return a traceback without its leading frames that lie in `file`."""
    while tb is not None and tb.tb_frame.f_code.co_filename == file:
        tb = tb.tb_next
    return tb


def raising_line(tb: TracebackType | None) -> tuple[str, str] | None:
    """Return the location and the function name of the innermost frame of user code in a traceback.

    The traceback's first file and every file outside of libraries are user code. Return None if that frame is in
    this package, or if there are only frames of libraries."""
    return _own(traceback.extract_tb(tb))


def current_line(frame: FrameType | None, caller: CodeType) -> tuple[str, str] | None:
    """Return the location and the name of the function that a kernel is executing.

    `frame` is the innermost frame of the kernel's thread or suspended generator; `caller` is the code that called the
    kernel. Frames of libraries and of this package are skipped. Return None if no other frame exists.
    """
    inside = []
    for each, line in traceback.walk_stack(frame) if frame is not None else ():
        if each.f_code is caller:
            break
        inside.append((each, line))
    own = [pair for pair in inside if not _is_library(pair[0].f_code.co_filename)]
    return _own(traceback.StackSummary.extract(iter(own[:1])))


def _own(frames: Sequence[traceback.FrameSummary]) -> tuple[str, str] | None:
    own = [frame for frame in frames if frame.filename == frames[0].filename or not _is_library(frame.filename)]
    if not own or own[-1].filename.startswith(OURS):
        return None
    return f"{own[-1].lineno} of {own[-1].filename}", own[-1].name


def _is_library(file: str) -> bool:
    return file.startswith((*_LIBRARIES, "<frozen ")) or file.endswith((".pxi", ".pyx"))  # Cython's, as in pyarrow


# ---- starts ----------------------------------------------------------------------------------------------------------


E = TypeVar("E", bound=SoftcardError)


class Aborted(BaseException):  # not an Exception, so that no kernel catches it by accident
    """The exception that ends a job that was stopped or reset while it ran.

    The job must not have any further effect.
    """


def _abort(thread: int) -> None:
    """Make the Python thread with the identifier `thread` raise `Aborted` as soon as it executes Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Aborted))


def _let_abort_arrive() -> None:
    """Raise and catch an `Aborted` on this thread, so that one that is pending cannot be raised later.

    A pending asynchronous exception cannot be cancelled. If the thread did not wait for it here, the
    interpreter would check for it for ever, and Python 3.11 would hang in the next function that is traced."""
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
    """A job's access to the registers, which ends when the job is cut off. `lock` guards the device's state."""

    def __init__(self, store: FieldStore, lock: threading.RLock) -> None:
        self._store = store
        self.lock = lock
        self.is_cut_off = False

    def value(self, address: int) -> int:
        """Return the value of the control field at `address`."""
        with self.alive():
            return self._store.value(address)

    def value64(self, address: int) -> int:
        """Return the 64-bit value of the register at `address`."""
        with self.alive():
            return self._store.value64(address)

    def set(self, address: int, value: int) -> None:
        """Set the status field at `address` to `value`."""
        with self.alive():
            self._store.set(address, value)

    def set64(self, address: int, value: int) -> None:
        """Set the 64-bit status register at `address` to `value`."""
        with self.alive():
            self._store.set64(address, value)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Prevent the job from being cut off during the ``with`` block; raise `Aborted` if it was cut off before."""
        with self.lock:
            if self.is_cut_off:
                raise Aborted
            yield


class Run:
    """A running job, with the progress of its kernel.

    `error` is the reason why the kernel never finishes, or None.
    """

    def __init__(self, kernel: Kernel, job: Job, registers: LiveRegisters) -> None:
        self.kernel = kernel
        self.job = job
        self.registers = registers
        self.slices = 0
        self.error: SoftcardError | None = None
        self._thread = 0
        self._is_interrupted = False
        self._guard = threading.Lock()
        self._steps: Iterator[Any] | None = None

    @property
    def is_in_step(self) -> bool:
        """True if a thread is executing the kernel's code, that is, a slice of the kernel."""
        return self._thread != 0

    def step(self) -> bool:
        """Execute the next slice; return True if the kernel has finished and the job's result is set.

        Exceptions are stored in `error`, except for those that are not an `Exception`.
        """
        self.slices += 1
        try:
            self._thread = threading.get_ident()
            try:
                return self._step()
            except Aborted:
                return False
            except SoftcardError as error:
                self.error = self._placed(error, error)
            except (Exception, SystemExit) as failure:  # noqa: BLE001  # its author's code may raise anything
                self.error = self._failure(failure)
            finally:
                self._leave()
        except Aborted:  # by `interrupt`, just when the slice had ended
            self._leave()
        return False

    def _leave(self) -> None:
        """Record that the calling thread has left the kernel; `interrupt` does not affect the thread any more."""
        with self._guard:
            if self._is_interrupted:
                _let_abort_arrive()
            self._thread, self._is_interrupted = 0, False

    def interrupt(self) -> None:
        """Make the thread that executes the kernel, if there is one, leave the kernel before its next line."""
        with self._guard:
            if self._thread:
                self._is_interrupted = True
                _abort(self._thread)

    def stopped(self, why: str) -> Stopped:
        """Return the error for a kernel that does not finish, with the reason `why` and the kernel's current line."""
        frame = getattr(self._steps, "gi_frame", None) or sys._current_frames().get(self._thread)
        place = current_line(frame, Run._step.__code__)
        stopped = Stopped(f"{why} while the kernel worked")
        if place is not None:
            stopped.at("line", *place)
        return stopped.at("kernel", self.kernel.name)

    def cut_off(self) -> None:
        """Prevent the kernel from having any further effect; the caller holds the device's lock."""
        self.registers.is_cut_off = True

    def close(self) -> None:
        """Close the kernel's generator, so that it can clean up.

        The thread that executes the generator calls this after `cut_off`.
        """
        close = getattr(self._steps, "close", None)
        if close is not None:
            try:
                close()
            except Aborted:
                pass  # its clean-up code tried to yield again
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
        """Store `outcome`, which the kernel returned, as the result, unless it is None."""
        if outcome is not None:
            self.job.result = whole(outcome)

    def _failure(self, failure: BaseException) -> KernelFailure:
        error = KernelFailure(f"the kernel's code raised {type(failure).__name__}: {failure}")
        error.__cause__ = failure.with_traceback(without_leading(failure.__traceback__, __file__))
        return self._placed(error, failure)

    def _placed(self, error: E, failure: BaseException) -> E:
        """Return `error` with two additions: the kernel's name, and the line of its code that raised `failure`.

        A `Hang` gets no line, because it is deliberate and has its own reason.
        """
        place = None if isinstance(failure, Hang) else raising_line(without_leading(failure.__traceback__, __file__))
        if place is not None:
            error.at("line", *place)
        return error.at("kernel", self.kernel.name)
