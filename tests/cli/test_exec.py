"""`softcard exec`: unmodified host programs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from softcard.cli import main
from softcard.cli.attach.exec_devices import ATTACHMENTS
from softcard.coverage import Coverage
from softcard.device.refsi.toolkit.builder import REFSIDRV, CommandBuffer
from softcard.image.assembly.program import assemble
from softcard.image.riscv.program import read_elf
from tests.attach.fletcher.rig import ROOT, needs_compiler
from tests.attach.refsi.rig import VECTORS, compiled
from tests.cli.test_run import content
from tests.host.test_coverage import HARTS

pytest.importorskip("pyarrow")
pytestmark = [needs_compiler, pytest.mark.slow]
Capture = pytest.CaptureFixture[str]
EXEC = "import sys; from softcard.cli import main; sys.exit(main(['exec', *sys.argv[1:]]))"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A host program that knows nothing of Softcard."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))
    program = tmp_path_factory.mktemp("host") / "sum_host"
    source = ROOT / "examples" / "fletcher" / "sum_host.c"
    subprocess.run([compiler, "-std=gnu11", "-O1", str(source), "-o", str(program), "-ldl"], check=True)
    return str(program)


def run(capfd: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["exec", *arguments])
    out, err = capfd.readouterr()
    return code, out, err


@pytest.mark.parametrize("platform", [[], ["softcard", "7", "-2"]], ids=["any platform", "a named one"])
def test_a_program_finds_the_device(capfd: Capture, host: str, platform: list[str]) -> None:
    code, out, err = run(capfd, "--kernel", "sum", "--", host, *platform)
    assert (code, out) == (0, f"softcard: sum = {5 if platform else -6}\n")
    assert [line.partition(":")[0] for line in err.splitlines()] == [
        "host 1 connected", "kernel sum starts", "kernel sum is done", "host 1 has disconnected",
    ]  # fmt: skip


def test_registers_are_reported_and_a_thread_runs_the_kernel(capfd: Capture, host: str) -> None:
    code, out, err = run(capfd, "--trace", "--threaded", "--map", "runtime", host)
    assert (code, out) == (0, "softcard: sum = -6\n")
    assert "W 0x000 <= 0x00000001 control\n" in err
    assert run(capfd, "--quiet", host) == (0, "softcard: sum = -6\n", "")


def test_a_report_of_what_the_device_saw(capfd: Capture, host: str, tmp_path: Path) -> None:
    report = tmp_path / "run.html"
    code, out, err = run(capfd, "--quiet", "--report", str(report), host)
    assert (code, out, err) == (0, "softcard: sum = -6\n", f"report: {report}\n")
    assert "<title>sum_host · Softcard</title>" in report.read_text()
    assert '"rows-moved"' in content(report)
    assert '"target":"Python"' in content(report)
    assert "def sum_numbers(job: Job)" in content(report)  # the built-in kernel
    assert "unfinished" not in content(report)


@pytest.mark.parametrize("name", ["no-such-program", "garbage"])
def test_nothing_is_written_if_the_program_cannot_run(capfd: Capture, tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    if name == "garbage":
        program.write_bytes(b"\x7fELF")
        program.chmod(0o755)
    (tmp_path / "old.html").write_text("old")
    for report in (tmp_path / "new.html", tmp_path / "old.html"):
        code, out, err = run(capfd, "--report", str(report), "--trace-file", str(tmp_path / "t.jsonl"), str(program))
        assert (code, out) == (2, "")
        assert err.startswith(f"error: cannot run {program}: "), err
        assert "report" not in err
    assert not (tmp_path / "new.html").exists()
    assert (tmp_path / "old.html").read_text() == "old"
    if name != "garbage":
        assert {each.name for each in tmp_path.iterdir()} == {"old.html"}


def test_a_report_of_devices_that_a_program_opens(capfd: Capture, tmp_path: Path) -> None:
    report, script = tmp_path / "run.html", tmp_path / "script"
    script.write_text("open m\ncb 0x10000000000 0 \n")
    player = compiled("player", tmp_path)
    command = ["--device", "refsi", "--quiet", "--report", str(report), "sh", "-c", f"{player} < {script}"]
    code, _, err = run(capfd, *command)
    assert (code, err.splitlines()[-1]) == (0, f"report: {report}")
    assert '"buffer-submitted"' in content(report)
    report.unlink()
    code, _, err = run(capfd, "--device", "refsi", "--quiet", "--report", str(report), "true")
    assert (code, err, report.exists()) == (0, "report: no device was used, no report was written\n", False)


@pytest.mark.parametrize(("option", "text"), [("--trace-file", '{"time":'), ("--profile-file", '{"$schema":')])
def test_records_on_standard_output(
    capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script").write_text("open m\ncb 0x10000000000 0 \n")
    player = compiled("player", tmp_path)
    code, out, _ = run(capfd, "--device", "refsi", option, "-", "sh", "-c", f"{player} < script > /dev/null")
    assert (code, text in out, Path("-").exists()) == (0, True, False)


def test_a_report_has_the_code_that_a_program_loaded(capfd: Capture, tmp_path: Path) -> None:
    """The host's file is named by its script, so it takes --code to know names."""
    script, kernels = tmp_path / "script", VECTORS / "kernels.elf"
    windows = json.loads((VECTORS / "1D_size_0.json").read_text(encoding="utf-8"))["script"][1]
    entry = read_elf(kernels.read_bytes()).symbol("k_empty").address
    launch = CommandBuffer(REFSIDRV).kernel(entry, stack_top=0x1401_0000, return_address=0x6007_7000)
    words = " ".join(map(str, launch.run_instances(4).finish().words))
    script.write_text(f"open m\n{windows}\nelf {kernels}\nw64 0x60077000 0x0000089300000513 0x73\ncb {words}\nclose\n")
    player = compiled("player", tmp_path)
    report, profile, trace = tmp_path / "run.html", tmp_path / "profile.json", tmp_path / "run.jsonl"
    for names, name in ((["--code", str(kernels)], "k_empty"), ([], f"kernel at {entry:#x}")):
        words_ = ["--report", str(report), "--profile-file", str(profile), "--trace-file", str(trace), *names]
        command = ["--device", "refsi", "--quiet", *words_, "sh", "-c", f"{player} < {script}"]
        code, out, _ = run(capfd, *command)
        assert (code, out.splitlines()[-2:]) == (0, ["cb r=0", "close r=0"])
        page, document = content(report), json.loads(profile.read_text(encoding="utf-8"))
        assert "c.jr ra" in page
        frames = [each["name"] for each in document["shared"]["frames"]]
        assert name in frames
        assert [each["name"] for each in document["profiles"] if each["type"] == "sampled"] == [
            "instructions of kernels.elf, device 1" if names else "instructions of device 1"
        ]
        events = [json.loads(line)["event"] for line in trace.read_text(encoding="utf-8").splitlines()]
        assert ("kernels-named" in events) == bool(names)


