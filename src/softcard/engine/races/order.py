"""The rules of races for one access or for vectors of accesses: which accesses are ordered, and which conflict.

A shadow cell records an access as one word, the *code* of the access. The word contains the agent (a wave or a hart)
and the agent's epoch or number. Each instruction set has its own layout of codes, but one property holds for all: an
access that happened before everything that is executed now has a code below a *watermark*, and all other accesses have
codes at or above it. 0, the code of an empty cell, is below every watermark.
"""

from __future__ import annotations

from softcard.ir.native import inlined


@inlined
def is_of(record: int, agent: int, bits: int) -> int:
    """Return 1 if the access recorded as `record` was made by `agent`.

    `bits` is the mask of the bits that identify the agent in such a record.
    """
    return (record ^ agent) & bits == 0


@inlined
def is_settled(record: int, watermark: int, agent: int, bits: int) -> int:
    """Return 1 if a recorded access is ordered before the agent's next access without use of its vector clock.

    That is so if the access lies below the `watermark` or was made by the agent itself.
    """
    return (record < watermark) | is_of(record, agent, bits)


@inlined
def is_ordered(record: int, watermark: int, agent: int, bits: int, is_known: int) -> int:
    """Return 1 if a recorded access happened before the agent's next access.

    `is_known` is 1 if the agent's vector clock contains the epoch of the recorded access.
    """
    return is_settled(record, watermark, agent, bits) | is_known


@inlined
def cells_met(is_load: int, stores: int, count: int) -> int:
    """Return the number of shadow cells of a byte that conflict with an access, counted from the first cell.

    A byte has `count` cells; the first `stores` of them record stores, the others loads. A load conflicts with stores
    only. A store or an atomic conflicts with loads, too.
    """
    return stores if is_load else count
