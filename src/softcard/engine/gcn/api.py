"""The interface between launches and wave engines: `Dispatch`, `Statistics` and `Engine`.

A `Dispatch` holds everything that differs between launches, as plain numbers and arrays that translated code
can read. The package `launch` creates it: it interprets kernel descriptors and argument layouts, which
engines do not use.

The work-groups of a dispatch have few different sizes, since groups at the edge of a grid may have fewer
work-items. A *shape* describes each size: the number of waves, the lanes of each wave that exist (EXEC), and
the initial contents of the first vector registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from softcard.core.errors import BeyondModel, GuestFault, ModelBug
from softcard.core.limits import Watch, past_steps
from softcard.core.space import host_address
from softcard.core.words import align_up
from softcard.engine.gcn.hooks import NO_CHECKS, Checks
from softcard.engine.gcn.host_clock import HostClock
from softcard.engine.gcn.memory import LIMIT, GpuMemory
from softcard.engine.hooks import Executions
from softcard.isa.gcn.state import FULL, LANES, PTR32, SGPRS, VGPRS, WINDOW_MASK, Wave
from softcard.isa.gcn.target import Target

if TYPE_CHECKING:
    from softcard.engine.gcn.wave_log import WaveLog

Words32 = npt.NDArray[np.uint32]
Words64 = npt.NDArray[np.uint64]

WAVE_GRANULE: Final = 1024
"""The allocation granule of a wave's private memory, in bytes."""
NOWHERE: Final = -1
"""The number, in place of a register number, that states that waves do not get a value."""
INSTRUCTION_FETCH: Final = "instruction fetch"
"""The name of the access in the error for a wave whose pc is at an address without code."""
STEP_LIMIT: Final = 100_000_000
ENDLESS: Final = 1 << 62
"""A step limit that no wave reaches."""
TIME_SLICE: Final = 4096
PACKED_BITS: Final = 10
"""The number of bits of each work-item coordinate (x, y, z) if one register holds all three."""
MAX_WAVES: Final = 32
"""The maximum number of waves of a work-group, by HSA's limit of 2048 work-items.

A work-group of 1024 work-items has 16 waves.
"""

QUIET_HINTS: Final = frozenset(
    ("nop", "sleep", "setprio", "wakeup", "incperflevel", "decperflevel", "ttracedata", "atc_probe", "dcache_discard")
)
"""Hint instructions that concern the processor alone, so that they are not reported to a device."""

OnHint = Callable[[Wave, str, int], None]
OnTrap = Callable[[Wave, int], bool]


