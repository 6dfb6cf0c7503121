"""The architectural state of one wavefront, in a layout that translated code and Python share.

It is one block of bytes, with four parts:

- 256 vector registers of 64 lanes
- 128 scalar registers, numbered by their operand codes, so that FLAT_SCRATCH, VCC, M0 and EXEC are among them
- 64-bit words, numbered by constants of this module (PC, MODE, ...), some of which belong to the engine
- 256 accumulation registers, which only gfx908 and later processors use; accumulation register n has the number 256 + n
  among the vector registers
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.core.display import RichDisplay, Rows

LANES: Final = 64
VGPRS: Final = 256
ROWS: Final = 512
"""The number of vector registers and accumulation registers together."""
SGPRS: Final = 128

# Operand codes of the special scalar registers.
VCC: Final = 106
TBA: Final = 108
TMA: Final = 110
TTMP0: Final = 112
M0: Final = 124
EXEC: Final = 126
WINDOW_MASK: Final = 0xFFFF
"""The bits of an offset in an HSA32 aperture, a window of 64 KiB."""
INDEXED_SGPRS: Final = VCC
"""The limit of the scalar registers that instructions can access by a computed number: those below it."""
FLAT_SCRATCH: Final = {7: 104, 8: 102, 9: 102}
XNACK_MASK: Final = 104
"""The number of the scalar register XNACK_MASK, which GFX8 and GFX9 have."""

# Byte offsets in the shared state.
VGPR_AT: Final = 0
SGPR_AT: Final = VGPRS * LANES * 4
WORDS_AT: Final = SGPR_AT + SGPRS * 4
# Indices of the 64-bit words at WORDS_AT.
PC: Final = 0
SCC: Final = 1
MODE: Final = 2
"""The state word with the MODE register, as s_getreg reads it; the bits `PTR32` and `CHECKED` are above it."""
STATUS: Final = 3
"""The word with the status of the wave: RUNNING, AT_BARRIER or ENDED."""
FUEL: Final = 4
"""The word with the number of instructions that the wave may still execute before it returns to the scheduler."""
RETIRED: Final = 5
"""The word with the number of instructions that the wave has executed."""
FAULT_PC: Final = 6
FAULT_LANE: Final = 7
FAULT_ADDRESS: Final = 8
TRAPSTS: Final = 9
HW_ID: Final = 10
"""The word with the hardware register HW_ID in its lower half, and XCC_ID in its upper half (`XCC_AT`)."""
LDS_BASE: Final = 11
"""The word with the host address of the work-group's LDS."""
LDS_SIZE: Final = 12
"""The word with the size of the work-group's LDS, in bytes."""
SHARED_BASE: Final = 13
"""The word with the aperture of LDS: its upper half is that of flat addresses of LDS.

`isa.gcn.semantics.pointer` describes flat addresses.
"""
PRIVATE_BASE: Final = 14
"""The word with the aperture of private memory: its upper half is that of flat addresses of private memory."""
SCRATCH_AT: Final = 15
"""The word with the guest address of this wave's lane-swizzled private memory, for flat private accesses."""
SCRATCH_SIZE: Final = 16
"""The word with the size of each lane's private memory in bytes."""
FLAT_FORM: Final = 17
"""The word with the form of the register FLAT_SCRATCH: FORM_NONE, FORM_ADDRESS or FORM_OFFSET."""
FLAT_AT: Final = 18
"""The word with the byte offset of the register FLAT_SCRATCH in this block."""
FLAT_BASE: Final = 19
"""The word with the guest address to which FORM_OFFSET is relative: SH_HIDDEN_PRIVATE_BASE_VIMID."""
SLEPT: Final = 20
"""The word with the number of s_sleep instructions among those in RETIRED.

They are pauses and do not count against an instruction limit.
"""
LDS_NOTE: Final = 21
"""The word with the host address of the word that records accesses past the end of LDS (`Dispatch.lds_note`).

If the address is 0, nothing is recorded.
"""
ENGINE: Final = 22
"""The index of the first word that belongs to the engine."""
WORDS: Final = 168
ACC_AT: Final = WORDS_AT + WORDS * 8
STATE_BYTES: Final = ACC_AT + (ROWS - VGPRS) * LANES * 4

