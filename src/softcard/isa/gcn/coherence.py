"""Scopes of loads, stores and cache operations: the sets of waves within which they are coherent.

Up to gfx90a the flag glc makes a load miss the first-level cache, so that it is coherent in the whole agent. From
gfx942 on the flags sc0 and sc1 are the number of a scope; instructions have them in the fields ``glc`` and ``scc``.

Sources: AMD's CDNA3 manual, tables of BUFFER_WBL2 and BUFFER_INV; LLVM's memory models of gfx90a and gfx942.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from softcard.isa.gcn.insn import Insn

CACHE_OPERATIONS: Final = frozenset(
    {"buffer_wbinvl1", "buffer_wbinvl1_vol", "buffer_wbl2", "buffer_invl2", "buffer_inv"}
)
"""The instructions that write back or invalidate the caches of vector memory."""


class Scope(IntEnum):
    """A set of waves within which a memory access is coherent."""

    WAVE = 0
    GROUP = 1
    AGENT = 2
    SYSTEM = 3


def access_scope(insn: Insn) -> Scope:
    """Return the scope in which a load or a store of vector memory is coherent."""
    if insn.target.has_xccs:
        return Scope(bool(insn.get("glc")) | bool(insn.get("scc")) << 1)
    return Scope.AGENT if insn.get("glc") else Scope.WAVE


def is_coherent_load(insn: Insn) -> bool:
    """Return True if a load sees stores of other work-groups without a cache invalidation, like an atomic load."""
    return access_scope(insn) >= Scope.AGENT


def is_group_load(insn: Insn) -> bool:
    """Return True if a load has the scope of its work-group (sc0), like an atomic load of that scope.

    Up to gfx90a such loads are plain loads, because the waves of a work-group share a first-level cache."""
    return insn.target.has_xccs and access_scope(insn) is Scope.GROUP


def invalidated(insn: Insn, what: str) -> Scope:
    """Return the scope for which the operation `what` invalidates first-level caches.

    `what` is named as in `ControlAlgebra.order`. The result is WAVE if the operation does not invalidate them."""
    if what.startswith("wbinvl1"):
        return Scope.AGENT
    return access_scope(insn) if what == "inv" else Scope.WAVE


def writes_back(insn: Insn, what: str) -> bool:
    """Return True if a cache operation makes earlier stores visible to work-groups on other dies of the agent.

    Only agents with several accelerator dies (XCCs) need it: each die has a second-level cache of its own."""
    return what == "wbl2" and insn.target.has_xccs and access_scope(insn) >= Scope.AGENT


def is_scoped_store(insn: Insn) -> bool:
    """Return True if a store has the scope of its work-group or a wider one (sc0, sc1), like an atomic store.

    Up to gfx90a instructions do not show the scope of a store."""
    return insn.target.has_xccs and access_scope(insn) >= Scope.GROUP


def stores_through(insn: Insn) -> bool:
    """Return True if a store is visible to work-groups on other dies of the agent without a write-back of caches.

    It is False on agents with one second-level cache, where all stores are visible there."""
    return insn.target.has_xccs and access_scope(insn) >= Scope.AGENT


def acquires(insn: Insn, what: str) -> bool:
    """Return True if a cache operation makes stores that other work-groups have released visible to later loads."""
    return invalidated(insn, what) >= Scope.AGENT
