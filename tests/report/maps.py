"""Register maps that use everything that can be declared, for the tests of all exports."""

from softcard.core.register import Access, Field, Register, RegisterMap

BYTES = RegisterMap(
    "BAR0",
    (
        Register(
            "INTR",
            0x0,
            (
                Field("FENCE_WAIT", 0, 1, Access.W1C, doc='completion | of a "FENCE"'),
                Field("reg", 4, 2, Access.RO, values={0: "in", 1: "two words", 3: "3RD*/"}),
                Field("START", 8, 1, Access.STROBE),
                Field("KEY", 16, 8, Access.WO),
                Field("HOLE", 24, 4, Access.RSVD),
            ),
            32,
            doc="interrupt status */\n of the device \\",
        ),
        Register("FREE", 0x8C, (Field("COUNT", 0, 8, reset=255),), 32, side="r"),
        Register("FEED", 0x8C, (Field("WORD", 0, 32),), 32, side="w", count=5),
        Register("EMPTY", 0x100, (), 32),
        Register("WIDE", 0x108, (Field("LOW", 0, 32, reset=0x1234), Field("HIGH", 32, 32)), 64, count=3, stride=16),
    ),
    doc="all kinds of access",
    reserved=(range(0x4, 0x8), range(0x200, 0x204)),
)
UNITS = RegisterMap(
    "CMP",
    (
        Register("SCRATCH", 0, (Field("SCRATCH", 0, 64),)),
        Register("CMP_MODE", 24, (Field("MODE", 1, 2, values={1: "PER_HART"}),), count=8),
    ),
    unit_bytes=8,
)
MAPS = (BYTES, UNITS)
