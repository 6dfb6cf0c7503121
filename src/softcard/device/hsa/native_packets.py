"""The native function that processes repeated kernel dispatches, from the ring to the completion signal.

A `Template` holds everything that depends on a kernel's header and a packet's sizes. If a packet matches a
template, the function writes only the differences (the addresses of packet and arguments, the dispatch id)
to the initial scalar registers, and runs the waves. All other packets, including invalid ones, stay in the
ring for the Python code in `processor`. A test compares the two implementations.

Every packet ends with `retire` and `count_down`. If listeners need each event at once, `processor` calls
these two functions and creates the events. Otherwise the native function writes a log, from which the
events are created later."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

from softcard.device.hsa.queues.packets import PACKET_BYTES, SIGNAL_AT, TYPE_MASK, PacketType
from softcard.device.hsa.queues.records import SIGNAL_BYTES, AmdQueue, AmdSignal, QueueProperties, SignalKind
from softcard.engine.gcn.jit import layout as waves
from softcard.engine.gcn.jit.native_memory import host_address
from softcard.engine.gcn.memory import ADDRESS_BITS
from softcard.engine.gcn.tiered.context import Context
from softcard.ir.native import A16, A32, A64, U32, U64, V64, call, inlined, layout, link, native, numbers, signed
from softcard.ir.object_cache import ObjectCache, default_folder
from softcard.isa.gcn.state import SGPRS


@layout
class QueueBlock(ctypes.Structure):
    """The state of a queue that Python and the native functions of this module share.

    Addresses are those of this process, unless the field's name contains "address": those are guest addresses."""

    ring: int
    ring_address: int
    mask: int
    """The number of packets in the ring minus 1."""
    queue: int
    limit: int
    active: int
    templates: int
    count: int
    tables: int
    clock: int
    schedule: int
    listened: int
    """Nonzero if machine code must return after each packet has run, so that Python completes it."""
    log: int
    """The address at which a `LoggedPacket` is written for each finished packet; 0 to write none."""
    bits: int
    """The number of bits of pointers and signal values: 64, or 32 in the small machine model."""
    template: int
    done: int
    id: int
    signal: int
    start: int
    why: int
    instructions: int
    ticks: int
    seen: int
    """The value that `ticks` must still have for machine code to continue with the next packet."""
    clock_gettime: int
    """The address of the host's clock_gettime if timestamps use it; 0 if timestamps are values of `clock`."""
    clock_id: int
    seconds: int
    nanoseconds: int
    began: int
    """The host's time at the start of the current packet."""


@layout
class Template(ctypes.Structure):
    """A launch that can be repeated for later packets with an equal kernel header and equal sizes.

    The fields `key0` to `key4` are bytes 2 to 39 of the packet; a later packet matches if these bytes are
    equal. A register number is -1 if the kernel does not request that register."""

    key0: int
    key1: int
    key2: int
    key3: int
    key4: int
    context: int
    groups: int
    table: int
    guards: int
    guard_count: int
    sgprs: int
    waves: int
    packet_sgpr: int
    kernarg_sgpr: int
    id_sgpr: int
    preload_sgpr: int
    preload_at: int
    """The byte offset in the kernarg segment of the preloaded arguments.

    From there on, `preload_dwords` dwords are written to the scalar registers from `preload_sgpr` on.
    """
    preload_dwords: int


@layout
class LoggedPacket(ctypes.Structure):
    """The log entry of a packet: its times, its instruction count, its completion signal, and its contents.

    `value` is the value of the completion signal before it was decremented."""

    index: int
    start: int
    end: int
    instructions: int
    signal: int
    value: int
    packet0: int
    packet1: int
    packet2: int
    packet3: int
    packet4: int
    packet5: int
    packet6: int
    packet7: int


@layout
class Guard(ctypes.Structure):
    """A check that memory is unchanged: its address, the address of a saved copy, and the number of dwords."""

    live: int
    copy: int
    dwords: int


Q: Final = numbers(QueueBlock)
T: Final = numbers(Template)
L: Final = numbers(LoggedPacket)

IDLE, OTHER, SERVE, COMPLETE, BUDGET = range(5)
"""The results of the native function `consume`.

- `IDLE`: the queue has no packet to process.
- `OTHER`: Python must process the next packet.
- `SERVE`: waves of `template` returned to Python with the reason `why`.
- `COMPLETE`: the packet of `template` has run and must be completed.
- `BUDGET`: the budget is used up, or time has passed.
"""

