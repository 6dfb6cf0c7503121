"""The packet processor's own commands: indirect buffers named by packets (GFX9) or by a slot of commands (before)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from softcard.core.errors import AccessFault
from softcard.device.hsa import rules
from softcard.device.hsa.events import InterruptSent, PacketBlocked, PacketCompleted, PacketStarted
from softcard.device.hsa.exceptions import QueueError
from softcard.device.hsa.queues.packets import PacketType, Pm4IbPacket
from tests.device.hsa.rig import Bench, barrier, dispatch

Make = Callable[..., Bench]
NOP, INDIRECT_BUFFER, WRITE_DATA, RELEASE_MEM, ACQUIRE_MEM = 0x10, 0x3F, 0x37, 0x49, 0x58
WAIT_REG_MEM, SET_SH_REG, PRED_EXEC = 0x3C, 0x76, 0x23
EQUAL, MEMORY = 3, 1 << 4
AGENTS = pytest.mark.parametrize("agent", ["gfx700", "gfx803", "gfx900"])


def command(kind: int, *body: int, compute: bool = False) -> tuple[int, ...]:
    """A command of type 3; GFX7's have the bit of compute queues."""
    return 3 << 30 | len(body) - 1 << 16 | kind << 8 | compute << 1, *body


INVALIDATE = command(ACQUIRE_MEM, 1 << 29 | 1 << 27 | 1 << 23, 0xFFFF_FFFF, 0xFF, 0, 0, 4)
"""What the runtime sends: vector, scalar and instruction caches, all of memory."""


class Pm4:
    """A bench, a buffer of commands in its memory, and packets that lead there."""

    def __init__(self, make: Make, agent: str, *words: int, **options: object) -> None:
        self.rig = rig = make(agent, **options)
        self.address = rig.device.allocate(4096)
        self.words = words
        rig.device.memory.write(self.address, np.array(words, "<u4").tobytes())

    def jump(self, count: int | None = None) -> tuple[int, ...]:
        count = len(self.words) if count is None else count
        compute = self.rig.device.agent.target.level == 7
        return command(
            INDIRECT_BUFFER, self.address & 0xFFFF_FFFF, self.address >> 32, 1 << 23 | count, compute=compute
        )

    def packet(self, *jump: int, signal: int = 0, rest: tuple[int, ...] | None = None) -> bytes:
        """As the runtime writes it for this agent."""
        jump = jump or self.jump()
        if self.rig.device.agent.target.level == 9:
            return Pm4IbPacket(ib_jump_cmd=jump, completion_signal=signal).pack()
        compute = self.rig.device.agent.target.level == 7
        nop = command(NOP, 0, 0, 0, 0, compute=compute)
        end = command(RELEASE_MEM, 7 << 8, 0, 0, 0, 0, 0, compute=compute) if rest is None else rest
        return np.array([*nop, *jump, *end], "<u4").tobytes()


@AGENTS
@pytest.mark.parametrize("options", [{}, {"engine": "reference"}, {"coherence": "strict"}])
def test_caches_are_invalidated(bench: Make, agent: str, options: dict[str, str]) -> None:
    """Before, between and behind other packets; there is nothing to see where memory is coherent."""
    there = Pm4(bench, agent, *INVALIDATE, *command(NOP, 0, 0), 2 << 30, **options)
    rig, kernel = there.rig, there.rig.kernel()
    done = rig.device.create_signal(4)
    signal = done.address if agent == "gfx900" else 0
    packets = [there.packet(signal=signal), dispatch(kernel, signal=done), there.packet(), barrier(signal=done)]
    for packet in packets:
        rig.queue.submit(packet)
    assert (rig.errors, done.load(), rig.queue.load_read_index()) == ([], 1 if signal else 2, 4)


@AGENTS
def test_events(bench: Make, agent: str) -> None:
    there = Pm4(bench, agent, *INVALIDATE, listen=True)
    there.rig.queue.submit(there.packet())
    assert [event.type for event in there.rig.reported(PacketStarted)] == [PacketType.VENDOR_SPECIFIC]
    assert [event.instructions for event in there.rig.reported(PacketCompleted)] == [0]


