"""A campaign's file: what it asks for, and on which line it is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from softcard.campaign.plan import Plan, parse_plan, read_plan
from softcard.campaign.task import CampaignError, Input

WHOLE = """
[campaign]
name = "all"
time-limit = 2.5
batch = 3

[[matrix]]
programs = ["*.cl", "generate:opencl"]
kernels = ["add"]
inputs = ["small"]
agents = ["gfx900", "gfx803"]
compilers = ["clang-16", "ziglang"]
options = ["-O0", "-O2 -g"]
engines = ["jit", "reference"]
checks = ["plain", "exact"]
seeds = "1..3"

[[matrix]]
programs = ["a.cl"]
seeds = [7]

[inputs.small]
arguments = ["f32:64:range"]
grid = "64"
expect = ["0=1"]
"""


def plan(text: str, folder: Path = Path()) -> Plan:
    return parse_plan(text, "c.toml", folder)


def test_all_combinations_are_tasks(tmp_path: Path) -> None:
    for name in ("a.cl", "b.cl"):
        (tmp_path / name).write_text(name)
    found = plan(WHOLE, tmp_path)
    tasks = list(found.tasks())
    assert (found.name, found.time_limit, found.batch) == ("all", 2.5, 3)
    assert len(tasks) == len(found) == 3 * 3 * 2**5 + 1
    assert len({task.id for task in tasks}) == len(tasks)
    assert {task.program for task in tasks} == {"a.cl", "b.cl", "generate:opencl"}
    assert {task.given for task in tasks[:-1]} == {Input(("f32:64:range",), "64", "", ("0=1",))}
    assert found.compilers == ("clang-16", "ziglang")
    assert found.data("b.cl") == b"b.cl"
    first, last = tasks[0], tasks[-1]
    assert (first.engine, first.check, first.options, first.seed, first.line) == ("jit", "plain", "-O0", 1, 9)
    assert (last.agent, last.compiler, last.engine, last.given, last.seed) == ("", "", "jit", Input(), 7)


def test_a_task_is_the_same_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "a.cl").write_text("one")
    text = '[[matrix]]\nprograms = ["a.cl"]\nseeds = [1, 2]'
    before = [task.id for task in plan(text, tmp_path).tasks()]
    assert [task.id for task in plan("\n[campaign]\ntime-limit = 1\n" + text, tmp_path).tasks()] == before
    (tmp_path / "a.cl").write_text("another")
    assert not set(before) & {task.id for task in plan(text, tmp_path).tasks()}


TOGETHER = """
[campaign]
together = 10
[[matrix]]
programs = ["generate:rv64-small"]
compilers = ["a", "b", "c"]
options = ["-O0", "-O1", "-O2"]
combinations = 2
seeds = "5..24"
"""


def test_seeds_that_are_compiled_together_get_the_same_combinations() -> None:
    found = plan(TOGETHER)
    tasks = list(found.tasks())
    assert (found.batch, len(tasks), len(found)) == (16, 40, 40)
    ways: dict[int, list[tuple[str, str]]] = {}
    for task in tasks:
        ways.setdefault(task.seed, []).append((task.compiler, task.options))
    assert [ways[seed] == ways[seed + 1] for seed in (5, 8, 10, 18, 20)] == [True] * 5
    assert len({tuple(each) for each in ways.values()}) == 3
    assert all(len(set(each)) == 2 for each in ways.values())
    assert [task.seed for task in tasks[:10]] == [*range(5, 10)] * 2
    assert {task.seed: task.id for task in tasks} == {task.seed: task.id for task in plan(TOGETHER).tasks()}


MATRIX = '[[matrix]]\nprograms = ["generate:opencl"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[campaign\n", "Expected ']' at the end of a table declaration, at line c.toml:1:10"),
        ("[campaign]\nname = 7\n" + MATRIX, "name is 7, expected a string, at line c.toml:2"),
        ("[campaign]\nnam = ''", "unknown key nam; did you mean 'name'? at line c.toml:2"),
        ("[campain]\n", "unknown key campain; did you mean 'campaign'? at line c.toml:1"),
        ("[campaign]\ntime-limit = 0\n" + MATRIX,
         "time-limit is 0, expected a number of seconds for one task, up to 86400, at line c.toml:2"),
        ("[campaign]\n\nbatch = 0\n" + MATRIX, "batch is 0, expected a whole number from 1 to 10000, at line c.toml:3"),
        ("[campaign]\ntogether = 501\n" + MATRIX,
         "together is 501, expected a whole number from 1 to 500, at line c.toml:2"),
        (MATRIX + "combinations = 3\noptions = ['a', 'b']",
         "combinations is 3, expected a whole number from 1 to 2, at line c.toml:3"),
        ("[campaign]\n", "expected a table [[matrix]] with the programs to run, at line c.toml:1"),
        ("[[matrix]]\n", "programs is empty, expected files or generate:NAME, at line c.toml:1"),
        (MATRIX + "engines = ['jti']\n", "unknown value 'jti' of engines; did you mean 'jit'? at line c.toml:3"),
        (MATRIX + "inputs = ['x']\n",
         "unknown value 'x' of inputs, expected the NAME of a table [inputs.NAME], at line c.toml:3"),
        (MATRIX + "agents = 'gfx900'\n", "agents is 'gfx900', expected a list of strings, at line c.toml:3"),
        (MATRIX + "options = []\n",
         "options is an empty list, so nothing would run: give one value or more, at line c.toml:3"),
        (MATRIX + "\nseeds = '9..1'\n",
         "seeds is '9..1', expected a list of numbers, or the first and the last like \"0..99\", at line c.toml:4"),
        (MATRIX + MATRIX + "seeds = [true]\n",
         "seeds is [True], expected a list of numbers, or the first and the last like \"0..99\", at line c.toml:5"),
        ("[[matrix]]\nprograms = ['generate:opncl']",
         "unknown generator 'opncl'; did you mean 'opencl'? at line c.toml:2"),
        ("[[matrix]]\nprograms = ['no.cl']", "cannot read program no.cl: No such file or directory, at line c.toml:2"),
        ("[[matrix]]\nprograms = ['no*.cl']", "no file matches no*.cl, at line c.toml:2"),
        (MATRIX + "[inputs]\na = 1", "inputs.a is 1, expected a table, at line c.toml:1"),
        ("a = 1\nb = " + "1" * 5000, "a number has more than 4300 digits, at line c.toml:2"),
        ("a = 1\n\nb = [\"]\",\n" + "[" * 20000, "arrays or tables nest more than 64 deep, at line c.toml:4"),
        ("[campaign]\nbatch = 0x" + "f" * 5000 + "\n" + MATRIX,
         "batch is a number of 20000 bits, expected a whole number from 1 to 10000, at line c.toml:2"),
        (MATRIX + "seeds = '0.." + "9" * 5000 + "'",
         "seeds is '0.." + "9" * 176 + " ... " + "9" * 14 + "', expected a list of numbers, "
         "or the first and the last like \"0..99\", at line c.toml:3"),
        ("[campaign]\n" + "batch" + ".a" * 5000 + " = 1\n" + MATRIX,
         "batch is a value that is too large to show, expected a whole number from 1 to 10000, at line c.toml:1"),
        (MATRIX + "[inputs.a]\nargument = []", "unknown key argument; did you mean 'arguments'? at line c.toml:4"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CampaignError) as caught:
        plan(text, tmp_path)
    assert str(caught.value) == message


def test_a_program_whose_name_is_no_utf8(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.cl")).write_text("")
    with pytest.raises(CampaignError, match=r"the name of program \\xff\.cl: expected UTF-8.*, at line c\.toml:2"):
        plan("[[matrix]]\nprograms = ['*.cl']", tmp_path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match=r"cannot read .*none\.toml: No such file"):
        read_plan(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CampaignError, match="expected text in UTF-8"):
        read_plan(tmp_path / "binary.toml")


def test_each_program_is_run_natively_once() -> None:
    """Whatever the other axes are, also where seeds get some of the combinations."""
    head = (
        '[[matrix]]\nprograms = ["generate:opencl", "generate:rv64"]\nagents = ["gfx803", "gfx900"]\nseeds = "0..3"\n'
    )
    found = plan(head + 'engines = ["jit", "native"]\ncompilers = ["ziglang"]\noptions = ["-O0", "-O2"]')
    own = [task for task in found.tasks() if task.engine == "native"]
    assert len(found) == len(list(found.tasks())) == 2 * 4 * (4 + 1)
    assert [(task.program, task.seed) for task in own] == [
        (f"generate:{name}", n) for name in ("opencl", "rv64") for n in range(4)
    ]
    assert {(task.agent, task.compiler, task.options, task.check, task.joins) for task in own} == {
        ("", "", "", "plain", False)
    }
    some = plan(head + 'engines = ["jit", "native"]\ncombinations = 1')
    assert len(some) == len(list(some.tasks())) == 2 * 4 * 2
    alone = plan(head + 'engines = ["native"]')
    assert [task.engine for task in alone.tasks()] == ["native"] * 8 == ["native"] * len(alone)
    message = r"engine 'native' runs only generated programs in C and OpenCL C \(opencl, .*\), not generate:gcn"
    with pytest.raises(CampaignError, match=message):
        plan('[[matrix]]\nprograms = ["generate:gcn"]\nengines = ["native"]')
