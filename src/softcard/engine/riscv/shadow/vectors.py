"""Vectors with shadow bits, element by element: a result element is undefined if any of its operands is.

The reference engine's `Vectors` computes both the values and, on shadow vector registers, the shadow bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from softcard.engine.riscv.shadow_layout import ShadowBlock
from softcard.engine.riscv.vectors import Vectors
from softcard.engine.shadow.bits import ShadowBits
from softcard.engine.shadow.integers import Shadowed
from softcard.isa.riscv.state import VL, VSTART, Hart
from softcard.isa.riscv.vector.groups import Before, Group, Index, Mask, Picked, Place, Scalar, Slid, Source, Walk
from softcard.isa.riscv.vector.vtype import VType


class _Shadow:
    """A substitute for a hart, with shadow vector registers in place of vector registers, for use by `Vectors`."""

    def __init__(self, hart: Hart, block: ShadowBlock) -> None:
        self.vlen = hart.vlen
        self.vectors = block.vectors


class VectorShadow(Vectors):
    """The shadow bits of a hart's vector registers; `values` are the vector operations on the registers themselves."""

    def __init__(self, values: Vectors, block: ShadowBlock) -> None:
        self.values = values
        self.hart = _Shadow(values.hart, block)  # type: ignore[assignment]
        self.words = values.words

    def load(self, w: int, address: int) -> int:
        """Raise NotImplementedError: the `HartShadow` has the shadow memory."""
        raise NotImplementedError

    def store(self, w: int, address: int, v: int) -> None:
        """Raise NotImplementedError: the `HartShadow` has the shadow memory."""
        raise NotImplementedError

    def column(self, source: Source, count: int) -> list[int]:
        """Return the shadows of elements 0 to `count` - 1 of a source: 0 for a defined element."""
        if isinstance(source, Scalar):
            return [_bits(source.value)] * count
        if isinstance(source, Index):
            return [0] * count
        if isinstance(source, Slid):
            found = self._slid(replace(source, offset=_value(source.offset)), count)
            return [1] * count if _bits(source.offset) else found
        if isinstance(source, Picked):
            whole, shadowed = self._whole(source.group), self.column(source.index, count)
            places = self.values._column(_bare(source.index), count)
            return [bits or (whole[k] if k < len(whole) else 0) for k, bits in zip(places, shadowed, strict=True)]
        if isinstance(source, Before):
            seen, found = 0, []
            for bit in self._bits(source.mask.n, count):
                found.append(seen)
                seen |= bit
            return found
        return list(self._column(source, count))

    def enabled(self, masked: bool, count: int) -> tuple[list[int], list[int]]:
        """Return the numbers of the elements that may be active, and the shadows of the bits of the mask v0, by
        element.

        An element may be active if its mask bit is 1 or undefined. All shadows are 0 unless `masked`."""
        shadows = self._bits(0, count) if masked else [0] * count
        body = set(self.values._body(masked, count))
        return [k for k in range(self.words[VSTART], count) if k in body or shadows[k]], shadows

    def put(self, dest: Place, shadows: dict[int, int]) -> None:
        """Write the shadows of elements, given by element number.

        All bits of an element's shadow are set if its given shadow is not 0, and cleared otherwise.
        """
        full = 1 if isinstance(dest, Mask) else (1 << dest.width) - 1
        self._put(dest, {k: full if bits else 0 for k, bits in shadows.items()})


def _value(v: Any) -> Any:
    return v.value if isinstance(v, Shadowed) else v


def _bits(v: Any) -> int:
    """Return 1 if any shadow bit of the value `v` is set, else 0, also for a value without shadow bits."""
    if not isinstance(v, Shadowed) or v.shadows[0] is None:
        return 0
    return int(bool(v.shadows[0].bits(_Wide)))


class _Wide:
    """The operation on integers that `ShadowBits` needs to expand a single shadow bit."""

    @staticmethod
    def sext(to: int, w: int, a: int) -> int:
        """Extend one bit to `to` bits with its sign."""
        return (1 << to) - 1 if a else 0


def _bare(source: Source) -> Source:
    """Return a source of elements in which values with shadow bits are replaced by their plain values."""
    if isinstance(source, Scalar):
        return replace(source, value=_value(source.value))
    if isinstance(source, Slid):
        return replace(source, offset=_value(source.offset))
    if isinstance(source, Picked):
        index = _bare(source.index)
        assert isinstance(index, Group | Scalar)
        return replace(source, index=index)
    return source


