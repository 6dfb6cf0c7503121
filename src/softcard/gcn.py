"""Public names for GCN machine code of GFX7, GFX8 and GFX9: decoding, text, and engines that run waves."""

from softcard.core.space import Ram
from softcard.engine.gcn.api import Dispatch, Shapes
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.asm.listing import listing
from softcard.isa.gcn.encoding.decode import IllegalInstruction, decode
from softcard.isa.gcn.target import target

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
