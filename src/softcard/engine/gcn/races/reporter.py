"""Reports of data races. A finding names both accesses, and counts all races of one pair of instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from softcard.core.checks import LANES, RACES
from softcard.core.findings import Capture, Finding, FindingLog
from softcard.engine.gcn.launches import Launch
from softcard.engine.races.findings import RaceFindings, host_and, race_message
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.insn import Insn

if TYPE_CHECKING:
    from softcard.engine.gcn.memory import GpuMemory


LANES_OF_WAVE: Final = "lanes of a wave"
WAVES: Final = "waves of a work-group"
GROUPS: Final = "work-groups"
KERNELS: Final = "kernels"
HOST: Final = host_and("a kernel")
UNIT: Final = "the host"
SUGGESTION: Final = {
    LANES_OF_WAVE: "add a barrier between the accesses, or use atomics: only the width of this wave orders them",
    WAVES: "add a barrier between the accesses, or use atomics",
    GROUPS: "add a release and an acquire between the accesses, use atomics, or split the kernel into two",
    KERNELS: "set the barrier bit of the second packet, or wait for the completion signal of the first kernel",
    HOST: "wait for the kernel's completion signal before the host's access",
}
"""The fix to suggest for a race, by the innermost scope that contains both accesses."""
EVENT: Final = (
    "use one stream for both kernels, or record an event after the first one (hipEventRecord) and let the second "
    "one's stream wait for it (hipStreamWaitEvent)"
)
"""The fix to suggest for races between kernels of different streams."""
STREAM: Final = (
    "wait for the stream's work before the host's access: hipStreamSynchronize, or hipEventSynchronize for an event "
    "that was recorded after that work"
)
"""The fix to suggest for races between the host and work of a stream."""
DEVICE_LIBRARY: Final = "__ockl_"
"""The prefix of the functions of AMD's device library (OCKL), such as its heap and its calls of the host.

Their relaxed atomic loads and stores are plain ones in machine code, so two accesses by such functions are treated as
atomic.
"""
IN_COMPILED_CODE: Final = (
    "Compiled code found this race and kept only the two accesses; --engine reference shows the registers too."
)
"""The reason why the registers of a race are unknown on the JIT engine."""
WAS_DEFERRED: Final = (
    "The race counted when a later instruction used the loaded value, and other races were kept with registers."
)
"""The reason why the registers of a race of a load may be unknown on the reference engine."""
WORD_BYTES: Final = 8
"""The maximum size in bytes of a word that a kernel uses as a flag for the host."""
WORD_REACH: Final = 4096
"""The number of bytes before and after a word in which other stores of the instruction are searched for."""
Site = tuple[object, ...]
"""The key by which races are deduplicated.

It has the kind, scope and address space of the race, and the pcs and words of both instructions.
"""


@dataclass(frozen=True, slots=True)
class RacingAccess:
    """One access of a racing pair, made by a wave. `lanes` is empty for an access by the wave as a whole."""

    insn: Insn
    access: str
    wave: int
    group: tuple[int, int, int]
    lanes: tuple[int, ...]
    launch: Launch | None = None

    @property
    def is_stream(self) -> bool:
        """True if the kernel belongs to a stream."""
        return self.launch is not None and self.launch.is_stream

    def unit(self, between: str) -> str:
        """Return the name of the kernel's stream if the race is between streams, else that of the wave."""
        if between == KERNELS and self.launch is not None and self.launch.is_stream:
            return f"stream of queue {self.launch.queue}"
        return f"wave {self.wave}"

    def where(self, between: str) -> str:
        """Return the work-group as text, or "" for a race between streams."""
        return "" if between == KERNELS and self.is_stream else ",".join(map(str, self.group))


@dataclass(frozen=True, slots=True)
class HostConflict:
    """An access of a launch that conflicts with an access by the host, which has not waited for that launch.

    `launch` is the launch's number. The conflict concerns `size` bytes from `address` on; `size` is 0 if the size
    of the host's access is not known. `is_atomic` is True if the access is atomic or may be atomic: a load with
    glc, or a store by a single lane. `is_word` is True for a store if the instruction has stored to no other word
    within `WORD_REACH` bytes."""

    racing_access: RacingAccess
    launch: int
    address: int
    size: int
    is_atomic: bool
    is_word: bool = False

    @property
    def access(self) -> str:
        """The kind of access."""
        return self.racing_access.access

    @property
    def pc(self) -> int:
        """The address of the accessing instruction."""
        return self.racing_access.insn.pc

    def order(self) -> tuple[int, ...]:
        """Return the key by which the conflicts of one host access are sorted for the report."""
        return self.launch, self.address, self.racing_access.insn.pc


