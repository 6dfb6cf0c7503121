"""Elements one after the other: loops over numbers, and buffers in which elements lie; masks in parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from understudy.ir.builder import Text

WORD: Final = 64
"""Bits of a mask that become lanes at once where processors have no registers for masks: LLVM 22 makes wrong lanes of
8 bits of more than these."""


@contextmanager
def each_number(text: Text, count: str) -> Iterator[str]:
    """What is written in here is done for each number before `count` (64 bits), which it gives."""
    before, head, body, done = text.label, text.fresh("each"), text.fresh("do"), text.fresh("done")
    text.put(f"br label %{head}")
    text.start(head)
    place = len(text.lines)
    k = text.let("")
    text.branch(text.let(f"icmp ult i64 {k}, {count}"), body, done)
    text.start(body)
    yield k
    following = text.let(f"add i64 {k}, 1")
    text.lines[place] = f"  {k} = phi i64 [ 0, %{before} ], [ {following}, %{text.label} ]"
    text.put(f"br label %{head}")
    text.start(done)


def buffer(text: Text, size: int, number: int = 0) -> str:
    """The address of `size` bytes of the function's own; those of different numbers are apart."""
    name = f"%buffer{size}_{number}"
    text.alloca(f"  {name} = alloca [{size} x i8], align 64")
    return name


def place(text: Text, base: str, width: int, k: str) -> str:
    """Where element `k` of `width` bits lies behind `base`."""
    return text.let(f"getelementptr i{width}, ptr {base}, i64 {k}")


def joined(text: Text, parts: list[str]) -> str:
    """Vectors of `WORD` bits each, one behind the other; as many as a power of two."""
    size = WORD
    while len(parts) > 1:
        numbers = ", ".join(f"i32 {k}" for k in range(2 * size))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        ty = f"<{size} x i1>"
        parts = [text.let(f"shufflevector {ty} {a}, {ty} {b}, <{2 * size} x i32> <{numbers}>") for a, b in pairs]
        size *= 2
    return parts[0]
