"""The register file on the bus of the generated hardware: words, their fields, and their addresses.

The generated VHDL has these properties:

- Writes of a register wider than the bus go through one holding register, which all registers share. The
  write of the register's last word commits all its words at once.
- The holding register keeps the data (not the strobes) of earlier writes to any register. If the host writes
  only the high word of a register, the hardware ORs the low word of such an earlier write into the register.
- Reads go through one latch, which all registers share. A read of word 0 latches the whole register. A read
  of another word returns data from the latch, even if the latch holds another register; if the latch is
  empty, it returns SLVERR.
- Only the address bits in which registers differ are decoded. An address without a register selects the last
  one: for reads the last readable one, for writes the last writable one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol

from softcard.core.errors import WireError
from softcard.core.snapshot import Stateful
from softcard.core.words import U32, mask
from softcard.device.fletcher.map.layout import FletcherMap, MmioField

# ---- words of the bus ------------------------------------------------------------------------------------------------
# The layout of fields in words of the bus, and the values of the fields.


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
    """A field as a part of a register.

    It has the field's index in the register map. Its position is in bits from bit 0 of the register's first word."""

    index: int
    lsb: int
    width: int
    name: str
    behaviour: str


@dataclass(frozen=True, slots=True)
class Word:
    """One bus word of a register: word number `number` of the register, at byte address `address`.

    `parts` are the fields of the whole register: only the readable or only the writable ones, or all of them."""

    address: int
    number: int
    is_last: bool
    parts: tuple[Part, ...]

    @property
    def writable(self) -> int:
        """A mask of the bits of the whole register that can be written."""
        return sum(mask(part.width) << part.lsb for part in self.parts if part.behaviour != STATUS)

    @property
    def read_only(self) -> int:
        """A mask of the bits of the whole register that can only be read."""
        return sum(mask(part.width) << part.lsb for part in self.parts if part.behaviour == STATUS)

    @property
    def name(self) -> str:
        """The name of the word in messages: the register's name in the Fletcher specification, or its fields' names.

        If the register has several words, the name also says which word this is."""
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
    """The values of all register fields.

    Host accesses use `gather` and `commit`; the kernel uses the other methods.
    """

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
        """The names, by index, of the fields that trigger an action when a 1 is written."""
        # The first field of a name or address counts: a run-time's map may have names twice.
        self._by_address = {field.address: index for index, field in reversed(list(enumerate(self.fields)))}
        self._by_name = {field.name: index for index, field in reversed(list(enumerate(self.fields)))}

    def reset(self) -> None:
        """Set all control fields to 0, as a hardware reset does; the kernel sets the status fields."""
        for index, field in enumerate(self.fields):
            if field.behaviour == CONTROL:
                self.values[index] = 0

    def value(self, address: int) -> int:
        """Return the value of the field at `address`."""
        return self.values[self._by_address[address]]

    def value64(self, address: int) -> int:
        """Return the 64-bit value at `address`, stored in one field or in two 32-bit registers."""
        index = self._by_address[address]
        low = self.values[index]
        return low if self.fields[index].width > HALF_BITS else low | self.value(address + HALF_BYTES) << HALF_BITS

    def set(self, address: int, value: int) -> None:
        """Set the status field at `address` to `value`; only the kernel does this."""
        self.values[self._by_address[address]] = value

    def set64(self, address: int, value: int) -> None:
        """Set the 64-bit status value at `address`, which is stored in one field or in two 32-bit registers."""
        index = self._by_address[address]
        if self.fields[index].width > HALF_BITS:
            self.values[index] = value
        else:
            self.values[index] = value & mask(HALF_BITS)
            self.set(address + HALF_BYTES, value >> HALF_BITS)

    def drive(self, name: str, value: int) -> None:
        """Set the status field called `name` to `value`.

        The name selects the field because several fields may share an address.
        """
        self.values[self._by_name[name]] = value

    def named(self, name: str) -> int:
        """Return the value of a field by its name; raise `WireError` for an unknown name."""
        index = self._by_name.get(name)
        if index is None:
            raise WireError(f"the register map has no field {name}")
        return self.values[index]

    def gather(self, word: Word) -> int:
        """Return the value of the whole register that `word` belongs to, as one number."""
        values = self.values
        found = 0
        for part in word.parts:
            found |= values[part.index] << part.lsb
        return found

    def commit(self, word: Word, data: int, strobes: int) -> tuple[str, ...]:
        """Write `data` to the whole register that `word` belongs to.

        Bits whose byte strobe is 0 keep their value. Strobe fields store nothing. Return the names of the written
        fields that trigger an action.
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
    """Return the readable words by address, in ascending order."""
    return _words(layout, lambda field: field.behaviour != STROBE)


def write_words(layout: FletcherMap) -> dict[int, Word]:
    """Return the writable words by address, in ascending order."""
    return _words(layout, lambda field: field.behaviour != STATUS)


