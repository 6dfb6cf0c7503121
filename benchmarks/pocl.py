"""OpenCL C on the CPU through the OpenCL platform that is installed (pocl): a peer for the GCN benchmarks."""

from __future__ import annotations

import ctypes
import ctypes.util
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulong, c_void_p
from typing import Any, Final

import numpy as np

DEFAULT_DEVICE: Final = 1
USE_HOST_POINTER: Final = 1 << 3 | 1
BUILD_LOG: Final = 0x1183
VERSION: Final = 0x0901
NAME: Final = 0x0902


class Absent(Exception):
    """There is no OpenCL platform."""


class OpenCl:
    """One device, one queue, one program."""

    def __init__(self, source: str, options: str = "") -> None:
        name = ctypes.util.find_library("OpenCL") or "libOpenCL.so.1"
        try:
            self._cl: Any = ctypes.CDLL(name)
        except OSError as error:
            raise Absent(str(error)) from error
        count, self._platform, self._device = c_uint(), c_void_p(), c_void_p()
        if self._cl.clGetPlatformIDs(1, byref(self._platform), byref(count)) or not count.value:
            raise Absent("no OpenCL platform")
        self._check(self._cl.clGetDeviceIDs(self._platform, c_ulong(DEFAULT_DEVICE), 1, byref(self._device), None))
        self._context = self._made("clCreateContext", None, 1, byref(self._device), None, None)
        self._queue = self._made("clCreateCommandQueue", self._context, self._device, c_ulong(0))
        text = c_char_p(source.encode())
        self._program = self._made("clCreateProgramWithSource", self._context, 1, byref(text), None)
        built = self._cl.clBuildProgram(self._program, 1, byref(self._device), options.encode(), None, None)
        if built:
            log = ctypes.create_string_buffer(1 << 16)
            self._cl.clGetProgramBuildInfo(self._program, self._device, BUILD_LOG, c_size_t(len(log)), log, None)
            raise RuntimeError(log.value.decode())

    @property
    def platform(self) -> str:
        """Name and version."""
        parts = []
        for what in (NAME, VERSION):
            text = ctypes.create_string_buffer(256)
            self._cl.clGetPlatformInfo(self._platform, what, c_size_t(256), text, None)
            parts.append(text.value.decode())
        return " ".join(parts)

    def run(self, kernel: str, grid: tuple[int, ...], group: tuple[int, ...], *arguments: Any) -> Any:
        """Prepare a launch; the result runs it and waits. Arguments: arrays, shared without copies, and np.uint32."""
        made = self._made("clCreateKernel", self._program, kernel.encode())
        kept: list[Any] = []
        for index, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                size, place = c_size_t(argument.nbytes), c_void_p(argument.ctypes.data)
                value: Any = self._made("clCreateBuffer", self._context, c_ulong(USE_HOST_POINTER), size, place)
            else:
                value = c_uint(int(argument))
            kept += [argument, value]
            self._check(self._cl.clSetKernelArg(made, index, c_size_t(ctypes.sizeof(value)), byref(value)))
        dimensions = len(grid)
        sizes, groups = (c_size_t * dimensions)(*grid), (c_size_t * dimensions)(*group)

        def launch(keep: Any = kept) -> None:
            self._check(
                self._cl.clEnqueueNDRangeKernel(self._queue, made, dimensions, None, sizes, groups, 0, None, None)
            )
            self._check(self._cl.clFinish(self._queue))

        return launch

    def _made(self, function: str, *arguments: Any) -> c_void_p:
        """Call a function that makes something and tells its error by pointer."""
        error = c_int()
        call = getattr(self._cl, function)
        call.restype = c_void_p
        made = call(*arguments, byref(error))
        self._check(error.value)
        return c_void_p(made)

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"OpenCL error {status}")
