"""`softcard refsi`: the RefSi command processor."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from softcard.cli.exits import ExitCode, UsageError
from softcard.cli.file_kinds import Form, read_buffer
from softcard.cli.files import MAX_FILE_BYTES, in_text, open_file, print_written, read_file, reading, write_file
from softcard.cli.options import (
    Engine,
    EngineOption,
    Format,
    FormatOption,
    HartsOption,
    JsonOption,
    Tier,
    TierOption,
    chosen_format,
)
from softcard.cli.progress import progress
from softcard.cli.tables import Terminal
from softcard.core.diagnostics import Diagnostic
from softcard.core.display import byte_size
from softcard.core.errors import SoftcardError
from softcard.device.refsi.commands import CHUNK_BYTES
from softcard.device.refsi.registers import M1_HARTS
from softcard.device.refsi.toolkit.lint import Severity
from softcard.device.refsi.toolkit.lint import lint as lint_buffer
from softcard.device.refsi.toolkit.listing import lines

PROFILE_LEVEL_VARIABLE = "CA_PROFILE_LEVEL"
"""The environment variable that enables performance counters, as for the reference driver."""

app = typer.Typer(help="RefSi: build kernels, play scripts, read, check and write command buffers.")


@app.callback()
def _refsi() -> None:
    """RefSi: build kernels, play scripts, read, check and write command buffers."""


class Profile(StrEnum):
    """The profiles of RefSi devices: their behaviour follows the RefSi M1 specification or the reference driver."""

    SPEC = "spec"
    REFSIDRV = "refsidrv"


STEP_LIMIT = 2_000_000_000
"""The maximum number of instructions of a command in a script; a command that exceeds it counts as an endless loop."""

Buffer = Annotated[Path, typer.Argument(metavar="FILE", help="The command buffer; - for standard input.")]
FormOption = Annotated[Form, typer.Option("--as", help="The form of FILE, if its content does not show it.")]
ProfileOption = Annotated[
    Profile, typer.Option(help="Behaviour of the document (spec) or of the reference driver (refsidrv).")
]


@app.command()
def play(
    script: Annotated[Path, typer.Argument(help="The script; - for standard input.")] = Path("-"),
    profile: ProfileOption = Profile.REFSIDRV,
    engine: EngineOption = Engine.JIT,
    tier: TierOption = Tier.AUTO,
    profile_level: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=f"Level of performance counters to enable; by default {PROFILE_LEVEL_VARIABLE}, in profile refsidrv.",
        ),
    ] = None,
    step_limit: Annotated[
        int, typer.Option(min=0, help="Maximum number of instructions of one command; 0 for no limit.")
    ] = STEP_LIMIT,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the result of each command buffer on standard error.")
    ] = False,
    form: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Play a script of driver calls on a virtual device and print what the reference driver prints.

    Findings are printed on standard error, as text at once, or in another format at the end. Exit status 1 if
    the reference would have crashed or, in profile spec, if a rule was broken.
    """
    from softcard.cli.recordings import Player, Settings
    from softcard.cli.records import formatted

    form = chosen_format(form, as_json)
    settings = Settings(
        profile=profile.value,
        engine=engine.value,
        tier=tier.value,
        profile_level=_profile_level(profile_level, profile),
        step_limit=step_limit or None,
        explain=explain,
    )
    current: dict[int, str] = {}
    found: list[Diagnostic] = []
    player = Player(
        settings,
        sys.stdout.buffer,
        sys.stderr,
        located=lambda error: in_text(error, script, current),
        on_finding=None if form is Format.TEXT else found.append,
    )
    try:
        status = player.play(_script_lines(script, current))
    except SoftcardError as error:
        raise in_text(error, script, current) if any(place.kind == "line" for place in error.path) else error from None
    finally:
        if form is not Format.TEXT:
            print(formatted(form, script, found), end="", file=sys.stderr)
    raise typer.Exit(status)


def _script_lines(script: Path, current: dict[int, str]) -> Iterator[str]:
    """Yield the lines of the script as they arrive; they may contain arbitrary bytes.

    `current` gets the line that was yielded last, by its number."""
    with open_file(script) as source:
        for number in itertools.count(1):
            with reading(script):
                line = source.readline(MAX_FILE_BYTES + 1)
            if not line:
                return
            if len(line) > MAX_FILE_BYTES:
                raise (
                    UsageError(f"a line has more than {byte_size(MAX_FILE_BYTES)}")
                    .at("line", number)
                    .at("file", str(script))
                )
            text = line.decode("utf-8", "surrogateescape")
            current.clear()
            current[number] = text.rstrip("\r\n")
            yield text


