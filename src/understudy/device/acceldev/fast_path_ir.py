"""The machine code of `bulk`, as LLVM IR: one function, `commands`, that takes the address of a block of words.

Page tables, slots and code may be changed by anybody at any time: each word is read once, as it is used.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from understudy.device.acceldev.commands import (
    BUFFER_BYTES,
    MAX_TABLE,
    PAGE_MASK,
    PTE_FRAME_MASK,
    PTE_PRESENT,
    PTE_SHIFT,
    USER_CMD_BYTES,
    WORD_BYTES,
    UserCmdType,
)
from understudy.device.acceldev.registers import (
    ACCELDEV_NUM_BUFFERS,
    ACCELDEV_PAGE_SIZE,
    ACCELDEV_USER_CMD_WORDS,
    Interrupt,
)
from understudy.ir import llvm
from understudy.ir.object_cache import ObjectCache, default_folder, linked

RANGE_WORDS: Final = 4
"""Of a row of the table of ranges: base, bytes, address in this process, whether it may be written."""

# Words of the block that Python and machine code share.
CODE_TABLE, RECORD, START, POSITION, END, RANGES, COUNT, RUNS, FILLED, BUDGET, USED = range(11)
COUNTER, INTR, FENCES, DUE = range(11, 15)
BLOCK_WORDS: Final = 15


def _shared(name: str, offset: int, ty: str = "i64") -> str:
    return f"  %p_{name} = getelementptr i64, ptr %block, i64 {offset}\n  %{name} = load {ty}, ptr %p_{name}\n"


def _page(tag: str, table: str, virtual: str) -> str:
    """IR that reads the entry for %virtual: %here_tag is the physical address, %present_tag whether it is there."""
    return f"""
  %index_{tag} = lshr i64 {virtual}, 12
  %q_{tag} = getelementptr i32, ptr {table}, i64 %index_{tag}
  %entry_{tag} = load volatile i32, ptr %q_{tag}
  %bit_{tag} = and i32 %entry_{tag}, {PTE_PRESENT}
  %present_{tag} = icmp ne i32 %bit_{tag}, 0
  %wide_{tag} = zext i32 %entry_{tag} to i64
  %frame_{tag} = and i64 %wide_{tag}, {PTE_FRAME_MASK}
  %base_{tag} = shl i64 %frame_{tag}, {PTE_SHIFT}
  %offset_{tag} = and i64 {virtual}, {PAGE_MASK}
  %here_{tag} = or i64 %base_{tag}, %offset_{tag}
