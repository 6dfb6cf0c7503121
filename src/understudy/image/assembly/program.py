"""An assembly file as a whole: source in, code or a file to be loaded out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from understudy.core.errors import WireError
from understudy.image.assembly.assembly import Assembly, Piece, Section
from understudy.image.assembly.directives import DIRECTIVES
from understudy.image.assembly.gcn import GcnMachine
from understudy.image.assembly.riscv import BASE_ADDRESS, RiscvMachine

RISCV_AGENTS: Final = ("rv64gc",)
_RISCV: Final = re.compile(r"^\s*\.(attribute|option)\s", re.MULTILINE)
"""Directives that no assembler of AMD GPUs has, and every file of gcc or clang."""


class Assembled:
    """An assembled file. Make it with `assemble`."""

    def __init__(self, assembly: Assembly, machine: GcnMachine | RiscvMachine) -> None:
        self._assembly = assembly
        self._machine = machine

    @property
    def agent(self) -> str:
        """What it is for: ``gfx900``, ``rv64gc``."""
        machine = self._machine
        return machine.object.processor if isinstance(machine, GcnMachine) else RISCV_AGENTS[0]

    @property
    def is_object(self) -> bool:
        """Whether the source describes a file to be loaded, and not code alone."""
        return not isinstance(self._machine, GcnMachine) or self._machine.has_kernels

    @property
    def exports(self) -> tuple[str, ...]:
        """Its global symbols."""
        said = self._assembly.attributes
        return tuple(name for name in self._assembly.symbols if name in said and said[name].binding)

    def elf(self) -> bytes:
        """The file to be loaded: a code object, or an executable program."""
        return self._machine.write(self._assembly)

    def code(self) -> bytes:
        """Code alone, and for a program all that it has in memory, from its first section on.

        `WireError` where a GPU's code has data beside it, whose distance only a code object says.
        """
        sections = [each for each in self._assembly.sections.values() if each.is_loaded and each.size]
        if isinstance(self._machine, GcnMachine):
            others = [each.name for each in sections if not each.is_code]
            if others and not self._machine.has_kernels:
                raise WireError(f"the file has data besides code ({', '.join(others)}): write a code object")
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
        """Address, bytes with their statement, and whether they are instructions, in the order of the source."""
        for piece in self._assembly.pieces:
            section = self._assembly.sections[piece.section]
            if section.is_loaded and piece.statement.line:
                is_code = section.is_code and not piece.statement.name.startswith(".")
                yield self._assembly.bases[piece.section] + piece.offset, piece, is_code

    @property
    def labels(self) -> dict[int, str]:
        """Names of places, by address."""
        found: dict[int, str] = {}
        for name, symbol in self._assembly.symbols.items():
            if symbol.section in self._assembly.bases and "\0" not in name:
                found.setdefault(self._assembly.bases[symbol.section] + symbol.value, name)
        return found


def assemble(source: str, agent: str = "", base: int = BASE_ADDRESS) -> Assembled:
    """Assemble and link the text of a file.

    `agent` is ``rv64gc`` or a processor such as ``gfx900:xnack+``; where it is "", the file says what it is for (gfx900
    if it does not). `base` is where a RISC-V program is linked. `WireError` with the line for what is wrong.
    """
    is_riscv = agent in RISCV_AGENTS or (not agent and _RISCV.search(source) is not None)
    machine = RiscvMachine(base) if is_riscv else GcnMachine(agent)
    assembly = Assembly(machine, source, DIRECTIVES)
    assembly.run()
    return Assembled(assembly, machine)
