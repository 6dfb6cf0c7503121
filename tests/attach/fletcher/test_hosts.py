"""Unmodified host programs in processes of their own: ours in C, and the real Fletcher run-time."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from softcard.attach.fletcher import build_library
from softcard.attach.fletcher.server import Op
from tests.attach.fletcher.rig import ROOT, RUNTIME, Client, needs_compiler, needs_runtime
from tests.attach.rig import ended

pytestmark = [needs_compiler, pytest.mark.slow]

HERE = Path(__file__).parent
EXAMPLES = ROOT / "examples" / "fletcher"
SERVE = "import sys; from softcard.cli import main; sys.exit(main(['serve', 'fletcher', *sys.argv[1:]]))"


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[Path, list[str]]]:
    """`softcard serve fletcher` in a process; its socket, and afterwards what it has said."""
    path, said = folder / "s", []
    command = [sys.executable, "-c", SERVE, "--socket", str(path), *options]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)) as server:
        assert server.stdout is not None
        for line in server.stdout:
            said.append(line.rstrip())
            if "listening at" in line:
                break
        try:
            yield path, said
        finally:
            if "--once" not in options:
                server.terminate()
            said += server.stdout.read().splitlines()
            assert server.wait(60) == 0, said


def run(path: Path, *command: str, detect: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a host program so that it finds the platform library and the socket."""
    environment = {**os.environ, **build_library().environment(path, autodetect=detect)}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The C program, compiled."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))
    program = tmp_path_factory.mktemp("host") / "sum_host"
    flags = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1")
    subprocess.run([compiler, *flags, str(EXAMPLES / "sum_host.c"), "-o", str(program), "-ldl"], check=True)
    return str(program)


def accesses(said: list[str]) -> list[str]:
    """Register accesses as the recorded traces show them: W or R, index, value."""
    found = [re.fullmatch(r"([WR]) (0x\w+) [<=]+>? ?(0x\w+) .*", line) for line in said]
    return [f"{match[1]} {int(match[2], 16) // 4} {match[3]}" for match in found if match]


def recorded(name: str) -> list[str]:
    """The register accesses of a recorded run, without polls that saw a busy kernel."""
    text = (ROOT / "tests" / "vectors" / "fletcher" / name).read_text(encoding="utf-8")
    found = re.findall(r"^([WR]) +(\d+) \(byte \w+\) [<=]+>? (0x\w+)", text, re.MULTILINE)
    return [" ".join(match) for match in found if match != ("R", "1", "0x00000002")]


@pytest.mark.parametrize("options", [("--threaded",), ("--profile", "hardware"), ("--map", "runtime")], ids=str)
def test_a_c_program_on_devices_of_all_kinds(host: str, tmp_path: Path, options: tuple[str, ...]) -> None:
    with serving(tmp_path, *options) as (path, said):
        for _ in range(2):
            assert run(path, host, "softcard", "1", "2", "39").stdout == "softcard: sum = 42\n"
    assert not [line for line in said if "error" in line or "lint" in line or "refused" in line]