class Reporter:
    """The reporter of data races in one memory; it writes to a finding log."""

    def __init__(self, memory: GpuMemory, log: FindingLog) -> None:
        self.memory = memory
        self.log = log
        self.mailboxes = range(0)
        """The addresses of the driver's mailboxes; see `RaceWatch.set_mailboxes`."""
        self._findings = RaceFindings(log)
        self._of_library: set[Site] = set()
        """The pairs of racing instructions not reported because both belong to AMD's device library."""

    def report(
        self,
        one: RacingAccess,
        other: RacingAccess,
        between: str,
        space: str,
        address: int,
        size: int,
        count: int,
        capture: Capture | None = None,
        no_registers: str = IN_COMPILED_CODE,
    ) -> None:
        """Report that `count` lanes of access `one` race with the earlier access `other`.

        The first racing lane accesses `size` bytes at `address`. `between` states whether the accesses are by
        lanes of one wave, by waves of one work-group, of different work-groups, or of different kernels.
        `capture` returns the registers before the instruction of `one`; if it is None, `no_registers` says why."""
        sites = tuple((each.insn.pc, each.insn.words) for each in (other, one))
        made = partial(
            Finding,
            pc=one.insn.pc,
            insn=text(one.insn),
            lanes=one.lanes,
            unit=one.unit(between),
            group=one.where(between),
            count=count,
            capture=capture,
            no_registers=no_registers,
        )
        whose = suggestion = ""
        if between == KERNELS and one.launch is not None and other.launch is not None:
            whose = _queues(other.launch, one.launch)
            suggestion = EVENT if one.is_stream else ""
        self._report(sites, made, one.access, other, between, space, address, size, whose, suggestion)

    def report_copy(self, access: str, other: str, address: int, size: int, memory: str) -> None:
        """Report that an access by the host races with one by a copy operation that the host has not waited for.

        `access` and `other` are the kinds of these two accesses; `memory` names the kind of memory."""
        message = race_message(access, size, f"{address:#x} of {memory}", other, host_and("a copy"))
        made = Finding(
            RACES, f"{other}-{access}", message, access=access, space="global", address=address, size=size,
            unit=UNIT, suggestion=STREAM,
        )  # fmt: skip
        self.log.note(made)

    def report_host(self, access: str, conflict: HostConflict) -> None:
        """Report that the host reads, writes or frees bytes used by a launch that it has not waited for."""
        other = conflict.racing_access
        sites = ((other.insn.pc, other.insn.words),)
        suggestion = STREAM if other.is_stream else ""
        made = partial(Finding, unit=UNIT)
        self._report(sites, made, access, other, HOST, "global", conflict.address, conflict.size, suggestion=suggestion)

    def _report(
        self,
        sites: Site,
        made: Callable[..., Finding],
        access: str,
        other: RacingAccess,
        between: str,
        space: str,
        address: int,
        size: int,
        whose: str = "",
        suggestion: str = "",
    ) -> None:
        """Report a race of an access with the earlier access `other`; if one of the same `sites` was reported, count
        it.

        `sites` is the pair of accessing instructions. `made` creates the finding. `whose` names the queues of both
        kernels. `suggestion` replaces the usual suggestion for the scope `between`."""
        kind, check = f"{other.access}-{access}", LANES if between == LANES_OF_WAVE else RACES
        site = (kind, between, space, *sites)
        if self._findings.has_counted(site, made(check, kind, "").count) or site in self._of_library:
            return
        where = Finding(
            check, kind, "", pc=other.insn.pc, insn=text(other.insn), lanes=other.lanes,
            unit=other.unit(between), group=other.where(between),
        )  # fmt: skip
        self._findings.locate(where)
        if space == "global" and where.at.startswith(DEVICE_LIBRARY):
            one = made(check, kind, "")
            self._findings.locate(one)
            if one.at.startswith(DEVICE_LIBRARY):
                self._of_library.add(site)
                return
        what = f"offset {address:#x} of LDS" if space == "LDS" else f"{address:#x}{self._name(space, address)}"
        message = race_message(access, size, what, other.access, between + whose)
        allocation = None
        if space == "global" and self.memory.guard is not None:
            below, _ = self.memory.guard.allocations.around(address)
            allocation = below if below is not None and address < below.end else None
        finding = made(
            check, kind, message, access=access, space=space, address=address, size=size, other=where.place,
            conflict=where, suggestion=suggestion or SUGGESTION[between], allocation=allocation,
        )  # fmt: skip
        self._findings.report(site, finding)

    def _name(self, space: str, address: int) -> str:
        if space != "global":
            return f" of {space.upper()}"
        found = self.memory.find(address)
        return "" if found is None else f" in {found.name}"


def _queues(first: Launch, second: Launch) -> str:
    """Return the queues of two kernels as text."""
    if first.queue == second.queue:
        return f" of queue {first.queue}"
    queues = f"queues {first.queue} and {second.queue}"
    return f" of two streams ({queues})" if first.is_stream and second.is_stream else f" of {queues}"


def is_scalar(insn: Insn) -> bool:
    """Return True if the wave itself makes the access (a scalar access), not its lanes."""
    return insn.op.name.startswith("s_")
