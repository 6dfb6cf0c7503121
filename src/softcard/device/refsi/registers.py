"""The register files and memory maps of RefSi M1 and G1, as tables. The module executes nothing.

The offset of a register is its index among the 64-bit registers of its file. For the command processor it is
the register ID of the RefSi M1 specification. For the DMA controller and the performance counters it is the
byte offset divided by 8."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from softcard.core.register import Access, Field, Register, RegisterMap

REGISTER_BYTES: Final = 8
NUM_WINDOWS: Final = 8

# ---- command processor: "Registers" of the document -------------------------------------------------------------

WINDOW_MODES: Final = {0: "SHARED", 1: "PER_HART", 2: "PER_CORE"}

SCRATCH: Final = Register("CMP_SCRATCH", 0, (Field("SCRATCH", 0, 64, doc="no meaning"),))
ENTRY_PT_FN: Final = Register(
    "CMP_ENTRY_PT_FN",
    1,
    (
        Field("ENTRY_POINT_ADDR", 0, 32, doc="address of the kernel entry point in memory"),
        Field("RESERVED", 32, 32, Access.RSVD),
    ),
)
KUB_DESC: Final = Register(
    "CMP_KUB_DESC",
    2,
    (
        Field("KUB_ADDR", 0, 48, doc="address of the Kernel Uniform Block"),
        Field("KUB_SIZE", 48, 16, doc="size of the Kernel Uniform Block in 256-byte increments"),
    ),
)
KARGS_INFO: Final = Register(
    "CMP_KARGS_INFO",
    3,
    (
        Field("DUMMY", 0, 16, Access.RSVD),
        Field("KARGS_OFFSET", 16, 24, doc="offset into the KUB where kernel arguments are stored"),
        Field("KARGS_SIZE", 40, 24, doc="size of the packed kernel argument list, in bytes"),
    ),
)
TSD_INFO: Final = Register(
    "CMP_TSD_INFO",
    4,
    (
        Field("DUMMY", 0, 16, Access.RSVD),
        Field("TSD_OFFSET", 16, 24, doc="offset into the KUB where thread-specific data is stored"),
        Field("TSD_SIZE", 40, 24, doc="size of thread-specific data for the kernel, in bytes"),
    ),
)
STACK_TOP: Final = Register("CMP_STACK_TOP", 5, (Field("STACK_TOP", 0, 64, doc="top of the stack"),))
RETURN_ADDR: Final = Register(
    "CMP_RETURN_ADDR", 6, (Field("RETURN_ADDR", 0, 64, doc="address to jump to when returning from a kernel"),)
)
WINDOW_BASE: Final = Register(
    "CMP_REG_WINDOW_BASE", 8, (Field("BASE_ADDR", 0, 64, doc="base address for the window"),), count=NUM_WINDOWS
)
WINDOW_TARGET: Final = Register(
    "CMP_REG_WINDOW_TARGET",
    16,
    (Field("TARGET_ADDR", 0, 64, doc="target address for the window"),),
    count=NUM_WINDOWS,
)
WINDOW_MODE: Final = Register(
    "CMP_REG_WINDOW_MODE",
    24,
    (
        Field("ACTIVE", 0, doc="whether or not the window can be accessed"),
        Field("MODE", 1, 2, values=WINDOW_MODES),
        Field("INTERLEAVE", 3, doc="whether or not the target memory is interleaved"),
        Field("PERMS", 4, 3, doc="bit 0 READ, bit 1 WRITE, bit 2 EXECUTE"),
        Field("STRIDE", 8, 5, doc="granularity of the target area when it is interleaved"),
        Field("SIZE", 32, 32, doc="size of the window, between 1 and 2^32 bytes"),
    ),
    count=NUM_WINDOWS,
)
WINDOW_SCALE: Final = Register(
    "CMP_REG_WINDOW_SCALE",
    32,
    (
        Field("SCALE_A", 0, 5, doc="first part of the scaling factor (0, 2^1, 2^2, ..., 2^31)"),
        Field("SCALE_B", 32, 32, doc="second part of the scaling factor (1 .. 2^32)"),
    ),
    count=NUM_WINDOWS,
)

CMP: Final = RegisterMap(
    "CMP",
    (
        SCRATCH,
        ENTRY_PT_FN,
        KUB_DESC,
        KARGS_INFO,
        TSD_INFO,
        STACK_TOP,
        RETURN_ADDR,
        WINDOW_BASE,
        WINDOW_TARGET,
        WINDOW_MODE,
        WINDOW_SCALE,
    ),
    doc="registers of the command processor, reached by WRITE_REG64, LOAD_REG64 and STORE_REG64",
    reserved=(range(7, 8),),
    unit_bytes=REGISTER_BYTES,
)
NUM_CMP_REGISTERS: Final = 40
FIRST_WINDOW_REGISTER: Final = WINDOW_BASE.offset

# ---- DMA controller (not in the document: from the reference driver) ---------------------------------------------

NUM_DMA_REGISTERS: Final = 32

DMA_CTRL: Final = Register(
    "DMACTRL",
    0,
    (
        Field("START", 0, 1, Access.STROBE, doc="start the transfer"),
        Field("DIM", 4, 2, values={1: "1D", 2: "2D", 3: "3D"}),
        Field("STRIDE_DST", 6, doc="use the destination strides"),
        Field("STRIDE_SRC", 7, doc="use the source strides"),
    ),
)
DMA_STARTSEQ: Final = Register("DMASTARTSEQ", 1, (Field("ID", 0, 32, Access.RO, doc="most recently started transfer"),))
DMA_DONESEQ: Final = Register("DMADONESEQ", 2, (Field("ID", 0, 32, doc="read: last completed; write: wait for ID"),))
DMA_SRCADDR: Final = Register("DMASRCADDR", 3, (Field("ADDRESS", 0, 64),))
DMA_DSTADDR: Final = Register("DMADSTADDR", 4, (Field("ADDRESS", 0, 64),))
DMA_XFERSIZE: Final = Register("DMAXFERSIZE", 5, (Field("SIZE", 0, 64, doc="0: bytes, 1: rows, 2: planes"),), count=3)
DMA_XFERSRCSTRIDE: Final = Register("DMAXFERSRCSTRIDE", 8, (Field("STRIDE", 0, 64, doc="bytes"),), count=2)
DMA_XFERDSTSTRIDE: Final = Register("DMAXFERDSTSTRIDE", 10, (Field("STRIDE", 0, 64, doc="bytes"),), count=2)

DMA: Final = RegisterMap(
    "DMA",
    (
        DMA_CTRL,
        DMA_STARTSEQ,
        DMA_DONESEQ,
        DMA_SRCADDR,
        DMA_DSTADDR,
        DMA_XFERSIZE,
        DMA_XFERSRCSTRIDE,
        DMA_XFERDSTSTRIDE,
    ),
    doc="registers of the DMA controller; every unit sees its own set",
    reserved=(range(12, NUM_DMA_REGISTERS),),
    unit_bytes=REGISTER_BYTES,
)

# ---- performance counters (not in the document: from the reference driver) ---------------------------------------

NUM_HART_COUNTERS: Final = 32
NUM_GLOBAL_COUNTERS: Final = 32
NUM_COUNTERS: Final = NUM_HART_COUNTERS + NUM_GLOBAL_COUNTERS
COUNTER_CSR: Final = 0xB00
"""The CSR number of the machine counter of slot 0; slot k is at 0xB00 + k."""


class Counter(IntEnum):
    """The counters of a hart that count something, by their slot (index) in the hart's performance counters.

    Slots from 3 on count only if CA_PROFILE_LEVEL is 3 or more."""

    CYCLE = 0
    RETIRED_INSN = 2
    READ_BYTE_INSN = 3
    READ_SHORT_INSN = 4
    READ_WORD_INSN = 5
    READ_DOUBLE_INSN = 6
    READ_QUAD_INSN = 7
    READ_INSN = 8
    WRITE_BYTE_INSN = 9
    WRITE_SHORT_INSN = 10
    WRITE_WORD_INSN = 11
    WRITE_DOUBLE_INSN = 12
    WRITE_QUAD_INSN = 13
    WRITE_INSN = 14
    INT_INSN = 15
    FLOAT_INSN = 16
    BRANCH_INSN = 17


def _counter(slot: int) -> Register:
    name = Counter(slot).name if slot in set(Counter) else f"HART_COUNTER{slot}"
    return Register(name, slot, (Field("VALUE", 0, 64),))


PERF_COUNTERS: Final = RegisterMap(
    "PERF_COUNTERS",
    (
        *(_counter(slot) for slot in range(NUM_HART_COUNTERS)),
        Register("GLOBAL_COUNTER", NUM_HART_COUNTERS, (Field("VALUE", 0, 64),), count=NUM_GLOBAL_COUNTERS),
    ),
    doc="slots 0-31 belong to the hart that accesses them, slots 32-63 are shared",
    unit_bytes=REGISTER_BYTES,
)

# ---- memory maps -------------------------------------------------------------------------------------------------


class MemoryKind(IntEnum):
    """The kind of a memory map entry, as the driver numbers them."""

    UNKNOWN = 0
    DRAM = 1
    TCIM = 2
    TCDM = 3
    TCDM_PRIVATE = 4
    KERNEL_DMA = 5
    KERNEL_DMA_PRIVATE = 6
    PERF_COUNTERS = 7


@dataclass(frozen=True, slots=True)
class MapEntry:
    """One entry of the memory map; sizes in bytes."""

    kind: MemoryKind
    base: int
    size: int

    @property
    def end(self) -> int:
        """The first address after the entry."""
        return self.base + self.size


TCIM_BASE: Final = 0x1000
TCIM_SIZE: Final = 0xF000
TCDM_BASE: Final = 0x1000_0000
TCDM_SIZE: Final = 4 << 20
TCDM_HART_BASE: Final = 0x1020_0000
"""The start of the half of TCDM that a kernel command divides among its harts."""
TCDM_HART_SIZE: Final = 2 << 20
DMA_BASE: Final = 0x2000_2000
DMA_SIZE: Final = NUM_DMA_REGISTERS * REGISTER_BYTES
PERF_COUNTERS_BASE: Final = 0x2010_0000
PERF_COUNTERS_SIZE: Final = NUM_COUNTERS * REGISTER_BYTES
DRAM_BASE: Final = 0x4000_0000
DRAM_SIZE: Final = 2 << 30

_TCIM: Final = MapEntry(MemoryKind.TCIM, TCIM_BASE, TCIM_SIZE)
_TCDM: Final = MapEntry(MemoryKind.TCDM, TCDM_BASE, TCDM_SIZE)
_DRAM: Final = MapEntry(MemoryKind.DRAM, DRAM_BASE, DRAM_SIZE)
_DMA: Final = MapEntry(MemoryKind.KERNEL_DMA_PRIVATE, DMA_BASE, DMA_SIZE)
_PERF: Final = MapEntry(MemoryKind.PERF_COUNTERS, PERF_COUNTERS_BASE, PERF_COUNTERS_SIZE)

M1_MAP: Final = (_TCDM, _DRAM, _DMA, _PERF)
"""The memory map of RefSi M1, in the order in which the driver reports it."""
G1_MAP: Final = (_TCIM, _TCDM, _DRAM, _PERF)
"""The memory map of RefSi G1, in the order in which the driver reports it. TCIM is the loader ROM."""

G1_ELF_BASE: Final = 0x1_0000
G1_ELF_SIZE: Final = 0x800_0000 - G1_ELF_BASE
G1_HART_BASE: Final = 0x2080_0000
G1_HART_SIZE: Final = 8 << 20
"""The size of each of G1's two windows.

One is a SHARED window for executables. The other is a PER_HART window (scale = size) for harts' memory.
"""
G1_RESET_PC: Final = 0x1000

M1_HARTS: Final = 4
M1_CORES: Final = 1
M1_ISA: Final = "RV64GCVZbc"
M1_VLEN: Final = 512
G1_HARTS: Final = 2
G1_MAX_HARTS: Final = 64
G1_ISA: Final = "RV64GCV"
G1_VLEN: Final = 128
ELEN: Final = 64
