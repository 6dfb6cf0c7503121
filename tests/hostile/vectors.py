"""Vector instructions in any state: vtype, vl, vstart, strides, indexes and addresses as nobody would have them."""

from __future__ import annotations

import struct
from random import Random
from typing import Final

from softcard.engine.riscv.api import (
    ILLEGAL,
    LOAD_ACCESS,
    LOAD_MISALIGNED,
    STORE_ACCESS,
    STORE_MISALIGNED,
)
from softcard.isa.riscv.decode import encode
from softcard.isa.riscv.table import VECTOR
from tests.agree.values import integer
from tests.agree.vectors import NAMES, vectors
from tests.engine.riscv.rig import DATA, DATA_END, DEVICE
from tests.engine.riscv.vector.machine import After, run
from tests.hostile.checks import in_time

MASK64: Final = (1 << 64) - 1
CAUSES: Final = (ILLEGAL, LOAD_ACCESS, LOAD_MISALIGNED, STORE_ACCESS, STORE_MISALIGNED)
EDGES: Final = (0, 0xFFF, 1 << 31, (1 << 32) - 8, 1 << 32, 1 << 63, MASK64 - 7, MASK64)
SYSTEM: Final = ("csrrw", "csrrs", "csrrc")
CSRS: Final = (0x008, 0x009, 0x00A, 0x00F, 0x001, 0x002, 0x003, 0xC20, 0xC21, 0xC22)


def address(random: Random) -> int:
    """Mostly near memory, registers of a device, or an end of something."""
    base = random.choice((DATA, DATA, DATA + 0x1000, DATA_END, DEVICE, DEVICE + 0x1000, *EDGES))
    return base + random.choice((0, 0, 8, -8, 1, 4, -64, random.randrange(-300, 300))) & MASK64


def register(random: Random) -> int:
    """An address, a stride, a length, a vtype, or anything."""
    kind = random.randrange(5)
    if kind == 0:
        return integer(random)
    if kind == 1:
        return random.choice((0, 1, -1, 8, -8, 3, 1 << 31, 1 << 32, 1 << 62, 1 << 63, -(1 << 40))) & MASK64
    if kind == 2:
        return random.randrange(256) | random.choice((0, 0, 0, 1 << 8, 1 << 63))
    return address(random)


def word(random: Random) -> int:
    """An instruction with any operands; now and then one bit of it is another."""
    if random.random() < 0.15:
        csr = random.choice(CSRS) if random.random() < 0.9 else random.randrange(1 << 12)
        return encode(random.choice(SYSTEM), rd=random.randrange(5, 10), rs1=random.randrange(5, 16), imm=csr)
    name = random.choice(NAMES)
    pattern = VECTOR[name].pattern
    found = pattern.match | random.getrandbits(32) & ~pattern.mask & 0xFFFF_FFFF
    if random.random() < 0.5:  # the base of an access, and scalars
        found = found & ~(31 << 15) | random.randrange(10, 16) << 15 if "rs1" in pattern.text else found
    return found ^ 1 << random.randrange(7, 32) if random.random() < 0.1 else found


def code(random: Random) -> bytes:
    """A few instructions."""
    words = [encode("vsetvl", rd=5, rs1=random.randrange(5, 16), rs2=random.randrange(5, 16))]
    if random.random() < 0.7:
        words = [encode("vsetvli", rd=5, rs1=random.choice((0, 6, 7)), imm=random.randrange(256))]
    words += [word(random) for _ in range(random.randrange(1, 6))]
    return struct.pack(f"<{len(words)}I", *words)


def check(random: Random) -> None:
    """Both engines end alike, with a trap of a known kind that is told in words, or behind the last instruction."""
    vlen = random.choice((64, 128, 512, 512, 512, 2048))
    state = vectors(random, vlen)
    x = {n: register(random) for n in range(5, 16)}
    if random.random() < 0.6:
        x |= {10: DATA + random.randrange(0, 512, 8), 11: DATA_END - random.randrange(0, 64, 8)}
    with in_time():
        after: After = run(
            code(random),
            random.randrange(256) if random.random() < 0.9 else 1 << 63,
            random.choice((0, 1, 3, 8)),
            {0: state},
            x=x,
            f={n: random.getrandbits(64) for n in range(32)},
            memory=random.randbytes(1024),
            vstart=random.choice((0, 0, 0, 1, 2, vlen - 1)),
            vcsr=random.randrange(8),
            frm=random.choice((0, 0, 1, 2, 3, 4, 5, 7)),
            status=random.choice((None, None, None, None, 0, 3 << 9, 1 << 9 | 3 << 13, 3 << 13)),
            vlen=vlen,
        )
    assert after.cause is None or (after.cause in CAUSES and after.reported), after
    assert after.vl <= vlen
    assert after.vstart < vlen
