"""What translated code leaves to the reference engine is looked at once, and counted once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from softcard.device.refsi.spec import schedule
from softcard.engine.riscv.code_stores.layout import NUMBERS
from softcard.engine.riscv.code_stores.translated import TranslatedCodeStoreEngine
from softcard.image.assembly.files import assemble_program
from tests.agree.hart_programs import found_by

HEAD = """
.globl kernel
kernel:
    li t0, 1
    vsetvli t0, t0, e32, m1, ta, ma
    vmv.v.i v4, 1
    vmv.v.i v5, 1
    li t3, 32
"""
UNDEFINED_LOAD = """
    bnez a0, other
    fence rw, w
    sw s5, 0(a1)
    ret
other:
    li t5, 4
again:
    lw t2, 0(a1)
    addi t5, t5, -1
    bnez t5, again
    ret
"""
"""Harts load what another one has released, but not computed."""
SEGMENT_LOAD = """
    bnez a0, other
    sw t3, 4(a1)
    fence rw, w
    sw t3, 0(a1)
    ret
other:
    vlsseg2e32.v v4, (a1), t3
    ret
"""
"""Harts load two fields: what another one has released, and what it stored before."""
SEGMENT_STORE = """
    li t2, 1
    beq a0, t2, one
    bgtu a0, t2, two
    sw t3, 4(a1)
    ret
one:
    fence rw, w
    vssseg2e32.v v4, (a1), t3
    ret
two:
    lw t2, 0(a1)
    fence r, rw
    ret
"""
"""A hart stores two fields behind a fence: a flag, and what another one has stored, too."""
ADDRESS = """
    li t5, 40
    li t1, 0x20002000
    add t2, {base}, s5
again:
    {access}
    addi t5, t5, -1
    bnez t5, again
    ret
"""
"""An address that nobody has computed, again and again: of a register of the device, or of memory."""
REGISTER = ADDRESS.format(base="t1", access="ld t3, 0(t2)")
MEMORY = ADDRESS.format(base="a1", access="sw t5, 0(t2)")
BESIDE_OTHERS = """
    li t5, 100
long:
    addi t5, t5, -1
    bnez t5, long
    amoadd.w t4, s6, (a1)
    ret
"""
"""An atomic operation behind a hart's first turn: it waits until no other hart runs."""
Counts = dict[tuple[str, str], int]
"""By kind and mnemonic."""


def _counts(text: str, **options: Any) -> Counts:
    """What both engines tell of two launches, which is the same."""
    program = assemble_program(HEAD + text)
    options |= {"instances": 4, "harts": 4}
    one = found_by(program, 64, engine="reference", **options)
    other = found_by(program, 64, engine="jit", tier="first", threads=1, **options)
    assert other == one
    found: Counter[tuple[str, str]] = Counter()
    for each in one[0]:
        found[each["kind"], each["insn"].split()[0]] += each["count"]
    return dict(found)


@pytest.mark.parametrize("check", ["races,init", "waits,races,init"])
def test_a_load_that_is_left_because_of_shadow_bits(check: str) -> None:
    assert _counts(UNDEFINED_LOAD, check=check) == {("write-read", "lw"): 24}


@pytest.mark.parametrize("check", ["races", "waits,races"])
def test_a_segment_that_is_left_because_of_one_field(check: str) -> None:
    assert _counts(SEGMENT_LOAD, check=check) == {("write-read", "vlsseg2e32.v"): 12}
    assert _counts(SEGMENT_STORE, check=check) == {("write-write", "vssseg2e32.v"): 2}


@pytest.mark.parametrize("check", ["init", "races,init", "waits,init"])
def test_an_undefined_address_of_what_is_no_memory(check: str) -> None:
    assert _counts(REGISTER, check=check) == {("undefined-address", "ld"): 320}


def test_an_undefined_address_of_what_races() -> None:
    found = _counts(MEMORY, check="races,init", equal_stores=True)
    assert found == {("undefined-address", "sw"): 320, ("write-write", "sw"): 6}


def test_an_undefined_operand_of_what_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "SLICE", 50)
    assert _counts(BESIDE_OTHERS, check="init") == {("undefined-atomic", "amoadd.w"): 8}


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sw t3, 0(t1)", "vse32.v v4, (t1)", "amoadd.w.rl t2, t3, (t1)"])
@pytest.mark.parametrize("left", [0, 1])
def test_a_store_that_there_is_no_number_for(store: str, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left until there are numbers again: it stores a flag all the same."""
    sync = TranslatedCodeStoreEngine.code_synced

    def sync_late(self: TranslatedCodeStoreEngine) -> None:
        sync(self)
        self._have_cells()
        self._stores.next = NUMBERS - left

    monkeypatch.setattr(TranslatedCodeStoreEngine, "code_synced", sync_late)
    text = f"""
    addi t1, a1, 64
    bnez a0, other
    sw t3, 0(a1)
    fence rw, w
    {store}
    ret
other:
    lw t2, 0(t1)
    fence r, rw
    lw t2, 0(a1)
    ret
"""
    assert _counts(text, check="waits,races") == {}