def test_a_c_program_finds_the_platform(host: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--trace") as (path, said):
        assert run(path, host).stderr.startswith("no platform library of a known name")
        assert run(path, host, "echo").returncode == 2
        assert run(path, host, detect=True).stdout == "softcard: sum = -6\n"
        assert run(path, host, "softcard").stdout == "softcard: sum = -6\n"
        assert run(path, host, "snap", "9223372036854775807", "1", detect=True).stdout.endswith(
            "-9223372036854775808\n"
        )
    assert f"sum: listening at {path}" in said
    assert "kernel sum is done: result 0xfffffffffffffffa, 2 slices" in said
    assert not [line for line in said if "error" in line or "lint" in line or "refused" in line]
    polls = [line for line in accesses(said) if line != "R 1 0x00000002"]
    assert polls[:9] == recorded("trace_sum.txt")[:9]


def test_a_c_program_measures_accesses(host: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--quiet", "--no-library", "--once") as (path, said):
        rounds = run(path, host, "--time", "softcard").stdout.splitlines()
    assert len(rounds) == 20
    assert all(float(number) > 0 for line in rounds for number in line.split())
    assert said == [f"sum: listening at {path}"]


def test_a_host_whose_mistake_is_reported(host: str, tmp_path: Path) -> None:
    """A kernel of other registers than the host thinks."""
    with serving(tmp_path, "--kernel", "prim_map") as (path, said):
        done = run(path, host, "softcard")
    assert done.returncode == 1
    assert "reported by the platform library of Softcard" in done.stderr
    assert "gave status 1" in done.stderr
    assert "[fletcher/" in done.stderr
    assert [line for line in said if line.startswith("error[fletcher/")]


def test_a_kernel_from_a_file(host: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--kernel", f"{EXAMPLES / 'own_kernel.py'}:largest") as (path, said):
        assert run(path, host, "softcard", "3", "17", "-5").stdout == "softcard: sum = 17\n"
    assert "kernel largest starts: ExampleBatch 0 to 3" in said


@pytest.mark.parametrize("options", [(), ("--threaded",)], ids=str)
def test_a_kernel_that_fails_is_shown_with_its_traceback(host: str, tmp_path: Path, options: tuple[str, ...]) -> None:
    file = tmp_path / "mine.py"
    source = (EXAMPLES / "own_kernel.py").read_text(encoding="utf-8")
    file.write_text(re.sub(r"(?m)^    return .*$", "    raise ValueError('kaputt')", source), encoding="utf-8")
    line = file.read_text(encoding="utf-8").splitlines().index("    raise ValueError('kaputt')") + 1
    with serving(tmp_path, "--kernel", f"{file}:largest", *options) as (path, said):
        done = run(path, host, "softcard", "3", "17")
    assert "error: the kernel's code raised ValueError: kaputt\n" in done.stderr
    assert f" --> {file}:{line}\n" in done.stderr
    at = said.index("Traceback (most recent call last):")
    assert said[at + 1] == f'  File "{file}", line {line}, in largest'
    assert "ValueError: kaputt" in said[at + 2 : at + 5]


ENDLESS = """
import pyarrow as pa
from softcard.device.fletcher.kernel import kernel

@kernel("endless", read={"P": [("a", pa.int8())]})
def endless(job):
    job.say("round and round")
    while True:
        try:
            job.rows()
        except CAUGHT:
            pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("caught", ["Exception", "BaseException"])
@pytest.mark.parametrize("options", [(), ("--threaded",)], ids=str)
def test_signals_end_an_endless_kernel(tmp_path: Path, options: tuple[str, ...], caught: str, number: int) -> None:
    """On a thread of its own the first one does; inside of a register access, which has to return, a second one."""
    (tmp_path / "mine.py").write_text(ENDLESS.replace("CAUGHT", caught))
    path = tmp_path / "s"
    mine = ("--no-library", "--socket", str(path), "--kernel", f"{tmp_path / 'mine.py'}:endless")
    command = [sys.executable, "-c", SERVE, *mine, *options]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)) as server:
        assert server.stdout is not None
        assert "listening at" in server.stdout.readline()
        with Client(path) as client:
            client.send(Op.WRITE_MMIO, 1, 0)
            while "round and round" not in server.stdout.readline():
                pass
            server.send_signal(number)
            if options:
                assert server.wait(60) == 0
                return
            while path.exists():  # until the first one was heard
                assert server.poll() is None
            server.send_signal(number)
            assert server.wait(60) != 0


@pytest.mark.oracle
@needs_runtime
@pytest.mark.parametrize(("name", "detect"), [("softcard", False), ("snap", True), ("", True)])
def test_the_real_runtime_sums(name: str, detect: bool, tmp_path: Path) -> None:
    with serving(tmp_path, "--trace") as (path, said):
        done = run(path, str(RUNTIME), str(HERE / "runtime_sum.py"), name, "1", "-3", "3", "-7", detect=detect)
    assert (done.stdout, done.returncode) == ("sum -6\n", 0), done.stderr
    own = [line for line in accesses(said) if line != "R 1 0x00000002"]
    assert own == ["W 0 0x00000004", "W 0 0x00000000", *recorded("trace_sum.txt")[:9]]


@pytest.mark.oracle
@needs_runtime
def test_the_real_runtime_with_several_batches(tmp_path: Path) -> None:
    with serving(tmp_path, "--kernel", "soda_beer") as (path, said):
        done = run(path, str(RUNTIME), str(HERE / "runtime_strings.py"))
    assert done.stdout.splitlines() == [
        "5 3",
        "Bilbo 111, Sam 35, Frodo 33, Lobelia 80, Merry 37",
        "Rosie 32, Elanor 1, Pippin 29",
    ], done.stderr
    assert not [line for line in said if "error" in line or "refused" in line]


@pytest.mark.oracle
@needs_runtime
def test_the_real_runtime_passes_all_types(tmp_path: Path) -> None:
    """Its buffers, in its order, rebuilt into the arrays that it had."""
    kernel = f"{HERE / 'types_kernel.py'}:types"
    with serving(tmp_path, "--kernel", kernel, "--map", "runtime") as (path, said):
        done = run(path, str(RUNTIME), str(HERE / "runtime_types.py"))
    counts, *columns = done.stdout.splitlines() or [done.stderr]
    assert counts == "30 4"
    assert len(columns) == 10
    assert [line for line in said if line.split(" ")[0] in [column.split(" ")[0] for column in columns]] == columns


@pytest.mark.oracle
@needs_runtime
def test_the_real_runtime_hears_of_mistakes(tmp_path: Path) -> None:
    with serving(tmp_path, "--kernel", "prim_map") as (path, _):
        done = run(path, str(RUNTIME), str(HERE / "runtime_sum.py"), "softcard", "1")
    assert done.returncode != 0
    assert "reported by the platform library of Softcard" in done.stderr
