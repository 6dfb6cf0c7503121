"""Snapshots of AMD OpenCL 2.0 programs: variables, private memory and queue come back, byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcard.core.errors import RuleError
from softcard.core.snapshot import save_ram
from softcard.engine.gcn.memory import Plain
from softcard.host.amdcl2.program import Program, load
from softcard.image.amdcl2.build import pointer
from softcard.image.amdcl2.container import GLOBAL
from softcard.image.amdcl2.writer import CodeRelocation
from tests.host.amdcl2.rig import DEVICES, kernel, program, vector
from tests.host.amdcl2.test_queue import CHILD, ENQUEUE, PARENT, SECOND

COUNT = """
    s_mov_b32 s14, 0x12345678
    s_mov_b32 s15, 0x12345678
    v_mov_b32 v2, s14
    v_mov_b32 v3, s15
    v_mov_b32 v4, 1
    flat_atomic_add v[2:3], v4
    s_sendmsg 1
    s_endpgm
"""
"""Adds 1 to the program's first variable, for every work-item."""


def counter(device: str = "gfx900", engine: str = "jit") -> Program:
    relocations = (CodeRelocation(4, GLOBAL, 0), CodeRelocation(12, GLOBAL, 0, high=True))
    source = kernel(device, "k", COUNT, [pointer("out", "uint*")], relocations=relocations)
    return program(device, source, engine=engine, global_data=np.array([5, 6], np.uint32).tobytes())


def contents(found: Program) -> dict[tuple[int, str], Any]:
    maps = [each for each in found.device.memory if isinstance(each, Plain)]
    assert all(each.ram is not None for each in maps)
    return {(each.base, each.name): save_ram(each.ram) for each in maps if each.ram is not None}


@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize("device", DEVICES)
def test_variables_come_back(device: str, engine: str) -> None:
    found, out = counter(device, engine), np.zeros(1, np.uint32)
    shared = found.symbol(f"__hsa_section{GLOBAL}", 8).view(np.uint32)
    fresh = contents(found)
    found.kernel("k").run(10, 64, [out])
    at, state = contents(found), found.snapshot()
    after = []
    for _ in range(3):
        found.kernel("k").run(100, 64, [out])
        after.append((shared.tolist(), contents(found)))
        found.restore(state)
        assert (shared.tolist(), contents(found)) == ([15, 6], at)
    assert after[0] == after[1] == after[2]
    assert after[0][0] == [115, 6]
    found.reset()
    assert (shared.tolist(), contents(found)) == ([5, 6], fresh)
    found.restore(state)
    assert shared.tolist() == [15, 6]


def test_private_memory_comes_back() -> None:
    found, out = load(vector("scratch-gfx900-64-252700")), np.zeros(256, np.uint32)
    state = found.snapshot()
    seen = []
    for _ in range(2):
        found.kernel("scratch").run(256, 128, [out])
        seen.append(contents(found))
        assert (out == np.arange(256) % 128 * 128 + 28).all()
        found.restore(state)
        assert len(contents(found)) == len(seen[0]) - 1
    assert seen[0] == seen[1]


def test_queues_come_back() -> None:
    out = pointer("out", "uint*")
    parent = kernel("gfx900", "parent", PARENT, [out], features=ENQUEUE)
    found = program(
        "gfx900", parent, kernel("gfx900", "child", CHILD.replace("CHILDGID", "{gid}"), [out], described=SECOND)
    )
    data, states = np.zeros(128, np.uint32), [found.snapshot()]
    found.queue()
    states.append(found.snapshot())
    seen = []
    for state in states * 2:
        found.restore(state)
        data[:] = 0
        assert found.kernel("parent").run(1, 1, [data]).children == 1
        assert (data == 7).all()
        seen.append((found.queue(), contents(found)))
    assert seen[:2] == seen[2:]


def test_not_while_a_kernel_runs() -> None:
    found, out = counter(engine="reference"), np.zeros(1, np.uint32)
    state, said = found.snapshot(), []

    def heard(*_: Any) -> None:
        for act in (found.snapshot, lambda: found.restore(state), found.reset):
            with pytest.raises(RuleError, match="is not possible while a kernel runs: wait for the end of the run"):
                act()
        said.append(1)

    found.kernel("k").run(64, 64, [out], on_hint=heard)
    assert said == [1]


def test_states_of_another_program() -> None:
    one, other = counter(), counter()
    state = other.snapshot()
    with pytest.raises(RuleError, match="cannot restore the snapshot of another program, expected one that snapshot"):
        one.restore(state)
