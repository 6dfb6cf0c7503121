"""No user command sequence reaches memory that its own context's page tables do not present.

Random page tables and random commands, against an oracle that works byte by byte; executed one by one, as machine code,
and where all memory is reached by calls.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from softcard.core.pci import PlainMemory
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import Nop, RunCommand, page_table, user_code, words_of
from softcard.device.acceldev.device import AcceldevDevice
from tests.device.acceldev.oracle import Oracle
from tests.device.acceldev.rig import CallsOnly

BASE = 0x40_0000
PAGES = 24
PAGE = 4096
RECORDS, CODE_TABLE, CODE, TABLE_A, TABLE_B, OTHERS_TABLE, OTHERS_PAGE, FIRST_DATA = 0, 1, 2, 4, 5, 6, 7, 8
"""Page numbers. The code has two pages; the other context has a table and a page of its own."""
DATA_PAGES = 10
SYSTEM = range(FIRST_DATA + DATA_PAGES, PAGES)
"""Pages that no page table presents."""
VICTIM = 1


class World:
    """A device that stays warm, and memory that is filled anew for every example."""

    def __init__(self, calls_only: bool = False, **options: Any) -> None:
        self.memory = PlainMemory((BASE, PAGES * PAGE))
        self.device = AcceldevDevice(**options)
        self.device.connect(CallsOnly(self.memory) if calls_only else self.memory)
        for offset, value in ((r.CONTEXTS_CONFIGS_LO.offset, BASE), (r.ENABLE.offset, 1)):
            self.device.write_bar(0, offset, 4, value)
        self.memory.write(self.page(CODE_TABLE), page_table([self.page(CODE)]))
        self.memory.write(self.page(CODE), user_code([Nop()] * 100))
        self.run(0, 2000)

    @staticmethod
    def page(number: int) -> int:
        return BASE + number * PAGE

    def run(self, offset: int, size: int) -> None:
        command = RunCommand(context=0, table=self.page(CODE_TABLE), offset=offset, size=size)
        for index, word in enumerate(words_of(command)):
            self.device.write_bar(0, r.CMD_MANUAL_FEED.offset + 4 * index, 4, word)

    def compare(self, memory: bytes, offset: int, size: int) -> Oracle:
        """Run on the device and on the oracle; both must leave the same memory and interrupts."""
        self.memory.view(BASE, PAGES * PAGE)[:] = memory
        self.device.write_bar(0, r.INTR.offset, 4, 0xFF)
        self.run(offset, size)
        oracle = Oracle(BASE, memory)
        oracle.run(0, self.page(CODE_TABLE), offset, size)
        got = self.memory.read(BASE, PAGES * PAGE)
        if got != bytes(oracle.memory):
            first = next(i for i in range(len(got)) if got[i] != oracle.memory[i])
            pytest.fail(f"page {first // PAGE} byte {first % PAGE:#x}: {got[first]:#x} for {oracle.memory[first]:#x}")
        assert self.device.read_bar(0, r.INTR.offset, 4) == oracle.intr
        return oracle


WORLDS = {
    "one-by-one": World(engine="reference"),
    "machine-code": World(),
    "calls": World(calls_only=True),
}


def tables(page_numbers: st.SearchStrategy[int]) -> st.SearchStrategy[bytes]:
    """Page tables of some entries: presented pages, absent ones, set unused bits, pages that do not exist."""
    present = st.builds(lambda page, low: World.page(page) >> 8 | low | 1, page_numbers, st.sampled_from([0, 0, 14]))
    absent = st.builds(lambda page: World.page(page) >> 8, page_numbers)
    nowhere = st.just(0xFFFF_FFF1)
    entry = st.one_of(present, present, present, present, absent, nowhere)
    return st.lists(entry, min_size=2, max_size=6).map(
        lambda entries: b"".join(each.to_bytes(4, "little") for each in entries).ljust(PAGE, b"\0")
    )


POINTERS = st.sampled_from(
    [
        *[World.page(TABLE_A), World.page(TABLE_B)] * 5,
        0,
        World.page(TABLE_A) + 4,
        World.page(TABLE_A) | 1 << 40,
        0xFFFF_F000,
        (1 << 64) - 4096,
    ]
)
OFFSETS = st.one_of(
    *[st.integers(0, 4 * PAGE)] * 4, st.sampled_from([0, 4095, 4096, 8190, (4 << 20) - 4, 4 << 20, 0xFFFF_FFFF])
)
LENGTHS = st.one_of(*[st.integers(0, 300), st.integers(0, 5 * PAGE)] * 3, st.sampled_from([0, 4096, 0xFFFF_FFFF]))
FILL = st.builds(
    lambda value, slot, start, length: [2, value, slot, start, length],
    st.one_of(st.integers(0, 0xFFFF_FFFF), st.just(0x5A5A_5A5A)),
    st.one_of(*[st.integers(0, 3)] * 6, st.integers(0, 20), st.just(0xFFFF_FFFF)),
    OFFSETS,
    LENGTHS,
)
ANY = st.lists(st.integers(0, 0xFFFF_FFFF), min_size=5, max_size=5)
COMMANDS = st.lists(st.one_of(*[FILL] * 6, st.just([0] * 5), st.just([1] * 5), ANY), min_size=1, max_size=12).map(
    lambda commands: b"".join(word.to_bytes(4, "little") for words in commands for word in words)
)
SLOTS = st.lists(POINTERS, min_size=4, max_size=4)


def contents(slots: list[int], code_table: bytes, table_a: bytes, table_b: bytes, code: bytes, offset: int) -> bytes:
    """All memory before a RUN: noise where nothing else is."""
    memory = bytearray((index * 37 + index // PAGE * 11) % 251 for index in range(PAGES * PAGE))

    def put(page: int, data: bytes, at: int = 0) -> None:
        memory[page * PAGE + at : page * PAGE + at + len(data)] = data

    put(RECORDS, b"".join(each.to_bytes(8, "little") for each in slots).ljust(192, b"\0"))
    put(RECORDS, World.page(OTHERS_TABLE).to_bytes(8, "little").ljust(192, b"\0"), VICTIM * 192)
    put(CODE_TABLE, code_table)
    put(TABLE_A, table_a)
    put(TABLE_B, table_b)
    put(OTHERS_TABLE, page_table([World.page(OTHERS_PAGE)]))
    put(CODE, code, offset)
    return bytes(memory)


PLAIN_CODE = page_table([World.page(CODE), World.page(CODE + 1)])
OWN = tables(st.integers(FIRST_DATA, FIRST_DATA + DATA_PAGES - 1))
EVERYWHERE = tables(st.integers(0, PAGES + 2))
WAYS = pytest.mark.parametrize("way", WORLDS)


@pytest.mark.slow
@WAYS
@settings(max_examples=150)
@given(slots=SLOTS, table_a=OWN, table_b=OWN, code=COMMANDS, offset=st.sampled_from([0, 4, 4080, 4000]))
def test_isolation(way: str, slots: list[int], table_a: bytes, table_b: bytes, code: bytes, offset: int) -> None:
    memory = contents(slots, PLAIN_CODE, table_a, table_b, code, offset)
    oracle = WORLDS[way].compare(memory, offset, len(code))
    presented = {
        (int.from_bytes(table[at : at + 4], "little") >> 4) - BASE // PAGE
        for table in (table_a, table_b)
        for at in range(0, PAGE, 4)
        if table[at] & 1
    }
    after = WORLDS[way].memory.read(BASE, PAGES * PAGE)
    for page in range(PAGES):
        changed = after[page * PAGE : (page + 1) * PAGE] != memory[page * PAGE : (page + 1) * PAGE]
        assert not changed or page in presented or page == RECORDS
    assert {offset // PAGE for offset in oracle.touched} <= presented
    own_counter_and_status = slice(128, 133)
    before_record, after_record = bytearray(memory[:PAGE]), bytearray(after[:PAGE])
    before_record[own_counter_and_status] = after_record[own_counter_and_status] = bytes(5)
    assert before_record == after_record, "slots and the other context's record stay"


@pytest.mark.slow
@WAYS
@settings(max_examples=150)
@given(slots=SLOTS, code_table=EVERYWHERE, table_a=EVERYWHERE, table_b=EVERYWHERE, code=COMMANDS)
@example(
    slots=[World.page(TABLE_A)] * 4,
    code_table=PLAIN_CODE,
    table_a=page_table([World.page(TABLE_A), World.page(RECORDS)]),
    table_b=bytes(PAGE),
    code=b"".join(word.to_bytes(4, "little") for word in [2, 0, 0, 4096, 8, *[0] * 5, 2, 0, 0, 0, 4]),
)
def test_tables_that_present_records_tables_and_code(
    way: str, slots: list[int], code_table: bytes, table_a: bytes, table_b: bytes, code: bytes
) -> None:
    """A driver that presents anything at all gets what it asked for, the same every way."""
    WORLDS[way].compare(contents(slots, code_table, table_a, table_b, code, 0), 0, len(code) + 40)
