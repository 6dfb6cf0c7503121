"""The architectural state of one wavefront, laid out so that translated code and Python share it.

Everything lies in one block of bytes: 256 vector registers of 64 lanes, 128 scalar registers numbered by their operand
codes (so that FLAT_SCRATCH, VCC, M0 and EXEC are scalar registers like the others), and 64-bit words of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.core.shown import Rows, Shown

LANES: Final = 64
VGPRS: Final = 256
SGPRS: Final = 128

# Operand codes of the special scalar registers.
VCC: Final = 106
TBA: Final = 108
TMA: Final = 110
TTMP0: Final = 112
M0: Final = 124
EXEC: Final = 126
WINDOW_MASK: Final = 0xFFFF
"""Bits of a place in an aperture of HSA32."""
INDEXED_SGPRS: Final = VCC
"""Scalar registers from here on cannot be reached by a computed number."""
FLAT_SCRATCH: Final = {7: 104, 8: 102, 9: 102}
XNACK_MASK: Final = 104
"""GFX8 and GFX9."""

# Byte offsets in the shared state.
VGPR_AT: Final = 0
SGPR_AT: Final = VGPRS * LANES * 4
WORDS_AT: Final = SGPR_AT + SGPRS * 4
# Indices of the 64-bit words at WORDS_AT.
PC: Final = 0
SCC: Final = 1
MODE: Final = 2
"""The MODE register as s_getreg reads it and, above its 32 bits, the wave's copy of SH_MEM_CONFIG: `PTR32`."""
STATUS: Final = 3
"""How the wave stands: RUNNING, AT_BARRIER or ENDED."""
FUEL: Final = 4
"""Instructions the wave may still execute before it hands over."""
RETIRED: Final = 5
"""Wave instructions executed so far."""
FAULT_PC: Final = 6
FAULT_LANE: Final = 7
FAULT_ADDRESS: Final = 8
TRAPSTS: Final = 9
HW_ID: Final = 10
LDS_BASE: Final = 11
"""Host address of the work-group's LDS."""
LDS_SIZE: Final = 12
"""Bytes of LDS the work-group has."""
SHARED_BASE: Final = 13
"""Upper 32 bits of flat addresses that mean LDS, in the upper half (a 64-bit address); see `isa.gcn.pointer`."""
PRIVATE_BASE: Final = 14
"""Likewise for private memory."""
SCRATCH_AT: Final = 15
"""Guest address of this wave's private memory, lane-swizzled; flat private accesses go there."""
SCRATCH_SIZE: Final = 16
"""Private bytes of each lane."""
FLAT_FORM: Final = 17
"""What FLAT_SCRATCH says: FORM_NONE, FORM_ADDRESS or FORM_OFFSET."""
FLAT_AT: Final = 18
"""Byte offset in this block of the registers FLAT_SCRATCH."""
FLAT_BASE: Final = 19
"""Guest address from which FORM_OFFSET counts: SH_HIDDEN_PRIVATE_BASE_VIMID."""
SLEPT: Final = 20
"""Those of RETIRED that were s_sleep: pauses, which count against no limit."""
ENGINE: Final = 21
"""From here on the words are an engine's own."""
WORDS: Final = 168
STATE_BYTES: Final = WORDS_AT + WORDS * 8

MODE_BITS: Final = 0xFFFF_FFFF
"""Bits of the word MODE that are the register."""
CHECKED: Final = 1 << 33
"""Bit of the word MODE that no hardware has: LDS is looked after, and what goes beyond it must not pass unseen."""
PTR32: Final = 1 << 32
"""Bit of the word MODE that is SH_MEM_CONFIG.PTR32 (GFX7) or ADDRESS_MODE (GFX8, GFX9): `Mode.ptr32`."""

FORM_NONE: Final = 0
"""Nothing: flat private accesses go to SCRATCH_AT."""
FORM_ADDRESS: Final = 1
"""The address of the wave's private memory (GFX9)."""
FORM_OFFSET: Final = 2
"""In the upper register its offset in units of 256 bytes, in the lower one the bytes of each lane (GFX7, GFX8)."""

RUNNING: Final = 0
AT_BARRIER: Final = 1
ENDED: Final = 2

FULL: Final = (1 << LANES) - 1


