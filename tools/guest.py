"""Boot a Debian kernel in QEMU with an Acceldev driver, and run test programs there against `softcard serve`.

The guest has no disk: its initial RAM disk, made here, holds busybox, the module and the programs, with the libraries
that they load. What the programs print appears here behind "guest:", the kernel's log behind "kernel:", what the device
says of the driver behind "device:". A program that does not end within the limit is shown with its kernel stacks and
killed; the others run nevertheless. The exit status is 0 if the module loaded and took the device, every program ended
with 0, the kernel complained of nothing and the module unloaded; 2 if the guest could not be started at all; else 1.
"""

# ruff: noqa: T201  # a command-line tool prints

from __future__ import annotations

import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

FOLDER: Final = Path(__file__).resolve().parent
SERVE: Final = "import sys; from softcard.cli.attach.serve import app; app(sys.argv[1:])"
MARKER: Final = "softcard-guest: "
BOOT_SECONDS: Final = 120
"""The longest time that the kernel may take, without KVM, before and after the programs."""
GOODBYE_SECONDS: Final = 5
"""How long a guest that has told all may take to power off."""
SETUP_SECTORS: Final = 0x1F1
"""The offset, in a kernel image for x86, of the number of sectors of its setup code."""
PAYLOAD: Final = 0x248
"""The offset, in a kernel image for x86, of offset and size of the compressed kernel. Its last word is the size of the
uncompressed kernel."""
ZSTD: Final = bytes.fromhex("28b52ffd")
"""The first bytes of data that zstd has compressed."""
LOADER: Final = "lib64/ld-linux-x86-64.so.2"
LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"


class Mistake(Exception):
    """What the user must mend before a guest can be started."""


def cpio_entry(name: str, data: bytes, mode: int, number: int) -> bytes:
    """One file of a cpio archive in the "new ASCII" format, which the kernel unpacks."""
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def libraries(root: Path, programs: Sequence[Path]) -> dict[str, Path]:
    """Where in the guest the loader and the libraries must lie that the programs need, and where they lie here."""
    found: dict[str, Path] = {}
    loader = root / LOADER
    for program in programs:
        command = [str(loader), "--library-path", str(root / LIBRARIES), "--list", str(program.resolve())]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if listed.returncode:  # linked statically, or a script
            continue
        for name, path in re.findall(r"^\s*(\S+) => (.+?)(?: \(0x\w+\))?$", listed.stdout, re.MULTILINE):
            if path == "not found":
                raise Mistake(f"{program} needs {name}, which the guest has not: link it statically")
            found["lib/x86_64-linux-gnu/" + Path(name).name] = Path(path)
        found[LOADER] = loader
    return found


def ramdisk(root: Path, module: Path, programs: Sequence[Path], limit_s: int) -> bytes:
    """The initial RAM disk, not compressed."""
    plan = f"limit={limit_s}\nmodule={re.sub('-', '_', module.stem)}\n"
    files = [
        *((name, b"", 0o040755) for name in ("bin", "tests", "lib", "lib/x86_64-linux-gnu", "lib64")),
        ("bin/busybox", (root / "bin" / "busybox").read_bytes(), 0o100755),
        ("init", (FOLDER / "guest-init.sh").read_bytes(), 0o100755),
        ("plan", plan.encode(), 0o100644),
        ("programs", "".join(f"{program.name}\n" for program in programs).encode(), 0o100644),
        ("driver.ko", module.read_bytes(), 0o100644),
        *((f"tests/{program.name}", program.read_bytes(), 0o100755) for program in programs),
        *((name, path.read_bytes(), 0o100755) for name, path in libraries(root, programs).items()),
        ("TRAILER!!!", b"", 0),
    ]
    return b"".join(cpio_entry(name, data, mode, number) for number, (name, data, mode) in enumerate(files, 1))


def unpacked(kernel: Path, folder: Path) -> Path:
    """Return the kernel to boot: `kernel` without its compression, written to `folder`, or `kernel` as it is.

    An emulated processor unpacks a kernel in 1.2 s, this one in 0.1 s. It is booted as it is if it has another format
    than zstd's or if Arrow, which reads that format, is not installed.
    """
    try:
        import pyarrow as arrow
    except ImportError:
        return kernel
    image = kernel.read_bytes()
    start, size = struct.unpack_from("<II", image, PAYLOAD)
    start += (image[SETUP_SECTORS] + 1) * 512  # the setup code and its boot sector lie before the payload
    payload, length = image[start : start + size - 4], image[start + size - 4 : start + size]
    if not payload.startswith(ZSTD):
        return kernel
    made = folder / "vmlinux"
    made.write_bytes(arrow.decompress(payload, int.from_bytes(length, "little"), codec="zstd"))
    return made


