"""Sockets: who may connect, when the path appears, and what two servers at one path do to each other."""

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from softcard.attach import sockets
from softcard.attach.sockets import Listener, SocketError
from softcard.attach.vfio_user import Client, Disconnected, Server, events
from tests.attach.rig import SCRATCH, Toy, ended

ALIVE = 0xFFFF_FFFF
LISTEN = """
import sys, time
from pathlib import Path
from softcard.attach.sockets import Listener
listener = Listener(Path(sys.argv[1]), lambda: None, lambda why: None)
print("listens", flush=True)
time.sleep(600)
"""


class Seen:
    """What a listener told."""

    def __init__(self):
        self.waits = threading.Semaphore(0)
        self.turned_away = []
        self.is_turned_away = threading.Semaphore(0)

    def away(self, why):
        self.turned_away.append(why)
        self.is_turned_away.release()


def listen(path, seen=None):
    seen = seen or Seen()
    return Listener(path, seen.waits.release, seen.away)


def connect(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(30)
    sock.connect(str(path))
    return sock


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_user_may_connect(tmp_path, umask):
    before = os.umask(umask)
    try:
        with closing(listen(tmp_path / "s")):
            assert {stat.S_IMODE(file.lstat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    finally:
        os.umask(before)


def test_other_users_are_turned_away(tmp_path, monkeypatch):
    seen = Seen()
    with closing(listen(tmp_path / "s", seen)) as listener:
        monkeypatch.setattr(sockets, "_peer", lambda sock: os.geteuid() + 1)
        with connect(tmp_path / "s") as sock:
            assert sock.recv(1) == b""
        assert seen.is_turned_away.acquire(timeout=30)
        users = f"user {os.geteuid() + 1} has connected to a socket of user {os.geteuid()}"
        assert seen.turned_away == [f"{users}, expected the same user or root"]
        monkeypatch.setattr(sockets, "_peer", lambda sock: 0)
        with connect(tmp_path / "s"):
            listener.accept("client").close()


def test_the_peer_is_known():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert sockets._peer(ours) == (os.geteuid() if sys.platform == "linux" else None)


def test_it_listens_before_it_has_its_name(tmp_path, monkeypatch):
    """Whoever connects between any two steps of the server's is accepted, or finds nothing."""
    path = tmp_path / "s"
    found = []

    def look(name):
        step = getattr(os, name)

        def looking(*arguments):
            for when in range(2):
                if when:
                    step(*arguments)
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                    found.append((name, when, sock.connect_ex(str(path))))

        monkeypatch.setattr(os, name, looking)

    look("chmod")
    look("rename")
    listen(path).close()
    assert found == [
        ("chmod", 0, errno.ENOENT),
        ("chmod", 1, errno.ENOENT),
        ("rename", 0, errno.ENOENT),
        ("rename", 1, 0),
    ]


def test_nothing_is_left_behind(tmp_path):
    listen(tmp_path / "s").close()
    (tmp_path / "file").touch()
    with pytest.raises(SocketError, match="the existing file is not a socket"):
        listen(tmp_path / "file")
    with pytest.raises(SocketError, match="the existing file is not a socket"):
        listen(tmp_path / "..")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["s", "socket", "x" * 40])
def test_a_path_may_be_as_long_as_any_socket_s(tmp_path, name):
    room = sockets.PATH_BYTES - len(os.fsencode(tmp_path / name)) - 1
    folder = tmp_path / ("d" * room)
    folder.mkdir()
    assert len(os.fsencode(folder / name)) == sockets.PATH_BYTES
    with closing(listen(folder / name)) as listener, connect(folder / name):
        listener.accept("client").close()
    assert list(folder.iterdir()) == []
    with pytest.raises(SocketError, match=f"the path is too long, expected {sockets.PATH_BYTES} bytes at most"):
        listen(folder / f"{name}x")
    with pytest.raises(Disconnected, match=f"cannot connect to a server at {folder / name}x: AF_UNIX path too long"):
        Client.connect(folder / f"{name}x")


def test_two_servers_at_one_path(tmp_path):
    """The second hears of the first without connecting to it."""
    device, seen = Toy(), []
    with Server(device) as server:
        server.probes.subscribe(seen.append)
        server.listen(tmp_path / "s")
        thread = threading.Thread(target=server.serve, args=(1,))
        thread.start()
        for _ in range(3):
            with pytest.raises(SocketError, match="another server listens there"):
                listen(tmp_path / "s")
        assert seen == []
        with Client.connect(tmp_path / "s") as client:
            assert client.read_u32(SCRATCH) == ALIVE
        thread.join(30)
    device.close()


def test_a_server_that_was_killed_is_replaced(tmp_path):
    path = tmp_path / "s"
    with ended(
        subprocess.Popen([sys.executable, "-c", LISTEN, str(path)], stdout=subprocess.PIPE, text=True)
    ) as process:
        assert process.stdout.readline() == "listens\n"
        with pytest.raises(SocketError, match="another server listens there"):
            listen(path)
        process.kill()
        process.wait(30)
        with closing(listen(path)) as listener, connect(path):
            listener.accept("client").close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET])
