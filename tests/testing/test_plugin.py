"""The plug-in of pytest, as a user's tests meet it: devices, options, and what the report of a failure shows."""

from __future__ import annotations

import base64
import gzip
import json
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from softcard import fletcher, hsa, refsi
from softcard.core.checks import default_checks
from softcard.core.errors import WireError
from softcard.core.event import Probes
from softcard.core.findings import Finding
from softcard.core.lint import Lint
from softcard.device.hsa.events import DoorbellRung, QueueErrored
from softcard.image.hsa.code_object import read_code_object
from softcard.testing import watch as watching
from softcard.testing.parameter_ids import id_of

Pytester = pytest.Pytester

SAXPY = """
import numpy as np
import pytest
from softcard import hsa

def saxpy(gpu, want, agent="gfx900"):
    x, y = np.ones(64, np.float32), np.ones(64, np.float32)
    gpu.run(hsa.demo_code(agent), "saxpy", grid=64, args=[2.0, x, y])
    assert y[0] == want
"""


def run(pytester: Pytester, source: str, *options: str) -> pytest.RunResult:
    """Run a file of tests with the filters of warnings that Python has at first.

    It runs in this process, which has imported everything already; tests of what differs use a process of its own."""
    pytester.makepyfile(test_it=source)
    with warnings.catch_warnings():
        warnings.resetwarnings()
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def traces(folder: Path) -> list[str]:
    return [name for name in files(folder) if not name.endswith("-report.html")]


def report(folder: Path) -> str:
    """The texts of the only report in a folder: its title and its data."""
    [name] = [name for name in files(folder) if name.endswith("-report.html")]
    page = (folder / name).read_text(encoding="utf-8")
    [title] = re.findall("<title>(.*?)</title>", page)
    packed = max(re.findall(r"[A-Za-z0-9+/=]{200,}", page), key=lambda found: found.startswith("H4sI"))
    return f"{title}\n{gzip.decompress(base64.b64decode(packed)).decode('utf-8', 'replace')}"


@pytest.mark.slow
def test_each_fixture_opens_its_device(pytester: Pytester) -> None:
    result = run(
        pytester,
        SAXPY
        + """
def test_gpu(softcard_gpu):
    saxpy(softcard_gpu, 3)
    assert softcard_gpu.device.settings.time_limit_seconds == 60

def test_refsi(softcard_refsi):
    assert softcard_refsi.info.harts_per_core == 4
    with softcard_refsi.array([1, 2, 3]) as buffer:
        assert buffer.array.sum() == 6

def test_acceldev(softcard_acceldev):
    with softcard_acceldev.open_context() as context:
        assert len(context.create_buffer(4096).array("u4")) == 1024

@pytest.mark.softcard_fletcher("sum")
def test_fletcher(softcard_fletcher):
    assert softcard_fletcher.read_mmio(1) == 1

@pytest.mark.softcard_gpu("gfx803", engine="reference", time_limit_seconds=5)
def test_marked(softcard_gpu):
    saxpy(softcard_gpu, 3, "gfx803")
    settings = softcard_gpu.device.settings
    assert (settings.engine, settings.time_limit_seconds) == ("reference", 5)

@pytest.mark.parametrize("softcard_gpu", ["gfx700", {"engine": "reference"}], indirect=True)
def test_parametrised(softcard_gpu):
    made = (softcard_gpu.device.agent.name, softcard_gpu.device.settings.engine)
    assert made in (("gfx700", "jit"), ("gfx900", "reference"))

@pytest.fixture
def kept(softcard_gpu):
    yield softcard_gpu
    softcard_gpu.array(4)  # still open when what uses it ends

def test_end(kept):
    pass
""",
        *("--strict-markers", "--softcard-trace-dir", "kept"),
    )
    result.assert_outcomes(passed=8)
    assert files(pytester.path / "kept") == []


