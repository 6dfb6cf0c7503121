"""A scalar instruction that leaves translated code behind a vector segment does so at its own place."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.engine.gcn.api import Dispatch, Shapes
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target

CODE, ODD, OUT = 0x10000, 0x20000, 0x30000
TEXT = """
    v_mov_b32 v3, 1
    s_nop 0
    v_add_u32 v3, vcc, v3, v3
    s_load_dword s12, s[4:5], 0x0
    s_waitcnt lgkmcnt(0)
    v_lshlrev_b32 v1, 2, v0
    v_add_u32 v1, vcc, s6, v1
    v_mov_b32 v2, 0
    flat_store_dword v[1:2], v3
    s_endpgm
"""


@pytest.mark.parametrize("kind", ["reference", "jit"])
def test_scalar_loads_outside_of_whole_pages(kind: str) -> None:
    engine = JitEngine(threads=1) if kind == "jit" else ReferenceEngine()
    memory = GpuMemory()
    memory.map(CODE, bytearray(assemble(target("gfx803"), TEXT).ljust(4096, b"\0")))
    memory.map(ODD, bytearray(64))  # no whole page: translated code cannot load from it
    out = np.zeros(64, np.uint32)
    memory.map(OUT, out)
    groups = np.zeros((1, 4), np.uint32)
    sgprs = np.array([0, 0, 0, 0, ODD, 0, OUT], np.uint32)
    engine.run(Dispatch(target("gfx803"), memory, CODE, Shapes.of([(64, 1, 1)], 1), groups, sgprs))
    assert (out == 2).all()
