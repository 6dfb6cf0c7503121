"""Compilers as processes: what they say, and how much time of the processor they may take."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from softcard.core.errors import WireError
from softcard.host import compiling
from softcard.host.compiling import CompileError, CompileTimeLimit, NoCompiler, default_limit, run, stop_all
from softcard.host.hsa.compile import Compiler, compile_opencl


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_warnings_and_refusals(tmp_path) -> None:
    assert run(python("import sys; sys.stderr.write('careful')"), str(tmp_path), "c") == "careful"
    with pytest.raises(CompileError, match="c refused the source\nno good"):
        run(python("import sys; sys.exit('no good')"), str(tmp_path), "c")
    with pytest.raises(NoCompiler, match="c cannot be started: No such file or directory"):
        run(["/nowhere/c"], str(tmp_path), "c")


BUSY = "while True: pass"
DRIVER = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {BUSY!r}]) and 1)"


@pytest.mark.slow
@pytest.mark.parametrize("code", [BUSY, DRIVER], ids=["alone", "driver"])
def test_a_compiler_may_take_so_much_time_of_the_processor(
    tmp_path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """The limit also holds if a driver starts it. That is no `CompileError`, which is for mistakes of the source."""
    monkeypatch.setenv(compiling.VARIABLE, "1")
    busy = tuple(python(code))
    message = (
        r"busy was ended after \d+\.\d seconds, expected at most 1 seconds of processor time, or 10 times as long by "
        r"the "
        r"clock: if the compiler does not loop for ever on this source, set SOFTCARD_COMPILE_LIMIT=SECONDS to a larger "
        r"limit, or SOFTCARD_COMPILE_LIMIT=none for no limit$"
    )
    with pytest.raises(CompileTimeLimit, match=message) as caught:
        compile_opencl("kernel void k() {}", "gfx900", compiler=Compiler("busy", busy, busy, f"busy {code}", ("V5",)))
    assert not isinstance(caught.value, CompileError)


@pytest.mark.slow
def test_waiting_counts_where_it_is_far_too_long(tmp_path) -> None:
    """A compiler that waits for the processor is no slow one; one that sleeps does not end."""
    run(python("import time; time.sleep(0.6)"), str(tmp_path), "c", 0.3)
    began = time.monotonic()
    with pytest.raises(CompileTimeLimit, match=r"c was ended after 3\.0 seconds"):
        run(python("import subprocess; subprocess.call(['sleep', '600'])"), str(tmp_path), "c", 0.3)
    assert time.monotonic() - began < 300


def test_compilers_end_with_a_process_that_says_so(tmp_path) -> None:
    assert not stop_all()
    errors: list[Exception] = []

    def compile_for_ever() -> None:
        try:
            run(["sleep", "600"], str(tmp_path), "c")
        except (CompileError, CompileTimeLimit) as error:
            errors.append(error)

    thread = threading.Thread(target=compile_for_ever)
    thread.start()
    while not stop_all():
        time.sleep(0.01)
    thread.join()
    assert len(errors) == 1
    assert not stop_all()


def test_the_limit_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, limit in (("", 120.0), ("7.5", 7.5), ("none", None), (" None ", None)):
        monkeypatch.setenv(compiling.VARIABLE, text)
        assert default_limit() == limit
    for text in ("0", "-1", "soon", "inf", "nan"):
        monkeypatch.setenv(compiling.VARIABLE, text)
        with pytest.raises(
            WireError, match=f"SOFTCARD_COMPILE_LIMIT={text}, expected a number of seconds above 0, or none"
        ):
            default_limit()
