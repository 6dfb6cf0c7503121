"""`understudy rv64`: a program for RV64 by itself, without a device."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from understudy.cli.engines import Engine, EngineOption
from understudy.cli.exits import ExitCode, of_options
from understudy.cli.files import MAX_CODE_BYTES, read_file, writing
from understudy.core.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.host.rv64.run import ProgramResult

MOST_STATUS: Final = 255
"""Test 256 that fails is no success."""


def rv64(
    program: Annotated[Path, typer.Argument(help="An ELF file, or assembly (.s).")],
    arguments: Annotated[list[str] | None, typer.Argument(help="What the program is given.")] = None,
    isa: Annotated[
        str, typer.Option(metavar="NAME", help="The instructions that there are: rv64gc_zba_zbb. By default all.")
    ] = "",
    vlen: Annotated[
        int | None, typer.Option(metavar="BITS", help="Of a vector register: 512, or what Zvl*b of --isa asks for.")
    ] = None,
    engine: EngineOption = Engine.JIT,
    both_engines: Annotated[
        bool, typer.Option("--both-engines", help="Run on both engines: all that can be seen must be the same.")
    ] = False,
    stdin: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What it reads from 0; - for standard input.")
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write begin_signature to end_signature, as riscv-arch-test has it."),
    ] = None,
    granularity: Annotated[int, typer.Option(min=1, max=64, metavar="BYTES", help="Of a line of the signature.")] = 4,
    step_limit: Annotated[int, typer.Option(min=0, help="Most instructions; 0 for no limit.")] = 0,
    time_limit: Annotated[float, typer.Option(min=0, help="Most seconds; 0 for no limit.")] = 0.0,
    statistics: Annotated[bool, typer.Option("--statistics", help="Say on standard error what it took.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print status, console, registers and counts as JSON instead.")
    ] = False,
) -> None:
    """Run an RV64 program by itself; the exit status is the program's.

    A static program of Linux runs in user mode, with arguments and the calls read,
    write, writev, brk and exit. One with the symbol tohost is a bare-metal test, as
    riscv-tests, riscv-arch-test and riscv-vector-tests build them: it runs in machine
    mode, takes its own traps, and prints and ends by stores to tohost.

    A program that fails (a trap that nobody takes, a call that is not modelled, a
    limit) ends with a message on standard error and status 1, or 3.

      understudy rv64 --isa rv64gc_zbb --statistics program.elf one two

      understudy rv64 --signature out.sig add-01.elf
    """
    from understudy.core.limits import checked_time_limit
    from understudy.host.rv64.run import ISA, RV64, checked_vlen
    from understudy.isa.riscv.isa import isa_of
    from understudy.isa.riscv.state import check_vlen

    with of_options():
        check_vlen(checked_vlen(vlen, isa_of(isa or ISA)))
        checked_time_limit(time_limit or None)
    data = _program(program)
    given = read_file(stdin) if stdin is not None else b""
    kinds = ["reference", "jit"] if both_engines else [engine.value]
    results = [
        RV64.run(
            data,
            (str(program), *(arguments or ())),
            isa=isa or ISA,
            vlen=vlen,
            stdin=given,
            engine=kind,
            step_limit=step_limit or None,
            time_limit_seconds=time_limit or None,
            on_write=None if as_json or kind != kinds[-1] else _write,
        )
        for kind in kinds
    ]
    result = results[-1]
    if signature is not None:
        with writing(signature):
            signature.write_text(result.signature_text(granularity), encoding="ascii")
    if as_json:
        print(json.dumps(_document(result, kinds), indent=2))
    if statistics:
        rate = f"{result.rate / 1e6:,.1f} M/s" if result.rate >= 1e5 else f"{result.rate:,.0f}/s"
        took = f"status {result.status}, {result.instructions:,} instructions in {result.time:.3f} s, {rate}"
        print(f"{program.name}: {took} ({isa or ISA}, {kinds[-1]})", file=sys.stderr)
    if results[0] != result:
        print("engines differ: " + _difference(*results), file=sys.stderr)
        raise typer.Exit(ExitCode.GUEST)
    if both_engines:
        print("both engines give the same", file=sys.stderr)
    raise typer.Exit(min(result.status, MOST_STATUS))


def _program(path: Path) -> bytes:
    """The ELF file, or what an assembly text makes."""
    data = read_file(path, MAX_CODE_BYTES)
    if path.suffix != ".s":
        return data
    from understudy.image.assembly.program import assemble

    try:
        return assemble(data.decode("utf-8", "replace"), "rv64gc").elf()
    except UnderstudyError as error:
        raise error.at("file", str(path)) from None


def _write(fd: int, data: bytes) -> None:
    """What the program writes goes where its own would."""
    stream = sys.stdout if fd == 1 else sys.stderr
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def _document(result: ProgramResult, kinds: list[str]) -> dict[str, object]:
    """All there is to say of a run."""
    found = asdict(result)
    found |= {"console": result.console.decode("utf-8", "replace"), "signature": result.signature.hex()}
    found |= {"engine": " and ".join(kinds), "rate": result.rate, "seconds": found.pop("time")}
    del found["bytes"]
    return found


def _difference(one: ProgramResult, other: ProgramResult) -> str:
    """The first field that is not the same on the reference engine."""
    mine, theirs = asdict(other), asdict(one)
    name = next(name for name in mine if name != "time" and mine[name] != theirs[name])
    return f"{name} is {mine[name]!r}, on the reference engine {theirs[name]!r}"
