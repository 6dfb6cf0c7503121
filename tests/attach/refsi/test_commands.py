"""`understudy exec --device refsi`, `serve refsi`, `refsi flags` and `refsi header`: hosts of RefSi's driver."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attach.refsi.rig import COMPILERS, needs_compiler
from tests.attach.rig import ended
from understudy.attach.refsi import INCLUDE
from understudy.cli import main

pytestmark = needs_compiler
Capture = pytest.CaptureFixture[str]
SERVE = "import sys; from understudy.cli import main; sys.exit(main(['serve', 'refsi', *sys.argv[1:]]))"
HOST = """
#include <stdio.h>
#include <string.h>
#include "refsidrv/refsidrv.h"

int main(int count, char **arguments) {
    if (refsiInitialize() != refsi_success) return 3;
    refsi_device_t device = refsiOpenDevice(REFSI_DEFAULT);
    if (!device) return 4;
    uint64_t wrong[] = {refsiEncodeCMPCommand(CMP_STORE_IMM64, 1, 0x100), 7};
    refsi_addr_t address = refsiAllocDeviceMemory(device, sizeof wrong, 8, DRAM);
    memcpy(refsiGetMappedAddress(device, address, sizeof wrong), wrong, sizeof wrong);
    if (refsiExecuteCommandBuffer(device, address, sizeof wrong)) return 5;
    refsiWaitForDeviceIdle(device);
    printf("%d arguments\\n", count - 1);
    refsiTerminate();
    return 6;
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that is built as the documentation says, and stores where nothing is."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "host.c").write_text(HOST)
    compiler = next(filter(None, map(shutil.which, COMPILERS)))
    flags = subprocess.run(
        [sys.executable, "-c", "from understudy.cli import main; main()", "refsi", "flags"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    command = [compiler, "-Wall", "-Werror", str(folder / "host.c"), *shlex.split(flags), "-o", str(folder / "host")]
    subprocess.run(command, check=True)
    return str(folder / "host")


def run(capfd: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments])
    out, err = capfd.readouterr()
    return code, out, err


def test_a_program_finds_the_device(capfd: Capture, host: str) -> None:
    """The reference says nothing of what buffers did; the document's profile does, the program's status stays."""
    assert run(capfd, "exec", "--device", "refsi", "--", host, "a", "b") == (6, "2 arguments\n", "")
    code, out, err = run(capfd, "exec", "--device", "refsi", "--profile", "spec", "--trace", host)
    assert (code, out) == (6, "0 arguments\n")
    lines = sorted(err.splitlines())
    assert [line.partition(" (")[0] for line in lines] == [
        "RefSi M1 opened",
        "host 1 connected",
        "host 1 is gone",
        "understudy: write of 8 bytes at 0x100: no memory there, at command 0",
    ]


def test_a_program_that_opens_nothing(capfd: Capture) -> None:
    code, out, err = run(capfd, "exec", "--device", "refsi", "--", "sh", "-c", "exit 7")
    assert (code, out) == (7, "")
    assert err.startswith("no program has opened a RefSi device (if its RPATH says")
    code, out, err = run(capfd, "exec", "--device", "refsi", "--profile", "hardware", "--", "true")
    assert (code, out, err) == (2, "", "error: no profile 'hardware': there are refsidrv, spec\n")


def test_the_server_says_how_to_find_it(host: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    command = [sys.executable, "-c", SERVE, "--once", "--profile", "spec", "--socket", str(path)]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as server:
        assert server.stdout is not None
        said = [server.stdout.readline().strip() for _ in range(3)]
        assert said[:2] == [f"refsi: listening at {path}", "for programs that load librefsidrv.so:"]
        words = said[2].replace("PROGRAM", host)
        done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, env=os.environ, check=False)
        assert (done.stdout, done.returncode) == ("0 arguments\n", 6)
        assert done.stderr.startswith("understudy: write of 8 bytes at 0x100")
        assert server.wait(20) == 0
        assert [line.partition(" at ")[0] for line in server.stdout] == [
            "host 1 connected\n", "RefSi M1 opened\n", "error: write of 8 bytes", "host 1 is gone\n",
        ]  # fmt: skip


def test_the_header(capfd: Capture) -> None:
    assert run(capfd, "refsi", "header") == (0, (INCLUDE / "refsidrv" / "refsidrv.h").read_text(), "")
