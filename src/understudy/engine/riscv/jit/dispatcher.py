"""The loop between translated regions, itself translated: look the pc up, call, go on until something is up."""

from __future__ import annotations

from typing import Final

from understudy.isa.riscv import state as layout

JUMP: Final = 0
"""Exit code: pc left the region; go on wherever it points."""
OUT_OF_FUEL: Final = 1
"""Exit code: not enough fuel to reach the next check; nothing at pc has run."""
STEP: Final = 2
"""Exit code: the instruction at pc needs the reference engine."""
MISS: Final = 3
"""Exit code of the dispatcher: no translated code at pc."""
POLLED: Final = 5
"""Exit code: the hart has polled as often as it may; pc is where the next round begins."""
RETURNED: Final = 4
"""Exit code of the dispatcher: pc is the return address."""

DISPATCHER: Final = f"""
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)

define i64 @dispatch(ptr %st) #0 {{
entry:
  %saved = alloca i32
  %mine = alloca i32
  %q_pc = getelementptr i64, ptr %st, i64 {layout.PC}
  %q_fuel = getelementptr i64, ptr %st, i64 {layout.FUEL}
  %q_ret = getelementptr i64, ptr %st, i64 {layout.RETURN_ADDRESS}
  %q_table = getelementptr i64, ptr %st, i64 {layout.CODE_TABLE}
  %q_frm = getelementptr i64, ptr %st, i64 {layout.FRM}
  %q_flags = getelementptr i64, ptr %st, i64 {layout.FFLAGS}
  %table = load ptr, ptr %q_table
  %ret = load i64, ptr %q_ret
  ; the guest's rounding mode (RNE RTZ RDN RUP) in the host's numbering (0 3 1 2), all exceptions masked
  %frm = load i64, ptr %q_frm
  %twice = shl i64 %frm, 1
  %turn = lshr i64 156, %twice
  %two = and i64 %turn, 3
  %place = shl i64 %two, 13
  %control = or i64 %place, 8064
  %control32 = trunc i64 %control to i32
  store i32 %control32, ptr %mine
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  call void @llvm.x86.sse.ldmxcsr(ptr %mine)
  br label %loop
loop:
  %pc = load i64, ptr %q_pc
  %home = icmp eq i64 %pc, %ret
  br i1 %home, label %done, label %look
look:
  %half = lshr i64 %pc, 1
  %slot = and i64 %half, {{mask}}
  %row = getelementptr [2 x i64], ptr %table, i64 %slot
  %tag = load i64, ptr %row
  %hit = icmp eq i64 %tag, %pc
  br i1 %hit, label %go, label %done
go:
  %cell = getelementptr [2 x i64], ptr %table, i64 %slot, i64 1
  %code = load ptr, ptr %cell
  %r = call i64 %code(ptr %st, i64 %pc) #0
  %more = icmp eq i64 %r, {JUMP}
  br i1 %more, label %loop, label %done
done:
  %why = phi i64 [ {RETURNED}, %loop ], [ {MISS}, %look ], [ %r, %go ]
  call void @llvm.x86.sse.stmxcsr(ptr %mine)
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  ; invalid, divide by zero, overflow, underflow, inexact: bits 0 2 3 4 5 there, 4 3 2 1 0 here
  %raised32 = load i32, ptr %mine
  %raised = zext i32 %raised32 to i64
  %ie = and i64 %raised, 1
  %nv = shl i64 %ie, 4
  %ze = and i64 %raised, 4
  %dz = shl i64 %ze, 1
  %oe = and i64 %raised, 8
  %of = lshr i64 %oe, 1
  %ue = and i64 %raised, 16
  %uf = lshr i64 %ue, 3
  %pe = and i64 %raised, 32
  %nx = lshr i64 %pe, 5
  %f1 = or i64 %nv, %dz
  %f2 = or i64 %of, %uf
  %f3 = or i64 %f1, %f2
  %f4 = or i64 %f3, %nx
  %old = load i64, ptr %q_flags
  %new = or i64 %old, %f4
  store i64 %new, ptr %q_flags
  ret i64 %why
}}
define i64 @exchange32(ptr %where, i64 %expected, i64 %new) {{
  %e = trunc i64 %expected to i32
  %n = trunc i64 %new to i32
  %pair = cmpxchg ptr %where, i32 %e, i32 %n seq_cst seq_cst
  %old = extractvalue {{ i32, i1 }} %pair, 0
  %wide = zext i32 %old to i64
  ret i64 %wide
}}

define i64 @exchange64(ptr %where, i64 %expected, i64 %new) {{
  %pair = cmpxchg ptr %where, i64 %expected, i64 %new seq_cst seq_cst
  %old = extractvalue {{ i64, i1 }} %pair, 0
  ret i64 %old
}}
attributes #0 = {{ strictfp nounwind }}
"""
"""The loop between regions, for hosts with an MXCSR; and compare-and-exchange, for the other engine's atomics."""
