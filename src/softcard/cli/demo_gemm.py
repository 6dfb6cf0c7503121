"""A matrix product in assembly text with matrix instructions, for every processor that has them.

C = A B, where rows of A and columns of B have K elements. The demo multiplies binary16 elements, and C is binary32. A
work-group of four waves computes a tile of 128 x 128 elements: each wave computes 64 x 64, in blocks of 32 x 32
(binary64: 16 x 16) that accumulation registers hold. LDS holds tiles of A and B with 64 bytes of each row, in rows of
`PITCH` bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from softcard.host.hsa.gpu import Gpu
from softcard.image.assembly.files import assemble_code_object

AGENTS: Final = ("gfx908", "gfx90a", "gfx942", "gfx950")
TILE: Final = 128
"""The number of rows, and of columns, of C that one work-group computes."""
GROUP: Final = 256
DEPTH_BYTES: Final = 64
"""The size of the part of a row of A, or of a column of B, that LDS holds at a time, in bytes."""
PITCH: Final = 80
LDS_OF_B: Final = TILE * PITCH
WAVE_TILE: Final = 64
"""The number of rows, and of columns, of C that one wave computes."""
FIRST: Final = 28
"""The number of the first vector register that holds elements of A from LDS."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of product: its matrix instructions, for processors before gfx942 and for later ones, and its shapes."""

    older: str
    newer: str
    size: int
    """The size of an element of A and of B, in bytes."""
    older_registers: int = 2
    """The number of registers of A, and of B, that the older instruction takes at a time. The newer one takes 2."""
    newer_registers: int = 2
    block: int = 32
    """The number of rows, and of columns, of C that one instruction computes."""
    result_size: int = 4
    """The size of an element of C, in bytes."""

    @property
    def depth(self) -> int:
        """The number of elements in the K dimension that LDS holds at a time."""
        return DEPTH_BYTES // self.size

    @property
    def registers(self) -> int:
        """The number of accumulation registers of a block of C."""
        return self.block**2 * self.result_size // 256

    @property
    def across(self) -> int:
        """The number of blocks in a row, and in a column, of a wave's part of C."""
        return WAVE_TILE // self.block


KINDS: Final = {
    "f16": Kind("f32_32x32x8f16", "f32_32x32x8_f16", 2),
    "bf16": Kind("f32_32x32x8bf16_1k", "f32_32x32x8_bf16", 2),
    "f32": Kind("f32_32x32x2f32", "f32_32x32x2_f32", 4, 1, 1),
    "f64": Kind("f64_16x16x4f64", "f64_16x16x4_f64", 8, block=16, result_size=8),
    "fp8": Kind("", "f32_32x32x16_fp8_fp8", 1),
    "i8": Kind("i32_32x32x8i8", "i32_32x32x16_i8", 1, 1),
}

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
    v_and_b32 v7, {last}, v2
    v_lshrrev_b32 v8, {block_bits}, v2
    v_lshlrev_b32 v9, 3, v8
    v_mul_u32_u24 v10, {pitch}, v7
    v_add_u32 v9, v10, v9
    s_mul_i32 s17, s14, {half}
    v_add_u32 v10, s17, v9
    s_mul_i32 s18, s13, {half}
    s_add_u32 s18, s18, {lds_of_b}
    v_add_u32 v11, s18, v9
    s_waitcnt lgkmcnt(0)
    s_lshl_b32 s15, s10, {size_bits}
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
    s_lshl_b32 s15, s11, {result_bits}
    s_lshl_b32 s16, s3, 7
    s_lshl_b32 s17, s14, 6
    s_add_u32 s16, s16, s17
    v_lshlrev_b32 v8, {rows_bits}, v8
    v_add_u32 v8, s16, v8
    v_mul_lo_u32 v8, v8, s15
    s_lshl_b32 s17, s2, 7
    s_lshl_b32 s18, s13, 6
    s_add_u32 s17, s17, s18
    v_add_u32 v7, s17, v7
    v_lshlrev_b32 v7, {result_bits}, v7
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


