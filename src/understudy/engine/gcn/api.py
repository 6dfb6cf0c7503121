"""What a launch gives a wave engine, and what the engine gives back.

A `Dispatch` says everything that differs between launches, as plain numbers and arrays that translated code can read.
It is made by `launch/`, which knows descriptors and argument layouts; engines know neither.

Work-groups differ in few ways: a group at the edge of a grid may have fewer work-items. Each way is a *shape*: how many
waves the group has, which lanes of each are there (EXEC), and what their first vector registers hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from understudy.core.errors import GuestFault, ModelBug
from understudy.core.host_address import host_address
from understudy.core.limits import Watch, past_steps
from understudy.core.words import align_up
from understudy.engine.gcn.host_clock import HostClock
from understudy.engine.gcn.memory import LIMIT, GpuMemory
from understudy.isa.gcn.state import FULL, LANES, PTR32, SGPRS, VGPRS, WINDOW_MASK, Wave
from understudy.isa.gcn.target import Target

if TYPE_CHECKING:
    from understudy.engine.gcn.barriers import Barriers
    from understudy.engine.gcn.marks.marking import Marking
    from understudy.engine.gcn.races.watch import RaceWatch
    from understudy.engine.gcn.wave_log import WaveLog

Words32 = npt.NDArray[np.uint32]
Words64 = npt.NDArray[np.uint64]

WAVE_GRANULE: Final = 1024
"""Private memory of a wave comes in steps of so many bytes."""
NOWHERE: Final = -1
"""Register number of a value that the waves do not get."""
STEP_LIMIT: Final = 100_000_000
ENDLESS: Final = 1 << 62
"""More instructions than any wave executes."""
TURN: Final = 4096
MAX_WAVES: Final = 32
"""Waves of a work-group: 1024 work-items are 16; the HSA limit is 2048 work-items."""

QUIET_HINTS: Final = frozenset(
    ("nop", "sleep", "setprio", "wakeup", "incperflevel", "decperflevel", "ttracedata", "atc_probe", "dcache_discard")
)
"""Hints to the processor alone: no device hears of them."""

OnHint = Callable[[Wave, str, int], None]
OnTrap = Callable[[Wave, int], bool]


class StepLimit(GuestFault):
    """A wave executed as many instructions as the launch allows, and has not ended."""

    @classmethod
    def of(cls, dispatch: Dispatch) -> Self:
        """The error of a wave of this dispatch, without its place."""
        limits = past_steps(dispatch.step_limit, dispatch.watch.time_limit_seconds)
        return cls(f"the wave did not end within {limits}")


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """The kinds of work-group that a dispatch has, by index.

    `waves` (uint32[S]): waves of a group. `execs` (uint64[S, W]): EXEC of each wave. `vgprs` (uint32[S, W, N, 64]): the
    first N vector registers of each wave.
    """

    waves: Words32
    execs: Words64
    vgprs: Words32
    most_waves: int = field(init=False)
    """Waves of the largest group."""
    addresses: tuple[int, int, int] = field(init=False)
    """Where the three arrays lie in this process."""

    def __post_init__(self) -> None:
        """Find what is asked for at each launch. A `ModelBug` where machine code could not read the arrays."""
        arrays = self.waves, self.execs, self.vgprs
        if not all(array.flags.c_contiguous for array in arrays):
            raise ModelBug("shapes: arrays must have their elements in order, without gaps")
        object.__setattr__(self, "most_waves", max(self.waves.tolist(), default=0))
        object.__setattr__(self, "addresses", tuple(map(host_address, arrays)))

    @classmethod
    def of(cls, sizes: list[tuple[int, int, int]], vgprs: int) -> Shapes:
        """Shapes of groups with these numbers of work-items in x, y and z, x running fastest over lanes.

        `vgprs` 1 to 3: whether lanes get the x, y and z of their work-item in v0, v1 and v2.
        """
        items = [x * y * z for x, y, z in sizes]
        counts = [-(-each // LANES) for each in items]
        most = max(counts)
        execs = [[FULL >> max(0, min(LANES * n - each, LANES)) for n in range(1, most + 1)] for each in items]
        numbers = np.arange(most * LANES, dtype=np.uint32)
        rows = np.zeros((len(sizes), vgprs, most * LANES), np.uint32)
        for shape, ((x, y, _), there) in enumerate(zip(sizes, items, strict=True)):
            ids = numbers[:there]
            for register, size in enumerate((x, y, there)[:vgprs]):
                rows[shape, register, :there] = ids % size if size < there else ids
                ids = ids if register + 1 == vgprs else ids // size
        by_waves = rows.reshape(len(sizes), vgprs, most, LANES).swapaxes(1, 2)
        return cls(np.array(counts, np.uint32), np.array(execs, np.uint64), np.ascontiguousarray(by_waves))


@dataclass(frozen=True, slots=True, eq=False)
class Dispatch:
    """One launch of a kernel.

    Registers that no field names are 0, or `poison` where that is given; so are LDS bytes. All numbers of SGPRs may be
    `NOWHERE`. `step_limit` bounds the instructions of each wave, pauses (s_sleep) apart; a wave that would execute more
    faults. None: `watch` alone ends them.
    """

    target: Target
    memory: GpuMemory
    entry: int
    """Address of the first instruction."""
    shapes: Shapes
    groups: Words32
    """uint32[G, 4]: work-group id x, y, z and index of the shape, in the order of launch."""
    sgprs: Words32 = field(default_factory=lambda: np.zeros(0, np.uint32))
    """Words of s0, s1, ... that all waves share."""
    group_id_sgprs: tuple[int, int, int] = (NOWHERE, NOWHERE, NOWHERE)
    group_info_sgpr: int = NOWHERE
    """Gets first wave << 31 | ordered append term (0) << 6 | waves of the group."""
    wave_offset_sgpr: int = NOWHERE
    """Gets the byte offset of the wave's private memory from `scratch_base`."""
    mode: int = 0x3C0
    """The word MODE: the register, and PTR32 where pointers have 32 bits (`isa.gcn.state.Mode`)."""
    m0: int | None = None
    sgpr_count: int = 102
    """Scalar registers allocated, without VCC and the like."""
    vgpr_count: int = VGPRS
    """Vector registers allocated to each wave."""
    lds_bytes: int = 0
    """LDS of a work-group, in bytes as allocated."""
    lds_asked: int | None = None
    """What was asked for of it, where accesses beyond that are told of (`GpuMemory.guard`)."""
    gds: npt.NDArray[np.uint8] | None = None
    """Global data share; None: 0 bytes."""
    shared_base: int = 0x0001_0000_0000_0000
    """Flat addresses with these upper 32 bits are LDS; with PTR32 they are the address of its 64 KiB."""
    private_base: int = 0x0002_0000_0000_0000
    """Likewise private memory."""
    scratch_base: int = 0
    """Guest address of the private memory of all waves in flight."""
    scratch_lane_bytes: int = 0
    """Private bytes of a work-item; dword d of lane n lies at 256 * d + 4 * n of its wave's memory."""
    scratch_gap: int = 0
    """Bytes between the private memory of one wave and the next that are nobody's."""
    scratch_slots: int = 0
    """Waves for which there is private memory: an engine keeps no more in flight if `scratch_lane_bytes` is not 0."""
    hidden_private_base: int | None = None
    """Flat private accesses go where FLAT_SCRATCH says, on GFX7 and GFX8 an offset from here. None: to the wave's own
    private memory, whatever it says."""
    poison: int | None = None
    """What undefined registers and LDS dwords hold."""
    step_limit: int | None = STEP_LIMIT
    watch: Watch = field(default_factory=Watch)
    """What may end the waves from outside: `TimeLimit` or `Stopped` then. Engines look about 20 times a second."""
    turn: int = TURN
    """Instructions after which another wave may have its turn."""
    seed: int | None = None
    """Decides the order of waves and turns; None: as they come."""
    marks: Marking | None = None
    """What is marked of memory, where checks look at how marks travel."""
    barriers: Barriers | None = None
    """Hears of barriers that not all work-items of a group come to."""
    races: RaceWatch | None = None
    """What looks for races."""
    waves: WaveLog | None = None
    """Gets what became of the first waves."""
    clock: HostClock | None = None
    """What s_memtime and s_memrealtime tell; None: the instructions that the wave has retired."""
    on_hint: OnHint | None = None
    """Hears of hints that a device may care for (all but `QUIET_HINTS`), from every engine: wave, what, immediate."""
    on_trap: OnTrap | None = None
    """Asked about s_trap n: whether to go on behind it. Without one the trap is a fault."""

    def __post_init__(self) -> None:
        """A `ModelBug` where the parts do not fit together: a launch must have checked them."""
        shapes, groups = self.shapes, self.groups
        registers = (*self.group_id_sgprs, self.group_info_sgpr, self.wave_offset_sgpr)
        windows = (self.shared_base | self.private_base) >> 32 & WINDOW_MASK
        fits = not self.scratch_lane_bytes or self.scratch_slots >= self.most_waves
        is_table = groups.dtype == np.uint32 and groups.ndim == 2 and groups.shape[1] == 4
        claims = (
            (is_table, "groups must be uint32[G, 4]"),
            (shapes.vgprs.shape[:2] == shapes.execs.shape, "shapes must agree on the number of shapes and waves"),
            (shapes.vgprs.shape[2] <= VGPRS, f"a wave has {VGPRS} vector registers at most"),
            (shapes.execs.shape[1] <= MAX_WAVES, f"a work-group has {MAX_WAVES} waves at most"),
            (shapes.most_waves <= shapes.execs.shape[1], "every wave of a shape must have its EXEC"),
            (
                not is_table or not len(groups) or int(groups[:, 3].max()) < len(shapes.waves),
                "a group must name a shape that exists",
            ),
            (len(self.sgprs) <= SGPRS - 24, "initial SGPRs must be plain scalar registers"),
            (min(registers) >= NOWHERE and max(registers) < SGPRS, "an SGPR number must lie in 0..127 or be NOWHERE"),
            (fits, "the private memory of one group must fit"),
            (min(self.shared_base, self.private_base) >= LIMIT, "flat apertures must lie where there can be no memory"),
            (not self.mode & PTR32 or not windows, "windows of 64 KiB must begin at a multiple of their size"),
            (self.turn >= 1 and self.most_steps >= 0, "turns must have at least one instruction"),
        )
        for holds, text in claims:
            if not holds:
                raise ModelBug(f"dispatch: {text}")

    @property
    def most_steps(self) -> int:
        """The step limit as a number."""
        return ENDLESS if self.step_limit is None else self.step_limit

    @property
    def most_waves(self) -> int:
        """Waves of the largest work-group."""
        return self.shapes.most_waves

    @property
    def scratch_wave_bytes(self) -> int:
        """From the private memory of one wave to that of the next."""
        return wave_scratch_bytes(self.scratch_lane_bytes) + self.scratch_gap

    @property
    def private(self) -> tuple[int, int]:
        """The guest addresses from which on, and up to which, waves have their private memory."""
        slots = self.scratch_slots if self.scratch_lane_bytes else 0
        return self.scratch_base, self.scratch_base + slots * self.scratch_wave_bytes


