"""`understudy serve fletcher`: a Fletcher device for host programs in other processes."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from understudy.cli import completion
from understudy.cli.exits import UsageError, of_options
from understudy.cli.files import read_file
from understudy.cli.fletcher import need_pyarrow, parse_offset, read_files
from understudy.cli.map_profiles import MapProfile
from understudy.cli.output import Output
from understudy.cli.serving import Repeated, rule_of
from understudy.core.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.core.event import Event
    from understudy.device.fletcher.kernel import Kernel
    from understudy.device.fletcher.map.layout import FletcherMap, Profile


class DeviceProfile(StrEnum):
    """How the registers answer."""

    SPEC = "spec"
    HARDWARE = "hardware"


def serve_fletcher(
    kernel: Annotated[
        str,
        typer.Option(
            metavar="KERNEL",
            help="A built-in kernel, or FILE.py:NAME for one of your own.",
            autocompletion=completion.fletcher_kernels,
        ),
    ] = "sum",
    socket: Annotated[
        Path | None, typer.Option("--socket", metavar="PATH", help="Socket to make; by default one of the user's own.")
    ] = None,
    schemas: Annotated[
        list[Path] | None,
        typer.Option("--schema", metavar="FILE", help="Arrow schema of a RecordBatch instead of the kernel's; again."),
    ] = None,
    profile: Annotated[
        DeviceProfile, typer.Option(help="Registers as documented, every wrong access an error; or as generated.")
    ] = DeviceProfile.SPEC,
    order: Annotated[
        MapProfile, typer.Option("--map", help="The generator's register map, or the run-time library's.")
    ] = MapProfile.FLETCHGEN,
    offset: Annotated[str, typer.Option(metavar="N", help="Address of the first register, decimal or 0x hex.")] = "0",
    library: Annotated[
        bool, typer.Option("--library/--no-library", help="Compile the platform library and say how to use it.")
    ] = True,
    threaded: Annotated[
        bool, typer.Option("--threaded", help="The kernel has a thread of its own: registers answer at once.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Do not reset the device for each host program.")] = False,
    once: Annotated[bool, typer.Option("--once", help="End when the first host program has gone.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show every register access.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say only where the device listens.")] = False,
) -> None:
    """Be a Fletcher device, and say what its host program does wrong.

    Unmodified programs of the Fletcher run-time, in C++ or Python, find it through the environment that is shown.
    Interrupt it to end.
    """
    need_pyarrow()
    from understudy.attach.fletcher import DevicePlatform, Server, build_library, default_socket, make_private
    from understudy.cli.serving import SWITCH_INTERVAL_S, ended_by_signals
    from understudy.core.lint import OFF
    from understudy.core.settings import SYNCHRONOUS, THREADED
    from understudy.device.fletcher.device import FletcherDevice
    from understudy.device.fletcher.settings import Settings

    chosen = load_kernel(kernel)
    settings = Settings(profile=profile.value, execution=THREADED if threaded else SYNCHRONOUS, lints=OFF)
    device = FletcherDevice(register_map(chosen, schemas or [], order.value, parse_offset(offset)), chosen, settings)
    path = socket
    if path is None:
        path = default_socket()
        with of_options():
            make_private(path.parent)
    if threaded:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
    with closing(Output()) as output, Server(DevicePlatform(device, keep=keep)) as server:
        tell = teller(trace, output.say)
        if not quiet:
            server.probes.subscribe(tell)
            device.probes.subscribe(tell)
        built = build_library() if library else None
        with ended_by_signals([server]):
            with of_options():
                server.listen(path)
            output.say(f"{chosen.name}: listening at {path}")
            if built is not None and not quiet:
                for what, detect in (("platform understudy", False), ("any platform", True)):
                    words = built.shell_environment(path, autodetect=detect)
                    output.say(f"for programs that ask for {what}:\n  {words} PROGRAM")
            server.serve(1 if once else None)
            device.close()  # waits for the kernel's thread, which a second signal does not


def load_kernel(name: str) -> Kernel:
    """A built-in kernel, or what FILE.py:NAME names; `UsageError` where that is none."""
    from understudy.device.fletcher.kernel import Kernel
    from understudy.device.fletcher.kernels import find

    file, colon, attribute = name.rpartition(":")
    if not colon:
        try:
            return find(name)
        except UnderstudyError as error:
            raise UsageError(f"{error.message}, or FILE.py:NAME") from None
    module = _run_file(Path(file))
    found = getattr(module, attribute, None)
    if not isinstance(found, Kernel):
        kernels = " ".join(key for key, value in vars(module).items() if isinstance(value, Kernel)) or "none"
        raise UsageError(f"{file} has no kernel {attribute} (its kernels: {kernels})")
    return found


def _run_file(path: Path) -> Any:
    """The module that a Python file makes. It is the user's own code: whatever it raises is told with its place."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"cannot read {path}, expected a Python file")
    read_file(path)  # what cannot be read is told as everywhere, not as an exception of the module
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001  # see above
        raise UsageError(f"{path} raised {type(error).__name__}: {error}") from None
    return module