_LIMIT_AT: Final = 8 * Q["limit"]
_ACTIVE_AT: Final = 8 * Q["active"]
_SECONDS_AT: Final = 8 * Q["seconds"]
_KERNARG_AT: Final = 40
_PACKET_WORDS: Final = PACKET_BYTES // 8
_LOGGED_PACKET_AT: Final = 8 * L["packet0"]
_READ_AT: Final = AmdQueue.offset_of("read_dispatch_id")
_PROPERTIES_AT: Final = AmdQueue.offset_of("queue_properties")
_KIND_AT: Final = AmdSignal.offset_of("kind")
_MAILBOX_AT: Final = AmdSignal.offset_of("event_mailbox_ptr")
_VALUE_AT: Final = AmdSignal.offset_of("value")
_START_TS_AT: Final = AmdSignal.offset_of("start_ts")
_END_TS_AT: Final = AmdSignal.offset_of("end_ts")


@native
def consume(queue: QueueBlock, budget: int) -> int:
    """Process up to `budget` packets of a queue.

    Return the reason why processing ended: `IDLE`, `OTHER`, `SERVE`, `COMPLETE` or `BUDGET`."""
    limit, active = ctypes.addressof(queue) + _LIMIT_AT, ctypes.addressof(queue) + _ACTIVE_AT
    read_index, bits = queue.queue + _READ_AT, queue.bits
    queue.done = 0
    for done in range(budget):
        queue.done = done
        index = A64.load(read_index)
        if index >= A64.load(limit) or not A64.load(active):
            return IDLE
        offset = (index & queue.mask) * PACKET_BYTES
        packet = queue.ring + offset
        if A16.load(packet) & TYPE_MASK != PacketType.KERNEL_DISPATCH:
            return OTHER
        number = fitting(queue, packet)
        if number == queue.count:
            return OTHER
        queue.template = number
        template = Template.from_address(queue.templates + number * ctypes.sizeof(Template))
        kernarg, signal = U64[packet + _KERNARG_AT], U64[packet + SIGNAL_AT]
        if kernarg >> bits or not holds(template):
            return OTHER
        preloaded = 0
        if template.preload_dwords:
            preloaded = host_address(queue.tables, kernarg + template.preload_at, 4 * template.preload_dwords, 0)
            if not preloaded:
                return OTHER
        queue.id, queue.signal = index, signal
        give(template, template.packet_sgpr, queue.ring_address + offset)
        give(template, template.kernarg_sgpr, kernarg)
        give(template, template.id_sgpr, index)
        preload(template, preloaded)
        context = Context.from_address(template.context)
        context.template += 1
        context.cursor, context.last, context.running, context.retired = 0, template.groups, 0, 0
        context.code_of_entry = template.table
        start = U64[queue.clock]
        queue.start = start
        queue.began = host_time(queue, start)
        why = call(queue.schedule, template.context)
        if why != waves.DONE:
            queue.why = why
            return SERVE
        place = 0
        if signal and not queue.listened:
            place = simple_signal(queue, signal)
        if queue.listened or (signal and not place):
            queue.why = waves.DONE
            return COMPLETE
        queue.instructions += context.retired
        row = queue.log + done * ctypes.sizeof(LoggedPacket)
        if queue.log:  # the slot may be reused once it is retired
            for word in range(_PACKET_WORDS):
                U64[row + _LOGGED_PACKET_AT + 8 * word] = U64[packet + 8 * word]
        end = retire(queue, index, start, context.retired)
        before = 0
        if place:
            before = count_down(queue, place, queue.began, host_time(queue, end))
        if queue.log:
            logged = LoggedPacket.from_address(row)
            logged.index, logged.start, logged.end = index, start, end
            logged.instructions, logged.signal, logged.value = context.retired, signal, before
        if V64[queue.ticks] != queue.seen:
            queue.done = done + 1
            return BUDGET
    queue.done = budget
    return BUDGET


@inlined
def host_time(queue: QueueBlock, otherwise: int) -> int:
    """Return the host's time if timestamps use the host's clock, else `otherwise`."""
    if not queue.clock_gettime:
        return otherwise
    call(queue.clock_gettime, queue.clock_id, ctypes.addressof(queue) + _SECONDS_AT)
    return queue.seconds * 1_000_000_000 + queue.nanoseconds


