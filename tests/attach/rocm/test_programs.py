"""Debian's ROCm, unmodified: rocminfo, small HIP programs on every agent, and what becomes of those that go wrong."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from softcard.cli import main
from softcard.cli.records import NOT_COUNTED
from softcard.core.errors import AccessFault, GuestFault
from softcard.core.limits import TimeLimit
from softcard.device.kfd.events import ProcessClosed, QueueFailed
from softcard.ir import background, llvm
from tests.attach.rocm.rig import AGENTS, HERE, TIMEOUT_S, Served, hip_program, needs_compiler, needs_rocm, served
from tests.cli.test_run import content
from tests.interrupting import wait_for_background

pytestmark = [pytest.mark.oracle, pytest.mark.slow, needs_compiler, needs_rocm]
RIGHT = (
    "saxpy", "reduction", "matmul", "private_memory", "symbols", "doubles", "streams", "registered", "managed",
    "allocation_beside_a_kernel", "copies_beside_a_kernel", "clocks", "rectangles", "fills", "atomics", "lanes",
    "elapsed", "child_process",
)  # fmt: skip
"""Programs that say whether what came out is right."""
KERNELS = "ptr noalias readonly %rec"
"""Is in the LLVM assembly of kernels."""
SDMA = "HSA_ENABLE_SDMA"
NAMES = {"gfx803": "gfx803", "gfx900": "gfx900:xnack-", "gfx906": "gfx906:sramecc-:xnack-"}


@pytest.fixture(scope="module")
def there() -> Iterator[Served]:
    with served("gfx900", time_limit_seconds=TIMEOUT_S) as found:
        yield found


def all_right(done: subprocess.CompletedProcess[str], *names: str) -> None:
    assert done.stdout.splitlines() == [f"{name}: right" for name in names], done.stdout + done.stderr
    assert (done.returncode, done.stderr) == (0, "")


def test_rocminfo_lists_the_agents() -> None:
    with served(*AGENTS) as there:
        done = there.run("rocminfo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"Name: +(gfx\w+)", done.stdout) == list(AGENTS)
    assert re.findall(r"Compute Unit: +(\d+)", done.stdout)[1:] == ["64", "64", "64", "120", "110"]
    assert re.findall(r"Max Waves Per CU: +(\d+)", done.stdout) == ["40", "40", "40", "40", "32"]
    assert re.findall(r"Shader Engines: +(\d+)", done.stdout)[1:] == ["4", "4", "4", "8", "8"]
    named = ["gfx803", "gfx900:xnack-", "gfx906:sramecc-:xnack-", "gfx908:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"]
    assert re.findall(r"Name: +amdgcn-amd-amdhsa--(\S+)", done.stdout) == named


@pytest.mark.parametrize("sdma", ["1", "0"], ids=["copy engines", "copying kernels"])
@pytest.mark.parametrize("agent", AGENTS)
def test_programs(agent: str, sdma: str) -> None:
    with served(agent, time_limit_seconds=TIMEOUT_S) as there:
        done = there.run(hip_program("programs"), *RIGHT, **{SDMA: sdma})
        all_right(done, *RIGHT)
        assert not there.seen(QueueFailed)


def test_the_reference_engine_runs_them() -> None:
    names = ("saxpy", "reduction", "private_memory", "atomics", "lanes")
    with served("gfx900", engine="reference", time_limit_seconds=TIMEOUT_S) as there:
        all_right(there.run(hip_program("programs"), *names), *names)


def test_text_of_kernels(there: Served) -> None:
    done = there.run(hip_program("programs"), "text")
    assert done.stdout.splitlines() == ["lane 0: 42 21.00 text", "lane 1: 42 21.00 text", "text: right"], done.stderr


def test_several_agents() -> None:
    with served("gfx803", "gfx900") as there:
        done = there.run(hip_program("programs"), "agents")
    assert done.stdout.splitlines() == [f"agent {n}: {NAMES[a]}" for n, a in enumerate(("gfx803", "gfx900"))] + [
        "agents: right"
    ], done.stderr


@pytest.mark.parametrize("agent", ["gfx900", "gfx803"])
def test_a_wild_pointer(agent: str) -> None:
    with served(agent) as there:
        done = there.run(hip_program("programs"), "wild")
        failed = there.seen(QueueFailed)
    assert done.returncode == -signal.SIGABRT
    assert "Memory access fault by GPU node-1" in done.stderr, "the run-time library's own message"
    assert len(failed) == 1
    assert isinstance(failed[0].error, AccessFault)
    assert re.search(r"write of 4 bytes at 0x[0-9a-f]+: no memory there", str(failed[0].error))
    places = ("at lane 0", "at pc 0x", "at AQL packet", "at queue", "at kernel _Z11wild_kernelPi")
    assert all(each in str(failed[0].error) for each in places), failed


def test_a_kernel_that_gives_up(there: Served) -> None:
    done = there.run(hip_program("programs"), "device_abort")
    error = there.seen(QueueFailed)[-1].error
    assert done.returncode == -signal.SIGABRT
    assert "HSA_STATUS_ERROR_EXCEPTION" in done.stderr
    assert type(error) is GuestFault
    assert "s_trap 2 (abort trap)" in str(error)
    all_right(there.run(hip_program("programs"), "saxpy"), "saxpy")  # the next program finds all as it should be


def test_a_kernel_without_an_end() -> None:
    with served("gfx900", time_limit_seconds=1.0) as there:
        done = there.run(hip_program("programs"), "endless")
        error = there.seen(QueueFailed)[-1].error
    assert done.returncode == -signal.SIGABRT
    assert isinstance(error, TimeLimit)
    assert "the kernel did not end within 1 s (time_limit_seconds" in str(error)


def test_programs_that_crash_or_are_killed(there: Served) -> None:
    gone = len(there.seen(ProcessClosed))
    assert there.run(hip_program("programs"), "crash").returncode == -signal.SIGSEGV
    with subprocess.Popen(
        [hip_program("programs"), "endless"], env=there.environment(), stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        program.kill()
    all_right(there.run(hip_program("programs"), "saxpy"), "saxpy")
    assert len(there.seen(ProcessClosed)) >= gone + 2
    end = time.monotonic() + TIMEOUT_S
    while there.device.processes:  # the server hears of the end of the last one when that has ended
        assert time.monotonic() < end
        time.sleep(0.01)


def test_programs_side_by_side(there: Served) -> None:
    command = [hip_program("programs"), "saxpy", "streams", "private_memory"]
    programs = [subprocess.Popen(command, env=there.environment(), stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for program in programs:
        said, _ = program.communicate(timeout=TIMEOUT_S)
        assert said == "saxpy: right\nstreams: right\nprivate_memory: right\n"


def test_the_second_run_compiles_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Wherever its run-time library loads the code."""
    wait_for_background()  # kernels of tests before, which would be counted
    compiled: list[int] = []

    def counted(text: str, tier: int) -> bytes:
        if KERNELS in text:  # not of what runs them, which is improved in the background
            compiled.append(tier)
        return compile_ir(text, tier)

    compile_ir = llvm.compile_ir
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(llvm, "compile_ir", counted)
    monkeypatch.setattr(background.PROCESS, "compile_ir", counted)
    names = ("saxpy", "reduction")
    counts = []
    for _ in range(3):
        with served("gfx900", tier="first") as there:
            all_right(there.run(hip_program("programs"), *names), *names)
        counts.append(len(compiled))
        compiled.clear()
    assert counts[0] > 0
    assert counts[1:] == [0, 0]
    wait_for_background()  # it writes code to the folder, which is removed next