def all_words(layout: FletcherMap) -> dict[int, Word]:
    """Return the words of all fields by address, in ascending order."""
    return _words(layout, lambda field: True)


def decoder(words: dict[int, Word]) -> tuple[int, dict[int, Word], Word]:
    """Return the address decoder for `words`: a mask of the decoded address bits, the words, and the default word.

    The mask has all bits from the highest to the lowest bit in which the addresses of the words differ. The
    returned dict maps the masked address of each word to the word. All other addresses select the default word,
    which is the last one."""
    first, last = min(words), max(words)
    varying = 0
    for address in words:
        varying |= address ^ first
    decoded = mask(varying.bit_length()) & ~((varying & -varying) - 1) if varying else 0
    return decoded, {address & decoded: word for address, word in words.items()}, words[last]


def lane_mask(strobes: int, lanes: int) -> int:
    """Return a mask of the data bits that `strobes` enable, on a bus of `lanes` bytes."""
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


# ---- register file ---------------------------------------------------------------------------------------------------


ALL_LANES: Final = -1
"""The write strobes that enable every byte of the bus."""


class Response(IntEnum):
    """The response code of a bus access, as AXI4-lite encodes it."""

    OKAY = 0
    SLVERR = 2


class Reply(NamedTuple):
    """The value and the response of a read.

    With the response SLVERR, the value is that of the last read with the response OKAY."""

    value: int
    response: Response


class Written(NamedTuple):
    """The response of a write; `pulses` are the names of the strobe fields whose action it triggered."""

    response: Response
    pulses: tuple[str, ...]


class Bus(Protocol):
    """The interface of a model of a design's register file on the bus."""

    store: FieldStore

    def read(self, address: int) -> Reply:
        """Read the bus word at byte `address`."""

    def write(self, address: int, value: int, strobes: int = ALL_LANES) -> Written:
        """Write the bus word at byte `address`; bit n of `strobes` enables byte n."""

    def read_word(self, address: int) -> Word:
        """Return the bus word that a read of `address` selects."""

    def write_word(self, address: int) -> Word:
        """Return the bus word that a write of `address` selects."""

    def reset(self) -> None:
        """Reset to the power-on state: control fields are 0, the holding register and the latch are empty."""

    def snapshot(self) -> Any:
        """Return the state of the bus for `restore`, without the values of register fields."""

    def restore(self, state: Any) -> None:
        """Return to `state`, which `snapshot` returned."""


def check_address(address: int) -> None:
    """Raise `WireError` if `address` is not an address of the bus."""
    if not 0 <= address <= U32:
        raise WireError(f"bus address {address:#x} does not fit 32 bits")


class HardwareBus(Stateful):
    """The register file with exactly the behaviour of the generated hardware.

    It ignores address bits below the size of a bus word.
    """

    STATE = ("_latch", "_latched", "_hold", "_hold_strobes", "_last")

    def __init__(self, layout: FletcherMap, store: FieldStore) -> None:
        self.store = store
        self._bytes = layout.bus_width // 8
        self._bits = layout.bus_width
        self._ones = (1 << self._bits) - 1
        self._read_mask, self._reads, self._last_read = decoder(read_words(layout))
        self._write_mask, self._writes, self._last_write = decoder(write_words(layout))
        self.reset()

    def reset(self) -> None:
        """Reset to the state at power-on."""
        self.store.reset()
        self._latch = self._hold = self._hold_strobes = self._last = 0
        self._latched = False

    def read(self, address: int) -> Reply:
        """Read the bus word that `address` selects."""
        word = self.read_word(address)
        if word.number == 0:
            self._latch = self.store.gather(word)
        elif not self._latched:
            return Reply(self._last, Response.SLVERR)
        self._latched = not word.is_last
        self._last = self._latch >> word.number * self._bits & self._ones
        return Reply(self._last, Response.OKAY)

    def write(self, address: int, value: int, strobes: int = ALL_LANES) -> Written:
        """Write the bus word that `address` selects.

        Only the write of a register's last word commits the register.
        """
        word = self.write_word(address)
        shift, lanes = word.number * self._bits, lane_mask(strobes, self._bytes)
        self._hold = self._hold & ~(self._ones << shift) | (value & lanes) << shift
        self._hold_strobes = self._hold_strobes & ~(self._ones << shift) | lanes << shift
        if not word.is_last:
            return Written(Response.OKAY, ())
        pulses = self.store.commit(word, self._hold, self._hold_strobes)
        self._hold_strobes = 0
        return Written(Response.OKAY, pulses)

    def read_word(self, address: int) -> Word:
        """Return the bus word that a read of `address` selects."""
        return self._reads.get(address & self._read_mask, self._last_read)

    def write_word(self, address: int) -> Word:
        """Return the bus word that a write of `address` selects."""
        return self._writes.get(address & self._write_mask, self._last_write)
