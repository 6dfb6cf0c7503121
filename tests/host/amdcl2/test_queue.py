"""Device-side queues: kernels that enqueue kernels, and the scheduler on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from softcard.core.device import Telemetry
from softcard.core.errors import GuestFault, WireError
from softcard.core.event import Event, Probes
from softcard.device.amdcl2.events import KernelFinished, KernelStarted
from softcard.device.amdcl2.queue_records import (
    CL_COMPLETE,
    CL_SUBMITTED,
    AqlWrap,
    EnqueueFlags,
    QueueEvent,
    QueueShape,
    VirtualQueue,
    WrapState,
)
from softcard.device.amdcl2.scheduler import PACKET, ChildCompleted, ChildLaunched, Scheduler, make_queue
from softcard.device.hsa.launch.plan import DispatchRefused
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.device.hsa.wave_events import WaveEnded, WavesLeftOut
from softcard.engine.gcn.memory import GpuMemory
from softcard.host.amdcl2.program import DeviceQueue, Program
from softcard.image.amdcl2.arguments import Argument, Kind
from softcard.image.amdcl2.build import Described, Features, KernelNeeds, pointer
from softcard.image.amdcl2.records import MetadataHeader64, Queue64
from tests.host.amdcl2.rig import DEVICES, kernel, program

ENQUEUE = Features(usesetup=True, useargs=True, useenqueue=True)
SECOND = Described(index=1)


def store(base: str, offset: int, value: str | int) -> str:
    """A store of one dword from the first lane."""
    return f"""
    s_add_u32 s28, {base}, {offset:#x}
    s_addc_u32 s29, s{int(base[1:]) + 1}, 0
    v_mov_b32 v0, s28
    v_mov_b32 v1, s29
    v_mov_b32 v2, {value}
    flat_store_dword v[0:1], v2
    """


PARENT = "".join([
    """
    s_load_dwordx4 s[12:15], s[6:7], {o:8}      ; vqueue, aqlwrap
    s_load_dwordx2 s[16:17], s[6:7], {o:12}     ; out
    s_waitcnt lgkmcnt(0)
    s_load_dwordx2 s[18:19], s[12:13], {o:6}    ; aql_slot_mask
    s_load_dwordx2 s[20:21], s[12:13], {o:12}   ; kernel_table
    s_add_u32 s24, s12, 64                      ; slot 0
    s_addc_u32 s25, s13, 0
    s_waitcnt lgkmcnt(0)
    s_load_dwordx2 s[22:23], s[20:21], {o:2}    ; kernel 1
    s_load_dwordx2 s[26:27], s[24:25], {o:26}   ; its arguments
    s_waitcnt lgkmcnt(0)
    """,
    store("s18", 0, 1),
    store("s26", 48, "s16"), store("s26", 52, "s17"),
    store("s24", 4, 1),                         # enqueue_flags: wait for the kernel
    store("s24", 24, "s14"), store("s24", 28, "s15"),
    store("s24", 64, 0x10002), store("s24", 68, 0x10040), store("s24", 72, 1),
    store("s24", 76, 128), store("s24", 80, 1), store("s24", 84, 1), store("s24", 88, 0), store("s24", 92, 0),
    store("s24", 96, "s22"), store("s24", 100, "s23"),
    store("s14", 12, 1),                        # child_counter
    store("s24", 0, 2),                         # READY
    "s_waitcnt vmcnt(0) lgkmcnt(0)\n s_endpgm\n",
])  # fmt: skip
CHILD = """
    s_load_dwordx2 s[12:13], s[6:7], {o:12}
    s_waitcnt lgkmcnt(0)
    s_lshl_b32 s14, CHILDGID, 6
    {add} v1, vcc, s14, v0
    v_lshlrev_b32 v1, 2, v1
    v_mov_b32 v3, s13
    {add} v2, vcc, s12, v1
    {addc} v3, vcc, 0, v3, vcc
    v_mov_b32 v4, 7
    flat_store_dword v[2:3], v4
    s_endpgm
"""


@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_kernel_enqueues_another(device: str, engine: str) -> None:
    out = pointer("out", "uint*")
    parent = kernel(device, "parent", PARENT, [out], features=ENQUEUE)
    child = kernel(device, "child", CHILD.replace("CHILDGID", "{gid}"), [out], described=SECOND)
    found = program(device, parent, child, engine=engine)
    seen: list[Event] = []
    found.probes.subscribe(seen.append)
    data = np.zeros(128, np.uint32)
    result = found.kernel("parent").run(1, 1, [data])
    assert (data == 7).all()
    assert result.children == 1
    assert result.statistics.groups == 3
    own, enqueued = [KernelStarted, KernelFinished], [ChildLaunched, KernelStarted, KernelFinished, ChildCompleted]
    assert [type(event) for event in seen] == own + enqueued
    started = [event for event in seen if isinstance(event, KernelStarted)]
    assert [(event.grid, event.group) for event in started] == [((1, 1, 1), (1, 1, 1)), ((128, 1, 1), (64, 1, 1))]
    finished = [event for event in seen if isinstance(event, KernelFinished)]
    assert [event.waves for event in finished] == [1, 2]
    assert sum(event.instructions for event in finished) == result.instructions == seen[-1].time
    data[:] = 0
    assert found.kernel("parent").run(1, 1, [data]).children == 1  # the slot was freed
    assert (data == 7).all()


@pytest.mark.parametrize("engine", ["reference", "jit"])
def test_waves_of_enqueued_kernels(engine: str) -> None:
    """Those of each launch, one after the other in time, up to the number that was asked for."""
    out = pointer("out", "uint*")
    parent = kernel(DEVICES[0], "parent", PARENT, [out], features=ENQUEUE)
    child = kernel(DEVICES[0], "child", CHILD.replace("CHILDGID", "{gid}"), [out], described=SECOND)
    made = program(DEVICES[0], parent, child)
    found = Program(made.container, engine, trace_waves=1)
    seen: list[Event] = []
    found.probes.subscribe(seen.append)
    result = found.kernel("parent").run(1, 1, [np.zeros(128, np.uint32)])
    ended = [event for event in seen if isinstance(event, WaveEnded)]
    finished = [event for event in seen if isinstance(event, KernelFinished)]
    assert [(each.queue, each.index, each.group, each.wave, each.how) for each in ended] == [
        (None, None, (0, 0, 0), 0, "ended")
    ] * 2
    assert ended[0].instructions == ended[0].time == finished[0].instructions
    assert ended[1].time == finished[0].instructions + finished[1].instructions // 2
    assert [event.waves for event in seen if isinstance(event, WavesLeftOut)] == [1]
    assert seen[-1].time == result.instructions


LDS_CHILD = """
    s_load_dwordx2 s[12:13], s[6:7], {o:12}
    s_mov_b32 m0, -1
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v4, 7
    ds_write_b32 v1, v4 offset:256
    s_waitcnt lgkmcnt(0)
    ds_read_b32 v5, v1 offset:256
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v3, s13
    {add} v2, vcc, s12, v1
    {addc} v3, vcc, 0, v3, vcc
    flat_store_dword v[2:3], v5
    s_endpgm
"""
SCRATCH_CHILD = """
    s_load_dwordx2 s[12:13], s[6:7], {o:12}
    s_waitcnt lgkmcnt(0)
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v4, 7
    buffer_store_dword v4, off, s[0:3], s11 offset:12
    s_waitcnt vmcnt(0)
    buffer_load_dword v5, off, s[0:3], s11 offset:12
    s_waitcnt vmcnt(0)
    v_mov_b32 v3, s13
    {add} v2, vcc, s12, v1
    {addc} v3, vcc, 0, v3, vcc
    flat_store_dword v[2:3], v5
    s_endpgm
"""


@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("text", "needs"),
    [
        (LDS_CHILD, KernelNeeds(sgprs=40, lds_bytes=512)),
        (SCRATCH_CHILD, KernelNeeds(sgprs=40, scratch_bytes=64)),
    ],
    ids=["lds", "scratch"],
)
def test_a_child_has_the_memory_that_its_header_asks_for(
    device: str, engine: str, text: str, needs: KernelNeeds
) -> None:
    out = pointer("out", "uint*")  # the parent's packet asks for no memory at all
    parent = kernel(device, "parent", PARENT, [out], features=ENQUEUE)
    child = kernel(device, "child", text, [out], features=ENQUEUE, needs=needs, described=SECOND)
    data = np.zeros(64, np.uint32)
    program(device, parent, child, engine=engine).kernel("parent").run(1, 1, [data])
    assert (data == 7).all()


def enqueuing(device: str = "tonga", bits: int = 64) -> Program:
    out, ends = pointer("out", "uint*"), "s_endpgm"
    queue = Argument("q", "queue_t", Kind.QUEUE)
    parent = kernel(device, "parent", PARENT if bits == 64 else ends, [out], features=ENQUEUE, bits=bits)
    child = CHILD.replace("CHILDGID", "{gid}") if bits == 64 else ends
    takes = kernel(device, "takes", ends, [queue, queue], described=Described(index=5), bits=bits)
    return program(device, parent, takes, kernel(device, "child", child, [out], described=SECOND, bits=bits), bits=bits)


@pytest.mark.parametrize("bits", [32, 64])
def test_the_kernel_table_goes_by_kernel_index(bits: int) -> None:
    found = enqueuing(bits=bits)
    header = VirtualQueue.parse(found.device.memory.read(found.queue()[0], VirtualQueue.size_bytes))
    table = np.frombuffer(found.device.memory.read(header.kernel_table, 6 * bits // 8), f"<u{bits // 8}").tolist()
    at = found.code.kernels
    assert table == [at["parent"], at["child"], 0, 0, 0, at["takes"]]


def test_kernel_indices_that_nobody_writes() -> None:
    source = kernel("tonga", "k", "s_endpgm", [])
    at = MetadataHeader64.size_bytes + Queue64.offset_of("kernel_index")
    metadata = source.metadata[:at] + (1 << 31).to_bytes(4, "little") + source.metadata[at + 4 :]
    found = program("tonga", replace(source, metadata=metadata))
    with pytest.raises(WireError, match="kernel_index is 2147483648, expected at most 64511, at kernel k"):
        found.queue()


def test_a_fault_does_not_spoil_the_queue() -> None:
    found, data = enqueuing(), np.zeros(128, np.uint32)
    pages = found.device.heap._space.snapshot()
    with pytest.raises(GuestFault, match="write of 4 bytes at 0x0"):
        found.kernel("parent").run(1, 1, [None])
    assert found.device.heap._space.snapshot() == pages
    for _ in range(2):
        data[:] = 0
        assert found.kernel("parent").run(1, 1, [data]).children == 1
        assert (data == 7).all()
    state, queue = found.snapshot(), found.queue()
    with pytest.raises(GuestFault, match="write of 4 bytes at 0x0"):
        found.kernel("parent").run(1, 1, [None])
    found.restore(state)
    assert found.queue() == queue
    assert found.kernel("parent").run(1, 1, [data]).children == 1


def test_a_queue_is_as_large_as_is_asked_for() -> None:
    found = enqueuing()

    def header() -> VirtualQueue:
        return VirtualQueue.parse(found.device.memory.read(found.queue()[0], VirtualQueue.size_bytes))

    found.kernel("takes").run(1, 1, [DeviceQueue(), DeviceQueue()])
    sizes = header().aql_slot_num, header().event_slot_num, header().wait_size, header().arg_size, header().mask_groups
    assert sizes == (2048, 1024, 8, 1088, 1)
    before = found.queue()
    found.kernel("takes").run(1, 1, [DeviceQueue(), DeviceQueue(20_000)])
    assert header().aql_slot_num == 160
    found.kernel("takes").run(1, 1, [DeviceQueue(), DeviceQueue()])
    assert header().aql_slot_num == 160
    found.kernel("takes").run(1, 1, [DeviceQueue(256 * 1024), DeviceQueue()])
    assert (header().aql_slot_num, found.queue()) == (2048, before)
    found.kernel("takes").run(1, 1, [DeviceQueue(8 << 20), DeviceQueue(8 << 20)])
    assert (header().aql_slot_num, header().mask_groups) == (65536, 16)


def test_sizes_that_no_queue_has() -> None:
    for size, message in (
        (0, "the size of the device queue is 0 bytes, expected 1 to 8388608"),
        (1 << 24, "the size of the device queue is 16777216 bytes"),
        ("x", "the size of a device queue must be an integer, not 'x'"),
    ):
        with pytest.raises(WireError, match=message):
            DeviceQueue(size)  # type: ignore[arg-type]
    with pytest.raises(WireError, match="the arguments must give the device's only queue one size, not 2 sizes"):
        enqueuing().kernel("takes").run(1, 1, [DeviceQueue(1), DeviceQueue(65536)])


def test_enqueued_kernels_without_work_items_are_refused() -> None:
    """With private memory, too, whose size depends on that of work-groups."""
    needs = KernelNeeds(scratch_bytes=64)
    found = program("tonga", kernel("tonga", "k", "s_endpgm", [], needs=needs))
    packet = KernelDispatchPacket.over(1, (64, 1, 1), (0, 1, 1), kernel_object=found.code.kernels["k"])
    with pytest.raises(DispatchRefused, match=r"work-group size \(0, 1, 1\) has a 0, expected 1 or more"):
        found.run(packet, uses_queue=False)


# ---- the scheduler alone -----------------------------------------------------------------------------------------

BASE, KERNARG = 0x10000, 0x80000
SHAPE = QueueShape(slots=64, events=64)


class Rig:
    """An empty queue, and kernels that are Python: `kernels` by kernel_object."""

    def __init__(self, pointer_bytes: int = 8) -> None:
        self.pointer_bytes = pointer_bytes
        self.memory = GpuMemory()
        self.memory.map(BASE, bytearray(-(-SHAPE.size_bytes // 4096) * 4096))
        self.parent = make_queue(self.memory, BASE, KERNARG, SHAPE, 0)
        self.parts = SHAPE.parts(BASE)
        self.kernels: dict[int, Callable[[], None]] = {}
        self.order: list[int] = []
        self.used = 0
        self.events = 0
        self.probes = Probes()
        self.scheduler = Scheduler(self.memory, BASE, self.launch, Telemetry(self.probes), pointer_bytes)

    def launch(self, packet: KernelDispatchPacket, address: int) -> int:
        assert KernelDispatchPacket.parse(self.memory.read(address, 64)) == packet
        self.order.append(packet.kernel_object)
        self.kernels.get(packet.kernel_object, lambda: None)()
        return 10

    def address(self, slot: int) -> int:
        return BASE + VirtualQueue.size_bytes + slot * AqlWrap.size_bytes

    def wrap(self, slot: int) -> AqlWrap:
        return AqlWrap.parse(self.memory.read(self.address(slot), AqlWrap.size_bytes))

    def mask(self) -> int:
        return int.from_bytes(self.memory.read(self.parts.slot_mask, 8), "little")

    def event(self, state: int = CL_SUBMITTED, counter: int = 2, capture: int = 0) -> int:
        at = self.parts.events + self.events * QueueEvent.size_bytes
        self.memory.write(self.parts.event_mask, ((1 << self.events + 1) - 1).to_bytes(8, "little"))
        self.events += 1
        event = QueueEvent(state=state, counter=counter, timer=(0, 0, 0), capture_info=capture)
        self.memory.write(at, event.pack())
        return at

    def state(self, event: int) -> int:
        return QueueEvent.parse(self.memory.read(event, QueueEvent.size_bytes)).state

    def enqueue(
        self, kernel: int, flags: int = 0, parent: int = 0, waits: tuple[int, ...] = (), completion: int = 0,
        state: WrapState = WrapState.READY,
    ) -> int:  # fmt: skip
        slot, self.used = self.used, self.used + 1
        parent = parent or self.parent
        old = self.wrap(slot)
        for number, event in enumerate(waits):
            size = self.pointer_bytes
            self.memory.write(old.wait_list + size * number, event.to_bytes(size, "little"))
        wrap = AqlWrap(
            state=state, enqueue_flags=flags, command_id=slot, completion=completion, parent_wrap=parent,
            wait_list=old.wait_list, wait_num=len(waits), aql=KernelDispatchPacket(kernel_object=kernel),
        )  # fmt: skip
        self.memory.write(self.address(slot), wrap.pack())
        self.memory.write(self.parts.slot_mask, (self.mask() | 1 << slot).to_bytes(8, "little"))
        counter = parent + AqlWrap.offset_of("child_counter")
        count = int.from_bytes(self.memory.read(counter, 4), "little") + 1
        self.memory.write(counter, count.to_bytes(4, "little"))
        return self.address(slot)


def test_layouts_are_those_of_the_runtime() -> None:
    names = ("aql_slot_mask", "command_counter", "arg_size", "mask_groups", "kernel_table")
    assert [VirtualQueue.offset_of(name) for name in names] == [24, 32, 40, 44, 48]
    names = ("child_counter", "completion", "parent_wrap", "wait_list", "wait_num", "aql")
    assert [AqlWrap.offset_of(name) for name in names] == [12, 16, 24, 32, 40, 64]
    assert (VirtualQueue.size_bytes, AqlWrap.size_bytes, PACKET, QueueEvent.size_bytes) == (64, 128, 64, 40)
    assert [state.value for state in WrapState] == list(range(6))


def test_children_run_and_free_their_slots() -> None:
    rig = Rig()
    rig.enqueue(1)
    rig.enqueue(2, EnqueueFlags.WAIT_KERNEL)
    assert rig.scheduler.drain(rig.parent) == 2
    assert rig.order == [1, 2]
    assert rig.mask() == 0
    assert [rig.wrap(slot).state for slot in (0, 1)] == [WrapState.FREE] * 2
    parent = AqlWrap.parse(rig.memory.read(rig.parent, AqlWrap.size_bytes))
    assert (parent.state, parent.child_counter) == (WrapState.DONE, 0)


def test_grandchildren_complete_before_their_parent_is_free() -> None:
    rig = Rig()
    seen: list[Event] = []
    rig.probes.subscribe(seen.append)

    def enqueue_one_more() -> None:
        rig.enqueue(2, EnqueueFlags.WAIT_KERNEL, rig.address(0))

    rig.kernels[1] = enqueue_one_more
    rig.enqueue(1)
    assert rig.scheduler.drain(rig.parent) == 2
    assert rig.order == [1, 2]
    assert [event.slot for event in seen if isinstance(event, ChildCompleted)] == [1, 0]


@pytest.mark.parametrize("pointer_bytes", [4, 8])
def test_wait_lists_order_children(pointer_bytes: int) -> None:
    rig = Rig(pointer_bytes)
    first, second = rig.event(), rig.event()
    rig.enqueue(3, waits=(first, second))
    rig.enqueue(1, completion=first)
    rig.enqueue(2, completion=second)
    rig.scheduler.drain(rig.parent)
    assert rig.order == [1, 2, 3]
    assert [rig.state(event) for event in (first, second)] == [CL_COMPLETE] * 2


def test_markers_complete_their_event() -> None:
    rig = Rig()
    done, after, listed = rig.event(), rig.event(), rig.event()
    rig.enqueue(1, completion=done)
    rig.enqueue(0, completion=after, state=WrapState.MARKER)
    rig.enqueue(0, completion=listed, waits=(done,), state=WrapState.MARKER)
    assert rig.scheduler.drain(rig.parent) == 1
    assert [rig.state(event) for event in (done, after, listed)] == [CL_COMPLETE] * 3
    assert rig.mask() == 0


def test_a_failed_event_fails_who_waits() -> None:
    rig = Rig()
    failed, mine, marked = rig.event(0xFFFF_FFFE), rig.event(), rig.event()
    rig.enqueue(1, waits=(failed,), completion=mine)
    rig.enqueue(0, waits=(failed,), completion=marked, state=WrapState.MARKER)
    assert rig.scheduler.drain(rig.parent) == 0
    assert rig.order == []
    assert [rig.state(event) for event in (mine, marked)] == [0xFFFF_FFFF] * 2


def test_events_are_released_and_profiled() -> None:
    rig = Rig()
    capture = rig.parts.parent + 256
    event = rig.event(counter=1, capture=capture)
    rig.enqueue(1, completion=event)
    rig.scheduler.drain(rig.parent)
    found = QueueEvent.parse(rig.memory.read(event, QueueEvent.size_bytes))
    assert (found.counter, found.timer) == (0, (0, 10, 10))
    assert np.frombuffer(rig.memory.read(capture, 16), np.uint64).tolist() == [10, 10]
    assert rig.memory.read(rig.parts.event_mask, 1) == b"\0"


def test_waiting_for_ever_is_a_fault() -> None:
    rig = Rig()
    rig.enqueue(1, waits=(rig.event(),))
    with pytest.raises(GuestFault, match=r"enqueued kernels in slots \[0\] wait for events that will never complete"):
        rig.scheduler.drain(rig.parent)


def test_records_that_lead_out_of_memory_are_a_fault() -> None:
    rig = Rig()
    rig.enqueue(1, completion=0x7000_0000)
    with pytest.raises(GuestFault, match="no memory there, at device queue 0x10000"):
        rig.scheduler.drain(rig.parent)
    rig = Rig()
    slot = rig.enqueue(1)
    rig.memory.write(slot + AqlWrap.offset_of("wait_num"), (99).to_bytes(4, "little"))
    with pytest.raises(GuestFault, match="the wait list of an enqueued kernel has 99 events, but the queue allows 8"):
        rig.scheduler.drain(rig.parent)


def test_endless_enqueueing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softcard.device.amdcl2.scheduler.MAX_LAUNCHES", 5)
    rig = Rig()

    def again() -> None:
        rig.used = len(rig.order) % 2
        rig.enqueue(1)

    rig.kernels[1] = again
    rig.enqueue(1)
    with pytest.raises(GuestFault, match="kernels have enqueued more than 5 kernels, which is the limit for one run"):
        rig.scheduler.drain(rig.parent)
