"""One process holds a hundred devices at once, each with memory, queues and code of its own."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from softcard.acceldev import Acceldev
from softcard.hsa import Executable, Gpu
from softcard.refsi import RefSi

COUNT = 100
AGENTS = ("gfx700", "gfx803", "gfx900", "gfx906")
TEXT = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
v_mov_b32 v0, s4
v_mov_b32 v1, s5
v_mov_b32 v2, s6
flat_store_dword v[0:1], v2
s_endpgm
"""


def test_a_hundred_agents_run_kernels_side_by_side() -> None:
    from softcard.image.hsa.writer import bare_code_object
    from softcard.isa.gcn.asm.assembler import assemble
    from softcard.isa.gcn.target import target

    codes = {name: bare_code_object(assemble(target(name), TEXT), name, name="k", kernarg_bytes=16) for name in AGENTS}
    with ExitStack() as stack:
        made: list[tuple[Gpu, Executable, npt.NDArray[np.uint32]]] = []
        for number in range(COUNT):
            name = AGENTS[number % len(AGENTS)]
            gpu = stack.enter_context(Gpu.open(name, threads=1))
            made.append((gpu, gpu.load(codes[name]), gpu.zeros(1, np.uint32)))
        for number, (gpu, code, out) in enumerate(made):
            gpu.run(code, "k", 64, 64, [out, np.uint64(number)])
        assert [int(out[0]) for _, _, out in made] == list(range(COUNT))


def test_a_hundred_of_other_kinds() -> None:
    """Each keeps what was written to it alone, and does what it is told."""
    with ExitStack() as stack:
        drivers = [stack.enter_context(RefSi.open()) for _ in range(COUNT)]
        accelerators = [stack.enter_context(Acceldev.open()) for _ in range(COUNT)]
        buffers = [each.array([number], np.uint32) for number, each in enumerate(drivers)]
        contexts = [each.open_context() for each in accelerators]
        held = [each.create_buffer(4096) for each in contexts]
        for number, each in enumerate(held):
            each.write(number.to_bytes(4, "little"))
        assert [int(each.array[0]) for each in buffers] == list(range(COUNT))
        assert [int.from_bytes(each.view[:4], "little") for each in held] == list(range(COUNT))
