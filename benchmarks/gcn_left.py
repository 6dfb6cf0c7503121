"""What leaves translated code, and how fast is what seldom occurs?

Shares are of instructions that the reference engine executes: of the code of kernels (as the threaded tier takes them),
and of what they execute with arguments made up from their metadata. Kernels are a sample of rocRAND's and rocSPARSE's
(`make oracles`) and rocBLAS's (`make rocblas`), and the OpenCL corpus of the tests. Rates are of loops with 64
instructions of a class, in CPU time of one thread. Peer: none is public.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from harness import ROOT, Row, cpu, main, rate, repeat
from softcard.core.space import Ram
from softcard.engine.gcn.api import Dispatch, Shapes
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target

QUESTION: Final = "gcn_left"
TITLE: Final = "GCN: what leaves translated code"
MOST_PERCENT: Final = 0.01
LEAST: Final = 20.0
"""Million wave instructions per second and core."""
CODE: Final = 0x10_0000
DATA: Final = 0x20_0000
RUN_ONE_IN: Final = 3
"""Kernels counted, for one that is run."""
COPIES: Final = 64
"""Instructions of a class in a loop's turn."""
TEXTURE: Final = """s_movk_i32 s24, 0x2000
s_mov_b32 s25, {form:#x}
s_mov_b32 s26, 0x7c01f
s_mov_b32 s27, 0x90000fac
s_mov_b32 s28, 0x3e000
s_mov_b32 s29, 0
v_and_b32 v28, 31, v12
v_lshrrev_b32 v29, 5, v12"""
"""A T# of 32 texels to a row, and coordinates of lanes one after the other."""
POINT: Final = """
s_mov_b32 s32, 0x8092
s_mov_b32 s33, 0xfff000
s_mov_b32 s34, 0
s_mov_b32 s35, 0
v_cvt_f32_u32 v28, v28
v_cvt_f32_u32 v29, v29"""
"""An S# that clamps coordinates in texels, and these as floats."""
WHERE: Final = "s_mov_b32 s8, 0x200000\ns_mov_b32 s9, 0"
"""The address of the data."""
LINEAR: Final = POINT.replace("s34, 0", "s34, 0x500000")
CLASSES: Final = {
    "s_sleep": ("gfx900", "", "s_sleep 0"),
    "s_setprio": ("gfx900", "", "s_setprio 1"),
    "s_movrels, s_movreld": ("gfx803", "s_mov_b32 m0, 2", "s_movrels_b32 s20, s24\ns_movreld_b32 s30, s20"),
    "v_movrels, v_movreld": ("gfx803", "s_mov_b32 m0, 2", "v_movrels_b32 v10, v12\nv_movreld_b32 v20, v10"),
    "s_set_gpr_idx_on, a move, off": (
        "gfx900", "", "s_set_gpr_idx_on s20, gpr_idx(SRC0)\nv_mov_b32 v10, v12\ns_set_gpr_idx_off",
    ),
    "s_setreg of a constant": ("gfx900", "", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3\n"
                               "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0"),
    "s_setreg of a register": ("gfx900", "", "s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s21"),
    "s_getreg": ("gfx900", "", "s_getreg_b32 s20, hwreg(HW_REG_STATUS)"),
    "s_memtime": ("gfx900", "", "s_memtime s[20:21]"),
    "s_buffer_load": ("gfx900", "", "s_buffer_load_dword s20, s[4:7], 0x0"),
    "s_store": ("gfx900", WHERE, "s_store_dword s20, s[8:9], 0x0"),
    "s_atomic_add": ("gfx900", WHERE, "s_atomic_add s20, s[8:9], 0x0"),
    "buffer_load_format, unorm8": (
        "gfx900", "s_mov_b32 s7, 0x50fac", "buffer_load_format_xyzw v[20:23], v12, s[4:7], 0 idxen",
    ),
    "buffer_store_format, unorm8": (
        "gfx900", "s_mov_b32 s7, 0x50fac", "buffer_store_format_xyzw v[20:23], v12, s[4:7], 0 idxen",
    ),
    "buffer_load_format, float": (
        "gfx900", "s_mov_b32 s7, 0x27fac", "buffer_load_format_x v20, v12, s[4:7], 0 idxen",
    ),
    "buffer_store_format, float": (
        "gfx900", "s_mov_b32 s7, 0x27fac", "buffer_store_format_x v20, v12, s[4:7], 0 idxen",
    ),
    "image_load, unorm8": (
        "gfx900", TEXTURE.format(form=0x00A0_0000), "image_load v[20:23], v[28:29], s[24:31] dmask:0xf unorm",
    ),
    "image_store, unorm8": (
        "gfx900", TEXTURE.format(form=0x00A0_0000), "image_store v[20:23], v[28:29], s[24:31] dmask:0xf unorm",
    ),
    "image_load, sRGB": (
        "gfx900", TEXTURE.format(form=0x24A0_0000), "image_load v[20:23], v[28:29], s[24:31] dmask:0xf unorm",
    ),
    "image_store, sRGB": (
        "gfx900", TEXTURE.format(form=0x24A0_0000), "image_store v[20:23], v[28:29], s[24:31] dmask:0xf unorm",
    ),
    "image_load, float": (
        "gfx900", TEXTURE.format(form=0x1C40_0000), "image_load v20, v[28:29], s[24:31] dmask:0x1 unorm",
    ),
    "image_store, float": (
        "gfx900", TEXTURE.format(form=0x1C40_0000), "image_store v20, v[28:29], s[24:31] dmask:0x1 unorm",
    ),
    "image_sample, unorm8, nearest": (
        "gfx900", TEXTURE.format(form=0x00A0_0000) + POINT,
        "image_sample_lz v[20:23], v[28:29], s[24:31], s[32:35] dmask:0xf",
    ),
    "image_sample, unorm8, linear": (
        "gfx900", TEXTURE.format(form=0x00A0_0000) + LINEAR,
        "image_sample_lz v[20:23], v[28:29], s[24:31], s[32:35] dmask:0xf",
    ),
    "image_sample, float, linear": (
        "gfx900", TEXTURE.format(form=0x1C40_0000) + LINEAR,
        "image_sample_lz v20, v[28:29], s[24:31], s[32:35] dmask:0x1",
    ),
    "ds_permute": ("gfx900", "", "ds_permute_b32 v10, v1, v12"),
    "ds_bpermute": ("gfx900", "", "ds_bpermute_b32 v10, v1, v12"),
    "ds_swizzle": ("gfx900", "", "ds_swizzle_b32 v10, v12 offset:0x401f"),
    "DPP": ("gfx900", "", "v_add_f32_dpp v10, v12, v13 row_shr:1 row_mask:0xf bank_mask:0xf"),
    "v_readlane, v_writelane": ("gfx900", "", "v_readlane_b32 s20, v12, 5\nv_writelane_b32 v10, s20, 6"),
    "ds_add_u32": ("gfx900", "", "ds_add_u32 v1, v12"),
    "ds_append": ("gfx900", "s_mov_b32 m0, 0", "ds_append v10"),
    "ds_wrxchg2": ("gfx900", "", "ds_wrxchg2_rtn_b32 v[10:11], v1, v12, v13 offset1:1"),
    "ds_add_src2": ("gfx900", "", "ds_add_src2_u32 v1 offset:64"),
    "ds_add_f32": ("gfx900", "", "ds_add_f32 v1, v12"),
    "global_atomic_add": ("gfx900", "", "global_atomic_add v[2:3], v12, off"),
    "global_atomic_add, one place": ("gfx900", "v_mov_b32 v2, 0x200000", "global_atomic_add v[2:3], v12, off"),
}  # fmt: skip
"""Processor, what is done once, and the instructions of a class."""


