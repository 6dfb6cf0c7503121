"""GCN machine code on the JIT engine against pocl, which compiles the same OpenCL C for the CPU, and the reference.

The kernels of kernels/gcn.cl, compiled by clang for gfx803 and gfx900, on 1 M work-items or matrices of 256 x 256
(--quick: less). Wave instructions per second are those of one thread in CPU time; total times are on the clock with all
threads.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness import FOLDER, Row, Samples, alternate, cpu, latency, main, optimised, repeat, wall
from pocl import Absent, OpenCl
from softcard.core.space import Ram
from softcard.device.hsa.launch.first_state import Surroundings, launch
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.engine.gcn.api import Dispatch, Shapes
from softcard.engine.gcn.memory import MASK64, GpuMemory
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine, Launch
from softcard.image.hsa.code_object import read_code_object
from softcard.ir import host as machine
from softcard.ir.object_cache import ObjectCache, default_folder
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target

QUESTION: Final = "gcn"
SOURCE: Final = FOLDER / "kernels" / "gcn.cl"
COMPILERS: Final = ("clang-16", "clang-15", "clang-17", "clang-18", "clang-19")
LEAST: Final = 150.0
"""Million wave instructions per second and core."""
SHORT: Final = 2e-3
"""Seconds of a launch below which waking threads makes single times differ a lot: more of them are taken."""
SETTLING: Final = 64
"""Runs after which nothing more becomes hot."""
NEAREST: Final = 1 / 1.2
"""Of a kernel that does nothing but read and write memory once."""


@dataclass(frozen=True)
class Case:
    """A kernel, its grid, and arrays: what it reads, then what it writes.

    `rate` is the target of one core, `ratio` that of all of it over the peer.
    """

    kernel: str
    title: str
    grid: tuple[int, int]
    group: tuple[int, int]
    inputs: tuple[np.ndarray[Any, Any], ...]
    result: np.ndarray[Any, Any]
    number: int | None = None
    rate: float = LEAST
    ratio: float = 1.0


def cases(quick: bool) -> list[Case]:
    """The measured kernels."""
    many, side = (1 << 16, 64) if quick else (1 << 20, 256)
    rng = np.random.default_rng(1)
    a, b = (rng.random(many, np.float32) for _ in range(2))
    left, right = (rng.random(side * side, np.float32) for _ in range(2))
    line, tile, square = (256, 1), (16, 16), (side, side)
    floats = lambda count: np.zeros(count, np.float32)  # noqa: E731
    return [
        Case("vector_add", "vector add", (many, 1), line, (a, b), floats(many), ratio=NEAREST),
        Case("matmul", f"matmul {side}", square, tile, (left, right), floats(side * side), side),
        Case("matmul_tiled", f"LDS-tiled matmul {side}", square, tile, (left, right), floats(side * side), side),
        Case("reduction", "reduction", (many, 1), line, (a,), floats(many // 256)),
        Case("collatz", "collatz", (many // 16, 1), line, (), np.zeros(many // 16, np.uint32)),
        Case("polynomial", "polynomial", (many // 16, 1), line, (a[: many // 16],), floats(many // 16)),
        *scattered(many // 16, 256 if quick else 1024),
    ]


def scattered(many: int, side: int) -> list[Case]:
    """Kernels whose lanes find what they read far from each other; columns, which do not, beside rows, which do."""
    rng = np.random.default_rng(2)
    line, tile = (256, 1), (16, 16)
    words, bytes_ = rng.integers(0, 1 << 32, many, np.uint32), rng.permutation(256).astype(np.uint8)
    table, numbers = rng.integers(0, 1 << 32, 1024, np.uint32), rng.random(1 << 16, np.float32)
    square, x = rng.random(side * side, np.float32), rng.random(side, np.float32)
    results, floats = np.zeros(many, np.uint32), lambda count: np.zeros(count, np.float32)
    by = f"of a {side} x {side} matrix"
    return [
        Case("substitution", "byte substitution", (many, 1), line, (bytes_, words), results, rate=100.0),
        Case("substitution_local", "byte substitution in LDS", (many, 1), line, (bytes_, words), results, rate=100.0),
        Case("tables", "dword tables", (many, 1), line, (table, words), results, rate=100.0),
        Case("gather", "random gathers", (many, 1), line, (words & 0xFFFF, numbers), floats(many), rate=140.0),
        Case("rows", f"rows {by}", (side, 1), line, (square, x), floats(side), side, rate=100.0),
        Case("columns", f"columns {by}", (side, 1), line, (square, x), floats(side), side, rate=600.0),
        Case(
            "transpose4", f"float4 transpose {by}", (side // 4,) * 2, tile, (square,), floats(side**2), side, rate=60.0
        ),
    ]


class Gpu:
    """A code object in guest memory, and launches of its kernels on arrays that are shared without copies."""

    def __init__(self, path: Path, processor: str) -> None:
        self.memory = GpuMemory()
        self.target = target(processor)
        self._next = 0x10_0000_0000
        code = read_code_object(path.read_bytes())
        loaded = code.load(self._next)
        self.place(np.frombuffer(loaded.data, np.uint8))
        self.code, self.kernels = code, loaded.kernels

    def place(self, data: np.ndarray[Any, Any]) -> tuple[int, np.ndarray[Any, Any]]:
        """Address of a copy in guest memory, and the copy."""
        ram = Ram(-(-max(data.nbytes, 1) // 4096) * 4096)
        address, self._next = self._next, self._next + ram.size + 0x1_0000
        self.memory.map(address, ram)
        copy = np.frombuffer(ram.view, np.uint8)[: data.nbytes].view(data.dtype)
        copy[:] = data.reshape(-1)
        return address, copy

    def borrow(self, data: np.ndarray[Any, Any]) -> tuple[int, np.ndarray[Any, Any]]:
        """Address of a copy that begins 20 bytes behind the start of a page and ends with its last byte."""
        room = np.zeros(data.nbytes + 4096 + 20, np.uint8)
        start = -room.ctypes.data % 4096 + 20
        copy = room[start : start + data.nbytes]
        address, self._next = self._next + 20, self._next + -(-data.nbytes // 4096) * 4096 + 0x1_0000
        self.memory.map(address, copy)
        copy[:] = data.reshape(-1).view(np.uint8)
        return address, copy.view(data.dtype)

    def dispatch(
        self, case: Case, where: Callable[[np.ndarray[Any, Any]], tuple[int, np.ndarray[Any, Any]]] | None = None
    ) -> tuple[Dispatch, np.ndarray[Any, Any]]:
        """A launch of a case with arrays that `where` puts into memory, and where its result will be."""
        where = where or self.place
        words = [where(each)[0] for each in case.inputs]
        address, result = where(case.result)
        words.append(address)
        kernarg = np.array([*words, case.number or 0], np.uint64)
        place, _ = self.place(np.concatenate([kernarg.view(np.uint8), np.zeros(256, np.uint8)]))
        kernel = self.code.kernel(case.kernel)
        packet = KernelDispatchPacket(
            workgroup_size_x=case.group[0],
            workgroup_size_y=case.group[1],
            grid_size_x=case.grid[0],
            grid_size_y=case.grid[1],
            group_segment_size=kernel.group_bytes,
            private_segment_size=kernel.private_bytes,
            kernel_object=self.kernels[case.kernel],
            kernarg_address=place,
        )
        at, _ = self.place(np.frombuffer(packet.pack(), np.uint8))
        return launch(Surroundings(self.target, self.memory), packet, at), result


def compiled(processor: str, folder: Path) -> Path:
    """The code object of kernels/gcn.cl."""
    compiler = next((name for name in COMPILERS if shutil.which(name)), None)
    if compiler is None:
        raise Absent("clang is not installed")
    linker = compiler.replace("clang", "ld.lld")
    made, linked = folder / f"{processor}.o", folder / f"{processor}.co"
    options = ["-x", "cl", "-cl-std=CL2.0", "-O2", "-target", "amdgcn-amd-amdhsa", f"-mcpu={processor}", "-nogpulib"]
    include = ["-Xclang", "-finclude-default-header"]
    subprocess.run([compiler, *options, *include, "-c", str(SOURCE), "-o", str(made)], check=True)
    subprocess.run([linker, "-shared", str(made), "-o", str(linked)], check=True)
    return linked


def settled(ready: Launch) -> int:
    """Run until what is hot has been optimised, and what starts waves; the wave instructions of a run."""
    for _ in range(SETTLING):
        ready.run()
        optimised()
    return ready.run().instructions


def speed(case: Case, processor: str, gpu: Gpu, peer: OpenCl | None, rounds: int) -> list[Row]:
    """Instructions per second of one thread, time on all threads against the peer, gain by the second thread."""
    dispatch, result = gpu.dispatch(case)
    engines = JitEngine(threads=1), JitEngine()
    one, two = (engine.prepare(dispatch) for engine in engines)
    count = settled(one)
    settled(two)
    name = f"{processor} {case.title}"
    alone = repeat(rounds, lambda: cpu(one.run))
    best, typical = count / alone.best / 1e6, count / alone.median / 1e6
    rows = [Row(QUESTION, f"{name}: one core", "M wave instr/s", best, typical, target=case.rate, absolute=True)]
    sides: list[Callable[[], float]] = [
        lambda: wall(two.run),
        lambda: wall(one.run),
    ]
    if peer is not None:
        theirs = case.result.copy()
        arguments = [*case.inputs, theirs, *(() if case.number is None else (case.number,))]
        run = peer.run(case.kernel, case.grid, case.group, *arguments)
        run()
        sides.append(lambda: wall(run))
    samples = alternate(rounds if alone.best > SHORT else 4 * rounds, *sides)
    more: dict[str, Any] = {}
    if peer is not None:
        run()
        check(case, result, theirs)
        more = {"peer_name": "pocl", "peer": samples[2].best * 1e3, "target": case.ratio}
    rows.append(latency(QUESTION, f"{name}: all of it", "ms", samples[0], **more))
    threads = engines[1].threads
    if threads > 1 and samples[1].best > 2e-3:
        gain = samples[1].best / samples[0].best
        rows.append(Row(QUESTION, f"{name}: gain by {threads} threads", "x", gain, gain, target=1.7, absolute=True))
    for engine in engines:
        engine.close()
    return rows


def check(case: Case, result: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Both sides computed the same."""
    if not np.allclose(result, expected, rtol=1e-3, equal_nan=True):
        raise AssertionError(f"{case.kernel}: results differ")