@pytest.mark.slow
def test_a_failure_shows_the_verdict_the_last_events_and_its_trace(pytester: Pytester) -> None:
    result = run(
        pytester,
        SAXPY
        + """
def test_fault(softcard_gpu):
    softcard_gpu.run(hsa.demo_code("gfx900"), "saxpy", grid=64, args=[2.0, 64, 128])

def test_number(softcard_gpu):
    saxpy(softcard_gpu, 4)
""",
        *("--softcard-trace-dir", "kept", "--junit-xml", "junit.xml"),
    )
    result.assert_outcomes(failed=2)
    names = traces(pytester.path / "kept")
    assert [name.rpartition("-")[0][:-9] for name in names] == ["test_it-py-test_fault", "test_it-py-test_number"]
    reports = [name.replace("-gpu.jsonl", "-report.html") for name in names]
    assert files(pytester.path / "kept") == sorted([*names, *reports])
    result.stdout.fnmatch_lines(
        [
            "*AccessFault: read of 4 bytes at 0x40: no memory there, at lane 0, at pc 0x*",
            "*softcard verdict*",
            "error: read of 4 bytes at 0x40: no memory there",
            "  --> saxpy+0x* (pc 0x*)",
            "   | global_load_dword *",
            "   | ^* lane 0, wave 0, work-group 0,0,0",
            "   = note: at AQL packet 0, queue 0, kernel saxpy",
            "*softcard gpu: last events*",
            "* packet-started queue=0 index=0 type=KERNEL_DISPATCH *",
            "* queue-errored queue=0 index=0 *",
            "*softcard gpu: trace*",
            f"*{names[0]}",
            "*softcard report*",
            f"*{reports[0]}",
            "*assert *3.0* == 4*",
            "*softcard verdict*",
            "no rule of the interface was broken: the test's own expectation failed",
            "* packet-completed *",
            f"*{names[1]}",
            f"*{reports[1]}",
        ]
    )
    assert "def _pieces" not in result.stdout.str(), "frames inside of Softcard"
    events = [json.loads(line)["event"] for line in (pytester.path / "kept" / names[0]).read_text().splitlines()]
    assert events[-2:] == ["queue-errored", "queue-inactivated"]
    junit = (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert f'name="softcard_gpu_trace" value="{pytester.path / "kept" / names[0]}"' in junit
    assert f'name="softcard_report" value="{pytester.path / "kept" / reports[0]}"' in junit


def test_clauses_of_causes_are_named() -> None:
    from softcard.core.errors import RuleError
    from softcard.core.rule import rules_of

    rule = rules_of("softcard.device.acceldev")("isolation")
    cause = RuleError("a value was lost", rule=rule).at("register", "INTR")
    try:
        try:
            raise cause
        except RuleError as error:
            raise ValueError("the driver gave up") from error
    except ValueError as error:
        text = watching.verdict(error, [Finding("memory", "leak", "4 bytes")], [Lint(0, "double-fence", "two at once")])
    assert text.splitlines() == [
        "error[acceldev/isolation]: a value was lost",
        "   = note: at register INTR",
        f"   = rule: acceldev/isolation: {rule.text} ({rule.clause})",
        "",
        "error[memory/leak]: 4 bytes",
        "",
        "warning[double-fence]: two at once",
    ]


@pytest.mark.slow
def test_the_command_line_chooses_engine_limit_and_format(pytester: Pytester) -> None:
    result = run(
        pytester,
        SAXPY
        + """
def test_chosen(softcard_gpu, softcard_refsi, softcard_acceldev):
    assert softcard_gpu.device.settings.engine == "reference"
    assert softcard_gpu.device.settings.time_limit_seconds == 7
    assert softcard_refsi.port.settings.engine == "reference"
    saxpy(softcard_gpu, 3)
""",
        *("--softcard-engine", "reference", "--softcard-time-limit", "7", "--softcard-trace", "all"),
        *("--softcard-trace-format", "chrome", "--softcard-trace-dir", "kept"),
    )
    result.assert_outcomes(passed=1)
    names = traces(pytester.path / "kept")
    assert [name.rpartition("-")[2] for name in names] == ["acceldev.json", "gpu.json", "refsi.json"]
    assert "dispatch" in (pytester.path / "kept" / names[1]).read_text()
    for name in names:
        assert json.loads((pytester.path / "kept" / name).read_text())["traceEvents"]


def test_a_failing_test_leaves_a_page_to_look_at(pytester: Pytester) -> None:
    result = run(
        pytester,
        SAXPY + "def test_b(softcard_gpu): saxpy(softcard_gpu, 4)",
        *("--softcard-trace-format", "html", "--softcard-trace-dir", "kept"),
    )
    result.assert_outcomes(failed=1)
    [name] = traces(pytester.path / "kept")
    assert name.endswith("-gpu.html")
    assert "<!doctype html>" in (pytester.path / "kept" / name).read_text()
    result.stdout.fnmatch_lines([f"*{name}"])


def test_a_report_has_the_failure_the_findings_and_the_code(pytester: Pytester) -> None:
    result = run(
        pytester,
        """
import numpy as np
from softcard import hsa, refsi

def test_both(softcard_gpu, softcard_refsi):
    x, y = softcard_gpu.array(np.ones(63, np.float32)), np.ones(64, np.float32)
    softcard_gpu.run(hsa.demo_code("gfx900"), "saxpy", grid=64, args=[2.0, x, y])
    softcard_refsi.load_elf(refsi.demo_kernels())
    assert y[0] == 4, "a sum"
""",
        *("--softcard-check", "memory", "--softcard-trace-dir", "kept"),
    )
    result.assert_outcomes(failed=1)
    text = report(pytester.path / "kept")
    assert text.startswith("test_it.py::test_both ")
    for part in (
        "AssertionError: a sum",
        "softcard_refsi.load_elf",
        "memory/out-of-bounds",
        "0 bytes past the end of array",
        "global_load_dword",
        "vector_add",
        "packet-started",
    ):
        assert part in text, part


def test_a_report_of_devices_that_a_test_opened_itself(pytester: Pytester) -> None:
    source = """
from softcard import Gpu
from softcard.core.findings import Finding

def test_mine():
    with Gpu.open() as gpu:
        gpu.device.findings.append(Finding("races", "write-read", "a barrier is missing"))

def test_right():
    Gpu.open().close()
"""
    result = run(pytester, source, "--softcard-check", "races", "--softcard-trace-dir", "kept")
    result.assert_outcomes(passed=1, failed=1)
    assert "a barrier is missing" in report(pytester.path / "kept")


def test_files_that_cannot_be_written_are_no_reason_to_stop(pytester: Pytester) -> None:
    (pytester.path / "kept").write_text("not a folder")
    source = SAXPY + "def test_b(softcard_gpu): saxpy(softcard_gpu, 4)"
    result = run(pytester, source, "--softcard-trace-dir", "kept")
    result.assert_outcomes(failed=1)
    for section in ("softcard gpu: trace", "softcard report"):
        result.stdout.fnmatch_lines(
            [f"*{section}*", "cannot be written: *File exists: *kept'; name another folder with --softcard-trace-dir"]
        )


def test_a_report_of_a_failure_at_the_end_of_a_test(pytester: Pytester) -> None:
    """Its code cannot be read any more, and the failure of the call stays."""
    source = SAXPY + (
        "import pytest\n"
        "from softcard.core.findings import Finding\n"
        "@pytest.fixture\n"
        "def late(softcard_gpu):\n"
        "    yield softcard_gpu\n"
        "    assert 0, 'the second'\n"
        "def test_end(late):\n"
        "    saxpy(late, 4)\n"
    )
    run(pytester, source, "--softcard-trace-dir", "kept").assert_outcomes(failed=1, errors=1)
    text = report(pytester.path / "kept")
    assert "AssertionError: the second" in text
    assert "assert np.float32(3.0) == 4" in text


@pytest.mark.parametrize("traced", ["failed", "all", "off"])
def test_what_is_kept(pytester: Pytester, traced: str) -> None:
    result = run(
        pytester,
        SAXPY + "def test_a(softcard_gpu): saxpy(softcard_gpu, 3)\ndef test_b(softcard_gpu): saxpy(softcard_gpu, 4)",
        *("--softcard-trace", traced, "--softcard-report", "off", "--basetemp", "base"),
    )
    result.assert_outcomes(passed=1, failed=1)
    kept = [name.split("-")[2] for name in files(pytester.path / "base" / "softcard")]
    assert kept == {"failed": ["test_b"], "all": ["test_a", "test_b"], "off": []}[traced]
    assert ("softcard verdict" in result.stdout.str()) is True
    assert ("last events" in result.stdout.str()) is (traced != "off")


@pytest.mark.slow
def test_processes_side_by_side(pytester: Pytester) -> None:
    """Every test has a trace of its own, and each report reaches the terminal."""
    source = SAXPY + "@pytest.mark.parametrize('n', range(6))\ndef test_n(softcard_gpu, n): saxpy(softcard_gpu, 2 + n)"
    result = run(pytester, source, "-n", "2", "--softcard-trace-dir", "kept")
    result.assert_outcomes(passed=1, failed=5)
    names = traces(pytester.path / "kept")
    assert [name[: len("test_it-py-test_n-0")] for name in names] == [f"test_it-py-test_n-{n}" for n in (0, 2, 3, 4, 5)]
    text = result.stdout.str()
    assert all(name in text for name in names)


def test_checks(pytester: Pytester) -> None:
    """`lints` makes what is accepted an error; `coherence` fails a test whose device found something."""
    result = run(
        pytester,
        """
def test_lints(softcard_acceldev, softcard_refsi, softcard_gpu):
    assert softcard_acceldev.port.device.settings.lints == "raise"
    assert softcard_refsi.port.settings.lints == "raise"
    assert softcard_gpu.device.settings.lints == "raise"
    assert softcard_gpu.device.settings.coherence == softcard_refsi.port.settings.coherence == "strict"

def test_found(softcard_gpu):
    from softcard.core.findings import Finding
    softcard_gpu.device.findings.append(Finding("coherence", "late-store", "what a strict device found"))
""",
        *("--softcard-check", "lints, coherence"),
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "the test's own expectations hold, but the device found:",
            "error[[]coherence/late-store]: what a strict device found",
        ]
    )


