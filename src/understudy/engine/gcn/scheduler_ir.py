"""The compiled scheduler: runs a range of work-groups, wave by wave, from barrier to barrier.

It comes back to Python only where Python is needed: code that is not translated yet, an instruction for the reference
engine, a segment that could not be finished, fuel; or when all groups have run. Called again, it goes on where it was.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn import layout
from understudy.isa.gcn import state

FIELDS: Final = (
    "states", "waves", "groups", "cursor", "last", "running", "position", "live", "order", "rounds", "round",
    "at_barrier", "shape_waves", "execs", "vgprs", "most_waves", "rows", "sgprs", "group_x", "group_y", "group_z",
    "info", "info_words", "entry", "mode", "turn", "step_limit", "lds", "lds_size", "blank_lds", "blank_rows",
    "blank_bytes", "retired", "in_turn", "current", "code_of_entry",
)  # fmt: skip
"""64-bit words of the context, in order."""
AT: Final = {name: index for index, name in enumerate(FIELDS)}
CODE_SLOTS: Final = 1 << 12
"""Rows of a code table: address, MODE, function, entry number."""


def _load(name: str, kind: str = "i64", as_name: str = "") -> str:
    out = as_name or name
    return f"  %q_{out} = getelementptr i64, ptr %ctx, i64 {AT[name]}\n  %{out} = load {kind}, ptr %q_{out}\n"


def _store(name: str, value: str, tag: str) -> str:
    return f"  %s_{tag} = getelementptr i64, ptr %ctx, i64 {AT[name]}\n  store i64 {value}, ptr %s_{tag}\n"


def _wave_word(index: int, tag: str, wave: str = "%wave") -> str:
    return f"  %{tag} = getelementptr i8, ptr {wave}, i64 {state.WORDS_AT + 8 * index}\n"


def _put(index: int, value: str, tag: str) -> str:
    return _wave_word(index, tag) + f"  store i64 {value}, ptr %{tag}\n"


def _group_register(name: str, column: int) -> str:
    """Write a work-group id where the wave gets it."""
    return f"""
{_load(name)}
  %has_{name} = icmp sge i64 %{name}, 0
  br i1 %has_{name}, label %give_{name}, label %gave_{name}
give_{name}:
  %idp_{name} = getelementptr i32, ptr %group, i64 {column}
  %id_{name} = load i32, ptr %idp_{name}
  %reg_{name} = getelementptr i32, ptr %sgpr_base, i64 %{name}
  store i32 %id_{name}, ptr %reg_{name}
  br label %gave_{name}
