"""What every device has compiled of its own, and the kernels that come with Understudy: to be made ahead of use."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from understudy.core.errors import UnderstudyError
from understudy.device.acceldev import native_commands as acceldev
from understudy.device.hsa import atomics, native_packets
from understudy.device.hsa.launch.plan import read_plan
from understudy.device.refsi import native_commands as refsi
from understudy.device.refsi.spec import native_instances
from understudy.engine.gcn.jit import layout, runtime
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.engine.gcn.jit.helpers_ir import helpers
from understudy.engine.gcn.jit.spans import fetch_of
from understudy.engine.riscv.jit import engine as riscv
from understudy.host.hsa.gpu import Gpu
from understudy.ir import llvm
from understudy.ir.native import Function, Module
from understudy.ir.object_cache import ObjectCache
from understudy.isa.gcn.target import target


@dataclass(frozen=True, slots=True)
class Part:
    """Native functions that are compiled together, and what for."""

    name: str
    module: Module

    @property
    def is_there(self) -> bool:
        """Whether its optimised code is kept."""
        return self.module.kept(llvm.OPTIMISED) is not None


def parts(objects: ObjectCache) -> list[Part]:
    """Those of all devices."""

    def part(name: str, functions: tuple[Function[Any], ...], text: str = "") -> Part:
        return Part(name, Module(objects, functions, text))

    lanes = layout.chunk_lanes(llvm.host_features())
    return [
        part("RefSi: commands", (refsi.commands,)),
        part("RefSi: instances of kernels", (native_instances.instances,)),
        part("RISC-V: running translated code", riscv.FUNCTIONS),
        part("Acceldev: user commands", (acceldev.commands,)),
        part("AMD HSA: packets", (native_packets.consume,)),
        part("AMD HSA: completion of packets", (native_packets.retire, native_packets.count_down)),
        part("AMD HSA: atomics of the host", atomics.FUNCTIONS),
        part("GCN: waves and their memory", runtime.FUNCTIONS, helpers(lanes)),
    ]


def prepared(code: bytes, agent: str) -> Iterator[str]:
    """Have all kernels of a code object ready to run, and their handlers optimised; their names, as they are done."""
    with Gpu.open(agent) as gpu:
        engine = gpu.device.engine
        assert isinstance(engine, JitEngine)
        memory, processor = gpu.device.memory, target(agent)
        space = engine.code(processor, memory)
        for kernel in gpu.load(code).kernels.values():
            plan = read_plan(memory, kernel.address)
            pc = kernel.address + plan.facts.kernel_code_entry_byte_offset
            try:
                spans = [(pc, memory.read(pc, 12))]
            except UnderstudyError:
                continue
            with engine.lock:
                engine.install(space, (pc, plan.mode), fetch_of(processor, spans))
            yield kernel.name
        engine.library.optimise()
        while engine.library.is_optimising:
            time.sleep(0.01)
            engine.library.adopt()