def test_checks_of_memory(pytester: Pytester) -> None:
    """Errors that a check finds fail a test whose own expectations hold; warnings become pytest's."""
    result = run(
        pytester,
        """
import numpy as np
from softcard import hsa

def test_array(softcard_gpu, softcard_refsi, softcard_acceldev):
    assert softcard_gpu.device.settings.check == "memory,leaks,fidelity"
    assert softcard_refsi.port.settings.check == "memory,leaks"
    x, y = softcard_gpu.array(np.ones(63, np.float32)), softcard_gpu.array(np.ones(64, np.float32))
    softcard_gpu.run(hsa.demo_code("gfx900"), "saxpy", grid=64, args=[2.0, x, y])
    softcard_gpu.free(x)
    softcard_gpu.free(y)

def test_leak(softcard_gpu):
    softcard_gpu.zeros(64, np.float32)
""",
        *("--softcard-check", "memory,leaks,fidelity"),
    )
    result.assert_outcomes(passed=1, failed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "the test's own expectations hold, but the device found:",
            "error[[]memory/out-of-bounds]: read of 4 bytes, 0 bytes past the end of array*",
            "note: array float32[[]63], allocated here: 252 bytes at 0x*",
            "  --> test_it.py:7",
            " 7 |     x, y = softcard_gpu.array(np.ones(63, np.float32)), *",
            "*PytestWarning: softcard gpu: warning[[]memory/leak]: memory was not freed before the device was closed: "
            "array float32[[]64]",
            "*= softcard findings =*",
            "saxpy+0x* (pc 0x*): error[[]memory/out-of-bounds]: read of 4 bytes, 0 bytes past the end of array *",
        ]
    )