def test_a_socket_of_somebody_else_is_left_alone(tmp_path, kind):
    """Whatever it is, and even if it has no room for one more."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, kind) as other:
        other.bind(str(path))
        if kind != socket.SOCK_DGRAM:
            other.listen(0)
        waiting = []
        if kind == socket.SOCK_STREAM:
            for _ in range(5):
                sock = socket.socket(socket.AF_UNIX, kind)
                sock.setblocking(False)
                waiting.append(sock)
                sock.connect_ex(str(path))
        with pytest.raises(SocketError, match="another server listens there"):
            listen(path)
        assert [file.name for file in tmp_path.iterdir()] == ["s"]
        for sock in waiting:
            sock.close()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "s.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(SocketError, match=r"cannot listen at .*/s: "):
        listen(tmp_path / "s")
    assert not (tmp_path / "precious").exists()


def test_another_socket_in_its_place_is_not_taken_away(tmp_path):
    path = tmp_path / "s"
    listener = listen(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        listener.close()
        assert path.exists()


def test_who_waits_is_reported_and_served_in_turn(tmp_path):
    path, seen = tmp_path / "s", Seen()
    with closing(listen(path, seen)) as listener:
        clients = [connect(path)]
        first = listener.accept("client")
        clients += [connect(path) for _ in range(sockets.WAITING)]
        for _ in range(sockets.WAITING):
            assert seen.waits.acquire(timeout=30)
        assert connect_and_read(path) == b""
        assert seen.is_turned_away.acquire(timeout=30)
        assert seen.turned_away == [f"{sockets.WAITING} connections are waiting already"]
        first.close()
        for client in clients[1:]:
            with listener.accept("client") as sock:
                client.send(b"!")
                assert sock.recv(1) == b"!"
        for client in clients:
            client.close()
        assert not seen.waits.acquire(blocking=False)


def connect_and_read(path):
    with connect(path) as sock:
        return sock.recv(1)


def test_who_waits_when_it_is_closed_is_disconnected(tmp_path):
    seen = Seen()
    listener = listen(tmp_path / "s", seen)
    with connect(tmp_path / "s") as first, connect(tmp_path / "s") as second:
        assert seen.waits.acquire(timeout=30)
        listener.close()
        assert first.recv(1) == second.recv(1) == b""
        assert listener.accept("client") is None
        assert listener.accept("client") is None


def test_a_silent_client_is_reported_and_does_not_count(tmp_path):
    device, seen = Toy(), []
    with Server(device) as server:
        server.probes.subscribe(seen.append)
        server.listen(tmp_path / "s")
        thread = threading.Thread(target=server.serve, args=(1,))
        thread.start()
        with connect(tmp_path / "s"):
            deadline = time.monotonic() + 30
            while server.sessions == 0 and time.monotonic() < deadline:
                time.sleep(0.001)
            second = connect(tmp_path / "s")
            while not any(isinstance(event, events.Waits) for event in seen) and time.monotonic() < deadline:
                time.sleep(0.001)
        assert events.Waits(0, 1) in seen
        client = Client(second)
        client.negotiate()
        assert client.read_u32(SCRATCH) == ALIVE
        client.close()
        thread.join(30)
        assert not thread.is_alive(), "it has served one"
    device.close()
