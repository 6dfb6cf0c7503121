"""Kernels: their arguments, queries, and the command that launches them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final, cast

import numpy as np

from softcard.core.words import align_up
from softcard.host.hsa.arguments import LOCAL_ALIGNMENT, Given, Local, Packed
from softcard.host.hsa.executable import Kernel as DeviceKernel
from softcard.host.hsa.gpu import ORIGIN
from softcard.host.hsa.launch import Size
from softcard.host.opencl import constants as cl
from softcard.host.opencl.calls import Call, Made, entry, query, text, u32, u64
from softcard.host.opencl.errors import OpenClError, require
from softcard.host.opencl.events import Command, CommandQueue, Event, Used
from softcard.host.opencl.memory import WRITING, Memory, Place, Sizes, check_context, svm_block
from softcard.host.opencl.objects import ArgumentObject, Device, Object
from softcard.host.opencl.programs import Program
from softcard.image.hsa.metadata import Argument, KernelMetadata
from softcard.isa.gcn.state import LANES

UNSET, BY_VALUE, OBJECT, LOCAL_MEMORY, SVM_POINTER = range(5)
"""The states of an argument, as platform.c stores them."""
OBJECTS: Final = ("global_buffer", "image", "sampler", "pipe")
"""The value kinds of arguments that are objects."""
MOST_ITEMS: Final = 1024
"""The maximum number of work-items of a group of kernels whose attributes allow it."""
DEFAULT_ITEMS: Final = 256
"""The maximum number of work-items of a group of other kernels, for which the compiler allocates registers."""
MOST_PLANS: Final = 64
"""The number of launches of a kernel whose plans are cached."""
COMPARED_BYTES: Final = 1 << 16
"""The number of bytes at the start of a read-only buffer that are compared after a kernel that may store to it."""
_SPACES: Final = {
    "global": cl.KERNEL_ARG_ADDRESS_GLOBAL,
    "constant": cl.KERNEL_ARG_ADDRESS_CONSTANT,
    "local": cl.KERNEL_ARG_ADDRESS_LOCAL,
}
_ACCESS: Final = {
    "read_only": cl.KERNEL_ARG_ACCESS_READ_ONLY,
    "write_only": cl.KERNEL_ARG_ACCESS_WRITE_ONLY,
    "read_write": cl.KERNEL_ARG_ACCESS_READ_WRITE,
}


class Kernel(Object):
    """A kernel of a program, on all devices for which the program was built."""

    kind = "kernel"

    def __init__(self, program: Program, handle: int, name: str) -> None:
        super().__init__(program.platform, handle)
        self.program = program
        self.context = program.context
        self.name = name
        self.on: dict[Device, DeviceKernel] = {}
        for device in program.devices:
            found = program.kernel_of(device, name)
            if found is not None:
                self.on[device] = found
        metadata = next(iter(self.on.values())).image.metadata
        if metadata is None:
            raise OpenClError(cl.INVALID_KERNEL_DEFINITION, f"kernel {name} has no metadata, so it has no arguments")
        self.metadata: KernelMetadata = metadata
        self.plans: dict[tuple[object, ...], Plan] = {}
        """The plans of earlier launches by queue, sizes, block of arguments, and the platform's version."""
        program.kernel_count += 1

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that the program sets."""
        return self.metadata.explicit

    def forgotten(self) -> None:
        """Allow the program to be built again."""
        self.program.kernel_count -= 1

    def largest_group(self, device: Device) -> int:
        """Return the maximum number of work-items of a group on a device."""
        metadata = self.on[device].image.metadata
        return (metadata.max_workgroup_size if metadata else 0) or DEFAULT_ITEMS

    def required(self, device: Device) -> tuple[int, ...]:
        """Return the size of groups that the kernel's attributes require; () if they require none."""
        metadata = self.on[device].image.metadata
        return metadata.required_workgroup_size if metadata else ()


# ---- creation and arguments ------------------------------------------------------------------------------------------