def test_checks_reach_devices_that_tests_open_themselves(pytester: Pytester) -> None:
    """However they are opened: also by whole settings, in fixtures of the tests, and on devices that lack a check."""
    result = run(
        pytester,
        """
import numpy as np
import pytest
from softcard import Gpu, RefSi, hsa

def saxpy(gpu, free=True):
    x, y = gpu.array(np.ones(63, np.float32)), gpu.array(np.ones(64, np.float32))
    gpu.run(hsa.demo_code("gfx900"), "saxpy", grid=64, args=[2.0, x, y])
    if free:
        gpu.free(x)
        gpu.free(y)

@pytest.fixture(scope="module")
def mine():
    with Gpu.open("gfx900") as gpu:
        yield gpu

def test_open():
    with Gpu.open("gfx900") as gpu:
        saxpy(gpu)

def test_settings():
    with Gpu(hsa.HsaDevice("gfx900", hsa.Settings(lints="off"))) as gpu:
        saxpy(gpu)

def test_expectation():
    with Gpu.open("gfx900") as gpu:
        saxpy(gpu)
    assert 1 + 1 == 3

def test_fixture(mine):
    saxpy(mine)

def test_right(mine):
    with RefSi.open() as device, Gpu.open("gfx900", check="") as gpu:
        saxpy(gpu, free=False)
        assert (device.port.settings.checks, gpu.device.settings.checks) == ({"memory"}, set())
        assert (device.port.settings.lints, mine.device.settings.lints) == ("raise", "raise")

def test_both(softcard_gpu):
    with Gpu.open("gfx900") as gpu:
        saxpy(gpu)
""",
        *("--softcard-check", "memory,fidelity,lints"),
    )
    result.assert_outcomes(passed=1, failed=5)
    heading = "the test's own expectations hold, but a device that it opened found:"
    assert result.outlines.count(heading) == 4  # as lines: with CI=true the short summary repeats them in full
    result.stdout.fnmatch_lines(
        [
            "*softcard verdict*",
            "the test's own expectation failed; the device found:",
            "error[[]memory/out-of-bounds]: read of 4 bytes*",
            "*= softcard findings =*",
            "saxpy+0x* (5 tests)",
        ]
    )
    assert "FindingWarning" not in result.stdout.str(), "each finding once"
    assert default_checks() == ""


