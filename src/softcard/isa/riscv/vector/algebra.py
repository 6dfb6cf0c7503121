"""The operations interface for vector instructions, in addition to the one for scalar values.

vtype and the fields of the instruction are known when semantics run. Semantics may branch on them, and raise
an error for reserved values. The computation of one element is a function of the algebra and of values.
Semantics pass it to an operation that traverses registers or memory, such as `v_map`. The engine decides
whether to process elements one by one or many at once.

All these operations process the elements from vstart to vl; if `masked` is True, they process only those
elements that v0 enables. Other elements keep their values: agnostic elements are treated as undisturbed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from softcard.isa.riscv.algebra import Float, SystemAlgebra
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.vector.groups import Group, Mask, Place, Scalar, Source, Walk
from softcard.isa.riscv.vector.vtype import VType
from softcard.isa.word import Value


class VectorAlgebra(SystemAlgebra[Value, Float], Protocol):
    """The operations of an engine for vector instructions."""

    def register_bits(self) -> int:
        """Return VLEN, the width of a vector register in bits, an int that is known when semantics run."""

    # the current configuration
    def vector(self, *, resumes: bool = False) -> VType:
        """Begin an instruction that depends on vtype; return vtype.

        Only an instruction with `resumes` may begin with vstart other than 0. `IllegalInstruction` is raised if vectors
        are off, if vtype is illegal, or if vstart is not 0 without `resumes`.
        """

    def vector_untyped(self, *, resumes: bool = False) -> None:
        """Begin an instruction that does not depend on vtype.

        Only an instruction with `resumes` may begin with vstart other than 0.
        """

    def vector_float(self) -> None:
        """Begin a vector float instruction: raise `IllegalInstruction` if floats are off or frm is reserved."""

    def vl(self) -> Value:
        """Return vl, the number of elements to process, as a 64-bit value."""

    def vxrm(self) -> Value:
        """Return vxrm, the fixed-point rounding mode, as an 8-bit value."""

    def configure(self, vtype: Value, length: Value | None) -> Value:
        """Set vtype and vl; return the new vl.

        vl becomes `length` (None: the current vl), limited to the number of elements of a register group.
        """

    # floats
    def frec7(self, fmt: str, a: Float, rm: int) -> Float:
        """Return an estimate of 1 / a with 7 correct bits, as vfrec7 specifies it."""

    def frsqrt7(self, fmt: str, a: Float) -> Float:
        """Return an estimate of 1 / sqrt(a) with 7 correct bits, as vfrsqrt7 specifies it."""

    # elements
    def v_map(
        self,
        dest: Place,
        sources: tuple[Source, ...],
        f: Callable[..., Value],
        masked: bool,
        *,
        saturates: bool = False,
    ) -> None:
        """Set each element k of `dest` to f(o, element k of each source), where o is this algebra.

        If `saturates` is True, f returns two values: the element, and a width-1 value that is 1 if the element was
        saturated (for vxsat)."""

    def v_fold(self, source: Group, start: Scalar, f: Callable[..., Value], masked: bool) -> Value:
        """Compute value = f(o, value, element k) for each k in order; return the last value.

        The first value is `start`, and o is this algebra. For floats, the values are bit patterns."""

    def v_reduce(
        self, source: Group, start: Scalar, neutral: int, f: Callable[..., Value], masked: bool, *, signed: bool = False
    ) -> Value:
        """Combine `start` and all elements of `source` by f(o, value, element), in any order; return the result.

        Elements are extended to the width of `start`, sign-extended if `signed`. f must be associative and commutative;
        `neutral` is its neutral element.
        """

    def v_count(self, mask: Mask, masked: bool) -> Value:
        """Return the number of active bits of `mask` that are 1, as a 64-bit value."""

    def v_find(self, mask: Mask, masked: bool) -> Value:
        """Return the index of the first active bit of `mask` that is 1, as a 64-bit value; -1 if all are 0."""

    def v_first(self, group: Group) -> Value:
        """Return element 0 of `group`, regardless of vl."""

    def v_set_first(self, group: Group, value: Value) -> None:
        """Set element 0 of `group` to `value`, unless vl is 0."""

    def v_compress(self, dest: Group, source: Group, which: Mask) -> None:
        """Store to `dest`, without gaps, those elements of `source` that the mask `which` enables."""

    def v_copy(self, to: int, n: int, count: int) -> None:
        """Copy `count` whole registers, from number `n` on, to the registers from number `to` on."""

    # memory
    def v_load(
        self,
        dest: Group,
        count: Value,
        walk: Walk,
        masked: bool,
        *,
        fields: int = 1,
        first_fault: bool = False,
    ) -> None:
        """Load the first `count` elements of each of `fields` register groups, from the addresses of `walk`.

        `dest` is the first group, and `count` a 64-bit value. The fields of an element are adjacent in memory. An
        access that faults sets vstart to its element. With `first_fault`, a fault after element 0 does not trap,
        but reduces vl to the number of the faulting element."""

    def v_store(self, source: Group, count: Value, walk: Walk, masked: bool, *, fields: int = 1) -> None:
        """Store the first `count` elements of each of `fields` register groups to the addresses of `walk`.

        `source` is the first group, and `count` a 64-bit value. The fields of an element are adjacent in memory."""


VectorOps = VectorAlgebra
VectorSemantics = Callable[[VectorOps, Insn], None]
