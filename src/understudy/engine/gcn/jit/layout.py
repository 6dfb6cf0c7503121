"""What translated code, the compiled runtime and Python agree on: engine words, exit codes, numbers of helpers."""

from __future__ import annotations

from typing import Final

from understudy.isa.gcn.state import ENGINE

# Words of a wave's state that are the JIT's own.
LEAST_TURN: Final = 4096
"""Instructions: between two looks at fuel there are never more, or a wave would wait for its next turn forever."""
HELPERS: Final = ENGINE
"""Host address of the table of helper functions."""
TABLES: Final = ENGINE + 1
"""Host address of the level-1 page table."""
CODE: Final = ENGINE + 2
"""Host address of the code table for look-ups by `key`."""
SIDE_EXIT: Final = ENGINE + 3
"""The side exit taken: which strip could not be finished."""
LANE: Final = ENGINE + 4
"""First lane of the chunk in which that was."""
GDS_BASE: Final = ENGINE + 5
GDS_SIZE: Final = ENGINE + 6
LIMIT: Final = ENGINE + 7
"""Fuel of later turns: what the step limit leaves beyond FUEL."""
FUNCTION: Final = ENGINE + 8
"""Host address of the region that ran last."""
PARTIAL: Final = ENGINE + 9
"""From here on: masks that chunks before LANE have written, in the order of the side exit's list."""
PARTIALS: Final = 16
TEMPLATE: Final = PARTIAL + PARTIALS
"""Which first scalar registers (the scheduler's number of them) still lie in memory; 0: something was written since."""
HEAT: Final = TEMPLATE + 1
"""Host address of this thread's counters of blocks that were run without having been optimised."""
GRANTED: Final = HEAT + 1
"""The step limit: fuel of all turns together."""
KEY: Final = GRANTED + 1
"""What is looked up next beside MODE: 0, or `SITE_KEY`."""
CHECKED: Final = KEY + 1
"""1: what goes beyond the end of LDS is for the reference engine, which tells of it; 0: it reads 0, stores nothing."""
CLOCK: Final = CHECKED + 1
"""Host address of what s_memtime tells: a `native_clock.Clock`; 0: instructions."""
RACES: Final = CLOCK + 1
"""Host address of what the check of races knows of the wave: a `races.codes.WaveRow`; 0 without."""
UNMARKED: Final = RACES + 1
"""Host address of code that takes vector registers for unmarked: twins have no marks in those that it names; or MET."""
MET: Final = 1
"""Such code was left because it has met marks: code that follows them is to run in its place."""
RACE_SLOTS: Final = 64
"""Accesses of a strip of translated code that the check of races looks at, each in a slot of its own."""
QUIET: Final = HELPERS
"""Of a twin: host address of the table of what is only counted (`marks.sights`)."""
INLINE_CACHE: Final = UNMARKED + 1
"""From here on: for each access in translated code, three words about the run of memory that it met last."""
INLINE_CACHE_WORDS: Final = 3
"""Its first guest address, how far from there a chunk of dwords may begin (0: nowhere; of scalar accesses and atomics:
its size), host minus guest address."""
INLINE_CACHES: Final = {"load": 16, "store": 8, "scalar": 8, "atomic": 4}
"""How many accesses of a kind have words of their own; further ones share them."""

# How a region hands over.
JUMP: Final = 0
"""pc left the region."""
OUT_OF_FUEL: Final = 1
STEP: Final = 2
"""The instruction at pc is for the reference engine."""
END: Final = 3
BARRIER: Final = 4
RESUME: Final = 5
"""A strip could not be finished from lane LANE on: the reference engine does the rest or finds the fault."""
SLEEP: Final = 8
"""A pause: other waves have their turn."""
MISS: Final = 6
"""Of the scheduler: no region begins at pc."""
DONE: Final = 7
"""Of the scheduler: all groups have run."""
TICK: Final = 9
"""Of the scheduler: time has passed; nothing else is up."""
DROWSE: Final = 10
"""Of the scheduler: for a while waves have done nothing but pause."""
SITE: Final = 11
"""The instruction at pc is one whose meaning scalar registers decide: its own code does it (`threaded.site`)."""
UNTOLD: Final = 12
"""Of the scheduler, or of such code: there is none for what scalar registers say now; nor any that follows marks."""
UNEVEN: Final = 13
"""Of the scheduler: a barrier opens that not all work-items of the group have come to, and somebody looks at that."""
MARKED: Final = 14
"""Of code that takes vector registers for unmarked: they are not where it was entered, so that other code goes on."""
LOOKS: Final = 1
LOOKED: Final = 2
"""Of the context: whether somebody does, and has been told of the barrier that opens."""
SITE_KEY: Final = 1 << 40
"""Beside MODE, in the code table: the code of one such instruction, not what begins there."""
MARKED_KEY: Final = 1 << 39
"""Likewise: code that follows marks, not that which takes registers for unmarked."""

NAPS: Final = 1024
"""Pauses without real work in between after which the host's thread pauses as well."""
SHORT_NAPS: Final = 64
"""The same once it has."""
BUSY: Final = 1024
"""Instructions between two pauses that are real work, at least."""

SPACES: Final = ("global", "flat", "lds", "gds")
WIDTHS: Final = (8, 16, 32, 64, 96, 128)
HELPER_NAMES: Final = (
    *(f"{kind}_{space}_{bits}" for space in SPACES for kind in ("load", "store") for bits in WIDTHS),
    "atomic",
    "note",
    "reach",
    "unmark",
)
HELPER_INDEX: Final = {name: index for index, name in enumerate(HELPER_NAMES)}

ATOMICS: Final = (
    "swap", "cmpswap", "add", "sub", "rsub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec", "mskor",
    "wrap", "fadd", "fmin", "fmax", "fcmpswap",
)  # fmt: skip
"""Atomic operations, as translated code numbers them."""


def remembers(space: str) -> bool:
    """Whether helpers for a space are given an inline cache, or null: where the lanes lie in one run of memory, it is
    filled with that.
    """
    return space in ("global", "flat")


def chunk_lanes(features: frozenset[str]) -> int:
    """Lanes of a chunk on a host with these features."""
    if "avx512f" in features and "avx512bw" in features and "avx512dq" in features and "avx512vl" in features:
        return 16
    return 8 if "avx2" in features else 4