def test_each_test_fails_for_its_own_accesses_on_a_device_of_the_module(pytester: Pytester) -> None:
    """Also if the same finding is stored already, and if the device stores no more findings."""
    result = run(
        pytester,
        """
import numpy as np
import pytest
from softcard import Gpu, hsa

@pytest.fixture(scope="module", params=[100, 1])
def shared(request):
    with Gpu.open("gfx900", finding_limit=request.param) as gpu:
        yield gpu, [gpu.array(np.ones(63, np.float32)), gpu.array(np.ones(63, np.float32))]

def saxpy(shared, grid):
    gpu, arrays = shared
    gpu.run(hsa.demo_code("gfx900"), "saxpy", grid=grid, args=[2.0, *arrays])

@pytest.mark.parametrize("grid", [64, 64, 63, 64], ids=["first", "again", "right", "last"])
def test_saxpy(shared, grid):
    saxpy(shared, grid)
""",
        *("--softcard-check", "memory", "-v"),
    )
    result.assert_outcomes(passed=2, failed=6)
    passed = [line.split()[0] for line in result.outlines if " PASSED" in line]
    assert passed == ["test_it.py::test_saxpy[100-right]", "test_it.py::test_saxpy[1-right]"]


def test_a_test_that_fails_by_itself_reports_what_the_device_found(pytester: Pytester) -> None:
    """Which is most likely why."""
    result = run(
        pytester,
        """
from softcard.core.findings import Finding

def test_sum(softcard_gpu):
    softcard_gpu.device.findings.append(Finding("races", "write-read", "a barrier is missing"))
    assert 1 + 1 == 3

def test_found(softcard_gpu):
    softcard_gpu.device.findings.append(Finding("races", "write-read", "a barrier is missing"))
""",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*softcard verdict*",
            "the test's own expectation failed; the device found:",
            "error[[]races/write-read]: a barrier is missing",
            "the test's own expectations hold, but the device found:",
            "error[[]races/write-read]: a barrier is missing",
            "*= softcard findings =*",
            "error[[]races/write-read]: a barrier is missing (2 tests)",
        ]
    )
    # The short summary of CI shows whole messages.
    shown = result.stdout.str().partition("short test summary info")[0]
    assert shown.count("error[races/write-read]") == 3, "each finding once, and in the summary"
    assert "no rule of the interface was broken" not in result.stdout.str()