def narrow(path: Path, rounds: int, quick: bool) -> list[Row]:
    """In a process whose compiler knows no more than AVX2 and FMA: chunks of 8 lanes.

    The processor is remembered in a cache, which processes that compile in the background look into as well.
    """
    os.environ["XDG_CACHE_HOME"] = str(path.parent / "narrow")
    found = machine.host()
    features = [
        "-" + name[1:] if name[1:].startswith(("avx512", "avxvnni", "avx10", "evex")) else name
        for name in found.features.split(",")
    ]
    parts = (found.triple, "haswell", ",".join(features), found.version)
    mark = machine._mark()
    assert mark is not None
    ObjectCache(default_folder()).put(mark, json.dumps(parts).encode())
    machine.host.cache_clear()
    gpu = Gpu(path, "gfx900")
    rows = []
    for case in cases(quick):
        dispatch, _ = gpu.dispatch(case)
        engine = JitEngine(threads=1)
        ready = engine.prepare(dispatch)
        count = settled(ready)
        found = repeat(rounds, lambda r=ready: cpu(r.run))  # type: ignore[misc]
        best, typical = count / found.best / 1e6, count / found.median / 1e6
        what = f"gfx900 {case.title}: one core, AVX2 only ({engine.lanes} lanes)"
        rows.append(Row(QUESTION, what, "M wave instr/s", best, typical))
        engine.close()
    return rows


