"""Buffers, queues, events, programs and kernels, called without the C library."""

import threading

import numpy as np
import pytest

from softcard.core.space import host_address
from softcard.host.opencl import constants as cl
from softcard.host.opencl.errors import OpenClError
from softcard.host.opencl.events import Command, finish_all
from softcard.host.opencl.programs import file_with
from tests.host.opencl.program import Program, arguments, handle, value

SOURCE = b"""
kernel void scale(global int *a, int factor) { a[get_global_id(0)] *= factor; }
kernel void reverse(global int *a, local int *t) {
    int l = get_local_id(0), n = get_local_size(0);
    t[l] = a[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    a[get_global_id(0)] = t[n - 1 - l];
}
kernel void past(global int *a) { a[get_global_id(0) + 1] = 1; }
kernel void hello(int n) { printf("n=%d\\n", n); }
kernel void ids(global int *a) {
    a[get_global_id(1) * get_global_size(0) + get_global_id(0) - get_global_offset(0)] = get_global_id(0);
}
kernel __attribute__((reqd_work_group_size(8, 1, 1))) void eight(global int *a) {
    a[get_global_id(0)] = get_local_size(0);
}
kernel void follow(global long *p) { *(global int *)*p = 7; }
"""


def built(program, context, source=SOURCE, options=b""):
    made = program.call("clCreateProgramWithSource", context, source)
    program.call("clBuildProgram", made, None, options, (0, 0))
    return made


@pytest.fixture
def context(program):
    return program.context()


@pytest.fixture
def queue(program, context):
    return program.call("clCreateCommandQueue", context, program.devices[0], cl.QUEUE_PROFILING_ENABLE)


@pytest.fixture
def kernel(program, context):
    made = built(program, context)
    return lambda name: program.call("clCreateKernel", made, name.encode())


def launch(program, queue, kernel, block, size, local=None, offset=None, waits=None, event=(0, 0)):
    size = size if isinstance(size, tuple) else (size,)
    pad = lambda sizes: None if sizes is None else (*sizes, *(1,) * (3 - len(sizes)))  # noqa: E731
    start = None if offset is None else (*offset, *(0,) * (3 - len(offset)))
    program.call(
        "clEnqueueNDRangeKernel", queue, kernel, len(size), start, pad(size), pad(local), waits, block, event
    )  # fmt: skip


def read(program, queue, buffer, count, dtype=np.int32):
    found = np.empty(count, dtype)
    program.call("clEnqueueReadBuffer", queue, buffer, 1, 0, found.nbytes, host_address(found), None, (0, 0))
    return found


def test_kernels_run_in_the_order_of_their_queue(program, context, queue, kernel):
    a = np.arange(64, dtype=np.int32)
    buffer = program.buffer(context, a.nbytes, host=a)
    scale, reverse = kernel("scale"), kernel("reverse")
    launch(program, queue, scale, arguments(handle(buffer), value(np.int32(3).tobytes())), 64)
    launch(program, queue, reverse, arguments(handle(buffer), 64), 64, (16,))
    assert (read(program, queue, buffer, 64) == (a * 3).reshape(4, 16)[:, ::-1].ravel()).all()
    assert not program.shown


def test_offsets_and_two_dimensions(program, context, queue, kernel):
    buffer = program.buffer(context, 4 * 32)
    launch(program, queue, kernel("ids"), arguments(handle(buffer)), (8, 4), (4, 2), (100, 0))
    assert (read(program, queue, buffer, 32).reshape(4, 8) == np.arange(100, 108)).all()


def test_the_required_group_size_is_the_default(program, context, queue, kernel):
    buffer = program.buffer(context, 4 * 32)
    launch(program, queue, kernel("eight"), arguments(handle(buffer)), 32)
    assert (read(program, queue, buffer, 32) == 8).all()
    suggested = program.call(
        "clGetKernelSuggestedLocalWorkSize", queue, kernel("scale"), 2, None, (100, 7), 1
    )  # fmt: skip
    assert np.prod(suggested) <= 256
    assert all(size % part == 0 for size, part in zip((100, 7), suggested, strict=True))


