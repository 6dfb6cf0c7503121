"""The harts of a RefSi device, the engine that runs them, and what both profiles' schedules share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from understudy.core.errors import GuestFault, UnderstudyError
from understudy.core.limits import Stopped, Watch, past_steps
from understudy.core.snapshot import Stateful
from understudy.core.telemetry import Telemetry
from understudy.device.refsi.counters import PerfCounters, clear_counters
from understudy.device.refsi.instance_events import InstanceTeller
from understudy.device.refsi.launch import KernelPlan
from understudy.device.refsi.registers import COUNTER_CSR, NUM_HART_COUNTERS
from understudy.device.refsi.settings import TRACED
from understudy.engine.riscv.api import Engine
from understudy.engine.riscv.group import Group
from understudy.isa.riscv import csr
from understudy.isa.riscv.port import HartPort
from understudy.isa.riscv.state import NO_ADDRESS, RETIRED, RETURN_ADDRESS, Hart

if TYPE_CHECKING:
    from understudy.engine.riscv.marks.check import MarkCheck
    from understudy.engine.riscv.moments import HartMoments
    from understudy.engine.riscv.races.watch import Outstanding, Races

# ecall from machine mode: a7 says what, a0 is the argument (choice `refsi/ecall`).
HOST_EXIT: Final = 0
HOST_PUTSTRING: Final = 1
HOST_BARRIER: Final = 2
A0: Final = 10
A7: Final = 17


class KernelExit(GuestFault):
    """A kernel called EXIT with a code other than 0."""


class StepLimit(GuestFault):
    """A kernel command ran for more instructions than the device allows."""

    @classmethod
    def of(cls, accelerator: Accelerator) -> Self:
        """The error of a kernel command of this device, without its place."""
        limits = past_steps(accelerator.step_limit or 0, accelerator.watch.time_limit_seconds)
        return cls(f"the kernel command has not ended after {limits}")


"""A hart's words, csrs and privilege."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How a kernel command failed, and who did it; `instruction` is the text of what trapped at `pc`."""

    error: UnderstudyError
    hart: int | None = None
    pc: int | None = None
    instance: int | None = None
    instruction: str = ""

    def located(self) -> UnderstudyError:
        """The error with its places."""
        error = self.error
        if self.pc is not None and not any(place.kind == "pc" for place in error.path):
            error = error.at("pc", self.pc, self.instruction)
        if self.hart is not None and not any(place.kind == "hart" for place in error.path):
            error = error.at("hart", self.hart)
        if self.instance is not None:
            error = error.at("instance", self.instance)
        return error


class Schedule(Protocol):
    """How the harts of a profile take turns."""

    def run(self, plan: KernelPlan) -> Failure | None:
        """Run all instances; None if all went well."""