@dataclass(frozen=True, slots=True)
class Mode:
    """The word MODE, decoded; plain values that a meaning may branch on.

    Rounding: 0 nearest even, 1 towards +inf, 2 towards -inf, 3 towards zero. Denormals, 2 bits: bit 0 inputs are kept,
    bit 1 results are kept (0: flushed to zero of the same sign).
    """

    round32: int = 0
    round64: int = 0
    """For binary64 and binary16."""
    denorm32: int = 0
    denorm64: int = 3
    """For binary64 and binary16."""
    dx10_clamp: bool = True
    ieee: bool = True
    fp16_overflow: bool = False
    """GFX9: overflowing halves become the largest finite one."""
    gpr_idx: bool = False
    """GFX8, GFX9: vector register numbers are relative to M0 (s_set_gpr_idx_on)."""
    vskip: bool = False
    """Vector and memory instructions are skipped (s_setvskip)."""
    ptr32: bool = False
    """Pointers of FLAT, GLOBAL and plain scalar instructions have 32 bits (HSA32): no bit of the register."""

    @classmethod
    @cache
    def decode(cls, bits: int) -> Mode:
        """Of the register FP_ROUND 3:0, FP_DENORM 7:4, DX10_CLAMP 8, IEEE 9, FP16_OVFL 23, GPR_IDX 27, VSKIP 28."""
        flags = (bool(bits >> n & 1) for n in (8, 9, 23, 27, 28, 32))
        return cls(bits & 3, bits >> 2 & 3, bits >> 4 & 3, bits >> 6 & 3, *flags)

    def encode(self) -> int:
        """The word's bits that this record decodes."""
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
        """As COMPUTE_PGM_RSRC1 asks for: FLOAT_MODE 19:12, DX10_CLAMP 21, IEEE_MODE 23, FP16_OVFL 26."""
        low = rsrc1 >> 12 & 0xFF
        return cls.decode(low | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9 | (rsrc1 >> 26 & 1) << 23)

    def rounding(self, fmt: str) -> int:
        """Rounding of a format: "h", "s" or "d"."""
        return self.round32 if fmt == "s" else self.round64

    def keeps(self, fmt: str) -> tuple[bool, bool]:
        """Whether denormal (inputs, results) of a format are kept."""
        bits = self.denorm32 if fmt == "s" else self.denorm64
        return bool(bits & 1), bool(bits & 2)


_MOST: Final[Mapping[str, Any]] = {each.name: 3 if each.type == "int" else True for each in fields(Mode)}
_NONE: Final = Mode(denorm64=0, dx10_clamp=False, ieee=False)
MODE_MASKS: Final = {name: replace(_NONE, **{name: most}).encode() for name, most in _MOST.items()}
"""Bits of the word MODE, by what they decide."""


class Wave(Shown):
    """One wavefront: views of one block of bytes. `block` may be a slice of a larger buffer (64-byte aligned).

    `twins`: blocks for marks of its registers, one for each kind that there is.
    """

    __slots__ = ("address", "block", "index", "sgpr", "twins", "vgpr", "words")

    def __init__(self, block: npt.NDArray[np.uint8] | None = None, index: int = 0) -> None:
        if block is None:
            block = aligned(STATE_BYTES)
        self.block = block
        self.index = index
        self.address = int(block.ctypes.data)
        self.vgpr = block[VGPR_AT:SGPR_AT].view(np.uint32).reshape(VGPRS, LANES)
        self.sgpr = block[SGPR_AT:WORDS_AT].view(np.uint32)
        self.words = block[WORDS_AT:STATE_BYTES].view(np.uint64)
        self.twins: tuple[Wave, ...] = ()

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
        """Scalar registers n and n + 1 as one number."""
        return int(self.sgpr[n]) | int(self.sgpr[n + 1]) << 32

    def set_s64(self, n: int, value: int) -> None:
        """Write scalar registers n and n + 1."""
        self.sgpr[n] = value & 0xFFFF_FFFF
        self.sgpr[n + 1] = value >> 32 & 0xFFFF_FFFF

    @property
    def pc(self) -> int:
        """Address of the next instruction."""
        return int(self.words[PC])

    @pc.setter
    def pc(self, value: int) -> None:
        self.words[PC] = value


def aligned(size: int, alignment: int = 64) -> npt.NDArray[np.uint8]:
    """Zeroed bytes that start at a multiple of `alignment`."""
    raw = np.zeros(size + alignment, np.uint8)
    start = -int(raw.ctypes.data) % alignment
    return raw[start : start + size]