@pytest.mark.slow
def test_findings_of_processes_side_by_side_are_in_one_summary(pytester: Pytester) -> None:
    source = """
import pytest
from softcard.core.findings import Finding

@pytest.mark.parametrize("n", range(3))
def test_found(softcard_gpu, n):
    softcard_gpu.device.findings.append(Finding("races", "write-read", "a barrier is missing"))
"""
    result = run(pytester, source, "-n", "2")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        ["*= softcard findings =*", "error[[]races/write-read]: a barrier is missing (3 tests)"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--softcard-check", "memry"], "unknown check memry, expected some of lints, coherence, memory, "),
        (["--softcard-check", "memry"], "did you mean 'memory'"),
        (["--softcard-time-limit", "soon"], "soon is not a time limit, expected a number of seconds above 0"),
        (["--softcard-time-limit", "-1"], "-1 is not a time limit, expected a number of seconds above 0"),
        (["--softcard-engine", "fast"], "invalid choice: 'fast'"),
    ],
)
def test_options_that_are_none(pytester: Pytester, options: list[str], message: str) -> None:
    pytester.makepyfile("def test(): pass")
    result = pytester.runpytest_inprocess(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


OPTIONS_SEEN = """
from softcard import Gpu

def test_seen(softcard_gpu, softcard_refsi):
    settings = softcard_gpu.device.settings
    assert (settings.engine, settings.check, settings.time_limit_seconds) == {seen}
    with Gpu.open("gfx900") as gpu:
        assert gpu.device.settings.check == settings.check

def test_failed(softcard_gpu):
    softcard_gpu.signal()
    assert 0
"""


@pytest.mark.parametrize("names", ['["memory", "leaks"]', '"memory, leaks"'])
def test_options_in_the_configuration_file(pytester: Pytester, names: str) -> None:
    """With the same meaning as on the command line, which overrides them."""
    pytester.makepyprojecttoml(
        f"[tool.pytest.ini_options]\nsoftcard_check = {names}\nsoftcard_engine = 'reference'\n"
        "softcard_time_limit = 7\nsoftcard_trace = 'all'\nsoftcard_trace_dir = 'kept/here'\n"
        "softcard_trace_format = 'text'\nsoftcard_report = 'off'\n"
    )
    run(pytester, OPTIONS_SEEN.format(seen=("reference", "memory,leaks", 7.0))).assert_outcomes(passed=1, failed=1)
    kept = [name.rpartition("-")[2] for name in files(pytester.path / "kept" / "here")]
    assert sorted(kept) == ["gpu.txt", "gpu.txt", "refsi.txt"]
    result = run(
        pytester,
        OPTIONS_SEEN.format(seen=("jit", "", 9.0)),
        *("--softcard-check=", "--softcard-engine=jit", "--softcard-time-limit=9", "--softcard-trace=off"),
        *("--softcard-report=failed", "--softcard-trace-dir=there"),
    )
    result.assert_outcomes(passed=1, failed=1)
    assert [name.rpartition("-")[2] for name in files(pytester.path / "there")] == ["report.html"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("softcard_check = ['memry']", "softcard_check: unknown check memry, expected some of lints, coherence, "),
        ("softcard_time_limit = 'soon'", "softcard_time_limit: soon is not a time limit, expected a number of "),
        ("softcard_engine = 'fast'", "softcard_engine is 'fast', expected one of jit, reference"),
    ],
)
def test_options_in_the_file_that_are_none(pytester: Pytester, line: str, message: str) -> None:
    path = pytester.makepyprojecttoml(f"[tool.pytest.ini_options]\n{line}\n")
    pytester.makepyfile("def test(): pass")
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {path}: {message}*"])


