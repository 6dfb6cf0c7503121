"""Recognition of polling loops: by every engine, at the same instruction."""

from __future__ import annotations

import pytest

from softcard.engine.riscv.api import Why
from softcard.engine.riscv.polling import is_poll
from softcard.isa.riscv.state import FOREVER, POLLS, RESERVED_ADDRESS, RETURN_ADDRESS, SHARED, SYNCHRONIZED
from tests.engine.riscv.rig import CODE, DATA, ENGINES, Rig, fetcher

POLLING = {
    "a flag": "lw x5, 0(x10); beq x5, x0, .-4",
    "a flag, by a jump": "lw x5, 0(x10); bne x5, x0, .+8; jal x0, .-8",
    "with a fence": "lw x5, 0(x10); fence; bne x5, x6, .-8",
    "a ticket": "lw x5, 0(x10); addiw x5, x5, 1; andi x5, x5, 255; bne x5, x6, .-12",
    "two words": "ld x5, 0(x10); ld x6, 8(x10); sub x7, x5, x6; bgeu x7, x11, .-12",
    "a lock": "amoswap.w.aq x5, x6, (x10); bne x5, x0, .-4",
    "a lock, tested first": "ld x5, 0(x10); bne x5, x0, .-4; amoswap.w x5, x6, (x10); bne x5, x0, .-12",
    "compare and exchange": "lr.w x5, (x10); bne x5, x6, .+12; sc.w x7, x8, (x10); bne x7, x0, .-12",
    "an atomic load": "amoadd.w x5, x0, (x10); beq x5, x0, .-4",
    "one of two ways": "ld x5, 0(x10); beq x5, x6, .+8; ld x5, 8(x10); beq x5, x0, .-12",
    "with a count of rounds": "addi x7, x7, 1; ld x5, 0(x10); bne x5, x6, .-8",
    "with a limit": "ld x5, 0(x10); beq x5, x6, .+12; addi x7, x7, -1; bne x7, x0, .-12",
    "with a pause": "ld x5, 0(x10); beq x5, x6, .+20; addi x7, x0, 3; addi x7, x7, -1; bne x7, x0, .-4; jal x0, .-20",
    "with growing pauses": (
        "ld x5, 0(x10); beq x5, x6, .+24; addi x7, x28, 0; addi x7, x7, -1; blt x0, x7, .-4; slli x28, x28, 1; "
        "jal x0, .-24"
    ),
    "not optimised": "ld x5, -24(x8); ld x5, 8(x5); sd x5, -40(x8); ld x5, -40(x8); beq x5, x0, .-16",
    "not optimised, with a count": (
        "ld x5, -32(x8); addi x5, x5, 1; sd x5, -32(x8); ld x5, -24(x8); ld x5, 0(x5); beq x5, x0, .-20"
    ),
    "several flags": (
        "addi x28, x10, 0; addi x7, x0, 1; ld x5, 0(x28); sltu x5, x5, x6; xori x5, x5, 1; and x7, x7, x5; "
        "addi x28, x28, 8; bne x28, x29, .-20; beq x7, x0, .-32"
    ),
    "several flags, looked at in the next round": (
        "bne x7, x0, .+40; addi x28, x10, 0; addi x7, x0, 1; ld x5, 0(x28); sltu x5, x5, x6; xori x5, x5, 1; "
        "and x7, x7, x5; addi x28, x28, 8; bne x28, x29, .-20; jal x0, .-36"
    ),
    "a queue that is guarded": (
        "addi x5, x0, 1; amoswap.w x5, x5, (x10); bne x5, x0, .-8; ld x7, 8(x10); beq x7, x0, .+12; ld x28, 16(x10); "
        "bne x28, x0, .+12; amoswap.w x0, x0, (x10); jal x0, .-32"
    ),
}
FRAME = 0x100
WORKING = {
    "a count": "ld x5, 0(x10); addi x6, x6, -1; bne x6, x0, .-8",
    "a list": "ld x10, 0(x10); bne x10, x0, .-4",
    "a store": "ld x5, 0(x10); sd x5, 8(x10); beq x5, x0, .-8",
    "no memory": "add x5, x6, x7; beq x5, x0, .-4",
    "an endless loop": "jal x0, .+0",
    "a counter in memory": "amoadd.w x5, x6, (x10); bne x5, x7, .-4",
    "a call": "ld x5, 0(x10); jal x1, .+8; addi x0, x0, 0; beq x5, x0, .-12",
    "a time": "csrrs x5, cycle, x0; ld x6, 0(x10); bltu x5, x6, .-8",
    "sometimes the last round's": "ld x6, 0(x10); beq x6, x7, .+8; addi x5, x6, 1; beq x5, x0, .-12",
    "a float": "flw f5, 0(x10); ld x6, 0(x10); beq x6, x0, .-8",
    "forward": "ld x5, 0(x10); beq x5, x0, .+4",
    "a search": "ld x5, 0(x10); addi x10, x10, 8; bne x5, x6, .-8",
    "a search by index": "add x7, x10, x28; ld x5, 0(x7); addi x28, x28, 8; bne x5, x6, .-12",
    "a sum": "ld x5, 0(x10); add x7, x7, x5; beq x5, x6, .-8",
    "a sum in memory": "ld x5, 0(x10); ld x7, -32(x8); add x7, x7, x5; sd x7, -32(x8); beq x5, x6, .-16",
    "a generator": "ld x5, 0(x10); mul x7, x7, x28; bltu x7, x5, .-8",
    "two that take turns": "addi x28, x7, 0; ld x5, 0(x10); addi x7, x29, 0; mul x29, x28, x5; beq x5, x6, .-16",
    "counts while something holds": "ld x5, 0(x10); addi x7, x7, -1; bne x5, x6, .+4; bne x7, x0, .-12",
    "half of a word": "ld x5, -32(x8); lw x7, -28(x8); sd x5, -32(x8); beq x7, x0, .-12",
    "a frame that moves": "ld x5, 0(x2); addi x2, x2, 8; bne x5, x6, .-8",
    "a lock that counts": "addi x6, x6, 1; amoswap.w x5, x6, (x10); bne x5, x0, .-8",
}