def qemu_command(options: argparse.Namespace, kernel: Path, folder: Path, voice: int) -> list[str]:
    """QEMU without a display, the kernel's serial line here, guest memory shared with the device.

    The second serial line, that of the programs, is written to the file descriptor `voice`.
    """
    device = {"driver": "vfio-user-pci", "socket": {"type": "unix", "path": str(folder / "acceldev.sock")}}
    return [
        *(str(FOLDER / "guest-qemu.sh"), str(options.root)),
        *("-machine", f"q35,accel={options.accel},memory-backend=ram", "-smp", "2", "-m", str(options.memory)),
        *("-object", f"memory-backend-memfd,id=ram,size={options.memory}M,share=on"),
        *("-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio"),
        *("-add-fd", f"fd={voice},set=1", "-chardev", "file,id=voice,path=/dev/fdset/1,append=on"),
        *("-serial", "chardev:voice"),
        *("-kernel", str(kernel), "-initrd", str(folder / "initrd")),
        *("-append", "console=ttyS0 panic=-1 loglevel=4 no_timer_check cryptomgr.notests"),
        *("-device", json.dumps(device)),
    ]


def ended(status: str, seconds: float, limit_s: int) -> str:
    """How a step ended, "" if well, in words."""
    if status == "0":
        return ""
    if status == "late":
        return f"still running after {limit_s} s, and killed: where it waited is shown above"
    if status == "stuck":
        return f"still running after {limit_s} s, and cannot be killed: it waits inside the kernel, as shown above"
    signal = f" (ended by signal {int(status) - 128})" if int(status) > 128 else ""
    return f"failed with status {status}{signal} after {seconds:.1f} s"


@dataclass
class Run:
    """What the guest has told so far. Lines come from threads of their own."""

    programs: Sequence[str]
    limit_s: int
    results: dict[str, str] = field(default_factory=dict)
    """How each step ended, "" if well."""
    problems: list[str] = field(default_factory=list)
    up: bool = False
    down: bool = False
    now: str = ""
    """The step under way."""
    panic: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, text: str) -> None:
        """One whole line, however many threads speak."""
        with self._lock:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def program_line(self, text: str) -> None:
        """A line of the second serial line: a program's output, or what guest-init.sh tells."""
        before, marker, told = text.partition(MARKER)
        if before:
            self.say(f"guest: {before}")
        if not marker:
            return
        what, _, rest = told.partition(" ")
        if what == "begin":
            self.now = rest
            self.say(f"guest: -- {rest}")
        elif what == "late":
            self.say(f"guest: -- {rest} has not ended after {self.limit_s} s. It is doing this:")
        elif what == "end":
            name, status, began, over = rest.rsplit(" ", 3)
            self.now = ""
            self.results[name] = ended(status, float(over) - float(began), self.limit_s)
            if self.results[name]:
                self.say(f"guest: -- {name} {self.results[name]}")
        elif what == "unbound":
            self.problems.append(f"no driver has taken the device {rest.rstrip()}")
        elif what == "log":
            self.problems.append(f"the kernel's log says: {rest}")
        self.up = True
        self.down |= what == "down"

    def kernel_line(self, text: str) -> None:
        """A line of the kernel's console."""
        self.say(f"kernel: {text}")
        if "Kernel panic" in text and not self.panic:
            self.panic = text[text.index("Kernel panic") :]

    def summary(self, *, timed_out: bool) -> int:
        """Tell how all ended; the exit status."""
        if not self.up:
            self.say("guest: the kernel never came to its first program" + (": time was up" if timed_out else ""))
            return 2
        if not self.down:
            place = f" during {self.now}" if self.now else ""
            cause = self.panic or ("time was up, the guest did not answer any more" if timed_out else "QEMU ended")
            self.problems.insert(0, f"the guest died{place}: {cause}")
        steps = {name: self.results.get(name) for name in ("insmod", *self.programs, "rmmod")}
        passed = sum(steps[name] == "" for name in self.programs)
        for name in self.programs:
            how = steps[name]
            words = "the guest died" if name == self.now else "was not run" if how is None else how or "ok"
            self.say(f"guest:   {name}: {words}")
        for name in ("insmod", "rmmod"):
            if steps[name]:
                self.say(f"guest: {name} {steps[name]}")
        for problem in self.problems:
            self.say(f"guest: {problem}")
        self.say(f"guest: {passed} of {len(self.programs)} programs passed")
        good = not self.problems and all(how == "" for how in steps.values())
        self.say("guest: all is well" if good else "guest: status 1")
        return 0 if good else 1


