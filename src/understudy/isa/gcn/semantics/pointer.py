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

from typing import Any, Final

from understudy.isa.gcn.semantics.access import Value, sregs, vreg, whole
from understudy.isa.gcn.state import Mode

WINDOW_MASK: Final = 0xFFFF
"""Bits of a place in an aperture of HSA32."""
MASK32: Final = 0xFFFF_FFFF


def vector_pointer(o: Any, n: int) -> Value:
    """The pointers in vector register n (and n + 1), as 64 bits."""
    return o.zext(64, 32, vreg(o, n)) if o.mode.ptr32 else vreg(o, n, 64)


def scalar_pointer(o: Any, n: int) -> Value:
    """The pointer in scalar register n (and n + 1), as 64 bits."""
    return o.zext(64, 32, *sregs(o, n, 1)) if o.mode.ptr32 else whole(o, sregs(o, n, 2))


def flat_address(o: Any, pointer: Value) -> Value:
    """A pointer, as 64 bits, as the flat address that engines know."""
    if not o.mode.ptr32:
        return pointer
    window, place = (o.and_(64, pointer, o.const(64, mask)) for mask in (~WINDOW_MASK, WINDOW_MASK))
    address = pointer
    for which in ("shared", "private"):
        base = o.aperture(which)
        inside = o.eq(64, window, o.lshr(64, base, o.const(64, 32)))
        address = o.select(64, inside, o.or_(64, base, place), address)
    return address


def aperture(o: Any, which: str) -> Value:
    """First ("shared", "private") or last ("shared_limit", "private_limit") pointer into an aperture, as 64 bits."""
    if not o.mode.ptr32:
        return o.aperture(which)
    name, _, limit = which.partition("_")
    base = o.lshr(64, o.aperture(name), o.const(64, 32))
    return o.or_(64, base, o.const(64, WINDOW_MASK)) if limit else base


def pointer_of(mode: Mode, address: int) -> int:
    """The pointer that a program had for an address in an aperture: the opposite of `flat_address`."""
    return (address >> 32) + (address & MASK32) if mode.ptr32 else address
