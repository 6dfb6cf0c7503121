"""What happens around the messages: disconnections, resets under way, failing DMA, sockets and their clients."""

import gc
import os
import socket
import struct
import threading
import time

import pytest

from softcard.attach.vfio_user import (
    Capabilities,
    Client,
    Disconnected,
    Server,
    Settings,
    SocketError,
    Timeout,
    events,
)
from softcard.attach.vfio_user import server as session_module
from softcard.attach.vfio_user.messages import Command, HeaderFlags
from softcard.core.errors import AccessFault, ModelBug, WireError
from softcard.core.pci import Bar
from tests.attach.rig import (
    ADDRESS,
    BELL,
    FAULTS,
    FILL,
    FILL_HERE,
    LENGTH,
    SCRATCH,
    SUM,
    VALUE,
    WAIT,
    Toy,
    plugged,
    rig,
)

ALIVE = 0xFFFF_FFFF


def start(client, command, address=0x1000, length=16, value=7):
    client.write_u32(ADDRESS, address)
    client.write_u32(LENGTH, length)
    client.write_u32(VALUE, value)
    client.write_u32(BELL, command, posted=True)  # else the client might serve DMA while it waits for the reply


def dma_request(client):
    """The server's next DMA command, not answered."""
    message = client.channel.receive(10.0)
    assert message is not None
    assert not message.is_reply
    return message


# DMA that fails.


@pytest.mark.parametrize(
    ("address", "length", "message"),
    [
        (0x0FF0, 0x10, "write of 16 bytes at 0xff0: nothing is mapped at 0xff0"),
        (0x1FF0, 0x20, "write of 32 bytes at 0x1ff0: nothing is mapped at 0x2000"),
        (0xFFFF_F000, 4, "write of 4 bytes at 0xfffff000: nothing is mapped at 0xfffff000"),
    ],
)
def test_dma_where_nothing_is_mapped(address, length, message):
    with plugged() as (made, client):
        client.enable_interrupt()
        memory = client.new_memory(0x1000, 0x1000)
        start(client, FILL, address, length)
        client.wait_interrupt()
        assert str(made.device.faults[0]).startswith(message)
        assert "vfio-user/dma-mapped" in str(made.device.faults[0])
        assert made.of(events.DmaFailed)[0].error is made.device.faults[0]
        assert memory.view.tobytes().count(0) == 0x1000, "checked before anything is written"


@pytest.mark.parametrize("shared", [True, False])
def test_dma_that_the_window_does_not_allow(shared):
    with plugged() as (made, client):
        memory = type(client.new_memory(0, 0x1000))(0x1000, 0x1000, shared=shared)
        client.map(memory, flags=1)
        dma = made.device.dma
        if shared:
            assert dma.read(0x1000, 2) == b"\0\0"
        with pytest.raises(AccessFault, match=r"the window at 0x1000\.\.0x2000 does not allow a"):
            dma.write(0xFFF, b"ab")
        client.map(type(memory)(0x2000, 0x1000, shared=False), flags=2)
        with pytest.raises(AccessFault, match=r"the window at 0x2000\.\.0x3000 does not allow a"):
            dma.read(0x2000, 1)


def test_dma_of_nothing_and_of_nonsense():
    with plugged() as (made, _):
        dma = made.device.dma
        assert dma.read(5, 0) == b""
        dma.write(5, b"")
        with pytest.raises(AccessFault, match="address and size must be 0 or more"):
            dma.read(5, -1)
        with pytest.raises(AccessFault, match="address and size must be 0 or more"):
            dma.read(-5, 1)


def test_dma_without_bus_master():
    with plugged(enabled=False) as (made, client):
        client.new_memory(0, 0x1000)
        with pytest.raises(AccessFault, match=r"bus mastering is disabled, \[pci/bus-master"):
            made.device.dma.read(0, 1)
        client.enable()
        assert made.device.dma.read(0, 1) == b"\0"
        client.reset()
        with pytest.raises(AccessFault, match="bus mastering is disabled"):
            made.device.dma.write(0, b"1")


def test_bus_master_can_be_ignored():
    with plugged(Settings(bus_master=False), enabled=False) as (made, client):
        client.new_memory(0, 0x1000)
        assert made.device.dma.read(0, 1) == b"\0"