class ShadowedVectors:
    """The vector operations of `isa.riscv.vector.algebra` on values with shadow bits.

    This is a base class of `ShadowedEvaluator`.
    """

    base: Any
    vector_shadow: VectorShadow
    _report: Callable[..., None]
    _shadowed: Callable[..., Shadowed]
    _plain: Callable[[Any], Shadowed]
    shadow: Any

    def register_bits(self) -> int:
        """Return VLEN, the width of vector registers in bits."""
        return int(self.base.register_bits())

    def vector(self, *, resumes: bool = False) -> VType:
        """Begin an instruction that depends on vtype, and return vtype.

        Only an instruction that `resumes` may begin with vstart other than 0."""
        found: VType = self.base.vector(resumes=resumes)
        return found

    def vector_untyped(self, *, resumes: bool = False) -> None:
        """Begin a vector instruction that does not depend on vtype.

        Only an instruction that `resumes` may begin with vstart other than 0."""
        self.base.vector_untyped(resumes=resumes)

    def vector_float(self) -> None:
        """Begin a floating-point vector instruction.

        Raise `IllegalInstruction` if floats are off or frm is reserved.
        """
        self.base.vector_float()

    def vl(self) -> Shadowed:
        """Return vl, the number of elements that an instruction processes."""
        return self._plain(self.base.vl())

    def vxrm(self) -> Shadowed:
        """Return the fixed-point rounding mode."""
        return self._plain(self.base.vxrm())

    def configure(self, bits: Shadowed, length: Shadowed | None) -> Shadowed:
        """Set vtype and vl; return vl."""
        for each in (bits, length):
            if each is not None:
                self._report("branch", each)
        return self._plain(self.base.configure(bits.value, _value(length)))

    def frec7(self, fmt: str, a: Any, rm: int) -> Any:
        """Return an estimate of 1 / a, on plain values: elements are computed without shadow bits."""
        return self.base.frec7(fmt, a, rm)

    def frsqrt7(self, fmt: str, a: Any) -> Any:
        """Return an estimate of 1 / sqrt(a), on plain values: elements are computed without shadow bits."""
        return self.base.frsqrt7(fmt, a)

    def _all(self, sources: Iterable[Source], masked: bool) -> dict[int, int]:
        """Return, for each element that may be active, the union of the shadow bits of its operands."""
        shadows = self.vector_shadow
        count = self.base.words[VL]
        body, which = shadows.enabled(masked, count)
        columns = [shadows.column(source, count) for source in sources]
        return {k: which[k] or int(any(column[k] for column in columns)) for k in body}

    def v_map(
        self, dest: Place, sources: tuple[Source, ...], f: Callable[..., Any], masked: bool, *, saturates: bool = False
    ) -> None:
        """Set dest[k] to f(o, elements k of the sources) for each active element k."""
        found = self._all(sources, masked)
        self.base.v_map(dest, tuple(map(_bare, sources)), f, masked, saturates=saturates)
        self.vector_shadow.put(dest, found)

    def _scalar(self, w: int, value: int, *shadows: int) -> Shadowed:
        return self._shadowed(value, ShadowBits(w, whole=int(any(shadows))))

    def v_fold(self, source: Group, start: Scalar, f: Callable[..., Any], masked: bool) -> Shadowed:
        """Return the last value of start = f(o, start, element k), computed for each active element k in order.

        The result is undefined if `start` or any of these elements is.
        """
        found = self._all((source, start), masked)
        value = self.base.v_fold(source, _bare(start), f, masked)
        return self._scalar(start.width, value, _bits(start.value), *found.values())

    def v_reduce(
        self, source: Group, start: Scalar, neutral: int, f: Callable[..., Any], masked: bool, *, signed: bool = False
    ) -> Shadowed:
        """Combine the active elements and `start` by `f`, in any order.

        The result is undefined if `start` or any of these elements is.
        """
        found = self._all((source, start), masked)
        value = self.base.v_reduce(source, _bare(start), neutral, f, masked, signed=signed)
        return self._scalar(start.width, value, _bits(start.value), *found.values())

    def v_count(self, mask: Mask, masked: bool) -> Shadowed:
        """Return the number of active mask bits that are 1."""
        return self._scalar(64, self.base.v_count(mask, masked), *self._all((mask,), masked).values())

    def v_find(self, mask: Mask, masked: bool) -> Shadowed:
        """Return the index of the first active mask bit that is 1, or -1."""
        return self._scalar(64, self.base.v_find(mask, masked), *self._all((mask,), masked).values())

    def v_first(self, group: Group) -> Shadowed:
        """Return element 0 of a group."""
        return self._shadowed(self.base.v_first(group), ShadowBits(group.width, bits=self.vector_shadow.v_first(group)))

    def v_set_first(self, group: Group, value: Shadowed) -> None:
        """Set element 0 of a group, unless vl is 0."""
        self.base.v_set_first(group, value.value)
        if self.base.words[VL]:
            self.vector_shadow.put(group, {0: _bits(value)})

    def v_compress(self, dest: Group, source: Group, which: Mask) -> None:
        """Copy the elements that the mask `which` selects to adjacent elements of `dest`, from element 0 on."""
        count = self.base.words[VL]
        shadows, unsure = self.vector_shadow.column(source, count), any(self.vector_shadow.column(which, count))
        chosen = self.base._column(which, count)
        found = [bits or unsure for bits, enabled in zip(shadows, chosen, strict=True) if enabled]
        self.base.v_compress(dest, source, which)
        self.vector_shadow.put(dest, {k: int(bits) for k, bits in enumerate(found)})

    def v_copy(self, to: int, n: int, count: int) -> None:
        """Copy `count` whole registers."""
        self.base.v_copy(to, n, count)
        self.vector_shadow.v_copy(to, n, count)

    # ---- memory --------------------------------------------------------------------------------------------------
    def _places(self, walk: Walk, count: int, masked: bool) -> tuple[Walk, list[int], list[int]]:
        """Return a vector access with plain values, the addresses of its elements, and the numbers of the elements.

        Undefined addresses are reported.
        """
        for each in (walk.base, walk.step):
            if isinstance(each, Shadowed):
                self._report("address", each)
        bare = replace(walk, base=_value(walk.base), offsets=_bare(walk.offsets), step=_value(walk.step))
        body = list(self.base._body(masked, count))
        offsets = self.vector_shadow.column(walk.offsets, count)
        if any(offsets[k] for k in body):
            self._report("address", self._scalar(64, 0, 1))
        return bare, self.base._addresses(bare, count), body

    def v_load(
        self, dest: Group, count: Shadowed, walk: Walk, masked: bool, *, fields: int = 1, first_fault: bool = False
    ) -> None:
        """Load elements with their shadow bits into groups."""
        number, size = int(count), dest.width >> 3
        bare, addresses, body = self._places(walk, number, masked)
        self.base.v_load(dest, number, bare, masked, fields=fields, first_fault=first_fault)
        body = [k for k in body if k < max(self.base.words[VL], 1)] if first_fault else body
        for field in range(fields):
            group = replace(dest, n=dest.n + field * dest.registers)
            found = {k: self.shadow.load(dest.width, addresses[k] + field * size) for k in body}
            self.vector_shadow._put(group, found)
            self._note("loaded", dest.width, found, addresses, field * size)

    def v_store(self, source: Group, count: Shadowed, walk: Walk, masked: bool, *, fields: int = 1) -> None:
        """Store elements of groups with their shadow bits."""
        number, size = int(count), source.width >> 3
        bare, addresses, body = self._places(walk, number, masked)
        self.base.v_store(source, number, bare, masked, fields=fields)
        for field in range(fields):
            column = self.vector_shadow.column(replace(source, n=source.n + field * source.registers), number)
            found = {k: column[k] for k in body}
            self._note("stored", source.width, found, addresses, field * size)
            for k, bits in found.items():
                self.shadow.store(source.width, addresses[k] + field * size, bits)

    def _note(self, what: str, w: int, shadows: dict[int, int], addresses: list[int], skip: int) -> None:
        """Record a use of the kind `what` by the first undefined element, if there is one.

        `skip` is added to the element's address.
        """
        k = next((k for k, bits in shadows.items() if bits), None)
        if k is not None:
            self.shadow.report(what, ShadowBits(w, bits=shadows[k]), addresses[k] + skip)
