"""The plug-in of coverage.py, and the option of pytest's plug-in that writes an LCOV file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import coverage
import pytest
from coverage.exceptions import ConfigError, NoSource

from softcard.coverage import Coverage, coverage_init
from softcard.testing.coverage_plugin import KernelFileReporter, Table, certain_arcs, statements_run
from tests.host.test_coverage import MASKED

Pytester = pytest.Pytester

TESTS = """
from pathlib import Path
import pytest
from softcard import Gpu
from softcard.image.assembly.program import assemble

SOURCE = Path(__file__).with_name("masked.s")

@pytest.mark.parametrize("number", range(3))
def test_kernel(number):
    with Gpu.open("gfx900") as gpu:
        gpu.run(assemble(SOURCE.read_text()).elf(str(SOURCE)), "masked", grid=64, args=[])
    if number > 5:
        print("never")

def test_without_a_kernel():
    pass
"""


def project(pytester: Pytester, settings: str = "") -> None:
    pytester.makepyfile(test_it=TESTS)
    (pytester.path / "masked.s").write_text(MASKED)
    (pytester.path / "pyproject.toml").write_text(settings)


def run(pytester: Pytester, *options: str) -> pytest.RunResult:
    words = ("-p", "no:cacheprovider", "-p", "no:randomly", "-q")
    return pytester.runpytest_subprocess(*words, *options)


PLUGINS = '[tool.coverage.run]\nplugins = ["softcard.coverage"]\n'


@pytest.mark.slow(seconds=4)
@pytest.mark.parametrize("options", [("--cov=.",), ("--cov=.", "--cov-branch"), ("--cov=.", "-n", "2")], ids=str)
def test_kernels_join_the_coverage_of_python(pytester: Pytester, options: tuple[str, ...]) -> None:
    project(pytester, PLUGINS)
    result = run(pytester, *options, "--cov-report=term-missing", "--cov-report=json:all.json", "--cov-report=html")
    result.assert_outcomes(passed=4)
    files = json.loads((pytester.path / "all.json").read_text())["files"]
    kernel, python = files["masked.s"], files["test_it.py"]
    assert kernel["missing_lines"] == [10, 19]
    assert kernel["executed_lines"] == [7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 20]
    assert python["missing_lines"] == [13]
    if "--cov-branch" in options:
        [missing] = kernel["missing_branches"]
        assert missing[0] == 12
        assert missing[1] < 0
        assert kernel["summary"]["num_branches"] == 4
        assert kernel["summary"]["covered_branches"] == 3
        page = next(each for each in (pytester.path / "htmlcov").glob("*masked_s.html")).read_text()
        assert "branch instruction 1 of line 12 was never taken" in page


@pytest.mark.slow(seconds=3)
def test_files_that_the_configuration_omits(pytester: Pytester) -> None:
    project(pytester, PLUGINS + 'omit = ["*.s"]\n')
    result = run(pytester, "--cov=.", "--cov-report=json:all.json")
    result.assert_outcomes(passed=4)
    assert list(json.loads((pytester.path / "all.json").read_text())["files"]) == ["test_it.py"]


@pytest.mark.slow(seconds=6)
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=str)
def test_lcov_without_coverage_py(pytester: Pytester, workers: tuple[str, ...]) -> None:
    project(pytester)
    target = pytester.path / "kernels.info"
    for _ in range(1 if workers else 2):  # each run begins a new file
        result = run(pytester, "--softcard-coverage", str(target), *workers)
        result.assert_outcomes(passed=4)
        result.stdout.re_match_lines([".* softcard coverage .*", f"12 of 14 lines of 1 file: {re.escape(str(target))}"])
        assert Coverage.from_lcov(target.read_text()).files[str(pytester.path / "masked.s")].lines[7] == 3


def test_a_changed_source_has_no_lines(tmp_path: Path) -> None:
    from softcard.image.coverage import FileCoverage

    source, table = tmp_path / "k.cl", Table(str(tmp_path / ".coverage"))
    source.write_text("first")
    with pytest.raises(NoSource, match=r"has no lines of this version of .*k.cl: run the kernels again"):
        KernelFileReporter(str(source), table)
    table.add({str(source): FileCoverage({1: 1, 2: 0}, {(1, 9, 0): 1, (1, 9, 1): 0})})
    table.add({str(source): FileCoverage({3: 1})})
    found = KernelFileReporter(str(source), table)
    assert found.lines() == {1, 2, 3}
    assert found.arcs() == {(1, -18), (1, -19)}
    assert found.exit_counts() == {1: 2}
    assert found.missing_arc_description(1, -19) == "branch instruction 1 of line 1 was never taken"
    assert found.missing_arc_description(1, -18) == "branch instruction 1 of line 1 was never not taken"
    assert found.arc_description(1, -18) == "the branch instruction is not taken"
    source.write_text("second")
    with pytest.raises(NoSource):
        KernelFileReporter(str(source), table)
    table.add({str(source): FileCoverage({7: 1})})
    assert KernelFileReporter(str(source), table).lines() == {7}


def test_the_plug_in_has_no_options() -> None:
    with pytest.raises(ConfigError, match="has colour, expected no options: delete the section"):
        coverage_init(None, {"colour": "red"})  # type: ignore[arg-type]


def test_no_plug_in_without_a_measurement(tmp_path: Path) -> None:
    """Reports are made in another process, which loads the plug-in, too."""
    from softcard.host import coverage as recordings

    try:
        coverage.Coverage(data_file=str(tmp_path / ".coverage"), plugins=[lambda reg: coverage_init(reg, {})]).load()
    finally:
        recordings.stop()


KERNEL = '''
def helper(x):
    y = x * 2
    return y

def unused(x):
    return x

def kernel(x, bias, FLAG: tl.constexpr):
    """Text."""
    SIZE: tl.constexpr = 4
    i = start()
    if FLAG:
        i = i + 1
    if bias is not None:
        i = i + 2
    if i > 3:
        i = helper(i)
    else:
        i = 4
    if SIZE > 5:
        i = 6
    store(i)
    if i < 9:
        store(7)
        i = 8
    return i
'''


@pytest.mark.parametrize(
    ("lines", "ran"),
    [
        ({12: 1, 23: 1}, {11, 12, 13, 15, 17, 18, 20, 21, 23, 3, 4}),  # all in one block of machine code
        ({12: 1, 17: 1, 18: 0, 20: 1, 23: 1}, {11, 12, 13, 15, 17, 20, 21, 23}),
        ({12: 1, 23: 1, 24: 1, 25: 0, 27: 1}, {11, 12, 13, 15, 17, 18, 20, 21, 23, 24, 27, 3, 4}),
        ({12: 1, 23: 1, 25: 1}, {11, 12, 13, 15, 17, 18, 20, 21, 23, 24, 25, 26, 27, 3, 4}),
        ({12: 0, 23: 0}, set()),
    ],
)
def test_statements_that_the_compiler_dropped(lines: dict[int, int], ran: set[int]) -> None:
    assert statements_run(KERNEL, lines) - {24, 25, 26, 27} == ran - {24, 25, 26, 27}
    if 25 in lines:
        assert statements_run(KERNEL, lines) == ran


def test_arcs_that_are_certain() -> None:
    choice = {(1, 2), (1, 3), (2, 3), (3, -1)}  # if without else
    assert certain_arcs(choice, {1, 2, 3}, set()) == {(1, 2), (2, 3), (3, -1)}
    assert certain_arcs(choice, {1, 3}, set()) == {(1, 3), (3, -1)}
    assert certain_arcs(choice, {1, 2, 3}, {1}) == choice
    loop = {(1, 2), (2, 1), (1, 3), (3, -1)}
    assert certain_arcs(loop, {1, 2, 3}, set()) == loop
