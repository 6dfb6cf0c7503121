"""Hook points: where engines, devices and hosts call the checks of waves that access one memory.

A check is an object of a subclass of `Check` that overrides some of its hooks. Engines, devices and hosts hold a
collection, `Checks`, and know no check by name. `checks.registry` creates the collection from the names in a setting.

A check of single instructions provides an `Observer` for the reference engine. Translated code either leaves those
instructions to the reference engine (`HookPoints`), or contains a part of the check itself (`Instrumentation`). Two
kinds of checks have further state, each at most once in a collection: shadow registers (`Shadow`), and the order of
launches and their accesses (`Tracker`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.instrumentation import PLAIN, HookPoints, Instrumentation
from softcard.engine.gcn.launches import Launches
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.hooks import Executions, by_hook, only
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import Wave

if TYPE_CHECKING:
    from softcard.engine.gcn.api import Dispatch, Engine, Statistics

LOAD: Final = "read"
STORE: Final = "write"
ATOMIC: Final = "atomic"
FREE: Final = "free"
"""The kind of access that stands for the host's freeing of memory."""

Fetch = Callable[[int], Insn]
"""A function that decodes the instruction at an address."""
T = TypeVar("T")


# ---- single instructions -------------------------------------------------------------------------------------------
class WaveView(Protocol):
    """A wave of the reference engine, as an observer of its instructions and accesses sees it."""

    wave: Wave
    words: Any


class Observer:
    """The observer of the instructions that the reference engine executes for one dispatch, on one thread.

    The engine calls its methods; in this base class each does nothing.
    """

    def begin(self, view: WaveView, group: tuple[int, int, int], insn: Insn, lanes: int | None) -> None:
        """Observe an instruction of a wave before its execution.

        `lanes` is the mask of the lanes that take part; None stands for all of EXEC.
        """

    def access(self, access: str, space: str, bits: int, address: Any, where: Any, values: Sequence[Any]) -> None:
        """Observe an access of lanes to memory before it happens.

        `access` is `LOAD`, `STORE` or `ATOMIC`. `bits` is the size for each lane. `where` are the lanes, None for all.
        `values` are the values to store, empty for loads and atomics.
        """

    def scalar_access(self, access: str, space: str, address: int, size: int) -> None:
        """Observe an access of a scalar instruction to `size` bytes of memory before it happens."""

    def order(self, what: str, n: int) -> None:
        """Observe that the wave has executed an s_waitcnt or a cache operation.

        `what` is "waitcnt", with the operand `n`, or the name of a cache operation, such as "inv"."""

    def barrier(self) -> None:
        """Observe that the wave has reached a barrier."""

    def end(self) -> None:
        """Observe that the wave has ended."""


# ---- shadow registers ----------------------------------------------------------------------------------------------
class ShadowStarts(Protocol):
    """The initial shadow registers of the waves of one thread, for the compiled scheduler."""

    @property
    def address(self) -> int:
        """The host address of `tiered.native_scheduler.ShadowStart` structures, one for each kind of shadow."""

    def place(self) -> None:
        """Compute the host addresses of the shadow of the waves' private memory, for the structures at `address`.

        Call this before waves run, and after mappings have changed."""


class Shadow(Protocol):
    """Shadow registers of waves and shadow memory: a set of both for each kind, such as definedness."""

    kinds: tuple[str, ...]

    @property
    def memories(self) -> Sequence[GpuMemory]:
        """The shadow memory of each kind of shadow: an address space with the addresses of the real one."""

    @property
    def counters(self) -> npt.NDArray[np.uint64]:
        """The table of counters that instrumented code increments."""

    def follow(self) -> None:
        """Map shadow memory for all memory that is mapped. Call this before waves run."""

    def blank(self, kind: str) -> int:
        """Return the initial shadow byte, for shadows of this kind, of a byte that a launch leaves undefined."""

    def start_wave(self, dispatch: Dispatch, wave: Wave, slot: int, lds: Sequence[int]) -> None:
        """Initialise the shadow registers of a wave.

        `slot` is the number of the wave's private memory. `lds` are the host addresses of the shadow memories of the
        work-group's LDS, one for each kind of shadow.
        """

    def starts(self, dispatch: Dispatch, waves: Sequence[Wave], first_slot: int) -> ShadowStarts:
        """Return the initial shadow registers of waves for the compiled scheduler.

        The private memory of these waves is in consecutive slots, of which `first_slot` is the first."""

    def operations(self, plain: Any) -> Any:
        """Return an operations interface of the reference engine that evaluates shadows along with values.

        `plain` is the operations interface that evaluates the values alone.
        """


