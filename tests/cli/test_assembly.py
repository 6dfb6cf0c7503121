"""`softcard asm` and `softcard disasm`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import softcard
from softcard.cli import main

Capture = pytest.CaptureFixture[str]
DATA = Path(softcard.__file__).parent / "data"
KERNEL = """
    .amdgcn_target "amdgcn-amd-amdhsa--gfx803"
    .text
    .globl k
    .p2align 8
k:  s_endpgm
    .section .rodata,"a"
    .amdhsa_kernel k
    .amdhsa_next_free_vgpr 1
    .amdhsa_next_free_sgpr 1
    .end_amdhsa_kernel
"""


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_disassembly_assembles_to_the_same_bytes(capsys: Capture, tmp_path: Path) -> None:
    source, first, listed, second = (tmp_path / name for name in ("a.s", "a.bin", "b.s", "b.bin"))
    source.write_text("loop: v_add_f32 v1, 0x1234, v2\ns_cbranch_scc0 loop\n.long 0xffffffff\ns_endpgm\n")
    assert run(capsys, "asm", str(source), "--agent", "gfx803", "-o", str(first)) == (0, "", "20 bytes\n")
    code, out, err = run(capsys, "disasm", str(first), "--agent", "gfx803", "--pc", "0x100")
    assert code == 1
    assert err.startswith("error: illegal instruction 0xffffffff: gfx803 has no such encoding\n  --> pc 0x10c\n")
    lines = [line.split("//")[0].rstrip() for line in out.splitlines()]
    assert lines == [
        "L100:",
        "    v_add_f32_e32 v1, 0x1234, v2",
        "    s_cbranch_scc0 L100",
        "    .long 0xffffffff",
        "    s_endpgm",
    ]
    listed.write_text(out)
    assert run(capsys, "asm", str(listed), "--agent", "gfx803", "-o", str(second))[0] == 0
    assert second.read_bytes() == first.read_bytes()


def test_words(capsys: Capture) -> None:
    code, out, err = run(capsys, "disasm", "--agent", "gfx700", "--word", "0xbe820304", "--word", "0xbf810000")
    assert (code, err) == (0, "")
    assert [line.split("  //")[0].strip() for line in out.splitlines()] == ["s_mov_b32 s2, s4", "s_endpgm"]
    assert out.endswith("// 0x4: bf810000\n")


def test_bits_that_do_not_count_are_kept_as_words(capsys: Capture) -> None:
    code, out, _ = run(capsys, "disasm", "--agent", "gfx803", "--word", "0xbf8affff")
    assert code == 0
    assert out.startswith("    .long 0xbf8affff ; s_barrier ")


def test_what_is_no_code_is_reported_in_a_few_lines(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("no code, but a text of some length\n" * 40)
    code, out, err = run(capsys, "disasm", str(file))
    *reported, last = err.splitlines()
    assert (code, len(reported)) == (1, 10)
    assert all(each.startswith("error: illegal instruction 0x") for each in reported[::2])
    assert all(each.startswith("  --> pc 0x") for each in reported[1::2])
    assert last == f"{out.count('.long') - 5} more errors are not shown"


def test_words_of_risc_v(capsys: Capture) -> None:
    words = ["--word", "0x00000513", "--word", "0x4501", "--word", "0xbff5"]
    code, out, err = run(capsys, "disasm", "--agent", "rv64gc", "--pc", "0x10000", *words)
    assert (code, err) == (0, "")
    lines = [line.split("  #")[0].strip() for line in out.splitlines()]
    assert lines == [".option norvc", "addi a0,zero,0", "c.li a0,0", "c.j 0x10002"]
    code, out, err = run(capsys, "disasm", "--agent", "rv64gc", "--word", "0", "--word", "0xe205f0a7")
    assert code == 1
    assert "    .half 0x0 " in out
    assert "    vsseg8e64.v v1,(a1) " in out
    assert err == "error: illegal instruction 0x0000: no compressed instruction has this encoding\n  --> pc 0x0\n"


def test_words_on_standard_output(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "a.s"
    source.write_text("s_mov_b32 s0, 0x12345\ns_endpgm")
    assert run(capsys, "asm", str(source)) == (0, "0xbe8000ff\n0x00012345\n0xbf810000\n", "")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"li a0, 3; ret\nlui a1, 0x12345")))
    assert run(capsys, "asm", "-", "--agent", "rv64gc") == (0, "0x450d\n0x8082\n0x123455b7\n", "")


def test_encodings_are_shown_as_llvm_does(capsys: Capture, tmp_path: Path) -> None:
    source = tmp_path / "a.s"
    source.write_text("start: v_add_f32 v0, v1, v2\ns_branch start\n.long 7")
    code, out, _ = run(capsys, "asm", str(source), "--show-encoding")
    assert code == 0
    assert out.splitlines() == [
        "start:",
        f"\t{'v_add_f32_e32 v0, v1, v2':<40}; encoding: [0x01,0x05,0x00,0x02]",
        f"\t{'s_branch start':<40}; encoding: [0xfe,0xff,0x82,0xbf]",
        f"\t{'.long 7':<40}; encoding: [0x07,0x00,0x00,0x00]",
    ]


def test_files_to_be_loaded(capsys: Capture, tmp_path: Path) -> None:
    source, code_object, program, raw = (tmp_path / name for name in ("k.s", "k.co", "p.elf", "p.raw"))
    source.write_text(KERNEL)
    assert run(capsys, "asm", str(source), "-o", str(code_object))[0] == 0
    assert run(capsys, "inspect", str(code_object))[0] == 0
    assert run(capsys, "disasm", str(code_object))[1].splitlines()[0] == "k:"
    code, out, err = run(capsys, "asm", str(source), "--agent", "gfx900")
    assert (code, out) == (1, "")
    assert err.startswith(f"{source}:2:5: error: the file is for gfx803, expected gfx900\n")
    assert err.endswith('|     .amdgcn_target "amdgcn-amd-amdhsa--gfx803"\n   |     ^^^^^^^^^^^^^^\n')
    source.write_text(".option norvc\n.globl f\nf: lw a0, value\nret\n.data\nvalue: .word 5\n")
    assert run(capsys, "asm", str(source), "-o", str(program), "--base", "0x400000")[0] == 0
    assert "f:\n    auipc a0,0x1" in run(capsys, "disasm", str(program))[1]
    assert run(capsys, "asm", str(source), "-o", str(raw))[0] == 0
    assert raw.read_bytes()[-4:] == (5).to_bytes(4, "little")


@pytest.mark.parametrize("name", ["hsa_kernels-gfx803.co", "kernels.elf"])
def test_code_of_every_file_is_shown(capsys: Capture, name: str) -> None:
    code, out, err = run(capsys, "disasm", str(DATA / name))
    assert (code, err) == (0, "")
    one = "saxpy"
    assert f"{one}:\n" in out
    code, shown, _ = run(capsys, "disasm", str(DATA / name), "--kernel", one)
    assert code == 0
    assert len(shown) < len(out) / 4
    assert f"{one}:\n" in shown


def test_bad_source(capsys: Capture, tmp_path: Path) -> None:
    source = tmp_path / "a.s"
    source.write_text("s_nop 0\ns_mov_b32 s0")
    code, out, err = run(capsys, "asm", str(source))
    assert (code, out) == (1, "")
    head = f"{source}:2:1: error: s_mov_b32 takes 2 operands here, not 1"
    assert err == f"{head}\n   |\n 2 | s_mov_b32 s0\n   | ^^^^^^^^^\n"


def test_odd_lengths(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes.fromhex("000081bf01"))
    code, _, err = run(capsys, "disasm", str(path))
    assert (code, err) == (1, f"error: the last 1 bytes are not a complete instruction\n  --> {path}: byte 0x4\n")


def test_usage(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "a.s"
    path.write_bytes(b"\xff")
    for arguments, message in (
        (("disasm", "--agent", "gfx1030", "--word", "0"), "unknown agent 'gfx1030', expected one of rv64gc, gfx700"),
        (("disasm", "--word", "0x100000000"), "0x100000000 does not fit 32 bits"),
        (
            ("disasm", "--word", "0", "--kernel", "k"),
            "--kernel requires a file with named kernels (ELF), not raw code",
        ),
        (("asm", str(path), "--base", "x"), "'x' is not a number"),
        (("asm", str(path)), "byte 0xff at 0x0, expected text in UTF-8"),
    ):
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (2, "")
        assert message in err
    path.write_text("s_endpgm")
    assert run(capsys, "asm", str(path), "-o", "/no/such/folder/a")[0] == 2


NO_CODE = {"empty": b"", "head": b"\x7fELF", "zeros": b"\x7fELF" + bytes(60), "noise": bytes(range(256)) * 8}


@pytest.mark.parametrize("data", NO_CODE.values(), ids=NO_CODE)
def test_what_is_no_code(capsys: Capture, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    code, _, err = run(capsys, "disasm", str(path))
    assert code == (0 if not data else 1)
    assert "bug in softcard" not in err