@entry("clCreateKernel")
def create_kernel(call: Call, program: Program, name: bytes | None) -> Made:
    """Make a kernel of a program."""
    require(name is not None, cl.INVALID_VALUE, "clCreateKernel: the name is NULL, expected a kernel's name")
    assert name is not None
    plain = name.decode("utf-8", "replace")
    known = sorted(program.any_executable().kernels)
    there = ", ".join(known) or "none"
    require(plain in known, cl.INVALID_KERNEL_NAME, f"the program has no kernel {plain!r}, it has {there}")
    made = Kernel(program, call.made, plain)
    return Made(made, len(made.arguments))


@entry("clCreateKernelsInProgram")
def create_kernels_in_program(call: Call, program: Program) -> bytes:
    """Return the names of the program's kernels, for each of which the library makes a kernel."""
    return b"".join(text(each) for each in sorted(program.any_executable().kernels))


@entry("clCloneKernel")
def clone_kernel(call: Call, kernel: Kernel) -> Made:
    """Make a copy of a kernel; the library copies the arguments."""
    made = Kernel(kernel.program, call.made, kernel.name)
    return Made(made, len(made.arguments))


def _argument(kernel: Kernel, index: int) -> Argument:
    count = len(kernel.arguments)
    require(index < count, cl.INVALID_ARG_INDEX, f"argument {index} does not exist, kernel {kernel.name} has {count}")
    return kernel.arguments[index]


@entry("clSetKernelArg")
def set_kernel_arg(call: Call, kernel: Kernel, index: int, size: int, value: bytes | None) -> int:
    """Check the value of an argument, which the library stores; return its state."""
    argument = _argument(kernel, index)
    title = f"argument {index} ({argument.name or argument.type_name or argument.kind}) of kernel {kernel.name}"
    if argument.kind == "dynamic_shared_pointer":
        require(value is None, cl.INVALID_ARG_VALUE, f"{title} is local memory: pass a size and NULL")
        require(size, cl.INVALID_ARG_SIZE, f"{title} is local memory: pass a size of 1 byte or more")
        return LOCAL_MEMORY
    if argument.kind in OBJECTS:
        return _object_argument(call, kernel, argument, title, size, value)
    if argument.kind == "queue":
        raise OpenClError(cl.INVALID_DEVICE_QUEUE, f"{title} is an on-device queue, which the devices do not support")
    require(value is not None, cl.INVALID_ARG_VALUE, f"{title} is a value: NULL was passed, expected its address")
    is_vector_of_3 = size * 4 == argument.size * 3
    require(
        size == argument.size or is_vector_of_3,
        cl.INVALID_ARG_SIZE,
        f"the value of {title} has {size} bytes, expected {argument.size} ({argument.type_name or 'a value'})",
    )
    return BY_VALUE


def _object_argument(call: Call, kernel: Kernel, argument: Argument, title: str, size: int, value: bytes | None) -> int:
    require(size == 8, cl.INVALID_ARG_SIZE, f"the handle for {title} has {size} bytes, expected 8")
    handle = struct.unpack("<Q", value)[0] if value is not None else 0
    is_sampler = argument.kind == "sampler"
    if not handle:
        status = cl.INVALID_SAMPLER if is_sampler else cl.INVALID_MEM_OBJECT
        require(argument.kind == "global_buffer", status, f"NULL was passed for {title}, expected an object")
        return OBJECT
    found = call.platform.objects.get(handle)
    if is_sampler:
        is_valid = found is not None and found.kind == "sampler"
        require(is_valid, cl.INVALID_SAMPLER, f"{handle:#x} for {title} is not a sampler")
        return OBJECT
    if not isinstance(found, Memory):
        raise OpenClError(cl.INVALID_MEM_OBJECT, f"{handle:#x} for {title} is not a memory object")
    is_buffer = found.type == cl.MEM_OBJECT_BUFFER
    require(
        is_buffer == (argument.kind == "global_buffer"),
        cl.INVALID_MEM_OBJECT,
        f"a {found.title} was passed for {title}, expected {'an image' if is_buffer else 'a buffer'}",
    )
    require(found.context is kernel.context, cl.INVALID_MEM_OBJECT, f"the {found.title} belongs to another context")
    if argument.kind == "image":
        found.check_argument(argument, title)
    return OBJECT


