"""Each refusal of a call: its error code and its message."""

import re
import struct
from dataclasses import replace

import numpy as np
import pytest

from softcard.core.space import host_address
from softcard.host.opencl import constants as cl
from softcard.host.opencl.errors import OpenClError
from tests.host.opencl.program import Program, arguments, handle, value

SOURCE = b"""
kernel void k(global int *a, int n, local int *t) { t[0] = n; *a = t[0]; }
kernel void sampled(read_only image2d_t i, sampler_t s, global float4 *o) { *o = read_imagef(i, s, (float2)(0, 0)); }
kernel __attribute__((reqd_work_group_size(8, 1, 1))) void eight(global int *a) { *a = 1; }
"""


@pytest.fixture(scope="module")
def world():
    """A program with objects of all kinds, by name."""
    program = Program("gfx900", "gfx906")
    found = {"program": program}
    found["context"] = context = program.call("clCreateContext", None, program.devices[:1], (0, 0))
    found["other"] = program.call("clCreateContext", None, program.devices[1:], (0, 0))
    found["queue"] = program.call("clCreateCommandQueue", context, program.devices[0], 0)
    found["foreign_queue"] = program.call("clCreateCommandQueue", found["other"], program.devices[1], 0)
    found["buffer"] = program.buffer(context, 1024)
    found["foreign"] = program.buffer(found["other"], 1024)
    found["sub"] = program.call(
        "clCreateSubBuffer", found["buffer"], 0, cl.BUFFER_CREATE_TYPE_REGION, np.array([0, 128], np.uint64).tobytes()
    )
    found["hidden"] = program.buffer(context, 64, cl.MEM_HOST_NO_ACCESS)
    found["built"] = built = program.call("clCreateProgramWithSource", context, SOURCE)
    program.call("clBuildProgram", built, None, None, (0, 0))
    found["kernel"] = program.call("clCreateKernel", built, b"k")
    found["sampled"] = program.call("clCreateKernel", built, b"sampled")
    found["eight"] = program.call("clCreateKernel", built, b"eight")
    found["fresh"] = program.call("clCreateProgramWithSource", context, b"kernel void f() {}")
    found["binary"] = program.call(
        "clCreateProgramWithBinary", context, program.devices[:1], [built.builds[program.devices[0]].binary]
    )
    place = program.event()
    program.call("clCreateUserEvent", context, place)
    found["event"] = program.platform.objects[place[0]]
    program.call("clSetUserEventStatus", found["event"], cl.COMPLETE)
    place = program.event()
    program.call("clEnqueueMarker", found["foreign_queue"], place)
    found["foreign_event"] = program.platform.objects[place[0]]
    found["shared"] = program.call("clSVMAlloc", context, RW, 128, 0)[0]
    found["line"] = program.call("clCreateImage", context, RW, FORMAT, LINE, 0)
    found["host"] = np.zeros(4096, np.uint8)
    yield found
    program.close()


RW = cl.MEM_READ_WRITE
FORMAT = struct.pack("<2I", cl.RGBA, cl.UNSIGNED_INT8)
LINE = struct.pack("<I4x6Q2IQ", cl.MEM_OBJECT_IMAGE1D, 16, *(0,) * 5, 0, 0, 0)
NONE = (0, 0)
ONE = (1, 1, 1)
ZERO = (0, 0, 0)


def region(origin, size):
    return np.array([origin, size], np.uint64).tobytes()


def block(w):
    return arguments(handle(w["buffer"]), value(bytes(4)), 64)


def launched(w, **changed):
    call = {
        "queue": w["queue"], "kernel": w["kernel"], "work_dim": 1, "offset": None, "size": (64, 1, 1), "local": None,
        "waits": None, "arguments": block(w), "event": NONE,
    } | changed  # fmt: skip
    return ("clEnqueueNDRangeKernel", *call.values())


def rect(w, **changed):
    call = {
        "queue": w["queue"], "buffer": w["buffer"], "blocking": 1, "origin": ZERO, "host_origin": ZERO,
        "region": (4, 4, 1), "row": 0, "slice": 0, "host_row": 0, "host_slice": 0, "host": host_address(w["host"]),
        "waits": None, "event": NONE,
    } | changed  # fmt: skip
    return ("clEnqueueReadBufferRect", *call.values())


