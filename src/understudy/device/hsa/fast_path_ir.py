"""Repeated kernel dispatches, processed by machine code from the ring to the completion signal.

A template holds all that follows from a kernel's header and a packet's sizes. Where a packet fits one, only what
differs is put into the first scalar registers (addresses of packet and arguments, the dispatch id) and the waves run.
Everything else, and everything that is not right, is left to `processor` with nothing of the packet done. A test holds
the two together. Nobody may be listening, since no events are made.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

from understudy.device.hsa.packets import PACKET_BYTES, SIGNAL_AT, TYPE_MASK, PacketType
from understudy.device.hsa.records import SIGNAL_BYTES, AmdQueue, AmdSignal, QueueProperties, SignalKind
from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.context_ir import AT
from understudy.engine.gcn.memory import ADDEND, ADDRESS_BITS, COLUMNS, ENTRIES, GIB_BITS, START, STORES
from understudy.ir.object_cache import ObjectCache, default_folder, linked
from understudy.isa.gcn.state import SGPRS

QUEUE_WORDS: Final = (
    "ring", "ring_address", "mask", "queue", "limit", "active", "templates", "count", "tables", "clock", "schedule",
    "template", "done", "id", "signal", "start", "why", "instructions",
)  # fmt: skip
"""Words of a queue's block: host and guest address of the ring, size - 1, host address of amd_queue_t, and so on."""
Q: Final = {name: index for index, name in enumerate(QUEUE_WORDS)}
TEMPLATE_WORDS: Final = (
    "key0", "key1", "key2", "key3", "key4", "context", "groups", "table", "guards", "guard_count", "sgprs", "waves",
    "packet_sgpr", "kernarg_sgpr", "id_sgpr", "spare",
)  # fmt: skip
"""Words of a template. The keys are the packet's bytes 2 to 39; register numbers are -1 where a kernel has none."""
T: Final = {name: index for index, name in enumerate(TEMPLATE_WORDS)}
GUARD_WORDS: Final = 3
"""A guard: host addresses of what is and of what was, and the number of dwords that must be the same."""

IDLE, OTHER, SERVE, COMPLETE, BUDGET = range(5)
"""Results: nothing to do; the packet is for somebody else; waves of TEMPLATE left with WHY; the packet of TEMPLATE has
run and has to be completed; as many packets as allowed are done."""

_READ_AT: Final = AmdQueue.offset_of("read_dispatch_id")
_PROPERTIES_AT: Final = AmdQueue.offset_of("queue_properties")


def _word(block: str, index: int, name: str, kind: str = "i64") -> str:
    """Load a word of a block: %name from %p_name."""
    return f"  %p_{name} = getelementptr i64, ptr %{block}, i64 {index}\n  %{name} = load {kind}, ptr %p_{name}\n"


def _queue(name: str, kind: str = "i64") -> str:
    return _word("q", Q[name], name, kind)


def _template(name: str, kind: str = "i64") -> str:
    return _word("t", T[name], name, kind)


def _field(base: str, offset: int, name: str, kind: str) -> str:
    return f"  %p_{name} = getelementptr i8, ptr %{base}, i64 {offset}\n  %{name} = load {kind}, ptr %p_{name}\n"


def _patch(name: str, value: str) -> str:
    """Give the two words of `value` to all waves, from register %name_sgpr on."""
    return f"""
{_template(name)}
  %has_{name} = icmp sge i64 %{name}, 0
  br i1 %has_{name}, label %each_{name}, label %after_{name}
each_{name}:
  %w_{name} = phi i64 [ 0, %before_{name} ], [ %w1_{name}, %each_{name} ]
  %at_{name} = mul i64 %w_{name}, {SGPRS}
  %to_{name} = add i64 %at_{name}, %{name}
  %ptr_{name} = getelementptr i32, ptr %sgprs, i64 %to_{name}
  store i64 {value}, ptr %ptr_{name}, align 4
  %w1_{name} = add i64 %w_{name}, 1
  %more_{name} = icmp ult i64 %w1_{name}, %waves
  br i1 %more_{name}, label %each_{name}, label %after_{name}
after_{name}:
"""


