"""`softcard serve fletcher`: a Fletcher device for host programs in other processes."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from softcard.cli.attach.serving import FindingOutput, RepeatLimiter, Show, found_at, rule_of
from softcard.cli.exits import UsageError, usage_errors
from softcard.cli.files import read_file
from softcard.cli.fletcher import need_pyarrow, parse_offset, read_files
from softcard.cli.options import (
    FletcherKernelOption,
    Format,
    FormatOption,
    JsonOption,
    LibraryOption,
    MapOption,
    MapProfile,
    OffsetOption,
    OnceOption,
    QuietOption,
    SchemaOption,
    SocketOption,
    ThreadedOption,
    chosen_format,
)
from softcard.core.diagnostics import Diagnostic, of_error
from softcard.core.errors import SoftcardError

if TYPE_CHECKING:
    from softcard.core.event import Event
    from softcard.device.fletcher.kernel import Kernel
    from softcard.device.fletcher.map.layout import FletcherMap, Profile


class DeviceProfile(StrEnum):
    """The profiles of a Fletcher device, which differ in the behaviour of registers."""

    SPEC = "spec"
    HARDWARE = "hardware"


def serve_fletcher(
    kernel: FletcherKernelOption = "sum",
    socket: SocketOption = None,
    schemas: SchemaOption = None,
    profile: Annotated[
        DeviceProfile,
        typer.Option(help="Registers as documented, each wrong access reported as an error; or as generated."),
    ] = DeviceProfile.SPEC,
    order: MapOption = MapProfile.FLETCHGEN,
    offset: OffsetOption = "0",
    library: LibraryOption = True,
    threaded: ThreadedOption = False,
    keep: Annotated[bool, typer.Option("--keep", help="Do not reset the device for each host program.")] = False,
    once: OnceOption = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show every register access.")] = False,
    quiet: QuietOption = False,
    form: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Serve a Fletcher device to host programs, and report their mistakes.

    The command prints environment variables. Set them to let unmodified programs of the Fletcher run-time, in C++
    or Python, find the device. Interrupt the command to end it. Findings are printed as text at once; in another
    format they are one document on standard output at the end, and other messages go to standard error."""
    form = chosen_format(form, as_json)
    need_pyarrow()
    from softcard.attach.fletcher import DevicePlatform, Server, build_library, default_socket, make_private
    from softcard.cli.attach.serving import SWITCH_INTERVAL_S, ended_by_signals
    from softcard.core.lint import OFF
    from softcard.core.settings import SYNCHRONOUS, THREADED
    from softcard.device.fletcher.device import FletcherDevice
    from softcard.device.fletcher.settings import Settings

    chosen = load_kernel(kernel)
    settings = Settings(profile=profile.value, execution=THREADED if threaded else SYNCHRONOUS, lints=OFF)
    device = FletcherDevice(register_map(chosen, schemas or [], order.value, parse_offset(offset)), chosen, settings)
    path = socket
    if path is None:
        path = default_socket()
        with usage_errors():
            make_private(path.parent)
    if threaded:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
    findings = FindingOutput(form, path)
    output = findings.output
    with closing(findings), Server(DevicePlatform(device, keep=keep)) as server:
        say = (lambda line: None) if quiet else output.say
        printer = event_printer(chosen.name, trace, say, findings.show, form is not Format.TEXT)
        if not quiet or form is not Format.TEXT:
            server.probes.subscribe(printer)
            device.probes.subscribe(printer)
        built = build_library() if library else None
        with ended_by_signals([server]):
            with usage_errors():
                server.listen(path)
            output.say(f"{chosen.name}: listening at {path}")
            if built is not None and not quiet:
                for what, detect in (("platform softcard", False), ("any platform", True)):
                    words = built.shell_environment(path, autodetect=detect)
                    output.say(f"for programs that ask for {what}:\n  {words} PROGRAM")
            server.serve(1 if once else None)
            device.close()  # waits for the kernel's thread, which a second signal does not


def load_kernel(name: str) -> Kernel:
    """Return a built-in kernel, or the kernel FILE.py:NAME; `UsageError` if there is no such kernel."""
    from softcard.device.fletcher.kernel import Kernel
    from softcard.device.fletcher.kernels import find

    file, colon, attribute = name.rpartition(":")
    if not colon:
        try:
            return find(name)
        except SoftcardError as error:
            raise UsageError(f"{error.message} or FILE.py:NAME") from None
    module = _run_file(Path(file))
    found = getattr(module, attribute, None)
    if not isinstance(found, Kernel):
        kernels = " ".join(key for key, value in vars(module).items() if isinstance(value, Kernel)) or "none"
        raise UsageError(f"{file} has no kernel {attribute} (its kernels: {kernels})")
    return found


