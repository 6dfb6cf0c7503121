"""Tests with the real Triton, which `tools/triton.sh` installs into build/triton."""

import importlib
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[3] / "build" / "triton"


def environment() -> dict[str, str]:
    """The environment for Triton, whose compiled kernels are then kept beside the tests' other compiled code."""
    cache = os.environ.get("XDG_CACHE_HOME", tempfile.gettempdir())
    return {"TRITON_CACHE_DIR": f"{cache}/triton", "TRITON_DEFAULT_FP_FUSION": "1"}


def load_kernels() -> ModuleType:
    """The module with the kernels of these tests; the importing test file is skipped without Triton."""
    if not (FOLDER / "triton").is_dir():
        pytest.skip("Triton is not installed: run sh tools/triton.sh", allow_module_level=True)
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    os.environ.update(environment())
    return importlib.import_module("tests.host.triton.kernels")
