"""Compiled OpenCL kernels on both engines: compared with each other bit for bit, and with NumPy."""

import functools

import pytest

from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.image.hsa.code_object import CodeObject, read_code_object
from tests.gcn_kernels import cases_float, cases_group, cases_integer, cases_memory, cases_programs, cases_resources  # noqa: F401
from tests.gcn_kernels.bench import CASES, cached_engine, check, run
from tests.gcn_kernels.toolchain import build

pytestmark = pytest.mark.oracle
TARGETS = ("gfx700", "gfx803", "gfx900")
LEVELS = ("-O0", "-O2")
COMBINATIONS = [(name, gfx, level) for name, each in CASES.items() for gfx in each.targets for level in LEVELS]


@functools.cache
def code_object(source: str, gfx: str, level: str) -> CodeObject:
    return read_code_object(build(source, gfx, level))


@pytest.fixture(scope="module")
def jit():
    engine = cached_engine(threads=1, tier=Tier.THREADED)
    yield engine
    engine.close()


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "gfx", "level"), COMBINATIONS, ids=["".join(each) for each in COMBINATIONS])
def test_engines_agree_with_each_other_and_with_numpy(name, gfx, level, jit):
    case = CASES[name]
    code = code_object(case.source, gfx, level)
    by_reference, counted = run(ReferenceEngine(), gfx, code, case)
    check(case, by_reference, "reference")
    by_jit, counted_by_jit = run(jit, gfx, code, case)
    for number, (expected, got) in enumerate(zip(by_reference, by_jit, strict=True)):
        assert got.tobytes() == expected.tobytes(), f"buffer {number} differs between the engines"
    assert counted_by_jit == counted