@entry("clSetKernelArgSVMPointer")
def set_kernel_arg_svm_pointer(call: Call, kernel: Kernel, index: int, pointer: int) -> None:
    """Check that an argument can be a pointer to shared virtual memory."""
    argument = _argument(kernel, index)
    require(
        argument.kind == "global_buffer",
        cl.INVALID_ARG_VALUE,
        f"argument {index} of kernel {kernel.name} is not a pointer to global or constant memory",
    )


@entry("clSetKernelExecInfo")
def set_kernel_exec_info(call: Call, kernel: Kernel, name: int, value: bytes | None) -> None:
    """Accept the list of further SVM pointers: the devices reach all shared virtual memory of the context."""
    if name == cl.KERNEL_EXEC_INFO_SVM_PTRS and not value:
        return  # the specification's way to forget the pointers
    require(value, cl.INVALID_VALUE, "clSetKernelExecInfo: expected a value")
    assert value is not None
    if name == cl.KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM:
        require(not any(value), cl.INVALID_OPERATION, "the devices do not share the whole memory of the program")
        return
    require(
        name == cl.KERNEL_EXEC_INFO_SVM_PTRS and len(value) % 8 == 0,
        cl.INVALID_VALUE,
        f"the name is {name:#x} with {len(value)} bytes, expected CL_KERNEL_EXEC_INFO_SVM_PTRS with 8 bytes for each"
        " pointer",
    )
    for pointer in struct.unpack(f"<{len(value) // 8}Q", value):
        block = svm_block(kernel.context, pointer)
        require(block is not None, cl.INVALID_VALUE, f"{pointer:#x} is not shared virtual memory")
        for device in kernel.on:
            assert block is not None
            block.on(device)


# ---- queries ---------------------------------------------------------------------------------------------------------


@entry("clGetKernelInfo")
def get_kernel_info(call: Call, kernel: Kernel, name: int) -> bytes:
    """Answer a query of a kernel."""
    return query(
        name,
        {
            cl.KERNEL_FUNCTION_NAME: lambda: text(kernel.name),
            cl.KERNEL_NUM_ARGS: lambda: u32(len(kernel.arguments)),
            cl.KERNEL_CONTEXT: lambda: u64(kernel.context.handle),
            cl.KERNEL_PROGRAM: lambda: u64(kernel.program.handle),
            cl.KERNEL_ATTRIBUTES: lambda: text(_attributes(kernel)),
        },
        "clGetKernelInfo",
    )


def _attributes(kernel: Kernel) -> str:
    """Return the attributes of a kernel as in its source, as far as the code object has them."""
    if not kernel.program.source:
        return ""
    known = kernel.metadata
    found = [f"vec_type_hint({known.vector_type_hint})"] if known.vector_type_hint else []
    for name, size in (
        ("work_group_size_hint", known.workgroup_size_hint),
        ("reqd_work_group_size", known.required_workgroup_size),
    ):
        if size:
            found.append(f"{name}({','.join(map(str, size))})")
    return " ".join(found)


@entry("clGetKernelArgInfo")
def get_kernel_arg_info(call: Call, kernel: Kernel, index: int, name: int) -> bytes:
    """Answer a query about an argument of a kernel."""
    argument = _argument(kernel, index)
    require(
        kernel.program.source or argument.name,
        cl.KERNEL_ARG_INFO_NOT_AVAILABLE,
        "the binary has no information about arguments: build it from source with -cl-kernel-arg-info",
    )
    other = cl.KERNEL_ARG_ADDRESS_GLOBAL if argument.kind == "image" else cl.KERNEL_ARG_ADDRESS_PRIVATE
    access = _ACCESS.get(argument.access if argument.kind == "image" else "", cl.KERNEL_ARG_ACCESS_NONE)
    qualifiers = argument.is_const | argument.is_restrict << 1 | argument.is_volatile << 2
    return query(
        name,
        {
            cl.KERNEL_ARG_ADDRESS_QUALIFIER: lambda: u32(_SPACES.get(argument.address_space, other)),
            cl.KERNEL_ARG_ACCESS_QUALIFIER: lambda: u32(access),
            cl.KERNEL_ARG_TYPE_NAME: lambda: text(argument.type_name),
            cl.KERNEL_ARG_TYPE_QUALIFIER: lambda: u64(qualifiers),
            cl.KERNEL_ARG_NAME: lambda: text(argument.name),
        },
        "clGetKernelArgInfo",
    )


