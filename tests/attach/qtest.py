"""QEMU without a guest: its qtest protocol drives the PCI bus of a machine that a vfio-user device is plugged into."""

import json
import shutil
import socket
import subprocess
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
GUEST_ROOT = REPOSITORY / "build" / "guest" / "root"
CONFIG_ADDRESS, CONFIG_DATA = 0xCF8, 0xCFC
SLOT = 4
BRIDGE, PIRQ_ROUTES = 1, 0x60
"""The machine's PCI-to-ISA bridge, and where it keeps to which interrupt line each PCI interrupt goes."""
IRQ = 11
RAM_BYTES = 64 << 20


@cache
def qemu() -> tuple[list[str], str]:
    """The command that starts a QEMU with vfio-user-pci; or nothing, and the reason."""
    candidates = []
    if (GUEST_ROOT / "usr/bin/qemu-system-x86_64").exists():
        candidates.append([str(REPOSITORY / "tools" / "guest-qemu.sh"), str(GUEST_ROOT)])
    if found := shutil.which("qemu-system-x86_64"):
        candidates.append([found])
    for command in candidates:
        listed = subprocess.run([*command, "-device", "help"], capture_output=True, text=True, timeout=60, check=False)
        if "vfio-user-pci" in listed.stdout:
            return command, ""
    if candidates:
        return [], "this QEMU has no vfio-user-pci (10.1 or later has): make guest-root"
    return [], "there is no qemu-system-x86_64: make guest-root"


class QTest:
    """One QEMU with the device in slot 4 of bus 0, and BAR0 at `bar`; `plugged` from the start, or by `plug` later."""

    def __init__(self, folder: Path, device_socket: Path, *, shared: bool = True, plugged: bool = True) -> None:
        command, reason = qemu()
        assert command, reason
        control = folder / "qtest.sock"
        self._monitor = folder / "monitor.sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(control))
        listener.listen(1)
        listener.settimeout(60)
        self._device = {
            "driver": "vfio-user-pci",
            "socket": {"type": "unix", "path": str(device_socket)},
            "addr": str(SLOT),
        }
        memory = "memory-backend-memfd,share=on" if shared else "memory-backend-ram"
        self.process = subprocess.Popen(
            [
                *command,
                *("-machine", "pc,accel=qtest,memory-backend=ram", "-display", "none", "-nodefaults"),
                *("-object", f"{memory},id=ram,size={RAM_BYTES}", "-m", f"{RAM_BYTES >> 20}"),
                *("-qtest", f"unix:{control}", "-qtest-log", "none"),
                *(("-device", json.dumps(self._device)) if plugged else ()),
                *("-qmp", f"unix:{self._monitor},server=on,wait=off"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            self._socket, _ = listener.accept()
        except TimeoutError:
            self.process.kill()
            raise AssertionError(f"QEMU did not start: {self.process.communicate()[1].decode()}") from None
        finally:
            listener.close()
        self._socket.settimeout(30)
        self._buffer = b""
        self.lines: list[str] = []
        self.bar = 0xE000_0000

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> str:
        """End QEMU; gives what it said on stderr."""
        self._socket.close()
        self.process.terminate()
        try:
            return self.process.communicate(timeout=20)[1].decode()
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.communicate()[1].decode()

    def plug(self) -> None:
        """Hot plug: add the device by QMP."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as monitor, monitor.makefile("rw") as stream:
            monitor.settimeout(30)
            monitor.connect(str(self._monitor))
            assert "QMP" in json.loads(stream.readline())
            for command in ({"execute": "qmp_capabilities"}, {"execute": "device_add", "arguments": self._device}):
                stream.write(json.dumps(command) + "\n")
                stream.flush()
                while "return" not in (answer := json.loads(stream.readline())):
                    assert "error" not in answer, answer

    def line(self) -> str:
        while b"\n" not in self._buffer:
            data = self._socket.recv(65536)
            assert data, "QEMU hung up"
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode()

    def call(self, text: str) -> str:
        """One command; the interrupts that QEMU tells of meanwhile are kept in `lines`."""
        self._socket.sendall(text.encode() + b"\n")
        while True:
            line = self.line()
            if line.startswith("IRQ"):
                self.lines.append(line)
                continue
            assert line.startswith("OK"), line
            return line[3:]

    def config_read(self, offset: int) -> int:
        self.call(f"outl {CONFIG_ADDRESS:#x} {1 << 31 | SLOT << 11 | offset & 0xFC:#x}")
        return int(self.call(f"inl {CONFIG_DATA:#x}"), 16)

    def config_write(self, offset: int, value: int) -> None:
        self.call(f"outl {CONFIG_ADDRESS:#x} {1 << 31 | SLOT << 11 | offset & 0xFC:#x}")
        self.call(f"outl {CONFIG_DATA:#x} {value:#x}")

    def enable(self) -> None:
        """What firmware and a driver's probe do."""
        self.config_write(0x10, self.bar)
        self.config_write(0x04, 0x6)

    def readl(self, offset: int) -> int:
        return int(self.call(f"readl {self.bar + offset:#x}"), 16)

    def writel(self, offset: int, value: int) -> None:
        self.call(f"writel {self.bar + offset:#x} {value:#x}")

    def read(self, address: int, size: int) -> bytes:
        return bytes.fromhex(self.call(f"read {address:#x} {size:#x}")[2:])

    def write(self, address: int, data: bytes) -> None:
        self.call(f"write {address:#x} {len(data):#x} 0x{data.hex()}")

    def watch_interrupts(self) -> None:
        """Route all PCI interrupts to one line, as firmware would, and have QEMU tell of its changes."""
        self.call(f"outl {CONFIG_ADDRESS:#x} {1 << 31 | BRIDGE << 11 | PIRQ_ROUTES:#x}")
        self.call(f"outl {CONFIG_DATA:#x} {IRQ * 0x01010101:#x}")
        self.call("irq_intercept_in ioapic")

    def wait_interrupt(self) -> str:
        """The next change of an interrupt line, as QEMU writes it: ``IRQ raise 11``."""
        while not self.lines:
            line = self.line()
            assert line.startswith("IRQ"), line
            self.lines.append(line)
        return self.lines.pop(0)
