"""The direct-mapped views of guest memory: what they hold, how far it goes on, and who takes it away again."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.core.space import PAGE_SIZE, Ram
from softcard.engine.riscv.pages import CHUNK, LIMIT, TABLE_PAGES, PageTables, peek, poke
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.isa.riscv.state import LOAD_ENDS, LOAD_TABLE, STORE_ENDS, STORE_TABLE, Hart
from tests.engine.riscv.rig import DATA, DATA_END, DEVICE, MASK64, FlatPort, Rig, WidePort

FIRST, LAST = DATA >> 12, DATA_END >> 12


def tables(port: type[FlatPort] = WidePort, code_pages: set[int] | None = None, tlb: int | None = None) -> PageTables:
    rig = Rig(ReferenceEngine(), port)
    pages = PageTables(rig.hart, set() if code_pages is None else code_pages, tlb)
    pages.rig = rig  # type: ignore[attr-defined]
    return pages


def ends(pages: PageTables, access: str) -> np.ndarray:
    address = pages.hart.words[LOAD_ENDS if access == "load" else STORE_ENDS]
    return np.array([peek(address + 8 * page, 8) for page in range(FIRST, LAST + 1)], dtype=np.uint64)


def host_page(pages: PageTables, address: int) -> int:
    return int(pages.rig.host(address)) >> 12  # type: ignore[attr-defined]


def test_a_page_at_a_time() -> None:
    pages = tables(FlatPort)
    for access, table in (("load", pages.load), ("store", pages.store)):
        addend = pages.fill(DATA + 0x3456, access)
        assert (addend + DATA) & MASK64 == pages.rig.host(DATA)  # type: ignore[attr-defined]
        assert [page for page in range(FIRST, LAST) if table[page]] == [FIRST + 3]
        assert ends(pages, access)[3] == DATA + 0x4000
        address = pages.hart.words[LOAD_TABLE if access == "load" else STORE_TABLE]
        assert peek(address + 8 * (FIRST + 3), 8) == addend


def test_what_has_no_direct_way() -> None:
    pages = tables()
    for address in (DEVICE, 0, DATA - 1, DATA_END, LIMIT, LIMIT + DATA, MASK64):
        assert pages.fill(address, "load") == 0
        assert pages.fill(address, "store") == 0
    assert len(pages.load) == TABLE_PAGES + 1
    assert not any(pages.load[page] for page in (DEVICE >> 12, 0, LAST, TABLE_PAGES))


def test_an_extent_is_filled_chunk_by_chunk() -> None:
    pages = tables()
    pages.fill(DATA + 0x5000, "load")
    assert all(pages.load[page] for page in range(FIRST, FIRST + CHUNK))
    assert not pages.load[FIRST + CHUNK]
    assert set(ends(pages, "load")[:CHUNK]) == {DATA + CHUNK * PAGE_SIZE}
    pages.fill(DATA_END - 1, "load")
    assert all(pages.load[page] for page in range(LAST - 16, LAST))
    assert not pages.load[LAST]
    assert not pages.load[FIRST + CHUNK]
    assert set(ends(pages, "load")[2 * CHUNK : -1]) == {DATA_END}
    assert not any(pages.store)


def test_an_extent_that_does_not_end_at_a_page() -> None:
    class Narrow(FlatPort):
        def extent(self, address: int, access: str) -> tuple[int, int]:
            return DATA + 0x1800, DATA + 0x4800

    pages = tables(Narrow)
    pages.fill(DATA + 0x1900, "store")
    assert [page - FIRST for page in range(FIRST, LAST) if pages.store[page]] == [1, 2, 3]
    assert ends(pages, "store")[1:4].tolist() == [DATA + 0x2000, DATA + 0x4000, DATA + 0x4000]


def test_flush_forgets_everything() -> None:
    pages = tables()
    for address in (DATA, DATA_END - 1, DATA + 0x10_0000):
        pages.fill(address, "load")
        pages.fill(address, "store")
    pages.flush()
    assert not any(pages.load)
    assert not any(pages.store)
    assert pages.fill(DATA, "store") == pages.store[FIRST]


@pytest.mark.parametrize("first", [2, 5, 9])
def test_a_page_of_code_is_closed_to_stores_and_cuts_what_goes_on(first: int) -> None:
    """Whichever page was touched first: even the code page itself."""
    codes: set[int] = set()
    pages = tables(code_pages=codes)
    pages.fill(DATA + first * PAGE_SIZE, "store")
    pages.fill(DATA, "load")
    code = host_page(pages, DATA + 5 * PAGE_SIZE)
    codes.add(code)
    pages.protect(code)
    assert [page - FIRST for page in range(FIRST, FIRST + CHUNK) if not pages.store[page]] == [5]
    assert all(end <= DATA + 5 * PAGE_SIZE for end in ends(pages, "store")[:5])
    assert all(end <= DATA + CHUNK * PAGE_SIZE for end in ends(pages, "store")[6:CHUNK])
    assert pages.load[FIRST + 5]
    assert set(ends(pages, "load")[:CHUNK]) == {DATA + CHUNK * PAGE_SIZE}
    assert pages.fill(DATA + 5 * PAGE_SIZE, "store") == 0
    codes.clear()
    assert pages.fill(DATA + 5 * PAGE_SIZE, "store")


def test_no_extent_is_opened_over_code() -> None:
    codes: set[int] = set()
    pages = tables(code_pages=codes)
    codes.add(host_page(pages, DATA + 5 * PAGE_SIZE))
    assert pages.fill(DATA, "store")
    assert pages.fill(DATA + 6 * PAGE_SIZE, "store")
    assert pages.fill(DATA + 5 * PAGE_SIZE, "store") == 0
    assert [page - FIRST for page in range(FIRST, LAST) if pages.store[page]] == [0, 6]
    assert ends(pages, "store")[0] == DATA + PAGE_SIZE


def test_guest_pages_that_share_a_host_page() -> None:
    """A window that starts inside a host page shows two of them in each guest page."""

    class Shifted(FlatPort):
        def page(self, address: int, access: str) -> int | None:
            found = super().page(address, access)
            return None if found is None else found + 0x800

    codes: set[int] = set()
    pages = tables(Shifted, codes)
    for page in range(8):
        pages.fill(DATA + page * PAGE_SIZE, "store")
    code = host_page(pages, DATA + 4 * PAGE_SIZE)
    codes.add(code)
    pages.protect(code)
    assert [page for page in range(8) if not pages.store[FIRST + page]] == [3, 4]
    assert [page for page in range(8) if not pages.fill(DATA + page * PAGE_SIZE, "store")] == [3, 4]


def test_a_small_buffer_evicts_by_aliasing() -> None:
    pages = tables(tlb=4)
    for page in (0, 1, 2, 3):
        pages.fill(DATA + page * PAGE_SIZE, "load")
        pages.fill(DATA + page * PAGE_SIZE, "store")
    assert [page for page in range(8) if pages.load[FIRST + page]] == [0, 1, 2, 3]
    pages.fill(DATA + 6 * PAGE_SIZE, "load")
    assert [page for page in range(8) if pages.load[FIRST + page]] == [0, 1, 3, 6]
    assert [page for page in range(8) if pages.store[FIRST + page]] == [0, 1, 3]
    assert ends(pages, "load")[6] == DATA + 7 * PAGE_SIZE
    pages.flush()
    assert not any(pages.load[FIRST : FIRST + 8])
    pages.fill(DATA, "load")
    assert [page for page in range(8) if pages.load[FIRST + page]] == [0]


def test_a_small_buffer_stays_stale_until_flushed() -> None:
    pages = tables(tlb=256)
    before = pages.fill(DATA, "load")
    space = pages.hart.port.space  # type: ignore[attr-defined]
    old = space.unmap(DATA)
    space.map(DATA, Ram(0x10000), "other")
    assert pages.load[FIRST] == before
    pages.flush()
    assert pages.fill(DATA, "load") not in (0, before)
    assert old.region.size


def test_two_harts_have_their_own_views() -> None:
    rig = Rig(ReferenceEngine())
    other = rig.new_hart(1)
    mine, theirs = (rig.engine.context(hart).pages for hart in (rig.hart, other))
    mine.fill(DATA, "store")
    assert mine.store[FIRST]
    assert not theirs.store[FIRST]
    theirs.fill(DATA, "store")
    rig.engine.code_pages.add(rig.host(DATA) >> 12)
    for pages in (mine, theirs):
        pages.protect(rig.host(DATA) >> 12)
        assert not pages.store[FIRST]


def test_engine_words_outlive_a_reset_of_the_hart() -> None:
    rig = Rig(ReferenceEngine())
    pages = rig.engine.context(rig.hart).pages
    addresses = [rig.hart.words[n] for n in (LOAD_TABLE, STORE_TABLE, LOAD_ENDS, STORE_ENDS)]
    assert all(addresses)
    rig.hart.reset()
    assert [rig.hart.words[n] for n in (LOAD_TABLE, STORE_TABLE, LOAD_ENDS, STORE_ENDS)] == addresses
    assert rig.engine.context(rig.hart).pages is pages


def test_a_hart_that_moves_to_another_engine_gets_other_tables() -> None:
    rig = Rig(ReferenceEngine())
    first = rig.engine.context(rig.hart).pages
    second = ReferenceEngine().context(rig.hart).pages
    assert second is not first
    assert rig.engine.context(rig.hart).pages not in (first, second)


def test_peek_and_poke() -> None:
    ram = Ram(PAGE_SIZE)
    for size in (1, 2, 4, 8):
        poke(ram.base_host + 8, size, 0x1122334455667788)
        assert peek(ram.base_host + 8, size) == 0x1122334455667788 & (1 << 8 * size) - 1
    assert isinstance(Hart(0, FlatPort(Rig(ReferenceEngine()).space)).address, int)
