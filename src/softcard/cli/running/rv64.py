"""`softcard rv64`: runs an RV64 program without a device."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from softcard.cli.exits import ExitCode, usage_errors
from softcard.cli.files import MAX_CODE_BYTES, in_text, numbered, read_file, write_file
from softcard.cli.options import (
    BothEnginesOption,
    Engine,
    EngineOption,
    JsonOption,
    ResultFormat,
    ResultFormatOption,
    TimeLimitOption,
    is_json,
    time_limit_of,
)
from softcard.cli.tables import show_diagnostics
from softcard.core.diagnostics import Diagnostic
from softcard.core.errors import SoftcardError, WireError
from softcard.core.findings import Level

if TYPE_CHECKING:
    from softcard.host.rv64.run import ProgramResult


MOST_STATUS: Final = 255
"""The largest exit status. A larger number of a failed test is limited to it, as it must not wrap around to 0."""


def rv64(
    program: Annotated[Path, typer.Argument(help="The program: an ELF file, or assembly (.s).")],
    arguments: Annotated[list[str] | None, typer.Argument(help="The program's arguments.")] = None,
    isa: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Instruction set of the hart, such as rv64gc_zba_zbb; by default all extensions that are modelled.",
        ),
    ] = "",
    vlen: Annotated[
        int | None,
        typer.Option(metavar="BITS", help="Bits of a vector register; by default 512, or the width of Zvl*b in --isa."),
    ] = None,
    engine: EngineOption = Engine.JIT,
    both_engines: BothEnginesOption = False,
    stdin: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the program's standard input; - for that of this command."),
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the memory from begin_signature to end_signature to this file, as riscv-arch-test expects it.",
        ),
    ] = None,
    granularity: Annotated[
        int, typer.Option(min=1, max=64, metavar="BYTES", help="Bytes per line of the signature.")
    ] = 4,
    step_limit: Annotated[int, typer.Option(min=0, help="Maximum number of instructions; 0 for no limit.")] = 0,
    time_limit: TimeLimitOption = None,
    statistics: Annotated[bool, typer.Option("--statistics", help="Print run statistics on standard error.")] = False,
    as_json: JsonOption = False,
    form: ResultFormatOption = ResultFormat.TEXT,
) -> None:
    """Run an RV64 program by itself; the exit status is the program's.

    A static Linux program runs in user mode, with arguments and the system calls that
    C libraries make on one thread. A program with the symbol tohost is a bare-metal
    test, as riscv-tests, riscv-arch-test and riscv-vector-tests build them. It runs in
    machine mode, handles its traps itself, and prints and ends by stores to tohost.

    A program that fails (a trap without a handler, a system call that is not
    modelled, a limit) ends with a message on standard error and status 1, or 3.

      softcard rv64 --isa rv64gc_zbb --statistics program.elf one two

      softcard rv64 --signature out.sig add-01.elf"""
    from softcard.host.rv64.run import ISA, RV64, checked_vlen
    from softcard.isa.riscv.isa import isa_of
    from softcard.isa.riscv.state import check_vlen

    as_json = is_json(form, as_json)
    with usage_errors():
        check_vlen(checked_vlen(vlen, isa_of(isa or ISA)))
    limit = time_limit_of(time_limit)
    data = _program(program)
    input_data = read_file(stdin) if stdin is not None else b""
    kinds = ["reference", "jit"] if both_engines else [engine.value]
    results = []
    for kind in kinds:
        on_write = None if as_json or kind != kinds[-1] else _write
        try:
            result = RV64.run(
                data,
                (str(program), *(arguments or ())),
                isa=isa or ISA,
                vlen=vlen,
                stdin=input_data,
                engine=kind,
                step_limit=step_limit or None,
                time_limit_seconds=limit,
                on_write=on_write,
            )
        except SoftcardError as error:
            if isinstance(error, WireError) and not any(each.kind == "file" for each in error.path):
                error.at("file", str(program))
            if as_json:
                print(json.dumps({"error": str(error), "console": error.text, "engine": kind}, indent=2))
            elif on_write is None:
                _write(1, error.console)
            raise
        results.append(result)
    if signature is not None:
        write_file(signature, result.signature_text(granularity))
    if as_json:
        print(json.dumps(_document(result, kinds), indent=2))
    if statistics:
        rate = f"{result.rate / 1e6:,.1f} M/s" if result.rate >= 1e5 else f"{result.rate:,.0f}/s"
        text = f"status {result.status}, {result.instructions:,} instructions in {result.time:.3f} s, {rate}"
        print(f"{program.name}: {text} ({isa or ISA}, {kinds[-1]})", file=sys.stderr)
    if results[0] != result:
        found = Diagnostic(Level.ERROR, "", f"engines differ: {_difference(*results)}")
        show_diagnostics([found], sys.stderr)
        raise typer.Exit(ExitCode.GUEST)
    if both_engines:
        print("the results of both engines are the same", file=sys.stderr)
    raise typer.Exit(min(result.status, MOST_STATUS))


def _program(path: Path) -> bytes:
    """Return the ELF file at `path`; assembly text (suffix .s) is first assembled to an ELF file."""
    data = read_file(path, MAX_CODE_BYTES)
    if path.suffix != ".s":
        return data
    from softcard.image.assembly.program import assemble

    source = data.decode("utf-8", "replace")
    try:
        return assemble(source, "rv64gc").elf(str(path))
    except SoftcardError as error:
        raise in_text(error, path, numbered(source)) from None


def _write(fd: int, data: bytes) -> None:
    """Write output of the program: to this process's standard output if `fd` is 1, or else to its standard error."""
    stream = sys.stdout if fd == 1 else sys.stderr
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def _document(result: ProgramResult, kinds: list[str]) -> dict[str, object]:
    """Return the JSON output for `result`; `kinds` are the names of the engines that ran the program."""
    found = asdict(result)
    found |= {"console": result.console.decode("utf-8", "replace"), "signature": result.signature.hex()}
    found |= {"engine": " and ".join(kinds), "rate": result.rate, "seconds": found.pop("time")}
    del found["bytes"]
    return found


def _difference(one: ProgramResult, other: ProgramResult) -> str:
    """Return a text about the first field in which the results of the two engines differ.

    `one` is the result of the reference engine, and `other` that of the JIT engine."""
    mine, theirs = asdict(other), asdict(one)
    name = next(name for name in mine if name not in ("time", "interpreted") and mine[name] != theirs[name])
    return f"{name} is {mine[name]!r} on the JIT engine, {theirs[name]!r} on the reference engine"