def _device(kernel: Kernel, device: Device | None) -> Device:
    """Return the device of a query; the only one if none was passed."""
    found = device if device is not None else next(iter(kernel.on)) if len(kernel.on) == 1 else None
    if found is None or found not in kernel.on:
        raise OpenClError(
            cl.INVALID_DEVICE,
            f"kernel {kernel.name} has several devices or was not built for this one: pass a device for which the "
            "program was built",
        )
    return found


@entry("clGetKernelWorkGroupInfo")
def get_kernel_work_group_info(call: Call, kernel: Kernel, device: Device | None, name: int) -> bytes:
    """Answer a query about groups of a kernel on a device."""
    found = _device(kernel, device)
    image = kernel.on[found].image
    require(
        name != cl.KERNEL_GLOBAL_WORK_SIZE,
        cl.INVALID_VALUE,
        "CL_KERNEL_GLOBAL_WORK_SIZE is only for built-in kernels and custom devices",
    )
    return query(
        name,
        {
            cl.KERNEL_WORK_GROUP_SIZE: lambda: u64(kernel.largest_group(found)),
            cl.KERNEL_COMPILE_WORK_GROUP_SIZE: lambda: u64(*(kernel.required(found) or (0, 0, 0))),
            cl.KERNEL_LOCAL_MEM_SIZE: lambda: u64(image.group_bytes),
            cl.KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE: lambda: u64(LANES),
            cl.KERNEL_PRIVATE_MEM_SIZE: lambda: u64(image.private_bytes),
        },
        "clGetKernelWorkGroupInfo",
    )