@pytest.mark.parametrize(
    ("flags", "number", "payload", "message"),
    [
        (HeaderFlags.ERROR, 14, b"", "read of 16 bytes at 0x1000: the client replied with errno 14"),
        (0, 0, b"", "the reply of 0 bytes does not have address 0x1000 and count 16"),
        (
            0,
            0,
            struct.pack("<QQ", 0x1000, 16) + bytes(15),
            "the reply of 31 bytes does not have address 0x1000 and count 16",
        ),
        (0, 0, struct.pack("<QQ", 0x2000, 16) + bytes(16), "at reply DMA_READ (address, count = 0x2000, 0x10)"),
        (0, 0, struct.pack("<QQ", 0x1000, 17) + bytes(17), "address, count = 0x1000, 0x11"),
    ],
)
def test_a_bad_reply_to_dma_read(flags, number, payload, message):
    with plugged() as (made, client):
        client.enable_interrupt()
        client.new_memory(0x1000, 0x1000, shared=False)
        start(client, SUM)
        request = dma_request(client)
        client.channel.send(request.message_id, request.command, int(HeaderFlags.REPLY | flags), number, payload, ())
        client.wait_interrupt()
        assert message in str(made.device.faults[0])


def test_a_bad_reply_to_dma_write():
    with plugged() as (made, client):
        client.enable_interrupt()
        client.new_memory(0x1000, 0x1000, shared=False)
        start(client, FILL)
        request = dma_request(client)
        assert request.payload == struct.pack("<QQ", 0x1000, 16) + b"\7" * 16
        client.channel.send(request.message_id, request.command, int(HeaderFlags.REPLY), 0, bytes(16), ())
        client.wait_interrupt()
        assert "does not have address 0x1000 and count 16" in str(made.device.faults[0])


def test_a_short_reply_to_dma_write_is_as_the_document_has_it():
    with plugged() as (made, client):
        client.enable_interrupt()
        client.new_memory(0x1000, 0x1000, shared=False)
        start(client, FILL)
        request = dma_request(client)
        client.channel.send(request.message_id, request.command, 1, 0, request.payload[:12], ())
        client.wait_interrupt()
        assert not made.device.faults


@pytest.mark.parametrize("command", [FILL, FILL_HERE])
def test_a_client_that_never_replies(command):
    with plugged(Settings(dma_reply_timeout_s=0.02)) as (made, client):
        client.enable_interrupt()
        client.new_memory(0x1000, 0x1000, shared=False)
        client.write_u32(ADDRESS, 0x1000)
        client.write_u32(LENGTH, 16)
        client.send(Command.REGION_WRITE, struct.pack("<QIII", BELL, 0, 4, command), posted=True)
        request = dma_request(client)
        assert client.channel.receive(0.0) is None or command == FILL
        while not client.interrupts():
            assert client.read_u32(SCRATCH) == ALIVE
        assert "the client has not replied within 0.02 s" in str(made.device.faults[0])
        client.channel.send(request.message_id, request.command, 1, 0, request.payload[:16], ())
        assert client.read_u32(FAULTS) == 1
        assert "the client replied to a command that the server did not send" in made.refusals[0]


def test_commands_that_come_during_dma_of_the_receiving_thread_wait_their_turn():
    with plugged() as (_, client):
        memory = client.new_memory(0x1000, 0x1000, shared=False)
        client.write_u32(ADDRESS, 0x1000)
        client.write_u32(LENGTH, 16)
        client.write_u32(VALUE, 7, posted=True)
        client.write_u32(BELL, FILL_HERE, posted=True)
        client.write_u32(VALUE, 9, posted=True)
        last = client.send(Command.REGION_READ, struct.pack("<QII", VALUE, 0, 4))
        assert client.wait_reply(last).payload[16:] == b"\x09\0\0\0"
        assert bytes(memory.view[:16]) == b"\x07" * 16


def test_too_many_commands_during_dma_of_the_receiving_thread(monkeypatch):
    monkeypatch.setattr(session_module, "BACKLOG", 3)
    with plugged() as (made, client):
        client.new_memory(0x1000, 0x1000, shared=False)
        client.write_u32(ADDRESS, 0x1000)
        client.write_u32(LENGTH, 16)
        client.write_u32(BELL, FILL_HERE, posted=True)
        for _ in range(4):
            client.write_u32(SCRATCH, 0, posted=True)
        assert made.ended.startswith(
            "the client sent 3 commands and no reply to the server's DMA command, at message 10 (REGION_WRITE, id"
        )
        assert "the client sent 3 commands and no reply" in str(made.device.faults[0])


# Registers while the device works.


def test_registers_answer_while_the_device_works():
    with plugged() as (made, client):
        client.write_u32(BELL, WAIT)
        assert made.device.started.wait(10)
        for value in range(100):
            client.write_u32(SCRATCH, value)
            assert client.read_u32(SCRATCH) == value
        made.device.gate.set()


def test_registers_answer_while_the_device_waits_for_a_dma_reply():
    with plugged() as (made, client):
        client.enable_interrupt()
        client.new_memory(0x1000, 0x1000, shared=False)
        start(client, SUM)
        request = dma_request(client)
        client.write_u32(SCRATCH, 5)
        assert client.read_u32(SCRATCH) == 5
        client._serve(client.channel, request)
        client.wait_interrupt()
        assert not made.device.faults


