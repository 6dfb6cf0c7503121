"""`understudy gcn`."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.cli import main

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["gcn", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_disassembly_assembles_to_the_same_bytes(capsys: Capture, tmp_path: Path) -> None:
    source, first, listed, second = (tmp_path / name for name in ("a.s", "a.bin", "b.s", "b.bin"))
    source.write_text("loop: v_add_f32 v1, 0x1234, v2\ns_cbranch_scc0 loop\n.long 0xffffffff\ns_endpgm\n")
    assert run(capsys, "asm", str(source), "--target", "gfx803", "-o", str(first)) == (0, "", "20 bytes\n")
    code, out, err = run(capsys, "disasm", str(first), "--target", "gfx803", "--pc", "0x100")
    assert code == 1
    assert err.startswith("error: illegal instruction 0xffffffff: gfx803 has no such encoding, at pc 0x10c")
    lines = [line.split("//")[0].rstrip() for line in out.splitlines()]
    assert lines == [
        "L100:",
        "    v_add_f32_e32 v1, 0x1234, v2",
        "    s_cbranch_scc0 L100",
        "    .long 0xffffffff",
        "    s_endpgm",
    ]
    listed.write_text(out)
    assert run(capsys, "asm", str(listed), "--target", "gfx803", "-o", str(second))[0] == 0
    assert second.read_bytes() == first.read_bytes()


def test_words(capsys: Capture) -> None:
    code, out, err = run(capsys, "disasm", "--target", "gfx700", "--word", "0xbe820304", "--word", "0xbf810000")
    assert (code, err) == (0, "")
    assert [line.split("  //")[0].strip() for line in out.splitlines()] == ["s_mov_b32 s2, s4", "s_endpgm"]
    assert out.endswith("// 0x4: bf810000\n")


def test_bits_that_do_not_count_are_kept_as_words(capsys: Capture) -> None:
    code, out, _ = run(capsys, "disasm", "--target", "gfx803", "--word", "0xbf8affff")
    assert code == 0
    assert out.startswith("    .long 0xbf8affff ; s_barrier ")


def test_assembly_on_standard_output(capsys: Capture, tmp_path: Path) -> None:
    source = tmp_path / "a.s"
    source.write_text("s_mov_b32 s0, 0x12345\ns_endpgm")
    assert run(capsys, "asm", str(source)) == (0, "0xbe8000ff\n0x00012345\n0xbf810000\n", "")


def test_bad_source(capsys: Capture, tmp_path: Path) -> None:
    source = tmp_path / "a.s"
    source.write_text("s_nop 0\ns_mov_b32 s0")
    code, out, err = run(capsys, "asm", str(source))
    assert (code, out) == (1, "")
    assert err == "error: s_mov_b32 takes 2 operands here, not 1, at line 2 (s_mov_b32 s0)\n"


def test_odd_lengths(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes.fromhex("000081bf01"))
    code, _, err = run(capsys, "disasm", str(path))
    assert (code, err) == (1, "error: the last 1 bytes are no whole word, at byte 0x4\n")


def test_usage(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "a.s"
    path.write_bytes(b"\xff")
    for arguments, message in (
        (("disasm", "--target", "gfx1030", "--word", "0"), "no processor 'gfx1030': there are gfx700"),
        (("disasm", "--word", "0x100000000"), "0x100000000 does not fit 32 bits"),
        (("asm", "/no/such/file"), "cannot read /no/such/file: No such file or directory"),
        (("asm", str(path)), "is no text: byte 0xff at 0x0"),
    ):
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (2, "")
        assert message in err
    path.write_text("s_endpgm")
    assert run(capsys, "asm", str(path), "-o", "/no/such/folder/a")[0] == 2