def register_map(kernel: Kernel, schemas: list[Path], profile: str, offset: int) -> FletcherMap:
    """The register map of the kernel, with the given schemas instead of its own."""
    from understudy.device.fletcher.map.build import fletcher_map

    batches = read_files(schemas)
    if not batches and not kernel.schemas:
        raise UsageError(f"kernel {kernel.name} takes any schemas, expected --schema for each of its RecordBatches")
    named = cast("Profile", profile)
    return fletcher_map(batches or kernel.schemas, custom=kernel.custom, profile=named, offset=offset)


def teller(trace: bool, say: Callable[[str], None]) -> Callable[[Event], None]:
    """A probe that says what a host's author wants to know, a line each; of equal findings the first few."""
    findings = Repeated(say)

    def tell(event: Event) -> None:
        text, kind = _text(event, trace)
        if kind:
            findings.tell(kind, text)
        elif text:
            say(text)

    return tell


def _text(event: Event, trace: bool) -> tuple[str, str]:
    """What to say about an event, "" for nothing; and what kind of finding it is, "" for none."""
    from understudy.attach.fletcher import events as session
    from understudy.device.fletcher import events

    match event:
        case session.Connected(session=number):
            return f"host {number} connected", ""
        case session.Disconnected(session=number, error=error, freed=freed):
            left = f", and left {freed} allocations behind" if freed else ""
            return f"host {number} is gone{left}" + (f": {error}" if error else ""), ""
        case session.Waits(time=time, session=number):
            silent = "" if time else ", which has said nothing"
            return f"another host waits: host {number} is connected{silent}", "another host waits"
        case session.TurnedAway(reason=reason):
            return f"turned away: {reason}", "turned away"
        case session.Refused(error=error):
            return f"refused: {error}", f"refused {rule_of(error)}"
        case events.KernelText(text=text):
            return text, ""
        case events.Lint(check=check):
            return f"lint: {event}", check
        case events.KernelStarted(kernel=kernel, ranges=ranges):
            rows = ", ".join(f"{name} {first} to {last}" for name, first, last in ranges)
            return f"kernel {kernel} starts: {rows}", ""
        case events.KernelFinished(kernel=kernel, result=result, slices=slices):
            return f"kernel {kernel} is done: result {result:#x}, {slices} slices", ""
        case events.KernelAborted(kernel=kernel, by=by):
            return f"kernel {kernel} is ended by {by}", ""
        case events.KernelFailed(error=error):
            cause = error.__cause__  # what the author's own code has raised
            shown = "" if cause is None else "\n" + "".join(traceback.format_exception(cause)).rstrip()
            return f"error: {error}{shown}", f"error {rule_of(error)}"
        case events.RegisterAccess(address=address, name=name, value=value, write=write, response=response) if trace:
            arrow, status = "<=" if write else "=>", " SLVERR" if response else ""
            return f"{'W' if write else 'R'} {address:#05x} {arrow} {value:#010x} {name}{status}", ""
        case _:
            return "", ""