PARAMETERS = """
import pytest
from softcard import hsa

@pytest.mark.parametrize("softcard_gpu", ["gfx700", {"engine": "reference", "poison": 0}], indirect=True)
def test_device(softcard_gpu):
    assert softcard_gpu.device.agent.name == "gfx700"

@pytest.mark.parametrize("code", [hsa.demo_code("gfx900"), hsa.demo_code("gfx803")])
def test_code(code):
    assert code
"""


def test_ids_are_short_and_last_failed_finds_them(pytester: Pytester) -> None:
    pytester.makepyfile(test_it=PARAMETERS)
    first = pytester.runpytest_subprocess("-v")
    first.assert_outcomes(passed=3, failed=1)
    names = ["test_device[[]gfx700] PASSED*", "test_device[[]engine=reference-poison=0] FAILED*"]
    names += [f"test_code[[]{agent}-{hsa_kernel()}] PASSED*" for agent in ("gfx900", "gfx803")]
    first.stdout.fnmatch_lines([f"*::{name}" for name in names])
    again = pytester.runpytest_subprocess("-v", "--lf")
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines([f"*::{names[1]}"])


def hsa_kernel() -> str:
    return min(read_code_object(hsa.demo_code("gfx900")).kernels)


@dataclass
class Named:
    """Somebody else's."""

    name: str = "theirs"


SOURCE = "// a comment\n__kernel void doubled(__global int *x) {}\n"


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        ({"engine": "jit", "memory": None}, "softcard_gpu", "engine=jit-memory=None"),
        ({"kernel": fletcher.find("sum")}, "softcard_fletcher", "kernel=sum"),
        ({"code": Named()}, "softcard_gpu", "code=Named"),
        ({"engine": "jit"}, "other", None),
        (fletcher.find("sum"), "kernel", "sum"),
        (hsa.Settings, "settings", None),
        (Named(), "kernel", None),
        (SOURCE, "source", "doubled"),
        ('extern "C" __global__ void hip(int *x) {\n}', "source", "hip"),
        (".amdhsa_kernel text\n.end_amdhsa_kernel\n", "source", "text"),
        ("no kernel\n", "source", None),
        ("plain", "text", None),
        ("/home/me/kernels/saxpy.cl", "path", "saxpy.cl"),
        (Path("/home/me/kernels/saxpy.hip"), "path", "saxpy.hip"),
        (Path("/home/me/table.csv"), "path", None),
        (b"bytes", "data", None),
        (refsi.demo_kernels(), "code", "riscv"),
        (b"\x7fELF", "code", "elf"),
        (["a", "list"], "softcard_gpu", None),
        ({"engine": "x" * 100}, "softcard_gpu", "engine=" + "x" * 53),
    ],
)
def test_ids_of_parameters(value: object, name: str, expected: str | None) -> None:
    assert id_of(value, name) == expected


def test_ids_of_settings_have_what_was_chosen() -> None:
    settings = hsa.Settings(engine="reference", seed=3, on_finding="keep", check=["memory", "leaks"])
    assert id_of(settings, "settings") == "on_finding=keep-check=memory,leaks-engine=reference-seed=3"


def test_a_platform_needs_a_kernel(pytester: Pytester) -> None:
    result = run(pytester, "def test_none(softcard_fletcher): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["softcard_fletcher needs a kernel: add the marker softcard_fletcher(kernel) to the test, with a kernel or *"]
    )


