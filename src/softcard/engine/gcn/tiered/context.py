"""The scheduler's context, a structure of 64-bit words that Python and the compiled scheduler share."""

from __future__ import annotations

import ctypes
from typing import Final

from softcard.ir.native import layout, numbers


@layout
class Context(ctypes.Structure):
    """The scheduler's context, shared with compiled code. Fields that refer to arrays hold host addresses."""

    states: int
    waves: int
    groups: int
    """The host address of a row for each work-group: its coordinates and the number of its shape."""
    cursor: int
    """The index of the running work-group, or of the next one if none is running."""
    last: int
    """The end of the range of work-groups to run: one more than the index of the last one."""
    running: int
    position: int
    live: int
    order: int
    rounds: int
    round: int
    at_barrier: int
    shape_waves: int
    execs: int
    vgprs: int
    most_waves: int
    rows: int
    sgprs: int
    group_x: int
    group_y: int
    group_z: int
    info: int
    info_words: int
    entry: int
    mode: int
    time_slice: int
    step_limit: int
    lds: int
    lds_size: int
    blank_lds: int
    undefined: int
    first_rows: int
    blank_rows: int
    accumulators: int
    """The number of accumulation registers that a wave's first code may read."""
    template: int
    """The version number of the initial scalar registers, which changes with their contents."""
    retired: int
    in_time_slice: int
    """True if the wave `current` has already begun its time slice."""
    current: int
    code_of_entry: int
    ticks: int
    seen: int
    pauses: int
    shadows: int
    """The number of kinds of shadow registers."""
    shadow_starts: int
    """The host address of the initial shadow state of each kind; see `native_scheduler.ShadowStart`."""
    barrier_check: int
    """The state of the barrier check.

    It is 0 if the check is off, `layout.BARRIER_CHECKED` if it is on, and `layout.BARRIER_REPORTED` after it has
    reported.
    """
    tracked: int
    """The host address of the running work-group's state in a check (`hooks.GroupState`); 0 without a check."""
    start_tracked: int
    """The host address of the function that resets `tracked` when a work-group begins."""
    last_xcc: int
    """The number of accelerator dies, a power of two, minus 1. Work-groups are assigned to dies in turn."""


AT: Final = numbers(Context)
