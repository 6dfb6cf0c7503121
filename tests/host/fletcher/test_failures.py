"""A kernel's author sees their own exception, with its traceback and its line, wherever the kernel works."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from softcard.core.errors import SoftcardError
from softcard.device.fletcher.job import KernelFailure
from softcard.device.fletcher.kernel import Kernel as VirtualKernel
from softcard.device.fletcher.kernel import named_schema
from softcard.host.fletcher.platform import Context, Kernel, Platform
from tests.host.fletcher.rig import numbers

SOURCE = """
def helper(job):
    raise ValueError("kaputt")

def direct(job):
    helper(job)

def in_slices(job):
    yield
    helper(job)

def in_a_library(job):
    import json
    json.loads("{")

def in_softcard(job):
    job.batch("nothing")

def with_a_cause(job):
    try:
        helper(job)
    except ValueError as error:
        raise KeyError("outer") from error
"""
CASES = {
    "direct": (KernelFailure, ValueError, "3 of {file} (helper)"),
    "in_slices": (KernelFailure, ValueError, "3 of {file} (helper)"),
    "in_a_library": (KernelFailure, ValueError, "14 of {file} (in_a_library)"),
    "in_softcard": (SoftcardError, None, "17 of {file} (in_softcard)"),
    "with_a_cause": (KernelFailure, KeyError, "23 of {file} (with_a_cause)"),
}


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """The kernels' file, as an author has it."""
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    made = ModuleType("mine")
    made.__file__ = str(path)
    exec(compile(SOURCE, str(path), "exec"), vars(made))
    return made


def failure(run: Any, **options: Any) -> SoftcardError:
    """Return the error that a host gets for a kernel that fails."""
    kernel = VirtualKernel("boom", run, (named_schema("ExampleBatch", [("number", pa.int64())]),))
    with Platform(kernel, **options) as platform, Context(platform) as context:
        context.queue_record_batch(numbers(1, 2))
        context.enable()
        with pytest.raises(SoftcardError) as caught:
            run_to_the_end(Kernel(context))
        return caught.value


def run_to_the_end(handle: Kernel) -> None:
    handle.start()
    handle.wait_for_finish(timeout_seconds=60)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("execution", ["synchronous", "threaded"])
@pytest.mark.parametrize("profile", ["spec", "hardware"])
def test_the_authors_line_and_traceback(profile: str, execution: str, case: str, module: ModuleType) -> None:
    kind, cause, place = CASES[case]
    error = failure(getattr(module, case), profile=profile, execution=execution)
    assert isinstance(error, kind)
    assert f", at line {place.format(file=module.__file__)}, at kernel boom" in str(error)
    assert error.__cause__ is None if cause is None else isinstance(error.__cause__, cause)
    reported = traceback.format_exception(error)
    assert any(f'File "{module.__file__}", line {place.split()[0]}, in ' in line for line in reported)


def test_the_causes_traceback_begins_with_the_kernel(module: ModuleType) -> None:
    error = failure(module.direct)
    assert error.__cause__ is not None
    assert [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)] == ["direct", "helper"]


def test_causes_of_causes(module: ModuleType) -> None:
    cause = failure(module.with_a_cause).__cause__
    assert cause is not None
    assert str(cause.__cause__) == "kaputt"


def test_kernels_without_lines() -> None:
    """NumPy's own function is the kernel: there is no line of Python to name."""
    error = failure(np.linalg.inv)
    assert isinstance(error, KernelFailure)
    assert error.__cause__ is not None
    assert ", at kernel boom" in str(error)
