"""Accesses of waves at addresses beyond all memory: the same error with every check, and the device stays usable."""

from __future__ import annotations

from functools import cache

import pytest

from softcard.core.errors import AccessFault, SoftcardError
from softcard.host.hsa.gpu import Gpu
from softcard.hsa import bare_code_object
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target

ADDRESSES = (1 << 63, (1 << 64) - 4, 0xFFFF_8000_0000_0000, 1 << 48)
ACCESSES = {
    "scalar load": "s_load_dword s6, s[4:5], 0x0",
    "scalar loads": "s_load_dwordx16 s[16:31], s[4:5], 0x0",
    "scalar store": "s_store_dword s8, s[4:5], 0x0",
    "scalar atomic": "s_atomic_add s8, s[4:5], 0x0",
    "vector load": "flat_load_dwordx2 v[6:7], v[2:3] glc",
    "vector store": "flat_store_dword v[2:3], v4",
    "vector atomic": "flat_atomic_add v6, v[2:3], v4 glc",
    "LDS": "s_mov_b32 m0, -1|ds_add_rtn_u64 v[6:7], v3, v[4:5]",
}
CHECKS = ("races", "races,lanes", "memory,init,fidelity,waits,sync")
PLACE = "s_mov_b32 s4, {:#x}|s_mov_b32 s5, {:#x}|v_mov_b32 v2, s4|v_mov_b32 v3, s5|v_mov_b32 v4, 1|v_mov_b32 v5, 1|"
END = "|s_waitcnt vmcnt(0) lgkmcnt(0)|s_endpgm"


@cache
def code(text: str) -> bytes:
    return bare_code_object(assemble(target("gfx900"), (text + END).replace("|", "\n")), "gfx900")


def outcome(gpu: Gpu, text: str) -> tuple[str, str]:
    try:
        gpu.run(code(text), "kernel", grid=128, group=128, args=bytes(256))
    except SoftcardError as error:
        return type(error).__name__, error.message
    return "ended", ""


@cache
def expected() -> dict[str, tuple[str, str]]:
    """Return the outcome of each access without a check."""
    texts = [PLACE.format(at & 0xFFFF_FFFF, at >> 32) + access for access in ACCESSES.values() for at in ADDRESSES]
    with Gpu.open("gfx900", threads=1) as gpu:
        return {text: outcome(gpu, text) for text in texts}


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_checks_change_nothing_and_a_failed_kernel_harms_no_other(engine: str, check: str) -> None:
    found = expected()
    assert {name for name, _ in found.values()} == {AccessFault.__name__, "ended"}
    with Gpu.open("gfx900", threads=1, engine=engine, check=check) as gpu:
        for text, whole in found.items():
            assert outcome(gpu, text) == whole
            assert outcome(gpu, "s_load_dwordx2 s[2:3], s[0:1], 0x0|v_mov_b32 v1, 5|s_barrier") == ("ended", "")
        assert not any("-0x" in str(each) for each in gpu.findings)
