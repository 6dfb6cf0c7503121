"""The server and hosts that break the protocol: nothing that they send ends more than their own session."""

from __future__ import annotations

import random
import socket
import time
import tracemalloc
from pathlib import Path

import pytest

from softcard.attach.host_session import REPLY, REQUEST
from softcard.attach.refsi import events
from softcard.attach.refsi.messages import FAMILY_SHIFT, MAGIC, VERSION, Op, Result
from tests.attach.refsi.rig import DRAM, SUCCESS, Driver, Served, needs_compiler, served

M = 1 << FAMILY_SHIFT
ODD = (0, 1, 7, 8, 0x1000, 0xFFFF, DRAM, DRAM + 1, 1 << 31, 1 << 40, 1 << 63, (1 << 64) - 8, (1 << 64) - 1)


def connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(20)
    sock.connect(str(path))
    return sock


def is_hung_up(sock: socket.socket) -> bool:
    """Read what is said until nobody says any more."""
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


def until_gone(server: Served, count: int) -> None:
    deadline = time.monotonic() + 20
    while len(server.seen(events.Disconnected)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


HELLO = REQUEST.pack(Op.HELLO, VERSION, MAGIC, 0)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            REQUEST.pack(Op.WAIT, 0, 0, 0),
            f"the first request is {Op.WAIT.value} with the magic number 0x0, expected the greeting of the driver "
            "library",
        ),
        (
            REQUEST.pack(Op.HELLO, VERSION + 1, MAGIC, 0),
            "the driver library has protocol version 2, but the server has 1",
        ),
        (HELLO[:5], "the host disconnected before it sent the last 19 bytes of a request"),
        (HELLO + REQUEST.pack(99, 0, 0, 0), "unknown request 99, expected 2 to 11"),
        (
            HELLO + REQUEST.pack(Op.WAIT | M, 0, 0, 0),
            "request 10 names device 1, which is not open: send an open request first",
        ),
        (HELLO + REQUEST.pack(Op.OPEN | 7 << FAMILY_SHIFT, 0, 0, 0), "cannot open device 7, expected one of [1, 2]"),
        (
            HELLO + REQUEST.pack(Op.OPEN | M, 0, 0, 0) * 2,
            "cannot open device 1, expected one of [1, 2] that is not open yet",
        ),
        (
            HELLO + REQUEST.pack(Op.OPEN | M, 0, 0, 0) + REQUEST.pack(Op.WRITE | M, 0, DRAM, 1 << 62) + bytes(100),
            "bytes of a request",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_ends_a_session(said: bytes, why: str) -> None:
    with served() as server:
        with connect(server.path) as sock:
            sock.sendall(said)
            sock.shutdown(socket.SHUT_WR)
            assert is_hung_up(sock)
        until_gone(server, 1)
        (gone,) = server.seen(events.Disconnected)
        assert why in str(gone.error)


@needs_compiler
@pytest.mark.parametrize("profile", ["refsidrv", "spec"])
def test_any_requests_at_all(profile: str) -> None:
    """Plausible ones with any numbers, then noise; the next host finds a device as new."""
    draw = random.Random(profile)
    with served(profile=profile, step_limit=10_000) as server:
        for turn in range(1, 25):
            with connect(server.path) as sock:
                said = HELLO + REQUEST.pack(Op.OPEN | M, draw.choice((0, 0, 3, 99)), draw.choice(ODD), 0)
                if profile == "refsidrv" and turn % 2:
                    said += REQUEST.pack(Op.OPEN | 2 << FAMILY_SHIFT, 0, draw.choice((0, 64, 96, 1 << 40)), 0)
                for _ in range(40):
                    op, family = draw.choice([*Op][2:]), draw.choice((1, 1, 1, 2 if turn % 2 else 1))
                    address, size = draw.choice(ODD) + draw.choice((0, 0, 8)) & (1 << 64) - 1, draw.choice(ODD)
                    unit = draw.choice((1 << 24, 1 << 24, draw.getrandbits(32), 3 << 24 | draw.randrange(6)))
                    if (op == Op.SHUTDOWN and draw.random() < 0.95) or (op == Op.READ and size == 1 << 31):
                        continue  # hosts read less than a whole memory
                    data = draw.randbytes(size % 5000) if op == Op.WRITE else b""
                    said += REQUEST.pack(op | family << FAMILY_SHIFT, unit, address, len(data) if data else size) + data
                sock.sendall(said + REQUEST.pack(99, 0, 0, 0) + draw.randbytes(draw.randrange(100)))
                assert is_hung_up(sock)
            until_gone(server, turn)
        driver = Driver(server.path)
        assert driver.read(DRAM, 8) == (SUCCESS, bytes(8))
        assert driver.shut_down() == SUCCESS
    assert max(event.time for event in server.seen(events.Disconnected)) > 35, "sessions were not over at once"


@pytest.mark.parametrize("profile", ["refsidrv", "spec"])
def test_what_no_memory_takes_is_not_kept(profile: str) -> None:
    """A host announces more than there is and sends much of it; requests before and after are carried out."""
    some, unit = random.Random(1).randbytes(6 << 20), 1 << 24
    with served(profile=profile) as server, connect(server.path) as sock, sock.makefile("rb") as replies:

        def answer(said: bytes, *more: bytes) -> tuple[int, bytes]:
            for each in (said, *more):
                sock.sendall(each)
            status = -1
            while status not in tuple(Result):  # what the profile spec notes for the host's user comes first
                status, text, _, size = REPLY.unpack(replies.read(REPLY.size))
                data = replies.read(text + size)
            return status, data

        answer(HELLO)
        answer(REQUEST.pack(Op.OPEN | M, 0, 0, 0))
        replies.read(1)  # comes with the descriptors of memories
        assert answer(REQUEST.pack(Op.WRITE | M, unit, DRAM, len(some)), some) == (Result.SUCCESS, b"")
        tracemalloc.start()
        try:
            megabytes = [bytes(1 << 20)] * 24
            assert answer(REQUEST.pack(Op.WRITE | M, unit, 0xDEAD_0000_0000, 24 << 20), *megabytes)[0] == Result.FAILURE
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()
        assert answer(REQUEST.pack(Op.READ | M, unit, DRAM, len(some))) == (Result.SUCCESS, some)
        assert answer(REQUEST.pack(Op.READ | M, unit, DRAM + (1 << 31) - 8, 16 << 20))[0] == Result.FAILURE