def relay(stream: IO[bytes], tell: Callable[[str], None]) -> threading.Thread:
    """A thread that hands on each line until the stream ends."""

    def work() -> None:
        with stream:
            for line in stream:
                if text := line.decode(errors="replace").strip("\r\n"):
                    tell(text)

    thread = threading.Thread(target=work, name="relay")
    thread.start()
    return thread


def serve(socket: Path, run: Run) -> tuple[subprocess.Popen[bytes], threading.Thread]:
    """Start the device, and wait for its socket."""
    command = [sys.executable, "-c", SERVE, "acceldev", "--vfio-user", str(socket), "--once"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert server.stdout is not None
    speaker = relay(server.stdout, lambda text: run.say("device: " + text.removeprefix(f"{socket.name}: ")))
    for _ in range(6000):
        if socket.exists():
            return server, speaker
        if server.poll() is not None:
            break
        time.sleep(0.01)
    server.kill()
    server.wait()
    speaker.join()
    raise Mistake("the device could not be served")


def watch(options: argparse.Namespace, kernel: Path, folder: Path, run: Run) -> bool:
    """Run QEMU until the guest ends; whether it had to be stopped because time was up."""
    ear, voice = os.pipe()
    command = qemu_command(options, kernel, folder, voice)
    guest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             pass_fds=(voice,))  # fmt: skip
    os.close(voice)
    assert guest.stdout is not None
    assert guest.stderr is not None
    speakers = [
        relay(guest.stdout, run.kernel_line),
        relay(guest.stderr, lambda text: run.say(f"qemu: {text}")),
        relay(os.fdopen(ear, "rb"), run.program_line),
    ]
    # Each step may take its limit, and some seconds to be looked at and killed.
    seconds = options.timeout or BOOT_SECONDS + (len(options.programs) + 2) * (options.limit + 15)
    time_is_up = time.monotonic() + seconds
    goodbye = None
    try:
        while guest.poll() is None:
            now = time.monotonic()
            if run.down and goodbye is None:
                goodbye = now + GOODBYE_SECONDS
            if goodbye is not None and now > goodbye:
                return False  # all is told; a kernel that hangs in a module does not power off
            if now > time_is_up:
                return True
            time.sleep(0.1)
        return False
    finally:
        guest.kill()
        guest.wait()
        for speaker in speakers:
            speaker.join()


def checked(options: argparse.Namespace) -> Path:
    """The kernel to boot, if everything is there."""
    for path in (options.ko, *options.programs):
        if not path.is_file():
            raise Mistake(f"there is no {path}")
    names = [program.name for program in options.programs]
    for name in names:
        if name.split() != [name]:
            raise Mistake(f"a program's name must have no spaces: {name!r}")
        if names.count(name) > 1 or name in ("insmod", "rmmod"):
            raise Mistake(f"two programs cannot both be called {name} (insmod and rmmod are run anyway)")
    kernels = sorted((options.root / "boot").glob("vmlinuz-*"))
    if not kernels:
        raise Mistake(f"no kernel in {options.root}: make guest-root")
    return kernels[-1]


def main() -> int:
    """Read the command line and boot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="Debian tree made by guest-root.sh")
    parser.add_argument("--ko", type=Path, required=True, help="kernel module, built for that tree's kernel")
    parser.add_argument("--memory", type=int, default=512, help="MiB of guest memory")
    parser.add_argument("--accel", default="tcg", help="QEMU's accelerator: tcg or kvm")
    parser.add_argument("--limit", type=int, default=60, help="seconds that each program may take")
    parser.add_argument("--timeout", type=float, help="seconds for all, if not what boot and limits add up to")
    parser.add_argument("programs", type=Path, nargs="*", help="programs to run in the guest, in this order")
    options = parser.parse_args()
    run = Run([program.name for program in options.programs], options.limit)
    try:
        kernel = checked(options)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "initrd").write_bytes(ramdisk(options.root, options.ko, options.programs, options.limit))
            server, speaker = serve(folder / "acceldev.sock", run)
            try:
                timed_out = watch(options, unpacked(kernel, folder), folder, run)
            finally:
                server.terminate()
                server.wait()
                speaker.join()
    except Mistake as mistake:
        print(f"guest: {mistake}", file=sys.stderr)
        return 2
    return run.summary(timed_out=timed_out)


if __name__ == "__main__":
    sys.exit(main())
