"""Lines of code in memory, from the files that have it: nothing is said of other code."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from softcard import AccessFault, Gpu
from softcard.core.findings import CodePlace
from softcard.device.kfd.client import ProcessMemory
from softcard.device.kfd.code_files import CodeFiles
from softcard.device.kfd.loaded_code import loaded_at
from softcard.device.kfd.process import _locate
from softcard.hsa import demo_code
from softcard.image.elf.embedded import Files

pytestmark = pytest.mark.oracle
HERE = ProcessMemory(os.getpid())
"""A program that has no run-time library of ROCm's."""
SOURCE = """kernel void beyond(global int *p)
{
    p[get_global_id(0) - (1l << 34)] = 1;
}
"""
"""Line 3 fails."""


def test_where_an_instruction_is(tmp_path: Path) -> None:
    program, other = tmp_path / "program", tmp_path / "other"
    other.write_bytes(demo_code("gfx900"))
    with Gpu.open("gfx900") as gpu:
        loaded = gpu.compile(SOURCE)
        program.write_bytes(b"\0" * 99 + loaded.code.elf.data)
        kernel = loaded.kernel("beyond")
        store = next(
            pc
            for pc in range(kernel.image.entry + loaded.base, loaded.base + loaded.code.layout.size, 4)
            if (place := loaded.place_of(pc)) is not None and place.line == 3
        )
        source = str(loaded.place_of(store))
        name = loaded.name_at(store)
        assert source.endswith(":3")

        def place(*paths: Path) -> CodePlace | None:
            return _locate(gpu.device, lambda: CodeFiles(Files(paths)), HERE, store)

        assert place(other, program) == CodePlace(name, "beyond", source, column=7)
        assert place(other) == place() == _locate(gpu.device, None, HERE, store) == CodePlace(name, "beyond")
        assert _locate(gpu.device, lambda: CodeFiles(Files([program])), HERE, 0) is None
        code = loaded_at(gpu.device, store)
        assert code is not None
        found = CodeFiles(Files([program])).of(code)
        assert found is not None
        assert found.function_at(store - loaded.base) == ("beyond", store - loaded.base - kernel.image.entry)
        assert found.function_at(0) == ("", 0)


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_a_fault_names_its_line(engine: str) -> None:
    """Where the host loads the code itself."""
    with Gpu.open("gfx900", engine=engine) as gpu:
        loaded = gpu.compile(SOURCE)
        with pytest.raises(
            AccessFault, match=r"at pc 0x\w+ \(beyond\+0x\w+, global_store_dword [^)]*:3\), at"
        ) as reported:
            gpu.run(loaded, "beyond", 1, args=[np.zeros(4, np.int32)])
        assert str(reported.value).count("beyond+0x") == 1
    with (
        Gpu.open("gfx900", engine=engine) as gpu,
        pytest.raises(AccessFault, match=r"at pc 0x\w+ \(beyond\+0x\w+, global_store_dword [^)]*off\)"),
    ):
        gpu.run(gpu.compile(SOURCE, options=["-g0"]), "beyond", 1, args=[np.zeros(4, np.int32)])
