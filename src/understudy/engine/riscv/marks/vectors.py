"""Vectors with marks, element by element: an element of a result is marked where one that it is made of is.

Values are computed by the reference engine's `Vectors`, and so are marks, over registers that hold marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from understudy.engine.marks.integers import Marked
from understudy.engine.marks.mark import Mark
from understudy.engine.riscv.marks.block import MarkBlock
from understudy.engine.riscv.vectors import Vectors
from understudy.isa.riscv.state import VL, VSTART, Hart
from understudy.isa.riscv.vector.groups import Before, Group, Index, Mask, Picked, Place, Scalar, Slid, Source, Walk
from understudy.isa.riscv.vector.vtype import VType


class _Shadow:
    """What `Vectors` asks of a hart: vector registers that hold marks."""

    def __init__(self, hart: Hart, block: MarkBlock) -> None:
        self.vlen = hart.vlen
        self.vectors = block.vectors


class VectorMarks(Vectors):
    """Columns of marks. `values` are those that belong to them."""

    def __init__(self, values: Vectors, block: MarkBlock) -> None:
        self.values = values
        self.hart = _Shadow(values.hart, block)  # type: ignore[assignment]
        self.words = values.words

    def load(self, w: int, address: int) -> int:
        """Memory's marks are the twin's."""
        raise NotImplementedError

    def store(self, w: int, address: int, v: int) -> None:
        """Likewise."""
        raise NotImplementedError

    def column(self, source: Source, count: int) -> list[int]:
        """The marks of elements 0 to count - 1: not 0 where one is marked."""
        if isinstance(source, Scalar):
            return [_bits(source.value)] * count
        if isinstance(source, Index):
            return [0] * count
        if isinstance(source, Slid):
            found = self._slid(replace(source, offset=_value(source.offset)), count)
            return [1] * count if _bits(source.offset) else found
        if isinstance(source, Picked):
            whole, marked = self._whole(source.group), self.column(source.index, count)
            places = self.values._column(_bare(source.index), count)
            return [bits or (whole[k] if k < len(whole) else 0) for k, bits in zip(places, marked, strict=True)]
        if isinstance(source, Before):
            seen, found = 0, []
            for bit in self._bits(source.mask.n, count):
                found.append(seen)
                seen |= bit
            return found
        return list(self._column(source, count))

    def enabled(self, masked: bool, count: int) -> tuple[list[int], list[int]]:
        """The elements that may take part, and the marks of what says so."""
        marks = self._bits(0, count) if masked else [0] * count
        body = set(self.values._body(masked, count))
        return [k for k in range(self.words[VSTART], count) if k in body or marks[k]], marks

    def put(self, dest: Place, marks: dict[int, int]) -> None:
        """Write marks of elements by number: all bits of one, or none."""
        full = 1 if isinstance(dest, Mask) else (1 << dest.width) - 1
        self._put(dest, {k: full if bits else 0 for k, bits in marks.items()})


def _value(v: Any) -> Any:
    return v.value if isinstance(v, Marked) else v


def _bits(v: Any) -> int:
    """Whether anything of a value is marked."""
    if not isinstance(v, Marked) or v.marks[0] is None:
        return 0
    return int(bool(v.marks[0].bits(_Wide)))


class _Wide:
    """What a mark needs to give its bits."""

    @staticmethod
    def sext(to: int, w: int, a: int) -> int:
        """Of one bit."""
        return (1 << to) - 1 if a else 0


def _bare(source: Source) -> Source:
    """A source with values without marks."""
    if isinstance(source, Scalar):
        return replace(source, value=_value(source.value))
    if isinstance(source, Slid):
        return replace(source, offset=_value(source.offset))
    if isinstance(source, Picked):
        index = _bare(source.index)
        assert isinstance(index, Group | Scalar)
        return replace(source, index=index)
    return source


class MarkedVectors:
    """`isa.riscv.vector.algebra` over `Marked` values; to be part of a hart's evaluator with marks."""

    base: Any
    vector_marks: VectorMarks
    _tell: Callable[..., None]
    _marked: Callable[..., Marked]
    _plain: Callable[[Any], Marked]
    twin: Any

    def register_bits(self) -> int:
        """VLEN."""
        return int(self.base.register_bits())

    def vector(self, *, resumes: bool = False) -> VType:
        """Begin an instruction that depends on vtype."""
        found: VType = self.base.vector(resumes=resumes)
        return found

    def vector_untyped(self, *, resumes: bool = False) -> None:
        """Begin one that does not."""
        self.base.vector_untyped(resumes=resumes)

    def vector_float(self) -> None:
        """It is about floats."""
        self.base.vector_float()

    def vl(self) -> Marked:
        """Elements in the body."""
        return self._plain(self.base.vl())

    def vxrm(self) -> Marked:
        """The fixed-point rounding mode."""
        return self._plain(self.base.vxrm())

    def configure(self, bits: Marked, length: Marked | None) -> Marked:
        """Set vtype and vl."""
        for each in (bits, length):
            if each is not None:
                self._tell("branch", each)
        return self._plain(self.base.configure(bits.value, _value(length)))

    def frec7(self, fmt: str, a: Any, rm: int) -> Any:
        """An estimate of 1 / a, where no marks are: elements are computed without."""
        return self.base.frec7(fmt, a, rm)

    def frsqrt7(self, fmt: str, a: Any) -> Any:
        """An estimate of 1 / sqrt(a)."""
        return self.base.frsqrt7(fmt, a)

    def _all(self, sources: Iterable[Source], masked: bool) -> dict[int, int]:
        """Of each element whether one that it is made of is marked."""
        marks = self.vector_marks
        count = self.base.words[VL]
        body, which = marks.enabled(masked, count)
        columns = [marks.column(source, count) for source in sources]
        return {k: which[k] or int(any(column[k] for column in columns)) for k in body}

    def v_map(
        self, dest: Place, sources: tuple[Source, ...], f: Callable[..., Any], masked: bool, *, saturates: bool = False
    ) -> None:
        """dest[k] = f(o, elements k of the sources)."""
        found = self._all(sources, masked)
        self.base.v_map(dest, tuple(map(_bare, sources)), f, masked, saturates=saturates)
        self.vector_marks.put(dest, found)

    def _scalar(self, w: int, value: int, *marks: int) -> Marked:
        return self._marked(value, Mark(w, whole=int(any(marks))))

    def v_fold(self, source: Group, start: Scalar, f: Callable[..., Any], masked: bool) -> Marked:
        """One after the other."""
        found = self._all((source, start), masked)
        value = self.base.v_fold(source, _bare(start), f, masked)
        return self._scalar(start.width, value, _bits(start.value), *found.values())

    def v_reduce(
        self, source: Group, start: Scalar, neutral: int, f: Callable[..., Any], masked: bool, *, signed: bool = False
    ) -> Marked:
        """In any order."""
        found = self._all((source, start), masked)
        value = self.base.v_reduce(source, _bare(start), neutral, f, masked, signed=signed)
        return self._scalar(start.width, value, _bits(start.value), *found.values())

    def v_count(self, mask: Mask, masked: bool) -> Marked:
        """How many bits are 1."""
        return self._scalar(64, self.base.v_count(mask, masked), *self._all((mask,), masked).values())

    def v_find(self, mask: Mask, masked: bool) -> Marked:
        """The number of the first bit that is 1."""
        return self._scalar(64, self.base.v_find(mask, masked), *self._all((mask,), masked).values())

    def v_first(self, group: Group) -> Marked:
        """Element 0."""
        return self._marked(self.base.v_first(group), Mark(group.width, bits=self.vector_marks.v_first(group)))

    def v_set_first(self, group: Group, value: Marked) -> None:
        """Set element 0, unless vl is 0."""
        self.base.v_set_first(group, value.value)
        if self.base.words[VL]:
            self.vector_marks.put(group, {0: _bits(value)})

    def v_compress(self, dest: Group, source: Group, which: Mask) -> None:
        """The elements that a mask enables."""
        count = self.base.words[VL]
        marks, unsure = self.vector_marks.column(source, count), any(self.vector_marks.column(which, count))
        chosen = self.base._column(which, count)
        found = [bits or unsure for bits, enabled in zip(marks, chosen, strict=True) if enabled]
        self.base.v_compress(dest, source, which)
        self.vector_marks.put(dest, {k: int(bits) for k, bits in enumerate(found)})

    def v_copy(self, to: int, n: int, count: int) -> None:
        """Whole registers."""
        self.base.v_copy(to, n, count)
        self.vector_marks.v_copy(to, n, count)

    # ---- memory --------------------------------------------------------------------------------------------------
    def _places(self, walk: Walk, count: int, masked: bool) -> tuple[Walk, list[int], list[int]]:
        """A walk without marks, its addresses, and the elements that are accessed; marked addresses are told of."""
        for each in (walk.base, walk.step):
            if isinstance(each, Marked):
                self._tell("address", each)
        bare = replace(walk, base=_value(walk.base), offsets=_bare(walk.offsets), step=_value(walk.step))
        body = list(self.base._body(masked, count))
        offsets = self.vector_marks.column(walk.offsets, count)
        if any(offsets[k] for k in body):
            self._tell("address", self._scalar(64, 0, 1))
        return bare, self.base._addresses(bare, count), body

    def v_load(
        self, dest: Group, count: Marked, walk: Walk, masked: bool, *, fields: int = 1, first_fault: bool = False
    ) -> None:
        """Elements of memory into groups, with their marks, bit by bit."""
        number, size = int(count), dest.width >> 3
        bare, addresses, body = self._places(walk, number, masked)
        self.base.v_load(dest, number, bare, masked, fields=fields, first_fault=first_fault)
        body = [k for k in body if k < max(self.base.words[VL], 1)] if first_fault else body
        for field in range(fields):
            group = replace(dest, n=dest.n + field * dest.registers)
            found = {k: self.twin.load(dest.width, addresses[k] + field * size) for k in body}
            self.vector_marks._put(group, found)
            self._note("loaded", dest.width, found, addresses, field * size)

    def v_store(self, source: Group, count: Marked, walk: Walk, masked: bool, *, fields: int = 1) -> None:
        """Elements of groups into memory, likewise."""
        number, size = int(count), source.width >> 3
        bare, addresses, body = self._places(walk, number, masked)
        self.base.v_store(source, number, bare, masked, fields=fields)
        for field in range(fields):
            column = self.vector_marks.column(replace(source, n=source.n + field * source.registers), number)
            found = {k: column[k] for k in body}
            self._note("stored", source.width, found, addresses, field * size)
            for k, bits in found.items():
                self.twin.store(source.width, addresses[k] + field * size, bits)

    def _note(self, what: str, w: int, marks: dict[int, int], addresses: list[int], skip: int) -> None:
        """The first element that is marked."""
        k = next((k for k, bits in marks.items() if bits), None)
        if k is not None:
            self.twin.tell(what, Mark(w, bits=marks[k]), addresses[k] + skip)
