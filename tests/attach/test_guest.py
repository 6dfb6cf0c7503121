"""A Debian kernel boots in QEMU with our driver of examples/acceldev-linux, and its tests run there.

Skipped where ``make guest-root`` has not been run; KVM is not used.
"""

import re
import runpy
import subprocess
import sys

import pytest

from tests.attach.qtest import GUEST_ROOT, REPOSITORY, qemu

TOOLS = REPOSITORY / "tools"
EXAMPLE = REPOSITORY / "examples" / "acceldev-linux"


def reason() -> str:
    """Why no guest can run here; "" if one can."""
    if not list(GUEST_ROOT.glob("boot/vmlinuz-*")):
        return "there is no kernel for a guest: make guest-root"
    return qemu()[1]


pytestmark = [pytest.mark.oracle, pytest.mark.skipif(bool(reason()), reason=reason()), pytest.mark.slow]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The module and its tests, built with the guest's own headers."""
    target = tmp_path_factory.mktemp("guest") / "built"
    command = ["sh", str(TOOLS / "guest-build.sh"), str(GUEST_ROOT), str(EXAMPLE), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout + done.stderr
    return target


def boot(*arguments):
    command = [sys.executable, str(TOOLS / "guest.py"), "--root", str(GUEST_ROOT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)


def test_our_driver_passes_its_tests_in_a_guest(built):
    done = boot("--ko", built / "acceldev.ko", built / "acceldev-test")
    assert done.returncode == 0, done.stdout + done.stderr
    names = re.findall(r"TEST\((\w+)\),", (EXAMPLE / "acceldev_test.c").read_text(encoding="utf-8"))
    assert re.findall(r"guest: ok (\w+)", done.stdout) == names
    assert "FAILED" not in done.stdout
    errors = set(re.findall(r"error\[([\w/-]+)\]", done.stdout))
    assert errors <= {"acceldev/user-commands", "acceldev/fill-slot", "acceldev/pte-present"}, (
        "of the test's own commands"
    )
    assert "DMA failed" not in done.stdout
    lints = set(re.findall(r"warning\[([\w-]+)\]", done.stdout))
    assert lints <= {"interrupt-coalesced"}, "which no driver can avoid"


def test_a_program_that_fails_and_a_file_that_is_no_module_are_reported(built):
    (built / "no.ko").write_bytes(b"no module")
    done = boot("--ko", built / "no.ko", built / "acceldev-test")
    assert done.returncode == 1
    assert "insmod failed with status" in done.stdout
    assert "acceldev-test failed with status" in done.stdout


def test_files_that_are_not_there(tmp_path):
    done = boot("--ko", tmp_path / "missing.ko")
    assert done.returncode == 2
    assert f"there is no {tmp_path / 'missing.ko'}" in done.stderr


def test_the_kernel_that_boots_is_not_compressed(tmp_path):
    (kernel,) = GUEST_ROOT.glob("boot/vmlinuz-*")
    made = runpy.run_path(str(TOOLS / "guest.py"))["unpacked"](kernel, tmp_path)
    assert made.parent == tmp_path
    assert made.read_bytes().startswith(b"\x7fELF")
