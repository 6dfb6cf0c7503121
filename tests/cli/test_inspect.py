"""`softcard inspect`: every version of code object, as text and as JSON, whole and damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from softcard.cli import main
from softcard.core.errors import SoftcardError
from softcard.host.hsa.gpu import Gpu
from softcard.image.hsa.code_object import read_code_object
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from softcard.report.hsa_code import describe, lines
from tests.image.hsa.test_bundle import bundle

Capture = pytest.CaptureFixture[str]
VECTORS = Path(__file__).parents[1] / "vectors" / "hsa-inspect"
VERSIONS = {
    "v2.co": ("V2", "gfx803"),
    "v2-labels.co": ("V2", "gfx803"),
    "v3.co": ("V3", "gfx700"),
    "v4.co": ("V4", "gfx900"),
    "v5.co": ("V5", "gfx906"),
    "v6.co": ("V6", "gfx900"),
    "mesa3d.co": ("mesa3d", "gfx803"),
    "relocatable.o": ("V5", "gfx900"),
}


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["inspect", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def document(name: str, **options: Any) -> dict[str, Any]:
    return describe((VECTORS / name).read_bytes(), **options)


@pytest.mark.parametrize("name", VERSIONS)
def test_every_version_says_what_it_is(capsys: Capture, name: str) -> None:
    version, processor = VERSIONS[name]
    code, out, err = run(capsys, str(VECTORS / name))
    assert (code, err) == (0, "")
    assert out.startswith(f"AMD HSA code object {version} for {processor}")
    assert "warning" not in out


@pytest.mark.parametrize("name", VERSIONS)
def test_json_has_the_same(capsys: Capture, name: str) -> None:
    code, out, _ = run(capsys, str(VECTORS / name), "--json")
    assert code == 0
    found = json.loads(out)
    assert found == document(name)
    assert (found["version"], found["target"]) == VERSIONS[name]
    assert set(found["kernels"][0]["header"]) >= {"compute_pgm_rsrc1", "compute_pgm_rsrc2", "kernel_code_properties"}


@pytest.mark.parametrize("name", VERSIONS)
def test_disassembly_assembles_to_the_same_bytes(name: str) -> None:
    code = read_code_object((VECTORS / name).read_bytes())
    image = bytes(code.load(0).data)
    for chunk in document(name)["code"]:
        text = "\n".join(
            f"{line.get('label', '_')}: {line['text']}" if "label" in line else line["text"] for line in chunk["lines"]
        )
        start = chunk["address"]
        assert assemble(target(code.target), text, start) == image[start : start + chunk["bytes"]]


def test_version_1_is_reported_by_its_note() -> None:
    data = (VECTORS / "v2.co").read_bytes()
    note = b"AMD\0" + (2).to_bytes(4, "little")
    assert data.count(note) == 1
    found = describe(data.replace(note, b"AMD\0" + (1).to_bytes(4, "little")))
    assert found["version"] == "V1"
    assert [kernel["name"] for kernel in found["kernels"]] == ["scale", "lookup"]


def test_headers_of_both_kinds() -> None:
    old, new = document("v2.co")["kernels"][0], document("v3.co")["kernels"][0]
    assert old["header"]["type"] == "amd_kernel_code_t"
    assert old["header"]["amd_machine_version_major"] == 8
    assert old["header"]["wavefront_size"] == 6
    assert new["header"]["type"] == "kernel descriptor"
    assert new["header"]["group_segment_fixed_size"] == 256
    for kernel in (old, new):
        assert kernel["group_bytes"] == 256
        assert kernel["header"]["compute_pgm_rsrc1"]["float_mode_denorm_16_64"] == 3
        assert kernel["header"]["compute_pgm_rsrc2"]["enable_sgpr_workgroup_id_x"] == 1


def test_registers_are_named_in_text(capsys: Capture) -> None:
    _, out, _ = run(capsys, str(VECTORS / "v2.co"), "--no-code")
    words = [line.split() for line in out.splitlines()]
    assert ["[13:12]", "float_mode_round_32", "=", "0", "(NEAR_EVEN)"] in words
    assert ["[19:18]", "float_mode_denorm_16_64", "=", "3", "(FLUSH_NONE)"] in words
    assert ["[5:1]", "user_sgpr_count", "=", "8"] in words
    assert ["[18:17]", "private_element_size", "=", "1", "(4", "bytes)"] in words
    assert ["wavefront_size", "=", "6", "(64", "work-items)"] in words
    assert "Disassembly" not in out


def test_all_shows_zeros_too(capsys: Capture) -> None:
    some, every = (run(capsys, str(VECTORS / "v2.co"), "--no-code", *more)[1] for more in ((), ("--all",)))
    assert "enable_exception_address_watch" not in some
    assert "[13]    enable_exception_address_watch = 0" in every
    assert "max_flat_workgroup_size" in every


@pytest.mark.parametrize("name", ["v2.co", "v3.co", "v4.co", "v5.co", "v6.co"])
def test_arguments_come_from_metadata(name: str) -> None:
    arguments = document(name)["kernels"][0]["arguments"]
    shown = [(each["offset"], each["bytes"], each["kind"]) for each in arguments[:5]]
    assert shown == [
        (0, 8, "global_buffer"),
        (8, 8, "global_buffer"),
        (16, 4, "by_value"),
        (20, 4, "by_value"),
        (24, 4, "by_value"),
    ]
    assert [each["type_name"] for each in arguments[2:5]] == ["float", "int", "uchar4"]
    assert any(each["kind"].startswith("hidden_") for each in arguments[5:])


def test_without_metadata_arguments_are_not_known(capsys: Capture) -> None:
    found = document("mesa3d.co")["kernels"][0]
    assert (found["arguments"], found["metadata"]) == (None, None)
    assert "No metadata" in run(capsys, str(VECTORS / "mesa3d.co"))[1]


def test_initial_registers_follow_the_enable_bits() -> None:
    registers = document("v2.co")["kernels"][0]["registers"]
    assert [(each["registers"], each["holds"]) for each in registers] == [
        ("s[0:3]", "private segment buffer"),
        ("s[4:5]", "dispatch ptr"),
        ("s[6:7]", "kernarg segment ptr"),
        ("s8", "work-group id x"),
        ("v0", "work-item id x"),
    ]


def test_labels_and_branches(capsys: Capture) -> None:
    _, out, _ = run(capsys, str(VECTORS / "v2.co"), "--kernel", "scale")
    assert "\nscale:\n" in out
    assert "lookup:" not in out
    labels = [line[:-1] for line in out.splitlines() if line.startswith("L") and line.endswith(":")]
    assert labels
    assert all(any(f" {label} " in line for line in out.splitlines()) for label in labels)


LABELS = "v2-labels.co"
ROWS = ["BB2_2", "BB2_3"]


def symbols(data: bytes) -> list[int]:
    """Bytes at which the symbols of a file begin, of both tables."""
    elf = read_code_object(data).elf
    return [each.place for each in (*elf.symbols, *elf.dynamic_symbols)]


@pytest.mark.parametrize("kind", [0, 1, 2, 10])
@pytest.mark.parametrize("has_size", [True, False])
@pytest.mark.parametrize("binding", [0, 1])
def test_local_labels_in_the_symbol_table(kind: int, has_size: bool, binding: int) -> None:
    """They do not cut a kernel short, whatever the type of its symbol, and branches name them."""
    data = bytearray((VECTORS / LABELS).read_bytes())
    for at in symbols(bytes(data)):
        info = data[at + 4]
        if info & 15 == 10:
            data[at + 4] = info & 0xF0 | kind
            if not has_size:
                data[at + 16 : at + 24] = bytes(8)
        elif info == 0 and data[at + 6] and has_size:
            data[at + 4] = binding << 4
    (chunk,) = describe(bytes(data), kernel="rows")["code"]
    assert [line["label"] for line in chunk["lines"] if "label" in line] == ROWS
    shown = [line["text"] for line in chunk["lines"]]
    assert shown[-1] == "s_endpgm"
    assert [text for text in shown if "cbranch" in text] == ["s_cbranch_scc1 BB2_3", "s_cbranch_scc0 BB2_2"]
    assert chunk["bytes"] == 444 - 256


def test_labels_of_all_functions() -> None:
    chunks = {chunk["names"][0]: chunk for chunk in document(LABELS)["code"]}
    assert list(chunks) == ["steps", "collatz", "rows"]
    labels = [line["label"] for line in chunks["steps"]["lines"] if "label" in line]
    assert labels == ["BB0_2", "BB0_3", "BB0_7", "BB0_8"]


def test_faults_name_the_function_and_no_label() -> None:
    with Gpu.open("gfx803", threads=1) as gpu:
        code = gpu.load((VECTORS / LABELS).read_bytes())
        rows = code.kernels["rows"]
        assert code.name_at(code.base + rows.image.entry + 0x98) == "rows+0x98"
        assert code.name_at(code.address("BB0_2")) == "steps+0x20"


def test_relocations_and_hidden_symbols() -> None:
    found = document("relocatable.o")
    assert [(each["type"], each["symbol"]) for each in found["relocations"]] == [("R_AMDGPU_REL64", "plus")]
    hidden = [each for each in document("v2.co")["symbols"] if each["name"] == "table"]
    assert [(each["visibility"], each["bytes"]) for each in hidden] == [("hidden", 16)]


def test_a_processor_that_is_not_modelled_is_not_disassembled() -> None:
    data = bytearray((VECTORS / "v6.co").read_bytes())
    data[48:52] = (0x541).to_bytes(4, "little")  # e_flags of gfx1100
    found = describe(bytes(data).replace(b"--gfx900", b"--gfx110"))
    assert found["code"] == []
    assert any("no disassembly" in each for each in found["warnings"])
    assert describe(bytes(data), target="gfx900")["code"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none.co"], 2, "error: cannot read none.co: No such file or directory"),
        (
            [__file__],
            1,
            "file starts with 22 22 22 60, expected code object, AMD OpenCL 2.0 program, RISC-V ELF file, "
            "RefSi command",
        ),
        ([str(VECTORS / "v2.co"), "--kernel", "scael"], 1, "code object has no kernel 'scael'; did you mean 'scale'"),
        ([str(VECTORS / "v2.co"), "--agent", "gfx1"], 2, "unknown agent 'gfx1', expected one of gfx700"),
    ],
)
def test_mistakes(capsys: Capture, arguments: list[str], code: int, message: str) -> None:
    found, _, err = run(capsys, *arguments)
    assert found == code
    assert message in err


def test_a_file_for_another_machine(capsys: Capture, tmp_path: Path) -> None:
    data = bytearray((VECTORS / "v2.co").read_bytes())
    data[18:20] = (62).to_bytes(2, "little")
    (tmp_path / "x86.o").write_bytes(bytes(data))
    code, _, err = run(capsys, str(tmp_path / "x86.o"))
    assert code == 1
    assert "e_machine is 0x3e, expected one of 0xf3, 0xe0" in err


@pytest.mark.parametrize("name", ["v2.co", "v4.co", "mesa3d.co", "relocatable.o"])
def test_damaged_files_are_shown_or_refused(name: str) -> None:
    whole = (VECTORS / name).read_bytes()
    rng = random.Random(name)
    shown = 0
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 3, 20))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.1:
            del data[rng.randrange(len(data)) :]
        try:
            found = describe(bytes(data))
        except SoftcardError:
            continue
        assert list(lines(found, zeros=True))
        json.dumps(found)
        shown += 1
    assert shown


def test_an_entry_of_an_offload_bundle(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "two.hipfb"
    entries = {f"hipv4-amdgcn-amd-amdhsa--{name}": (VECTORS / "v2.co").read_bytes() for name in ("gfx803", "gfx900")}
    path.write_bytes(bundle(entries))
    status, out, _ = run(capsys, str(path), "--agent", "gfx803")
    assert (status, "scale" in out) == (0, True)
    status, _, err = run(capsys, str(path))
    assert status == 1
    assert f"an offload bundle with the entries {', '.join(entries)}: name the processor of the wanted entry" in err


@pytest.mark.parametrize("command", [["inspect"], ["disasm"], ["check"], ["run", "scale"]])
def test_code_for_another_processor_is_not_taken_for_that_of_the_agent(
    command: list[str], capsys: Capture, tmp_path: Path
) -> None:
    """Where a bundle holds one processor's code only, `--agent` with another one lists what is there."""
    path = tmp_path / "one.hipfb"
    path.write_bytes(bundle({"hipv4-amdgcn-amd-amdhsa--gfx803": (VECTORS / "v2.co").read_bytes()}))
    status = main([command[0], str(path), *command[1:], "--agent", "gfx900"])
    err = capsys.readouterr().err
    assert status == 1
    assert (
        "the file is an offload bundle with the entries hipv4-amdgcn-amd-amdhsa--gfx803: expected an entry for gfx900"
        in err
    )