@native
def retire(queue: QueueBlock, index: int, start: int, instructions: int) -> int:
    """End a packet: advance the device's clock and free the packet's slot in the ring; return the end time.

    The end time is `start` plus `instructions` plus 1. If packets of other queues were processed meanwhile
    and the clock is already later, it is the time of the clock."""
    end = max(start + instructions + 1, U64.at(queue.clock)[0])
    U64[queue.clock] = end
    A16.release(queue.ring + (index & queue.mask) * PACKET_BYTES, PacketType.INVALID)
    A64.store(queue.queue + _READ_AT, index + 1)
    return end


@native
def count_down(queue: QueueBlock, signal: int, start: int, end: int) -> int:
    """Complete a packet: decrement its completion signal at address `signal`, and return the previous value.

    If the queue has profiling enabled, first write the timestamps `start` and `end` to the signal."""
    if U32[queue.queue + _PROPERTIES_AT] & QueueProperties.ENABLE_PROFILING:
        U64[signal + _START_TS_AT], U64[signal + _END_TS_AT] = start, end
    if queue.bits == 64:
        return A64.sub(signal + _VALUE_AT, 1)
    return A32.sub(signal + _VALUE_AT, 1)


@inlined
def fitting(queue: QueueBlock, packet: int) -> int:
    """Return the index of the template that matches the packet at address `packet`; `queue.count` if none matches."""
    words, key0 = U64.at(packet), U64[packet] >> 16
    for number in range(queue.count):
        each = Template.from_address(queue.templates + number * ctypes.sizeof(Template))
        if (
            (each.key0 == key0)
            & (each.key1 == words[1])
            & (each.key2 == words[2])
            & (each.key3 == words[3])
            & (each.key4 == words[4])
        ):
            return number
    return queue.count


@inlined
def holds(template: Template) -> int:
    """Return nonzero if the memory that a template depends on is unchanged since the template was made."""
    for number in range(template.guard_count):
        guard = Guard.from_address(template.guards + number * ctypes.sizeof(Guard))
        live, kept = U32.at(guard.live), U32.at(guard.copy)
        for dword in range(guard.dwords):
            if live[dword] != kept[dword]:
                return 0
    return 1


@inlined
def give(template: Template, register: int, value: int) -> None:
    """Write a 64-bit value to the scalar register pair `register` of all waves; do nothing if `register` is -1."""
    if signed(register) >= 0:
        for wave in range(template.waves):
            U64[template.sgprs + 4 * (wave * SGPRS + register)] = value


@inlined
def preload(template: Template, arguments: int) -> None:
    """Write the preloaded arguments at host address `arguments` to the scalar registers of all waves."""
    for wave in range(template.waves):
        registers = U32.at(template.sgprs + 4 * (wave * SGPRS + template.preload_sgpr))
        for dword in range(template.preload_dwords):
            registers[dword] = U32.at(arguments)[dword]


@inlined
def simple_signal(queue: QueueBlock, address: int) -> int:
    """Return the address in this process of a completion signal that only has to be decremented.

    Return 0 if the signal at guest address `address` needs more, such as an event.
    """
    if address & 63 or address >> ADDRESS_BITS:
        return 0
    signal = host_address(queue.tables, address, SIGNAL_BYTES, 1)
    if not signal or U64[signal + _KIND_AT] != SignalKind.USER or U64[signal + _MAILBOX_AT]:
        return 0
    return signal


@cache
def consumer() -> Callable[[int, int], int]:
    """Return the machine code of `consume` as ``consume(block, budget)``, which releases the GIL.

    `block` is the address of a `QueueBlock`.
    """
    code = link(ObjectCache(default_folder()), consume)
    return code.function("consume", ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)


@cache
def ending() -> tuple[Callable[[int, int, int, int], int], Callable[[int, int, int, int], int]]:
    """Return the two functions that end a packet, `retire` and `count_down`, as machine code.

    The first argument of both is the address of a `QueueBlock`."""
    code, word = link(ObjectCache(default_folder()), retire, count_down), ctypes.c_void_p
    first, second = (
        code.function(each.name, ctypes.c_uint64, word, word, word, word, is_brief=True)
        for each in (retire, count_down)
    )
    return first, second
