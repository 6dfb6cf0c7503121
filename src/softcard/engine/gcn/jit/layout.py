"""The layout that translated code, the compiled runtime and Python share.

It has the indices of the engine's 64-bit words in a wave's state, exit codes, and the numbers of helpers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.engine.gcn.api import MAX_WAVES
from softcard.isa.gcn.state import ENGINE, STATE_BYTES

# The JIT's own words of a wave's state.
LEAST_TIME_SLICE: Final = 4096
"""The maximum number of instructions between two fuel checks; a shorter time slice would block a wave."""
HELPERS: Final = ENGINE
"""The index of the word in a wave's state with the host address of the table of helper functions."""
TABLES: Final = ENGINE + 1
"""The index of the word in a wave's state with the host address of the first-level page table."""
CODE: Final = ENGINE + 2
"""The index of the word in a wave's state with the host address of the code table.

Blocks of translated code are looked up in that table by key.
"""
SIDE_EXIT: Final = ENGINE + 3
"""The index of the word in a wave's state with the number of the strip-mined loop that took a side exit."""
LANE: Final = ENGINE + 4
"""The index of the word in a wave's state with the first lane of the lane vector that took the side exit."""
GDS_BASE: Final = ENGINE + 5
GDS_SIZE: Final = ENGINE + 6
LIMIT: Final = ENGINE + 7
"""The index of the word in a wave's state with the fuel that remains for later time slices.

It is the fuel that the step limit permits beyond that in the word FUEL.
"""
FUNCTION: Final = ENGINE + 8
"""The index of the word in a wave's state with the host address of the region's function that ran last."""
PARTIAL: Final = ENGINE + 9
"""The index of the first of `PARTIALS` words in a wave's state with lane masks written before lane LANE.

They are the masks that the lane vectors before LANE have written, in the order of the side exit's list.
"""
PARTIALS: Final = 16
TEMPLATE: Final = PARTIAL + PARTIALS
"""The index of the word in a wave's state that identifies the initial values of its scalar registers.

The word is 0 after a write to them. While it is the number of the scheduler's registers for new waves, the scheduler
need not write them.
"""
PROFILE: Final = TEMPLATE + 1
"""The index of the word in a wave's state with the host address of the thread's profile counters.

The counters belong to unoptimised blocks.
"""
GRANTED: Final = PROFILE + 1
"""The index of the word in a wave's state with the step limit: the fuel of all time slices together."""
KEY: Final = GRANTED + 1
"""The index of the word in a wave's state with a part of the key for the next look-up in the code table.

The other part of the key is MODE. The word is 0 or `INLINE_CACHE_KEY`.
"""
CHECKED: Final = KEY + 1
"""The index of the word in a wave's state that selects the treatment of accesses past the end of LDS.

It is `REPORTED`, `NOTED`, or 0.
"""
REPORTED: Final = 1
"""The value of the word CHECKED for which the reference engine executes accesses past the end of LDS.

It also reports them.
"""
NOTED: Final = 2
"""The value of the word CHECKED for which one of the accesses past the end of LDS is recorded.

They read 0 and store nothing.
"""
CLOCK: Final = CHECKED + 1
"""The index of the word in a wave's state with the host address of s_memtime's clock, a `native_clock.Clock`.

If the word is 0, s_memtime returns the instruction count.
"""
TRACKED: Final = CLOCK + 1
"""The index of the word in a wave's state with the host address of a tracker's state for the wave.

That is an element of `hooks.GroupState.rows`. The word is 0 without a tracker.
"""
CLEAN: Final = TRACKED + 1
"""The index of the word in a wave's state with the host address of specialised code.

It is the code, specialised for defined inputs, at whose entry no register had a shadow. The word may also hold `MET`.
"""
MET: Final = 1
"""The value of the word CLEAN after specialised code has found a shadow: general code must run instead."""
HOOK_SLOTS: Final = 64
"""The maximum number of accesses in a strip-mined loop that are reported to a check, with a slot for each."""
QUIET: Final = HELPERS
"""The index of the word in the state of shadow registers with the host address of use counters.

Code increments these counters (`hooks.Shadow.counters`).
"""
INLINE_CACHE: Final = CLEAN + 1
"""The index of the first word of the inline caches.

Each cache belongs to an access in translated code and has three words about the memory range it used last.
"""
INLINE_CACHE_WORDS: Final = 3
"""The number of words of an inline cache: first guest address, limit, host minus guest address.

The limit is the distance within which a vector of dwords may begin (0: nowhere); for scalar accesses and atomics it is
the size of the range.
"""
INLINE_CACHES: Final = {"load": 16, "store": 8, "scalar": 8, "atomic": 4}
"""The number of inline caches by kind of access; further accesses share them."""

