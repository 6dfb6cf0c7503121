"""From assembly text to a file to be loaded, in one call. The assembler is loaded when one of them is."""

from __future__ import annotations


def assemble_code_object(source: str, agent: str = "") -> bytes:
    """The code object of assembly text as clang writes it for AMD GPUs (``clang -S``), linked.

    `agent`: the processor, which must be the one that the text names, if it does. `WireError` with the line for what is
    wrong.
    """
    from understudy.image.assembly.assembly import Assembly
    from understudy.image.assembly.directives import DIRECTIVES
    from understudy.image.assembly.gcn import GcnMachine

    assembly = Assembly(machine := GcnMachine(agent), source, DIRECTIVES)
    assembly.run()
    return machine.write(assembly)


def assemble_program(source: str, base: int = 0x10000) -> bytes:
    """The executable ELF file of RISC-V assembly text as gcc and clang write it (``-S``), linked at `base`.

    `WireError` with the line for what is wrong.
    """
    from understudy.image.assembly.program import RISCV_AGENTS, assemble

    return assemble(source, RISCV_AGENTS[0], base).elf()
