"""The compiled scheduler of waves.

It gives waves their initial state and runs a range of work-groups, wave by wave, from barrier to barrier. It returns to
Python only if necessary, and the next call continues where it returned. The reasons are:

- code that is not translated yet, or an instruction for the reference engine;
- a strip-mined loop that was not completed;
- the end of a wave's fuel (instructions of its time slice);
- the end of a clock period (`pause.TICKS`), or all waves sleeping;
- the end of all work-groups.
"""

from __future__ import annotations

import ctypes
from typing import Final

from softcard.engine.gcn.jit.layout import (
    BARRIER,
    BARRIER_CHECKED,
    BARRIER_REPORTED,
    BUSY,
    CLEAN,
    CODE,
    DONE,
    DROWSE,
    END,
    FUNCTION,
    GRANTED,
    INLINE_CACHE_KEY,
    JUMP,
    KEY,
    LIMIT,
    MISS,
    OUT_OF_FUEL,
    PAUSES,
    SHADOW_DISTANCE,
    SHADOWED,
    SHADOWED_KEY,
    SLEEP,
    SPECIALISE,
    TEMPLATE,
    TICK,
    UNEVEN,
    UNSPECIALISED,
)
from softcard.engine.gcn.tiered.context import Context
from softcard.ir.native import (
    U32,
    U64,
    V64,
    call,
    copy,
    fill,
    fill_lines,
    inlined,
    layout,
    native,
    read_float_control,
    signed,
    write_float_control,
)
from softcard.isa.gcn.state import (
    ACC_AT,
    AT_BARRIER,
    ENDED,
    EXEC,
    FUEL,
    HW_ID,
    LANES,
    MODE,
    PC,
    RUNNING,
    SCC,
    SGPR_AT,
    SGPRS,
    SLEPT,
    STATE_BYTES,
    STATUS,
    TRAPSTS,
    WORDS_AT,
    XCC_AT,
)

# ---- initial state of waves ------------------------------------------------------------------------------------------
# The initial state of waves, compiled: registers that code may read, and the words of the engine.


GROUP_BYTES: Final = 16
"""The size in bytes of a row of `Context.groups`: three coordinates and a shape number, as dwords."""
LOWER: Final = (1 << XCC_AT) - 1
ROW_BYTES: Final = 4 * LANES
"""The size of a vector register, in bytes."""


@layout
class ShadowStart(ctypes.Structure):
    """The initial shadow state of waves for one kind of shadow, as host addresses and numbers.

    `undefined` is the shadow byte for everything that the launch does not initialise. `lds` is the address of the
    shadow of LDS, `sgprs` that of the initial shadow of scalar registers. `parts` is the address of pairs of an address
    and a number of bytes, which are the shadow of private memory; it is 0 without private memory. `part_ends` is the
    address of the numbers of pairs that the first 0, 1, 2 ... waves have together.
    """

    undefined: int
    lds: int
    sgprs: int
    parts: int
    part_ends: int


@native
def start_group(ctx: Context) -> None:
    """Initialise all waves of the work-group with the index `cursor`."""
    shape = U32.at(ctx.groups + ctx.cursor * GROUP_BYTES)[3]
    count = U32.at(ctx.shape_waves)[shape]
    ctx.waves, ctx.live, ctx.running = count, count, 1
    ctx.position, ctx.round, ctx.at_barrier, ctx.in_time_slice, ctx.pauses = 0, 0, 0, 0, 0
    copy(ctx.lds, ctx.blank_lds, ctx.lds_size)
    for number in range(count):
        start_vectors(ctx, number, shape * ctx.most_waves + number)
        start_scalars(ctx, number, shape * ctx.most_waves + number)
    for kind in range(ctx.shadows):
        start_shadow(ctx, kind, count)
    if ctx.tracked:
        call(ctx.start_tracked, ctx.tracked, ctx.cursor, count)