# ---- the order of launches -----------------------------------------------------------------------------------------
class GroupState(Protocol):
    """The race detector's state of the work-group that a thread runs."""

    @property
    def rows(self) -> Sequence[Any]:
        """A ctypes structure for each wave; the wave's word `jit.layout.TRACKED` has its host address."""

    @property
    def address(self) -> int:
        """The host address of the state."""

    @property
    def start(self) -> int:
        """The host address of the compiled function that begins a work-group."""

    def begin(self) -> None:
        """Prepare for the work-groups of the launch that has just begun."""


class Speculation(Protocol):
    """Speculative execution of a launch's work-groups: they run concurrently, and are repeated if they conflict.

    Without speculation, a tracker such as the race detector needs work-groups to run one after the other."""

    def parts(self, count: int) -> Sequence[Any]:
        """Return the states of the threads that run work-groups: one for each of `count` threads, or fewer."""

    def is_due(self, entry: int) -> bool:
        """Return True if the launch of the kernel at `entry` that begins now should run work-groups by speculation."""

    def failed(self, entry: int) -> None:
        """Record that speculation failed for the kernel at `entry`."""

    def begin(
        self, groups: Sequence[Any], launched: Any, chosen: range, count: int, waves: int, shadow: Shadow | None
    ) -> bool:
        """Prepare the work-groups `chosen` to run concurrently. They belong to a launch with `count` work-groups.

        Return False if the tracker has too few wave numbers left for the launch. `groups` has the tracker's state
        for each thread, and `launched` its state for the launch. `waves` is the maximum number of waves of a
        work-group. `shadow` is shadow memory that `undo` restores as well."""

    def merge(self) -> bool:
        """Commit the effects and accesses of the groups; return False if they conflict.

        They conflict if results may differ from those of groups that run one after the other.
        """

    def undo(self) -> None:
        """Restore memory and shadow memory to their contents before the work-groups ran."""

    def forget(self) -> None:
        """Discard the recorded accesses of the groups."""


class Unordered(Protocol):
    """An access, by a launch that the host has not waited for, to bytes that the host accesses."""

    @property
    def launch(self) -> int:
        """The number of the launch."""

    @property
    def access(self) -> str:
        """The kind of access."""

    @property
    def pc(self) -> int:
        """The recorded address of the instruction that made the access."""

    @property
    def is_atomic(self) -> bool:
        """True if it is an atomic access, or may be one."""

    @property
    def is_word(self) -> bool:
        """True if it is a store by an instruction that stores to no other word nearby, like the store of a flag."""


class Tracker(Protocol):
    """The tracker of the order of launches and of their waves' accesses, as the race detector needs it.

    Translated code reads and updates its state.
    """

    launches: Launches

    @property
    def speculation(self) -> Speculation | None:
        """The object that runs work-groups concurrently by speculation.

        None if this process has too little address space left for it."""

    def group(self, part: Any, groups: Any, most_waves: int, private: tuple[int, int], fetch: Fetch) -> GroupState:
        """Return the state of the work-groups that one thread runs.

        `part` is the thread's state if work-groups run by speculation, else None. `groups` has the coordinates of
        each work-group of the launch. A group has at most `most_waves` waves. `private` is the range of addresses
        of private memory, and `fetch` decodes the instruction at a pc."""

    def kernel(
        self,
        queue: int,
        packet: int,
        seen: Mapping[int, int],
        done: Mapping[int, int] | None = None,
        *,
        is_stream: bool = False,
    ) -> AbstractContextManager[None]:
        """Return a context in which the kernel of a queue's packet runs, ordered after the packets before it.

        `seen` has, for each queue, the number of packets that were submitted so far; `done` has the number of
        those that are complete. `is_stream` is True if the queue belongs to the run-time library of another
        program, which uses it for its streams."""

    def begin(self) -> None:
        """Begin a kernel that is ordered after all other kernels."""

    def wait(self, queue: int, *, for_all: bool) -> None:
        """Record that a packet of a queue has waited for the packets before it in the same queue.

        If `for_all`, it has also waited for the packets of all other queues."""

    def read_by_packet(self, queue: int, index: int, signal: int, address: int, size: int) -> bool:
        """Record that packet `index` of a queue has waited for a signal and read its value, `size` bytes at `address`.

        Return True if only a launch that began after the submission of the packet can have stored the value."""

    def signalled(self, signal: int) -> None:
        """Record that a packet or the host changes the value of a signal."""

    def host(self, access: str, address: int, size: int) -> set[int]:
        """Check an access by the host for races; return the numbers of the launches that notified the host.

        A launch notifies the host by an atomic store of the value that the host now reads."""

    def set_mailboxes(self, address: int, size: int) -> None:
        """Exclude the `size` bytes at `address` from race detection: kernels store messages to the driver there."""

    def unordered(self, access: str, address: int, size: int) -> Sequence[Unordered]:
        """Return the accesses of launches that conflict with an access by the host.

        Only launches that the host has not waited for are considered.
        """

    def report_unordered(self, access: str, other: Unordered, *, is_exact: bool) -> None:
        """Report a race between an access by the host and `other`, an access that `unordered` returned.

        `is_exact` states that the size of the host's access is known.
        """

    def report_copy(self, access: str, other: str, address: int, size: int, memory: str) -> None:
        """Report a race between an access by the host and one by a copy engine.

        `access` and `other` are the kinds of these two accesses. `size` is that of the host's access, 0 if it is
        unknown. `memory` names the kind of memory, for example "pinned memory".
        """


