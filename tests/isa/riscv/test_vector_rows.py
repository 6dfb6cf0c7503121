"""Encodings and texts of the vector extension, judged by GNU as and objdump."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from random import Random

import pytest

from softcard.core.errors import WireError
from softcard.isa.riscv.assembler import assemble, text
from softcard.isa.riscv.decode import decode
from softcard.isa.riscv.table import BASE, HALFWORDS, VECTOR
from tests.isa.riscv.test_oracle import AS, OBJDUMP

ROWS = {row.name: row for row in VECTOR}


def words(name: str, count: int) -> list[int]:
    """Words of one instruction, all other bits at random, the first ones zeros and ones."""
    pattern, random = ROWS[name].pattern, Random(name)
    junk = [0, -1, *(random.getrandbits(32) for _ in range(count))]
    found = dict.fromkeys(pattern.match | each & ~pattern.mask & 0xFFFF_FFFF for each in junk)
    return [word for word in found if pattern.matches(word)]


def test_every_instruction_has_a_row() -> None:
    """375 as the list of opcodes counts them; a segment form is one more name of a load or store."""
    plain = [name for name in ROWS if not re.search("seg[2-8]", name)]
    assert len(plain) == 375
    assert len(ROWS) - len(plain) == 36 * 7
    assert not ROWS.keys() & ({row.name for row in BASE} | {row.name for row in HALFWORDS})


def test_no_word_is_of_two_tables() -> None:
    for name in ROWS:
        assert all(BASE.find(word) is None for word in words(name, 4))


@pytest.mark.oracle
@pytest.mark.skipif(AS is None or OBJDUMP is None, reason="needs riscv64-unknown-elf-as and -objdump (binutils)")
def test_texts_and_bytes_are_those_of_binutils(tmp_path: Path) -> None:
    samples = [word for name in ROWS for word in words(name, 6)]
    source, code = tmp_path / "a.s", tmp_path / "a.o"
    ours = [text(decode(word)) for word in samples]
    source.write_text("\n".join(ours) + "\n")
    subprocess.run([AS, "-march=rv64gcv", "-o", code, source], check=True)
    dump = subprocess.run([OBJDUMP, "-d", "-M", "no-aliases", code], check=True, capture_output=True, text=True).stdout
    lines = re.findall(r"^\s*[0-9a-f]+:\t([0-9a-f]{8})\s+\t(\S+)(?:\t([^#<\n]*))?", dump, flags=re.M)
    assert [int(word, 16) for word, *_ in lines] == samples
    theirs = [f"{name} {operands.strip()}" for _, name, operands in lines]
    assert theirs == ours


def test_what_is_shown_can_be_assembled() -> None:
    for name in ROWS:
        for word in words(name, 2):
            assert assemble(text(decode(word))) == word.to_bytes(4, "little"), name


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("vadd.vv v1, v2, x3", "vadd.vv: 'x3' is not valid for operand vs1"),
        ("vadd.vi v1, v2, 16", "imm = 16 cannot be encoded, expected a value from -16 to 15"),
        ("vadd.vv v1, v2, v3, v1.t", "vadd.vv: 'v1.t' is not valid for operand vm"),
        ("vsetvli a0, a1, e12,m1,ta,ma", "vsetvli: 'e12,m1,ta,ma' is not valid for operand vtype"),
        ("vmerge.vvm v1, v2, v3", "vmerge.vvm needs operands 'vd, vs2, vs1, v0'"),
    ],
)
def test_refused_texts(line: str, reported: str) -> None:
    with pytest.raises(WireError, match=re.escape(reported)):
        assemble(line)
