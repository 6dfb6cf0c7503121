"""Diagnostics: one model from findings, errors and lints, as text at any width, SARIF, JUnit and annotations."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from sarif_pydantic import Sarif

from softcard import Gpu
from softcard.cli.tables import show_diagnostics
from softcard.core.allocations import Allocation
from softcard.core.diagnostics import (
    DOCS_VARIABLE,
    Diagnostic,
    Location,
    Note,
    diagnostics_of,
    grouped,
    help_uri,
    of_error,
    of_finding,
)
from softcard.core.display import demangled, shown_path
from softcard.core.errors import AccessFault, BeyondModel, ModelBug, Place, RuleError, SoftcardError, WireError
from softcard.core.findings import Finding, FindingError, Level
from softcard.core.lint import Lint
from softcard.core.rule import Rule
from softcard.engine.gcn.strict.findings import Finding as StrictFinding
from softcard.engine.gcn.strict.findings import Host
from softcard.engine.gcn.strict.findings import Place as StrictPlace
from softcard.image.assembly.program import assemble
from softcard.report.diagnostic_formats import FINGERPRINT, FORMATS, fingerprint, to_github, to_junit, to_sarif
from softcard.report.diagnostic_text import as_text, diagnostic_text, render
from softcard.trace.diagnostic import MOST_COLUMNS, diagnostic_record

SOURCE = """kernel void saxpy(float a, global float *x, global float *y) {
    int i = get_global_id(0);
    if (i < 9)
\t\ty[i] = a * x[i] + y[i];
}
"""
RULE = Rule("gcn/vmcnt", "4.4", "wait for the counter before a result is used")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saxpy.cl").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "host.py").write_text("from softcard import Gpu\nx = gpu.zeros(60)\n", encoding="utf-8")
    return tmp_path


def out_of_bounds() -> Finding:
    x = Allocation("argument 1, array float32[60]", 0x1000, 240, str(Path("host.py").absolute()) + ":2")
    return Finding(
        "memory", "out-of-bounds", f"read of 4 bytes at 0x10f0: 0 bytes past the end of {x}", access="read",
        space="global", address=0x10F0, size=4, allocation=x, lanes=tuple(range(60, 64)), unit="wave 0", group="0,0,0",
        pc=0x2040, insn="global_load_dword v2, v[2:3], off", kernel="saxpy", at="_Z5saxpyfPKfPf+0x40",
        source=str(Path("saxpy.cl").absolute()) + ":4", column=14, count=4,
        suggestion="compare the index with the number of elements; grids are often rounded up to whole work-groups",
    )  # fmt: skip


def race(line: int = 4, other: int = 2, kind: str = "read-write", pc: int = 0x100) -> Finding:
    conflict = Finding(
        "races", kind, "", pc=pc + 8, insn="ds_read_b32 v1, v0", at="sum+0x48", unit="wave 0", group="0,0,0",
        source=f"saxpy.cl:{other}", column=9, lanes=(0,),
    )  # fmt: skip
    return Finding(
        "races", kind, "write of 4 bytes and a read of the same bytes by waves", pc=pc, at="sum+0x40",
        insn="ds_write_b32 v0, v1", source=f"saxpy.cl:{line}", column=3, unit="wave 1", group="0,0,0", lanes=(0,),
        conflict=conflict, other=conflict.place, other_pc=conflict.pc, suggestion="add a barrier",
    )  # fmt: skip


# ---- text ------------------------------------------------------------------------------------------------------------

AT_120 = """\
error[memory/out-of-bounds]: read of 4 bytes, 0 bytes past the end of argument 1
  --> saxpy.cl:4:14
   |
 4 |         y[i] = a * x[i] + y[i];
   |                    ^^^^ lanes 60 to 63, wave 0, work-group 0,0,0
   |
   = note: in saxpy+0x40 (pc 0x2040): global_load_dword v2, v[2:3], off
   = note: 4 occurrences
note: argument 1, array float32[60], allocated here: 240 bytes at 0x1000; the access is at 0x10f0
  --> host.py:2
   |
 2 | x = gpu.zeros(60)
   |
   = help: compare the index with the number of elements; grids are often rounded up to whole work-groups"""
AT_80 = """\
error[memory/out-of-bounds]: read of 4 bytes, 0 bytes past the end of argument 1
  --> saxpy.cl:4:14
   |
 4 |         y[i] = a * x[i] + y[i];
   |                    ^^^^ lanes 60 to 63, wave 0, work-group 0,0,0
   |
   = note: in saxpy+0x40 (pc 0x2040): global_load_dword v2, v[2:3], off
   = note: 4 occurrences