def test_settings_that_are_none_fail_their_test(pytester: Pytester) -> None:
    source = "import pytest\n@pytest.mark.softcard_gpu(engin='jit')\ndef test_none(softcard_gpu): pass"
    result = run(pytester, source)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*unknown setting engin; did you mean 'engine'?"])


def test_full_traces_show_everything(pytester: Pytester) -> None:
    source = SAXPY + (
        "def test_fault(softcard_gpu):\n"
        "    softcard_gpu.run(hsa.demo_code('gfx900'), 'saxpy', grid=64, args=[2.0, 64, 128])\n"
    )
    assert "def _pieces" in run(pytester, source, "--full-trace").stdout.str()


def test_long_runs_keep_the_last_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_EVENTS", 4)
    monkeypatch.setattr(watching, "MOST_SHOWN", 3)
    probes = Probes()
    watch = watching.Watch("device", probes, tmp_path / "below" / "it", "text")
    for time in range(10):
        probes.emit(DoorbellRung(time, 0, time, 1))
    watch.close()
    probes.emit(DoorbellRung(10, 0, 10, 1))
    assert watch.last().splitlines() == [
        "(7 earlier events)",
        *(f"{time} doorbell-rung queue=0 value={time:#x} limit=1" for time in (7, 8, 9)),
    ]
    path = tmp_path / "below" / "it.txt"
    assert watch.write() == f"{path} (without the first 6 events)"
    assert [line.split()[0] for line in path.read_text(encoding="utf-8").splitlines()] == ["6", "7", "8", "9"]


def test_events_up_to_an_error_are_shown_when_many_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of tidying up, as a rule."""
    monkeypatch.setattr(watching, "MOST_EVENTS", 30)
    monkeypatch.setattr(watching, "MOST_SHOWN", 4)
    probes = Probes()
    watch = watching.Watch("device", probes, tmp_path / "it", "text")
    for time in range(40):
        probes.emit(QueueErrored(time, 0, 7, 1, WireError("no")) if time == 20 else DoorbellRung(time, 0, time, 1))
    rung = "{0} doorbell-rung queue=0 value={0:#x} limit=1".format
    assert watch.last().splitlines() == [
        "(19 earlier events)",
        rung(19),
        "20 queue-errored queue=0 index=7 code=1 error=no",
        "(17 more events)",
        rung(38),
        rung(39),
    ]


SLOW_MACHINE = """
from hypothesis import HealthCheck, settings
settings.register_profile("slow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow")
"""


@pytest.mark.slow
def test_the_page_says_what_is(pytester: Pytester) -> None:
    """Its tests run as written; the last one fails, as the page shows."""
    page = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text(encoding="utf-8")
    pytester.makepyfile(test_saxpy="\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)))
    pytester.makeconftest(SLOW_MACHINE)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=9, failed=1)
    (shown,) = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    anything = (
        r"0x1\w+",
        r"/tmp\S*/",
        r"\w{8}-(?:gpu|report)",
        r"\.\.\.",
    )  # addresses, folders, a test's number, what is left out
    result.stdout.re_match_lines(
        [".*".join(map(re.escape, re.split("|".join(anything), line))) for line in shown.splitlines()]
    )
    options = re.findall(r"--softcard-[a-z-]+", pytester.runpytest_inprocess("--help").stdout.str())
    assert set(options) == set(re.findall(r"--softcard-[a-z-]+", page))
    assert {name.removeprefix("--").replace("-", "_") for name in options} == set(
        re.findall("softcard_\\w+(?= = )", page)
    )
    (configuration,) = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    pytester.makepyprojecttoml(configuration)
    (pytester.path / "test_saxpy.py").unlink()
    run(pytester, OPTIONS_SEEN.format(seen=("jit", "memory,leaks", 120.0))).assert_outcomes(passed=1, failed=1)
    assert len(traces(pytester.path / "build" / "traces")) == 1
