"""What a program's own symbols and layout add to the error of a kernel."""

from __future__ import annotations

from typing import Final

from understudy.core.errors import AccessFault, BeyondModel, Place, UnderstudyError
from understudy.host.refsi.program import ELF_BASE, ELF_END, HART_BASE, Kernel, Program
from understudy.isa.riscv.assembler import text
from understudy.isa.riscv.decode import decode, length
from understudy.isa.riscv.floatstate import EXTENSIONS
from understudy.isa.riscv.insn import IllegalInstruction, Insn

GP: Final = 3
GLOBAL_POINTER: Final = "__global_pointer$"
STACK_REACH: Final = 1 << 20
"""Bytes below a stack where an access is taken for one that ran out of it."""
SHOWN: Final = 4
"""Segments that an error lists."""
LONGEST_FUNCTION: Final = 1 << 14
"""Bytes of code before a fault that are looked through for a use of gp."""


def explained(error: UnderstudyError, kernel: Kernel) -> UnderstudyError:
    """The error with the kernel's name, each pc with its place in the program, and why it may have come to that."""
    program = kernel.program
    at = next((place for place in error.path if place.kind == "pc"), None)
    error.path = tuple(_named(place, program) if place.kind == "pc" else place for place in error.path)
    if isinstance(error, AccessFault) and at:
        error.message += _cause(error.address, int(at.where, 16), program)
    elif isinstance(error, IllegalInstruction) and at and not at.what:
        error.message += _overwritten(int(at.where, 16), program)
    return error.at("kernel", kernel.name)


def _named(place: Place, program: Program) -> Place:
    name = program.image.name_at(int(place.where, 16))
    source = str(program.place_of(int(place.where, 16)) or "")
    return Place(
        place.kind, place.where, ", ".join(filter(None, (": ".join(filter(None, (name, place.what))), source)))
    )


def _cause(address: int, pc: int, program: Program) -> str:
    """Why a kernel may have come to `address`; "" where nobody knows."""
    if HART_BASE - STACK_REACH <= address < HART_BASE:
        return f" (below this hart's stack, which lies at {HART_BASE:#x}..{program.stack_top:#x})"
    pointer = (program.image.symbols or {}).get(GLOBAL_POINTER)
    if pointer is not None and _relies_on_gp(pc, program):
        return (
            f" (the code before it uses gp, which nothing sets: the linker expects {GLOBAL_POINTER} = "
            f"{pointer.address:#x} there; link with -Wl,--no-relax)"
        )
    if ELF_BASE <= address < ELF_END:
        lying = sorted((segment.address, segment.end) for segment in program.image.segments)
        shown = ", ".join(f"{first:#x}..{end:#x}" for first, end in lying[:SHOWN])
        return f" (outside the program, whose segments lie at {shown}{', ...' if len(lying) > SHOWN else ''})"
    return ""


def _overwritten(pc: int, program: Program) -> str:
    """What the file has at `pc`, where no instruction is any more."""
    insn = _decoded(program.image.read(pc, 4))
    return f" (the program has {text(insn, pc)} there: something wrote over its code)" if insn else ""


def _relies_on_gp(pc: int, program: Program) -> bool:
    """Whether the code from the symbol before `pc` up to it, read straight on, reads gp and never writes it."""
    name, start = program.image.before(pc)
    if not name or pc - start > LONGEST_FUNCTION:
        return False
    code = program.image.read(start, pc - start + 4)
    reads, at = False, 0
    while at <= pc - start:
        insn = _decoded(code[at : at + 4])
        if insn is None or insn.rd == GP:
            return False
        reads |= insn.rs1 == GP or (insn.rs2 == GP and insn.spec.extension not in EXTENSIONS)
        at += insn.length
    return reads


def _decoded(code: bytes) -> Insn | None:
    word = int.from_bytes(code, "little")
    try:
        return decode(word if length(word & 0xFFFF) == 4 else word & 0xFFFF)
    except (BeyondModel, IllegalInstruction):
        return None
