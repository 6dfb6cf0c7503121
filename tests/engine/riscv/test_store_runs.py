"""Stores that are noted as runs: which, and what compiled functions and the tables make of them."""

from __future__ import annotations

import ctypes
from random import Random

import numpy as np
import pytest

from softcard.core.space import PAGE_SIZE, Ram
from softcard.engine.riscv.code_stores import native_note
from softcard.engine.riscv.code_stores.engines import CodeStores
from softcard.engine.riscv.code_stores.layout import CELL, HALFWORDS, Cells
from softcard.engine.riscv.code_stores.notes import NOTES, run_scopes
from softcard.engine.riscv.code_stores.translated import NATIVES, TranslatedCodeStoreEngine
from softcard.engine.riscv.jit.emit_region import RegionEmitter
from softcard.engine.riscv.jit.region import discover
from softcard.ir import llvm
from tests.engine.riscv.rig import CODE, DATA, fetcher
from tests.engine.riscv.test_code_stores import checked, translated

STORES = ("sw", "sd", "sh", "fsd", "vse32")
END = "addi x6, x6, -1\nbne x6, x0, loop"


def scopes(text: str) -> dict[int, list[int]]:
    """By offset of an instruction in the program, those of the blocks of its scope."""
    found = run_scopes(discover(CODE, fetcher(text)))
    return {pc - CODE: sorted(start - CODE for start in scope) for pc, scope in found.items()}


@pytest.mark.parametrize(
    "body",
    [
        "sw x5, 0(x10)\naddi x10, x10, 4",
        "addi x10, x10, 8\nsd x5, -8(x10)",
        "fsd f5, 0(x10)\naddi x10, x10, 8",
        "add x11, x12, x13\nsw x5, 0(x11)\naddi x13, x13, 4",
        "lw x11, 0(x14)\nadd x11, x12, x13\naddi x13, x13, 2\nsh x5, 0(x11)",
        "slli x11, x13, 3\nadd x11, x11, x12\nsd x5, 0(x11)\naddi x13, x13, 1",
        "vsetvli x13, x6, e32, m1, ta, ma\nvse32.v v10, (x10)\nslli x13, x13, 2\nadd x10, x10, x13",
    ],
)
def test_stores_that_go_on_make_runs(body: str) -> None:
    text = f"loop: {body}\n{END}"
    at = next(
        4 * n for n, line in enumerate(text.splitlines()) if any(s in line for s in ("sw ", "sd ", "sh ", "vse32"))
    )
    assert scopes(text) == {at: [0]}


@pytest.mark.parametrize(
    "body",
    [
        "sw x5, 0(x10)\naddi x10, x10, 8",
        "sw x5, 0(x10)\naddi x10, x10, -4",
        "sw x5, 0(x10)",
        "sw x5, 0(x10)\nlw x10, 0(x10)",
        "sw x5, 0(x10)\naddi x10, x10, 2\naddi x10, x10, 2",
        "sw x5, 0(x10)\nsw x5, 0(x11)\naddi x10, x10, 4",
        "amoadd.w x5, x5, (x10)\naddi x10, x10, 4",
        "sw x5, 0(x10)\namoadd.w x5, x5, (x11)\naddi x10, x10, 4",
        "sw x5, 0(x10)\nlr.w x5, (x11)\nsc.w x5, x5, (x11)\naddi x10, x10, 4",
        "sw x5, 0(x10)\nvse32.v v4, (x11)\naddi x10, x10, 4",
        "vse32.v v4, (x10), v0.t\nadd x10, x10, x13",
        "vsse32.v v4, (x10), x5\nadd x10, x10, x13",
    ],
)
def test_others_and_those_beside_others_make_none(body: str) -> None:
    assert scopes(f"loop: {body}\n{END}") == {}


def test_a_scope_is_as_large_as_it_can_be() -> None:
    """Inner loop, branches within, and the loop around it, until something else is stored."""
    inner = "row: andi x5, x6, 1\nbeq x5, x0, on\naddi x7, x7, 1\non: sw x7, 0(x10)\naddi x10, x10, 4\n"
    text = f"loop: addi x8, x0, 9\n{inner}addi x8, x8, -1\nbne x8, x0, row\n{END}"
    assert scopes(text) == {16: [0, 4, 12, 16, 32]}
    assert scopes(text.replace("loop: ", "loop: sw x5, 0(x11)\n")) == {20: [8, 16, 20]}