XCC_AT: Final = 32
"""The lowest bit of the register XCC_ID in the word `HW_ID`."""
MODE_BITS: Final = 0xFFFF_FFFF
"""The bits of the word MODE that hold the MODE register."""
CHECKED: Final = 1 << 33
"""A software bit in the word MODE: accesses past the end of LDS must be recorded for the LDS check."""
PTR32: Final = 1 << 32
"""The bit of the word MODE that is SH_MEM_CONFIG.PTR32 (GFX7) or ADDRESS_MODE (GFX8, GFX9): `Mode.ptr32`."""

FORM_NONE: Final = 0
"""The register FLAT_SCRATCH is not used: flat private accesses use SCRATCH_AT."""
FORM_ADDRESS: Final = 1
"""FLAT_SCRATCH is the address of the wave's private memory (GFX9)."""
FORM_OFFSET: Final = 2
"""FLAT_SCRATCH holds the wave's scratch offset and the size of each lane's scratch memory (GFX7, GFX8).

The offset, in units of 256 bytes, is in the upper register, the size in bytes in the lower one.
"""

NOTE_SIZE: Final = 32
"""The lowest bit of the access size in the word at `LDS_NOTE`; the bits below hold the offset of the access."""
NOTE_STORE: Final = 40
"""The bit of the word at `LDS_NOTE` that is 1 for a store or an atomic."""

RUNNING: Final = 0
AT_BARRIER: Final = 1
ENDED: Final = 2

FULL: Final = (1 << LANES) - 1


@dataclass(frozen=True, slots=True)
class Mode:
    """The fields of the word MODE as plain values, on which semantics may branch.

    Rounding modes: 0 to nearest even, 1 towards +inf, 2 towards -inf, 3 towards zero. Denormal modes have two bits: bit
    0 is 1 if denormal inputs are kept, bit 1 if denormal results are kept; otherwise they are flushed to zero of the
    same sign.
    """

    round32: int = 0
    round64: int = 0
    """The rounding mode of binary64 and binary16."""
    denorm32: int = 0
    denorm64: int = 3
    """The denormal mode of binary64 and binary16."""
    dx10_clamp: bool = True
    ieee: bool = True
    fp16_overflow: bool = False
    """True if binary16 results that overflow become the largest finite number (GFX9)."""
    gpr_idx: bool = False
    """True if vector register numbers are relative to M0 (GFX8, GFX9: s_set_gpr_idx_on)."""
    vskip: bool = False
    """True if vector and memory instructions are skipped (s_setvskip)."""
    ptr32: bool = False
    """True if pointers of FLAT, GLOBAL and plain scalar instructions have 32 bits (HSA32).

    It is not a bit of the MODE register.
    """

    @classmethod
    @cache
    def decode(cls, bits: int) -> Mode:
        """Return the fields of the word MODE.

        Its fields are FP_ROUND 3:0, FP_DENORM 7:4, DX10_CLAMP 8, IEEE 9, FP16_OVFL 23, GPR_IDX 27, VSKIP 28.
        """
        flags = (bool(bits >> n & 1) for n in (8, 9, 23, 27, 28, 32))
        return cls(bits & 3, bits >> 2 & 3, bits >> 4 & 3, bits >> 6 & 3, *flags)

    def encode(self) -> int:
        """Return the value of the word MODE with these fields."""
        return (
            self.round32
            | self.round64 << 2
            | self.denorm32 << 4
            | self.denorm64 << 6
            | self.dx10_clamp << 8
            | self.ieee << 9
            | self.fp16_overflow << 23
            | self.gpr_idx << 27
            | self.vskip << 28
            | self.ptr32 * PTR32
        )

    @classmethod
    def of_rsrc1(cls, rsrc1: int) -> Mode:
        """Return the initial mode that COMPUTE_PGM_RSRC1 requests.

        Its fields are FLOAT_MODE 19:12, DX10_CLAMP 21, IEEE_MODE 23, FP16_OVFL 26.
        """
        low = rsrc1 >> 12 & 0xFF
        return cls.decode(low | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9 | (rsrc1 >> 26 & 1) << 23)

    def rounding(self, fmt: str) -> int:
        """Return the rounding mode of the format `fmt`: "h", "s" or "d"."""
        return self.round32 if fmt == "s" else self.round64

    def keeps_denormals(self, fmt: str) -> tuple[bool, bool]:
        """Return two flags for the format `fmt`: the first for denormal inputs, the second for results."""
        bits = self.denorm32 if fmt == "s" else self.denorm64
        return bool(bits & 1), bool(bits & 2)


