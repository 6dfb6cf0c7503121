"""The protocol, request by request: what a host of another version, a broken one or a hostile one gets."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import threading
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.attach.fletcher import Server, SocketError, events
from softcard.attach.fletcher.server import IN_FILE, MAGIC, VERSION, Op, Status
from softcard.attach.host_session import MAX_TEXT, REQUEST
from softcard.device.fletcher.events import KernelFinished
from softcard.device.fletcher.job import Job
from softcard.device.fletcher.kernel import kernel
from softcard.device.fletcher.kernels import find
from tests.attach.fletcher.rig import Client, DevicePlatform, FletcherDevice, served

needs_sealing = pytest.mark.skipif(not hasattr(fcntl, "F_ADD_SEALS"), reason="files cannot be sealed here")
NUMBERS = struct.pack("<4q", 1, -3, 3, -7)


def start(client: Client, address: int, rows: int = 4) -> None:
    for index, value in enumerate((0, rows, address & 0xFFFF_FFFF, address >> 32), 4):
        assert client.ask(Op.WRITE_MMIO, value, index)[0] == Status.OK
    client.ask(Op.WRITE_MMIO, 1, 0)
    client.ask(Op.WRITE_MMIO, 0, 0)


def test_the_calls_of_the_sum_example() -> None:
    with served() as host, Client(host.path) as client:
        status, address, text, _ = client.ask(Op.PREPARE, size=32, data=NUMBERS)
        assert (status, text) == (Status.OK, "")
        start(client, address)
        while not client.ask(Op.READ_MMIO, address=1)[1] & 4:
            pass
        assert [client.ask(Op.READ_MMIO, address=index)[1] for index in (2, 3)] == [0xFFFF_FFFA, 0xFFFF_FFFF]
        assert client.ask(Op.TERMINATE)[0] == Status.OK
        assert client.is_hung_up()


def test_the_kernel_works_while_the_host_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softcard.device.fletcher.kernels.examples.SUM_SLICE_ROWS", 1)
    finished = threading.Event()
    with served() as host, Client(host.path) as client:
        host.device.probes.subscribe(lambda event: finished.set() if isinstance(event, KernelFinished) else None)
        _, address, _, _ = client.ask(Op.PREPARE, size=800, data=bytes(800))
        start(client, address, 100)
        assert finished.wait(20)


def test_a_host_that_writes_while_the_kernel_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice that was checked stays what it was; what comes later is checked again."""
    monkeypatch.setattr("softcard.device.fletcher.kernels.examples.SUM_SLICE_ROWS", 1)
    with served() as host, Client(host.path) as client:
        _, address, _, _ = client.ask(Op.PREPARE, size=1 << 16, data=bytes(1 << 16))
        start(client, address, 1 << 13)
        assert client.ask(Op.HOST_TO_DEVICE, address=address, size=8, data=b"\1" * 8)[0] == Status.OK
        assert client.ask(Op.FREE, address=address)[0] == Status.OK
        texts = [client.ask(Op.READ_MMIO, address=1)[2] for _ in range(10)]
        assert any("no device memory is allocated at this address" in text for text in texts)


def test_hosts_of_another_version() -> None:
    with served() as host, Client(host.path, greet=False) as client:
        status, _, text, _ = client.ask(Op.HELLO, VERSION + 1, MAGIC)
        assert status == Status.NO_PLATFORM
        assert text == (
            "error: the platform library has protocol version 3, but the server has 2: use the library of the server's "
            "Softcard\n   = note: reported by the platform library of Softcard"
        )
        assert client.is_hung_up()
    assert "has protocol version 3" in str(host.seen(events.Disconnected)[0].error)


@pytest.mark.parametrize(
    "greeting", [(Op.READ_MMIO, VERSION, MAGIC), (Op.HELLO, VERSION, 0), (0, 0, 0), (2**32 - 1, 0, 0)]
)
def test_hosts_that_do_not_greet(greeting: tuple[int, int, int]) -> None:
    with served() as host, Client(host.path, greet=False) as client:
        client.send(*greeting)
        assert client.is_hung_up()
    [gone] = host.seen(events.Disconnected)
    op, _, magic = greeting
    assert str(gone.error) == (
        f"the first request is {op} with the magic number {magic:#x}, expected the greeting of the platform library "
        f"(1 with {MAGIC:#x}), at request 1"
    )


@pytest.mark.parametrize("op", [0, Op.HELLO, 12, 2**32 - 1])
def test_requests_that_are_none(op: int) -> None:
    with served() as host, Client(host.path) as client:
        client.send(op)
        assert client.is_hung_up()
    assert str(host.seen(events.Disconnected)[0].error) == f"unknown request {op}, expected 2 to 11, at request 2"


