"""Pointers in registers, of 64 or 32 bits, and the flat apertures (address windows) of LDS and private memory.

SH_MEM_CONFIG selects the width of pointers (PTR32 on GFX7, ADDRESS_MODE later; `Mode.ptr32`). A 32-bit
pointer (HSA32) takes one register, and the apertures are windows of 64 KiB among the 32-bit addresses.

Semantics always pass 64-bit flat addresses to engines. The upper half of a flat address identifies the
aperture. With 64-bit pointers (HSA64), the flat address is the pointer itself. With 32-bit pointers, the
upper half of the flat address is the address of the window, and the lower half is the offset in the window.

Sources: AMD's manuals, "Flat memory instructions", Addressing; the kernel driver's description of HSA32;
"Flat addressing" of the ROCm Code Object document. Choices ``gcn/pointer-size``, ``gcn/pointer-apertures``
and ``gcn/pointer-overflow``."""

from __future__ import annotations

from typing import Final

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.semantics.access import sregs, vreg, whole
from softcard.isa.gcn.state import WINDOW_MASK, Mode
from softcard.isa.gcn.word import Word

MASK32: Final = 0xFFFF_FFFF


def vector_pointer(b: Builder, n: int) -> Word:
    """Return the pointer in vector register n as 64 bits; a 64-bit pointer includes register n + 1."""
    return vreg(b, n, 32 if b.mode.ptr32 else 64).zext(64)


def scalar_pointer(b: Builder, n: int) -> Word:
    """Return the pointer in scalar register n as 64 bits; a 64-bit pointer includes register n + 1."""
    return whole(sregs(b, n, 1 if b.mode.ptr32 else 2)).zext(64)


def flat_address(b: Builder, pointer: Word) -> Word:
    """Convert a 64-bit pointer of the program to the 64-bit flat address that engines use."""
    if not b.mode.ptr32:
        return pointer
    window, place = pointer & ~WINDOW_MASK, pointer & WINDOW_MASK
    address = pointer
    for base in (b.aperture("shared"), b.aperture("private")):
        address = (window == base[63:32]).select(base | place, address)
    return address


def aperture(b: Builder, which: str) -> Word:
    """Return a 64-bit pointer of the program to the first or the last address of an aperture.

    `which` is "shared" or "private" for the first address, "shared_limit" or "private_limit" for the last one."""
    if not b.mode.ptr32:
        return b.aperture(which)
    name, _, limit = which.partition("_")
    base = b.aperture(name)[63:32]
    return base | WINDOW_MASK if limit else base


def pointer_of(mode: Mode, address: int) -> int:
    """Convert an engine's flat address to the program's pointer: the inverse of `flat_address`."""
    return (address >> 32) + (address & MASK32) if mode.ptr32 else address
