"""`softcard exec --device refsi`, `serve refsi`, `refsi flags` and `refsi header`: hosts of RefSi's driver."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from softcard.attach.refsi import INCLUDE
from softcard.cli import main
from tests.attach.refsi.rig import COMPILERS, needs_compiler
from tests.attach.rig import ended
from tests.cli.test_run import content

pytestmark = needs_compiler
Capture = pytest.CaptureFixture[str]
SERVE = "import sys; from softcard.cli import main; sys.exit(main(['serve', 'refsi', *sys.argv[1:]]))"
HOST = """
#include <stdio.h>
#include <string.h>
#include "refsidrv/refsidrv.h"

static int past(refsi_device_t device) { /* instance n stores n * n, the last one past the end */
    static const uint32_t kernel[] = {0x00351293, 0x00b282b3, 0x02a50333, 0x0062b023, 0x00008067};
    refsi_addr_t code = refsiAllocDeviceMemory(device, sizeof kernel, 8, DRAM);
    refsi_addr_t squares = refsiAllocDeviceMemory(device, 9 * 8, 8, DRAM);
    uint64_t commands[] = {
        refsiEncodeCMPCommand(CMP_WRITE_REG64, 1, CMP_REG_ENTRY_PT_FN), code,
        refsiEncodeCMPCommand(CMP_RUN_INSTANCES, 2, 1 << 8), 10, squares,
        refsiEncodeCMPCommand(CMP_FINISH, 0, 0),
    };
    refsi_addr_t buffer = refsiAllocDeviceMemory(device, sizeof commands, 8, DRAM);
    memcpy(refsiGetMappedAddress(device, code, sizeof kernel), kernel, sizeof kernel);
    memcpy(refsiGetMappedAddress(device, buffer, sizeof commands), commands, sizeof commands);
    if (refsiExecuteCommandBuffer(device, buffer, sizeof commands)) return 5;
    refsiWaitForDeviceIdle(device);
    return refsiTerminate();
}

int main(int count, char **arguments) {
    if (refsiInitialize() != refsi_success) return 3;
    refsi_device_t device = refsiOpenDevice(REFSI_DEFAULT);
    if (!device) return 4;
    if (count == 2 && !strcmp(arguments[1], "past")) return past(device);
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
        [sys.executable, "-c", "from softcard.cli import main; main()", "refsi", "flags"],
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
    lines = err.splitlines()
    told = [line for line in lines if line.startswith(("error", " "))]
    assert sorted(line.partition(" (")[0] for line in lines if line not in told) == [
        "RefSi M1 opened",
        "host 1 connected",
        "host 1 has disconnected",
    ]
    assert told[:2] == ["error[refsi/store-imm-address]: write of 8 bytes at 0x100: no memory there", "  --> byte 0x0"]
    assert "   = note: reported by the driver library of Softcard" in told


def test_a_program_that_opens_nothing(capfd: Capture) -> None:
    code, out, err = run(capfd, "exec", "--device", "refsi", "--", "sh", "-c", "exit 7")
    assert (code, out) == (7, "")
    assert err.startswith("warning: no program has opened a RefSi device")
    code, out, err = run(capfd, "exec", "--device", "refsi", "--profile", "hardware", "--", "true")
    assert (code, out, err) == (2, "", "error: unknown profile 'hardware', expected one of refsidrv, spec\n")


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
        assert done.stderr.startswith("error[refsi/store-imm-address]: write of 8 bytes at 0x100")
        assert server.wait(20) == 0
        said = [line.partition(" at ")[0] for line in server.stdout if not line.startswith(" ")]
        assert said == [
            "host 1 connected\n", "RefSi M1 opened\n", "error[refsi/store-imm-address]: write of 8 bytes",
            "host 1 has disconnected\n",
        ]  # fmt: skip


@pytest.mark.parametrize(("check", "status"), [("memory", 1), ("sync", 0)])
def test_the_server_reports_what_checks_find(host: str, tmp_path: Path, check: str, status: int) -> None:
    """What the host's kernel stores behind its array; the server's status says it, the program's stays."""
    path = tmp_path / "s"
    command = [sys.executable, "-c", SERVE, "--once", "--check", check, "--socket", str(path)]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as server:
        assert server.stdout is not None
        words = [server.stdout.readline().strip() for _ in range(3)][2].replace("PROGRAM", f"{host} past")
        done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, env=os.environ, check=False)
        assert (done.stdout, done.returncode) == ("", 0)
        lints = [line.split(": ")[0] for line in done.stderr.splitlines() if not line.startswith(" ")]
        assert lints == ["warning[return-address]", "warning[stack-top]"]
        assert server.wait(20) == status
        found = [line for line in server.stdout if "memory/" in line]
        assert [line.partition(",")[0] for line in found] == ["error[memory/out-of-bounds]: write of 8 bytes"] * status


