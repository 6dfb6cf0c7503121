"""`softcard amdcl2 patch`: machine code of a kernel replaced, from text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softcard.amdcl2 import Program, demo_program
from softcard.cli import main
from softcard.image.amdcl2.build import pointer
from softcard.image.amdcl2.container import read_container
from tests.host.amdcl2.rig import FOLDER, kernel, program, vectors

Capture = pytest.CaptureFixture[str]
FILES = [name for kind in ("argtypes", "generic", "gdata", "vadd") for name in vectors(kind)]


def patch(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    code = main(["amdcl2", "patch", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("name", FILES)
@pytest.mark.one_in(3)
def test_what_disasm_shows_gives_the_same_file(capsys: Capture, name: str, tmp_path: Path) -> None:
    path, text, out = FOLDER / f"{name}.clo", tmp_path / "k.s", tmp_path / "out.clo"
    data = path.read_bytes()
    for each in read_container(data).kernels:
        assert main(["disasm", str(path), "--kernel", each]) == 0
        text.write_text(capsys.readouterr().out)
        assert patch(capsys, path, each, text, "-o", out) == (0, "", f"{len(data)} bytes\n")
        assert out.read_bytes() == data


@pytest.mark.parametrize("device", ["bonaire", "tonga"])
def test_longer_code_with_more_registers_runs(capsys: Capture, device: str, tmp_path: Path) -> None:
    path, text, out = tmp_path / "in.clo", tmp_path / "k.s", tmp_path / "out.clo"
    path.write_bytes(demo_program(device, 200406))
    assert main(["disasm", str(path), "--kernel", "saxpy"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("s_endpgm") == 1
    last = next(line for line in reversed(shown.splitlines()) if "flat_store_dword" in line)
    value = last.split(",")[1].split()[0]
    doubled = f"v_mov_b32 v200, 2.0\nv_mul_f32 {value}, v200, {value}\n{last}"
    text.write_text(shown.replace(last, doubled))
    code, _, err = patch(capsys, path, "saxpy", text, "-o", out, "--vgprs", "201")
    assert (code, err) == (0, f"{len(out.read_bytes())} bytes\n")
    header = read_container(out.read_bytes()).kernel("saxpy").header
    assert (header.compute_pgm_rsrc1.vgprs(), header.workitem_vgpr_count) == (204, 201)
    results = []
    for file in (path, out):
        x, y = np.arange(64, dtype=np.float32), np.ones(64, np.float32)
        with Program(read_container(file.read_bytes())) as loaded:
            loaded.kernel("saxpy").run(64, 64, [x, y, 3.0])
        results.append(y)
    assert results[0].tolist() == (3 * np.arange(64) + 1).tolist()
    assert results[1].tolist() == (2 * (3 * np.arange(64) + 1)).tolist()


def test_addresses_that_the_loader_sets_stay(capsys: Capture, tmp_path: Path) -> None:
    from softcard.image.amdcl2.container import READ_ONLY
    from softcard.image.amdcl2.writer import CodeRelocation, ProgramSource, write_container

    source = kernel(
        "tonga", "k", "s_mov_b32 s12, 0x12345678\n s_endpgm", [pointer("p", "int*")],
        relocations=(CodeRelocation(4, READ_ONLY, 8),),
    )  # fmt: skip
    path, text, out = tmp_path / "in.clo", tmp_path / "k.s", tmp_path / "out.clo"
    path.write_bytes(write_container(ProgramSource("tonga", 252700, 64, (source,), bytes(64))))
    text.write_text("s_mov_b32 s12, 0xffff0000\n s_nop 1\n s_endpgm")
    assert patch(capsys, path, "k", text, "-o", out)[0] == 0
    assert (
        read_container(out.read_bytes()).kernel("k").code[:8] == read_container(path.read_bytes()).kernel("k").code[:8]
    )
    text.write_text("s_nop 1\n s_mov_b32 s12, 0xffff0000\n s_endpgm")
    code, _, err = patch(capsys, path, "k", text, "-o", out)
    assert (code, err) == (
        1,
        "error: the loader sets 1 addresses in the code of k, the last at 0x4: the code must stay unchanged up to "
        "there\n  --> byte 0x0 (of the code)\n",
    )


def test_mistakes(capsys: Capture, tmp_path: Path) -> None:
    made = program("tonga", kernel("tonga", "k", "s_endpgm", []))
    path, text, raw = tmp_path / "in.clo", tmp_path / "k.s", tmp_path / "k.bin"
    path.write_bytes(bytes(made.container.elf.data))
    text.write_text("s_endpgm")
    for content, arguments, status, said in (
        (b"", [], 1, "the code has 0 bytes, expected a positive multiple of 4"),
        (b"abc", [], 1, "the code has 3 bytes, expected a positive multiple of 4"),
        (bytes.fromhex("000081bf"), ["--vgprs", "257"], 1, "the code needs 257 vector registers, expected at most 256"),
        (bytes.fromhex("000081bf"), ["--sgprs", "105"], 1, "the code needs 105 scalar registers, expected at most 104"),
    ):
        raw.write_bytes(content)
        code, _, err = patch(capsys, path, "k", raw, "-o", tmp_path / "out.clo", *arguments)
        assert (code, err) == (status, f"error: {said}\n")
    assert patch(capsys, path, "no", text, "-o", tmp_path / "out.clo")[0] == 1
    assert patch(capsys, path, "k", text, "-o", tmp_path / "no" / "out.clo")[0] == 2
    text.write_text("v_nonsense v0")
    code, _, err = patch(capsys, path, "k", text, "-o", tmp_path / "out.clo")
    assert code == 1
    assert str(text) in err
    directives = (".amdhsa_kernel k", ".amdhsa_next_free_vgpr 1", ".amdhsa_next_free_sgpr 1", ".end_amdhsa_kernel")
    text.write_text("\n".join([*directives, "k:", "s_endpgm", ""]))
    code, _, err = patch(capsys, path, "k", text, "-o", tmp_path / "out.clo")
    assert code == 2
    assert "has directives that describe kernels, expected only instructions" in err
