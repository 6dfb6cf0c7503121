"""The first state of waves, compiled: registers that code may read, and the words of the engine."""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.context_ir import load, put, store, wave_word
from understudy.isa.gcn import state

ROW_PART: Final = "<16 x i32>"
"""What of a vector register is written at a time."""


def _row(name: str, source: str, at: str) -> str:
    """Write a vector register of the wave: from `source`, or with what undefined ones hold."""
    lines = []
    for part in range(0, state.LANES * 4, 64):
        lines.append(f"  %{name}_w{part} = add i64 {at}, {part}")
        value = "%undefineds"
        if source:
            value = f"%{name}_v{part}"
            lines.append(f"  %{name}_p{part} = getelementptr i8, ptr {source}, i64 %{name}_w{part}")
            lines.append(f"  {value} = load {ROW_PART}, ptr %{name}_p{part}, align 4")
        lines.append(f"  %{name}_q{part} = getelementptr i8, ptr %wave, i64 %{name}_w{part}")
        lines.append(f"  store {ROW_PART} {value}, ptr %{name}_q{part}, align 64")
    return "\n".join(lines)


def _group_register(name: str, column: int) -> str:
    """Write a work-group id where the wave gets it."""
    return f"""
{load(name)}
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


START: Final = f"""
; The first state of all waves of a group.
define internal void @start(ptr %ctx, ptr %group) {{
entry:
{load("shape_waves", "ptr")}
{load("states", "ptr")}
{load("execs", "ptr")}
{load("vgprs", "ptr")}
{load("most_waves")}
{load("rows")}
{load("sgprs", "ptr")}
{load("entry", as_name="first_pc")}
{load("mode")}
{load("step_limit")}
{load("lds", "ptr")}
{load("lds_size")}
{load("blank_lds", "ptr")}
{load("undefined", "i32")}
{load("first_rows")}
{load("blank_rows")}
{load("template", as_name="template_now")}
{load("info")}
{load("info_words", "ptr")}
  %q_shape = getelementptr i32, ptr %group, i64 3
  %shape32 = load i32, ptr %q_shape
  %shape = zext i32 %shape32 to i64
  %q_count = getelementptr i32, ptr %shape_waves, i64 %shape
  %count32 = load i32, ptr %q_count
  %count = zext i32 %count32 to i64
{store("waves", "%count", "waves")}
{store("live", "%count", "live")}
{store("running", "1", "running")}
{store("position", "0", "position")}
{store("round", "0", "round")}
{store("at_barrier", "0", "at_barrier")}
{store("in_turn", "0", "in_turn")}
{store("naps", "0", "naps")}
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %lds, ptr align 16 %blank_lds, i64 %lds_size, i1 false)
  %shape_at = mul i64 %shape, %most_waves
  %image_bytes = mul i64 %rows, {state.LANES * 4}
  %undefined_one = insertelement {ROW_PART} poison, i32 %undefined, i64 0
  %undefineds = shufflevector {ROW_PART} %undefined_one, {ROW_PART} poison, {ROW_PART} zeroinitializer
  %no_first = icmp eq i64 %first_rows, 0
  %no_blank = icmp eq i64 %first_rows, %blank_rows
  %some = icmp ne i64 %count, 0
  br i1 %some, label %each, label %done
done:
  ret void
each:
  %w = phi i64 [ 0, %entry ], [ %w1, %last_step ]
  %offset = mul i64 %w, {state.STATE_BYTES}
  %wave = getelementptr i8, ptr %states, i64 %offset
  %image = add i64 %shape_at, %w
  %image_at = mul i64 %image, %image_bytes
  %image_p = getelementptr i8, ptr %vgprs, i64 %image_at
  br i1 %no_first, label %firsts_done, label %firsts
firsts:
  %first_row = phi i64 [ 0, %each ], [ %first_row1, %firsts ]
  %first_at = mul i64 %first_row, {state.LANES * 4}
{_row("first", "%image_p", "%first_at")}
  %first_row1 = add i64 %first_row, 1
  %more_firsts = icmp ult i64 %first_row1, %first_rows
  br i1 %more_firsts, label %firsts, label %firsts_done
firsts_done:
  br i1 %no_blank, label %blanks_done, label %blanks
blanks:
  %blank_row = phi i64 [ %first_rows, %firsts_done ], [ %blank_row1, %blanks ]
  %blank_at = mul i64 %blank_row, {state.LANES * 4}
{_row("blank", "", "%blank_at")}
  %blank_row1 = add i64 %blank_row, 1
  %more_blanks = icmp ult i64 %blank_row1, %blank_rows
  br i1 %more_blanks, label %blanks, label %blanks_done
blanks_done:
  %sgpr_base = getelementptr i8, ptr %wave, i64 {state.SGPR_AT}
{wave_word(layout.TEMPLATE, "q_template")}
  %template_had = load i64, ptr %q_template
  %is_same = icmp eq i64 %template_had, %template_now
  br i1 %is_same, label %scalars_done, label %scalars
scalars:
  store i64 %template_now, ptr %q_template
  %template_at = mul i64 %w, {state.SGPRS * 4}
  %template = getelementptr i8, ptr %sgprs, i64 %template_at
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %sgpr_base, ptr align 16 %template, i64 {state.SGPRS * 4}, i1 false)
  br label %scalars_done
scalars_done:
  %q_exec = getelementptr i64, ptr %execs, i64 %image
  %exec = load i64, ptr %q_exec
  %exec_p = getelementptr i32, ptr %sgpr_base, i64 {state.EXEC}
  store i64 %exec, ptr %exec_p
{put(state.PC, "%first_pc", "w_pc")}
{put(state.SCC, "0", "w_scc")}
{put(state.MODE, "%mode", "w_mode")}
{put(state.STATUS, str(state.RUNNING), "w_status")}
{put(state.FUEL, "0", "w_fuel")}
{put(state.SLEPT, "0", "w_slept")}
{put(layout.LIMIT, "%step_limit", "w_limit")}
{put(state.TRAPSTS, "0", "w_trapsts")}
{load("code_of_entry")}
{put(layout.CODE, "%code_of_entry", "w_code")}
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
"""
