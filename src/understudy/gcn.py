"""GCN machine code of GFX7, GFX8 and GFX9: decoding, text, and engines that run waves."""

from understudy.core.space import Ram
from understudy.engine.gcn.api import Dispatch, Shapes
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.engine.gcn.jit.tier import Tier
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.reference.engine import ReferenceEngine
from understudy.isa.gcn.asm.assembler import assemble
from understudy.isa.gcn.asm.listing import listing
from understudy.isa.gcn.encoding.decode import IllegalInstruction, decode
from understudy.isa.gcn.target import target

__all__ = [
    "Dispatch",
    "GpuMemory",
    "IllegalInstruction",
    "JitEngine",
    "Ram",
    "ReferenceEngine",
    "Shapes",
    "Tier",
    "assemble",
    "decode",
    "listing",
    "target",
]
