"""`understudy serve`: plug a device of the bench into a machine emulator."""

from __future__ import annotations

import faulthandler
import sys
import threading
from contextlib import ExitStack, closing
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from understudy.attach.vfio_user import Server, Settings, SharedMemory, events
from understudy.cli.exits import UsageError, of_options
from understudy.cli.output import Output
from understudy.cli.serve_fletcher import serve_fletcher
from understudy.cli.serve_refsi import serve_refsi
from understudy.cli.serve_report import Report
from understudy.cli.serving import SWITCH_INTERVAL_S, ended_by_signals
from understudy.core.event import Event
from understudy.core.lint import OFF
from understudy.core.settings import THREADED
from understudy.device.acceldev.device import AcceldevDevice
from understudy.device.acceldev.settings import Settings as AcceldevSettings

app = typer.Typer(help="Plug a device into QEMU or another vfio-user client, or into a host program.")
app.command("fletcher")(serve_fletcher)
app.command("refsi")(serve_refsi)


@app.callback()
def _serve() -> None:
    """Plug a device into QEMU or another vfio-user client, or into a host program."""


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
    if not 0 <= pause < inf:
        raise UsageError(f"--pause {pause}, expected a number of seconds of 0 or more")
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
            with of_options():
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
