"""A matrix product in assembly text with matrix instructions, for every processor that has them.

C = A B in binary32, where rows of A and columns of B have K binary16 elements. A work-group of four waves computes a
tile of 128 x 128 elements: each wave computes 64 x 64, in four blocks of 32 x 32 that 64 accumulation registers hold.
LDS holds tiles of A and B with 32 elements in the K dimension, in rows of `PITCH` bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from softcard.host.hsa.gpu import Gpu
from softcard.image.assembly.files import assemble_code_object

AGENTS: Final = ("gfx908", "gfx90a", "gfx942", "gfx950")
TILE: Final = 128
"""The number of rows, and of columns, of C that one work-group computes."""
GROUP: Final = 256
DEPTH: Final = 32
"""The number of elements in the K dimension that LDS holds at a time."""
PITCH: Final = 80
LDS_OF_B: Final = TILE * PITCH
BLOCK: Final = 32
REGISTERS: Final = 16
"""The number of accumulation registers of a block of 32 x 32 elements."""

_TEXT: Final = """
.text
gemm:
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    s_load_dwordx4 s[8:11], s[0:1], 0x10
    v_lshrrev_b32 v1, 6, v0
    v_and_b32 v2, 63, v0
    v_readfirstlane_b32 s12, v1
    s_and_b32 s13, s12, 1
    s_lshr_b32 s14, s12, 1
    v_lshrrev_b32 v3, 1, v0
    v_and_b32 v4, 1, v0
    v_lshlrev_b32 v4, 5, v4
    v_mul_u32_u24 v6, {pitch}, v3
    v_add_u32 v6, v6, v4
    v_and_b32 v7, 31, v2
    v_lshrrev_b32 v8, 5, v2
    v_lshlrev_b32 v9, 3, v8
    v_mul_u32_u24 v10, {pitch}, v7
    v_add_u32 v9, v10, v9
    s_mul_i32 s17, s14, {half}
    v_add_u32 v10, s17, v9
    s_mul_i32 s18, s13, {half}
    s_add_u32 s18, s18, {lds_of_b}
    v_add_u32 v11, s18, v9
    s_waitcnt lgkmcnt(0)
    s_lshl_b32 s15, s10, 1
    v_mul_lo_u32 v5, v3, s15
    v_add_u32 v5, v5, v4
    s_mul_i32 s16, s3, s15
    s_lshl_b32 s16, s16, 7
    s_add_u32 s4, s4, s16
    s_addc_u32 s5, s5, 0
    s_mul_i32 s16, s2, s15
    s_lshl_b32 s16, s16, 7
    s_add_u32 s6, s6, s16
    s_addc_u32 s7, s7, 0
    s_mov_b32 s19, 0
{clear}
again:
    global_load_dwordx4 v[12:15], v5, s[4:5]
    global_load_dwordx4 v[16:19], v5, s[4:5] offset:16
    global_load_dwordx4 v[20:23], v5, s[6:7]
    global_load_dwordx4 v[24:27], v5, s[6:7] offset:16
    s_waitcnt vmcnt(0)
    s_barrier
    ds_write_b128 v6, v[12:15]
    ds_write_b128 v6, v[16:19] offset:16
    ds_write_b128 v6, v[20:23] offset:{lds_of_b}
    ds_write_b128 v6, v[24:27] offset:{lds_of_b_16}
    s_waitcnt lgkmcnt(0)
    s_barrier
{multiply}
    v_add_u32 v5, 64, v5
    s_add_u32 s19, s19, {depth}
    s_cmp_lt_u32 s19, s10
    s_cbranch_scc1 again
    s_nop 15
    s_nop 3
    s_lshl_b32 s15, s11, 2
    s_lshl_b32 s16, s3, 7
    s_lshl_b32 s17, s14, 6
    s_add_u32 s16, s16, s17
    v_lshlrev_b32 v8, 2, v8
    v_add_u32 v8, s16, v8
    v_mul_lo_u32 v8, v8, s15
    s_lshl_b32 s17, s2, 7
    s_lshl_b32 s18, s13, 6
    s_add_u32 s17, s17, s18
    v_add_u32 v7, s17, v7
    v_lshlrev_b32 v7, 2, v7
    v_add_u32 v8, v8, v7
{store}
    s_endpgm
