"""`understudy inspect`: what stands in a file for a GPU. The file's first bytes decide who reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from understudy.cli.files import read_file
from understudy.core.errors import WireError

Document = dict[str, Any]
"""What a file says, ready for JSON: numbers, strings, lists, dicts."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to show: `kernel` alone if it is not "", `code` disassembled, for `target` where the file is not believed.

    `zeros`: fields that hold 0 too.
    """

    kernel: str = ""
    code: bool = True
    target: str = ""
    zeros: bool = False


Describe = Callable[[bytes, Wanted], Document]
Lines = Callable[[Document, Wanted], Iterator[str]]


def _reader(name: str) -> tuple[Describe, Lines]:
    report = import_module(f"understudy.report.{name}")  # here, since it loads the tables of instructions

    def describe(data: bytes, wanted: Wanted) -> Document:
        found: Document = report.describe(data, kernel=wanted.kernel, code=wanted.code, target=wanted.target)
        return found

    def lines(document: Document, wanted: Wanted) -> Iterator[str]:
        found: Iterator[str] = report.lines(document, zeros=wanted.zeros)
        return found

    return describe, lines


HSA: Final = "hsa_code"
MACHINES: Final = {224: HSA, 0xAF5A: "amdcl2", 0xAF5B: "amdcl2"}
"""Which report reads an ELF file, by e_machine."""


def inspect(
    file: Annotated[Path, typer.Argument(help="The file; - for standard input.")] = Path("-"),
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
    kernel: Annotated[str, typer.Option("--kernel", help="Show only this kernel.")] = "",
    code: Annotated[bool, typer.Option("--code/--no-code", help="Disassemble, or do not.")] = True,
    target: Annotated[
        str, typer.Option("--target", help="Processor, where the file does not name the right one.")
    ] = "",
    zeros: Annotated[bool, typer.Option("--all", help="Show fields that are 0, too.")] = False,
) -> None:
    """Show what stands in a code object: headers, kernels, registers, disassembly.

    Exit status 1 for a file that cannot be read as one; what is odd in one that can is a warning.
    """
    data = read_file(file)
    try:
        describe, lines = reader(data)
        wanted = Wanted(kernel, code, target, zeros)
        document = describe(data, wanted)
    except WireError as error:
        raise error.at("file", str(file)) from None
    if as_json:
        print(json.dumps(document, indent=2))
        return
    for line in lines(document, wanted):
        print(line)


def reader(data: bytes) -> tuple[Describe, Lines]:
    """Who reads the file; `WireError` where nobody does."""
    from understudy.image.hsa.bundle import is_bundle

    if is_bundle(data):
        return _reader(HSA)
    if data[:4] != b"\x7fELF":
        raise WireError(f"file starts with {data[:4].hex(' ') or 'nothing'}, expected 7f 45 4c 46 (ELF)").at("byte", 0)
    machine = int.from_bytes(data[18:20], "little")
    if machine not in MACHINES:
        known = ", ".join(f"{each:#x}" for each in MACHINES)
        raise WireError(f"e_machine is {machine:#x}, expected that of a GPU: {known}").at("byte", 18)
    return _reader(MACHINES[machine])
