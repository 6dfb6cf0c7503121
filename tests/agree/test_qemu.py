"""Both engines against qemu-riscv64, an independent implementation of the user-level instructions."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from softcard.ir import softfloat
from softcard.isa.riscv.decode import encode
from tests.agree import qemu
from tests.agree.cases import user_names
from tests.agree.compare import differences
from tests.agree.fuzz import ENGINES, disagreements
from tests.agree.programs import batch
from tests.agree.qemu import SNIPPET_OFFSET, Case, Slot, State, program
from tests.agree.values import state
from tests.agree.words import KNOWN, UNCOMPARED, compressed

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(qemu.QEMU is None, reason="qemu-riscv64 is not installed (Debian: qemu-user)"),
]

SEED = 20
COUNT = 1000
"""Cases of a part."""
PARTS = [("reference", n) for n in range(6)] + [("quick", n) for n in range(6)] + [("optimised", 0)]


@cache
def recorded(part: int) -> tuple[list[Case], list[State]]:
    cases = batch(f"{SEED}/{part}", COUNT)
    return cases, qemu.run(cases)


@pytest.mark.slow
@pytest.mark.one_in(6)
@pytest.mark.parametrize(("engine", "part"), PARTS)
def test_engine_agrees_with_qemu(engine: str, part: int) -> None:
    found = disagreements(ENGINES[engine](), *recorded(part))
    assert not found, f"{len(found)} of {COUNT} cases of {SEED}/{part} differ; the first:\n\n" + "\n\n".join(found[:5])


def test_every_user_level_mnemonic_is_among_the_cases() -> None:
    machine_only = {"mret", "sret", "wfi", "sfence.vma", "ecall", "ebreak"}
    assert set(user_names()) == set(KNOWN) - set(UNCOMPARED) - machine_only | set(compressed()) - {"c.ebreak"}
    assert 2 * len(user_names()) <= COUNT


def slot_state(slot: Slot, seed: int, keeper: int) -> State:
    before = state(Random(seed))
    x = list(before.x)
    x[keeper] = slot.out
    return replace(before, x=tuple(x))


def test_the_harness_carries_every_register_and_byte_through() -> None:
    """A nop changes nothing, with each register as the keeper."""
    nop = encode("addi").to_bytes(4, "little")
    cases = [Case(Slot(k - 1), nop, slot_state(Slot(k - 1), k, k), k) for k in range(1, 32)]
    assert qemu.run(cases) == [case.before for case in cases]


def test_the_harness_against_plain_expectations() -> None:
    """Results of qemu against arithmetic that shares no code with the engines' meanings."""
    sum_, product, quotient = encode("add", rd=5, rs1=6, rs2=7), encode("clmul", rd=5, rs1=6, rs2=7), None
    cases = []
    for n in range(400):
        slot, rm = Slot(n), n % 5
        quotient = encode("fdiv.d", rd=1, rs1=2, rs2=3, rm=rm)
        fused = encode("fmadd.d", rd=4, rs1=2, rs2=3, rs3=5, rm=7)
        code = struct.pack("<4I", sum_, quotient, fused, product if n % 2 else sum_)
        cases.append(Case(slot, code, slot_state(slot, n, 31), 31))
    for case, after in zip(cases, qemu.run(cases), strict=True):
        a, b = case.before.x[6:8]
        carryless = 0
        for k in range(64):
            carryless ^= (a << k) * (b >> k & 1)
        n, f, mode = case.slot.index, case.before.f, case.before.fcsr >> 5
        quotient_bits, first = softfloat.div("d", f[2], f[3], n % 5)
        fused_bits, second = softfloat.fma("d", f[2], f[3], f[5], mode)
        assert after.x[5] == (carryless if n % 2 else a + b) % (1 << 64)
        assert (after.f[1], after.f[4]) == (quotient_bits, fused_bits)
        assert after.fcsr == case.before.fcsr | first | second


def test_a_case_that_ends_the_program_is_named() -> None:
    good = [Case(Slot(n), b"\x01\x00", slot_state(Slot(n), n, 31), 31) for n in range(5)]
    bad = replace(good[3], code=b"\x00\x00")
    with pytest.raises(RuntimeError, match=r"qemu-riscv64 in case 3, code 00 00: status -4"):
        qemu.run([*good[:3], bad, good[4]])


def test_the_program_is_an_executable_for_riscv() -> None:
    case = Case(Slot(0), b"\x01\x00", slot_state(Slot(0), 1, 31), 31)
    image = program([case])
    assert image[:7] == b"\x7fELF\x02\x01\x01"
    assert struct.unpack_from("<HH", image, 16) == (2, 243)
    assert struct.unpack_from("<Q", image, 24) == (qemu.CODE,)
    assert image[0x1000 + SNIPPET_OFFSET :][:2] == b"\x01\x00"


def test_a_difference_is_noticed_and_named() -> None:
    before = state(Random(1))
    x, f = list(before.x), list(before.f)
    x[3] ^= 1
    f[4] ^= 2
    after = replace(before, x=tuple(x), f=tuple(f), fcsr=before.fcsr ^ 1, memory=b"\xff" + before.memory[1:])
    assert [line.split(":")[0] for line in differences(before, after)] == ["x3", "f4", "fcsr", "scratch+0x0"]
    assert differences(before, before) == []
