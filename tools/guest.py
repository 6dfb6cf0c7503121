"""Boot a Debian kernel in QEMU with an Acceldev driver, and run test programs there against `understudy serve`.

The guest has no disk: its initial RAM disk, made here, holds busybox, the module and the programs. What the programs
print appears here, together with what the device says of the driver. The exit status is 0 if the module loaded, every
program ended with 0 and the module unloaded; 2 if the guest could not be started at all.
"""

# ruff: noqa: T201  # a command-line tool prints

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent
SERVE: Final = "import sys; from understudy.cli.serve import app; app(sys.argv[1:])"
MARKER: Final = "understudy-guest:"
INIT: Final = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox --install -s /bin
export PATH=/bin
echo 4 >/proc/sys/kernel/printk
status=0
step() {{ echo "{marker} $*"; "$@" || {{ code=$?; status=1; echo "{marker} $1 failed with status $code"; }}; }}
step insmod /driver.ko
{programs}
step rmmod {module}
dmesg | grep -E 'BUG|WARNING|Oops|acceldev' && echo "{marker} the lines above are from the kernel's log"
dmesg | grep -qE 'BUG:|WARNING:|Oops:' && status=1
echo "{marker} status $status"
poweroff -f
"""


def cpio_entry(name: str, data: bytes, mode: int, number: int) -> bytes:
    """One file of a cpio archive in the "new ASCII" format, which the kernel unpacks."""
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def ramdisk(root: Path, module: Path, programs: Sequence[Path]) -> bytes:
    """The initial RAM disk, not compressed."""
    init = INIT.format(
        marker=MARKER,
        programs="\n".join(f"step /tests/{program.name}" for program in programs),
        module=re.sub("-", "_", module.stem),
    )
    files = [
        ("bin", b"", 0o040755),
        ("tests", b"", 0o040755),
        ("bin/busybox", (root / "bin" / "busybox").read_bytes(), 0o100755),
        ("init", init.encode(), 0o100755),
        ("driver.ko", module.read_bytes(), 0o100644),
        *((f"tests/{program.name}", program.read_bytes(), 0o100755) for program in programs),
        ("TRAILER!!!", b"", 0),
    ]
    return b"".join(cpio_entry(name, data, mode, number) for number, (name, data, mode) in enumerate(files, 1))


def qemu_command(root: Path, kernel: Path, initrd: Path, socket: Path, memory_mb: int, accel: str) -> list[str]:
    """QEMU without a display, its serial line here, guest memory shared with the device."""
    device = {"driver": "vfio-user-pci", "socket": {"type": "unix", "path": str(socket)}}
    return [
        *(str(FOLDER / "guest-qemu.sh"), str(root)),
        *("-machine", f"q35,accel={accel},memory-backend=ram", "-smp", "2", "-m", str(memory_mb)),
        *("-object", f"memory-backend-memfd,id=ram,size={memory_mb}M,share=on"),
        *("-display", "none", "-nodefaults", "-serial", "stdio", "-no-reboot"),
        *("-kernel", str(kernel), "-initrd", str(initrd)),
        *("-append", "console=ttyS0 panic=-1 loglevel=4 no_timer_check"),
        *("-device", json.dumps(device)),
    ]


def wait_for(path: Path, server: subprocess.Popen[bytes]) -> bool:
    """Whether the server's socket appears."""
    for _ in range(2000):
        if path.exists():
            return True
        if server.poll() is not None:
            return False
        time.sleep(0.01)
    return False


def watch(command: list[str], timeout_s: float) -> int:
    """Run QEMU and show what the guest writes; the status that the guest tells, 2 where it tells none."""
    status = 2
    guest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert guest.stdout is not None
    timer = threading.Timer(timeout_s, guest.kill)
    timer.start()
    try:
        for line in guest.stdout:
            text = line.decode(errors="replace").rstrip()
            if text:
                print(f"guest: {text}", flush=True)
            if match := re.search(rf"{MARKER} status (\d+)", text):
                status = int(match[1])
    finally:
        timer.cancel()
        guest.kill()
        guest.wait()
    return status


def main() -> int:
    """Read the command line and boot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="Debian tree made by guest-root.sh")
    parser.add_argument("--ko", type=Path, required=True, help="kernel module, built for that tree's kernel")
    parser.add_argument("--memory", type=int, default=512, help="MiB of guest memory")
    parser.add_argument("--accel", default="tcg", help="QEMU's accelerator: tcg or kvm")
    parser.add_argument("--timeout", type=float, default=300, help="seconds until the guest is taken for dead")
    parser.add_argument("programs", type=Path, nargs="*", help="statically linked programs to run in the guest")
    options = parser.parse_args()
    for path in (options.ko, *options.programs):
        if not path.is_file():
            print(f"guest: there is no {path}", file=sys.stderr)
            return 2
    kernels = sorted((options.root / "boot").glob("vmlinuz-*"))
    if not kernels:
        print(f"guest: no kernel in {options.root}: make guest-root", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        socket, initrd = Path(folder, "acceldev.sock"), Path(folder, "initrd")
        initrd.write_bytes(ramdisk(options.root, options.ko, options.programs))
        server = subprocess.Popen([sys.executable, "-c", SERVE, "acceldev", "--vfio-user", str(socket), "--once"])
        try:
            if not wait_for(socket, server):
                print("guest: the device could not be served", file=sys.stderr)
                return 2
            command = qemu_command(options.root, kernels[-1], initrd, socket, options.memory, options.accel)
            status = watch(command, options.timeout)
        finally:
            server.terminate()
            server.wait()
    print("guest: all is well" if not status else f"guest: status {status}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
