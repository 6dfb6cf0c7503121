"""`softcard asm`, `disasm` and `amdcl2`: assembly, disassembly, and changes to programs of AMD OpenCL 2.0."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from softcard.cli.exits import ExitCode, UsageError, exit_code, report
from softcard.cli.files import MAX_CODE_BYTES, in_text, numbered, parse_number, read_file, read_text, write_file
from softcard.cli.options import BaseOption, check_processor, complete_processors
from softcard.core.errors import SoftcardError, WireError

if TYPE_CHECKING:
    from softcard.image.assembly.program import Assembled


RISCV: Final = "rv64gc"
DEFAULT_GPU: Final = "gfx900"
MOST_REASONS: Final = 5
"""The maximum number of decoding errors that `disasm` prints."""
RAW_SUFFIXES: Final = (".bin", ".raw")
MACHINE_RISCV: Final = 243
REPORTS: Final = {224: "hsa_code", 0xAF5A: "amdcl2", 0xAF5B: "amdcl2"}
"""The module of `softcard.report` that disassembles a GPU file, by the file's e_machine."""


class Output(StrEnum):
    """The output formats of `asm`."""

    WORDS = "words"
    BINARY = "binary"
    ELF = "elf"


Agent = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="NAME",
        help="rv64gc, or a processor: gfx900, gfx803, gfx906:xnack+, ...",
        autocompletion=complete_processors,
    ),
]


def asm(
    file: Annotated[Path, typer.Argument(help="Assembly text, as compilers write it; - for standard input.")],
    agent: Agent = "",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it.")] = None,
    form: Annotated[
        Output | None, typer.Option("--format", help="Words, bytes of code, or an ELF file; see above.")
    ] = None,
    show_encoding: Annotated[
        bool, typer.Option("--show-encoding", help="Print each instruction with its bytes, as llvm-mc does.")
    ] = False,
    base: BaseOption = "0x10000",
    lines: Annotated[
        bool, typer.Option("-g", help="Add a line table to an ELF file: findings then name lines of this text.")
    ] = False,
) -> None:
    """Assemble text of AMD GPUs into a code object or bare code, of RISC-V into a program.

    Without --agent, the target is the one that the file names, or else gfx900.

    Without --output, the code is printed as words. With --output, a file name
    that ends in .bin or .raw gets the bytes of the code. Any other name gets an
    ELF file, or the bytes of the code if the source is bare GPU code without
    kernel descriptors. --format overrides this.

      clang -target amdgcn-amd-amdhsa -mcpu=gfx900 -S k.cl

      softcard asm k.s -o k.co

      echo 's_add_u32 s0, s1, s2' | softcard asm - --show-encoding"""
    from softcard.image.assembly.program import assemble  # here, since importing the tables takes a while

    chosen, place = _agent(agent), _number(base, 64)
    source = read_text(file)
    try:
        made = assemble(source, chosen, place)
    except SoftcardError as error:
        raise in_text(error, file, numbered(source)) from None
    if show_encoding:
        for line in encodings(made):
            print(line)
        if output is None:
            return
    if form is None:
        is_raw = output is not None and (output.suffix in RAW_SUFFIXES or not made.is_object)
        form = Output.WORDS if output is None else Output.BINARY if is_raw else Output.ELF
    data = made.elf(str(file) if lines else "") if form is Output.ELF else made.code()
    if form is Output.WORDS:
        data = "".join(f"{word}\n" for word in _words(data, made.agent == RISCV)).encode()
    if output is not None:
        write_file(output, data)
        print(f"{len(data)} bytes", file=sys.stderr)
    elif form is Output.WORDS:
        print(data.decode(), end="")
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def encodings(made: Assembled) -> Iterator[str]:
    """Yield the lines of an assembly listing: instructions with their bytes, data as in the source, and labels."""
    known = made.labels
    labels = dict(known)
    comment = "#" if made.agent == RISCV else ";"
    for address, piece, is_code in made.pieces():
        if address in labels:
            yield f"{labels.pop(address)}:"
        shown = _listed(made.agent, piece.data, address, known) if is_code else [(piece.statement.text, piece.data)]
        for text, data in shown:
            code = ",".join(f"{byte:#04x}" for byte in data[:16]) + (",..." if len(data) > 16 else "")
            yield f"\t{text:<40}{comment} encoding: [{code}]"


def _listed(agent: str, code: bytes, address: int, labels: dict[int, str]) -> list[tuple[str, bytes]]:
    """Return the text and the bytes of each instruction that one source statement was assembled to."""
    if agent == RISCV:
        from softcard.isa.riscv.listing import listing

        return [(line.shown, line.code) for line in listing(code, address, labels)]
    from softcard.image.hsa import targets
    from softcard.isa.gcn.asm.printer import text
    from softcard.isa.gcn.encoding.decode import decode
    from softcard.isa.gcn.target import target

    return [(text(decode(target(targets.read_as(agent)), code, address), labels), code)]


