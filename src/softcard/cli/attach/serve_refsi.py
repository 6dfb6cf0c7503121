"""`softcard serve refsi`: RefSi devices for host programs in other processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from softcard.cli.attach.serving import FindingOutput, RepeatLimiter, Show, found_at, rule_of
from softcard.cli.exits import ExitCode, UsageError, usage_errors
from softcard.cli.files import reading
from softcard.cli.options import (
    CheckOption,
    Engine,
    EngineOption,
    EqualStoresOption,
    Format,
    FormatOption,
    JsonOption,
    LibraryOption,
    OnceOption,
    QuietOption,
    SocketOption,
    SuppressionsOption,
    WindowScaleOption,
    check_equal_stores,
    checked,
    chosen_format,
)
from softcard.cli.refsi import Profile
from softcard.core.checks import checks_of, default_checks, having, read_suppressions
from softcard.core.diagnostics import diagnostics_of, of_error
from softcard.core.event import Event
from softcard.core.findings import Finding, Level


def serve_refsi(
    socket: SocketOption = None,
    profile: Annotated[
        Profile | None,
        typer.Option(
            help="The reference driver's behaviour (default), or the document's (default with --check), with every "
            "error reported."
        ),
    ] = None,
    window_scale: WindowScaleOption = None,
    engine: EngineOption = Engine.JIT,
    check: CheckOption = "",
    suppressions: SuppressionsOption = None,
    equal_stores: EqualStoresOption = False,
    shared_memory: Annotated[
        bool,
        typer.Option(
            "--shared-memory/--no-shared-memory",
            help="Let host programs map the devices' memories, or make them send each access to the server.",
        ),
    ] = True,
    library: LibraryOption = True,
    once: OnceOption = False,
    quiet: QuietOption = False,
    form: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Serve RefSi devices through librefsidrv.so to unmodified host programs of the reference driver.

    The command prints environment variables. Set them to let programs find the devices. Each program opens
    devices that no other program uses, and they are closed when it ends. Interrupt the command to end it. With
    --check the exit status is 1 if there were errors. Findings are printed as text at once; in another format they
    are one document on standard output at the end, and other messages go to standard error."""
    from softcard.attach.refsi import Options, Server, build_library, default_socket, events, make_private
    from softcard.cli.attach.serving import SWITCH_INTERVAL_S, ended_by_signals

    form = chosen_format(form, as_json)
    chosen = profile_for(checked(check) or default_checks(), profile or "", window_scale or "")
    settings = settings_of(*chosen, engine.value, checked(check), suppressions, equal_stores)
    options = Options(tuple(settings.items()), shared_memory)
    path = socket
    if path is None:
        path = default_socket()
        with usage_errors():
            make_private(path.parent)
    errors: list[Finding] = []

    def collect(event: Event) -> None:
        if isinstance(event, events.Checked):
            errors.extend(each for each in event.findings if each.level is Level.ERROR)

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    findings = FindingOutput(form, path)
    output = findings.output
    with closing(findings), Server(options) as server:
        if not quiet or form is not Format.TEXT:
            say = (lambda line: None) if quiet else output.say
            server.probes.subscribe(event_printer(True, say, findings.show, is_document=form is not Format.TEXT))
        server.probes.subscribe(collect, events.Checked)
        built = build_library() if library else None
        with ended_by_signals([server]):
            with usage_errors():
                server.listen(path)
            output.say(f"refsi: listening at {path}")
            if built is not None and not quiet:
                output.say(f"for programs that load librefsidrv.so:\n  {built.shell_environment(path)} PROGRAM")
            server.serve(1 if once else None)
    if errors:
        raise typer.Exit(ExitCode.GUEST)


def profile_for(check: str, profile: str, window_scale: str) -> tuple[str, str]:
    """Return the profile and the window encoding of devices for hosts that load the driver library.

    A parameter that the user did not choose is "". The default profile is "spec" if `check` has a check that
    needs it (any but `waits`), and else "refsidrv". Hosts that use the library encode windows as the reference
    driver does, so with that default of "spec", windows are decoded in the same way."""
    if not profile and having(checks_of(check), lambda kind: not kind.only_engine):
        return "spec", window_scale or "driver"
    return profile or "refsidrv", window_scale or "auto"


def settings_of(
    profile: str, window_scale: str, engine: str, check: str, suppressions: Path | None, equal_stores: bool
) -> dict[str, Any]:
    """Return the settings of the devices; raise an error at once for settings with which devices cannot be opened."""
    from softcard.device.refsi.settings import Settings

    settings: dict[str, Any] = {"profile": profile, "engine": engine, "equal_stores": equal_stores}
    settings |= {"window_scale": window_scale, "on_finding": "keep"}
    if check:
        settings["check"] = check
    check_equal_stores(equal_stores, check or default_checks())
    if suppressions is not None:
        if not check:
            raise UsageError("--suppressions requires --check")
        with usage_errors(), reading(suppressions):
            read_suppressions(suppressions)
        settings["suppressions"] = str(suppressions)
    Settings.of(None, settings)
    return settings


def event_printer(
    trace: bool,
    say: Callable[[str], None],
    show: Show,
    *,
    errors: bool = True,
    checks: bool = True,
    is_document: bool = False,
) -> Callable[[Event], None]:
    """Return an observer that prints events of host programs with `say`, and findings with `show`.

    Only the first few of equal findings are printed; a document (`is_document`) contains more. `trace` adds connections
    and opened devices. `errors` adds the errors that the driver library also prints in the program, and `checks` adds
    the findings of checks."""
    from softcard.attach.refsi import events

    findings = RepeatLimiter(say, show, is_document)

    def print_event(event: Event) -> None:
        match event:
            case events.Connected(session=number) if trace:
                say(f"host {number} connected")
            case events.Opened(family=family) if trace:
                say(f"RefSi {family.upper()}1 opened")
            case events.Disconnected(session=number, error=error, devices=count) if trace or error:
                left = f", and left {count} device{'s' * (count > 1)} open" if count else ""
                if error is not None:
                    findings.report(f"disconnected {rule_of(error)}", found_at(of_error(error), f"host {number}"))
                say(f"host {number} has disconnected{left}")
            case events.Waits(time=time, session=number):
                silent = "" if time else ", which has sent nothing"
                findings.say("waits", f"another host waits: host {number} is connected{silent}")
            case events.TurnedAway(reason=reason):
                findings.say("refused connection", f"connection refused: {reason}")
            case events.Told(error=error) if errors:
                findings.report(f"error {rule_of(error)}", of_error(error))
            case events.Checked(findings=found) if checks:
                for each in diagnostics_of(found):
                    show(each)

    return print_event