def test_hosts_that_go_away_in_the_middle() -> None:
    with served() as host:
        with Client(host.path) as client:
            client.socket.sendall(REQUEST.pack(Op.PREPARE, 0, 0, 100) + bytes(40))
        with Client(host.path) as client:
            client.socket.sendall(bytes(5))
        with Client(host.path) as client:
            assert client.ask(Op.READ_MMIO, address=1)[:2] == (Status.OK, 1)
    errors = [str(gone.error) for gone in host.seen(events.Disconnected)]
    assert errors[0] == "the host disconnected before it sent the last 60 bytes of a request, at request 2"
    assert errors[1].startswith("the host disconnected before it sent the last 19 bytes of a request")
    assert errors[2] == "None"


def test_refused_data_is_read_and_dropped() -> None:
    with served(memory_bytes=1 << 16) as host, Client(host.path) as client:
        size = 5 << 20
        status, _, text, _ = client.ask(Op.PREPARE, size=size, data=bytes(size))
        assert status == Status.DEVICE_OUT_OF_MEMORY
        assert "have no room for them" in text
        assert client.ask(Op.MALLOC, size=size)[0] == Status.DEVICE_OUT_OF_MEMORY
        _, address, _, _ = client.ask(Op.MALLOC, size=100)
        status, _, text, _ = client.ask(Op.HOST_TO_DEVICE, address=address, size=101, data=b"x" * 101)
        assert status == Status.ERROR
        assert f"write of 101 bytes at {address:#x}: only 100 bytes are allocated there" in text
        assert client.ask(Op.DEVICE_TO_HOST, address=address, size=100)[3] == bytes(100)
        assert client.ask(Op.DEVICE_TO_HOST, address=address, size=1 << 63)[0] == Status.ERROR


@pytest.mark.parametrize(
    ("op", "size", "status", "message"),
    [
        (Op.PREPARE, 1 << 20, Status.OK, ""),
        (Op.CACHE, 1 << 40, Status.DEVICE_OUT_OF_MEMORY, "cannot allocate 1099511627776 bytes: the"),
        (Op.HOST_TO_DEVICE, 100, Status.OK, ""),
        (Op.HOST_TO_DEVICE, 101, Status.ERROR, "write of 101 bytes at 0x100000000: only 100 bytes are allocated there"),
        (Op.MALLOC, 1, Status.ERROR, "the host offered data for request 4, which takes no data"),
        (99, 1, Status.ERROR, "the host offered data for request 99, which takes no data"),
    ],
)
def test_data_is_offered_before_it_is_sent(op: int, size: int, status: int, message: str) -> None:
    with served() as host, Client(host.path) as client:
        _, address, _, _ = client.ask(Op.MALLOC, size=100)
        found, _, text, _ = client.ask(Op.OFFER, op, address, size)
        assert found == status
        assert text.startswith(f"error: {message}" if message else "")
        assert bool(text) == bool(message)
        assert client.ask(Op.READ_MMIO, address=1)[:2] == (Status.OK, 1)


def test_long_messages_are_cut() -> None:
    @kernel("long", read={"P": [("a", pa.int8())]})
    def fails(job: Job) -> None:
        raise ValueError("x" * 10_000)

    with served(fails) as host, Client(host.path) as client:
        texts = [client.ask(Op.WRITE_MMIO, value, 0)[2] for value in (1, 0)]
        [text] = [text for text in texts if text]
        assert len(text) == MAX_TEXT
        assert text.startswith("error: the kernel's code raised ValueError: xxx")


def test_hardware_answers_with_slverr() -> None:
    with served(profile="hardware") as host, Client(host.path) as client:
        status, _, text, _ = client.ask(Op.READ_MMIO, address=3)
        assert status == Status.ERROR
        assert text.startswith("error: the bus responds with SLVERR")
        assert "\n   = note: at MMIO register 3\n" in text
        assert client.ask(Op.READ_MMIO, address=2)[0] == Status.OK
        assert client.ask(Op.READ_MMIO, address=3)[0] == Status.OK


def test_register_indices_that_no_bus_has() -> None:
    with served(profile="hardware") as host, Client(host.path) as client:
        status, _, text, _ = client.ask(Op.WRITE_MMIO, address=1 << 62)
        assert status == Status.ERROR
        assert "does not fit 32 bits" in text


def test_a_bus_of_64_bits() -> None:
    """The library's registers are halves of its words."""
    chosen = find("sum")
    platform = DevicePlatform(FletcherDevice(chosen.map(bus_width=64), chosen))
    address = platform.device_malloc(32)
    platform.copy_host_to_device(memoryview(NUMBERS), address)
    for index, value in enumerate((0, 4, address & 0xFFFF_FFFF, address >> 32), 4):
        platform.write_mmio(index, value)
        assert platform.read_mmio(index) == value
    platform.write_mmio(0, 1)
    while platform.is_working:
        platform.advance()
    assert [platform.read_mmio(index) for index in (1, 2, 3)] == [5, 0xFFFF_FFFA, 0xFFFF_FFFF]


def test_a_map_with_an_offset() -> None:
    chosen = find("sum")
    platform = DevicePlatform(FletcherDevice(chosen.map(offset=64), chosen))
    platform.write_mmio(5, 4)
    assert platform.read_mmio(5) == 4
    assert platform.device.value("ExampleBatch_lastidx") == 4


