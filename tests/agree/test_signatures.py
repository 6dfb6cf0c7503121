"""Signatures of programs that try every instruction of a family on corner values, against qemu-riscv64's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from softcard.riscv import RV64
from tests.agree.qemu import QEMU
from tests.agree.signatures import FAMILIES, FLOATS, INTEGERS, elf, program, rows

MODEL = "rv64,Zfh=true,zba=true,zbb=true,zbc=true,zbs=true"
COMPARED_SEPARATELY = {"ctzw"}
"""QEMU 7.2 counts zeros of the upper half too."""
RUNS = [(family, "jit") for family in FAMILIES]
RUNS += [(family, "reference") for family in ("M", "C", "Zbb")]
"""The others take the reference engine seconds, and fuzzing holds it to the same."""


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.skipif(QEMU is None, reason="qemu-riscv64 is not installed (Debian: qemu-user)")
@pytest.mark.parametrize(("family", "engine"), RUNS)
def test_signatures_are_those_of_qemu(family: str, engine: str, tmp_path: Path) -> None:
    data = elf(family, [name for name, _ in rows(family) if name not in COMPARED_SEPARATELY])
    (tmp_path / "program").write_bytes(data)
    (tmp_path / "program").chmod(0o755)
    command = [str(QEMU), "-cpu", MODEL, str(tmp_path / "program")]
    wanted = subprocess.run(command, capture_output=True, check=True, timeout=300).stdout
    result = RV64.run(data, engine=engine)
    assert result.signature == result.console
    assert len(wanted) > 20_000
    size, word = (16, 8) if family in (*FLOATS, "A") else (8, 8)
    differing = [at // size for at in range(0, len(wanted), word) if result.console[at:][:word] != wanted[at:][:word]]
    assert (len(result.console), differing) == (len(wanted), [])


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_have_every_instruction_of_the_family(family: str) -> None:
    made = program(family)
    assert made.done == {name for name, _ in rows(family)}
    assert len(rows(family)) >= 3
    assert made.size >= 8 * len(rows(family)) * len(INTEGERS) or family in FLOATS


def test_ctzw() -> None:
    found = RV64.run(elf("Zbb", ["ctzw"])).signature
    wanted = [((a & -a).bit_length() - 1 if a & 0xFFFF_FFFF else 32) for a in INTEGERS]
    assert [int.from_bytes(found[at : at + 8], "little") for at in range(0, len(found), 8)] == wanted
