"""Many small commands at once: the plain ones of a buffer, executed by machine code.

NOP, WRITE_REG64 and LOAD_REG64 of the registers without effects, STORE_REG64 and STORE_IMM64 into plain memory mean
the same here as in `cmp`, which judges: everything else, and everything that is not right, is left to it with
nothing of the command done. A test holds the two together. Nobody may be listening, since no events are made.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from understudy.device.refsi import registers as r
from understudy.device.refsi.commands import Opcode
from understudy.device.refsi.interfaces import Extent
from understudy.ir import llvm
from understudy.ir.object_cache import ObjectCache, default_folder, linked

MAX_EXTENTS: Final = 16
EXTENT_WORDS: Final = 4

# Words of the block that Python and machine code share.
WORDS, POSITION, END, REGISTERS, DONE, EXTENTS, COUNT, LOW, HIGH, MASK, ADDRESS = range(11)
BLOCK_WORDS: Final = 11
ACCESS_CODES: Final = {"read": 0, "write": 1}
"""Last word of an extent: what may not be read may yet be written, or somewhere else."""
STOPPED, OUTSIDE = 0, 1
"""Results: at POSITION is a command for somebody else; the command there needs the memory at ADDRESS."""

PLAIN_REGISTERS: Final = r.RETURN_ADDR.offset + 1
"""Registers 0 up to this have no effect when written."""


def _shared(name: str, offset: int, ty: str = "i64") -> str:
    return f"  %p_{name} = getelementptr i64, ptr %block, i64 {offset}\n  %{name} = load {ty}, ptr %p_{name}\n"


def _memory(tag: str, address: str, kind: str, then: str) -> str:
    """IR that looks `address` up among the extents and goes to `then` with %where_`tag`; else leaves."""
    return f"""
find_{tag}:
  %low_{tag} = and i64 {address}, 7
  %odd_{tag} = icmp ne i64 %low_{tag}, 0
  br i1 %odd_{tag}, label %stop, label %next_{tag}
next_{tag}:
  %i_{tag} = phi i64 [ 0, %find_{tag} ], [ %j_{tag}, %step_{tag} ]
  %more_{tag} = icmp ult i64 %i_{tag}, %count
  br i1 %more_{tag}, label %try_{tag}, label %outside_{tag}
try_{tag}:
  %row_{tag} = getelementptr [{EXTENT_WORDS} x i64], ptr %extents, i64 %i_{tag}
  %start_{tag} = load i64, ptr %row_{tag}
  %q1_{tag} = getelementptr i64, ptr %row_{tag}, i64 1
  %room_{tag} = load i64, ptr %q1_{tag}
  %q2_{tag} = getelementptr i64, ptr %row_{tag}, i64 2
  %addend_{tag} = load i64, ptr %q2_{tag}
  %q3_{tag} = getelementptr i64, ptr %row_{tag}, i64 3
  %for_{tag} = load i64, ptr %q3_{tag}
  %same_{tag} = icmp eq i64 %for_{tag}, {ACCESS_CODES[kind]}
  %off_{tag} = sub i64 {address}, %start_{tag}
  %fit_{tag} = icmp ule i64 %off_{tag}, %room_{tag}
  %ok_{tag} = and i1 %fit_{tag}, %same_{tag}
  br i1 %ok_{tag}, label %found_{tag}, label %step_{tag}
step_{tag}:
  %j_{tag} = add i64 %i_{tag}, 1
  br label %next_{tag}
outside_{tag}:
  store i64 {address}, ptr %p_address
  br label %outside
found_{tag}:
  %host_{tag} = add i64 %addend_{tag}, {address}
  %where_{tag} = inttoptr i64 %host_{tag} to ptr
  br label %{then}
