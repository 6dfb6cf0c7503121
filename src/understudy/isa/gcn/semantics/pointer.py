"""Pointers in registers, 64 bits wide or 32, and the flat apertures that they may lie in.

SH_MEM_CONFIG decides which (PTR32 on GFX7, ADDRESS_MODE later; `Mode.ptr32`): with 32 bits (HSA32) a pointer takes one
register, and the apertures are windows of 64 KiB among 32-bit addresses. Meanings give engines 64-bit addresses always,
on which the apertures are the upper halves: what HSA64 has as it is, for HSA32 the address of the window in the upper
half and the place in it in the lower one. So engines know one kind of flat address.

Sources: AMD's manuals, "Flat memory instructions", Addressing; the kernel driver's description of HSA32; "Flat
addressing" of the ROCm Code Object document. Choices ``gcn/pointer-size``, ``gcn/pointer-apertures`` and
``gcn/pointer-overflow``.
"""

from __future__ import annotations

from typing import Final

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.semantics.access import sregs, vreg, whole
from understudy.isa.gcn.state import WINDOW_MASK, Mode
from understudy.isa.gcn.word import Word

MASK32: Final = 0xFFFF_FFFF


def vector_pointer(b: Builder, n: int) -> Word:
    """The pointers in vector register n (and n + 1), as 64 bits."""
    return vreg(b, n, 32 if b.mode.ptr32 else 64).zext(64)


def scalar_pointer(b: Builder, n: int) -> Word:
    """The pointer in scalar register n (and n + 1), as 64 bits."""
    return whole(sregs(b, n, 1 if b.mode.ptr32 else 2)).zext(64)


def flat_address(b: Builder, pointer: Word) -> Word:
    """A pointer, as 64 bits, as the flat address that engines know."""
    if not b.mode.ptr32:
        return pointer
    window, place = pointer & ~WINDOW_MASK, pointer & WINDOW_MASK
    address = pointer
    for base in (b.aperture("shared"), b.aperture("private")):
        address = (window == base[63:32]).select(base | place, address)
    return address


def aperture(b: Builder, which: str) -> Word:
    """First ("shared", "private") or last ("shared_limit", "private_limit") pointer into an aperture, as 64 bits."""
    if not b.mode.ptr32:
        return b.aperture(which)
    name, _, limit = which.partition("_")
    base = b.aperture(name)[63:32]
    return base | WINDOW_MASK if limit else base


def pointer_of(mode: Mode, address: int) -> int:
    """The pointer that a program had for an address in an aperture: the opposite of `flat_address`."""
    return (address >> 32) + (address & MASK32) if mode.ptr32 else address