# ---- shares ----------------------------------------------------------------------------------------------------------


class Share:
    """Instructions counted, and those of them that left, by operation."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.kernels = 0
        self.count = 0
        self.left: Counter[str] = Counter()

    def row(self) -> Row:
        """The share in percent."""
        percent = 100 * self.left.total() / max(self.count, 1)
        most = ", ".join(f"{name} {100 * n / self.count:.2g} %" for name, n in self.left.most_common(8))
        note = f"{self.count:,} instructions of {self.kernels:,} kernels{f': {most}' if most else ''}"
        return Row(QUESTION, self.what, "%", percent, percent, target=MOST_PERCENT, lower=True, note=note)


def libraries(quick: bool) -> Iterator[Row]:
    """Of the code and the execution of kernels of libraries."""
    sys.path.insert(0, str(ROOT))
    there = importlib.import_module("tests.rocm.libraries")
    exam = importlib.import_module("tests.rocm.exam")
    engine = JitEngine(threads=1, tier=Tier.THREADED)
    for path in (there.SMALL, there.LARGE):
        if not path.exists():
            continue
        shares: dict[str, tuple[Share, Share]] = {}
        for processor in there.PROCESSORS:
            frontends: dict[int, Any] = {}
            for number, chosen in enumerate(there.kernels(path, processor, 16 if quick else 2, 40)):
                names = f"code of {chosen.library}", f"executed of {chosen.library}"
                code, executed = shares.setdefault(chosen.library, (Share(names[0]), Share(names[1])))
                count_code(code, there.flow(chosen, frontends))
                if number % RUN_ONE_IN == 0:
                    count_run(executed, exam, chosen, engine)
        yield from (share.row() for pair in shares.values() for share in pair if share.kernels)


def count_code(share: Share, flow: Any) -> None:
    """Count the instructions of a kernel's blocks."""
    share.kernels += 1
    for (_, mode), block in flow.blocks.items():
        numbers, counts = np.unique(flow.plans[mode][block.first : block.last], return_counts=True)
        share.count += block.last - block.first
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            plan = flow.frontend(mode).plans[number]
            if plan.kind is None and (plan.node is None or not plan.node.has_inline_cache):
                share.left["no instruction" if plan.insn is None else plan.insn.op.name] += count


