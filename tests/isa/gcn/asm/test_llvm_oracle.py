"""LLVM 19 as judge: every opcode it knows, its texts, its encodings. Every difference is named, with its reason."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator

import pytest

from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.encoding.decode import IllegalInstruction, decode
from softcard.isa.gcn.encoding.encode import encode_insn
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.target import TARGETS
from tests.isa.gcn.asm.llvm import assembled, disassembled, needs_llvm
from tests.isa.gcn.words import Slot, fillings, sweep

pytestmark = [*needs_llvm, pytest.mark.slow]

SLOTS = {"gfx803": 1601, "gfx900": 1850, "gfx906": 1864}
"""Opcode slots that LLVM's disassembler knows, SDWA and DPP forms counted."""
HALVES = {
    "0x3800": "0.5", "0xb800": "-0.5", "0x3c00": "1.0", "0xbc00": "-1.0", "0x4000": "2.0", "0xc000": "-2.0",
    "0x4400": "4.0", "0xc400": "-4.0", "0x3118": "0.15915494",
}  # fmt: skip


@pytest.mark.parametrize("processor", SLOTS)
def test_every_opcode_of_llvm(processor: str) -> None:
    """Every encoding that LLVM accepts as an instruction is accepted here under the same name; counted by slot."""
    target = TARGETS[processor]
    rows = list(sweep(target.level))
    slots: set[Slot] = set()
    for (slot, code), shown in zip(rows, disassembled(processor, [code for _, code in rows]), strict=True):
        if shown is None or "Invalid" in shown:
            continue
        slots.add(slot)
        insn = decode(target, code)
        name = re.sub("_(e32|e64|sdwa|dpp)$", "", shown.split(" ")[0])
        assert (insn.name, insn.size) == (name, len(code)), f"{code.hex()} {shown}"
    assert len(slots) == SLOTS[processor]


def sample(processor: str, count: int, seed: int = 19) -> list[Insn]:
    return list(fillings(TARGETS[processor], random.Random(seed), count))


def normal(insn: Insn, shown: str) -> str:
    """LLVM's text, put as we put it."""
    # The 16-bit value of an inline constant of a 16-bit integer: we name the constant.
    if "16" in insn.name:
        shown = re.sub(r"\b0x[34bc][0-9a-f]{3}\b", lambda found: HALVES.get(found[0], found[0]), shown)
    # Comparisons with SDWA have no suffix on GFX8.
    if insn.form == "VOPC_SDWA" and insn.target.level == 8:
        shown = shown.replace(" ", "_sdwa ", 1)
    # The VOP3 forms of these have no suffix, so that LLVM would assemble the short ones.
    if insn.form == "VOP3A" and insn.name in ("v_nop", "v_clrexcp"):
        shown += "_e64"
    # The only operation whose modifiers are in another order.
    if insn.name == "buffer_store_lds_dword":
        shown = re.sub(" lds(.*)", r"\1 lds", shown)
    # A sign on an integer operand: ignored by the hardware, and not shown by us.
    if "ldexp" in insn.name or "trig_preop" in insn.name:
        shown = re.sub(r"sext\((\S+)\)", r"\1", shown)
    return shown


def comparable(insn: Insn, ours: str) -> bool:
    """Not: literals that need lit(), which LLVM 19 does not have, and immediates with bits that it drops."""
    raw = insn.name in ("s_waitcnt", "s_sendmsg", "s_sendmsghalt") and "(" not in ours
    # It counts the data registers of image atomics by a table that knows no odd DMASK, and of gather4 with TFE and D16
    # one too many.
    image = insn.form == "MIMG" and ("atomic" in insn.name or ("gather4" in insn.name and insn["tfe"] and insn["d16"]))
    # It shows neither TFE of FLAT nor NV, and for some swizzles texts that it would assemble otherwise.
    hidden = bool((insn.form == "FLAT" and insn.get("tfe")) or insn.get("nv"))
    long_half = insn.literal is not None and insn.literal > 0xFFFF and "16" in insn.name
    return not ("lit(" in ours or raw or image or hidden or long_half or ("offset:0x" in ours and insn.form == "DS"))


@pytest.mark.parametrize("processor", SLOTS)
def test_texts_agree_with_the_disassembler(processor: str) -> None:
    insns = sample(processor, 8)
    shown = disassembled(processor, [encode_insn(insn) for insn in insns])
    seen = {(insn.op.name, insn.form) for insn, theirs in zip(insns, shown, strict=True) if theirs is not None}
    assert len(seen) > 0.99 * SLOTS[processor]
    for insn, theirs in zip(insns, shown, strict=True):
        ours = text(insn)
        if theirs is not None and "Invalid" not in theirs and comparable(insn, ours):
            assert ours == normal(insn, theirs), encode_insn(insn).hex()


def differences(processor: str, insns: list[Insn]) -> Iterator[tuple[str, str, str | None]]:
    texts = [text(insn) for insn in insns]
    for insn, ours, theirs in zip(insns, texts, assembled(processor, texts), strict=True):
        code = encode_insn(insn)
        if theirs is not None and theirs != code and not (insn.form == "EXP" and insn["compr"]):
            yield ours, code.hex(), theirs.hex()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [19, 20])
@pytest.mark.parametrize("processor", ["gfx700", *SLOTS])
def test_encodings_agree_with_the_assembler(processor: str, seed: int) -> None:
    """Our texts mean the same bits to LLVM, wherever it takes them; compressed exports enable other halves there."""
    assert list(differences(processor, sample(processor, 4, seed))) == []


UNKNOWN_ON_GFX7 = {
    ("ds_condxchg32_rtn_b128", "DS"), ("s_mov_fed_b32", "SOP1"), ("s_mov_regrd_b32", "SOP1"),
    ("s_getreg_regrd_b32", "SOPK"), ("v_mov_fed_b32", "VOP1"), ("v_mov_fed_b32", "VOP3A"),
    ("v_readlane_b32", "VOP3A"), ("v_writelane_b32", "VOP3A"),
}  # fmt: skip
"""In AMD's manual of GFX7, not in LLVM."""


def test_every_slot_of_gfx7_is_confirmed_by_the_assembler() -> None:
    insns = sample("gfx700", 40)
    texts = [text(insn) for insn in insns]
    theirs = assembled("gfx700", texts)
    confirmed = {
        (insn.op.name, insn.form) for insn, code in zip(insns, theirs, strict=True) if code == encode_insn(insn)
    }
    assert {(insn.op.name, insn.form) for insn in insns} - confirmed == UNKNOWN_ON_GFX7
    assert len(confirmed) + len(UNKNOWN_ON_GFX7) == 1194


def test_random_words() -> None:
    """Random words: LLVM may refuse more (a bit that must be 0), and we refuse more only for a reserved register."""
    chance = random.Random(3)
    codes = [chance.getrandbits(64).to_bytes(8, "little") for _ in range(4000)]
    for code, shown in zip(codes, disassembled("gfx900", codes), strict=True):
        if shown is None or "/*" in shown or "null" in shown:
            continue
        with contextlib.suppress(IllegalInstruction):
            decode(TARGETS["gfx900"], code)
            continue
        assert refused(code, "cannot begin|lane mask|must be scalar|is reserved|be a scalar register"), shown


def refused(code: bytes, reasons: str) -> bool:
    with pytest.raises(IllegalInstruction) as caught:
        decode(TARGETS["gfx900"], code)
    return re.search(reasons, str(caught.value)) is not None