class Accelerator(Stateful):
    """Harts 0.. of a device. `make_port` gives a hart's way to memory, `vlen` is in bits.

    `active` is how many harts the last kernel command used, 0 at first for all of them: the reference driver shows no
    counters of the others. `step_limit` bounds the instructions of one kernel command, `time_limit_seconds` its time,
    `threads` the harts that run at once (None: as many as the host has processors), `trace_instances` the instances of
    a command that events tell of.
    """

    STATE = ("active", "counters")

    def __init__(
        self,
        make_port: Callable[[int], HartPort],
        engine: Engine,
        telemetry: Telemetry,
        *,
        vlen: int,
        step_limit: int | None = None,
        time_limit_seconds: float | None = None,
        threads: int | None = 1,
        trace_instances: int = TRACED,
    ) -> None:
        self.engine = engine
        self.engine.between_slices = self.look
        self.watch = Watch(time_limit_seconds)
        self._began: float | None = None
        self.telemetry = telemetry
        self.vlen = vlen
        self.step_limit = step_limit
        self.group = Group(threads)
        self.harts: list[Hart] = []
        self._made: list[Hart] = []
        self.active = 0
        self.counters = PerfCounters(self.find_hart)
        self.marks: MarkCheck | None = None
        """What looks for values that nobody has written, where that is asked for."""
        self.moments: HartMoments | None = None
        """What takes registers, where that is asked for."""
        self.races: Races | None = None
        """What looks for races, where that is asked for."""
        self.outstanding: Callable[[], list[Outstanding]] = list
        """DMA transfers that nobody has waited for, as races are told of them."""
        self.teller = InstanceTeller(telemetry, trace_instances)
        """Of which instances events tell."""
        self._make_port = make_port
        self._retired_before = 0

    def take_registers(self, why: str, hart: Hart, pc: int, instruction: str = "") -> None:
        """A moment of `engine.moments` has come for a hart, if anybody wants to know."""
        if self.moments is not None:
            self.moments.take(why, hart, pc, instruction)

    def begin(self) -> None:
        """What limits of time are about begins: a kernel command, or commands that move data."""
        self._began = time.monotonic()

    def rest(self) -> None:
        """Nothing runs any more: what the host itself does takes as long as it takes."""
        self._began = None

    def look(self, hart: Hart) -> None:
        """End the kernel command if it must not go on: `TimeLimit`, with where this hart is and what it has done."""

        def doing() -> str:
            return f"the hart has retired {hart.retired} instructions"

        try:
            if self.group.is_abandoned:
                raise Stopped(f"the host was interrupted while the kernel ran: {doing()}")
            self.watch.look(self._since, doing, self.step_limit)
        except UnderstudyError as error:
            raise error.at("pc", hart.pc).at("hart", hart.index) from None

    def look_at_data(self) -> None:
        """End what moves data if it must not go on, be that commands or a hart's."""
        if self.group.is_abandoned:
            raise Stopped("the host was interrupted while data was moved")
        self.watch.look(self._since, lambda: "data was being moved", self.step_limit, "the buffer")

    @property
    def _since(self) -> float:
        return time.monotonic() if self._began is None else self._began

    def places(self, count: int) -> list[tuple[str, str]]:
        """Where the first `count` harts are, for `note_interrupt`."""
        return [("pc", f"{hart.pc:#x} of hart {hart.index}") for hart in self.harts[:count]]

    def create(self, count: int) -> None:
        """Have `count` harts in their state after reset."""
        self._retired_before = self.steps
        self._made += [Hart(index, self._make_port(index)) for index in range(len(self._made), count)]
        self.harts = self._made[:count]
        self.active = 0
        for hart in self.harts:
            csr.reset(hart, self.vlen)
            clear_counters(hart)
        self.flush_pages()
        self.engine.code_synced()

    def close(self) -> None:
        """Have no harts and no threads any more."""
        self.group.close()
        self.engine.close()
        self._made, self.harts = [], []

    def snapshot(self) -> Any:
        """The state of every hart and of the counters, for `restore`."""
        return self.steps, [hart.snapshot() for hart in self.harts], super().snapshot()

    def restore(self, state: Any) -> None:
        """Go back to a state that `snapshot` gave, with as many harts as there were."""
        steps, harts, own = state
        self.create(len(harts))
        for hart, its in zip(self.harts, harts, strict=True):
            hart.restore(its)
        self._retired_before = steps - sum(hart.retired for hart in self.harts)
        super().restore(own)

    @property
    def steps(self) -> int:
        """Instructions retired by all harts since the device was opened."""
        return self._retired_before + sum([hart.words[RETIRED] for hart in self.harts])

    def find_hart(self, index: int) -> Hart | None:
        """Hart `index` if it is among the active ones."""
        return self.harts[index] if index < self.active_count else None

    @property
    def active_count(self) -> int:
        """How many harts are active."""
        return min(len(self.harts), self.active) if self.active else len(self.harts)

    def set_return_address(self, count: int, address: int = NO_ADDRESS) -> None:
        """Instances on the first `count` harts end at `address`."""
        for hart in self.harts[:count]:
            hart.words[RETURN_ADDRESS] = address

    def revive(self, hart: Hart) -> None:
        """Put `hart` into its state after reset; its counters go on."""
        retired = hart.retired
        kept = {
            COUNTER_CSR + slot: hart.csr.get(COUNTER_CSR + slot, 0) for slot in range(NUM_HART_COUNTERS) if slot != 1
        }
        csr.reset(hart, self.vlen)
        hart.words[RETIRED] = retired
        hart.csr.update(kept)
        self.engine.flush_pages(hart)

    def flush_pages(self) -> None:
        """All harts forget translations and decoded instructions."""
        for hart in self._that_ran():
            self.engine.flush_pages(hart)

    def flush_code(self) -> None:
        """All harts forget decoded instructions."""
        for hart in self._that_ran():
            self.engine.flush_code(hart)

    def _that_ran(self) -> list[Hart]:
        return [hart for hart in self.harts if hart.context is not None]
