"""GNU as and objdump as judges of encodings and texts. Every difference is named here, with its reason."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from softcard.core.errors import BeyondModel
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.csrnames import CSR_NAMES
from softcard.isa.riscv.decode import IllegalInstruction, decode
from softcard.isa.riscv.table import BASE

AS, OBJDUMP = (shutil.which(f"riscv64-unknown-elf-{tool}") for tool in ("as", "objdump"))
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(AS is None or OBJDUMP is None, reason="needs riscv64-unknown-elf-as and -objdump (binutils)"),
]
TARGETS = frozenset({"jal", "beq", "bne", "blt", "bge", "bltu", "bgeu", "c.j", "c.beqz", "c.bnez"})
LINE = re.compile(r"\s*([0-9a-f]+):\t([0-9a-f]+)\s+\t(\S+)\s*([^#<]*)")


def assembled(source: str, folder: Path) -> list[tuple[int, int, str | None]]:
    """(pc, word, objdump's text or None where it knows no instruction) for assembly source."""
    assert AS is not None
    assert OBJDUMP is not None
    listing, code = folder / "a.s", folder / "a.o"
    listing.write_text(source + "\n")
    subprocess.run([AS, "-march=rv64gcv_zbc", "-o", code, listing], check=True)
    dump = subprocess.run([OBJDUMP, "-d", "-M", "no-aliases", code], check=True, capture_output=True, text=True).stdout
    found = []
    for line in map(LINE.match, dump.splitlines()):
        if line is not None:
            name, operands = line[3], line[4].strip()
            if name in TARGETS:
                operands = re.sub(r"([0-9a-f]+)$", r"0x\1", operands)
            found.append((int(line[1], 16), int(line[2], 16), None if name[0] == "." else f"{name} {operands}".strip()))
    return found


def disassembled(words: Iterable[int], size: int, folder: Path) -> list[tuple[int, int, str | None]]:
    return assembled("\n".join(f".insn {size}, {word:#x}" for word in words), folder)


def ours(word: int, pc: int) -> str | None:
    try:
        return text(decode(word), pc)
    except (IllegalInstruction, BeyondModel):
        return None


def expected_of_parcel(word: int, theirs: str | None) -> str | None:
    """Return our text for an instruction that objdump prints as `theirs`."""
    if word == 0:
        return None  # it has a name for the defined illegal instruction: c.unimp
    if theirs == "c.addi16sp sp,0":
        return None  # reserved: "the code point with nzimm=0 is reserved"
    if theirs is not None and theirs.startswith("c.addi zero,"):
        return "c.nop" if theirs == "c.addi zero,0" else "c.nop " + theirs.partition(",")[2]  # the manual's name
    if theirs is not None and "64 " in theirs:
        return theirs.replace("64 ", " ") + ",0x0"  # hints: shifts by 0, RV128 shifts by 64
    return theirs


@pytest.mark.slow
def test_every_parcel(tmp_path: Path) -> None:
    parcels = [parcel for parcel in range(1 << 16) if parcel & 3 != 3]
    judged = disassembled(parcels, 2, tmp_path)
    assert [word for _, word, _ in judged] == parcels
    wrong = [(hex(w), theirs, ours(w, pc)) for pc, w, theirs in judged if ours(w, pc) != expected_of_parcel(w, theirs)]
    assert wrong == []


def expected_of_word(word: int, theirs: str | None) -> str | None:
    mine = ours(word, 0) or ""
    if theirs is None and mine.startswith("fence"):
        return mine  # "base implementations shall ignore" the unused fields of fences: objdump does not
    if theirs is None and re.match(r"fcvt\.d\.(w|wu|s) .*,", mine):
        return mine  # rm is a real field, although the conversion never rounds
    if theirs in ("uret", "hret"):
        return None  # not in the ratified manual
    if theirs == "unimp":
        return mine  # csrrw zero,cycle,zero by another name
    if mine.startswith("csr") and word >> 20 not in CSR_NAMES:
        return mine  # registers of other extensions have names there, numbers here
    return theirs


@pytest.mark.slow
def test_words_of_every_opcode(tmp_path: Path) -> None:
    rng = random.Random(1)
    words = [row.pattern.match | rng.getrandbits(32) & ~row.pattern.mask for row in BASE for _ in range(40)]
    words += [rng.getrandbits(32) & ~0x7F | opcode << 2 | 3 for opcode in range(32) for _ in range(500)]
    for opcode in (0x0F, 0x13, 0x1B, 0x2F, 0x33, 0x3B, 0x53, 0x73):
        for high in range(1 << 10):
            for rs2 in (0, 1, 2, 3, 5):
                words.append(high >> 3 << 25 | rs2 << 20 | (high & 7) << 12 | opcode)
    words = [word for word in words if word & 0x1F != 0x1F]
    judged = disassembled(words, 4, tmp_path)
    assert [word for _, word, _ in judged] == words
    wrong = []
    for pc, word, theirs in judged:
        mine = ours(word, pc)
        if mine != theirs and mine != expected_of_word(word, theirs):
            wrong.append((hex(word), theirs, mine))
    assert wrong == []


def test_as_agrees_with_the_texts(tmp_path: Path) -> None:
    rng = random.Random(2)
    words = []
    for row in BASE:
        for _ in range(20):
            word = row.pattern.match | rng.getrandbits(32) & ~row.pattern.mask
            insn = decode(word) if row.pattern.matches(word) else None
            exact = row.name in ("fcvt.d.w", "fcvt.d.wu", "fcvt.d.s") and insn is not None and insn.rm
            if insn and insn.rm not in (5, 6) and not exact and row.name[:5] != "fence" and row.name not in TARGETS:
                words.append(word)
    source = "\n".join(text(decode(word)) for word in words)
    assert [word for _, word, _ in assembled(".option norvc\n" + source, tmp_path)] == words