_KEYS: Final = tuple(f"key{n}" for n in range(5))


def _same_key() -> str:
    """Compare the packet's words with a template's: %same."""
    lines = []
    for number, name in enumerate(_KEYS):
        lines.append(_word("t", T[name], name))
        lines.append(f"  %e{number} = icmp eq i64 %{name}, %k{number}\n")
    lines.append("  %a0 = and i1 %e0, %e1\n  %a1 = and i1 %e2, %e3\n  %a2 = and i1 %a0, %a1\n")
    lines.append("  %same = and i1 %a2, %e4\n")
    return "".join(lines)


_CONTEXT: Final = {name: f"getelementptr i64, ptr %context, i64 {AT[name]}" for name in AT}

_IR: Final = f"""
define i64 @consume(ptr %q, i64 %budget) {{
entry:
{_queue("queue", "ptr")}{_queue("ring", "ptr")}{_queue("ring_address")}{_queue("mask")}
  %p_read = getelementptr i8, ptr %queue, i64 {_READ_AT}
  %p_limit = getelementptr i64, ptr %q, i64 {Q["limit"]}
  %p_active = getelementptr i64, ptr %q, i64 {Q["active"]}
  %p_done = getelementptr i64, ptr %q, i64 {Q["done"]}
  store i64 0, ptr %p_done
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %n1, %completed ]
  %spent = icmp uge i64 %n, %budget
  br i1 %spent, label %out_budget, label %look
out_budget:
  ret i64 {BUDGET}
look:
  %id = load atomic i64, ptr %p_read seq_cst, align 8
  %limit = load atomic i64, ptr %p_limit seq_cst, align 8
  %active = load atomic i64, ptr %p_active seq_cst, align 8
  %some = icmp ult i64 %id, %limit
  %on = icmp ne i64 %active, 0
  %go = and i1 %some, %on
  br i1 %go, label %packet, label %out_idle
out_idle:
  ret i64 {IDLE}
packet:
  %slot = and i64 %id, %mask
  %offset = mul i64 %slot, {PACKET_BYTES}
  %p = getelementptr i8, ptr %ring, i64 %offset
  %header = load atomic i16, ptr %p acquire, align 2
  %type = and i16 %header, {TYPE_MASK}
  %is_kernel = icmp eq i16 %type, {PacketType.KERNEL_DISPATCH}
  br i1 %is_kernel, label %keys, label %out_other
out_other:
  ret i64 {OTHER}
keys:
{_field("p", 0, "w0", "i64")}{_field("p", 8, "k1", "i64")}{_field("p", 16, "k2", "i64")}
{_field("p", 24, "k3", "i64")}{_field("p", 32, "k4", "i64")}
  %k0 = lshr i64 %w0, 16
{_queue("templates", "ptr")}{_queue("count")}
  br label %search
search:
  %i = phi i64 [ 0, %keys ], [ %i1, %differs ]
  %left = icmp ult i64 %i, %count
  br i1 %left, label %try, label %out_other
try:
  %t = getelementptr [{len(TEMPLATE_WORDS)} x i64], ptr %templates, i64 %i
{_same_key()}
  br i1 %same, label %guard, label %differs
differs:
  %i1 = add i64 %i, 1
  br label %search
guard:
  %p_template = getelementptr i64, ptr %q, i64 {Q["template"]}
  store i64 %i, ptr %p_template
  %holds = call i1 @guarded(ptr %t)
{_field("p", 40, "kernarg", "i64")}
  %most = load i64, ptr @most
  %fits = icmp ule i64 %kernarg, %most
  %good = and i1 %holds, %fits
  br i1 %good, label %start, label %out_other
start:
{_template("context", "ptr")}{_template("groups")}{_template("table")}{_template("sgprs", "ptr")}{_template("waves")}
{_field("p", SIGNAL_AT, "signal", "i64")}
  %q_id = getelementptr i64, ptr %q, i64 {Q["id"]}
  store i64 %id, ptr %q_id
  %q_signal = getelementptr i64, ptr %q, i64 {Q["signal"]}
  store i64 %signal, ptr %q_signal
  %packet_address = add i64 %ring_address, %offset
  br label %before_packet_sgpr
before_packet_sgpr:
{_patch("packet_sgpr", "%packet_address")}
  br label %before_kernarg_sgpr
before_kernarg_sgpr:
{_patch("kernarg_sgpr", "%kernarg")}
  br label %before_id_sgpr
before_id_sgpr:
{_patch("id_sgpr", "%id")}
  %c_cursor = {_CONTEXT["cursor"]}
  %c_last = {_CONTEXT["last"]}
  %c_running = {_CONTEXT["running"]}
  %c_table = {_CONTEXT["code_of_entry"]}
  %c_retired = {_CONTEXT["retired"]}
  %c_first = {_CONTEXT["template"]}
  %first = load i64, ptr %c_first
  %first1 = add i64 %first, 1
  store i64 %first1, ptr %c_first
  store i64 0, ptr %c_cursor
  store i64 %groups, ptr %c_last
  store i64 0, ptr %c_running
  store i64 %table, ptr %c_table
  store i64 0, ptr %c_retired
{_queue("clock", "ptr")}{_queue("schedule", "ptr")}
  %start_ts = load i64, ptr %clock
  %p_start = getelementptr i64, ptr %q, i64 {Q["start"]}
  store i64 %start_ts, ptr %p_start
  %why = call i64 %schedule(ptr %context)
  %finished = icmp eq i64 %why, {layout.DONE}
  br i1 %finished, label %completion, label %out_serve
out_serve:
  %p_why = getelementptr i64, ptr %q, i64 {Q["why"]}
  store i64 %why, ptr %p_why
  ret i64 {SERVE}
completion:
  %none = icmp eq i64 %signal, 0
  br i1 %none, label %advance, label %find
find:
{_queue("tables", "ptr")}
  %low = and i64 %signal, 63
  %high = lshr i64 %signal, {ADDRESS_BITS}
  %odd = or i64 %low, %high
  %even = icmp eq i64 %odd, 0
  br i1 %even, label %level1, label %out_complete
level1:
  %gib = lshr i64 %signal, {GIB_BITS}
  %p_level2 = getelementptr ptr, ptr %tables, i64 %gib
  %level2 = load ptr, ptr %p_level2
  %there = icmp ne ptr %level2, null
  br i1 %there, label %row, label %out_complete
row:
  %page = lshr i64 %signal, 12
  %index = and i64 %page, {ENTRIES - 1}
  %p_row = getelementptr [{COLUMNS} x i64], ptr %level2, i64 %index
  %p_addend = getelementptr i64, ptr %p_row, i64 {ADDEND}
  %addend = load i64, ptr %p_addend
  %p_begin = getelementptr i64, ptr %p_row, i64 {START}
  %begin = load i64, ptr %p_begin
  %p_stores = getelementptr i64, ptr %p_row, i64 {STORES}
  %stores = load i64, ptr %p_stores
  %into = sub i64 %signal, %begin
  %signals_end = call i64 @llvm.usub.sat.i64(i64 %stores, i64 {SIGNAL_BYTES - 1})
  %inside = icmp ult i64 %into, %signals_end
  br i1 %inside, label %simple, label %out_complete
simple:
  %host = add i64 %addend, %signal
  %s = inttoptr i64 %host to ptr
{_field("s", AmdSignal.offset_of("kind"), "kind", "i64")}
{_field("s", AmdSignal.offset_of("event_mailbox_ptr"), "mailbox", "i64")}
  %user = icmp eq i64 %kind, {SignalKind.USER}
  %no_mailbox = icmp eq i64 %mailbox, 0
  %is_simple = and i1 %user, %no_mailbox
  br i1 %is_simple, label %advance, label %out_complete
out_complete:
  %p_why2 = getelementptr i64, ptr %q, i64 {Q["why"]}
  store i64 {layout.DONE}, ptr %p_why2
  ret i64 {COMPLETE}
advance:
  %target = phi ptr [ null, %completion ], [ %s, %simple ]
  %retired = load i64, ptr %c_retired
{_queue("instructions")}
  %instructions1 = add i64 %instructions, %retired
  store i64 %instructions1, ptr %p_instructions
  %ticks = add i64 %retired, 1
  %end_ts = add i64 %start_ts, %ticks
  store i64 %end_ts, ptr %clock
  store atomic i16 {PacketType.INVALID}, ptr %p release, align 2
  %id1 = add i64 %id, 1
  store atomic i64 %id1, ptr %p_read seq_cst, align 8
  %signalled = icmp ne ptr %target, null
  br i1 %signalled, label %profile, label %completed
profile:
{_field("queue", _PROPERTIES_AT, "properties", "i32")}
  %profiled = and i32 %properties, {QueueProperties.ENABLE_PROFILING}
  %is_profiled = icmp ne i32 %profiled, 0
  br i1 %is_profiled, label %times, label %decrement
times:
  %p_start_ts = getelementptr i8, ptr %target, i64 {AmdSignal.offset_of("start_ts")}
  store i64 %start_ts, ptr %p_start_ts
  %p_end_ts = getelementptr i8, ptr %target, i64 {AmdSignal.offset_of("end_ts")}
  store i64 %end_ts, ptr %p_end_ts
  br label %decrement
decrement:
  %p_value = getelementptr i8, ptr %target, i64 {AmdSignal.offset_of("value")}
  %before = atomicrmw sub ptr %p_value, %value 1 seq_cst, align 8
  br label %completed
completed:
  %n1 = add i64 %n, 1
  store i64 %n1, ptr %p_done
  br label %next
}}

declare i64 @llvm.usub.sat.i64(i64, i64)

; Whether everything that a template was made of is as it was.
define internal i1 @guarded(ptr %t) {{
entry:
{_template("guards", "ptr")}{_template("guard_count")}
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %same ]
  %more = icmp ult i64 %i, %guard_count
  br i1 %more, label %one, label %good
good:
  ret i1 true
one:
  %row = getelementptr [{GUARD_WORDS} x i64], ptr %guards, i64 %i
  %live = load ptr, ptr %row
  %p_copy = getelementptr i64, ptr %row, i64 1
  %copy = load ptr, ptr %p_copy
  %p_size = getelementptr i64, ptr %row, i64 2
  %size = load i64, ptr %p_size
  br label %dword
dword:
  %d = phi i64 [ 0, %one ], [ %d1, %equal ]
  %inside = icmp ult i64 %d, %size
  br i1 %inside, label %compare, label %same
compare:
  %p_a = getelementptr i32, ptr %live, i64 %d
  %a = load i32, ptr %p_a, align 4
  %p_b = getelementptr i32, ptr %copy, i64 %d
  %b = load i32, ptr %p_b, align 4
  %eq = icmp eq i32 %a, %b
  br i1 %eq, label %equal, label %bad
equal:
  %d1 = add i64 %d, 1
  br label %dword
bad:
  ret i1 false
same:
  %i1 = add i64 %i, 1
  br label %next
}}
"""


@cache
def consumer(bits: int) -> Callable[[int, int], int]:
    """``consume(block, budget)``, without the interpreter lock; pointers and signals have 64 or 32 `bits`."""
    model = f"%value = type i{bits}\n@most = internal constant i64 {(1 << bits) - 1}\n"
    code = linked(model + _IR, ObjectCache(default_folder()))
    return code.function("consume", ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
