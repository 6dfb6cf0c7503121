"""Progress of long work: on a terminal only, and only after a while."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import softcard
from softcard.cli import progress

HEAD = "import sys, time; from softcard.cli import progress as p; p.DELAY_S = 0\n"
SHOWN = "    while not bar.is_shown: time.sleep(0.01)\n"
WORK = {
    "counts": "with p.progress('passes', 8, 'failures') as bar:\n    bar.begin(2); bar.advance(); bar.advance()\n",
    "bytes": "with p.progress('reading run.jsonl', 40e6, p.BYTES) as bar:\n    bar.advance(10_000_000)\n",
    "unknown": "with p.progress('running k', state=lambda: '3 modules compiled') as bar:\n    pass\n",
}
EXPECTED = {
    "counts": r"passes.* 4/8 failures .*[\d:-]+",
    "bytes": r"reading run.jsonl.* (10.0/40.0 MB|25%) .*[\d:-]+",
    "unknown": r"running k 0:00:\d\d",
}


def on_terminal(code: str, environment: dict[str, str]) -> tuple[str, str]:
    """Run Python code with a terminal as standard error; return what it printed there, and on standard output."""
    ours, its = pty.openpty()
    given = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "CI")}
    given |= {"TERM": "xterm", "PYTHONPATH": str(Path(softcard.__file__).parents[1])} | environment
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=its, env=given) as process:
        os.close(its)
        printed = b""
        while True:
            try:
                printed += os.read(ours, 1 << 16)
            except OSError:  # the other end was closed
                break
        assert process.stdout is not None
        out = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == 0, printed.decode()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode()), out


@pytest.mark.parametrize("columns", ["40", "120"])
@pytest.mark.parametrize("name", WORK)
def test_it_is_shown_on_a_terminal(name: str, columns: str) -> None:
    """With the amount, the rate and the time left, and a bar where there is room."""
    shown, out = on_terminal(HEAD + WORK[name] + SHOWN, {"COLUMNS": columns})
    assert out == ""
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", shown) if line.strip()]
    assert any(re.match(rf"\S?\s*{EXPECTED[name]}", line) for line in lines), shown
    assert ("━" in shown) == (columns == "120" and name != "unknown")
    assert all(len(line) <= int(columns) for line in lines), lines


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"TERM": "xterm", "AFTER": "1000"}], ids=str)
def test_nothing_is_shown_on_a_simple_terminal_and_for_short_work(environment: dict[str, str]) -> None:
    head = HEAD + "import os; p.DELAY_S = int(os.environ.get('AFTER', 0))\n"
    assert on_terminal(head + WORK["counts"], environment) == ("", "")


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}, {"CI": "true"}], ids=str)
def test_nothing_is_shown_elsewhere(environment: dict[str, str]) -> None:
    given = os.environ | {"PYTHONPATH": str(Path(softcard.__file__).parents[1])} | environment
    done = subprocess.run([sys.executable, "-c", HEAD + WORK["bytes"]], capture_output=True, check=True, env=given)
    assert done.stdout + done.stderr == b""


def test_items_and_lines_are_passed_on(tmp_path: Path) -> None:
    assert list(progress.tracked(iter("abc"), "letters", 3)) == ["a", "b", "c"]
    amounts: list[float] = []

    class Bar:
        def advance(self, amount: float = 1) -> None:
            amounts.append(amount)

    lines = [b"x" * progress.STEP_BYTES, b"y"] * 2
    assert list(progress.counted(iter(lines), Bar())) == lines  # type: ignore[arg-type]
    assert sum(amounts) >= 2 * progress.STEP_BYTES
    path = tmp_path / "file"
    path.write_bytes(b"123")
    with path.open("rb") as file:
        assert progress.size_of(file) == 3
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert progress.size_of(file) is None


def test_what_llvm_has_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from softcard.ir import llvm

    monkeypatch.setattr(llvm, "STATISTICS", llvm.CompileStatistics())
    assert progress.compiled_code() == ""
    llvm.compile_ir("define i32 @f() { ret i32 1 }", llvm.QUICK)
    assert progress.compiled_code() == "1 module compiled (0.0 MB of IR)"
