"""Segment and flat addresses, apertures, null values and the swizzling of private memory ("Flat addressing").

The same conversions serve the large machine model (64-bit flat addresses) and the small one (32 bits). What a kernel
does with v_cmp and v_cndmask for addresses that may be null is `null=True` here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from understudy.core.errors import WireError
from understudy.core.words import U32, U64
from understudy.device.hsa import rules
from understudy.device.hsa.agents import Agent
from understudy.isa.gcn.target import GFX9

LANES: Final = 64
ELEMENT_BYTES: Final = (2, 4, 8, 16)
"""Interleave sizes of private memory."""
SMALL_APERTURE_MASK: Final = 0xFFFF_0000
SMALL_APERTURE_BYTES: Final = 1 << 16


class Segment(Enum):
    """Segments of HSA memory; SPILL and ARG live in private memory, READONLY in global memory."""

    GLOBAL = "global"
    READONLY = "readonly"
    KERNARG = "kernarg"
    GROUP = "group"
    PRIVATE = "private"
    SPILL = "spill"
    ARG = "arg"
    FLAT = "flat"


_GLOBAL: Final = frozenset({Segment.GLOBAL, Segment.READONLY, Segment.FLAT})


@dataclass(frozen=True, slots=True)
class Apertures:
    """Where group and private memory lie among flat addresses, as amd_queue_t says.

    Large model: the upper halves of 64-bit addresses; small model: 32-bit addresses of 64 KiB each.
    """

    group_segment_aperture_base_hi: int
    private_segment_aperture_base_hi: int
    small: bool = False

    @property
    def shared_base(self) -> int:
        """First flat address of LDS."""
        return self.group_segment_aperture_base_hi << (0 if self.small else 32)

    @property
    def private_base(self) -> int:
        """First flat address of private memory."""
        return self.private_segment_aperture_base_hi << (0 if self.small else 32)

    def base_hi(self, segment: Segment) -> int:
        """The field of amd_queue_t for a segment."""
        if segment is Segment.GROUP:
            return self.group_segment_aperture_base_hi
        return self.private_segment_aperture_base_hi


SMALL_APERTURES: Final = Apertures(0x8000_0000, 0x8001_0000, small=True)
"""Those of all agents in the small model."""


def apertures(agent: Agent, small: bool = False) -> Apertures:
    """What the driver puts into SH_MEM_BASES, as amd_queue_t shows it."""
    if small:
        return SMALL_APERTURES
    if agent.target.level >= GFX9:
        return Apertures(0x0001_0000, 0x0002_0000)
    return Apertures(0x2000_0000, 0x2000_0001)


def sh_mem_bases(apertures: Apertures, level: int) -> int:
    """SH_MEM_BASES: PRIVATE_BASE in bits 15:0, SHARED_BASE in bits 31:16.

    In the large model of GFX7 and GFX8 only bits 15:13 count, which are the top bits of both apertures.
    """
    if not apertures.small and level < GFX9:
        top = apertures.private_segment_aperture_base_hi >> 29 << 13
        return top | top << 16
    shift = 16
    private = apertures.private_segment_aperture_base_hi >> shift
    return private | apertures.group_segment_aperture_base_hi >> shift << 16


def null(segment: Segment) -> int:
    """The null address of a segment (HSAIL nullptr): 0 for global, readonly and flat, else -1 as 32 bits."""
    return 0 if segment in _GLOBAL else U32


def to_flat(apertures: Apertures, segment: Segment, address: int, kernarg: int = 0, null_check: bool = False) -> int:
    """Segment address to flat address (HSAIL stof). `kernarg` is the Kernarg Segment Ptr."""
    if segment in _GLOBAL:
        return address
    if null_check and address == null(segment):
        return 0
    width = U32 if apertures.small else U64
    if segment is Segment.KERNARG:
        return kernarg + (address & U32) & width
    base = apertures.base_hi(segment)
    return base + address & U32 if apertures.small else base << 32 | address & U32


def to_segment(apertures: Apertures, segment: Segment, address: int, kernarg: int = 0, null_check: bool = False) -> int:
    """Flat address to segment address (HSAIL ftos)."""
    if segment in _GLOBAL:
        return address
    if null_check and address == 0:
        return null(segment)
    if segment is Segment.KERNARG:
        return (address & U32) - kernarg & U32
    return address - apertures.base_hi(segment) & U32 if apertures.small else address & U32


def is_in(apertures: Apertures, segment: Segment, address: int, null_check: bool = False) -> bool:
    """Whether a flat address lies within a segment (HSAIL segmentp). Null lies in none where it is looked for."""
    if null_check and address == 0:
        return False
    if segment in _GLOBAL:
        return not (is_in(apertures, Segment.GROUP, address) or is_in(apertures, Segment.PRIVATE, address))
    if segment is Segment.KERNARG:
        raise WireError("segmentp kernarg: the kernarg segment has no aperture", rule=rules.SEGMENTP_GLOBAL)
    part = address & SMALL_APERTURE_MASK if apertures.small else address >> 32
    return part == apertures.base_hi(segment)


def swizzled(offset: int, lane: int, element_bytes: int = 4) -> int:
    """Byte of a wave's private memory that holds byte `offset` of a lane's: lanes are interleaved by elements."""
    if element_bytes not in ELEMENT_BYTES:
        raise WireError(f"interleave size {element_bytes}, expected 2, 4, 8 or 16", rule=rules.SWIZZLE_SIZES)
    if not 0 <= lane < LANES:
        raise WireError(f"lane {lane}, expected 0 to {LANES - 1}")
    element, byte = divmod(offset, element_bytes)
    return (element * LANES + lane) * element_bytes + byte


def split_access(offset: int, size: int, element_bytes: int = 4) -> list[tuple[int, int]]:
    """The accesses (offset, bytes) that a swizzled one must be split into on GFX8 and earlier."""
    parts, end = [], offset + size
    while offset < end:
        count = min(element_bytes - offset % element_bytes, end - offset)
        parts.append((offset, count))
        offset += count
    return parts
