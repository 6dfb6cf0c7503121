"""How long until a code object as large as a BLAS library's is loaded, one kernel of it known, its code listed?

The object is written here: 5,000 kernels (V5) with 24 arguments and 8 KB of code each, whose instructions differ in
registers and constants. Peer: none is public.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from harness import Row, Samples, cpu, latency, main, rate, repeat
from softcard.image.hsa.code_object import CodeObject, read_code_object
from softcard.image.hsa.metadata import Argument, KernelMetadata
from softcard.image.hsa.records import KernelDescriptor
from softcard.image.hsa.writer import KernelSource, write_code_object
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.asm.listing import listing
from softcard.isa.gcn.encoding.bounds import instruction_bounds
from softcard.isa.gcn.target import target

KERNELS: Final = 5000
TARGET: Final = target("gfx906")
READ_TARGET_S: Final = 0.6
RATE_TARGET: Final = 0.5
TITLE: Final = "HSA: loading a library's code object"
ARGUMENTS: Final = tuple(Argument(f"argument{n}", 8 * n, 8, "by_value") for n in range(24))


def code(seed: int, lines: int) -> bytes:
    """Instructions of a matrix product's kind, with registers by chance."""
    rng = np.random.default_rng(seed)
    forms = (
        "v_mac_f32_e32 v{0}, v{1}, v{2}", "v_add_u32_e32 v{0}, {3:#x}, v{1}", "ds_read_b128 v[{0}:{0}+3], v{1}",
        "s_add_u32 s{4}, s{5}, {3:#x}", "global_load_dwordx4 v[{0}:{0}+3], v[{1}:{1}+1], off", "s_waitcnt vmcnt(0)",
    )  # fmt: skip
    text = []
    for _ in range(lines):
        v, s = rng.integers(0, 120, 3).tolist(), rng.integers(0, 100, 2).tolist()
        form = forms[rng.integers(len(forms))].replace("{0}+3", str(v[0] + 3)).replace("{1}+1", str(v[1] + 1))
        text.append(form.format(*v, int(rng.integers(1 << 16, 1 << 20)), *s))
    return assemble(TARGET, "\n".join((*text, "s_endpgm")))


def library(count: int) -> bytes:
    """The object."""
    header = KernelDescriptor.parse(bytes(KernelDescriptor.size_bytes))
    body = code(0, 1100)
    kernels = []
    for number in range(count):
        name = f"Cijk_Ailk_Bljk_SB_MT64x64x8_number_{number:05}"
        facts = KernelMetadata(name, f"{name}.kd", ARGUMENTS, 8 * len(ARGUMENTS))
        kernels.append(KernelSource(name, body, header, facts))
    return write_code_object("V5", TARGET.name, kernels)


def peak_mb(action: Callable[[], Any]) -> float:
    """The most that was allocated at once beyond what was there before, in MB."""
    tracemalloc.start()
    action()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def measure(quick: bool = False) -> list[Row]:
    rounds, count = (2, KERNELS // 10) if quick else (5, KERNELS)
    data = library(count)
    some = code(1, 2000 if quick else 20_000)
    words = np.frombuffer(some, np.uint32)
    amount = len(instruction_bounds(TARGET, words).starts)
    what = f"{count:,} kernels, {len(data) >> 20} MB"
    read = repeat(rounds, lambda: cpu(lambda: read_code_object(data)))
    objects: list[CodeObject] = [read_code_object(data) for _ in range(rounds)]
    peak = Samples((peak_mb(lambda: read_code_object(data)),))

    def first() -> float:
        found = objects.pop()
        return cpu(lambda: found.kernel(f"Cijk_Ailk_Bljk_SB_MT64x64x8_number_{count // 2:05}").metadata)

    return [
        latency("library_load", f"read: {what}", "s", read, target=READ_TARGET_S),
        Row("library_load", f"peak beyond the file: {what}", "MB", peak.best, peak.median, lower=True),
        latency("library_load", "metadata of one kernel of them", "ms", repeat(rounds, first)),
        rate("library_load", f"bounds of {amount:,} instructions", "M/s", amount,
             repeat(rounds, lambda: cpu(lambda: instruction_bounds(TARGET, words))), target=RATE_TARGET),
        rate("library_load", f"listing {amount:,} instructions", "M/s", amount,
             repeat(rounds, lambda: cpu(lambda: listing(TARGET, some))), target=RATE_TARGET),
    ]  # fmt: skip


if __name__ == "__main__":
    main(measure, TITLE)
