"""Atomic operations of translated code: lane after lane, lowest first, on host memory.

Where memory of the host is less aligned than the guest's address the reference engine does them: no host promises more.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit import layout

NEW: Final = {
    "swap": "  %new = or {t} %d, 0",
    "cmpswap": "  %same = icmp eq {t} %old, %c\n  %new = select i1 %same, {t} %d, {t} %old",
    "add": "  %new = add {t} %old, %d",
    "sub": "  %new = sub {t} %old, %d",
    "rsub": "  %new = sub {t} %d, %old",
    "smin": "  %new = call {t} @llvm.smin.{t}({t} %old, {t} %d)",
    "umin": "  %new = call {t} @llvm.umin.{t}({t} %old, {t} %d)",
    "smax": "  %new = call {t} @llvm.smax.{t}({t} %old, {t} %d)",
    "umax": "  %new = call {t} @llvm.umax.{t}({t} %old, {t} %d)",
    "and": "  %new = and {t} %old, %d",
    "or": "  %new = or {t} %old, %d",
    "xor": "  %new = xor {t} %old, %d",
    "inc": "  %up = add {t} %old, 1\n  %over = icmp uge {t} %old, %d\n  %new = select i1 %over, {t} 0, {t} %up",
    "dec": "  %down = sub {t} %old, 1\n  %zero = icmp eq {t} %old, 0\n  %above = icmp ugt {t} %old, %d\n"
    "  %wrap = or i1 %zero, %above\n  %new = select i1 %wrap, {t} %d, {t} %down",
    "mskor": "  %inverse = xor {t} %c, -1\n  %kept = and {t} %old, %inverse\n  %new = or {t} %kept, %d",
}
"""What memory becomes, of its old value, the data and the second data."""


def _operation(number: int, name: str, t: str, size: int) -> str:
    """One operation on one place, done with compare and exchange."""
    return f"""
define internal {t} @{name}_{t}(ptr %p, {t} %d, {t} %c) {{
entry:
  %was = load atomic {t}, ptr %p monotonic, align {size}
  br label %try
try:
  %old = phi {t} [ %was, %entry ], [ %found, %try ]
{NEW[name].format(t=t)}
  %pair = cmpxchg ptr %p, {t} %old, {t} %new seq_cst seq_cst
  %found = extractvalue {{ {t}, i1 }} %pair, 0
  %ok = extractvalue {{ {t}, i1 }} %pair, 1
  br i1 %ok, label %done, label %try
done:
  ret {t} %old
}}
"""


def _all(t: str) -> str:
    """The operation of a number."""
    cases = " ".join(f"i64 {number}, label %{name}" for number, name in enumerate(layout.ATOMICS))
    bodies = "".join(
        f"{name}:\n  %r_{name} = call {t} @{name}_{t}(ptr %p, {t} %d, {t} %c)\n  ret {t} %r_{name}\n"
        for name in layout.ATOMICS
    )
    return (
        f"define internal {t} @any_{t}(i64 %op, ptr %p, {t} %d, {t} %c) {{\n"
        f"  switch i64 %op, label %none [ {cases} ]\nnone:\n  unreachable\n{bodies}}}\n"
    )


def atomics(lanes: int) -> str:
    """The helper: places are found for all lanes before the first of them changes."""
    parts = []
    for t, size in (("i32", 4), ("i64", 8)):
        parts += [_operation(number, name, t, size) for number, name in enumerate(layout.ATOMICS)]
        parts.append(_all(t))
    for name in ("smin", "smax"):
        parts.append(f"declare i64 @llvm.{name}.i64(i64, i64)\n")
    for name in ("smin", "umin", "smax", "umax"):
        parts.append(f"declare i32 @llvm.{name}.i32(i32, i32)\n")
    parts.append(f"""
define i64 @atomic(ptr %st, i64 %space, i64 %op, i64 %bytes, ptr %a, ptr %d, ptr %c, ptr %o, i64 %mask, i64 %sh) {{
entry:
  %places = alloca [{lanes} x i64]
  %low_bits = sub i64 %bytes, 1
  br label %find
find:
  %left = phi i64 [ %mask, %entry ], [ %rest, %found ]
  %some = icmp ne i64 %left, 0
  br i1 %some, label %look, label %act
look:
  %lane = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %minus = sub i64 %left, 1
  %rest = and i64 %left, %minus
  %q_a = getelementptr i64, ptr %a, i64 %lane
  %address = load i64, ptr %q_a
  %odd = and i64 %address, %low_bits
  %aligned = icmp eq i64 %odd, 0
  br i1 %aligned, label %reach, label %bad
reach:
  %host = call i64 @reach(ptr %st, i64 %space, i64 %address, i64 %bytes, i1 true)
  %q_place = getelementptr i64, ptr %places, i64 %lane
  store i64 %host, ptr %q_place
  %odd_host = and i64 %host, %low_bits
  %in_memory = icmp ne i64 %host, 1
  %askew = icmp ne i64 %odd_host, 0
  %uneven = and i1 %askew, %in_memory
  %nowhere = icmp eq i64 %host, 0
  %lost = or i1 %uneven, %nowhere
  br i1 %lost, label %bad, label %found
found:
  br label %find
bad:
  ret i64 1
act:
  br label %next
next:
  %todo = phi i64 [ %mask, %act ], [ %todo1, %done ]
  %more = icmp ne i64 %todo, 0
  br i1 %more, label %one, label %good
good:
  ret i64 0
one:
  %l = call i64 @llvm.cttz.i64(i64 %todo, i1 true)
  %minus1 = sub i64 %todo, 1
  %todo1 = and i64 %todo, %minus1
  %q_where = getelementptr i64, ptr %places, i64 %l
  %where = load i64, ptr %q_where
  %q_d = getelementptr i64, ptr %d, i64 %l
  %d64 = load i64, ptr %q_d
  %q_c = getelementptr i64, ptr %c, i64 %l
  %c64 = load i64, ptr %q_c
  %q_o = getelementptr i64, ptr %o, i64 %l
  %beyond = icmp eq i64 %where, 1
  br i1 %beyond, label %nothing_there, label %there
nothing_there:
  store i64 0, ptr %q_o
  br label %done
there:
  %p = inttoptr i64 %where to ptr
  %is64 = icmp eq i64 %bytes, 8
  br i1 %is64, label %wide, label %narrow
wide:
  %r64 = call i64 @any_i64(i64 %op, ptr %p, i64 %d64, i64 %c64)
  store i64 %r64, ptr %q_o
  br label %done
narrow:
  %d32 = trunc i64 %d64 to i32
  %c32 = trunc i64 %c64 to i32
  %r32 = call i32 @any_i32(i64 %op, ptr %p, i32 %d32, i32 %c32)
  %r32w = zext i32 %r32 to i64
  store i64 %r32w, ptr %q_o
  br label %done
done:
  br label %next
}}
""")
    return "".join(parts)
