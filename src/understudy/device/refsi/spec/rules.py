"""Rules and choices of the memory system that the command processor document alone does not hold.

Clauses name the sister documents of the same set: "DMA Controller Reference", "DMA Programming Guide", "RefSi Driver
Interface" and "Codeplay Reference Silicon Overview".
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Fidelity, Rule


def _rule(name: str, clause: str, text: str, fidelity: Fidelity = Fidelity.EXACT) -> Rule:
    return Rule(f"refsi/{name}", clause, text, fidelity)


_CHOSEN: Final = Fidelity.CHOSEN

# Codeplay Reference Silicon Overview; RefSi Driver Interface
_OVERVIEW: Final = "Codeplay Reference Silicon Overview, Architecture"
_DRIVER: Final = "RefSi Driver Interface, Device memory access"
MEMORY_MAP = _rule(
    "memory-map", "RefSi Driver Interface, Device queries", "memory is what the memory map and active windows hold"
)
MEMORY_OVERLAP = _rule(
    "memory-overlap", "CMP_REG_WINDOW_BASEn (IDs: 8 through 15)", "an address belongs to one memory area", _CHOSEN
)
UNIT_EXISTS = _rule("unit-exists", _DRIVER, "a unit ID names a hart, core or other unit of the device", _CHOSEN)
WINDOW_RESERVED = _rule(
    "window-reserved",
    "CMP_REG_WINDOW_MODEn (IDs: 24 through 31)",
    "bits that the tables of the window registers do not list are zero",
    _CHOSEN,
)
WINDOW_TARGET_PHYSICAL = _rule(
    "window-target-physical",
    "CMP_REG_WINDOW_TARGETn (IDs: 16 through 23)",
    "TARGET_ADDR is the starting address of a physical memory area",
)
REGISTER_WHOLE = _rule(
    "register-whole",
    "DMA Controller Reference, Register Reference",
    "an entire memory-mapped register is read or written in a single memory operation",
)
EXECUTE_MEMORY = _rule("execute-memory", _OVERVIEW, "instructions are fetched from memory, not from registers", _CHOSEN)

COUNTER_SLOT = _rule(
    "counter-slot",
    "RefSi Driver Interface, Device queries",
    "a counter area per hardware thread, reached as that hart, and a global one; whole slots",
    _CHOSEN,
)

# DMA Controller Reference
_REGISTERS: Final = "DMA Controller Reference, Register Reference"
_DST: Final = "DMA Controller Reference, DMA Destination Address register"
_SRC: Final = "DMA Controller Reference, DMA Source Address register"
_SIZE: Final = "DMA Controller Reference, DMA Transfer Size register"
_DSTSTRIDE: Final = "DMA Controller Reference, DMA Transfer Destination Stride register"
_CTRL: Final = "DMA Controller Reference, DMA Transfer Control register"
_STARTED: Final = "DMA Controller Reference, DMA Started Sequence register"
_DONE: Final = "DMA Controller Reference, DMA Completed Sequence register"

DMA_CONTEXT = _rule("dma-context", _REGISTERS, "every hart and the CMP have their own set of DMA registers")
DMA_REGISTER = _rule("dma-register", _REGISTERS, "an access to the DMA controller names one of its registers", _CHOSEN)
DMA_SOURCE = _rule("dma-source", _SRC, "the source lies in global or local memory that the unit may read")
DMA_DESTINATION = _rule("dma-destination", _DST, "the destination lies in global or local memory, likewise to write")
DMA_OVERLAP = _rule("dma-overlap", _DST, "there is no overlap between the source and destination regions")
DMA_ROWS = _rule("dma-rows", _DSTSTRIDE, "a transfer writes each destination byte once", _CHOSEN)
DMA_SIZE = _rule("dma-size", _SIZE, "SIZE0 counts bytes, SIZE1 rows and SIZE2 planes")
DMA_SIZE_ZERO = _rule("dma-size-zero", _SIZE, "a size of 0 moves nothing and starts no transfer", _CHOSEN)
DMA_STRIDE = _rule("dma-stride", _DSTSTRIDE, "strides count bytes and are used in the stride modes that name them")
DMA_SEQUENTIAL = _rule("dma-sequential", _SIZE, "a side without strides is sequential")
DMA_DIMENSION = _rule("dma-dimension", _CTRL, "the dimension is 1D, 2D or 3D; 0 is reserved")
DMA_STRIDE_1D = _rule("dma-stride-1d", _CTRL, "strides are used for 2D and 3D transfers", _CHOSEN)
DMA_CTRL_RESERVED = _rule("dma-ctrl-reserved", _CTRL, "bits 3-1 and 63-8 of DMACTRL are zero", _CHOSEN)
DMA_START = _rule("dma-start", _CTRL, "writing DMACTRL with bit 0 set starts a transfer; bit 0 reads 0")
DMA_PENDING = _rule("dma-pending", _CTRL, "register writes have no effect on pending transfers")
DMA_ASYNC = _rule("dma-async", _OVERVIEW, "transfers are asynchronous until they are waited for", _CHOSEN)
DMA_STARTSEQ = _rule("dma-startseq", _STARTED, "holds the ID of the transfer most recently started by this unit")
DMA_STARTSEQ_RO = _rule("dma-startseq-ro", _STARTED, "writes to DMASTARTSEQ have no effect")
DMA_ID_OVERFLOW = _rule("dma-id-overflow", _STARTED, "after the largest 32-bit ID the next one is greater than zero")
DMA_DONESEQ = _rule("dma-doneseq", _DONE, "reads N only if all transfers up to N are complete")
DMA_WAIT = _rule("dma-wait", _DONE, "writing N waits for transfer N and all with lower IDs")
DMA_WAIT_ALL = _rule("dma-wait-all", _DONE, "writing an ID greater than DMASTARTSEQ waits for all transfers")

SPEC_RULES: Final[tuple[Rule, ...]] = tuple(value for value in list(globals().values()) if isinstance(value, Rule))
"""All of them, in the order above."""