note: argument 1, array float32[60], allocated here: 240 bytes at 0x1000; the
      access is at 0x10f0
  --> host.py:2
   |
 2 | x = gpu.zeros(60)
   |
   = help: compare the index with the number of elements; grids are often
           rounded up to whole work-groups"""
AT_40 = """\
error[memory/out-of-bounds]: read of 4
  bytes, 0 bytes past the end of
  argument 1
  --> saxpy.cl:4:14
   |
 4 |         y[i] = a * x[i] + y[i];
   |                    ^^^^
   |         lanes 60 to 63, wave 0,
   |         work-group 0,0,0
   |
   = note: in saxpy+0x40 (pc 0x2040):
           global_load_dword v2, v[2:3],
           off
   = note: 4 occurrences
note: argument 1, array float32[60],
      allocated here: 240 bytes at
      0x1000; the access is at 0x10f0
  --> host.py:2
   |
 2 | x = gpu.zeros(60)
   |
   = help: compare the index with the
           number of elements; grids are
           often rounded up to whole
           work-groups"""


@pytest.mark.parametrize(("width", "expected"), [(120, AT_120), (80, AT_80), (40, AT_40)])
def test_a_finding_at_three_widths(width: int, expected: str) -> None:
    assert as_text([out_of_bounds()], width) == expected


def test_a_race_shows_both_accesses() -> None:
    assert (
        as_text([race()], 80)
        == """\
error[races/read-write]: write of 4 bytes and a read of the same bytes by waves
  --> saxpy.cl:4:3
   |
 4 |         y[i] = a * x[i] + y[i];
   |         ^^^^ lane 0, wave 1, work-group 0,0,0
   |
   = note: in sum+0x40 (pc 0x100): ds_write_b32 v0, v1
note: the conflicting read
  --> saxpy.cl:2:9
   |
 2 |     int i = get_global_id(0);
   |         ^ lane 0, wave 0, work-group 0,0,0
   |
   = note: in sum+0x48 (pc 0x108): ds_read_b32 v1, v0
   |
   = help: add a barrier"""
    )


def test_without_a_source_the_instruction_is_shown() -> None:
    there = Finding("waits", "", "", pc=0x10, insn="global_load_dword v1, v[2:3], off", at="k")
    found = Finding(
        "waits", "vmcnt", "v_add reads v1 too early", pc=0x18, insn="v_add_f32 v1, v1, v2", at="k+0x8", rule=RULE,
        conflict=there, unit="wave 0",
    )  # fmt: skip
    assert (
        as_text([found], 80)
        == """\
error[waits/vmcnt]: v_add reads v1 too early
  --> k+0x8 (pc 0x18)
   |
   | v_add_f32 v1, v1, v2
   | ^^^^^^^^^ wave 0
note: the other instruction
  --> k (pc 0x10)
   |
   | global_load_dword v1, v[2:3], off
   | ^^^^^^^^^^^^^^^^^
   |
   = rule: gcn/vmcnt: wait for the counter before a result is used (4.4)"""
    )


def test_a_source_that_cannot_be_read_has_a_position_only() -> None:
    found = replace(race(), source="gone.cl:7", conflict=None, other="", other_pc=None)
    assert as_text([found], 80).splitlines()[1:4] == [
        "  --> gone.cl:7:3",
        "   = note: lane 0, wave 1, work-group 0,0,0",
        "   = note: in sum+0x40 (pc 0x100): ds_write_b32 v0, v1",
    ]


def test_an_error_of_a_text_input_begins_with_its_position() -> None:
    error = WireError("unknown name i").at("line", 2, "int i").at("file", "saxpy.cl")
    assert (
        as_text([of_error(error)], 80)
        == """\
