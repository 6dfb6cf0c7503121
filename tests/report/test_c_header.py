"""C header export: a C compiler agrees with the declaration."""

import shutil
import subprocess

import pytest

from softcard.core.errors import BeyondModel, ModelBug
from softcard.core.register import Field, Register, RegisterMap
from softcard.report.registers import to_c_header
from tests.report.maps import BYTES, MAPS


def facts(registers):
    """Every C expression that the header must make true, from the declaration."""
    start = registers.name
    yield f"{start}_UNIT_BYTES == {registers.unit_bytes}"
    for register, index, offset in registers.elements():
        name = register.name if register.name.startswith(start) else f"{start}_{register.name}"
        argument = f"({index})" if register.count > 1 else ""
        yield f"{name}_OFFSET{argument} == {offset}"
        yield f"{name}_RESET == {register.reset_value}u"
        if register.count > 1:
            yield f"{name}_COUNT == {register.count}"
            yield f"{name}_STRIDE * {index} == {name}_OFFSET({index}) - {name}_OFFSET(0)"
        for part in register.fields:
            field = f"{name}_{part.name.upper()}"
            yield f"{field}_MASK == {part.mask}u"
            yield f"{field}_SHIFT == {part.lsb}"
            yield f"{field}_WIDTH == {part.width}"


@pytest.mark.oracle
@pytest.mark.parametrize("registers", MAPS, ids=lambda registers: registers.name)
def test_a_c_compiler_agrees(registers, tmp_path):
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "registers.h").write_text(to_c_header(registers))
    checks = [f'_Static_assert({fact}, "{fact}");' for fact in facts(registers)]
    extra = ['_Static_assert(BAR0_INTR_REG_TWO_WORDS == 1 && BAR0_INTR_REG_3RD__ == 3, "values");']
    source = ['#include "registers.h"', '#include "registers.h"', *checks, *(extra if registers is BYTES else [])]
    (tmp_path / "check.c").write_text("\n".join(source) + "\n")
    command = [gcc, "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "check.c"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_header_is_laid_out_for_people():
    header = to_c_header(BYTES)
    assert header.startswith("#ifndef BAR0_REGISTERS_H\n#define BAR0_REGISTERS_H\n\n#include <stdint.h>\n")
    assert "/* INTR: interrupt status * / of the device \\ */\n#define BAR0_INTR_OFFSET" in header
    assert "#define BAR0_FEED_OFFSET(n)  (0x8cu + 0x4u * (n))" in header
    assert header.endswith("#endif /* BAR0_REGISTERS_H */\n")


def test_the_prefix_can_be_chosen():
    assert "#define ACCELDEV_INTR_OFFSET" in to_c_header(BYTES, "acceldev")


def test_registers_wider_than_c_constants_are_refused():
    with pytest.raises(BeyondModel, match=r"^R has 128 bits, but C has constants of at most 64 bits$"):
        to_c_header(RegisterMap("M", (Register("R", 0, (), 128),)))


def test_macros_of_one_name_are_refused():
    clash = Register("R", 0, (Field("F", 0, values={0: "MASK"}),))
    with pytest.raises(ModelBug, match=r"^names of macros must be unique, not M_R_F_MASK twice$"):
        to_c_header(RegisterMap("M", (clash,)))
