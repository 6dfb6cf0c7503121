"""Emitters of LLVM IR for matrix instructions, with whole matrices in registers and vectors along columns.

Each emitted function computes the result that `isa.gcn.semantics.matrix.rules` defines. A kernel first widens
A and B to binary32, in rows of 64 lanes, and then iterates over the rows of D. For CDNA3 the fast formulation
has a limited range of exponents. For values outside this range, the kernel calls the reference code of the
rules, either for one element (`rules.repair`) or for the whole matrix (`rules.multiply`)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from softcard.core.errors import ModelBug
from softcard.engine.gcn.matrix.floats import VectorText, total
from softcard.engine.gcn.matrix.library import Kernel, symbol_of
from softcard.ir import llvm
from softcard.ir.builder import Text, vector_width
from softcard.ir.native import Function, numbers
from softcard.ir.operand import Operand
from softcard.isa.gcn.semantics.matrix import rules
from softcard.isa.gcn.semantics.matrix.table import LANES, Rule, Type, a_place, b_place

ROW: Final = 4 * LANES
"""The size of a vector register in bytes."""
ROUNDING: Final = 0x1F80
"""The MXCSR value that rounds to nearest even and keeps denormals."""
FLUSHING: Final = 0x9FC0
"""The MXCSR value that rounds to nearest even and flushes denormal operands and results to zero."""
BIAS: Final = 127
WINDOW: Final = 60
"""The number of exponents below the largest possible product exponent that the fast formulation covers."""
OF_ZERO: Final = -128
"""The exponent byte of a zero element; saturating sums with it lie below the window of exponents."""
MOST_OF_ZERO: Final = 50
"""The largest exponent of scales with which products that are zero do not affect the sum.

