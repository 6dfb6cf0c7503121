"""Hash tables and limits of race detectors.

Compiled code finds rows by open addressing: the first word of a row is its key, and 0 marks an empty row. A *site* is a
pair of an instruction and a kind of access. If a table is full, compiled code stores the number of the exceeded limit
in its state and continues; Python then raises the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from softcard.core.checks import RACES
from softcard.core.errors import BeyondModel
from softcard.ir.native import U64, inlined

MIX: Final = 0x9E37_79B9_7F4A_7C15
"""The factor of the hash function (Fibonacci hashing)."""


@inlined
def site_key(pc: int, kind: int, kind_bits: int) -> int:
    """Return the key of a site, which is never 0; `kind` is a number of `kind_bits` bits."""
    return pc << kind_bits | kind | 1 << 63


def site_of_key(key: int, kind_bits: int) -> tuple[int, int]:
    """Return the pc and the kind of access of a site, given its key."""
    return (key & ~(1 << 63)) >> kind_bits, key & (1 << kind_bits) - 1


@inlined
def first_row(key: int, mask: int) -> int:
    """Return the number of the row at which the search for a key begins, in a table of `mask` + 1 rows."""
    return (key * MIX) >> 40 & mask


@inlined
def find_row(table: int, key: int, first: int, mask: int, row_bytes: int) -> int:
    """Return the host address of the row of a key, or of the empty row that the key may take.

    The table at host address `table` has `mask` + 1 rows of `row_bytes` bytes. The search begins at row `first`.
    """
    number = first
    at = table + number * row_bytes
    while U64[at] != key and U64[at] != 0:
        number = number + 1 & mask
        at = table + number * row_bytes
    return at


def over_limit(work: str, limit: str) -> BeyondModel:
    """Return the error that `work`, such as "launches", exceeds a limit of the race detector."""
    return BeyondModel(f"check {RACES!r} supports {work} with at most {limit}")


def check_limits(full: int, limits: Mapping[int, str], work: str) -> None:
    """Raise the error of an exceeded limit; `full` is its number in `limits`, or 0 if none was exceeded."""
    if full:
        raise over_limit(work, limits[full])
