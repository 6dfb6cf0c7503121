"""Compiled access to shadow memory: its words, and the table rows for dwords whose bytes have different records."""

from __future__ import annotations

from softcard.engine.races.order import cells_met
from softcard.engine.riscv.races.layout import (
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
from softcard.ir.native import U32, inlined, native


@inlined
def ram_of(race: Race, host: int) -> int:
    """Return the address of the `RamRow` of the memory that contains the byte at `host`; 0 without such a memory."""
    for number in range(race.ram_count):
        ram = RamRow.from_address(race.rams + number * RAM_BYTES)
        if host - ram.low < ram.span:
            return race.rams + number * RAM_BYTES
    return 0


@inlined
def parts_of(race: Race, word: int) -> int:
    """Return the address of the four byte records to which a split shadow word refers."""
    return race.splits + (word & SPLIT - 1) * SPLIT_BYTES


@native
def byte_record(race: Race, word: int, byte: int) -> int:
    """Return the access record of byte number `byte` of a dword, given the dword's shadow word."""
    if word >> SPLIT_AT:
        return U32[parts_of(race, word) + 4 * byte]
    return word & ~BYTES if word >> byte & 1 else 0


@native
def put_apart(race: Race, cell: int, mask: int, record: int) -> None:
    """Set the access record of some bytes of a dword, which `mask` selects; record 0 clears it.

    `mask` must not select all four bytes. `cell` is the address of the dword's shadow word."""
    word = U32[cell]
    if word >> SPLIT_AT == 0:
        remembered = word & BYTES & ~mask
        if word < race.watermark or remembered == 0:
            U32[cell] = record | mask if record else 0
            return
        if record == 0:
            U32[cell] = word & ~BYTES | remembered
            return
        if word & ~BYTES == record:
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
            U32[parts_of(race, word) + 4 * byte] = record


@inlined
def put(race: Race, cell: int, mask: int, record: int) -> None:
    """Set the access record of the bytes of a dword that are in `mask`; record 0 clears it.

    `cell` is the address of the dword's shadow word.
    """
    if mask == BYTES:
        U32[cell] = record | BYTES if record else 0
    else:
        put_apart(race, cell, mask, record)


@inlined
def planes_met(is_load: int, harts: int) -> int:
    """Return the number of planes (arrays of access records in shadow memory) that a new access conflicts with.

    `is_load` is 1 if the new access is a load. The planes are counted from that of the stores; those of each
    hart's loads follow it."""
    return cells_met(is_load, 1, harts + 1)


@inlined
def slot_of(race: Race, record: int) -> int:
    """Return the number of the hart in an access record."""
    return (record & race.slot_mask) >> SLOT_AT