class StepLimit(GuestFault):
    """The error for a wave that has executed as many instructions as the launch allows and has not ended."""

    @classmethod
    def of(cls, dispatch: Dispatch) -> Self:
        """Return the error for a wave of this dispatch, without its location."""
        limits = past_steps(dispatch.step_limit, dispatch.watch.time_limit_seconds)
        return cls(f"the wave did not end within {limits}")


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """The S different shapes of work-groups in a dispatch; a shape is named by its index in these arrays.

    `waves` (uint32[S]) is the number of waves of a group, at most W. `execs` (uint64[S, W]) is the initial
    EXEC mask of each wave, and `vgprs` (uint32[S, W, N, 64]) the initial values of its first N vector
    registers."""

    waves: Words32
    execs: Words64
    vgprs: Words32
    most_waves: int = field(init=False)
    """The number of waves of the largest group."""
    has_full_waves: bool = field(init=False)
    """True if all waves begin with all lanes active."""
    addresses: tuple[int, int, int] = field(init=False)
    """The host addresses of the arrays `waves`, `execs` and `vgprs`."""

    def __post_init__(self) -> None:
        """Compute values derived from the arrays, once for all launches.

        Raise `ModelBug` unless the arrays are C-contiguous, as compiled code must be able to read them."""
        arrays = self.waves, self.execs, self.vgprs
        if not all(array.flags.c_contiguous for array in arrays):
            raise ModelBug("the arrays of shapes must be C-contiguous")
        object.__setattr__(self, "most_waves", max(self.waves.tolist(), default=0))
        is_full = all((execs[:waves] == FULL).all() for waves, execs in zip(self.waves, self.execs, strict=True))
        object.__setattr__(self, "has_full_waves", is_full)
        object.__setattr__(self, "addresses", tuple(map(host_address, arrays)))

    @classmethod
    def of(cls, sizes: list[tuple[int, int, int]], coordinates: int, *, packed: bool = False) -> Shapes:
        """Return shapes of groups with the given numbers of work-items in x, y and z.

        Consecutive lanes have consecutive x. `coordinates` (1 to 3) is the number of work-item coordinates (x, y, z)
        that lanes get in v0, v1 and v2. If `packed`, all coordinates are in v0, with `PACKED_BITS` bits each."""
        items = [x * y * z for x, y, z in sizes]
        counts = [-(-each // LANES) for each in items]
        most = max(counts)
        execs = [[FULL >> max(0, min(LANES * n - each, LANES)) for n in range(1, most + 1)] for each in items]
        numbers = np.arange(most * LANES, dtype=np.uint32)
        rows = np.zeros((len(sizes), coordinates, most * LANES), np.uint32)
        for shape, ((x, y, _), there) in enumerate(zip(sizes, items, strict=True)):
            ids = numbers[:there]
            for register, size in enumerate((x, y, there)[:coordinates]):
                rows[shape, register, :there] = ids % size if size < there else ids
                ids = ids if register + 1 == coordinates else ids // size
        if packed:
            shifts = PACKED_BITS * np.arange(coordinates, dtype=np.uint32)
            rows = np.bitwise_or.reduce(rows << shifts[None, :, None], axis=1, keepdims=True)
        by_waves = rows.reshape(len(sizes), -1, most, LANES).swapaxes(1, 2)
        return cls(np.array(counts, np.uint32), np.array(execs, np.uint64), np.ascontiguousarray(by_waves))


@dataclass(frozen=True, slots=True, eq=False)
class Dispatch:
    """One launch of a kernel.

    Registers that no field names, and LDS bytes, are initially 0, or `poison` if it is not None. A field for the
    number of an SGPR may be `NOWHERE`, which means that waves do not get the value. `step_limit` is the maximum
    number of instructions of each wave, without pauses (s_sleep); a wave that exceeds it faults. If it is None,
    only `watch` limits waves."""

    target: Target
    memory: GpuMemory
    entry: int
    """The address of the kernel's first instruction."""
    shapes: Shapes
    groups: Words32
    """The work-groups in the order of launch, as uint32[G, 4]: id x, y, z and index of the shape."""
    sgprs: Words32 = field(default_factory=lambda: np.zeros(0, np.uint32))
    """The words of s0, s1, ... that all waves share."""
    argument_sgprs: range = range(0)
    """The numbers of the SGPRs that hold preloaded kernel arguments. They are the last ones of `sgprs`."""
    group_id_sgprs: tuple[int, int, int] = (NOWHERE, NOWHERE, NOWHERE)
    group_info_sgpr: int = NOWHERE
    """The number of the SGPR that gets work-group info.

    It is first wave << 31 | ordered append term (0) << 6 | waves of the group.
    """
    wave_offset_sgpr: int = NOWHERE
    """The number of the SGPR that gets the offset in bytes of the wave's private memory from `scratch_base`."""
    sets_flat_scratch: bool = False
    """True if FLAT_SCRATCH is the address of the wave's private memory when it begins."""
    tg_split: bool = False
    """True if each wave of a work-group may run on a compute unit of its own."""
    xccs: int = 1
    """The number of accelerator dies (XCCs) of the agent.

    Work-groups are distributed over the dies in turn, in the order of `groups`.
    """
    mode: int = 0x3C0
    """The value of the MODE register, with PTR32 if pointers have 32 bits (`isa.gcn.state.Mode`)."""
    m0: int | None = None
    sgpr_count: int = 102
    """The number of allocated scalar registers, without VCC and the like."""
    vgpr_count: int = VGPRS
    """The number of vector registers allocated to each wave."""
    lds_bytes: int = 0
    """The allocated size of a work-group's LDS, in bytes."""
    lds_requested: int | None = None
    """The size of LDS that was requested, if accesses past it are reported (`GpuMemory.guard`)."""
    gds: npt.NDArray[np.uint8] | None = None
    """The global data share (GDS); None if it has 0 bytes."""
    shared_base: int = 0x0001_0000_0000_0000
    """The aperture of LDS: flat addresses with the upper 32 bits of this value.

    With PTR32 it is the address of the 64 KiB of LDS.
    """
    private_base: int = 0x0002_0000_0000_0000
    """The aperture of private memory: flat addresses with the upper 32 bits of this value.

    With PTR32 it is the address of its 64 KiB.
    """
    scratch_base: int = 0
    """The guest address of the private memory of all waves in flight."""
    scratch_lane_bytes: int = 0
    """The number of bytes of private memory of a work-item.

    Dword d of lane n is at offset 256 * d + 4 * n in its wave's private memory.
    """
    scratch_gap: int = 0
    """The size of the unused gap between the private memory of one wave and the next, in bytes."""
    scratch_slots: int = 0
    """The number of waves that can have private memory.

    It limits the waves in flight unless `scratch_lane_bytes` is 0.
    """
    hidden_private_base: int | None = None
    """The base address to which FLAT_SCRATCH on GFX7 and GFX8 is an offset, for flat private accesses.

    If it is None, these access the wave's own private memory for any value of FLAT_SCRATCH.
    """
    poison: int | None = None
    """The junk fill, a 32-bit word, of undefined registers and LDS; None: 0."""
    step_limit: int | None = STEP_LIMIT
    watch: Watch = field(default_factory=Watch)
    """The object by which another thread may end the waves, with `TimeLimit` or `Stopped`.

    Engines poll it about 20 times a second.
    """
    turn: int = TIME_SLICE
    """The time slice of a wave, in instructions."""
    seed: int | None = None
    """The seed of the order of waves and of the length of time slices.

    None stands for round-robin with full time slices.
    """
    checks: Checks = NO_CHECKS
    """The checks that engines call at their hook points."""
    lds_note: npt.NDArray[np.uint64] = field(default_factory=np.zeros(1, np.uint64).copy, repr=False)
    """The last access past the end of LDS, as engines record it (`isa.gcn.state.LDS_NOTE`); 0: none."""
    waves: WaveLog | None = None
    """The log of the ends of the first waves; None without a listener."""
    clock: HostClock | None = None
    """The clock of s_memtime and s_memrealtime; None: they return the wave's number of retired instructions."""
    resident: int = 1
    """The number of work-groups that make progress together, so that they may wait for each other."""
    on_hint: OnHint | None = None
    """The handler of hints that concern a device (all but `QUIET_HINTS`): gets wave, hint and immediate."""
    on_trap: OnTrap | None = None
    """The handler of s_trap n, which returns True to continue the wave. Without a handler a trap is a fault."""

    def __post_init__(self) -> None:
        """Raise `ModelBug` if fields contradict each other.

        The code that creates the launch should have prevented that."""
        shapes, groups = self.shapes, self.groups
        registers = (*self.group_id_sgprs, self.group_info_sgpr, self.wave_offset_sgpr)
        windows = (self.shared_base | self.private_base) >> 32 & WINDOW_MASK
        fits = not self.scratch_lane_bytes or self.scratch_slots >= self.most_waves
        is_table = groups.dtype == np.uint32 and groups.ndim == 2 and groups.shape[1] == 4
        claims = (
            (is_table, "groups must be uint32[G, 4]"),
            (
                shapes.vgprs.shape[:2] == shapes.execs.shape,
                "the arrays of shapes must have the same numbers of shapes and waves",
            ),
            (shapes.vgprs.shape[2] <= VGPRS, f"a wave has {VGPRS} vector registers at most"),
            (shapes.execs.shape[1] <= MAX_WAVES, f"a work-group has {MAX_WAVES} waves at most"),
            (shapes.most_waves <= shapes.execs.shape[1], "every wave of a shape must have an EXEC mask"),
            (
                not is_table or not len(groups) or int(groups[:, 3].max()) < len(shapes.waves),
                "a group must name a shape that exists",
            ),
            (len(self.sgprs) <= SGPRS - 24, "initial SGPRs must be plain scalar registers"),
            (min(registers) >= NOWHERE and max(registers) < SGPRS, "an SGPR number must lie in 0..127 or be NOWHERE"),
            (fits, "the private memory must have room for the waves of one work-group"),
            (
                min(self.shared_base, self.private_base) >= LIMIT,
                "flat apertures must lie outside of the address space of memory",
            ),
            (not self.mode & PTR32 or not windows, "windows of 64 KiB must begin at a multiple of their size"),
            (self.xccs.bit_count() == 1, "the number of XCCs must be a power of two"),
            (self.resident >= 1, "at least one work-group is resident"),
            (self.turn >= 1 and self.most_steps >= 0, "a time slice must have at least one instruction"),
        )
        for holds, text in claims:
            if not holds:
                raise ModelBug(f"dispatch: {text}")

    def check_alone(self, what: str) -> None:
        """Raise `BeyondModel` if work-groups have to make progress together; `what` runs them one after another."""
        if self.resident > 1 and len(self.groups) > 1:
            text = f"{what} runs the work-groups of a cooperative launch one after another"
            raise BeyondModel(f"{text}: use engine 'jit' without this check, or an ordinary queue")

    @property
    def most_steps(self) -> int:
        """The step limit as a number: `ENDLESS` if it is None."""
        return ENDLESS if self.step_limit is None else self.step_limit

    @property
    def most_waves(self) -> int:
        """The number of waves of the largest work-group."""
        return self.shapes.most_waves

    @property
    def has_full_waves(self) -> bool:
        """True if all waves begin with all lanes active."""
        return self.shapes.has_full_waves

    @property
    def scratch_wave_bytes(self) -> int:
        """The distance from the private memory of one wave to that of the next."""
        return wave_scratch_bytes(self.scratch_lane_bytes) + self.scratch_gap

    @property
    def private(self) -> tuple[int, int]:
        """The range of guest addresses of the waves' private memory."""
        slots = self.scratch_slots if self.scratch_lane_bytes else 0
        return self.scratch_base, self.scratch_base + slots * self.scratch_wave_bytes


def wave_scratch_bytes(lane_bytes: int) -> int:
    """Return the size in bytes of a wave's private memory; `lane_bytes` is the size for each work-item."""
    return align_up(lane_bytes * LANES, WAVE_GRANULE)


@dataclass(slots=True)
class Statistics:
    """The statistics of a dispatch that has run."""

    instructions: int = 0
    """The number of wave instructions that retired."""
    waves: int = 0
    groups: int = 0
    interpreted: int = field(default=0, compare=False, repr=False)
    """The number of instructions that the reference engine executed, out of `instructions`.

    Translated code takes a side exit for untranslatable instructions and for accesses of memory that it cannot reach.
    This number depends on the translation, results do not.
    """

    def add(self, other: Statistics) -> None:
        """Add the numbers of other statistics to these."""
        self.instructions += other.instructions
        self.waves += other.waves
        self.groups += other.groups
        self.interpreted += other.interpreted


class Engine(Protocol):
    """An executor of dispatches. The reference and the JIT engine are interchangeable."""

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run all work-groups of a dispatch to their end.

        Raise `GuestFault` (or `WireError` for an invalid encoding, or `BeyondModel`) with lane, pc, wave and work-group
        if a wave cannot continue; other waves then stop, too.
        """


class CountingEngine(Engine, Protocol):
    """An engine that may count instructions."""

    def instruction_counts(self) -> dict[int, int]:
        """Return how often the instruction at each pc has retired since this engine was created."""

    def executions(self) -> Executions:
        """Return the executions of the instruction at each pc since this engine was created."""
