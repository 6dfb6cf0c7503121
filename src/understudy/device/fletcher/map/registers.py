"""The registers that every Fletcher design has, and the counters of a profiled stream. Layout only.

Offsets count bytes: those of `DEFAULT` from the start of the map, those of `COUNTERS` from the stream's first counter.
Everything else in a register map derives from Arrow schemas: see `layout`.
"""

from __future__ import annotations

from typing import Final

from understudy.core.register import Access, Field, Register, RegisterMap

REGISTER_BYTES: Final = 4
"""The document's registers have 32 bits; its tables count bytes, its text and a host program count registers."""
REGISTER_BITS: Final = 8 * REGISTER_BYTES
ADDRESS_BITS: Final = 64
"""Width of a buffer's address."""


def _read_only(name: str, offset: int, field: str, doc: str) -> Register:
    """A register of one field, which the host reads."""
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
"""Where the registers of the RecordBatches begin."""


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
"""Names of a stream's counters, in register order."""
STREAM_BYTES: Final = len(PROFILE_COUNTERS) * REGISTER_BYTES


def address_space(width: int) -> int:
    """Bytes of address space that a register of `width` bits takes: a multiple of 4."""
    return REGISTER_BYTES * -(-width // REGISTER_BITS)
