"""`understudy amdcl2`: programs of AMD OpenCL 2.0, changed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.exits import UsageError
from understudy.cli.files import MAX_CODE_BYTES, read_file, read_text, writing
from understudy.core.errors import UnderstudyError

app = typer.Typer(help="AMD OpenCL 2.0: other machine code in a program's file.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """One command is a group of commands, too."""


@app.command()
def patch(
    file: Annotated[Path, typer.Argument(help="A program of AMD OpenCL 2.0.")],
    kernel: Annotated[str, typer.Argument(help="The kernel whose code is replaced.")],
    code: Annotated[
        Path, typer.Argument(help="Its new code: assembly text, or bytes (.bin, .raw); - for text from standard input.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the program.")],
    vgprs: Annotated[int, typer.Option(min=0, help="Vector registers of the new code, where it needs more.")] = 0,
    sgprs: Annotated[int, typer.Option(min=0, help="Scalar registers, VCC among them, where it needs more.")] = 0,
) -> None:
    """Write a program with other machine code for one of its kernels.

    The rest of the file is kept, and moved where the code has another size.
    What `disasm --kernel` shows is text that this takes.

      understudy disasm in.clo --kernel saxpy > saxpy.s

      understudy amdcl2 patch in.clo saxpy saxpy.s -o out.clo
    """
    from understudy.image.amdcl2.container import read_container
    from understudy.image.amdcl2.patching import patched

    data = read_file(file)
    try:
        container = read_container(data)
    except UnderstudyError as error:
        raise error.at("file", str(file)) from None
    if code.suffix in (".bin", ".raw"):
        words = read_file(code, MAX_CODE_BYTES)
    else:
        words = _assembled(code, container.target.name)
    made = patched(container, kernel, words, vgprs=vgprs, sgprs=sgprs)
    with writing(output):
        output.write_bytes(made)
    print(f"{len(made)} bytes", file=sys.stderr)


def _assembled(path: Path, agent: str) -> bytes:
    from understudy.image.assembly.program import assemble

    text = read_text(path)
    try:
        made = assemble(text, agent)
        if made.is_object:
            raise UsageError(f"{path} describes kernels of its own: a patch is code alone")
        return made.code()
    except UsageError:
        raise
    except UnderstudyError as error:
        raise error.at("file", str(path)) from None