gave_{name}:
"""


SCHEDULER: Final = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)

define i64 @schedule(ptr %ctx) {{
entry:
  %saved = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  %code = call i64 @groups(ptr %ctx)
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  ret i64 %code
}}

define internal i64 @groups(ptr %ctx) {{
entry:
{_load("states", "ptr")}
{_load("groups", "ptr")}
{_load("last")}
{_load("order", "ptr")}
{_load("rounds")}
{_load("most_waves")}
  br label %look
look:
{_load("running")}
  %is_running = icmp ne i64 %running, 0
  br i1 %is_running, label %run, label %begin
begin:
{_load("cursor")}
  %all = icmp uge i64 %cursor, %last
  br i1 %all, label %finished, label %init
finished:
  ret i64 {layout.DONE}
init:
  %group = getelementptr [4 x i32], ptr %groups, i64 %cursor
  call void @start(ptr %ctx, ptr %group)
  br label %run
run:
{_load("live")}
  %over = icmp eq i64 %live, 0
  br i1 %over, label %group_done, label %place
group_done:
{_load("cursor", as_name="cursor1")}
  %cursor2 = add i64 %cursor1, 1
{_store("cursor", "%cursor2", "cursor2")}
{_store("running", "0", "running2")}
  br label %look
place:
{_load("position")}
  %round_done = icmp uge i64 %position, %most_waves
  br i1 %round_done, label %new_round, label %pick
new_round:
  call void @turn_over(ptr %ctx)
  br label %run
pick:
{_load("round")}
  %round_at = mul i64 %round, %most_waves
  %slot = add i64 %round_at, %position
  %q_which = getelementptr i32, ptr %order, i64 %slot
  %which32 = load i32, ptr %q_which
  %which = zext i32 %which32 to i64
{_load("waves")}
  %exists = icmp ult i64 %which, %waves
  %offset = mul i64 %which, {state.STATE_BYTES}
  %wave = getelementptr i8, ptr %states, i64 %offset
  br i1 %exists, label %ready, label %next
ready:
{_wave_word(state.STATUS, "q_status")}
  %status = load i64, ptr %q_status
  %can = icmp eq i64 %status, {state.RUNNING}
  br i1 %can, label %go, label %next
next:
  %position1 = add i64 %position, 1
{_store("position", "%position1", "position1")}
  br label %run
go:
{_store("current", "%which", "current")}
{_load("in_turn")}
  %continues = icmp ne i64 %in_turn, 0
  br i1 %continues, label %call, label %fuel
fuel:
{_load("turn")}
{_wave_word(state.FUEL, "q_fuel")}
{_wave_word(layout.LIMIT, "q_limit")}
  %fuel_left = load i64, ptr %q_fuel
  %limit = load i64, ptr %q_limit
  %wanted = sub i64 %turn, %fuel_left
  %positive = call i64 @llvm.smax.i64(i64 %wanted, i64 0)
  %given = call i64 @llvm.umin.i64(i64 %positive, i64 %limit)
  %fuel_now = add i64 %fuel_left, %given
  %limit_now = sub i64 %limit, %given
  store i64 %fuel_now, ptr %q_fuel
  store i64 %limit_now, ptr %q_limit
  br label %call
call:
  %why = call i64 @dispatch(ptr %wave)
  switch i64 %why, label %python [
    i64 {layout.END}, label %ended
    i64 {layout.BARRIER}, label %waits
    i64 {layout.OUT_OF_FUEL}, label %tired
  ]
python:
{_store("in_turn", "1", "in_turn1")}
  ret i64 %why
tired:
{_wave_word(layout.LIMIT, "q_limit2")}
  %limit2 = load i64, ptr %q_limit2
  %exhausted = icmp eq i64 %limit2, 0
  br i1 %exhausted, label %python, label %turn_ends
waits:
{_put(state.STATUS, str(state.AT_BARRIER), "q_wait")}
{_load("at_barrier")}
  %at_barrier1 = add i64 %at_barrier, 1
{_store("at_barrier", "%at_barrier1", "barrier1")}
  br label %turn_ends
ended:
{_put(state.STATUS, str(state.ENDED), "q_end")}
  %live1 = sub i64 %live, 1
{_store("live", "%live1", "live1")}
{_wave_word(state.FUEL, "q_fuel3")}
{_wave_word(layout.LIMIT, "q_limit3")}
  %fuel3 = load i64, ptr %q_fuel3
  %limit3 = load i64, ptr %q_limit3
{_load("step_limit")}
  %used1 = sub i64 %step_limit, %fuel3
  %used = sub i64 %used1, %limit3
{_load("retired")}
  %retired1 = add i64 %retired, %used
{_store("retired", "%retired1", "retired1")}
  br label %turn_ends
turn_ends:
{_store("in_turn", "0", "in_turn0")}
  %position2 = add i64 %position, 1
{_store("position", "%position2", "position2")}
  br label %run
}}

; A new round: waves wait no longer where all that live have come to the barrier.
define internal void @turn_over(ptr %ctx) {{
entry:
{_load("round")}
{_load("rounds")}
  %round1 = add i64 %round, 1
  %wraps = icmp uge i64 %round1, %rounds
  %round2 = select i1 %wraps, i64 0, i64 %round1
{_store("round", "%round2", "round2")}
{_store("position", "0", "position0")}
{_load("live")}
{_load("at_barrier")}
  %together = icmp uge i64 %at_barrier, %live
  br i1 %together, label %release, label %done
done:
  ret void
release:
{_store("at_barrier", "0", "barrier0")}
{_load("waves")}
{_load("states", "ptr")}
  br label %each
each:
  %w = phi i64 [ 0, %release ], [ %w1, %after ]
  %offset = mul i64 %w, {state.STATE_BYTES}
  %wave = getelementptr i8, ptr %states, i64 %offset
{_wave_word(state.STATUS, "q_status")}
  %status = load i64, ptr %q_status
  %was_waiting = icmp eq i64 %status, {state.AT_BARRIER}
  br i1 %was_waiting, label %free, label %after
free:
  store i64 {state.RUNNING}, ptr %q_status
  br label %after
after:
  %w1 = add i64 %w, 1
  %more = icmp ult i64 %w1, %waves
  br i1 %more, label %each, label %done
}}

; The first state of all waves of a group.
define internal void @start(ptr %ctx, ptr %group) {{
entry:
{_load("shape_waves", "ptr")}
{_load("states", "ptr")}
{_load("execs", "ptr")}
{_load("vgprs", "ptr")}
{_load("most_waves")}
{_load("rows")}
{_load("sgprs", "ptr")}
{_load("entry", as_name="first_pc")}
{_load("mode")}
{_load("step_limit")}
{_load("lds", "ptr")}
{_load("lds_size")}
{_load("blank_lds", "ptr")}
{_load("blank_rows", "ptr")}
{_load("blank_bytes")}
{_load("info")}
{_load("info_words", "ptr")}
  %q_shape = getelementptr i32, ptr %group, i64 3
  %shape32 = load i32, ptr %q_shape
  %shape = zext i32 %shape32 to i64
  %q_count = getelementptr i32, ptr %shape_waves, i64 %shape
  %count32 = load i32, ptr %q_count
  %count = zext i32 %count32 to i64
{_store("waves", "%count", "waves")}
{_store("live", "%count", "live")}
{_store("running", "1", "running")}
{_store("position", "0", "position")}
{_store("round", "0", "round")}
{_store("at_barrier", "0", "at_barrier")}
{_store("in_turn", "0", "in_turn")}
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %lds, ptr align 16 %blank_lds, i64 %lds_size, i1 false)
  %shape_at = mul i64 %shape, %most_waves
  %row_bytes = mul i64 %rows, {state.LANES * 4}
  %rest = sub i64 %blank_bytes, %row_bytes
  %some = icmp ne i64 %count, 0
  br i1 %some, label %each, label %done
done:
  ret void
each:
  %w = phi i64 [ 0, %entry ], [ %w1, %last_step ]
  %offset = mul i64 %w, {state.STATE_BYTES}
  %wave = getelementptr i8, ptr %states, i64 %offset
  %image = add i64 %shape_at, %w
  %image_at = mul i64 %image, %row_bytes
  %image_p = getelementptr i8, ptr %vgprs, i64 %image_at
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %wave, ptr align 4 %image_p, i64 %row_bytes, i1 false)
  %rest_p = getelementptr i8, ptr %wave, i64 %row_bytes
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %rest_p, ptr align 64 %blank_rows, i64 %rest, i1 false)
  %sgpr_base = getelementptr i8, ptr %wave, i64 {state.SGPR_AT}
  %template_at = mul i64 %w, {state.SGPRS * 4}
  %template = getelementptr i8, ptr %sgprs, i64 %template_at
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %sgpr_base, ptr align 16 %template, i64 {state.SGPRS * 4}, i1 false)
  %q_exec = getelementptr i64, ptr %execs, i64 %image
  %exec = load i64, ptr %q_exec
  %exec_p = getelementptr i32, ptr %sgpr_base, i64 {state.EXEC}
  store i64 %exec, ptr %exec_p
{_put(state.PC, "%first_pc", "w_pc")}
{_put(state.SCC, "0", "w_scc")}
{_put(state.MODE, "%mode", "w_mode")}
{_put(state.STATUS, str(state.RUNNING), "w_status")}
{_put(state.FUEL, "0", "w_fuel")}
{_put(layout.LIMIT, "%step_limit", "w_limit")}
{_put(state.TRAPSTS, "0", "w_trapsts")}
{_load("code_of_entry")}
{_put(layout.CODE, "%code_of_entry", "w_code")}
{_group_register("group_x", 0)}
{_group_register("group_y", 1)}
{_group_register("group_z", 2)}
  %has_info = icmp sge i64 %info, 0
  br i1 %has_info, label %give_info, label %last_step
give_info:
  %q_info_at = getelementptr i32, ptr %info_words, i64 %image
  %info_word = load i32, ptr %q_info_at
  %info_reg = getelementptr i32, ptr %sgpr_base, i64 %info
  store i32 %info_word, ptr %info_reg
  br label %last_step
last_step:
  %w1 = add i64 %w, 1
  %more = icmp ult i64 %w1, %count
  br i1 %more, label %each, label %done
}}

; From region to region until something is up.
define internal i64 @dispatch(ptr %wave) {{
entry:
{_wave_word(layout.CODE, "q_code")}
{_wave_word(state.PC, "q_pc")}
{_wave_word(state.MODE, "q_mode")}
{_wave_word(layout.FUNCTION, "q_last")}
  br label %loop
loop:
  %table = load ptr, ptr %q_code
  %pc = load i64, ptr %q_pc
  %mode = load i64, ptr %q_mode
  %h1 = lshr i64 %pc, 2
  %h2 = xor i64 %h1, %mode
  %slot = and i64 %h2, {CODE_SLOTS - 1}
  %row = getelementptr [4 x i64], ptr %table, i64 %slot
  %tag = load i64, ptr %row
  %q_row_mode = getelementptr i64, ptr %row, i64 1
  %row_mode = load i64, ptr %q_row_mode
  %same_pc = icmp eq i64 %tag, %pc
  %same_mode = icmp eq i64 %row_mode, %mode
  %hit = and i1 %same_pc, %same_mode
  br i1 %hit, label %go, label %other
other:
  %slot2 = xor i64 %slot, 1
  %row2 = getelementptr [4 x i64], ptr %table, i64 %slot2
  %tag2 = load i64, ptr %row2
  %q_row_mode2 = getelementptr i64, ptr %row2, i64 1
  %row_mode2 = load i64, ptr %q_row_mode2
  %same_pc2 = icmp eq i64 %tag2, %pc
  %same_mode2 = icmp eq i64 %row_mode2, %mode
  %hit2 = and i1 %same_pc2, %same_mode2
  br i1 %hit2, label %go, label %miss
miss:
  ret i64 {layout.MISS}
go:
  %here = phi ptr [ %row, %loop ], [ %row2, %other ]
  %q_function = getelementptr i64, ptr %here, i64 2
  %function = load ptr, ptr %q_function
  %q_entry = getelementptr i64, ptr %here, i64 3
  %entry_number = load i64, ptr %q_entry
  store ptr %function, ptr %q_last
  %why = call i64 %function(ptr %wave, i64 %entry_number)
  %again = icmp eq i64 %why, {layout.JUMP}
  br i1 %again, label %loop, label %out
out:
  ret i64 %why
}}
"""
"""For hosts with an MXCSR; `portable` leaves the float control alone."""


def scheduler(x86: bool) -> str:
    """The scheduler's text."""
    if x86:
        return SCHEDULER
    lines = [line for line in SCHEDULER.splitlines() if "mxcsr" not in line]
    return "\n".join(lines) + "\n"