@native
def start_shadow(ctx: Context, kind: int, count: int) -> None:
    """Initialise one kind of shadow of `count` waves.

    It covers LDS, the registers that code may read, and private memory.
    """
    first = ShadowStart.from_address(ctx.shadow_starts + kind * ctypes.sizeof(ShadowStart))
    fill(first.lds, first.undefined, ctx.lds_size)
    if first.parts:
        for number in range(U64.at(first.part_ends)[count]):
            part = U64.at(first.parts)
            fill(part[2 * number], first.undefined, part[2 * number + 1])
    for number in range(count):
        shadow = ctx.states + number * STATE_BYTES + (kind + 1) * SHADOW_DISTANCE
        fill(shadow, 0, ctx.first_rows * ROW_BYTES)
        blank = shadow + ctx.first_rows * ROW_BYTES
        fill(blank, first.undefined, (ctx.blank_rows - ctx.first_rows) * ROW_BYTES)
        fill(shadow + ACC_AT, first.undefined, ctx.accumulators * ROW_BYTES)
        if ctx.blank_rows > ctx.first_rows:
            U64.at(ctx.states + number * STATE_BYTES + WORDS_AT)[CLEAN] = 0
        copy(shadow + SGPR_AT, first.sgprs, 4 * SGPRS)
        U64.at(shadow + WORDS_AT)[SCC] = first.undefined & 1


@inlined
def start_vectors(ctx: Context, number: int, image: int) -> None:
    """Initialise those vector registers of a wave that have launch values or that code may read.

    `number` is the wave's number, `image` the row of its launch values."""
    wave, given = ctx.states + number * STATE_BYTES, ctx.vgprs + image * ctx.rows * ROW_BYTES
    for row in range(ctx.first_rows):
        copy(wave + row * ROW_BYTES, given + row * ROW_BYTES, ROW_BYTES)
    blank = wave + ctx.first_rows * ROW_BYTES
    fill_lines(blank, ctx.undefined, (ctx.blank_rows - ctx.first_rows) * ROW_BYTES >> 6)
    fill_lines(wave + ACC_AT, ctx.undefined, ctx.accumulators * ROW_BYTES >> 6)


@inlined
def start_scalars(ctx: Context, number: int, image: int) -> None:
    """Initialise a wave's words and scalar registers.

    The initial values are not copied if the scalar registers still have them. `number` is the wave's number,
    `image` the row of its launch values."""
    wave = ctx.states + number * STATE_BYTES
    sgprs, words = wave + SGPR_AT, U64.at(wave + WORDS_AT)
    if words[TEMPLATE] != ctx.template:
        words[TEMPLATE] = ctx.template
        copy(sgprs, ctx.sgprs + number * (4 * SGPRS), 4 * SGPRS)
    U64[sgprs + 4 * EXEC] = U64.at(ctx.execs)[image]
    words[PC], words[MODE], words[CODE], words[LIMIT] = ctx.entry, ctx.mode, ctx.code_of_entry, ctx.step_limit
    words[GRANTED] = ctx.step_limit
    words[SCC], words[STATUS], words[FUEL], words[SLEPT], words[TRAPSTS] = 0, RUNNING, 0, 0, 0
    if ctx.last_xcc:
        words[HW_ID] = words[HW_ID] & LOWER | (ctx.cursor & ctx.last_xcc) << XCC_AT
    ids = U32.at(ctx.groups + ctx.cursor * GROUP_BYTES)
    give(sgprs, ctx.group_x, ids[0])
    give(sgprs, ctx.group_y, ids[1])
    give(sgprs, ctx.group_z, ids[2])
    give(sgprs, ctx.info, U32.at(ctx.info_words)[image])


@inlined
def give(sgprs: int, register: int, value: int) -> None:
    """Write a launch value to scalar register `register`.

    Do nothing if `register` is negative, that is, if the kernel does not request the value."""
    if signed(register) >= 0:
        U32.at(sgprs)[register] = value


# ---- scheduler -------------------------------------------------------------------------------------------------------


CODE_SLOTS: Final = 1 << 12
"""The number of rows in a table of translated code."""
KEY_SHIFT: Final = 29
"""The shift by which the flags `layout.INLINE_CACHE_KEY` and `SHADOWED_KEY` enter the hash of a key.

Entries with these flags therefore have other rows than plain code at the same pc.
"""


@layout
class CodeRow(ctypes.Structure):
    """A row of the table of translated code: guest address, MODE, function, and number of the entry point."""

    pc: int
    mode: int
    function: int
    entry: int


@native
def schedule(ctx: Context) -> int:
    """Run work-groups until an exit to Python is necessary, and return the exit code."""
    before = read_float_control()
    why = run_groups(ctx)
    write_float_control(before)
    return why


