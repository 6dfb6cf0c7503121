"""A static check that a kernel's machine code contains the sequences that its atomics need.

Machine code does not record the order and scope that an atomic was meant to have. So the check computes, for
every path, the order that the surrounding instructions give each atomic at agent scope and wider scopes (the
tables of `device.hsa.memory.memory_model`):

- *Release*: no access that VM_CNT counts can be outstanding when the atomic begins.
- *Acquire*: no load can follow the atomic before ``s_waitcnt vmcnt(0)`` and then ``buffer_wbinvl1(_vol)``.

From gfx942 on, ``buffer_inv`` with sc1 is the invalidation. A release then needs ``buffer_wbl2`` with sc1
after earlier stores and before the wait. An atomic without the requested order gives a `Gap` with the pcs of
the atomic and of the unordered access. If the kernel's atomics access host memory over PCIe, a
read-modify-write that PCIe does not support gives a `Gap` too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final

from softcard.core.errors import SoftcardError
from softcard.device.hsa.memory.device_memory import obstacle
from softcard.device.hsa.memory.memory_model import Order
from softcard.engine.gcn.effects import Effects, effects
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.coherence import CACHE_OPERATIONS, Scope, access_scope, is_coherent_load
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import Mode

# ---- private memory --------------------------------------------------------------------------------------------------
# Detection of instructions that access private memory, which no other work-item sees, whatever their GLC bit.
#
# Compilers use ``scratch_*`` instructions (GFX9), or buffer instructions with the private segment buffer that a kernel
# starts with. The analysis follows that buffer descriptor through copies, and additions to its base, on every path.


Code = Mapping[int, tuple[Insn, Effects]]
Tags = dict[int, int]
"""The type that maps each scalar register with a word of the private segment buffer to the number of that word."""
WORDS: Final = 4
BUFFERS: Final = ("MUBUF", "MTBUF")
COPIES: Final = {"s_mov_b32": 1, "s_mov_b64": 2}
"""The number of registers that each copy instruction copies."""
BASE_ADDS: Final = {"s_add_u32": 0, "s_addc_u32": 1}
"""The instructions that change the base address, with the number of the descriptor word that each changes."""


def private_accesses(
    entry: int, code: Code, following: Callable[[Insn, Effects], list[int]], has_buffer: bool
) -> frozenset[int]:
    """Return the pcs of the instructions of `code` that access private memory.

    `following` returns the successor pcs of an instruction. `has_buffer` is True if s[0:3] is the private segment
    buffer at `entry`.
    """
    before: dict[int, Tags] = {}
    work: list[tuple[int, Tags]] = [(entry, {n: n for n in range(WORDS)} if has_buffer else {})]
    while work:
        pc, tags = work.pop()
        if pc not in code:
            continue
        known = before.get(pc)
        merged = tags if known is None else dict(known.items() & tags.items())
        if merged == known:
            continue
        before[pc] = merged
        insn, effects = code[pc]
        after = _after(insn, effects, merged)
        work += [(each, after) for each in following(insn, effects)]
    return frozenset(pc for pc, tags in before.items() if _is_private(code[pc][0], tags))


def _is_private(insn: Insn, tags: Tags) -> bool:
    if insn.name.startswith("scratch_"):
        return True
    return insn.form in BUFFERS and all(tags.get(insn["srsrc"] + n) == n for n in range(WORDS))


def _after(insn: Insn, effects: Effects, tags: Tags) -> Tags:
    """Return the scalar registers that hold words of the private segment buffer's descriptor after `insn`.

    `tags` maps each register that holds such a word before the instruction to the number of the word. The
    result maps the registers after the instruction in the same way."""
    written = effects.s_writes | {n + half for n in effects.mask_writes for half in (0, 1)}
    left = {n: word for n, word in tags.items() if n not in written}
    count = COPIES.get(insn.name, 0)
    for n in range(count):
        if insn["ssrc0"] + n in tags:
            left[insn["sdst"] + n] = tags[insn["ssrc0"] + n]
    word = BASE_ADDS.get(insn.name)
    if word is not None and word in (tags.get(insn["ssrc0"]), tags.get(insn["ssrc1"])):
        left[insn["sdst"]] = word
    return left


# ---- sequences -------------------------------------------------------------------------------------------------------


LIMIT: Final = 100_000
"""The maximum number of instructions of a kernel that are analysed."""
DONE, WAIT, WRITE_BACK = range(3)
"""The state of an access on a path, by the steps that it lacks before the agent's other work-groups see it.

