"""The hostcall service, with packets that a test writes in place of waves, and the text of printed messages.

Kernels that print with it are in ``tests/host/triton``.
"""

import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard import BeyondModel, Gpu
from softcard.host.hsa.hostcall import BEGIN, END, PACKETS, Hostcalls, printed
from softcard.host.hsa.launch import Launch
from softcard.image.hsa.metadata import Argument
from tests.host.hsa.test_hidden import code


def words(*parts: str | int | float) -> list[int]:
    """The words of a message: texts in whole words, each with a final 0, and numbers."""
    data = b""
    for each in parts:
        if isinstance(each, str):
            text = each.encode()
            data += text + bytes(8 - len(text) % 8)
        else:
            data += struct.pack("<d", each) if isinstance(each, float) else struct.pack("<Q", each % (1 << 64))
    return [int(each) for each in np.frombuffer(data, np.uint64)]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("plain\n",), "plain\n"),
        (("12345678",), "12345678"),
        (("%d %u %x", (1 << 32) - 5, 7, 255), "-5 7 ff"),
        (("%lld|%hd|%hhu", -(1 << 40), 65535, 511), "-1099511627776|-1|255"),
        (("%f %.2e", 1.5, 12345.0), "1.500000 1.23e+04"),
        (("%s and %s", "a longer text", ""), "a longer text and "),
        (("%*d|%-4d|%%", 5, 42, 7), "   42|7   |%"),
        (("%p", 4096), "0x1000"),
    ],
)
def test_text_of_messages(parts: tuple[Any, ...], text: str):
    assert printed([0, *words(*parts)]) == text


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=20))
def test_any_message_has_a_text(message: list[int]):
    assert isinstance(printed(message), str)


class Wave:
    """A wave's side of the protocol, for one lane."""

    def __init__(self, gpu: Gpu, service: Hostcalls, lane: int = 3) -> None:
        self.gpu, self.service, self.lane = gpu, service, lane
        headers, payloads, self.doorbell, free, _, mask = self.read(service.address, 6)
        assert mask == PACKETS - 1
        self.pointer = free
        self.header, self.payload = headers + (free & mask) * 24, payloads + (free & mask) * 4096 + lane * 64

    def read(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}Q", bytes(self.gpu.device.memory.read(address, 8 * count)))

    def write(self, address: int, *values: int) -> None:
        self.gpu.device.memory.write(address, struct.pack(f"<{len(values)}Q", *values))

    def call(self, service: int, *slots: int) -> int:
        """Make a call; return the first word of its result."""
        self.write(self.header, 0, 1 << self.lane, service | 1 << 32)
        self.write(self.payload, *slots)
        self.write(self.service.address + 32, self.pointer)
        self.gpu.device.interrupt(0xFE)
        return self.read(self.payload, 1)[0]

    @property
    def is_ready(self) -> bool:
        return bool(self.read(self.header + 16, 1)[0] >> 32 & 1)


def test_messages_in_several_packets():
    with Gpu.open("gfx900", threads=1) as gpu:
        service = Hostcalls(gpu.device)
        wave, message = Wave(gpu, service), [0, *words("%s is %d\n", "the answer to it all", 42)]
        descriptor = wave.call(2, BEGIN | 7 << 5, *message[:7])
        assert not wave.is_ready
        assert descriptor & BEGIN == 0
        assert service.text() == ""
        rest = message[7:]
        result = wave.call(2, descriptor & ~(7 << 5) | END | len(rest) << 5, *rest)
        assert (service.text(), result) == ("the answer to it all is 42\n", 27)
        assert service.text() == ""


def test_free_packets_are_a_stack_of_all():
    with Gpu.open("gfx900", threads=1) as gpu:
        wave = Wave(gpu, Hostcalls(gpu.device))
        at, seen = wave.pointer, []
        while at:
            seen.append(at & PACKETS - 1)
            at = wave.read(wave.service.address + 64 + 24 * seen[-1], 1)[0]
        assert sorted(seen) == list(range(PACKETS))


def test_other_services_are_not_modelled():
    with Gpu.open("gfx900", threads=1) as gpu:
        wave = Wave(gpu, Hostcalls(gpu.device))
        with pytest.raises(BeyondModel, match="hostcall service 3 is not supported, only 2"):
            wave.call(3, 0)


def test_restored_device_has_no_service():
    with Gpu.open("gfx900", threads=1) as gpu:
        before = gpu.snapshot()
        service = Hostcalls(gpu.device)
        assert service.is_valid
        gpu.restore(before)
        assert not service.is_valid
        gpu.device.interrupt(0xFE)


CALLS = code(Argument("", 0, 8, "hidden_hostcall_buffer"), text="s_endpgm")
SILENT = code(Argument("", 0, 8, "hidden_heap_v1"), text="s_endpgm")


def buffer_of(gpu: Gpu, launch: Launch) -> int:
    """The hostcall buffer that a launch of `CALLS` got, if it was not waited for yet."""
    return int.from_bytes(gpu.device.memory.read(launch.packet.kernarg_address, 8), "little")


def say(gpu: Gpu, buffer: int, text: str) -> None:
    message: Any = [0, *words(text)]
    Wave(gpu, SimpleNamespace(address=buffer)).call(2, BEGIN | END | len(message) << 5, *message)  # type: ignore[arg-type]


def test_text_belongs_to_kernels_that_make_hostcalls():
    with Gpu.open("gfx900", threads=1) as gpu:
        kernel = gpu.load(CALLS).kernel("k")
        launch = gpu.dispatch(kernel, 1)
        say(gpu, buffer_of(gpu, launch), "mine")
        assert gpu.run(SILENT, "k", 1).text == ""
        assert gpu.dispatch(kernel, 1, hidden={"hostcall_buffer": 0}).wait().text == "", "its caller serves it"
        assert launch.wait().text == "mine"


def test_queues_have_their_own_text():
    with Gpu.open("gfx900", threads=1) as gpu:
        kernel, queues = gpu.load(CALLS).kernel("k"), [gpu.queue(), gpu.queue()]
        first, second = (gpu.dispatch(kernel, 1, queue=queue) for queue in queues)
        say(gpu, buffer_of(gpu, first), "first")
        say(gpu, buffer_of(gpu, second), "second")
        assert (second.wait().text, first.wait().text) == ("second", "first")


def test_buffers_of_destroyed_queues_are_used_again():
    with Gpu.open("gfx900", threads=1) as gpu:
        kernel, buffers = gpu.load(CALLS).kernel("k"), []
        for _ in range(3):
            queue = gpu.queue()
            launch = gpu.dispatch(kernel, 1, queue=queue)
            buffers.append(buffer_of(gpu, launch))
            assert launch.wait().text == ""
            say(gpu, buffers[-1], "late")
            queue.destroy()
        assert len(set(buffers)) == 1
        waiting = gpu.queue()
        launch = gpu.dispatch(kernel, 1, queue=waiting)
        say(gpu, buffer_of(gpu, launch), "its own")
        waiting.destroy()
        assert buffer_of(gpu, gpu.dispatch(kernel, 1)) != buffers[0]
        assert launch.wait().text == "its own"
