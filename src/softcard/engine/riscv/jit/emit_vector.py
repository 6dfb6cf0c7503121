"""Vector instructions in LLVM IR: register groups in the hart's memory, all lanes processed together.

vtype must be known when an instruction is translated. It is known from an earlier vset* instruction in the
block; otherwise the translator assumes the most likely value, and the code checks it. A side exit is taken in
every other state: another vtype, vstart not 0, vectors off, or a missing page. Operations that processors do
not have for many lanes are done element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from softcard.engine.riscv.jit.emit_control import Control
from softcard.engine.riscv.jit.emit_integer import Integers
from softcard.engine.riscv.jit.emit_lanes import WORD, Lanes, Scalars, buffer, each_number, joined, place
from softcard.engine.riscv.jit.emit_memory import Memory
from softcard.engine.riscv.jit.emit_registers import TYPE, FloatValue
from softcard.ir.builder import Text
from softcard.ir.operand import Operand
from softcard.isa.riscv import csrnames, state
from softcard.isa.riscv.csr import VECTOR_WORDS
from softcard.isa.riscv.insn import IllegalInstruction
from softcard.isa.riscv.vector import vtype
from softcard.isa.riscv.vector.groups import (
    V0,
    Before,
    Group,
    Index,
    Mask,
    Picked,
    Place,
    Scalar,
    Slid,
    Source,
    Walk,
)
from softcard.isa.riscv.vector.vtype import VType

MOST_LANES: Final = 1024
"""The maximum number of elements of a group that one LLVM value holds."""
MOST_BYTES: Final = 4096
"""The maximum number of bytes of a vector access, so that it lies in at most two pages."""


class Vectors:
    """Implements the vector operations of `isa.riscv.algebra.Algebra` in LLVM IR, with registers of `vlen` bits.

    `used` is True if the function needs the addresses of vector registers.
    """

    def __init__(
        self, text: Text, ints: Integers, control: Control, memory: Memory, features: frozenset[str], vlen: int
    ) -> None:
        self.text = text
        self.ints = ints
        self.control = control
        self.memory = memory
        self.features = features
        self.vlen = vlen
        self.used = False
        self.begin(0)

    def begin(self, likely: int) -> None:
        """Begin a block whose most likely vtype is `likely`."""
        self._likely = likely
        self._bits: int | None = None
        self._on = self._at_start = False
        self._vl: Operand | None = None

    # -- what is in force

    def register_bits(self) -> int:
        """Return VLEN, the width of vector registers in bits."""
        return self.vlen

    def vector(self, *, resumes: bool = False) -> VType:
        """Begin an instruction that depends on vtype, and return vtype.

        A side exit is taken unless vstart is 0, also for instructions that can resume at vstart (`resumes`)."""
        self.vector_untyped(resumes=resumes)
        bits = self._likely if self._bits is None else self._bits
        found = vtype.parse(bits, self.vlen)
        if found is None or found.vlmax > MOST_LANES:
            raise IllegalInstruction("the JIT engine leaves this instruction to the reference engine")
        if self._bits is None:
            now = self.text.pointer("%vtype").load("i64")
            self.control.side(now.ne(bits))
            self._bits = bits
        return found

    def vector_untyped(self, *, resumes: bool = False) -> None:
        """Begin a vector instruction that does not depend on vtype.

        A side exit is taken unless vstart is 0, also for instructions that can resume at vstart (`resumes`)."""
        self._switched_on()
        if not self._at_start:
            start = self.text.pointer("%vstart").load("i64")
            self.control.side(start.ne(0))
            self._at_start = True

    def _switched_on(self) -> None:
        self.used = True
        if not self._on:
            vlen = self.text.pointer("%native_vlen").load("i64")
            self.control.side(vlen.ne(self.vlen))
            self._on = True

    def vector_float(self) -> None:
        """Do nothing: translated code with floats has already checked that floats are on and frm is legal."""

    def vl(self) -> Operand:
        """Return vl, the number of elements that an instruction processes."""
        if self._vl is None:
            self._vl = self.text.pointer("%vl").load("i64")
        return self._vl

    def vxrm(self) -> Operand:
        """Return the fixed-point rounding mode."""
        return self.text.pointer("%vxrm").load("i64").trunc("i8")

    def configure(self, bits: Operand, length: Operand | None) -> Operand:
        """Set vtype and vl; return vl."""
        self._switched_on()
        if bits.startswith("%"):
            likely = self.text.word(self._likely if self._bits is None else self._bits)
            self.control.side(self.ints.ne(64, bits, likely))
            bits = likely
        found = vtype.parse(int(bits), self.vlen)
        if found is None:
            raise IllegalInstruction("the JIT engine leaves this instruction to the reference engine")
        wanted = self.vl() if length is None else length
        vl = self.text.call("i64", "llvm.umin.i64", f"i64 {wanted}", f"i64 {found.vlmax}")
        for name, value in (("vl", vl), ("vtype", bits), ("vstart", self.text.word(0))):
            self.text.pointer(f"%{name}").store(value)
        self._vl, self._bits, self._at_start = vl, int(bits), True
        return vl

    def csr_read(self, number: int) -> Operand:
        """Return the value of a vector CSR."""
        self._switched_on()
        if number == csrnames.VLENB:
            return self.text.word(self.vlen // 8)
        if number == csrnames.VL:
            return self.vl()
        o, value = self.ints, self.text.word(0)
        for word, low, _ in VECTOR_WORDS[number]:
            part = self._word(word).load("i64")
            value = o.or_(64, value, o.shl(64, part, low)) if low else part
        return value

    def csr_write(self, number: int, v: Operand) -> None:
        """Write a vector CSR.

        Raise `IllegalInstruction` if the CSR's number is that of a read-only CSR; the reference engine then executes
        the instruction.
        """
        self._switched_on()
        if number >> 10 == 3:
            raise IllegalInstruction("the JIT engine leaves this instruction to the reference engine")
        o = self.ints
        for word, low, mask in VECTOR_WORDS[number]:
            kept = min(mask, self.vlen - 1) if number == csrnames.VSTART else mask
            part = o.and_(64, o.lshr(64, v, low), kept)
            self._word(word).store(part)
        self._at_start &= number != csrnames.VSTART

    def _word(self, word: int) -> Operand:
        """Return the address of a word of the hart's shared state."""
        return self.text.pointer("%st").element("i64", word)

    # -- registers

    def _place(self, n: int, byte: int = 0) -> Operand:
        """Return the address of a vector register, or of a byte of it."""
        return self.text.pointer("%vectors").offset(n * self.vlen // 8 + byte)

    def _bits_of(self, n: int, lanes: int) -> Operand:
        """Return the first `lanes` bits of vector register `n`, as a mask."""
        whole, text = max(lanes, 8), self.text
        if lanes > WORD and "avx512bw" not in self.features:
            places = [self._place(n, at) for at in range(0, lanes // 8, WORD // 8)]
            words = [place.load(f"i{WORD}", align=1) for place in places]
            return joined(text, [word.bitcast(f"<{WORD} x i1>") for word in words])
        bits = self._place(n).load(f"i{whole}", align=1)
        if lanes < whole:
            bits = bits.trunc(f"i{lanes}")
        return bits.bitcast(f"<{lanes} x i1>")

    def _column(self, source: Source, lanes: int) -> Operand:
        text = self.text
        if isinstance(source, Group):
            return self._place(source.n).load(f"<{lanes} x i{source.width}>", align=1)
        if isinstance(source, Mask):
            return self._bits_of(source.n, lanes)
        if isinstance(source, Scalar):
            ty = f"<{lanes} x i{source.width}>"
            first = text.operand(ty, "poison").with_lane(0, self._scalar(source))
            return text.shuffle(first, f"<{lanes} x i32> zeroinitializer")
        if isinstance(source, Slid):
            return self._slid(source, lanes)
        if isinstance(source, Picked):
            return self._picked(source, lanes)
        if isinstance(source, Before):
            return self._before(source, lanes)
        return self._numbers(lanes, source.width)

    def _scalar(self, source: Scalar) -> Operand:
        """Return a scalar operand, which is the same for all elements."""
        return cast("Operand", source.value)

    def _slid(self, source: Slid, lanes: int) -> Operand:
        """Return the elements of a register group shifted by the offset of `source`, padded with zeros."""
        text, w = self.text, source.width
        size = lanes * w // 8
        both = buffer(text, 2 * size)
        ty, halves = f"<{lanes} x i{w}>", (both, both.offset(size))
        parts = (text.constant(ty, 0), self._column(source.group, lanes))[:: 1 if source.up else -1]
        for half, part in zip(halves, parts, strict=True):
            half.store(part, align=1)
        by = text.call("i64", "llvm.umin.i64", f"i64 {source.offset}", f"i64 {lanes}")
        first = (lanes - by) if source.up else by
        return place(text, both, w, first).load(ty, align=1)

    def _picked(self, source: Picked, lanes: int) -> Operand:
        text, o, w, index = self.text, self.ints, source.width, source.index
        if isinstance(index, Scalar):
            return self._column(Scalar(w, self._element(source.group, self._scalar(index))), lanes)  # type: ignore[arg-type]
        made = buffer(text, max(lanes * w // 8, 1))
        with each_number(text, self.vl()) as k:
            at = place(text, self._place(index.n), index.width, k).load(f"i{index.width}", align=1)
            value = self._element(source.group, o.zext(64, index.width, at))
            place(text, made, w, k).store(value)
        return made.load(f"<{lanes} x i{w}>", align=1)

    def _element(self, group: Group, index: Operand) -> Operand:
        """Return an element of a group by its index; 0 past the group's end."""
        text, o, w = self.text, self.ints, group.width
        inside = o.ult(64, index, vtype.elements(self.vlen, w, group.emul))
        at = place(text, self._place(group.n), w, o.select(64, inside, index, 0))
        return o.select(w, inside, at.load(f"i{w}", align=1), 0)

    def _before(self, source: Before, lanes: int) -> Operand:
        text, o, w = self.text, self.ints, source.width
        total, made = buffer(text, 8, 1), buffer(text, max(lanes * w // 8, 1))
        total.store(0)
        with each_number(text, self.vl()) as k:
            so_far = total.load("i64")
            number = o.trunc(w, 64, so_far)
            place(text, made, w, k).store(number)
            bit = self._bit(source.mask.n, k)
            if source.masked:
                bit = o.and_(1, bit, self._bit(V0.n, k))
            total.store(o.add(64, so_far, o.zext(64, 1, bit)))
        return made.load(f"<{lanes} x i{w}>", align=1)

    def _bit(self, n: int, k: Operand) -> Operand:
        """Return one bit of a vector register."""
        o = self.ints
        byte = place(self.text, self._place(n), 8, o.lshr(64, k, 3)).load("i8")
        return o.trunc(1, 8, o.lshr(8, byte, o.trunc(8, 64, o.and_(64, k, 7))))

    def _numbers(self, lanes: int, width: int) -> Operand:
        return self.text.call(f"<{lanes} x i{width}>", f"llvm.stepvector.v{lanes}i{width}")

    def _active(self, masked: bool, lanes: int, count: Operand) -> Operand:
        """Return a mask of the active lanes with indices below `count`."""
        text = self.text
        w = 8 if lanes < 256 else 16
        ty = f"<{lanes} x i{w}>"
        low = count.trunc(f"i{w}") if count.startswith("%") else text.operand(f"i{w}", count)
        first = text.operand(ty, "poison").with_lane(0, low)
        bound = text.shuffle(first, f"<{lanes} x i32> zeroinitializer")
        active = self._numbers(lanes, w) < bound
        if masked:
            active = active & self._bits_of(V0.n, lanes)
        return active

    def v_map(
        self,
        dest: Place,
        sources: tuple[Source, ...],
        f: Callable[..., Operand],
        masked: bool,
        *,
        saturates: bool = False,
    ) -> None:
        """Set element k of `dest` to `f`(o, elements k of the sources) for each active element k.

        `o` is the operations interface for vectors (`Lanes`). With `saturates`, `f` also returns a flag of saturation,
        which sets vxsat.
        """
        assert self._bits is not None
        found = vtype.parse(self._bits, self.vlen)
        assert found is not None
        lanes = found.vlmax
        active = self._active(masked, lanes, self.vl())
        o = self._lanes(lanes, active)
        computed = f(o, *[self._column(source, lanes) for source in sources])
        new = self._saturated(o, active, *computed) if saturates else computed
        old = self._column(dest, lanes)
        new = active.select(new, old)
        if isinstance(dest, Group):
            self._place(dest.n).store(new, align=1)
            return
        bits, whole = new.bitcast(f"i{lanes}"), max(lanes, 8)
        if lanes < whole:
            place = self._place(dest.n)
            kept = place.load("i8") & 256 - (1 << lanes)
            bits = kept | bits.zext("i8")
        self._place(dest.n).store(bits, align=1)

    def _saturated(self, o: Lanes, active: Operand, value: Operand, over: Operand) -> Operand:
        """Return `value` after setting vxsat if any active lane saturated (`over`)."""
        text = self.text
        some = o.floats.any(o.ints.and_(1, active, over))
        sticky = text.pointer("%vxsat").load("i64") | some.zext("i64")
        text.pointer("%vxsat").store(sticky)
        return value

    def v_reduce(
        self,
        source: Group,
        start: Scalar,
        neutral: int,
        f: Callable[..., Operand],
        masked: bool,
        *,
        signed: bool = False,
    ) -> Operand:
        """Return the elements and `start` combined by `f`: halves of the elements are combined until one is left.

        Inactive elements are replaced by `neutral`.
        """
        text, w = self.text, start.width
        lanes = vtype.elements(self.vlen, source.width, source.emul)
        active = self._active(masked, lanes, self.vl())
        o = self._lanes(lanes, active)
        value = self._column(source, lanes)
        value = o.sext(w, source.width, value) if signed else o.zext(w, source.width, value)
        value = o.select(w, active, value, o.const(w, neutral))
        while lanes > 1:
            lanes //= 2
            parts = []
            for first in (0, lanes):
                numbers = ", ".join(f"i32 {first + k}" for k in range(lanes))
                parts.append(text.shuffle(value, f"<{lanes} x i32> <{numbers}>"))
            value = f(self._lanes(lanes, text.operand(f"<{lanes} x i1>", "poison")), *parts)
        return f(self.ints, self._scalar(start), value.lane(0))

    def _lanes(self, lanes: int, active: Operand) -> Lanes:
        return Lanes(self.text, self.control, self.features, lanes, active)

    def _found(self, mask: Mask, masked: bool) -> tuple[Operand, str]:
        """Return the active bits of a mask as one integer, and the LLVM type of that integer."""
        assert self._bits is not None
        found = vtype.parse(self._bits, self.vlen)
        assert found is not None
        lanes = found.vlmax
        active = self._active(masked, lanes, self.vl())
        bits = active & self._bits_of(mask.n, lanes)
        number = bits.bitcast(f"i{lanes}")
        wide = max(lanes, 64)
        return (number.zext(f"i{wide}") if lanes < wide else number), f"i{wide}"

    def v_count(self, mask: Mask, masked: bool) -> Operand:
        """Return the number of active mask bits that are 1."""
        bits, ty = self._found(mask, masked)
        number = self.text.call(ty, f"llvm.ctpop.{ty}", f"{ty} {bits}")
        return self.ints.trunc(64, int(ty[1:]), number)

    def v_find(self, mask: Mask, masked: bool) -> Operand:
        """Return the index of the first active mask bit that is 1, or -1."""
        bits, ty = self._found(mask, masked)
        number = self.text.call(ty, f"llvm.cttz.{ty}", f"{ty} {bits}", "i1 false")
        none = bits.eq(0)
        return self.ints.select(64, none, -1, self.ints.trunc(64, int(ty[1:]), number))

    def v_fold(self, source: Group, start: Scalar, f: Callable[..., Operand], masked: bool) -> Operand:
        """Fold the active elements k in order by start = f(o, start, element k); return the last value of start.

        `o` is the operations interface for one element (`Scalars`). A NaN becomes the canonical NaN after the loop,
        unless there was no active element."""
        text, o = self.text, Scalars(self.text, self.control, "fma" in self.features)
        last, any_, ty = buffer(text, 8), buffer(text, 1), f"i{start.width}"
        last.store(self._scalar(start))
        any_.store(0, type="i8")
        with each_number(text, self.vl()) as k:
            on = text.fresh("next")
            if masked:
                taking_part = text.fresh("part")
                text.branch(self._bit(V0.n, k), taking_part, on)
                text.start(taking_part)
            w = source.width
            a = place(text, self._place(source.n), w, k).load(f"i{w}", align=1)
            new = f(o, last.load(ty), a)
            raw = o.representations.float_of[new]
            last.store(raw.name)
            any_.store(1, type="i8")
            text.jump(on)
            text.start(on)
        done = self.ints.trunc(1, 8, any_.load("i8"))
        total = last.load(TYPE[raw.fmt])
        unsigned_total = done.select(total, text.operand(total.type, "0.0"))  # not at the start: that would signal
        bits = o.f_bits(raw.fmt, FloatValue(raw.fmt, raw.kind, unsigned_total))
        return self.ints.select(start.width, done, bits, self._scalar(start))

    def v_compress(self, dest: Group, source: Group, which: Mask) -> None:
        """Copy the elements that the mask `which` selects to adjacent elements of `dest`, from element 0 on.

        The emitted code may write an element several times before it has its final value."""
        text, o, w = self.text, self.ints, dest.width
        kept = buffer(text, 8)
        kept.store(0)
        with each_number(text, self.vl()) as k:
            so_far = kept.load("i64")
            value = place(text, self._place(source.n), w, k).load(f"i{w}", align=1)
            at, enabled = place(text, self._place(dest.n), w, so_far), self._bit(which.n, k)
            old = at.load(f"i{w}", align=1)
            at.store(o.select(w, enabled, value, old), align=1)
            kept.store(o.add(64, so_far, o.zext(64, 1, enabled)))

    def v_first(self, group: Group) -> Operand:
        """Return element 0 of a group."""
        return self._place(group.n).load(f"i{group.width}", align=1)

    def v_set_first(self, group: Group, value: Operand) -> None:
        """Set element 0 of a group, unless vl is 0."""
        old = self.v_first(group)
        new = self.ints.select(group.width, self.ints.eq(64, self.vl(), 0), old, value)
        self._place(group.n).store(new, align=1)

    def v_copy(self, to: int, n: int, count: int) -> None:
        """Copy `count` whole registers."""
        ty = f"<{count * self.vlen // 64} x i64>"
        values = self._place(n).load(ty, align=1)
        self._place(to).store(values, align=1)

    # -- memory

    def v_load(
        self, dest: Group, count: Operand, walk: Walk, masked: bool, *, fields: int = 1, first_fault: bool = False
    ) -> None:
        """Load `count` elements, or segments of `fields` elements, into register groups from `dest` on.

        `walk` gives the addresses."""
        self._move(dest, count, walk, masked, fields, loads=True)

    def v_store(self, source: Group, count: Operand, walk: Walk, masked: bool, *, fields: int = 1) -> None:
        """Store `count` elements, or segments of `fields` elements, from register groups from `source` on.

        `walk` gives the addresses."""
        self._move(source, count, walk, masked, fields, loads=False)

    def _move(self, group: Group, count: Operand, walk: Walk, masked: bool, fields: int, loads: bool) -> None:
        """Emit an access of all elements at once if they are adjacent, else one by one."""
        lanes = vtype.elements(self.vlen, group.width, group.emul)
        if lanes > MOST_LANES or lanes * group.width // 8 > MOST_BYTES:
            raise IllegalInstruction("the JIT engine leaves this instruction to the reference engine")
        neighbours = isinstance(walk.offsets, Index) and walk.step == fields * group.width // 8
        if neighbours and fields > 1 and lanes * fields * group.width // 8 <= MOST_BYTES and not masked:
            self._move_segments(group, count, walk, fields, loads)
        elif not neighbours or fields > 1 or (masked and not self._masks(group.width)):
            self._move_each(group, count, walk, masked, fields, loads)
        else:
            self._move_at_once(group, count, walk, masked, lanes, loads)

    def _masks(self, width: int) -> bool:
        """Return True if all elements of this width can be accessed at once under a mask.

        The processor must be able to do this, and no check of accesses or stores may be on."""
        return (
            self.memory.access_check is None
            and self.memory.notes is None
            and (width >= 32 or "avx512bw" in self.features)
        )

    def _move_each(self, group: Group, count: Operand, walk: Walk, masked: bool, fields: int, loads: bool) -> None:
        """Emit an access to each element with its own check.

        If a page is missing, the reference engine continues with the element whose index vstart holds. Checks of
        accesses treat a segment as a whole: if a side exit is taken, none of the segment's fields was checked.
        """
        text, o, w = self.text, self.ints, group.width
        start = self._word(state.VSTART)
        with each_number(text, count) as k:
            on = text.fresh("next")
            if masked:
                taking_part = text.fresh("part")
                text.branch(self._bit(V0.n, k), taking_part, on)
                text.start(taking_part)
            start.store(k)
            offset = k
            if isinstance(walk.offsets, Group):
                index = walk.offsets
                offset = place(text, self._place(index.n), index.width, k).load(f"i{index.width}", align=1)
                offset = o.zext(64, index.width, offset)
            address, segment = o.add(64, self._base(walk), o.mul(64, offset, cast("Operand | int", walk.step))), None
            if fields > 1 and (self.memory.access_check is not None or self.memory.notes is not None):
                segment = self._pointer(address, text.word(fields), w, "loads" if loads else "stores")
                self._check_elements(w, segment, address, text.word(fields), 0, loads)
            for field in range(fields):
                at = o.add(64, address, field * w // 8)
                own = place(text, self._place(group.n + field * group.registers), w, k)
                if segment is not None:
                    there = place(text, segment, w, text.word(field))
                    source, target = (there, own) if loads else (own, there)
                    value = source.load(f"i{w}", volatile=True, align=1)
                    target.store(value, volatile=True, align=1)
                elif loads:
                    own.store(self.memory.load(w, at), align=1)
                else:
                    self.memory.store(w, at, own.load(f"i{w}", align=1))
            text.jump(on)
            text.start(on)
        start.store(0)

    def _move_segments(self, group: Group, count: Operand, walk: Walk, fields: int, loads: bool) -> None:
        """Emit accesses to adjacent segments one by one, after a single check of all of them."""
        text, w = self.text, group.width
        total = self.ints.mul(64, count, fields)
        pointer = self._pointer(self._base(walk), total, w, "loads" if loads else "stores")
        self._check_elements(w, pointer, self._base(walk), total, 0, loads)
        text.put('fence syncscope("singlethread") seq_cst')
        with each_number(text, count) as k:
            first = k * fields
            for field in range(fields):
                there = place(text, pointer, w, first + field)
                own = place(text, self._place(group.n + field * group.registers), w, k)
                source, target = (there, own) if loads else (own, there)
                target.store(source.load(f"i{w}", align=1), align=1)
        text.put('fence syncscope("singlethread") seq_cst')

    def _move_at_once(self, group: Group, count: Operand, walk: Walk, masked: bool, lanes: int, loads: bool) -> None:
        """Emit one access of adjacent elements: all of them, or those that a mask enables."""
        text, w = self.text, group.width
        pointer = self._pointer(self._base(walk), count, w, "loads" if loads else "stores")
        self._check_elements(w, pointer, self._base(walk), count, lanes, loads)
        ty, own = f"<{lanes} x i{w}>", self._place(group.n)
        whole, part, join = text.fresh("whole"), text.fresh("part"), text.fresh("on")
        full = text.flag(False) if masked else count.eq(lanes)
        text.put('fence syncscope("singlethread") seq_cst')
        text.branch(full, whole, part)
        text.start(whole)
        source, target = (pointer, own) if loads else (own, pointer)
        target.store(source.load(ty, align=1), align=1)
        text.jump(join)
        text.start(part)
        if w < 32 and "avx512bw" not in self.features:
            self._move_each(group, count, walk, masked, 1, loads)
        else:
            active, mask = self._active(masked, lanes, count), f"<{lanes} x i1>"
            old = own.load(ty, align=1)
            at = f"ptr align {self.memory.alignment(w)} {pointer}"
            if loads:
                name, operands = f"llvm.masked.load.v{lanes}i{w}.p0", (at, f"{mask} {active}", f"{ty} {old}")
                own.store(text.call(ty, name, *operands), align=1)
            else:
                text.call_void(f"llvm.masked.store.v{lanes}i{w}.p0", f"{ty} {old}", at, f"{mask} {active}")
        text.jump(join)
        text.start(join)
        text.put('fence syncscope("singlethread") seq_cst')

    def _base(self, walk: Walk) -> Operand:
        """Return the base address of a vector access."""
        return cast("Operand", walk.base)

    def _check_elements(
        self, w: int, pointer: Operand, address: Operand, count: Operand, most: int, loads: bool
    ) -> None:
        """Emit the checks of accesses and the records of stores for `count` adjacent elements."""
        access_check, notes = self.memory.access_check, None if loads else self.memory.notes
        begun = None if notes is None else notes.begin(pointer)
        if access_check is not None:
            access_check.many("read" if loads else "write", w, pointer, address, count, most)
        if notes is not None:
            notes.many(w, pointer, count, begun)

    def _pointer(self, base: Operand, count: Operand, w: int, table: str) -> Operand:
        """Emit the host address of `count` adjacent elements; a side exit is taken unless all of them are in memory."""
        text, o = self.text, self.ints
        self.control.side(o.eq(64, count, 0))
        size = w // 8
        if size > 1 and not self.memory.takes_misaligned:
            self.control.side(o.ne(64, o.and_(64, base, size - 1), 0))
        last = o.add(64, base, o.sub(64, o.mul(64, count, size), 1))
        beyond = o.lshr(64, o.or_(64, base, last), 32)
        self.control.side(o.ne(64, beyond, 0))
        addends = []
        for address in (base, last):
            slot = text.pointer(f"%{table}").element("i64", o.lshr(64, address, 12))
            addends.append(slot.load("i64"))
        self.control.side(o.eq(64, addends[0], 0))
        self.control.side(o.ne(64, *addends))
        return o.add(64, addends[0], base).inttoptr()
