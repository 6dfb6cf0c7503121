"""The vector operations of `isa.riscv.vector.algebra`, computed element by element."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any

from softcard.engine.riscv.api import Trap
from softcard.engine.riscv.pages import MASK64
from softcard.ir import softfloat
from softcard.isa.riscv.insn import IllegalInstruction
from softcard.isa.riscv.state import FRM, VL, VSTART, VTYPE, VXRM, VXSAT, Hart
from softcard.isa.riscv.unitstate import FLOATS, VECTORS
from softcard.isa.riscv.vector import rules, vtype
from softcard.isa.riscv.vector.groups import Before, Group, Mask, Picked, Place, Scalar, Slid, Source, Walk
from softcard.isa.riscv.vector.vtype import VType

Element = Callable[..., Any]


class Vectors:
    """The vector operations on register groups as lists of elements; a base class of a hart's evaluator."""

    hart: Hart
    words: memoryview[int]

    @abstractmethod
    def load(self, w: int, address: int) -> int:
        """Load a value of `w` bits from an aligned address."""

    @abstractmethod
    def store(self, w: int, address: int, v: int) -> None:
        """Store a value of `w` bits to an aligned address."""

    def register_bits(self) -> int:
        """Return VLEN, the width of vector registers in bits."""
        return self.hart.vlen

    # -- what is in force

    def vector(self, *, resumes: bool = False) -> VType:
        """Begin an instruction that depends on vtype, and return vtype.

        Only an instruction that `resumes` may begin with vstart other than 0."""
        self.vector_untyped(resumes=resumes)
        found = vtype.parse(self.words[VTYPE], self.hart.vlen)
        if found is None:
            why = (
                "vector instruction while vtype.vill is set: no vset* instruction has run, or the last one had an "
                "illegal "
                "setting"
            )
            raise IllegalInstruction(why, rule=rules.VILL_ILLEGAL)
        return found

    def vector_untyped(self, *, resumes: bool = False) -> None:
        """Begin a vector instruction that does not depend on vtype.

        Only an instruction that `resumes` may begin with vstart other than 0."""
        VECTORS.use(self.hart)
        if not resumes and self.words[VSTART]:
            why = (
                f"vstart is {self.words[VSTART]}, expected 0: only loads and stores can start in the middle of a vector"
            )
            raise IllegalInstruction(why, rule=rules.VSTART_NEVER)

    def vector_float(self) -> None:
        """Begin a floating-point vector instruction.

        Raise `IllegalInstruction` if floats are off or frm is reserved.
        """
        FLOATS.use(self.hart)
        if self.words[FRM] > softfloat.RMM:
            why = f"floating-point vector instruction while frm is {self.words[FRM]}, which is reserved"
            raise IllegalInstruction(why, rule=rules.FRM_RESERVED)

    def vl(self) -> int:
        """Return vl, the number of elements that an instruction processes."""
        return self.words[VL]

    def vxrm(self) -> int:
        """Return the fixed-point rounding mode."""
        return self.words[VXRM]

    def configure(self, bits: int, length: int | None) -> int:
        """Set vtype and vl; return vl."""
        self.vector_untyped(resumes=True)
        words = self.words
        found = vtype.parse(bits, self.hart.vlen)
        words[VTYPE] = vtype.VILL if found is None else bits
        words[VL] = 0 if found is None else min(words[VL] if length is None else length, found.vlmax)
        words[VSTART] = 0
        return words[VL]

    # -- registers as elements

    def _elements(self, n: int, width: int) -> tuple[memoryview, int]:
        """Return all vector registers as one array of `width`-bit elements, and the index of register `n` in it."""
        return self.hart.vectors[width], n * self.hart.vlen // width

    def _column(self, source: Source, count: int) -> Iterable[int]:
        """Return elements 0 to `count` - 1 of the operand `source`."""
        if isinstance(source, Group):
            elements, first = self._elements(source.n, source.width)
            return elements[first : first + count].tolist()
        if isinstance(source, Mask):
            return self._bits(source.n, count)
        if isinstance(source, Scalar):
            return [source.value] * count  # type: ignore[list-item]
        if isinstance(source, Slid):
            return self._slid(source, count)
        if isinstance(source, Picked):
            whole = self._whole(source.group)
            return [whole[k] if k < len(whole) else 0 for k in self._column(source.index, count)]
        if isinstance(source, Before):
            bits = self._bits(source.mask.n, count)
            if source.masked:
                bits = [bit & enabled for bit, enabled in zip(bits, self._bits(0, count), strict=True)]
            return [total & (1 << source.width) - 1 for total in accumulate(bits, initial=0)][:count]
        return range(count)

    def _whole(self, group: Group) -> list[int]:
        """Return all elements of a group, regardless of vl."""
        elements, first = self._elements(group.n, group.width)
        return elements[first : first + vtype.elements(self.hart.vlen, group.width, group.emul)].tolist()

    def _slid(self, source: Slid, count: int) -> list[int]:
        """Return elements 0 to `count` - 1 of the operand `source`: a register group with shifted elements.

        Elements from outside of the group are 0."""
        whole = self._whole(source.group)
        offset = min(int(source.offset), len(whole))  # type: ignore[call-overload]
        free = [0] * offset
        return (free + whole if source.up else whole[offset:] + free)[:count]

    def _bits(self, n: int, count: int) -> list[int]:
        """Return bits 0 to `count` - 1 of vector register `n`, as a list of 0 and 1."""
        elements, first = self._elements(n, 8)
        bits = int.from_bytes(elements[first : first + (count + 7) // 8], "little")
        return [bits >> k & 1 for k in range(count)]

    def _body(self, masked: bool, count: int) -> Iterator[int]:
        """Yield the indices of the active elements, from vstart to `count` - 1.

        If `masked`, the mask in v0 selects the active elements; otherwise all are active."""
        body = range(self.words[VSTART], count)
        if not masked:
            return iter(body)
        enabled = self._bits(0, count)
        return (k for k in body if enabled[k])

    def _put(self, dest: Place, values: dict[int, int]) -> None:
        """Write the elements `values`, given by index, to a register group or mask."""
        elements, first = self._elements(dest.n, 8 if isinstance(dest, Mask) else dest.width)
        if isinstance(dest, Mask):
            for k, bit in values.items():
                at = first + k // 8
                elements[at] = elements[at] & ~(1 << k % 8) | bit << k % 8
        else:
            for k, value in values.items():
                elements[first + k] = value

    # -- ways through registers

    def v_map(
        self, dest: Place, sources: tuple[Source, ...], f: Element, masked: bool, *, saturates: bool = False
    ) -> None:
        """Set each active element k of `dest` to f(self, element k of each source).

        If the instruction `saturates`, `f` also returns a bool that is True if the value was saturated (for vxsat)."""
        count = self.words[VL]
        columns = [self._column(source, count) for source in sources]
        rows = list(zip(*columns, strict=True))
        if saturates:
            pairs = {k: f(self, *rows[k]) for k in self._body(masked, count)}
            self._put(dest, {k: value for k, (value, _) in pairs.items()})
            self.words[VXSAT] |= any(over for _, over in pairs.values())
        else:
            self._put(dest, {k: f(self, *rows[k]) for k in self._body(masked, count)})

    def v_fold(self, source: Group, start: Scalar, f: Element, masked: bool) -> int:
        """Compute value = f(self, value, element k) for each active k in order, beginning with `start`.

        Return the last value."""
        elements = list(self._column(source, self.words[VL]))
        last: Any = start.value
        for k in self._body(masked, len(elements)):
            last = f(self, last, elements[k])
        return int(last)

    def v_reduce(
        self, source: Group, start: Scalar, neutral: int, f: Element, masked: bool, *, signed: bool = False
    ) -> int:
        """Combine `start` and the active elements of `source` in order by f(self, value, element).

        Return the last value. The elements are extended to the width of `start`, with their sign if `signed`."""
        elements = list(self._column(source, self.words[VL]))
        state: Any = start.value
        for k in self._body(masked, len(elements)):
            a = elements[k]
            if signed and a >> source.width - 1:
                a += (1 << start.width) - (1 << source.width)
            state = f(self, state, a)
        return int(state)

    def v_count(self, mask: Mask, masked: bool) -> int:
        """Return the number of active mask bits that are 1."""
        bits = self._bits(mask.n, self.words[VL])
        return sum(bits[k] for k in self._body(masked, len(bits)))

    def v_find(self, mask: Mask, masked: bool) -> int:
        """Return the index of the first active element whose bit in `mask` is 1; if there is none, -1 modulo 2**64.

        If `masked`, only the elements that the mask in v0 selects are active."""
        bits = self._bits(mask.n, self.words[VL])
        return next((k for k in self._body(masked, len(bits)) if bits[k]), MASK64)

    def v_first(self, group: Group) -> int:
        """Return element 0 of `group`, regardless of vl."""
        elements, first = self._elements(group.n, group.width)
        return elements[first]

    def v_set_first(self, group: Group, value: int) -> None:
        """Set element 0 of `group` to `value`, unless vl is 0."""
        if self.words[VL]:
            self._put(group, {0: value})

    def v_compress(self, dest: Group, source: Group, which: Mask) -> None:
        """Store the elements of `source` that the mask `which` enables to `dest`, without gaps."""
        count = self.words[VL]
        pairs = zip(self._column(source, count), self._column(which, count), strict=True)
        self._put(dest, dict(enumerate(value for value, enabled in pairs if enabled)))

    def v_copy(self, to: int, n: int, count: int) -> None:
        """Copy `count` whole registers, from number `n` on, to the registers from number `to` on."""
        elements, first = self._elements(n, 64)
        size = count * self.hart.vlen // 64
        at = to * self.hart.vlen // 64
        elements[at : at + size] = elements[first : first + size]

    # -- memory

    def _addresses(self, walk: Walk, count: int) -> list[int]:
        """Return the memory addresses of elements 0 to `count` - 1 of the vector whose location `walk` describes."""
        base, step = walk.base, walk.step
        return [base + offset * step & MASK64 for offset in self._column(walk.offsets, count)]  # type: ignore[operator]

    def v_load(
        self,
        dest: Group,
        count: int,
        walk: Walk,
        masked: bool,
        *,
        fields: int = 1,
        first_fault: bool = False,
    ) -> None:
        """Load the first `count` elements of `fields` adjacent register groups from the addresses of `walk`.

        `dest` is the first group. The fields of an element are adjacent in memory. If `masked`, only elements that
        the mask in v0 selects are loaded. A fault sets vstart to the index of its element. With `first_fault`, a
        fault after element 0 does not trap, but sets vl to the index of its element."""
        words, width = self.words, dest.width
        places = [self._elements(dest.n + field * dest.registers, width) for field in range(fields)]
        addresses = self._addresses(walk, count)
        for k in self._body(masked, count):
            at = addresses[k]
            try:
                for elements, first in places:
                    elements[first + k] = self.load(width, at)
                    at = at + width // 8 & MASK64
            except Trap:
                if first_fault and k:
                    words[VL] = k
                    break
                words[VSTART] = k
                raise
        words[VSTART] = 0

    def v_store(
        self,
        source: Group,
        count: int,
        walk: Walk,
        masked: bool,
        *,
        fields: int = 1,
    ) -> None:
        """Store the first `count` elements of `fields` adjacent register groups to the addresses of `walk`.

        `source` is the first group. The fields of an element are adjacent in memory. If `masked`, only elements
        that the mask in v0 selects are stored. A fault sets vstart to the index of its element."""
        words, width = self.words, source.width
        places = [self._elements(source.n + field * source.registers, width) for field in range(fields)]
        addresses = self._addresses(walk, count)
        for k in self._body(masked, count):
            at = addresses[k]
            try:
                for elements, first in places:
                    self.store(width, at, elements[first + k])
                    at = at + width // 8 & MASK64
            except Trap:
                words[VSTART] = k
                raise
        words[VSTART] = 0
