"""The registers that every Fletcher design has, the counters of a profiled stream, and custom registers.

Custom registers are written in the syntax of the generator fletchgen. Offsets are in bytes. Those in
`DEFAULT` count from the start of the map, those in `COUNTERS` from the stream's first counter. The other
registers of a map are derived from Arrow schemas: see `layout`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, cast

from softcard.core.errors import RuleError
from softcard.core.register import Access, Field, Register, RegisterMap
from softcard.device.fletcher.rules import CUSTOM_SYNTAX

REGISTER_BYTES: Final = 4
"""The size in bytes of a 32-bit register.

The tables of the Fletcher specification count bytes; its text and host programs count registers.
"""
REGISTER_BITS: Final = 8 * REGISTER_BYTES
ADDRESS_BITS: Final = 64
"""The width in bits of a buffer's address."""


def _read_only(name: str, offset: int, field: str, doc: str) -> Register:
    """Return a register with one field, which the host can only read."""
    return Register(name, offset, (Field(field, 0, REGISTER_BITS, Access.RO),), REGISTER_BITS, doc, side="r")


DEFAULT: Final = RegisterMap(
    "DEFAULT",
    (
        Register(
            "control",
            0,
            (
                Field("start", 0, 1, Access.STROBE, doc="start the kernel"),
                Field("stop", 1, 1, Access.STROBE, doc="stop the kernel"),
                Field("reset", 2, 1, Access.STROBE, doc="reset the kernel"),
            ),
            REGISTER_BITS,
            "start, stop, reset",
        ),
        Register(
            "status",
            4,
            (
                Field("idle", 0, 1, Access.RO, doc="the kernel is idle"),
                Field("busy", 1, 1, Access.RO, doc="the kernel is busy"),
                Field("done", 2, 1, Access.RO, doc="the kernel is done"),
            ),
            REGISTER_BITS,
            "idle, busy, done",
            side="r",
        ),
        Register("return0", 8, (Field("value", 0, 32, Access.RO),), REGISTER_BITS, "return value, low half", side="r"),
        Register(
            "return1", 12, (Field("value", 0, 32, Access.RO),), REGISTER_BITS, "return value, high half", side="r"
        ),
    ),
    doc="the registers every design has; the generated hardware has control as strobes, and one 64-bit field `result` "
    "in place of return0 and return1",
)

CONTROL: Final = DEFAULT.offset_of("control")
STATUS: Final = DEFAULT.offset_of("status")
RESULT: Final = DEFAULT.offset_of("return0")
RESULT_BITS: Final = 64
DEFAULT_BYTES: Final = DEFAULT.offset_of("return1") + REGISTER_BYTES
"""The offset at which the registers of the RecordBatches begin."""


def _counter(index: int, name: str, doc: str) -> Register:
    return _read_only(name, index * REGISTER_BYTES, "count", f"number of {doc}")


COUNTERS: Final = RegisterMap(
    "COUNTERS",
    (
        _counter(0, "elements", "elements transferred"),
        _counter(1, "valids", "cycles in which the stream was valid"),
        _counter(2, "readies", "cycles in which the stream was ready"),
        _counter(3, "transfers", "cycles in which the stream was handshaked"),
        _counter(4, "packets", "handshaked last signals"),
        _counter(5, "cycles", "cycles in which the profiler was enabled"),
    ),
    doc="the counters of one profiled stream",
)

PROFILE_COUNTERS: Final = tuple(register.name for register in COUNTERS)
"""The names of the counters of a profiled stream, in register order."""
STREAM_BYTES: Final = len(PROFILE_COUNTERS) * REGISTER_BYTES


def address_space(width: int) -> int:
    """Return the number of bytes that a register of `width` bits occupies in the address space, a multiple of 4."""
    return REGISTER_BYTES * -(-width // REGISTER_BITS)


# ---- registers of a kernel -------------------------------------------------------------------------------------------
# The kernel's own registers in the generator's syntax: ``c:16:cat``, ``s:64:dog``, ``c:32:fish:0x1F``.


CustomBehaviour = Literal["c", "s"]

MAX_WIDTH: Final = 1 << 16
"""The maximum width of a custom register, in bits; supported buses cannot use wider ones."""

# The generator's pattern, which it searches for anywhere in the text.
_PATTERN: Final = re.compile(r"([cs]):([0-9]+):([A-Za-z0-9_]+):?(0x[0-9a-fA-F]+)?")


@dataclass(frozen=True, slots=True)
class CustomText:
    """A custom register that has no address yet. `width` is in bits."""

    behaviour: CustomBehaviour
    width: int
    name: str
    init: int | None


def parse_custom(text: str) -> CustomText:
    """Return the custom register that ``behaviour:width:name[:init]`` describes.

    Raise `RuleError` for a text of any other form. The generator searches for this pattern and ignores the text
    around it; here, additional text is an error (choice fletcher/custom-text)."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        found = _PATTERN.search(text)
        hint = f"; the generator would silently use {found[0]!r} only" if found else ""
        raise _error(text, f"expected <behavior>:<width>:<name>[:0x<init>] with behavior c or s{hint}")
    behaviour, width_text, name, init_text = match.groups()
    if len(width_text) > len(str(MAX_WIDTH)) or not 1 <= (width := int(width_text)) <= MAX_WIDTH:
        raise _error(text, f"the width is {width_text[:20]}, expected 1 to {MAX_WIDTH}")
    init = int(init_text, 16) if init_text else None
    if init is not None and init >> width:
        raise _error(text, f"the initial value {init:#x} does not fit {width} bits")
    return CustomText(cast("CustomBehaviour", behaviour), width, name, init)


def _error(text: str, message: str) -> RuleError:
    shown = text if len(text) <= 60 else text[:60] + "..."
    return RuleError(f"custom register {shown!r}: {message}", rule=CUSTOM_SYNTAX)
