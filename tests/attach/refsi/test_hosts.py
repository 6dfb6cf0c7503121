"""Host programs in C in processes of their own: many threads, sudden ends, and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from softcard.attach.refsi import build_library, events
from tests.attach.refsi.rig import (
    BUFFER,
    CODE,
    DRAM,
    FOREVER,
    SUCCESS,
    VECTORS,
    Driver,
    Served,
    compiled,
    endless,
    needs_compiler,
    served,
)
from tests.attach.rig import ended

pytestmark = needs_compiler
SERVE = "import sys; from softcard.cli import main; sys.exit(main(['serve', 'refsi', *sys.argv[1:]]))"
TIMEOUT_S = 20


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def held() -> Counter[str]:
    """Sockets and shared memory that this process has open, and mappings of devices' memory."""
    found = Counter(mapping=Path("/proc/self/maps").read_text().count("softcard device memory"))
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them
            link = os.readlink(entry)
            found[link] += link.startswith(("socket:", "/memfd:"))
    return found


@pytest.mark.parametrize("shared", [True, False], ids=["shared memory", "messages"])
def test_eight_threads(tmp_path: Path, shared: bool) -> None:
    program = compiled("threads", tmp_path)
    with served() as server:
        done = subprocess.run([program, "40"], env=server.environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("0 wrong\n", "", 0)


def stuck(program: str, server: Served) -> subprocess.Popen[bytes]:
    """A host that waits for a kernel which never ends."""
    words = " ".join(f"{word:#x}" for word in endless().words)
    script = f"open m\nw32 {CODE:#x} {FOREVER:#x}\ncb {words}\n"
    host = subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=server.environment, cwd=VECTORS
    )
    assert host.stdin is not None
    host.stdin.write(script.encode())
    host.stdin.close()
    return host


def test_a_host_is_killed_amid_a_kernel(tmp_path: Path) -> None:
    """The kernel ends with it, nothing of it is left, and the next host is served."""
    program = compiled("player", tmp_path)
    with served() as server:
        before = held()
        for number in range(1, 4):
            with ended(stuck(program, server)) as host:
                until(lambda number=number: len(server.seen(events.Opened)) == number)  # type: ignore[misc]
                time.sleep(0.1)
                assert host.poll() is None
                host.send_signal(signal.SIGKILL)
                host.wait()
            until(lambda number=number: len(server.seen(events.Disconnected)) == number)  # type: ignore[misc]
            assert server.seen(events.Disconnected)[-1].devices == 1
        until(lambda: held() <= before)
        driver = Driver(server.path)
        assert driver.write(DRAM, b"next") == SUCCESS
        assert driver.shut_down() == SUCCESS


def test_a_server_is_killed_amid_a_kernel(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The host that waits comes back, and is told; a new server takes the place of the socket."""
    path = tmp_path / "s"
    command = [sys.executable, "-c", SERVE, "--no-library", "--quiet", "--socket", str(path)]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as server:
        assert server.stdout is not None
        assert "listening at" in server.stdout.readline()
        before = held()
        driver = Driver(path)
        driver.write(CODE, FOREVER.to_bytes(4, "little"))
        driver.submit(endless())
        time.sleep(0.1)
        server.send_signal(signal.SIGKILL)
        driver.wait()
        server.wait()
    assert driver.read(DRAM, 8)[0] != SUCCESS
    assert driver.lib.refsiExecuteCommandBuffer(driver.handle, BUFFER, 8) != SUCCESS
    assert "the server has gone" in capfd.readouterr().err
    assert driver.shut_down() == SUCCESS
    assert held()["mapping"] <= before["mapping"]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as server:
        assert server.stdout is not None
        assert "listening at" in server.stdout.readline()
        again = Driver(path)
        assert again.read(DRAM, 4) == (SUCCESS, bytes(4))
        assert again.shut_down() == SUCCESS
        server.send_signal(signal.SIGTERM)
        assert server.wait(TIMEOUT_S) == 0
    assert not path.exists()


def test_the_library_takes_the_place_of_one_that_a_program_names(tmp_path: Path) -> None:
    """A program with an RPATH finds the other one, unless this one is loaded first: it has the same SONAME."""
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "other.c").write_text("void *refsiOpenDevice(int family) { return 0; }\n")
    own = ["-shared", "-fPIC", "-Wl,-soname,librefsidrv.so", str(tmp_path / "other.c")]
    subprocess.run(["cc", *own, "-o", str(other / "librefsidrv.so")], check=True)
    (tmp_path / "host.c").write_text(
        "void *refsiOpenDevice(int); int main(void) { return refsiOpenDevice(1) ? 5 : 6; }\n"
    )
    rpath = [f"-L{other}", "-lrefsidrv", f"-Wl,-rpath,{other},--disable-new-dtags"]
    host = str(tmp_path / "host")
    subprocess.run(["cc", str(tmp_path / "host.c"), *rpath, "-o", host], check=True)
    with served() as server:
        for preload, status in ((False, 6), (True, 5)):
            environment = {**os.environ, **build_library().environment(server.path, preload=preload)}
            assert subprocess.run([host], env=environment, check=False).returncode == status
