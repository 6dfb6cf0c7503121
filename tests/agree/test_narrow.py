"""Translated vector instructions compute the same for processors without AVX-512, and without AVX2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from softcard.ir.host import LEVELS, is_x86, this_machine

ROOT = Path(__file__).parents[2]


MASKED = ["--vlen", "512", "--names", "vmerge.vvm,vadc.vvm,vmerge.vim,vsbc.vvm"]


@pytest.mark.slow
@pytest.mark.skipif(not is_x86(), reason="translates harts on x86-64 only")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("x86-64", ["--cases", "40"]),
        ("x86-64-v3", ["--cases", "40"]),
        ("x86-64-v3", ["--cases", "80", *MASKED]),
    ],
)
def test_lesser_processors(name: str, options: list[str]) -> None:
    """Before AVX2 LLVM makes shifts that raise flags, and with it wrong lanes of masks of more than 64 bits."""
    if not LEVELS[name] <= this_machine().names:
        pytest.skip(f"this machine's processor is less than {name}")
    words = [sys.executable, "-m", "tests.agree.narrow", name, *options]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 differ, memory does not" in done.stdout
