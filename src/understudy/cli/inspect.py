"""`understudy inspect`: what stands in a file. Its content decides who reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from understudy.cli import completion
from understudy.cli.engines import known_processor
from understudy.cli.exits import UsageError
from understudy.cli.files import MAX_FILE_BYTES, open_file, reading
from understudy.cli.kinds import HEAD_BYTES, FileKind, is_trace, kind_of
from understudy.core.errors import WireError

Document = dict[str, Any]
"""What a file says, ready for JSON: numbers, strings, lists, dicts."""
CODE: Final = {FileKind.HSA: "hsa_code", FileKind.AMDCL2: "amdcl2", FileKind.RISCV: "riscv_program"}
"""Kinds that hold code, and who reports on them."""


def inspect(
    file: Annotated[Path, typer.Argument(help="The file; - for standard input.")] = Path("-"),
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
    kernel: Annotated[str, typer.Option("--kernel", help="Show only this kernel or function.")] = "",
    code: Annotated[bool, typer.Option("--code/--no-code", help="Disassemble, or do not.")] = True,
    agent: Annotated[
        str,
        typer.Option(
            "--agent",
            metavar="NAME",
            help="Processor, where the file does not name the right one.",
            autocompletion=completion.processors,
        ),
    ] = "",
    zeros: Annotated[bool, typer.Option("--all", help="Show fields that are 0, too.")] = False,
    kind: Annotated[
        FileKind | None, typer.Option("--as", help="What the file is, where its content does not tell.")
    ] = None,
) -> None:
    """Show what stands in a file.

    Code objects and programs of AMD GPUs: headers, kernels, arguments,
    registers, disassembly. RISC-V ELF files: segments, instruction set,
    functions, and why RefSi would not run them. Command buffers of RefSi and
    Acceldev: commands. Arrow schemas: fields and Fletcher's registers. Traces:
    events by kind, and what went wrong.

    Exit status 1 for a file that cannot be read as what it is; what is odd in
    one that can is a warning.

      understudy inspect saxpy.co --kernel saxpy
    """
    known_processor(agent)
    with open_file(file) as source:
        try:
            with reading(file):
                head = source.read(HEAD_BYTES)
            if kind is FileKind.TRACE or (kind is None and is_trace(head)):
                document, lines = _trace(head, source, file)
            else:
                with reading(file):
                    data = head + source.read(MAX_FILE_BYTES + 1 - len(head))
                if len(data) > MAX_FILE_BYTES:
                    raise UsageError(f"{file} is larger than {MAX_FILE_BYTES} bytes")
                chosen = kind or kind_of(data, file.name)
                document, lines = described(chosen, data, kernel, code, agent, zeros)
        except WireError as error:
            raise error.at("file", str(file)) from None
    if as_json:
        print(json.dumps(document, indent=2))
        return
    for line in lines:
        print(line)


Described = tuple[Document, Iterator[str]]
"""A file's document, and its text."""


def _trace(head: bytes, source: Any, file: Path) -> Described:
    from understudy.cli.trace import lines_of
    from understudy.trace.reading import read_records
    from understudy.trace.summary import describe, lines

    rest = lines_of(source, file)
    begun = head.split(b"\n")
    joined = chain(begun[:-1], [begun[-1] + next(rest, b"")], rest)
    document = describe(read_records(joined))
    return document, lines(document)


def described(
    kind: FileKind, data: bytes, kernel: str = "", code: bool = True, agent: str = "", zeros: bool = False
) -> Described:
    """What a file says that is no trace."""
    if kind in CODE:
        report = import_module(f"understudy.report.{CODE[kind]}")  # here, since it loads the tables of instructions
        document: Document = report.describe(data, kernel=kernel, code=code, target=agent)
        return document, report.lines(document, zeros=zeros)
    if kind is FileKind.SCHEMA:
        from understudy.cli.fletcher import need_pyarrow

        need_pyarrow()
        from understudy.report import schema

        document = schema.describe(data)
        return document, schema.lines(document)
    from understudy.cli.buffers import to_binary
    from understudy.report import buffers

    document = buffers.describe_refsi(to_binary(data)) if kind is FileKind.REFSI else buffers.describe_acceldev(data)
    return document, buffers.lines(document)