"""


_IR: Final = f"""
define i64 @commands(ptr %block) {{
entry:
{_shared("words", WORDS, "ptr")}{_shared("position", POSITION)}{_shared("end", END)}
{_shared("registers", REGISTERS, "ptr")}{_shared("done", DONE)}{_shared("extents", EXTENTS, "ptr")}
{_shared("count", COUNT)}{_shared("low", LOW)}{_shared("high", HIGH)}{_shared("mask", MASK)}
  %p_address = getelementptr i64, ptr %block, i64 {ADDRESS}
  br label %loop
loop:
  %at = phi i64 [ %position, %entry ], [ %after, %again ]
  %n = phi i64 [ %done, %entry ], [ %n1, %again ]
  %left = icmp ult i64 %at, %end
  br i1 %left, label %decode, label %stop
decode:
  %q_header = getelementptr i64, ptr %words, i64 %at
  %header = load i64, ptr %q_header
  %fixed = and i64 %header, %mask
  %good = icmp eq i64 %fixed, 3221225472
  br i1 %good, label %payload, label %stop
payload:
  %counted = lshr i64 %header, 17
  %chunks = and i64 %counted, 8191
  %first = add i64 %at, 1
  %after = add i64 %first, %chunks
  %whole = icmp ule i64 %after, %end
  br i1 %whole, label %dispatch, label %stop
dispatch:
  %inline = lshr i64 %header, 32
  %q_value = getelementptr i64, ptr %words, i64 %first
  %shifted = lshr i64 %header, 8
  %opcode = and i64 %shifted, 255
  %one = icmp eq i64 %chunks, 1
  %none = icmp eq i64 %chunks, 0
  %plain = icmp ult i64 %inline, {PLAIN_REGISTERS}
  %one_plain = and i1 %one, %plain
  switch i64 %opcode, label %stop [
    i64 {Opcode.NOP}, label %nop
    i64 {Opcode.WRITE_REG64}, label %write
    i64 {Opcode.LOAD_REG64}, label %load
    i64 {Opcode.STORE_REG64}, label %store
    i64 {Opcode.STORE_IMM64}, label %store_imm
  ]
nop:
  br i1 %none, label %again, label %stop
write:
  br i1 %one_plain, label %write_it, label %stop
write_it:
  %new = load i64, ptr %q_value
  %q_reg = getelementptr i64, ptr %registers, i64 %inline
  store i64 %new, ptr %q_reg
  br label %again
load:
  br i1 %one_plain, label %load_at, label %stop
load_at:
  %source = load i64, ptr %q_value
  br label %find_load
{_memory("load", "%source", "read", "load_it")}
load_it:
  %loaded = load volatile i64, ptr %where_load
  %q_loaded = getelementptr i64, ptr %registers, i64 %inline
  store i64 %loaded, ptr %q_loaded
  br label %again
store:
  br i1 %one_plain, label %store_at, label %stop
store_at:
  %target_reg = load i64, ptr %q_value
  %q_from = getelementptr i64, ptr %registers, i64 %inline
  %value_reg = load i64, ptr %q_from
  br label %store_any
store_imm:
  br i1 %one, label %store_imm_at, label %stop
store_imm_at:
  %value_imm = load i64, ptr %q_value
  br label %store_any
store_any:
  %target = phi i64 [ %target_reg, %store_at ], [ %inline, %store_imm_at ]
  %value = phi i64 [ %value_reg, %store_at ], [ %value_imm, %store_imm_at ]
  br label %find_store
{_memory("store", "%target", "write", "store_it")}
store_it:
  store volatile i64 %value, ptr %where_store
  %lowest = load i64, ptr %p_low
  %low1 = call i64 @llvm.umin.i64(i64 %lowest, i64 %host_store)
  store i64 %low1, ptr %p_low
  %highest = load i64, ptr %p_high
  %behind = add i64 %host_store, 8
  %high1 = call i64 @llvm.umax.i64(i64 %highest, i64 %behind)
  store i64 %high1, ptr %p_high
  br label %again
again:
  %n1 = add i64 %n, 1
  br label %loop
stop:
  %why = phi i64 [ {STOPPED}, %loop ], [ {STOPPED}, %decode ], [ {STOPPED}, %payload ], [ {STOPPED}, %dispatch ],
    [ {STOPPED}, %nop ], [ {STOPPED}, %write ], [ {STOPPED}, %load ], [ {STOPPED}, %find_load ],
    [ {STOPPED}, %store ], [ {STOPPED}, %store_imm ], [ {STOPPED}, %find_store ], [ {OUTSIDE}, %outside ]
  store i64 %at, ptr %p_position
  store i64 %n, ptr %p_done
  ret i64 %why
outside:
  br label %stop
}}
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
"""


@cache
def _code() -> llvm.Code:
    return linked(_IR, ObjectCache(default_folder()))


class Bulk:
    """Runs the plain commands of one device.

    `direct(address, access)` gives the extent around an address that the command processor reaches as plain memory
    ("read" or "write"), or None; `written(host, size)` is told which memory of this process was written. `lax`: the
    reference driver's reading of headers.
    """

    def __init__(
        self,
        registers: memoryview[int],
        direct: Callable[[int, str], Extent | None],
        written: Callable[[int, int], None],
        lax: bool,
    ) -> None:
        self._direct = direct
        self._written = written
        self._block = np.zeros(BLOCK_WORDS, dtype=np.uint64)
        self._block_address = int(self._block.ctypes.data)
        self._shared = self._block.data.cast("B").cast("Q")
        self._extents = np.zeros((MAX_EXTENTS, EXTENT_WORDS), dtype=np.uint64)
        self._shared[REGISTERS] = np.frombuffer(registers, dtype=np.uint64).ctypes.data
        self._shared[EXTENTS] = self._extents.ctypes.data
        self._shared[MASK] = 0xC000_00FF if lax else 0xC001_00FF
        self._run = _code().function("commands", ctypes.c_uint64, ctypes.c_void_p)

    def run(self, words: memoryview[int], chunk: int, end: int) -> tuple[int, int]:
        """Execute plain commands from `chunk` on; the chunk of the first other one, and how many were done.

        Other commands move windows, so every run looks addresses up anew.
        """
        shared = self._shared
        shared[COUNT] = 0
        shared[WORDS] = np.frombuffer(words, dtype=np.uint64).ctypes.data
        shared[POSITION], shared[END], shared[DONE] = chunk, end, 0
        shared[LOW], shared[HIGH] = (1 << 64) - 1, 0
        while self._run(self._block_address) == OUTSIDE and self._learn(shared[ADDRESS], words[shared[POSITION]]):
            pass
        if shared[HIGH]:
            self._written(shared[LOW], shared[HIGH] - shared[LOW])
        return shared[POSITION], shared[DONE]

    def _learn(self, address: int, header: int) -> bool:
        """Add the extent around `address`; False where there is none."""
        access = "read" if header >> 8 & 0xFF == Opcode.LOAD_REG64 else "write"
        found = self._direct(address, access)
        if found is None or not found[0] <= address <= found[1] - r.REGISTER_BYTES:
            return False
        start, end, addend = found
        count = self._shared[COUNT]
        if count == MAX_EXTENTS:
            count = 0
        row = (start, end - start - r.REGISTER_BYTES, addend & ((1 << 64) - 1), ACCESS_CODES[access])
        self._extents[count] = np.array(row, dtype=np.uint64)
        self._shared[COUNT] = count + 1
        return True
