"""Waits in compiled code: none is missing, and each that is taken out is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import softcard
from softcard.check.waits import BASE, Code, code_object_waits, codes_of, program_waits
from softcard.core.findings import Level
from softcard.engine.gcn.waits.checker import missed, reachable
from softcard.engine.gcn.waits.issue import Issue
from softcard.image.hsa.code_object import read_code_object
from tests.gcn_kernels.toolchain import build

VECTORS = Path(__file__).parents[1] / "vectors"
OURS = sorted((Path(softcard.__file__).parent / "data").glob("*.co"))
OBJECTS = [*sorted(VECTORS.rglob("*.co")), *OURS]
SOURCES = ["atomics.cl", "buffers.ll", "calls.cl", "divide.cl", "lds.cl", "memory.cl", "wide.cl"]
LEFT_OUT = {
    "gfx700": {"s_waitcnt": 116, "needed": 82},
    "gfx803": {"s_waitcnt": 116, "needed": 82},
    "gfx900": {"s_waitcnt": 119, "needed": 83},
}
"""Waits in compiled code by processor, and how many of them code needs where only one is taken out."""


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.name)
def test_nothing_is_missed_in_compiled_objects(path: Path) -> None:
    assert list(code_object_waits(path.read_bytes())) == []


@pytest.mark.parametrize("path", sorted(VECTORS.rglob("*.clo")), ids=lambda path: path.name)
def test_nothing_is_missed_in_programs(path: Path) -> None:
    assert list(program_waits(path.read_bytes())) == []


@pytest.mark.oracle
@pytest.mark.parametrize("gfx", ["gfx700", "gfx803", "gfx801", "gfx900"])
@pytest.mark.parametrize(
    "source", ["atomics.cl", "buffers.ll", "calls.cl", "divide.cl", "lds.cl", "memory.cl", "wide.cl"]
)
def test_nothing_is_missed_in_what_a_compiler_makes(source: str, gfx: str) -> None:
    """Of a hazard that LLVM and Mesa disagree about there may be notes."""
    found = list(code_object_waits(build(source, gfx)))
    assert [str(each) for each in found if each.level is not Level.NOTE] == []
    assert {each.rule.id for each in found if each.rule} <= {"gcn/valu-sgpr-vmem"}


# ---- one wait left out -----------------------------------------------------------------------------------------------
def waits_left_out(path: Path, counts: Counter[str]) -> list[tuple[str, Issue]]:
    """Take out each wait of an object, one at a time; those that nothing misses then."""
    [code] = codes_of(read_code_object(path.read_bytes()))
    unneeded = []
    for name, entry in code.entries.items():
        reached = reachable([entry], code.fetch)
        for issue in {issue.pc: issue for issue in reached.issues.values() if issue.name == "s_waitcnt"}.values():
            counts["s_waitcnt"] += 1
            found = missed(reached, [entry], frozenset({issue.pc}), code.replays[name])
            counts["needed"] += any(each.is_likely for each in found)
            if not any(each.is_likely for each in found):
                unneeded.append((name, issue))
    return unneeded


@pytest.mark.slow
@pytest.mark.parametrize("processor", LEFT_OUT)
def test_each_wait_that_is_left_out_is_missed_where_something_needs_it(processor: str) -> None:
    """Compilers wait for fences too, where nothing is outstanding, and for volatile accesses: code needs neither."""
    counts: Counter[str] = Counter()
    unneeded = []
    programs = VECTORS / "gcn" / f"programs-{processor}-v{5 if processor == 'gfx900' else 4}.co"
    for path in (programs, next(each for each in OURS if processor in each.name)):
        unneeded += waits_left_out(path, counts)
    assert dict(counts) == LEFT_OUT[processor]
    assert {name for name, _ in unneeded} == {"program_fft", "program_histogram", "histogram", "matmul", "sort_private"}


def test_code_that_leaves_its_object_ends_there() -> None:
    [code] = codes_of(read_code_object((VECTORS / "gcn" / "programs-gfx803-v4.co").read_bytes()))
    assert isinstance(code, Code)
    assert reachable([(BASE - 4, 0)], code.fetch).issues == {}
