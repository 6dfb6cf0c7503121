"""Assembly text of decoded instructions, in the style of GNU ``objdump -M no-aliases``, and machine code of text.

No pseudo-instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.riscv.insn import Insn, Spec
from understudy.isa.riscv.rows import InsnTable, Row
from understudy.isa.riscv.table import BASE, FURTHER, PARCELS, VECTOR

ORDERINGS: Final = {(0, 0): "", (1, 0): ".aq", (0, 1): ".rl", (1, 1): ".aqrl"}
"""Suffixes of an atomic for its (aq, rl)."""
_LABEL: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*:")
_TARGET: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*$")


def text(insn: Insn, pc: int | None = None) -> str:
    """The instruction as an assembler writes it: ``"addi a0,a1,4"``, ``"c.beqz a0,0x10294"``.

    No pseudo-instructions; a compressed instruction under its own mnemonic. Branch targets are absolute where `pc`,
    the address of the instruction, is given, else like ``.+8``.
    """
    if insn.alias:
        name, operands = insn.alias, PARCELS.text(PARCELS[insn.alias], insn.word, pc)
    else:
        table = _table(insn.name)
        name, operands = insn.name + ORDERINGS[insn.aq, insn.rl], table.text(table[insn.name], insn.word, pc)
    return f"{name} {operands}".rstrip()


def encode(name: str, **fields: int) -> int:
    """The word of a mnemonic ("addi", "c.addi") with these fields, named as in `Insn`; 0 where not given.

    A fence has the one field `order` (fm, pred and succ). `WireError` for an unknown mnemonic or field, or a value
    that does not fit.
    """
    try:
        return PARCELS.encode(name, fields) if name in PARCELS else _table(name).encode(name, fields)
    except WireError as error:
        raise error.at("instruction", name) from None


def assemble(text: str, pc: int = 0) -> bytes:
    """The machine code of assembly text that starts at address `pc`.

    Instructions stand one on a line or behind ``;``, as `text` writes them; ``name:`` makes a label, which branches
    and jumps may name; ``#`` starts a comment. `WireError` with the line for what is no instruction.
    """
    lines: list[tuple[int, int, str]] = []
    labels: dict[str, int] = {}
    address = pc
    for number, statement in _statements(text):
        while label := _LABEL.match(statement):
            if label[1] in labels:
                raise WireError(f"label {label[1]} stands twice").at("line", number, statement.strip())
            labels[label[1]] = address
            statement = statement[label.end() :]
        if statement := statement.strip():
            lines.append((number, address, statement))
            address += 2 if statement.startswith("c.") else 4
    code = bytearray()
    for number, address, statement in lines:
        try:
            code += _statement(statement, address, labels)
        except WireError as error:
            raise error.at("line", number, statement) from None
    return bytes(code)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        for statement in line.partition("#")[0].split(";"):
            yield number, statement


def _statement(statement: str, pc: int, labels: dict[str, int]) -> bytes:
    name, operands = (*statement.split(None, 1), "")[:2]
    if name in PARCELS:
        form = PARCELS[name]
        fields = PARCELS.read(form, _resolve(form.operands, operands, labels), pc)
        return PARCELS.encode(name, fields).to_bytes(2, "little")
    row = row_of(name)
    return word_of(name, _resolve(row.operands, operands, labels), pc).to_bytes(4, "little")


def word_of(name: str, operands: str, pc: int | None = None) -> int:
    """The word of an instruction of 32 bits with numbers for all its operands; an atomic's may end in .aq, .rl, .aqrl.

    Targets of branches are like ``.+8`` where `pc` is None. `WireError` for what is no such instruction.
    """
    name, ordering = _ordering(name)
    table = _table(name)
    return table.encode(name, table.read(table[name], operands, pc) | ordering)


def row_of(name: str) -> Row[Spec]:
    """The row of an instruction of 32 bits; `WireError` where there is none."""
    name, _ = _ordering(name)
    return _table(name)[name]


def _table(name: str) -> InsnTable[Spec]:
    """The table that has a mnemonic of 32 bits."""
    return next((table for table in (VECTOR, FURTHER) if name in table), BASE)


def _ordering(name: str) -> tuple[str, dict[str, int]]:
    """Split the .aq, .rl or .aqrl from the mnemonic of an atomic."""
    for (aq, rl), suffix in ORDERINGS.items():
        base = name.removesuffix(suffix)
        if suffix and base != name and base in BASE and "aq" in BASE[base].pattern.text:
            return base, {"aq": aq, "rl": rl}
    return name, {}


def _resolve(form: str, operands: str, labels: dict[str, int]) -> str:
    """Put the address of a label in its place, where the last operand is a target."""
    if not form.endswith("target"):
        return operands
    return _TARGET.sub(lambda name: hex(labels[name[1]]) if name[1] in labels else name[1], operands)