_MOST: Final[Mapping[str, Any]] = {each.name: 3 if each.type == "int" else True for each in fields(Mode)}
_NONE: Final = Mode(denorm64=0, dx10_clamp=False, ieee=False)
MODE_MASKS: Final = {name: replace(_NONE, **{name: most}).encode() for name, most in _MOST.items()}
"""The bits of each field of `Mode` in the word MODE."""


def row_at(n: int) -> int:
    """Return the byte offset of vector register `n` in the state; from 256 on it is an accumulation register."""
    return VGPR_AT + LANES * 4 * n if n < VGPRS else ACC_AT + LANES * 4 * (n - VGPRS)


def register_name(n: int) -> str:
    """Return the name of vector register `n`, such as ``v1`` for 1, and ``a0`` for 256."""
    return f"v{n}" if n < VGPRS else f"a{n - VGPRS}"


class Wave(RichDisplay):
    """The state of one wavefront: NumPy views of one block of bytes.

    `block` may be a slice of a larger buffer, aligned to 64 bytes. `shadows` are further blocks, with shadow registers
    for checks; there is one for each kind of shadow.
    """

    __slots__ = ("acc", "address", "block", "index", "sgpr", "shadows", "vgpr", "words")

    def __init__(self, block: npt.NDArray[np.uint8] | None = None, index: int = 0) -> None:
        if block is None:
            block = aligned(STATE_BYTES)
        self.block = block
        self.index = index
        self.address = int(block.ctypes.data)
        self.vgpr = block[VGPR_AT:SGPR_AT].view(np.uint32).reshape(VGPRS, LANES)
        self.sgpr = block[SGPR_AT:WORDS_AT].view(np.uint32)
        self.words = block[WORDS_AT:ACC_AT].view(np.uint64)
        self.acc = block[ACC_AT:STATE_BYTES].view(np.uint32).reshape(ROWS - VGPRS, LANES)
        self.shadows: tuple[Wave, ...] = ()

    def __repr__(self) -> str:
        return f"<wave {self.index}, pc {self.pc:#x}, {int(self.words[RETIRED]):,} instructions retired>"

    def _rows(self) -> Rows:
        yield "register", "value", "lanes 0 to 3"
        for name, at in (("exec", EXEC), ("vcc", VCC)):
            yield name, f"{self.s64(at):#x}", ""
        for n in range(16):
            yield f"s{n}", f"{int(self.sgpr[n]):#x}", ""
        for n in range(16):
            yield f"v{n}", "", ", ".join(f"{int(value):#x}" for value in self.vgpr[n, :4])

    def s64(self, n: int) -> int:
        """Return the scalar register pair n, n + 1 as a 64-bit number."""
        return int(self.sgpr[n]) | int(self.sgpr[n + 1]) << 32

    def set_s64(self, n: int, value: int) -> None:
        """Write a 64-bit number to the scalar register pair n, n + 1."""
        self.sgpr[n] = value & 0xFFFF_FFFF
        self.sgpr[n + 1] = value >> 32 & 0xFFFF_FFFF

    @property
    def pc(self) -> int:
        """The address of the next instruction."""
        return int(self.words[PC])

    @pc.setter
    def pc(self, value: int) -> None:
        self.words[PC] = value


def aligned(size: int, alignment: int = 64) -> npt.NDArray[np.uint8]:
    """Return an array of `size` zero bytes whose address is a multiple of `alignment`."""
    raw = np.zeros(size + alignment, np.uint8)
    start = -int(raw.ctypes.data) % alignment
    return raw[start : start + size]


# ---- hardware registers ----------------------------------------------------------------------------------------------
# GCN hardware registers: their ids in s_getreg and s_setreg, and the bits of STATUS.


HW_MODE: Final = 1
HW_STATUS: Final = 2
HW_TRAPSTS: Final = 3
HW_HW_ID: Final = 4
HW_GPR_ALLOC: Final = 5
HW_LDS_ALLOC: Final = 6
HW_IB_STS: Final = 7
HW_SH_MEM_BASES: Final = 15
"""The id of SH_MEM_BASES, which exists on GFX9 only."""
HW_XCC_ID: Final = 20
"""The id of XCC_ID, which exists on gfx942 and later."""

# Bits of STATUS; SCC is bit 0.
EXECZ: Final = 9
VCCZ: Final = 10
IN_GROUP: Final = 11
VALID: Final = 16
