"""Who touched each byte last, compiled: words of planes, and of dwords whose bytes were accessed apart."""

from __future__ import annotations

from understudy.engine.riscv.races.codes import (
    BYTES,
    NO_SPLITS,
    RAM_BYTES,
    SLOT_AT,
    SPLIT,
    SPLIT_AT,
    SPLIT_BYTES,
    SPLITS,
    Race,
    RamRow,
)
from understudy.ir.native import U32, inlined, native


@inlined
def ram_of(race: Race, host: int) -> int:
    """The row of the memory that a byte of this process belongs to; 0 for others."""
    for number in range(race.ram_count):
        ram = RamRow.from_address(race.rams + number * RAM_BYTES)
        if host - ram.low < ram.span:
            return race.rams + number * RAM_BYTES
    return 0


@inlined
def parts_of(race: Race, word: int) -> int:
    """Where the codes of the bytes are that a word tells of."""
    return race.splits + (word & SPLIT - 1) * SPLIT_BYTES


@native
def byte_code(race: Race, word: int, byte: int) -> int:
    """The code of a byte, by the word of its dword."""
    if word >> SPLIT_AT:
        return U32[parts_of(race, word) + 4 * byte]
    return word & ~BYTES if word >> byte & 1 else 0


@native
def put_apart(race: Race, cell: int, mask: int, code: int) -> None:
    """Have some bytes of a dword, not all of them, hold a code, or 0."""
    word = U32[cell]
    if word >> SPLIT_AT == 0:
        kept = word & BYTES & ~mask
        if word < race.floor or kept == 0:
            U32[cell] = code | mask if code else 0
            return
        if code == 0:
            U32[cell] = word & ~BYTES | kept
            return
        if word & ~BYTES == code:
            U32[cell] = word | mask
            return
        if race.split_count >= SPLITS:
            race.full = NO_SPLITS
            return
        made = SPLIT | race.split_count
        race.split_count += 1
        for byte in range(4):
            U32[parts_of(race, made) + 4 * byte] = word & ~BYTES if word >> byte & 1 else 0
        U32[cell], word = made, made
    for byte in range(4):
        if mask >> byte & 1:
            U32[parts_of(race, word) + 4 * byte] = code


@inlined
def put(race: Race, cell: int, mask: int, code: int) -> None:
    """Have bytes of a dword hold a code, or 0."""
    if mask == BYTES:
        U32[cell] = code | BYTES if code else 0
    else:
        put_apart(race, cell, mask, code)


@inlined
def slot_of(race: Race, code: int) -> int:
    """The hart of a code."""
    return (code & race.slot_mask) >> SLOT_AT
