"""The memory model: the machine code of each memory operation, by segment, order and scope.

For processors before gfx90a, it contains the tables "Memory operation constraints for global segment", "...
for group segment" and "Memory fence constraints" of the ROCm Code Object specification. From gfx90a on,
`_composed` makes the sequences by the rules of LLVM's memory models.

The tables contain errors, which are corrected here: the second "Atomic RMW scacq" row of the group table is
for scar; ``buffer_wbinv_vol`` in the global table means ``buffer_wbinvl1_vol``; ``s_waitcnt 0`` means a wait
for all counters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from softcard.core.errors import WireError
from softcard.device.hsa.agents import CAS_LOOPS, PCIE_ATOMICS
from softcard.isa.gcn.target import GFX7, GFX9, Target


class Operation(StrEnum):
    """The memory operations. `LOAD` and `STORE` are an ordinary load and store, which do not synchronise."""

    LOAD = "load"
    STORE = "store"
    ATOMIC_LOAD = "atomic load"
    ATOMIC_STORE = "atomic store"
    ATOMIC_RMW = "atomic rmw"
    FENCE = "fence"


class Order(StrEnum):
    """The memory orders; `NONE` is that of ordinary loads and stores."""

    NONE = "none"
    RELAXED = "rlx"
    ACQUIRE = "scacq"
    RELEASE = "screl"
    ACQUIRE_RELEASE = "scar"


class Scope(StrEnum):
    """The memory scopes, from narrow to wide."""

    WORK_ITEM = "wi"
    WAVEFRONT = "wave"
    WORK_GROUP = "wg"
    AGENT = "agent"
    SYSTEM = "system"

    @property
    def is_wide(self) -> bool:
        """True for agent and system scope.

        The tables of the ROCm Code Object specification call these "agent+", and the narrower scopes "wg-".
        """
        return self in (Scope.AGENT, Scope.SYSTEM)


class Segment(StrEnum):
    """The segments that a memory operation can access.

    A flat access may affect the global and the group segment, so it follows the rules of both.
    """

    GLOBAL = "global"
    GROUP = "group"
    FLAT = "flat"


class Kind(StrEnum):
    """One element of a machine code sequence, such as the access itself, a wait or a cache invalidation."""

    WAIT = "s_waitcnt vmcnt(0)"
    WAIT_ALL = "s_waitcnt 0"
    INVALIDATE = "buffer_wbinvl1_vol"
    LOAD = "load"
    LOAD_GLC = "load glc"
    STORE = "store"
    ATOMIC = "atomic"
    FENCE = "memfence"
    """The position of the fence itself in a sequence; it does not emit an instruction."""


WAIT, WAIT_ALL, INVALIDATE = Kind.WAIT, Kind.WAIT_ALL, Kind.INVALIDATE
ANY: Final = (Order.RELAXED, Order.ACQUIRE, Order.RELEASE, Order.ACQUIRE_RELEASE)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table of memory operations: the sequence for an operation with one of `orders`.

    `wide` is True for agent and system scope ("agent+"), False for narrower scopes ("wg-"), and None for all scopes.
    """

    operation: Operation
    orders: tuple[Order, ...]
    wide: bool | None
    sequence: tuple[Kind, ...]

    def fits(self, operation: Operation, order: Order, scope: Scope) -> bool:
        """Return True if the row applies to this operation, order and scope."""
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
"""The table "Memory operation constraints for global segment" of the ROCm Code Object specification."""
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
"""The table "Memory operation constraints for group segment" of the ROCm Code Object specification.

It lacks a row for a relaxed read-modify-write; the row for it here has the atomic instruction alone.
"""
FENCES: Final = (
    Row(Operation.FENCE, ANY[1:],                  False, (Kind.FENCE,)),
    Row(Operation.FENCE, (Order.ACQUIRE,),         True,  (Kind.FENCE, WAIT_ALL, INVALIDATE)),
    Row(Operation.FENCE, (Order.RELEASE,),         True,  (WAIT_ALL, Kind.FENCE)),
    Row(Operation.FENCE, (Order.ACQUIRE_RELEASE,), True,  (Kind.FENCE, WAIT_ALL, INVALIDATE)),
)
"""The table "Memory fence constraints" of the ROCm Code Object specification."""
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
"""The instructions of unsigned read-modify-write operations on one dword.

The keys are the operation's names in the ROCm Code Object specification. Each value is the suffix of the FLAT
instruction and the name of the DS instruction.
"""
_COMPUTED: Final = {
    "max":     ("v_max_u32",),
    "min":     ("v_min_u32",),
    "and":     ("v_and_b32",),
    "or":      ("v_or_b32",),
    "xor":     ("v_xor_b32",),
    "wrapinc": ("{add}", "v_cmp_lt_u32", "v_cndmask_b32"),
    "wrapdec": ("{sub}", "v_min_u32"),
}
"""The instructions that compute the new value in a compare-and-swap loop, by operation."""
# fmt: on