@pytest.mark.parametrize("twin", [False, True])
def test_a_reset_ends_dma_under_way(twin):
    with rig() as made:
        client = made.plug(negotiate=False)
        client.negotiate(Capabilities(max_msg_fds=8, twin_socket=twin))
        client.enable()
        client.new_memory(0x1000, 0x1000, shared=False)
        start(client, SUM)
        channel = client.twin or client.channel
        request = channel.receive(10.0)
        client.reset()
        assert made.device.resets == 1
        assert client.read_u32(SCRATCH) == ALIVE
        assert "the device is being reset" in str(made.device.faults[0])
        channel.send(request.message_id, request.command, 1, 0, request.payload + bytes(16), ())
        client.enable()
        client.enable_interrupt()
        start(client, FILL)
        client.wait_interrupt()
        assert len(made.device.faults) == 1


# Disconnections.


@pytest.mark.parametrize("cut", [1, 15, 16, 20, 31])
def test_the_client_hangs_up_inside_a_message(cut):
    with plugged() as (made, client):
        data = struct.pack("<HHIII", 9, Command.REGION_READ, 32, 0, 0) + struct.pack("<QII", 0, 0, 4)
        client.channel._socket.send(data[:cut])
        made.unplug(client)
        assert f"the connection ended inside message 3, after {cut} of its bytes, at byte 0x" in made.ended
        with made.plug() as other:
            assert other.read_u32(SCRATCH) == ALIVE


def test_a_message_in_pieces_is_one_message():
    with plugged() as (_, client):
        data = struct.pack("<HHIII", 9, Command.REGION_READ, 32, 0, 0) + struct.pack("<QII", 0, 0, 4)
        for byte in data + data:
            client.channel._socket.send(bytes([byte]))
        assert client.wait_reply(9).payload[16:] == b"\xff" * 4
        assert client.wait_reply(9).payload[16:] == b"\xff" * 4


def test_descriptors_belong_to_the_message_they_came_with():
    with plugged() as (made, client):
        first, second = (
            type(client.new_memory(base, 0x1000))(base + 0x1000, 0x1000, shared=True) for base in (0, 8192)
        )
        for memory in (first, second):
            client.write_u32(SCRATCH, 1, posted=True)
            client.map(memory)
            memory.view[0] = memory.base >> 12
            client.windows[memory.base] = memory
        assert [made.device.dma.read(memory.base, 1)[0] for memory in (first, second)] == [1, 3]


@pytest.mark.parametrize("twin", [False, True])
def test_the_client_hangs_up_during_dma(twin):
    with rig() as made:
        client = made.plug(negotiate=False)
        client.negotiate(Capabilities(twin_socket=twin))
        client.enable()
        client.new_memory(0x1000, 0x1000, shared=False)
        start(client, SUM)
        (client.twin or client.channel).receive(10.0)
        made.unplug(client)
        with made.plug() as other:
            other.enable_interrupt()
            other.wait_interrupt()
            assert made.device.faults, "the device's thread was set free"
        assert made.of(events.Disconnected)[0].error is None


def test_the_client_hangs_up_during_dma_of_the_receiving_thread():
    with plugged() as (made, client):
        client.new_memory(0x1000, 0x1000, shared=False)
        client.write_u32(ADDRESS, 0x1000)
        client.write_u32(LENGTH, 16)
        client.write_u32(BELL, FILL_HERE, posted=True)
        dma_request(client)
        made.unplug(client)
        assert "the other side closed the connection" in str(made.device.faults[0])


def test_the_twin_socket_breaks_alone():
    with rig() as made:
        client = made.plug(negotiate=False)
        client.negotiate(Capabilities(twin_socket=True))
        client.enable()
        client.new_memory(0x1000, 0x1000, shared=False)
        client.twin.send(1, Command.DMA_READ, 0, 0, b"", ())
        client.twin._socket.send(b"\0" * 16)
        deadline = time.monotonic() + 20
        while len(made.refusals) < 2:  # by the thread of that socket
            assert time.monotonic() < deadline
            time.sleep(0.001)
        client.enable_interrupt()
        client.twin.close()
        client.twin = None
        start(client, SUM)
        client.wait_interrupt()
        assert client.read_u32(FAULTS) == 1
        assert (
            "the client sent a command on the socket of the server's commands, expected only replies"
            in made.refusals[0]
        )
        assert "not 0, at byte 0x10" in made.refusals[1]