def count_run(share: Share, exam: Any, chosen: Any, engine: JitEngine) -> None:
    """Run a kernel with the first arguments that it comes to its end with."""
    for manner in exam.MANNERS:
        outcome = exam.take(chosen, manner, engine)
        if not outcome.error:
            share.kernels += 1
            share.count += outcome.instructions
            share.left += outcome.left
            return


def corpus() -> Iterator[Row]:
    """Of what the kernels of the tests execute."""
    if shutil.which("clang-16") is None or shutil.which("ld.lld-16") is None:
        return
    sys.path.insert(0, str(ROOT))
    bench = importlib.import_module("tests.gcn_kernels.bench")
    exam = importlib.import_module("tests.rocm.exam")
    for name in ("float", "group", "integer", "memory", "programs", "resources"):
        importlib.import_module(f"tests.gcn_kernels.cases_{name}")
    toolchain = importlib.import_module("tests.gcn_kernels.toolchain")
    read = importlib.import_module("softcard.image.hsa.code_object").read_code_object
    engine, share = JitEngine(threads=1, tier=Tier.THREADED), Share("executed of the OpenCL corpus")
    for case in bench.CASES.values():
        for gfx in case.targets:
            code = read(toolchain.build(case.source, gfx))
            dispatch, _ = bench.Bench(gfx, code).dispatch(case.kernel, case.grid, case.group, case.arguments())
            share.kernels += 1
            share.count += exam.run(engine, dispatch, share.left)
    yield share.row()


# ---- rates -----------------------------------------------------------------------------------------------------------


def loop(name: str, turns: int) -> Dispatch:
    """A wave that executes a class of instructions again and again."""
    gfx, before, lines = CLASSES[name]
    head = f"s_mov_b32 m0, -1\ns_movk_i32 s90, {turns}\n{before}"
    end = "s_sub_u32 s90, s90, 1\ns_cmp_lg_u32 s90, 0\ns_cbranch_scc1 again\ns_endpgm"
    copies = COPIES // len(lines.split("\n"))
    code = assemble(target(gfx), "\n".join([head, "again:", *[lines] * copies, end, ""]))
    memory = GpuMemory()
    for address, data in ((CODE, code), (DATA, bytes(4096))):
        ram = Ram(-(-len(data) // 4096) * 4096)
        ram.view[: len(data)] = data
        memory.map(address, ram)
    sgprs = np.zeros(32, np.uint32)
    sgprs[4:8] = DATA, 4 << 16, 1024, 0
    sgprs[20:22] = 2, 15
    lanes = np.arange(64, dtype=np.uint32)
    rows = np.zeros((1, 1, 32, 64), np.uint32)
    rows[0, 0, 1], rows[0, 0, 2], rows[0, 0, 12] = 4 * lanes, DATA + 4 * lanes, lanes
    shapes = Shapes(np.ones(1, np.uint32), np.full((1, 1), (1 << 64) - 1, np.uint64), rows)
    return Dispatch(
        target(gfx), memory, CODE, shapes, np.zeros((1, 4), np.uint32), sgprs=sgprs, lds_bytes=4096, mode=0x3F0
    )


NOTES: Final = {
    "s_sleep": "a pause: it is to take time",
    "global_atomic_add": "a locked instruction of the host for each of 64 lanes",
}  # fmt: skip
"""Why a class is slower than the others."""


def settle(engine: JitEngine) -> None:
    """Have all handlers optimised, as they are where much is run."""
    engine.library.optimise()
    while engine.library.is_optimising:
        time.sleep(0.01)
        engine.library.adopt()


def rates(quick: bool) -> Iterator[Row]:
    """Of each class, on handlers and optimised."""
    turns, rounds = (200, 2) if quick else (2000, 5)
    for tier in Tier:
        engine = JitEngine(threads=1, tier=tier)
        for name in CLASSES:
            launch = engine.prepare(loop(name, turns))
            count = launch.run().instructions
            settle(engine)
            samples = repeat(rounds, lambda launch=launch: cpu(launch.run))
            note = NOTES.get(name, "")
            yield rate(QUESTION, f"{name}, {tier.value}", "M/s", count, samples, target=LEAST, note=note)


def measure(quick: bool = False) -> list[Row]:
    """All rows."""
    return [*libraries(quick), *corpus(), *rates(quick)]


if __name__ == "__main__":
    main(measure, TITLE)