def gemm(agent: str, name: str = "f16") -> str:
    """Return the kernel's assembly text for `agent`; its arguments are A, B and C, and K and N as 32-bit numbers.

    `name` is the kind of product, one of `KINDS`; K is a multiple of its `depth`."""
    is_unified, is_older, kind = agent != "gfx908", agent in ("gfx908", "gfx90a"), KINDS[name]
    instruction = f"v_mfma_{kind.older if is_older else kind.newer}"
    accumulators, vectors = kind.across**2 * kind.registers, FIRST + 4 * kind.across + 4
    return _TEXT.format(
        pitch=PITCH,
        half=TILE // 2 * PITCH,
        lds_of_b=LDS_OF_B,
        lds_of_b_16=LDS_OF_B + 16,
        depth=kind.depth,
        lds=2 * LDS_OF_B,
        last=kind.block - 1,
        block_bits=kind.block.bit_length() - 1,
        size_bits=kind.size.bit_length() - 1,
        result_bits=kind.result_size.bit_length() - 1,
        rows_bits=0 if kind.block == 16 else 2,
        clear="\n".join(f"    v_accvgpr_write_b32 a{n}, 0" for n in range(accumulators)),
        multiply="\n".join(_multiply(kind, instruction, kind.older_registers if is_older else kind.newer_registers)),
        store="\n".join(_store(kind)),
        vgprs=vectors + accumulators if is_unified else max(accumulators, vectors),
        more=f"  .amdhsa_accum_offset {vectors}\n" if is_unified else "",
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


def _multiply(kind: Kind, instruction: str, count: int) -> Iterator[str]:
    """Yield the instructions that read the tiles from LDS and multiply them.

    Each lane reads 8 bytes of A and of B at a time. The matrix instruction takes `count` registers of each; if it takes
    one, the two registers of A and of B hold different elements in the K dimension."""
    step, first_b = 8 * 64 // kind.block, FIRST + 2 * kind.across
    for k in range(0, DEPTH_BYTES, step):
        for n in range(kind.across):
            at = n * kind.block * PITCH + k
            yield f"    ds_read_b64 v[{FIRST + 2 * n}:{FIRST + 1 + 2 * n}], v10 offset:{at}"
            yield f"    ds_read_b64 v[{first_b + 2 * n}:{first_b + 1 + 2 * n}], v11 offset:{at}"
        yield "    s_waitcnt lgkmcnt(0)"
        for row in range(kind.across):
            for column in range(kind.across):
                first = kind.registers * (kind.across * row + column)
                block = f"a[{first}:{first + kind.registers - 1}]"
                for part in range(0, 2, count):
                    a, b = (_registers(each + part, count) for each in (FIRST + 2 * row, first_b + 2 * column))
                    yield f"    {instruction} {block}, {a}, {b}, {block}"


def _registers(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def _store(kind: Kind) -> Iterator[str]:
    """Yield the instructions that store a wave's part of C, block by block."""
    words = kind.result_size // 4
    for row in range(kind.across):
        for column in range(kind.across):
            for n in range(kind.registers // words):
                within = 4 * n if kind.block == 16 else 8 * (n // 4) + n % 4
                for word in range(words):  # gfx908 needs two instructions between these and the store
                    number = kind.registers * (kind.across * row + column) + words * n + word
                    yield f"    v_accvgpr_read_b32 v{14 + word}, a{number}"
                yield f"    s_mul_i32 s20, s15, {kind.block * row + within}"
                yield f"    s_add_u32 s20, s20, {kind.result_size * kind.block * column}"
                yield "    v_add_u32 v12, s20, v8"
                yield f"    global_store_dword{'x2' * (words == 2)} v12, {_registers(14, words)}, s[8:9]"
