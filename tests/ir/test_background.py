"""Work that nobody waits for: the thread, and the process that compiles."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import pytest

from softcard.core.errors import ModelBug
from softcard.ir import compile_process, llvm
from softcard.ir.background import BACKGROUND, Background
from softcard.ir.compile_process import PROCESS, CompileProcess, ProcessEnds

SEVEN = "define i64 @seven() {\n  ret i64 7\n}\n"
SOON = 60.0


def wait_for(task: object) -> None:
    deadline = time.monotonic() + SOON
    while not task.done:  # type: ignore[attr-defined]
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_work_is_done_in_order_on_another_thread() -> None:
    background, seen = Background(lambda: None), []
    tasks = [background.submit(lambda n=n: seen.append((n, threading.get_ident()))) for n in range(5)]  # type: ignore[misc]
    wait_for(tasks[-1])
    assert [n for n, _ in seen] == [0, 1, 2, 3, 4]
    assert threading.get_ident() not in {thread for _, thread in seen}


def test_an_error_is_reported_at_once_and_is_not_raised_where_the_result_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    background, reported = Background(lambda: None), list[threading.ExceptHookArgs]()
    monkeypatch.setattr(threading, "excepthook", reported.append)

    def fail() -> int:
        raise ModelBug("no")

    task, later = background.submit(fail), background.submit(lambda: 5)
    wait_for(later)
    assert (task.failed, task.result(), later.failed, later.result()) == (True, None, False, 5)
    assert [(type(each.exc_value), str(each.exc_value)) for each in reported] == [(ModelBug, "no")]
    assert reported[0].exc_traceback is not None
    assert reported[0].thread is not None
    assert reported[0].thread.name == "softcard-compile"


def test_when_nothing_is_left_nobody_is() -> None:
    """Neither a thread nor a process: both come back with the next piece of work."""
    for _ in range(2):
        task = BACKGROUND.submit(lambda: (PROCESS.compile_ir(SEVEN, llvm.SOON), PROCESS._process is not None))
        wait_for(task)
        assert task.result()[1]
        deadline = time.monotonic() + SOON
        while PROCESS._process is not None or any(each.name == "softcard-compile" for each in threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.001)


def test_another_process_compiles_the_same() -> None:
    one = CompileProcess()
    image = one.compile_ir(SEVEN, llvm.OPTIMISED)
    assert image == llvm.compile_ir(SEVEN, llvm.OPTIMISED)
    assert llvm.Code(image).function("seven", ctypes.c_uint64)() == 7
    one.close()


def test_what_does_not_verify_is_refused_there_too() -> None:
    one = CompileProcess()
    with pytest.raises(ModelBug, match="does not verify"):
        one.compile_ir("define i64 @seven() {\n  ret i32 7\n}\n", llvm.OPTIMISED)
    assert one.compile_ir(SEVEN, llvm.SOON)
    one.close()


def test_where_the_process_dies_the_work_is_done_here() -> None:
    one = CompileProcess()
    one.compile_ir(SEVEN, llvm.SOON)
    assert one._process is not None
    one._process.kill()
    one._process.wait()
    assert one.compile_ir(SEVEN, llvm.OPTIMISED) == llvm.compile_ir(SEVEN, llvm.OPTIMISED)
    assert one._process is None


def test_where_none_can_be_started_the_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    one = CompileProcess()
    assert one.compile_ir(SEVEN, llvm.OPTIMISED) == llvm.compile_ir(SEVEN, llvm.OPTIMISED)


def test_a_forked_child_has_a_process_of_its_own() -> None:
    one = CompileProcess()
    one.compile_ir(SEVEN, llvm.SOON)
    assert one._process is not None
    child = os.fork()
    if not child:
        one.forget()
        good = one._process is None and one.compile_ir(SEVEN, llvm.SOON)
        one.close()
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert one._process.poll() is None, "the parent's goes on"
    assert one.compile_ir(SEVEN, llvm.SOON)
    one.close()


PROGRAM = f"""
from softcard.ir import llvm
from softcard.ir.background import BACKGROUND
from softcard.ir.compile_process import PROCESS
PROCESS.compile_ir({SEVEN!r}, llvm.SOON)
print(PROCESS._process.pid, flush=True)
for n in range(100):
    BACKGROUND.submit(lambda: PROCESS.compile_ir({SEVEN!r}, llvm.OPTIMISED))
"""


def test_nothing_outlives_a_program_that_ends_amid_its_work() -> None:
    """It ends at once and without a word, and takes the process with it."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=SOON)
    assert done.stderr == ""
    deadline = time.monotonic() + SOON
    while Path(f"/proc/{int(done.stdout)}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_nobody_who_waits_is_no_error() -> None:
    """As where a program is killed: what it had asked for is dropped without a word."""
    program = PROGRAM + "import os\nos._exit(0)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=SOON)
    assert done.stderr == ""


def test_ctrl_c_is_for_the_program() -> None:
    one = CompileProcess()
    one.compile_ir(SEVEN, llvm.SOON)
    assert one._process is not None
    assert os.getpgid(one._process.pid) != os.getpgid(0)
    one.close()


def test_the_process_yields_to_others() -> None:
    assert 0 < compile_process.NICENESS < 20


def test_when_this_process_ends_nothing_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM at work on a thread while its own destructors run would end the process with an error."""
    one, here = CompileProcess(), []
    one.compile_ir(SEVEN, llvm.SOON)
    assert one._process is not None
    os.kill(one._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(compile_process.llvm, "compile_ir", lambda *asked: here.append(asked))
    background = Background(lambda: None)
    waiting, next_one = (background.submit(lambda: one.compile_ir(SEVEN, llvm.OPTIMISED)) for _ in range(2))
    while not one._lock.locked():
        time.sleep(0.001)
    one.end()
    wait_for(next_one)
    assert [(task.failed, task.result()) for task in (waiting, next_one)] == [(True, None)] * 2
    with pytest.raises(ProcessEnds, match="the compiling process is ending"):
        one.compile_ir(SEVEN, llvm.OPTIMISED)
    assert (here, one._process) == ([], None)


def test_a_pipe_that_the_end_closes_before_it_is_read_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a program may come between two reads of a thread that waits for code."""
    one, read = CompileProcess(), compile_process._read

    def end_first(stream: IO[bytes], size: int) -> bytes:
        one.end()
        return read(stream, size)

    monkeypatch.setattr(compile_process, "_read", end_first)
    with pytest.raises(ProcessEnds, match="the compiling process is ending"):
        one.compile_ir(SEVEN, llvm.SOON)
