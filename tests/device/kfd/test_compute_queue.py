"""PM4 queues (type 0 of CREATE_QUEUE): programs of this process write commands into rings."""

from __future__ import annotations

import errno
import time
from typing import Any

import numpy as np
import pytest

from softcard.core.limits import TimeLimit
from softcard.device.hsa.queues.packets import PacketType, Pm4IbPacket
from softcard.device.hsa.queues.records import AmdQueue
from softcard.device.kfd.events import QueueFailed
from softcard.device.kfd.ioctls import (
    AllocFlags,
    CreateEvent,
    DestroyQueue,
    EventData,
    EventKind,
    Number,
    Refused,
    UpdateQueue,
    WaitEvents,
    boot_nanoseconds,
)
from softcard.isa.gcn.asm.assembler import assemble
from tests.device.kfd.rig import PAGE, Pages, Program, eventually, program

VA = 0x7E00_0000_0000
RING = 1024
NOP, DISPATCH, WRITE, WAIT, BUFFER, EVENT, RELEASE, ACQUIRE, SET = 0x10, 0x15, 0x37, 0x3C, 0x3F, 0x46, 0x49, 0x58, 0x76
PREDICATE = 0x23
FILLER, SHORT_NOP = 2 << 30, 0xFFFF_1000
EQUAL, MEMORY = 3, 1 << 4
RSRC1 = 0x00AC_0000
USER_AT, GROUP_X, LDS_AT = 1, 1 << 7, 15
AGENTS = pytest.mark.parametrize("agent", ["gfx900", "gfx908", "gfx90a", "gfx942", "gfx950"])
CALLS = """
    s_lshl_b32 s3, s2, 6
    v_and_b32 v0, 0x3ff, v0
    v_add_u32 v0, s3, v0
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v2, s0
    v_mov_b32 v3, s1
    v_add_co_u32 v2, vcc, v2, v1
    v_addc_co_u32 v3, vcc, 0, v3, vcc
    v_add_u32 v0, 1, v0
    global_store_dword v[2:3], v0, off
    s_endpgm
"""
"""Stores the number of the work-item plus 1, as a dword from s[0:1] on; s2 is the work-group's number."""


def command(kind: int, *body: int) -> tuple[int, ...]:
    return 3 << 30 | len(body) - 1 << 16 | kind << 8, *body


def halves(address: int) -> tuple[int, int]:
    return address & 0xFFFF_FFFF, address >> 32


def release(address: int, value: int = 0, data: int = 1, interrupt: int = 0, context: int = 0) -> tuple[int, ...]:
    return command(
        RELEASE, 0x14 | 5 << 8 | 1 << 15, data << 29 | interrupt << 24, *halves(address), *halves(value), context
    )


