"""Gathers in line: each lane's dword from a place of its own, in LDS or in the memory that the access met last.

Bytes and halfwords are read as the aligned dwords around them.
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.ir.builder import LaneText


@dataclass(frozen=True, slots=True)
class Run:
    """Memory that is known: its first address (none: 0), how far from there dwords may begin, and its host address."""

    start: str
    room: str
    base: str


class Gathers:
    """Writes them for chunks of a text's lanes, whose host gathers under masks."""

    def __init__(self, text: LaneText) -> None:
        self.text = text

    def inside(self, bits: int, w: int, addresses: str, mask: str, run: Run) -> tuple[str, str]:
        """How far into a run the dwords of lanes lie, and whether it has all those of a mask.

        It does not have halfwords that lie in two dwords.
        """
        text, lanes = self.text, self.text.lanes
        kind, flags = text.itype(w, True), text.itype(1, True)
        offsets = addresses if bits == 32 else text.let(f"and {kind} {addresses}, splat (i{w} -4)")
        if run.start:
            offsets = text.let(f"sub {kind} {offsets}, {text.splat(f'i{w}', run.start)}")
        outside = text.let(f"icmp uge {kind} {offsets}, {text.splat(f'i{w}', run.room)}")
        if bits == 16:
            last = text.let(f"and {kind} {addresses}, splat (i{w} 3)")
            outside = text.let(f"or {flags} {outside}, {text.let(f'icmp eq {kind} {last}, splat (i{w} 3)')}")
        wrong = text.let(f"bitcast {flags} {text.let(f'and {flags} {outside}, {mask}')} to i{lanes}")
        return offsets, text.let(f"icmp eq i{lanes} {wrong}, 0")

    def read(self, bits: int, w: int, addresses: str, offsets: str, mask: str, run: Run) -> str:
        """What lanes of a mask find there, as dwords; others read 0."""
        text, lanes = self.text, self.text.lanes
        vector = text.itype(32, True)
        places = text.let(f"getelementptr i8, ptr {run.base}, {text.itype(w, True)} {offsets}")
        name = f"llvm.masked.gather.v{lanes}i32.v{lanes}p0"
        pointers, flags = f"<{lanes} x ptr> align 1 {places}", f"{text.itype(1, True)} {mask}"
        found = text.call(vector, name, pointers, flags, f"{vector} zeroinitializer")
        if bits == 32:
            return found
        low = addresses if w == 32 else text.let(f"trunc {text.itype(w, True)} {addresses} to {vector}")
        shift = text.let(f"shl {vector} {text.let(f'and {vector} {low}, splat (i32 3)')}, splat (i32 3)")
        return text.let(f"and {vector} {text.let(f'lshr {vector} {found}, {shift}')}, splat (i32 {(1 << bits) - 1})")
