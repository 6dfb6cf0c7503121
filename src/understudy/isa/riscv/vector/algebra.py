"""What a vector instruction asks of an engine beside the operations on single values.

vtype is known where a meaning runs, as the fields of the instruction are: a meaning may branch on it, and refuses what
is reserved. What happens to an element is a function of the algebra and of values, as for the other instructions, and
is handed to one of a few ways to go through registers or memory; whether these go element by element or by many at
once is the engine's business. All of them work on elements from vstart to vl, where `masked` on those that v0 enables;
other elements keep their values: agnostic is undisturbed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from understudy.isa.riscv.algebra import Float, SystemAlgebra
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.vector.groups import Group, Mask, Place, Scalar, Source, Walk
from understudy.isa.riscv.vector.vtype import VType
from understudy.isa.word import Value


class VectorAlgebra(SystemAlgebra[Value, Float], Protocol):
    """Lanes."""

    def register_bits(self) -> int:
        """VLEN, which is known where a meaning runs."""

    # what is in force
    def vector(self, *, resumes: bool = False) -> VType:
        """Begin an instruction that depends on vtype; only one that `resumes` may begin at an element other than 0.

        `IllegalInstruction` where vectors are off, vtype is illegal, or vstart is not 0 and should be.
        """

    def vector_untyped(self, *, resumes: bool = False) -> None:
        """The same for one that does not depend on vtype."""

    def vector_float(self) -> None:
        """It is about floats: `IllegalInstruction` where they are off or frm is reserved."""

    def vl(self) -> Value:
        """Elements in the body, 64 bits."""

    def vxrm(self) -> Value:
        """The fixed-point rounding mode, 8 bits."""

    def configure(self, vtype: Value, length: Value | None) -> Value:
        """Set vtype, and vl to at most `length` (None: to what it is) and the elements of a group; gives vl."""

    # floats
    def frec7(self, fmt: str, a: Float, rm: int) -> Float:
        """An estimate of 1 / a, 7 bits of it right."""

    def frsqrt7(self, fmt: str, a: Float) -> Float:
        """An estimate of 1 / sqrt(a), 7 bits of it right."""

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
        """dest[k] = f(o, elements k of the sources); where it `saturates`, f gives (value, width-1 value for vxsat)."""

    def v_fold(self, source: Group, start: Scalar, f: Callable[..., Value], masked: bool) -> Value:
        """start = f(o, start, element k), one element after the other; gives the last one, the bits of a float."""

    def v_reduce(
        self, source: Group, start: Scalar, neutral: int, f: Callable[..., Value], masked: bool, *, signed: bool = False
    ) -> Value:
        """start = f(o, start, element k), extended to the width of `start`, in any order.

        So f is associative and commutative; `neutral` changes nothing.
        """

    def v_count(self, mask: Mask, masked: bool) -> Value:
        """How many bits are 1, 64 bits."""

    def v_find(self, mask: Mask, masked: bool) -> Value:
        """The number of the first bit that is 1, 64 bits; -1 where there is none."""

    def v_first(self, group: Group) -> Value:
        """Element 0, whatever vl is."""

    def v_set_first(self, group: Group, value: Value) -> None:
        """Set element 0, unless vl is 0."""

    def v_compress(self, dest: Group, source: Group, which: Mask) -> None:
        """The elements that the mask `which` enables, one behind the other."""

    def v_copy(self, to: int, n: int, count: int) -> None:
        """`count` whole registers from number `n`."""

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
        """Elements before number `count` (64 bits) of `fields` groups, whose elements lie one behind the other.

        An access that faults leaves vstart at its element; behind element 0 with `first_fault` it ends the body there.
        """

    def v_store(self, source: Group, count: Value, walk: Walk, masked: bool, *, fields: int = 1) -> None:
        """The same to memory."""


VectorOps = VectorAlgebra
VectorMeaning = Callable[[VectorOps, Insn], None]
