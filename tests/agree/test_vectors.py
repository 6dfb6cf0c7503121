"""The vector extension on our engines against qemu-riscv64, and against the scalar instructions."""

from __future__ import annotations

from itertools import cycle
from random import Random

import pytest

from tests.agree import qemu, vectors
from tests.agree.fuzz import ENGINES
from tests.agree.vectors import ARITHMETIC, NAMES, PLAIN, Case, Ours, State, disagreements, make
from understudy.isa.riscv.decode import encode

ORACLE = pytest.mark.skipif(qemu.QEMU is None, reason="qemu-riscv64 is not installed (Debian: qemu-user)")
JUDGED = [name for name in NAMES if ".rtz." not in name]


@pytest.mark.oracle
@pytest.mark.slow
@ORACLE
@pytest.mark.parametrize("vlen", [128, 512, 1024])
def test_every_instruction_agrees_with_qemu(vlen: int) -> None:
    names = cycle(JUDGED)

    def each(random: Random, vlen: int) -> Case:
        return make(random, vlen, [next(names)])

    found, _ = disagreements(f"every {vlen}", 1300 if vlen == 128 else 700, vlen, ENGINES["reference"](), each)
    assert found == []


@pytest.mark.oracle
@ORACLE
@pytest.mark.parametrize("engine", ["reference", "quick"])
def test_programs_agree_with_qemu(engine: str) -> None:
    assert disagreements("programs", 200, 128, ENGINES[engine]())[0] == []


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
