"""The public interface for RV64 machine code: assembler, harts, and the engines that run them."""

from softcard.core.space import Ram
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.host.rv64.run import RV64
from softcard.image.assembly.files import assemble, assemble_program
from softcard.isa.riscv import csr
from softcard.isa.riscv.isa import isa_of
from softcard.isa.riscv.state import RETURN_ADDRESS, Hart

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
