"""`understudy serve`: plug a device of the bench into a machine emulator."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Protocol

import typer

from understudy.attach.vfio_user import Server, Settings, SharedMemory, events
from understudy.cli.exits import UsageError
from understudy.cli.output import Output
from understudy.cli.serve_fletcher import serve_fletcher
from understudy.cli.serve_report import Report
from understudy.core.event import Event
from understudy.core.lint import OFF
from understudy.core.settings import THREADED
from understudy.device.acceldev.device import AcceldevDevice
from understudy.device.acceldev.settings import Settings as AcceldevSettings

SWITCH_INTERVAL_S: Final = 0.0001
"""How long a busy device may keep the thread that answers registers waiting; guests would see Python's own 5 ms."""
GRACE_S: Final = 2.0
"""How long after a second signal a process may take to end by itself."""

app = typer.Typer(help="Plug a device into QEMU or another vfio-user client, or into a host program.")
app.command("fletcher")(serve_fletcher)


@app.callback()
def _serve() -> None:
    """Plug a device into QEMU or another vfio-user client, or into a host program."""


class Closable(Protocol):
    """A server that a signal ends."""

    def close(self) -> None:
        """Stop serving."""


class Sharing(StrEnum):
    """Which guest memory the device maps instead of asking for it by messages."""

    SEALED = "sealed"
    ANY = "any"
    NONE = "none"


@app.command()
def acceldev(
    paths: Annotated[
        list[Path], typer.Option("--vfio-user", metavar="PATH", help="Socket to make; again for another device.")
    ],
    sharing: Annotated[
        Sharing,
        typer.Option(
            "--shared-memory",
            help="Guest memory to map: what is sealed against shrinking (QEMU's memory-backend-memfd with share=on), "
            "any that the client passes (one that truncates it then kills this process by SIGBUS), or none.",
        ),
    ] = Sharing.SEALED,
    bus_master: Annotated[
        bool, typer.Option(help="Whether DMA fails until the driver has enabled bus mastering.")
    ] = True,
    poison: Annotated[bool, typer.Option("--poison", help="Registers hold noise after reset.")] = False,
    strict: Annotated[bool, typer.Option("--strict-access", help="Odd register accesses raise MEM_ERROR.")] = False,
    pause: Annotated[float, typer.Option(help="Seconds to rest after each device command: a slow device.")] = 0.0,
    once: Annotated[
        bool, typer.Option("--once", help="End when the first client of each device that said anything has gone.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say only where the device listens.")] = False,
) -> None:
    """Be an Acceldev on the PCI bus of a virtual machine, and say what its driver does wrong.

    Start this first, then QEMU 10.1 or later with
    -device '{"driver": "vfio-user-pci", "socket": {"type": "unix", "path": "PATH"}}'.
    Interrupt it to end.
    """
    if len(set(paths)) != len(paths):
        raise UsageError("every device takes a socket of its own: --vfio-user names one twice")
    options = AcceldevSettings(
        execution=THREADED,
        poison=poison,
        strict_access=strict,
        pause_seconds=pause,
        user_command_events=False,
        lints=OFF,
    )
    settings = Settings(shared_memory=SharedMemory(sharing.value), bus_master=bus_master)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    if sharing is Sharing.ANY and sys.stderr is not None:
        faulthandler.enable()  # whose message is better than none, should a client truncate its memory
    with ExitStack() as stack:
        output = stack.enter_context(closing(Output()))
        servers = []
        for path in paths:
            device = AcceldevDevice(options)
            stack.callback(device.close)
            server = stack.enter_context(Server(device, settings))
            if not quiet:
                _report(server, device, output, path.name)
            servers.append(server)
        stack.enter_context(ended_by_signals(servers))
        for path, server in zip(paths, servers, strict=True):
            server.listen(path)
            output.say(f"{path.name}: listening at {path}")
        _serve_all(servers, 1 if once else None)


def _report(server: Server, device: AcceldevDevice, output: Output, name: str) -> None:
    """Let `output` say what the driver does, in lines that begin with `name`."""
    report = Report(lambda line: output.say(f"{name}: {line}"))
    device.probes.subscribe(report)
    server.probes.subscribe(report)

    def sum_up(event: Event) -> None:
        if isinstance(event, events.Disconnected):
            device.driver_gone()
            report.sum_up()

    server.probes.subscribe(sum_up)


def _serve_all(servers: list[Server], sessions: int | None) -> None:
    """All but the first in threads; the first here, where signals arrive."""
    threads = [threading.Thread(target=server.serve, args=(sessions,), name="serve") for server in servers[1:]]
    for thread in threads:
        thread.start()
    try:
        servers[0].serve(sessions)
    finally:
        if sessions is None:
            for server in servers[1:]:
                server.close()
        for thread in threads:
            thread.join()


@contextmanager
def ended_by_signals(servers: Sequence[Closable]) -> Iterator[None]:
    """SIGINT and SIGTERM close the servers; a second one is a KeyboardInterrupt, for a kernel that does not return.

    Code that catches even that is ended by SIGALRM, `GRACE_S` later. A thread of its own closes them: Python's own
    handlers run in the main thread only, which a signal does not wake that comes just before it begins to wait.
    """

    def watch() -> None:
        is_closed = False
        while numbers := os.read(reader, 1):
            if numbers[0] not in ends:
                continue
            if is_closed:
                signal.setitimer(signal.ITIMER_REAL, GRACE_S)
                return
            is_closed = True
            for server in servers:
                server.close()

    def first(*_: object) -> None:
        for number in ends:
            signal.signal(number, second)

    def second(*_: object) -> None:
        for number in ends:
            signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    ends = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in (*ends, signal.SIGALRM)}
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = threading.Thread(target=watch, name="signals", daemon=True)
    watcher.start()
    woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in ends:
        signal.signal(number, first)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken)
        os.close(writer)
        watcher.join()
        os.close(reader)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
