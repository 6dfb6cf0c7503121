"""The scheduler's context: 64-bit words that Python and the compiled scheduler share, and IR that accesses them."""

from __future__ import annotations

from typing import Final

from understudy.isa.gcn import state

FIELDS: Final = (
    "states", "waves", "groups", "cursor", "last", "running", "position", "live", "order", "rounds", "round",
    "at_barrier", "shape_waves", "execs", "vgprs", "most_waves", "rows", "sgprs", "group_x", "group_y", "group_z",
    "info", "info_words", "entry", "mode", "turn", "step_limit", "lds", "lds_size", "blank_lds", "undefined",
    "first_rows", "blank_rows", "template", "retired", "in_turn", "current", "code_of_entry",
    "ticks", "seen", "naps",
)  # fmt: skip
"""64-bit words of the context, in order."""
AT: Final = {name: index for index, name in enumerate(FIELDS)}


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