A product of zero and 2**15 counts as 2**-111, which then stays below the window of exponents.
"""
SCALE_OF_NAN: Final = 1 << 16
"""The exponent that stands for a scale that is NaN; sums with it are beyond the window of exponents."""
UNLIKELY: Final = ", !prof !90"


def call_rule(text: Text, function: Function[Any], *arguments: Operand | int) -> Operand:
    """Write a call of a native function of `rules`, which `library` compiles once for all kernels; return its result.

    The function is a symbol that the module does not define: compiled with each kernel, it would take most of the time
    that compiling a kernel takes."""
    return text.call("i64", symbol_of(function), *(f"i64 {each}" for each in arguments))


class Writer(VectorText):
    """The emitter of one kernel, the function ``name(a, b, c, d, shape)``.

    The parameters are the host addresses of the registers of A, B, C and D, and of a `rules.Shape`.
    """

    def __init__(self, kernel: Kernel, lanes: int) -> None:
        super().__init__(lanes)
        self.kernel = kernel
        self.matrix = kernel.matrix
        self.a, self.b, self.c, self.d, self.shape = (self.word(f"%{name}") for name in "abcds")
        self.columns = min(lanes, self.matrix.n) if self.matrix.n > 4 else lanes
        self._places = 0

    # ---- the function --------------------------------------------------------------------------------------------
    def definition(self) -> dict[str, str]:
        """Return the LLVM IR of the function and of its declarations, by symbol name."""
        rule = self.matrix.rule
        self._is_float = rule != Rule.INTEGER
        body = {
            Rule.CHAIN: self._double if self.matrix.d == Type.F64 else self._chain,
            Rule.INTEGER: self._integer,
            Rule.PAIRWISE: self._pairwise,
            Rule.PAIRWISE_FLUSH: self._pairwise,
            Rule.FUSED: self._fused,
            Rule.FUSED_SPLIT: self._fused,
        }[rule]
        with self._environment(FLUSHING if rule == Rule.PAIRWISE_FLUSH else ROUNDING):
            self.raw_a, self.raw_b = self._copied()
            if self.matrix.is_sparse:
                self.chosen = self._selections()
            body()
        self.ret(0)
        name = self.kernel.name
        head = f"define i64 @{name}(i64 %a, i64 %b, i64 %c, i64 %d, i64 %s) #0 {{"
        self.declarations["attributes"] = f"attributes #0 = {{ nounwind {vector_width(self.lanes)} }}"
        self.declarations["!90"] = '!90 = !{!"branch_weights", i32 1, i32 1000}'
        lines = [head, "entry:", *(f"  {line.strip()}" for line in self.allocas), *self.lines, *self.tail, "}", ""]
        return {**self.declarations, name: "\n".join(lines)}

    def _array(self, size: int) -> Operand:
        """Allocate `size` bytes on the stack; return their address."""
        self._places += 1
        slot = self.slot(f"%memory{self._places}", f"[{size} x i8]", ", align 64")
        return slot.ptrtoint()

    def _call(self, function: Function[Any], *arguments: Operand | int) -> Operand:
        return call_rule(self, function, *arguments)

    @contextmanager
    def _environment(self, control: int) -> Iterator[None]:
        """Set the host's MXCSR to `control` in the code that is emitted in the context, and restore it after that
        code."""
        if not (llvm.is_x86() and self._is_float):
            yield
            return
        kept, wanted = self.slot("%kept", "i32"), self.slot("%wanted", "i32")
        self.call_void("llvm.x86.sse.stmxcsr", kept.typed)
        wanted.store(control, type="i32")
        self.call_void("llvm.x86.sse.ldmxcsr", wanted.typed)
        yield
        self.call_void("llvm.x86.sse.ldmxcsr", kept.typed)

    # ---- operands ------------------------------------------------------------------------------------------------
    def _copied(self) -> tuple[Operand, Operand]:
        """Emit a copy of A and B, since D may overlap them; return the addresses of both copies.

        Kernels that read A and B only before they write D need no copy of operands that are not rearranged."""
        if self.matrix.rule in (Rule.INTEGER, Rule.PAIRWISE, Rule.PAIRWISE_FLUSH) and not self.kernel.is_arranged:
            return self.a, self.b
        sides = (self.matrix.a_run, self.kernel.a), (self.matrix.b_run, self.kernel.b)
        sizes = [-(-run * type_.bits // 32) for run, type_ in sides]
        made = self._array(ROW * sizes[0]), self._array(ROW * sizes[1])
        if self.kernel.is_arranged:
            self._call(rules.arranged, self.shape, self.a, self.b, *made)
            return made
        for source, to, size in zip((self.a, self.b), made, sizes, strict=True):
            for at in range(0, ROW * size, 4 * self.lanes):
                (to + at).inttoptr().store((source + at).inttoptr().load(self.ints, align=4), align=4)
        return made

    def _vectors_of_rows(self) -> AbstractContextManager[Operand]:
        """Emit a loop over the vectors of a register.

        The context manager's value is the byte offset of the vector in the register."""
        return self.loop(ROW, 4 * self.lanes)

    def _elements(self, registers: Operand, type_: Type, run: int, at: Operand) -> Iterator[tuple[int, Operand]]:
        """Yield the elements of A or B that begin at byte offset `at` of registers: the element number, and their bits.

        The bits of each element are in the low bits of a 32-bit vector lane; higher bits are not cleared. `run` is
        the number of elements of each lane."""
        bits = type_.bits
        words = list[Operand]()
        for number in range(run):
            register, shift = divmod(number * bits, 32)
            for following in range(len(words), (number * bits + bits + 31) // 32):
                words.append((registers + ROW * following + at).inttoptr().load(self.ints, align=4))
            found = words[register] >> shift if shift else words[register]
            if shift + bits > 32:
                found = found | words[register + 1] << 32 - shift
            yield number, found

    def _widened(self, registers: Operand, type_: Type, run: int) -> Operand:
        """Emit the widening of A or B to binary32 in memory; return the address of that memory.

        The memory has a row of 64 floats for each of the `run` element numbers."""
        to = self._array(ROW * run)
        with self._vectors_of_rows() as at:
            for number, bits in self._elements(registers, type_, run, at):
                (to + ROW * number + at).inttoptr().store(self._real(bits, type_), align=4)
        return to

    def _real(self, bits: Operand, type_: Type) -> Operand:
        """Return elements of type `type_`, in the low bits of lanes, converted to binary32."""
        match type_:
            case Type.F16:
                half = bits.trunc(f"<{self.lanes} x i16>").bitcast(f"<{self.lanes} x half>")
                return half.cast("fpext", self.floats)
            case Type.BF16:
                return self.real(bits << 16)
            case Type.XF32:
                value, cut = self.real(bits), self.real(bits & ~0x1FFF)
                return value.is_unordered(value).select(value, cut)
            case Type.FP8:
                return self._small(bits, 8, 3, 8)
            case Type.BF8:
                return self._small(bits, 8, 2, 16)
            case Type.OCP_FP8:
                return self._small(bits, 8, 3, 7)
            case Type.OCP_BF8:
                return self._small(bits, 8, 2, 15)
            case Type.FP6:
                return self._small(bits, 6, 3, 1)
            case Type.BF6:
                return self._small(bits, 6, 2, 3)
            case Type.FP4:
                return self._small(bits, 4, 1, 1)
            case Type.I8:
                return (bits << 24).ashr(24).cast("sitofp", self.floats)
        return self.real(bits)

    def _small(self, bits: Operand, width: int, fraction: int, bias: int) -> Operand:
        """Return finite numbers of a float format of `width` bits (at most 8) converted to binary32.

        `fraction` is the number of fraction bits of the format, `bias` its exponent bias.
        """
        sign = 1 << width - 1
        code = bits & sign - 1
        value = self.real((code << 23 - fraction) + (BIAS - bias << 23))
        # A denormal, read as a normal number, is 2**-bias * (1 + its fraction).
        least = self.pattern(1 << 31 | BIAS + 1 - bias << 23)
        value = (code < (1 << fraction)).select(self.fma(value, self.pattern(BIAS + 1 << 23), least), value)
        return self.real(self.bits(value) | (bits & sign) << 32 - width)

    def _nan_of(self, bits: Operand, type_: Type) -> Operand | None:
        """Return, for elements of an 8-bit float type, flags that are true for elements that are NaN or infinite.

        Return None for types whose NaNs and infinities are still recognisable after the conversion to binary32."""
        code = bits & 0xFF
        match type_:
            case Type.FP8 | Type.BF8:
                return code.eq(0x80)
            case Type.OCP_FP8:
                return (code & 0x7F).eq(0x7F)
            case Type.OCP_BF8:
                return (code & 0x7C).eq(0x7C)
        return None

    def _a_offset(self, block: int, k: int) -> int:
        """Return the byte offset of A[0][k] of a block in the memory that `_widened` fills."""
        lane, number = a_place(self.matrix, block, 0, k, self.kernel.a)
        return ROW * number + 4 * lane

    def _b_offset(self, block: int, k: int) -> int:
        """Return the byte offset of B[k][0] of a block in the memory that `_widened` fills."""
        lane, number = b_place(self.matrix, block, k, 0, self.kernel.b)
        return ROW * number + 4 * lane

    def _field_of_shape(self, name: str) -> Operand:
        """Return the value of a field of the instruction's `rules.Shape`."""
        return (self.shape + 8 * numbers(rules.Shape)[name]).inttoptr().load("i64")

    # ---- rows of D -----------------------------------------------------------------------------------------------
    @contextmanager
    def _columns_of(self, block: int) -> Iterator[Operand]:
        """Emit a loop over vectors of columns.

        The context manager's value is the byte offset of the first column of the vector."""
        count = self.matrix.n if self.matrix.n > 4 else LANES
        with self.loop(4 * count, 4 * self.columns) as column:
            yield column

    def _blocks(self) -> range:
        """Return the blocks over which the emitted code iterates.

        If each block has 4 columns, all 16 blocks are computed together in one vector, so the range has one number.
        """
        return range(self.matrix.blocks if self.matrix.n > 4 else 1)

    def _vector(self, table: Operand, block: int, k: int, column: Operand) -> Operand:
        """Return the vector of row k of B from byte offset `column` on, or of a table with the layout of B."""
        return (table + self._b_offset(block, k) + column).inttoptr().load(self.floats, align=4)

    @contextmanager
    def _quads_of(self, block: int, column: Operand) -> Iterator[tuple[Operand, Operand]]:
        """Emit a loop over groups of four rows of a block of D.

        The context manager's value has the number of the group, and the byte offset in D of the vector of its first
        row that begins at `column`."""
        matrix = self.matrix
        with self.loop(matrix.m // 4) as quad:
            place = ((quad >> 1) * (4 * ROW)) + ((quad & 1) << 7) if matrix.n == 32 else quad << 6
            registers = {32: 16, 16: 4, 4: 4}[matrix.n]
            yield quad, place + ROW * registers * block + column

    @contextmanager
    def _rows_of(self, block: int, column: Operand) -> Iterator[list[tuple[Operand, Operand]]]:
        """Emit a loop over groups of four rows of a block of D.

        The context manager's value has, for each of the four rows, the number of the row, and the byte offset in D of
        the vector of this row that begins at `column`."""
        with self._quads_of(block, column) as (quad, place):
            yield [((quad << 2) + row, place + ROW * row) for row in range(4)]

    def _scalar(self, table: Operand, block: int, k: int, i: Operand, column: Operand) -> Operand:
        """Return A[i][k], or an element of a table with the layout of A, in every lane of a vector of columns."""
        place = table + self._a_offset(block, k)
        if self.matrix.n > 4:
            return self.spread((place + (i << 2)).inttoptr().load("float", align=4))
        each = []
        for quad in range(self.lanes // 4):
            one = (place + (i << 2) + column + 16 * quad).inttoptr().load("float", align=4)
            each.append(self.spread(one, 4))
        while len(each) > 1:
            width = 2 * int(each[0].type[1 : each[0].type.index(" ")])
            order = ", ".join(f"i32 {lane}" for lane in range(width))
            each = [
                self.shuffle(x, f"<{width} x i32> <{order}>", y) for x, y in zip(each[::2], each[1::2], strict=True)
            ]
        return each[0]

    # ---- sparse matrices -----------------------------------------------------------------------------------------
    def _selections(self) -> Operand:
        """Emit the byte offsets of selected rows of B from the first of four; return the address of their table.

        The table has the layout of the widened A: a dword for each of its elements."""
        run = self.matrix.a_run
        index, cbsz, abid = (self._field_of_shape(name) for name in ("index", "cbsz", "abid"))
        first = cbsz.eq(0).select(abid * (2 * run), 0)
        # A shift by 32 or more has no defined result; a set of indices beyond the 32 bits of a lane is 0.
        present = self.spread((first < 32).sext("i32"))
        shift = self.spread((first & 31).trunc("i32"))
        table = self._array(ROW * run)
        with self._vectors_of_rows() as at:
            word = (index + at).inttoptr().load(self.ints, align=4) & present
            word = word >> shift
            for number in range(run):
                offset = (word >> 2 * number & 3) * ROW
                (table + ROW * number + at).inttoptr().store(offset, align=4)
        return table

    def _held_rows(self, table: Operand, block: int, depth: range, column: Operand) -> list[Operand]:
        """Return the rows `depth` of B, or of a table with the layout of B; an empty list if A is sparse.

        The rows do not depend on the row of D, so that registers can hold them."""
        return [] if self.matrix.is_sparse else [self._vector(table, block, k, column) for k in depth]

    def _rows_for(
        self, held: list[Operand], table: Operand, depth: range, i: Operand, column: Operand
    ) -> list[Operand]:
        """Return the rows of B, or of a table with its layout, that elements `depth` of row `i` of A are multiplied by.

        `held` are the results of `_held_rows`."""
        if not self.matrix.is_sparse:
            return held
        rows = []
        for k in depth:
            selected = (self.chosen + self._a_offset(0, k) + (i << 2)).inttoptr().load("i32", align=4).zext("i64")
            place = table + self._b_offset(0, 4 * (k >> 1)) + column + selected
            rows.append(place.inttoptr().load(self.floats, align=4))
        return rows

    # ---- sums in order -------------------------------------------------------------------------------------------
    def _chain(self) -> None:
        a, b = self.raw_a, self.raw_b
        depth = range(self.matrix.k)
        for block in self._blocks():
            with self._columns_of(block) as column:
                rows = [self._vector(b, block, k, column) for k in depth]
                with self._rows_of(block, column) as four:
                    for i, place in four:
                        value = (self.c + place).inttoptr().load(self.floats, align=4)
                        for k in depth:
                            value = self.fma(self._scalar(a, block, k, i, column), rows[k], value)
                        (self.d + place).inttoptr().store(self.canonical(value), align=4)

    def _integer(self) -> None:
        matrix = self.matrix
        a = self._widened(self.raw_a, Type.I8, matrix.a_run)
        b = self._widened(self.raw_b, Type.I8, matrix.b_run)
        for block in self._blocks():
            for first in range(0, matrix.kept, 16):
                depth = range(first, min(first + 16, matrix.kept))
                source = self.c if first == 0 else self.d
                with self._columns_of(block) as column:
                    held = self._held_rows(b, block, depth, column)
                    with self._rows_of(block, column) as four:
                        for i, place in four:
                            old = (source + place).inttoptr().load(self.ints, align=4)
                            rows = self._rows_for(held, b, depth, i, column)
                            # At most 16 products of 14 bits: exact in binary32.
                            value = self._scalar(a, block, first, i, column).fmul(rows[0])
                            for k, row in zip(depth[1:], rows[1:], strict=True):
                                value = self.fma(self._scalar(a, block, k, i, column), row, value)
                            made = old + value.cast("fptosi", self.ints)
                            (self.d + place).inttoptr().store(made, align=4)

    def _flushed(self, value: Operand) -> Operand:
        """Return floats with denormals flushed to zero, if the rule requires it and the MXCSR does not."""
        if self.matrix.rule != Rule.PAIRWISE_FLUSH or llvm.is_x86():
            return value
        bits = self.bits(value)
        return self.real((bits & 0x7F80_0000).eq(0).select(bits & rules.SIGN, bits))

    def _pairwise(self) -> None:
        """Emit sums of rounded products.

        Products of binary16 numbers are exact in binary32. Products of BF16 numbers are exact, too, unless they are
        denormal or overflow. A slower copy of the code is for matrices with such products."""
        matrix = self.matrix
        a, *range_a = self._widened_and_flushed(self.raw_a, matrix.a, matrix.a_run)
        b, *range_b = self._widened_and_flushed(self.raw_b, matrix.b, matrix.b_run)
        if matrix.a == Type.F16:
            self._rounded_rows(a, b, is_exact=True)
            return
        rounds, fast, end = self.fresh("rounds"), self.fresh("fast"), self.fresh("end")
        least, most = (x + y for x, y in zip(range_a, range_b, strict=True))
        self.branch((least < BIAS + 1) | (most > 3 * BIAS - 1), rounds, fast, UNLIKELY)
        for label, is_exact in ((fast, True), (rounds, False)):
            self.start(label)
            self._rounded_rows(a, b, is_exact)
            self.jump(end)
        self.start(end)

    def _rounded_rows(self, a: Operand, b: Operand, is_exact: bool) -> None:
        """Emit all rows of D as sums of rounded products; `is_exact` states that each product is exact.

        Comparisons occupy the host's units for multiplications, so one comparison finds the NaNs of two rows. They
        are made canonical at the end if there are any."""
        matrix = self.matrix
        group, is_flushing = matrix.group, matrix.rule == Rule.PAIRWISE_FLUSH
        flags = f"<{self.lanes} x i1>"
        found = self.slot(f"%found{self.fresh('')}", flags)
        found.store(0, type=flags)
        for block in self._blocks():
            with self._columns_of(block) as column:
                rows = [self._vector(b, block, k, column) for k in range(matrix.k)]
                with self._rows_of(block, column) as four:
                    values = []
                    for i, place in four:
                        value = (self.c + place).inttoptr().load(self.floats, align=4)
                        if is_flushing and not llvm.is_x86():
                            value = self._without_denormals(value, rules.HIDDEN)
                        for first in range(0, matrix.k, group):
                            factors = [
                                (self._scalar(a, block, k, i, column), rows[k]) for k in range(first, first + group)
                            ]
                            part = self._sum_of_products(factors, is_exact)
                            if is_flushing and first == 0 and matrix.a != Type.F16:
                                # The MXCSR flushes a denormal C to a zero of its sign. The rule flushes it to +0, which
                                # makes a difference only if -0 is added.
                                part = part.fadd(self.pattern(0))
                            value = self._flushed(value.fadd(part))
                        (self.d + place).inttoptr().store(value, align=4)
                        values.append(value)
                    for x, y in zip(values[::2], values[1::2], strict=True):
                        found.store(found.load(flags) | x.is_unordered(y))
        mends, good = self.fresh("mends"), self.fresh("good")
        self.branch(found.load(flags).bitcast(f"i{self.lanes}").ne(0), mends, good, UNLIKELY)
        with self.apart(mends):
            with self.loop(ROW * matrix.d_registers, 4 * self.lanes) as at:
                target = (self.d + at).inttoptr()
                target.store(self.canonical(target.load(self.floats, align=4)), align=4)
            self.jump(good)
        self.start(good)

    def _sum_of_products(self, factors: list[tuple[Operand, Operand]], is_exact: bool) -> Operand:
        """Return the pairwise sum of 2 or 4 rounded products; a product of -0 counts as +0.

        If products are exact, a fused multiply-add rounds the sum of two of them as the rule does. No sum of products
        of binary16 numbers is denormal, and so none is flushed. Since the first product is added to +0, the whole sum
        is never -0, even if other products are."""
        zero = self.pattern(0)
        if not is_exact:
            products = [self._flushed(self.fma(one, row, zero)) for one, row in factors]
            return total(products, lambda x, y: self._flushed(x.fadd(y)))
        if self.matrix.a == Type.F16:
            (first, row), *others = factors
            parts = [self.fma(first, row, zero), *(one.fmul(row) for one, row in others[1::2])]
            pairs = [self.fma(one, row, part) for (one, row), part in zip(others[::2], parts, strict=True)]
            return total(pairs, lambda x, y: x.fadd(y))
        parts = [self.fma(one, row, zero) for one, row in factors[::2]]
        pairs = [self._flushed(self.fma(*pair, part)) for pair, part in zip(factors[1::2], parts, strict=True)]
        return total(pairs, lambda x, y: self._flushed(x.fadd(y)))

    def _widened_and_flushed(self, registers: Operand, type_: Type, run: int) -> tuple[Operand, Operand, Operand]:
        """Emit the widening of A or B to binary32 in memory; return the address of that memory, and two exponents.

        These are bounds of the exponent fields of all elements that are not zero: the first one is at most the least of
        them, the second one is the largest."""
        to = self._array(ROW * run)
        bounds = [self.slot(f"%{name}{self.fresh('')}", self.ints) for name in ("least", "most")]
        for bound, start in zip(bounds, (-1, 0), strict=True):
            bound.store(self.constant(self.ints, start))
        with self._vectors_of_rows() as at:
            least, most = (bound.load(self.ints) for bound in bounds)
            for number, bits in self._elements(registers, type_, run, at):
                value = self._real(bits, type_)
                if self.matrix.rule == Rule.PAIRWISE_FLUSH:
                    value = self._without_denormals(value, rules.lowest_field(type_) << 23)
                (to + ROW * number + at).inttoptr().store(value, align=4)
                if type_ != Type.F16:
                    magnitude = self.bits(value) & rules.MAGNITUDE
                    least = self.intrinsic("umin", least, magnitude - 1)  # 0 becomes the largest number
                    most = self.larger_word(most, magnitude)
            for bound, found in zip(bounds, (least, most), strict=True):
                bound.store(found)
        lowest, highest = (
            self.call("i32", f"llvm.vector.reduce.{name}.v{self.lanes}i32", bound.load(self.ints).typed) >> 23
            for name, bound in zip(("umin", "umax"), bounds, strict=True)
        )
        return to, lowest, highest

    def _without_denormals(self, value: Operand, least: int) -> Operand:
        """Return floats with +0 in place of those whose magnitude, as bits, is below `least`."""
        bits = self.bits(value)
        return self.real(((bits & rules.MAGNITUDE) < self.constant(bits.type, least)).select(0, bits))

    def _double(self) -> None:
        matrix = self.matrix
        half = self.lanes // 2
        halves = [", ".join(f"i32 {at}" for at in range(half)), ", ".join(f"i32 {at}" for at in range(half, 2 * half))]
        whole = ", ".join(f"i32 {at}" for at in range(self.lanes))
        kind = f"<{half} x double>"

        def joined(low: Operand, high: Operand) -> list[Operand]:
            """Return two vectors of doubles made from the low and high dwords in two registers' lanes."""
            made = []
            for order in halves:
                mask = f"<{half} x i32> <{order}>"
                words = [self.shuffle(each, mask).zext(f"<{half} x i64>") for each in (low, high)]
                made.append((words[0] | words[1] << 32).bitcast(kind))
            return made

        tables = []
        for registers in (self.raw_a, self.raw_b):
            to = self._array(8 * LANES)
            for at in range(0, LANES, self.lanes):
                place = registers + 4 * at
                words = [(place + high).inttoptr().load(self.ints, align=4) for high in (0, ROW)]
                for part, value in enumerate(joined(words[0], words[1])):
                    (to + 8 * (at + part * half)).inttoptr().store(value, align=8)
            tables.append(to)
        a, b = tables
        for first in range(0, LANES, self.lanes):
            with self.loop(matrix.d_registers // 2) as pair:
                place = (pair << 9) + 4 * first
                words = [(self.c + place + high).inttoptr().load(self.ints, align=4) for high in (0, ROW)]
                if self.kernel.is_arranged:
                    words[1] = words[1] ^ self._sign_of_c()
                values = joined(words[0], words[1])
                for part in range(2):
                    lanes = range(first + part * half, first + (part + 1) * half)
                    for k in range(matrix.k):
                        left, right = self._double_operands(a, b, pair, lanes, k)
                        values[part] = self.fma(left, right, values[part])
                bits = [self.canonical(value) for value in values]
                for high in (0, 1):
                    parts = [(each >> 32 if high else each).trunc(f"<{half} x i32>") for each in bits]
                    made = self.shuffle(parts[0], f"<{self.lanes} x i32> <{whole}>", parts[1])
                    (self.d + place + ROW * high).inttoptr().store(made, align=4)

    def _sign_of_c(self) -> Operand:
        """Return, in every lane, the word that is XORed to the high dwords of C: the sign bit if C is negated, else
        0."""
        blgp = self._field_of_shape("blgp")
        return self.spread(((blgp >> 2) << 31).trunc("i32"))

    def _double_operands(self, a: Operand, b: Operand, pair: Operand, lanes: range, k: int) -> tuple[Operand, Operand]:
        """Return the vectors of A[i][k] and B[k][j] for the elements D[i][j] in the adjacent lanes `lanes`."""
        count = len(lanes)
        if self.matrix.n == 16:
            row = a + 8 * (16 * k + lanes[0] // 16) + (pair << 5)
            left = self.spread(row.inttoptr().load("double", align=8), count)
            place = b + 8 * (16 * k + lanes[0] % 16)
            return left, place.inttoptr().load(f"<{count} x double>", align=8)
        values = []
        for quad in range(lanes[0] // 4, lanes[0] // 4 + count // 4):
            row = a + 8 * (16 * k + 4 * (quad % 4) + quad // 4)
            values.append(self.spread(row.inttoptr().load("double", align=8), 4))
        left = values[0]
        if len(values) > 1:
            order = ", ".join(f"i32 {at}" for at in range(count))
            left = self.shuffle(values[0], f"<{count} x i32> <{order}>", values[1])
        place = b + 8 * (16 * k + lanes[0] % 16)
        return left, place.inttoptr().load(f"<{count} x double>", align=8)

    # ---- fused sums ----------------------------------------------------------------------------------------------
    def _fused(self) -> None:
        """Emit the exact fused sums of CDNA3 with binary32 and 32-bit integer operations.

        The exponent of a product is the sum of its factors' exponents. The largest exponent, E, is determined for
        four rows at a time, with one byte for each row. A product is exact in binary32. It is scaled by 2**(24 - E)
        and converted to an integer, which truncates it as the rule requires."""
        matrix, kernel = self.matrix, self.kernel
        self.is_wide = kernel.a in (Type.BF16, Type.XF32)
        whole, fast, end = self.fresh("whole"), self.fresh("fast"), self.fresh("end")
        a, exponents_a, top_a, special_a = self._factors(self.raw_a, kernel.a, matrix.a_run, is_b=False)
        b, exponents_b, top_b, special_b = self._factors(self.raw_b, kernel.b, matrix.b_run, is_b=True)
        special = special_a | special_b
        if self.is_wide:
            special = special | self._window(top_a >> 23, top_b >> 23)
        self.branch(special, whole, fast, UNLIKELY)
        self.start(fast)
        if self.is_wide:
            self._divide(a, exponents_a, top_a >> 23, matrix.a_run, is_b=False)
            self._divide(b, exponents_b, top_b >> 23, matrix.b_run, is_b=True)
        self.declare_constants()
        self.scratch = self._array(2 * 4 * self.lanes + 8 * 32)
        chosen = self.chosen if matrix.is_sparse else None
        for block in self._blocks():
            with self.loop(matrix.kept, matrix.group) as first:
                from_a = self._offset_of(first, matrix.a_part(kernel.a), matrix.m)
                from_b = self._offset_of(first << 1 if chosen else first, matrix.b_part(kernel.b), matrix.n)
                if chosen is not None:
                    self.chosen = chosen + from_a
                sides = a + from_a, exponents_a + (from_a >> 2), b + from_b, exponents_b + from_b
                source = first.eq(0).select(self.c, self.d)
                with self._columns_of(block) as column:
                    self._group(block, first, column, sides, source)
        self.jump(end)
        with self.apart(whole):
            scratch = self._array(rules.SCRATCH)
            self._call(rules.multiply, self._arranged_shape(), self.raw_a, self.raw_b, self.c, self.d, scratch)
            self.jump(end)
        self.start(end)

    def _offset_of(self, first: Operand, part: int, side: int) -> Operand:
        """Return the byte offset of element k = `first` from element k = 0, in the memory that `_factors` fills.

        `first` is a multiple of the size of a group. `part` is the number of consecutive k in one lane, and `side` the
        number of rows or columns."""
        chunks = LANES // (side * self.matrix.blocks)
        number, lane = (first // part) // chunks, ((first // part) % chunks) * (side * self.matrix.blocks)
        return (number * part + first % part) * ROW + (lane << 2)

    def _arranged_shape(self) -> Operand:
        """Return the address of the shape that fits the copies of A and B, which are rearranged already.

        Operands of sparse instructions and of instructions with scales are not rearranged."""
        if self.matrix.is_sparse or self.matrix.is_scaled:
            return self.shape
        return self.shape + ctypes.sizeof(rules.Shape)

    def _factors(
        self, registers: Operand, type_: Type, run: int, is_b: bool
    ) -> tuple[Operand, Operand, Operand, Operand]:
        """Emit the widening of A or B to binary32 and the extraction of its elements' exponents.

        Return the address of the widened elements, the address of the exponents, the largest magnitude, and a flag
        that is true if an element is NaN or infinite. The exponents of wide types (BF16, XF32) are written by
        `_divide`."""
        values, exponents = self._array(ROW * run), self._array(ROW * run if is_b else LANES * run)
        # The largest magnitude of each lane. For types with separate codes for NaN, all bits are set if a lane had one.
        nan: Operand | None = None
        most = self.slot(f"%most{self.fresh('')}", self.ints)
        most.store(0, type=self.ints)
        with self._vectors_of_rows() as at:
            largest = most.load(self.ints)
            for number, bits in self._elements(registers, type_, run, at):
                nan = self._nan_of(bits, type_)
                value = self._real(bits, type_)
                (values + ROW * number + at).inttoptr().store(value, align=4)
                magnitude = self.bits(value) & rules.MAGNITUDE
                largest = self.larger_word(largest, magnitude) if nan is None else largest | nan.sext(self.ints)
                if not self.is_wide:
                    lowest = rules.lowest_field(type_)
                    field = self.larger_word(magnitude >> 23, self.constant(self.ints, lowest)) - BIAS
                    self._store_exponents(exponents, number, at, magnitude.eq(0).select(OF_ZERO, field), is_b)
            most.store(largest)
        top = self.call("i32", f"llvm.vector.reduce.umax.v{self.lanes}i32", most.load(self.ints).typed)
        return values, exponents, top, top >= rules.INFINITY if nan is None else top.ne(0)

    def _store_exponents(self, to: Operand, number: int, at: Operand, exponents: Operand, is_b: bool) -> None:
        """Emit a store of exponents as bytes: one byte per element of A, four copies per element of B.

        `at` is the byte offset of the elements' vector in a register."""
        if not is_b:
            low = exponents.trunc(f"<{self.lanes} x i8>")
            (to + LANES * number + (at >> 2)).inttoptr().store(low, align=4)
            return
        byte = exponents & 0xFF
        pair = byte | byte << 8
        (to + ROW * number + at).inttoptr().store(pair | pair << 16, align=4)

    def _window(self, top_a: Operand, top_b: Operand) -> Operand:
        """Set `base` and `lowest`, the exponents of the fast formulation of BF16 and XF32 products.

        Return a flag that is true if the exponents of the factors are outside the range that the fast formulation
        supports. `top_a` and `top_b` are the largest exponents of the factors. `base` is the exponent of the largest
        possible product. Products are exact down to the exponent `base` + `lowest`. Products with a zero factor and
        denormal results have lower exponents."""
        self.base = self.intrinsic("umax", top_a, self.constant("i32", 1)) + top_b - 2 * BIAS
        least = self.intrinsic("umin", top_a, top_b)
        lowest = self.constant("i32", -WINDOW)
        for other in (-95 - self.base, 1 - least):
            lowest = self.intrinsic("smax", lowest, other)
        self.lowest = lowest
        most = self.intrinsic("umax", top_a, top_b)
        return lowest.sgt(-WINDOW // 2) | self.base.sgt(80) | (most >= 2 * BIAS)

    def _divide(self, values: Operand, exponents: Operand, top: Operand, run: int, is_b: bool) -> None:
        """Emit the division of all elements by the power of two of the largest element, and a store of their exponents.

        `top` is the exponent field of the largest element."""
        factor = self.real(self.spread((2 * BIAS - top) << 23))
        field = self.spread(top)
        with self._vectors_of_rows() as at:
            for number in range(run):
                place = (values + ROW * number + at).inttoptr()
                value = place.load(self.floats, align=4)
                magnitude = self.bits(value) & rules.MAGNITUDE
                own = self.larger_word(magnitude >> 23, self.constant(self.ints, 1)) - field
                own = self.intrinsic("smax", own, self.constant(self.ints, -WINDOW - 2))
                place.store(value.fmul(factor), align=4)
                self._store_exponents(exponents, number, at, magnitude.eq(0).select(OF_ZERO, own), is_b)

    def declare_constants(self) -> None:
        """Emit the constants that the inner loop keeps in registers.

        `least` is the lowest exponent that the fast formulation handles, and `tiny` the lower bound for the
        exponents of C. A kernel with scales also reads the addresses of the registers that hold them, and the positions
        of the scales in the lanes of these registers."""
        self.bytes = f"<{4 * self.lanes} x i8>"
        if self.is_wide:
            self.shift: Operand | None = self.spread(self.base << 23)
            self.least = self.held(self.spread(self.lowest.trunc("i8"), 4 * self.lanes))
            lowest = self.spread((self.lowest + self.base + BIAS) << 24)
        else:
            self.shift = None
            self.least = self.held(self.constant(self.bytes, -WINDOW))
            lowest = self.constant(self.ints, BIAS - WINDOW << 24)
        if self.matrix.is_scaled:
            self.scales_a, self.scales_b = (self._field_of_shape(name) for name in ("scale_a", "scale_b"))
            self.shift_a, shift = (self._field_of_shape(name).trunc("i32") for name in ("a_shift", "b_shift"))
            self.shift_b = self.held(self.spread(shift))
        self.tiny = self.held(lowest - 1)
        self.mirror = self.held(self.constant(self.ints, 2 * BIAS + 24 << 23))
        """The minuend that turns the exponent field of 2**E into that of 2**(24 - E), by a subtraction."""

    def _quad(self, table: Operand, block: int, k: int, quad: Operand, at: Operand) -> Operand:
        """Return the exponents of A[i][k] of four rows, as the bytes of a dword, in every lane.

        The lanes are those of a vector of columns.
        """
        lane, number = a_place(self.matrix, block, 0, k, self.kernel.a)
        place = table + (LANES * number + lane)
        if self.matrix.n > 4:
            return self.spread((place + (quad << 2)).inttoptr().load("i32", align=4)).bitcast(self.bytes)
        count = self.lanes // 4
        each = (place + (at >> 2)).inttoptr().load(f"<{count} x i32>", align=4)
        order = ", ".join(f"i32 {lane // 4}" for lane in range(self.lanes))
        return self.shuffle(each, f"<{self.lanes} x i32> <{order}>").bitcast(self.bytes)

    def _largest(
        self, block: int, depth: range, exponents: list[Operand], a: Operand, quad: Operand, at: Operand
    ) -> Operand:
        """Return the largest exponent of the products of each of four rows, as the bytes of a dword.

        A byte is below -WINDOW if all of the row's products are zero.
        """
        sums = [
            self.intrinsic("sadd.sat", self._quad(a, block, k, quad, at), each)
            for k, each in zip(depth, exponents, strict=True)
        ]
        return total(sums, lambda x, y: self.intrinsic("smax", x, y))

    def _field(self, exponents: Operand, row: int) -> Operand:
        """Return the exponent bytes of one of four rows as binary32 powers of two."""
        moved = exponents << 23 - 8 * row if row < 3 else exponents >> 1
        return moved & rules.INFINITY

    def _cut(
        self, block: int, depth: range, rows: list[Operand], a: Operand, i: Operand, at: Operand, power: Operand
    ) -> Operand:
        """Return the sum of products of one group, as an integer in units of 2**-24 times `power`.

        Each product is truncated to a multiple of this unit before the addition."""
        scale = self.real(self.mirror - power)
        parts = []
        for k, row in zip(depth, rows, strict=True):
            product = self._scalar(a, block, k, i, at).fmul(row).fmul(scale)
            parts.append(product.cast("fptosi", self.ints))
        return total(parts, lambda x, y: x + y)

    def _group(
        self,
        block: int,
        first: Operand,
        at: Operand,
        sides: tuple[Operand, Operand, Operand, Operand],
        source: Operand,
    ) -> None:
        """Emit, for all rows of a vector of columns, the products A[i][k] * B[k][j] for one group of consecutive k.

        The rule rounds once per group; `first` is the group's first k. `at` is the byte offset of the columns.
        `sides` has four addresses, each of the group's first k: those of A, of its exponents, of B, and of its
        exponents. `source` is the address of the values to which the products are added."""
        matrix = self.matrix
        a, exponents_a, b, exponents_b = sides
        step = 2 if matrix.rule == Rule.FUSED_SPLIT else 1
        halves = [range(n, matrix.group, step) for n in range(step)]
        held = [self._held_rows(b, block, half, at) for half in halves]
        exponents = [self._held_rows(exponents_b, block, half, at) for half in halves]
        scales = self._column_scales(first, at) if matrix.is_scaled else None
        with self._quads_of(block, at) as (quad, place):
            largest = [
                self._largest(
                    block, half, self._exponents_for(each, exponents_b, half, quad, at), exponents_a, quad, at
                )
                for half, each in zip(halves, exponents, strict=True)
            ]
            fields = [(self.intrinsic("smax", each, self.least) + BIAS).bitcast(self.ints) for each in largest]
            low = None
            if self.is_wide:
                low = self._below(largest[0])
            for row in range(4):
                i = (quad << 2) + row
                rows = [self._rows_for(each, b, half, i, at) for half, each in zip(halves, held, strict=True)]
                self._row(block, (first, halves, rows), (quad, row), at, place, fields, (a, source), low, scales)

    def _exponents_for(
        self, held: list[Operand], table: Operand, depth: range, quad: Operand, at: Operand
    ) -> list[Operand]:
        """Return the exponents of the elements of B that elements `depth` of four rows of A are multiplied by.

        They are the bytes of a dword, one byte for each row. `held` are the results of `_held_rows`."""
        if not self.matrix.is_sparse:
            return [each.bitcast(self.bytes) for each in held]
        rows = [self._rows_for([], table, depth, (quad << 2) + row, at) for row in range(4)]
        found = [each.bitcast(self.bytes) for each in rows[0]]
        for number, row in enumerate(rows[1:], 1):
            flags = ", ".join(f"i1 {str(byte % 4 == number).lower()}" for byte in range(4 * self.lanes))
            mask = self.operand(f"<{4 * self.lanes} x i1>", f"<{flags}>")
            found = [mask.select(each.bitcast(self.bytes), one) for each, one in zip(row, found, strict=True)]
        return found

    def _below(self, largest: Operand) -> Operand:
        """Return dwords with 0xFF in each byte whose exponent is below the window, and 0 in other bytes.

        A byte is also 0 if all products of its row are zero."""
        is_low = largest.slt(self.least) & largest.ne(OF_ZERO)
        return is_low.cast("sext", self.bytes).bitcast(self.ints)

    def _row(
        self,
        block: int,
        group: tuple[Operand, list[range], list[list[Operand]]],
        where: tuple[Operand, int],
        at: Operand,
        place: Operand,
        fields: list[Operand],
        memory: tuple[Operand, Operand],
        low: Operand | None,
        scales: Operand | None,
    ) -> None:
        """Emit one row of D, in one vector of columns: its old value plus the products for one group of consecutive k.

        `group` has the group's first k, the one or two parts into which the rule splits its k, and for each part
        the rows of B. `where` has the number of four consecutive rows of D, and the number of the row in these.
        `at` is the byte offset of the columns. `place` is the byte offset in D of the first of the four rows.
        `fields` has, for each part, the largest exponents of the four rows. `memory` has the addresses of A and of
        the old values. `low` flags, if it is not None, the rows whose exponents are below the window. `scales` has, if
        it is not None, the exponents of the scales of the columns."""
        first, halves, rows = group
        quad, row = where
        a, source = memory
        i = (quad << 2) + row
        here = place + ROW * row
        old = (source + here).inttoptr().load(self.floats, align=4)
        powers = [self._field(each, row) for each in fields]
        sums = [
            self._cut(block, half, each, a, i, at, power)
            for half, each, power in zip(halves, rows, powers, strict=True)
        ]
        power, part = powers[0], sums[0]
        if len(halves) == 2:
            power = self.larger_word(powers[0], powers[1])
            moved = [
                each.ashr(self.smaller_word(power - own >> 23, 31)) for each, own in zip(sums, powers, strict=True)
            ]
            part = moved[0] + moved[1]
        beyond = None
        if scales is not None:
            power, beyond = self._scaled(power, self._row_scale(first, i) + scales)
        elif self.shift is not None:
            power = power + self.shift
        made, wrong = self._joined(part, power, old)
        if low is not None:
            wrong = wrong | (low & (0xFF << 8 * row)).ne(0)
        if beyond is not None:
            wrong = wrong | beyond
        self._store(made, wrong, old, (block, first, i, at, here))

    def _scale_exponents(self, words: Operand) -> Operand:
        """Return the exponents of scales in the low bytes of dwords; SCALE_OF_NAN for a scale that is NaN."""
        field = words & 0xFF
        return field.eq(0xFF).select(self.constant(field.type, SCALE_OF_NAN), field - BIAS)

    def _column_scales(self, first: Operand, at: Operand) -> Operand:
        """Return the exponents of the scales of a vector of columns, for the group of k that starts at `first`."""
        place = self.scales_b + (first >> 5) * (4 * self.matrix.n) + at
        return self._scale_exponents(place.inttoptr().load(self.ints, align=4) >> self.shift_b)

    def _row_scale(self, first: Operand, i: Operand) -> Operand:
        """Return the exponent of the scale of row `i`, in every lane, for the group of k that starts at `first`."""
        place = self.scales_a + (first >> 5) * (4 * self.matrix.m) + (i << 2)
        return self.spread(self._scale_exponents(place.inttoptr().load("i32", align=4) >> self.shift_a))

    def _scaled(self, power: Operand, scale: Operand) -> tuple[Operand, Operand]:
        """Return `power` times 2**`scale`, and a mask of lanes in which the result does not apply.

        These are lanes whose scales are NaN or lead out of the range of exponents of the fast formulation. If all
        products are zero, `power` is the lowest one and stays as it is, unless the scales are so large that the
        exponents of the products matter."""
        field = (power >> 23) + scale
        is_zero = power <= (BIAS - WINDOW << 23)
        is_beyond = field - (BIAS - WINDOW) > WINDOW + 120
        return is_zero.select(power, field << 23), is_zero.select(scale.sgt(MOST_OF_ZERO), is_beyond)

    def _joined(self, part: Operand, power: Operand, old: Operand) -> tuple[Operand, Operand]:
        """Return the sum of `part` and C as binary32, and a mask of lanes in which it may be wrong.

        `part` is in units of 2**-24 times `power`. It is truncated to a multiple of 2**-31 times the larger of the
        powers of `part` and C, and split into two exact floats. These are added to C (`old`) without an error before
        the one rounding."""
        bits = self.bits(old)
        of_c = bits & rules.INFINITY
        most = self.larger_word(power, of_c)
        addend = self.intrinsic("floor", old.fmul(self.real(self.mirror - most)))
        if self.matrix.rule == Rule.FUSED_SPLIT:
            far = (most - of_c) > (25 << 23)
            addend = far.select(self.pattern(0), addend)
        apart = self.smaller_word(most - power, 38 << 23)
        near = self.smaller_word(apart, 7 << 23)
        part = part.ashr(apart - near >> 23)
        unit = self.real((BIAS << 23) - near)
        low_bits = part & 255
        low = low_bits.cast("sitofp", self.floats)
        high = (part - low_bits).cast("sitofp", self.floats).fmul(unit)
        rough = addend.fadd(high)
        other = rough.fsub(addend)
        error = addend.fsub(rough.fsub(other)).fadd(high.fsub(other))
        exact = rough.fadd(self.fma(low, unit, error))
        made = exact.fmul(self.real(most - (24 << 23)))
        tiny = (bits << 1) - 1 < self.tiny
        return made, tiny | (most >= (BIAS + 120 << 23))

    def _store(
        self, made: Operand, wrong: Operand, old: Operand, where: tuple[int, Operand, Operand, Operand, Operand]
    ) -> None:
        """Emit the store of one vector of a row of D, and the slow path that corrects the lanes flagged in `wrong`.

        The slow path is at the end of the function."""
        block, first, i, at, place = where
        good, bad = self.fresh("good"), self.fresh("bad")
        flags = wrong.bitcast(f"i{self.lanes}")
        lanes = flags.zext("i64")
        target = (self.d + place).inttoptr()
        before = self.scratch
        after = before + 4 * self.lanes
        if self.columns < self.lanes:
            raise ModelBug(
                f"{self.kernel.name}: the matrix has {self.columns} columns, expected at least the {self.lanes} lanes "
                "of a vector"
            )
        self.branch(flags.ne(0), bad, good, UNLIKELY)
        with self.apart(bad):
            before.inttoptr().store(old, align=4)
            after.inttoptr().store(made, align=4)
            column = at >> 2
            self._call(
                rules.repair, self._arranged_shape(), self.raw_a, self.raw_b, block, i, column, first, lanes, before,
                after, before + 8 * self.lanes,
            )  # fmt: skip
            mended = after.inttoptr().load(self.floats, align=4)
            self.jump(good)
        here = self.label
        self.start(good)
        value = self.phi(self.floats, (made, here), (mended, bad))
        target.store(value, align=4)


# ---- entries ---------------------------------------------------------------------------------------------------------
# Emitters of the functions that translated code calls for a matrix instruction. Such a function prepares the shapes and
# C on the stack and calls the instruction's kernel. ``entry(a, b, c, d, fields, first, second)`` computes D;
# ``shadows``, with the same parameters, computes the shadow (the undefined bits) of D. The parameters are described in
# `calls`.


FIELDS: Final = {"cbsz": 0, "abid": 8, "blgp": 16, "a_shift": 48, "b_shift": 56}
"""The lowest bit of each instruction field in the word `fields`, the parameter of an entry."""
PLACE: Final = 24
_PARAMETERS: Final = ", ".join(f"i64 %{name}" for name in ("a", "b", "c", "d", "fields", "first", "second"))


def values_entry(kernel: Kernel, lanes: int) -> dict[str, str]:
    """Return the LLVM IR of the kernel, of the entry that computes D, and of declarations, by symbol name."""
    made = Writer(kernel, lanes).definition()
    text = Text()
    shapes, fields = _shapes(text, kernel), text.word("%fields")
    a, b, c, d = (text.word(f"%{name}") for name in "abcd")
    c = call_rule(text, rules.addend, shapes, c, (fields >> PLACE) & 0xFF, d, _room(text, kernel, "%room"))
    for field, parameter in _selectors(kernel).items():  # D may overlap these registers
        row = text.slot(f"%copy_{field}", f"[{ROW} x i8]", ", align 64")
        row.store(text.word(parameter).inttoptr().load(f"<{LANES} x i32>", align=4), align=64)
        text.pointer("%shapes").offset(getattr(rules.Shape, field).offset).store(row.ptrtoint())
    text.invoke("i64", f"@{kernel.name}", a, b, c, d, shapes)
    return made | _function(text, f"{kernel.name}_entry", 0)


def shadows_entry(kernel: Kernel, lanes: int) -> dict[str, str]:
    """Return the LLVM IR of the entry that computes the shadow of D, and of its declarations, by symbol name."""
    text = Text()
    shapes, fields = _shapes(text, kernel), text.word("%fields")
    rooms = [_room(text, kernel, name) for name in ("%zeros", "%room")]
    a, b, c, d, second = (text.word(f"%{name}") for name in ("a", "b", "c", "d", "second"))
    call_rule(text, rules.undefine, shapes, a, b, c, (fields >> PLACE) & 0xFF, second, d, *rooms)
    return _function(text, f"{kernel.name}_shadows", lanes)


def _selectors(kernel: Kernel) -> dict[str, str]:
    """Return the fields of `rules.Shape` with the addresses of registers, and the parameters that have them."""
    if kernel.matrix.is_sparse:
        return {"index": "%first"}
    return {"scale_a": "%first", "scale_b": "%second"} if kernel.matrix.is_scaled else {}


def _shapes(text: Text, kernel: Kernel) -> Operand:
    """Emit stores of both `rules.Shape` structures of a `library.Shapes` to the stack; return their address."""
    size = ctypes.sizeof(rules.Shape)
    slot, known = (
        text.slot("%shapes", f"[{2 * size} x i8]", ", align 64"),
        rules.shape(kernel.matrix, kernel.a, kernel.b),
    )
    for first in (0, size):
        for number, (name, *_) in enumerate(rules.Shape._fields_):
            slot.offset(first + 8 * number).store(getattr(known, name))
    for name, bit in FIELDS.items():
        slot.offset(getattr(rules.Shape, name).offset).store((text.word("%fields") >> bit) & 0xFF)
    for field, parameter in _selectors(kernel).items():
        slot.offset(getattr(rules.Shape, field).offset).store(text.word(parameter))
    return slot.ptrtoint()


def _room(text: Text, kernel: Kernel, name: str) -> Operand:
    return text.slot(name, f"[{ROW * kernel.matrix.d_registers} x i8]", ", align 64").ptrtoint()


def _function(text: Text, name: str, lanes: int) -> dict[str, str]:
    """Return an entry with the lines of a text as its body, and its declarations, by symbol name.

    If `lanes` is 0, another function of the module declares the attributes (`#0`)."""
    text.ret(0)
    declarations = dict(text.declarations)
    if lanes:
        declarations["attributes"] = f"attributes #0 = {{ nounwind {vector_width(lanes)} }}"
    lines = [f"define i64 @{name}({_PARAMETERS}) #0 {{", "entry:", *(f"  {line.strip()}" for line in text.allocas)]
    return {**declarations, name: "\n".join([*lines, *text.lines, *text.tail, "}", ""])}