def _words(code: bytes, is_riscv: bool) -> Iterator[str]:
    """Yield code as hexadecimal numbers: the instructions of RISC-V code, or the 32-bit words of GPU code."""
    at = 0
    while at < len(code):
        size = 2 if is_riscv and code[at] & 3 != 3 else 4
        part = code[at : at + size]
        yield f"{int.from_bytes(part, 'little'):#0{2 + 2 * len(part)}x}"
        at += size


def disasm(
    file: Annotated[Path, typer.Argument(help="A program, a code object or raw code; - for standard input.")] = (
        Path("-")
    ),
    agent: Agent = "",
    pc: Annotated[
        str, typer.Option("--pc", metavar="ADDRESS", help="Address of the first instruction of raw code.")
    ] = "0",
    words: Annotated[
        list[str] | None,
        typer.Option("--word", metavar="WORD", help="An instruction word, instead of a file; can be repeated."),
    ] = None,
    kernel: Annotated[
        str, typer.Option("--kernel", metavar="NAME", help="Disassemble only this kernel or function.")
    ] = "",
) -> None:
    """Show machine code as assembly text that `asm` turns into the same bytes.

    Files of AMD GPUs (code objects, OpenCL 2.0 programs) and RISC-V name their
    target; --agent is the target of raw code, gfx900 by default.

    Words that cannot be decoded are shown as data; then the exit status is 1
    (3 if they are not modelled), and standard error has the first errors.

      softcard disasm kernels.co --kernel saxpy

      softcard disasm --agent rv64gc --word 0x00000513 --word 0x4501
    """
    chosen, address = _agent(agent), _number(pc, 64)
    data = b"".join(_word(word, chosen) for word in words) if words else read_file(file, MAX_CODE_BYTES)
    shown = "" if words else str(file)
    try:
        from softcard.image.hsa.bundle import is_bundle

        if not words and (data[:4] == b"\x7fELF" or is_bundle(data)):
            lines = _of_elf(data, chosen, kernel)
        elif kernel:
            raise UsageError("--kernel requires a file with named kernels (ELF), not raw code")
        else:
            lines = _of_code(data, chosen or DEFAULT_GPU, address, {})
        worst, errors = ExitCode.OK, 0
        for text, refusal in lines:
            if text:
                print(text)
            if refusal is not None:
                errors += 1
                if errors <= MOST_REASONS:
                    has_place = any(each.kind == "pc" for each in refusal.path)
                    report(refusal.at("file", shown) if shown and not has_place else refusal)
                worst = max(worst, exit_code(refusal))
        if errors > MOST_REASONS:
            print(f"{errors - MOST_REASONS} more errors are not shown", file=sys.stderr)
    except WireError as error:
        raise (error.at("file", shown) if shown else error) from None
    raise typer.Exit(worst)


Lines = Iterator[tuple[str, SoftcardError | None]]
"""An iterator over lines of text, each with its decoding error or None."""


def _of_code(code: bytes, agent: str, address: int, names: dict[int, str]) -> Lines:
    lines: Any
    if agent == RISCV:
        from softcard.isa.riscv.listing import listing as riscv

        yield "    .option norvc", None
        lines, whole = riscv(code, address, names), 2
    else:
        from softcard.image.hsa import targets
        from softcard.isa.gcn.asm.listing import listing as gcn
        from softcard.isa.gcn.target import target

        lines, whole = gcn(target(targets.read_as(agent.partition(":")[0])), code, address, names), 4
    for line in lines:
        refusal = line.refusal
        place = f"{line.pc:#x}"
        known = refusal is None or any(each.kind == "pc" for each in refusal.path)
        yield str(line), refusal if known else refusal.at("pc", place)
    if left := len(code) % whole:
        yield "", WireError(f"the last {left} bytes are not a complete instruction").at("byte", len(code) - left)


