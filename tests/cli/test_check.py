"""`softcard check`: what is missing around a kernel's atomics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import softcard
from softcard.cli import main
from softcard.cli.file_kinds import SOURCES
from softcard.host.hsa.compile import LINE_TABLES, compile_opencl, text_of_file
from softcard.image.assembly.files import assemble_code_object
from softcard.image.hsa.records import KernelDescriptor
from softcard.image.hsa.writer import KernelSource, write_code_object
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target

Capture = pytest.CaptureFixture[str]
EIGHT_VGPRS = KernelDescriptor.parse(bytes(48) + (1).to_bytes(4, "little") + bytes(12))
DEMO = Path(softcard.__file__).parent / "data" / "hsa_kernels-gfx900.co"


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["check", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_nothing_is_odd_about_ours(capsys: Capture) -> None:
    assert run(capsys, str(DEMO)) == (0, "code object: 0 errors, 0 warnings, 0 notes\n", "")


def test_each_atomic_and_its_order(capsys: Capture) -> None:
    code, out, _ = run(capsys, str(DEMO), "--memory-model")
    assert code == 0
    assert "histogram: 1 atomic\n  0x4780 global_atomic_add v[1:2], v4, off: scacq\n" in out
    assert "saxpy: no atomics" in out


def test_help_says_what_is_no_atomic(capsys: Capture) -> None:
    out = " ".join(run(capsys, "--help")[1].split())
    assert "an atomic store is the same instruction as an ordinary one and is not listed" in out


def test_a_missing_order_is_an_error(capsys: Capture) -> None:
    code, out, _ = run(capsys, str(DEMO), "--memory-model", "--order", "screl")
    assert code == 1
    assert "s_waitcnt vmcnt(0) is missing between this release atomic and an access before it, see pc 0x4780" in out


def test_what_pcie_lacks_is_an_error(capsys: Capture, tmp_path: Path) -> None:
    assert run(capsys, str(DEMO), "--memory-model", "--pcie")[0] == 0
    words = assemble(target("gfx803"), "flat_atomic_add v[0:1], v2\nflat_atomic_umin v[0:1], v2\ns_endpgm")
    path = tmp_path / "k.co"
    path.write_bytes(write_code_object("V3", "gfx803", [KernelSource("k", words, KernelDescriptor.parse(bytes(64)))]))
    assert run(capsys, str(path), "--memory-model")[0] == 0
    code, out, _ = run(capsys, str(path), "--memory-model", "--pcie")
    assert code == 1
    assert out.count("error[pcie]: ") == 1
    assert "flat_atomic_umin v[0:1], v2: PCIe does not support this atomic: min needs a compare-and-swap loop" in out


def test_generic_code_is_read_as_that_of_its_generation(capsys: Capture, tmp_path: Path) -> None:
    words = assemble(target("gfx900"), "global_atomic_add v[1:2], v4, off\ns_endpgm")
    path = tmp_path / "k.co"
    source = KernelSource("k", words, EIGHT_VGPRS)
    path.write_bytes(write_code_object("V6", "gfx9-generic", [source]))
    code, out, _ = run(capsys, str(path), "--memory-model")
    assert code == 0
    assert "global_atomic_add v[1:2], v4, off" in out


@pytest.mark.parametrize(("offset", "register"), [(12, ""), (8, "v8")])
def test_registers_that_a_kernel_does_not_allocate(capsys: Capture, tmp_path: Path, offset: int, register: str) -> None:
    path = tmp_path / "k.co"
    path.write_bytes(
        assemble_code_object(
            f"""
            .amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
            k:
                v_mov_b32 v7, 0
                v_accvgpr_write_b32 a3, v8
                s_endpgm
            .rodata
            .amdhsa_kernel k
                .amdhsa_next_free_vgpr 16
                .amdhsa_next_free_sgpr 8
                .amdhsa_accum_offset {offset}
            .end_amdhsa_kernel
            """
        )
    )
    code, out, _ = run(capsys, str(path), "--check", "registers")
    assert code == bool(register)
    text = "error[registers]: v_accvgpr_write_b32 a3, v8 uses v8, but the kernel allocates v0 to v7 and a0 to a7 "
    assert (text in out) == bool(register)
    assert not register or ("(k)" in out and "hsa/allocated-registers" in out)


def test_registers_beyond_the_allocated_ones_without_accumulation_registers(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "k.co"
    code = assemble(target("gfx900"), "v_mov_b32 v8, 0\ns_endpgm")
    path.write_bytes(write_code_object("V5", "gfx900", [KernelSource("k", code, EIGHT_VGPRS)]))
    status, out, _ = run(capsys, str(path), "--check", "registers")
    text = "v_mov_b32_e32 v8, 0 uses v8, but the kernel allocates v0 to v7 (next_free_vgpr, compute_pgm_rsrc1)"
    assert (status, text in out) == (1, True)


@pytest.mark.parametrize("name", ["k.s", "k.cl"])
def test_sources_are_no_files_to_check(capsys: Capture, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("; a comment\n")
    status, _, err = run(capsys, str(tmp_path / name))
    assert (status, SOURCES[f".{name.partition('.')[2]}"] in err) == (1, True)


# ---- waits
def planted(tmp_path: Path, wait: str = "") -> str:
    text = f"buffer_load_dword v4, off, s[12:15], 0\n{wait}\nv_mov_b32_e32 v5, v4\ns_endpgm"
    path = tmp_path / "k.co"
    source = KernelSource("k", assemble(target("gfx900"), text), EIGHT_VGPRS)
    path.write_bytes(write_code_object("V5", "gfx900", [source]))
    return str(path)


def test_a_missing_wait_is_an_error_with_both_places(capsys: Capture, tmp_path: Path) -> None:
    code, out, _ = run(capsys, planted(tmp_path), "--check", "waits")
    assert code == 1
    _, first, arrow, *notes, _, last = out.splitlines()
    load = "buffer_load_dword v4, off, s[12:15], 0"
    assert first == f"error[waits]: v_mov_b32_e32 v5, v4 reads v4 before {load} has written it"
    assert arrow.startswith(f"  --> {tmp_path / 'k.co'}: pc 0x")
    assert notes[-1] == "   = help: add s_waitcnt vmcnt(0) between the two instructions"
    assert any(each.startswith("   = rule: gcn/vector-result-read: ") for each in notes)
    assert out.count("(k)") == 2
    assert last == "code object: 1 error, 0 warnings, 0 notes"
    assert run(capsys, planted(tmp_path, "s_waitcnt vmcnt(0)"))[0] == 0


def test_a_finding_in_json_and_sarif_has_the_other_place(capsys: Capture, tmp_path: Path) -> None:
    path = planted(tmp_path)
    [found] = json.loads(run(capsys, path, "--check", "waits", "--json")[1])
    assert found["rule"] == "gcn/vector-result-read"
    assert (found["suggestion"], found["count"]) == ("add s_waitcnt vmcnt(0) between the two instructions", 1)
    assert found["other"] == f"pc {found['pc'] - 8:#x} (k)"
    [result] = json.loads(run(capsys, path, "--check", "waits", "--format", "sarif")[1])["runs"][0]["results"]
    assert f"see {found['other']}; add s_waitcnt vmcnt(0) between the two instructions" in result["message"]["text"]


def test_checks_are_chosen_by_name(capsys: Capture, tmp_path: Path) -> None:
    path = planted(tmp_path)
    assert "reads v4" not in run(capsys, path, "--check", "object,instruction")[1]
    code, _, err = run(capsys, path, "--check", "weights")
    assert code == 2
    assert "unknown check 'weights' for a file of kind code object, expected one of object, instruction, waits" in err


def test_one_option_chooses_the_format(capsys: Capture, tmp_path: Path) -> None:
    path = planted(tmp_path)
    assert run(capsys, path, "--format", "json") == run(capsys, path, "--json")
    assert run(capsys, path, "--json", "--format", "json")[0] == 1
    code, out, _ = run(capsys, path, "--format", "github")
    assert (code, out.partition(",")[0]) == (1, f"::error file={path}")
    assert run(capsys, path, "--format", "junit")[1].count("<failure ") == 1
    code, _, err = run(capsys, path, "--json", "--format", "junit")
    assert code == 2
    assert "--json and --format junit choose the format of the same output: give one of them" in err


@pytest.mark.oracle
@pytest.mark.slow
def test_a_missing_wait_has_its_source_line(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the code object has line tables."""
    monkeypatch.chdir(tmp_path)
    source = "kernel void f(global int *x)\n{\n    x[0] = x[1] + 1;\n}\n"
    (tmp_path / "k.cl").write_text(source)
    code = compile_opencl(text_of_file("k.cl", source.encode()), "gfx900", options=LINE_TABLES)
    wait = assemble(target("gfx900"), "s_waitcnt vmcnt(0)")
    (tmp_path / "k.co").write_bytes(code.replace(wait, assemble(target("gfx900"), "s_nop 0")))
    status, out, _ = run(capsys, "k.co", "--check", "waits")
    assert status == 1
    assert "  --> k.cl:3:17\n   |\n 3 |     x[0] = x[1] + 1;\n   |                 ^\n" in out
