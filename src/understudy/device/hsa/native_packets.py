"""Repeated kernel dispatches as native code: from the ring to the completion signal.

A template holds all that follows from a kernel's header and a packet's sizes. Where a packet fits one, only what
differs is put into the first scalar registers (addresses of packet and arguments, the dispatch id) and the waves run.
Everything else, and everything that is not right, is left to `processor` with nothing of the packet done. A test holds
the two together. How a packet ends is the same for all: `retire` and `count_down`. While somebody looks at the device
at each event, `processor` calls them, and makes the events; for those who take events later a log is kept.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

from understudy.device.hsa.packets import PACKET_BYTES, SIGNAL_AT, TYPE_MASK, PacketType
from understudy.device.hsa.records import SIGNAL_BYTES, AmdQueue, AmdSignal, QueueProperties, SignalKind
from understudy.engine.gcn.jit import layout as waves
from understudy.engine.gcn.jit.context import Context
from understudy.engine.gcn.jit.native_memory import host_address
from understudy.engine.gcn.memory import ADDRESS_BITS
from understudy.ir.native import A16, A32, A64, U32, U64, V64, call, inlined, layout, link, native, numbers, signed
from understudy.ir.object_cache import ObjectCache, default_folder
from understudy.isa.gcn.state import SGPRS


@layout
class QueueBlock(ctypes.Structure):
    """What Python and machine code share of a queue: places in this process, unless they are called addresses."""

    ring: int
    ring_address: int
    mask: int
    """Packets in the ring - 1."""
    queue: int
    limit: int
    active: int
    templates: int
    count: int
    tables: int
    clock: int
    schedule: int
    listened: int
    """Whether packets that have run are left to be completed."""
    log: int
    """Where a `LoggedPacket` is written for each that is done; 0: nowhere."""
    bits: int
    """Of pointers and signal values: 64 or 32."""
    template: int
    done: int
    id: int
    signal: int
    start: int
    why: int
    instructions: int
    ticks: int
    seen: int
    """What `ticks` says as long as machine code may go on with the next packet."""
    clock_gettime: int
    """The host's function, where timestamps are its time; 0: they are those of `clock`."""
    clock_id: int
    seconds: int
    nanoseconds: int
    began: int
    """The host's time when the packet was begun."""


@layout
class Template(ctypes.Structure):
    """A launch. The keys are the packet's bytes 2 to 39; register numbers are -1 where a kernel has none."""

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


@layout
class LoggedPacket(ctypes.Structure):
    """What was done for a packet: times, instructions, the signal's handle and its value before, and the packet."""

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
    """Places of what is and of what was, and the number of dwords that must be the same."""

    live: int
    copy: int
    dwords: int


Q: Final = numbers(QueueBlock)
T: Final = numbers(Template)
L: Final = numbers(LoggedPacket)

IDLE, OTHER, SERVE, COMPLETE, BUDGET = range(5)
"""Results: nothing to do; the packet is for somebody else; waves of `template` left with `why`; the packet of
`template` has run and has to be completed; as many packets as allowed are done, or time has passed."""

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
    """Process packets, at most `budget`."""
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
        queue.id, queue.signal = index, signal
        give(template, template.packet_sgpr, queue.ring_address + offset)
        give(template, template.kernarg_sgpr, kernarg)
        give(template, template.id_sgpr, index)
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
        if queue.log:  # its slot may be used again as soon as it is retired
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
    """The host's time, where timestamps are that."""
    if not queue.clock_gettime:
        return otherwise
    call(queue.clock_gettime, queue.clock_id, ctypes.addressof(queue) + _SECONDS_AT)
    return queue.seconds * 1_000_000_000 + queue.nanoseconds


@native
def retire(queue: QueueBlock, index: int, start: int, instructions: int) -> int:
    """The packet is done: the clock goes on, and its slot may be used again; gives the time.

    The clock is ahead where packets of other queues were processed beside it.
    """
    end = max(start + instructions + 1, U64.at(queue.clock)[0])
    U64[queue.clock] = end
    A16.release(queue.ring + (index & queue.mask) * PACKET_BYTES, PacketType.INVALID)
    A64.store(queue.queue + _READ_AT, index + 1)
    return end


@native
def count_down(queue: QueueBlock, signal: int, start: int, end: int) -> int:
    """Complete with a signal that lies at `signal`: the times if the queue wants them, then the value; it before."""
    if U32[queue.queue + _PROPERTIES_AT] & QueueProperties.ENABLE_PROFILING:
        U64[signal + _START_TS_AT], U64[signal + _END_TS_AT] = start, end
    if queue.bits == 64:
        return A64.sub(signal + _VALUE_AT, 1)
    return A32.sub(signal + _VALUE_AT, 1)


@inlined
def fitting(queue: QueueBlock, packet: int) -> int:
    """Number of the template that a packet fits; `count` where it fits none."""
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
    """Whether everything that a template was made of is as it was."""
    for number in range(template.guard_count):
        guard = Guard.from_address(template.guards + number * ctypes.sizeof(Guard))
        live, kept = U32.at(guard.live), U32.at(guard.copy)
        for dword in range(guard.dwords):
            if live[dword] != kept[dword]:
                return 0
    return 1


@inlined
def give(template: Template, register: int, value: int) -> None:
    """Put a value into two scalar registers of all waves, if the kernel has them."""
    if signed(register) >= 0:
        for wave in range(template.waves):
            U64[template.sgprs + 4 * (wave * SGPRS + register)] = value


@inlined
def simple_signal(queue: QueueBlock, address: int) -> int:
    """Where the signal to complete with lies, if it has to be counted down and nothing else; else 0."""
    if address & 63 or address >> ADDRESS_BITS:
        return 0
    signal = host_address(queue.tables, address, SIGNAL_BYTES, 1)
    if not signal or U64[signal + _KIND_AT] != SignalKind.USER or U64[signal + _MAILBOX_AT]:
        return 0
    return signal


@cache
def consumer() -> Callable[[int, int], int]:
    """``consume(block, budget)``, without the interpreter lock."""
    code = link(ObjectCache(default_folder()), consume)
    return code.function("consume", ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)


@cache
def ending() -> tuple[Callable[[int, int, int, int], int], Callable[[int, int, int, int], int]]:
    """`retire` and `count_down`, which are given the block's address."""
    code, word = link(ObjectCache(default_folder()), retire, count_down), ctypes.c_void_p
    first, second = (
        code.function(each.name, ctypes.c_uint64, word, word, word, word, is_brief=True)
        for each in (retire, count_down)
    )
    return first, second