saxpy.cl:2:5: error: unknown name i
   |
 2 |     int i = get_global_id(0);
   |     ^^^"""
    )
    error = WireError("odd").at("line", 3, "odd one").at("file", "-")
    assert as_text([of_error(error)]) == "<stdin>:3: error: odd\n   |\n 3 | odd one"
    error = WireError("no such key").at("line", "plan.toml:3")
    assert as_text([of_error(error)]) == "plan.toml:3: error: no such key"
    assert as_text([of_error(WireError("odd").at("line", 2), "saxpy.cl")]).startswith("saxpy.cl:2: error: odd\n")


def test_an_error_of_a_kernel() -> None:
    error = AccessFault("read of 4 bytes at 0x40: no memory there", address=0x40).at("lane", 0)
    error.path += (Place("pc", "0x2040", "saxpy+0x40, load, saxpy.cl:4", "saxpy+0x40", "load", "saxpy.cl:4", 14),)
    error.at("wave", 0).at("work-group", "0,0,0").at("AQL packet", 0).at("queue", 1)
    assert (
        as_text([of_error(error)], 80)
        == """\
error: read of 4 bytes at 0x40: no memory there
  --> saxpy.cl:4:14
   |
 4 |         y[i] = a * x[i] + y[i];
   |                    ^^^^ lane 0, wave 0, work-group 0,0,0
   |
   = note: in saxpy+0x40 (pc 0x2040): load
   = note: at AQL packet 0, queue 1"""
    )


def test_kinds_of_errors() -> None:
    assert as_text([of_error(RuleError("no", rule=RULE))]).splitlines()[0] == "error[gcn/vmcnt]: no"
    assert as_text([of_error(BeyondModel("no"))]) == "not modelled: no"
    assert as_text([of_error(ModelBug("no"))]) == "bug in softcard: no"
    assert of_error(FindingError("no", race())) == of_finding(race())
    file = of_error(WireError("too short").at("byte", 16).at("file", "k.co"))
    assert as_text([file]) == "error: too short\n  --> k.co: byte 0x10"
    assert as_text([Lint(0, "odd", "an odd thing")]) == "warning[odd]: an odd thing"


def test_a_finding_of_a_strict_memory() -> None:
    load, store = StrictPlace(1, 2, 0x30, "load"), StrictPlace(3, 4, 0x20, "store")
    found = StrictFinding("late store", load, store, 0x40, need="s_waitcnt vmcnt(0)")
    assert (
        as_text([found])
        == """\
error[coherence/late-store]: may read address 0x40 before a store that was not waited for
  --> pc 0x30
   |
   | load
   | ^^^^ wave 2, work-group 1
