"""Memory of translated code lane by lane: where a lane's bytes lie in any space, and moving them."""

from __future__ import annotations

from typing import Final

from understudy.core.space import PAGE_BITS
from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.memory import COLUMNS, ENTRIES, GIB_BITS, SIZE, START, STORES
from understudy.isa.gcn import state


def word(name: str, index: int, kind: str = "i64") -> str:
    """Load a 64-bit word of the wave %st as %name."""
    return (
        f"  %q_{name} = getelementptr i8, ptr %st, i64 {state.WORDS_AT + 8 * index}\n"
        f"  %{name} = load {kind}, ptr %q_{name}\n"
    )


PAGE: Final = f"""
@nothing = internal constant [{COLUMNS} x i64] zeroinitializer

; Row of the page of an address: zeros where there is none.
define internal ptr @row(ptr %st, i64 %address) alwaysinline {{
{word("tables", layout.TABLES, "ptr")}
  %up = lshr i64 %address, {GIB_BITS}
  %up_index = and i64 %up, {ENTRIES - 1}
  %entry = getelementptr ptr, ptr %tables, i64 %up_index
  %table = load ptr, ptr %entry
  %low = lshr i64 %address, {PAGE_BITS}
  %low_index = and i64 %low, {ENTRIES - 1}
  %found = getelementptr [{COLUMNS} x i64], ptr %table, i64 %low_index
  %null = icmp eq ptr %table, null
  %row = select i1 %null, ptr @nothing, ptr %found
  ret ptr %row
}}

; Host address of `bytes` bytes at a guest address; 0 where they cannot be reached directly.
define internal i64 @host(ptr %st, i64 %address, i64 %bytes, i1 %store) {{
  %row = call ptr @row(ptr %st, i64 %address)
  %addend = load i64, ptr %row
  %q_start = getelementptr i64, ptr %row, i64 {START}
  %start = load i64, ptr %q_start
  %column = select i1 %store, i64 {STORES}, i64 {SIZE}
  %q_size = getelementptr i64, ptr %row, i64 %column
  %size = load i64, ptr %q_size
  %less = sub i64 %bytes, 1
  %limit = call i64 @llvm.usub.sat.i64(i64 %size, i64 %less)
  %offset = sub i64 %address, %start
  %fits = icmp ult i64 %offset, %limit
  %there = add i64 %address, %addend
  %host = select i1 %fits, i64 %there, i64 0
  ret i64 %host
}}

; Host address of a lane's bytes in any space; 0: cannot be reached, 1: beyond LDS or GDS (reads 0, stores nothing).
define internal i64 @reach(ptr %st, i64 %space, i64 %address, i64 %bytes, i1 %store) {{
entry:
{word("shared", state.SHARED_BASE)}
{word("private", state.PRIVATE_BASE)}
  %upper = and i64 %address, -4294967296
  %lower = and i64 %address, 4294967295
  %flat = icmp eq i64 %space, {layout.SPACES.index("flat")}
  %in_shared = icmp eq i64 %upper, %shared
  %flat_shared = and i1 %flat, %in_shared
  %is_lds = icmp eq i64 %space, {layout.SPACES.index("lds")}
  %to_lds = or i1 %flat_shared, %is_lds
  br i1 %to_lds, label %lds, label %not_lds
not_lds:
  %is_gds = icmp eq i64 %space, {layout.SPACES.index("gds")}
  br i1 %is_gds, label %gds, label %memory
memory:
  %in_private = icmp eq i64 %upper, %private
  %flat_private = and i1 %flat, %in_private
  br i1 %flat_private, label %never, label %plain
never:
  ret i64 0
plain:
  %host = call i64 @host(ptr %st, i64 %address, i64 %bytes, i1 %store)
  ret i64 %host
lds:
{word("lds_base", state.LDS_BASE)}
{word("lds_size", state.LDS_SIZE)}
  br label %local
gds:
{word("gds_base", layout.GDS_BASE)}
{word("gds_size", layout.GDS_SIZE)}
  br label %local
local:
  %base = phi i64 [ %lds_base, %lds ], [ %gds_base, %gds ]
  %size = phi i64 [ %lds_size, %lds ], [ %gds_size, %gds ]
  %less = sub i64 %bytes, 1
  %limit = call i64 @llvm.usub.sat.i64(i64 %size, i64 %less)
  %fits = icmp ult i64 %lower, %limit
  %there = add i64 %base, %lower
  %result = select i1 %fits, i64 %there, i64 1
  ret i64 %result
}}
declare i64 @llvm.usub.sat.i64(i64, i64)
"""


