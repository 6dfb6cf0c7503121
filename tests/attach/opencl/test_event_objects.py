"""Events in the C library: their callbacks, their release before the end of their commands, and a server that ends."""

from tests.attach.opencl.test_library import check, library

__all__ = ["library"]
MARKERS = """
def marker(queue, *waits):
    event = P()
    handles = (P * len(waits))(*waits) if waits else None
    assert cl.clEnqueueMarkerWithWaitList(queue, len(waits), handles, ctypes.byref(event)) == 0
    return event

def status_of(event):
    return ask("clGetEventInfo", event, 0x11D3)

def wait(is_done):
    for _ in range(6000):
        if is_done(): return True
        time.sleep(0.01)
"""


def test_a_callback_may_call_and_its_event_may_be_released_before(library) -> None:
    check(
        library,
        MARKERS
        + """
gate, called = new("clCreateUserEvent", context), []
@ctypes.CFUNCTYPE(None, P, I, P)
def notify(event, status, data):
    called.append(ask("clGetEventInfo", P(event), 0x11D1))
    assert cl.clFlush(queue) == 0
for _ in range(3):
    event = marker(queue, gate)
    assert cl.clSetEventCallback(event, 0, notify, None) == 0
    assert cl.clSetEventCallback(event, 7, notify, None) == -30
    assert cl.clReleaseEvent(event) == 0
assert cl.clSetUserEventStatus(gate, 0) == 0
assert cl.clFinish(queue) == 0
assert wait(lambda: len(called) == 3)
assert called == [0x11FE] * 3
assert wait(lambda: cl.clGetEventInfo(event, 0x11D1, 0, None, None) == -58)
""",
    )


def test_flushed_commands_run_although_nobody_waits(library) -> None:
    check(
        library,
        MARKERS
        + """
for _ in range(20):
    line = new("clCreateCommandQueue", context, device, 0)
    event = marker(line)
    assert cl.clFlush(line) == 0
    assert wait(lambda: status_of(event) == 0)
    assert cl.clReleaseCommandQueue(line) == 0
""",
    )


def test_a_command_of_a_released_event_does_not_end_another_event(library) -> None:
    check(
        library,
        MARKERS
        + """
first, second = new("clCreateUserEvent", context), new("clCreateUserEvent", context)
for _ in range(20):
    assert cl.clReleaseEvent(marker(queue, first)) == 0
line = new("clCreateCommandQueue", context, device, 0)
events = [marker(line, second) for _ in range(20)]
assert cl.clSetUserEventStatus(first, 0) == 0
assert cl.clFinish(queue) == 0
assert min(map(status_of, events)) > 0
assert cl.clSetUserEventStatus(second, 0) == 0
assert cl.clFinish(line) == 0
assert set(map(status_of, events)) == {0}
""",
    )


def test_commands_have_failed_if_the_server_has_ended(library) -> None:
    check(
        library,
        MARKERS
        + """
event = marker(queue, new("clCreateUserEvent", context))
assert status_of(event) > 0
kill_server()
assert wait(lambda: status_of(event) == -5)
assert cl.clWaitForEvents(1, ctypes.byref(event)) == -5
""",
        TEST_MARK="44",
    )


def test_local_memory_of_a_kernel_includes_its_arguments(library) -> None:
    check(
        library,
        """
text = ctypes.c_char_p(b"kernel void f(local int *a, local int *b) { local int c[4]; c[0] = *a; *b = c[0]; }")
program = new("clCreateProgramWithSource", context, 1, ctypes.byref(text), None)
assert cl.clBuildProgram(program, 0, None, None, None, None) == 0
kernel = new("clCreateKernel", program, b"f")
def local_bytes():
    found = ctypes.c_uint64()
    assert cl.clGetKernelWorkGroupInfo(kernel, device, 0x11B2, 8, ctypes.byref(found), None) == 0
    return found.value
own = local_bytes()
assert cl.clSetKernelArg(kernel, 0, 100, None) == cl.clSetKernelArg(kernel, 1, 28, None) == 0
assert local_bytes() == own + 128
assert cl.clSetDefaultDeviceCommandQueue(context, device, None) == -59  # CL_INVALID_OPERATION
""",
    )


def test_a_group_size_for_sub_groups_has_as_many_dimensions_as_the_program_has_room_for(library) -> None:
    check(
        library,
        """
kernel, two = kernel_of(context), N(2)
for dimensions in (1, 2, 3):
    sizes, size = (N * 3)(9, 9, 9), N()
    assert cl.clGetKernelSubGroupInfo(
        kernel, device, 0x11B8, 8, ctypes.byref(two), 8 * dimensions, sizes, ctypes.byref(size)) == 0
    assert list(sizes) == [128, 1, 1][:dimensions] + [9] * (3 - dimensions)
    assert size.value == 8 * dimensions
""",
    )
