"""Races of kernels of several queues that wait for words which kernels store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.packets import BARRIER_BIT, BarrierValuePacket
from softcard.device.hsa.queues.signals import VALUE_AT, Condition, Signal
from tests.device.hsa.rig import Bench, barrier, dispatch

PLACE = "v_mov_b32 v0, s0|v_mov_b32 v1, s1|"
DATA = "v_mov_b32 v2, {}|flat_store_dword v[0:1], v2|"
NEXT = "v_add_u32 v0, 64, v0|"
SINGLE = "s_mov_b64 exec, 1|"
FLAG = f"{SINGLE}{NEXT}v_mov_b32 v2, 5|flat_store_dword v[0:1], v2|"
READ = f"{SINGLE}{NEXT}flat_load_dword v2, v[0:1] glc|s_waitcnt vmcnt(0)|{NEXT}flat_store_dword v[0:1], v2|"
ACQUIRE = "s_waitcnt vmcnt(0)|buffer_wbinvl1_vol|"
BARRED = 1 << BARRIER_BIT - 8
SIGNAL_FLAG = f"{SINGLE}v_mov_b32 v2, 5|v_mov_b32 v3, 0|flat_store_dwordx2 v[0:1], v[2:3]|"


class Streams(Bench):
    """Queues whose packets run when all are submitted, one queue after the other; each packet has the barrier bit."""

    def __init__(self, engine: str, agent: str = "gfx900") -> None:
        super().__init__(agent, check="races", execution="manual", engine=engine)
        self.data, self.values = self.words(256)
        self.signal = self.device.create_signal(0)
        self.submitted: list[tuple[Queue, list[bytes]]] = []

    def kernel_at(self, text: str, address: int = 0) -> bytes:
        """Return the packet of a kernel that gets an address."""
        made = bytearray(dispatch(self.kernel((PLACE + text + "s_endpgm").replace("|", "\n")), address or self.data))
        made[1] |= BARRED
        return bytes(made)

    def store(self, value: int) -> bytes:
        """Return the packet of a kernel that stores to the data."""
        return self.kernel_at(DATA.format(value))

    def set_signal(self) -> bytes:
        """Return the packet of a kernel that stores 5 to the value of the signal, as hipStreamWriteValue64 does."""
        return self.kernel_at(SIGNAL_FLAG, self.signal.address + VALUE_AT)

    def wait(self, value: int = 5) -> bytes:
        """Return a packet that waits for the signal."""
        return BarrierValuePacket(
            signal=self.signal.address, value=value, mask=-1, condition=Condition.GTE, barrier=1
        ).pack()

    def run(self, *queues: list[bytes]) -> list[str]:
        """Submit the packets of each queue and run them; return the kinds of the findings."""
        made = [self.queue, *(self.new_queue() for _ in queues[1:])]
        for queue, packets in zip(made, queues, strict=True):
            queue.submit(*packets)
        self.device.process(sum(map(len, queues)))
        assert self.errors == []
        assert not any(queue.pending for queue in made)
        return [each.kind for each in self.device.findings]


@pytest.fixture(params=["jit", "reference"])
def streams(request: pytest.FixtureRequest) -> Iterator[Streams]:
    made = Streams(request.param)
    yield made
    made.device.close()


RACE = ["write-write"]


def test_a_packet_waits_for_the_value_that_a_kernel_stores(streams: Streams) -> None:
    assert streams.run([streams.store(1), streams.set_signal()], [streams.wait(), streams.store(2)]) == []


def test_the_value_is_stored_too_early(streams: Streams) -> None:
    assert streams.run([streams.set_signal(), streams.store(1)], [streams.wait(), streams.store(2)]) == RACE


def test_packets_that_wait_for_another_value_before(streams: Streams) -> None:
    """The first store lets the queue go on to a second wait, which the kernels before the second store precede."""
    low = streams.kernel_at(SIGNAL_FLAG.replace("v2, 5", "v2, 3"), streams.signal.address + VALUE_AT)
    first = [low, streams.store(1), streams.set_signal()]
    assert streams.run(first, [streams.wait(3), streams.wait(5), streams.store(2)]) == []


def test_the_host_stores_the_value_that_a_packet_waits_for(streams: Streams) -> None:
    """It may have waited for any kernel before it did."""
    low = streams.kernel_at(SIGNAL_FLAG.replace("v2, 5", "v2, 3"), streams.signal.address + VALUE_AT)
    other = streams.new_queue()
    other.submit(streams.wait(), streams.store(2))
    done = streams.device.create_signal(1)
    streams.queue.submit(low, streams.store(1), barrier(signal=done, bit=1))
    streams.device.process(3)
    assert done.load() == 0
    streams.signal.store(5)
    streams.device.process(2)
    assert not other.pending
    assert streams.device.findings == []


def test_a_packet_completes_the_signal_after_a_kernel_stored_it(streams: Streams) -> None:
    """The value is the packet's then: it comes after what was before it."""
    high = streams.kernel_at(SIGNAL_FLAG.replace("v2, 5", "v2, 6"), streams.signal.address + VALUE_AT)
    other = streams.new_queue()
    other.submit(
        BarrierValuePacket(signal=streams.signal.address, value=5, mask=-1, condition=Condition.EQ, barrier=1).pack(),
        streams.store(2),
    )
    streams.queue.submit(high, streams.store(1), barrier(signal=Signal(streams.device, streams.signal.address), bit=1))
    streams.device.process(5)
    assert not other.pending
    assert streams.device.findings == []


