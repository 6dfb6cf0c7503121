"""Programs of RV64 that ask their host for anything: calls and words for tohost with numbers that make no sense."""

from __future__ import annotations

from random import Random
from typing import Final

from softcard.core.errors import BeyondModel, GuestFault, SoftcardError, WireError
from softcard.riscv import RV64, assemble_program
from tests.hostile.checks import check_error, in_time
from tests.hostile.generate import address

MASK64: Final = (1 << 64) - 1
NUMBERS: Final = (29, 57, 62, 63, 64, 66, 93, 94, 214)
LINUX: Final = (*NUMBERS, 17, 25, 65, 79, 80, 98, 101, 113, 115, 123, 129, 134, 135, 153, 160, 165, 169, 179,
                215, 216, 222, 233, 261, 278)  # fmt: skip
NEAR: Final = ("tohost", "fromhost", "words", "_start", "end")
SIZES: Final = (0, 1, 8, 16, 1024, 1025, 1 << 31, 1 << 32, 1 << 63, MASK64)
WORDS: Final = (0, 1, 2, 3, 1 << 48, 1 << 56, 0x0101 << 48 | 0x141, 0x0100 << 48, 0xFF << 56, MASK64, 0xBABE_CAFE)
STEP_LIMIT: Final = 3000


def argument(random: Random) -> str:
    """A place in the program, a size, or any number: as what `li` or `la` takes."""
    kind = random.randrange(3)
    if kind == 0:
        return f"la t0, {random.choice(NEAR)}\naddi t0, t0, {random.choice((0, 0, 8, -8, 1))}"
    return f"li t0, {random.choice(SIZES) if kind == 1 else address(random) & MASK64:#x}"


def call(random: Random) -> str:
    """An ecall."""
    number = random.choice(LINUX) if random.random() < 0.9 else random.randrange(-1, 500)
    lines = [f"{argument(random)}\nmv a{k}, t0" for k in range(4)]
    if random.random() < 0.7:
        lines.append(f"li a0, {random.randrange(3)}")
    return "\n".join([*lines, f"li a7, {number}", "ecall"])


def mail(random: Random) -> str:
    """A store to tohost of any width: a word, or a call in memory that may not be there."""
    lines = ["la s0, words", f"li t0, {random.choice(NUMBERS)}", "sd t0, 0(s0)"]
    for k in range(1, 4):
        lines += [argument(random), f"sd t0, {8 * k}(s0)"]
    lines.append(random.choice(("mv t0, s0", argument(random), f"li t0, {random.choice(WORDS):#x}")))
    store, offset = random.choice((("sd", 0), ("sd", 0), ("sd", 0), ("sw", 0), ("sb", 0), ("sw", 4), ("sh", 6)))
    return "\n".join([*lines, "la s1, tohost", f"{store} t0, {offset}(s1)"])


def program(random: Random) -> bytes:
    """A few of them."""
    is_bare = random.random() < 0.6
    body = "\n".join(mail(random) if is_bare else call(random) for _ in range(random.randrange(1, 5)))
    hide = "" if is_bare else ".set tohost_, tohost\n"
    text = f".globl _start\n_start:\n{body}\nli a0, 7\nli a7, 93\necall\n.data\n.balign 64\n{hide}tohost: .dword 0\n"
    text += ".balign 64\nfromhost: .dword 0\nwords: .fill 8, 8, 0\nend:\n"
    if not is_bare:
        text = text.replace("tohost", "mailbox")
    return assemble_program(text, random.choice((0x1_0000, 0x8000_0000)))


def outcome(data: bytes, engine: str, vlen: int) -> tuple[object, str]:
    """What came of it."""
    try:
        result = RV64.run(data, engine=engine, vlen=vlen, step_limit=STEP_LIMIT, stdin=b"text", time_limit_seconds=60)
    except SoftcardError as error:
        check_error(error)
        return type(error), str(error)
    return result, ""


def check(random: Random) -> None:
    """Both engines end alike, and what is wrong is told with its place."""
    data, vlen = program(random), random.choice((64, 128, 512, 0, 96, -1, 1 << 40))
    with in_time():
        kind, reported = outcome(data, "reference", vlen)
        assert outcome(data, "jit", vlen) == (kind, reported)
    if reported:
        assert isinstance(kind, type)
        assert issubclass(kind, WireError | GuestFault | BeyondModel), reported
        assert "at pc 0x" in reported or "bits" in reported, reported
