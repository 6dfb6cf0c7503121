"""The compiled scheduler: runs a range of work-groups, wave by wave, from barrier to barrier.

It comes back to Python only where Python is needed: code that is not translated yet, an instruction for the reference
engine, a segment that could not be finished, fuel; when time has passed (`ticks`), or while all waves sleep; or when
all groups have run. Called again, it goes on where it was.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.context_ir import load, put, store, wave_word
from understudy.engine.gcn.jit.start_ir import START
from understudy.isa.gcn import state

CODE_SLOTS: Final = 1 << 12
"""Rows of a code table: address, MODE, function, entry number."""


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
{load("states", "ptr")}
{load("groups", "ptr")}
{load("last")}
{load("order", "ptr")}
{load("rounds")}
{load("most_waves")}
  br label %look
look:
{load("running")}
  %is_running = icmp ne i64 %running, 0
  br i1 %is_running, label %run, label %begin
begin:
{load("cursor")}
  %all = icmp uge i64 %cursor, %last
  br i1 %all, label %finished, label %init
finished:
  ret i64 {layout.DONE}
init:
  %group = getelementptr [4 x i32], ptr %groups, i64 %cursor
  call void @start(ptr %ctx, ptr %group)
  br label %run
run:
{load("live")}
  %over = icmp eq i64 %live, 0
  br i1 %over, label %group_done, label %place
group_done:
{load("cursor", as_name="cursor1")}
  %cursor2 = add i64 %cursor1, 1
{store("cursor", "%cursor2", "cursor2")}
{store("running", "0", "running2")}
  br label %time
place:
{load("position")}
  %round_done = icmp uge i64 %position, %most_waves
  br i1 %round_done, label %new_round, label %pick
new_round:
  call void @turn_over(ptr %ctx)
  br label %run
pick:
{load("round")}
  %round_at = mul i64 %round, %most_waves
  %slot = add i64 %round_at, %position
  %q_which = getelementptr i32, ptr %order, i64 %slot
  %which32 = load i32, ptr %q_which
  %which = zext i32 %which32 to i64
{load("waves")}
  %exists = icmp ult i64 %which, %waves
  %offset = mul i64 %which, {state.STATE_BYTES}
  %wave = getelementptr i8, ptr %states, i64 %offset
  br i1 %exists, label %ready, label %next
ready:
{wave_word(state.STATUS, "q_status")}
  %status = load i64, ptr %q_status
  %can = icmp eq i64 %status, {state.RUNNING}
  br i1 %can, label %go, label %next
next:
  %position1 = add i64 %position, 1
{store("position", "%position1", "position1")}
  br label %run
go:
{store("current", "%which", "current")}
{load("in_turn")}
  %continues = icmp ne i64 %in_turn, 0
  br i1 %continues, label %call, label %fuel
fuel:
{load("turn")}
{wave_word(state.FUEL, "q_fuel")}
{wave_word(layout.LIMIT, "q_limit")}
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
    i64 {layout.SLEEP}, label %sleeps
  ]
python:
{store("in_turn", "1", "in_turn1")}
  ret i64 %why
tired:
{wave_word(layout.LIMIT, "q_limit2")}
  %limit2 = load i64, ptr %q_limit2
  %exhausted = icmp eq i64 %limit2, 0
  br i1 %exhausted, label %python, label %awake
sleeps:
{wave_word(layout.LIMIT, "q_limit4")}
{wave_word(state.SLEPT, "q_slept")}
{wave_word(state.FUEL, "q_fuel4")}
  %limit4 = load i64, ptr %q_limit4
  %limit5 = add i64 %limit4, 1
  store i64 %limit5, ptr %q_limit4
  %slept = load i64, ptr %q_slept
  %slept1 = add i64 %slept, 1
  store i64 %slept1, ptr %q_slept
{load("turn", as_name="turn4")}
  %fuel4 = load i64, ptr %q_fuel4
  %ran = sub i64 %turn4, %fuel4
  %is_busy = icmp ugt i64 %ran, {layout.BUSY}
{load("naps")}
  %more_naps = add i64 %naps, 1
  %naps1 = select i1 %is_busy, i64 0, i64 %more_naps
{store("naps", "%naps1", "naps1")}
  %is_drowsy = icmp ugt i64 %naps1, {layout.NAPS}
  br i1 %is_drowsy, label %drowses, label %goes_on
drowses:
{store("in_turn", "0", "in_turn2")}
  %position3 = add i64 %position, 1
{store("position", "%position3", "position3")}
  ret i64 {layout.DROWSE}
waits:
{put(state.STATUS, str(state.AT_BARRIER), "q_wait")}
{load("at_barrier")}
  %at_barrier1 = add i64 %at_barrier, 1
{store("at_barrier", "%at_barrier1", "barrier1")}
  br label %awake
ended:
{put(state.STATUS, str(state.ENDED), "q_end")}
  %live1 = sub i64 %live, 1
{store("live", "%live1", "live1")}
{wave_word(state.FUEL, "q_fuel3")}
{wave_word(layout.LIMIT, "q_limit3")}
  %fuel3 = load i64, ptr %q_fuel3
  %limit3 = load i64, ptr %q_limit3
{load("step_limit")}
{wave_word(state.SLEPT, "q_slept3")}
  %slept3 = load i64, ptr %q_slept3
  %used1 = sub i64 %step_limit, %fuel3
  %used2 = sub i64 %used1, %limit3
  %used = add i64 %used2, %slept3
{load("retired")}
  %retired1 = add i64 %retired, %used
{store("retired", "%retired1", "retired1")}
{store("in_turn", "0", "in_turn0")}
  %position2 = add i64 %position, 1
{store("position", "%position2", "position2")}
  br label %run
awake:
{store("naps", "0", "naps0")}
  br label %goes_on
goes_on:
{store("in_turn", "0", "in_turn3")}
  %position4 = add i64 %position, 1
{store("position", "%position4", "position4")}
  br label %time
time:
{load("ticks", "ptr")}
{load("seen")}
  %ticked = load volatile i64, ptr %ticks
  %is_quiet = icmp eq i64 %ticked, %seen
  br i1 %is_quiet, label %look, label %tick
tick:
  ret i64 {layout.TICK}
}}

; A new round: waves wait no longer where all that live have come to the barrier.
define internal void @turn_over(ptr %ctx) {{
entry:
{load("round")}
{load("rounds")}
  %round1 = add i64 %round, 1
  %wraps = icmp uge i64 %round1, %rounds
  %round2 = select i1 %wraps, i64 0, i64 %round1
{store("round", "%round2", "round2")}
{store("position", "0", "position0")}
{load("live")}
{load("at_barrier")}
  %together = icmp uge i64 %at_barrier, %live
  br i1 %together, label %release, label %done
done:
  ret void
release:
{store("at_barrier", "0", "barrier0")}
{load("waves")}
{load("states", "ptr")}
  br label %each
each:
  %w = phi i64 [ 0, %release ], [ %w1, %after ]
  %offset = mul i64 %w, {state.STATE_BYTES}
  %wave = getelementptr i8, ptr %states, i64 %offset
{wave_word(state.STATUS, "q_status")}
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

{START}
; From region to region until something is up.
define internal i64 @dispatch(ptr %wave) {{
entry:
{wave_word(layout.CODE, "q_code")}
{wave_word(state.PC, "q_pc")}
{wave_word(state.MODE, "q_mode")}
{wave_word(layout.FUNCTION, "q_last")}
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
