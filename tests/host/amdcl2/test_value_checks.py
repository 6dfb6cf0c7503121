"""The checks of values on programs of AMD OpenCL 2.0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcard.core.errors import WireError
from softcard.device.hsa.settings import JUNK
from softcard.host.amdcl2.program import Program
from softcard.image.amdcl2.build import KernelNeeds, pointer
from softcard.image.amdcl2.container import read_container
from softcard.image.amdcl2.writer import ProgramSource, write_container
from tests.host.amdcl2.rig import NEWEST, kernel

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
    """Undefined values that decide lanes or that the host reads back are reported once each; the correct kernel has no
    finding."""
    texts = {"wrong": TEXT.format("", 6), "right": TEXT.format("v_mov_b32 v5, 10\n", 5)}
    made = tuple(kernel("gfx900", name, text, [pointer("o", "uint*")]) for name, text in texts.items())
    data = write_container(ProgramSource("gfx900", NEWEST, 64, made))
    out = np.zeros(64, np.uint32)
    with Program(read_container(data), engine, check="init") as program:
        assert program.kernel("right").run(64, 64, [out]).findings == ()
        assert out.tolist() == [10] * 64
        found = program.kernel("wrong").run(64, 64, [out]).findings
        assert [each.name for each in found] == ["init/undefined-exec", "init/undefined-result"]
        assert "v5, which nothing has written" in found[0].message
        assert out.tolist() == [JUNK] * 64


UNDEFINED = """s_load_dwordx2 s[20:21], s[6:7], 0x30
v_mov_b32 v1, 0
ds_read_b32 v4, v1
buffer_load_dword v5, off, s[0:3], 0
s_waitcnt vmcnt(0) lgkmcnt(0)
global_store_dword v1, v9, s[20:21]
global_store_dword v1, v4, s[20:21] offset:4
global_store_dword v1, v5, s[20:21] offset:8
s_endpgm"""


@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize(
    ("settings", "options", "word"),
    [
        ({}, {}, 0),
        ({"poison": 7}, {}, 7),
        ({"poison": 7}, {"poison": 9}, 9),
        ({"check": "init", "on_finding": "keep"}, {}, JUNK),
        ({"check": "init", "on_finding": "keep", "poison": 0}, {}, 0),
    ],
    ids=["none", "word", "of-the-run", "init", "init-zero"],
)
def test_what_undefined_registers_lds_and_private_memory_hold(
    engine: str, settings: dict[str, Any], options: dict[str, int], word: int
) -> None:
    needs = KernelNeeds(sgprs=96, vgprs=64, lds_bytes=64, scratch_bytes=64)
    made = kernel("gfx900", "k", UNDEFINED, [pointer("o", "uint*")], needs=needs)
    out = np.zeros(3, np.uint32)
    data = write_container(ProgramSource("gfx900", NEWEST, 64, (made,)))
    with Program(read_container(data), engine, **settings) as program:
        program.kernel("k").run(1, 1, [out], **options)
    assert out.tolist() == [word, word, settings.get("poison", word)]  # private memory is filled once, by the setting


def test_a_poison_is_a_word_of_32_bits() -> None:
    data = write_container(ProgramSource("gfx900", NEWEST, 64, (kernel("gfx900", "k", "s_endpgm", []),)))
    with pytest.raises(WireError, match="poison 0x100000000 does not fit 32 bits"):
        Program(read_container(data), poison=1 << 32)