# ---- programs of other processes -----------------------------------------------------------------------------------
class ProgramShadow(Protocol):
    """The shadow memory of a host program's device memory.

    The program's own loads and stores are not observed.
    """

    def mapped(self, address: int, size: int, *, is_host: bool) -> None:
        """Record memory that the program has mapped: its own (`is_host`), or device memory."""

    def allocated(self, address: int, data: npt.NDArray[np.uint8], name: str) -> None:
        """Record new device memory that holds the junk fill `data`, so that it counts as undefined.

        `name` describes the memory in findings.
        """

    def untracked(self, address: int, size: int, name: str, limit: int) -> None:
        """Record device memory that counts as defined, as its definedness would need too much memory.

        At most `limit` bytes of a program are tracked. `name` describes the memory in messages.
        """

    def freed(self, address: int) -> None:
        """Record that the memory at an address is not mapped any more."""

    def shared(self, address: int, size: int) -> None:
        """Record device memory that other agents can write, so that it counts as defined."""

    def stored(self, address: int, size: int) -> None:
        """Record that a copy engine has stored `size` bytes at an address."""

    def copied(self, to: int, source: int, size: int) -> None:
        """Record that a copy engine has copied `size` bytes from address `source` to address `to`."""


# ---- checks --------------------------------------------------------------------------------------------------------
class Check:
    """A check of the waves that access one memory.

    Hooks do nothing in this base class; a check overrides those that it needs.
    """

    name = ""

    @property
    def shadow(self) -> Shadow | None:
        """The check's shadow registers; None if it has none."""
        return None

    @property
    def tracker(self) -> Tracker | None:
        """The check's tracker of the order of launches and accesses; None if it has none."""
        return None

    @property
    def points(self) -> HookPoints:
        """The instructions for which translated code takes a side exit, so that observers are called."""
        return PLAIN.points

    @property
    def instrumentation(self) -> Instrumentation:
        """The code that the check inserts into translated code."""
        return PLAIN if self.points == PLAIN.points else Instrumentation((self.name,), points=self.points)

    # launches
    def launch_begins(self, dispatch: Dispatch) -> None:
        """Handle the start of a dispatch, before a device runs it."""

    def run(self, dispatch: Dispatch, engine: Engine) -> Statistics | None:
        """Run a dispatch in place of the engine; return None to leave it to the engine."""

    def running(self, dispatch: Dispatch, fetch: Fetch, *, is_translated: bool) -> AbstractContextManager[None]:
        """Return a context in which an engine runs the waves of a dispatch.

        `fetch` decodes the kernel. `is_translated` states that the engine executes translated code.
        """
        return nullcontext()

    def launch_ends(self, dispatch: Dispatch) -> None:
        """Handle the end of a dispatch, by its last wave or by an error."""

    def added_executions(self, executions: Executions) -> Executions:
        """Return the numbers of executions of an engine, plus those of dispatches that `run` has executed.

        Such dispatches ran in place of the engine, which has therefore not counted them.
        """
        return executions

    # work-groups
    def barrier_opens(self, dispatch: Dispatch, group: int, waves: Sequence[Wave]) -> None:
        """Handle a barrier that opens.

        Engines with translated code call it only if some work-item of the group has not reached the barrier.
        """

    def group_fails(
        self, dispatch: Dispatch, group: int, waves: Sequence[Wave], latest: Wave, error: SoftcardError
    ) -> None:
        """Handle the end of a work-group by an error of its wave `latest`."""

    # single instructions
    def accesses(self, dispatch: Dispatch) -> Any:
        """Return memory operations for the reference engine, a `reference.lane_memory.LaneMemory`.

        None selects the engine's own operations.
        """

    def observer(self, dispatch: Dispatch, accesses: Any) -> Observer | None:
        """Return an observer of the reference engine's instructions, or None.

        `accesses` are the engine's memory operations.
        """

    # the host
    def host_allocates(self, address: int, size: int, *, is_blank: bool) -> None:
        """Handle an allocation by the host; `is_blank` states that its contents count as undefined."""

    def host_frees(self, address: int, size: int) -> None:
        """Handle the freeing or unmapping of memory by the host, before it happens."""

    def host_reads(self, address: int, size: int) -> None:
        """Handle a read of memory by the host."""

    def host_writes(self, address: int, size: int) -> None:
        """Handle a write of memory by the host."""

    def host_views(self, address: int, size: int) -> None:
        """Handle the host's request of a view of memory, through which it may read and write."""

    def host_passes(self, address: int, size: int) -> None:
        """Handle an array that the host passes to a kernel; its contents count as defined."""

    def host_gets(self, address: int, array: npt.NDArray[Any], name: str) -> None:
        """Handle `array`, which the host gets back after a kernel; its device memory is at `address`."""

    def host_blocks(self, address: int) -> None:
        """Handle a wait of the host for a signal that no outstanding work can change."""

    def stale_accesses(self, found: list[Any]) -> list[Any]:
        """Report the stale accesses in `found` that this check looks for; return the rest.

        The engine with delayed stores and incoherent caches (`strict`) fills `found`.
        """
        return found

    def device_closes(self) -> None:
        """Handle the closing of the device."""

    def forget(self) -> None:
        """Forget all earlier kernels: the device was reset or restored, so none of them runs any more."""

    def program_memory(self, word: int) -> ProgramShadow | None:
        """Return the shadow memory for a host program's device memory; None if the check has none.

        `word` is the junk fill of that memory."""