def sequence(operation: Operation, order: Order, scope: Scope, segment: Segment) -> tuple[Kind, ...]:
    """Return the elements of the machine code for an operation, in order.

    Raise `WireError` for a combination that the tables of the ROCm Code Object specification lack.
    """
    if operation is not Operation.FENCE and segment is Segment.FLAT:
        return _both(operation, order, scope)
    table: tuple[Row, ...] = GROUP if segment is Segment.GROUP else GLOBAL
    for row in FENCES if operation is Operation.FENCE else table:
        if row.fits(operation, order, scope):
            return row.sequence
    raise WireError(f"the memory model has no {operation} {order} at scope {scope} for the {segment} segment")


def _both(operation: Operation, order: Order, scope: Scope) -> tuple[Kind, ...]:
    """Return the sequence for a flat access, which meets the requirements of the global and the group segment.

    For the group segment, a scope wider than a work-group is replaced by work-group scope, because only a work-group
    shares LDS.
    """
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
    returns: bool = False,
    tg_split: bool = False,
    cache: str = "",
) -> tuple[str, ...]:
    """Return the instructions of a memory operation on one dword, as text such as ``"s_waitcnt vmcnt(0)"``.

    - `agent`: the processor for which the instructions are.
    - `rmw`: the read-modify-write operation, one of `RMW`.
    - `returns`: True if the read-modify-write returns the previous value.
    - `pcie`: True for host memory across PCIe, which does not support all operations (clause "PCIe Gen3 Atomic
      Operations").
    - `tg_split`: True if waves of a work-group may run on different compute units (gfx90a and later).
    - `cache`: "nontemporal" or "volatile", for ordinary loads and stores of global memory.

    Operation, order, scope and segment may be named as in the ROCm Code Object specification. Raise `WireError`
    for names or combinations that the specification does not have."""
    try:
        words = Operation(operation), Order(order), Scope(scope), Segment(segment)
    except ValueError as error:
        raise WireError(f"memory model: {error}") from None
    rmw = "swap" if rmw == "exch" else rmw
    if rmw not in RMW:
        raise WireError(f"memory model: {rmw!r} is not a read-modify-write, expected one of {', '.join(RMW)}")
    if pcie and words[3] is Segment.GROUP:
        raise WireError(
            "memory model: --pcie cannot be used with the group segment: group memory is not accessed over PCIe"
        )
    if cache not in ("", *_CACHED) or (cache and (words[1] is not Order.NONE or words[3] is not Segment.GLOBAL)):
        raise WireError(
            f"memory model: cache is {cache!r}, expected {' or '.join(_CACHED)}, and only for non-atomic accesses of "
            "the global segment"
        )
    names = _names(words[3], agent, rmw, pcie)
    if agent.has_unified_registers or tg_split or returns or cache:
        return _composed(*words, agent, names, returns=returns, tg_split=tg_split, cache=cache)
    return tuple(name for kind in sequence(*words) for name in names.get(kind, (kind.value,)))


_CACHED: Final = ("nontemporal", "volatile")
_BITS: Final = {Scope.WORK_GROUP: " sc0", Scope.AGENT: " sc1", Scope.SYSTEM: " sc0 sc1"}
"""The flags of memory instructions on gfx942 and later, by scope."""


def _composed(
    operation: Operation,
    order: Order,
    scope: Scope,
    segment: Segment,
    agent: Target,
    names: dict[Kind, tuple[str, ...]],
    *,
    returns: bool,
    tg_split: bool,
    cache: str,
) -> tuple[str, ...]:
    """Return the instructions of an operation by the rules of LLVM's memory models.

    The instructions of a release precede the access, and those of an acquire follow it, if the order requires
    them."""
    if operation not in _OPERATIONS or order not in _OPERATIONS[operation] or scope not in _scopes_of(segment):
        raise WireError(f"the memory model has no {operation} {order} at scope {scope} for the {segment} segment")
    wait = WAIT.value if segment is Segment.GLOBAL else "s_waitcnt vmcnt(0) lgkmcnt(0)"
    wide = scope.is_wide or (tg_split and scope is Scope.WORK_GROUP)
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    if order in (Order.RELEASE, Order.ACQUIRE_RELEASE) and (wide or segment is not Segment.GLOBAL):
        before = (*_written_back(agent, scope), wait)
    if order in (Order.ACQUIRE, Order.ACQUIRE_RELEASE) and (wide or segment is not Segment.GLOBAL):
        after = (wait, *_invalidated(agent, scope, wide=wide))
    if operation is Operation.FENCE:
        return before + after
    kind = {Operation.ATOMIC_RMW: Kind.ATOMIC, Operation.LOAD: Kind.LOAD, Operation.ATOMIC_LOAD: Kind.LOAD}
    *others, access = names[kind.get(operation, Kind.STORE)]
    if segment is Segment.GROUP:
        return (*before, *others, access, *after)
    if cache:
        is_store = operation is Operation.STORE
        flags = _flags_of_cache(agent, cache, is_store=is_store)
        return (f"{access}{flags}", *((wait,) if is_store and cache == "volatile" else ()))
    return (*before, *others, access + _flags(agent, operation, scope, wide=wide, returns=returns), *after)


