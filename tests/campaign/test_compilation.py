"""A compiler that fails by itself is told from one that refuses a source, and the same crash from another."""

from __future__ import annotations

import pytest

from softcard.campaign import compilation
from softcard.campaign.compilation import CompilerCrash, compile_generated
from softcard.core.errors import SoftcardError
from softcard.host.compiling import Clang, CompileError, CompileTimeLimit

BACKEND = "fatal error: error in backend: Cannot select: t5: i32 = bitcast t4\nPLEASE submit a bug report to"
PASSES = "Stack dump:\n3.\tRunning pass 'Function Pass Manager'\n4.\tRunning pass 'SI Fold Operands' on function '@k_7'"
DRIVER = "zig: error: clang frontend command failed with exit code 139 (use -v to see invocation)\nclang version 21.1.0"


@pytest.mark.parametrize(
    ("said", "where"),
    [
        (BACKEND, "fatal error: error in backend: Cannot select: tN: iN = bitcast tN"),
        (PASSES, "Running pass 'SI Fold Operands' on function N"),
        (DRIVER, "zig: error: clang frontend command failed with exit code N (use -v to see invocation)"),
    ],
)
def test_a_crash_has_the_same_place_in_another_program(monkeypatch: pytest.MonkeyPatch, said: str, where: str) -> None:
    with pytest.raises(CompilerCrash, match=r"^c failed: ") as caught:
        attempt(monkeypatch, said)
    assert caught.value.where == where


def test_a_source_that_is_refused_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError, match="expected ';'"):
        attempt(monkeypatch, "program:3:4: error: expected ';'")


def test_a_compiler_that_takes_too_long_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompilerCrash, match=r"^c failed: c was ended after 5\.0 seconds") as caught:
        attempt(monkeypatch, "c was ended after 5.0 seconds", CompileTimeLimit)
    assert caught.value.where == "c took too long"


def attempt(monkeypatch: pytest.MonkeyPatch, said: str, kind: type[SoftcardError] = CompileError) -> None:
    """Compile with a compiler that says this."""

    def failing(*_: object) -> str:
        raise kind(said)

    monkeypatch.setattr(compilation, "named", lambda name: Clang("c", ("c",), ("ld",), "", 0))
    monkeypatch.setattr(compilation, "run", failing)
    compile_generated(said.encode(), "opencl", "gfx900", "c", "-O2")
