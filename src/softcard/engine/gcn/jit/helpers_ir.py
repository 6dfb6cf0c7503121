"""The vector helpers of translated code, compiled once for each host: gathers, broadcasts, contiguous vectors.

A helper returns 0 if it has executed the access. Otherwise it returns 1, and the reference engine repeats the access
for the lanes of this vector. In that case the helper has had no effect that cannot be repeated.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.memory import COLUMNS, SIZE, START, STORES
from softcard.ir.builder import Text, vector_width
from softcard.ir.native import LateText
from softcard.ir.operand import Operand
from softcard.ir.translator import translator_key
from softcard.isa.gcn import state

BASES: Final = {
    "lds": (state.LDS_BASE, state.LDS_SIZE),
    "gds": (layout.GDS_BASE, layout.GDS_SIZE),
}


class _Helper(Text):
    """The emitter of one load or store helper."""

    def __init__(self, kind: str, space: str, bits: int, lanes: int) -> None:
        super().__init__()
        self.kind, self.space, self.bits, self.lanes = kind, space, bits, lanes
        self.store = kind == "store"
        self.w = 64 if space in ("global", "flat") else 32
        self.count = max(1, bits // 32)
        self.bytes = bits // 8
        self.vector = f"<{lanes} x i32>"
        self.wide = f"<{lanes} x i{self.w}>"
        self.long = f"<{lanes} x i64>"
        self.result = "i64" if self.store else "{ " + ", ".join([self.vector] * self.count) + ", i64 }"
        data = "".join(f", {self.vector} %d{k}" for k in range(self.count)) if self.store else ""
        cache = ", ptr %cache" if layout.remembers(space) else ""
        self.parameters = f"ptr %st, {self.wide} %a, i{lanes} %m, i64 %sh{cache}{data}"
        self.addresses = self.operand(self.wide, "%a")
        self.mask = self.operand(f"i{lanes}", "%m")
        self.active = self.operand(f"<{lanes} x i1>", "%lanes")

    def splat(self, kind: str, ir: Operand) -> Operand:
        one = self.operand(f"<{self.lanes} x {kind}>", "poison").with_lane(0, ir)
        return self.shuffle(one, f"<{self.lanes} x i32> zeroinitializer")

    def wave_word(self, index: int) -> Operand:
        """Emit the load of a word of the wave's state."""
        return self.pointer("%st").offset(state.WORDS_AT + 8 * index).load("i64")

    def give(self, values: list[Operand], status: Operand) -> None:
        """Emit the return of the helper: the loaded values, if it is a load, and a status."""
        if self.store:
            self.ret(status)
            return
        made = self.operand(self.result, "poison")
        for k, value in enumerate(values):
            made = made.with_field(k, value)
        self.ret(made.with_field(self.count, status))

    def zeros(self) -> list[Operand]:
        return [self.constant(self.vector, 0)] * self.count

    def definition(self) -> str:
        self.lines = [f"define {self.result} @{self.kind}_{self.space}_{self.bits}({self.parameters}) #0 {{", "entry:"]
        self.branch(self.named("%none", self.mask.eq(0)), "empty", "some")
        self.start("empty")
        self.give(self.zeros(), self.word(0))
        self.start("some")
        self.named("%lanes", self.mask.bitcast(f"<{self.lanes} x i1>"))
        if self.space in ("global", "flat"):
            self.plain()
        else:
            self.local()
        self.by_lane()
        return "\n".join([*self.lines, "}", ""])

    def plain(self) -> None:
        """Emit the access of lanes in one range of plain memory: a broadcast, a contiguous access, or a gather.

        Flat addresses in an aperture are never in such a range, because no memory can be mapped in an aperture."""
        m = self.mask.zext("i64")
        lane = self.invoke("i64", "@llvm.cttz.i64", m, self.constant("i1", 1))
        first = self.addresses.lane(lane)
        none = self.word("ptrtoint (ptr @nothing to i64)")
        found = self.invoke("i64", "@page_row", self.wave_word(layout.TABLES), first, none)
        row = found.inttoptr()
        addend = row.load("i64")
        start = row.element("i64", START).load("i64")
        size = row.element("i64", STORES if self.store else SIZE).load("i64")
        limit = self.invoke("i64", "@llvm.usub.sat.i64", size, max(self.bytes, 4) - 1)
        around = self.dwords()
        offsets = around - self.splat("i64", start)
        self.unless(offsets >= self.splat("i64", limit))
        self.remember(start, size, addend)
        if self.bits < 32 and self.store:
            self.jump("slowly")
            return
        places = around + self.splat("i64", addend)
        pointers = places.inttoptr(f"<{self.lanes} x ptr>")
        if self.bits < 32:
            self.gather(pointers, self.active)
            return
        if not self.store:
            self.uniform((first + addend).inttoptr(), first)
        if self.count > 1:
            self.side_by_side(pointers)
        elif self.store:
            self.jump("gathered")
        self.start("gathered")
        self.gather(pointers, self.active)

    def remember(self, start: Operand, size: Operand, addend: Operand) -> None:
        """Emit an update of the access's inline cache, if there is one, with a range of memory.

        `start` is the first guest address of the range, `size` its bytes, and `addend` its host minus guest address.
        """
        self.named("%forgets", self.pointer("%cache").eq(self.operand("ptr", "null")))
        self.branch(self.operand("i1", "%forgets"), "known", "learns")
        self.start("learns")
        limit = self.invoke("i64", "@llvm.usub.sat.i64", size, 4 * self.lanes - 1)
        for k, word in enumerate((start, limit, addend)):
            self.pointer("%cache").element("i64", k).store(word)
        self.jump("known")
        self.start("known")

    def dwords(self) -> Operand:
        """Emit the addresses of the aligned dwords that contain the accessed bytes or halfwords.

        A byte is on the same page as the dword that contains it."""
        return self.addresses if self.bits >= 32 else (self.addresses & -4)

    def unless(self, outside: Operand) -> None:
        """Emit a branch to the lane-by-lane path, taken if an active lane is in the mask `outside`.

        The branch is also taken if the halfword of an active lane spans two dwords."""
        bits = f"<{self.lanes} x i1>"
        if self.bits == 16:
            last = self.addresses & 3
            across = last.eq(3)
            outside = outside | across
        wrong = (outside & self.operand(bits, self.active)).bitcast(f"i{self.lanes}")
        self.branch(wrong.eq(0), "inside", "slowly")
        self.start("inside")

    def uniform(self, pointer: Operand, first: Operand) -> None:
        """Emit one load for all lanes, for the case that all of them have the guest address `first`.

        `pointer` is the host address of that memory."""
        differs = self.addresses.ne(self.splat(f"i{self.w}", first))
        bits = (differs & self.active).bitcast(f"i{self.lanes}")
        many = "abreast" if self.count > 1 and self.w == 64 else "gathered"
        self.branch(bits.eq(0), "same", many)
        self.start("same")
        values = []
        for k in range(self.count):
            one = pointer.element("i32", k).load("i32", align=1)
            values.append(self.splat("i32", one))
        self.give(values, self.word(0))

    def side_by_side(self, pointers: Operand) -> None:
        """Emit one access of contiguous memory, for the case that all lanes are active and contiguous.

        The dwords of lanes are interleaved: vectors have one dword of each lane, memory has all dwords of a lane
        together.
        """
        if self.store:
            self.jump("abreast")
        self.start("abreast")
        base = self.addresses.lane(0)
        apart = self.addresses - self.splat("i64", base)
        steps = ", ".join(f"i64 {self.bytes * lane}" for lane in range(self.lanes))
        same = apart.eq(self.operand(self.wide, f"<{steps}>")).bitcast(f"i{self.lanes}")
        both = same & self.mask
        self.branch(both.eq(-1), "together", "gathered")
        self.start("together")
        pointer = pointers.lane(0)
        if self.store:
            pointer.store(self.interleaved(), align=1)
            self.give([], self.word(0))
            return
        whole = pointer.load(f"<{self.count * self.lanes} x i32>", align=1)
        self.give(self.transposed(whole), self.word(0))

    def interleaved(self) -> Operand:
        """Return the data of a store in one vector, with all dwords of a lane together."""
        total = self.count * self.lanes
        order = ", ".join(f"i32 {j // self.count}" for j in range(total))
        lines = [
            self.shuffle(self.operand(self.vector, f"%d{k}"), f"<{total} x i32> <{order}>") for k in range(self.count)
        ]
        made = lines[0]
        for k, other in enumerate(lines[1:], 1):
            mask = ", ".join(f"i1 {str(j % self.count == k).lower()}" for j in range(total))
            made = self.operand(f"<{total} x i1>", f"<{mask}>").select(other, made)
        return made

    def transposed(self, whole: Operand) -> list[Operand]:
        """Return vectors with one dword of each lane, from a vector with all dwords of a lane together."""
        values = []
        for k in range(self.count):
            order = ", ".join(f"i32 {self.count * lane + k}" for lane in range(self.lanes))
            values.append(self.shuffle(whole, f"{self.vector} <{order}>"))
        return values

    def gather(self, pointers: Operand, mask: Operand) -> None:
        """Emit a gather (load) or a scatter (store) of the lanes in a mask, at host addresses `pointers`."""
        values = []
        if self.count > 1 and self.store:
            self.lane_after_lane(pointers, mask)
        elif self.count > 1:
            values = self.loaded_rows(pointers, mask)
        elif self.store:
            self.scatter(self.operand(self.vector, "%d0"), pointers, mask, align=1)
        else:
            found = self.gathered(self.vector, pointers, mask, align=1)
            values = [found if self.bits >= 32 else self.part(found)]
        self.give(values, self.word(0))

    def loaded_rows(self, pointers: Operand, mask: Operand) -> list[Operand]:
        """Emit one load of all dwords for each lane; return vectors with one dword of each lane.

        Lanes outside of the mask load zeros. The loads and the transposition take less time than gathers."""
        nothing = self.splat("ptr", self.operand("ptr", "@nothing"))
        places = mask.select(pointers, nothing)
        rows, count = (
            [places.lane(lane).load(f"<{self.count} x i32>", align=1) for lane in range(self.lanes)],
            self.count,
        )
        while len(rows) > 1:
            count *= 2
            both = ", ".join(f"i32 {n}" for n in range(count))
            rows = [self.shuffle(a, f"<{count} x i32> <{both}>", b) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        return self.transposed(rows[0])

    def part(self, dwords: Operand) -> Operand:
        """Emit the extraction, with zero extension, of bytes or halfwords from `dwords`, which contain them."""
        low = self.addresses if self.w == 32 else self.addresses.trunc(self.vector)
        shift = (low & 3) << 3
        moved = dwords >> shift
        return moved & (1 << self.bits) - 1

    def lane_after_lane(self, pointers: Operand, mask: Operand) -> None:
        """Emit stores of one lane after the other, from the lowest lane on.

        Where stores overlap, the highest lane's dwords therefore remain.
        """
        whole = self.interleaved()
        self.variable("%rows", whole.type, ", align 64")
        self.variable("%places", self.long, ", align 64")
        self.pointer("%places").store(pointers, align=64)
        self.pointer("%rows").store(whole, align=64)
        bits = mask.bitcast(f"i{self.lanes}").zext("i64")
        rows, places = self.pointer("%rows").ptrtoint(), self.pointer("%places").ptrtoint()
        self.invoke("i64", "@in_order", self.bytes, places, rows, bits)

    def local(self) -> None:
        """Emit an access of LDS or GDS: lanes past its end read 0 and store nothing."""
        base, size = BASES[self.space]
        if self.bits < 32 and self.store:
            self.jump("slowly")
            return
        start = self.wave_word(base).inttoptr()
        limit = self.invoke("i64", "@llvm.usub.sat.i64", self.wave_word(size), max(self.bytes, 4) - 1)
        narrow = limit.trunc("i32")
        if self.bits < 32:
            around = self.dwords()
            self.unless(around >= self.splat("i32", narrow))
            long = around.zext(self.long)
            self.gather(start.offset(long), self.active)
            return
        inside = self.addresses < self.splat("i32", narrow)
        here = inside & self.active
        self.leave_where_checked(here)
        long = self.addresses.zext(self.long)
        pointers = start.offset(long)
        if not self.store:
            m = self.mask.zext("i64")
            lane = self.invoke("i64", "@llvm.cttz.i64", m, self.constant("i1", 1))
            first = self.addresses.lane(lane)
            ok = first < narrow
            self.branch(ok, "maybe", "gathered")
            self.start("maybe")
            offset = first.zext("i64")
            self.uniform(start.offset(offset), first)
        else:
            self.jump("gathered")
        self.start("gathered")
        self.gather(pointers, here)

    def leave_where_checked(self, here: Operand) -> None:
        """Emit the exit that the memory check needs for accesses past the end of LDS.

        If the check reports such accesses, the helper returns to the reference engine when a lane is not in `here`,
        the mask of lanes inside LDS. The code also records the access if the launch asks for that."""
        within = here.bitcast(f"i{self.lanes}")
        beyond = within.ne(self.mask)
        wanted = self.wave_word(layout.CHECKED).ne(0)
        self.branch(beyond & wanted, "beyond", "untold")
        self.start("beyond")
        self.note_beyond(within ^ self.mask)
        checked = self.wave_word(layout.CHECKED).eq(layout.REPORTED)
        self.branch(checked, "told", "untold")
        self.start("told")
        self.give(self.zeros(), self.word(1))
        self.start("untold")

    def note_beyond(self, outside: Operand) -> None:
        """Emit code that records an access past the end of LDS by one of the lanes `outside`.

        At run time, nothing is recorded unless the launch asks for it."""
        if self.space != "lds":
            return
        # The largest offset: selecting one lane by number would give the whole function a stack frame.
        lanes = outside.bitcast(f"<{self.lanes} x i1>")
        offsets = lanes.select(self.addresses, 0)
        largest = self.invoke("i32", f"@llvm.vector.reduce.umax.v{self.lanes}i32", offsets)
        offset = largest.zext("i64")
        what = self.bytes << state.NOTE_SIZE | int(self.store) << state.NOTE_STORE
        cell = self.wave_word(state.LDS_NOTE)
        self.branch(cell.eq(0), "unnoted", "noted")
        self.start("noted")
        pointer = cell.inttoptr()
        pointer.store(offset | what)
        self.jump("unnoted")
        self.start("unnoted")

    def by_lane(self) -> None:
        """Emit the slow path, which accesses memory lane by lane."""
        if not any("%slowly" in line for line in self.lines):
            return
        self.start("slowly")
        rows = self.count * self.lanes
        self.variable("%where", self.long, ", align 64")
        self.variable("%data", f"[{rows} x i32]", ", align 64")
        addresses = self.addresses if self.w == 64 else self.addresses.zext(self.long)
        self.pointer("%where").store(addresses, align=64)
        for k in range(self.count):
            at = self.pointer("%data").element("i32", k * self.lanes)
            at.store(self.operand(self.vector, f"%d{k}" if self.store else "zeroinitializer"), align=4)
        m = self.mask.zext("i64")
        places = [self.pointer(name).ptrtoint() for name in ("%st", "%where", "%data")]
        numbers: list[Operand | int] = [
            places[0],
            layout.SPACES.index(self.space),
            int(self.store),
            self.bytes,
            *places[1:],
            m,
            self.word("%sh"),
        ]
        status = self.invoke("i64", "@by_lane", *numbers, self.lanes)
        values = []
        for k in range(0 if self.store else self.count):
            at = self.pointer("%data").element("i32", k * self.lanes)
            values.append(at.load(self.vector, align=4))
        self.give(values, status)


def helpers(lanes: int) -> LateText:
    """Return the text of the helpers for vectors of `lanes` lanes. They call functions of `native_memory`.

    The text is generated only if no compiled helpers are cached, since that takes longer than the look-up."""
    return LateText(f"helpers {translator_key().hex()} {lanes}", partial(_text, lanes))


def _text(lanes: int) -> str:
    parts = [f"@nothing = internal constant [{COLUMNS} x i64] zeroinitializer\n"]
    for space in layout.SPACES:
        for kind in ("load", "store"):
            parts += [_Helper(kind, space, bits, lanes).definition() for bits in layout.WIDTHS]
    vector = f"<{lanes} x i32>"
    parts.append(
        f"declare {vector} @llvm.masked.gather.v{lanes}i32.v{lanes}p0(<{lanes} x ptr>, <{lanes} x i1>, {vector})\n"
        f"declare void @llvm.masked.scatter.v{lanes}i32.v{lanes}p0({vector}, <{lanes} x ptr>, <{lanes} x i1>)\n"
        "declare i64 @llvm.usub.sat.i64(i64, i64)\n"
        f"declare i32 @llvm.vector.reduce.umax.v{lanes}i32({vector})\n"
        f"attributes #0 = {{ nounwind {vector_width(lanes)} }}\n"
    )
    return "\n".join(parts)