class Checks:
    """The checks of one memory, collected by hook point: at a hook, only checks that override it are called."""

    def __init__(self, *checks: Check) -> None:
        self.every = checks
        self.shadow = only("shadow registers", (check.shadow for check in checks))
        self.tracker = only("the order of launches", (check.tracker for check in checks))
        self.instrumentation = Instrumentation.of(check.instrumentation for check in checks)
        self._of = by_hook(checks, Check)
        self.is_around = bool(self._of["running"])
        """True if a check must be called when an engine begins and ends a dispatch."""
        self.at_barriers = bool(self._of["barrier_opens"] or self._of["group_fails"])
        """True if a check must be called when barriers open, and needs the positions where waves have ended."""
        self.observes = bool(self.shadow or self.tracker or self._of["observer"])
        """True if the reference engine calls checks for single instructions."""
        self.at_launches = self.observes or bool(self._of["launch_begins"] or self._of["launch_ends"] or self.is_around)
        """True if each launch calls a check, even a repeated launch of a kernel."""
        self.at_writes = bool(self._of["host_writes"])
        self.at_reads = bool(self._of["host_reads"])
        self.at_results = bool(self._of["host_gets"] or self._of["host_passes"])
        """True if a check examines the arrays that the host passes to kernels and gets back."""

    def __bool__(self) -> bool:
        return bool(self.every)

    def find(self, kind: type[T]) -> T | None:
        """Return the check of this class; None if it is not selected.

        Callers need it to access attributes of a check that are not hooks."""
        return next((each for each in self.every if isinstance(each, kind)), None)

    # launches
    def run(
        self, dispatch: Dispatch, engine: Engine, run: Callable[[Dispatch], Statistics] | None = None
    ) -> Statistics:
        """Run a dispatch on an engine, unless a check runs it in place of the engine.

        If `run` is given, it is called instead of `engine.run`."""
        for each in self._of["launch_begins"]:
            each.launch_begins(dispatch)
        try:
            for each in self._of["run"]:
                dispatch.check_alone("a check that runs waves itself")
                done = each.run(dispatch, engine)
                if done is not None:
                    return done
            return (run or engine.run)(dispatch)
        finally:
            for each in self._of["launch_ends"]:
                each.launch_ends(dispatch)

    def running(self, dispatch: Dispatch, fetch: Fetch, *, is_translated: bool) -> AbstractContextManager[None]:
        """Return one context manager that enters `Check.running` of all checks."""
        found = [each.running(dispatch, fetch, is_translated=is_translated) for each in self._of["running"]]
        return found[0] if len(found) == 1 else _all_contexts(found)

    def added_executions(self, executions: Executions) -> Executions:
        """Return the numbers of executions of an engine, plus those of dispatches that checks have executed.

        Such dispatches ran in place of the engine, which has therefore not counted them.
        """
        for each in self._of["added_executions"]:
            executions = each.added_executions(executions)
        return executions

    # work-groups
    def barrier_opens(self, dispatch: Dispatch, group: int, waves: Sequence[Wave]) -> None:
        """Call `Check.barrier_opens` of the checks."""
        for each in self._of["barrier_opens"]:
            each.barrier_opens(dispatch, group, waves)

    def group_fails(
        self, dispatch: Dispatch, group: int, waves: Sequence[Wave], latest: Wave, error: SoftcardError
    ) -> None:
        """Call `Check.group_fails` of the checks."""
        for each in self._of["group_fails"]:
            each.group_fails(dispatch, group, waves, latest, error)

    # single instructions
    def accesses(self, dispatch: Dispatch) -> Any:
        """Return the memory operations for the reference engine that a check provides, or None."""
        return next((found for each in self._of["accesses"] if (found := each.accesses(dispatch)) is not None), None)

    def observers(self, dispatch: Dispatch, accesses: Any) -> list[Observer]:
        """Return the observers of all checks that have one."""
        made = (each.observer(dispatch, accesses) for each in self._of["observer"])
        return [each for each in made if each is not None]

    # the host
    def host_allocates(self, address: int, size: int, *, is_blank: bool) -> None:
        """Call `Check.host_allocates` of the checks."""
        for each in self._of["host_allocates"]:
            each.host_allocates(address, size, is_blank=is_blank)

    def host_frees(self, address: int, size: int) -> None:
        """Call `Check.host_frees` of the checks."""
        for each in self._of["host_frees"]:
            each.host_frees(address, size)

    def host_reads(self, address: int, size: int) -> None:
        """Call `Check.host_reads` of the checks."""
        for each in self._of["host_reads"]:
            each.host_reads(address, size)

    def host_writes(self, address: int, size: int) -> None:
        """Call `Check.host_writes` of the checks."""
        for each in self._of["host_writes"]:
            each.host_writes(address, size)

    def host_views(self, address: int, size: int) -> None:
        """Call `Check.host_views` of the checks."""
        for each in self._of["host_views"]:
            each.host_views(address, size)

    def host_passes(self, address: int, size: int) -> None:
        """Call `Check.host_passes` of the checks."""
        for each in self._of["host_passes"]:
            each.host_passes(address, size)

    def host_gets(self, address: int, array: npt.NDArray[Any], name: str) -> None:
        """Call `Check.host_gets` of the checks."""
        for each in self._of["host_gets"]:
            each.host_gets(address, array, name)

    def host_blocks(self, address: int) -> None:
        """Call `Check.host_blocks` of the checks."""
        for each in self._of["host_blocks"]:
            each.host_blocks(address)

    def stale_accesses(self, found: list[Any]) -> list[Any]:
        """Let each check report the stale accesses in `found` that it looks for; return the rest.

        The engine with delayed stores and incoherent caches (`strict`) fills `found`.
        """
        for each in self._of["stale_accesses"]:
            found = each.stale_accesses(found)
        return found

    def device_closes(self) -> None:
        """Call `Check.device_closes` of the checks."""
        for each in self._of["device_closes"]:
            each.device_closes()

    def forget(self) -> None:
        """Call `Check.forget` of the checks."""
        for each in self._of["forget"]:
            each.forget()

    def program_memory(self, word: int) -> ProgramShadow | None:
        """Return the shadow memory for a host program's device memory that a check provides, or None."""
        made = (each.program_memory(word) for each in self._of["program_memory"])
        return next((each for each in made if each is not None), None)


@contextmanager
def _all_contexts(contexts: Iterable[AbstractContextManager[None]]) -> Iterator[None]:
    with ExitStack() as stack:
        for each in contexts:
            stack.enter_context(each)
        yield


NO_CHECKS: Final = Checks()