"""


_FIND: Final = f"""
define internal i64 @find(ptr %ranges, i64 %count, i64 %address, i64 %size, i64 %write) {{
entry:
  br label %next
next:
  %low = phi i64 [ 0, %entry ], [ %low1, %halve ]
  %high = phi i64 [ %count, %entry ], [ %high1, %halve ]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %halve, label %look
halve:
  %both = add i64 %low, %high
  %middle = lshr i64 %both, 1
  %p_middle = getelementptr [{RANGE_WORDS} x i64], ptr %ranges, i64 %middle
  %begin = load i64, ptr %p_middle
  %behind = icmp ugt i64 %begin, %address
  %up = add i64 %middle, 1
  %low1 = select i1 %behind, i64 %low, i64 %up
  %high1 = select i1 %behind, i64 %middle, i64 %high
  br label %next
look:
  %any = icmp ne i64 %low, 0
  br i1 %any, label %try, label %none
try:
  %i = sub i64 %low, 1
  %row = getelementptr [{RANGE_WORDS} x i64], ptr %ranges, i64 %i
  %base = load i64, ptr %row
  %q1 = getelementptr i64, ptr %row, i64 1
  %length = load i64, ptr %q1
  %q2 = getelementptr i64, ptr %row, i64 2
  %host = load i64, ptr %q2
  %q3 = getelementptr i64, ptr %row, i64 3
  %writable = load i64, ptr %q3
  %offset = sub i64 %address, %base
  %small = icmp ule i64 %size, %length
  %room = sub i64 %length, %size
  %inside = icmp ule i64 %offset, %room
  %fits = and i1 %small, %inside
  %may = icmp uge i64 %writable, %write
  %good = and i1 %fits, %may
  br i1 %good, label %found, label %none
found:
  %where = add i64 %host, %offset
  ret i64 %where
none:
  ret i64 0
}}
"""

_FILL: Final = """
define internal i32 @turned(i32 %value, i64 %bytes) {
  %bits64 = shl i64 %bytes, 3
  %bits = trunc i64 %bits64 to i32
  %turned = call i32 @llvm.fshr.i32(i32 %value, i32 %value, i32 %bits)
  ret i32 %turned
}
define internal void @fill(i64 %start, i64 %size, i32 %value) {
entry:
  %to = inttoptr i64 %start to ptr
  %byte = trunc i32 %value to i8
  %wide = zext i8 %byte to i32
  %four = mul i32 %wide, 16843009
  %even = icmp eq i32 %four, %value
  br i1 %even, label %one_byte, label %words
one_byte:
  call void @llvm.memset.p0.i64(ptr %to, i8 %byte, i64 %size, i1 false)
  ret void
words:
  %end = add i64 %start, %size
  %long = icmp uge i64 %size, 128
  br i1 %long, label %head, label %rest
head:
  %h0 = insertelement <16 x i32> undef, i32 %value, i64 0
  %h1 = shufflevector <16 x i32> %h0, <16 x i32> undef, <16 x i32> zeroinitializer
  store <16 x i32> %h1, ptr %to, align 1
  %up = add i64 %start, 64
  %aligned = and i64 %up, -64
  %skipped = sub i64 %aligned, %start
  %value1 = call i32 @turned(i32 %value, i64 %skipped)
  %v0 = insertelement <16 x i32> undef, i32 %value1, i64 0
  %v1 = shufflevector <16 x i32> %v0, <16 x i32> undef, <16 x i32> zeroinitializer
  %last = sub i64 %end, 64
  br label %body
body:
  %at = phi i64 [ %aligned, %head ], [ %at1, %body ]
  %p = inttoptr i64 %at to ptr
  store <16 x i32> %v1, ptr %p, align 64
  %at1 = add i64 %at, 64
  %again = icmp ule i64 %at1, %last
  br i1 %again, label %body, label %rest
rest:
  %r = phi i64 [ %start, %words ], [ %at1, %body ]
  %rv = phi i32 [ %value, %words ], [ %value1, %body ]
  br label %bytes
bytes:
  %b = phi i64 [ %r, %rest ], [ %b1, %put ]
  %bv = phi i32 [ %rv, %rest ], [ %bv1, %put ]
  %left = icmp ult i64 %b, %end
  br i1 %left, label %put, label %done
put:
  %q = inttoptr i64 %b to ptr
  %low = trunc i32 %bv to i8
  store i8 %low, ptr %q
  %bv1 = call i32 @turned(i32 %bv, i64 1)
  %b1 = add i64 %b, 1
  br label %bytes
done:
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @llvm.fshr.i32(i32, i32, i32)
"""

_LOOP: Final = f"""
define void @commands(ptr %block) {{
entry:
{_shared("table", CODE_TABLE, "ptr")}{_shared("record", RECORD, "ptr")}{_shared("start", START)}
{_shared("position", POSITION)}{_shared("end", END)}{_shared("ranges", RANGES, "ptr")}{_shared("count", COUNT)}
{_shared("runs", RUNS, "ptr")}{_shared("budget", BUDGET)}{_shared("used", USED)}
{_shared("counter", COUNTER, "ptr")}{_shared("intr", INTR, "ptr")}
  %p_filled = getelementptr i64, ptr %block, i64 {FILLED}
  %p_fences = getelementptr i64, ptr %block, i64 {FENCES}
  %p_due = getelementptr i64, ptr %block, i64 {DUE}
  %split = alloca [{ACCELDEV_USER_CMD_WORDS} x i32]
  br label %loop
loop:
  %at = phi i64 [ %position, %entry ], [ %after, %again ]
  %filled = phi i64 [ 0, %entry ], [ %filled1, %again ]
  %mask = phi i64 [ %used, %entry ], [ %mask1, %again ]
  %fences = phi i64 [ 0, %entry ], [ %fences1, %again ]
  %more = icmp ult i64 %at, %end
  %rich = icmp ult i64 %filled, %budget
  %go = and i1 %more, %rich
  br i1 %go, label %fetch, label %stop
fetch:
  %distance = mul i64 %at, {USER_CMD_BYTES}
  %virtual = add i64 %start, %distance
  %reachable = icmp ule i64 %virtual, {BUFFER_BYTES - USER_CMD_BYTES}
  br i1 %reachable, label %fetch_page, label %stop
fetch_page:
{_page("code", "%table", "%virtual")}
  br i1 %present_code, label %fetch_where, label %stop
fetch_where:
  %whole = icmp ule i64 %offset_code, {ACCELDEV_PAGE_SIZE - USER_CMD_BYTES}
  br i1 %whole, label %fetch_together, label %split_next
fetch_together:
  %where = call i64 @find(ptr %ranges, i64 %count, i64 %here_code, i64 {USER_CMD_BYTES}, i64 0)
  %somewhere = icmp ne i64 %where, 0
  %together = inttoptr i64 %where to ptr
  br i1 %somewhere, label %decode, label %stop
split_next:
  %w = phi i64 [ 0, %fetch_where ], [ %w1, %split_keep ]
  %wordbytes = mul i64 %w, {WORD_BYTES}
  %wordaddress = add i64 %virtual, %wordbytes
{_page("word", "%table", "%wordaddress")}
  br i1 %present_word, label %split_find, label %stop
split_find:
  %where_w = call i64 @find(ptr %ranges, i64 %count, i64 %here_word, i64 {WORD_BYTES}, i64 0)
  %somewhere_w = icmp ne i64 %where_w, 0
  br i1 %somewhere_w, label %split_keep, label %stop
split_keep:
  %p_word = inttoptr i64 %where_w to ptr
  %theword = load volatile i32, ptr %p_word, align 1
  %p_split = getelementptr i32, ptr %split, i64 %w
  store i32 %theword, ptr %p_split
  %w1 = add i64 %w, 1
  %w_more = icmp ult i64 %w1, {ACCELDEV_USER_CMD_WORDS}
  br i1 %w_more, label %split_next, label %decode
decode:
  %words = phi ptr [ %together, %fetch_together ], [ %split, %split_keep ]
  %header = load volatile i32, ptr %words, align 1
  %type = and i32 %header, 15
  %after = add i64 %at, 1
  switch i32 %type, label %stop [
    i32 {int(UserCmdType.NOP)}, label %again
    i32 {int(UserCmdType.FENCE)}, label %fence
    i32 {int(UserCmdType.FILL)}, label %fill
  ]
fence:
  %countable = icmp ne ptr %counter, null
  br i1 %countable, label %fence_count, label %stop
fence_count:
  %counted = atomicrmw add ptr %counter, i32 1 seq_cst
  %active = load atomic i32, ptr %intr seq_cst, align 4
  %bit = and i32 %active, {int(Interrupt.USER_FENCE_WAIT)}
  %raised = icmp ne i32 %bit, 0
  %fences_f = add i64 %fences, 1
  br i1 %raised, label %again, label %due
fill:
  %q_value = getelementptr i32, ptr %words, i64 1
  %value = load volatile i32, ptr %q_value, align 1
  %q_slot = getelementptr i32, ptr %words, i64 2
  %slot32 = load volatile i32, ptr %q_slot, align 1
  %slot = zext i32 %slot32 to i64
  %q_begin = getelementptr i32, ptr %words, i64 3
  %begin32 = load volatile i32, ptr %q_begin, align 1
  %begin = zext i32 %begin32 to i64
  %q_length = getelementptr i32, ptr %words, i64 4
  %length32 = load volatile i32, ptr %q_length, align 1
  %length = zext i32 %length32 to i64
  %slot_ok = icmp ult i64 %slot, {ACCELDEV_NUM_BUFFERS}
  br i1 %slot_ok, label %fill_slot, label %stop
fill_slot:
  %q_pointer = getelementptr i64, ptr %record, i64 %slot
  %pointer = load volatile i64, ptr %q_pointer, align 1
  %bound = icmp ne i64 %pointer, 0
  br i1 %bound, label %fill_length, label %stop
fill_length:
  %slot_bit = shl i64 1, %slot
  %mask_f = or i64 %mask, %slot_bit
  %nothing = icmp eq i64 %length, 0
  br i1 %nothing, label %again, label %fill_table
fill_table:
  %finish = add i64 %begin, %length
  %inside = icmp ule i64 %finish, {BUFFER_BYTES}
  %reach = icmp ule i64 %pointer, {MAX_TABLE}
  %low = and i64 %pointer, {PAGE_MASK}
  %straight = icmp eq i64 %low, 0
  %ok1 = and i1 %inside, %reach
  %ok2 = and i1 %ok1, %straight
  br i1 %ok2, label %fill_find, label %stop
fill_find:
  %where_t = call i64 @find(ptr %ranges, i64 %count, i64 %pointer, i64 {ACCELDEV_PAGE_SIZE}, i64 0)
  %data_table = inttoptr i64 %where_t to ptr
  %somewhere_t = icmp ne i64 %where_t, 0
  br i1 %somewhere_t, label %page, label %stop
page:
  %va = phi i64 [ %begin, %fill_find ], [ %va1, %joined ]
  %n = phi i64 [ 0, %fill_find ], [ %n1, %joined ]
  %run_end = phi i64 [ 0, %fill_find ], [ %run_end1, %joined ]
{_page("data", "%data_table", "%va")}
  br i1 %present_data, label %page_find, label %stop
page_find:
  %left_page = sub i64 {ACCELDEV_PAGE_SIZE}, %offset_data
  %left_fill = sub i64 %finish, %va
  %take = call i64 @llvm.umin.i64(i64 %left_page, i64 %left_fill)
  %host = call i64 @find(ptr %ranges, i64 %count, i64 %here_data, i64 %take, i64 1)
  %somewhere_d = icmp ne i64 %host, 0
  br i1 %somewhere_d, label %page_join, label %stop
page_join:
  %run_end1 = add i64 %host, %take
  %follows = icmp eq i64 %host, %run_end
  br i1 %follows, label %longer, label %begins
longer:
  %n_longer = sub i64 %n, 1
  %p_longer = getelementptr [2 x i64], ptr %runs, i64 %n_longer, i64 1
  store i64 %run_end1, ptr %p_longer
  br label %joined
begins:
  %p_begins = getelementptr [2 x i64], ptr %runs, i64 %n
  store i64 %host, ptr %p_begins
  %p_ends = getelementptr i64, ptr %p_begins, i64 1
  store i64 %run_end1, ptr %p_ends
  %n_begins = add i64 %n, 1
  br label %joined
joined:
  %n1 = phi i64 [ %n, %longer ], [ %n_begins, %begins ]
  %va1 = add i64 %va, %take
  %more_pages = icmp ult i64 %va1, %finish
  br i1 %more_pages, label %page, label %write
write:
  %k = phi i64 [ 0, %joined ], [ %k1, %write ]
  %turn = phi i64 [ 0, %joined ], [ %turn1, %write ]
  %p_from = getelementptr [2 x i64], ptr %runs, i64 %k
  %from = load i64, ptr %p_from
  %p_until = getelementptr i64, ptr %p_from, i64 1
  %until = load i64, ptr %p_until
  %run_size = sub i64 %until, %from
  %run_value = call i32 @turned(i32 %value, i64 %turn)
  call void @fill(i64 %from, i64 %run_size, i32 %run_value)
  %turn_all = add i64 %turn, %run_size
  %turn1 = and i64 %turn_all, 3
  %k1 = add i64 %k, 1
  %more_runs = icmp ult i64 %k1, %n1
  br i1 %more_runs, label %write, label %written
written:
  %filled_f = add i64 %filled, %length
  br label %again
again:
  %filled1 = phi i64 [ %filled, %decode ], [ %filled, %fence_count ], [ %filled, %fill_length ], [ %filled_f, %written ]
  %mask1 = phi i64 [ %mask, %decode ], [ %mask, %fence_count ], [ %mask_f, %fill_length ], [ %mask_f, %written ]
  %fences1 = phi i64 [ %fences, %decode ], [ %fences_f, %fence_count ], [ %fences, %fill_length ], [ %fences, %written ]
  br label %loop
due:
  store i64 1, ptr %p_due
  store i64 %after, ptr %p_position
  store i64 %fences_f, ptr %p_fences
  br label %leave
stop:
  store i64 %at, ptr %p_position
  store i64 %fences, ptr %p_fences
  br label %leave
leave:
  store i64 %filled, ptr %p_filled
  store i64 %mask, ptr %p_used
  ret void
}}
declare i64 @llvm.umin.i64(i64, i64)
"""

_IR: Final = _FIND + _FILL + _LOOP


@cache
def code() -> llvm.Code:
    """All of it, linked into this process."""
    return linked(_IR, ObjectCache(default_folder()))
