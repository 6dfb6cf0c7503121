"""RV64 machine code: assembling, harts, and engines that run them."""

from understudy.core.space import Ram
from understudy.engine.riscv.jit.engine import JitEngine
from understudy.engine.riscv.reference import ReferenceEngine
from understudy.host.rv64.run import RV64
from understudy.image.assembly.files import assemble_program
from understudy.isa.riscv import csr
from understudy.isa.riscv.decode import assemble
from understudy.isa.riscv.isa import isa_of
from understudy.isa.riscv.state import RETURN_ADDRESS, Hart

__all__ = [
    "RETURN_ADDRESS",
    "RV64",
    "Hart",
    "JitEngine",
    "Ram",
    "ReferenceEngine",
    "assemble",
    "assemble_program",
    "csr",
    "isa_of",
]
