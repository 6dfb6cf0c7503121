"""`softcard inspect` of AMD OpenCL 2.0 programs, and their part of the demo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softcard.cli import main
from softcard.cli.demo import _amdcl2_lines as lines
from softcard.host.amdcl2.demo import demo_program
from softcard.image.amdcl2.build import pointer
from softcard.image.amdcl2.container import READ_ONLY, read_container
from softcard.image.amdcl2.records import SamplerInit
from softcard.image.amdcl2.writer import CodeRelocation, ProgramSource, write_container
from softcard.image.elf.layout import SymbolEntry
from tests.host.amdcl2.rig import FOLDER, kernel, vectors

Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["inspect", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("name", vectors("argtypes") + vectors("generic"))
def test_inspect_shows_every_vector(capsys: Capture, name: str) -> None:
    code, out, err = shown(capsys, str(FOLDER / f"{name}.clo"))
    assert (code, err) == (0, "")
    assert out.startswith("AMD OpenCL 2.0 program, C")
    assert "s_endpgm" in out
    assert "warning" not in out


def test_inspect_names_arguments_and_registers(capsys: Capture) -> None:
    _, out, _ = shown(capsys, str(FOLDER / "generic-tonga-64-200406.clo"))
    for text in (
        "AMD OpenCL 2.0 program, CRIMSON_16_4 (driver 200406 or later)",
        "64-bit code for tonga (e_flags 0x9), gfx800",
        "note hsail: hsail_major 1, hsail_minor 0, profile 1, machine_model 1, default_float_round 1, padding 0",
        "outer symbol acl_version_string: 0x27 bytes at .comment+0x0, type 1",
        "inner symbol __hsa_section.hsatext: 0x0 bytes at .hsatext+0x0, type 3",
        "  kernel id 1024, number 0 of the kernel table",
        "note isa version: 8.0.0",
        "kernel gener:",
        "  16 VGPRs, 32 SGPRs, LDS 256, scratch 64, arguments 64 bytes",
        "  s[10:11]   flat scratch init",
        "  s13        private segment wave byte offset",
        "  argument at  48,   8 bytes: global uint* out",
        "    user_sgpr_count = 12",
        "    0x0100  s_add_u32 s16, s10, s13",
    ):
        assert text in out


def test_inspect_shows_samplers_and_relocations(capsys: Capture, tmp_path: Path) -> None:
    source = kernel(
        "tonga", "k", "s_mov_b32 s12, 0x12345678\n s_endpgm", [pointer("p", "int*")],
        relocations=(CodeRelocation(4, READ_ONLY, 8),),
    )  # fmt: skip
    init = SamplerInit(coordinate=1, filter=1, addressing=4)
    program = ProgramSource(
        "tonga",
        252700,
        64,
        (source,),
        bytes(range(32)) * 17,
        samplers=(init,),
        sampler_offsets=(16,),
        compile_options="-O3",
    )
    path = tmp_path / "program.clo"
    path.write_bytes(write_container(program))
    _, out, _ = shown(capsys, str(path), "--no-code")
    assert "compile options: -O3" in out
    assert ".hsadata_readonly_agent+0x0000: 00010203 04050607" in out
    assert ".hsadata_readonly_agent: and 32 more bytes" in out
    assert "sampler 0: normalised, LINEAR, MIRRORED_REPEAT" in out
    assert "relocation .hsatext+0x104: low 32 bits of __hsa_section.hsadata_readonly_agent + 0x8" in out
    assert "relocation .hsadata_readonly_agent+0x10: sampler address of .hsaimage_samplerinit+0x0 + 0x0" in out
    assert "code:" not in out


def test_inspect_shows_sizes_and_uses_of_arguments(capsys: Capture) -> None:
    _, out, _ = shown(capsys, str(FOLDER / "argtypes-gfx900-64-252700.clo"))
    for text in (
        "  argument at 136,   8 bytes: S a10 (structure bytes 20)",
        "  argument at 144,   8 bytes: global const float4* a11 (pointee alignment 16, read_only)",
        "  argument at 152,   8 bytes: local int* a12 (pointee alignment 4, read_write)",
        "  argument at 168,   8 bytes: read_only image2d_t a14 (resource id 0, image kind IMAGE_2D)",
    ):
        assert text in out


def test_inspect_shows_code_outside_of_kernels(capsys: Capture, tmp_path: Path) -> None:
    sources = tuple(
        kernel("tonga", name, f"v_mov_b32 v5, {number}\n s_endpgm", []) for name, number in (("k", 1), ("function", 42))
    )
    data = write_container(ProgramSource("tonga", 252700, 64, sources))
    inner = read_container(data).inner
    assert inner is not None
    place = next(each.place for each in inner.symbols if each.name == "&__OpenCL_function_kernel")
    at = inner.base + place + SymbolEntry.offset_of("info")
    path = tmp_path / "functions.clo"
    path.write_bytes(data[:at] + b"\2" + data[at + 1 :])
    _, out, _ = shown(capsys, str(path))
    assert "code outside of kernels at 0x200" in out
    assert "v_mov_b32_e32 v5, 42" in out
    assert "code outside" not in shown(capsys, str(path), "--no-code")[1]
    assert "code outside" not in shown(capsys, str(path), "--kernel", "k")[1]


def test_inspect_takes_the_processor_where_the_file_names_none(capsys: Capture, tmp_path: Path) -> None:
    data = write_container(ProgramSource("tonga", 180005, 64, (kernel("tonga", "k", "s_endpgm", [], driver=180005),)))
    path = tmp_path / "unknown.clo"
    path.write_bytes(data[:48] + (99).to_bytes(4, "little") + data[52:])
    code, _, err = shown(capsys, str(path))
    assert code == 1
    assert "e_flags 0x63 name no device of driver 180005, and there is no note with the ISA" in err
    code, out, _ = shown(capsys, str(path), "--agent", "gfx803")
    assert code == 0
    assert "64-bit code for unknown device (e_flags 0x63), gfx803" in out
    assert "s_endpgm" in out


@pytest.mark.parametrize("name", ["vadd-tonga-64-200406", "vadd-bonaire-32-180005"])
def test_check_says_what_the_file_is(capsys: Capture, name: str) -> None:
    assert main(["check", "--memory-model", str(FOLDER / f"{name}.clo")]) == 2
    assert f"{name}.clo is of kind AMD OpenCL 2.0 program" in capsys.readouterr().err


def test_inspect_gives_json(capsys: Capture) -> None:
    code, out, _ = shown(capsys, "--json", "--kernel", "vadd", str(FOLDER / "vadd-gfx900-32-252700.clo"))
    document = json.loads(out)
    assert code == 0
    assert (document["generation"], document["bits"], document["device"]) == ("CRIMSON_16_4", 32, "gfx900")
    assert document["kernels"][0]["arguments"][6] == {
        "name": "a", "offset": 24, "bytes": 4, "kind": "pointer", "declared": "global const uint* a", "hidden": False,
        "access": "read_write", "pointee_alignment": 4,
    }  # fmt: skip
    assert document["kernels"][0]["header"]["compute_pgm_rsrc2"]["user_sgpr_count"] == 10
    assert document["code"][0]["lines"][0]["text"].startswith("s_load_dword")


def test_inspect_refuses(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "cut.clo"
    path.write_bytes((FOLDER / "vadd-tonga-64-200406.clo").read_bytes()[:2000])
    code, out, err = shown(capsys, str(path))
    assert (code, out) == (1, "")
    assert "section header table" in err


def test_demo_runs_on_three_cards() -> None:
    found, good = lines(1 << 10)
    assert good
    assert [line.split()[0] for line in found] == ["bonaire", "tonga", "gfx900"]
    assert demo_program("tonga", 200406)[:4] == b"\x7fELF"
