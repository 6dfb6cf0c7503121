"""Programs for `RV64.run` that are none, or do whatever they like: both engines end them alike."""

from __future__ import annotations

from random import Random
from typing import Final

from softcard.core.errors import BeyondModel, GuestFault, SoftcardError, WireError
from softcard.riscv import RV64
from tests.hostile.checks import check_error, in_time
from tests.hostile.elves import Claim, elf_file, is_small, mutated
from tests.hostile.generate import address
from tests.hostile.kernels import made_up

STEP_LIMIT: Final = 2000
ISAS: Final = ("rv64gcv_zfh", "rv64gc", "rv64im", "rv64gc_zba_zbb_zbs_zicond", "rv64gcv_zbc_zicntr", "rv64gcv_zvl128b")


def made_up_file(random: Random) -> bytes:
    """Random code at a place of its own."""
    body = made_up(random, random.choice((1, 2, 3, 3, 3)))
    at = random.choice((0x1_0000, 0x8000_0000, 0x1_0000, address(random) & 0xFFFF_FFFE))
    size = len(body) + random.choice((0, 0, 4096))
    data = bytearray(elf_file([Claim(at, len(body), size)], body))
    data[24:32] = (at + random.choice((0, 0, 0, 2, 1, len(body)))).to_bytes(8, "little")
    return bytes(data)


def outcome(data: bytes, isa: str, engine: str) -> tuple[object, str]:
    """What came of it."""
    try:
        result = RV64.run(
            data, isa=isa, engine=engine, step_limit=STEP_LIMIT, stdin=b"some text", time_limit_seconds=60
        )
    except SoftcardError as error:
        check_error(error)
        return type(error), str(error)
    return result, ""


def check(random: Random) -> None:
    """Run one on both engines."""
    data = mutated(random) if random.random() < 0.3 else made_up_file(random)
    if not is_small(data):
        return
    isa = random.choice(ISAS)
    with in_time():
        kind, reported = outcome(data, isa, "reference")
        assert outcome(data, isa, "jit") == (kind, reported)
    assert not reported or (isinstance(kind, type) and issubclass(kind, WireError | GuestFault | BeyondModel)), reported
