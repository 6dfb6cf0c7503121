"""The coverage tables of the GCN instruction set."""

from __future__ import annotations

from pathlib import Path

import pytest

from softcard.isa.gcn.operations.table import OPS
from softcard.report.gcn import FAMILIES, FAMILY_TESTS, KINDS, fidelity_table, matrix_table, opcode_table, slot_table

TESTS = Path(__file__).parents[1]
NEWER = ("gfx908", "gfx90a", "gfx942", "gfx950")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_slots_are_those_of_llvm() -> None:
    """AMD's three undocumented GFX7 operations with five forms, and three others LLVM lacks, stand beside its own."""
    lines = slot_table().splitlines()
    assert cells(lines[0]) == ["encoding", "gfx700", "gfx803", "gfx900", "gfx906", *NEWER]
    assert cells(lines[-1]) == ["together", "1194", "1601", "1850", "1864", "1906", "1839", "1868", "1975"]


def test_fidelity_counts_every_operation() -> None:
    rows = [cells(line) for line in fidelity_table().splitlines()[2:]]
    names = [row[0] for row in rows]
    assert names == [*KINDS, "together", "reference engine only"]
    for column in range(1, 9):
        assert sum(int(row[column]) for row in rows[:4]) == int(rows[4][column])


def test_the_sources_of_sums_of_matrices() -> None:
    """Those of gfx908 to gfx942 were validated on hardware, but for sparse ones; those of gfx950 are by choice."""
    rows = {tuple(row[:2]): row[2:] for row in (cells(line) for line in matrix_table().splitlines()[2:])}
    assert rows["F16", "dense"] == ["MMA-Sim"] * 3 + ["choice `matrix-sums`"]
    assert rows["F64", "dense"] == ["-", "MMA-Sim", "MMA-Sim", "choice `matrix-sums`"]
    assert rows["I8", "dense"] == ["two's complement"] * 4
    assert rows["F16", "sparse"] == ["-", "-", "choice `matrix-sums`", "choice `matrix-sums`"]
    assert rows["8 bits and less", "scaled"] == ["-", "-", "-", "choice `matrix-scales`"]


def test_every_operation_has_a_row_and_a_test() -> None:
    rows = {family: opcode_table(family, TESTS).splitlines()[2:] for family in FAMILIES}
    assert sum(map(len, rows.values())) == len(OPS)
    assert all(cells(line)[-1].startswith("`test_") for lines in rows.values() for line in lines)
    assert all(any((TESTS / "isa" / "gcn").rglob(name)) for names in FAMILY_TESTS.values() for name in names)


def test_kinds_are_known() -> None:
    assert {op.accuracy.kind for op in OPS} <= set(KINDS)


@pytest.mark.parametrize(
    ("family", "start"),
    [
        (
            "vop2",
            "| `v_add_i32<br>v_add_u32<br>v_add_co_u32` | 0x25 | 0x19 | 0x19 | VOP2 VOP3 VOP2_SDWA VOP2_DPP | both |",
        ),
        ("vop3p", "| `v_mad_mix_f32` (mad_mix) | - | - | 0x20 | VOP3P |"),
        ("exp", "| `exp` (not gfx90a) | 0x00 | 0x00 | 0x00 | EXP | - | absent: of the graphics pipeline |"),
    ],
)
def test_rows(family: str, start: str) -> None:
    assert any(line.startswith(start) for line in opcode_table(family, TESTS).splitlines())
