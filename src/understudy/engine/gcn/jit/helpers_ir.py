"""Vector helpers of translated code, compiled once per host: gathers, broadcasts, whole vectors taken apart.

All give 0 where they did their work, else 1, and then nothing that could not be done again has happened: the reference
engine repeats the access for the lanes of this chunk.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.memory import COLUMNS, SIZE, START, STORES
from understudy.ir.builder import vector_width
from understudy.isa.gcn import state

BASES: Final = {
    "lds": (state.LDS_BASE, state.LDS_SIZE),
    "gds": (layout.GDS_BASE, layout.GDS_SIZE),
}


class _Helper:
    """One load or store helper being written."""

    def __init__(self, kind: str, space: str, bits: int, lanes: int) -> None:
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
        self.lines: list[str] = []
        self.n = 0

    def let(self, line: str) -> str:
        self.n += 1
        self.lines.append(f"  %t{self.n} = {line}")
        return f"%t{self.n}"

    def put(self, line: str) -> None:
        self.lines.append("  " + line)

    def splat(self, kind: str, name: str) -> str:
        one = self.let(f"insertelement <{self.lanes} x {kind}> poison, {kind} {name}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.let(f"shufflevector <{self.lanes} x {kind}> {one}, <{self.lanes} x {kind}> poison, {zeros}")

    def word(self, index: int) -> str:
        """A word of the wave."""
        return self.let(f"load i64, ptr {self.let(f'getelementptr i8, ptr %st, i64 {state.WORDS_AT + 8 * index}')}")

    def give(self, values: list[str], status: str) -> None:
        """Return."""
        if self.store:
            self.put(f"ret i64 {status}")
            return
        made = "poison"
        for k, value in enumerate(values):
            made = self.let(f"insertvalue {self.result} {made}, {self.vector} {value}, {k}")
        made = self.let(f"insertvalue {self.result} {made}, i64 {status}, {self.count}")
        self.put(f"ret {self.result} {made}")

    def text(self) -> str:
        self.lines = [f"define {self.result} @{self.kind}_{self.space}_{self.bits}({self.parameters}) #0 {{", "entry:"]
        self.put(f"%none = icmp eq i{self.lanes} %m, 0")
        self.put("br i1 %none, label %empty, label %some")
        self.lines.append("empty:")
        self.give(["zeroinitializer"] * self.count, "0")
        self.lines.append("some:")
        self.put(f"%lanes = bitcast i{self.lanes} %m to <{self.lanes} x i1>")
        if self.space in ("global", "flat"):
            self.plain()
        else:
            self.local()
        self.by_lane()
        return "\n".join([*self.lines, "}", ""])

    def plain(self) -> None:
        """All lanes in one run of memory: broadcast, side by side, or gathered.

        The flat apertures lie where memory cannot be: their lanes are in no run.
        """
        m = self.let(f"zext i{self.lanes} %m to i64")
        lane = self.let(f"call i64 @llvm.cttz.i64(i64 {m}, i1 true)")
        first = self.let(f"extractelement {self.wide} %a, i64 {lane}")
        none = "ptrtoint (ptr @nothing to i64)"
        found = self.let(f"call i64 @page_row(i64 {self.word(layout.TABLES)}, i64 {first}, i64 {none})")
        row = self.let(f"inttoptr i64 {found} to ptr")
        addend = self.let(f"load i64, ptr {row}")
        start = self.let(f"load i64, ptr {self.let(f'getelementptr i64, ptr {row}, i64 {START}')}")
        size = self.let(
            f"load i64, ptr {self.let(f'getelementptr i64, ptr {row}, i64 {STORES if self.store else SIZE}')}"
        )
        limit = self.let(f"call i64 @llvm.usub.sat.i64(i64 {size}, i64 {max(self.bytes, 4) - 1})")
        around = self.dwords()
        offsets = self.let(f"sub {self.wide} {around}, {self.splat('i64', start)}")
        self.unless(self.let(f"icmp uge {self.wide} {offsets}, {self.splat('i64', limit)}"))
        self.remember(start, size, addend)
        if self.bits < 32 and self.store:
            self.put("br label %slowly")
            return
        places = self.let(f"add {self.wide} {around}, {self.splat('i64', addend)}")
        pointers = self.let(f"inttoptr {self.wide} {places} to <{self.lanes} x ptr>")
        if self.bits < 32:
            self.gather(pointers, "%lanes")
            return
        if not self.store:
            self.uniform(self.let(f"inttoptr i64 {self.let(f'add i64 {first}, {addend}')} to ptr"), first)
        if self.count > 1:
            self.side_by_side(pointers)
        elif self.store:
            self.put("br label %gathered")
        self.lines.append("gathered:")
        self.gather(pointers, "%lanes")

    def remember(self, start: str, size: str, addend: str) -> None:
        """Have the access's inline cache know this run."""
        self.put("%forgets = icmp eq ptr %cache, null")
        self.put("br i1 %forgets, label %known, label %learns")
        self.lines.append("learns:")
        limit = self.let(f"call i64 @llvm.usub.sat.i64(i64 {size}, i64 {4 * self.lanes - 1})")
        for k, word in enumerate((start, limit, addend)):
            self.put(f"store i64 {word}, ptr {self.let(f'getelementptr i64, ptr %cache, i64 {k}')}")
        self.put("br label %known")
        self.lines.append("known:")

    def dwords(self) -> str:
        """Of bytes and halfwords the addresses of the aligned dwords that they lie in, which are on the same pages."""
        return "%a" if self.bits >= 32 else self.let(f"and {self.wide} %a, splat (i{self.w} -4)")

    def unless(self, outside: str) -> None:
        """Go on where no active lane is `outside`, and none has a halfword that is in two dwords; else lane by lane."""
        bits = f"<{self.lanes} x i1>"
        if self.bits == 16:
            last = self.let(f"and {self.wide} %a, splat (i{self.w} 3)")
            across = self.let(f"icmp eq {self.wide} {last}, splat (i{self.w} 3)")
            outside = self.let(f"or {bits} {outside}, {across}")
        wrong = self.let(f"bitcast {bits} {self.let(f'and {bits} {outside}, %lanes')} to i{self.lanes}")
        self.put(f"br i1 {self.let(f'icmp eq i{self.lanes} {wrong}, 0')}, label %inside, label %slowly")
        self.lines.append("inside:")

    def uniform(self, pointer: str, first: str) -> None:
        """One read for all lanes."""
        differs = self.let(f"icmp ne {self.wide} %a, {self.splat(f'i{self.w}', first)}")
        bits = self.let(
            f"bitcast <{self.lanes} x i1> {self.let(f'and <{self.lanes} x i1> {differs}, %lanes')} to i{self.lanes}"
        )
        many = "abreast" if self.count > 1 and self.w == 64 else "gathered"
        self.put(f"br i1 {self.let(f'icmp eq i{self.lanes} {bits}, 0')}, label %same, label %{many}")
        self.lines.append("same:")
        values = []
        for k in range(self.count):
            one = self.let(f"load i32, ptr {self.let(f'getelementptr i32, ptr {pointer}, i64 {k}')}, align 1")
            values.append(self.splat("i32", one))
        self.give(values, "0")

    def side_by_side(self, pointers: str) -> None:
        """All lanes active, each behind the one before: whole vectors, taken apart or put together."""
        if self.store:
            self.put("br label %abreast")
        self.lines.append("abreast:")
        base = self.let(f"extractelement {self.wide} %a, i64 0")
        apart = self.let(f"sub {self.wide} %a, {self.splat('i64', base)}")
        steps = ", ".join(f"i64 {self.bytes * lane}" for lane in range(self.lanes))
        same = self.let(
            f"bitcast <{self.lanes} x i1> {self.let(f'icmp eq {self.wide} {apart}, <{steps}>')} to i{self.lanes}"
        )
        both = self.let(f"and i{self.lanes} {same}, %m")
        self.put(f"br i1 {self.let(f'icmp eq i{self.lanes} {both}, -1')}, label %together, label %gathered")
        self.lines.append("together:")
        pointer = self.let(f"extractelement <{self.lanes} x ptr> {pointers}, i64 0")
        total = self.count * self.lanes
        if self.store:
            whole = f"<{total} x i32>"
            lines = [
                self.let(f"shufflevector {self.vector} %d{k}, {self.vector} poison, <{total} x i32> <{self.spread(k)}>")
                for k in range(self.count)
            ]
            made = lines[0]
            for k, other in enumerate(lines[1:], 1):
                mask = ", ".join(f"i1 {str(j % self.count == k).lower()}" for j in range(total))
                made = self.let(f"select <{total} x i1> <{mask}>, {whole} {other}, {whole} {made}")
            self.put(f"store {whole} {made}, ptr {pointer}, align 1")
            self.give([], "0")
            return
        whole = self.let(f"load <{total} x i32>, ptr {pointer}, align 1")
        values = []
        for k in range(self.count):
            order = ", ".join(f"i32 {self.count * lane + k}" for lane in range(self.lanes))
            values.append(
                self.let(f"shufflevector <{total} x i32> {whole}, <{total} x i32> poison, {self.vector} <{order}>")
            )
        self.give(values, "0")

    def spread(self, k: int) -> str:
        """Lane j / count at every place j."""
        return ", ".join(f"i32 {j // self.count}" for j in range(self.count * self.lanes))

    def gather(self, pointers: str, mask: str) -> None:
        """Each lane from its own place."""
        kind = f"<{self.lanes} x ptr>"
        if self.store and self.count > 1:
            self.lane_after_lane(pointers, mask)
            return
        values = []
        for k in range(self.count):
            at = pointers if not k else self.let(f"getelementptr i32, {kind} {pointers}, i64 {k}")
            if self.store:
                self.put(
                    f"call void @llvm.masked.scatter.v{self.lanes}i32.v{self.lanes}p0"
                    f"({self.vector} %d{k}, {kind} align 1 {at}, <{self.lanes} x i1> {mask})"
                )
            else:
                found = self.let(
                    f"call {self.vector} @llvm.masked.gather.v{self.lanes}i32.v{self.lanes}p0"
                    f"({kind} align 1 {at}, <{self.lanes} x i1> {mask}, {self.vector} zeroinitializer)"
                )
                values.append(found if self.bits >= 32 else self.part(found))
        self.give(values, "0")

    def part(self, dwords: str) -> str:
        """Of the dwords around bytes and halfwords these, zero-extended."""
        low = "%a" if self.w == 32 else self.let(f"trunc {self.wide} %a to {self.vector}")
        shift = self.let(f"shl {self.vector} {self.let(f'and {self.vector} {low}, splat (i32 3)')}, splat (i32 3)")
        moved = self.let(f"lshr {self.vector} {dwords}, {shift}")
        return self.let(f"and {self.vector} {moved}, splat (i32 {(1 << self.bits) - 1})")

    def lane_after_lane(self, pointers: str, mask: str) -> None:
        """Store whole lanes, lowest first: where they overlap, the highest one's dwords stay."""
        self.put(f"%rows = alloca [{self.count * self.lanes} x i32], align 64")
        self.put(f"%places = alloca {self.long}, align 64")
        self.put(f"store <{self.lanes} x ptr> {pointers}, ptr %places, align 64")
        for k in range(self.count):
            at = self.let(f"getelementptr i32, ptr %rows, i64 {k * self.lanes}")
            self.put(f"store {self.vector} %d{k}, ptr {at}, align 4")
        bits = self.let(f"zext i{self.lanes} {self.let(f'bitcast <{self.lanes} x i1> {mask} to i{self.lanes}')} to i64")
        rows, places = self.let("ptrtoint ptr %rows to i64"), self.let("ptrtoint ptr %places to i64")
        self.put(f"call i64 @in_order(i64 {self.bytes}, i64 {places}, i64 {rows}, i64 {bits}, i64 {self.lanes})")
        self.give([], "0")

    def local(self) -> None:
        """LDS or GDS: lanes beyond its end read 0 and store nothing."""
        base, size = BASES[self.space]
        if self.bits < 32 and self.store:
            self.put("br label %slowly")
            return
        start = self.let(f"inttoptr i64 {self.word(base)} to ptr")
        limit = self.let(f"call i64 @llvm.usub.sat.i64(i64 {self.word(size)}, i64 {max(self.bytes, 4) - 1})")
        narrow = self.let(f"trunc i64 {limit} to i32")
        if self.bits < 32:
            around = self.dwords()
            self.unless(self.let(f"icmp uge {self.wide} {around}, {self.splat('i32', narrow)}"))
            long = self.let(f"zext {self.wide} {around} to {self.long}")
            self.gather(self.let(f"getelementptr i8, ptr {start}, {self.long} {long}"), "%lanes")
            return
        inside = self.let(f"icmp ult {self.wide} %a, {self.splat('i32', narrow)}")
        here = self.let(f"and <{self.lanes} x i1> {inside}, %lanes")
        self.leave_where_checked(here)
        long = self.let(f"zext {self.wide} %a to {self.long}")
        pointers = self.let(f"getelementptr i8, ptr {start}, {self.long} {long}")
        if not self.store:
            m = self.let(f"zext i{self.lanes} %m to i64")
            lane = self.let(f"call i64 @llvm.cttz.i64(i64 {m}, i1 true)")
            first = self.let(f"extractelement {self.wide} %a, i64 {lane}")
            ok = self.let(f"icmp ult i32 {first}, {narrow}")
            self.put(f"br i1 {ok}, label %maybe, label %gathered")
            self.lines.append("maybe:")
            offset = self.let(f"zext i32 {first} to i64")
            self.uniform(self.let(f"getelementptr i8, ptr {start}, i64 {offset}"), first)
        else:
            self.put("br label %gathered")
        self.lines.append("gathered:")
        self.gather(pointers, here)

    def leave_where_checked(self, here: str) -> None:
        """The reference engine tells of lanes that are not `here`, where anybody wants to know."""
        within = self.let(f"bitcast <{self.lanes} x i1> {here} to i{self.lanes}")
        checked = self.let(f"icmp ne i64 {self.word(layout.CHECKED)}, 0")
        beyond = self.let(f"icmp ne i{self.lanes} {within}, %m")
        self.put(f"br i1 {self.let(f'and i1 {beyond}, {checked}')}, label %told, label %untold")
        self.lines.append("told:")
        self.give(["zeroinitializer"] * self.count, "1")
        self.lines.append("untold:")

    def by_lane(self) -> None:
        """The slow way, through memory."""
        if not any("%slowly" in line for line in self.lines):
            return
        self.lines.append("slowly:")
        rows = self.count * self.lanes
        self.put(f"%where = alloca {self.long}, align 64")
        self.put(f"%data = alloca [{rows} x i32], align 64")
        addresses = "%a" if self.w == 64 else self.let(f"zext {self.wide} %a to {self.long}")
        self.put(f"store {self.long} {addresses}, ptr %where, align 64")
        for k in range(self.count):
            at = self.let(f"getelementptr i32, ptr %data, i64 {k * self.lanes}")
            self.put(f"store {self.vector} {f'%d{k}' if self.store else 'zeroinitializer'}, ptr {at}, align 4")
        m = self.let(f"zext i{self.lanes} %m to i64")
        places = [self.let(f"ptrtoint ptr {name} to i64") for name in ("%st", "%where", "%data")]
        numbers = [places[0], layout.SPACES.index(self.space), int(self.store), self.bytes, *places[1:], m, "%sh"]
        given = ", ".join(f"i64 {each}" for each in [*numbers, self.lanes])
        status = self.let(f"call i64 @by_lane({given})")
        values = []
        for k in range(0 if self.store else self.count):
            at = self.let(f"getelementptr i32, ptr %data, i64 {k * self.lanes}")
            values.append(self.let(f"load {self.vector}, ptr {at}, align 4"))
        self.give(values, status)


def helpers(lanes: int) -> str:
    """The vector helpers for chunks of `lanes` lanes; they call what is in `native_memory`."""
    parts = [f"@nothing = internal constant [{COLUMNS} x i64] zeroinitializer\n"]
    for space in layout.SPACES:
        for kind in ("load", "store"):
            parts += [_Helper(kind, space, bits, lanes).text() for bits in layout.WIDTHS]
    vector = f"<{lanes} x i32>"
    parts.append(
        f"declare {vector} @llvm.masked.gather.v{lanes}i32.v{lanes}p0(<{lanes} x ptr>, <{lanes} x i1>, {vector})\n"
        f"declare void @llvm.masked.scatter.v{lanes}i32.v{lanes}p0({vector}, <{lanes} x ptr>, <{lanes} x i1>)\n"
        "declare i64 @llvm.usub.sat.i64(i64, i64)\n"
        f"attributes #0 = {{ nounwind {vector_width(lanes)} }}\n"
    )
    return "\n".join(parts)
