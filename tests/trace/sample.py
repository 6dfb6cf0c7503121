"""A small device's worth of events for the tests of all trace formats."""

from dataclasses import dataclass
from enum import Enum, IntFlag
from typing import Any

from softcard.core.errors import WireError
from softcard.core.event import Event
from softcard.core.rule import Rule
from softcard.core.space import Unit


class How(Enum):
    RETURN = "return"


class Flags(IntFlag):
    A = 1
    B = 2


@dataclass(frozen=True, slots=True)
class WriteReg64:
    index: int
    value: int


@dataclass(frozen=True, slots=True)
class CommandStarted(Event):
    index: int
    command: WriteReg64


@dataclass(frozen=True, slots=True)
class CommandFinished(Event):
    index: int
    ok: bool


@dataclass(frozen=True, slots=True)
class InstanceStarted(Event):
    hart: int
    instance: int


@dataclass(frozen=True, slots=True)
class InstanceEnded(Event):
    hart: int
    instance: int
    how: How


@dataclass(frozen=True, slots=True)
class BufferBegun(Event):
    size: int


@dataclass(frozen=True, slots=True)
class DmaTransfer(Event):
    unit: Unit
    source: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HartFault(Event):
    hart: int | None
    pc: int
    text: str


@dataclass(frozen=True, slots=True)
class Anything(Event):
    thing: Any


EVENTS = (
    BufferBegun(0, 64),
    CommandStarted(0, 0, WriteReg64(8, 0x10000)),
    InstanceStarted(10, 0, 4),
    InstanceStarted(10, 1, 5),
    DmaTransfer(20, Unit(3, 1), 0x4000_0000, (16, 1)),
    InstanceEnded(30, 0, 4, How.RETURN),
    HartFault(35, 1, 0x10294, "illegal word"),
    CommandFinished(40, 0, True),
)
RULE = Rule("refsi/some-rule", "Clause", "text")
ERROR = WireError("bad byte", rule=RULE).at("byte", 16)