DONE lacks none, WAIT lacks a wait, and WRITE_BACK a write-back and a wait.
"""
VECTOR: Final = frozenset({"FLAT", "MUBUF", "MTBUF", "MIMG"})


@dataclass(frozen=True, slots=True)
class Atomic:
    """An atomic instruction. `before` is the pc of an access that violates release, or None.

    `after` is the pc of an access that violates acquire, or None.
    """

    pc: int
    text: str
    before: int | None
    after: int | None
    is_new: bool = False
    """True for gfx942 and later, where agents have several second-level caches."""
    pcie: str = ""
    """The reason why PCIe cannot carry the atomic, with the rule; "" if it can."""

    @property
    def order(self) -> Order:
        """The strongest memory order that the atomic has at agent scope and wider scopes."""
        if self.before is None:
            return Order.ACQUIRE_RELEASE if self.after is None else Order.RELEASE
        return Order.ACQUIRE if self.after is None else Order.RELAXED


@dataclass(frozen=True, slots=True)
class Gap:
    """An atomic that lacks a requested order. `missing` is the instruction or property that is absent.

    `other` is the pc of the access that is not ordered."""

    pc: int
    text: str
    missing: str
    other: int | None = None

    def __str__(self) -> str:
        where = "" if self.other is None else f", see pc {self.other:#x}"
        return f"pc {self.pc:#x} ({self.text}): {self.missing}{where}"


def atomics(entry: int, fetch: Callable[[int], Insn], private_buffer: bool = False) -> list[Atomic]:
    """Return all atomics that are reachable from `entry` without a computed jump, sorted by pc.

    `fetch` returns the instruction at a pc. Accesses to private memory are ignored, both as atomics and as accesses to
    be ordered. `private_buffer` is True if s[0:3] is the private segment buffer at `entry`.
    """
    code = dict(_reachable(entry, fetch))
    own = private_accesses(entry, code, _next, private_buffer)
    shared = {pc for pc, (insn, _) in code.items() if _is_access(insn) and pc not in own}
    before = _outstanding(entry, code, shared)
    found = []
    for pc, (insn, _) in sorted(code.items()):
        if pc in shared and _is_atomic(insn):
            is_new, after = insn.target.has_xccs, _unguarded(pc, code, shared)
            found.append(Atomic(pc, text(insn), before.get(pc), after, is_new, _pcie(insn)))
    return found


def gaps(found: list[Atomic], order: Order, pcie: bool = False) -> list[Gap]:
    """Return a `Gap` for each atomic in `found` that does not have `order` at agent scope and wider scopes.

    With `pcie`, the atomics access host memory over PCIe: atomics that PCIe does not support give a `Gap` too."""
    missing = []
    for each in found:
        if pcie and each.pcie:
            missing.append(Gap(each.pc, each.text, each.pcie))
        if order in (Order.RELEASE, Order.ACQUIRE_RELEASE) and each.before is not None:
            needed = "buffer_wbl2 sc1 and s_waitcnt vmcnt(0) are" if each.is_new else "s_waitcnt vmcnt(0) is"
            what = f"{needed} missing between this release atomic and an access before it"
            missing.append(Gap(each.pc, each.text, what, each.before))
        if order in (Order.ACQUIRE, Order.ACQUIRE_RELEASE) and each.after is not None:
            needed = "buffer_inv sc1" if each.is_new else "buffer_wbinvl1_vol"
            what = f"s_waitcnt vmcnt(0) and {needed} are missing between this acquire atomic and an access after it"
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
        except SoftcardError:
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
    """Return True for read-modify-writes, and for loads that are coherent in the agent."""
    if insn.form not in VECTOR:
        return False
    return "atomic" in insn.name or ("load" in insn.name and is_coherent_load(insn))


def _pcie(insn: Insn) -> str:
    """Return the reason why PCIe does not support a read-modify-write; "" if PCIe supports it."""
    found = obstacle(insn.name.split("_atomic_")[1].removesuffix("_x2")) if "_atomic_" in insn.name else None
    return "" if found is None else f"PCIe does not support this atomic: {found[0]} [{found[1].id}: {found[1].clause}]"


def _is_access(insn: Insn) -> bool:
    return insn.form in VECTOR and insn.name not in CACHE_OPERATIONS


def _is_invalidation(insn: Insn) -> bool:
    """Return True if an instruction invalidates caches at agent scope or a wider scope.

    Later loads then observe the stores that the agent's other work-groups have released."""
    return insn.name.startswith("buffer_wbinvl1") or (insn.name == "buffer_inv" and access_scope(insn) >= Scope.AGENT)


def _writes_back(insn: Insn) -> bool:
    """Return True if an instruction writes back the second-level cache at agent scope or a wider scope."""
    return insn.name == "buffer_wbl2" and access_scope(insn) >= Scope.AGENT


def _waits(insn: Insn) -> bool:
    if insn.name != "s_waitcnt":
        return False
    count = insn["simm16"]
    return (count & 15 | (count >> 14 & 3) << 4 if insn.target.level >= 9 else count & 15) == 0


def _outstanding(entry: int, code: Code, shared: Set[int]) -> dict[int, int]:
    """Return, for each pc at which an access may be outstanding when the instruction begins, the pc of that access.

    `shared` are the pcs of all accesses except those to private memory.
    """
    before: dict[int, int] = {}
    reached: dict[int, int] = {}
    """The most steps that any access lacks at each pc: DONE, WAIT or WRITE_BACK."""
    work: list[tuple[int, int, int]] = [(entry, 0, DONE)]
    while work:
        pc, access, missing = work.pop()
        if pc not in code or reached.get(pc, -1) >= missing:
            continue
        reached[pc] = missing
        if missing:
            before[pc] = access
        insn, found = code[pc]
        if pc in shared:
            is_kept = insn.target.has_xccs and "load" not in insn.name
            access, missing = pc, max(missing, WRITE_BACK if is_kept else WAIT)
        elif _writes_back(insn):
            missing = min(missing, WAIT)
        elif _waits(insn) and missing == WAIT:
            missing = DONE
        work += [(each, access, missing) for each in _next(insn, found)]
    return before


def _unguarded(start: int, code: Code, shared: Set[int]) -> int | None:
    """Return the pc of an instruction that shows that the atomic at `start` does not have acquire order.

    It is a load or atomic that can follow without a wait and then an invalidation, or an invalidation that can
    follow without a wait. Return None if there is no such instruction."""
    insn, found = code[start]
    seen: set[tuple[int, bool]] = set()
    work = [(pc, False) for pc in _next(insn, found)]
    while work:
        pc, waited = work.pop()
        if pc not in code or (pc, waited) in seen:
            continue
        seen.add((pc, waited))
        insn, found = code[pc]
        if _is_invalidation(insn):
            if waited:
                continue
            return pc
        if pc in shared and ("load" in insn.name or "atomic" in insn.name) and pc != start:
            return pc
        work += [(each, waited or _waits(insn)) for each in _next(insn, found)]
    return None