class Compute:
    """A PM4 queue, memory for data, and code."""

    def __init__(self, client: Program) -> None:
        self.client = client
        self.target = client.device.nodes[0].agent.target
        self.ring = client.shared(PAGE)
        self.data = client.shared(4 * PAGE)
        self.words: Any = self.data.bytes.view(np.uint32)
        self.code = client.shared(PAGE)
        self.pointers = client.shared(PAGE)
        self.made = client.queue(0, self.ring, RING, self.pointers.address)
        self.read = self.pointers.bytes[:4].view(np.uint32)
        self.failed: list[QueueFailed] = []
        client.device.probes.subscribe(self.failed.append, QueueFailed)  # type: ignore[arg-type]
        self.at = 0

    def put(self, *commands: tuple[int, ...]) -> None:
        ring = self.ring.bytes[:RING].view(np.uint32)
        for word in (word for each in commands for word in each):
            ring[self.at % len(ring)] = word
            self.at += 1
        self.client.doorbell(self.made)[0] = self.at

    def do(self, *commands: tuple[int, ...]) -> None:
        """Commands, which are done when this returns."""
        self.put(*commands, release(self.data.address + PAGE, self.at + 1))
        self.finish()

    def finish(self) -> None:
        eventually(lambda: int(self.read[0]) == self.at % (RING // 4) or bool(self.failed))
        assert not self.failed, str(self.failed[0].error)

    def fails(self, *commands: tuple[int, ...]) -> str:
        self.put(*commands)
        eventually(lambda: bool(self.failed))
        return str(self.failed[0].error)

    def registers(
        self, text: str = CALLS, *, rsrc1: int = RSRC1 | 1, rsrc2: int = 2 << USER_AT | GROUP_X, rsrc3: int = 1,
        group: tuple[int, int, int] = (64, 1, 1), scratch: int = 0, data: int | None = None,
    ) -> list[tuple[int, ...]]:  # fmt: skip
        """Commands that set the registers of a kernel."""
        code = assemble(self.target, text)
        self.code.bytes[: len(code)] = np.frombuffer(code, np.uint8)
        return [
            command(SET, 0x20C, *halves(self.code.address >> 8)),
            command(SET, 0x212, rsrc1, rsrc2),
            command(SET, 0x218, scratch),
            command(SET, 0x22D, rsrc3),
            command(SET, 0x216, 0xFFFF_FFFF, 0xFFFF_FFFF),
            command(SET, 0x204, 0, 0, 0, *group, 0, 0),
            command(SET, 0x240, *halves(self.data.address if data is None else data)),
        ]


def dispatch(x: int = 1, y: int = 1, z: int = 1, initiator: int = 5) -> tuple[int, ...]:
    return command(DISPATCH, x, y, z, initiator)


@AGENTS
def test_kernels(agent: str) -> None:
    """Registers are set, two work-groups run, and later commands see what they stored."""
    with program(agent) as client:
        there = Compute(client)
        there.do(
            (FILLER, SHORT_NOP), command(NOP, 1, 2), command(ACQUIRE, 1 << 23, 0xFFFF_FFFF, 0xFF, 0, 0, 10),
            *there.registers(), dispatch(2), command(EVENT, 7 | 4 << 8),
            command(WAIT, EQUAL | MEMORY, *halves(there.data.address + 4 * 127), 128, 0xFFFF, 4),
        )  # fmt: skip
        assert there.words[:129].tolist() == [*range(1, 129), 0]


def test_address_watch_without_watch_points() -> None:
    """The exception for watched addresses (bit 13) never occurs if no address is watched."""
    with program("gfx90a") as client:
        there = Compute(client)
        there.do(*there.registers(rsrc2=2 << USER_AT | GROUP_X | 1 << 13), dispatch())
        assert there.words[:64].tolist() == list(range(1, 65))


def test_registers_stay_between_dispatches() -> None:
    with program("gfx90a") as client:
        there = Compute(client)
        there.do(*there.registers(), dispatch(1))
        there.do(command(SET, 0x240, *halves(there.data.address + 1024)), dispatch(1))
        assert there.words[:64].tolist() == there.words[256:320].tolist() == list(range(1, 65))


def test_grids_in_work_items() -> None:
    """With USE_THREAD_DIMENSIONS and PARTIAL_TG_EN the last work-group is smaller."""
    with program("gfx90a") as client:
        there = Compute(client)
        there.do(*there.registers(), dispatch(100, initiator=1 | 1 << 1 | 1 << 5))
        assert there.words[:101].tolist() == [*range(1, 101), 0]


def test_rings_go_round() -> None:
    with program("gfx90a") as client:
        there = Compute(client)
        for turn in range(100):
            there.do(command(WRITE, 5 << 8 | 1 << 20, *halves(there.data.address + 8), turn, turn + 1))
            assert there.words[2:4].tolist() == [turn, turn + 1]
        assert there.at > 2 * RING // 4


@AGENTS
def test_private_memory(agent: str) -> None:
    """Of two waves: TMPRING_SIZE says how much, the base is in a register (gfx942 on) or in user SGPRs."""
    architected = agent in ("gfx942", "gfx950")
    with program(agent) as client:
        there = Compute(client)
        # Each work-item stores its number plus 1 in its private memory, loads it, and stores it to memory.
        store, load = (
            "buffer_store_dword v0, off, s[4:7], s9 offset:4",
            "buffer_load_dword v0, off, s[4:7], s9 offset:4",
        )
        if architected:
            store, load = "scratch_store_dword off, v0, off offset:4", "scratch_load_dword v0, off, off offset:4"
        group = "s2" if architected else "s8"
        text = CALLS.replace("s_lshl_b32 s3, s2, 6", f"s_lshl_b32 s3, {group}, 6").replace(
            "    global_store", f"    {store}\n    v_mov_b32 v0, 0\n    s_waitcnt vmcnt(0)\n    {load}\n"
            "    s_waitcnt vmcnt(0)\n    global_store",
        )  # fmt: skip
        scratch = client.allocate(VA, 64 << 10, AllocFlags.VRAM)
        client.map(scratch.handle)
        users = 2 if architected else 8
        set_up = there.registers(text, rsrc2=1 | users << USER_AT | GROUP_X, scratch=4 | 1 << 12)
        descriptor = (VA & 0xFFFF_FFFF, VA >> 32 | 1 << 31, 64 << 10, 0x00EA_4FAC)
        more = [command(SET, 0x210, *halves(VA >> 8))]
        if not architected:
            more = [command(SET, 0x242, 0, 0, *descriptor)]
        there.do(*set_up, *more, dispatch(2))
        assert there.words[:129].tolist() == [*range(1, 129), 0]


def test_indirect_buffers() -> None:
    """A wait in a buffer holds what follows it, and does not repeat what precedes it."""
    with program("gfx90a") as client:
        there = Compute(client)
        place = there.data.address
        inside = [
            *command(WRITE, 5 << 8, *halves(place), 7),
            *command(WAIT, EQUAL | MEMORY, *halves(place + 4), 5, 0xFF, 4),
            *command(WRITE, 5 << 8, *halves(place + 8), 9),
        ]
        there.data.bytes[2 * PAGE : 2 * PAGE + 4 * len(inside)] = np.array(inside, np.uint32).view(np.uint8)
        there.put(command(BUFFER, *halves(place + 2 * PAGE), 1 << 23 | len(inside)), release(place + 12, 11))
        eventually(lambda: int(there.words[0]) == 7)
        there.words[0] = 0
        time.sleep(0.01)
        assert there.words[:4].tolist() == [0, 0, 0, 0]
        there.words[1] = 0x105
        there.finish()
        assert there.words[:4].tolist() == [0, 0x105, 9, 11]


def in_buffer(there: Compute, *commands: tuple[int, ...]) -> tuple[int, ...]:
    """The command that executes these commands in an indirect buffer."""
    inside = [word for each in commands for word in each]
    there.data.bytes[2 * PAGE : 2 * PAGE + 4 * len(inside)] = np.array(inside, np.uint32).view(np.uint8)
    return command(BUFFER, *halves(there.data.address + 2 * PAGE), 1 << 23 | len(inside))


def test_commands_for_some_dies() -> None:
    """Of commands for some dies of gfx942, those for the first one are executed."""
    with program("gfx942") as client:
        there = Compute(client)
        stores = [command(WRITE, 5 << 8, *halves(there.data.address + 4 * n), n + 1) for n in range(3)]
        count = len(stores[0])
        there.do(
            in_buffer(
                there, command(PREDICATE, 1 << 24 | count), stores[0], command(PREDICATE, 6 << 24 | count), stores[1],
                command(PREDICATE, 0xFF << 24 | count), stores[2],
            )
        )  # fmt: skip
        assert there.words[:3].tolist() == [1, 0, 3]


def test_commands_for_some_dies_that_cannot_be() -> None:
    with program("gfx942") as client:
        assert "PRED_EXEC in the ring is not modelled" in Compute(client).fails(command(PREDICATE, 1 << 24))
    with program("gfx942") as client:
        there = Compute(client)
        text = there.fails(in_buffer(there, command(PREDICATE, 1 << 24 | 2), (FILLER,)))
        assert "PRED_EXEC is for 2 dwords, but the indirect buffer has fewer" in text


def test_stores_of_release_mem() -> None:
    with program("gfx90a") as client:
        there = Compute(client)
        place, before = there.data.address, boot_nanoseconds()
        there.do(
            release(place, 0x1_0000_0002, 1), release(place + 8, 0x3_0000_0004, 2), release(place + 16, data=3),
            release(place + 24, data=4), release(place + 32, 1, data=0), release(place + 40, 6, 1, interrupt=3),
        )  # fmt: skip
        wide = there.data.bytes.view(np.uint64)
        assert wide[:2].tolist() == [2, 0x3_0000_0004]
        assert before <= wide[2] <= wide[3] <= boot_nanoseconds()
        assert wide[4:6].tolist() == [0, 6]


@pytest.mark.parametrize("has_context", [True, False])
def test_events(has_context: bool) -> None:
    """The interrupt has the event's number; without one the driver looks for written slots."""
    with program("gfx90a") as client:
        there = Compute(client)
        page = client.allocate(VA, 32768)
        client.map(page.handle)
        made = client.call(Number.CREATE_EVENT, CreateEvent(event_type=EventKind.SIGNAL, event_page_offset=page.handle))
        slot = VA + 8 * made.event_slot_index
        there.do(release(slot, made.event_id, 2, interrupt=2, context=made.event_id if has_context else 0))
        data = np.frombuffer(bytearray(EventData(data=bytes(32), event_id=made.event_id).pack()), np.uint8)
        asked = WaitEvents(events_ptr=int(data.ctypes.data), num_events=1, wait_for_all=0, timeout=60_000)
        assert client.call(Number.WAIT_EVENTS, asked).wait_result == 0


def test_waits_of_registers_and_one_address() -> None:
    """The flush of the host's path (a store to one register, a wait for another) has nothing to do."""
    with program("gfx90a") as client:
        there = Compute(client)
        there.do(
            command(WAIT, 3 | 1 << 6, 0x106, 0x107, 0xFFFF_FFFF, 0xFFFF_FFFF, 4),
            command(WRITE, 2 << 8 | 1 << 16, *halves(there.data.address), 1, 2, 3),
        )
        assert there.words[:2].tolist() == [3, 0]


def test_queues_side_by_side_and_updates() -> None:
    """A queue of percentage 0 waits; a queue may wait for another one; a destroyed one ends its kernel."""
    with program("gfx90a") as client:
        there, other = Compute(client), Compute(client)
        update = {"ring_base_address": there.ring.address, "ring_size": RING, "queue_priority": 7}
        client.call(Number.UPDATE_QUEUE, UpdateQueue(queue_id=there.made.queue_id, queue_percentage=0, **update))
        there.put(command(WRITE, 5 << 8, *halves(there.data.address), 5))
        other.put(command(WAIT, EQUAL | MEMORY, *halves(there.data.address), 5, 0xFF, 4))
        time.sleep(0.01)
        assert int(there.words[0]) == 0
        client.call(Number.UPDATE_QUEUE, UpdateQueue(queue_id=there.made.queue_id, queue_percentage=100, **update))
        there.finish()
        other.finish()
        there.put(*there.registers("s_mov_b32 s4, 0\ns_branch -1"), dispatch())
        time.sleep(0.05)
        client.call(Number.DESTROY_QUEUE, DestroyQueue(queue_id=there.made.queue_id))
        other.do(*other.registers(), dispatch())
        assert (other.words[:64].tolist(), there.failed) == (list(range(1, 65)), [])


def test_faults_are_reported_to_the_program() -> None:
    with program("gfx90a") as client:
        there = Compute(client)
        made = client.call(Number.CREATE_EVENT, CreateEvent(event_type=EventKind.MEMORY))
        text = there.fails(*there.registers(data=0x1234_5000), dispatch())
        assert "write of 4 bytes at 0x12345000: no memory there" in text
        assert "at PM4 queue 1" in text
        assert client.process.events._known[made.event_id].is_set


def test_kernels_without_an_end() -> None:
    with program("gfx90a", time_limit_seconds=0.2) as client:
        there = Compute(client)
        there.fails(*there.registers("s_branch -1"), dispatch())
        assert isinstance(there.failed[0].error, TimeLimit)


def test_checks() -> None:
    with program("gfx90a", check="races") as client:
        there = Compute(client)
        assert "the check 'races' is not supported for kernels of PM4 queues" in there.fails(dispatch())
    with program("gfx90a", check="memory,init") as client:
        there = Compute(client)
        there.do(*there.registers(), dispatch())
        assert there.words[:64].tolist() == list(range(1, 65))


BAD: dict[str, tuple[list[tuple[int, ...]], str]] = {
    "type 0": ([(0x1234,)], "0x00001234 is not the header of a PM4 command, expected type 2 or 3"),
    "unknown": (
        [command(0x1E, 0)],
        "PM4 command 0x1e is not modelled, expected NOP, PRED_EXEC, DISPATCH_DIRECT, SET_SH_REG",
    ),
    "half": ([(command(NOP, 0, 0)[0], 0)], "PM4 command NOP has 3 dwords, but only 2 were submitted"),
    "register": ([command(SET, 0x10, 1)], "registers 0x10 to 0x10 are not modelled, expected compute registers"),
    "no values": ([command(SET, 0x200)], "SET_SH_REG has 1 dwords after its header, expected 2 or more"),
    "sizes": ([command(DISPATCH, 1, 1, 1)], "DISPATCH_DIRECT has 3 dwords after its header, expected 4"),
    "no threads": ([command(SET, 0x207, 0, 1, 1), dispatch()], "COMPUTE_NUM_THREAD_X to Z are (0, 1, 1)"),
    "event": ([command(EVENT, 0x16)], "EVENT_WRITE of event 0x16 is not modelled, expected 7 (CS_PARTIAL_FLUSH)"),
    "function": ([command(WAIT, 7 | MEMORY, 0, 0, 0, 0, 4)], "WAIT_REG_MEM has function 7, expected 0 to 6"),
    "wait": ([command(WAIT, 3, 5, 0, 0, 0, 4)], "WAIT_REG_MEM of a register is not modelled"),
    "data": ([release(VA, data=7)], "RELEASE_MEM stores data of kind 7, expected 0 to 4"),
    "interrupt": ([release(VA, data=0, interrupt=4)], "RELEASE_MEM has interrupt 4, expected 0 to 3"),
    "nowhere": ([release(VA)], "write of 4 bytes at 0x7e0000000000: no memory there"),
    "destination": ([command(WRITE, 0, 1, 0, 0)], "WRITE_DATA to destination 0 is not modelled"),
    "no data": ([command(WRITE, 5 << 8, 0, 0)], "WRITE_DATA has 3 dwords after its header, expected 4 or more"),
    "chain": ([command(BUFFER, 0, 0, 1 << 20)], "a chained INDIRECT_BUFFER is not modelled"),
    "no buffer": ([command(BUFFER, *halves(VA), 4)], "read of 16 bytes at 0x7e0000000000: no memory there"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_stops_a_queue(name: str) -> None:
    with program("gfx90a") as client:
        there = Compute(client)
        commands, text = BAD[name]
        found = there.fails(*commands)
        assert text in found
        assert "at dword of the ring" in found


@pytest.mark.parametrize(
    ("registers", "last", "text"),
    [
        ({}, dispatch(initiator=4), "DISPATCH_DIRECT does not set COMPUTE_SHADER_EN"),
        ({}, dispatch(initiator=1 | 1 << 3), "sets ordered_append_enbl in its initiator, which are not modelled"),
        ({}, dispatch(0), "DISPATCH_DIRECT has the size (0, 1, 1), expected 1 or more"),
        ({}, dispatch(65, initiator=1 | 1 << 5), "the grid (65, 1, 1) is not a multiple of the work-group (64, 1, 1)"),
        ({"rsrc3": 7}, dispatch(), "has an accum_offset of 32, but a wave has 16 vector registers"),
        ({"rsrc2": 17 << USER_AT}, dispatch(), "asks for 17 user SGPRs, expected at most 16"),
        ({"rsrc2": 129 << LDS_AT}, dispatch(), "the kernel needs 66048 bytes of LDS, expected at most 65536"),
        ({"group": (1025, 1, 1)}, dispatch(), "the work-group has 1025 work-items, expected at most 1024"),
        ({"rsrc2": 1, "scratch": 1 | 1 << 12, "group": (128, 1, 1)}, dispatch(), "private memory for 1 waves"),
        ({"rsrc2": 1 << 24}, dispatch(), "kernels of PM4 queues that enable exceptions are not modelled"),
    ],
)
def test_dispatches_that_cannot_be(registers: dict[str, Any], last: tuple[int, ...], text: str) -> None:
    with program("gfx90a") as client:
        there = Compute(client)
        assert text in there.fails(*there.registers(**registers), last)


def test_parts_of_grids_and_addresses() -> None:
    for more, text in [
        (command(SET, 0x204, 1, 0, 0), "COMPUTE_START_X to Z are not 0"),
        (command(SET, 0x20C, 0, 0xFFFF_FFFF), "expected an address below"),
    ]:
        with program("gfx90a") as client:
            there = Compute(client)
            assert text in there.fails(*there.registers(), more, dispatch(initiator=1))


def test_buffers_in_buffers() -> None:
    with program("gfx90a") as client:
        there = Compute(client)
        there.words[:4] = command(BUFFER, 0, 0, 0)
        text = there.fails(command(BUFFER, *halves(there.data.address), 4))
        assert "INDIRECT_BUFFER in an indirect buffer is not modelled" in text
        assert f"at dword 0, at indirect buffer {there.data.address:#x}" in text


def test_agents_without_such_queues() -> None:
    with program("gfx803") as client:
        ring: Pages = client.shared(PAGE)
        with pytest.raises(
            Refused, match="PM4 queues of gfx803 are not modelled: use an agent from gfx900 on"
        ) as raised:
            client.queue(0, ring, RING, ring.address)
        assert raised.value.errno == errno.EINVAL


def test_copy_engines_for_xgmi() -> None:
    """Agents that have them take queues of type 3, which are like those of type 1."""
    with program("gfx90a") as client:
        ring: Pages = client.shared(PAGE)
        made = client.queue(3, ring, RING, client.shared(PAGE).address)
        assert made.queue_id == 1


def test_commands_in_aql_queues() -> None:
    """amd_queue_t has only what hardware reads: the ring is that of the ioctl. Commands notify the program."""
    with program("gfx942") as client:
        ring, header, data = client.shared(PAGE), client.shared(PAGE), client.shared(PAGE)
        ring.bytes[::64] = PacketType.INVALID
        words: Any = data.bytes.view(np.uint32)
        queue = client.queue(2, ring, PAGE, header.address + AmdQueue.offset_of("read_dispatch_id"))
        page = client.allocate(VA, 32768)
        client.map(page.handle)
        made = client.call(Number.CREATE_EVENT, CreateEvent(event_type=EventKind.SIGNAL, event_page_offset=page.handle))
        inside = [
            *command(WAIT, EQUAL | MEMORY, *halves(data.address), 5, 0xFF, 4),
            *command(PREDICATE, 1 << 24 | 8), *release(data.address + 8, 9),
            *release(VA + 8 * made.event_slot_index, made.event_id, interrupt=2),
        ]  # fmt: skip
        words[64 : 64 + len(inside)] = inside
        packet = Pm4IbPacket(ib_jump_cmd=command(BUFFER, *halves(data.address + 256), 1 << 23 | len(inside)))
        ring.bytes[:64] = np.frombuffer(packet.pack(), np.uint8)
        header.bytes[AmdQueue.offset_of("write_dispatch_id") :][:1] = 1
        client.doorbell(queue)[0] = 0
        read = header.bytes[AmdQueue.offset_of("read_dispatch_id") :][:8].view(np.uint64)
        time.sleep(0.01)
        assert (int(read[0]), int(words[2])) == (0, 0)
        words[0] = 5
        eventually(lambda: int(read[0]) == 1)
        assert int(words[2]) == 9
        event = np.frombuffer(bytearray(EventData(data=bytes(32), event_id=made.event_id).pack()), np.uint8)
        asked = WaitEvents(events_ptr=int(event.ctypes.data), num_events=1, wait_for_all=0, timeout=60_000)
        assert client.call(Number.WAIT_EVENTS, asked).wait_result == 0
