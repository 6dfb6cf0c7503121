"""Functions that assemble text to machine code or to a loadable file. The assembler is imported on first use."""

from __future__ import annotations


def assemble_code_object(source: str, agent: str = "") -> bytes:
    """Return the code object that results from assembling and linking `source` for AMD GPUs.

    The syntax is that which clang writes (``clang -S``). `agent` is the name of the processor; if the text names a
    processor, both must be equal. Raise `WireError` with the line of an error.
    """
    from softcard.image.assembly.assembly import Assembly
    from softcard.image.assembly.directives import DIRECTIVES
    from softcard.image.assembly.gcn import GcnMachine

    assembly = Assembly(machine := GcnMachine(agent), source, DIRECTIVES)
    assembly.run()
    return machine.write(assembly)


def assemble(text: str, pc: int = 0) -> bytes:
    """Return the machine code and data of RISC-V assembly text that is placed at address `pc`.

    The syntax is that of `assemble_program`: instructions of every extension, pseudo-instructions, directives and
    labels, one per line or separated by ``;``. Only ``c.`` instructions, and code after ``.option rvc``, are
    compressed. Raise `WireError` with the line of an error.
    """
    from softcard.image.assembly.assembly import Assembly
    from softcard.image.assembly.directives import DIRECTIVES
    from softcard.image.assembly.program import Assembled
    from softcard.image.assembly.riscv import RiscvMachine

    assembly = Assembly(machine := RiscvMachine(pc, is_file=False), text, DIRECTIVES)
    assembly.run()
    return Assembled(assembly, machine).code()


def assemble_program(source: str, base: int = 0x10000) -> bytes:
    """Return the executable ELF file for RISC-V assembly text in the syntax of gcc's and clang's output.

    The program is linked at address `base`. Raise `WireError` with the line of an error."""
    from softcard.image.assembly.program import RISCV_AGENTS, assemble

    return assemble(source, RISCV_AGENTS[0], base).elf()
