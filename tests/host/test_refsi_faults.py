"""What the errors of kernels say about their cause: the instruction, its registers, gp, the stack."""

from __future__ import annotations

import numpy as np
import pytest

from tests.host.programs import program
from understudy.core.errors import AccessFault, BeyondModel, GuestFault, UnderstudyError
from understudy.host.refsi import RefSi

EVERY = pytest.mark.parametrize("profile", ["spec", "refsidrv"])
ENGINES = pytest.mark.parametrize("engine", ["jit", "reference"])


def failure(text: str, profile: str = "spec", engine: str = "jit", **options: object) -> UnderstudyError:
    """The error of a kernel in assembly text, called with an array and 5."""
    with RefSi.open(profile=profile, engine=engine) as device:
        device.load_elf(program(text, **options))  # type: ignore[arg-type]
        with pytest.raises(UnderstudyError) as caught:
            device.launch("kernel", 2, [device.zeros(64, np.int64), 5])
    return caught.value


@EVERY
@ENGINES
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lui t0, 0x8\nld t1, 16(t0)", "(kernel+0x4: ld t1,16(t0), t0 = 0x8000)"),
        ("addi t0, zero, -8\nsb t1, 0(t0)", "(kernel+0x4: sb t1,0(t0), t0 = 0xfffffffffffffff8)"),
        ("amoadd.w t1, t2, (a2)", "(kernel: amoadd.w t1,t2,(a2), a2 = 0x5)"),
        ("lw t1, 4(a2)", "(kernel: lw t1,4(a2), a2 = 0x5)"),
        ("csrrs t0, time, zero", "(kernel: csrrs t0,time,zero)"),
        ("ebreak", "(kernel: ebreak)"),
    ],
)
def test_a_fault_tells_the_instruction(text: str, told: str, profile: str, engine: str) -> None:
    error = failure(text, profile, engine)
    assert isinstance(error, GuestFault)
    assert told in str(error)


@EVERY
def test_no_instruction_where_none_could_be_fetched(profile: str) -> None:
    error = failure("lui t0, 0x8\njalr zero, 0(t0)", profile)
    assert "at pc 0x8000, at hart 0" in str(error)


@EVERY
def test_an_access_below_the_stack(profile: str) -> None:
    error = failure("lui t0, 0x80\nsub sp, sp, t0\nsd a0, -24(sp)", profile)
    assert isinstance(error, AccessFault)
    assert "(below this hart's stack, which lies at 0x14000000..0x14080000)" in str(error)
    assert "sd a0,-24(sp), sp = 0x14000000" in str(error)


@EVERY
@pytest.mark.parametrize("text", ["lw t0, -2000(gp)", "addi t0, gp, -2000\nlw t1, 0(t0)"])
def test_an_access_relative_to_gp(text: str, profile: str) -> None:
    told = (
        "(the code before it uses gp, which nothing sets: the linker expects __global_pointer$ = 0x10800 there; link "
        "with -Wl,--no-relax)"
    )
    symbols = {"__global_pointer$": 0x1_0800}
    assert told in str(failure(text, profile, symbols=symbols))
    assert told not in str(failure(text, profile)), "nobody knows of a global pointer"
    assert told not in str(failure("lui gp, 0x8\n" + text, profile, symbols=symbols)), "the kernel sets it"
    assert told not in str(failure("lw t0, 8(zero)", profile, symbols=symbols)), "that is a null pointer"


@EVERY
@pytest.mark.parametrize(
    ("word", "name"), [(0x0D00_72D7, "vsetvli"), (0x0205_E007, "vle32.v"), (0x4E2F_A057, "a vector instruction")]
)
def test_vector_instructions_have_names(word: int, name: str, profile: str) -> None:
    error = failure("addi zero, zero, 0", profile, tail=word.to_bytes(4, "little"))
    assert isinstance(error, BeyondModel)
    assert f"is {name}, of the vector extension (V 1.0), which is not modelled: compile with -march=rv64gc" in str(
        error
    )
    assert "at pc 0x10004 (kernel+0x4)" in str(error)
