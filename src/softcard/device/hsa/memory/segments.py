"""Segment and flat addresses, apertures, null values and the swizzling of private memory ("Flat addressing").

The same conversions are used for the large machine model (64-bit flat addresses) and the small one (32 bits).
With `null_check` they also convert the null address. A kernel does this with v_cmp and v_cndmask."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from softcard.core.errors import WireError
from softcard.core.words import U32, U64
from softcard.device.hsa import rules
from softcard.device.hsa.agents import Agent
from softcard.isa.gcn.target import GFX9

LANES: Final = 64
ELEMENT_BYTES: Final = (2, 4, 8, 16)
"""The valid element sizes by which private memory is interleaved, in bytes."""
SMALL_APERTURE_MASK: Final = 0xFFFF_0000
SMALL_APERTURE_BYTES: Final = 1 << 16


class Segment(Enum):
    """The segments of HSA memory; SPILL and ARG are in private memory, READONLY in global memory."""

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
    """The flat address ranges of group and private memory, as amd_queue_t has them.

    In the large model, the values are the upper halves of 64-bit addresses. In the small model, they are 32-bit
    addresses of ranges of 64 KiB each.
    """

    group_segment_aperture_base_hi: int
    private_segment_aperture_base_hi: int
    small: bool = False

    @property
    def shared_base(self) -> int:
        """The first flat address of LDS."""
        return self.group_segment_aperture_base_hi << (0 if self.small else 32)

    @property
    def private_base(self) -> int:
        """The first flat address of private memory."""
        return self.private_segment_aperture_base_hi << (0 if self.small else 32)

    def base_hi(self, segment: Segment) -> int:
        """Return the value of the field of amd_queue_t that describes the aperture of `segment`."""
        if segment is Segment.GROUP:
            return self.group_segment_aperture_base_hi
        return self.private_segment_aperture_base_hi


SMALL_APERTURES: Final = Apertures(0x8000_0000, 0x8001_0000, small=True)
"""The apertures of all agents in the small machine model."""


def apertures(agent: Agent, small: bool = False) -> Apertures:
    """Return the apertures that a driver writes to SH_MEM_BASES and that the runtime writes to amd_queue_t."""
    if small:
        return SMALL_APERTURES
    if agent.target.level >= GFX9:
        return Apertures(0x0001_0000, 0x0002_0000)
    return Apertures(0x2000_0000, 0x2000_0001)


def sh_mem_bases(apertures: Apertures, level: int) -> int:
    """Return the value of SH_MEM_BASES: PRIVATE_BASE in bits 15:0, SHARED_BASE in bits 31:16.

    In the large model of GFX7 and GFX8, each field uses only its bits 15:13, the top bits of the aperture's address.
    """
    if not apertures.small and level < GFX9:
        top = apertures.private_segment_aperture_base_hi >> 29 << 13
        return top | top << 16
    shift = 16
    private = apertures.private_segment_aperture_base_hi >> shift
    return private | apertures.group_segment_aperture_base_hi >> shift << 16


def null(segment: Segment) -> int:
    """Return the null address of a segment (HSAIL nullptr).

    It is 0 for the global, readonly and flat segments, and -1 as 32 bits for the others.
    """
    return 0 if segment in _GLOBAL else U32


def to_flat(apertures: Apertures, segment: Segment, address: int, kernarg: int = 0, null_check: bool = False) -> int:
    """Convert an address in `segment` to a flat address (HSAIL stof); return the flat address.

    `kernarg` is the value of Kernarg Segment Ptr. With `null_check`, the segment's null address is converted to
    the flat null address."""
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
    """Convert a flat address to an address in `segment` (HSAIL ftos); return the segment address.

    `kernarg` is the value of Kernarg Segment Ptr. With `null_check`, the flat null address is converted to the
    segment's null address."""
    if segment in _GLOBAL:
        return address
    if null_check and address == 0:
        return null(segment)
    if segment is Segment.KERNARG:
        return (address & U32) - kernarg & U32
    return address - apertures.base_hi(segment) & U32 if apertures.small else address & U32


def is_in(apertures: Apertures, segment: Segment, address: int, null_check: bool = False) -> bool:
    """Return True if a flat address is in `segment` (HSAIL segmentp).

    With `null_check`, the null address is not in any segment.
    """
    if null_check and address == 0:
        return False
    if segment in _GLOBAL:
        return not (is_in(apertures, Segment.GROUP, address) or is_in(apertures, Segment.PRIVATE, address))
    if segment is Segment.KERNARG:
        raise WireError(
            "the kernarg segment has no aperture: addresses can be tested only for other segments",
            rule=rules.SEGMENTP_GLOBAL,
        )
    part = address & SMALL_APERTURE_MASK if apertures.small else address >> 32
    return part == apertures.base_hi(segment)


def swizzled(offset: int, lane: int, element_bytes: int = 4) -> int:
    """Return the offset in a wave's private memory at which byte `offset` of the private memory of `lane` is stored.

    Lanes are interleaved by elements of `element_bytes`."""
    if element_bytes not in ELEMENT_BYTES:
        raise WireError(f"the interleave size is {element_bytes}, expected 2, 4, 8 or 16", rule=rules.SWIZZLE_SIZES)
    if not 0 <= lane < LANES:
        raise WireError(f"the lane number is {lane}, expected 0 to {LANES - 1}")
    element, byte = divmod(offset, element_bytes)
    return (element * LANES + lane) * element_bytes + byte


def split_access(offset: int, size: int, element_bytes: int = 4) -> list[tuple[int, int]]:
    """Return the accesses into which a swizzled access of `size` bytes must be split on GFX8 and earlier.

    Each access is a pair of an offset and a number of bytes."""
    parts, end = [], offset + size
    while offset < end:
        count = min(element_bytes - offset % element_bytes, end - offset)
        parts.append((offset, count))
        offset += count
    return parts
