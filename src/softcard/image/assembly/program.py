"""Assembly of a whole source file to bare machine code or to a loadable file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from softcard.core.errors import WireError
from softcard.image.assembly.assembly import Assembly, Piece, Section
from softcard.image.assembly.directives import DIRECTIVES
from softcard.image.assembly.gcn import GcnMachine
from softcard.image.assembly.riscv import BASE_ADDRESS, RiscvMachine
from softcard.image.elf.lines import DEBUG_LINE, Row, pack_lines
from softcard.image.elf.writer import with_section

RISCV_AGENTS: Final = ("rv64gc",)
_RISCV: Final = re.compile(r"^\s*\.(attribute|option)\s", re.MULTILINE)
"""The pattern of directives that occur in RISC-V files of gcc and clang, and not in files for AMD GPUs."""


class Assembled:
    """The result of assembling a file, which `assemble` returns."""

    def __init__(self, assembly: Assembly, machine: GcnMachine | RiscvMachine, source: str = "") -> None:
        self._assembly = assembly
        self._machine = machine
        self._source = source

    @property
    def agent(self) -> str:
        """The target of the code, such as ``gfx900`` or ``rv64gc``."""
        machine = self._machine
        return machine.object.processor if isinstance(machine, GcnMachine) else RISCV_AGENTS[0]

    @property
    def is_object(self) -> bool:
        """True if the source describes a loadable file; False if it is bare machine code."""
        return not isinstance(self._machine, GcnMachine) or self._machine.has_kernels

    @property
    def exports(self) -> tuple[str, ...]:
        """The names of the global symbols."""
        said = self._assembly.attributes
        return tuple(name for name in self._assembly.symbols if name in said and said[name].binding)

    def elf(self, file: str = "") -> bytes:
        """Return the loadable file: a GPU code object or an executable program.

        If `file` is the name of the text, the result has a line table, so that findings and errors name lines of the
        text.
        """
        data = self._machine.write(self._assembly)
        return with_section(data, DEBUG_LINE, pack_lines(file, list(self.rows()))) if file else data

    def rows(self) -> Iterator[Row]:
        """Yield the position in the text of each instruction, with its address as linked."""
        lines = self._source.splitlines()
        for address, piece, is_code in self.pieces():
            if is_code:
                line = piece.statement.line
                text = lines[line - 1] if line <= len(lines) else ""
                column = len(text[: text.find(piece.statement.name)].encode()) + 1
                yield Row(address, len(piece.data), line, column)

    def code(self) -> bytes:
        """Return the bare machine code; for a program, its memory image from its first section on.

        Raise `WireError` if GPU code has data, since only a code object fixes the distance between code and data.
        """
        sections = [each for each in self._assembly.sections.values() if each.is_loaded and each.size]
        if isinstance(self._machine, GcnMachine):
            others = [each.name for each in sections if not each.is_code]
            if others and not self._machine.has_kernels:
                raise WireError(
                    f"the file has data besides code ({', '.join(others)}), so it cannot be bare code: write a code "
                    "object"
                )
            sections = [each for each in sections if each.is_code]
        return self._image([each for each in sections if not each.is_empty])

    def _image(self, sections: list[Section]) -> bytes:
        bases = self._assembly.bases
        first = min((bases[each.name] for each in sections), default=0)
        image = bytearray()
        for each in sorted(sections, key=lambda each: bases[each.name]):
            image += bytes(bases[each.name] - first - len(image)) + each.data
        return bytes(image)

    def pieces(self) -> Iterator[tuple[int, Piece, bool]]:
        """Yield the bytes of each statement in the order of the source.

        Each item is the address, the bytes with their statement, and a bool that is True if they are instructions.
        """
        for piece in self._assembly.pieces:
            section = self._assembly.sections[piece.section]
            if section.is_loaded and piece.statement.line:
                is_code = section.is_code and not piece.statement.name.startswith(".")
                yield self._assembly.bases[piece.section] + piece.offset, piece, is_code

    @property
    def labels(self) -> dict[int, str]:
        """The names of labels, by address."""
        found: dict[int, str] = {}
        for name, symbol in self._assembly.symbols.items():
            if symbol.section in self._assembly.bases and "\0" not in name:
                found.setdefault(self._assembly.bases[symbol.section] + symbol.value, name)
        return found


def assemble(source: str, agent: str = "", base: int = BASE_ADDRESS) -> Assembled:
    """Return the result of assembling and linking the text of a file.

    `agent` is ``rv64gc`` or a processor such as ``gfx900:xnack+``; with "", the target that the file names is
    used, or gfx900 if it names none. `base` is the link address of a RISC-V program. Raise `WireError` with the
    line of an error."""
    is_riscv = agent in RISCV_AGENTS or (not agent and _RISCV.search(source) is not None)
    machine = RiscvMachine(base) if is_riscv else GcnMachine(agent)
    assembly = Assembly(machine, source, DIRECTIVES)
    assembly.run()
    return Assembled(assembly, machine, source)
