"""`understudy asm` and `understudy disasm`: text to machine code and back, for AMD GPUs and RISC-V."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from understudy.cli import completion
from understudy.cli.buffers import parse_number
from understudy.cli.engines import known_processor
from understudy.cli.exits import ExitCode, UsageError, exit_code, report
from understudy.cli.files import MAX_CODE_BYTES, read_file, read_text, writing
from understudy.core.errors import UnderstudyError, WireError

if TYPE_CHECKING:
    from understudy.image.assembly.program import Assembled

RISCV: Final = "rv64gc"
DEFAULT_GPU: Final = "gfx900"
MOST_REASONS: Final = 5
"""Why words are no instructions: so many of them are told."""
RAW_SUFFIXES: Final = (".bin", ".raw")
MACHINE_RISCV: Final = 243
REPORTS: Final = {224: "hsa_code", 0xAF5A: "amdcl2", 0xAF5B: "amdcl2"}
"""What disassembles GPU files, by e_machine."""


class Output(StrEnum):
    """What `asm` writes."""

    WORDS = "words"
    BINARY = "binary"
    ELF = "elf"


Agent = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="NAME",
        help="rv64gc, or a processor: gfx900, gfx803, gfx906:xnack+, ...",
        autocompletion=completion.processors,
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
    base: Annotated[str, typer.Option(metavar="ADDRESS", help="Where a RISC-V program is linked.")] = "0x10000",
) -> None:
    """Assemble text of AMD GPUs into a code object or bare code, of RISC-V into a program.

    Without --agent the file says what it is for; gfx900 if it does not.

    Without --output words are printed. With it, .bin and .raw are bytes of
    code; other names get an ELF file, and bytes where the source is bare GPU
    code. --format chooses by hand.

      clang -target amdgcn-amd-amdhsa -mcpu=gfx900 -S k.cl

      understudy asm k.s -o k.co

      echo 's_add_u32 s0, s1, s2' | understudy asm - --show-encoding
    """
    from understudy.image.assembly.program import assemble  # the tables take a while to load

    chosen, place = _agent(agent), _number(base, 64)
    source = read_text(file)
    try:
        made = assemble(source, chosen, place)
    except UnderstudyError as error:
        raise error.at("file", str(file)) from None
    if show_encoding:
        for line in encodings(made):
            print(line)
        if output is None:
            return
    if form is None:
        is_raw = output is not None and (output.suffix in RAW_SUFFIXES or not made.is_object)
        form = Output.WORDS if output is None else Output.BINARY if is_raw else Output.ELF
    data = made.elf() if form is Output.ELF else made.code()
    if form is Output.WORDS:
        data = "".join(f"{word}\n" for word in _words(data, made.agent == RISCV)).encode()
    if output is not None:
        with writing(output):
            output.write_bytes(data)
        print(f"{len(data)} bytes", file=sys.stderr)
    elif form is Output.WORDS:
        print(data.decode(), end="")
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def encodings(made: Assembled) -> Iterator[str]:
    """Instructions with their bytes, and data as it was written, with labels between."""
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
    """The instructions that a statement became."""
    if agent == RISCV:
        from understudy.isa.riscv.listing import listing

        return [(line.shown, line.code) for line in listing(code, address, labels)]
    from understudy.image.hsa import targets
    from understudy.isa.gcn.asm.printer import text
    from understudy.isa.gcn.encoding.decode import decode
    from understudy.isa.gcn.target import target

    return [(text(decode(target(targets.read_as(agent)), code, address), labels), code)]


def _words(code: bytes, is_riscv: bool) -> Iterator[str]:
    """Code as numbers, an instruction of RISC-V or a word of a GPU on each line."""
    at = 0
    while at < len(code):
        size = 2 if is_riscv and code[at] & 3 != 3 else 4
        part = code[at : at + size]
        yield f"{int.from_bytes(part, 'little'):#0{2 + 2 * len(part)}x}"
        at += size


def disasm(
    file: Annotated[Path, typer.Argument(help="A file with code of any kind, or raw code; - for standard input.")] = (
        Path("-")
    ),
    agent: Agent = "",
    pc: Annotated[str, typer.Option("--pc", metavar="ADDRESS", help="Address of raw code.")] = "0",
    words: Annotated[
        list[str] | None, typer.Option("--word", metavar="WORD", help="An instruction word instead of a file; repeat.")
    ] = None,
    kernel: Annotated[str, typer.Option("--kernel", metavar="NAME", help="Only this kernel or function.")] = "",
) -> None:
    """Show machine code as assembly text that `asm` turns into the same bytes.

    Files of AMD GPUs (code objects, OpenCL 2.0 programs) and RISC-V say what
    they are; raw code is for --agent, gfx900 by default.

    What is no instruction is shown as data; then the exit status is 1 (3 for
    what is not modelled), and the first reasons are on standard error.

      understudy disasm kernels.co --kernel saxpy

      understudy disasm --agent rv64gc --word 0x00000513 --word 0x4501
    """
    chosen, address = _agent(agent), _number(pc, 64)
    data = b"".join(_word(word, chosen) for word in words) if words else read_file(file, MAX_CODE_BYTES)
    shown = "" if words else str(file)
    try:
        if not words and data[:4] == b"\x7fELF":
            lines = _of_elf(data, chosen, kernel)
        elif kernel:
            raise UsageError("--kernel is for files that name their kernels")
        else:
            lines = _of_code(data, chosen or DEFAULT_GPU, address, {})
        worst, told = ExitCode.OK, 0
        for text, refusal in lines:
            if text:
                print(text)
            if refusal is not None:
                told += 1
                if told <= MOST_REASONS:
                    report(refusal)
                worst = max(worst, exit_code(refusal))
        if told > MOST_REASONS:
            print(f"{told - MOST_REASONS} more of them", file=sys.stderr)
    except WireError as error:
        raise (error.at("file", shown) if shown else error) from None
    raise typer.Exit(worst)


Shown = Iterator[tuple[str, UnderstudyError | None]]
"""Lines of text, and what is wrong there."""


def _of_code(code: bytes, agent: str, address: int, names: dict[int, str]) -> Shown:
    lines: Any
    if agent == RISCV:
        from understudy.isa.riscv.listing import listing as riscv

        yield "    .option norvc", None
        lines, whole = riscv(code, address, names), 2
    else:
        from understudy.image.hsa import targets
        from understudy.isa.gcn.asm.listing import listing as gcn
        from understudy.isa.gcn.target import target

        lines, whole = gcn(target(targets.read_as(agent.partition(":")[0])), code, address, names), 4
    for line in lines:
        refusal = line.refusal
        place = f"{line.pc:#x}"
        known = refusal is None or any(each.kind == "pc" for each in refusal.path)
        yield str(line), refusal if known else refusal.at("pc", place)
    if left := len(code) % whole:
        yield "", WireError(f"the last {left} bytes are no whole word").at("byte", len(code) - left)


def _of_elf(data: bytes, agent: str, kernel: str) -> Shown:
    machine = int.from_bytes(data[18:20], "little")
    if machine == MACHINE_RISCV:
        yield from _of_program(data, kernel)
        return
    if machine not in REPORTS:
        raise WireError(f"e_machine is {machine:#x}, expected {MACHINE_RISCV:#x} (RISC-V) or that of an AMD GPU")
    from importlib import import_module

    document = import_module(f"understudy.report.{REPORTS[machine]}").describe(data, kernel=kernel, target=agent)
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


def _of_program(data: bytes, function: str) -> Shown:
    from understudy.image.elf.layout import SHF_EXECINSTR
    from understudy.image.elf.reader import ElfFile
    from understudy.image.riscv.program import read_elf

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
    if name != RISCV:
        known_processor(name, RISCV)
    return name


def _word(text: str, agent: str) -> bytes:
    number = _number(text, 32)
    return number.to_bytes(2 if agent == RISCV and number & 3 != 3 else 4, "little")


def _number(word: str, bits: int) -> int:
    try:
        return parse_number(word, bits)
    except WireError as error:
        raise UsageError(str(error)) from None
