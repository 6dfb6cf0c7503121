"""`softcard serve`: devices for virtual machines and for host programs in other processes."""

from __future__ import annotations

import faulthandler
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softcard.attach.vfio_user import Server, Settings, SharedMemory
from softcard.attach.vfio_user import events as session
from softcard.cli.attach.serve_fletcher import serve_fletcher
from softcard.cli.attach.serve_refsi import serve_refsi
from softcard.cli.attach.serving import (
    SWITCH_INTERVAL_S,
    FindingOutput,
    RepeatLimiter,
    ended_by_signals,
    found_at,
    rule_of,
)
from softcard.cli.exits import UsageError, usage_errors
from softcard.cli.options import Format, FormatOption, JsonOption, QuietOption, chosen_format
from softcard.core.diagnostics import Diagnostic, of_error
from softcard.core.event import Event
from softcard.core.lint import OFF
from softcard.core.settings import THREADED
from softcard.device.acceldev import events
from softcard.device.acceldev.commands import FenceCommand
from softcard.device.acceldev.device import AcceldevDevice
from softcard.device.acceldev.registers import CMDS_BUFFER_SIZE, Interrupt
from softcard.device.acceldev.settings import Settings as AcceldevSettings

if TYPE_CHECKING:
    from softcard.core.errors import SoftcardError
    from softcard.core.event import Event


app = typer.Typer(help="Plug a device into QEMU or another vfio-user client, or into a host program.")
app.command("fletcher")(serve_fletcher)
app.command("refsi")(serve_refsi)


@app.callback()
def _serve() -> None:
    """Plug a device into QEMU or another vfio-user client, or into a host program."""


class Sharing(StrEnum):
    """The policies for mapping guest memory. The device uses messages to access memory that it does not map."""

    SEALED = "sealed"
    ANY = "any"
    NONE = "none"


