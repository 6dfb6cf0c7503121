"""Counted instructions: as many of each on both engines, and in all as many as retire."""

import threading

import numpy as np
import pytest

from softcard import Gpu
from softcard.core.errors import AccessFault, BeyondModel, ModelBug, WireError
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.hsa import demo_code
from tests.gcn_kernels import cases_memory, cases_programs, cases_resources  # noqa: F401
from tests.gcn_kernels.bench import CASES, cached_engine, run
from tests.gcn_kernels.make_objects import OBJECTS
from tests.gcn_kernels.test_committed import BUFFERS, PROGRAMS, by_llvmlite, committed


def agree(gfx, code, case, threads=1):
    reference, jit = ReferenceEngine(counting=True), cached_engine(threads=threads, counting=True)
    _, statistics = run(reference, gfx, code, case)
    run(jit, gfx, code, case)
    jit.close()
    counts = jit.instruction_counts()
    assert sum(counts.values()) == statistics.instructions
    assert counts == reference.instruction_counts()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("file", OBJECTS)
@pytest.mark.one_in(3)
def test_programs_of_committed_objects(file, name):
    agree(OBJECTS[file][0], committed(file), CASES[name], threads=2)


@pytest.mark.parametrize("name", BUFFERS)
@pytest.mark.parametrize("gfx", ["gfx700", "gfx803", "gfx900"])
@pytest.mark.one_in(5)
def test_instructions_that_scalar_registers_decide(gfx, name):
    agree(gfx, by_llvmlite("buffers.ll", gfx), CASES[name])


def test_what_faults_does_not_count():
    counts = []
    for engine in ("reference", "jit"):
        with Gpu.open("gfx900", engine=engine, count_instructions=True) as gpu:
            x = np.ones(256, np.float32)
            for _ in range(2):
                gpu.run(demo_code("gfx900"), "saxpy", grid=256, group=64, args=[2.0, x, x])
            with pytest.raises(AccessFault):
                gpu.run(demo_code("gfx900"), "saxpy", grid=64, group=64, args=[2.0, 0x100, x])
            counts.append(gpu.device.instruction_counts())
    assert counts[0] == counts[1]
    assert {8, 9} == set(counts[0].values())


def test_launches_of_several_threads_are_counted_whole():
    with Gpu.open("gfx900", count_instructions=True) as gpu:
        x = gpu.array(np.ones(64, np.float32))
        code = gpu.load(demo_code("gfx900"))
        runs = [
            threading.Thread(
                target=gpu.run, args=(code, "saxpy"), kwargs={"grid": 64, "group": 64, "args": [1.0, x, x]}
            )
            for _ in range(8)
        ]
        for each in runs:
            each.start()
        for each in runs:
            each.join()
        assert set(gpu.device.instruction_counts().values()) == {8}


def test_engines_that_do_not_count_say_so():
    with Gpu.open("gfx900") as gpu, pytest.raises(WireError, match="count_instructions=True"):
        gpu.device.instruction_counts()
    for engine in (JitEngine(), ReferenceEngine()):
        with pytest.raises(ModelBug, match="does not count"):
            engine.instruction_counts()
    with pytest.raises(WireError, match="is not supported with coherence='strict'"):
        Gpu.open("gfx900", coherence="strict", count_instructions=True)


def test_checks_that_need_marks_and_counts_go_together_on_the_reference_engine_alone():
    x = np.ones(64, np.float32)
    how = {"grid": 64, "group": 64, "args": [1.0, x, x]}
    with pytest.raises(BeyondModel, match="count_instructions with check='init' "):
        Gpu.open("gfx900", check="init", count_instructions=True)
    for check, engine in (("init", "reference"), ("memory", "jit")):
        with Gpu.open("gfx900", check=check, engine=engine, count_instructions=True) as gpu:
            result = gpu.run(demo_code("gfx900"), "saxpy", **how)
            assert sum(gpu.instruction_counts().values()) == result.instructions
