"""The C library in a program that loads it without a loader."""

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from softcard.attach.opencl.library import build_library
from softcard.attach.opencl.server import gpu_options

PRELUDE = """
import ctypes, os, signal, sys, threading, time
library = ctypes.CDLL(sys.argv[1])
library.clGetExtensionFunctionAddress.restype = ctypes.c_void_p
P, N, I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int

class Function:
    def __getattr__(self, name):
        address = library.clGetExtensionFunctionAddress(name.encode())
        made_here = name.startswith(("clCreate", "clEnqueueMap", "clSVMAlloc", "clClone", "clLink"))
        def call(*arguments):
            kinds = [each if isinstance(each, (ctypes._SimpleCData, ctypes.Array, ctypes._CFuncPtr)) or each is None
                     or isinstance(each, (bytes, type(ctypes.byref(I())))) else N(each) for each in arguments]
            return ctypes.CFUNCTYPE(P if made_here else I)(address)(*kinds)
        setattr(self, name, call)
        return call

cl = Function()
platform, device, status = P(), P(), I()
assert library.clIcdGetPlatformIDsKHR(1, ctypes.byref(platform), None) == 0
assert cl.clGetDeviceIDs(platform, 4, 1, ctypes.byref(device), None) == 0

def new(name, *arguments):
    made = getattr(cl, name)(*arguments, ctypes.byref(status))
    assert made and not status.value, (name, status.value)
    return P(made)

def ask(name, handle, query, kind=I):
    value = kind()
    assert getattr(cl, name)(handle, query, ctypes.sizeof(value), ctypes.byref(value), None) == 0
    return value.value

context = new("clCreateContext", None, 1, ctypes.byref(device), None, None)
queue = new("clCreateCommandQueue", context, device, 0)
SOURCE = b"kernel void fill(global int *a, int n) { a[get_global_id(0)] = n; }"

def kernel_of(context):
    text = ctypes.c_char_p(SOURCE)
    program = new("clCreateProgramWithSource", context, 1, ctypes.byref(text), None)
    assert cl.clBuildProgram(program, 0, None, None, None, None) == 0
    return new("clCreateKernel", program, b"fill")

def launch(queue, kernel, buffer, number, size=64, event=None):
    handle, n = P(buffer.value), I(number)
    assert cl.clSetKernelArg(kernel, 0, 8, ctypes.byref(handle)) == 0
    assert cl.clSetKernelArg(kernel, 1, 4, ctypes.byref(n)) == 0
    return cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ctypes.byref(N(size)), None, 0, None, event)

def kill_server():
    for each in os.listdir("/proc"):
        try:
            words = open(f"/proc/{each}/cmdline").read().split("\\0")
            owner = open(f"/proc/{each}/environ").read().split("\\0")
        except OSError:
            continue
        if "softcard.attach.opencl.server" in words and f"TEST_MARK={os.environ['TEST_MARK']}" in owner:
            os.kill(int(each), signal.SIGKILL)

def read(queue, buffer, count=64):
    found = (I * count)()
    assert cl.clEnqueueReadBuffer(queue, buffer, 1, 0, 4 * count, found, 0, None, None) == 0
    return list(found)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("library")).path


def run(library: Path, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    text = PRELUDE + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-c", text, str(library)],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "SOFTCARD_OPENCL_AGENTS": "gfx900", **environment},
    )  # fmt: skip


def check(library: Path, program: str, **environment: str) -> str:
    done = run(library, program, **environment)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_loader_finds_the_two_functions(library: Path) -> None:
    loaded = ctypes.CDLL(str(library))
    count = ctypes.c_uint()
    assert loaded.clIcdGetPlatformIDsKHR(0, None, ctypes.byref(count)) == 0
    assert count.value == 1
    loaded.clGetExtensionFunctionAddress.restype = ctypes.c_void_p
    assert loaded.clGetExtensionFunctionAddress(b"clGetPlatformInfo")
    assert not loaded.clGetExtensionFunctionAddress(b"clNothing")


def test_handles_are_checked_and_counted(library: Path) -> None:
    check(
        library,
        """
        buffer = new("clCreateBuffer", context, 1, 256, None)
        assert ask("clGetMemObjectInfo", buffer, 0x1105) == 1  # the reference count
        assert cl.clRetainMemObject(buffer) == 0
        assert ask("clGetMemObjectInfo", buffer, 0x1105) == 2
        assert ask("clGetContextInfo", context, 0x1080) == 1  # a buffer does not count
        for each in (P(None), context, device, platform):
            assert cl.clRetainMemObject(each) == -38
        assert cl.clReleaseMemObject(buffer) == cl.clReleaseMemObject(buffer) == 0
        for name, *rest in (("clReleaseMemObject",), ("clGetMemObjectInfo", 0x1102, 0, None, None)):
            assert getattr(cl, name)(buffer, *rest) == -38
        # An object lives as long as one that was made from it, also for its handle.
        sub = new("clCreateContext", None, 1, ctypes.byref(device), None, None)
        other = new("clCreateCommandQueue", sub, device, 0)
        assert cl.clReleaseContext(sub) == 0
        assert ask("clGetCommandQueueInfo", other, 0x1090, P) == sub.value
        assert ask("clGetContextInfo", sub, 0x1080) == 0
        assert new("clCreateBuffer", sub, 1, 4, None)
        assert cl.clReleaseCommandQueue(other) == 0
        """,
    )


def test_launches_and_callbacks(library: Path) -> None:
    check(
        library,
        """
        kernel, buffer = kernel_of(context), new("clCreateBuffer", context, 1, 256, None)
        for number in range(5):  # the first one is checked by the server, the others are like it
            assert launch(queue, kernel, buffer, number) == 0
            assert read(queue, buffer) == [number] * 64
        called = threading.Event()
        @ctypes.CFUNCTYPE(None, P, I, P)
        def notify(event, status, data):
            assert (status, data) == (0, 0x1234)
            assert ask("clGetEventInfo", P(event), 0x11D3) == 0  # a callback may call OpenCL
            called.set()
        event = P()
        assert launch(queue, kernel, buffer, 7, event=ctypes.byref(event)) == 0
        assert cl.clSetEventCallback(event, 0, notify, P(0x1234)) == 0
        assert cl.clFlush(queue) == 0
        assert called.wait(60)
        assert ask("clGetEventInfo", event, 0x11D1) == 0x11F0
        assert cl.clWaitForEvents(1, ctypes.byref(event)) == 0
        clone = new("clCloneKernel", kernel)
        assert cl.clEnqueueNDRangeKernel(queue, clone, 1, None, ctypes.byref(N(32)), None, 0, None, None) == 0
        assert read(queue, buffer) == [7] * 64
        """,
    )


def test_the_event_of_a_blocking_call_is_complete(library: Path) -> None:
    check(
        library,
        """
        buffer, event = new("clCreateBuffer", context, 1, 256, None), P()
        found = (I * 64)()
        for _ in range(200):
            assert cl.clEnqueueReadBuffer(queue, buffer, 1, 0, 256, found, 0, None, ctypes.byref(event)) == 0
            assert ask("clGetEventInfo", event, 0x11D3) == 0
            assert cl.clReleaseEvent(event) == 0
        for name in (b"clCreateFromGLBuffer", b"clCreateEventFromGLsyncKHR"):
            assert not library.clGetExtensionFunctionAddress(name)
        """,
    )


def test_a_program_lives_until_its_callback(library: Path) -> None:
    check(
        library,
        """
        called = threading.Event()
        @ctypes.CFUNCTYPE(None, P, P)
        def notify(program, data):
            assert data == 0x99
            assert ask("clGetProgramInfo", P(program), 0x1162) == 1  # the number of devices
            called.set()
        text = ctypes.c_char_p(SOURCE)
        program = new("clCreateProgramWithSource", context, 1, ctypes.byref(text), None)
        assert cl.clBuildProgram(program, 0, None, None, notify, P(0x99)) == 0
        assert cl.clReleaseProgram(program) == 0
        assert called.wait(60)
        """,
    )


def test_threads_share_a_queue(library: Path) -> None:
    check(
        library,
        """
        buffer = new("clCreateBuffer", context, 1, 4 * 64, None)
        wrong = []
        def work(number):
            try:
                kernel = kernel_of(context)
                mine = new("clCreateBuffer", context, 1, 256, None)
                for turn in range(25):
                    assert launch(queue, kernel, mine, number * 100 + turn) == 0
                    assert read(queue, mine) == [number * 100 + turn] * 64
            except BaseException as error:
                wrong.append(error)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for each in threads: each.start()
        for each in threads: each.join()
        assert not wrong, wrong
        """,
    )


def test_a_child_process_has_a_server_of_its_own(library: Path) -> None:
    check(
        library,
        """
        kernel, buffer = kernel_of(context), new("clCreateBuffer", context, 1, 256, None)
        assert launch(queue, kernel, buffer, 1) == 0
        child = os.fork()
        if not child:
            try:
                assert launch.__code__ and cl.clFinish(queue) == -36  # the parent's objects are not the child's
                own = new("clCreateContext", None, 1, ctypes.byref(device), None, None)
                line = new("clCreateCommandQueue", own, device, 0)
                mine = new("clCreateBuffer", own, 1, 256, None)
                assert launch(line, kernel_of(own), mine, 2) == 0
                assert read(line, mine) == [2] * 64
            except BaseException:
                import traceback; traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert read(queue, buffer) == [1] * 64
        """,
    )


def test_a_server_that_ends_is_an_error_code(library: Path) -> None:
    text = check(
        library,
        """
        buffer = new("clCreateBuffer", context, 1, 256, None)
        kill_server()
        assert cl.clFinish(queue) == -5
        assert cl.clFinish(queue) == -5
        assert cl.clReleaseMemObject(buffer) == 0
        """,
        TEST_MARK="42",
    )
    assert text.count("error: the OpenCL server has ended") == 1
    assert "help: read the error above, and start this program again" in text


def test_a_program_that_is_killed_leaves_nothing(library: Path) -> None:
    done = run(library, "os.kill(os.getpid(), signal.SIGKILL)", TEST_MARK="43")
    assert done.returncode == -signal.SIGKILL
    # The standard error of the server is that of the program: `run` has waited for its end.
    assert not done.stderr


def test_a_kernel_may_run_for_any_number_of_instructions() -> None:
    """As for the GPUs of ROCm programs, only the time limit ends a kernel."""
    options = gpu_options({"SOFTCARD_OPENCL_ENGINE": "reference"})
    assert (options["step_limit"], options["engine"], options["check"]) == (None, "reference", "memory")
    assert gpu_options({"SOFTCARD_CHECK": ""})["check"] == ""


def test_mistakes_in_the_environment_are_named(library: Path) -> None:
    done = run(library, "", SOFTCARD_OPENCL_AGENTS="gfx900,gfx000")
    assert "SOFTCARD_OPENCL_AGENTS names the unknown processor gfx000" in done.stderr
    done = run(library, "", SOFTCARD_OPENCL_PYTHON="/nowhere/python")
    assert "cannot start the OpenCL server with /nowhere/python (No such file or directory)" in done.stderr
    assert "the OpenCL server did not start" in done.stderr
    done = run(library, "", SOFTCARD_CHECK="nonsense")
    assert "nonsense" in done.stderr