# Exit codes of regions and of the scheduler.
JUMP: Final = 0
"""Exit code: continue with other code at pc."""
OUT_OF_FUEL: Final = 1
STEP: Final = 2
"""Exit code: the reference engine executes the instruction at pc."""
END: Final = 3
BARRIER: Final = 4
RESUME: Final = 5
"""Exit code: a strip-mined loop exited at lane LANE; the reference engine completes it, or finds the fault."""
SLEEP: Final = 8
"""Exit code: the wave pauses (s_sleep), and other waves run."""
MISS: Final = 6
"""Exit code of the scheduler: no translated code begins at pc."""
DONE: Final = 7
"""Exit code of the scheduler: all work-groups have run."""
TICK: Final = 9
"""Exit code of the scheduler: a clock period has passed, without another reason to exit."""
DROWSE: Final = 10
"""Exit code of the scheduler: for a while waves have only paused."""
SPECIALISE: Final = 11
"""Exit code: the inline cache of the instruction at pc executes it, as it depends on scalar registers.

See `threaded.inline_cache`.
"""
UNSPECIALISED: Final = 12
"""Exit code of the scheduler or an inline cache: needed code does not exist.

It is either a specialisation for the values of scalar registers, or general code for shadows.
"""
UNEVEN: Final = 13
"""Exit code of the scheduler: not all work-items of a group have reached a barrier that the check observes."""
SHADOWED: Final = 14
"""Exit code of specialised code: a shadow was found at its entry, so that other code continues."""
BARRIER_CHECKED: Final = 1
BARRIER_REPORTED: Final = 2
"""The state of the barrier check after it has reported the barrier that opens.

`BARRIER_CHECKED` is the state in which the check is enabled.
"""
INLINE_CACHE_KEY: Final = 1 << 40
"""The value, added to MODE in the key of the code table, that selects an instruction's inline cache."""
SHADOWED_KEY: Final = 1 << 39
"""The value, added to MODE in the key of the code table, that selects general code for shadows.

The code specialised for defined inputs has the key without it.
"""

PAUSES: Final = 1024
"""The number of pauses (s_sleep) of waves, without other work between them, after which the thread sleeps.

It is the host's thread that runs these waves.
"""
MORE_PAUSES: Final = 64
"""The number of further pauses (s_sleep) of waves after which the host's thread sleeps again."""
BUSY: Final = 1024
"""The number of instructions between two pauses above which these count as other work than pausing."""

SPACES: Final = ("global", "flat", "lds", "gds")
WIDTHS: Final = (8, 16, 32, 64, 96, 128)
HELPER_NAMES: Final = (
    *(f"{kind}_{space}_{bits}" for space in SPACES for kind in ("load", "store") for bits in WIDTHS),
    "atomic",
    "note",
    "reach",
    "clear_dead",
)
MATRICES: Final = len(HELPER_NAMES)
"""The index, in the table of helpers, of the address of the table of matrix instructions."""
HELPER_INDEX: Final = {name: index for index, name in enumerate(HELPER_NAMES)}

ATOMICS: Final = (
    "swap", "cmpswap", "add", "sub", "rsub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec", "mskor",
    "wrap", "fadd", "fmin", "fmax", "fcmpswap", "hadd", "badd",
)  # fmt: skip
"""The atomic operations; translated code uses their index."""


def remembers(space: str) -> bool:
    """Return True if helpers for an address space take the address of an inline cache (or null) as an argument.

    Such a helper fills the cache if the lanes' addresses are in one range of memory."""
    return space in ("global", "flat")


def chunk_lanes(features: frozenset[str]) -> int:
    """Return the number of lanes that a host with these CPU features processes at once, in one vector."""
    if "avx512f" in features and "avx512bw" in features and "avx512dq" in features and "avx512vl" in features:
        return 16
    return 8 if "avx2" in features else 4


# ---- register files in LLVM IR ---------------------------------------------------------------------------------------
# The location of registers and LDS in translated code: those of the wave, or one kind of their shadows.


SHADOW_DISTANCE: Final = MAX_WAVES * STATE_BYTES
"""The distance in bytes from a wave's state to its first shadow registers, and from these to the next."""


@dataclass(frozen=True, slots=True)
class RegisterBase:
    """The names in LLVM IR for one set of registers.

    `state` is the address of the registers, and `lds` the host address of LDS. `prefix` is the prefix of the
    names of all variables."""

    state: str = "%st"
    lds: str = "%lds"
    prefix: str = ""


OWN: Final = RegisterBase()


def shadow(number: int) -> RegisterBase:
    """Return the location of the shadow registers of kind `number`."""
    return RegisterBase(f"%tw{number}", f"%lds{number}", f"m{number}.")
