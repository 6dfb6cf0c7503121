"""The memory model: which machine code each memory operation needs, by segment, order and scope.

The tables of "Memory operation constraints for global segment", "... for group segment" and "Memory fence
constraints" of the ROCm Code Object document, as data.

Errata: the second "Atomic RMW scacq" row of the group table is scar; the name ``buffer_wbinv_vol`` in the global table
is ``buffer_wbinvl1_vol``; ``s_waitcnt 0`` waits for all counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from understudy.core.errors import WireError
from understudy.device.hsa.agents import CAS_LOOPS, PCIE_ATOMICS
from understudy.isa.gcn.target import GFX7, GFX9, Target


class Operation(StrEnum):
    """A memory operation. The first two do not synchronise."""

    LOAD = "load"
    STORE = "store"
    ATOMIC_LOAD = "atomic load"
    ATOMIC_STORE = "atomic store"
    ATOMIC_RMW = "atomic rmw"
    FENCE = "fence"


class Order(StrEnum):
    """Memory order; `NONE` for ordinary loads and stores."""

    NONE = "none"
    RELAXED = "rlx"
    ACQUIRE = "scacq"
    RELEASE = "screl"
    ACQUIRE_RELEASE = "scar"


class Scope(StrEnum):
    """Memory scope, from narrow to wide."""

    WORK_ITEM = "wi"
    WAVEFRONT = "wave"
    WORK_GROUP = "wg"
    AGENT = "agent"
    SYSTEM = "system"

    @property
    def is_wide(self) -> bool:
        """Agent or system ("agent+"); the others are "wg-"."""
        return self in (Scope.AGENT, Scope.SYSTEM)


class Segment(StrEnum):
    """What is accessed. A flat access that may affect both obeys the group segment's rules as well."""

    GLOBAL = "global"
    GROUP = "group"
    FLAT = "flat"


class Kind(StrEnum):
    """One element of a machine code sequence."""

    WAIT = "s_waitcnt vmcnt(0)"
    WAIT_ALL = "s_waitcnt 0"
    INVALIDATE = "buffer_wbinvl1_vol"
    LOAD = "load"
    LOAD_GLC = "load glc"
    STORE = "store"
    ATOMIC = "atomic"
    FENCE = "memfence"
    """Where the fence stands: no instruction."""


