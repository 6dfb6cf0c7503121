"""`softcard opencl`: the OpenCL platform for unmodified host programs."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softcard.cli.exits import UsageError, usage_errors
from softcard.cli.options import (
    CheckOption,
    Engine,
    EngineOption,
    EqualStoresOption,
    PoisonOption,
    SuppressionsOption,
    TimeLimitOption,
    check_outputs,
    checked,
    complete_cards,
    poison_of,
    time_limit_of,
)
from softcard.core.checks import default_checks

if TYPE_CHECKING:
    from softcard.attach.opencl.installing import Place

app = typer.Typer(help="OpenCL: install the platform for programs, or print its environment variables.")

SystemOption = Annotated[
    bool, typer.Option("--system", help="All programs of this machine; the command needs the rights of root.")
]
PrefixOption = Annotated[
    Path | None,
    typer.Option("--prefix", metavar="FOLDER", help="Programs of an installation, such as $CONDA_PREFIX of conda."),
]
PyopenclOption = Annotated[
    bool, typer.Option("--pyopencl", help="Programs of this Python that use the pyopencl of PyPI.")
]


@app.callback()
def _opencl() -> None:
    """OpenCL: install the platform for programs, or print its environment variables."""


@app.command()
def env(
    agents: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="NAME",
            help="A device of the platform, gfx803 to gfx950; can be repeated. The first is the default device.",
            autocompletion=complete_cards,
        ),
    ] = None,
    check: CheckOption = "",
    suppressions: SuppressionsOption = None,
    equal_stores: EqualStoresOption = False,
    poison: PoisonOption = "",
    engine: EngineOption = Engine.JIT,
    time_limit: TimeLimitOption = None,
) -> None:
    """Print the variables by which programs find the platform, for a shell.

    Programs then find no other platform, whatever loader they use.

      eval "$(softcard opencl env --check memory,races)"

    The options select devices and settings, as for `softcard exec --device opencl`."""
    from softcard.attach.opencl import variables
    from softcard.attach.opencl.installing import vendors
    from softcard.attach.opencl.library import build_library

    check_agents(agents or ())
    check_outputs(None, suppressions, checked(check) or default_checks(), equal_stores)
    settings = variables.of_settings(
        tuple(agents or ()),
        engine="" if engine is Engine.JIT else engine.value,
        check=check,
        time_limit_seconds=None if time_limit is None else time_limit_of(time_limit),
        suppressions="" if suppressions is None else str(suppressions.absolute()),
        equal_stores=equal_stores,
        poison=poison_of(poison),
    )
    library = build_library()
    with usage_errors():
        found = variables.of_loaders(vendors(library), library.path) | settings
    for name, value in found.items():
        print(f"export {name}={shlex.quote(value)}")


@app.command()
def install(system: SystemOption = False, prefix: PrefixOption = None, pyopencl: PyopenclOption = False) -> None:
    """Install the platform for programs that set no variables.

    The command compiles the platform's library, copies it, and writes the file
    softcard.icd, by which loaders find the library. Install the platform again
    after an update of Softcard.

      softcard opencl install --pyopencl"""
    from softcard.attach.opencl.library import build_library

    place = _place(system, prefix, pyopencl)
    library = build_library()
    with usage_errors():
        place.install(library)
    for path in (place.library, place.icd):
        print(f"wrote {path}")
    print('OpenCL programs find the platform "Softcard"' + (f" with {_use(place)}" if prefix else ""))


@app.command()
def uninstall(system: SystemOption = False, prefix: PrefixOption = None, pyopencl: PyopenclOption = False) -> None:
    """Remove what `install` with the same option wrote."""
    place = _place(system, prefix, pyopencl)
    with usage_errors():
        removed = place.uninstall()
    for path in removed:
        print(f"removed {path}")


def check_agents(agents: list[str] | tuple[str, ...]) -> None:
    """Raise `UsageError` unless the OpenCL platform has devices for all `agents`, and for not too many of them."""
    from softcard.device.kfd.node import nodes

    if agents:
        with usage_errors():
            nodes(agents)


def _place(system: bool, prefix: Path | None, pyopencl: bool) -> Place:
    """Return the place that the options select; raise `UsageError` unless they select exactly one."""
    from softcard.attach.opencl.installing import of_prefix, of_pyopencl, of_system

    if system + (prefix is not None) + pyopencl != 1:
        raise UsageError("expected one of --pyopencl, --prefix FOLDER and --system, which select the programs")
    with usage_errors():
        return of_system() if system else of_pyopencl() if prefix is None else of_prefix(prefix)


def _use(place: Place) -> str:
    """Return the description of the programs that find the platform in a prefix."""
    if place.vendors.is_relative_to(Path(os.environ.get("CONDA_PREFIX") or os.devnull)):
        return "the loader of this conda environment"
    return f"the loader of this installation, or with OCL_ICD_VENDORS={place.vendors}"
