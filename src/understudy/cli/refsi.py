"""`understudy refsi`: the RefSi command processor."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from understudy.cli.buffers import Form, read_buffer
from understudy.cli.engines import Engine, EngineOption, Tier, TierOption
from understudy.cli.exits import ExitCode, UsageError
from understudy.cli.files import MAX_FILE_BYTES, open_file, read_file, reading, writing
from understudy.core.shown import count
from understudy.device.refsi.commands import CHUNK_BYTES
from understudy.device.refsi.registers import M1_HARTS
from understudy.device.refsi.toolkit.lint import Severity
from understudy.device.refsi.toolkit.lint import lint as lint_buffer
from understudy.device.refsi.toolkit.listing import lines

PROFILE_LEVEL_VARIABLE = "CA_PROFILE_LEVEL"
"""Environment variable with which recordings, as the reference driver, choose which counters count."""

app = typer.Typer(help="RefSi: build kernels, play scripts, read, check and write command buffers.")


@app.callback()
def _refsi() -> None:
    """RefSi: build kernels, play scripts, read, check and write command buffers."""


class Profile(StrEnum):
    """Whose behaviour the device shows."""

    SPEC = "spec"
    REFSIDRV = "refsidrv"


STEP_LIMIT = 2_000_000_000
"""A kernel that runs for longer than this in a script is taken for one that never returns."""

Buffer = Annotated[Path, typer.Argument(metavar="FILE", help="The command buffer; - is standard input.")]
FormOption = Annotated[Form, typer.Option("--form", help="How FILE is written down.")]
ProfileOption = Annotated[Profile, typer.Option(help="The document's behaviour, or the reference driver's.")]


@app.command()
def play(
    script: Annotated[Path, typer.Argument(help="The script; - is standard input.")] = Path("-"),
    profile: ProfileOption = Profile.REFSIDRV,
    engine: EngineOption = Engine.JIT,
    tier: TierOption = Tier.AUTO,
    profile_level: Annotated[
        int | None,
        typer.Option(min=0, help=f"Which counters count; profile refsidrv also looks at {PROFILE_LEVEL_VARIABLE}."),
    ] = None,
    step_limit: Annotated[
        int, typer.Option(min=0, help="Most instructions that one command may run; 0 for any number.")
    ] = STEP_LIMIT,
    explain: Annotated[bool, typer.Option("--explain", help="Say on stderr what became of each buffer.")] = False,
) -> None:
    """Play a script of driver calls on a virtual device and print what the reference driver prints.

    Exit status 1 where the reference would have crashed or, in profile spec, where a rule was broken.
    """
    from understudy.cli.player import Player, Settings  # here, since it loads the engines

    settings = Settings(
        profile=profile.value,
        engine=engine.value,
        tier=tier.value,
        profile_level=_profile_level(profile_level, profile),
        step_limit=step_limit or None,
        explain=explain,
    )
    player = Player(settings, sys.stdout.buffer, sys.stderr)
    raise typer.Exit(player.play(_script_lines(script)))


def _script_lines(script: Path) -> Iterator[str]:
    """Lines of the script as they come, any bytes."""
    with open_file(script) as source:
        for number in itertools.count(1):
            with reading(script):
                line = source.readline(MAX_FILE_BYTES + 1)
            if not line:
                return
            if len(line) > MAX_FILE_BYTES:
                raise UsageError(f"a line of more than {MAX_FILE_BYTES} bytes").at("line", number)
            yield line.decode("utf-8", "surrogateescape")


@app.command()
def decode(file: Buffer = Path("-"), form: FormOption = Form.AUTO) -> None:
    """List a command buffer, one line per command, with its fields explained.

    FILE holds little-endian binary, 64-bit words as in a script, or a listing. Exit status 1 if not all of it are
    commands.
    """
    console = Console(highlight=False, soft_wrap=True)
    all_good = True
    for line in lines(read_buffer(file, form)):
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
    harts: Annotated[int, typer.Option(min=1, max=255, help="Harts of the device.")] = M1_HARTS,
) -> None:
    """Find mistakes in a command buffer without running it. Exit status 1 if there are errors."""
    styles = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
    console = Console(highlight=False, soft_wrap=True)
    findings = lint_buffer(read_buffer(file, form), harts=harts, profile=profile.value)
    for finding in findings:
        shown = Text(str(finding))
        shown.stylize(styles[finding.severity], 0, len(finding.severity.value))
        console.print(shown)
    counts = {severity: sum(finding.severity is severity for finding in findings) for severity in Severity}
    console.print(", ".join(count(number, severity.value) for severity, number in counts.items()))
    raise typer.Exit(ExitCode.GUEST if counts[Severity.ERROR] else ExitCode.OK)


@app.command()
def encode(
    file: Buffer = Path("-"),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write binary to this file.")] = None,
) -> None:
    """Turn a listing, or words, into a command buffer: words on standard output, or binary with --output."""
    data = read_buffer(file)
    if output is not None:
        with writing(output):
            output.write_bytes(data)
        return
    if len(data) % CHUNK_BYTES:
        raise UsageError(f"{len(data)} bytes are no whole number of chunks, expected --output for binary")
    for place in range(0, len(data), CHUNK_BYTES):
        print(f"{int.from_bytes(data[place : place + CHUNK_BYTES], 'little'):#x}")


@app.command()
def build(
    file: Annotated[Path, typer.Argument(help="A C, C++ or assembly file: .c, .cpp, .cc, .cxx, .s, .S.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The program; by default FILE's name with .elf.")
    ] = None,
    compiler: Annotated[str, typer.Option(metavar="NAME", help="Which one; by default the first that is found.")] = "",
    march: Annotated[str, typer.Option(metavar="ISA", help="rv64gcv_zvl512b for vector code.")] = "rv64gc",
    options: Annotated[
        list[str] | None, typer.Option("--option", metavar="WORD", help="For the compiler, as --option=-O3.")
    ] = None,
) -> None:
    """Make a program for RefSi's harts of a C, C++ or assembly file.

    With ziglang's clang, an installed clang and lld, or riscv64-unknown-elf-gcc,
    flags that fit, and understudy_refsi.h, string.h and math.h. All its global
    functions are kernels; the first parameter is the instance.

      understudy refsi build k.c && understudy run k.elf scale --grid 4 --arg 2
    """
    from understudy.host.refsi.compile import compile_kernels
    from understudy.image.riscv.program import read_elf

    read_file(file)
    data = compile_kernels(
        file, compiler=compiler, march=march, options=options or (), warn=lambda text: print(text, file=sys.stderr)
    )
    place = output or file.with_suffix(".elf")
    with writing(place):
        place.write_bytes(data)
    print(f"{place}: {', '.join(read_elf(data).kernels)}")


@app.command()
def flags() -> None:
    """Print what a C or C++ compiler needs for a host program: our header of the driver's interface, and the library.

    cc host.c $(understudy refsi flags) -o host && understudy exec --device refsi -- ./host
    """
    from understudy.attach.refsi import build_library

    print(build_library().flags)


@app.command()
def header() -> None:
    """Print our header of the driver's C interface, refsidrv/refsidrv.h."""
    from understudy.attach.refsi import INCLUDE

    print((INCLUDE / "refsidrv" / "refsidrv.h").read_text("utf-8"), end="")


def _profile_level(option: int | None, profile: Profile) -> int:
    if option is not None:
        return option
    text = os.environ.get(PROFILE_LEVEL_VARIABLE, "") if profile is Profile.REFSIDRV else ""
    if text and not text.isdigit():
        raise UsageError(f"{PROFILE_LEVEL_VARIABLE} is {text!r}, expected a number")
    return int(text or 0)
