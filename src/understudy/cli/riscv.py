"""`understudy riscv`: instructions on their own."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.cli.buffers import parse_number
from understudy.cli.exits import ExitCode, UsageError, exit_code, report
from understudy.core.errors import UnderstudyError, WireError
from understudy.isa.riscv.assembler import text
from understudy.isa.riscv.decode import decode as decode_word

app = typer.Typer(help="RISC-V instructions.", no_args_is_help=True)


@app.callback()
def _riscv() -> None:
    """RISC-V instructions."""


@app.command()
def decode(
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Instruction words, decimal or 0x hex.")],
    pc: Annotated[str, typer.Option(help="Address of the first one, for branch targets.")] = "",
) -> None:
    """Show instruction words as assembly text. 16-bit words are compressed instructions.

    Exit status 1 if one of them is illegal, 3 if one is of an extension that is not modelled.
    """
    address = _number(pc, 64) if pc else None
    worst = ExitCode.OK
    for word in words:
        number = _number(word, 32)
        length = 4 if number & 3 == 3 else 2
        place = f"{address:#x}: " if address is not None else ""
        try:
            line = text(decode_word(number), address)
        except UnderstudyError as error:
            report(error)
            worst = max(worst, exit_code(error))
        else:
            print(f"{place}{number:0{2 * length}x}  {line}")
        address = address + length if address is not None else None
    raise typer.Exit(worst)


def _number(word: str, bits: int) -> int:
    try:
        return parse_number(word, bits)
    except WireError as error:
        raise UsageError(str(error)) from None
