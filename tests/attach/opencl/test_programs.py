"""Unmodified OpenCL programs with the loaders that they have: PyPI's pyopencl, and clinfo of Debian."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from softcard.attach.opencl.installing import Place, vendors
from softcard.attach.opencl.library import build_library
from softcard.attach.opencl.variables import of_loaders
from softcard.host.hsa.compile import compilers
from tests.attach.fletcher.rig import needs_compiler

pytestmark = [needs_compiler, pytest.mark.slow(seconds=10)]
TIMEOUT_S = 120
PYOPENCL = find_spec("pyopencl")
needs_pyopencl = pytest.mark.skipif(
    PYOPENCL is None or not compilers(), reason="no pyopencl: pip install pyopencl 'softcard[opencl]'"
)
OUT_OF_BOUNDS = '''
import sys
import numpy as np
import pyopencl as cl

SOURCE = """
kernel void copy(global const int *x, global int *y)
{
    int i = get_global_id(0);
    y[i] = x[i];
}
"""
print(cl.__file__)
platform, = [each for each in cl.get_platforms() if each.name == "Softcard"]
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
x, y = np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
given, made = (cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=each) for each in (x, y))
cl.Program(context, SOURCE).build().copy(queue, (128,), (64,), given, made)
cl.enqueue_copy(queue, y, made)
assert (x == y).all()
'''


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program that finds no other platform of this machine, unless variables say where."""
    unset = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH")
    environment = {name: value for name, value in os.environ.items() if name not in unset} | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@needs_pyopencl
def test_pyopencl_needs_no_variable(tmp_path: Path) -> None:
    """The .icd file in the package is enough; findings name the line of the script, also with a cached binary."""
    assert PYOPENCL is not None
    assert PYOPENCL.origin is not None
    shutil.copytree(Path(PYOPENCL.origin).parent, tmp_path / "pyopencl")
    folder = tmp_path / "pyopencl" / ".libs"
    Place(folder, folder).install(build_library())
    script = tmp_path / "out_of_bounds.py"
    script.write_text(OUT_OF_BOUNDS)
    for _ in range(2):
        done = run(
            sys.executable, str(script), PYTHONPATH=str(tmp_path), PYOPENCL_HOME="", XDG_CACHE_HOME=str(tmp_path)
        )
        assert (done.returncode, done.stdout) == (0, f"{tmp_path}/pyopencl/__init__.py\n"), done.stderr
        places = re.findall(r"^error\[(.*?)\].*\n *--> (.*)$", done.stderr, re.MULTILINE)
        assert places == [("memory/out-of-bounds", f"{script}:10:{column}") for column in (12, 10)]


@pytest.mark.oracle
@pytest.mark.skipif(not shutil.which("clinfo"), reason="no clinfo: apt-get install clinfo")
def test_clinfo_reports_no_error() -> None:
    library = build_library()
    done = run("clinfo", **of_loaders(vendors(library), library.path), SOFTCARD_OPENCL_AGENTS="gfx900,gfx803,gfx900")
    assert (done.returncode, done.stderr) == (0, "")
    assert [
        line for line in done.stdout.splitlines() if "<" in line or re.search(r"\berror\b(?! correction)", line)
    ] == []
    assert re.findall(r"^ +Device Name +(\w+)$", done.stdout, re.MULTILINE)[:3] == ["gfx900", "gfx803", "gfx900"]
    assert re.findall(r"Topology \(AMD\) +(.*)", done.stdout) == [
        f"PCI-E, 0000:{bus}:00.0" for bus in ("04", "08", "0c")
    ]
    assert len(set(re.findall(r"Device UUID +(.*)", done.stdout))) == 3, "each device has its own"
    offsets = re.findall(r"Profiling timer offset.* (\d+)ns", done.stdout)
    now = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert all(abs(int(each) - now) < 10**9 for each in offsets), "event times are those of the host's clock"