@app.command()
def decode(file: Buffer = Path("-"), form: FormOption = Form.AUTO) -> None:
    """List a command buffer, one line per command, with its fields explained.

    FILE holds little-endian binary, 64-bit words as in a script, or a listing. Exit status 1 if a part of it is not a
    valid command.
    """
    console = Terminal(highlight=False, soft_wrap=True)
    all_good = True
    for line in lines(read_buffer(file, form).data):
        shown = Text(str(line).partition(" ; ")[0], style="" if line.command else "red")
        if line.comment:
            shown.append(str(line)[len(shown) :], style="dim")
        console.print(shown)
        all_good = all_good and line.command is not None
    raise typer.Exit(ExitCode.OK if all_good else ExitCode.GUEST)


@app.command()
def lint(
    file: Buffer = Path("-"),
    form: FormOption = Form.AUTO,
    profile: ProfileOption = Profile.SPEC,
    harts: HartsOption = M1_HARTS,
    output: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Find mistakes in a command buffer without running it. Exit status 1 if there are errors."""
    from softcard.cli.inspect import print_diagnostics
    from softcard.cli.records import formatted

    output = chosen_format(output, as_json)
    buffer = read_buffer(file, form)
    findings = lint_buffer(buffer.data, harts=harts, profile=profile.value)
    found = [buffer.located(each.diagnostic()) for each in findings]
    if output is Format.TEXT:
        print_diagnostics(file, "", found)
    else:
        print(formatted(output, file, found), end="")
    raise typer.Exit(ExitCode.GUEST if any(each.severity is Severity.ERROR for each in findings) else ExitCode.OK)


@app.command()
def encode(
    file: Buffer = Path("-"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the command buffer to this file, in binary form.")
    ] = None,
) -> None:
    """Turn a listing, or 64-bit words as text, into a command buffer.

    The command prints it as words, or writes it in binary with --output."""
    data = read_buffer(file).data
    if output is not None:
        write_file(output, data)
        return
    if len(data) % CHUNK_BYTES:
        text = (
            f"the data has {len(data)} bytes, expected whole chunks of {CHUNK_BYTES} bytes; use --output to write "
            "any number of bytes"
        )
        raise UsageError(text)
    for place in range(0, len(data), CHUNK_BYTES):
        print(f"{int.from_bytes(data[place : place + CHUNK_BYTES], 'little'):#x}")


@app.command()
def build(
    file: Annotated[Path, typer.Argument(help="The source, in C, C++ or assembly: .c, .cpp, .cc, .cxx, .s, .S.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Name of the program to write; by default FILE with the suffix .elf."),
    ] = None,
    compiler: Annotated[
        str, typer.Option(metavar="NAME", help="Compiler to use; by default the first one that is found.")
    ] = "",
    march: Annotated[
        str,
        typer.Option(metavar="ISA", help="Instruction set to compile for, such as rv64gcv_zvl512b for vector code."),
    ] = "rv64gc",
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="WORD", help="Option for the compiler, such as --option=-O3; can be repeated."
        ),
    ] = None,
) -> None:
    """Compile a C, C++ or assembly file to a program for RefSi's harts.

    The compiler is ziglang's clang, an installed clang with lld, or
    riscv64-unknown-elf-gcc. Source files can include softcard_refsi.h, string.h
    and math.h. Each global function of the program is a kernel; its first
    parameter is the number of the instance.

      softcard refsi build k.c && softcard run k.elf scale --grid 4 --arg 2"""
    from softcard.host.refsi.compile import compile_kernels
    from softcard.image.riscv.program import read_elf

    read_file(file)
    with progress(f"compiling {file.name}") as bar:
        data = compile_kernels(file, compiler=compiler, march=march, options=options or (), warn=bar.print)
    place = output or file.with_suffix(".elf")
    write_file(place, data)
    print_written(place, f"{place}: {', '.join(read_elf(data).kernels)}")


@app.command()
def flags() -> None:
    """Print compiler flags for a C or C++ host program: the header of the driver's interface, and the library.

    cc host.c $(softcard refsi flags) -o host && softcard exec --device refsi -- ./host
    """
    from softcard.attach.refsi import build_library

    print(build_library().flags)


@app.command()
def header() -> None:
    """Print the header of the driver's C interface, refsidrv/refsidrv.h."""
    from softcard.attach.refsi import INCLUDE

    print((INCLUDE / "refsidrv" / "refsidrv.h").read_text("utf-8"), end="")


def _profile_level(option: int | None, profile: Profile) -> int:
    if option is not None:
        return option
    text = os.environ.get(PROFILE_LEVEL_VARIABLE, "") if profile is Profile.REFSIDRV else ""
    if text and not text.isdigit():
        raise UsageError(f"{PROFILE_LEVEL_VARIABLE} is {text!r}, expected a number")
    return int(text or 0)
