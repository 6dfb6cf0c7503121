"""`understudy serve refsi`: RefSi devices for host programs in other processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.engines import (
    CheckOption,
    Engine,
    EngineOption,
    EqualStoresOption,
    SuppressionsOption,
    check_equal_stores,
    checked,
)
from understudy.cli.exits import ExitCode, UsageError, of_options
from understudy.cli.files import reading
from understudy.cli.output import Output
from understudy.cli.refsi import Profile
from understudy.cli.serving import Repeated, rule_of
from understudy.core.checks import default_checks, read_suppressions
from understudy.core.event import Event
from understudy.core.findings import Finding, Level


def serve_refsi(
    socket: Annotated[
        Path | None, typer.Option("--socket", metavar="PATH", help="Socket to make; by default one of the user's own.")
    ] = None,
    profile: Annotated[
        Profile, typer.Option(help="The reference driver's behaviour, or the document's, with every error told.")
    ] = Profile.REFSIDRV,
    engine: EngineOption = Engine.JIT,
    check: CheckOption = "",
    suppressions: SuppressionsOption = None,
    equal_stores: EqualStoresOption = False,
    shared_memory: Annotated[
        bool,
        typer.Option(
            "--shared-memory/--no-shared-memory", help="Whether hosts map the devices' memories, or ask for all of it."
        ),
    ] = True,
    library: Annotated[
        bool, typer.Option("--library/--no-library", help="Compile the driver library and say how to use it.")
    ] = True,
    once: Annotated[bool, typer.Option("--once", help="End when the first host program has gone.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say only where the server listens.")] = False,
) -> None:
    """Be RefSi devices behind librefsidrv.so, for unmodified host programs of the reference driver.

    They find it through the environment that is shown. Each has devices of its own, which end with it. Interrupt it to
    end. With --check the exit status is 1 where there were errors.
    """
    from understudy.attach.refsi import Options, Server, build_library, default_socket, events, make_private
    from understudy.cli.serving import SWITCH_INTERVAL_S, ended_by_signals

    settings = settings_of(profile.value, engine.value, checked(check), suppressions, equal_stores)
    options = Options(tuple(settings.items()), shared_memory)
    path = socket
    if path is None:
        path = default_socket()
        with of_options():
            make_private(path.parent)
    errors: list[Finding] = []

    def collect(event: Event) -> None:
        if isinstance(event, events.Checked):
            errors.extend(each for each in event.findings if each.level is Level.ERROR)

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with closing(Output()) as output, Server(options) as server:
        if not quiet:
            server.probes.subscribe(teller(True, output.say))
        server.probes.subscribe(collect, events.Checked)
        built = build_library() if library else None
        with ended_by_signals([server]):
            with of_options():
                server.listen(path)
            output.say(f"refsi: listening at {path}")
            if built is not None and not quiet:
                output.say(f"for programs that load librefsidrv.so:\n  {built.shell_environment(path)} PROGRAM")
            server.serve(1 if once else None)
    if errors:
        raise typer.Exit(ExitCode.GUEST)


def settings_of(profile: str, engine: str, check: str, suppressions: Path | None, equal_stores: bool) -> dict[str, Any]:
    """Those of the devices; an error at once for what hosts could not open."""
    from understudy.device.refsi.settings import Settings

    settings: dict[str, Any] = {"profile": profile, "engine": engine, "equal_stores": equal_stores}
    if check:
        settings["check"] = check
    check_equal_stores(equal_stores, check or default_checks())
    if suppressions is not None:
        if not check:
            raise UsageError("--suppressions goes with --check")
        with reading(suppressions):
            read_suppressions(suppressions)
        settings["suppressions"] = str(suppressions)
    Settings.of(None, settings)
    return settings


def teller(
    trace: bool, say: Callable[[str], None], *, errors: bool = True, checks: bool = True
) -> Callable[[Event], None]:
    """A probe that says what becomes of host programs; of equal findings the first few.

    With `trace` it says who comes and goes, with `errors` what the program's own standard error was told as well, with
    `checks` what these have found.
    """
    from understudy.attach.refsi import events

    findings = Repeated(say)

    def tell(event: Event) -> None:
        match event:
            case events.Connected(session=number) if trace:
                say(f"host {number} connected")
            case events.Opened(family=family) if trace:
                say(f"RefSi {family.upper()}1 opened")
            case events.Disconnected(session=number, error=error, devices=count) if trace or error:
                left = f", and left {count} device{'s' * (count > 1)} open" if count else ""
                say(f"host {number} is gone{left}" + (f": {error}" if error else ""))
            case events.Waits(time=time, session=number):
                silent = "" if time else ", which has said nothing"
                findings.tell("waits", f"another host waits: host {number} is connected{silent}")
            case events.TurnedAway(reason=reason):
                findings.tell("turned away", f"turned away: {reason}")
            case events.Told(error=error) if errors:
                findings.tell(f"error {rule_of(error)}", f"error: {error.in_full()}")
            case events.Checked(findings=found) if checks:
                for each in found:
                    say(f"{each}")

    return tell