_OPERATIONS: Final = {
    Operation.LOAD: (Order.NONE,), Operation.STORE: (Order.NONE,),
    Operation.ATOMIC_LOAD: (Order.RELAXED, Order.ACQUIRE),
    Operation.ATOMIC_STORE: (Order.RELAXED, Order.RELEASE), Operation.ATOMIC_RMW: ANY, Operation.FENCE: ANY[1:],
}  # fmt: skip


def _scopes_of(segment: Segment) -> tuple[Scope, ...]:
    """Return the scopes that the rules allow for operations on `segment`.

    For the group segment, these are work-group scope and the narrower ones, because a work-group shares its
    LDS with no other."""
    return tuple(each for each in Scope if segment is not Segment.GROUP or not each.is_wide)


def _written_back(agent: Target, scope: Scope) -> tuple[str, ...]:
    """Return the instructions that write back the second-level cache, as a release at `scope` needs."""
    if agent.has_xccs:
        return (f"buffer_wbl2{_BITS[scope]}",) if scope.is_wide else ()
    return ("buffer_wbl2",) if agent.has_unified_registers and scope is Scope.SYSTEM else ()


def _invalidated(agent: Target, scope: Scope, *, wide: bool) -> tuple[str, ...]:
    """Return the instructions that invalidate caches, as an acquire at `scope` needs.

    `wide` is True if the operation synchronises with other compute units."""
    if not wide:
        return ()
    if agent.has_xccs:
        return (f"buffer_inv{_BITS[scope]}",)
    second = ("buffer_invl2",) if agent.has_unified_registers and scope is Scope.SYSTEM else ()
    return (*second, INVALIDATE.value)


def _flags(agent: Target, operation: Operation, scope: Scope, *, wide: bool, returns: bool) -> str:
    """Return the flags that an access instruction needs for its scope."""
    if operation is Operation.ATOMIC_RMW:
        if not agent.has_xccs:
            return " glc" if returns else ""
        return (" sc0" if returns else "") + (" sc1" if scope is Scope.SYSTEM else "")
    if operation in (Operation.LOAD, Operation.STORE):
        return ""
    if agent.has_xccs:
        return _BITS.get(scope, "")
    return " glc" if wide and operation is Operation.ATOMIC_LOAD else ""


def _flags_of_cache(agent: Target, cache: str, *, is_store: bool) -> str:
    """Return the flags that a nontemporal or volatile access instruction needs."""
    if agent.has_xccs:
        return " nt" if cache == "nontemporal" else " sc0 sc1"
    if cache == "nontemporal":
        return " glc slc"
    return "" if is_store else " glc"


def _names(segment: Segment, agent: Target, rmw: str, pcie: bool) -> dict[Kind, tuple[str, ...]]:
    """Return the instructions for each `Kind` of sequence element, for accesses to `segment`."""
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
    """Return the instructions that implement the read-modify-write `rmw` by PCIe's FetchAdd, Swap and CAS.

    `family` is the prefix of the instruction names: "flat" or "global"."""
    add, sub = ("v_add_i32", "v_sub_i32") if agent.level == GFX7 else ("v_add_u32", "v_sub_u32")
    if rmw not in CAS_LOOPS:
        found = PCIE_ATOMICS[rmw]
        atomic = found.instruction.replace("flat", family)
        return (sub, atomic) if found.negated else (atomic,)
    computed = (name.format(add=add, sub=sub) for name in _COMPUTED[rmw])
    exchange = (f"{family}_atomic_cmpswap glc", WAIT.value, "v_cmp_ne_u32", "s_cbranch_vccnz again")
    return (f"{family}_load_dword glc", WAIT.value, "again:", *computed, *exchange)
