"""Time of the OpenCL platform's calls in an unmodified program, beside pocl in the same process.

The program calls OpenCL through the loader of the system. Kernels run with the default check of the platform, or with
those that SOFTCARD_CHECK selects. The row of a query is without the time of a call from Python.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulong, c_void_p
from pathlib import Path
from typing import Any, Final

from harness import Row, Samples, alternate, latency, main

TITLE: Final = "OpenCL platform: calls of an unmodified program"
SOURCE: Final = b"kernel void fill(global int *a, int n) { a[get_global_id(0)] = n; }"
BATCH: Final = 100
BYTES: Final = 64 << 20
QUERIES: Final = 1000
SOFTCARD: Final = "Softcard"
POCL: Final = "Portable Computing Language"
VENDORS: Final = Path("/etc/OpenCL/vendors")


class Host:
    """A program on one platform: a context, a queue, a kernel and a buffer."""

    def __init__(self, cl: Any, platform: c_void_p) -> None:
        self._cl = cl
        device = c_void_p()
        check(cl.clGetDeviceIDs(platform, c_ulong(0xFFFFFFFF), 1, byref(device), None))
        self._device = device
        self._context = self._made("clCreateContext", None, 1, byref(device), None, None)
        self._queue = self._made("clCreateCommandQueue", self._context, device, c_ulong(0))
        self._kernel = self._made("clCreateKernel", self.build(), b"fill")
        self._buffer = self._made("clCreateBuffer", self._context, c_ulong(1), c_size_t(BYTES), None)
        self._host = (ctypes.c_char * BYTES)()
        self._size = c_size_t(64)
        self._number = c_int()
        self.set_arguments()

    def _made(self, name: str, *arguments: Any) -> c_void_p:
        error, call = c_int(), getattr(self._cl, name)
        call.restype = c_void_p
        made = call(*arguments, byref(error))
        check(error.value)
        return c_void_p(made)

    def build(self) -> c_void_p:
        """Build the program, which the platform has built before."""
        text = c_char_p(SOURCE)
        program = self._made("clCreateProgramWithSource", self._context, 1, byref(text), None)
        check(self._cl.clBuildProgram(program, 0, None, None, None, None))
        return program

    def set_arguments(self) -> None:
        """Set both arguments of the kernel."""
        check(self._cl.clSetKernelArg(self._kernel, 0, c_size_t(8), byref(self._buffer)))
        check(self._cl.clSetKernelArg(self._kernel, 1, c_size_t(4), byref(self._number)))

    def launch(self) -> None:
        """Enqueue the kernel for 64 work-items."""
        check(
            self._cl.clEnqueueNDRangeKernel(self._queue, self._kernel, 1, None, byref(self._size), None, 0, None, None)
        )

    def finish(self) -> None:
        """Wait for the queue."""
        check(self._cl.clFinish(self._queue))

    def launch_and_finish(self) -> None:
        """Launch one kernel and wait for it."""
        self.launch()
        self.finish()

    def batch(self) -> float:
        """Set an argument and launch, many times; return the seconds without the wait that follows."""
        before = time.perf_counter()
        for _ in range(BATCH):
            check(self._cl.clSetKernelArg(self._kernel, 1, c_size_t(4), byref(self._number)))
            self.launch()
        seconds = time.perf_counter() - before
        self.finish()
        return seconds / BATCH

    def query(self) -> float:
        """Return the seconds of a query of a kernel, without those of a call from Python."""
        value, size = c_uint(), c_size_t(4)
        ask, nothing = self._cl.clGetKernelInfo, self._cl.clReleaseDevice
        both = []
        for call, arguments in ((nothing, (self._device,)), (ask, (self._kernel, 0x1191, size, byref(value), None))):
            before = time.perf_counter()
            for _ in range(QUERIES):
                call(*arguments)
            both.append((time.perf_counter() - before) / QUERIES)
        return max(both[1] - both[0], 1e-9)

    def write(self) -> None:
        """Write the buffer."""
        check(
            self._cl.clEnqueueWriteBuffer(
                self._queue, self._buffer, 1, c_size_t(0), c_size_t(BYTES), self._host, 0, None, None
            )
        )

    def read(self) -> None:
        """Read the buffer."""
        check(
            self._cl.clEnqueueReadBuffer(
                self._queue, self._buffer, 1, c_size_t(0), c_size_t(BYTES), self._host, 0, None, None
            )
        )


def check(status: int) -> None:
    """Raise RuntimeError for an error code."""
    if status:
        raise RuntimeError(f"OpenCL error {status}")


def hosts(folder: Path) -> tuple[Host, Host | None]:
    """Return a program on this platform and one on pocl, or None without pocl."""
    from softcard.attach.opencl.library import build_library

    (folder / "softcard.icd").write_text(str(build_library().path))
    for each in VENDORS.glob("pocl*.icd"):
        (folder / each.name).write_bytes(each.read_bytes())
    os.environ["OCL_ICD_VENDORS"] = str(folder)
    os.environ["SOFTCARD_OPENCL_AGENTS"] = "gfx900"
    cl = ctypes.CDLL("libOpenCL.so.1")
    count = c_uint()
    check(cl.clGetPlatformIDs(0, None, byref(count)))
    found = (c_void_p * count.value)()
    check(cl.clGetPlatformIDs(count, found, None))
    made: dict[str, Host] = {}
    for each in found:
        text = ctypes.create_string_buffer(256)
        check(cl.clGetPlatformInfo(c_void_p(each), 0x0902, c_size_t(256), text, None))
        made[text.value.decode()] = Host(cl, c_void_p(each))
    return made[SOFTCARD], made.get(POCL)


def measure(quick: bool = False) -> list[Row]:
    rounds = 20 if quick else 200
    with tempfile.TemporaryDirectory() as folder:
        own, peer = hosts(Path(folder))

    def timed(action: Callable[[], object], times: int = 1) -> Callable[[], float]:
        def run() -> float:
            before = time.perf_counter()
            for _ in range(times):
                action()
            return (time.perf_counter() - before) / times

        return run

    def row(what: str, unit: str, sides: list[Callable[[], float]], target: float, count: int = rounds) -> Row:
        samples = alternate(count, *sides)
        scale = {"us": 1e6, "ms": 1e3}[unit]
        more: dict[str, Any] = {"target": target, "absolute": True}
        if len(samples) > 1:
            more |= {"peer_name": "pocl", "peer": samples[1].best * scale}
        return latency("opencl_platform", what, unit, samples[0], **more)

    def both(name: str) -> list[Callable[..., Any]]:
        return [getattr(each, name) for each in (own, peer) if each is not None]

    def bandwidth(what: str, name: str) -> Row:
        samples = [Samples(tuple(BYTES / each / 1e9 for each in side.seconds)) for side in
                   alternate(5 if quick else 20, *(timed(each) for each in both(name)))]  # fmt: skip
        best = [max(each.seconds) for each in samples]
        more = {"peer_name": "pocl", "peer": best[1], "target": 0.9} if len(best) > 1 else {}
        return Row("opencl_platform", what, "GB/s", best[0], samples[0].median, **more)

    return [
        row(
            "a launch of 64 work-items and clFinish", "us", [timed(each, 10) for each in both("launch_and_finish")], 40
        ),
        row(f"clSetKernelArg and a launch, {BATCH} in a batch, each", "us", both("batch"), 8),
        row("clGetKernelInfo", "us", both("query"), 0.1),
        row("building a program that was built before", "ms", [timed(each) for each in both("build")], 25, 5),
        bandwidth("writing 64 MiB", "write"),
        bandwidth("reading 64 MiB", "read"),
    ]


if __name__ == "__main__":
    main(measure, TITLE)
