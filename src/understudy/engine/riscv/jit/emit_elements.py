"""Elements one after the other: loops over numbers, and buffers in which elements lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from understudy.ir.builder import Text


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
