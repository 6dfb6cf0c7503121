"""Compiled code that runs many small instances: groups whose harts all return in their first time slice."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

from softcard.device.refsi.launch import A0, MASK64, RA, SP, KernelPlan
from softcard.device.refsi.spec.schedule import Begun
from softcard.engine.riscv.api import Engine
from softcard.engine.riscv.jit.dispatcher import POLLED, RETURNED
from softcard.engine.riscv.shadow_layout import COUNT, ELEMENTS, REGISTERS
from softcard.ir import llvm
from softcard.ir.native import U64, call, layout, link, native
from softcard.ir.object_cache import ObjectCache, default_folder
from softcard.isa.riscv.state import (
    FOREVER,
    FRM,
    FUEL,
    NO_ADDRESS,
    PC,
    POLLS,
    RESERVED_ADDRESS,
    RETIRED,
    SHADOW,
    SYNCHRONIZED,
    Hart,
)

AT_ONCE: Final = 1 << 16
"""The number of groups after which machine code returns so that limits are checked."""
LAST_ROUNDING: Final = 3
"""The last rounding mode that translated code knows; a change to another one requires other code."""


@layout
class Launch(ctypes.Structure):
    """The state of a kernel command in progress, for compiled code and Python; addresses are host addresses."""

    dispatch: int
    """The address of the machine code that runs a hart: see `Engine.translated`."""
    harts: int
    """The address of an array with the address of each hart's registers."""
    plans: int
    width: int
    entry: int
    return_address: int
    next: int
    """The first instance of the next group."""
    end: int
    fuel: int
    """The number of instructions in a time slice."""
    rounds: int
    """The number of polling loop iterations after which a hart yields to the others."""
    left: int
    """The number of instructions that the kernel command may still execute."""
    budget: int
    """The number of instructions after which to return, so that limits can be checked."""
    begin_races: int
    races: int
    """The argument of `begin_races`, the function that reports a group to the race check; 0 without it."""
    hart: int
    """The index of the hart that did not return; the next field is the number of instructions it executed."""
    done: int


@layout
class Plan(ctypes.Structure):
    """The initial registers of one hart's instances: sp, and `count` arguments in a1 and the following registers."""

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
    """Run groups of instances until a hart does not return in its first time slice, or until Python must continue.

    In the first case, return the reason why that hart stopped, or 0 if it could not start. Return `RETURNED` if
    all harts have returned, and there is no next group, limits must be checked, or Python must begin the next
    group."""
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
    """Set the registers of hart number `hart` to the start of `instance`.

    Registers that have no defined initial value keep their values (`refsi/start-state`)."""
    words = U64.at(U64.at(launch.harts)[hart])
    at = launch.plans + hart * ctypes.sizeof(Plan)
    plan, arguments = Plan.from_address(at), U64.at(at + 16)
    words[SYNCHRONIZED] = 0
    words[PC], words[RA], words[SP], words[A0] = launch.entry, launch.return_address, plan.sp, instance
    for number in range(plan.count):
        words[A0 + 1 + number] = arguments[number]
    if words[SHADOW]:
        begin_shadow(words[SHADOW], plan.count)


@native
def begin_shadow(block: int, count: int) -> None:
    """Initialise the shadow registers of a hart: only ra, sp, a0 and the `count` registers after a0 are defined.

    `block` is the host address of the shadow registers, whose layout `engine.riscv.shadow_layout` defines."""
    shadows = U64.at(block)
    for n in range(REGISTERS):
        is_argument = (n >= A0) & (n <= A0 + count)
        shadows[n] = 0 if (n <= SP) | is_argument else MASK64
    for n in range(shadows[COUNT]):
        shadows[ELEMENTS + n] = MASK64


@cache
def code() -> llvm.Code:
    """Return the module's functions as machine code in this process."""
    return link(ObjectCache(default_folder()), instances)


class Crowd:
    """An executor that runs the instances of one kernel command in compiled code.

    In a time slice a hart may execute `fuel` instructions and `rounds` iterations of polling. `starter` has two
    items: the address of the compiled function that begins a group for the race check (it returns 0 on
    success), and its argument."""

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
        """Run groups from instance `first` on, for about `budget` instructions and at most `limit` instructions.

        Return three items: the first instance of the next group, the number of instructions executed (an instance
        counts as at least 1), and the progress of that next group if it has begun."""
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