@pytest.mark.parametrize("tier", [llvm.QUICK, llvm.OPTIMISED])
@pytest.mark.parametrize("bases", [(DATA + 0x108,), (DATA + 8, DATA + 0x2008)])
def test_runs_write_nothing_into_the_shadow_but_at_their_ends(tier: int, bases: tuple[int, ...]) -> None:
    rig, _ = translated(tier)
    rig.warm()
    stores = "\n".join(f"sw x8, 0(x{10 + n})" for n in range(len(bases)))
    moves = "\n".join(f"addi x{10 + n}, x{10 + n}, 4" for n in range(len(bases)))
    end = rig.place(f"loop: {stores}\n{moves}\n{END}")
    places = {f"x{10 + n}": base for n, base in enumerate(bases)}
    for _ in range(3):  # instructions have no numbers at first
        rig.engine.flush_code(rig.hart)
        before = rig.data.stores.copy()
        rig.run(end, x6=1000, x8=1, **places)
    changed = set((2 * np.flatnonzero(rig.data.stores != before) // CELL).tolist())
    assert changed <= {(base - DATA + at) // CELL for base in bases for at in (0, 4000)}


@pytest.mark.parametrize("tier", [llvm.QUICK, llvm.OPTIMISED])
@pytest.mark.parametrize("move", [0, 16, 12])
def test_single_stores_are_seen_in_cells_of_a_run(tier: int, move: int) -> None:
    """In a loop whose rounds look at their cells before it, or once a round."""
    known = []
    for rig in (checked()[0], translated(tier)[0]):
        engine = rig.engine
        assert isinstance(engine, CodeStores)
        run = "addi x6, x0, 100\nrun: sw x8, 0(x12)\naddi x12, x12, 4\naddi x6, x6, -1\nbne x6, x0, run\n"
        end = rig.place(
            f"{run}addi x6, x0, 12\nloop: sw x8, 4(x10)\nsw x8, 24(x10)\nsw x8, 68(x10)\naddi x10, x10, {move}\n{END}"
        )
        for _ in range(3):
            rig.run(end, x8=1, x10=DATA + 0x120, x12=DATA + 0x100)
        known.append([engine.unfenced(rig.hart, rig.host(DATA + at)) for at in range(0, 0x400, 2)])
    assert known[0] == known[1]
    assert {found[0] - CODE for found in known[1] if found} == {4, 24, 28, 32}


def test_stores_of_a_struct_inspect_their_cells_once_a_round() -> None:
    text = "loop: sw x8, 0(x10)\nsw x8, 8(x10)\nsw x8, 4(x10)\naddi x10, x10, 12\n" + END
    region = discover(CODE, fetcher(text))
    made = RegionEmitter(region, llvm.host_features(), note=NOTES.store_notes).text().splitlines()
    fast, slow = made.index(f"fast{CODE:x}:"), made.index(f"slow{CODE:x}:")
    assert sum("%cells" in line for line in made[fast:slow]) == 2


def test_measured_loops_begin_where_processors_fetch() -> None:
    text = RegionEmitter(discover(CODE, fetcher(f"loop: sw x8, 0(x10)\n{END}")), llvm.host_features()).text()
    [loop] = [line for line in text.splitlines() if "!llvm.loop" in line and " br " in line]
    assert loop.endswith("!llvm.loop !2")
    assert '"llvm.loop.align", i32 64' in text


@pytest.mark.parametrize("is_compiled", [True, False])
def test_spans_mean_a_number_for_each_halfword(is_compiled: bool) -> None:
    """As machine code and as Python; `split` changes nothing of that."""
    random, numbers = Random(1), dict[int, int]()
    rig, _ = translated(llvm.QUICK)
    engine = rig.engine
    assert isinstance(engine, TranslatedCodeStoreEngine)
    row, cells, base = engine._row(0), engine._have_cells(), rig.data.base_host

    def call(name: str, *arguments: int) -> None:
        if is_compiled:
            NATIVES.function(name)(ctypes.addressof(row), *arguments)
        else:
            getattr(native_note, name)(row, *arguments)

    for _ in range(300):
        first = random.randrange(0x1000)
        last = first + random.choice((0, 1, 2, 4, 8, 60, 64, 100, 128, 300, 1000, 2500))
        if random.random() < 0.2:
            call("split", base + first, base + last)
            continue
        number = random.randrange(1, 9)
        call("span", number * HALFWORDS, base + first, base + last)
        if first < last:
            numbers |= dict.fromkeys(range(first & ~1, last, 2), number)
    table = np.frombuffer(cells.table.view, np.uint16)
    for at in range(0, 0x2000, 2):
        found = table[(base + at) // CELL % cells.rows] or rig.data.stores[at // 2]
        assert found == numbers.get(at, 0), hex(at)


class Placed(Ram):
    """Memory that says it is elsewhere."""

    def __init__(self, base: int, size: int) -> None:
        super().__init__(PAGE_SIZE)
        self.base_host, self.size = base, size


@pytest.mark.parametrize("distance", [0x20_0000, 1 << 33, (1 << 33) + (1 << 20), 3 << 40, -(1 << 30)])
def test_no_two_cells_have_one_row(distance: int) -> None:
    start = 0x7F00_0012_3000
    rams = [Placed(start, 0x10_0000), Placed(start + distance, 0x4_0000), Placed(start + 0x40_0000, 0x1000)]
    cells = Cells(rams)
    rows = [cells.row(host) for ram in rams for host in range(ram.base_host, ram.base_host + ram.size, CELL)]
    assert len(set(rows)) == len(rows)
    assert all(cells.table.base_host <= row < cells.table.base_host + cells.table.size for row in rows)
    for number, ram in enumerate(rams, 1):
        for part in cells.of(ram.base_host, ram.size):
            part[:] = number
    for number, ram in enumerate(rams, 1):
        assert sum(len(part) for part in cells.of(ram.base_host, ram.size)) == ram.size // CELL
        assert all((part == number).all() for part in cells.of(ram.base_host, ram.size))


def test_cells_that_go_around_the_table() -> None:
    cells = Cells([Placed(0x7F00_0000_0000, 0x10000)])
    first = (cells.rows - 3) * CELL
    parts = cells.of(first, 8 * CELL)
    assert [len(part) for part in parts] == [3, 5]
    parts[1][4] = 7
    assert np.frombuffer(cells.table.view, np.uint16)[4] == 7
