"""Whether a kernel's machine code contains the sequences that its atomics need.

Machine code does not say which order and scope an atomic was meant to have. So each is told with what its surroundings
give it, on every path: *release* where nothing that VM_CNT counts can be outstanding when it begins, *acquire* where
no load can come after it before ``s_waitcnt vmcnt(0)`` and then ``buffer_wbinvl1(_vol)`` (the tables for scopes agent+
of `device.hsa.memory_model`). An asked-for order that is not met gives a `Gap` with both pcs; so does a
read-modify-write that PCIe does not have, if the kernel's atomics are on memory of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Final

from understudy.check.private import Code, private
from understudy.core.errors import UnderstudyError
from understudy.device.hsa.memory_model import Order
from understudy.device.hsa.memory_types import obstacle
from understudy.engine.gcn.jit.effects import Effects, effects
from understudy.isa.gcn.asm.printer import text
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import Mode

LIMIT: Final = 100_000
"""Instructions of a kernel that are looked at."""
VECTOR: Final = frozenset({"FLAT", "MUBUF", "MTBUF", "MIMG"})


@dataclass(frozen=True, slots=True)
class Found:
    """An atomic: where, what, and what it gives. `before` and `after` are the pcs that spoil release and acquire."""

    pc: int
    text: str
    before: int | None
    after: int | None
    pcie: str = ""
    """Why PCIe cannot carry it, with the rule; "" where it can."""

    @property
    def order(self) -> Order:
        """The strongest order that it has at scope agent+."""
        if self.before is None:
            return Order.ACQUIRE_RELEASE if self.after is None else Order.RELEASE
        return Order.ACQUIRE if self.after is None else Order.RELAXED


@dataclass(frozen=True, slots=True)
class Gap:
    """An element of a sequence that is missing."""

    pc: int
    text: str
    missing: str
    other: int | None = None

    def __str__(self) -> str:
        where = "" if self.other is None else f", see pc {self.other:#x}"
        return f"pc {self.pc:#x} ({self.text}): {self.missing}{where}"


def atomics(entry: int, fetch: Callable[[int], Insn], private_buffer: bool = False) -> list[Found]:
    """All atomics that can be reached from `entry` without a computed jump, by pc.

    Accesses to private memory are none, and spoil nothing. `private_buffer`: s[0:3] are the private segment buffer.
    """
    code = dict(_reachable(entry, fetch))
    own = private(entry, code, _next, private_buffer)
    shared = {pc for pc, (insn, _) in code.items() if _is_access(insn) and pc not in own}
    before = _outstanding(entry, code, shared)
    found = []
    for pc, (insn, _) in sorted(code.items()):
        if pc in shared and _is_atomic(insn):
            found.append(Found(pc, text(insn), before.get(pc), _unguarded(pc, code, shared), _pcie(insn)))
    return found


def gaps(found: list[Found], order: Order, pcie: bool = False) -> list[Gap]:
    """What is missing for every atomic to have `order` at scope agent+; with `pcie`, on memory behind PCIe."""
    missing = []
    for each in found:
        if pcie and each.pcie:
            missing.append(Gap(each.pc, each.text, each.pcie))
        if order in (Order.RELEASE, Order.ACQUIRE_RELEASE) and each.before is not None:
            what = "no s_waitcnt vmcnt(0) between it and an access before it (release)"
            missing.append(Gap(each.pc, each.text, what, each.before))
        if order in (Order.ACQUIRE, Order.ACQUIRE_RELEASE) and each.after is not None:
            what = "no s_waitcnt vmcnt(0) and buffer_wbinvl1_vol before an access behind it (acquire)"
            missing.append(Gap(each.pc, each.text, what, each.after))
    return missing


def _reachable(entry: int, fetch: Callable[[int], Insn]) -> Iterator[tuple[int, tuple[Insn, Effects]]]:
    seen: set[int] = set()
    work = [entry]
    while work and len(seen) < LIMIT:
        pc = work.pop()
        if pc in seen:
            continue
        try:
            insn = fetch(pc)
        except UnderstudyError:
            continue
        seen.add(pc)
        found = effects(insn, Mode())
        yield pc, (insn, found)
        work += _next(insn, found)


def _next(insn: Insn, found: Effects) -> list[int]:
    if found.flow in ("end", "indirect"):
        return []
    following = [] if found.flow == "jump" else [insn.next_pc]
    return [*following, found.target] if found.flow in ("branch", "jump") else following


def _is_atomic(insn: Insn) -> bool:
    """Read-modify-writes, and loads with GLC, which is what an atomic load of scope agent+ is."""
    if insn.form not in VECTOR:
        return False
    return "atomic" in insn.name or ("load" in insn.name and bool(insn.get("glc")))


def _pcie(insn: Insn) -> str:
    """What PCIe lacks for a read-modify-write."""
    found = obstacle(insn.name.split("_atomic_")[1].removesuffix("_x2")) if "_atomic_" in insn.name else None
    return "" if found is None else f"PCIe has no such atomic: {found[0]} [{found[1].id}: {found[1].clause}]"


def _is_access(insn: Insn) -> bool:
    return insn.form in VECTOR and not insn.name.startswith("buffer_wbinvl1")


def _waits(insn: Insn) -> bool:
    if insn.name != "s_waitcnt":
        return False
    count = insn["simm16"]
    return (count & 15 | (count >> 14 & 3) << 4 if insn.target.level >= 9 else count & 15) == 0


def _outstanding(entry: int, code: Code, shared: Set[int]) -> dict[int, int]:
    """By pc: an access that may be outstanding when the instruction begins."""
    before: dict[int, int] = {}
    reached: set[int] = set()
    work: list[tuple[int, int | None]] = [(entry, None)]
    while work:
        pc, access = work.pop()
        if pc not in code or (pc in reached and (access is None or pc in before)):
            continue
        reached.add(pc)
        if access is not None:
            before[pc] = access
        insn, found = code[pc]
        after = pc if pc in shared else None if _waits(insn) else before.get(pc)
        work += [(each, after) for each in _next(insn, found)]
    return before


def _unguarded(start: int, code: Code, shared: Set[int]) -> int | None:
    """An access behind the atomic at `start` that no wait and then invalidation guards; None if all are guarded."""
    insn, found = code[start]
    seen: set[tuple[int, bool]] = set()
    work = [(pc, False) for pc in _next(insn, found)]
    while work:
        pc, waited = work.pop()
        if pc not in code or (pc, waited) in seen:
            continue
        seen.add((pc, waited))
        insn, found = code[pc]
        if insn.name.startswith("buffer_wbinvl1"):
            if waited:
                continue
            return pc
        if pc in shared and ("load" in insn.name or "atomic" in insn.name) and pc != start:
            return pc
        work += [(each, waited or _waits(insn)) for each in _next(insn, found)]
    return None