def test_a_kernel_waits_for_the_word(streams: Streams) -> None:
    """As hipStreamWaitValue64 is one: without invalidating caches, which the next packet does."""
    write, wait = streams.kernel_at(FLAG), streams.kernel_at(READ)
    assert streams.run([streams.store(1), write], [wait, streams.store(2)]) == []
    assert streams.values[32] == 5


def test_the_word_is_stored_too_early(streams: Streams) -> None:
    write, wait = streams.kernel_at(FLAG), streams.kernel_at(READ)
    assert streams.run([write, streams.store(1)], [wait, streams.store(2)]) == RACE
    assert streams.values[32] == 5


def test_nobody_waits_for_the_word(streams: Streams) -> None:
    assert streams.run([streams.store(1), streams.kernel_at(FLAG)], [streams.store(2)]) == RACE


def test_the_kernel_that_reads_the_word_goes_on(streams: Streams) -> None:
    go_on = "v_subrev_u32 v0, 128, v0|" + DATA.format(2)
    for acquire, found in ((ACQUIRE, []), ("", RACE)):
        again = Streams(streams.device.settings.engine)
        wait = again.kernel_at(READ + acquire + go_on.replace("128", "v3").replace("v_sub", "v_mov_b32 v3, 0x80|v_sub"))
        assert again.run([again.store(1), again.kernel_at(FLAG)], [wait]) == found, acquire
        assert again.values[32] == 5
        again.device.close()


@pytest.mark.parametrize("release", ["s_waitcnt vmcnt(0)|", ""], ids=["waited", "not waited"])
def test_one_kernel_stores_the_data_and_the_word(streams: Streams, release: str) -> None:
    """The word releases the data if the wave has waited for its store of them."""
    both = streams.kernel_at(DATA.format(1) + release + FLAG)
    found = streams.run([both], [streams.kernel_at(READ), streams.store(2)])
    assert found == ([] if release else RACE)
    assert streams.values[32] == 5


@pytest.mark.parametrize("release", ["s_waitcnt vmcnt(0)|", ""], ids=["waited", "not waited"])
def test_one_kernel_stores_the_data_and_the_signal(streams: Streams, release: str) -> None:
    low, high = (streams.signal.address + VALUE_AT & 0xFFFFFFFF, streams.signal.address + VALUE_AT >> 32)
    signal = f"v_mov_b32 v0, {low:#x}|v_mov_b32 v1, {high:#x}|{SIGNAL_FLAG}"
    both = streams.kernel_at(DATA.format(1) + release + signal)
    assert streams.run([both], [streams.wait(), streams.store(2)]) == ([] if release else RACE)


@pytest.mark.parametrize("release", ["s_waitcnt vmcnt(0)|", ""], ids=["waited", "not waited"])
@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_a_scoped_store_of_the_signal(engine: str, release: str) -> None:
    """It keeps the order of the stores within its work-group, but not for packets."""
    streams = Streams(engine, "gfx942")
    at = streams.signal.address + VALUE_AT
    signal = f"v_mov_b32 v0, {at & 0xFFFFFFFF:#x}|v_mov_b32 v1, {at >> 32:#x}|" + SIGNAL_FLAG.replace(
        "]|", "] sc0 sc1|"
    )
    both = streams.kernel_at(DATA.format(1) + release + signal)
    assert streams.run([both], [streams.wait(), streams.store(2)]) == ([] if release else RACE)
    streams.device.close()


def test_a_chain_of_queues(streams: Streams) -> None:
    """The third queue waits for a word of the second, which has waited for one of the first."""
    far = NEXT + NEXT
    second = [streams.kernel_at(READ), streams.kernel_at(far + FLAG)]
    third = [streams.kernel_at(far + READ), streams.store(2)]
    assert streams.run([streams.store(1), streams.kernel_at(FLAG)], second, third) == []
    assert streams.values[32] == 5


def test_a_chain_without_its_first_link(streams: Streams) -> None:
    far = NEXT + NEXT
    second, third = [streams.kernel_at(far + FLAG)], [streams.kernel_at(far + READ), streams.store(2)]
    assert streams.run([streams.store(1), streams.kernel_at(FLAG)], second, third) == RACE
