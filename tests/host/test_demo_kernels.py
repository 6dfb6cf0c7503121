"""The kernels that come with Softcard are what their source says."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from softcard.host.refsi.refsi import demo_kernels
from softcard.image.riscv.program import read_elf

DATA = Path(str(files("softcard"))) / "data"
GCC = shutil.which("riscv64-unknown-elf-gcc")
BUILT_WITH = "12.2"


def test_they_fit_the_window_and_have_names() -> None:
    image = read_elf(demo_kernels())
    (segment,) = image.segments
    assert 0x10000 <= segment.address < segment.end < 0x20000
    assert image.symbols is not None
    source = (DATA / "kernels.c").read_text()
    assert set(re.findall(r"^void (\w+)\(u64", source, re.MULTILINE)) == {
        name for name, symbol in image.symbols.items() if symbol.kind == 2
    }


@pytest.mark.slow
@pytest.mark.skipif(GCC is None, reason="needs riscv64-unknown-elf-gcc (gcc-riscv64-unknown-elf)")
def test_the_documented_command_builds_them(tmp_path: Path) -> None:
    command, _ = re.findall(r"```\n(.*?)```", (DATA / "README.md").read_text(), re.DOTALL)
    shutil.copy(DATA / "kernels.c", tmp_path)
    arguments = command.replace("\\\n", " ").split()
    subprocess.run([*arguments, "-Wall", "-Wextra", "-Werror"], cwd=tmp_path, check=True, capture_output=True)
    built, shipped = read_elf((tmp_path / "kernels.elf").read_bytes()), read_elf(demo_kernels())
    assert built.symbols is not None
    assert shipped.symbols is not None
    assert set(shipped.symbols) <= set(built.symbols)
    version = subprocess.run([str(GCC), "-dumpfullversion"], capture_output=True, text=True, check=True).stdout
    if version.startswith(BUILT_WITH):
        assert built.segments == shipped.segments
