"""Line tables: what an ELF library reads of the same files, and files that are wrong."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from softcard.host.refsi.compile import compile_kernels, riscv_compilers
from softcard.hsa import bare_code_object
from softcard.image.elf.lines import DEBUG_LINE, Lines, Place, Row, pack_lines, read_lines
from softcard.image.elf.reader import ElfFile
from softcard.image.elf.writer import with_section

SOURCE = """
#include "part.h"
void first(unsigned long id, int *out, int n)
{
    for (int i = 0; i < n; i++)
        out[i] += helper(i);
}


void second(unsigned long id, float *out) { double exp(double); out[id] = exp(out[id]); }
"""
PART = "\n\nstatic __attribute__((noinline)) int helper(int x)\n{\n    return x * x\n        + 7;\n}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not riscv_compilers():
        pytest.skip("no compiler for RISC-V")
    folder = tmp_path_factory.mktemp("lines")
    (folder / "kernels.c").write_text(SOURCE)
    (folder / "part.h").write_text(PART)
    return folder


def by_library(data: bytes) -> dict[int, tuple[str, int, int]]:
    """Name, line and column of the last row at each address, of sequences that are not empty."""
    found = {}
    info = ELFFile(io.BytesIO(data)).get_dwarf_info()
    for unit in info.iter_CUs():
        program = info.line_program_for_CU(unit)
        names = program["file_entry"]
        first = 0 if program["version"] >= 5 else 1
        last = None
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            if last is not None and state.address > last.address and last.line:
                found[last.address] = (names[last.file - first].name.decode(), last.line, last.column)
            last = None if state.end_sequence else state
    return found


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_lines_are_what_a_library_reads(version: int, folder: Path) -> None:
    data = compile_kernels(folder / "kernels.c", options=[f"-gdwarf-{version}"])
    elf = ElfFile(data, 64)
    lines, wanted = read_lines(elf), by_library(data)
    assert len(wanted) > 40
    for address, (name, line, column) in wanted.items():
        found = lines.at(address)
        assert found is not None
        assert (Path(found.file).name, found.line, found.column) == (Path(name).name, line, column)
    places = {lines.at(address) for address in wanted}
    assert {str(each) for each in places} >= {f"{folder / 'kernels.c'}:{line}" for line in (6, 10)}
    assert f"{folder / 'part.h'}:5" in {str(each) for each in places}
    assert sum(each is not None and each.column > 0 for each in places) > 20
    assert lines.at(0) is None
    assert lines.at(max(wanted) + 0x10000) is None

    chance = random.Random(version)
    at, size = elf.extent(elf.section(".debug_line"))
    for _ in range(40):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            broken[at + chance.randrange(size)] = chance.randrange(256)
        read_lines(ElfFile(bytes(broken), 64))


def test_files_without_lines_have_none() -> None:
    demo = (Path(__file__).parents[3] / "src" / "softcard" / "data" / "kernels.elf").read_bytes()
    assert not read_lines(ElfFile(demo, 64))


def test_a_place_holds_up_to_the_next_one() -> None:
    one, two = Place("a.c", 1), Place("a.c", 2)
    lines = Lines([(16, two), (20, None), (8, one), (16, None), (20, one), (24, None)])
    assert [lines.at(address) for address in (7, 8, 12, 16, 19, 20, 23, 24)] == [
        None, one, one, two, two, one, one, None,
    ]  # fmt: skip


def test_lines_around_an_instruction_without_one() -> None:
    """Of the same function, near, and not of a library's header."""
    one, two, header = Place("a.c", 1), Place("a.c", 2), Place("/usr/include/a.h", 7)
    lines = Lines([(0, two), (8, one), (16, None), (20, None), (24, two), (32, None), (40, header), (200, one)])
    assert lines.around(20, 0) == (one, two)
    assert lines.around(20, 12) == (two,)  # the function begins after the line before
    assert lines.around(32, 0) == (two,)
    assert Lines([(8, one), (16, None), (24, one)]).around(16, 0) == (one,)
    assert Lines([(8, one), (16, None), (300, one)]).around(150, 0) == ()


# ---- written tables --------------------------------------------------------------------------------------------------

BARE = bare_code_object(bytes(4), "gfx900")
PARTS = st.tuples(st.integers(1, 1 << 40), st.integers(1, 1 << 20), st.integers(1, 1 << 31), st.integers(0, 1 << 20))


@given(st.lists(PARTS, max_size=8), st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_written_tables_are_read(parts: list[tuple[int, int, int, int]], name: str) -> None:
    """The code of a row may follow that of the row before it, or a gap without a line."""
    rows, at = [], 0
    for gap, size, line, column in parts:
        at += gap & -2  # 0 for a gap of 1
        rows.append(Row(at, size, line, column))
        at += size
    data = with_section(BARE, DEBUG_LINE, pack_lines(name, rows[::-1]))
    lines = read_lines(ElfFile(data, 64))
    for row in rows:
        for address in (row.address, row.address + row.size - 1):
            place = lines.at(address)
            assert place is not None
            assert (place.file, place.line, place.column) == (name, row.line, row.column)
    assert rows == [] or lines.at(at) is None


def test_another_section_changes_no_other() -> None:
    """A library finds the section, and all that was there before."""
    data = with_section(BARE, ".debug_line", pack_lines("k.s", [Row(0x1000, 4, 7, 3)]))
    before, after = (ELFFile(io.BytesIO(each)) for each in (BARE, data))
    names = [each.name for each in before.iter_sections()]
    assert [each.name for each in after.iter_sections()] == [*names, ".debug_line"]
    for one in before.iter_sections():
        other = after.get_section_by_name(one.name) if one.name else None
        if other is not None and one.name != ".shstrtab":
            assert (other["sh_addr"], other.data()) == (one["sh_addr"], one.data())
    assert after.get_section_by_name(".debug_line").data()[4:6] == b"\4\0"  # the version of DWARF
