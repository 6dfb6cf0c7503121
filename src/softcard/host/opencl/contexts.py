"""The entry points for contexts, command queues and events."""

from __future__ import annotations

from softcard.host.opencl import constants as cl
from softcard.host.opencl.calls import Call, Made, entry, pairs, query, u32, u64, words
from softcard.host.opencl.errors import OpenClError, require
from softcard.host.opencl.events import Command, CommandQueue, Event, wait_for
from softcard.host.opencl.objects import Callback, Context, Device

QUEUE_PROPERTIES: int = cl.QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | cl.QUEUE_PROFILING_ENABLE
DEVICE_QUEUE: int = cl.QUEUE_ON_DEVICE | cl.QUEUE_ON_DEVICE_DEFAULT


@entry("clUnloadCompiler", "clUnloadPlatformCompiler")
def unload_compiler(call: Call, platform: object = None) -> None:
    """Do nothing: a compiler runs only while it compiles."""


@entry("clCreateSubDevices")
def create_sub_devices(call: Call, device: Device, properties: tuple[int, ...] | None, devices: int) -> bytes:
    """Refuse to partition a device: the devices report that they support no kind of partition."""
    raise OpenClError(cl.INVALID_VALUE, f"device {device.agent} cannot be partitioned: use the device as a whole")


# ---- contexts --------------------------------------------------------------------------------------------------------


@entry("clCreateContext")
def create_context(
    call: Call, properties: tuple[int, ...] | None, devices: list[Device] | None, notify: Callback
) -> Made:
    """Make a context."""
    require(devices, cl.INVALID_VALUE, "clCreateContext: the list of devices is empty, expected one or more")
    require(notify[0] or not notify[1], cl.INVALID_VALUE, "clCreateContext: user_data was passed without pfn_notify")
    for name, value in pairs(properties).items():
        if name == cl.CONTEXT_PLATFORM:
            require(value == call.platform.handle, cl.INVALID_PLATFORM, "CL_CONTEXT_PLATFORM is not this platform")
        else:
            require(
                name == cl.CONTEXT_INTEROP_USER_SYNC,
                cl.INVALID_PROPERTY,
                f"the context property {name:#x} is unknown, expected CL_CONTEXT_PLATFORM or "
                "CL_CONTEXT_INTEROP_USER_SYNC",
            )
            is_bool = value in (0, 1)
            require(
                is_bool, cl.INVALID_PROPERTY, f"CL_CONTEXT_INTEROP_USER_SYNC is {value}, expected CL_TRUE or CL_FALSE"
            )
    assert devices is not None
    unique = list(dict.fromkeys(devices))
    made = Context(call.platform, call.made, unique, None if properties is None else tuple(properties), notify)
    return Made(made)


@entry("clGetContextInfo")
def get_context_info(call: Call, context: Context, name: int) -> bytes:
    """Answer a query of a context."""
    return query(
        name,
        {
            cl.CONTEXT_NUM_DEVICES: lambda: u32(len(context.devices)),
            cl.CONTEXT_DEVICES: lambda: u64(*(each.handle for each in context.devices)),
            cl.CONTEXT_PROPERTIES: lambda: words(context.properties),
        },
        "clGetContextInfo",
    )


@entry("clSetContextDestructorCallback")
def set_context_destructor_callback(call: Call, context: Context, notify: Callback) -> None:
    """Register a function that is called when the context ends."""
    require(notify[0], cl.INVALID_VALUE, "clSetContextDestructorCallback: pfn_notify is NULL, expected a function")
    context.destructors.append(notify)


# ---- queues ----------------------------------------------------------------------------------------------------------


def _queue(
    call: Call, context: Context, device: Device, properties: int, property_list: tuple[int, ...] | None
) -> Made:
    context.device(device)
    known = QUEUE_PROPERTIES | DEVICE_QUEUE
    require(
        not properties & ~known,
        cl.INVALID_VALUE,
        f"the queue properties {properties:#x} have unknown bits, expected CL_QUEUE_* flags",
    )
    require(
        not properties & DEVICE_QUEUE,
        cl.INVALID_QUEUE_PROPERTIES,
        "the devices do not support on-device queues: create a queue without CL_QUEUE_ON_DEVICE",
    )
    return Made(CommandQueue(context, call.made, device, properties, property_list))


@entry("clCreateCommandQueue")
def create_command_queue(call: Call, context: Context, device: Device, properties: int) -> Made:
    """Make a queue, with the function of OpenCL 1.x."""
    return _queue(call, context, device, properties, None)


@entry("clCreateCommandQueueWithProperties")
def create_command_queue_with_properties(
    call: Call, context: Context, device: Device, properties: tuple[int, ...] | None
) -> Made:
    """Make a queue."""
    found = pairs(properties)
    for name in found:
        require(
            name == cl.QUEUE_PROPERTIES or name == cl.QUEUE_SIZE,
            cl.INVALID_VALUE,
            f"the queue property {name:#x} is unknown, expected CL_QUEUE_PROPERTIES or CL_QUEUE_SIZE",
        )
    bits = found.get(cl.QUEUE_PROPERTIES, 0)
    require(
        cl.QUEUE_SIZE not in found or bits & cl.QUEUE_ON_DEVICE,
        cl.INVALID_VALUE,
        "CL_QUEUE_SIZE is only for queues on the device",
    )
    return _queue(call, context, device, bits, properties)