@pytest.mark.parametrize("name", [*POLLING, *WORKING])
def test_what_polls(name: str) -> None:
    text = (POLLING | WORKING)[name].replace("; ", "\n")
    lines = text.split("\n")
    fetch = fetcher(text)
    last = CODE + 4 * (len(lines) - 1)
    insn = fetch(last)
    assert insn is not None
    assert is_poll(last, insn, fetch) == (name in POLLING)
    assert not is_poll(last, insn, lambda at: None) or len(lines) == 1


def test_a_long_loop_is_not_searched() -> None:
    for length, polls in ((31, True), (32, False)):
        text = "\n".join(["ld x5, 0(x10)", *["addi x6, x5, 1"] * (length - 1), f"beq x5, x0, .-{4 * length}"])
        fetch = fetcher(text)
        insn = fetch(CODE + 4 * length)
        assert insn is not None
        assert is_poll(CODE + 4 * length, insn, fetch) == polls


@pytest.mark.parametrize("name", POLLING)
def test_turns_of_polling_end_at_the_same_instruction(name: str) -> None:
    outcomes = {}
    for engine, make in ENGINES.items():
        rig = Rig(make())
        rig.warm()
        end = rig.place(POLLING[name].replace("; ", "\n"))
        if "lock" in name:
            rig.data.view[:4] = b"\1\0\0\0"
        rig.data.view[FRAME - 24 : FRAME - 16] = DATA.to_bytes(8, "little")
        seen = []
        for rounds in (0, 1, 7, 7, FOREVER):
            rig.hart.words[POLLS] = rounds
            outcome = rig.run(end, 3000, x10=DATA, x6=3, x11=0, x8=DATA + FRAME, x28=1, x29=DATA + 32)
            seen.append((outcome.ending, outcome.pc, outcome.retired))
        outcomes[engine] = seen
    assert outcomes["reference"] == outcomes["quick"] == outcomes["optimised"]
    polled = {ending for ending, _, _ in outcomes["quick"][:4]}
    if name != "compare and exchange":  # ends at once: the word is another one
        assert polled == {"wait"}
        assert outcomes["quick"][4][0] == "fuel"


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("text", ["amoadd.d x5, x6, (x10)", "lr.d x5, (x10)", "sc.d x5, x6, (x10)", "fence"])
def test_what_synchronizes_waits_to_be_alone(name: str, text: str) -> None:
    rig = Rig(ENGINES[name]())
    rig.warm()
    end = rig.place(f"addi x7, x0, 1\n{text}")
    words = rig.hart.words
    for _ in range(3):
        words[SHARED], words[SYNCHRONIZED] = 1, 0
        outcome = rig.run(end, x10=DATA)
        assert (outcome.ending, outcome.pc, outcome.retired) == (Why.ALONE.value, CODE + 4, 1)
        assert words[SYNCHRONIZED] == 1
        words[SHARED] = 0
        assert rig.engine.run(rig.hart, 10).why is Why.RETURN


@pytest.mark.parametrize("name", ENGINES)
def test_a_reservation_lasts_for_a_turn(name: str) -> None:
    rig = Rig(ENGINES[name]())
    rig.warm()
    end = rig.place("lr.d x5, (x10)\nsc.d x7, x8, (x10)\naddi x9, x0, 0")
    for fuel, result in ((1, 1), (2, 0)):
        rig.run(end, fuel, x10=DATA)
        rig.engine.run(rig.hart, 10)
        assert rig.hart.x(7) == result


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    ("at", "size", "kept"), [(0, 1, False), (7, 1, False), (8, 8, True), (-8, 8, True), (-4, 64, False)]
)
def test_a_write_by_somebody_else_ends_a_reservation(name: str, at: int, size: int, kept: bool) -> None:
    rig = Rig(ENGINES[name]())
    rig.warm()
    address = DATA + 64
    end = rig.place("lr.d x5, (x10)")
    assert rig.run(end, x10=address).ending == "return"
    rig.engine.code_written(rig.host(address) + at, size)
    assert (rig.hart.words[RESERVED_ADDRESS] == address) == kept
    assert rig.hart.words[RETURN_ADDRESS] == end