def test_strict_memory(bench: Make) -> None:
    """What the host stored while no packet acquires is seen after the command."""
    text = "s_load_dword s2, s[0:1], 0\ns_waitcnt lgkmcnt(0)\ns_add_u32 s2, s2, 1\nv_mov_b32 v0, s0\n"
    text += "v_mov_b32 v1, s1\nv_mov_b32 v2, s2\nflat_store_dword v[0:1], v2 offset:4\ns_endpgm"
    found = []
    for invalidates in (False, True):
        there = Pm4(bench, "gfx900", *INVALIDATE, coherence="strict", lints="off")
        rig = there.rig
        cell, words = rig.words()
        kernel = rig.kernel(text)
        for value in (10, 20):
            words[0] = value
            if invalidates:
                rig.queue.submit(there.packet())
            rig.queue.submit(dispatch(kernel, cell, acquire_scope=0))
        found.append(int(words[1]))
    assert found == [11, 21]


@AGENTS
def test_refused(bench: Make, agent: str) -> None:
    """The queue's error names the command; nothing of the packet is done."""
    level = agent[3]
    cases = [
        (
            command(WRITE_DATA, 0, 0, 0, 0),
            "WRITE_DATA to destination 0 is not modelled"
            if level == "9"
            else "PM4 command WRITE_DATA is not modelled, expected ACQUIRE_MEM or NOP (on GFX7 and GFX8), at dword 0",
        ),
        (command(INDIRECT_BUFFER, 0, 0, 0), "INDIRECT_BUFFER in an indirect buffer is not modelled"),
        ((0x1234,), "0x00001234 is not the header of a PM4 command, expected type 2 or 3 in bits 31:30"),
        ((*INVALIDATE, 0xC005_5800), "PM4 command ACQUIRE_MEM has 7 dwords, but only 1 were submitted"),
    ]
    for words, text in cases:
        there = Pm4(bench, agent, *words)
        there.rig.queue.submit(there.packet())
        code, error = there.rig.errors[0]
        assert (code, there.rig.queue.load_read_index()) == (QueueError.INVALID_VENDOR_PACKET, 0)
        assert text in str(error)
        assert f"at indirect buffer {there.address:#x}, at AQL packet 0" in str(error)
        assert getattr(error, "rule", None) is rules.VENDOR_PACKET


@AGENTS
def test_a_buffer_that_is_not_there(bench: Make, agent: str) -> None:
    there = Pm4(bench, agent, *INVALIDATE)
    jump = command(INDIRECT_BUFFER, 0x1000, 0, 16, compute=agent == "gfx700")
    there.rig.queue.submit(there.packet(*jump))
    code, error = there.rig.errors[0]
    assert code == QueueError.MEMORY_APERTURE_VIOLATION
    assert isinstance(error, AccessFault)
    assert error.address == 0x1000
    # A packet that can be processed in its place gets the queue going again.
    done = there.rig.device.create_signal(1)
    there.rig.device.memory.write(there.rig.queue.packet_address(0), dispatch(there.rig.kernel(), signal=done))
    there.rig.queue.inactive_signal.store(0)
    assert done.load() == 0


@pytest.mark.parametrize("agent", ["gfx700", "gfx803"])
def test_slots(bench: Make, agent: str) -> None:
    """A slot that is not given back would stop hardware for good."""
    there = Pm4(bench, agent, *INVALIDATE)
    compute = agent == "gfx700"
    for rest, text in [
        (command(RELEASE_MEM, 0, 0, 0, 0, 0, 0, compute=compute), "RELEASE_MEM does not free its packet slot"),
        (command(RELEASE_MEM, 7 << 8, 0, 0, 0, 1, 0, compute=compute), "expected the AQL event and nothing else"),
        (
            command(NOP, 0, 0, 0, 0, 0, 0),
            "a packet slot has the PM4 commands NOP, INDIRECT_BUFFER, NOP, expected NOP, INDIRECT_",
        ),
        (command(ACQUIRE_MEM, 0, 0, 0, 0, 0, 0), "commands NOP, INDIRECT_BUFFER, ACQUIRE_MEM, expected"),
    ]:
        there.rig.errors.clear()
        queue = there.rig.new_queue()
        queue.submit(there.packet(rest=rest))
        assert there.rig.errors[0][0] == QueueError.INVALID_VENDOR_PACKET
        assert text in str(there.rig.errors[0][1])
    other = there.rig.new_queue()
    other.submit(Pm4IbPacket(ib_jump_cmd=there.jump()).pack())  # GFX9's packet
    assert "the vendor packet has format 1, expected 2 (barrier value) or PM4" in str(there.rig.errors[1][1])


