"""The least of OpenCL's host interface through ctypes, to run the same sources on the CPU (pocl)."""

import ctypes
import functools

import numpy as np
import pytest

from tests.gcn_kernels.bench import Case, In, Local, Out
from tests.gcn_kernels.toolchain import SOURCES

DEVICE_TYPE_CPU = 2
COPY, READ_WRITE = 1 << 5, 1
BUILD_LOG = 0x1183
Pointer = ctypes.c_void_p


@functools.cache
def library() -> ctypes.CDLL:
    """libOpenCL with a CPU device behind it; skips the test where there is none."""
    try:
        lib = ctypes.CDLL("libOpenCL.so.1")
    except OSError:
        pytest.skip("libOpenCL.so.1 is not installed")
    for name in (
        "clCreateContext",
        "clCreateCommandQueue",
        "clCreateProgramWithSource",
        "clCreateKernel",
        "clCreateBuffer",
    ):
        getattr(lib, name).restype = Pointer
    return lib


@functools.cache
def device() -> Pointer:
    platforms, count = (Pointer * 8)(), ctypes.c_uint()
    if library().clGetPlatformIDs(8, platforms, ctypes.byref(count)) != 0 or not count.value:
        pytest.skip("no OpenCL platform is installed")
    for platform in platforms[: count.value]:
        found = Pointer()
        if (
            library().clGetDeviceIDs(Pointer(platform), ctypes.c_ulong(DEVICE_TYPE_CPU), 1, ctypes.byref(found), None)
            == 0
        ):
            return found
    pytest.skip("no OpenCL platform has a CPU")


@functools.cache
def context() -> Pointer:
    error = ctypes.c_int()
    made = Pointer(library().clCreateContext(None, 1, ctypes.byref(device()), None, None, ctypes.byref(error)))
    assert error.value == 0, f"clCreateContext: {error.value}"
    return made


@functools.cache
def queue() -> Pointer:
    error = ctypes.c_int()
    made = Pointer(library().clCreateCommandQueue(context(), device(), ctypes.c_ulong(0), ctypes.byref(error)))
    assert error.value == 0, f"clCreateCommandQueue: {error.value}"
    return made


@functools.cache
def program(source: str) -> Pointer:
    """A source file built for the device."""
    lib, error = library(), ctypes.c_int()
    text = (SOURCES / source).read_bytes()
    made = Pointer(
        lib.clCreateProgramWithSource(
            context(),
            1,
            ctypes.byref(ctypes.c_char_p(text)),
            ctypes.byref(ctypes.c_size_t(len(text))),
            ctypes.byref(error),
        )
    )
    assert error.value == 0, f"clCreateProgramWithSource: {error.value}"
    options = f"-I {SOURCES} -cl-std=CL1.2".encode()
    if lib.clBuildProgram(made, 1, ctypes.byref(device()), options, None, None) != 0:
        log = ctypes.create_string_buffer(1 << 16)
        lib.clGetProgramBuildInfo(made, device(), BUILD_LOG, ctypes.c_size_t(len(log)), log, None)
        raise AssertionError(f"{source}: {log.value.decode(errors='replace')[-3000:]}")
    return made


def run(what: Case) -> list[np.ndarray]:
    """All buffers after a run of a case, in the order of the arguments."""
    lib, error = library(), ctypes.c_int()
    kernel = Pointer(lib.clCreateKernel(program(what.source), what.kernel.encode(), ctypes.byref(error)))
    assert error.value == 0, f"clCreateKernel({what.kernel}): {error.value}"
    buffers: list[tuple[Pointer, np.ndarray]] = []
    for number, argument in enumerate(what.arguments()):
        if isinstance(argument, Local):
            _ok(lib.clSetKernelArg(kernel, number, ctypes.c_size_t(argument.size), None))
        elif isinstance(argument, In | Out):
            data = _initial(argument)
            handle = Pointer(
                lib.clCreateBuffer(
                    context(),
                    ctypes.c_ulong(READ_WRITE | COPY),
                    ctypes.c_size_t(data.nbytes),
                    _address(data),
                    ctypes.byref(error),
                )
            )
            assert error.value == 0, f"clCreateBuffer: {error.value}"
            _ok(lib.clSetKernelArg(kernel, number, ctypes.c_size_t(8), ctypes.byref(handle)))
            buffers.append((handle, data))
        else:
            raw = argument.tobytes()
            _ok(lib.clSetKernelArg(kernel, number, ctypes.c_size_t(len(raw)), raw))
    sizes = ctypes.c_size_t * 3
    _ok(lib.clEnqueueNDRangeKernel(queue(), kernel, 3, None, sizes(*what.grid), sizes(*what.group), 0, None, None))
    for handle, data in buffers:
        nothing = ctypes.c_size_t(0)
        _ok(
            lib.clEnqueueReadBuffer(
                queue(), handle, 1, nothing, ctypes.c_size_t(data.nbytes), _address(data), 0, None, None
            )
        )
        lib.clReleaseMemObject(handle)
    return [data for _, data in buffers]


def _initial(argument: In | Out) -> np.ndarray:
    if isinstance(argument, In):
        return np.frombuffer(bytearray(argument.data.tobytes()), argument.data.dtype).reshape(argument.data.shape)
    if argument.initial is not None:
        return argument.initial.copy()
    return np.zeros_like(argument.expected)


def _address(data: np.ndarray) -> Pointer:
    return Pointer(data.ctypes.data)


def _ok(status: int) -> None:
    assert status == 0, f"OpenCL error {status}"