def test_servers_take_turns_at_a_socket() -> None:
    with served() as host:
        other = Server(DevicePlatform(host.device))
        with pytest.raises(SocketError, match="call listen first"):
            other.serve()
        with pytest.raises(SocketError, match="another server listens there"):
            other.listen(host.path)
    assert not host.path.exists()


def test_close_ends_a_session() -> None:
    with served() as host, Client(host.path) as client:
        client.ask(Op.MALLOC, size=10)
        host.server.close()
        assert client.is_hung_up()
    assert host.seen(events.Disconnected)[0].freed == 1


@pytest.mark.slow
@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_any_requests_at_all(random: Random) -> None:
    """Each gets a reply or ends its session; the next host is served as ever."""
    with served(memory_bytes=1 << 20, profile=random.choice(["spec", "hardware"])) as host:
        with Client(host.path) as client:
            known = [0]
            try:
                for _ in range(40):
                    any_request(client, random, known)
            except (EOFError, OSError):
                pass
        with Client(host.path) as client:
            assert client.ask(Op.READ_MMIO, address=1)[:2] == (Status.OK, 1)


def any_request(client: Client, random: Random, known: list[int]) -> None:
    op = random.choice([*range(2, 10), *range(2, 10), 2, 2, 3, random.getrandbits(32)])
    size = random.choice([0, 1, 8, 32, 100, 4096, random.getrandbits(12)])
    address = random.choice([*known, random.getrandbits(64), random.randrange(12), random.randrange(12)])
    value = random.choice([0, 1, 2, 4, 7, random.choice(known) & 0xFFFF_FFFF, random.getrandbits(32)])
    with_data = op in (Op.HOST_TO_DEVICE, Op.PREPARE, Op.CACHE)
    if with_data and not size:
        value = 0  # with IN_FILE, the server would wait for the byte that comes with the file
    if not with_data and random.random() < 0.1:
        size = random.getrandbits(64)
    status, answer, _, _ = client.ask(op, value, address, size, random.randbytes(size) if with_data else b"")
    assert status in (Status.OK, Status.ERROR, Status.DEVICE_OUT_OF_MEMORY)
    if status == Status.OK and op in (Op.MALLOC, Op.PREPARE, Op.CACHE):
        known.append(answer)


# ---- files with large data -----------------------------------------------------------------------------------------


def sealed(data: bytes, seals: int) -> int:
    """A file in memory with `data`."""
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(descriptor, data)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def hand_over(client: Client, descriptor: int, size: int) -> tuple[int, int, str]:
    client.send(Op.PREPARE, IN_FILE, 0, size)
    socket.send_fds(client.socket, [b"\0"], [descriptor])
    os.close(descriptor)
    return client.reply()[:3]


@needs_sealing
def test_data_in_a_sealed_file() -> None:
    data = bytes(range(256)) * 64
    with served() as host, Client(host.path) as client:
        status, address, _ = hand_over(client, sealed(data, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK), len(data))
        assert status == Status.OK
        assert client.ask(Op.DEVICE_TO_HOST, address=address, size=len(data))[3] == data
        assert client.ask(Op.HOST_TO_DEVICE, address=address + 1, size=2, data=b"xy")[0] == Status.OK
        assert client.ask(Op.DEVICE_TO_HOST, address=address, size=4)[3] == b"\0xy\3"
        assert hand_over(client, sealed(data, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK), 0)[0] == Status.OK


@needs_sealing
@pytest.mark.parametrize(
    ("seals", "size", "message"),
    [
        (0, 64, "the host's file lacks seals, expected F_SEAL_WRITE and F_SEAL_SHRINK"),
        (1, 64, "the host's file lacks seals"),
        (14, 65, "the host's file has 64 bytes, expected 65"),
        (14, 1 << 40, "have no room for them"),
        (14, (1 << 64) - 1, "have no room for them"),
    ],
)
def test_files_that_do_not_do(seals: int, size: int, message: str) -> None:
    with served() as host, Client(host.path) as client:
        status, _, text = hand_over(client, sealed(bytes(64), seals), size)
        assert status in (Status.ERROR, Status.DEVICE_OUT_OF_MEMORY)
        assert message in text
        assert client.ask(Op.READ_MMIO, address=1)[:2] == (Status.OK, 1)


@needs_sealing
def test_descriptors_that_are_no_files() -> None:
    with served() as host, Client(host.path) as client:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            _, _, text = hand_over(client, os.open("/dev/zero", os.O_RDONLY), 64)
            assert "the host's file lacks seals" in text
        assert len(os.listdir("/proc/self/fd")) == before
        client.send(Op.PREPARE, IN_FILE, 0, 64, b"\0")
        assert client.is_hung_up()
    assert "the host announced a file but sent no descriptor" in str(host.seen(events.Disconnected)[0].error)
