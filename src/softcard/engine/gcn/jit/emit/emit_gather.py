"""Gathers emitted in line: each lane loads a dword from its own address.

The memory is LDS, or the range of memory that the access's inline cache holds. For bytes and halfwords the
aligned dwords that contain them are loaded."""

from __future__ import annotations

from dataclasses import dataclass

from softcard.ir.builder import LaneText
from softcard.ir.operand import Operand


@dataclass(frozen=True, slots=True)
class Run:
    """A range of memory for gathers: its first guest address, a bound of dword offsets, and its host address.

    The first guest address is None if it is 0, as in LDS.
    """

    start: Operand | None
    room: Operand
    base: Operand


class Gathers:
    """The emitter of gathers, for hosts with instructions that gather under a mask."""

    def __init__(self, text: LaneText) -> None:
        self.text = text

    def inside(self, bits: int, w: int, addresses: Operand, mask: Operand, run: Run) -> tuple[Operand, Operand]:
        """Emit the offsets, in a range of memory, of the dwords that lanes address, and a condition.

        The condition is that the dwords of all lanes of the mask are inside the range `run`. Halfwords that span two
        dwords count as outside."""
        text, lanes = self.text, self.text.lanes
        offsets = addresses if bits == 32 else (addresses & -4)
        if run.start is not None:
            offsets = offsets - text.splat(f"i{w}", run.start)
        outside = offsets >= text.splat(f"i{w}", run.room)
        if bits == 16:
            last = addresses & 3
            outside = outside | last.eq(3)
        wrong = (outside & mask).bitcast(f"i{lanes}")
        return offsets, wrong.eq(0)

    def read(self, bits: int, w: int, addresses: Operand, offsets: Operand, mask: Operand, run: Run) -> Operand:
        """Emit the gather of a byte, halfword or dword for each lane of a mask; other lanes read 0.

        `offsets` are the offsets that `inside` returned. The values are returned as dwords."""
        text, lanes = self.text, self.text.lanes
        vector = text.itype(32, True)
        places = run.base.offset(offsets)
        name = f"llvm.masked.gather.v{lanes}i32.v{lanes}p0"
        pointers, flags = f"<{lanes} x ptr> align 1 {places}", f"{text.itype(1, True)} {mask}"
        found = text.call(vector, name, pointers, flags, f"{vector} zeroinitializer")
        if bits == 32:
            return found
        low = addresses if w == 32 else addresses.trunc(vector)
        shift = (low & 3) << 3
        return found >> shift & (1 << bits) - 1