def test_packets_of_gfx9(bench: Make) -> None:
    there = Pm4(bench, "gfx900", *INVALIDATE)
    for jump, text in [
        (command(ACQUIRE_MEM, 0, 0, 0), "the vendor packet has PM4 command ACQUIRE_MEM, expected INDIRECT_BUFFER"),
        ((*command(INDIRECT_BUFFER, 0, 0), 2 << 30), "INDIRECT_BUFFER has 2 dwords after its header, expected 3"),
        ((0, 0, 0, 0), "0x00000000 at dword 0 is not the header of a PM4 command"),
    ]:
        there.rig.errors.clear()
        there.rig.new_queue().submit(there.packet(*jump))
        assert text in str(there.rig.errors[0][1])
    eight = Pm4(bench, "gfx803", *INVALIDATE)
    there.rig.errors.clear()
    there.rig.queue.submit(eight.packet())  # a slot of commands: a packet of some format here
    assert there.rig.errors[0][0] == QueueError.INVALID_VENDOR_PACKET


class Cells:
    """Commands of GFX9 that access the dwords from `address` on, which `words` has."""

    def __init__(self, rig: Bench) -> None:
        self.address, self.words = rig.words()

    def write(self, number: int, value: int) -> tuple[int, ...]:
        return command(WRITE_DATA, 5 << 8, *self._at(number), value)

    def wait(self, number: int, value: int) -> tuple[int, ...]:
        return command(WAIT_REG_MEM, EQUAL | MEMORY, *self._at(number), value, 0xFF, 4)

    def release(self, number: int, value: int, data: int = 1, interrupt: int = 0) -> tuple[int, ...]:
        return command(RELEASE_MEM, 0x14 | 5 << 8, data << 29 | interrupt << 24, *self._at(number), value, 0, 3)

    def _at(self, number: int) -> tuple[int, int]:
        place = self.address + 4 * number
        return place & 0xFFFF_FFFF, place >> 32


def test_commands_between_packets(bench: Make) -> None:
    """A buffer with a wait holds its queue; what precedes the wait is done once, other queues go on."""
    there = Pm4(bench, "gfx942", listen=True)
    rig, cells = there.rig, Cells(there.rig)
    there.words = (
        *cells.write(0, 7), *command(PRED_EXEC, 2 << 24 | 5), *cells.write(1, 9), *cells.wait(2, 5),
        *cells.release(3, 11, interrupt=2), *INVALIDATE, *cells.release(4, 0, data=3),
    )  # fmt: skip
    rig.device.memory.write(there.address, np.array(there.words, "<u4").tobytes())
    done = rig.device.create_signal(2)
    rig.queue.submit(there.packet(signal=done.address), dispatch(rig.kernel(), signal=done))
    assert (rig.queue.load_read_index(), cells.words[:4].tolist()) == (0, [7, 0, 0, 0])
    (blocked,) = rig.reported(PacketBlocked)
    assert blocked.why == "the command at dword 12 of its indirect buffer waits for memory"
    cells.words[0], cells.words[2] = 0, 0x105
    rig.new_queue().submit(barrier())
    assert (done.load(), rig.errors, cells.words[:4].tolist()) == (0, [], [0, 0, 0x105, 11])
    assert [event.event_id for event in rig.reported(InterruptSent)] == [3]


def test_waits_in_snapshots(bench: Make) -> None:
    """A packet whose buffer waits continues at the same command after `restore`."""
    there = Pm4(bench, "gfx900")
    rig, cells = there.rig, Cells(there.rig)
    there.words = (*cells.write(0, 7), *cells.wait(1, 5), *cells.write(2, 9))
    rig.device.memory.write(there.address, np.array(there.words, "<u4").tobytes())
    rig.queue.submit(there.packet())
    state = rig.device.snapshot()
    for _ in range(2):
        cells.words[:3] = (0, 5, 0)
        rig.device.process()
        assert (rig.queue.load_read_index(), cells.words[:3].tolist()) == (1, [0, 5, 9])
        rig.device.restore(state)
        assert rig.queue.load_read_index() == 0


def test_what_packets_cannot_do(bench: Make) -> None:
    """Kernels start with AQL packets; the check `races` takes commands for caches only."""
    there = Pm4(bench, "gfx900", *command(SET_SH_REG, 0x240, 1))
    there.rig.queue.submit(there.packet())
    text = "PM4 command SET_SH_REG is not modelled, expected NOP, PRED_EXEC, WRITE_DATA, WAIT_REG_MEM, INDIRECT_BUFFER"
    assert text in str(there.rig.errors[0][1])
    there = Pm4(bench, "gfx900", *INVALIDATE, *command(WRITE_DATA, 5 << 8, 0, 0, 0), check="races")
    there.rig.queue.submit(there.packet())
    text = "WRITE_DATA is not modelled, expected ACQUIRE_MEM or NOP (with the check 'races'), at dword 7"
    assert text in str(there.rig.errors[0][1])