def philox(count: int, seed: int) -> list[int]:
    """Words of Philox 4x32-10 (Salmon and others, 2011), counters from 0 on."""
    words: list[int] = []
    for number in range(count // 4):
        c, key = [number, 0, 0, 0], [seed & 0xFFFF_FFFF, seed >> 32]
        for _ in range(10):
            first, second = 0xD251_1F53 * c[0], 0xCD9E_8D57 * c[2]
            c = [
                second >> 32 ^ c[1] ^ key[0], second & 0xFFFF_FFFF,
                first >> 32 ^ c[3] ^ key[1], first & 0xFFFF_FFFF,
            ]  # fmt: skip
            key = [key[0] + 0x9E37_79B9 & 0xFFFF_FFFF, key[1] + 0xBB67_AE85 & 0xFFFF_FFFF]
        words += c
    return words


def sobol(count: int) -> list[int]:
    """The first dimension of Sobol's sequence, in the order of Gray's code."""
    return [int(f"{number ^ number >> 1:032b}"[::-1], 2) for number in range(count)]


needs_libraries = pytest.mark.skipif(
    not Path("/usr/include/rocrand").exists() or not Path("/usr/include/rocsparse").exists(),
    reason="no rocRAND or rocSPARSE: apt-get install librocrand-dev librocsparse-dev",
)


LIBRARY_AGENTS = ("gfx900", "gfx908", "gfx90a")
"""Some of the agents for which Debian 12's libraries have code."""


def libraries() -> str:
    return hip_program("libraries", "rocrand", "rocsparse", agents=LIBRARY_AGENTS)


def with_debug_information() -> str:
    return hip_program("programs", debug=True, agents=("gfx900",))


@needs_libraries
@pytest.mark.parametrize("agent", LIBRARY_AGENTS)
def test_random_numbers_bit_for_bit(agent: str) -> None:
    with served(agent, time_limit_seconds=TIMEOUT_S) as there:
        done = there.run(libraries(), "philox", "sobol", "xorwow")
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr
    said = {name: words for name, *words in (line.split() for line in done.stdout.splitlines())}
    assert [int(word, 16) for word in said["philox"]] == philox(4096, 12345)
    assert [int(word, 16) for word in said["sobol"]] == sobol(4096)
    assert said["xorwow"] == ["0"], "words that differ from those of the generator on this processor"


@needs_libraries
@pytest.mark.parametrize("agent", LIBRARY_AGENTS)
def test_sparse_matrices(agent: str) -> None:
    with served(agent, time_limit_seconds=TIMEOUT_S) as there:
        done = there.run(libraries(), "sparse")
    assert done.stdout == "saxpyi 0\nsdoti 0\nscsrmv 0\n", done.stderr


def test_exec(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    reported, trace = tmp_path / "told.json", tmp_path / "trace.jsonl"
    report = tmp_path / "run.html"
    words = ["--summary-file", str(reported), "--trace-file", str(trace), "--time-limit", "60", "--report", str(report)]
    code = main(["exec", "--agent", "gfx803", "--agent", "gfx900", *words, "--", hip_program("programs"), "wild"])
    out, err = capfd.readouterr()
    assert (code, out, err.splitlines()[-1]) == (128 + signal.SIGABRT, "", f"report: {report}")
    assert '"queue-errored"' in content(report)
    assert "error: write of 4 bytes at 0x" in err
    assert "= note: on agent gfx803\n" in err
    document = json.loads(reported.read_text(encoding="utf-8"))
    assert (document["agents"], document["programs"]) == (["gfx803", "gfx900"], 1)
    assert [each["agent"] for each in document["errors"]] == ["gfx803"]
    assert document["calls"]["CREATE_QUEUE"] >= 1
    events = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    assert events[0]["event"] == "process-opened"
    assert events[-1]["event"] == "process-closed"
    assert {"packet-started", "queue-errored", "called", "queue-failed"} <= {each["event"] for each in events}
    assert shutil.which("rocminfo")
    assert main(["exec", "--device", "rocm", "--quiet", "--report", str(report), "--", "rocminfo"]) == 0
    assert "gfx900" in capfd.readouterr().out


def test_exec_shows_the_code(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Kernels by name, with counts; where a check keeps instructions from being counted, the report says so."""
    report, profile, trace = tmp_path / "run.html", tmp_path / "profile.json", tmp_path / "trace.jsonl"
    words = ["--report", str(report), "--profile-file", str(profile), "--trace-file", str(trace)]
    assert main(["exec", "--agent", "gfx900", *words, "--", hip_program("programs"), "saxpy"]) == 0
    page, document = content(report), json.loads(profile.read_text(encoding="utf-8"))
    assert "v_fma_f32" in page or "v_mac_f32" in page
    frames = [each["name"] for each in document["shared"]["frames"]]
    assert "kernel-dispatch-packet" not in frames
    (kernel,) = [each for each in frames if "saxpy" in each]
    assert any("code at 0x" in each["name"] for each in document["profiles"] if each["type"] == "sampled")
    events = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    assert kernel in [name for each in events if each["event"] == "code-loaded" for name in each["kernels"]]
    assert not [each for each in events if each["event"].startswith("wave")]
    words = ["--trace-waves", "3", "--trace-file", str(trace), "--report", str(report)]
    assert main(["exec", "--agent", "gfx900", *words, "--", hip_program("programs"), "saxpy"]) == 0
    events = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    begun, ended, left = (
        Counter((each["queue"], each["index"]) for each in events if each["event"] == kind)
        for kind in ("wave-started", "wave-ended", "waves-left-out")
    )
    assert begun == ended
    assert begun.keys() == left.keys()
    assert 0 < max(begun.values()) <= 3
    assert re.search("queue [0-9]+ wave 0", content(report))
    words = ["--check", "init", "--report", str(report)]
    assert main(["exec", "--agent", "gfx900", *words, "--", hip_program("programs"), "saxpy"]) == 0
    assert NOT_COUNTED.format("with --check init, only --engine reference counts instructions") in content(report)
    capfd.readouterr()


def test_exec_shows_registers(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of kernels that the program has loaded itself, by their names."""
    report, trace = tmp_path / "run.html", tmp_path / "trace.jsonl"
    words = ["--trace-file", str(trace), "--report", str(report), "--registers-at", "end"]
    words += ["--registers-at", "_Z12saxpy_kernelfPKfPfi", "--registers-at", "_Z5saxpy"]
    assert main(["exec", "--agent", "gfx900", *words, "--", hip_program("programs"), "saxpy"]) == 0
    out, err = capfd.readouterr()
    assert out == "saxpy: right\n"
    assert "--registers-at _Z5saxpy: no kernel of this name ran" in err
    events = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    taken = [each for each in events if each["event"] == "registers-taken"]
    assert {each["why"] for each in taken} == {"before", "end"}
    assert {each["instruction"] for each in taken if each["why"] == "end"} == {"s_endpgm"}
    assert len({each["pc"] for each in taken if each["why"] == "before"}) == 1
    assert len({(each["queue"], each["index"]) for each in taken}) == 1
    assert '["exec","0xffffffffffffffff"]' in content(report)


def test_exec_names_lines(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of the source: findings, faults, the report and the profile, where the program has debug information."""
    found, reported, profile = tmp_path / "found.sarif", tmp_path / "told.json", tmp_path / "profile.json"
    report = tmp_path / "run.html"
    words = [
        "--check",
        "memory",
        "--findings",
        str(found),
        "--summary-file",
        str(reported),
        "--profile-file",
        str(profile),
    ]
    words += ["--report", str(report)]
    code = main(["exec", "--agent", "gfx900", *words, "--", with_debug_information(), "beyond"])
    _, err = capfd.readouterr()
    assert code == 128 + signal.SIGABRT  # what it stores to lies on no page of its own
    source = HERE / "programs.hip"
    line = 1 + next(n for n, each in enumerate(source.read_text().splitlines()) if "void beyond_kernel" in each)
    document = json.loads(reported.read_text(encoding="utf-8"))
    (one,), (error,) = document["findings"], document["errors"]
    assert one["source"] == f"{source}:{line}"
    arrow, code = rf"--> .*programs.hip:{line}:\d+", r"in beyond_kernel\+0x[0-9a-f]+ .*: global_store_dword "
    place = rf"{arrow}\n.*\n.*\n.*\^.*\n.*\n.*{code}"
    assert len(re.findall(place, err)) == 2, "the fault and the finding"
    words = rf"\(_Z13beyond_kernelPii\+0x[0-9a-f]+, global_store_dword [^)]*, {re.escape(one['source'])}\)"
    assert re.search(words, json.dumps(error))
    assert re.search(words, content(report))
    assert re.search(rf'"at":"[^"]*programs.hip:{line}:\d+"', content(report))
    assert re.search(r'"code":"beyond_kernel\+0x[0-9a-f]+","insn":"global_store_dword ', content(report))
    (run,) = json.loads(found.read_text(encoding="utf-8"))["runs"]
    (place,) = (each["locations"][0]["physicalLocation"] for each in run["results"])
    assert str(source).endswith(f"/{place['artifactLocation']['uri']}")
    assert place["region"]["startLine"] == line
    frames = json.loads(profile.read_text(encoding="utf-8"))["shared"]["frames"]
    assert one["source"] in [each["name"] for each in frames]


def test_exec_shows_registers_at_a_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report, trace = tmp_path / "run.html", tmp_path / "trace.jsonl"
    lines = (HERE / "programs.hip").read_text().splitlines()
    line = 1 + next(n for n, each in enumerate(lines) if "fmaf(" in each)
    words = ["--registers-at", f"programs.hip:{line}", "--registers-at", "programs.hip:1"]
    words += ["--trace-file", str(trace), "--report", str(report)]
    assert main(["exec", "--agent", "gfx900", *words, "--", with_debug_information(), "saxpy"]) == 0
    _, err = capfd.readouterr()
    assert "--registers-at programs.hip:1: no code that ran comes from that line" in err
    assert f"programs.hip:{line}: no" not in err
    events = [json.loads(each) for each in trace.read_text(encoding="utf-8").splitlines()]
    taken = [each for each in events if each["event"] == "registers-taken"]
    assert taken
    assert {each["why"] for each in taken} == {"before"}


def test_exec_names_lines_of_code_that_is_compiled_now(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """By a program that another one starts: its run-time library tells of the code object, no file has it."""
    words = ["--report", str(tmp_path / "run.html"), "--", "sh", "-c", f"{hip_program('features')} compiled_wild"]
    assert main(["exec", "--agent", "gfx900", *words]) != 0
    _, err = capfd.readouterr()
    assert re.search(r"  --> .*CompileSource:4:\d+\n", err)
    (place,) = re.findall(r"= note: in wrong\+0x[0-9a-f]+ \(pc (0x[0-9a-f]+)\): global_store_dword ", err)
    rows = re.findall(rf'\["{place}",[^]]*\]', content(tmp_path / "run.html"))
    assert any("global_store_dword" in row for row in rows)
    assert "CompileSource" in content(tmp_path / "run.html")


def test_exec_with_checks(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What is found is told when the program has ended, whose exit status stands."""
    found, reported, profile = tmp_path / "found.sarif", tmp_path / "told.json", tmp_path / "profile.json"
    words = [
        "--check",
        "memory,init",
        "--findings",
        str(found),
        "--summary-file",
        str(reported),
        "--profile-file",
        str(profile),
    ]
    code = main(["exec", "--agent", "gfx900", *words, "--", hip_program("programs"), "saxpy", "beyond"])
    out, err = capfd.readouterr()
    assert (code, out) == (128 + signal.SIGABRT, "saxpy: right\n")
    assert re.search(r"error\[memory/out-of-bounds\]: write of 4 bytes, 64 bytes past the end of allocation \d+\n", err)
    assert re.search(r"note: allocation \d+.*: 4,096 bytes at 0x", err)
    assert re.search(r"beyond_kernel\+0x[0-9a-f]+ \(pc 0x[0-9a-f]+\)(: |\n.*\n.*)global_store_dword ", err)
    assert "= note: 12 occurrences\n" in err
    assert err.splitlines()[-1] == "1 finding"
    (one,) = json.loads(reported.read_text(encoding="utf-8"))["findings"]
    assert (one["kernel"], one["count"]) == ("_Z13beyond_kernelPii", 12)
    (run,) = json.loads(found.read_text(encoding="utf-8"))["runs"]
    assert [each["ruleId"] for each in run["results"]] == ["memory/out-of-bounds"]
    (queue, *_) = json.loads(profile.read_text(encoding="utf-8"))["profiles"]
    assert queue["events"]