def test_the_coverage_of_code_that_a_program_loaded(capfd: Capture, tmp_path: Path) -> None:
    script, source, kernels, target = (tmp_path / name for name in ("script", "count.s", "count.elf", "all.info"))
    source.write_text(HARTS)
    kernels.write_bytes(assemble(HARTS, "rv64gc").elf(str(source)))
    windows = json.loads((VECTORS / "1D_size_0.json").read_text(encoding="utf-8"))["script"][1]
    entry = read_elf(kernels.read_bytes()).symbol("count").address
    launch = CommandBuffer(REFSIDRV).kernel(entry, stack_top=0x1401_0000, return_address=0x6007_7000)
    words = " ".join(map(str, launch.run_instances(4).finish().words))
    script.write_text(f"open m\n{windows}\nelf {kernels}\nw64 0x60077000 0x0000089300000513 0x73\ncb {words}\nclose\n")
    player = compiled("player", tmp_path)
    options = ["--device", "refsi", "--quiet", "--coverage", str(target), "--code", str(kernels)]
    code, out, err = run(capfd, *options, "sh", "-c", f"{player} < {script}")
    assert (code, out.splitlines()[-2:]) == (0, ["cb r=0", "close r=0"])
    assert err == f"coverage: 6 of 7 lines of 1 file, added to {target}\n"
    assert Coverage.from_lcov(target.read_text()).files[str(source)].lines[6] == 12