@pytest.mark.parametrize("form", ["sarif", "junit", "github"])
def test_exec_prints_findings_in_other_formats(capfd: Capture, host: str, form: str) -> None:
    """On standard error, since standard output is the program's."""
    command = ["exec", "--device", "refsi", "--profile", "spec", "--quiet", "--format", form]
    code, out, err = run(capfd, *command, "--check", "memory", "--", host, "past")
    assert (code, out) == (0, "")
    expected = {"sarif": '"ruleId": "memory/out-of-bounds"', "junit": "<failure ", "github": "::error file="}
    assert err.count(expected[form]) == 1
    code, _, err = run(capfd, *command, "--", host)
    assert code == 2
    assert f"--format {form} requires --check, and --agent, --device rocm, opencl or refsi" in err


def test_exec_has_a_status_for_findings(capfd: Capture, host: str) -> None:
    """Instead of 0; a program that fails by itself keeps its status."""
    command = ["exec", "--device", "refsi", "--profile", "spec", "--check", "memory", "--error-exitcode", "77"]
    assert run(capfd, *command, "--time-limit", "60", "--", host, "past")[0] == 77
    assert run(capfd, *command, "--", "sh", "-c", f"{host} past; exit 3")[0] == 3
    assert run(capfd, *command, "--", "true")[0] == 0


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_exec_reports_what_checks_find(capfd: Capture, host: str, tmp_path: Path, engine: str) -> None:
    """On standard error behind the program, in a file, and in the report, as of ROCm's; the status is its own."""
    found, report, quiet = tmp_path / "found.json", tmp_path / "run.html", tmp_path / "suppressions"
    command = ["exec", "--device", "refsi", "--profile", "spec", "--check", "memory,races", "--engine", engine]
    code, out, err = run(capfd, *command, "--findings", str(found), "--report", str(report), "--", host, "past")
    assert (code, out) == (0, "")
    assert [line.partition(",")[0] for line in err.splitlines() if "error[memory/" in line] == [
        "error[memory/out-of-bounds]: write of 8 bytes"
    ]
    assert "1 kernel ran; 50 instructions; findings: memory/out-of-bounds 1" in err.splitlines()
    assert "1 finding" in err.splitlines()
    (finding,) = json.loads(found.read_text("utf-8"))
    assert (finding["check"], finding["kind"], finding["size"]) == ("memory", "out-of-bounds", 8)
    assert "out-of-bounds" in content(report)
    quiet.write_text("memory/out-of-bounds\n")
    code, _, err = run(capfd, *command, "--suppressions", str(quiet), "--", host, "past")
    assert (code, err.splitlines()[-1]) == (0, "checked: no findings")


def test_checks_that_hosts_could_not_have_are_refused_at_once(capfd: Capture, tmp_path: Path) -> None:
    code, _, err = run(capfd, "serve", "refsi", "--profile", "refsidrv", "--check", "memory")
    assert (code, "check 'memory' is not supported in profile refsidrv" in err) == (3, True)
    code, _, err = run(capfd, "serve", "refsi", "--suppressions", str(tmp_path))
    assert (code, err) == (2, "error: --suppressions requires --check\n")


def test_the_header(capfd: Capture) -> None:
    assert run(capfd, "refsi", "header") == (0, (INCLUDE / "refsidrv" / "refsidrv.h").read_text(), "")