CASES = [
    # contexts
    (cl.INVALID_VALUE, "the list of devices is empty, expected one",
     lambda w: ("clCreateContext", None, [], NONE)),
    (cl.INVALID_VALUE, "clCreateContext: user_data was passed without pfn_notify",
     lambda w: ("clCreateContext", None, w["program"].devices, (0, 1))),
    (cl.INVALID_PLATFORM, "CL_CONTEXT_PLATFORM is not this platform",
     lambda w: ("clCreateContext", (cl.CONTEXT_PLATFORM, 1), w["program"].devices, NONE)),
    (cl.INVALID_PROPERTY, "CL_CONTEXT_INTEROP_USER_SYNC is 2, expected CL_TRUE or CL_FALSE",
     lambda w: ("clCreateContext", (cl.CONTEXT_INTEROP_USER_SYNC, 2), w["program"].devices, NONE)),
    (cl.INVALID_BUFFER_SIZE, "129 bytes at host_ptr exceed its shared memory of 128 bytes",
     lambda w: ("clCreateBuffer", w["context"], cl.MEM_USE_HOST_PTR, 129, w["shared"])),
    (cl.INVALID_MEM_OBJECT, "which takes another image than a",
     lambda w: ("clSetKernelArg", w["sampled"], 0, 8, handle(w["line"])[1])),
    (cl.INVALID_PROPERTY, "the context property 0x77 is unknown, expected CL_CONTEXT_PLATFORM",
     lambda w: ("clCreateContext", (0x77, 1), w["program"].devices, NONE)),
    (cl.INVALID_PROPERTY, "the property 0x1085 occurs twice, expected once",
     lambda w: ("clCreateContext", (cl.CONTEXT_INTEROP_USER_SYNC, 1) * 2, w["program"].devices, NONE)),
    (cl.INVALID_VALUE, "clGetContextInfo: the query 0x1 is unknown for this object",
     lambda w: ("clGetContextInfo", w["context"], 1)),
    (cl.INVALID_VALUE, "clSetContextDestructorCallback: pfn_notify is NULL",
     lambda w: ("clSetContextDestructorCallback", w["context"], NONE)),
    (cl.INVALID_VALUE, "device gfx900 cannot be partitioned",
     lambda w: ("clCreateSubDevices", w["program"].devices[0], (1, 2), 0)),
    # queues
    (cl.INVALID_DEVICE, "device gfx906 is not one of the context, expected one of gfx900",
     lambda w: ("clCreateCommandQueue", w["context"], w["program"].devices[1], 0)),
    (cl.INVALID_VALUE, "the queue properties 0x100 have unknown bits, expected CL_QUEUE_* flags",
     lambda w: ("clCreateCommandQueue", w["context"], w["program"].devices[0], 0x100)),
    (cl.INVALID_QUEUE_PROPERTIES, "the devices do not support on-device queues",
     lambda w: ("clCreateCommandQueue", w["context"], w["program"].devices[0], cl.QUEUE_ON_DEVICE)),
    (cl.INVALID_VALUE, "the queue property 0x5 is unknown, expected CL_QUEUE_PROPERTIES",
     lambda w: ("clCreateCommandQueueWithProperties", w["context"], w["program"].devices[0], (5, 0))),
    (cl.INVALID_VALUE, "CL_QUEUE_SIZE is only for queues on the device",
     lambda w: ("clCreateCommandQueueWithProperties", w["context"], w["program"].devices[0], (cl.QUEUE_SIZE, 1))),
    (cl.INVALID_COMMAND_QUEUE, "only queues on the device have a size",
     lambda w: ("clGetCommandQueueInfo", w["queue"], cl.QUEUE_SIZE)),
    (cl.INVALID_OPERATION, "device gfx900 does not support on-device queues",
     lambda w: ("clSetDefaultDeviceCommandQueue", w["context"], w["program"].devices[0], w["queue"])),
    (cl.INVALID_VALUE, "clEnqueueMarker: event is NULL", lambda w: ("clEnqueueMarker", w["queue"], NONE)),
    (cl.INVALID_VALUE, "clEnqueueWaitForEvents: the list of events is empty",
     lambda w: ("clEnqueueWaitForEvents", w["queue"], None)),
    (cl.INVALID_CONTEXT, "an event of the wait list belongs to another context",
     lambda w: ("clEnqueueMarkerWithWaitList", w["queue"], [w["foreign_event"]], NONE)),
    # events
    (cl.INVALID_EVENT, "the event belongs to a command, expected a user event",
     lambda w: ("clSetUserEventStatus", w["foreign_event"], 0)),
    (cl.INVALID_VALUE, "the status is 1, expected CL_COMPLETE or an error code",
     lambda w: ("clSetUserEventStatus", w["event"], 1)),
    (cl.INVALID_OPERATION, "the status of the user event is already set",
     lambda w: ("clSetUserEventStatus", w["event"], 0)),
    (cl.INVALID_VALUE, "clSetEventCallback: pfn_notify is NULL",
     lambda w: ("clSetEventCallback", w["event"], 0, NONE)),
    (cl.INVALID_VALUE, "the status is 3, expected CL_SUBMITTED, CL_RUNNING or CL_COMPLETE",
     lambda w: ("clSetEventCallback", w["event"], 3, (1, 1))),
    # buffers
    (cl.INVALID_PROPERTY, "buffers have no properties",
     lambda w: ("clCreateBufferWithProperties", w["context"], (1, 2), RW, 4, 0)),
    (cl.INVALID_VALUE, "the memory flags 0x10000000 have unknown bits",
     lambda w: ("clCreateBuffer", w["context"], 1 << 28, 4, 0)),
    (cl.INVALID_VALUE, "the flags CL_MEM_READ_WRITE, CL_MEM_WRITE_ONLY and CL_MEM_READ_ONLY exclude each other",
     lambda w: ("clCreateBuffer", w["context"], cl.MEM_READ_ONLY | RW, 4, 0)),
    (cl.INVALID_VALUE, "CL_MEM_USE_HOST_PTR excludes CL_MEM_ALLOC_HOST_PTR",
     lambda w: ("clCreateBuffer", w["context"], cl.MEM_USE_HOST_PTR | cl.MEM_COPY_HOST_PTR, 4, 1)),
    (cl.INVALID_HOST_PTR, "host_ptr is required with CL_MEM_USE_HOST_PTR",
     lambda w: ("clCreateBuffer", w["context"], cl.MEM_USE_HOST_PTR, 4, 0)),
    (cl.INVALID_BUFFER_SIZE, "the buffer has 0 bytes, expected 1 to",
     lambda w: ("clCreateBuffer", w["context"], RW, 0, 0)),
    (cl.MEM_OBJECT_ALLOCATION_FAILURE, "cannot allocate 1073741824 bytes: all 268435456 bytes of the devices",
     lambda w: ("clCreateBuffer", w["context"], RW, 1 << 30, 0)),
    (cl.INVALID_MEM_OBJECT, "the object is an image or a sub-buffer, expected a buffer",
     lambda w: ("clCreateSubBuffer", w["sub"], 0, cl.BUFFER_CREATE_TYPE_REGION, region(0, 4))),
    (cl.INVALID_VALUE, "expected CL_BUFFER_CREATE_TYPE_REGION and a region",
     lambda w: ("clCreateSubBuffer", w["buffer"], 0, 7, region(0, 4))),
    (cl.INVALID_VALUE, "a sub-buffer takes no flags about a host pointer",
     lambda w: ("clCreateSubBuffer", w["buffer"], cl.MEM_COPY_HOST_PTR, cl.BUFFER_CREATE_TYPE_REGION, region(0, 4))),
    (cl.INVALID_VALUE, "the flags 0x3 about accesses exclude each other",
     lambda w: ("clCreateSubBuffer", w["buffer"], 3, cl.BUFFER_CREATE_TYPE_REGION, region(0, 4))),
    (cl.INVALID_VALUE, "allow accesses of the host that the buffer of 64 bytes does not allow",
     lambda w: ("clCreateSubBuffer", w["hidden"], cl.MEM_HOST_READ_ONLY, cl.BUFFER_CREATE_TYPE_REGION, region(0, 4))),
    (cl.INVALID_BUFFER_SIZE, "the sub-buffer has 0 bytes",
     lambda w: ("clCreateSubBuffer", w["buffer"], 0, cl.BUFFER_CREATE_TYPE_REGION, region(0, 0))),
    (cl.INVALID_VALUE, "the region from byte 1000 to 1100 exceeds the buffer of 1024 bytes",
     lambda w: ("clCreateSubBuffer", w["buffer"], 0, cl.BUFFER_CREATE_TYPE_REGION, region(1000, 100))),
    (cl.MISALIGNED_SUB_BUFFER_OFFSET, "the region begins at byte 4, expected a multiple of 128",
     lambda w: ("clCreateSubBuffer", w["buffer"], 0, cl.BUFFER_CREATE_TYPE_REGION, region(4, 4))),
    (cl.INVALID_OPERATION, "the devices do not support pipes", lambda w: ("clCreatePipe", w["context"], 0, 4, 4, None)),
    (cl.INVALID_MEM_OBJECT, "the object is a buffer or an image, expected a pipe",
     lambda w: ("clGetPipeInfo", w["buffer"], 1)),
    (cl.INVALID_VALUE, "clSetMemObjectDestructorCallback: pfn_notify is NULL",
     lambda w: ("clSetMemObjectDestructorCallback", w["buffer"], NONE)),
    # transfers
    (cl.INVALID_CONTEXT, "the buffer of 1024 bytes belongs to another context than the queue",
     lambda w: ("clEnqueueReadBuffer", w["queue"], w["foreign"], 1, 0, 4, 1, None, NONE)),
    (cl.INVALID_VALUE, "the region from byte 1020 to 1028 exceeds the buffer of 1024 bytes",
     lambda w: ("clEnqueueReadBuffer", w["queue"], w["buffer"], 1, 1020, 8, 1, None, NONE)),
    (cl.INVALID_VALUE, "clEnqueueReadBuffer: expected a pointer and 1 byte or more",
     lambda w: ("clEnqueueReadBuffer", w["queue"], w["buffer"], 1, 0, 4, 0, None, NONE)),
    (cl.INVALID_VALUE, "clEnqueueWriteBuffer: expected a pointer and 1 byte or more",
     lambda w: ("clEnqueueWriteBuffer", w["queue"], w["buffer"], 1, 0, 4, 0, None, NONE)),
    (cl.INVALID_OPERATION, "the flags of the buffer of 64 bytes forbid the host to read it",
     lambda w: ("clEnqueueReadBuffer", w["queue"], w["hidden"], 1, 0, 4, 1, None, NONE)),
    (cl.INVALID_OPERATION, "the flags of the buffer of 64 bytes forbid the host to write it",
     lambda w: ("clEnqueueWriteBuffer", w["queue"], w["hidden"], 1, 0, 4, 1, None, NONE)),
    (cl.INVALID_VALUE, "clEnqueueReadBufferRect: the pointer is NULL", lambda w: rect(w, host=0)),
    (cl.INVALID_VALUE, "the region is (4, 0, 1), expected sizes of 1 or more", lambda w: rect(w, region=(4, 0, 1))),
    (cl.INVALID_VALUE, "the row pitch 3 is less than the width 4", lambda w: rect(w, row=3)),
    (cl.INVALID_VALUE, "the slice pitch is 17, expected a multiple of the row pitch 4", lambda w: rect(w, slice=17)),
    (cl.INVALID_VALUE, "clEnqueueCopyBuffer: the size is 0",
     lambda w: ("clEnqueueCopyBuffer", w["queue"], w["buffer"], w["buffer"], 0, 0, 0, None, NONE)),
    (cl.MEM_COPY_OVERLAP, "the source and the target of the copy overlap",
     lambda w: ("clEnqueueCopyBuffer", w["queue"], w["buffer"], w["sub"], 4, 0, 8, None, NONE)),
    (cl.INVALID_VALUE, "the pitches of a copy within a buffer differ",
     lambda w: ("clEnqueueCopyBufferRect", w["queue"], w["buffer"], w["buffer"], ZERO, (0, 4, 0), ONE, 8, 0, 16, 0,
                None, NONE)),
    (cl.MEM_COPY_OVERLAP, "the source and the target of the copy overlap",
     lambda w: ("clEnqueueCopyBufferRect", w["queue"], w["buffer"], w["buffer"], ZERO, (1, 1, 0), (4, 4, 1), 16, 0, 16,
                0, None, NONE)),
    (cl.INVALID_VALUE, "the pattern has 3 bytes, expected one of 1, 2, 4",
     lambda w: ("clEnqueueFillBuffer", w["queue"], w["buffer"], b"abc", 0, 3, None, NONE)),
    (cl.INVALID_VALUE, "the offset 2 and the size 8 must be multiples of the pattern's 4 bytes",
     lambda w: ("clEnqueueFillBuffer", w["queue"], w["buffer"], b"abcd", 2, 8, None, NONE)),
    (cl.INVALID_VALUE, "clEnqueueMapBuffer: the size is 0",
     lambda w: ("clEnqueueMapBuffer", w["queue"], w["buffer"], 1, cl.MAP_READ, 0, 0, None, NONE)),
    (cl.INVALID_VALUE, "the map flags are 0x5, expected CL_MAP_READ",
     lambda w: ("clEnqueueMapBuffer", w["queue"], w["buffer"], 1, 5, 0, 4, None, NONE)),
    (cl.INVALID_VALUE, "0x77 is not a pointer to a mapped region of the buffer",
     lambda w: ("clEnqueueUnmapMemObject", w["queue"], w["buffer"], 0x77, None, NONE)),
    (cl.INVALID_VALUE, "clEnqueueMigrateMemObjects: the list of objects is empty",
     lambda w: ("clEnqueueMigrateMemObjects", w["queue"], None, 0, None, NONE)),
    (cl.INVALID_VALUE, "the migration flags 0x8 have unknown bits",
     lambda w: ("clEnqueueMigrateMemObjects", w["queue"], [w["buffer"]], 8, None, NONE)),
    # shared virtual memory
    (cl.INVALID_VALUE, "the flags 0x800 are invalid for shared virtual memory",
     lambda w: ("clSVMAlloc", w["context"], cl.MEM_SVM_ATOMICS, 4, 0)),
    (cl.INVALID_VALUE, "the flags about accesses exclude each other", lambda w: ("clSVMAlloc", w["context"], 3, 4, 0)),
    (cl.INVALID_VALUE, "the size is 0, expected 1 to", lambda w: ("clSVMAlloc", w["context"], RW, 0, 0)),
    (cl.INVALID_VALUE, "the alignment is 3, expected a power of two up to 4096",
     lambda w: ("clSVMAlloc", w["context"], RW, 4, 3)),
    (cl.INVALID_VALUE, "clEnqueueSVMFree: expected one or more pointers",
     lambda w: ("clEnqueueSVMFree", w["queue"], None, NONE, None, NONE)),
    (cl.INVALID_VALUE, "clEnqueueSVMMemcpy: a pointer is NULL",
     lambda w: ("clEnqueueSVMMemcpy", w["queue"], 1, 0, 1, 4, None, NONE)),
    (cl.INVALID_VALUE, "0x80 is not shared virtual memory of 4 bytes",
     lambda w: ("clEnqueueSVMMemFill", w["queue"], 0x80, b"a", 4, None, NONE)),
    (cl.INVALID_VALUE, "clEnqueueSVMMap: expected a pointer",
     lambda w: ("clEnqueueSVMMap", w["queue"], 1, 1, 0, 4, None, NONE)),
    (cl.INVALID_VALUE, "the map flags are 0x0, expected CL_MAP_READ",
     lambda w: ("clEnqueueSVMMap", w["queue"], 1, 0, 8, 4, None, NONE)),
    (cl.INVALID_VALUE, "clEnqueueSVMUnmap: the pointer is NULL",
     lambda w: ("clEnqueueSVMUnmap", w["queue"], 0, None, NONE)),
    (cl.INVALID_VALUE, "clEnqueueSVMMigrateMem: the list of pointers is empty",
     lambda w: ("clEnqueueSVMMigrateMem", w["queue"], None, None, 0, None, NONE)),
    (cl.INVALID_VALUE, "0x8 is not shared virtual memory",
     lambda w: ("clEnqueueSVMMigrateMem", w["queue"], (8,), None, 0, None, NONE)),
    # programs
    (cl.INVALID_VALUE, "clCreateProgramWithBinary: the list of binaries is empty",
     lambda w: ("clCreateProgramWithBinary", w["context"], None, None)),
    (cl.INVALID_BINARY, "the binary is neither a code object nor one of CL_PROGRAM_BINARIES",
     lambda w: ("clCreateProgramWithBinary", w["context"], w["program"].devices[:1], [b"nonsense"])),
    (cl.INVALID_BINARY, "the binary does not load on gfx900",
     lambda w: ("clCreateProgramWithBinary", w["context"], w["program"].devices[:1], [b"\x7fELF" + bytes(100)])),
    (cl.INVALID_VALUE, "expected devices and names of kernels",
     lambda w: ("clCreateProgramWithBuiltInKernels", w["context"], None, None)),
    (cl.INVALID_VALUE, "the devices do not have built-in kernels",
     lambda w: ("clCreateProgramWithBuiltInKernels", w["context"], w["program"].devices[:1], b"k")),
    (cl.INVALID_OPERATION, "the devices accept only OpenCL C source and binaries",
     lambda w: ("clCreateProgramWithIL", w["context"], b"1234")),
    (cl.INVALID_OPERATION, "the devices accept only OpenCL C source and binaries, so constants cannot be set",
     lambda w: ("clSetProgramSpecializationConstant", w["fresh"], 1, b"1")),
    (cl.INVALID_VALUE, "clSetProgramReleaseCallback: pfn_notify is NULL",
     lambda w: ("clSetProgramReleaseCallback", w["fresh"], NONE)),
    (cl.INVALID_OPERATION, "the devices do not support clSetProgramReleaseCallback",
     lambda w: ("clSetProgramReleaseCallback", w["fresh"], (1, 1))),
    (cl.INVALID_BUILD_OPTIONS, "-nonsense", lambda w: ("clBuildProgram", w["fresh"], None, b"-nonsense", NONE)),
    (cl.INVALID_COMPILER_OPTIONS, "-nonsense",
     lambda w: ("clCompileProgram", w["fresh"], None, b"-nonsense", None, None, NONE)),
    (cl.INVALID_LINKER_OPTIONS, "-nonsense",
     lambda w: ("clLinkProgram", w["context"], None, b"-nonsense", [w["fresh"]], NONE)),
    (cl.INVALID_VALUE, "device_list has no devices", lambda w: ("clBuildProgram", w["fresh"], [], None, NONE)),
    (cl.INVALID_DEVICE, "device gfx906 is not one of the program's",
     lambda w: ("clBuildProgram", w["fresh"], w["program"].devices[1:], None, NONE)),
    (cl.INVALID_VALUE, "user_data was passed without pfn_notify",
     lambda w: ("clBuildProgram", w["fresh"], None, None, (0, 1))),
    (cl.INVALID_OPERATION, "the program has kernels: release them before you build it",
     lambda w: ("clBuildProgram", w["built"], None, None, NONE)),
    (cl.INVALID_OPERATION, "the program was not made from source, so it cannot be compiled",
     lambda w: ("clCompileProgram", w["binary"], None, None, None, None, NONE)),
    (cl.INVALID_VALUE, "clCompileProgram: headers and their names must be passed together",
     lambda w: ("clCompileProgram", w["fresh"], None, None, [w["fresh"]], None, NONE)),
    (cl.INVALID_VALUE, "clLinkProgram: the list of programs is empty",
     lambda w: ("clLinkProgram", w["context"], None, None, None, NONE)),
    (cl.INVALID_LINKER_OPTIONS, "-enable-link-options requires the option -create-library",
     lambda w: ("clLinkProgram", w["context"], None, b"-enable-link-options", [w["fresh"]], NONE)),
    (cl.INVALID_OPERATION, "no device has compiled objects of all programs: compile them first",
     lambda w: ("clLinkProgram", w["context"], None, None, [w["fresh"]], NONE)),
    (cl.INVALID_PROGRAM_EXECUTABLE, "the program was not built: call clBuildProgram or clLinkProgram first",
     lambda w: ("clCreateKernel", w["fresh"], b"f")),
    (cl.INVALID_DEVICE, "device gfx906 is not one of the program's",
     lambda w: ("clGetProgramBuildInfo", w["fresh"], w["program"].devices[1], cl.PROGRAM_BUILD_LOG)),
    # kernels
    (cl.INVALID_VALUE, "clCreateKernel: the name is NULL", lambda w: ("clCreateKernel", w["built"], None)),
    (cl.INVALID_KERNEL_NAME, "the program has no kernel 'x', it has eight, k, sampled",
     lambda w: ("clCreateKernel", w["built"], b"x")),
    (cl.INVALID_ARG_INDEX, "argument 3 does not exist, kernel k has 3",
     lambda w: ("clSetKernelArg", w["kernel"], 3, 4, bytes(4))),
    (cl.INVALID_ARG_VALUE, "argument 2 (t) of kernel k is local memory: pass a size and NULL",
     lambda w: ("clSetKernelArg", w["kernel"], 2, 4, bytes(4))),
    (cl.INVALID_ARG_SIZE, "is local memory: pass a size of 1 byte or more",
     lambda w: ("clSetKernelArg", w["kernel"], 2, 0, None)),
    (cl.INVALID_ARG_VALUE, "is a value: NULL was passed", lambda w: ("clSetKernelArg", w["kernel"], 1, 4, None)),
    (cl.INVALID_ARG_SIZE, "has 8 bytes, expected 4 (int)",
     lambda w: ("clSetKernelArg", w["kernel"], 1, 8, bytes(8))),
    (cl.INVALID_ARG_SIZE, "the handle for argument 0", lambda w: ("clSetKernelArg", w["kernel"], 0, 4, bytes(4))),
    (cl.INVALID_SAMPLER, "NULL was passed for argument 1 (s)",
     lambda w: ("clSetKernelArg", w["sampled"], 1, 8, bytes(8))),
    (cl.INVALID_SAMPLER, "is not a sampler",
     lambda w: ("clSetKernelArg", w["sampled"], 1, 8, handle(w["buffer"])[1])),
    (cl.INVALID_MEM_OBJECT, "0x99 for argument 0 (a) of kernel k is not a memory object",
     lambda w: ("clSetKernelArg", w["kernel"], 0, 8, b"\x99" + bytes(7))),
    (cl.INVALID_MEM_OBJECT, "was passed for argument 0 (i) of kernel sampled, expected an image",
     lambda w: ("clSetKernelArg", w["sampled"], 0, 8, handle(w["buffer"])[1])),
    (cl.INVALID_MEM_OBJECT, "the buffer of 1024 bytes belongs to another context",
     lambda w: ("clSetKernelArg", w["kernel"], 0, 8, handle(w["foreign"])[1])),
    (cl.INVALID_ARG_VALUE, "argument 1 of kernel k is not a pointer to global or constant memory",
     lambda w: ("clSetKernelArgSVMPointer", w["kernel"], 1, 0)),
    (cl.INVALID_VALUE, "clSetKernelExecInfo: expected a value",
     lambda w: ("clSetKernelExecInfo", w["kernel"], cl.KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM, None)),
    (cl.INVALID_OPERATION, "the devices do not share the whole memory of the program",
     lambda w: ("clSetKernelExecInfo", w["kernel"], cl.KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM, b"\1\0\0\0")),
    (cl.INVALID_VALUE, "the name is 0x5 with 8 bytes, expected CL_KERNEL_EXEC_INFO_SVM_PTRS",
     lambda w: ("clSetKernelExecInfo", w["kernel"], 5, bytes(8))),
    (cl.INVALID_VALUE, "0x1 is not shared virtual memory",
     lambda w: ("clSetKernelExecInfo", w["kernel"], cl.KERNEL_EXEC_INFO_SVM_PTRS, b"\1" + bytes(7))),
    (cl.INVALID_DEVICE, "kernel k has several devices or was not built for this one",
     lambda w: ("clGetKernelWorkGroupInfo", w["kernel"], w["program"].devices[1], cl.KERNEL_WORK_GROUP_SIZE)),
    (cl.INVALID_VALUE, "CL_KERNEL_GLOBAL_WORK_SIZE is only for built-in kernels",
     lambda w: ("clGetKernelWorkGroupInfo", w["kernel"], None, cl.KERNEL_GLOBAL_WORK_SIZE)),
    (cl.INVALID_VALUE, "the input has a wrong size, expected 1 to 3 sizes of a group",
     lambda w: ("clGetKernelSubGroupInfo", w["kernel"], None, cl.KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, None)),
    (cl.INVALID_VALUE, "the input has a wrong size, expected one number of sub-groups",
     lambda w: ("clGetKernelSubGroupInfo", w["kernel"], None, cl.KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT, None)),
    (cl.INVALID_WORK_DIMENSION, "work_dim is 4, expected 1 to 3",
     lambda w: ("clGetKernelSuggestedLocalWorkSize", w["queue"], w["kernel"], 4, None, ONE, 1)),
    (cl.INVALID_GLOBAL_WORK_SIZE, "the global work size is None, expected sizes of 1 or more",
     lambda w: ("clGetKernelSuggestedLocalWorkSize", w["queue"], w["kernel"], 1, None, None, 1)),
    (cl.INVALID_VALUE, "suggested_local_work_size is NULL",
     lambda w: ("clGetKernelSuggestedLocalWorkSize", w["queue"], w["kernel"], 1, None, (4,), 0)),
    (cl.INVALID_CONTEXT, "the kernel belongs to another context than the queue",
     lambda w: launched(w, queue=w["foreign_queue"])),
    (cl.INVALID_WORK_GROUP_SIZE, "the group size 0 has a 0", lambda w: launched(w, local=ZERO)),
    (cl.INVALID_WORK_GROUP_SIZE, "the group size 16 differs from (8, 1, 1), which kernel eight requires",
     lambda w: launched(w, kernel=w["eight"], local=(16, 1, 1), arguments=arguments(handle(w["buffer"])))),
    (cl.INVALID_WORK_ITEM_SIZE, "the group size 2048 exceeds CL_DEVICE_MAX_WORK_ITEM_SIZES",
     lambda w: launched(w, size=(2048, 1, 1), local=(2048, 1, 1))),
    (cl.INVALID_WORK_GROUP_SIZE, "the group size 512 has 512 work-items, but kernel k was compiled for 256 at most",
     lambda w: launched(w, size=(512, 1, 1), local=(512, 1, 1))),
    (cl.INVALID_WORK_GROUP_SIZE, "the group size 48 does not divide the global size 64",
     lambda w: launched(w, local=(48, 1, 1))),
    (cl.INVALID_KERNEL_ARGS, "argument 1 (n) of kernel k was not set: call clSetKernelArg",
     lambda w: launched(w, arguments=arguments(handle(w["buffer"]), (0, b""), 64))),
    (cl.INVALID_KERNEL_ARGS, "the object for argument 0 (a) of kernel k was released before the launch",
     lambda w: launched(w, arguments=arguments((2, b"\x99" + bytes(7)), value(bytes(4)), 64))),
    (cl.INVALID_VALUE, "args_mem_loc is 4, expected a place in the arguments",
     lambda w: ("clEnqueueNativeKernel", w["queue"], 1, bytes(8), [w["buffer"]], (4,), None, NONE)),
]  # fmt: skip


@pytest.mark.parametrize(("status", "message", "call"), CASES, ids=[each[1][:60] for each in CASES])
def test_a_wrong_call_is_refused(world, status, message, call):
    with pytest.raises(OpenClError, match=re.escape(message)) as caught:
        world["program"].call(*call(world))
    assert caught.value.status == status
    assert str(caught.value).endswith(f"[CL_{status_name(status)}]")


def status_name(status):
    from softcard.host.opencl.errors import status_name

    return status_name(status)


def test_a_program_without_source_has_no_information_about_arguments(world):
    program = world["program"]
    kernel = program.call("clCreateKernel", world["binary"], b"eight")
    [argument] = kernel.metadata.arguments[:1]
    kernel.metadata = replace(kernel.metadata, arguments=(replace(argument, name=""),))
    with pytest.raises(OpenClError, match="the binary has no information about arguments") as caught:
        program.call("clGetKernelArgInfo", kernel, 0, cl.KERNEL_ARG_NAME)
    assert caught.value.status == cl.KERNEL_ARG_INFO_NOT_AVAILABLE