@app.command()
def acceldev(
    paths: Annotated[
        list[Path],
        typer.Option("--vfio-user", metavar="PATH", help="Socket to make; can be repeated, for one device each."),
    ],
    sharing: Annotated[
        Sharing,
        typer.Option(
            "--shared-memory",
            help="Guest memory to map: memory that is sealed against shrinking (QEMU's memory-backend-memfd with "
            "share=on), any that the client passes (a client that truncates it kills this process by SIGBUS), or none.",
        ),
    ] = Sharing.SEALED,
    bus_master: Annotated[bool, typer.Option(help="Fail DMA until the driver has enabled bus mastering.")] = True,
    poison: Annotated[
        bool, typer.Option("--poison", help="Fill registers with junk at reset, where the document gives no value.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict-access", help="Let unaligned and wrongly sized register accesses raise MEM_ERROR.")
    ] = False,
    pause: Annotated[
        float, typer.Option(help="Seconds to wait after each device command, to model a slow device.")
    ] = 0.0,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="End after the first client of each device has disconnected; a client that sent nothing does not "
            "count.",
        ),
    ] = False,
    quiet: QuietOption = False,
    form: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Serve an Acceldev on the PCI bus of a virtual machine, and report its driver's mistakes.

    Start this command first, then QEMU 10.1 or later with
    -device '{"driver": "vfio-user-pci", "socket": {"type": "unix", "path": "PATH"}}'.
    Interrupt the command to end it. Findings are printed as text at once; in another format they are one document on
    standard output at the end, and other messages go to standard error."""
    form = chosen_format(form, as_json)
    if len(set(paths)) != len(paths):
        raise UsageError("--vfio-user names the same socket twice, expected another socket for each device")
    if not 0 <= pause < inf:
        raise UsageError(f"--pause is {pause}, expected 0 or a positive number of seconds")
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
        faulthandler.enable()  # prints a message if a client truncates its memory, which raises SIGBUS here
    with ExitStack() as stack:
        findings = stack.enter_context(closing(FindingOutput(form, paths[0])))
        output = findings.output
        servers = []
        for path in paths:
            device = AcceldevDevice(options)
            stack.callback(device.close)
            server = stack.enter_context(Server(device, settings))
            if not quiet or findings.collected is not None:
                _report(server, device, findings, path.name, quiet)
            servers.append(server)
        stack.enter_context(ended_by_signals(servers))
        for path, server in zip(paths, servers, strict=True):
            with usage_errors():
                server.listen(path)
            output.say(f"{path.name}: listening at {path}")
        _serve_all(servers, 1 if once else None)


def _report(server: Server, device: AcceldevDevice, findings: FindingOutput, name: str, quiet: bool) -> None:
    """Subscribe to a server and its device, to print the mistakes of the device's driver, and, unless `quiet`, its
    actions.

    Messages begin with `name`, which is also the position of findings. When a client disconnects, a summary is
    printed."""
    report = Report(name, lambda line: None if quiet else findings.output.say(f"{name}: {line}"), findings)
    device.probes.subscribe(report)
    server.probes.subscribe(report)

    def sum_up(event: Event) -> None:
        if isinstance(event, session.Disconnected):
            device.driver_gone()
            report.sum_up()

    server.probes.subscribe(sum_up)


def _serve_all(servers: list[Server], sessions: int | None) -> None:
    """Run all servers until each has served `sessions` sessions, or without a limit until they are closed.

    The first one runs in the main thread, which receives signals, the others in threads.
    """
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


# ---- messages --------------------------------------------------------------------------------------------------------


class Report:
    """An observer of the server and device called `name`, which prints events with `say`, and findings to `output`.

    `say` must not block, as it is called while the device's lock is held.
    """

    def __init__(self, name: str, say: Callable[[str], None], output: FindingOutput) -> None:
        self._name, self._say, self._output = name, say, output
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        """Reset all counts for a new client."""
        self._findings = RepeatLimiter(self._say, self._output.show, self._output.collected is not None)
        self._reported: SoftcardError | None = None
        self._commands = self._fences = self._user_fences = self._deepest = 0
        self._raised: Counter[str] = Counter()
        self._cleared: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        """Handle an event of the server or the device; any thread may call this."""
        with self._lock:
            self._hear(event)

    def _hear(self, event: Event) -> None:
        match event:
            case events.CommandQueued(free=free):
                self._deepest = max(self._deepest, CMDS_BUFFER_SIZE - free)
            case events.CommandStarted(command=FenceCommand()):
                self._fences += 1
            case events.CommandFinished(error=error, fences=fences):
                self._commands += 1
                self._user_fences += fences
                if error is not None and error is not self._reported:
                    self._found(f"error {rule_of(error)}", of_error(error))
            case events.ContextErrored(context=context, error=error):
                self._reported = error
                self._found(f"error {rule_of(error)}", of_error(error), f"context {context}")
            case events.InterruptRaised(interrupt=interrupt, coalesced=False):
                self._raised[str(interrupt.name)] += 1
            case events.InterruptCleared(interrupts=interrupts):
                self._cleared.update(str(each.name) for each in interrupts)
            case events.Coalesced(interrupt=Interrupt.USER_FENCE_WAIT):
                self._findings.count("lint interrupt-coalesced (USER_FENCE_WAIT)")
            case events.Coalesced(interrupt=interrupt):
                self._found(f"lint interrupt-coalesced ({interrupt.name})", event.diagnostic())
            case events.Lint(check=check):
                self._found(f"lint {check}", event.diagnostic())
            case _:
                self._hear_session(event)

    def _found(self, kind: str, found: Diagnostic, where: str = "") -> bool:
        return self._findings.report(kind, found_at(found, self._name, where))

    def _hear_session(self, event: Event) -> None:
        match event:
            case session.Connected(session=number):
                self._begin()
                self._say(f"client {number} connected")
            case session.Disconnected(session=number, error=error):
                if error is not None and error is not self._reported:
                    self._found(f"disconnected {rule_of(error)}", of_error(error), f"client {number}")
                self._say(f"client {number} has disconnected")
            case session.Waits(time=time, session=number):
                silent = "" if time else ", which has sent nothing"
                text = f"another client waits: client {number} is connected{silent}"
                self._findings.say("another client waited", text)
            case session.TurnedAway(reason=reason):
                self._findings.say("refused connection", f"connection refused: {reason}")
            case session.Refused(error=error):
                if self._found(f"refused {rule_of(error)}", of_error(error)):
                    self._reported = error
            case session.DmaFailed():
                self._findings.count("DMA failed")  # the error of the command is reported already
            case session.Mapped(direct=False, reason=reason, flags=flags) if flags & 2 and "sealed" in reason:
                text = f"guest memory at {event.address:#x} is reached by messages, which is slow: {reason}"
                self._findings.say("slow guest memory", text)

    def sum_up(self) -> None:
        """Print a summary of the actions of the last client's driver, and how often each finding occurred."""
        with self._lock:
            if self._commands or self._raised:
                self._say(
                    f"summary: {self._commands} commands, at most {self._deepest} in the queue; {self._fences} FENCEs, "
                    f"{self._user_fences} user FENCEs; interrupts raised: {_counts(self._raised)}; "
                    f"cleared: {_counts(self._cleared)}"
                )
            if self._findings.counts:
                self._say(f"summary: {_counts(self._findings.counts)}")


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number} x {what}" for what, number in counts.items()) or "none"
