"""Vector instructions of the algebra: register groups lie in the hart's memory, a meaning works on all lanes at once.

vtype is known where an instruction is translated: a vset* before it in its block said so, or a check of what it most
likely is. What is not as expected (another vtype, vstart, vectors off, a page that is not there) leaves to the
reference engine. What no processor does on many lanes goes element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.engine.riscv.jit.emit_control import Control
from understudy.engine.riscv.jit.emit_elements import WORD, buffer, each_number, joined, place
from understudy.engine.riscv.jit.emit_integer import Integers
from understudy.engine.riscv.jit.emit_lanes import Lanes, Scalars
from understudy.engine.riscv.jit.emit_memory import Memory
from understudy.engine.riscv.jit.emit_registers import TYPE, Held
from understudy.ir.builder import Text
from understudy.isa.riscv import csrnames, state
from understudy.isa.riscv.csr import VECTOR_WORDS
from understudy.isa.riscv.insn import IllegalInstruction
from understudy.isa.riscv.vector import vtype
from understudy.isa.riscv.vector.groups import (
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
from understudy.isa.riscv.vector.vtype import VType

MOST_LANES: Final = 1024
"""Elements of a group that are worth while to be one LLVM value."""
MOST_BYTES: Final = 4096
"""Of an access: so it lies in two pages at most."""


class Vectors:
    """Registers of `vlen` bits. `used`: whether the function needs their addresses."""

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
        """A block begins, where vtype is most likely this."""
        self._likely = likely
        self._bits: int | None = None
        self._on = self._at_start = False
        self._vl: str | None = None

    # -- what is in force

    def register_bits(self) -> int:
        """VLEN."""
        return self.vlen

    def vector(self, *, resumes: bool = False) -> VType:
        """Begin an instruction that depends on vtype."""
        self.vector_untyped(resumes=resumes)
        bits = self._likely if self._bits is None else self._bits
        found = vtype.parse(bits, self.vlen)
        if found is None or found.vlmax > MOST_LANES:
            raise IllegalInstruction("left to the reference engine")
        if self._bits is None:
            now = self.text.let("load i64, ptr %vtype")
            self.control.side(self.text.let(f"icmp ne i64 {now}, {bits}"))
            self._bits = bits
        return found

    def vector_untyped(self, *, resumes: bool = False) -> None:
        """Begin one that does not."""
        self._switched_on()
        if not self._at_start:
            start = self.text.let("load i64, ptr %vstart")
            self.control.side(self.text.let(f"icmp ne i64 {start}, 0"))
            self._at_start = True

    def _switched_on(self) -> None:
        self.used = True
        if not self._on:
            vlen = self.text.let("load i64, ptr %native_vlen")
            self.control.side(self.text.let(f"icmp ne i64 {vlen}, {self.vlen}"))
            self._on = True

    def vector_float(self) -> None:
        """Floats are on and frm is legal where code with floats is translated."""

    def vl(self) -> str:
        """Elements in the body."""
        if self._vl is None:
            self._vl = self.text.let("load i64, ptr %vl")
        return self._vl

    def vxrm(self) -> str:
        """The fixed-point rounding mode."""
        return self.text.let(f"trunc i64 {self.text.let('load i64, ptr %vxrm')} to i8")

    def configure(self, bits: str, length: str | None) -> str:
        """Set vtype and vl; gives vl."""
        self._switched_on()
        if bits.startswith("%"):
            likely = str(self._likely if self._bits is None else self._bits)
            self.control.side(self.ints.ne(64, bits, likely))
            bits = likely
        found = vtype.parse(int(bits), self.vlen)
        if found is None:
            raise IllegalInstruction("left to the reference engine")
        wanted = self.vl() if length is None else length
        vl = self.text.call("i64", "llvm.umin.i64", f"i64 {wanted}", f"i64 {found.vlmax}")
        for name, value in (("vl", vl), ("vtype", bits), ("vstart", "0")):
            self.text.put(f"store i64 {value}, ptr %{name}")
        self._vl, self._bits, self._at_start = vl, int(bits), True
        return vl

    def csr_read(self, number: int) -> str:
        """The value of a csr of vectors."""
        self._switched_on()
        if number == csrnames.VLENB:
            return str(self.vlen // 8)
        if number == csrnames.VL:
            return self.vl()
        o, value = self.ints, "0"
        for word, low, _ in VECTOR_WORDS[number]:
            part = self.text.let(f"load i64, ptr {self._word(word)}")
            value = o.or_(64, value, o.shl(64, part, str(low))) if low else part
        return value

    def csr_write(self, number: int, v: str) -> None:
        """Write a csr of vectors; those whose numbers say so are read-only."""
        self._switched_on()
        if number >> 10 == 3:
            raise IllegalInstruction("left to the reference engine")
        o = self.ints
        for word, low, mask in VECTOR_WORDS[number]:
            kept = min(mask, self.vlen - 1) if number == csrnames.VSTART else mask
            part = o.and_(64, o.lshr(64, v, str(low)), str(kept))
            self.text.put(f"store i64 {part}, ptr {self._word(word)}")
        self._at_start &= number != csrnames.VSTART

    def _word(self, word: int) -> str:
        """The address of a word of the shared state."""
        return self.text.let(f"getelementptr i64, ptr %st, i64 {word}")

    # -- registers

    def _place(self, n: int, byte: int = 0) -> str:
        """The address of a register, or of a byte of it."""
        return self.text.let(f"getelementptr i8, ptr %vectors, i64 {n * self.vlen // 8 + byte}")

    def _bits_of(self, n: int, lanes: int) -> str:
        """The first bits of a register as a mask of `lanes`."""
        whole, text = max(lanes, 8), self.text
        if lanes > WORD and "avx512bw" not in self.features:
            places = [self._place(n, at) for at in range(0, lanes // 8, WORD // 8)]
            words = [text.let(f"load i{WORD}, ptr {place}, align 1") for place in places]
            return joined(text, [text.let(f"bitcast i{WORD} {word} to <{WORD} x i1>") for word in words])
        bits = self.text.let(f"load i{whole}, ptr {self._place(n)}, align 1")
        if lanes < whole:
            bits = self.text.let(f"trunc i{whole} {bits} to i{lanes}")
        return self.text.let(f"bitcast i{lanes} {bits} to <{lanes} x i1>")

    def _column(self, source: Source, lanes: int) -> str:
        text = self.text
        if isinstance(source, Group):
            return text.let(f"load <{lanes} x i{source.width}>, ptr {self._place(source.n)}, align 1")
        if isinstance(source, Mask):
            return self._bits_of(source.n, lanes)
        if isinstance(source, Scalar):
            ty = f"<{lanes} x i{source.width}>"
            first = text.let(f"insertelement {ty} poison, i{source.width} {source.value}, i64 0")
            return text.let(f"shufflevector {ty} {first}, {ty} poison, <{lanes} x i32> zeroinitializer")
        if isinstance(source, Slid):
            return self._slid(source, lanes)
        if isinstance(source, Picked):
            return self._picked(source, lanes)
        if isinstance(source, Before):
            return self._before(source, lanes)
        return self._numbers(lanes, source.width)

    def _slid(self, source: Slid, lanes: int) -> str:
        """A part of the group beside zeros."""
        text, w = self.text, source.width
        size = lanes * w // 8
        both = buffer(text, 2 * size)
        ty, halves = f"<{lanes} x i{w}>", (both, text.let(f"getelementptr i8, ptr {both}, i64 {size}"))
        low, high = (ty + " zeroinitializer", f"{ty} {self._column(source.group, lanes)}")[:: 1 if source.up else -1]
        text.put(f"store {low}, ptr {halves[0]}, align 1")
        text.put(f"store {high}, ptr {halves[1]}, align 1")
        by = text.call("i64", "llvm.umin.i64", f"i64 {source.offset}", f"i64 {lanes}")
        first = self.ints.sub(64, str(lanes), by) if source.up else by
        return text.let(f"load {ty}, ptr {place(text, both, w, first)}, align 1")

    def _picked(self, source: Picked, lanes: int) -> str:
        text, o, w, index = self.text, self.ints, source.width, source.index
        if isinstance(index, Scalar):
            return self._column(Scalar(w, self._element(source.group, str(index.value))), lanes)  # type: ignore[arg-type]
        made = buffer(text, max(lanes * w // 8, 1))
        with each_number(text, self.vl()) as k:
            at = text.let(f"load i{index.width}, ptr {place(text, self._place(index.n), index.width, k)}, align 1")
            value = self._element(source.group, o.zext(64, index.width, at))
            text.put(f"store i{w} {value}, ptr {place(text, made, w, k)}")
        return text.let(f"load <{lanes} x i{w}>, ptr {made}, align 1")

    def _element(self, group: Group, index: str) -> str:
        """An element by its index; 0 behind the group's end."""
        text, o, w = self.text, self.ints, group.width
        inside = o.ult(64, index, str(vtype.elements(self.vlen, w, group.emul)))
        at = place(text, self._place(group.n), w, o.select(64, inside, index, "0"))
        return o.select(w, inside, text.let(f"load i{w}, ptr {at}, align 1"), "0")

    def _before(self, source: Before, lanes: int) -> str:
        text, o, w = self.text, self.ints, source.width
        total, made = buffer(text, 8, 1), buffer(text, max(lanes * w // 8, 1))
        text.put(f"store i64 0, ptr {total}")
        with each_number(text, self.vl()) as k:
            so_far = text.let(f"load i64, ptr {total}")
            text.put(f"store i{w} {o.trunc(w, 64, so_far)}, ptr {place(text, made, w, k)}")
            bit = self._bit(source.mask.n, k)
            if source.masked:
                bit = o.and_(1, bit, self._bit(V0.n, k))
            text.put(f"store i64 {o.add(64, so_far, o.zext(64, 1, bit))}, ptr {total}")
        return text.let(f"load <{lanes} x i{w}>, ptr {made}, align 1")

    def _bit(self, n: int, k: str) -> str:
        """One bit of a register."""
        o = self.ints
        byte = self.text.let(f"load i8, ptr {place(self.text, self._place(n), 8, o.lshr(64, k, '3'))}")
        return o.trunc(1, 8, o.lshr(8, byte, o.trunc(8, 64, o.and_(64, k, "7"))))

    def _numbers(self, lanes: int, width: int) -> str:
        return self.text.call(f"<{lanes} x i{width}>", f"llvm.stepvector.v{lanes}i{width}")

    def _active(self, masked: bool, lanes: int, count: str) -> str:
        """The lanes before number `count` that take part."""
        text = self.text
        w = 8 if lanes < 256 else 16
        ty = f"<{lanes} x i{w}>"
        low = count if not count.startswith("%") else text.let(f"trunc i64 {count} to i{w}")
        first = text.let(f"insertelement {ty} poison, i{w} {low}, i64 0")
        bound = text.let(f"shufflevector {ty} {first}, {ty} poison, <{lanes} x i32> zeroinitializer")
        active = text.let(f"icmp ult {ty} {self._numbers(lanes, w)}, {bound}")
        if masked:
            active = text.let(f"and <{lanes} x i1> {active}, {self._bits_of(V0.n, lanes)}")
        return active

    def v_map(
        self, dest: Place, sources: tuple[Source, ...], f: Callable[..., str], masked: bool, *, saturates: bool = False
    ) -> None:
        """dest[k] = f(o, elements k of the sources)."""
        text = self.text
        assert self._bits is not None
        found = vtype.parse(self._bits, self.vlen)
        assert found is not None
        lanes = found.vlmax
        active = self._active(masked, lanes, self.vl())
        o = self._lanes(lanes, active)
        computed = f(o, *[self._column(source, lanes) for source in sources])
        new = self._saturated(o, active, *computed) if saturates else computed
        old = self._column(dest, lanes)
        ty = f"<{lanes} x i{dest.width}>"
        new = text.let(f"select <{lanes} x i1> {active}, {ty} {new}, {ty} {old}")
        if isinstance(dest, Group):
            text.put(f"store {ty} {new}, ptr {self._place(dest.n)}, align 1")
            return
        bits, whole = text.let(f"bitcast {ty} {new} to i{lanes}"), max(lanes, 8)
        if lanes < whole:
            place = self._place(dest.n)
            kept = text.let(f"and i8 {text.let(f'load i8, ptr {place}')}, {256 - (1 << lanes)}")
            bits = text.let(f"or i8 {kept}, {text.let(f'zext i{lanes} {bits} to i8')}")
        text.put(f"store i{whole} {bits}, ptr {self._place(dest.n)}, align 1")

    def _saturated(self, o: Lanes, active: str, value: str, over: str) -> str:
        """The value, after noting where it is not what it should be."""
        text = self.text
        some = o.floats.any(o.ints.and_(1, active, over))
        sticky = text.let(f"or i64 {text.let('load i64, ptr %vxsat')}, {text.let(f'zext i1 {some} to i64')}")
        text.put(f"store i64 {sticky}, ptr %vxsat")
        return value

    def v_reduce(
        self,
        source: Group,
        start: Scalar,
        neutral: int,
        f: Callable[..., str],
        masked: bool,
        *,
        signed: bool = False,
    ) -> str:
        """Elements extended, halves of them combined until one is left, and that with `start`."""
        text, w = self.text, start.width
        lanes = vtype.elements(self.vlen, source.width, source.emul)
        active = self._active(masked, lanes, self.vl())
        o = self._lanes(lanes, active)
        value = self._column(source, lanes)
        value = o.sext(w, source.width, value) if signed else o.zext(w, source.width, value)
        value = o.select(w, active, value, o.const(w, neutral))
        while lanes > 1:
            ty, lanes = f"<{lanes} x i{w}>", lanes // 2
            parts = []
            for first in (0, lanes):
                numbers = ", ".join(f"i32 {first + k}" for k in range(lanes))
                parts.append(text.let(f"shufflevector {ty} {value}, {ty} poison, <{lanes} x i32> <{numbers}>"))
            value = f(self._lanes(lanes, "poison"), *parts)
        return f(self.ints, str(start.value), text.let(f"extractelement <1 x i{w}> {value}, i64 0"))

    def _lanes(self, lanes: int, active: str) -> Lanes:
        return Lanes(self.text, self.control, self.features, lanes, active)

    def _found(self, mask: Mask, masked: bool) -> tuple[str, str]:
        """The bits of a mask that take part as one number, and its type."""
        assert self._bits is not None
        found = vtype.parse(self._bits, self.vlen)
        assert found is not None
        lanes = found.vlmax
        active = self._active(masked, lanes, self.vl())
        bits = self.text.let(f"and <{lanes} x i1> {active}, {self._bits_of(mask.n, lanes)}")
        number = self.text.let(f"bitcast <{lanes} x i1> {bits} to i{lanes}")
        wide = max(lanes, 64)
        return (self.text.let(f"zext i{lanes} {number} to i{wide}") if lanes < wide else number), f"i{wide}"

    def v_count(self, mask: Mask, masked: bool) -> str:
        """How many bits are 1."""
        bits, ty = self._found(mask, masked)
        number = self.text.call(ty, f"llvm.ctpop.{ty}", f"{ty} {bits}")
        return self.ints.trunc(64, int(ty[1:]), number)

    def v_find(self, mask: Mask, masked: bool) -> str:
        """The number of the first bit that is 1."""
        bits, ty = self._found(mask, masked)
        number = self.text.call(ty, f"llvm.cttz.{ty}", f"{ty} {bits}", "i1 false")
        none = self.text.let(f"icmp eq {ty} {bits}, 0")
        return self.ints.select(64, none, "-1", self.ints.trunc(64, int(ty[1:]), number))

    def v_fold(self, source: Group, start: Scalar, f: Callable[..., str], masked: bool) -> str:
        """start = f(o, start, element k); a NaN becomes the canonical one behind the loop, unless nothing was done."""
        text, o = self.text, Scalars(self.text, self.control, "fma" in self.features)
        last, any_, ty = buffer(text, 8), buffer(text, 1), f"i{start.width}"
        text.put(f"store {ty} {start.value}, ptr {last}")
        text.put(f"store i8 0, ptr {any_}")
        with each_number(text, self.vl()) as k:
            on = text.fresh("next")
            if masked:
                taking_part = text.fresh("part")
                text.branch(self._bit(V0.n, k), taking_part, on)
                text.start(taking_part)
            w = source.width
            a = text.let(f"load i{w}, ptr {place(text, self._place(source.n), w, k)}, align 1")
            new = f(o, text.let(f"load {ty}, ptr {last}"), a)
            raw = o.representations.float_of[new]
            text.put(f"store {TYPE[raw.fmt]} {raw.name}, ptr {last}")
            text.put(f"store i8 1, ptr {any_}")
            text.put(f"br label %{on}")
            text.start(on)
        done = self.ints.trunc(1, 8, text.let(f"load i8, ptr {any_}"))
        total, kind = text.let(f"load {TYPE[raw.fmt]}, ptr {last}"), TYPE[raw.fmt]
        looked_at = text.let(f"select i1 {done}, {kind} {total}, {kind} 0.0")  # not at the start: that would signal
        bits = o.f_bits(raw.fmt, Held(raw.fmt, raw.kind, looked_at))
        return self.ints.select(start.width, done, bits, str(start.value))

    def v_compress(self, dest: Group, source: Group, which: Mask) -> None:
        """The elements that the mask `which` enables, one behind the other; each place is written until it is kept."""
        text, o, w = self.text, self.ints, dest.width
        kept = buffer(text, 8)
        text.put(f"store i64 0, ptr {kept}")
        with each_number(text, self.vl()) as k:
            so_far = text.let(f"load i64, ptr {kept}")
            value = text.let(f"load i{w}, ptr {place(text, self._place(source.n), w, k)}, align 1")
            at, enabled = place(text, self._place(dest.n), w, so_far), self._bit(which.n, k)
            old = text.let(f"load i{w}, ptr {at}, align 1")
            text.put(f"store i{w} {o.select(w, enabled, value, old)}, ptr {at}, align 1")
            text.put(f"store i64 {o.add(64, so_far, o.zext(64, 1, enabled))}, ptr {kept}")

    def v_first(self, group: Group) -> str:
        """Element 0."""
        return self.text.let(f"load i{group.width}, ptr {self._place(group.n)}, align 1")

    def v_set_first(self, group: Group, value: str) -> None:
        """Set element 0, unless vl is 0."""
        old = self.v_first(group)
        new = self.ints.select(group.width, self.ints.eq(64, self.vl(), "0"), old, value)
        self.text.put(f"store i{group.width} {new}, ptr {self._place(group.n)}, align 1")

    def v_copy(self, to: int, n: int, count: int) -> None:
        """`count` whole registers."""
        ty = f"<{count * self.vlen // 64} x i64>"
        text = self.text
        text.put(f"store {ty} {text.let(f'load {ty}, ptr {self._place(n)}, align 1')}, ptr {self._place(to)}, align 1")

    # -- memory

    def v_load(
        self, dest: Group, count: str, walk: Walk, masked: bool, *, fields: int = 1, first_fault: bool = False
    ) -> None:
        """Elements of memory into groups."""
        self._move(dest, count, walk, masked, fields, loads=True)

    def v_store(self, source: Group, count: str, walk: Walk, masked: bool, *, fields: int = 1) -> None:
        """Elements of groups into memory."""
        self._move(source, count, walk, masked, fields, loads=False)

    def _move(self, group: Group, count: str, walk: Walk, masked: bool, fields: int, loads: bool) -> None:
        """All elements at once where they are neighbours, else one after the other."""
        lanes = vtype.elements(self.vlen, group.width, group.emul)
        if lanes > MOST_LANES or lanes * group.width // 8 > MOST_BYTES:
            raise IllegalInstruction("left to the reference engine")
        neighbours = isinstance(walk.offsets, Index) and walk.step == fields * group.width // 8
        if neighbours and fields > 1 and lanes * fields * group.width // 8 <= MOST_BYTES and not masked:
            self._move_segments(group, count, walk, fields, loads)
        elif not neighbours or fields > 1 or (masked and not self._masks(group.width)):
            self._move_each(group, count, walk, masked, fields, loads)
        else:
            self._move_at_once(group, count, walk, masked, lanes, loads)

    def _masks(self, width: int) -> bool:
        """Whether elements of so many bits are accessed at once where a mask enables them."""
        return self.memory.looks is None and self.memory.notes is None and (width >= 32 or "avx512bw" in self.features)

    def _move_each(self, group: Group, count: str, walk: Walk, masked: bool, fields: int, loads: bool) -> None:
        """Each element with its check; at a miss the reference engine goes on there, as vstart tells it.

        What looks at accesses sees a segment as a whole: one that is left has not been looked at in parts.
        """
        text, o, w = self.text, self.ints, group.width
        start = self._word(state.VSTART)
        with each_number(text, count) as k:
            on = text.fresh("next")
            if masked:
                taking_part = text.fresh("part")
                text.branch(self._bit(V0.n, k), taking_part, on)
                text.start(taking_part)
            text.put(f"store i64 {k}, ptr {start}")
            offset = k
            if isinstance(walk.offsets, Group):
                index = walk.offsets
                offset = text.let(
                    f"load i{index.width}, ptr {place(text, self._place(index.n), index.width, k)}, align 1"
                )
                offset = o.zext(64, index.width, offset)
            address, segment = o.add(64, str(walk.base), o.mul(64, offset, str(walk.step))), ""
            if fields > 1 and (self.memory.looks is not None or self.memory.notes is not None):
                segment = self._pointer(address, str(fields), w, "loads" if loads else "stores")
                self._look_at(w, segment, address, str(fields), 0, loads)
            for field in range(fields):
                at = o.add(64, address, str(field * w // 8))
                own = place(text, self._place(group.n + field * group.registers), w, k)
                if segment:
                    there = place(text, segment, w, str(field))
                    source, target = (there, own) if loads else (own, there)
                    value = text.let(f"load volatile i{w}, ptr {source}, align 1")
                    text.put(f"store volatile i{w} {value}, ptr {target}, align 1")
                elif loads:
                    text.put(f"store i{w} {self.memory.load(w, at)}, ptr {own}, align 1")
                else:
                    self.memory.store(w, at, text.let(f"load i{w}, ptr {own}, align 1"))
            text.put(f"br label %{on}")
            text.start(on)
        text.put(f"store i64 0, ptr {start}")

    def _move_segments(self, group: Group, count: str, walk: Walk, fields: int, loads: bool) -> None:
        """Packed segments, one after the other, behind one check of them all."""
        text, w = self.text, group.width
        total = self.ints.mul(64, count, str(fields))
        pointer = self._pointer(str(walk.base), total, w, "loads" if loads else "stores")
        self._look_at(w, pointer, str(walk.base), total, 0, loads)
        text.put('fence syncscope("singlethread") seq_cst')
        with each_number(text, count) as k:
            first = text.let(f"mul i64 {k}, {fields}")
            for field in range(fields):
                there = place(text, pointer, w, text.let(f"add i64 {first}, {field}"))
                own = place(text, self._place(group.n + field * group.registers), w, k)
                source, target = (there, own) if loads else (own, there)
                text.put(f"store i{w} {text.let(f'load i{w}, ptr {source}, align 1')}, ptr {target}, align 1")
        text.put('fence syncscope("singlethread") seq_cst')

    def _move_at_once(self, group: Group, count: str, walk: Walk, masked: bool, lanes: int, loads: bool) -> None:
        """One access of neighbouring elements: all of them, or those of a mask."""
        text, w = self.text, group.width
        pointer = self._pointer(str(walk.base), count, w, "loads" if loads else "stores")
        self._look_at(w, pointer, str(walk.base), count, lanes, loads)
        ty, own = f"<{lanes} x i{w}>", self._place(group.n)
        whole, part, join = text.fresh("whole"), text.fresh("part"), text.fresh("on")
        full = "false" if masked else text.let(f"icmp eq i64 {count}, {lanes}")
        text.put('fence syncscope("singlethread") seq_cst')
        text.branch(full, whole, part)
        text.start(whole)
        source, target = (pointer, own) if loads else (own, pointer)
        text.put(f"store {ty} {text.let(f'load {ty}, ptr {source}, align 1')}, ptr {target}, align 1")
        text.put(f"br label %{join}")
        text.start(part)
        if w < 32 and "avx512bw" not in self.features:
            self._move_each(group, count, walk, masked, 1, loads)
        else:
            active, mask = self._active(masked, lanes, count), f"<{lanes} x i1>"
            old = text.let(f"load {ty}, ptr {own}, align 1")
            at = f"ptr align {w // 8} {pointer}"
            if loads:
                name, operands = f"llvm.masked.load.v{lanes}i{w}.p0", (at, f"{mask} {active}", f"{ty} {old}")
                text.put(f"store {ty} {text.call(ty, name, *operands)}, ptr {own}, align 1")
            else:
                text.call_void(f"llvm.masked.store.v{lanes}i{w}.p0", f"{ty} {old}", at, f"{mask} {active}")
        text.put(f"br label %{join}")
        text.start(join)
        text.put('fence syncscope("singlethread") seq_cst')

    def _look_at(self, w: int, pointer: str, address: str, count: str, most: int, loads: bool) -> None:
        """Let what looks at accesses, and keeps account of stores, know of `count` neighbouring elements."""
        looks, notes = self.memory.looks, None if loads else self.memory.notes
        begun = "" if notes is None else notes.begin(pointer)
        if looks is not None:
            looks.many("read" if loads else "write", w, pointer, address, count, most)
        if notes is not None:
            notes.many(w, pointer, count, begun)

    def _pointer(self, base: str, count: str, w: int, table: str) -> str:
        """Where an access of `count` neighbouring elements begins, which lies in memory as a whole."""
        text, o = self.text, self.ints
        self.control.side(o.eq(64, count, "0"))
        size = w // 8
        if size > 1:
            self.control.side(o.ne(64, o.and_(64, base, str(size - 1)), "0"))
        last = o.add(64, base, o.sub(64, o.mul(64, count, str(size)), "1"))
        beyond = o.lshr(64, o.or_(64, base, last), "32")
        self.control.side(o.ne(64, beyond, "0"))
        addends = []
        for address in (base, last):
            slot = text.let(f"getelementptr i64, ptr %{table}, i64 {o.lshr(64, address, '12')}")
            addends.append(text.let(f"load i64, ptr {slot}"))
        self.control.side(o.eq(64, addends[0], "0"))
        self.control.side(o.ne(64, *addends))
        return text.let(f"inttoptr i64 {o.add(64, addends[0], base)} to ptr")
