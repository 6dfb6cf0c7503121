"""Which fields lie in which words of the bus, and what the fields hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from understudy.core.errors import WireError
from understudy.core.snapshot import Stateful
from understudy.core.words import mask
from understudy.device.fletcher.map.layout import FletcherMap, MmioField

STROBE: Final = "strobe"
STATUS: Final = "status"
CONTROL: Final = "control"
HALF_BITS: Final = 32
HALF_BYTES: Final = 4
_DEFAULT_NAMES: Final = {
    **dict.fromkeys(("start", "stop", "reset"), "control"),
    **dict.fromkeys(("idle", "busy", "done"), "status"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a register: its number in the map, and its place counted from bit 0 of the register's first word."""

    index: int
    lsb: int
    width: int
    name: str
    behaviour: str


@dataclass(frozen=True, slots=True)
class Word:
    """Word `number` of a register whose parts can be read (or written) this way. `address` is that of the word."""

    address: int
    number: int
    is_last: bool
    parts: tuple[Part, ...]

    @property
    def writable(self) -> int:
        """The bits of the whole register that can be written."""
        return sum(mask(part.width) << part.lsb for part in self.parts if part.behaviour != STATUS)

    @property
    def read_only(self) -> int:
        """The bits of the whole register that can only be read."""
        return sum(mask(part.width) << part.lsb for part in self.parts if part.behaviour == STATUS)

    @property
    def name(self) -> str:
        """The document's name of the register where it has one, else that of its fields, and which word it is."""
        first = self.parts[0].name
        if first == "result":
            return f"return{self.number}" if not (self.is_last and self.number == 0) else "return0/return1"
        names = list(dict.fromkeys(_DEFAULT_NAMES.get(part.name, part.name) for part in self.parts))
        text = "/".join(names)
        if self.number == 0 and self.is_last:
            return text
        half = {(0, False): "low", (1, True): "high"}.get((self.number, self.is_last), f"word {self.number}")
        return f"{text} ({half})"


class FieldStore(Stateful):
    """What every field of a map holds. The host's side is `gather` and `commit`, the kernel's are the others."""

    STATE = ("values",)

    def __init__(self, layout: FletcherMap) -> None:
        self.fields = layout.fields
        self.values = [0] * len(self.fields)
        signals = (layout.control, layout.profile_clear)
        self._signals = {
            index: field.name
            for index, field in enumerate(self.fields)
            if field.behaviour == STROBE or field.address in signals
        }
        """Fields that signal something when a 1 is written, and what."""
        # The first of a name or address counts: a run-time's map may have names twice.
        self._by_address = {field.address: index for index, field in reversed(list(enumerate(self.fields)))}
        self._by_name = {field.name: index for index, field in reversed(list(enumerate(self.fields)))}

    def reset(self) -> None:
        """Control fields become 0, as on reset of the hardware; status fields are the kernel's to drive."""
        for index, field in enumerate(self.fields):
            if field.behaviour == CONTROL:
                self.values[index] = 0

    def value(self, address: int) -> int:
        """What the field at `address` holds."""
        return self.values[self._by_address[address]]

    def value64(self, address: int) -> int:
        """What the 64 bits from `address` on hold: one field, or the document's two registers."""
        index = self._by_address[address]
        low = self.values[index]
        return low if self.fields[index].width > HALF_BITS else low | self.value(address + HALF_BYTES) << HALF_BITS

    def set(self, address: int, value: int) -> None:
        """Drive the status field at `address`."""
        self.values[self._by_address[address]] = value

    def set64(self, address: int, value: int) -> None:
        """Drive the 64 bits from `address` on, likewise."""
        index = self._by_address[address]
        if self.fields[index].width > HALF_BITS:
            self.values[index] = value
        else:
            self.values[index] = value & mask(HALF_BITS)
            self.set(address + HALF_BYTES, value >> HALF_BITS)

    def drive(self, name: str, value: int) -> None:
        """Drive a status field by its name, where several share an address."""
        self.values[self._by_name[name]] = value

    def named(self, name: str) -> int:
        """What a field holds, by its name; `WireError` if there is none of that name."""
        index = self._by_name.get(name)
        if index is None:
            raise WireError(f"the map has no field {name}")
        return self.values[index]

    def gather(self, word: Word) -> int:
        """The whole register that `word` belongs to, as one number."""
        values = self.values
        found = 0
        for part in word.parts:
            found |= values[part.index] << part.lsb
        return found

    def commit(self, word: Word, data: int, strobes: int) -> tuple[str, ...]:
        """Write a whole register: bits without a strobe keep what they held, strobe fields keep nothing.

        Gives the names of the fields that signal something.
        """
        pulses = []
        for part in word.parts:
            if part.behaviour == STATUS:
                continue
            ones = mask(part.width)
            new, enabled = data >> part.lsb & ones, strobes >> part.lsb & ones
            if new and part.index in self._signals:
                pulses.append(part.name)
            if part.behaviour == CONTROL:
                self.values[part.index] = self.values[part.index] & ~enabled | new
        return tuple(pulses)


def read_words(layout: FletcherMap) -> dict[int, Word]:
    """The words that can be read, by address, in ascending order."""
    return _words(layout, lambda field: field.behaviour != STROBE)


def write_words(layout: FletcherMap) -> dict[int, Word]:
    """The words that can be written, likewise."""
    return _words(layout, lambda field: field.behaviour != STATUS)


def all_words(layout: FletcherMap) -> dict[int, Word]:
    """The words of all fields, likewise."""
    return _words(layout, lambda field: True)


def decoder(words: dict[int, Word]) -> tuple[int, dict[int, Word], Word]:
    """The address bits that are decoded, the words by those bits, and the word that all other addresses mean.

    The bits run from the highest to the lowest one in which the addresses of the words differ; the word is the last.
    """
    first, last = min(words), max(words)
    varying = 0
    for address in words:
        varying |= address ^ first
    decoded = mask(varying.bit_length()) & ~((varying & -varying) - 1) if varying else 0
    return decoded, {address & decoded: word for address, word in words.items()}, words[last]


def lane_mask(strobes: int, lanes: int) -> int:
    """The data bits that byte strobes enable."""
    if strobes & mask(lanes) == mask(lanes):
        return mask(8 * lanes)
    return sum(0xFF << 8 * lane for lane in range(lanes) if strobes >> lane & 1)


def _words(layout: FletcherMap, takes: Callable[[MmioField], bool]) -> dict[int, Word]:
    size = layout.bus_width // 8
    registers: dict[int, list[Part]] = {}
    for index, field in enumerate(layout.fields):
        if takes(field):
            part = Part(index, field.lsb, field.width, field.name, field.behaviour)
            registers.setdefault(field.address // size * size, []).append(part)
    words = {}
    for address, parts in sorted(registers.items()):
        count = -(-max(part.lsb + part.width for part in parts) // layout.bus_width)
        for number in range(count):
            at = address + number * size
            words[at] = Word(at, number, number == count - 1, tuple(parts))
    return words
