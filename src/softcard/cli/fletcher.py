"""`softcard fletcher`: register maps from Arrow schemas, and templates of kernels in Python."""

from __future__ import annotations

import keyword
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from softcard.cli.exits import ExitCode, UsageError, usage_errors
from softcard.cli.files import check_folder, parse_number, reading, writing
from softcard.cli.options import Format, FormatOption, JsonOption, OffsetOption, chosen_format
from softcard.cli.records import formatted
from softcard.cli.tables import Terminal, show_diagnostics
from softcard.core.errors import SoftcardError, WireError

if TYPE_CHECKING:
    from softcard.device.fletcher.map.checker import Agreement
    from softcard.device.fletcher.map.layout import FletcherMap


TABLE_WIDTH: Final = 200
"""The minimum width of a table in characters: names must not be cut, even on a narrow terminal."""

app = typer.Typer(help="Fletcher: register maps from Arrow schemas, and templates of kernels.", no_args_is_help=True)


@app.callback()
def _fletcher() -> None:
    """Fletcher: register maps from Arrow schemas, and templates of kernels."""


class MapProfile(StrEnum):
    """The tools whose register maps can be shown."""

    FLETCHGEN = "fletchgen"
    RUNTIME = "runtime"
    SPEC = "spec"


class MapForm(StrEnum):
    """The output formats of a register map."""

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
        "--custom", "--reg", metavar="REG", help="A custom register, such as c:16:cat or s:64:dog; can be repeated."
    ),
]
WideBus = Annotated[bool, typer.Option("--mmio64", help="Use a bus of 64 bits instead of 32.")]


@app.command("map")
def show_map(
    schemas: Schemas,
    custom: Custom = None,
    offset: OffsetOption = "0",
    mmio64: WideBus = False,
    profile: Annotated[
        MapProfile,
        typer.Option(
            help="Register map of the generator, of the run-time library (in queue order), or of the document."
        ),
    ] = MapProfile.FLETCHGEN,
    form: Annotated[MapForm, typer.Option("--format", help="Table, vhdmmio's YAML, SystemRDL, C header, Markdown.")] = (
        MapForm.TABLE
    ),
) -> None:
    """Show the register map of a design that works on these RecordBatches.

    Exit status 1 if the tool that --profile names rejects the design."""
    batches = read_files(schemas)
    from softcard.device.fletcher.map.build import fletcher_map
    from softcard.report import fletcher as report

    plan = fletcher_map(
        batches,
        profile=profile.value,
        custom=_registers(custom),
        offset=parse_offset(offset),
        bus_width=_bus_width(mmio64),
    )
    writers: dict[MapForm, Callable[[FletcherMap], str]] = {
        MapForm.YAML: report.to_vhdmmio,
        MapForm.RDL: report.to_rdl,
        MapForm.C: report.to_header,
        MapForm.MD: report.to_markdown,
    }
    if form is MapForm.TABLE:
        _show(plan)
    else:
        print(writers[form](plan), end="")


@app.command()
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the kernel, of its Python function and of its file.")
    ],
    schemas: Schemas,
    custom: Custom = None,
    folder: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write to; it is made if it does not exist."),
    ] = Path(),
) -> None:
    """Write a virtual kernel for these schemas, and a test that passes, as a starting point.

    The command writes NAME.py, test_NAME.py, and each schema in a file with the
    name of its RecordBatch. It does not overwrite any file.

      softcard fletcher new turnover trades.as --custom c:64:minimum -o sim"""
    check_folder(folder)
    batches = read_files(schemas)

    from softcard.device.fletcher.map.build import fletcher_map

    found = template_files(name, fletcher_map(batches, custom=_registers(custom)))
    for file, data in found.items():
        with writing(folder / file):
            if (folder / file).exists() and (folder / file).read_bytes() != data:
                raise UsageError(f"{folder / file} exists already with different content: choose another --output")
    for file, data in found.items():
        with writing(folder / file):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(data)
        print(folder / file)


