"""`understudy gcn`: instructions of AMD's GCN generations on their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.buffers import parse_number
from understudy.cli.exits import ExitCode, UsageError, exit_code, report
from understudy.cli.files import read_file, read_text, writing
from understudy.core.errors import WireError
from understudy.isa.gcn.target import TARGETS, Target

app = typer.Typer(help="AMD GCN instructions (GFX7, GFX8, GFX9).", no_args_is_help=True)

Processor = Annotated[str, typer.Option("--target", help=f"Processor: {', '.join(TARGETS)}.")]
Address = Annotated[str, typer.Option("--pc", help="Address of the first instruction.")]


@app.callback()
def _gcn() -> None:
    """AMD GCN instructions (GFX7, GFX8, GFX9)."""


@app.command()
def disasm(
    file: Annotated[Path, typer.Argument(help="Raw machine code; - for standard input.")] = Path("-"),
    processor: Processor = "gfx900",
    pc: Address = "0",
    words: Annotated[list[str] | None, typer.Option("--word", help="A 32-bit word instead of a file; repeat.")] = None,
) -> None:
    """Show machine code as assembly text that `asm` turns into the same bytes.

    Words that are no instruction become .long; then the exit status is 1, and the reasons are on standard error.
    """
    from understudy.isa.gcn.asm.listing import listing  # the tables take a while to load

    target, address = _target(processor), _number(pc, 64)
    code = b"".join(_number(word, 32).to_bytes(4, "little") for word in words) if words else read_file(file)
    worst = ExitCode.OK
    for line in listing(target, code, address):
        print(line)
        if line.refusal is not None:
            report(line.refusal)
            worst = max(worst, exit_code(line.refusal))
    if len(code) % 4:
        report(WireError(f"the last {len(code) % 4} bytes are no whole word").at("byte", len(code) & ~3))
        worst = max(worst, ExitCode.GUEST)
    raise typer.Exit(worst)


@app.command()
def asm(
    file: Annotated[Path, typer.Argument(help="Assembly text; - for standard input.")] = Path("-"),
    processor: Processor = "gfx900",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write the machine code.")] = None,
) -> None:
    """Assemble text to machine code: into a file, or as words on standard output."""
    from understudy.isa.gcn.asm.assembler import assemble

    target = _target(processor)
    code = assemble(target, read_text(file))
    if output is None:
        for at in range(0, len(code), 4):
            print(f"{int.from_bytes(code[at : at + 4], 'little'):#010x}")
        return
    with writing(output):
        output.write_bytes(code)
    print(f"{len(code)} bytes", file=sys.stderr)


def _target(name: str) -> Target:
    if name not in TARGETS:
        raise UsageError(f"no processor {name!r}: there are {', '.join(TARGETS)}")
    return TARGETS[name]


def _number(word: str, bits: int) -> int:
    try:
        return parse_number(word, bits)
    except WireError as error:
        raise UsageError(str(error)) from None
