"""With CI=true a test that cannot run is a failure, elsewhere a skip with its reason."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """
import pytest

@pytest.mark.oracle
def test_called():
    pytest.skip("no tool")

@pytest.mark.oracle
@pytest.mark.skipif(True, reason="no other tool")
def test_decorated():
    pass

def test_no_oracle():
    pytest.skip("not here")

@pytest.mark.oracle
@pytest.mark.xfail(strict=True)
def test_known():
    assert False
"""


def outcome(tmp_path, ci, source, settings=""):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers = oracle\n{settings}\n")
    (tmp_path / "test_sample.py").write_text(source)
    environment = {**os.environ, "CI": ci}
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider"]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return result.returncode, result.stdout


@pytest.mark.slow
def test_all_must_run_where_ci_is_true(tmp_path):
    status, text = outcome(tmp_path, "true", SOURCE)
    assert status == 1
    assert "CI=true: a test must not be skipped (Skipped: no tool)" in text
    assert "CI=true: a test must not be skipped (Skipped: no other tool)" in text
    assert "CI=true: a test must not be skipped (Skipped: not here)" in text
    assert text.splitlines()[-1].startswith("2 failed, 1 xfailed, 1 error in")


@pytest.mark.slow
def test_tests_may_be_skipped_elsewhere(tmp_path):
    status, text = outcome(tmp_path, "", SOURCE)
    assert status == 0
    assert text.splitlines()[-1].startswith("3 skipped, 1 xfailed in")


@pytest.mark.slow
def test_files_must_not_skip_themselves_where_ci_is_true(tmp_path):
    source = 'import pytest\npytest.skip("no tool", allow_module_level=True)\n'
    status, text = outcome(tmp_path, "true", source)
    assert status == 2
    assert "CI=true: a file of tests must not be skipped (Skipped: no tool)" in text


HANGING = """
import signal, threading
from ctypes import PyDLL

def test_before():
    pass

def test_hangs():
    {how}

def test_after():
    pass
"""
WAITS = "threading.Event().wait(1000)"
# As translated code does, and no other Python thread gets on meanwhile.
HEARS_NOTHING = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM}); PyDLL(None).sleep(1000)"


@pytest.mark.slow
def test_a_test_that_hangs_fails_and_the_others_run(tmp_path):
    status, text = outcome(tmp_path, "true", HANGING.format(how=WAITS), "timeout = 1")
    assert status == 1
    assert "Timeout" in text
    assert WAITS in text
    assert text.splitlines()[-1].startswith("1 failed, 2 passed in")


@pytest.mark.slow
def test_a_test_that_hangs_where_no_signal_is_heard_ends_the_process(tmp_path):
    limits = "timeout = 1\nwatchdog = 2"
    status, text = outcome(tmp_path, "true", HANGING.format(how=HEARS_NOTHING), limits)
    assert status == 1
    assert "Timeout (0:00:02)!" in text
    assert "in test_hangs" in text


def test_every_test_has_these_limits(pytestconfig):
    first, second = float(pytestconfig.getini("timeout")), float(pytestconfig.getini("watchdog"))
    assert 0 < first < second * 19 / 20 <= 900


def test_the_quick_tests_are_there():
    """Which `make quick` runs."""
    root = Path(__file__).parents[1]
    lines = (root / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    (names,) = [line.removeprefix("QUICK := ").split() for line in lines if line.startswith("QUICK := ")]
    assert len(names) > 10
    assert [name for name in names if not any((root / "tests").glob(name))] == []
