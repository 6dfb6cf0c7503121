"""Many small instances: groups whose harts all return in their first turn, started and run as machine code."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

from understudy.device.refsi.launch import A0, MASK64, RA, SP, KernelPlan
from understudy.device.refsi.spec.schedule import Begun
from understudy.engine.riscv.api import Engine
from understudy.engine.riscv.jit.dispatcher import POLLED, RETURNED
from understudy.engine.riscv.marks.block import COUNT, ELEMENTS, REGISTERS
from understudy.ir import llvm
from understudy.ir.native import U64, call, layout, link, native
from understudy.ir.object_cache import ObjectCache, default_folder
from understudy.isa.riscv.state import (
    FOREVER,
    FRM,
    FUEL,
    MARKS,
    NO_ADDRESS,
    PC,
    POLLS,
    RESERVED_ADDRESS,
    RETIRED,
    SYNCHRONIZED,
    Hart,
)

AT_ONCE: Final = 1 << 16
"""Groups after which somebody looks at what machine code does."""
LAST_ROUNDING: Final = 3
"""The last rounding mode that translated code knows; another one begins a new choice of code."""


@layout
class Launch(ctypes.Structure):
    """A kernel command under way; places are addresses in this process."""

    dispatch: int
    """The engine's machine code: see `Engine.translated`."""
    harts: int
    """Where the words of each hart are."""
    plans: int
    width: int
    entry: int
    return_address: int
    next: int
    """The first instance of the group that is next."""
    end: int
    fuel: int
    """Instructions of a turn."""
    rounds: int
    """Of polling, where others wait."""
    left: int
    """Instructions that the kernel command may still do."""
    budget: int
    """Instructions after which it is time to look up."""
    begin_races: int
    races: int
    """What tells the check of races of a group, and what it takes; 0 without that check."""
    hart: int
    """Which hart of the group did not return, and the instructions it has done."""
    done: int


@layout
class Plan(ctypes.Structure):
    """What one hart gets: sp, and `count` arguments from a1 on."""

    sp: int
    count: int
    arg1: int
    arg2: int
    arg3: int
    arg4: int
    arg5: int
    arg6: int
    arg7: int


@native
def instances(launch: Launch) -> int:
    """Run groups until a hart does not return in its turn, and give why; `RETURNED` where it is time to look up, or
    the next group is to be begun by Python."""
    harts = U64.at(launch.harts)
    while launch.next < launch.end and launch.budget:
        if launch.begin_races and call(launch.begin_races, launch.races):
            return RETURNED
        group = min(launch.width, launch.end - launch.next)
        for j in range(group):
            begin(launch, j, launch.next + j)
        for j in range(group):
            words = U64.at(harts[j])
            words[POLLS] = launch.rounds if group > 1 else FOREVER
            fuel = min(launch.fuel, launch.left)
            if words[FRM] > LAST_ROUNDING or not fuel:
                launch.hart, launch.done = j, 0
                return 0
            words[FUEL] = fuel
            why = call(launch.dispatch, harts[j])
            done = fuel - words[FUEL]
            words[RETIRED] += done
            if why != RETURNED:
                launch.hart, launch.done = j, done
                return why
            words[POLLS], words[RESERVED_ADDRESS] = FOREVER, NO_ADDRESS
            done = max(done, 1)
            launch.left -= done
            launch.budget = launch.budget - done if launch.budget > done else 0
        launch.next += group
    return RETURNED


@native
def begin(launch: Launch, hart: int, instance: int) -> None:
    """Put the start of an instance into a hart; everything else stays (choice `refsi/start-state`)."""
    words = U64.at(U64.at(launch.harts)[hart])
    at = launch.plans + hart * ctypes.sizeof(Plan)
    plan, arguments = Plan.from_address(at), U64.at(at + 16)
    words[SYNCHRONIZED] = 0
    words[PC], words[RA], words[SP], words[A0] = launch.entry, launch.return_address, plan.sp, instance
    for number in range(plan.count):
        words[A0 + 1 + number] = arguments[number]
    if words[MARKS]:
        begin_marks(words[MARKS], plan.count)


@native
def begin_marks(block: int, count: int) -> None:
    """Only ra, sp, a0 and `count` arguments behind it have values: `engine.riscv.marks.block`."""
    marks = U64.at(block)
    for n in range(REGISTERS):
        is_argument = (n >= A0) & (n <= A0 + count)
        marks[n] = 0 if (n <= SP) | is_argument else MASK64
    for n in range(marks[COUNT]):
        marks[ELEMENTS + n] = MASK64


@cache
def code() -> llvm.Code:
    """All of it, linked into this process."""
    return link(ObjectCache(default_folder()), instances)


class Crowd:
    """Runs the instances of one kernel command; harts have `fuel` instructions and `rounds` of polling a turn.

    `starter`: machine code that begins a group for the check of races, and what it takes; it gives 0 where it could.
    """

    def __init__(
        self,
        engine: Engine,
        plan: KernelPlan,
        harts: list[Hart],
        fuel: int,
        rounds: int,
        starter: tuple[int, int] = (0, 0),
    ) -> None:
        self.harts = harts
        self._engine = engine
        self._instances = plan.instances
        self._addresses = (ctypes.c_uint64 * len(harts))(*(hart.address for hart in harts))
        self._plans = (Plan * len(harts))()
        for number, each in enumerate(plan.harts):
            words = (each.stack_top, len(each.args), *each.args)
            self._plans[number] = Plan(*(word & MASK64 for word in words))
        self._launch = launch = Launch()
        launch.harts, launch.plans = ctypes.addressof(self._addresses), ctypes.addressof(self._plans)
        launch.width, launch.entry, launch.return_address = len(harts), plan.entry, plan.return_address
        launch.fuel, launch.rounds = fuel, rounds
        launch.begin_races, launch.races = starter
        self._run = code().function("instances", ctypes.c_uint64, ctypes.POINTER(Launch))

    def run(self, first: int, limit: int, budget: int) -> tuple[int, int, Begun | None]:
        """Run groups from instance `first` on for about `budget` instructions, and at most `limit`.

        Gives the first instance of the next group, what was done as instructions (1 for an instance that has none),
        and how far that group is if it has begun.
        """
        launch = self._launch
        before = [hart.retired for hart in self.harts]
        for hart in self.harts:
            launch.dispatch = self._engine.translated(hart)
        launch.next, launch.end = first, min(self._instances, first + AT_ONCE * launch.width)
        launch.left, launch.budget = limit, budget
        why = self._run(launch)
        for hart, retired in zip(self.harts, before, strict=True):
            self._engine.worked(hart, hart.retired - retired)
        begun = None if why == RETURNED else Begun(launch.hart, launch.done, why == POLLED)
        return launch.next, limit - launch.left, begun