note: the earlier access: wave 4, work-group 3
  --> pc 0x20
   |
   | store
   | ^^^^^
   |
   = help: add s_waitcnt vmcnt(0) between them"""
    )
    assert "the host while stores" in as_text([replace(found, kind="not released", load=Host("the host"))])


def test_long_source_lines_are_cut_around_the_position(folder: Path) -> None:
    (folder / "long.cl").write_text(f"{'a + ' * 100}x[i]{' + b' * 100}\n", encoding="utf-8")
    lines = as_text(
        [replace(race(), message="a race", source="long.cl:1", column=401, conflict=None, other="")], 60
    ).splitlines()
    assert len(lines[3]) == len(lines[3].rstrip()) == 60
    assert "..." in lines[3][:9]
    assert lines[3].endswith("...")
    start = lines[4].index("^")
    assert lines[3][start : start + 4] == "x[i]"


def test_a_source_without_a_file(folder: Path) -> None:
    (folder / "kernel.cl").write_text("another text\n" * 5, encoding="utf-8")
    found = replace(race(), source="kernel.cl:2", column=1, line_text="two", conflict=None, other="")
    assert " 2 | two\n   | ^^^ lane 0" in as_text([found])


@pytest.mark.oracle
@pytest.mark.slow
def test_the_line_of_a_source_that_is_passed_as_text(folder: Path) -> None:
    """Of each source its own, though all have the same name."""
    with Gpu.open("gfx900", check="memory", on_finding="keep") as gpu:
        for number, name in enumerate(("one", "two")):
            text = f"kernel void {name}(global int *x)\n{{\n    x[get_global_id(0)] = {number};\n}}\n"
            gpu.run(gpu.compile(text), name, grid=64, args=[gpu.zeros(60, np.int32)])
        first, second = map(of_finding, gpu.findings)
        with pytest.raises(AccessFault) as caught:
            gpu.run(gpu.compile(text.replace("two", "six")), "six", grid=64, args=[64])
    assert str(first.location).startswith("kernel.cl:3:")
    lines = [each.location.source_line() for each in (first, second, of_error(caught.value))]
    assert lines == [f"    x[get_global_id(0)] = {number};" for number in (0, 1, 1)]


def test_columns_count_bytes(folder: Path) -> None:
    (folder / "wide.cl").write_text("/* äöü€ */ x[i] = 1;\n", encoding="utf-8")
    found = replace(race(), source="wide.cl:1", column=17)
    assert of_finding(found).location.span() == (11, 15)
    assert of_finding(replace(found, column=1000)).location.span() == (0, 0)


WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=12).map(" ".join)
LOCATIONS = st.builds(
    Location, st.sampled_from(["", "saxpy.cl", "gone.cl"]), st.integers(0, 9), st.integers(0, 99), WORDS, WORDS,
    st.none() | st.integers(0, 2**64), st.none() | st.integers(0, 99), WORDS,
)  # fmt: skip
NOTES = st.builds(Note, WORDS, LOCATIONS, st.sampled_from(["note", "help", "rule"]), WORDS)
DIAGNOSTICS = st.builds(
    Diagnostic, st.sampled_from(Level), st.sampled_from(["", "memory/wild", "bug in softcard"]), WORDS, WORDS,
    rule=st.sampled_from([None, RULE]), other=WORDS, suggestion=WORDS, count=st.integers(1, 3), location=LOCATIONS,
    label=WORDS, notes=st.lists(NOTES, max_size=3).map(tuple), is_text_input=st.booleans(),
)  # fmt: skip


@settings(max_examples=60)
@given(DIAGNOSTICS, st.integers(1, 200))
def test_any_diagnostic_at_any_width(found: Diagnostic, width: int) -> None:
    text = as_text([found], width)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    to = io.StringIO()
    show_diagnostics([found], to)
    assert "\x1b" not in to.getvalue()
    for form in FORMATS.values():
        form(Path("k.co"), [found], "1")


@given(st.lists(st.text("abcdefg€\u4e2d", min_size=1, max_size=14), min_size=1, max_size=30), st.integers(16, 120))
def test_words_that_fit_are_not_broken(words: list[str], width: int) -> None:
    found = Diagnostic(Level.ERROR, "", " ".join(words), suggestion=" ".join(words))
    lines = as_text([found], width).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    shown = re.sub(r" +", " ", " ".join(lines))
    room = max(width - 11, 8)  # behind "   = help: "
    if all(cell_len(word) <= room for word in words):
        assert f"error: {' '.join(words)} = help: {' '.join(words)}" in shown


def test_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed() -> str:
        to = io.StringIO()
        show_diagnostics([of_finding(out_of_bounds())], to)
        return to.getvalue()

    monkeypatch.delenv("COLUMNS", raising=False)
    assert printed() == as_text([out_of_bounds()]) + "\n"
    monkeypatch.setenv("COLUMNS", "40")
    assert printed() == AT_40 + "\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[1;31merror[memory/out-of-bounds]: " in printed()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" not in printed()


def test_paths_are_relative_to_the_working_folder(folder: Path) -> None:
    assert shown_path(str(folder / "a" / "b.cl")) == "a/b.cl"
    assert shown_path("/elsewhere/b.cl") == "/elsewhere/b.cl"
    assert shown_path(f"{folder}-other/b.cl") == f"{folder}-other/b.cl"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_Z5saxpyfPKfPf", "saxpy"),
        ("_Z6reduceIfLi256EEvPT_+0x10", "reduce<float, 256>+0x10"),
        ("_ZN12_GLOBAL__N_13fooEv.kd", "foo.kd"),
        ("_ZN3foo3barEi", "foo::bar"),
        ("_Zgarbage", "_Zgarbage"),
        ("saxpy", "saxpy"),
        ("_Z1fIJ" + "S_" * 100, "_Z1fIJ" + "S_" * 100),
    ],
)
def test_names_are_demangled(name: str, expected: str) -> None:
    assert demangled(name) == expected


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_one_diagnostic_per_pair_of_source_lines() -> None:
    """Twelve pairs of instructions of two missing barriers are two mistakes."""
    kinds = ("read-write", "write-read", "write-write")
    found = [race(kind=kind, pc=0x100 * n) for n in range(1, 3) for kind in kinds]
    found += [race(3, kind=kind, pc=0x100 * n) for n in range(1, 3) for kind in kinds]
    first, second = diagnostics_of(found)
    assert (first.location.line, second.location.line) == (4, 3)
    assert (first.count, second.count) == (6, 6)
    text = as_text(found)
    assert "also races/write-read, races/write-write between these positions" in text
    assert "at 2 pairs of instructions in the compiled code" in text
    swapped = replace(race(2, 4), pc=0x108)
    assert swapped.conflict is not None
    swapped.conflict.pc = 0x100
    assert len(diagnostics_of([race(), swapped])) == 1
    assert "in the compiled code" not in as_text([race(), swapped])


def test_other_findings_of_one_line_stay_apart() -> None:
    other = replace(out_of_bounds(), message="write of 4 bytes", kind="wild", column=3)
    assert len(diagnostics_of([out_of_bounds(), out_of_bounds(), other])) == 2
    without = [replace(out_of_bounds(), source="", pc=pc) for pc in (1, 2, 1)]
    assert [each.count for each in diagnostics_of(without)] == [8, 4]
    far = [
        replace(out_of_bounds(), message=f"read of 4 bytes at LDS offset {n:#x}: {n} bytes past the end")
        for n in (8, 64)
    ]
    assert [each.count for each in diagnostics_of(far)] == [8]  # one line, compiled to two instructions
    assert len(diagnostics_of([replace(each, source="") for each in far])) == 2
    level = [of_finding(replace(race(), level=level)) for level in (Level.WARNING, Level.ERROR)]
    assert [each.level for each in grouped(level)] == [Level.ERROR]


# ---- formats ---------------------------------------------------------------------------------------------------------


def test_sarif(folder: Path) -> None:
    text = FORMATS["sarif"](Path("k.co"), [out_of_bounds(), race()], "1.2")
    assert Sarif.model_validate_json(text).runs
    (run,) = json.loads(text)["runs"]
    first, second = run["results"]
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == f"{folder.as_uri()}/"
    assert first["occurrenceCount"] == 4
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "saxpy.cl", "uriBaseId": "SRCROOT"}
    assert place["region"] == {
        "startLine": 4, "startColumn": 14, "endColumn": 18, "snippet": {"text": "\t\ty[i] = a * x[i] + y[i];"},
    }  # fmt: skip
    assert first["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "saxpy+0x40"
    (made,) = first["relatedLocations"]
    assert made["physicalLocation"]["region"]["startLine"] == 2
    assert "allocated here" in made["message"]["text"]
    (other,) = second["relatedLocations"]
    assert other["physicalLocation"]["region"]["startColumn"] == 9
    assert other["message"]["text"] == "the conflicting read, lane 0, wave 0, work-group 0,0,0"


def test_fingerprints_survive_moved_lines_and_other_addresses(folder: Path) -> None:
    before = to_sarif(Path("k.co"), [race()], "1")["runs"][0]["results"][0]["partialFingerprints"]
    assert set(before) == {FINGERPRINT}
    (folder / "saxpy.cl").write_text(f"\n\n{SOURCE}", encoding="utf-8")
    assert fingerprint(of_finding(race(6, 4, pc=0x9000))) == before[FINGERPRINT]
    assert fingerprint(of_finding(race(4, 5))) != before[FINGERPRINT]


def test_rules_have_links(monkeypatch: pytest.MonkeyPatch) -> None:
    found = of_finding(replace(race(), rule=RULE))
    assert "helpUri" not in to_sarif(Path("k.co"), [found], "1")["runs"][0]["tool"]["driver"]["rules"][0]
    monkeypatch.setenv(DOCS_VARIABLE, "https://example.org/docs")
    (rule,) = to_sarif(Path("k.co"), [found], "1")["runs"][0]["tool"]["driver"]["rules"]
    assert rule["helpUri"] == "https://example.org/docs/checks/waits.html#gcn/vmcnt"
    assert help_uri(of_finding(race())) == "https://example.org/docs/checks/races.html#read-write"
    monkeypatch.setenv(DOCS_VARIABLE, "https://example.org/tree/main/docs")
    assert help_uri(of_finding(race())).endswith("/docs/checks/races.md#:~:text=read%2Dwrite")


def test_ids_are_links_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed() -> str:
        console = Console(file=io.StringIO(), force_terminal=True, width=200)
        console.print(render(of_finding(race()))[0])
        return console.file.getvalue()  # type: ignore[attr-defined]

    assert "\x1b]8;" not in printed()
    monkeypatch.setenv(DOCS_VARIABLE, "https://example.org/docs")
    (linked,) = re.findall(r"\x1b\]8;[^;]*;([^\x1b]*)\x1b\\(.*?)\x1b\]8;;", printed())
    assert (linked[0], re.sub(r"\x1b\[[\d;]*m", "", linked[1])) == (help_uri(of_finding(race())), "races/read-write")


def test_junit() -> None:
    odd = replace(out_of_bounds(), message="a \x1b <b> & \ud800", level=Level.WARNING)
    suites = ElementTree.fromstring(to_junit(Path("k.co"), [out_of_bounds(), race(), odd], "1.2").encode())
    assert suites.attrib == {"tests": "3", "failures": "2", "errors": "0", "skipped": "0"}
    cases = list(suites.iter("testcase"))
    assert cases[0].attrib["classname"] == "memory/out-of-bounds"
    assert (cases[0].attrib["file"], cases[0].attrib["line"]) == ("saxpy.cl", "4")
    assert cases[0][0].text == as_text([out_of_bounds()])
    assert [case[0].tag for case in cases] == ["failure", "failure", "system-out"]
    (case,) = ElementTree.fromstring(to_junit(Path("k.co"), [], "1.2").encode()).iter("testcase")
    assert case.attrib["name"] == "no findings"


def test_annotations_of_github() -> None:
    first, second, third = to_github(
        Path("a,b.co"), [out_of_bounds(), replace(race(), level=Level.WARNING), Diagnostic(Level.NOTE, "odd", "50 %")]
    ).splitlines()
    assert first.startswith(
        "::error file=saxpy.cl,line=4,col=14,endColumn=17,title=memory/out-of-bounds::error[memory/"
    )
    assert "%0A  --> saxpy.cl%3A4" not in first
    assert "%0A  --> saxpy.cl:4:14%0A" in first
    assert second.startswith("::warning file=saxpy.cl,line=4,")
    assert third == "::notice file=a%2Cb.co,title=odd::note[odd]: 50 %25"


def test_lines_are_text_with_styles() -> None:
    styles = {str(span.style) for line in render(of_finding(out_of_bounds()), 80) for span in line.spans}
    assert styles >= {"bold red", "bold blue", "bold green", "bold"}


def test_editors_recognise_positions() -> None:
    """By the patterns that the page about pytest and editors has."""

    def groups(pattern: dict[str, str], line: str) -> tuple[str, ...]:
        found = re.match(pattern["regexp"], line)
        return () if found is None else found.groups()

    page = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text(encoding="utf-8")
    files = map(json.loads, re.findall(r"^```json\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    (tasks,) = (each for each in files if "tasks" in each)
    text, finding = (each["pattern"] for each in tasks["tasks"][0]["problemMatcher"])
    error = as_text([of_error(WireError("unknown name i").at("line", 2, "int i").at("file", "saxpy.cl"))])
    assert groups(text, error.splitlines()[0]) == (
        "saxpy.cl", "2", "5", "error", "unknown name i",
    )  # fmt: skip
    head, arrow = as_text([out_of_bounds()]).splitlines()[:2]
    assert groups(finding[0], head)[:2] == ("error", "memory/out-of-bounds")
    assert groups(finding[1], arrow) == ("saxpy.cl", "4", "14")


def test_source_lines_have_no_style() -> None:
    line = next(each for each in render(of_finding(out_of_bounds()), 80) if "y[i] = a" in each.plain)
    assert not line.style
    assert [(span.start, span.end) for span in line.spans] == [(0, len(" 4 | "))]


def test_errors_findings_and_lints_have_text(folder: Path) -> None:
    error = RuleError("no memory")
    lint = Lint(1, "register-access", "unaligned")
    text = diagnostic_text(error, out_of_bounds(), lint, width=60)
    assert text.split("\n\n")[0] == "error: no memory"
    assert "error[memory/out-of-bounds]: " in text
    assert "warning[register-access]: unaligned" in text
    assert max(map(len, text.splitlines())) <= 60


def test_lines_of_python_code_are_positions(folder: Path) -> None:
    """Errors of virtual kernels name the line of their code as ``LINE of FILE``."""
    error = RuleError("too many rows").at("line", f"2 of {folder / 'saxpy.cl'}", "kernel").at("kernel", "kernel")
    assert diagnostic_text(error) == (
        "error: too many rows\n"
        "  --> saxpy.cl:2\n   |\n"
        " 2 |     int i = get_global_id(0);\n   |\n"
        "   = note: at kernel kernel"
    )


# ---- operands of text inputs -----------------------------------------------------------------------------------------

OPERANDS = [
    ("gfx900", "v_add_f32 v0, v1, q7", "q7"),
    ("gfx900", "\tv_add_f32\tv0, s5, v1 clam", "clam"),
    ("gfx900", "v_add_f32 v0, v1, q5 ; q5 is not a register", "q5"),
    ("gfx900", "s_load_dword s0, s[0:1], s[2:3]", "s[2:3]"),
    ("gfx900", "s_waitcnt vmcnt(99)", "vmcnt(99)"),
    ("gfx900", "exp mrt0 v0, v0, q0, v0", "q0"),
    ("gfx900", "s_branch nolabel", "nolabel"),
    ("gfx900", "global_load_dword v0, v1, s[0:1] offset:9999", "9999"),
    ("gfx900", "v_mad_f32 v0, |v1|, -v2, 0x1234567 clamp", "0x1234567"),
    ("gfx900", "s_mov_b32 s0, foo@abs32@lo", "foo"),
    ("gfx900", "v_mul_f32 v0, v1, v1, v1", "v_mul_f32"),
    ("gfx900", "nosuch s0, s1", "nosuch"),
    ("rv64gc", "\taddi\ta0, a1, 5000", "5000"),
    ("rv64gc", "addi a0, q1, 5", "q1"),
    ("rv64gc", "lw a0, 5000(a1)", "5000(a1)"),
    ("rv64gc", "add a0, a0, a0; beqz q0, bar", "q0"),
    ("rv64gc", "foo: addi a0, a0, 1; add a0, a0, bar+4 # add a0, bar", "bar"),
    ("rv64gc", "lui a0, %hi(bar)", "bar"),
    ("rv64gc", "vadd.vv v1, v2, v33", "v33"),
    ("rv64gc", "li a0, 99999999999999999999", "99999999999999999999"),
    ("rv64gc", ".byte 1, 256, 256", "256"),
    ("rv64gc", ".asciz hello", "hello"),
    ("rv64gc", ".p2align 99", "99"),
    ("rv64gc", "x = 4 +", "4 +"),
]


@pytest.mark.parametrize(("agent", "line", "operand"), OPERANDS)
def test_errors_in_assembly_point_at_the_operand(agent: str, line: str, operand: str, tmp_path: Path) -> None:
    path = tmp_path / "x.s"
    path.write_text(f"# first line\n{line}\n")
    with pytest.raises(SoftcardError) as caught:
        assemble(path.read_text(), agent).elf()
    location = of_error(caught.value.at("file", str(path))).location
    assert (location.file, location.line) == (str(path), 2)
    start, end = location.span()
    assert line[start:end] == operand
    assert start == line.index(operand)
    assert location.column == len(line[:start].encode()) + 1


def test_errors_in_metadata_have_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.s"
    path.write_text("k:\n\ts_endpgm\n\t.amdgpu_metadata\n---\na: 1\nb: [1, 2\n...\n\t.end_amdgpu_metadata\n")
    with pytest.raises(SoftcardError) as caught:
        assemble(path.read_text(), "gfx900")
    text = as_text([of_error(caught.value.at("file", str(path)))])
    assert "x.s:6: error: unsupported YAML in metadata: " in text
    assert "\n 6 | b: [1, 2\n" in text


def test_equal_operands_are_told_apart() -> None:
    """By their number, as in ``v_readlane_b32 s0, s0, ...``; and inner parts within their operand."""
    error = WireError("odd").in_operand("s0", 1).at("line", 1, "op s0, s0, s0")
    error.path = (replace(error.path[0], line_text="op  s0,  s0, s0"),)
    assert of_error(error, "x.s").location.span() == (9, 11)
    error = WireError("odd").in_operand("b").in_operand("b+a", 2).at("line", 1, "op b, ab, b+a")
    error.path = (replace(error.path[0], line_text="op b, ab, b+a"),)
    assert of_error(error, "x.s").location.span() == (10, 11)


def test_what_is_missing_at_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("hello\n")
    error = WireError("expected =").at("line", f"{path}:1:6")
    assert as_text([of_error(error)]).endswith("\n 1 | hello\n   |      ^")


@settings(max_examples=100)
@given(
    st.text(max_size=40), st.text(max_size=20), st.lists(st.tuples(st.text(max_size=8), st.integers(-1, 4)), max_size=3)
)
def test_any_operands_of_any_line(line: str, statement: str, operands: list[tuple[str, int]]) -> None:
    error = WireError("odd").at("line", 1, statement)
    for text, number in operands:
        error.in_operand(text, number)
    error.path = (replace(error.path[0], line_text=line),)
    found = of_error(error, "x.s")
    start, end = found.location.span()
    assert 0 <= start <= end <= len(line) + 1
    as_text([found], 40)


# ---- as records of traces --------------------------------------------------------------------------------------------


def test_records_of_diagnostics(tmp_path: Path) -> None:
    """A report gets the source lines around the position, and the lines of notes."""
    source = tmp_path / "k.cl"
    lines = [*(f"line {number}" for number in range(1, 8)), "\ty[i] = x[i + 1];", "}", "", ""]
    source.write_text("\n".join(lines), encoding="utf-8")
    here = Location(str(source), 8, 9, "k+0x8", "load v0", 0x40)
    note = Note("the conflicting write", Location(str(source), 2), label="lane 3")
    found = Diagnostic(
        Level.ERROR, "races/read-write", "data race", location=here, notes=(note,), label="lanes 1, 2", lanes=(1, 2),
        rule=RULE, suggestion="add a barrier", count=3,
    )  # fmt: skip
    record = diagnostic_record(found)
    assert record["source"] == {
        "file": "k.cl", "line": 8, "parts": ["\ty[i] = ", "x[i + 1]", ";"],
        "lines": [*([number, f"line {number}"] for number in range(4, 8)), [8, "\ty[i] = x[i + 1];"], [9, "}"]],
    }  # fmt: skip
    names = "level", "id", "message", "at", "label", "lanes", "pc", "code", "insn"
    assert [record[name] for name in names] == [
        "error", "races/read-write", "data race", "k.cl:8:9", "lanes 1, 2", [1, 2], "0x40", "k+0x8", "load v0",
    ]  # fmt: skip
    first, rule, count, advice = record["notes"]
    assert (first["label"], first["source"]["lines"]) == ("lane 3", [[2, "line 2"]])
    assert [each["kind"] for each in (rule, count, advice)] == ["rule", "note", "help"]
    assert advice == {"kind": "help", "text": "add a barrier"}
    json.dumps(record)


def test_records_cut_long_source_lines(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(
        "a" * 10_000 + "\n" + "b" * 5_000 + " x[i] = 1;" + "c" * 900 + "\n", encoding="utf-8"
    )
    record = diagnostic_record(Diagnostic(Level.ERROR, "memory/wild", "write", location=Location("k.cl", 2, 5_002)))
    before, marked, after = record["source"]["parts"]
    assert (before, marked) == ("b" * 99 + " ", "x[i]")
    assert record["source"]["lines"] == [[1, "a" * MOST_COLUMNS], [2, before + marked + after]]
    assert len(before + marked + after) == MOST_COLUMNS


def test_only_sources_are_shown_around_a_position(tmp_path: Path) -> None:
    """Debug information may name any file: of one that is no source, only the line itself is shown, as in text."""
    secret = tmp_path / "secret.txt"
    secret.write_text("one\ntwo\nthree\n", encoding="utf-8")
    record = diagnostic_record(Diagnostic(Level.ERROR, "memory/wild", "read", location=Location(str(secret), 2)))
    assert record["source"]["lines"] == [[2, "two"]]
    record = diagnostic_record(Diagnostic(Level.ERROR, "memory/wild", "read", location=Location(str(secret), 9)))
    assert "source" not in record


def test_lines_of_kernels_in_python_are_positions(tmp_path: Path) -> None:
    source = tmp_path / "turnover.py"
    source.write_text("def turnover(job):\n    return job.batch(1)\n", encoding="utf-8")
    error = RuleError("rows 0 to 5 are not there", rule=RULE).at("register", "0x18")
    found = of_error(error.at("line", f"2 of {source}", "turnover"))
    assert (str(found.location), found.location.code, found.is_text_input) == (f"{source}:2", "turnover", False)
    assert "--> turnover.py:2" in as_text([found])
    assert " 2 |     return job.batch(1)" in as_text([found])
