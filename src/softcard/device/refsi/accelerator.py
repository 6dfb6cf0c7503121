"""The harts of a RefSi device, the engine that runs them, and shared code of the schedules of both profiles.

The profiles are "spec" and "refsidrv"; each has its own schedule."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from softcard.core.device import Telemetry
from softcard.core.errors import GuestFault, SoftcardError
from softcard.core.limits import Stopped, Watch, past_steps
from softcard.core.snapshot import Stateful
from softcard.device.refsi.counters import PerfCounters, clear_counters
from softcard.device.refsi.events import TRACED, InstanceFilter
from softcard.device.refsi.launch import KernelPlan
from softcard.device.refsi.registers import COUNTER_CSR, NUM_HART_COUNTERS
from softcard.engine.riscv.api import Engine
from softcard.engine.riscv.group import Group
from softcard.engine.riscv.hooks import NO_CHECKS
from softcard.isa.riscv import csr
from softcard.isa.riscv.port import HartPort
from softcard.isa.riscv.state import NO_ADDRESS, RETIRED, RETURN_ADDRESS, Hart

if TYPE_CHECKING:
    from softcard.engine.riscv.hooks import Outstanding
    from softcard.engine.riscv.tracepoints import HartTracepoints

# ecall from machine mode: a7 is the number of the call, a0 the argument (choice `refsi/ecall`).
HOST_EXIT: Final = 0
HOST_PUTSTRING: Final = 1
HOST_BARRIER: Final = 2
A0: Final = 10
A7: Final = 17


class KernelExit(GuestFault):
    """The error of a kernel that made the environment call EXIT with a code other than 0."""


class StepLimit(GuestFault):
    """The error of a kernel command that ran for more instructions than the device allows."""

    @classmethod
    def of(cls, accelerator: Accelerator) -> Self:
        """Return the error for a kernel command of this device, without its location."""
        limits = past_steps(accelerator.step_limit or 0, accelerator.watch.time_limit_seconds)
        return cls(f"the kernel command has not ended after {limits}")


"""The registers, CSRs and privilege level of a hart."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a kernel command, and the hart that failed.

    `instruction` is the text of the instruction at `pc`.
    """

    error: SoftcardError
    hart: int | None = None
    pc: int | None = None
    instance: int | None = None
    instruction: str = ""

    def located(self) -> SoftcardError:
        """Return the error after adding the hart, the pc and the instance to its location."""
        error = self.error
        if self.pc is not None and not any(place.kind == "pc" for place in error.path):
            error = error.at("pc", self.pc, self.instruction)
        if self.hart is not None and not any(place.kind == "hart" for place in error.path):
            error = error.at("hart", self.hart)
        if self.instance is not None:
            error = error.at("instance", self.instance)
        return error


class Schedule(Protocol):
    """The schedule of a profile: it decides when each hart runs."""

    def run(self, plan: KernelPlan) -> Failure | None:
        """Run all instances of a kernel command; return None if all succeed, else the failure."""


class Accelerator(Stateful):
    """The harts of a device, numbered from 0, with the engine that runs them.

    - `make_port` makes a hart's port to memory.
    - `vlen` is the vector length in bits.
    - `active` is the number of harts that the last kernel command used. As in the reference driver, only the
      counters of these harts can be read. 0, before the first command, stands for all harts.
    - `step_limit` bounds the instructions of one kernel command, `time_limit_seconds` its time.
    - `threads` is the number of harts that may run at the same time, each on a thread of the host. None
      stands for the number of the host's processors.
    - `trace_instances` is the number of instances of a command that emit events."""

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
        self.engine.between_slices = self.check_limits
        self.watch = Watch(time_limit_seconds)
        self._began: float | None = None
        self._compiled = 0.0
        """The engine's total compile time at the start of the command."""
        self.telemetry = telemetry
        self.vlen = vlen
        self.step_limit = step_limit
        self.group = Group(threads)
        self.harts: list[Hart] = []
        self._made: list[Hart] = []
        self.active = 0
        self.counters = PerfCounters(self.find_hart)
        self.checks = NO_CHECKS
        """The checks of the harts."""
        self.tracepoints: HartTracepoints | None = None
        """The snapshots of registers; None if they are disabled."""
        self.outstanding: Callable[[], list[Outstanding]] = list
        """A function that returns the outstanding DMA transfers, for checks of the order of accesses."""
        self.instance_filter = InstanceFilter(telemetry, trace_instances)
        """The filter that limits events to the first instances of a kernel command."""
        self._make_port = make_port
        self._retired_before = 0

    def begin_group(self) -> None:
        """Report the start of a group of instances to the checks."""
        if self.checks.at_groups:
            self.checks.group_begins(self.outstanding())

    def take_registers(self, why: str, hart: Hart, pc: int, instruction: str = "") -> None:
        """Take a snapshot of a hart's registers for the reason `why`, if snapshots are enabled."""
        if self.tracepoints is not None:
            self.tracepoints.take(why, hart, pc, instruction)

    def begin(self) -> None:
        """Start the clock of the time limit, for a kernel command or for commands that move data."""
        self._began, self._compiled = time.monotonic(), self.engine.compiling_seconds

    def rest(self) -> None:
        """Stop the clock of the time limit, as it does not apply to the host's own work."""
        self._began = None

    def check_limits(self, hart: Hart) -> None:
        """Raise `TimeLimit` or another error if the kernel command must stop.

        The error contains the hart, its pc and the number of instructions that it has retired."""

        def doing() -> str:
            return f"the hart has retired {hart.retired} instructions"

        try:
            if self.group.is_abandoned:
                raise Stopped(f"the host was interrupted while the kernel ran: {doing()}")
            self.watch.poll(self._since, doing, self.step_limit)
        except SoftcardError as error:
            raise error.at("pc", hart.pc).at("hart", hart.index) from None

    def check_data_limits(self) -> None:
        """Raise an error if a command that moves data, or a DMA transfer of a hart, must stop."""
        if self.group.is_abandoned:
            raise Stopped("the host was interrupted while data was moved")
        self.watch.poll(self._since, lambda: "data was being moved", self.step_limit, "the buffer")

    @property
    def _since(self) -> float:
        if self._began is None:
            return time.monotonic()
        return self._began + self.engine.compiling_seconds - self._compiled

    def places(self, count: int) -> list[tuple[str, str]]:
        """Return the location of each of the first `count` harts as a pair of texts for `note_interrupt`.

        A pair is, for example, ("pc", "0x10040 of hart 3")."""
        return [("pc", f"{hart.pc:#x} of hart {hart.index}") for hart in self.harts[:count]]

    def create(self, count: int) -> None:
        """Make `count` harts in their state after reset."""
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
        """Release the harts and the threads."""
        self.group.close()
        self.engine.close()
        self._made, self.harts = [], []

    def snapshot(self) -> Any:
        """Return the state of every hart and of the counters, for `restore`."""
        return self.steps, [hart.snapshot() for hart in self.harts], super().snapshot()

    def restore(self, state: Any) -> None:
        """Return to a state that `snapshot` returned; this also restores the number of harts."""
        steps, harts, own = state
        self.create(len(harts))
        for hart, its in zip(self.harts, harts, strict=True):
            hart.restore(its)
        self._retired_before = steps - sum(hart.retired for hart in self.harts)
        super().restore(own)

    @property
    def steps(self) -> int:
        """The number of instructions retired by all harts since the device was opened."""
        return self._retired_before + sum([hart.words[RETIRED] for hart in self.harts])

    def find_hart(self, index: int) -> Hart | None:
        """Return hart `index` if it is active, else None."""
        return self.harts[index] if index < self.active_count else None

    @property
    def active_count(self) -> int:
        """The number of harts that the last kernel command used."""
        return min(len(self.harts), self.active) if self.active else len(self.harts)

    def set_return_address(self, count: int, address: int = NO_ADDRESS) -> None:
        """Set the pc at which instances end, for the first `count` harts."""
        for hart in self.harts[:count]:
            hart.words[RETURN_ADDRESS] = address

    def revive(self, hart: Hart) -> None:
        """Reset a hart after a kernel has failed, so that it can run again; its counters keep their values."""
        retired = hart.retired
        kept = {
            COUNTER_CSR + slot: hart.csr.get(COUNTER_CSR + slot, 0) for slot in range(NUM_HART_COUNTERS) if slot != 1
        }
        csr.reset(hart, self.vlen)
        hart.words[RETIRED] = retired
        hart.csr.update(kept)
        self.engine.flush_pages(hart)

    def flush_pages(self) -> None:
        """Drop all translations and decoded instructions of all harts."""
        for hart in self._that_ran():
            self.engine.flush_pages(hart)

    def flush_code(self) -> None:
        """Drop all decoded instructions of all harts."""
        for hart in self._that_ran():
            self.engine.flush_code(hart)

    def _that_ran(self) -> list[Hart]:
        return [hart for hart in self.harts if hart.context is not None]
