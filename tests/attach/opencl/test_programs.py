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


IMAGES = '''
import numpy as np
import pyopencl as cl

SOURCE = """
kernel void invert(read_only image2d_t from, sampler_t how, write_only image2d_t to)
{
    int2 p = (int2)(get_global_id(0), get_global_id(1));
    write_imagef(to, p, 1.0f - read_imagef(from, how, p));
}
"""
platform, = [each for each in cl.get_platforms() if each.name == "Softcard"]
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
flags, orders, types = cl.mem_flags, cl.channel_order, cl.channel_type
form = cl.ImageFormat(orders.RGBA, types.FLOAT)
assert form in cl.get_supported_image_formats(context, flags.READ_WRITE, cl.mem_object_type.IMAGE2D)
texels = np.random.default_rng(1).random((33, 50, 4), np.float32)
given = cl.create_image(context, flags.READ_ONLY | flags.COPY_HOST_PTR, form, (50, 33), hostbuf=texels)
made = cl.create_image(context, flags.WRITE_ONLY, form, (50, 33))
sampler = cl.Sampler(context, False, cl.addressing_mode.CLAMP_TO_EDGE, cl.filter_mode.NEAREST)
invert = cl.Program(context, SOURCE).build().invert
invert(queue, (50, 33), None, given, sampler, made)
cl.enqueue_fill_image(queue, made, np.array([.25, .5, .75, 1], np.float32), (1, 2, 0), (3, 4, 1))
found, expected = np.empty_like(texels), 1 - texels
expected[2:6, 1:4] = [.25, .5, .75, 1]
cl.enqueue_copy(queue, found, made, origin=(0, 0), region=(50, 33))
assert np.array_equal(found, expected)
mapped, event, row, slice = cl.enqueue_map_image(
    queue, given, cl.map_flags.READ, (2, 1, 0), (3, 2, 1), (2, 3, 4), np.float32
)
assert np.array_equal(np.lib.stride_tricks.as_strided(mapped, (2, 3, 4), (row, 16, 4)), texels[1:3, 2:5])
mapped.base.release(queue)
depth = cl.create_image(context, flags.READ_WRITE, cl.ImageFormat(0x10BD, types.FLOAT), (5, 4))
cl.enqueue_fill_image(queue, depth, np.array([.5], np.float32), (0, 0, 0), (5, 4, 1))
found = np.empty((4, 5), np.float32)
cl.enqueue_copy(queue, found, depth, origin=(0, 0), region=(5, 4))
assert (found == .5).all()
for wrong in (depth, given, cl.Buffer(context, 0, 64)):  # after a right one, which the library knows
    try:
        invert.set_arg(2, wrong)
    except cl.LogicError as error:
        print(cl.status_code.to_string(error.code), end=" ")
'''


REFUSED = "INVALID_MEM_OBJECT INVALID_ARG_VALUE INVALID_MEM_OBJECT "
"""The output of the last loop of `IMAGES`."""


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program that finds no other platform of this machine, unless variables say where."""
    unset = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH")
    environment = {name: value for name, value in os.environ.items() if name not in unset} | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def install_pyopencl(folder: Path) -> None:
    """Copy pyopencl to a folder, with the file from which its loader knows the platform."""
    assert PYOPENCL is not None
    assert PYOPENCL.origin is not None
    shutil.copytree(Path(PYOPENCL.origin).parent, folder / "pyopencl")
    libraries = folder / "pyopencl" / ".libs"
    Place(libraries, libraries).install(build_library())


@needs_pyopencl
def test_a_pyopencl_program_with_images(tmp_path: Path) -> None:
    install_pyopencl(tmp_path)
    script = tmp_path / "images.py"
    script.write_text(IMAGES)
    done = run(sys.executable, str(script), PYTHONPATH=str(tmp_path), PYOPENCL_HOME="", XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, REFUSED), done.stderr


@needs_pyopencl
def test_pyopencl_needs_no_variable(tmp_path: Path) -> None:
    """The .icd file in the package is enough; findings name the line of the script, also with a cached binary."""
    install_pyopencl(tmp_path)
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