def borrowed(gpu: Gpu, rounds: int, quick: bool) -> list[Row]:
    """Arrays of somebody else, mapped where they are, that neither begin nor end with a page, beside whole pages."""
    case = cases(quick)[0]
    engine = JitEngine(threads=1)
    ready, results = [], []
    for where in (gpu.place, gpu.borrow):
        dispatch, result = gpu.dispatch(case, where)
        ready.append(engine.prepare(dispatch))
        results.append(result)
        count = settled(ready[-1])
    check(case, *results)
    ours, theirs = (sorted(each.seconds) for each in alternate(rounds, *(lambda r=r: cpu(r.run) for r in ready)))
    rate = lambda seconds: count / seconds / 1e6  # noqa: E731
    best, typical = rate(theirs[0]), rate(theirs[len(theirs) // 2])
    more: dict[str, Any] = {"peer_name": "whole pages", "peer": rate(ours[0]), "target": 1 / 1.2}
    engine.close()
    return [Row(QUESTION, "gfx900 vector add: arrays at odd addresses", "M wave instr/s", best, typical, **more)]


TYPED: Final = {
    "load of binary32": ("tbuffer_load_format_x v4, v0, s[4:7], 0 idxen dfmt:4 nfmt:7", 4),
    "load of four unorm8": ("tbuffer_load_format_xyzw v[4:7], v0, s[4:7], 0 idxen dfmt:10 nfmt:0", 4),
    "store of four unorm8": ("tbuffer_store_format_xyzw v[4:7], v0, s[4:7], 0 idxen dfmt:10 nfmt:0", 4),
}
"""Typed buffer operations, and bytes of an element."""
IN_A_ROW: Final = 16
"""Of one operation in a loop."""


def typed(gpu: Gpu, rounds: int) -> list[Row]:
    """Wave instructions per second of loops over typed buffer operations."""
    rows = []
    shapes = Shapes(np.ones(1, np.uint32), np.full((1, 1), MASK64, np.uint64), np.zeros((1, 1, 8, 64), np.uint32))
    shapes.vgprs[0, 0, 0] = np.arange(64)
    for what, (operation, size) in TYPED.items():
        begin = ["s_movk_i32 s0, 0x2000", "again:", *[operation] * IN_A_ROW]
        end = ["s_sub_u32 s0, s0, 1", "s_cmp_gt_i32 s0, 0", "s_cbranch_scc1 again", "s_endpgm"]
        code, _ = gpu.place(np.frombuffer(assemble(gpu.target, "\n".join([*begin, *end]) + "\n"), np.uint8))
        data, _ = gpu.place(np.zeros(4096, np.uint8))
        sgprs = np.zeros(104, np.uint32)
        sgprs[4:7] = data & 0xFFFF_FFFF, data >> 32 | size << 16, 64
        engine = JitEngine(threads=1)
        ready = engine.prepare(Dispatch(gpu.target, gpu.memory, code, shapes, np.zeros((1, 4), np.uint32), sgprs))
        count = settled(ready)
        found = repeat(rounds, lambda r=ready: cpu(r.run))  # type: ignore[misc]
        best, typical = count / found.best / 1e6, count / found.median / 1e6
        name = f"gfx900 typed buffer, {what}: one core"
        rows.append(Row(QUESTION, name, "M wave instr/s", best, typical, target=20.0, absolute=True))
        engine.close()
    return rows


def reference(gpu: Gpu) -> Row:
    """How much slower the judge is."""
    case = cases(True)[3]
    dispatch, _ = gpu.dispatch(case)
    small = replace(dispatch, groups=dispatch.groups[:16])
    count = 0

    def run() -> None:
        nonlocal count
        count = ReferenceEngine().run(small).instructions

    seconds = cpu(run)
    rate = count / seconds / 1e6
    return Row(QUESTION, "gfx900 reduction: reference engine", "M wave instr/s", rate, rate)


def first_runs(path: Path, rounds: int) -> list[Row]:
    """From a code object in memory to the end of a first small run: nothing cached, then with the object cache."""
    case = cases(True)[3]
    cold, warm = [], []
    with tempfile.TemporaryDirectory() as kept:
        for number in range(rounds):
            gpu = Gpu(path, "gfx900")
            dispatch, _ = gpu.dispatch(case)
            cold.append(first(ObjectCache(), dispatch))
            folder = Path(kept, str(number))
            settled_engine = JitEngine(threads=1, cache=ObjectCache(folder))
            settled(settled_engine.prepare(dispatch))
            settled_engine.close()
            warm.append(first(ObjectCache(folder), dispatch))
    what = "reduction of 110 instructions: first run"
    return [
        latency(QUESTION, f"{what}, nothing cached", "ms", Samples(tuple(cold)), target=100.0, absolute=True),
        latency(QUESTION, f"{what}, object cached", "ms", Samples(tuple(warm)), target=10.0, absolute=True),
    ]


def first(cache: ObjectCache, dispatch: Dispatch) -> float:
    """Seconds of the first run on a new engine whose runtime is there."""
    engine = JitEngine(threads=1, cache=cache)
    seconds = wall(lambda: engine.run(dispatch))
    engine.close()
    return seconds


def measure(quick: bool) -> Sequence[Row]:
    """All rows."""
    rounds = 5 if quick else 15
    rows: list[Row] = []
    try:
        peer: OpenCl | None = OpenCl(SOURCE.read_text(encoding="utf-8"))
    except Absent as reason:
        print(f"no peer: {reason}")
        peer = None
    with tempfile.TemporaryDirectory() as folder:
        for processor in ("gfx803", "gfx900"):
            path = compiled(processor, Path(folder))
            gpu = Gpu(path, processor)
            for case in cases(quick):
                rows += speed(case, processor, gpu, peer, rounds)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows += pool.apply(narrow, (path, rounds, quick))
        rows += borrowed(gpu, rounds, quick)
        rows += typed(gpu, rounds)
        rows.append(reference(gpu))
        rows += first_runs(path, rounds)
    return rows


if __name__ == "__main__":
    main(measure, "GCN machine code")
