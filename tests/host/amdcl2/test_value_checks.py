"""The checks of values on programs of AMD OpenCL 2.0."""

from __future__ import annotations

import numpy as np
import pytest

from tests.host.amdcl2.rig import NEWEST, kernel
from understudy.host.amdcl2.program import Program
from understudy.image.amdcl2.build import pointer
from understudy.image.amdcl2.container import read_container
from understudy.image.amdcl2.writer import ProgramSource, write_container

TEXT = """s_load_dwordx2 s[20:21], s[6:7], 0x30
v_lshlrev_b32 v1, 2, v0
s_waitcnt lgkmcnt(0)
v_mov_b32 v2, s20
v_mov_b32 v3, s21
v_add_co_u32 v2, vcc, v2, v1
v_addc_co_u32 v3, vcc, 0, v3, vcc
{}v_cmp_lt_u32 vcc, 9, v5
s_and_b64 exec, exec, vcc
global_store_dword v[2:3], v{}, off
s_endpgm"""


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_values_are_checked(engine: str) -> None:
    """What decides lanes and what the host gets back is told of once each; nothing of the corrected twin."""
    texts = {"wrong": TEXT.format("", 6), "right": TEXT.format("v_mov_b32 v5, 10\n", 5)}
    made = tuple(kernel("gfx900", name, text, [pointer("o", "uint*")]) for name, text in texts.items())
    data = write_container(ProgramSource("gfx900", NEWEST, 64, made))
    out = np.zeros(64, np.uint32)
    with Program(read_container(data), engine, check="init") as program:
        assert program.kernel("right").run(64, 64, [out]).findings == ()
        assert out.tolist() == [10] * 64
        found = program.kernel("wrong").run(64, 64, [out]).findings
        assert [each.name for each in found] == ["init/undefined-exec"]
        assert "v5, which nothing has written" in found[0].message
