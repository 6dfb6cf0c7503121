"""A report of each interface, with a finding and without: for tests of the page, and for the pictures in the docs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from softcard import Acceldev, Platform
from softcard.acceldev import Fence, Fill
from softcard.amdcl2 import demo_program
from softcard.cli.attach.serve_fletcher import load_kernel
from softcard.core.errors import SoftcardError
from softcard.fletcher import Context, Kernel
from softcard.trace import HtmlTrace

OPENCL = """\
kernel void smooth(global const float *x, global float *y)
{
    uint i = get_global_id(0);
    y[i] = (x[i] + x[i + 1]) / 2;
}
"""
C = """\
#include <stdint.h>

void smooth(uint64_t id, int *out, const int *in, uint64_t n)
{
    for (uint64_t i = id; i < n; i += 4)
        out[i] = (in[i] + in[i + 1]) / 2;
}
"""
HIP = """\
#include <cstdlib>
#include <hip/hip_runtime.h>

__global__ void smooth(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = (x[i] + x[i + 1]) / 2;
}

int main(int argc, char **argv)
{
    const int n = 4096;
    float *x, *y;
    hipMalloc(&x, n * sizeof(float));
    hipMalloc(&y, n * sizeof(float));
    hipMemset(x, 0, n * sizeof(float));
    smooth<<<n / 256, 256>>>(x, y, n - atoi(argv[1]));
    hipDeviceSynchronize();
    _Exit(0);
}
"""
FLETCHER = """\
import pyarrow as pa
import pyarrow.compute as pc

from softcard.fletcher import kernel


@kernel(read={"Trades": [("price", pa.int64()), ("volume", pa.int64())]}, custom=["c:64:minimum"])
def turnover(job):
    trades = job.batch("Trades")
    large = pc.greater_equal(trades["volume"], job.control("minimum"))
    products = pc.multiply(trades["price"], trades["volume"])
    return pc.sum(pc.if_else(large, products, 0)).as_py()
"""


def run(page: Path, *arguments: str) -> None:
    """Run a kernel with a report, in the folder of the page."""
    command = [sys.executable, "-m", "softcard", "run", *arguments, "--report", page.name]
    done = subprocess.run(command, cwd=page.absolute().parent, check=False, capture_output=True, text=True)
    assert page.exists(), done.stderr


def refsi(page: Path, has_finding: bool) -> None:
    """A kernel in C that reads one element past the end of its input."""
    page.with_name("smooth.c").write_text(C, encoding="utf-8")
    arrays = "--arg", "i32:512", "--arg", "i32:512:random", "--arg", str(511 + has_finding)
    run(page, "smooth.c", "smooth", "--grid", "4", *arrays, *check(has_finding))


def check(has_finding: bool) -> list[str]:
    """Reports without a finding have counts, which checks do not."""
    return ["--check", "memory"] if has_finding else []


def hsa(page: Path, has_finding: bool, agent: str = "gfx942") -> None:
    """A kernel in OpenCL C that reads one element past the end of its input."""
    page.with_name("smooth.cl").write_text(OPENCL, encoding="utf-8")
    grid = "--grid", str(999 + has_finding), "--group", "64" if has_finding else "27"
    arrays = "--arg", "f32:1000:random", "--arg", "f32:1000"
    run(page, "smooth.cl", "smooth", "--agent", agent, *grid, *arrays, *check(has_finding))


def waves(page: Path, *more: str) -> None:
    """Work-groups of four waves."""
    page.with_name("smooth.cl").write_text(OPENCL, encoding="utf-8")
    run(page, "smooth.cl", "--grid", "1024", "--group", "256", "--arg", "f32:1025:random", "--arg", "f32:1024", *more)


def registers(page: Path) -> None:
    """All registers of a wave before the instructions of a line."""
    waves(page, "--registers-at", "smooth.cl:4")


def amdcl2(page: Path, has_finding: bool) -> None:
    """A program without debug information, for a grid that is larger than its arrays."""
    page.with_name("saxpy.clo").write_bytes(demo_program("tonga", 200406))
    grid = "--grid", "1024" if has_finding else "1000", "--group", "64" if has_finding else "40"
    arrays = "--arg", "f32:1000:random", "--arg", "f32:1000", "--arg", "0.5"
    run(page, "saxpy.clo", "saxpy", *grid, *arrays, *check(has_finding))


def hip(page: Path, has_finding: bool) -> None:
    """An unmodified HIP program with the same mistake; its run-time library runs kernels of its own."""
    source, program = page.with_name("smooth.hip"), page.with_name("smooth")
    source.write_text(HIP, encoding="utf-8")
    compile_ = ["hipcc", "-g", "--offload-arch=gfx900", source, "-o", program]
    subprocess.run(compile_, check=True, env={**os.environ, "HIP_PLATFORM": "amd"})  # not nvcc, where that is installed
    command = [sys.executable, "-m", "softcard", "exec", "--agent", "gfx900", "--quiet", "--report", str(page)]
    command += ["--check", "memory"] if has_finding else []
    command += ["--", str(program.absolute()), str(1 - has_finding)]
    subprocess.run(command, check=False, timeout=120, capture_output=True)


def acceldev(page: Path, has_finding: bool) -> None:
    """A code buffer whose last command fills more than its data buffer has."""
    with (
        Acceldev.open() as device,
        HtmlTrace(page, "fill two halves").follow(device),
        device.open_context() as context,
        suppress(SoftcardError),
    ):
        slot = context.create_buffer(1 << 16).slot
        context.run(context.create_code(Fill(value=1, buffer_slot=slot, start=0, length=0x8000), Fence()))
        context.wait(1)
        rest = Fill(value=3, buffer_slot=slot, start=0xC000, length=0x4000 + 0x40 * has_finding)
        context.run(
            context.create_code(Fill(value=2, buffer_slot=slot, start=0x8000, length=0x4000), Fence(), rest, Fence())
        )
        context.wait(3)


def fletcher(page: Path, has_finding: bool) -> None:
    """A kernel in Python, for an index range that is longer than its RecordBatch."""
    source = page.with_name("turnover.py")
    source.write_text(FLETCHER, encoding="utf-8")
    turnover = load_kernel(f"{source}:turnover")
    trades = pa.record_batch([pa.array([10, 20, 30]), pa.array([1, 5, 2])], schema=turnover.schemas[0])
    with (
        suppress(SoftcardError),
        Platform(turnover) as platform,
        HtmlTrace(page, "turnover").follow(platform),
        Context(platform) as context,
    ):
        context.queue_record_batch(trades)
        context.enable()
        kernel = Kernel(context)
        kernel.write_metadata()
        if has_finding:
            kernel.set_range(0, 0, 5)
        kernel.start()
        kernel.wait_for_finish()


INTERFACES: dict[str, Callable[[Path, bool], Any]] = {
    "refsi": refsi,
    "acceldev": acceldev,
    "hsa-gfx942": hsa,
    "hsa-gfx900": lambda page, has_finding: hsa(page, has_finding, "gfx900"),
    "amdcl2": amdcl2,
    "fletcher": fletcher,
}
