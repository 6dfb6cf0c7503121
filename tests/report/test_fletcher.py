"""Exports of Fletcher maps: each is read back by somebody else's reader."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.map.layout import FletcherMap
from softcard.report.fletcher import (
    fletcher_registers,
    rows,
    to_header,
    to_markdown,
    to_rdl,
    to_vhdmmio,
)
from tests.device.fletcher.designs import ONE, UTF8, VECTORS, Recorded, field, recorded_maps, schema, yaml_fields

BIG = fletcher_map(
    [schema(field("s", UTF8, True, profile="true"), field("values")), schema(field("x"), name="W", mode="write")],
    custom=["c:16:cat", "s:64:dog", "c:100:wide", "c:8:reg"],
)
ODD = fletcher_map(
    [
        pa.schema([field('a "b" | */ \n\u00e9'), field("")]),
        schema(field("x"), name="fletcher"),
        schema(field("x"), name="1"),
    ],
    profile="runtime",
    custom=["c:8:fletcher_cat", "c:8:cat", "c:8:CAT"],
)
SPEC = fletcher_map([ONE], profile="spec", custom=["c:64:cat"])
WIDE = fletcher_map([ONE], bus_width=64, offset=64, custom=["c:8:a", "c:8:b"])
MAPS = {"big": BIG, "odd": ODD, "spec": SPEC, "wide": WIDE}
every_map = pytest.mark.parametrize("plan", MAPS.values(), ids=MAPS.keys())
MADE = [record for record in recorded_maps() if record.fields is not None]


# ---- vhdmmio -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", MADE, ids=lambda record: record.name)
def test_the_yaml_has_the_generators_fields(record: Recorded) -> None:
    assert yaml_fields(to_vhdmmio(fletcher_map(record.inputs, **record.options))) == record.fields


@pytest.mark.parametrize("name", ["prim", "multi", "profile"])
def test_the_yaml_is_the_generators_but_for_its_prose(name: str) -> None:
    record = next(each for each in MADE if each.name == name)
    ours, theirs = (
        [line.rstrip() for line in text.splitlines() if line.strip() and " doc: " not in line]
        for text in (
            to_vhdmmio(fletcher_map(record.inputs)),
            (VECTORS / f"{name}.mmio.yaml").read_text(encoding="utf-8"),
        )
    )
    assert ours == theirs


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("name", ["regs", "profile"])
def test_vhdmmio_makes_the_same_hardware(name: str, tmp_path: Path) -> None:
    pytest.importorskip("vhdmmio", reason="vhdmmio is not installed")
    record = next(each for each in MADE if each.name == name)
    texts = {
        "ours": to_vhdmmio(fletcher_map(record.inputs, **record.options)),
        "theirs": (VECTORS / f"{name}.mmio.yaml").read_text(encoding="utf-8"),
    }
    made = {each: _vhdl(tmp_path / each, text) for each, text in texts.items()}
    assert len(made["ours"]) == 3
    assert made["ours"] == made["theirs"]


def _vhdl(folder: Path, text: str) -> dict[str, list[str]]:
    """What vhdmmio generates, without comments."""
    folder.mkdir()
    (folder / "map.mmio.yaml").write_text(text, encoding="utf-8")
    command = (sys.executable, "-m", "vhdmmio", "-V", "vhdl", "-P", "vhdl")
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    files = sorted((folder / "vhdl").iterdir())
    return {path.name: re.sub(r"--.*", "", path.read_text(encoding="utf-8")).split() for path in files}


def test_vhdmmio() -> None:
    text = to_vhdmmio(WIDE)
    assert "  bus-width:    64\n" in text
    assert (
        "  - address: 68\n    name: done\n    doc: the kernel is done\n    bitrange: 34\n    behavior: status\n" in text
    )


def test_odd_names_are_quoted() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    names = [each["name"] for each in yaml.safe_load(to_vhdmmio(ODD))["fields"]]
    assert names == [each.name for each in ODD.fields]


# ---- SystemRDL, C, Markdown, tables --------------------------------------------------------------------------------


@every_map
def test_registers_are_declared_without_contradiction(plan: FletcherMap) -> None:
    found = fletcher_registers(plan)
    assert [register.offset for register in found] == sorted(register.offset for register in found)
    assert found.by_name("control").offset == plan.offset
    last = found.registers[-1]
    assert last.offset + 4 == plan.offset + plan.size_bytes


def test_wide_fields_are_split() -> None:
    found = fletcher_registers(BIG)
    dog = BIG.custom("dog").address
    assert (found.offset_of("dog_low"), found.offset_of("dog_high")) == (dog, dog + 4)
    assert [found.by_name(f"wide_{part}").fields[0].width for part in range(4)] == [32, 32, 32, 4]
    assert found.by_name("wide_3").doc == "custom register wide, bits 99-96"


def test_names_are_made_identifiers() -> None:
    names = [register.name for register in fletcher_registers(ODD)]
    assert all(name.isidentifier() and name.isascii() for name in names)
    assert "RB0_a__b__________values_low" in names
    assert "r_1_firstidx" in names
    assert [name for name in names if "cat" in name.lower()] == ["fletcher_cat", "cat_2", "CAT_3"]


@pytest.mark.oracle
@every_map
def test_a_compiler_reads_the_systemrdl(plan: FletcherMap, tmp_path: Path) -> None:
    systemrdl = pytest.importorskip("systemrdl", reason="systemrdl-compiler is not installed")
    path = tmp_path / "map.rdl"
    path.write_text(to_rdl(plan), encoding="utf-8")
    compiler = systemrdl.RDLCompiler()
    compiler.compile_file(str(path))
    nodes = {node.inst_name: node.absolute_address for node in compiler.elaborate().top.registers()}
    assert nodes == {register.name: register.offset for register in fletcher_registers(plan)}


@pytest.mark.oracle
@every_map
def test_a_c_compiler_reads_the_header(plan: FletcherMap, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "map.h").write_text(to_header(plan), encoding="utf-8")
    enable = "" if plan.profile_enable is None else f"&& FLETCHER_PROFILE_ENABLE_OFFSET == {plan.profile_enable}"
    check = f"FLETCHER_STATUS_OFFSET == {plan.status} && FLETCHER_STATUS_DONE_MASK == 4 {enable}"
    text = f'#include "map.h"\n_Static_assert({check}, "the map");\n'
    command = (compiler, "-std=c11", "-Wall", "-Werror", "-fsyntax-only", "-I", str(tmp_path), "-xc", "-")
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.stderr == ""


@every_map
def test_tables_have_a_row_per_field(plan: FletcherMap) -> None:
    assert [row[4] for row in rows(plan)] == [each.name for each in plan.fields]
    lines = [line for line in to_markdown(plan).splitlines() if line.startswith("| 0x")]
    assert len(lines) == len(plan.fields)


def test_rows() -> None:
    found = rows(BIG)
    assert found[0] == ("0x0", "0", "0", "write (strobe)", "start")
    assert ("0x48", "18", "15..0", "read, write", "cat") in found
    assert "| 0x4c | 19 | 63..0 | read | `dog` | custom register dog |" in to_markdown(BIG)