def _run_file(path: Path) -> Any:
    """Import a Python file of the user; any exception that it raises becomes a `UsageError`."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"cannot import {path}, expected a Python file")
    read_file(path)  # the same error message as for other files that cannot be read
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001  # the user's code may raise any exception
        raise UsageError(f"{path} raised {type(error).__name__}: {error}") from None
    return module


def register_map(kernel: Kernel, schemas: list[Path], profile: str, offset: int) -> FletcherMap:
    """Return the register map of the kernel for `schemas`; an empty list stands for the kernel's declared schemas."""
    from softcard.device.fletcher.map.build import fletcher_map

    batches = read_files(schemas)
    if not batches and not kernel.schemas:
        raise UsageError(
            f"kernel {kernel.name} takes RecordBatches of any schema: give one --schema for each RecordBatch"
        )
    named = cast("Profile", profile)
    return fletcher_map(batches or kernel.schemas, custom=kernel.custom, profile=named, offset=offset)


def event_printer(
    name: str, trace: bool, say: Callable[[str], None], show: Show, is_document: bool = False
) -> Callable[[Event], None]:
    """Return an observer that prints the events of a Fletcher server for the kernel `name`.

    `say` prints an event and `show` a finding. Only the first few of equal findings are printed; a document
    (`is_document`) contains more. With `trace`, register accesses are printed, too."""
    findings = RepeatLimiter(say, show, is_document)

    def print_event(event: Event) -> None:
        found, kind = _finding(event)
        if found is not None:
            findings.report(kind, found_at(found, name))
        text, kind = _text(event, trace)
        if kind:
            findings.say(kind, text)
        elif text:
            say(text)

    return print_event


def _finding(event: Event) -> tuple[Diagnostic | None, str]:
    """Return the finding that an event reports, with its kind; None if it reports none."""
    from softcard.attach.fletcher import events as session
    from softcard.device.fletcher import events

    match event:
        case session.Disconnected(error=error) if error is not None:
            return of_error(error), f"disconnected {rule_of(error)}"
        case session.Refused(error=error):
            return of_error(error), f"refused {rule_of(error)}"
        case events.Lint(check=check):
            return event.diagnostic(), check
        case events.KernelFailed(error=error):
            found, cause = of_error(error), error.__cause__  # the exception of the user's kernel
            if cause is not None:
                lines = "".join(traceback.format_exception(cause)).rstrip()
                found = replace(found, message=f"{found.message}\n{lines}")
            return found, f"error {rule_of(error)}"
        case _:
            return None, ""


def _text(event: Event, trace: bool) -> tuple[str, str]:
    """Return the text of an event that is not a finding, and a kind if it may occur often; each may be "".

    Register accesses have a text only with `trace`.
    """
    from softcard.attach.fletcher import events as session
    from softcard.device.fletcher import events

    match event:
        case session.Connected(session=number):
            return f"host {number} connected", ""
        case session.Disconnected(session=number, freed=freed):
            left = f", without freeing {freed} allocations" if freed else ""
            return f"host {number} has disconnected{left}", ""
        case session.Waits(time=time, session=number):
            silent = "" if time else ", which has sent nothing"
            return f"another host waits: host {number} is connected{silent}", "another host waits"
        case session.TurnedAway(reason=reason):
            return f"connection refused: {reason}", "refused connection"
        case events.KernelText(text=text):
            return text, ""
        case events.KernelStarted(kernel=kernel, ranges=ranges):
            rows = ", ".join(f"{name} {first} to {last}" for name, first, last in ranges)
            return f"kernel {kernel} starts: {rows}", ""
        case events.KernelFinished(kernel=kernel, result=result, slices=slices):
            return f"kernel {kernel} is done: result {result:#x}, {slices} slices", ""
        case events.KernelAborted(kernel=kernel, by=by):
            return f"kernel {kernel} is ended by {by}", ""
        case events.RegisterAccess(address=address, name=name, value=value, write=write, response=response) if trace:
            arrow, status = "<=" if write else "=>", " SLVERR" if response else ""
            return f"{'W' if write else 'R'} {address:#05x} {arrow} {value:#010x} {name}{status}", ""
        case _:
            return "", ""