def test_the_exit_status_is_the_programs(capfd: Capture) -> None:
    assert run(capfd, "--", "sh", "-c", "exit 7") == (
        7,
        "",
        "warning: no program has opened a Fletcher platform: nothing was emulated\n",
    )
    assert run(capfd, "--quiet", "--", "sh", "-c", "kill -9 $$")[0] == 128 + signal.SIGKILL


def test_signals_go_to_the_program(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    script = f"trap 'exit 5' TERM; touch {begun}; while :; do sleep 0.01; done"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        [sys.executable, "-c", EXEC, "--quiet", "--", "sh", "-c", script], env=environment
    ) as process:
        while not begun.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.2)
        process.terminate()
        assert process.wait(30) == 5


def test_what_cannot_be_run(capfd: Capture, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"\x00\x01\x02")
    garbage.chmod(0o755)
    for arguments, message in (
        (["--", "no-such-program"], "cannot run no-such-program: No such file or directory"),
        (["--", str(tmp_path)], f"cannot run {tmp_path}: Permission denied"),
        (["--", str(garbage)], f"cannot run {garbage}: Exec format error"),
        (["--device", "tpu", "--", "true"], f"unknown device 'tpu', expected one of {', '.join(ATTACHMENTS)}"),
        (["--kernel", "nothing", "--", "true"], "there is no kernel 'nothing', expected one of "),
        (["--kernel", "/no.py:x", "--", "true"], "cannot read /no.py: No such file or directory"),
        (["--schema", "/no/schema", "--", "true"], "cannot read /no/schema: No such file or directory"),
        ([], "error: missing argument"),
    ):
        code, out, err = run(capfd, *arguments)
        assert (code, out) == (2, "")
        assert message in err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--check", "memory"],
            "--check, --findings and --suppressions require --device rocm, opencl or refsi, or --agent NAME",
        ),
        (["--poison", "1"], "--poison requires --device rocm, --device opencl or --agent NAME"),
        (["--no-large-bar"], "--no-large-bar requires --device rocm or --agent NAME"),
        (
            ["--agent", "gfx900", "--poison", "x"],
            "--poison: 'x' is not a number, expected decimal or 0x hex",
        ),
        (["--trace-waves", "3"], "--trace-waves requires --device rocm, --device refsi or --agent NAME"),
        (["--registers-at", "end"], "--registers-at requires --device rocm or --agent NAME"),
        (
            ["--agent", "gfx900", "--registers-at", "end"],
            "--registers-at requires --report FILE.html",
        ),
        (["--agent", "gfx900", "--findings", "a.json"], "--findings and --suppressions require --check"),
        (["--device", "refsi", "--findings", "a.json"], "--findings and --suppressions require --check"),
        (
            ["--device", "refsi", "--profile", "refsidrv", "--check", "memory"],
            "check 'memory' is not supported in profile refsidrv",
        ),
        (
            ["--agent", "gfx900", "--check", "memory,leaks"],
            "check 'leaks' is not supported for ROCm programs, whose run-time library",
        ),
    ],
)
def test_checks_that_cannot_be(capfd: Capture, options: list[str], text: str) -> None:
    code, _, err = run(capfd, *options, "--", "true")
    assert code
    assert text in err