def _of_elf(data: bytes, agent: str, kernel: str) -> Lines:
    machine = int.from_bytes(data[18:20], "little")
    from softcard.image.hsa.bundle import holds_bundles, is_bundle, pick

    if machine == MACHINE_RISCV and not is_bundle(data):
        yield from _of_program(data, kernel)
        return
    if holds_bundles(data):
        yield from _of_elf(pick(data, agent).content, agent, kernel)
        return
    if machine not in REPORTS:
        known = ", ".join(f"{each:#x}" for each in (MACHINE_RISCV, *REPORTS))
        raise WireError(f"e_machine is {machine:#x}, expected one of {known} (RISC-V and AMD GPUs)")
    from importlib import import_module

    document = import_module(f"softcard.report.{REPORTS[machine]}").describe(data, kernel=kernel, target=agent)
    chunks = document["code"] if "code" in document else [each["code"] for each in document["kernels"]]
    for chunk in chunks:
        for name in chunk["names"]:
            yield f"{name}:", None
        for line in chunk["lines"]:
            if "label" in line and line["label"] not in chunk["names"]:
                yield f"{line['label']}:", None
            code = bytes.fromhex(line["code"])
            numbers = " ".join(f"{int.from_bytes(code[at : at + 4], 'little'):08x}" for at in range(0, len(code), 4))
            yield f"    {line['text']:<56}// {line['pc']:#x}: {numbers}", None
            if "refusal" in line:
                yield "", WireError(line["refusal"])
    for warning in document["warnings"]:
        if "disassembly" in warning:
            raise WireError(warning)


def _of_program(data: bytes, function: str) -> Lines:
    from softcard.image.elf.layout import SHF_EXECINSTR
    from softcard.image.elf.reader import ElfFile
    from softcard.image.riscv.program import read_elf

    image = read_elf(data)
    names = {each.address: each.name for each in (image.symbols or {}).values() if each.is_global or each.kind == 2}
    if function:
        symbol = image.symbol(function)
        spans = [(symbol.address, symbol.address + symbol.size)]
        names = {at: name for at, name in names.items() if spans[0][0] <= at < spans[0][1]}
    else:
        headers = [each.header for each in ElfFile(data, image.bits).named_sections()] if image.symbols else []
        spans = [(each.addr, each.addr + each.size) for each in headers if each.flags & SHF_EXECINSTR]
        spans = spans or [(each.address, each.address + len(each.data)) for each in image.segments if each.flags & 1]
    for start, end in spans:
        yield from _of_code(image.read(start, end - start), RISCV, start, names)


def _agent(name: str) -> str:
    check_processor(name, RISCV)
    return name


def _word(text: str, agent: str) -> bytes:
    number = _number(text, 32)
    return number.to_bytes(2 if agent == RISCV and number & 3 != 3 else 4, "little")


def _number(word: str, bits: int) -> int:
    try:
        return parse_number(word, bits)
    except WireError as error:
        raise UsageError(str(error)) from None


# ---- amdcl2 ----------------------------------------------------------------------------------------------------------

amdcl2 = typer.Typer(help="AMD OpenCL 2.0: replace machine code in a program's file.", no_args_is_help=True)


@amdcl2.callback()
def _group() -> None:
    """Do nothing: the callback makes typer treat `amdcl2` as a group even with a single command."""


@amdcl2.command()
def patch(
    file: Annotated[Path, typer.Argument(help="A program of AMD OpenCL 2.0.")],
    kernel: Annotated[str, typer.Argument(help="The kernel whose code is replaced.")],
    code: Annotated[
        Path, typer.Argument(help="Its new code: assembly text, or bytes (.bin, .raw); - for text from standard input.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the program.")],
    vgprs: Annotated[
        int, typer.Option(min=0, help="Number of vector registers, if the new code needs more than the old.")
    ] = 0,
    sgprs: Annotated[
        int,
        typer.Option(min=0, help="Number of scalar registers, VCC included, if the new code needs more than the old."),
    ] = 0,
) -> None:
    """Write a program with other machine code for one of its kernels.

    The rest of the file is unchanged; it moves if the new code has another size.
    The output of `disasm --kernel` can be edited and used as the new code.

      softcard disasm in.clo --kernel saxpy > saxpy.s

      softcard amdcl2 patch in.clo saxpy saxpy.s -o out.clo"""
    from softcard.image.amdcl2.container import read_container
    from softcard.image.amdcl2.writer import patched

    data = read_file(file)
    try:
        container = read_container(data)
    except SoftcardError as error:
        raise error.at("file", str(file)) from None
    if code.suffix in (".bin", ".raw"):
        words = read_file(code, MAX_CODE_BYTES)
    else:
        words = _assembled(code, container.target.name)
    made = patched(container, kernel, words, vgprs=vgprs, sgprs=sgprs)
    write_file(output, made)
    print(f"{len(made)} bytes", file=sys.stderr)


def _assembled(path: Path, agent: str) -> bytes:
    from softcard.image.assembly.program import assemble

    text = read_text(path)
    try:
        made = assemble(text, agent)
        if made.is_object:
            raise UsageError(f"{path} has directives that describe kernels, expected only instructions")
        return made.code()
    except UsageError:
        raise
    except SoftcardError as error:
        raise in_text(error, path, numbered(text)) from None
