"""The compiled scheduler: runs a range of work-groups, wave by wave, from barrier to barrier.

It comes back to Python only where Python is needed: code that is not translated yet, an instruction for the reference
engine, a strip that could not be finished, fuel; when time has passed (`ticks`), or while all waves sleep; or when
all groups have run. Called again, it goes on where it was.
"""

from __future__ import annotations

import ctypes
from typing import Final

from understudy.engine.gcn.jit.context import Context
from understudy.engine.gcn.jit.layout import (
    BARRIER,
    BUSY,
    CODE,
    DONE,
    DROWSE,
    END,
    FUNCTION,
    JUMP,
    KEY,
    LIMIT,
    LOOKED,
    LOOKS,
    MARKED,
    MARKED_KEY,
    MISS,
    NAPS,
    OUT_OF_FUEL,
    SITE,
    SITE_KEY,
    SLEEP,
    TICK,
    UNEVEN,
    UNTOLD,
)
from understudy.engine.gcn.jit.native_start import GROUP_BYTES, start_group
from understudy.ir.native import (
    U32,
    U64,
    V64,
    call,
    inlined,
    layout,
    native,
    read_float_control,
    signed,
    write_float_control,
)
from understudy.isa.gcn.state import (
    AT_BARRIER,
    ENDED,
    EXEC,
    FUEL,
    MODE,
    PC,
    RUNNING,
    SGPR_AT,
    SLEPT,
    STATE_BYTES,
    STATUS,
    WORDS_AT,
)

CODE_SLOTS: Final = 1 << 12
"""Rows of a code table."""
KEY_SHIFT: Final = 29
"""Brings `layout.SITE_KEY` and `MARKED_KEY` among the numbers of rows: far from what begins at the same place."""


@layout
class CodeRow(ctypes.Structure):
    """Translated code: guest address and MODE where it may be entered, its function, and the number of that entry."""

    pc: int
    mode: int
    function: int
    entry: int


@native
def schedule(ctx: Context) -> int:
    """Run groups until something is up; what."""
    before = read_float_control()
    why = run_groups(ctx)
    write_float_control(before)
    return why


@native
def run_groups(ctx: Context) -> int:
    """The same, leaving the float control as it happens to be."""
    while True:
        if not ctx.running:
            if ctx.cursor >= ctx.last:
                return DONE
            start_group(ctx)
        if not ctx.live:
            ctx.cursor += 1
            ctx.running = 0
        elif ctx.position >= ctx.most_waves:
            if (ctx.looks == LOOKS) & (ctx.at_barrier >= ctx.live) and is_uneven(ctx):
                ctx.looks = LOOKED
                return UNEVEN
            turn_over(ctx)
            continue
        else:
            which = U32.at(ctx.order)[ctx.round * ctx.most_waves + ctx.position]
            wave = ctx.states + which * STATE_BYTES
            words = U64.at(wave + WORDS_AT)
            if which >= ctx.waves or words[STATUS] != RUNNING:
                ctx.position += 1
                continue
            ctx.current = which
            if not ctx.in_turn:
                refuel(ctx, wave)
            why = dispatch(wave)
            if why == END:
                words[STATUS] = ENDED
                ctx.live -= 1
                ctx.retired += ctx.step_limit - words[FUEL] - words[LIMIT] + words[SLEPT]
            elif why == BARRIER:
                words[STATUS] = AT_BARRIER
                ctx.at_barrier += 1
                ctx.naps = 0
            elif why == SLEEP:
                words[LIMIT] += 1
                words[SLEPT] += 1
                ctx.naps = 0 if signed(ctx.turn - words[FUEL]) > BUSY else ctx.naps + 1
            elif why == OUT_OF_FUEL and words[LIMIT]:
                ctx.naps = 0
            else:
                ctx.in_turn = 1
                return why
            ctx.in_turn = 0
            ctx.position += 1
            if why == END:
                continue
            if why == SLEEP and ctx.naps > NAPS:
                return DROWSE
        if V64[ctx.ticks] != ctx.seen:
            return TICK


@inlined
def refuel(ctx: Context, wave: int) -> None:
    """A new turn: fill FUEL up from what LIMIT leaves."""
    words = U64.at(wave + WORDS_AT)
    wanted = ctx.turn - words[FUEL]
    given = min(wanted, words[LIMIT]) if signed(wanted) > 0 else 0
    words[FUEL] += given
    words[LIMIT] -= given


@native
def turn_over(ctx: Context) -> None:
    """A new round: waves wait no longer where all that live have come to the barrier."""
    ctx.round += 1
    if ctx.round >= ctx.rounds:
        ctx.round = 0
    ctx.position = 0
    if ctx.at_barrier >= ctx.live:
        ctx.at_barrier = 0
        ctx.looks = min(ctx.looks, LOOKS)
        for number in range(ctx.waves):
            words = U64.at(ctx.states + number * STATE_BYTES + WORDS_AT)
            if words[STATUS] == AT_BARRIER:
                words[STATUS] = RUNNING


@native
def is_uneven(ctx: Context) -> int:
    """Whether some work-items of the group have not come to the barrier that opens: see `barriers.Barriers`."""
    image = U32.at(ctx.groups + ctx.cursor * GROUP_BYTES)[3] * ctx.most_waves
    first, different, missing, there = 0, 0, 0, 0
    for number in range(ctx.waves):
        wave = ctx.states + number * STATE_BYTES
        words = U64.at(wave + WORDS_AT)
        if words[STATUS] != AT_BARRIER:
            different = 1
        else:
            first = first if first else words[PC]
            different = different | (words[PC] != first)
            lanes = U64[wave + SGPR_AT + 4 * EXEC]
            there = there | lanes
            missing = missing | (U64.at(ctx.execs)[image + number] & ~lanes)
    return different | ((missing != 0) & (there != 0))


@inlined
def dispatch(wave: int) -> int:
    """From region to region until something is up."""
    words = U64.at(wave + WORDS_AT)
    while True:
        pc, mode = words[PC], words[MODE] | words[KEY]
        slot = (pc >> 2 ^ mode ^ mode >> KEY_SHIFT) & CODE_SLOTS - 1
        row = CodeRow.from_address(words[CODE] + slot * ctypes.sizeof(CodeRow))
        if (row.pc != pc) | (row.mode != mode):
            row = CodeRow.from_address(words[CODE] + (slot ^ 1) * ctypes.sizeof(CodeRow))
            if (row.pc != pc) | (row.mode != mode):
                return UNTOLD if words[KEY] else MISS
        words[FUNCTION] = row.function
        words[KEY] = 0
        why = call(row.function, wave, row.entry)
        if why == SITE:
            words[KEY] = SITE_KEY
        elif why == MARKED:
            words[KEY] = MARKED_KEY
        elif why != JUMP:
            return why
