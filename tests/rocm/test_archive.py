"""What tools/rocm_kernels.py takes out of libraries."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

TOOL = Path(__file__).parents[2] / "tools" / "rocm_kernels.py"
MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"


def bundle(**objects: bytes) -> bytes:
    """An offload bundle with host code, which is empty, and objects by processor."""
    names = {"host-x86_64-unknown-linux--": b""}
    names |= {f"hipv4-amdgcn-amd-amdhsa--{name}": data for name, data in objects.items()}
    at = len(MAGIC) + 8 + sum(24 + len(name) for name in names)
    table, body = struct.pack("<Q", len(names)), b""
    for name, data in names.items():
        table += struct.pack("<QQQ", at + len(body), len(data), len(name)) + name.encode()
        body += data
    return MAGIC + table + body


def taken(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), str(folder / "tree"), str(folder / "kernels.zip")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_objects_of_all_bundles_and_single_files(tmp_path: Path) -> None:
    folder = tmp_path / "tree" / "usr" / "lib"
    folder.mkdir(parents=True)
    bundles = bundle(gfx803=b"one", gfx1030=b"two"), bundle(gfx900=b"three", gfx906=b"four")
    text = MAGIC + b"\xff" * 8
    (folder / "librocx.so.1.2").write_bytes(b"code".join((b"\x7fELF", *bundles, text)))
    (folder / "librocx.so").symlink_to("librocx.so.1.2")
    (folder / "TensileLibrary_gfx900.co").write_bytes(b"five")
    (folder / "Kernels.so-000-gfx90a.hsaco").write_bytes(b"six")
    assert taken(tmp_path).returncode == 0
    with ZipFile(tmp_path / "kernels.zip") as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    assert found == {
        "TensileLibrary/gfx900/0000.co": b"five",
        "librocx/gfx803/0001.co": b"one",
        "librocx/gfx900/0002.co": b"three",
        "librocx/gfx906/0003.co": b"four",
    }


def test_a_tree_without_code_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    done = taken(tmp_path)
    assert done.returncode == 1
    assert "has no code object for gfx803" in done.stderr
