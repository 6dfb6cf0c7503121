"""The scheduler's context: 64-bit words that Python and the compiled scheduler share."""

from __future__ import annotations

import ctypes
from typing import Final

from understudy.ir.native import layout, numbers


@layout
class Context(ctypes.Structure):
    """Arrays are given by their host address."""

    states: int
    waves: int
    groups: int
    """Ids and shape of each work-group."""
    cursor: int
    """The group that runs, or is next."""
    last: int
    """Behind the last group to run."""
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
    turn: int
    step_limit: int
    lds: int
    lds_size: int
    blank_lds: int
    undefined: int
    first_rows: int
    blank_rows: int
    template: int
    """Which first scalar registers are given: the number changes when they do."""
    retired: int
    in_turn: int
    """Whether `current` goes on with a turn that it has begun."""
    current: int
    code_of_entry: int
    ticks: int
    seen: int
    naps: int
    kinds: int
    """Of marks."""
    mark_starts: int
    """First marks of each kind: see `native_start.MarkStart`."""
    looks: int
    """Whether somebody looks at who comes to barriers: 0, `layout.LOOKS`, or `layout.LOOKED` where it was told of."""
    races: int
    """What the check of races knows of the group that runs: a `races.codes.Group`; 0 without."""
    start_races: int
    """Host address of what makes it know of a new one."""


AT: Final = numbers(Context)
