"""The first state of waves, compiled: registers that code may read, and the words of the engine."""

from __future__ import annotations

import ctypes
from typing import Final

from understudy.engine.gcn.jit.context import Context
from understudy.engine.gcn.jit.home import TWIN
from understudy.engine.gcn.jit.layout import CODE, GRANTED, LIMIT, TEMPLATE, UNMARKED
from understudy.ir.native import U32, U64, call, copy, fill, fill_lines, inlined, layout, native, signed
from understudy.isa.gcn.state import (
    EXEC,
    FUEL,
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
)

GROUP_BYTES: Final = 16
"""Of a row of `groups`: three ids and the number of the group's shape, as dwords."""
ROW_BYTES: Final = 4 * LANES
"""Of a vector register."""


@layout
class MarkStart(ctypes.Structure):
    """First marks: `undefined` (a byte) of what the launch says nothing of, `sgprs` of scalar registers.

    Where the marks of LDS are. Those of private memory lie in `parts`, pairs of an address and a number of bytes: how
    many pairs the first waves have together is in `part_ends`, from no wave on; 0: there is none.
    """

    undefined: int
    lds: int
    sgprs: int
    parts: int
    part_ends: int


@native
def start_group(ctx: Context) -> None:
    """The first state of all waves of the group at `cursor`."""
    shape = U32.at(ctx.groups + ctx.cursor * GROUP_BYTES)[3]
    count = U32.at(ctx.shape_waves)[shape]
    ctx.waves, ctx.live, ctx.running = count, count, 1
    ctx.position, ctx.round, ctx.at_barrier, ctx.in_turn, ctx.naps = 0, 0, 0, 0, 0
    copy(ctx.lds, ctx.blank_lds, ctx.lds_size)
    for number in range(count):
        start_vectors(ctx, number, shape * ctx.most_waves + number)
        start_scalars(ctx, number, shape * ctx.most_waves + number)
    for kind in range(ctx.kinds):
        start_marks(ctx, kind, count)
    if ctx.races:
        call(ctx.start_races, ctx.races, ctx.cursor, count)


@native
def start_marks(ctx: Context, kind: int, count: int) -> None:
    """The first marks of a kind: of LDS, of registers that code may read, of private memory."""
    first = MarkStart.from_address(ctx.mark_starts + kind * ctypes.sizeof(MarkStart))
    fill(first.lds, first.undefined, ctx.lds_size)
    if first.parts:
        for number in range(U64.at(first.part_ends)[count]):
            part = U64.at(first.parts)
            fill(part[2 * number], first.undefined, part[2 * number + 1])
    for number in range(count):
        twin = ctx.states + number * STATE_BYTES + (kind + 1) * TWIN
        fill(twin, 0, ctx.first_rows * ROW_BYTES)
        blank = twin + ctx.first_rows * ROW_BYTES
        fill(blank, first.undefined, (ctx.blank_rows - ctx.first_rows) * ROW_BYTES)
        if ctx.blank_rows > ctx.first_rows:
            U64.at(ctx.states + number * STATE_BYTES + WORDS_AT)[UNMARKED] = 0
        copy(twin + SGPR_AT, first.sgprs, 4 * SGPRS)
        U64.at(twin + WORDS_AT)[SCC] = first.undefined & 1


@inlined
def start_vectors(ctx: Context, number: int, image: int) -> None:
    """Vector registers: those that are given, then those that are undefined and may be read."""
    wave, given = ctx.states + number * STATE_BYTES, ctx.vgprs + image * ctx.rows * ROW_BYTES
    for row in range(ctx.first_rows):
        copy(wave + row * ROW_BYTES, given + row * ROW_BYTES, ROW_BYTES)
    blank = wave + ctx.first_rows * ROW_BYTES
    fill_lines(blank, ctx.undefined, (ctx.blank_rows - ctx.first_rows) * ROW_BYTES >> 6)


@inlined
def start_scalars(ctx: Context, number: int, image: int) -> None:
    """Scalar registers, as far as they are not as they were given, and the words of the wave."""
    wave = ctx.states + number * STATE_BYTES
    sgprs, words = wave + SGPR_AT, U64.at(wave + WORDS_AT)
    if words[TEMPLATE] != ctx.template:
        words[TEMPLATE] = ctx.template
        copy(sgprs, ctx.sgprs + number * (4 * SGPRS), 4 * SGPRS)
    U64[sgprs + 4 * EXEC] = U64.at(ctx.execs)[image]
    words[PC], words[MODE], words[CODE], words[LIMIT] = ctx.entry, ctx.mode, ctx.code_of_entry, ctx.step_limit
    words[GRANTED] = ctx.step_limit
    words[SCC], words[STATUS], words[FUEL], words[SLEPT], words[TRAPSTS] = 0, RUNNING, 0, 0, 0
    ids = U32.at(ctx.groups + ctx.cursor * GROUP_BYTES)
    give(sgprs, ctx.group_x, ids[0])
    give(sgprs, ctx.group_y, ids[1])
    give(sgprs, ctx.group_z, ids[2])
    give(sgprs, ctx.info, U32.at(ctx.info_words)[image])


@inlined
def give(sgprs: int, register: int, value: int) -> None:
    """Put a value into a scalar register, if the kernel wants it in one."""
    if signed(register) >= 0:
        U32.at(sgprs)[register] = value