@app.command()
def check(
    schemas: Schemas,
    custom: Custom = None,
    mmio64: WideBus = False,
    form: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Show where the generator and the run-time library disagree about a design.

    Give SCHEMA... in the order in which the host queues the RecordBatches. Exit status 1 if generator and
    run-time library disagree."""
    form = chosen_format(form, as_json)
    batches = read_files(schemas)
    from softcard.device.fletcher.map.checker import check_design

    found = check_design(batches, custom=_registers(custom), bus_width=_bus_width(mmio64))
    if form is Format.TEXT:
        _print_agreement(found)
    else:
        print(formatted(form, schemas[0], [each.diagnostic() for each in found.findings]), end="")
    raise typer.Exit(ExitCode.OK if found.agree else ExitCode.GUEST)


def need_pyarrow() -> None:
    """Raise `UsageError` if pyarrow is missing."""
    from softcard.image.arrow_schema import ArrowMissing, pyarrow

    try:
        pyarrow()
    except ArrowMissing as error:
        raise UsageError(error.message) from None


def read_files(paths: list[Path]) -> list[Any]:
    """Return the Arrow schemas and RecordBatches in these files.

    Raise `UsageError` for files that cannot be read, or if pyarrow is missing.
    """
    need_pyarrow()
    from softcard.image.arrow_schema import read_arrow

    found = []
    for path in paths:
        with reading(path):
            try:
                found.append(read_arrow(path))
            except SoftcardError as error:
                raise error.at("file", str(path)) from None
    return found


def _registers(texts: list[str] | None) -> list[str]:
    from softcard.device.fletcher.map.registers import parse_custom

    found = [word for text in texts or () for word in text.split()]
    with usage_errors():
        for each in found:
            parse_custom(each)
    return found


def _bus_width(mmio64: bool) -> int:
    return 64 if mmio64 else 32


def parse_offset(text: str) -> int:
    """Return the number in `text`, the value of --offset: the address of a register map's first register.

    Raise `UsageError` unless it is a 32-bit number and a multiple of the size of a register."""
    from softcard.device.fletcher.map.registers import REGISTER_BYTES

    try:
        number = parse_number(text, 32)
    except WireError as error:
        raise UsageError(f"--offset: {error.message}") from None
    if number % REGISTER_BYTES:
        raise UsageError(f"--offset is {number:#x}, expected a multiple of {REGISTER_BYTES}")
    return number


def _show(plan: FletcherMap) -> None:
    """Print a Fletcher register map as a table, with one row for each field."""
    from softcard.report.fletcher import HEADINGS, rows

    table = Table(
        title=f"profile {plan.profile}, {plan.bus_width}-bit bus, {plan.size_bytes} bytes", title_justify="left"
    )
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in ("register", "host may") else "right", no_wrap=True)
    for row in rows(plan):
        table.add_row(*map(Text, row))
    width = max(Terminal().width, TABLE_WIDTH)
    Terminal(highlight=False, width=width).print(table, crop=False)


def _print_agreement(found: Agreement) -> None:
    """Print the findings, the registers with different addresses, and the result of the comparison.

    `found` compares the register maps of Fletcher's generator and of its run-time library.
    """
    console = Terminal(highlight=False, soft_wrap=True)
    show_diagnostics([each.diagnostic() for each in found.findings], sys.stdout)
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


# ---- templates of kernels --------------------------------------------------------------------------------------------

KERNEL_TEMPLATE: Final = '''"""The kernel {name} as a function of the RecordBatches that it reads."""

from pathlib import Path

import pyarrow as pa
from softcard.fletcher import kernel

HERE = Path(__file__).parent
READ, WRITE = {read!r}, {write!r}


@kernel(
    read={{batch: pa.ipc.read_schema(HERE / f"{{batch}}.as") for batch in READ}},
    write={{batch: pa.ipc.read_schema(HERE / f"{{batch}}.as") for batch in WRITE}},
    custom={custom!r},
)
def {name}(job):
    """Return the number of rows: replace this by the computation of your kernel."""
{comments}    return sum(job.batch(batch).num_rows for batch in READ)
'''
TEST_TEMPLATE: Final = '''"""The host program of {name}, with the calls of Fletcher's run-time library."""

from softcard.fletcher import Context, Kernel, Platform, empty_batch

from {name} import READ, {name}

ROWS = 4


def run(batches, arguments):
    """Run the kernel on these RecordBatches; return its result, and their content afterwards."""
    with Platform({name}) as platform, Context(platform) as context:
        for batch in batches:
            context.queue_record_batch(batch)
        context.enable()
        started = Kernel(context)
        started.set_arguments(arguments)
        started.start()
        started.wait_for_finish()
        return started.get_return("uint64"), [context.read_record_batch(n) for n in range(len(batches))]


def test_{name}():
    # Rows of zeros, with room for 64 elements below each list or string: put your own here.
    batches = [empty_batch(schema, rows=ROWS, elements=64) for schema in {name}.schemas]
    result, after = run(batches, {values})
    assert result == ROWS * len(READ)
    assert len(after) == len(batches)
'''


def template_files(name: str, design: FletcherMap) -> dict[str, bytes]:
    """Return the files of a kernel template by name: the kernel, its test, and each schema as Arrow IPC."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is not a valid name of a Python function")
    names = [each.name for each in design.batches]
    for each in names:
        if not each.replace("-", "_").isidentifier():
            raise UsageError(
                f"RecordBatch {each!r} cannot be in a template, expected a name of letters, digits, _ and -"
            )
        if names.count(each) > 1:
            raise UsageError(f"two RecordBatches are called {each!r}")
    read, write = ([each.name for each in design.batches if each.mode.value == mode] for mode in ("read", "write"))
    controls = [each.name for each in design.customs if each.behaviour == "c"]
    states = [each.name for each in design.customs if each.behaviour == "s"]
    comments = [f"    # job.control({each!r}) is the value that the host has written\n" for each in controls]
    comments += [f"    # job.set_status({each!r}, value) sets the value that the host reads\n" for each in states]
    comments += [f"    # job.write({each!r}, columns) writes rows: columns in order, or by name\n" for each in write]
    custom = [f"{each.behaviour}:{each.width}:{each.name}" for each in design.customs]
    kernel = KERNEL_TEMPLATE.format(name=name, read=read, write=write, custom=custom, comments="".join(comments))
    test = TEST_TEMPLATE.format(name=name, values=dict.fromkeys(controls, 0))
    schemas = {f"{each.name}.as": each.schema.serialize().to_pybytes() for each in design.batches}
    return {f"{name}.py": kernel.encode(), f"test_{name}.py": test.encode(), **schemas}
