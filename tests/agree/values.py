"""Hard values: the operands and states where engines disagree first."""

from __future__ import annotations

from random import Random

from tests.agree.qemu import SCRATCH_BYTES, State

MASK64 = (1 << 64) - 1
BOX = 0xFFFF_FFFF_0000_0000

INTEGERS = sorted(
    {n & MASK64 for k in range(65) for n in ((1 << k) - 1, 1 << k, (1 << k) + 1, -(1 << k), -(1 << k) - 1)}
    | {0x5555_5555_5555_5555, 0xAAAA_AAAA_AAAA_AAAA, 0x0000_0000_8000_0000, 0xFFFF_FFFF_0000_0001}
)

FRACTION = {"h": 10, "s": 23, "d": 52}
EXPONENT = {"h": 5, "s": 8, "d": 11}


def _edges(t: str) -> tuple[int, ...]:
    """Positive bit patterns around the edges of a format, and of the formats and integers it converts to."""
    ulp, bias = 1 << FRACTION[t], (1 << EXPONENT[t] - 1) - 1
    inf, quiet, one = (2 * bias + 1) * ulp, ulp >> 1, bias * ulp
    most = 2 * bias * ulp
    edges = [0, 1, 2, ulp - 1, ulp, ulp + 1, 2 * ulp - 1, one, one + 1, one - 1, one + quiet, one - ulp, one - ulp + 1]
    edges += [inf - 1, inf - ulp, inf, inf + 1, inf + quiet - 1, inf + quiet, inf + quiet + 0x123]
    for k in (23, 24, 30, 31, 32, 52, 53, 62, 63, 64):  # half units, integer ranges, precision
        edges += [one + k * ulp, one + k * ulp + 1, one + k * ulp - 1, one + k * ulp + quiet]
    if t == "d":  # the ends of binary32, exact and as ties
        least, half = one - 126 * ulp, 1 << 52 - 24
        edges += [least, least - half, least - half + 1, least - 2 * half, one - 149 * ulp, one - 150 * ulp]
        edges += [one - 150 * ulp + 1, one + 128 * ulp, one + 128 * ulp - half, one + 128 * ulp - half - 1, one + half]
    if t == "s":  # the ends of binary16
        least, half = one - 14 * ulp, 1 << 23 - 11
        edges += [least, least - half, least - half + 1, least - 2 * half, one - 24 * ulp, one - 25 * ulp]
        edges += [one - 25 * ulp + 1, one + 16 * ulp, one + 16 * ulp - half, one + 16 * ulp - half - 1, one + half]
    return tuple(edge for edge in edges if edge <= most + ulp + quiet + 0x123)


EDGES = {t: _edges(t) for t in "hsd"}


def integer(random: Random) -> int:
    """A 64-bit pattern: an edge, a small number, a sign-extended word or anything."""
    choice = random.random()
    if choice < 0.4:
        return random.choice(INTEGERS)
    if choice < 0.6:
        return random.randrange(-70, 70) & MASK64
    if choice < 0.75:
        return ((random.getrandbits(32) ^ 1 << 31) - (1 << 31)) & MASK64
    return random.getrandbits(64)


def pattern(random: Random, t: str) -> int:
    """A bit pattern of format `t`: an edge, a neighbour of one, a moderate number or anything."""
    width = 1 + EXPONENT[t] + FRACTION[t]
    sign = random.getrandbits(1) << width - 1
    choice = random.random()
    if choice < 0.45:
        return random.choice(EDGES[t]) | sign
    if choice < 0.55:
        return (random.choice(EDGES[t]) + random.randrange(-3, 4)) % (1 << width - 1) | sign
    if choice < 0.8:
        bias = (1 << EXPONENT[t] - 1) - 1
        return (bias + random.randrange(-8, 9)) << FRACTION[t] | random.getrandbits(FRACTION[t]) | sign
    return random.getrandbits(width)


def float_register(random: Random, t: str) -> int:
    """64 bits for a register that is likely read in format `t`: mostly well boxed, sometimes not."""
    if t == "d":
        return pattern(random, "d")
    width = 1 + EXPONENT[t] + FRACTION[t]
    whole = MASK64 << width & MASK64
    box = random.choice((whole ^ 1 << random.randrange(width, 64), 0, random.choice(INTEGERS) << width & MASK64))
    return (whole if random.random() < 0.85 else box) | pattern(random, t)


def related(random: Random, t: str, a: int) -> int:
    """A pattern that makes trouble together with `a`: near its negative, or at the edge of underflow with it."""
    width, bias, ulp = 1 + EXPONENT[t] + FRACTION[t], (1 << EXPONENT[t] - 1) - 1, 1 << FRACTION[t]
    if random.random() < 0.5:
        return (a ^ 1 << width - 1) + random.choice((0, 0, 1, -1, ulp, -ulp)) & (1 << width) - 1
    exponent = (a >> FRACTION[t]) % (2 * bias + 2)
    target = random.choice((-bias, -bias - FRACTION[t], bias, 0)) + random.randrange(-3, 3)
    other = min(max(bias + target - (exponent - bias), 0), 2 * bias)
    return random.getrandbits(1) << width - 1 | other << FRACTION[t] | random.getrandbits(FRACTION[t])


def state(random: Random, *, rounding_modes: int = 5) -> State:
    """Registers, flags and scratch memory; `frm` is below `rounding_modes`."""
    t = random.choice("hssdd")
    f = [float_register(random, t if random.random() < 0.9 else random.choice("hsd")) for _ in range(32)]
    words = [integer(random) if random.random() < 0.5 else float_register(random, t) for _ in range(SCRATCH_BYTES // 8)]
    return State(
        x=(0, *(integer(random) for _ in range(31))),
        f=tuple(f),
        fcsr=random.randrange(rounding_modes) << 5 | (random.getrandbits(5) if random.random() < 0.3 else 0),
        memory=b"".join(word.to_bytes(8, "little") for word in words),
    )