WAIT, WAIT_ALL, INVALIDATE = Kind.WAIT, Kind.WAIT_ALL, Kind.INVALIDATE
ANY: Final = (Order.RELAXED, Order.ACQUIRE, Order.RELEASE, Order.ACQUIRE_RELEASE)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: `wide` for scopes agent+, else wg-; None for both."""

    operation: Operation
    orders: tuple[Order, ...]
    wide: bool | None
    sequence: tuple[Kind, ...]

    def fits(self, operation: Operation, order: Order, scope: Scope) -> bool:
        """Whether the row is about this operation."""
        return operation is self.operation and order in self.orders and self.wide in (None, scope.is_wide)


# fmt: off
GLOBAL: Final = (
    Row(Operation.LOAD,         (Order.NONE,),                   None,  (Kind.LOAD,)),
    Row(Operation.ATOMIC_LOAD,  (Order.RELAXED, Order.ACQUIRE),  False, (Kind.LOAD,)),
    Row(Operation.ATOMIC_LOAD,  (Order.RELAXED,),                True,  (Kind.LOAD_GLC,)),
    Row(Operation.ATOMIC_LOAD,  (Order.ACQUIRE,),                True,  (Kind.LOAD_GLC, WAIT, INVALIDATE)),
    Row(Operation.STORE,        (Order.NONE,),                   None,  (Kind.STORE,)),
    Row(Operation.ATOMIC_STORE, (Order.RELAXED, Order.RELEASE),  False, (Kind.STORE,)),
    Row(Operation.ATOMIC_STORE, (Order.RELAXED,),                True,  (Kind.STORE,)),
    Row(Operation.ATOMIC_STORE, (Order.RELEASE,),                True,  (WAIT, Kind.STORE, WAIT)),
    Row(Operation.ATOMIC_RMW,   ANY,                             False, (Kind.ATOMIC,)),
    Row(Operation.ATOMIC_RMW,   (Order.RELAXED,),                True,  (Kind.ATOMIC,)),
    Row(Operation.ATOMIC_RMW,   (Order.ACQUIRE,),                True,  (Kind.ATOMIC, WAIT, INVALIDATE)),
    Row(Operation.ATOMIC_RMW,   (Order.RELEASE,),                True,  (WAIT, Kind.ATOMIC)),
    Row(Operation.ATOMIC_RMW,   (Order.ACQUIRE_RELEASE,),        True,  (WAIT, Kind.ATOMIC, WAIT, INVALIDATE)),
)
"""Memory operation constraints for global segment."""
GROUP: Final = (
    Row(Operation.LOAD,         (Order.NONE,),            None,  (Kind.LOAD,)),
    Row(Operation.ATOMIC_LOAD,  (Order.RELAXED,),         False, (Kind.LOAD,)),
    Row(Operation.ATOMIC_LOAD,  (Order.ACQUIRE,),         False, (WAIT, Kind.LOAD, INVALIDATE)),
    Row(Operation.STORE,        (Order.NONE,),            None,  (Kind.STORE,)),
    Row(Operation.ATOMIC_STORE, (Order.RELAXED,),         False, (Kind.STORE,)),
    Row(Operation.ATOMIC_STORE, (Order.RELEASE,),         False, (WAIT, Kind.STORE)),
    Row(Operation.ATOMIC_RMW,   (Order.RELAXED,),         False, (Kind.ATOMIC,)),
    Row(Operation.ATOMIC_RMW,   (Order.ACQUIRE,),         False, (WAIT, Kind.ATOMIC, INVALIDATE)),
    Row(Operation.ATOMIC_RMW,   (Order.RELEASE,),         False, (WAIT, Kind.ATOMIC)),
    Row(Operation.ATOMIC_RMW,   (Order.ACQUIRE_RELEASE,), False, (WAIT, Kind.ATOMIC, INVALIDATE)),
)
"""Memory operation constraints for group segment. The document has no row for a relaxed RMW: an atomic alone."""
FENCES: Final = (
    Row(Operation.FENCE, ANY[1:],                  False, (Kind.FENCE,)),
    Row(Operation.FENCE, (Order.ACQUIRE,),         True,  (Kind.FENCE, WAIT_ALL, INVALIDATE)),
    Row(Operation.FENCE, (Order.RELEASE,),         True,  (WAIT_ALL, Kind.FENCE)),
    Row(Operation.FENCE, (Order.ACQUIRE_RELEASE,), True,  (Kind.FENCE, WAIT_ALL, INVALIDATE)),
)
"""Memory fence constraints."""
# fmt: on

# fmt: off
RMW: Final = {
    "add":     ("add", "ds_add_u32"),
    "sub":     ("sub", "ds_sub_u32"),
    "max":     ("umax", "ds_max_u32"),
    "min":     ("umin", "ds_min_u32"),
    "and":     ("and", "ds_and_b32"),
    "or":      ("or", "ds_or_b32"),
    "xor":     ("xor", "ds_xor_b32"),
    "wrapinc": ("inc", "ds_inc_u32"),
    "wrapdec": ("dec", "ds_dec_u32"),
    "swap":    ("swap", "ds_wrxchg_rtn_b32"),
    "cas":     ("cmpswap", "ds_cmpst_b32"),
}
"""Read-modify-writes of unsigned dwords by the document's names: ending of the FLAT instruction, and the DS one."""
_COMPUTED: Final = {
    "max":     ("v_max_u32",),
    "min":     ("v_min_u32",),
    "and":     ("v_and_b32",),
    "or":      ("v_or_b32",),
    "xor":     ("v_xor_b32",),
    "wrapinc": ("{add}", "v_cmp_lt_u32", "v_cndmask_b32"),
    "wrapdec": ("{sub}", "v_min_u32"),
}
"""What comes between reading and exchanging, where a loop does it."""
# fmt: on