def test_a_new_client_finds_the_device_as_it_was_but_no_memory_and_no_interrupt():
    with plugged() as (made, client):
        client.new_memory(0x1000, 0x1000)
        client.enable_interrupt()
        client.write_u32(SCRATCH, 77)
        made.unplug(client)
        with pytest.raises(AccessFault, match="nothing is mapped"):
            made.device.dma.read(0x1000, 1)
        made.device.line.set(True)
        other = made.plug()
        assert other.read_u32(SCRATCH) == 77
        assert other.read(7, 4, 1) == b"\6"
        other.enable_interrupt()
        assert other.interrupts() == 1


def test_a_session_leaves_no_descriptors():
    with rig() as made:
        gc.collect()
        before = sorted(os.listdir("/proc/self/fd"))
        for twin in (False, True):
            client = made.plug(negotiate=False)
            client.negotiate(Capabilities(max_msg_fds=8, twin_socket=twin))
            client.new_memory(0, 0x1000)
            client.enable_interrupt()
            spare = os.eventfd(0)
            client.set_irqs(0x14, fds=(spare,))
            os.close(spare)
            made.unplug(client)
            client.windows.clear()  # the client's own mapping of its memory
        assert sorted(os.listdir("/proc/self/fd")) == before


def test_surprise_removal():
    with plugged() as (made, client):
        made.server.disconnect()
        with pytest.raises(Disconnected):
            client.read_u32(SCRATCH)
        assert made.ended is None
        with made.plug() as other:
            assert other.read_u32(SCRATCH) == ALIVE


# What the device itself does wrong.


def test_an_error_of_the_device_is_answered_and_reported():
    class Broken(Toy):
        def read_bar(self, bar, offset, size):
            raise ModelBug("the device has failed")

    with plugged(device=Broken()) as (made, client):
        with pytest.raises(Exception, match="REGION_READ: the server answers Invalid argument"):
            client.read_u32(SCRATCH)
        assert made.refusals[0].startswith("the device has failed, at message 3 (REGION_READ")


@pytest.mark.parametrize("bar", [Bar(6, 4096), Bar(0, 4095), Bar(0, 8), Bar(0, 1 << 32)])
def test_a_device_with_an_impossible_bar(bar):
    device = Toy(bars=(bar,))
    with pytest.raises(ModelBug, match="a BAR must have an index from 0 to 5 and a size that is a power of two"):
        Server(device)
    device.close()


# Sockets.


@pytest.fixture
def served(tmp_path):
    """A server at a path, serving in a thread of its own."""
    device = Toy()
    server = Server(device)
    path = tmp_path / "device.sock"
    server.listen(path)
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield server, path, thread
    server.close()
    thread.join(20)
    assert not thread.is_alive()
    device.close()


def test_clients_come_one_after_the_other(served):
    server, path, _ = served
    for number in range(1, 4):
        with Client.connect(path) as client:
            assert client.read_u32(SCRATCH) == ALIVE
            assert server.sessions == number


def test_a_second_client_waits_for_the_first_to_go(served):
    _, path, _ = served
    first = Client.connect(path)
    waiting = socket.socket(socket.AF_UNIX)
    waiting.connect(str(path))
    second = Client(waiting, timeout_s=0.01)
    with pytest.raises(Timeout, match=r"no reply to message id 0x1 within 0\.01 s"):
        second.negotiate()
    second.timeout_s = 10.0
    first.close()
    second.wait_reply(1)
    assert second.read_u32(SCRATCH) == ALIVE
    second.close()


def test_close_ends_serving_and_removes_the_socket(served):
    server, path, thread = served
    with Client.connect(path) as client:
        server.close()
        with pytest.raises(Disconnected):
            client.read_u32(SCRATCH)
    thread.join(20)
    assert not path.exists()
    with pytest.raises(Disconnected, match="cannot connect to a server at"):
        Client.connect(path)


def test_a_socket_in_use_is_refused_and_a_stale_one_replaced(served, tmp_path):
    _, path, _ = served
    device = Toy()
    with Server(device) as other:
        with pytest.raises(SocketError, match="another server listens there"):
            other.listen(path)
        stale = tmp_path / "stale.sock"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(stale))
        other.listen(stale)
        assert stale.exists()
    device.close()


def test_paths_that_cannot_be_listened_at(tmp_path):
    device = Toy()
    (tmp_path / "file").write_text("precious")
    with Server(device) as server:
        with pytest.raises(SocketError, match="the existing file is not a socket"):
            server.listen(tmp_path / "file")
        with pytest.raises(SocketError, match="No such file or directory"):
            server.listen(tmp_path / "no" / "folder")
        with pytest.raises(SocketError, match="too long"):
            server.listen(tmp_path / ("x" * 200))
        with pytest.raises(SocketError, match="call listen first"):
            server.serve()
    assert (tmp_path / "file").read_text() == "precious"
    device.close()


def test_the_toy_refuses_what_cannot_exist():
    device = Toy()
    with pytest.raises(WireError):
        device.read_bar(3, 0, 4)
    device.close()
