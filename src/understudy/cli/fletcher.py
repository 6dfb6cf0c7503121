"""`understudy fletcher`: register maps from Arrow schemas, and kernels to begin with."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from understudy.cli.buffers import parse_number
from understudy.cli.exits import ExitCode, UsageError, of_options
from understudy.cli.files import reading, writing
from understudy.core.errors import UnderstudyError, WireError

if TYPE_CHECKING:
    from understudy.device.fletcher.map.checker import Agreement
    from understudy.device.fletcher.map.layout import FletcherMap

TABLE_WIDTH: Final = 200
"""Room for a table: names must not be cut, even where the terminal is narrow."""

app = typer.Typer(help="Fletcher: register maps from Arrow schemas, and kernels to begin with.", no_args_is_help=True)


@app.callback()
def _fletcher() -> None:
    """Fletcher: register maps from Arrow schemas, and kernels to begin with."""


class MapProfile(StrEnum):
    """Whose register map."""

    FLETCHGEN = "fletchgen"
    RUNTIME = "runtime"
    SPEC = "spec"


class Form(StrEnum):
    """How a map is shown."""

    TABLE = "table"
    YAML = "yaml"
    RDL = "rdl"
    C = "c"
    MD = "md"


Schemas = Annotated[
    list[Path],
    typer.Argument(
        metavar="SCHEMA...", help="Arrow IPC schema files (.as), or files with a RecordBatch; in queue order."
    ),
]
Custom = Annotated[
    list[str] | None,
    typer.Option(
        "--custom", "--reg", metavar="REG", help="A custom register such as c:16:cat or s:64:dog; again for more."
    ),
]
WideBus = Annotated[bool, typer.Option("--mmio64", help="A bus of 64 bits instead of 32.")]


@app.command("map")
def show_map(
    schemas: Schemas,
    custom: Custom = None,
    offset: Annotated[str, typer.Option(metavar="N", help="Address of the first register, decimal or 0x hex.")] = "0",
    mmio64: WideBus = False,
    profile: Annotated[
        MapProfile,
        typer.Option(help="The generator's map, the run-time library's (in queue order), or the document's."),
    ] = MapProfile.FLETCHGEN,
    form: Annotated[Form, typer.Option("--format", help="Table, vhdmmio's YAML, SystemRDL, C header, Markdown.")] = (
        Form.TABLE
    ),
) -> None:
    """Show the register map of a design that works on these RecordBatches.

    Exit status 1 where the tool of the profile refuses the design.
    """
    batches = read_files(schemas)
    from understudy.device.fletcher.map.build import fletcher_map
    from understudy.report import fletcher as report

    plan = fletcher_map(
        batches,
        profile=profile.value,
        custom=_registers(custom),
        offset=parse_offset(offset),
        bus_width=_bus_width(mmio64),
    )
    writers: dict[Form, Callable[[FletcherMap], str]] = {
        Form.YAML: report.to_vhdmmio,
        Form.RDL: report.to_rdl,
        Form.C: report.to_header,
        Form.MD: report.to_markdown,
    }
    if form is Form.TABLE:
        _show(plan)
    else:
        print(writers[form](plan), end="")


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The kernel's name, that of its function and its file.")],
    schemas: Schemas,
    custom: Custom = None,
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write; made where it is not there.")
    ] = Path(),
) -> None:
    """Write a virtual kernel for these schemas, and a test that passes: a place to begin.

    NAME.py, test_NAME.py, and each schema by its RecordBatch's name. Nothing is
    overwritten.

      understudy fletcher new turnover trades.as --custom c:64:minimum -o sim
    """
    batches = read_files(schemas)
    from understudy.cli.fletcher_new import files
    from understudy.device.fletcher.map.build import fletcher_map

    found = files(name, fletcher_map(batches, custom=_registers(custom)))
    for file, data in found.items():
        with writing(folder / file):
            if (folder / file).exists() and (folder / file).read_bytes() != data:
                raise UsageError(f"{folder / file} is there already")
    for file, data in found.items():
        with writing(folder / file):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(data)
        print(folder / file)


@app.command()
def check(schemas: Schemas, custom: Custom = None, mmio64: WideBus = False) -> None:
    """Say where the generator and the run-time library disagree about a design.

    SCHEMA... are in the order in which the host queues their RecordBatches. Exit status 1 if host and hardware would
    not fit each other.
    """
    batches = read_files(schemas)
    from understudy.device.fletcher.map.checker import check_design

    found = check_design(batches, custom=_registers(custom), bus_width=_bus_width(mmio64))
    _tell(found)
    raise typer.Exit(ExitCode.OK if found.agree else ExitCode.GUEST)


def need_pyarrow() -> None:
    """`UsageError` where it is missing."""
    from understudy.image.arrow_schema import ArrowMissing, pyarrow

    try:
        pyarrow()
    except ArrowMissing as error:
        raise UsageError(error.message) from None


def read_files(paths: list[Path]) -> list[Any]:
    """Schemas and RecordBatches from files; `UsageError` for files that cannot be read, or where pyarrow is missing."""
    need_pyarrow()
    from understudy.image.arrow_schema import read_arrow

    found = []
    for path in paths:
        with reading(path):
            try:
                found.append(read_arrow(path))
            except UnderstudyError as error:
                raise error.at("file", str(path)) from None
    return found


def _registers(texts: list[str] | None) -> list[str]:
    from understudy.device.fletcher.map.custom import parse_custom

    found = [word for text in texts or () for word in text.split()]
    with of_options():
        for each in found:
            parse_custom(each)
    return found


def _bus_width(mmio64: bool) -> int:
    return 64 if mmio64 else 32


def parse_offset(text: str) -> int:
    """The address of a map's first register; `UsageError` for what is none."""
    from understudy.device.fletcher.map.registers import REGISTER_BYTES

    try:
        number = parse_number(text, 32)
    except WireError as error:
        raise UsageError(f"offset {error.message}") from None
    if number % REGISTER_BYTES:
        raise UsageError(f"offset {number:#x} is no multiple of {REGISTER_BYTES}")
    return number


def _show(plan: FletcherMap) -> None:
    """The map as a table, one row per field."""
    from understudy.report.fletcher import HEADINGS, rows

    table = Table(
        title=f"profile {plan.profile}, {plan.bus_width}-bit bus, {plan.size_bytes} bytes", title_justify="left"
    )
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in ("register", "host may") else "right", no_wrap=True)
    for row in rows(plan):
        table.add_row(*map(Text, row))
    width = max(Console().width, TABLE_WIDTH)
    Console(highlight=False, width=width).print(table, crop=False)


def _tell(found: Agreement) -> None:
    """The verdict: findings, registers that are elsewhere, and what to do."""
    from understudy.device.fletcher.map.checker import Severity

    console = Console(highlight=False, soft_wrap=True)
    for finding in found.findings:
        shown = Text(str(finding))
        shown.stylize("bold red" if finding.severity is Severity.ERROR else "cyan", 0, len(finding.severity.value))
        console.print(shown)
    if found.moved:
        table = Table("register", "hardware", "host")
        for moved in found.moved:
            table.add_row(Text(moved.name), _address(moved.generator), _address(moved.runtime))
        console.print(table)
    if found.agree:
        order = ", ".join(found.queue_order) or "none"
        console.print(Text(f"generator and run-time library agree; RecordBatches in queue order: {order}"))
    else:
        console.print(Text("host and hardware would not fit each other"))


def _address(address: int | None) -> str:
    return "none" if address is None else f"{address:#x}"
