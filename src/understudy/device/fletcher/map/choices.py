"""The gaps of the Fletcher document about where registers are, and our answers."""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice


def _choice(name: str, gap: str, answer: str, reason: str) -> Choice:
    return Choice(f"fletcher/{name}", gap, answer, reason)


MAP_CHOICES: Final[tuple[Choice, ...]] = (
    _choice(
        "map-profiles",
        "the document, the generator and the run-time library differ about registers",
        "profile fletchgen is the generator's map, runtime what the run-time library writes, spec the document's text",
        "each is somebody's truth; the generator's is the hardware's, so it is the default",
    ),
    _choice(
        "spec-order",
        "the order of RecordBatches",
        "fletchgen: by name, then read before write; runtime and spec: as given",
        "measured; the document says nothing, and the order given is the one a reader sees",
    ),
    _choice(
        "spec-children",
        "whether nullable children have validity buffers",
        "spec and runtime: yes; fletchgen: only where it is given a RecordBatch",
        "the document flattens every level alike; the rest is measured",
    ),
    _choice(
        "spec-types",
        "which Arrow types are supported",
        "spec takes every type whose buffers are validity, offsets, values and children, others are beyond the model; "
        "fletchgen refuses what the generator refuses; runtime ends the RecordBatch where the run-time library does",
        "the document speaks of all Arrow arrays; the rest is measured",
    ),
    _choice(
        "spec-widths",
        "all registers are 32 bits wide, yet there are addresses, return values and custom registers of more bits",
        "spec has pairs of 32-bit registers for addresses and return values, custom registers as wide as declared",
        "the tables name halves of the former and give the latter a width",
    ),
    _choice(
        "spec-profiling",
        "the profiling registers of a design that profiles nothing",
        "spec: there are none; fletchgen and runtime: Profile_enable and Profile_clear are always there",
        "the document inserts them for fields that are profiled; the generator always",
    ),
    _choice(
        "spec-profile-names",
        "names of profiled streams",
        "spec: <R>_<F>_<I>; fletchgen and runtime: Profile_<R>_<F>_<names of the streams within>_<I>",
        "the document's text, and the generator's output",
    ),
    _choice(
        "nameless",
        "a RecordBatch without a name",
        "fletchgen skips it; runtime and spec call it RB and its number",
        "the generator warns and skips; the run-time library needs no name",
    ),
    _choice(
        "custom-text",
        "text around a custom register, as in c:8:x-y",
        "an error that says what the generator would make of it",
        "the generator searches for the pattern and drops the rest, so that x-y becomes x without a word",
    ),
    _choice(
        "custom-widths",
        "limits of a custom register's width",
        "1 to 65536 bits; fletchgen also refuses more than 26 words of the bus, as vhdmmio does",
        "the generator makes a register without address space of width 0, and cuts widths to 32 bits",
    ),
    _choice(
        "custom-init",
        "what a custom register's init does",
        "it must fit the width; it is kept in the map as a hint for simulations, hardware starts with 0",
        "the document uses it for simulation only; generator 0.0.20 reads it as decimal, so that 0x01 becomes 0",
    ),
    _choice(
        "nested-stream-names",
        "names of streams of lists within lists",
        "those the generator would give if it did not stop at the names of their buffers",
        "it has no hardware for them; runtime and spec have",
    ),
    _choice(
        "elements-per-cycle",
        "fletcher_epc and fletcher_lepc that are no numbers, or negative",
        "fletchgen refuses them; other profiles do not read them",
        "the generator aborts on text, and takes a negative number for a huge one",
    ),
)
"""About the map."""
