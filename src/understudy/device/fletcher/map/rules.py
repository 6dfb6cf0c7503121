"""What the Fletcher documents say about where registers are; what their device does is in `device_rules`.

The order is the document's. The last two clauses are no sentences of the document: they name what its two
implementations, the generator and the run-time library, make of it, as measured on version 0.0.20 of both.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Fidelity, Rule


def _rule(name: str, clause: str, text: str, fidelity: Fidelity = Fidelity.EXACT) -> Rule:
    return Rule(f"fletcher/{name}", clause, text, fidelity)


_CHOSEN: Final = Fidelity.CHOSEN

_MMIO: Final = "MMIO"
DERIVED = _rule("derived", _MMIO, "registers derive from the Arrow schemas and the custom registers; several are fixed")
REGISTER_WIDTH = _rule("register-width", _MMIO, "all registers are 32 bits wide", _CHOSEN)
BYTE_ADDRESS = _rule("byte-address", _MMIO, "an AXI4-lite address is four times the register's number")
VHDMMIO = _rule("vhdmmio", _MMIO, "the registers are described to the vhdmmio tool")

_DEFAULT: Final = "Default registers"
DEFAULT_REGISTERS = _rule("default-registers", _DEFAULT, "control is at 0, status at 4, return0 at 8, return1 at 12")
CONTROL_BITS = _rule("control-bits", _DEFAULT, "control(0) is start, control(1) stop, control(2) reset")
STATUS_BITS = _rule("status-bits", _DEFAULT, "status(0) is idle, status(1) busy, status(2) done")

_BUFFERS: Final = "Schema derived registers"
BUFFER_ORDER = _rule("buffer-order", _BUFFERS, "one level flattens to validity, offsets, values, child buffers")
DEPTH_FIRST = _rule("depth-first", _BUFFERS, "child buffers are flattened by a depth-first traversal")
SAME_IMPLEMENTATION = _rule(
    "same-implementation", _BUFFERS, "Fletchgen and the run-time library use the same flattening", _CHOSEN
)
INDEX_REGISTERS = _rule(
    "index-registers", _BUFFERS, "from 16 on, first and last index of each RecordBatch, all RecordBatches in a row"
)
BUFFER_REGISTERS = _rule(
    "buffer-registers",
    _BUFFERS,
    "then low and high part of each buffer's address, from 16 + 4 * 2N for N RecordBatches",
)

_CUSTOM: Final = "Custom registers"
CUSTOM_SYNTAX = _rule(
    "custom-syntax", _CUSTOM, "a custom register is <behavior>:<width>:<name>:<init>, <init> is optional hexadecimal"
)
CUSTOM_BEHAVIOR = _rule(
    "custom-behavior", _CUSTOM, "c is controlled by host-side software, s is set by the kernel as status"
)
CUSTOM_PLACE = _rule(
    "custom-place", _CUSTOM, "custom registers follow the schema-derived ones, each at the next free multiple of 4"
)
CUSTOM_SIZE = _rule("custom-size", _CUSTOM, "a register takes address space for its width, rounded up to 4 bytes")

_PROFILE: Final = "Profiling registers"
PROFILE_FIELD = _rule("profile-field", _PROFILE, "a field with the metadata fletcher_profile = true is profiled")
PROFILE_PLACE = _rule(
    "profile-place", _PROFILE, "profiling registers follow the custom ones: Profile_enable, then Profile_clear"
)
PROFILE_COUNTERS = _rule(
    "profile-counters",
    _PROFILE,
    "each stream has <R>_<F>_<I>_ elements, valids, readies, transfers, packets, cycles, 4 bytes apart",
)
PROFILE_STREAMS = _rule(
    "profile-streams", _PROFILE, "<I> is the flattened index of a stream in its field: utf8 has lengths 0 and values 1"
)

_GENERATOR: Final = "generator: Fletchgen 0.0.20"
SUPPORTED_TYPES = _rule(
    "supported-types",
    _GENERATOR,
    "fields are (u)int8 to 64, float16 to 64, date, time, timestamp, decimal128, utf8, binary, list, struct; "
    "fixed_size_binary where fletcher_epc is not 1",
)
UNIQUE_NAMES = _rule("unique-names", _GENERATOR, "names of registers and ports are unique, in any case of letters")
NAME_LETTERS = _rule("name-letters", _GENERATOR, "a register's name is an ASCII letter, then letters, digits and _")
SCHEMA_NAME = _rule("schema-name", _GENERATOR, "schemas of one fletcher_name are equal; one without a name is skipped")
BATCH_ORDER = _rule(
    "batch-order", _GENERATOR, "RecordBatches are ordered by name, then those read before those written"
)
MAP_OFFSET = _rule(
    "map-offset", _GENERATOR, "the map's offset is a multiple of the bus width, and all addresses fit 32 bits"
)
BUS_WORDS = _rule(
    "bus-words", _GENERATOR, "a register that begins in a bus word shares none of its later words, and has 26 at most"
)
FIELD_METADATA = _rule("field-metadata", _GENERATOR, "fletcher_epc and fletcher_lepc are numbers")
PROFILED_FIELDS = _rule(
    "profiled-fields", _GENERATOR, "a profiled field has one stream: its VHDL for a field with more does not compile"
)

_RUNTIME: Final = "run-time library 0.0.20"
QUEUE_ORDER = _rule("queue-order", _RUNTIME, "RecordBatches are in the order in which the host has queued them")
CUT_BATCH = _rule(
    "cut-batch", _RUNTIME, "a field of another type ends its RecordBatch: no buffer of it or a later field is passed"
)

MAP_RULES: Final[tuple[Rule, ...]] = tuple(value for value in list(globals().values()) if isinstance(value, Rule))
"""All of them, in the document's order."""
