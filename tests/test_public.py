"""The public face of the package: these names and no others, and nothing heavy behind them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import understudy

ROOT = Path(__file__).parents[1]

PUBLIC = [
    "AccessFault",
    "BeyondModel",
    "GuestFault",
    "ModelBug",
    "Place",
    "RuleError",
    "UnderstudyError",
    "WireError",
    "__version__",
]


def test_the_public_names_are_pinned():
    assert understudy.__all__ == PUBLIC
    assert all(hasattr(understudy, name) for name in PUBLIC)


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert understudy.__version__ == project["version"]


def test_importing_the_package_does_not_load_the_compiler():
    # Decoding and describing must start without it: importing LLVM takes longer than they do.
    code = "import sys, understudy; print([name for name in ('llvmlite', 'elftools') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
