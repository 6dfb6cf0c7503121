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


def outcome(tmp_path, ci, source):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = oracle\n")
    (tmp_path / "test_sample.py").write_text(source)
    environment = {**os.environ, "CI": ci}
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
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
