"""The vector extension on our engines against qemu-riscv64, and against the scalar instructions."""

from __future__ import annotations

import re
import struct
from itertools import cycle
from random import Random
from typing import Any

import pytest

from softcard.engine.riscv.jit.engine import JitEngine
from softcard.isa.riscv.decode import encode
from softcard.isa.riscv.state import Hart
from softcard.isa.riscv.table import VECTOR
from tests.agree import qemu, vectors
from tests.agree.fuzz import ENGINES
from tests.agree.vectors import ARITHMETIC, NAMES, PLAIN, Case, Ours, State, disagreements, make

ORACLE = pytest.mark.skipif(qemu.QEMU is None, reason="qemu-riscv64 is not installed (Debian: qemu-user)")
COMPARED = [name for name in NAMES if ".rtz." not in name]


@pytest.mark.oracle
@pytest.mark.slow
@ORACLE
@pytest.mark.parametrize("vlen", [128, 512, 1024])
def test_every_instruction_agrees_with_qemu(vlen: int) -> None:
    names = cycle(COMPARED)

    def each(random: Random, vlen: int) -> Case:
        return make(random, vlen, [next(names)])

    found, _ = disagreements(f"every {vlen}", 1300 if vlen == 128 else 700, vlen, ENGINES["reference"](), each)
    assert found == []


@pytest.mark.oracle
@ORACLE
@pytest.mark.parametrize("engine", ["reference", "quick"])
def test_programs_agree_with_qemu(engine: str) -> None:
    assert disagreements("programs", 200 if engine == "reference" else 100, 128, ENGINES[engine]())[0] == []


def test_the_fuzzer_knows_all_instructions() -> None:
    assert {*ARITHMETIC, *vectors.ACCESSES, *(n for n in PLAIN if ".rtz." in n)} == set(NAMES)


def _of_state(words: list[int], f: list[int], vectors_: bytes, vtype: int, vl: int) -> State:
    """The state behind instructions that run from this one."""
    x = [0] * 32
    before = State(x, f, 0, vl, vtype, 0, 0, vectors_)
    after = Ours(ENGINES["reference"](), 128, bytes(vectors.MEMORY_BYTES)).run(Case(words, before, 128))
    assert after is not None
    assert after.traps == 0
    return after


@pytest.mark.parametrize("signed", ["x", "xu"])
def test_conversions_towards_zero_are_those_of_scalars(signed: str) -> None:
    """What the judge has no word for: vfcvt.rtz is fcvt with the rounding mode rtz."""
    random = Random(signed)
    fields: dict[str, int] = {"rd": 10, "rs1": 1, "rm": 1}
    for _ in range(40):
        a = vectors.pattern(random, "d")
        scalar = "l" if signed == "x" else "lu"
        register = a.to_bytes(8, "little") + bytes(8)
        vector = encode(f"vfcvt.rtz.{signed}.f.v", rd=2, rs2=1, vm=1)
        words = [vector, encode("vmv.x.s", rd=11, rs2=2), encode(f"fcvt.{scalar}.d", **fields)]
        after = _of_state(words, [0, a, *[0] * 30], bytes(16) + register + bytes(480), 0b11000, 1)
        assert after.x[10] == after.x[11]
        flags = _of_state(words[2:], [0, a, *[0] * 30], bytes(512), 0b11000, 1).fcsr
        assert after.fcsr == flags


NATIVE = tuple(row.name for row in VECTOR if row.what.flow == "next" and not row.name.startswith("vset"))


def natural(name: str) -> int:
    """A legal word of an instruction on v8, v16, v24, x11, fa0 (f10) and the memory at x16, by x17 or v20."""
    fields = {f.name for f in VECTOR[name].pattern.fields}
    given = {"rd": 8, "rs1": 24 if "vs1" in VECTOR[name].operands else 11, "rs2": 16, "vm": 1, "imm": 3}
    if "(rs1)" in VECTOR[name].operands:
        given.update(rs1=16, rs2=20 if "vs2" in VECTOR[name].operands else 17)
    elif "fs1" in VECTOR[name].operands:
        given["rs1"] = 10
    return encode(name, **{key: value for key, value in given.items() if key in fields})


def natural_state(vtype: int, vl: int) -> State:
    """Floats and integers of moderate size everywhere."""
    x, f = [0] * 32, [0xFFFF_FFFF_4040_0000] * 32
    x[11], x[16], x[17] = 5, vectors.MEMORY + 64, 24
    registers = [struct.pack("<4f", n + 1, 2 + n / 16, n + 0.5, 7) for n in range(32)]
    registers[20:22] = b"\x08".ljust(16, b"\0"), bytes(16)
    return State(x, f, 0, vl, vtype, 0, 0, b"".join(registers))


def test_what_is_left_to_the_reference_engine() -> None:
    """Estimates by tables and rounding to odd: no processor has them."""
    left = {row.name for row in VECTOR if row.what.flow == "system"}
    assert left == {"vfrsqrt7.v", "vfrec7.v", "vfncvt.rod.f.f.w"}


@pytest.mark.parametrize("vl", [2, 1])
def test_translated_code_runs_what_it_is_said_to_run(vl: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instruction by instruction as the reference engine does, whole groups and parts; and without its help."""
    stepped: list[int] = []
    steps = JitEngine.steps

    def noted(self: JitEngine, hart: Hart, *more: Any) -> Any:
        stepped.append(hart.pc)
        return steps(self, hart, *more)

    monkeypatch.setattr(JitEngine, "steps", noted)
    memory = bytes(range(256)) * (vectors.MEMORY_BYTES // 256)
    jit, detector = (Ours(ENGINES[name](), 128, memory) for name in ("quick", "reference"))
    reset = encode("vmv.v.i", rd=8, imm=1)
    for sew, code in ((32, 0b10_000), (64, 0b11_000)):
        count = vl * 2 if sew == 32 else vl
        usable = [name for name in NATIVE if _exists(name, sew)]
        for first in range(0, len(usable), 20):
            names = usable[first : first + 20]
            words = [encode("vsetivli", rs1=count, imm=code)]
            for name in names:
                words += [reset, natural(name), encode("vadd.vv", rd=12, rs2=12, rs1=8, vm=1)]
            case = Case(words, natural_state(code, count), 128)
            detector.memory.view[:] = memory
            wanted = detector.run(case)
            assert wanted is not None
            assert wanted.traps == 0, case.notes
            for _ in range(3):  # the first times pages are not known
                jit.memory.view[:] = memory
                stepped.clear()
                found = jit.run(case)
            assert found == wanted, names
            assert jit.memory.view == detector.memory.view
            assert stepped == [], names
    assert {name for sew in (32, 64) for name in NATIVE if _exists(name, sew)} == set(NATIVE)


def _exists(name: str, sew: int) -> bool:
    """Whether an instruction is legal on e32,m1 or e64,m1."""
    if ".vf8" in name or re.match("v[ls]s?seg[5-8]e64", name):
        return sew == 64
    return sew == 32 or not name.startswith(("vw", "vfw", "vfn", "vnsr", "vnclip")) or name.startswith("vfnm")
