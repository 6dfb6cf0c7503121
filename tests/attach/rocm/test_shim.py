"""The shim and its server, with programs that have no ROCm."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from softcard.attach.host_session import HELLO, REPLY, REQUEST
from softcard.attach.rocm import build_library, messages
from softcard.attach.server import TurnedAway
from softcard.device.kfd.events import ProcessClosed, ProcessOpened
from softcard.device.kfd.ioctls import MOST_BYTES
from tests.attach.rocm.rig import HERE, TIMEOUT_S, Served, needs_compiler, served
from tests.device.kfd.rig import eventually

pytestmark = needs_compiler
VA = 0x7E00_0000_0000
PAGE = 4096


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that knows nothing of Softcard."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))
    program = tmp_path_factory.mktemp("client") / "client"
    command = [compiler, "-std=gnu11", "-O1", "-Wall", "-Werror", str(HERE / "client.c"), "-o", str(program)]
    subprocess.run([*command, "-lpthread"], check=True)
    return str(program)


def started(there: Served, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, env=there.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline()


def tell(program: subprocess.Popen[str], text: str) -> None:
    assert program.stdin is not None
    program.stdin.write(text)
    program.stdin.flush()


def test_devices_and_their_calls(client: str) -> None:
    with served() as there:
        done = there.run(client, "versions")
    assert done.stdout.splitlines() == [
        "version 0 1.14", "version 0 1.14",
        f"render {errno.ENOTTY}, another {errno.ENOENT}, no device {errno.ENOTTY}",
        f"bad pointer {errno.EFAULT}, unknown {errno.EINVAL}",
    ]  # fmt: skip
    assert [type(event).__name__ for event in there.seen(ProcessOpened)] == ["ProcessOpened"]


def test_files_of_sysfs(client: str) -> None:
    with served("gfx906") as there:
        done = there.run(client, "files")
    assert done.stdout.splitlines() == ["gpu_id 4660", "access 0, stat 0, another's -1", "lsmod 0"]
    assert not there.seen(ProcessOpened)


def test_memory_is_shared(client: str) -> None:
    with served() as there, started(there, client, "memory") as program:
        assert line(program) == "written\n"
        memory = there.device._open[1].device(there.device.nodes[0]).memory
        assert memory.read(VA + PAGE, 16) == b"from the program"
        memory.write(VA, b"from a wave\0")
        tell(program, "\n")
        assert line(program) == "from a wave\n"


def test_pages_become_shared_while_threads_write_to_them(client: str) -> None:
    with served() as there, started(there, client, "sharing") as program:
        assert line(program) == "pinned\n"
        memory = there.device._open[1].device(there.device.nodes[0]).memory
        found = memory.find(VA)
        assert memory.plain(VA, 1) is None
        assert found is not None
        tell(program, "ccc")
        assert memory.read(VA, 1) == b"x"
        assert memory.plain(VA, 4 * PAGE) is not None, "the first access of a wave has made it shared"
        tell(program, "cccccc")
        before = memory.read(VA + PAGE, 8)
        eventually(lambda: memory.read(VA + PAGE, 8) != before)
        memory.write(VA, b"y")
        tell(program, ".")
        assert line(program) == "kept 4, lost 0, yx\n"


def test_a_child_process_opens_the_driver_anew(client: str) -> None:
    with served() as there:
        done = there.run(client, "children")
    assert done.stdout.splitlines() == [
        "version 0 1.14", f"inherited {errno.ENOTTY}", "version 0 1.14", "version 0 1.14",
    ]  # fmt: skip
    assert len(there.seen(ProcessOpened)) == len(there.seen(ProcessClosed)) == 2


def test_threads_wait_side_by_side(client: str) -> None:
    with served() as there:
        assert there.run(client, "waiting").stdout == "waited 0\nwaited 0\n"


def held() -> tuple[int, int]:
    """Threads and files of this process, but for the thread that compiles in the background, and pipes to its process.

    What earlier tests have left may end at any time.
    """
    names = [each.name for each in threading.enumerate()]
    files = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing's own
            files.append(os.readlink(f"/proc/self/fd/{number}"))
    return len(names) - names.count("softcard-compile"), sum(not each.startswith("pipe:") for each in files)


@pytest.mark.slow
def test_killed_programs_leave_nothing(client: str) -> None:
    with served() as there:
        before = held()
        for _ in range(20):
            programs = [started(there, client, "hold") for _ in range(5)]
            for program in programs:
                assert line(program) == "version 0 1.14\n"
                program.send_signal(signal.SIGKILL)
            for program in programs:
                with program:
                    assert program.wait(TIMEOUT_S) == -signal.SIGKILL
        eventually(lambda: len(there.seen(ProcessClosed)) == 100)
        eventually(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))
        assert not there.device.processes
        assert {event.allocations for event in there.seen(ProcessClosed)} == {1}


def test_programs_end_with_the_server(client: str) -> None:
    """Run-time libraries would wait for ever, and ask again and again."""
    with served() as there:
        program = subprocess.Popen(
            [client, "hold"], env=there.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert line(program) == "version 0 1.14\n"
        there.server.close()
        _, said = program.communicate(timeout=TIMEOUT_S)
    assert program.returncode == -signal.SIGABRT
    assert said.startswith("error: the server has gone, and the GPUs of this program with it\n   = note: ")


def test_without_a_server(client: str) -> None:
    with served() as there:
        environment = there.environment()
        there.server.close()
        done = subprocess.run([client, "versions"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot connect to the device at" in done.stderr
    assert os.strerror(errno.ENODEV) in done.stderr


def greeted(there: Served, version: int = messages.VERSION) -> tuple[socket.socket, int]:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(TIMEOUT_S)
    sock.connect(str(there.folder / "s"))
    sock.sendall(REQUEST.pack(HELLO, version, messages.MAGIC, 0))
    status, size, _, _ = REPLY.unpack(sock.recv(REPLY.size, socket.MSG_WAITALL))
    sock.recv(size, socket.MSG_WAITALL)
    return sock, int(status)


def test_who_is_turned_away() -> None:
    with served() as there:
        sock, status = greeted(there, 99)
        assert status == messages.OTHER_VERSION
        sock.close()
        sock, status = greeted(there)
        sock.sendall(REQUEST.pack(messages.OPEN, 0, 8, 0))
        status, size, _, _ = REPLY.unpack(sock.recv(REPLY.size, socket.MSG_WAITALL))
        text = sock.recv(size, socket.MSG_WAITALL).decode()
        assert status == errno.EPERM
        assert text.startswith("error: the server cannot read this program's memory (read of 8 bytes at 0x8: ")
        sock.close()
        sock, status = greeted(there)
        sock.sendall(REQUEST.pack(messages.JOIN, 0, 12345, 0))
        assert REPLY.unpack(sock.recv(REPLY.size, socket.MSG_WAITALL))[0] == errno.ENODEV
        sock.sendall(REQUEST.pack(messages.IOCTL, 0x8008_4B01, 0, 8) + bytes(8))
        assert REPLY.unpack(sock.recv(REPLY.size, socket.MSG_WAITALL))[0] == errno.EINVAL
        sock.sendall(REQUEST.pack(messages.IOCTL, 0, 0, 1 << 30))
        assert not sock.recv(1)
        sock.close()
        sock, _ = greeted(there)
        sock.sendall(REQUEST.pack(99, 0, 0, 0))
        assert not sock.recv(1)
        sock.close()
        eventually(lambda: len(there.seen(TurnedAway)) == 3)
        reasons = sorted(event.reason for event in there.seen(TurnedAway))
    text = "the ROCm shim sent request"
    assert f"{text} 4 with 1073741824 bytes, expected at most {MOST_BYTES} bytes for an ioctl" in reasons[1]
    assert f"{text} 99 with 0 bytes, expected 4 (ioctl), or another known request without data" in reasons[2]
    assert "has protocol version 99, but the server has 1" in reasons[0]


def test_a_program_that_does_not_lend_its_hands_keeps_its_memory() -> None:
    """Pages stay foreign, and are reached through the kernel."""
    with served() as there:
        sock, _ = greeted(there)
        mark = ctypes.c_uint64(messages.MAGIC)
        sock.sendall(REQUEST.pack(messages.OPEN, 0, ctypes.addressof(mark), 0))
        _, _, key, _ = REPLY.unpack(sock.recv(REPLY.size, socket.MSG_WAITALL))
        _, files, _, _ = socket.recv_fds(sock, 1, 4)
        assert (len(files), key in there.server._keys) == (1, True)
        process = there.device._open[1]

        def refuse() -> None:
            sock.recv(REQUEST.size + messages.SHARED.size, socket.MSG_WAITALL)
            sock.sendall(REPLY.pack(errno.EBUSY, 0, 0, 0))

        threading.Thread(target=refuse).start()
        assert not process.client.share(VA, PAGE, 0, 3, is_quiet=False)
        sock.shutdown(socket.SHUT_RDWR)
        assert not process.client.share(VA, PAGE, 0, 3, is_quiet=False)
        sock.close()
        os.close(files[0])
        eventually(lambda: not there.device.processes)


def test_the_environment_keeps_what_programs_had(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/lib/other.so")
    library = build_library()
    found = library.environment(tmp_path / "s", tmp_path)
    assert found["LD_PRELOAD"] == f"{library.path} /lib/other.so"
    assert found["PATH"].startswith(f"{tmp_path}/bin:")


RUNTIME = """
#include <stdint.h>
int64_t hsa_signal_wait_scacquire(uint64_t signal, int c, int64_t value, uint64_t timeout, int state) {
    return signal + c + value + timeout + 1000 * state;
}
int64_t hsa_signal_wait_relaxed(uint64_t signal, int c, int64_t value, uint64_t timeout, int state) {
    return 1 + signal + c + value + timeout + 1000 * state;
}
"""
"""In place of the run-time library: the sum of the arguments, so that a wait that spins gives another number."""
CALLER = """
#include <stdint.h>
#include <stdio.h>
int64_t hsa_signal_wait_scacquire(uint64_t, int, int64_t, uint64_t, int);
int64_t hsa_signal_wait_relaxed(uint64_t, int, int64_t, uint64_t, int);
void waits(void) {
    for (int state = 0; state < 2; state++)
        printf("%d ", (int)(hsa_signal_wait_scacquire(1, 2, 30, 400, state)
                            + hsa_signal_wait_relaxed(1, 2, 30, 400, state)));
}
"""
LINKED = "void waits(void); int main(void) { waits(); }"
LOADED = """
#include <dlfcn.h>
int main(void) { ((void (*)(void))dlsym(dlopen("libcaller.so", RTLD_NOW | RTLD_LOCAL), "waits"))(); }
"""


@pytest.mark.parametrize("main", [LINKED, LOADED], ids=["linked", "loaded for the program alone"])
def test_waits_for_signals_do_not_spin(main: str, tmp_path: Path) -> None:
    """HIP's waits for copies would take a processor from the kernels that they wait for."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))
    here = [f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}"]
    for name, text, *flags in (
        ("libhsa-runtime64.so", RUNTIME, "-shared", "-fPIC"),
        ("libcaller.so", CALLER, "-shared", "-fPIC", *here, "-lhsa-runtime64"),
        ("program", main, *here, *(["-lcaller"] if main == LINKED else ["-ldl"])),
    ):
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        subprocess.run([compiler, str(source), "-o", str(tmp_path / name), *flags], check=True)
    with served() as there:
        done = there.run(str(tmp_path / "program"))
    assert done.stdout.split() == ["867", "867"], done.stderr