@entry("clGetCommandQueueInfo")
def get_command_queue_info(call: Call, queue: CommandQueue, name: int) -> bytes:
    """Answer a query of a queue."""
    require(
        name not in (cl.QUEUE_SIZE, cl.QUEUE_DEVICE_DEFAULT) or name == cl.QUEUE_DEVICE_DEFAULT,
        cl.INVALID_COMMAND_QUEUE,
        "only queues on the device have a size",
    )
    return query(
        name,
        {
            cl.QUEUE_CONTEXT: lambda: u64(queue.context.handle),
            cl.QUEUE_DEVICE: lambda: u64(queue.device.handle),
            cl.QUEUE_PROPERTIES: lambda: u64(queue.properties),
            cl.QUEUE_PROPERTIES_ARRAY: lambda: words(queue.words),
            cl.QUEUE_DEVICE_DEFAULT: lambda: u64(0),
        },
        "clGetCommandQueueInfo",
    )


@entry("clSetCommandQueueProperty")
def set_command_queue_property(call: Call, queue: CommandQueue, properties: int, enable: int) -> tuple[int]:
    """Change properties of a queue, as OpenCL 1.0 can; return the old ones."""
    require(
        not properties & ~QUEUE_PROPERTIES,
        cl.INVALID_VALUE,
        f"the queue properties {properties:#x} have unknown bits, expected CL_QUEUE_* flags",
    )
    call.proceed()
    queue.finish()
    old = queue.properties
    queue.properties = old | properties if enable else old & ~properties
    queue.is_profiling = bool(queue.properties & cl.QUEUE_PROFILING_ENABLE)
    queue.is_out_of_order = bool(queue.properties & cl.QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    return (old,)


@entry("clSetDefaultDeviceCommandQueue")
def set_default_device_command_queue(call: Call, context: Context, device: Device, queue: CommandQueue | None) -> None:
    """Refuse the call, because the devices do not support on-device queues."""
    raise OpenClError(
        cl.INVALID_OPERATION, f"device {device.agent} does not support on-device queues: use a host queue"
    )


@entry("clFlush")
def flush(call: Call, queue: CommandQueue) -> None:
    """Let the commands of a queue run."""
    queue.flush()


@entry("clFinish")
def finish(call: Call, queue: CommandQueue) -> None:
    """Wait until all commands of a queue have ended."""
    call.proceed()
    queue.finish()


@entry("clEnqueueMarkerWithWaitList")
def enqueue_marker_with_wait_list(
    call: Call, queue: CommandQueue, waits: list[Event] | None, event: tuple[int, int]
) -> None:
    """Enqueue a command that ends when the events, or all earlier commands, have ended."""
    queue.enqueue(Command(queue, waits, queue.event(event), follows_all=not waits))


@entry("clEnqueueMarker")
def enqueue_marker(call: Call, queue: CommandQueue, event: tuple[int, int]) -> None:
    """Enqueue a marker, with the function of OpenCL 1.0."""
    require(event[0], cl.INVALID_VALUE, "clEnqueueMarker: event is NULL, expected a place for the event")
    enqueue_marker_with_wait_list(call, queue, None, event)


@entry("clEnqueueBarrierWithWaitList")
def enqueue_barrier_with_wait_list(
    call: Call, queue: CommandQueue, waits: list[Event] | None, event: tuple[int, int] = (0, 0)
) -> None:
    """Enqueue a command that later commands wait for."""
    queue.enqueue(Command(queue, waits, queue.event(event), follows_all=not waits, is_barrier=True))


@entry("clEnqueueBarrier")
def enqueue_barrier(call: Call, queue: CommandQueue) -> None:
    """Enqueue a barrier, with the function of OpenCL 1.0."""
    enqueue_barrier_with_wait_list(call, queue, None)


@entry("clEnqueueWaitForEvents")
def enqueue_wait_for_events(call: Call, queue: CommandQueue, waits: list[Event] | None) -> None:
    """Enqueue a barrier that waits for events, with the function of OpenCL 1.0."""
    require(waits, cl.INVALID_VALUE, "clEnqueueWaitForEvents: the list of events is empty, expected one or more")
    enqueue_barrier_with_wait_list(call, queue, waits)


# ---- events ----------------------------------------------------------------------------------------------------------


@entry("clWaitForEvents")
def wait_for_events(call: Call, events: list[Event]) -> None:
    """Wait until events are complete."""
    call.proceed()
    wait_for(events)


@entry("clCreateUserEvent")
def create_user_event(call: Call, context: Context, event: tuple[int, int]) -> None:
    """Make an event whose status the program sets."""
    call.platform.add(Event(context, *event, cl.SUBMITTED))


@entry("clSetUserEventStatus")
def set_user_event_status(call: Call, event: Event, status: int) -> None:
    """Set the status of a user event, which is possible once."""
    require(
        not isinstance(event.owner, CommandQueue),
        cl.INVALID_EVENT,
        "the event belongs to a command, expected a user event",
    )
    require(status <= cl.COMPLETE, cl.INVALID_VALUE, f"the status is {status}, expected CL_COMPLETE or an error code")
    with call.platform.changed:
        require(
            not event.is_complete,
            cl.INVALID_OPERATION,
            "the status of the user event is already set, expected one call per event",
        )
        event.set_status(status)
        call.platform.changed.notify_all()


@entry("clSetEventCallback")
def set_event_callback(call: Call, event: Event, status: int, notify: Callback) -> None:
    """Register a function that is called when the event has a status."""
    require(notify[0], cl.INVALID_VALUE, "clSetEventCallback: pfn_notify is NULL, expected a function")
    require(
        status in (cl.COMPLETE, cl.RUNNING, cl.SUBMITTED),
        cl.INVALID_VALUE,
        f"the status is {status}, expected CL_SUBMITTED, CL_RUNNING or CL_COMPLETE",
    )
    event.add_callback(status, notify)
