"""Races as findings: both parties with their places; those of a pair of instructions are one, and counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from understudy.core.checks import LANES, RACES
from understudy.core.findings import Finding, FindingLog
from understudy.isa.gcn.asm.printer import text
from understudy.isa.gcn.insn import Insn

if TYPE_CHECKING:
    from understudy.engine.gcn.memory import GpuMemory

LOAD: Final = "read"
STORE: Final = "write"
ATOMIC: Final = "atomic"
LANES_OF_WAVE: Final = "lanes of a wave"
WAVES: Final = "waves of a work-group"
GROUPS: Final = "work-groups"
KERNELS: Final = "kernels"
HOST: Final = "the host and a kernel that it has not waited for,"
UNIT: Final = "the host"
FREE: Final = "free"
"""What the host does, beside reading and writing."""
SUGGESTION: Final = {
    LANES_OF_WAVE: "a barrier between them, or atomics: nothing but this wave's width orders them",
    WAVES: "a barrier between them, or atomics",
    GROUPS: "a release and an acquire between them, atomics, or a kernel for each",
    KERNELS: "the barrier bit, or a wait for the first one's completion signal",
    HOST: "a wait for the kernel's completion signal before it",
}
"""By whose accesses they are."""
Site = tuple[object, ...]
"""Kind, whose accesses, address space, and for both instructions the place and the words."""


@dataclass(frozen=True, slots=True)
class Party:
    """An access of a wave; `lanes` are none where the wave itself makes it."""

    insn: Insn
    access: str
    wave: int
    group: tuple[int, int, int]
    lanes: tuple[int, ...]

    @property
    def unit(self) -> str:
        """The wave, in words."""
        return f"wave {self.wave}"

    @property
    def where(self) -> str:
        """The work-group, in words."""
        return ",".join(map(str, self.group))


@dataclass(frozen=True, slots=True)
class Met:
    """What a launch that the host has not waited for has done to some of the bytes that the host accesses.

    `launch` is its number, `address` that of the first of `size` bytes. `is_atomic`: it is an atomic access, or may be
    one: a load with glc, a store by a single lane.
    """

    party: Party
    launch: int
    address: int
    size: int
    is_atomic: bool

    def order(self) -> tuple[int, ...]:
        """In which those of one access by the host are told of."""
        return self.launch, self.address, self.party.insn.pc


class Telling:
    """Tells a log of races in a memory."""

    def __init__(self, memory: GpuMemory, log: FindingLog) -> None:
        self.memory = memory
        self.log = log
        self._told: dict[Site, Finding] = {}

    def tell(self, one: Party, other: Party, between: str, space: str, address: int, size: int, count: int) -> None:
        """An access of `size` bytes races with an earlier one of `other`, in `count` of its lanes."""
        sites = tuple((each.insn.pc, each.insn.words) for each in (other, one))
        made = partial(
            Finding, pc=one.insn.pc, insn=text(one.insn), lanes=one.lanes, unit=one.unit, group=one.where, count=count
        )
        self._tell(sites, made, one.access, other, between, space, address, size)

    def tell_host(self, access: str, met: Met) -> None:
        """The host reads, writes or frees memory that a launch has accessed, which it has not waited for."""
        other = met.party
        sites = ((other.insn.pc, other.insn.words),)
        self._tell(sites, partial(Finding, unit=UNIT), access, other, HOST, "global", met.address, met.size)

    def _tell(
        self,
        sites: Site,
        made: Callable[..., Finding],
        access: str,
        other: Party,
        between: str,
        space: str,
        address: int,
        size: int,
    ) -> None:
        """Tell of an access and of the earlier one of `other`, once for each pair of `sites`; `made`: by whom."""
        kind, check = f"{other.access}-{access}", LANES if between == LANES_OF_WAVE else RACES
        site = (kind, between, space, *sites)
        known = self._told.get(site)
        if known is not None:
            self.log.note(replace(known, count=made(check, kind, "").count))
            return
        where = Finding(
            check, kind, "", pc=other.insn.pc, insn=text(other.insn), lanes=other.lanes, unit=other.unit,
            group=other.where,
        )  # fmt: skip
        for namer in self.log.namers:
            namer(where)
        what = f"offset {address:#x} of LDS" if space == "LDS" else f"{address:#x}{self._name(space, address)}"
        earlier = f"an {ATOMIC}" if other.access == ATOMIC else f"a {other.access}"
        message = f"{access} of {size} bytes at {what} and {earlier} of the same by {between} in no order"
        allocation = None
        if space == "global" and self.memory.guard is not None:
            below, _ = self.memory.guard.allocations.around(address)
            allocation = below if below is not None and address < below.end else None
        finding = made(
            check, kind, message, access=access, space=space, address=address, size=size, other=where.place,
            suggestion=SUGGESTION[between], allocation=allocation,
        )  # fmt: skip
        self._told[site] = replace(finding)
        self.log.note(finding)

    def _name(self, space: str, address: int) -> str:
        if space != "global":
            return f" of {space.upper()}"
        found = self.memory.find(address)
        return "" if found is None else f" in {found.name}"


def is_scalar(insn: Insn) -> bool:
    """Whether the wave itself makes the access."""
    return insn.op.name.startswith("s_")
