"""Error messages of kernels about their cause: the instruction, its registers, gp, the stack."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.core.errors import AccessFault, GuestFault, SoftcardError, WireError
from softcard.host.refsi.refsi import RefSi
from tests.host.programs import program

EVERY = pytest.mark.parametrize("profile", ["spec", "refsidrv"])
ENGINES = pytest.mark.parametrize("engine", ["jit", "reference"])


def failure(text: str, profile: str = "spec", engine: str = "jit", **options: object) -> SoftcardError:
    """The error of a kernel in assembly text, called with an array and 5."""
    with RefSi.open(profile=profile, engine=engine) as device:
        device.load_elf(program(text, **options))  # type: ignore[arg-type]
        with pytest.raises(SoftcardError) as caught:
            device.launch("kernel", 2, [device.zeros(64, np.int64), 5])
    return caught.value


@EVERY
@ENGINES
@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("lui t0, 0x8\nld t1, 16(t0)", "(kernel+0x4: ld t1,16(t0), t0 = 0x8000)"),
        ("addi t0, zero, -8\nsb t1, 0(t0)", "(kernel+0x4: sb t1,0(t0), t0 = 0xfffffffffffffff8)"),
        ("amoadd.w t1, t2, (a2)", "(kernel: amoadd.w t1,t2,(a2), a2 = 0x5)"),
        ("lw t1, 4(a2)", "(kernel: lw t1,4(a2), a2 = 0x5)"),
        ("csrrs t0, time, zero", "(kernel: csrrs t0,time,zero)"),
        ("ebreak", "(kernel: ebreak)"),
    ],
)
def test_a_fault_reports_the_instruction(text: str, reported: str, profile: str, engine: str) -> None:
    error = failure(text, profile, engine)
    assert isinstance(error, GuestFault)
    assert reported in str(error)


@EVERY
def test_no_instruction_where_none_could_be_fetched(profile: str) -> None:
    error = failure("lui t0, 0x8\njalr zero, 0(t0)", profile)
    assert "at pc 0x8000, at hart 0" in str(error)


@EVERY
def test_code_that_was_written_over(profile: str) -> None:
    text = "auipc t0, 0\nsw zero, 12(t0)\nfence.i\nadd t1, t1, t2"
    reported = (
        "no compressed instruction has this encoding (the program file has add t1,t1,t2 there: its code was "
        "overwritten)"
    )
    assert failure(text, profile).message == f"illegal instruction 0x0000: {reported}"
    assert "there" not in failure("csrrw zero, cycle, zero", profile).message


@EVERY
def test_an_access_below_the_stack(profile: str) -> None:
    error = failure("lui t0, 0x80\nsub sp, sp, t0\nsd a0, -24(sp)", profile)
    assert isinstance(error, AccessFault)
    assert "(below this hart's stack, which lies at 0x14000000..0x14080000)" in str(error)
    assert "sd a0,-24(sp), sp = 0x14000000" in str(error)


@EVERY
def test_an_access_outside_the_program(profile: str) -> None:
    reported = "(outside the program, whose segments lie at 0x10000.."
    assert reported in str(failure("lui t0, 0x20\nld t1, 0(t0)", profile))
    assert reported not in str(failure("lui t0, 0x8\nld t1, 0(t0)", profile)), "no program can lie there"


@EVERY
@pytest.mark.parametrize("text", ["lw t0, -2000(gp)", "addi t0, gp, -2000\nlw t1, 0(t0)"])
def test_an_access_relative_to_gp(text: str, profile: str) -> None:
    reported = (
        "(the code uses gp, which no code sets: the linker expects __global_pointer$ = 0x10800 there; link "
        "with -Wl,--no-relax)"
    )
    symbols = {"__global_pointer$": 0x1_0800}
    assert reported in str(failure(text, profile, symbols=symbols))
    assert reported not in str(failure(text, profile)), "nobody knows of a global pointer"
    assert reported not in str(failure("lui gp, 0x8\n" + text, profile, symbols=symbols)), "the kernel sets it"
    assert reported not in str(failure("lw t0, 8(zero)", profile, symbols=symbols)), "that is a null pointer"


@EVERY
@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("vsetvli t0, zero, e16,m1,ta,ma\nvfadd.vv v1, v2, v3", "the floats have 16 bits, expected 32 or 64"),
        (
            "vadd.vv v1, v2, v3",
            "vector instruction while vtype.vill is set: no vset* instruction has run, or the last one had an "
            "illegal setting",
        ),
        ("vsetvli t0, zero, e8,m2,ta,ma\nvadd.vv v2, v4, v7", "v7 cannot begin a group of 2 registers"),
    ],
)
def test_a_reserved_vector_instruction_is_refused_with_a_sentence(text: str, reported: str, profile: str) -> None:
    error = failure(text, profile)
    assert isinstance(error, GuestFault)
    assert reported in str(error)
    assert text.splitlines()[-1].replace(", ", ",") in str(error)


# -- programs that are linked into memory of the device


HIGH = 0xBFFE_0000


@EVERY
def test_a_program_in_dram_keeps_its_memory(profile: str) -> None:
    text = "addi t0, zero, 77; sd t0, 0(a1)"
    constant = np.arange(1000, dtype=np.int64)
    file = program(text, base=HIGH, segments=[(HIGH + 0x1000, constant.tobytes())])
    with RefSi.open(profile=profile) as device:
        loaded = device.load_elf(file)
        arrays = [device.array(np.full(100_000, n, np.int64)) for n in range(3)]
        for array in arrays:
            assert array.address + array.nbytes <= HIGH or array.address >= HIGH + 0x3000
        for array in arrays:
            device.launch(loaded.kernel("kernel"), 1, [array])
            assert array.array[0] == 77
        assert device.read(HIGH + 0x1000, 8000) == constant.tobytes()
        loaded.unload()
        assert device.port.reserve(HIGH, 0x3000), "it was given back"  # type: ignore[attr-defined]


@EVERY
def test_a_program_over_an_array_is_refused(profile: str) -> None:
    with RefSi.open(profile=profile) as device:
        array = device.zeros(1000, np.int64)
        file = program("addi t0, zero, 77", base=array.address + 0x1000)
        message = rf"device memory at 0x{array.address + 0x1000:x}\.\.0x{array.address + 0x2000:x}, which is in use"
        with pytest.raises(WireError, match=message):
            device.load_elf(file)
        assert not array.array.any()
        device.load_elf(program("addi t0, zero, 77"))


@EVERY
@pytest.mark.parametrize("base", [0x1020_0000, 0x103F_FFF8, 0x101F_FFFC])
def test_a_program_in_the_harts_memory_is_refused(base: int, profile: str) -> None:
    with RefSi.open(profile=profile) as device:
        message = r"overlaps the private memory of the harts, 0x10200000\.\.0x10400000, expected 0x10000\.\.0x8000000"
        with pytest.raises(WireError, match=message):
            device.load_elf(program("addi t0, zero, 77", base=base))
        device.load_elf(program("addi t0, zero, 77", base=0x1000_0000))


def test_a_new_program_takes_the_place_of_the_old_one() -> None:
    with RefSi.open() as device:
        for _ in range(3):
            device.load_elf(program("addi t0, zero, 77; sd t0, 0(a1)", base=HIGH))
            out = device.zeros(1, np.int64)
            device.launch("kernel", 1, [out])
            assert out.array[0] == 77


@pytest.mark.oracle
@ENGINES
def test_the_line_of_the_source(engine: str) -> None:
    """The source line is named if the program has debug information."""
    with RefSi.open(engine=engine) as device:
        source = "void kernel(unsigned long instance, int *p) {\n  p[1 << 20] = 1;\n}\n"
        for options, reported in ((("-g",), ":2), at hart 0"), (("-g0",), "), at hart 0")):
            loaded = device.compile(source, options=options)
            with pytest.raises(AccessFault) as caught:
                device.launch("kernel", 1, [0x10])
            at = next(each for each in caught.value.path if each.kind == "pc")
            place = str(loaded.place_of(int(at.where, 16)) or "")
            assert reported in str(caught.value)
            assert at.what.endswith(place)
            assert place.endswith(":2") == (options == ("-g",))


PRINTS = """
auipc t0, 0
addi a0, t0, 20
addi a7, zero, 1
ecall
sw zero, 0(zero)
"""


@EVERY
@ENGINES
def test_what_was_printed_before_a_fault_is_kept(profile: str, engine: str) -> None:
    with RefSi.open(profile=profile, engine=engine) as device:
        device.load_elf(program(PRINTS, tail=b"half \x1b[1mway\n\0\0\0"))
        with pytest.raises(AccessFault) as caught:
            device.launch("kernel", 1)
    error = caught.value
    assert (error.console, error.text) == (b"half \x1b[1mway\n", "half \x1b[1mway\n")
    assert "printed before the error:\n  half \\x1b[1mway" in error.__notes__
