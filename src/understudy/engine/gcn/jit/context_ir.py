"""IR that accesses words of the scheduler's context and of waves."""

from __future__ import annotations

from understudy.engine.gcn.jit.context import AT
from understudy.isa.gcn import state


def load(name: str, kind: str = "i64", as_name: str = "") -> str:
    """Load a word of %ctx as %name."""
    out = as_name or name
    return f"  %q_{out} = getelementptr i64, ptr %ctx, i64 {AT[name]}\n  %{out} = load {kind}, ptr %q_{out}\n"


def store(name: str, value: str, tag: str) -> str:
    """Store to a word of %ctx."""
    return f"  %s_{tag} = getelementptr i64, ptr %ctx, i64 {AT[name]}\n  store i64 {value}, ptr %s_{tag}\n"


def wave_word(index: int, tag: str, wave: str = "%wave") -> str:
    """The address of a word of a wave, as %tag."""
    return f"  %{tag} = getelementptr i8, ptr {wave}, i64 {state.WORDS_AT + 8 * index}\n"


def put(index: int, value: str, tag: str) -> str:
    """Store to a word of %wave."""
    return wave_word(index, tag) + f"  store i64 {value}, ptr %{tag}\n"