def by_lane(lanes: int) -> str:
    """Lane by lane, any space and size: data lies in memory as rows of dwords."""
    return f"""
define internal i64 @slow(ptr %st, i64 %space, i1 %store, i64 %bytes, ptr %a, ptr %data, i64 %mask, i64 %sh) noinline {{
entry:
{word("private", state.PRIVATE_BASE)}
{word("scratch_at", state.SCRATCH_AT)}
{word("scratch_size", state.SCRATCH_SIZE)}
{word("flat_form", state.FLAT_FORM)}
{word("flat_at", state.FLAT_AT)}
{word("flat_base", state.FLAT_BASE)}
  %q_pair = getelementptr i8, ptr %st, i64 %flat_at
  %pair = load i64, ptr %q_pair, align 4
  %units = lshr i64 %pair, 32
  %bytes_off = shl i64 %units, 8
  %by_offset = add i64 %flat_base, %bytes_off
  %lane_size = and i64 %pair, 4294967295
  %least_size = call i64 @llvm.umin.i64(i64 %lane_size, i64 %scratch_size)
  %has_address = icmp eq i64 %flat_form, {state.FORM_ADDRESS}
  %has_offset = icmp eq i64 %flat_form, {state.FORM_OFFSET}
  %found1 = select i1 %has_address, i64 %pair, i64 %scratch_at
  %scratch = select i1 %has_offset, i64 %by_offset, i64 %found1
  %private_size = select i1 %has_offset, i64 %least_size, i64 %scratch_size
  br label %next
next:
  %left = phi i64 [ %mask, %entry ], [ %rest, %laned ]
  %any = icmp ne i64 %left, 0
  br i1 %any, label %one, label %good
good:
  ret i64 0
bad:
  ret i64 1
one:
  %lane = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %minus = sub i64 %left, 1
  %rest = and i64 %left, %minus
  %q_address = getelementptr i64, ptr %a, i64 %lane
  %address = load i64, ptr %q_address
  %at = getelementptr i32, ptr %data, i64 %lane
  %upper = and i64 %address, -4294967296
  %in_private = icmp eq i64 %upper, %private
  %is_flat = icmp eq i64 %space, {layout.SPACES.index("flat")}
  %to_private = and i1 %in_private, %is_flat
  br i1 %to_private, label %swizzled, label %straight
straight:
  %host = call i64 @reach(ptr %st, i64 %space, i64 %address, i64 %bytes, i1 %store)
  %unreached = icmp eq i64 %host, 0
  br i1 %unreached, label %bad, label %reached
reached:
  %beyond = icmp eq i64 %host, 1
  br i1 %beyond, label %laned, label %go
go:
  call void @move(i1 %store, i64 %bytes, i64 %host, ptr %at)
  br label %laned
swizzled:
  %offset = and i64 %address, 4294967295
  %less = sub i64 %bytes, 1
  %limit = call i64 @llvm.usub.sat.i64(i64 %private_size, i64 %less)
  %fits = icmp ult i64 %offset, %limit
  %within = and i64 %offset, 3
  %part = call i64 @llvm.umin.i64(i64 %bytes, i64 4)
  %end = add i64 %within, %part
  %whole = icmp ule i64 %end, 4
  %simple = and i1 %fits, %whole
  br i1 %simple, label %pieces, label %bad
pieces:
  %first = lshr i64 %offset, 2
  %lane_number = add i64 %lane, %sh
  %column = mul i64 %lane_number, 4
  %column_at = add i64 %column, %within
  %count0 = lshr i64 %bytes, 2
  %count = call i64 @llvm.umax.i64(i64 %count0, i64 1)
  br label %piece
piece:
  %k = phi i64 [ 0, %pieces ], [ %k1, %moved ]
  %dword = add i64 %first, %k
  %row_at = mul i64 %dword, 256
  %in_wave = add i64 %row_at, %column_at
  %guest = add i64 %scratch, %in_wave
  %piece_host = call i64 @host(ptr %st, i64 %guest, i64 %part, i1 %store)
  %no_piece = icmp eq i64 %piece_host, 0
  br i1 %no_piece, label %bad, label %moved
moved:
  %skip = mul i64 %k, {lanes}
  %piece_at = getelementptr i32, ptr %at, i64 %skip
  call void @move(i1 %store, i64 %part, i64 %piece_host, ptr %piece_at)
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, %count
  br i1 %again, label %piece, label %laned
laned:
  br label %next
}}

; Store the columns of the lanes of a mask at their host addresses, one after the other.
define internal void @in_order(i64 %bytes, ptr %places, ptr %data, i64 %mask) {{
entry:
  br label %next
next:
  %left = phi i64 [ %mask, %entry ], [ %rest, %one ]
  %any = icmp ne i64 %left, 0
  br i1 %any, label %one, label %done
one:
  %lane = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %minus = sub i64 %left, 1
  %rest = and i64 %left, %minus
  %q_host = getelementptr i64, ptr %places, i64 %lane
  %host = load i64, ptr %q_host
  %at = getelementptr i32, ptr %data, i64 %lane
  call void @move(i1 true, i64 %bytes, i64 %host, ptr %at)
  br label %next
done:
  ret void
}}

; Between host memory and a column of dwords {lanes} lanes apart; 1 and 2 bytes are zero-extended.
define internal void @move(i1 %store, i64 %bytes, i64 %host, ptr %at) {{
entry:
  %p = inttoptr i64 %host to ptr
  switch i64 %bytes, label %dwords [ i64 1, label %byte i64 2, label %short ]
byte:
  br i1 %store, label %put8, label %get8
get8:
  %b = load i8, ptr %p
  %b32 = zext i8 %b to i32
  store i32 %b32, ptr %at
  ret void
put8:
  %pb32 = load i32, ptr %at
  %pb = trunc i32 %pb32 to i8
  store i8 %pb, ptr %p
  ret void
short:
  br i1 %store, label %put16, label %get16
get16:
  %s = load i16, ptr %p, align 1
  %s32 = zext i16 %s to i32
  store i32 %s32, ptr %at
  ret void
put16:
  %ps32 = load i32, ptr %at
  %ps = trunc i32 %ps32 to i16
  store i16 %ps, ptr %p, align 1
  ret void
dwords:
  %count = lshr i64 %bytes, 2
  br label %each
each:
  %k = phi i64 [ 0, %dwords ], [ %k1, %more ]
  %q = getelementptr i32, ptr %p, i64 %k
  %column = mul i64 %k, {lanes}
  %r = getelementptr i32, ptr %at, i64 %column
  br i1 %store, label %put32, label %get32
get32:
  %d = load i32, ptr %q, align 1
  store i32 %d, ptr %r
  br label %more
put32:
  %e = load i32, ptr %r
  store i32 %e, ptr %q, align 1
  br label %more
more:
  %k1 = add i64 %k, 1
  %go = icmp ult i64 %k1, %count
  br i1 %go, label %each, label %done
done:
  ret void
}}
declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
"""