def test_a_write_past_the_end_is_a_finding_and_the_run_goes_on(program, queue, kernel):
    context = queue.context
    context.notify = (0xF00, 0xDA7A)
    buffer = program.buffer(context, 256)
    launch(program, queue, kernel("past"), arguments(handle(buffer)), 64)
    assert (read(program, queue, buffer, 64)[1:] == 1).all()
    [found] = program.shown
    assert "past the end of buffer of 256 bytes" in found.message
    [(is_error, text)] = program.platform.take_texts()
    assert is_error
    assert b"<program 1>:9:59" in text
    settle(program)
    assert program.log == [("context", (0xF00, 0xDA7A), text.decode().strip())]


def test_printf_goes_to_the_program(program, queue, kernel):
    launch(program, queue, kernel("hello"), arguments(value(np.int32(42).tobytes())), 1)
    program.call("clFinish", queue)
    assert program.platform.take_texts() == [(False, b"n=42\n")]
    assert program.platform.take_texts() == []


def test_rectangles_copies_and_fills(program, context, queue):
    a = np.arange(6 * 8 * 4, dtype=np.uint8).reshape(6, 8, 4)
    one, other = program.buffer(context, a.nbytes, host=a), program.buffer(context, a.nbytes)
    program.call("clEnqueueFillBuffer", queue, other, b"\x07\x08", 0, a.nbytes, None, (0, 0))
    program.call(
        "clEnqueueCopyBufferRect", queue, one, other, (1, 2, 1), (0, 1, 3), (2, 3, 2), 4, 32, 4, 32, None, (0, 0)
    )  # fmt: skip
    expected = np.tile(np.array([7, 8], np.uint8), a.size // 2).reshape(a.shape)
    expected[3:5, 1:4, 0:2] = a[1:3, 2:5, 1:3]
    assert (read(program, queue, other, a.size, np.uint8) == expected.ravel()).all()
    host = np.zeros((4, 5, 3), np.uint8)
    program.call(
        "clEnqueueReadBufferRect", queue, one, 1, (0, 1, 2), (1, 2, 1), (2, 3, 2), 4, 32, 3, 15, host_address(host),
        None, (0, 0),
    )  # fmt: skip
    assert (host[1:3, 2:5, 1:3] == a[2:4, 1:4, 0:2]).all()
    assert host.astype(bool).sum() == np.count_nonzero(a[2:4, 1:4, 0:2])
    program.call(
        "clEnqueueWriteBufferRect", queue, one, 0, (2, 0, 0), (0, 0, 0), (1, 1, 1), 0, 0, 0, 0, host_address(host),
        None, (0, 0),
    )  # fmt: skip
    program.call("clEnqueueCopyBuffer", queue, one, one, 0, 100, 50, None, (0, 0))
    found = read(program, queue, one, a.size, np.uint8)
    assert found[2] == 0
    assert (found[100:150] == np.r_[a.ravel()[:2], 0, a.ravel()[3:50]]).all()


def test_sub_buffers_share_the_memory(program, context, queue, kernel):
    buffer = program.buffer(context, 1024, host=np.ones(256, np.int32))
    region = np.array([256, 512], np.uint64).tobytes()
    part = program.call("clCreateSubBuffer", buffer, 0, cl.BUFFER_CREATE_TYPE_REGION, region)
    launch(program, queue, kernel("scale"), arguments(handle(part), value(np.int32(5).tobytes())), 128)
    assert (read(program, queue, buffer, 256) == np.repeat([1, 5, 5, 1], 64)).all()
    info = lambda name: int.from_bytes(program.call("clGetMemObjectInfo", part, name), "little")  # noqa: E731
    assert info(cl.MEM_OFFSET) == 256
    assert info(cl.MEM_ASSOCIATED_MEMOBJECT) == buffer.handle


def test_memory_of_the_program_is_copied_when_it_is_mapped(program, context, queue, kernel):
    host = np.ones(64, np.int32)
    buffer = program.buffer(context, 256, cl.MEM_USE_HOST_PTR, host)
    launch(program, queue, kernel("scale"), arguments(handle(buffer), value(np.int32(5).tobytes())), 64)
    pointer, _, _ = program.call(
        "clEnqueueMapBuffer", queue, buffer, 1, cl.MAP_READ | cl.MAP_WRITE, 64, 128, None, (0, 0)
    )  # fmt: skip
    assert pointer == host_address(host) + 64
    assert (host == np.repeat([1, 5, 1], [16, 32, 16])).all()
    assert int.from_bytes(program.call("clGetMemObjectInfo", buffer, cl.MEM_MAP_COUNT), "little") == 1
    host[:] = 9
    program.call("clEnqueueUnmapMemObject", queue, buffer, pointer, None, (0, 0))
    assert (read(program, queue, buffer, 64) == np.repeat([5, 9, 5], [16, 32, 16])).all()


def test_shared_virtual_memory_has_the_programs_addresses(program, context, queue, kernel):
    pointer, _, _ = program.call("clSVMAlloc", context, cl.MEM_READ_WRITE, 4096, 0)
    outer, _, _ = program.call("clSVMAlloc", context, cl.MEM_SVM_FINE_GRAIN_BUFFER | cl.MEM_SVM_ATOMICS, 64, 64)
    program.call("clEnqueueSVMMemFill", queue, pointer, bytes(4), 4096, None, (0, 0))
    address = np.array([pointer + 16], np.uint64)
    program.call("clEnqueueSVMMemcpy", queue, 1, outer, host_address(address), 8, None, (0, 0))
    follow = kernel("follow")
    program.call("clSetKernelArgSVMPointer", follow, 0, outer)
    launch(program, queue, follow, arguments((4, int(outer).to_bytes(8, "little"))), 1)
    program.call("clEnqueueSVMMap", queue, 1, cl.MAP_READ, pointer, 64, None, (0, 0))
    assert program.platform.arena.bytes(pointer, 32).view(np.int32).tolist() == [0, 0, 0, 0, 7, 0, 0, 0]
    program.call("clEnqueueSVMUnmap", queue, pointer, None, (0, 0))
    buffer = program.call("clCreateBuffer", context, cl.MEM_USE_HOST_PTR, 32, pointer)
    assert read(program, queue, buffer, 8)[4] == 7
    assert program.call("clGetMemObjectInfo", buffer, cl.MEM_USES_SVM_POINTER) == b"\1\0\0\0"
    program.call("clEnqueueSVMMigrateMem", queue, (pointer,), (64,), 0, None, (0, 0))
    program.call("clEnqueueSVMFree", queue, (outer,), (0, 0), None, (0, 0))
    program.call("clEnqueueSVMFree", queue, (pointer,), (0xF, 1), None, (0, 0))
    program.call("clFinish", queue)
    assert program.log == [("free", (0xF, 1), queue.handle, (pointer,))]
    assert list(context.svm) == [pointer]


def test_memory_lives_as_long_as_its_commands(program, context, queue):
    buffer = program.buffer(context, 4096, host=np.ones(4096, np.uint8))
    program.call("clSetMemObjectDestructorCallback", buffer, (1, 11))
    program.call("clSetMemObjectDestructorCallback", buffer, (2, 22))
    gate = program.event()
    program.call("clCreateUserEvent", context, gate)
    event = program.platform.objects[gate[0]]
    found = np.zeros(4096, np.uint8)
    program.call("clEnqueueReadBuffer", queue, buffer, 0, 0, 4096, host_address(found), [event], (0, 0))
    program.platform.release(buffer.handle)
    program.forget(buffer.handle)
    assert not program.log
    program.call("clSetUserEventStatus", event, cl.COMPLETE)
    program.call("clFinish", queue)
    assert found.all()
    settle(program)
    assert program.log == [("object", (2, 22), buffer.handle), ("object", (1, 11), buffer.handle)]
    again = program.buffer(context, 4096)
    assert again.address == buffer.address
    assert not again.data.any()  # the pages were given back


def settle(program):
    done = threading.Event()
    program.platform.later(done.set)
    assert done.wait(10)


def test_events_have_states_times_and_callbacks(program, context, queue, kernel):
    gate, own = program.event(), program.event()
    program.call("clCreateUserEvent", context, gate)
    event = program.platform.objects[gate[0]]
    launch(
        program, queue, kernel("hello"), arguments(value(bytes(4))), 1, waits=[event], event=own
    )  # fmt: skip
    launched = program.platform.objects[own[0]]
    for wanted in (cl.COMPLETE, cl.RUNNING, cl.SUBMITTED):
        program.call("clSetEventCallback", launched, wanted, (wanted + 1, 0))
    queue.flush()
    assert launched.status == cl.QUEUED
    program.call("clSetUserEventStatus", event, cl.COMPLETE)
    program.call("clWaitForEvents", [launched])
    words = memoryview(program.slots).cast("q")[own[1] * 8 : own[1] * 8 + 6].tolist()
    assert words[0] == 1 << 32  # complete, with times
    assert 0 < words[1] <= words[2] <= words[3] <= words[4] <= words[5]
    settle(program)
    assert sorted(each[3] for each in program.log) == [cl.COMPLETE, cl.RUNNING, cl.SUBMITTED]


def test_a_failed_event_fails_the_commands_that_wait_for_it(program, context, queue):
    gate, own = program.event(), program.event()
    program.call("clCreateUserEvent", context, gate)
    event = program.platform.objects[gate[0]]
    program.call("clEnqueueMarkerWithWaitList", queue, [event], own)
    program.call("clSetUserEventStatus", event, -42)
    with pytest.raises(OpenClError, match="a command of the wait list has failed"):
        program.call("clWaitForEvents", [program.platform.objects[own[0]]])
    buffer = program.buffer(context, 64)
    found = np.zeros(64, np.uint8)
    with pytest.raises(OpenClError, match="the command did not run, since a command of its wait list has failed"):
        program.call("clEnqueueReadBuffer", queue, buffer, 1, 0, 64, host_address(found), [event], (0, 0))


@pytest.mark.parametrize("is_out_of_order", [False, True])
def test_an_out_of_order_queue_runs_what_is_ready(program, context, is_out_of_order):
    properties = cl.QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE if is_out_of_order else 0
    queue = program.call(
        "clCreateCommandQueueWithProperties", context, program.devices[0], (cl.QUEUE_PROPERTIES, properties)
    )
    gate = program.event()
    program.call("clCreateUserEvent", context, gate)
    event = program.platform.objects[gate[0]]
    order = []
    queue.enqueue(Command(queue, [event], None, lambda: order.append("gated")))
    queue.enqueue(Command(queue, None, None, lambda: order.append("free")))
    program.call("clEnqueueBarrier", queue)
    queue.enqueue(Command(queue, None, None, lambda: order.append("after")))
    queue.flush()
    threading.Timer(0.05, lambda: program.call("clSetUserEventStatus", event, cl.COMPLETE)).start()
    program.call("clFinish", queue)
    assert order == (["free", "gated", "after"] if is_out_of_order else ["gated", "free", "after"])


def test_queues_that_wait_for_each_other(program, context):
    one, other = (program.call("clCreateCommandQueue", context, program.devices[0], 0) for _ in range(2))
    events = [program.event() for _ in range(4)]
    order = []
    made = []
    for number, place in enumerate(events):
        queue = (one, other)[number % 2]
        event = queue.event(place)
        queue.enqueue(Command(queue, made[-1:], event, lambda number=number: order.append(number)))
        made.append(event)
    program.call("clFinish", other)
    assert order == [0, 1, 2, 3]


def test_programs_in_parts_and_their_binaries(program, context, queue):
    parts = []
    header = program.call("clCreateProgramWithSource", context, b"int twice(int);\n")
    for source in (
        b'#include "twice.h"\nkernel void k(global int *a) { *a = twice(21); }',
        b"int twice(int x) { return 2 * x; }",
    ):
        part = program.call("clCreateProgramWithSource", context, source)
        program.call("clCompileProgram", part, None, None, [header], [b"twice.h"], (0, 0))
        parts.append(part)
    library = program.call("clLinkProgram", context, None, b"-create-library", parts[1:], (0, 0))
    linked = program.call("clLinkProgram", context, None, None, [parts[0], library], (0, 0))
    binary = program.call("clGetProgramInfo", linked, cl.PROGRAM_BINARIES)[8:]
    assert binary.startswith(b"\x7fELF")
    again = program.call("clCreateProgramWithBinary", context, program.devices, [binary])
    program.call("clBuildProgram", again, None, None, (0, 0))
    buffer = program.buffer(context, 4)
    launch(program, queue, program.call("clCreateKernel", again, b"k"), arguments(handle(buffer)), 1)
    assert read(program, queue, buffer, 1) == 42
    kinds = [
        program.call("clGetProgramBuildInfo", each, program.devices[0], cl.PROGRAM_BINARY_TYPE)[0]
        for each in (*parts, library, linked)
    ]
    assert kinds == [1, 1, 2, 4]
    halves = program.call(
        "clCreateProgramWithBinary", context, program.devices, [parts[0].builds[program.devices[0]].binary]
    )
    assert halves.builds[program.devices[0]].type == cl.PROGRAM_BINARY_TYPE_COMPILED_OBJECT


def test_the_log_names_the_mistake(program, context):
    wrong = program.call("clCreateProgramWithSource", context, b"kernel void k(global int *a) { *a = b; }")
    with pytest.raises(OpenClError, match="building failed: see CL_PROGRAM_BUILD_LOG") as caught:
        program.call("clBuildProgram", wrong, None, b"-DX=1", (0, 0))
    assert caught.value.status == cl.BUILD_PROGRAM_FAILURE
    log = program.call("clGetProgramBuildInfo", wrong, program.devices[0], cl.PROGRAM_BUILD_LOG)
    assert b"<program 1>:1:37: error: use of undeclared identifier 'b'" in log
    assert program.call("clGetProgramBuildInfo", wrong, program.devices[0], cl.PROGRAM_BUILD_OPTIONS) == b"-DX=1\0"
    linked = program.call("clCreateProgramWithSource", context, b"void f(void); kernel void k() { f(); }")
    program.call("clCompileProgram", linked, None, None, None, None, (0, 0))
    failed = program.call("clLinkProgram", context, None, None, [linked], (0, 0))
    assert b"undefined" in program.call("clGetProgramBuildInfo", failed, program.devices[0], cl.PROGRAM_BUILD_LOG)


def test_building_calls_back(program, context):
    made = program.call("clCreateProgramWithSource", context, SOURCE)
    done = threading.Event()
    program.call_built = lambda callback, handle: (program.log.append((callback, handle)), done.set())
    program.call("clBuildProgram", made, None, None, (5, 6))
    assert done.wait(60)
    assert program.log == [((5, 6), made.handle)]
    assert made.builds[program.devices[0]].status == cl.BUILD_SUCCESS


def test_kernels_tell_about_themselves(program, context, kernel):
    scale, eight = kernel("scale"), kernel("eight")
    ask = lambda name: program.call("clGetKernelInfo", scale, name)  # noqa: E731
    assert ask(cl.KERNEL_FUNCTION_NAME) == b"scale\0"
    assert ask(cl.KERNEL_NUM_ARGS) == b"\2\0\0\0"
    group = program.call("clGetKernelWorkGroupInfo", eight, None, cl.KERNEL_COMPILE_WORK_GROUP_SIZE)
    assert np.frombuffer(group, np.uint64).tolist() == [8, 1, 1]
    sub = program.call(
        "clGetKernelSubGroupInfo",
        scale,
        None,
        cl.KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE,
        np.array([100, 2], np.uint64).tobytes(),
    )
    assert int.from_bytes(sub, "little") == 4
    made = built(
        program,
        context,
        b"kernel void k(global const int *restrict in, local float *t, int4 v) {}",
        b"-cl-kernel-arg-info",
    )
    k = program.call("clCreateKernel", made, b"k")
    about = lambda index, name: program.call("clGetKernelArgInfo", k, index, name)  # noqa: E731
    assert [about(n, cl.KERNEL_ARG_NAME) for n in range(3)] == [b"in\0", b"t\0", b"v\0"]
    assert [about(n, cl.KERNEL_ARG_TYPE_NAME) for n in range(3)] == [b"int*\0", b"float*\0", b"int4\0"]
    spaces = [int.from_bytes(about(n, cl.KERNEL_ARG_ADDRESS_QUALIFIER), "little") for n in range(3)]
    assert spaces == [cl.KERNEL_ARG_ADDRESS_GLOBAL, cl.KERNEL_ARG_ADDRESS_LOCAL, cl.KERNEL_ARG_ADDRESS_PRIVATE]
    assert (
        int.from_bytes(about(0, cl.KERNEL_ARG_TYPE_QUALIFIER), "little")
        == cl.KERNEL_ARG_TYPE_CONST | cl.KERNEL_ARG_TYPE_RESTRICT
    )


def test_a_clone_is_a_kernel_of_its_own(program, queue, kernel):
    scale = kernel("scale")
    clone = program.call("clCloneKernel", scale)
    assert (clone.name, clone.program) == (scale.name, scale.program)


def test_native_kernels_get_addresses_for_handles(program, context, queue):
    buffer = program.buffer(context, 64)
    data = b"12345678" + bytes(8)
    program.call("clEnqueueNativeKernel", queue, 0xF, data, [buffer], (8,), None, (0, 0))
    program.call("clFinish", queue)
    assert program.log == [("native", 0xF, b"12345678" + int(buffer.address).to_bytes(8, "little"))]


def test_contexts_and_queues_tell_about_themselves(program, context, queue):
    ask = lambda name: int.from_bytes(program.call("clGetContextInfo", context, name), "little")  # noqa: E731
    assert ask(cl.CONTEXT_NUM_DEVICES) == 1
    assert ask(cl.CONTEXT_DEVICES) == program.devices[0].handle
    assert program.call("clGetContextInfo", context, cl.CONTEXT_PROPERTIES) == b""
    ask = lambda name: int.from_bytes(program.call("clGetCommandQueueInfo", queue, name), "little")  # noqa: E731
    assert (ask(cl.QUEUE_CONTEXT), ask(cl.QUEUE_DEVICE)) == (context.handle, program.devices[0].handle)
    assert ask(cl.QUEUE_PROPERTIES) == cl.QUEUE_PROFILING_ENABLE
    assert ask(cl.QUEUE_DEVICE_DEFAULT) == 0
    assert program.call("clSetCommandQueueProperty", queue, cl.QUEUE_PROFILING_ENABLE, 0) == (
        cl.QUEUE_PROFILING_ENABLE,
    )
    assert not queue.is_profiling
    program.call("clSetContextDestructorCallback", context, (1, 2))
    program.forget(context.handle)
    settle(program)
    assert program.log == [("object", (1, 2), context.handle)]


def test_a_source_is_found_in_the_programs_folder(tmp_path):
    (tmp_path / "kernels" / "deep").mkdir(parents=True)
    (tmp_path / "other.cl").write_bytes(b"kernel void a() {}")
    (tmp_path / "kernels" / "deep" / "mine.cl").write_bytes(b"kernel void b() {}")
    assert file_with(b"kernel void b() {}", tmp_path) == ("kernels/deep/mine.cl", 1)
    assert file_with(b"kernel void c() {}", tmp_path) == ("", 0)


def test_several_devices_share_a_buffer():
    program = Program("gfx900", "gfx803")
    context = program.context()
    made = built(program, context)
    kernel = program.call("clCreateKernel", made, b"scale")
    buffer = program.buffer(context, 256, host=np.ones(64, np.int32))
    for device in program.devices:
        queue = program.call("clCreateCommandQueue", context, device, 0)
        launch(program, queue, kernel, arguments(handle(buffer), value(np.int32(3).tobytes())), 64)
        program.call("clFinish", queue)
    assert (read(program, queue, buffer, 64) == 9).all()
    program.close()


def test_mistakes_with_mapped_regions_are_warned_of_once(program, context, queue, kernel):
    buffer = program.buffer(context, 256, host=np.ones(64, np.int32))
    mapped = lambda flags, offset: program.call(  # noqa: E731
        "clEnqueueMapBuffer", queue, buffer, 1, flags, offset, 64, None, (0, 0)
    )[0]
    first, apart = mapped(cl.MAP_READ, 0), mapped(cl.MAP_READ, 32)
    assert not program.shown
    mapped(cl.MAP_WRITE, 48)
    mapped(cl.MAP_WRITE, 128)
    block = arguments(handle(buffer), value(np.int32(5).tobytes()))
    for _ in range(2):
        launch(program, queue, kernel("scale"), block, 64)
    assert [each.message for each in program.shown] == [
        "two mapped regions of the buffer of 256 bytes overlap, and one of them is mapped for writing",
        "kernel scale uses the buffer of 256 bytes while the program has mapped it for writing",
    ]
    assert first != apart


def test_a_store_to_a_read_only_buffer_takes_effect_and_is_reported(program, context, queue, kernel):
    buffer = program.buffer(context, 256, cl.MEM_READ_ONLY)
    place = program.event()
    for _ in range(2):
        launch(program, queue, kernel("eight"), arguments(handle(buffer)), 8, event=place)
    program.call("clFinish", queue)
    assert program.platform.objects[place[0]].status == cl.COMPLETE
    assert buffer.data.view(np.int32)[:9].tolist() == [8] * 8 + [0]
    [found] = program.shown
    assert (found.check, found.message) == (
        "opencl/read-only-written", "kernel eight has stored to the buffer of 256 bytes (CL_MEM_READ_ONLY)"
    )  # fmt: skip


def test_the_check_for_leaks_names_what_was_not_released():
    program = Program(check="memory,leaks")
    context = program.context()
    buffers = [program.buffer(context, 4) for _ in range(3)]
    program.forget(buffers[0].handle)
    program.platform.report_leaks()
    assert [each.message for each in program.shown] == [
        "the program has ended without releasing 1 context, 2 memory objects"
    ]
    program.close()


def test_the_end_of_the_program_ends_commands_that_wait_for_the_user(program, context, queue):
    gate = program.event()
    program.call("clCreateUserEvent", context, gate)
    event = program.platform.objects[gate[0]]
    program.call("clEnqueueMarkerWithWaitList", queue, [event], (0, 0))
    queue.enqueue(Command(queue, None, None, lambda: program.log.append("after")))
    finish_all(program.platform)
    assert program.log == ["after"]
    assert [each.message for each in program.shown] == [
        "1 command waited for user events whose status the program has never set"
    ]


def test_attributes_of_a_kernel_are_those_of_its_source(program, context):
    source = b"""
    kernel __attribute__((vec_type_hint(uchar3))) __attribute__((work_group_size_hint(8, 2, 1))) void hints() {}
    kernel __attribute__((vec_type_hint(float4))) __attribute__((reqd_work_group_size(4, 1, 1))) void sized() {}
    """
    made = built(program, context, source)
    attributes = {
        name: program.call("clGetKernelInfo", program.call("clCreateKernel", made, name), cl.KERNEL_ATTRIBUTES)
        for name in (b"hints", b"sized")
    }
    assert attributes == {
        b"hints": b"vec_type_hint(uchar3) work_group_size_hint(8,2,1)\0",
        b"sized": b"vec_type_hint(float4) reqd_work_group_size(4,1,1)\0",
    }


def test_a_bug_in_a_command_does_not_block_the_queue(program, context, queue):
    """The event fails, a report names the bug, and the next command runs."""
    places = [program.event() for _ in range(2)]
    wrong = [lambda: 1 // 0, lambda: None]
    for place, action, after in zip(places, wrong, wrong[::-1], strict=True):
        queue.enqueue(Command(queue, None, queue.event(place), action, after=after))
    queue.enqueue(Command(queue, None, None, lambda: program.log.append("next")))
    program.call("clFinish", queue)
    assert program.log == ["next"]
    assert [program.platform.objects[handle].status for handle, _ in places] == [cl.OUT_OF_RESOURCES] * 2
    assert all("ZeroDivisionError" in each.message for each in program.shown)
    assert len(program.shown) == 2


def test_a_program_with_pending_launches_is_not_built_again(program, context, queue, kernel):
    gate = program.event()
    program.call("clCreateUserEvent", context, gate)
    event = program.platform.objects[gate[0]]
    scale = kernel("scale")
    buffer = program.buffer(context, 256, host=np.ones(64, np.int32))
    block = arguments(handle(buffer), value(np.int32(3).tobytes()))
    launch(program, queue, scale, block, 64, waits=[event])
    program.forget(scale.handle)
    with pytest.raises(OpenClError, match="launches of the program have not ended: wait for them before you build it"):
        program.call("clBuildProgram", scale.program, None, None, (0, 0))
    program.call("clSetUserEventStatus", event, cl.COMPLETE)
    assert (read(program, queue, buffer, 64) == 3).all()
    program.call("clBuildProgram", scale.program, None, None, (0, 0))


def test_a_source_may_be_empty(program, context):
    made = program.call("clCreateProgramWithSource", context, b"")
    program.call("clBuildProgram", made, None, None, (0, 0))
    assert program.call("clGetProgramInfo", made, cl.PROGRAM_NUM_KERNELS) == bytes(8)


def test_a_region_that_could_not_be_mapped_is_not_mapped(program, context, queue):
    gate = program.event()
    program.call("clCreateUserEvent", context, gate)
    event = program.platform.objects[gate[0]]
    program.call("clSetUserEventStatus", event, -5)
    buffer = program.buffer(context, 256)
    with pytest.raises(OpenClError, match="the command did not run"):
        program.call("clEnqueueMapBuffer", queue, buffer, 1, cl.MAP_READ, 0, 64, [event], (0, 0))
    assert not buffer.maps
