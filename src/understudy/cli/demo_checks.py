"""The checks' part of `understudy demo`: for each check a kernel with one mistake, and what is told of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from understudy.core.checks import FIDELITY, INIT, LANES, LEAKS, MEMORY, RACES, SYNC, WAITS
from understudy.core.findings import Finding
from understudy.host.hsa.gpu import Gpu, demo_code
from understudy.image.assembly.files import assemble_code_object

AGENT: Final = "gfx900"
KERNEL: Final = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx900"
.text
{name}:
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
    {body}
out:
    s_endpgm
.rodata
.p2align 6
.amdhsa_kernel {name}
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_next_free_vgpr 8
    .amdhsa_next_free_sgpr 10
    .amdhsa_kernarg_size 8
.end_amdhsa_kernel
"""
STORE: Final = "global_store_dword v1, v2, s[4:5]"
BODIES: Final = {
    INIT: ("v_cmp_gt_u32_e32 vcc, v7, v0", "s_and_saveexec_b64 s[6:7], vcc", STORE),
    FIDELITY: (
        "v_cvt_f32_u32_e32 v2, v0",
        "v_rsq_f32_e32 v2, v2",
        "v_cmp_gt_f32_e32 vcc, 0.5, v2",
        "s_and_saveexec_b64 s[6:7], vcc",
        STORE,
    ),
    RACES: ("v_readfirstlane_b32 s6, v0", "v_mov_b32_e32 v1, 0", "v_mov_b32_e32 v2, s6", STORE),
    LANES: ("v_xor_b32_e32 v3, 4, v1", "global_load_dword v2, v3, s[4:5]", "s_waitcnt vmcnt(0)", STORE),
    WAITS: ("global_load_dword v2, v1, s[4:5]", "v_add_u32_e32 v2, v2, v2", STORE),
    SYNC: ("v_readfirstlane_b32 s6, v0", "s_cmp_lg_u32 s6, 0", "s_cbranch_scc1 out", "s_barrier"),
}
"""Kernels in assembly, by check: a register that nothing has written, a rounded root that decides, waves that store in
one place, lanes that swap in memory, a load that is used before it is there, a wave that returns before a barrier."""


def _past(gpu: Gpu) -> None:
    """One work-item more than there are numbers."""
    x, y = gpu.zeros(63), gpu.zeros(64)
    gpu.run(demo_code(AGENT), "saxpy", 64, args=[2.0, x, y])


def _kept(gpu: Gpu) -> None:
    """An array that nobody frees."""
    gpu.zeros(1000)


def _assembled(check: str) -> Callable[[Gpu], None]:
    def run(gpu: Gpu) -> None:
        code = assemble_code_object(KERNEL.format(name=check, body="\n    ".join(BODIES[check])))
        gpu.run(code, check, 128, 128, [np.zeros(128, np.uint32)])

    return run


SHOWN: Final[dict[str, Callable[[Gpu], None]]] = {
    MEMORY: _past,
    LEAKS: _kept,
    **{check: _assembled(check) for check in BODIES},
}
"""By check: what makes a mistake of its kind."""


WITH: Final = {LEAKS: MEMORY, LANES: RACES}
"""Checks that go with another one."""


def findings() -> Iterator[tuple[str, Finding]]:
    """Each check with the first thing that it tells of."""
    for check, mistake in SHOWN.items():
        with Gpu.open(AGENT, check=f"{WITH[check]},{check}" if check in WITH else check, threads=1) as gpu:
            mistake(gpu)
        yield check, gpu.findings[0]


def lines(found: Finding) -> Iterator[str]:
    """What is wrong, where, and what mends it."""
    message = re.sub(r", made at [^)]*", "", found.message)
    yield f"{found.level.value}: {message}"
    at = " ".join(each for each in (found.at, f"({found.insn})" if found.insn else "") if each)
    yield f"at {at}: {found.suggestion}" if at else found.suggestion