@native
def run_groups(ctx: Context) -> int:
    """Run work-groups until an exit to Python is necessary; return the exit code.

    The caller restores the host's float control.
    """
    while True:
        if not ctx.running:
            if ctx.cursor >= ctx.last:
                return DONE
            start_group(ctx)
        if not ctx.live:
            ctx.cursor += 1
            ctx.running = 0
        elif ctx.position >= ctx.most_waves:
            if (ctx.barrier_check == BARRIER_CHECKED) & (ctx.at_barrier >= ctx.live) and is_uneven(ctx):
                ctx.barrier_check = BARRIER_REPORTED
                return UNEVEN
            next_round(ctx)
            continue
        else:
            which = U32.at(ctx.order)[ctx.round * ctx.most_waves + ctx.position]
            wave = ctx.states + which * STATE_BYTES
            words = U64.at(wave + WORDS_AT)
            if which >= ctx.waves or words[STATUS] != RUNNING:
                ctx.position += 1
                continue
            ctx.current = which
            if not ctx.in_time_slice:
                refuel(ctx, wave)
            why = dispatch(wave)
            if why == END:
                words[STATUS] = ENDED
                ctx.live -= 1
                ctx.retired += ctx.step_limit - words[FUEL] - words[LIMIT] + words[SLEPT]
            elif why == BARRIER:
                words[STATUS] = AT_BARRIER
                ctx.at_barrier += 1
                ctx.pauses = 0
            elif why == SLEEP:
                words[LIMIT] += 1
                words[SLEPT] += 1
                ctx.pauses = 0 if signed(ctx.time_slice - words[FUEL]) > BUSY else ctx.pauses + 1
            elif why == OUT_OF_FUEL and words[LIMIT]:
                ctx.pauses = 0
            else:
                ctx.in_time_slice = 1
                return why
            ctx.in_time_slice = 0
            ctx.position += 1
            if why == END:
                continue
            if why == SLEEP and ctx.pauses > PAUSES:
                return DROWSE
        if V64[ctx.ticks] != ctx.seen:
            return TICK


@inlined
def refuel(ctx: Context, wave: int) -> None:
    """Begin a time slice of a wave by moving instructions from its word LIMIT to its word FUEL."""
    words = U64.at(wave + WORDS_AT)
    wanted = ctx.time_slice - words[FUEL]
    given = min(wanted, words[LIMIT]) if signed(wanted) > 0 else 0
    words[FUEL] += given
    words[LIMIT] -= given


@native
def next_round(ctx: Context) -> None:
    """Begin a round of time slices; open the barrier if all waves that have not ended wait there."""
    ctx.round += 1
    if ctx.round >= ctx.rounds:
        ctx.round = 0
    ctx.position = 0
    if ctx.at_barrier >= ctx.live:
        ctx.at_barrier = 0
        ctx.barrier_check = min(ctx.barrier_check, BARRIER_CHECKED)
        for number in range(ctx.waves):
            words = U64.at(ctx.states + number * STATE_BYTES + WORDS_AT)
            if words[STATUS] == AT_BARRIER:
                words[STATUS] = RUNNING


@native
def is_uneven(ctx: Context) -> int:
    """Return 1 if some work-items have not reached the barrier; see `checks.barriers.Barriers`."""
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
    """Run translated regions of a wave, one after the other, until an exit is necessary; return its code."""
    words = U64.at(wave + WORDS_AT)
    while True:
        pc, mode = words[PC], words[MODE] | words[KEY]
        slot = (pc >> 2 ^ mode ^ mode >> KEY_SHIFT) & CODE_SLOTS - 1
        row = CodeRow.from_address(words[CODE] + slot * ctypes.sizeof(CodeRow))
        if (row.pc != pc) | (row.mode != mode):
            row = CodeRow.from_address(words[CODE] + (slot ^ 1) * ctypes.sizeof(CodeRow))
            if (row.pc != pc) | (row.mode != mode):
                return UNSPECIALISED if words[KEY] else MISS
        words[FUNCTION] = row.function
        words[KEY] = 0
        why = call(row.function, wave, row.entry)
        if why == SPECIALISE:
            words[KEY] = INLINE_CACHE_KEY
        elif why == SHADOWED:
            words[KEY] = SHADOWED_KEY
        elif why != JUMP:
            return why