def wave_scratch_bytes(lane_bytes: int) -> int:
    """Private memory of a wave, for so many bytes of each work-item."""
    return align_up(lane_bytes * LANES, WAVE_GRANULE)


@dataclass(slots=True)
class Statistics:
    """What running a dispatch took."""

    instructions: int = 0
    """Wave instructions retired."""
    waves: int = 0
    groups: int = 0
    interpreted: int = field(default=0, compare=False, repr=False)
    """Those that the reference engine executed: translated code leaves to it what it has no form of, and accesses of
    memory that it cannot reach. How many depends on what is translated, results do not."""

    def add(self, other: Statistics) -> None:
        """Sum up."""
        self.instructions += other.instructions
        self.waves += other.waves
        self.groups += other.groups
        self.interpreted += other.interpreted


class Engine(Protocol):
    """Runs dispatches. The reference and the JIT engine are interchangeable."""

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run all groups to their end.

        A `GuestFault` (or `WireError` for a word that is no instruction, `BeyondModel`) with lane, pc, wave and
        work-group where one of them cannot go on; other waves then stop too.
        """


class CountingEngine(Engine, Protocol):
    """One that may count instructions."""

    def instruction_counts(self) -> dict[int, int]:
        """How often the instruction at each pc has retired since the engine was made, of one that counts them."""