def sequence(operation: Operation, order: Order, scope: Scope, segment: Segment) -> tuple[Kind, ...]:
    """The elements that an operation needs; a `WireError` for a combination that the document does not have."""
    if operation is not Operation.FENCE and segment is Segment.FLAT:
        return _both(operation, order, scope)
    table: tuple[Row, ...] = GROUP if segment is Segment.GROUP else GLOBAL
    for row in FENCES if operation is Operation.FENCE else table:
        if row.fits(operation, order, scope):
            return row.sequence
    raise WireError(f"the memory model has no {operation} {order} at scope {scope} for the {segment} segment")


def _both(operation: Operation, order: Order, scope: Scope) -> tuple[Kind, ...]:
    """A flat access: what either segment asks for. Group memory is shared by no more than a work-group."""
    first = sequence(operation, order, scope, Segment.GLOBAL)
    second = sequence(operation, order, min(scope, Scope.WORK_GROUP, key=list(Scope).index), Segment.GROUP)
    access = next(kind for kind in first if kind in (Kind.LOAD, Kind.LOAD_GLC, Kind.STORE, Kind.ATOMIC))
    before = (WAIT,) if WAIT in (first[0], second[0]) else ()
    after = first[first.index(access) + 1 :]
    if INVALIDATE in second and INVALIDATE not in after:
        after = (*after, INVALIDATE)
    return (*before, access, *after)


def lower(
    operation: Operation | str,
    order: Order | str,
    scope: Scope | str,
    segment: Segment | str,
    agent: Target,
    *,
    rmw: str = "add",
    pcie: bool = False,
) -> tuple[str, ...]:
    """The instructions, by name, that an operation of one dword needs on a processor: ``("s_waitcnt vmcnt(0)", ...)``.

    `rmw` says which read-modify-write is meant, one of `RMW`; with `pcie` memory lies behind PCIe, which does not have
    all of them (clause "PCIe Gen3 Atomic Operations"). Words may be given as the document has them. A `WireError` for
    words or combinations that it does not have.
    """
    try:
        words = Operation(operation), Order(order), Scope(scope), Segment(segment)
    except ValueError as error:
        raise WireError(f"memory model: {error}") from None
    rmw = "swap" if rmw == "exch" else rmw
    if rmw not in RMW:
        raise WireError(f"memory model: {rmw!r} is no read-modify-write, expected one of {', '.join(RMW)}")
    if pcie and words[3] is Segment.GROUP:
        raise WireError("memory model: group memory does not lie behind PCIe")
    names = _names(words[3], agent, rmw, pcie)
    return tuple(name for kind in sequence(*words) for name in names.get(kind, (kind.value,)))


def _names(segment: Segment, agent: Target, rmw: str, pcie: bool) -> dict[Kind, tuple[str, ...]]:
    """Instructions that stand for the elements of a sequence."""
    family = "global" if segment is Segment.GLOBAL and agent.level == GFX9 else "flat"
    load, store = f"{family}_load_dword", f"{family}_store_dword"
    atomic: tuple[str, ...] = (f"{family}_atomic_{RMW[rmw][0]}",)
    if segment is Segment.GROUP:
        load, store, atomic = "ds_read_b32", "ds_write_b32", (RMW[rmw][1],)
    elif pcie:
        atomic = _over_pcie(family, agent, rmw)
    return {
        Kind.LOAD: (load,),
        Kind.LOAD_GLC: (f"{load} glc",),
        Kind.STORE: (store,),
        Kind.ATOMIC: atomic,
        Kind.WAIT_ALL: ("s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)",),
        Kind.FENCE: (),
    }


def _over_pcie(family: str, agent: Target, rmw: str) -> tuple[str, ...]:
    """A read-modify-write by the three that PCIe has."""
    add, sub = ("v_add_i32", "v_sub_i32") if agent.level == GFX7 else ("v_add_u32", "v_sub_u32")
    if rmw not in CAS_LOOPS:
        found = PCIE_ATOMICS[rmw]
        atomic = found.instruction.replace("flat", family)
        return (sub, atomic) if found.negated else (atomic,)
    computed = (name.format(add=add, sub=sub) for name in _COMPUTED[rmw])
    exchange = (f"{family}_atomic_cmpswap glc", WAIT.value, "v_cmp_ne_u32", "s_cbranch_vccnz again")
    return (f"{family}_load_dword glc", WAIT.value, "again:", *computed, *exchange)
