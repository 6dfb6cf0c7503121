"""Says in words where two outcomes of a case differ."""

from __future__ import annotations

from dataclasses import fields

from softcard.core.errors import SoftcardError
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.decode import decode, length
from softcard.isa.riscv.isa import ALL
from softcard.isa.riscv.unitstate import FLOAT_EXTENSIONS
from tests.agree.bench import Outcome
from tests.agree.qemu import Case, State


def differences(expected: State, actual: State) -> list[str]:
    """One line for each register, flag or byte that is not as expected."""
    lines = [f"x{n}: {actual.x[n]:#x}, expected {expected.x[n]:#x}" for n in range(32) if actual.x[n] != expected.x[n]]
    lines += [f"f{n}: {actual.f[n]:#x}, expected {expected.f[n]:#x}" for n in range(32) if actual.f[n] != expected.f[n]]
    if actual.fcsr != expected.fcsr:
        lines.append(f"fcsr: {actual.fcsr:#04x}, expected {expected.fcsr:#04x}")
    for n in range(0, len(expected.memory), 8):
        mine, theirs = actual.memory[n : n + 8], expected.memory[n : n + 8]
        if mine != theirs:
            lines.append(f"scratch+{n:#x}: {mine.hex(' ')}, expected {theirs.hex(' ')}")
    return lines


def divergences(expected: Outcome, actual: Outcome) -> list[str]:
    """One line for each part of the whole hart that is not as expected."""
    lines = differences(expected.state, actual.state)
    for part in fields(Outcome):
        mine, theirs = getattr(actual, part.name), getattr(expected, part.name)
        if part.name not in ("state", "elsewhere") and mine != theirs:
            lines.append(f"{part.name}: {mine}, expected {theirs}")
    if actual.elsewhere != expected.elsewhere and actual.state.memory == expected.state.memory:
        lines.append("memory outside the scratch area")
    return lines


def describe(case: Case) -> str:
    """The instructions of a case and the registers they name, as they were before."""
    lines, x_used, f_used, at = [], set(), set(), 0
    while at < len(case.code):
        size = length(int.from_bytes(case.code[at : at + 2], "little"))
        value = int.from_bytes(case.code[at : at + size], "little")
        pc = case.slot.code + at
        try:
            insn = decode(value, ALL)
            shown = text(insn, pc)
            named = {insn.rd, insn.rs1, insn.rs2, insn.rs3}
            x_used |= named
            f_used |= named if insn.spec.extension in FLOAT_EXTENSIONS else set()
        except SoftcardError as error:
            shown = str(error)
        lines.append(f"  {pc:#x}  {value:0{2 * size}x}  {shown}")
        at += size
    before = case.before
    lines += [f"  x{n} = {before.x[n]:#x}" for n in sorted(x_used)]
    lines += [f"  f{n} = {before.f[n]:#x}" for n in sorted(f_used)]
    return "\n".join([f"case {case.slot.index}:", *lines, f"  fcsr = {before.fcsr:#04x}"])


def report(case: Case, lines: list[str]) -> str:
    """A whole failure."""
    return "\n".join([describe(case), "differs:", *(f"  {line}" for line in lines)])
