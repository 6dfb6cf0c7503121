"""A detour around a mistake of LLVM's code generation for AVX-512, until there is a release without it.

Where a mask decides between ``x & C | y & ~C`` and one of x and y, LLVM makes one masked VPTERNLOG of both decisions,
with its operands in another order than its truth table is for: llvm/llvm-project#157929, mended by #209782, but in no
release that llvmlite has. So what the mask decides about is made opaque before: an empty piece of assembly has it as
operand and result. That costs the one instruction that could not be saved.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

SELECT: Final = " = select <"
WITHOUT: Final = "-avx512f"
"""Of functions for hosts that have narrower vectors: they have no VPTERNLOG."""
NAME: Final = r"(%[\w.$-]+)"
MADE: Final = re.compile(
    rf"^ *{NAME} = (?:(?:or|xor)(?: disjoint)? <|(?:tail )?call [^@\n]*@llvm\.copysign\.|bitcast <[^%\n]*> {NAME} to)",
    re.MULTILINE,
)
WIDTH: Final = re.compile(r'"(?:min-legal|prefer)-vector-width"="(\d+)"')
OPERAND: Final = re.compile(rf"<(\d+) x (i\d+|half|float|double)> {NAME}")
BITS: Final = {"i1": 1, "half": 16, "float": 32, "double": 64}
NARROWEST: Final = 128
WIDEST: Final = 512
"""Bits of a register; functions may have only narrower ones."""


def kept_apart(text: str) -> str:
    """Optimised IR that means the same, in which no mask can be folded into a choice by bits."""
    if SELECT not in text or WITHOUT in text:
        return text
    choices, lines = _choices(text), list[str]()
    widest = min([WIDEST, *(max(int(width), NARROWEST) for width in WIDTH.findall(text))])
    for line in text.split("\n"):
        for lanes, kind, name in dict.fromkeys(OPERAND.findall(line)) if SELECT in line else ():
            if name in choices and kind != "i1":
                made = f"%apart.{len(lines)}"
                lines += _opaque(int(lanes), kind, name, made, widest)
                line = re.sub(re.escape(name) + r"(?![\w.$-])", made, line)
        lines.append(line)
    return "\n".join(lines)


def _choices(text: str) -> set[str]:
    """Names of what may be a choice by bits, in whatever function: an or, a copied sign, or that as another type."""
    found, casts = set[str](), dict[str, str]()
    for name, source in MADE.findall(text):
        if source:
            casts[name] = source
        else:
            found.add(name)
    while more := {name for name, source in casts.items() if source in found} - found:
        found |= more
    return found


def _opaque(lanes: int, kind: str, name: str, made: str, widest: int) -> list[str]:
    """Lines that make `made`: `name`, of which nothing is known, by registers of at most `widest` bits."""
    width = BITS.get(kind) or int(kind[1:])
    whole = max(lanes, NARROWEST // width)  # lanes of at least a register
    part = min(whole, widest // width)
    lines = [f"  {made}.i = bitcast <{lanes} x {kind}> {name} to <{lanes} x i{width}>"]

    def shuffled(one: str, other: str, of: int, places: Sequence[int], into: str) -> str:
        vector, chosen = f"<{of} x i{width}>", ", ".join(f"i32 {place}" for place in places)
        second = f"{vector} {other}" if other else f"{vector} poison"
        lines.append(f"  {into} = shufflevector {vector} {one}, {second}, <{len(places)} x i32> <{chosen}>")
        return into

    ints = f"{made}.i"
    if whole > lanes:
        ints = shuffled(ints, "", lanes, [*range(lanes), *[0] * (whole - lanes)], f"{made}.w")
    parts = []
    for number in range(whole // part):
        each, dwords = f"{made}.{number}", f"<{part * width // 32} x i32>"
        shuffled(ints, "", whole, range(number * part, (number + 1) * part), f"{each}.p")
        lines.append(f"  {each}.d = bitcast <{part} x i{width}> {each}.p to {dwords}")
        lines.append(f'  {each}.o = call {dwords} asm "", "=v,0"({dwords} {each}.d)')
        lines.append(f"  {each}.r = bitcast {dwords} {each}.o to <{part} x i{width}>")
        parts.append(f"{each}.r")
    size = part
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [shuffled(one, other, size, range(2 * size), f"{one}.{size}") for one, other in pairs]
        size *= 2
    found = parts[0] if whole == lanes else shuffled(parts[0], "", whole, range(lanes), f"{made}.n")
    return [*lines, f"  {made} = bitcast <{lanes} x i{width}> {found} to <{lanes} x {kind}>"]