@entry("clGetKernelSubGroupInfo")
def get_kernel_sub_group_info(
    call: Call, kernel: Kernel, device: Device | None, name: int, sizes: bytes | None
) -> bytes:
    """Answer a query about sub-groups of a kernel, which are waves."""
    found = _device(kernel, device)
    largest = kernel.largest_group(found)

    def sized() -> tuple[int, ...]:
        valid = sizes is not None and len(sizes) in (8, 16, 24)
        require(valid, cl.INVALID_VALUE, "the input has a wrong size, expected 1 to 3 sizes of a group")
        assert sizes is not None
        return struct.unpack(f"<{len(sizes) // 8}Q", sizes)

    def group() -> bytes:
        valid = sizes is not None and len(sizes) == 8
        require(valid, cl.INVALID_VALUE, "the input has a wrong size, expected one number of sub-groups")
        assert sizes is not None
        items = struct.unpack("<Q", sizes)[0] * LANES
        return u64(*((items, 1, 1) if items <= largest else (0, 0, 0)))

    return query(
        name,
        {
            cl.KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE: lambda: u64(min(LANES, math.prod(sized()))),
            cl.KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE: lambda: u64(-(-math.prod(sized()) // LANES)),
            cl.KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT: group,
            cl.KERNEL_MAX_NUM_SUB_GROUPS: lambda: u64(-(-largest // LANES)),
            cl.KERNEL_COMPILE_NUM_SUB_GROUPS: lambda: u64(0),
        },
        "clGetKernelSubGroupInfo",
    )


@entry("clGetKernelSuggestedLocalWorkSize")
def get_kernel_suggested_local_work_size(
    call: Call,
    queue: CommandQueue,
    kernel: Kernel,
    work_dim: int,
    offset: tuple[int, ...] | None,
    size: tuple[int, ...] | None,
    suggested: int,
) -> tuple[int, ...]:
    """Return the group size that a launch without a group size gets."""
    require(1 <= work_dim <= 3, cl.INVALID_WORK_DIMENSION, f"work_dim is {work_dim}, expected 1 to 3")
    require(
        size and all(size), cl.INVALID_GLOBAL_WORK_SIZE, f"the global work size is {size}, expected sizes of 1 or more"
    )
    require(suggested, cl.INVALID_VALUE, "suggested_local_work_size is NULL, expected an address")
    assert size is not None
    return group_size(kernel, _device(kernel, queue.device), size)


# ---- launches --------------------------------------------------------------------------------------------------------


def group_size(kernel: Kernel, device: Device, size: Sequence[int]) -> tuple[int, ...]:
    """Return the group size of a launch without one: the required size, or divisors of the global size."""
    required = kernel.required(device)
    if required:
        return tuple(required)[: len(size)]
    left, found = min(kernel.largest_group(device), DEFAULT_ITEMS), []
    for each in size:
        part = next(count for count in range(min(left, each), 0, -1) if each % count == 0)
        found.append(part)
        left //= part
    return tuple(found)


def _check_sizes(
    kernel: Kernel, device: Device, size: tuple[int, ...], local: tuple[int, ...] | None
) -> tuple[int, ...]:
    """Return the group size of a launch; raise `OpenClError` if it does not fit the kernel or the device."""
    if local is None:
        return group_size(kernel, device, size)
    required, count = kernel.required(device), math.prod(local)
    title = f"the group size {'x'.join(map(str, local))}"
    require(all(local), cl.INVALID_WORK_GROUP_SIZE, f"{title} has a 0, expected sizes of 1 or more")
    require(
        not required or tuple(required)[: len(local)] == local,
        cl.INVALID_WORK_GROUP_SIZE,
        f"{title} differs from {tuple(required)}, which kernel {kernel.name} requires",
    )
    require(
        max(local) <= MOST_ITEMS,
        cl.INVALID_WORK_ITEM_SIZE,
        f"{title} exceeds CL_DEVICE_MAX_WORK_ITEM_SIZES ({MOST_ITEMS} in each dimension)",
    )
    largest = kernel.largest_group(device)
    require(
        count <= largest,
        cl.INVALID_WORK_GROUP_SIZE,
        f"{title} has {count} work-items, but kernel {kernel.name} was compiled for {largest} at most: use smaller "
        "groups, or the attribute reqd_work_group_size",
    )
    if any(whole % part for whole, part in zip(size, local, strict=True)):
        options = kernel.program.builds[device].options
        later = any(f"-cl-std={each}" in options for each in ("CL2", "CL3", "CLC++"))
        require(
            later and "-cl-uniform-work-group-size" not in options,
            cl.INVALID_WORK_GROUP_SIZE,
            f"{title} does not divide the global size {'x'.join(map(str, size))}: only programs built with "
            "-cl-std=CL2.0 or later may have smaller groups at the end",
        )
    return local


def _size(size: tuple[int, ...]) -> Size:
    """Return a size as `Gpu.run_kernel` takes it fastest."""
    return size[0] if len(size) == 1 else size


class Plan:
    """A launch of a kernel that passed all checks: its sizes and arguments. Equal launches share it.

    `values` are the arguments, with objects in place of their device addresses.
    """

    def __init__(
        self,
        kernel: Kernel,
        queue: CommandQueue,
        grid: tuple[int, ...],
        group: tuple[int, ...],
        start: tuple[int, ...],
        values: Sequence[Given | ArgumentObject],
    ) -> None:
        self.kernel = kernel
        self.memory = [each for each in values if isinstance(each, Memory)]
        self.uses: list[Used] = [kernel.program, *self.memory]
        self._read_only = [
            value
            for argument, value in zip(kernel.arguments, values, strict=True)
            if isinstance(value, Memory) and value.flags & cl.MEM_READ_ONLY and _may_be_stored_to(argument)
        ]
        self._queue = queue
        self._grid = _size(grid)
        self._group = _size(group)
        self._start = start
        self._values = values
        self._given: Sequence[Given] | Packed | None = None
        self._local_bytes = 0
        self._version = kernel.platform.version

    def enqueue(self, waits: Sequence[Event] | None, event: Place) -> CommandQueue:
        """Enqueue a launch; return the queue."""
        queue = self._queue
        for each in self.memory:
            if each.maps:
                _check_maps(self.kernel, each)
        queue.enqueue(Command(queue, waits, queue.event(event), self._launch, uses=self.uses))
        return queue

    def repeat(self, event: Place) -> CommandQueue | None:
        """Enqueue an equal launch without a wait list; return the queue, or None if the call must be decoded again."""
        platform = self.kernel.platform
        return self.enqueue(None, event) if self._version == platform.version else None

    def _launch(self) -> None:
        """Run the kernel, and report what the checks found."""
        device, context = self._queue.device, self._queue.context
        gpu, target = device.gpu, self.kernel.on[device]
        if self._given is None:
            self._given = self._arguments(device, target)
        findings = gpu.device.findings
        mark = len(findings)
        before = [each.data[:COMPARED_BYTES].copy() for each in self._read_only]
        try:
            result = gpu.run_kernel(
                target, self._grid, self._group, self._given, group_bytes=self._local_bytes, offset=self._start
            )
        finally:
            if len(findings) > mark:
                context.platform.report_findings(findings[mark:], context)
        for memory, data in zip(self._read_only, before, strict=True):
            if not np.array_equal(memory.data[: len(data)], data):
                _warn_of_store(self.kernel, memory)
        if result.text:
            context.platform.print(result.text)

    def _arguments(self, device: Device, target: DeviceKernel) -> Sequence[Given] | Packed:
        """Return the arguments on a device: as bytes, unless one of them is an image or sampler."""
        device_values = [each.argument(device) if isinstance(each, ArgumentObject) else each for each in self._values]
        explicit = self.kernel.arguments
        if any(each.kind in ("image", "sampler") for each in explicit):
            return device_values
        end, top = max((each.offset + each.size for each in explicit), default=0), target.image.group_bytes
        if any(each.offset < end for each in self.kernel.metadata.hidden):
            return device_values
        data = bytearray(end)
        for argument, value in zip(explicit, device_values, strict=True):
            if isinstance(value, Local):
                top = align_up(top, max(argument.pointee_align, LOCAL_ALIGNMENT))
                word = top.to_bytes(argument.size, "little")
                top += value.size
            else:
                word = value if isinstance(value, bytes) else cast(int, value).to_bytes(argument.size, "little")
            data[argument.offset : argument.offset + argument.size] = word
        self._local_bytes = top - target.image.group_bytes
        return Packed(bytes(data))


@entry("clEnqueueNDRangeKernel")
def enqueue_nd_range_kernel(
    call: Call,
    queue: CommandQueue,
    kernel: Kernel,
    work_dim: int,
    offset: Sizes | None,
    size: Sizes | None,
    local: Sizes | None,
    waits: list[Event] | None,
    arguments: bytes,
    event: Place,
) -> None:
    """Launch a kernel."""
    key = queue, work_dim, offset, size, local, arguments, call.platform.version
    plan = kernel.plans.get(key)
    if plan is None:
        plan = _plan(call, queue, kernel, work_dim, offset, size, local, arguments)
        if plan is None:
            queue.enqueue(Command(queue, waits, queue.event(event)))
            return
        if len(kernel.plans) >= MOST_PLANS:
            kernel.plans.clear()
        kernel.plans[key] = plan
    plan.enqueue(waits, event)
    if not waits:
        call.repeat = plan


def _may_be_stored_to(argument: Argument) -> bool:
    return argument.kind == "global_buffer" and argument.address_space == "global" and not argument.is_const


def _warn_of_store(kernel: Kernel, memory: Memory) -> None:
    """Warn of a kernel that has stored to a buffer with CL_MEM_READ_ONLY (OpenCL 3.0, 5.2.1).

    The store takes effect, as on real devices: programs such as hashcat fill such buffers by a kernel.
    """
    memory.platform.warn(
        "read-only-written",
        f"kernel {kernel.name} has stored to the {memory.title}",
        memory.context,
        "create the buffer with CL_MEM_READ_WRITE: the result of the store is undefined (OpenCL 3.0, 5.2.1)",
    )


def _check_maps(kernel: Kernel, memory: Memory) -> None:
    """Warn of a kernel that uses an object while the program has mapped it for writing (OpenCL 3.0, 5.4.3)."""
    if any(each.flags & WRITING for each in memory.maps):
        memory.platform.warn(
            "mapped-for-writing",
            f"kernel {kernel.name} uses the {memory.title} while the program has mapped it for writing",
            memory.context,
            "call clEnqueueUnmapMemObject before you enqueue the kernel (OpenCL 3.0, 5.4.3)",
        )


def _plan(
    call: Call,
    queue: CommandQueue,
    kernel: Kernel,
    work_dim: int,
    offset: Sizes | None,
    size: Sizes | None,
    local: Sizes | None,
    arguments: bytes,
) -> Plan | None:
    """Check a launch; return its plan, or None if it has no work-items."""
    device = queue.device
    require(kernel.context is queue.context, cl.INVALID_CONTEXT, "the kernel belongs to another context than the queue")
    if device not in kernel.on:
        raise OpenClError(
            cl.INVALID_PROGRAM_EXECUTABLE, f"kernel {kernel.name} was not built for device {device.agent}"
        )
    values = _values(call, kernel, arguments)
    grid = (size or (0, 0, 0))[:work_dim]
    if not all(grid):
        return None
    group = _check_sizes(kernel, device, grid, local[:work_dim] if local else None)
    start = offset[:work_dim] if offset and any(offset) else ORIGIN
    return Plan(kernel, queue, grid, group, start, values)


def _values(call: Call, kernel: Kernel, block: bytes) -> list[Given | ArgumentObject]:
    """Return the values of a launch, from the library's block of arguments; check that all are set."""
    values: list[Given | ArgumentObject] = []
    at = 0
    for index, argument in enumerate(kernel.arguments):
        word = struct.unpack_from("<Q", block, at)[0]
        state, size = word >> 48, word & (1 << 48) - 1
        at += 8
        name = argument.name or argument.type_name or argument.kind
        require(
            state != UNSET,
            cl.INVALID_KERNEL_ARGS,
            f"argument {index} ({name}) of kernel {kernel.name} was not set: call clSetKernelArg",
        )
        if state == LOCAL_MEMORY:
            values.append(Local(size))
            continue
        data = block[at : at + size]
        at += size + -size % 8
        if state == BY_VALUE:
            values.append(data.ljust(argument.size, b"\0"))
            continue
        pointer = struct.unpack("<Q", data)[0]
        if state == SVM_POINTER:
            values.append(SvmPointer(kernel, pointer))
        elif not pointer:
            values.append(0)
        else:
            found = call.platform.objects.get(pointer)
            if not isinstance(found, ArgumentObject):
                text = (
                    f"the object for argument {index} ({name}) of kernel {kernel.name} was released before the launch"
                )
                raise OpenClError(cl.INVALID_KERNEL_ARGS, text)
            values.append(found)
    return values


class SvmPointer(Object):
    """A pointer to shared virtual memory as an argument."""

    def __init__(self, kernel: Kernel, pointer: int) -> None:
        super().__init__(kernel.platform, 0)
        self._context = kernel.context
        self._pointer = pointer

    def argument(self, device: Device) -> int:
        """Return the pointer, after all shared virtual memory was mapped on the device."""
        for each in tuple(self._context.svm.values()):
            each.on(device)
        return self._pointer


@entry("clEnqueueNativeKernel")
def enqueue_native_kernel(
    call: Call,
    queue: CommandQueue,
    function: int,
    arguments: bytes,
    memory: list[Memory] | None,
    places: tuple[int, ...] | None,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Call a function of the program, with the addresses of memory objects in place of their handles."""
    data = bytearray(arguments)
    for each, place in zip(memory or (), places or (), strict=True):
        require(place + 8 <= len(data), cl.INVALID_VALUE, f"args_mem_loc is {place}, expected a place in the arguments")
        struct.pack_into("<Q", data, place, each.address)
    check_context(queue, *(memory or ()))

    def run() -> None:
        queue.platform.client.call_native(function, bytes(data))
        for each in memory or ():
            each.host_writes()

    queue.enqueue(Command(queue, waits, queue.event(event), run, uses=memory or ()))