.rodata
.p2align 6
.amdhsa_kernel gemm
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_system_sgpr_workgroup_id_y 1
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_next_free_vgpr {vgprs}
  .amdhsa_next_free_sgpr 24
  .amdhsa_kernarg_size 32
{more}.end_amdhsa_kernel
"""


def gemm(agent: str) -> str:
    """Return the kernel's assembly text for `agent`; its arguments are A, B and C, and K and N as 32-bit numbers."""
    is_unified = agent != "gfx908"
    name = "v_mfma_f32_32x32x8f16" if agent in ("gfx908", "gfx90a") else "v_mfma_f32_32x32x8_f16"
    return _TEXT.format(
        pitch=PITCH,
        half=TILE // 2 * PITCH,
        lds_of_b=LDS_OF_B,
        lds_of_b_16=LDS_OF_B + 16,
        depth=DEPTH,
        lds=2 * LDS_OF_B,
        clear="\n".join(f"    v_accvgpr_write_b32 a{n}, 0" for n in range(4 * REGISTERS)),
        multiply="\n".join(_multiply(name)),
        store="\n".join(_store()),
        vgprs=40 + 4 * REGISTERS if is_unified else 4 * REGISTERS,
        more="  .amdhsa_accum_offset 40\n" if is_unified else "",
    )


def measure(agent: str, n: int, launches: int) -> tuple[float, bool]:
    """Return the speed in GFLOP/s of the fastest n x n product, and True if the results of all launches are right."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-8, 9, (n, n)).astype(np.float16) for _ in range(2))
    wanted = a.astype(np.float32) @ b.astype(np.float32).T
    best, good = float("inf"), True
    with Gpu.open(agent) as gpu:
        kernel = gpu.load(assemble_code_object(gemm(agent), agent))
        for _ in range(launches):
            c = np.zeros((n, n), np.float32)
            start = time.perf_counter()
            gpu.run(kernel, "gemm", (n // TILE * GROUP, n // TILE), (GROUP, 1), [a, b, c, np.uint32(n), np.uint32(n)])
            best = min(best, time.perf_counter() - start)
            good = good and np.array_equal(c, wanted)
    return 2 * n**3 / best / 1e9, good


def _multiply(name: str) -> Iterator[str]:
    """Yield the instructions that read the tiles from LDS and multiply them with the matrix instruction `name`."""
    for k in range(0, 2 * DEPTH, 16):
        for n in range(2):
            at = n * BLOCK * PITCH + k
            yield f"    ds_read_b64 v[{28 + 2 * n}:{29 + 2 * n}], v10 offset:{at}"
            yield f"    ds_read_b64 v[{32 + 2 * n}:{33 + 2 * n}], v11 offset:{at}"
        yield "    s_waitcnt lgkmcnt(0)"
        for row in range(2):
            for column in range(2):
                first = REGISTERS * (2 * row + column)
                block = f"a[{first}:{first + REGISTERS - 1}]"
                a, b = f"v[{28 + 2 * row}:{29 + 2 * row}]", f"v[{32 + 2 * column}:{33 + 2 * column}]"
                yield f"    {name} {block}, {a}, {b}, {block}"


def _store() -> Iterator[str]:
    """Yield the instructions that store a wave's results: four blocks of 32 x 32 elements of C."""
    for row in range(2):
        for column in range(2):
            for n in range(REGISTERS):
                yield f"    s_mul_i32 s20, s15, {BLOCK * row + 8 * (n // 4) + n % 4}"
                yield f"    s_add_u32 s20, s20, {4 * BLOCK * column}"
                yield "    v_add_u32 v12, s20, v8"
                yield f"    v_accvgpr_read_b32 v13, a{REGISTERS * (2 * row + column) + n}"
                yield "    global_store_dword v12, v13, s[8:9]"
