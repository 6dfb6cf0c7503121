"""Code of inlined functions: by which calls it was inlined, as an ELF library reads it, and files that are wrong."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from elftools.dwarf.descriptions import describe_form_class
from elftools.elf.elffile import ELFFile

from softcard.core.diagnostics import of_finding
from softcard.core.findings import Finding, through
from softcard.host.refsi.compile import compile_kernels, riscv_compilers
from softcard.image.elf import dwarf
from softcard.image.elf.lines import Call, Lines, Place, read_lines
from softcard.image.elf.reader import ElfFile
from softcard.report.diagnostic_formats import to_sarif

SOURCE = """
#include "part.h"
static inline int twice(int x, const int *p) {
    return x > 3 ? part(x) * p[x] : p[x + 1];
}
void kernel(unsigned long id, int *out, const int *in, int n)
{
    for (int i = 0; i < n; i++)
        if (twice(i, in) > 7 && out[i])
            out[i] += twice(part(in[i]), in);
}
"""
PART = "\nstatic inline int part(int x)\n{\n    return x * x / 3 + 7;\n}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not riscv_compilers():
        pytest.skip("no compiler for RISC-V")
    folder = tmp_path_factory.mktemp("inlined")
    (folder / "kernels.c").write_text(SOURCE)
    (folder / "part.h").write_text(PART)
    return folder


def by_library(data: bytes) -> list[tuple[int, int, int, int]]:
    """Range, depth and line of the call of each inlined function."""
    info = ELFFile(io.BytesIO(data)).get_dwarf_info()
    lists = info.range_lists()
    found = []
    for unit in info.iter_CUs():
        base = unit.get_top_DIE().attributes["DW_AT_low_pc"].value
        for entry in unit.iter_DIEs():
            if entry.tag != "DW_TAG_inlined_subroutine":
                continue
            depth, above = 1, entry.get_parent()
            while above is not None:
                depth += above.tag == "DW_TAG_inlined_subroutine"
                above = above.get_parent()
            values, ranges = entry.attributes, []
            if "DW_AT_ranges" in values:
                at = base
                for each in lists.get_range_list_at_offset(values["DW_AT_ranges"].value, cu=unit):
                    if hasattr(each, "base_address"):
                        at = each.base_address
                    else:
                        add = 0 if getattr(each, "is_absolute", False) else at
                        ranges.append((add + each.begin_offset, add + each.end_offset))
            else:
                low, high = values["DW_AT_low_pc"].value, values["DW_AT_high_pc"]
                ranges.append((low, high.value + low * (describe_form_class(high.form) != "address")))
            found += [(low, high, depth, values["DW_AT_call_line"].value) for low, high in ranges if low < high]
    return found


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 5])
def test_calls_are_what_a_library_reads(version: int, folder: Path) -> None:
    data = compile_kernels(folder / "kernels.c", options=[f"-gdwarf-{version}", "-O2", f"-I{folder}"])
    lines, wanted = read_lines(ElfFile(data, 64)), by_library(data)
    assert {depth for _, _, depth, _ in wanted} >= {1, 2}
    chains = set()
    for address in range(min(low for low, *_ in wanted), max(high for _, high, *_ in wanted), 2):
        calls = sorted(((depth, line) for low, high, depth, line in wanted if low <= address < high), reverse=True)
        place = lines.at(address)
        frames = [] if place is None else [int(frame.rpartition(":")[2]) for frame in place.frames]
        assert frames[-len(calls) :] == [line for _, line in calls] if calls else not frames
        chains.add(() if place is None else place.frames)
    kernel, part = folder / "kernels.c", folder / "part.h"
    assert (f"{part}:4", f"{kernel}:4", f"{kernel}:9") in chains


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 5])
def test_broken_files_end_in_no_error(version: int, folder: Path) -> None:
    data = compile_kernels(folder / "kernels.c", options=[f"-gdwarf-{version}", "-O2", f"-I{folder}"])
    elf, chance = ElfFile(data, 64), random.Random(version)
    names = (".debug_info", ".debug_abbrev", ".debug_rnglists", ".debug_ranges", ".debug_addr")
    extents = [elf.extent(section) for section in map(elf.section, names) if section is not None]
    for _ in range(100):
        broken = bytearray(data)
        at, size = chance.choice(extents)
        for _ in range(chance.randint(1, 4)):
            broken[at + chance.randrange(size)] = chance.randrange(256)
        read_lines(ElfFile(bytes(broken), 64))


@pytest.mark.oracle
@pytest.mark.slow
def test_no_more_ranges_are_read_than_there_may_be(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = compile_kernels(folder / "kernels.c", options=["-gdwarf-5", "-O2", f"-I{folder}"])
    elf = ElfFile(data, 64)
    every = sum(len(each.ranges) for each in dwarf.read_units(elf).inlined)
    monkeypatch.setattr(dwarf, "MOST_RANGES", 3)
    some = sum(len(each.ranges) for each in dwarf.read_units(elf).inlined)
    assert some <= 3 < every


HEADER, USER = "/usr/include/hip/amd_detail/amd_hip_atomic.h", "hist.hip"


def test_the_first_line_that_is_no_librarys_is_the_place() -> None:
    outer = Call(Place(USER, 9), False, None)
    inner = Call(Place(HEADER, 20), True, outer)
    rows = [(0, Place(USER, 8)), (8, Place(HEADER, 141)), (16, Place(USER, 4)), (24, None), (32, Place(HEADER, 1))]
    lines = Lines(rows, [(8, 32, 1, outer), (8, 12, 2, inner)])
    own, header = f"{USER}:9", f"{HEADER}:141"
    assert [lines.at(address) for address in (0, 8, 12, 16, 24, 32)] == [
        Place(USER, 8),
        Place(USER, 9, (header, f"{HEADER}:20", own)),
        Place(USER, 9, (header, own)),
        Place(USER, 4, (f"{USER}:4", own)),
        Place(USER, 9, (own,)),
        Place(HEADER, 1),
    ]


def test_places_are_found_by_each_of_their_lines() -> None:
    place = Place(USER, 9, (f"{HEADER}:141", f"{USER}:9"))
    assert place.is_at(141, HEADER.__eq__)
    assert place.is_at(9, USER.__eq__)
    assert not place.is_at(141, USER.__eq__)
    assert Place(USER, 9).is_at(9, USER.__eq__)


def test_calls_may_lie_as_they_like() -> None:
    a, b, c = (Call(Place(USER, line), False, None) for line in (1, 2, 3))
    lines = Lines([(0, Place(USER, 7))], [(0, 100, 1, a), (10, 20, 3, b), (5, 50, 2, c), (15, 16, 2, a)])
    found = [lines.at(address) for address in (4, 5, 10, 19, 20, 49, 50, 100)]
    assert [place.frames[1:] if place else None for place in found] == [
        *(((f"{USER}:{line}",)) for line in (1, 3, 2, 2, 3, 3, 1)), (),
    ]  # fmt: skip


def test_findings_say_them_in_words_json_and_sarif() -> None:
    frames = (f"{HEADER}:141", f"{USER}:9", f"{USER}:20")
    found = Finding("memory", "wild-address", "text", pc=8, at="hist", source=f"{USER}:9", frames=frames)
    assert found.place == f"pc 0x8 (hist, {USER}:9, inlined from {HEADER}:141, inlined at {USER}:20)"
    assert found.as_dict()["inlined"] == list(frames)
    assert found.matches(["memory/*", "*", "amd_hip_atomic.h:141"])
    assert found.matches(["memory/*", "*", "hist.hip:20"])
    assert not found.matches(["memory/*", "*", "hist.hip:21"])
    (run,) = to_sarif(Path("program"), [of_finding(found)], "1")["runs"]
    (result,) = run["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 9}
    reported = [
        (each["message"]["text"], each["physicalLocation"]["region"]["startLine"])
        for each in result["relatedLocations"]
    ]
    assert reported == [("the inlined code", 141), ("inlined here", 20)]
    assert through("", ()) == ""
