"""The register file on the bus, as the generator's hardware answers: which word an address means, and what words do.

Facts of the generated VHDL (bus_words.py says what lies where):

- A register wider than the bus is written through one holding register for the whole file: its last word commits all
  words at once. The holding register is not tied to a register, and keeps the data (not the strobes) of what was
  written before, so that a lone high word also ORs an older low word into the register.
- It is read through one too: word 0 latches the whole register, the other words answer from the latch, whatever
  register they belong to, or with SLVERR where nothing is latched.
- Only the address bits in which registers differ are decoded. Where no register is, the last one answers: for reads
  the last that can be read, for writes the last that can be written.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol

from understudy.core.errors import WireError
from understudy.core.snapshot import Stateful
from understudy.core.words import U32
from understudy.device.fletcher.bus_words import FieldStore, Word, decoder, lane_mask, read_words, write_words
from understudy.device.fletcher.map.layout import FletcherMap

ALL_LANES: Final = -1
"""Write strobes for every byte of the bus."""


class Response(IntEnum):
    """How the bus answers, as AXI4-lite encodes it."""

    OKAY = 0
    SLVERR = 2


class Reply(NamedTuple):
    """The answer to a read; with SLVERR the value is what stood on the bus before."""

    value: int
    response: Response


class Written(NamedTuple):
    """The answer to a write, and the strobe fields (by name) it pulsed."""

    response: Response
    pulses: tuple[str, ...]


class Bus(Protocol):
    """The register file of a design."""

    store: FieldStore

    def read(self, address: int) -> Reply:
        """Read the bus word at byte `address`."""

    def write(self, address: int, value: int, strobes: int = ALL_LANES) -> Written:
        """Write the bus word at byte `address`; bit n of `strobes` enables byte n."""

    def read_word(self, address: int) -> Word:
        """The word that a read of `address` means."""

    def write_word(self, address: int) -> Word:
        """The word that a write of `address` means."""

    def reset(self) -> None:
        """As at power-on: control fields 0, nothing held or latched."""

    def snapshot(self) -> Any:
        """What the bus remembers besides its fields, for `restore`."""

    def restore(self, state: Any) -> None:
        """Go back to a state that `snapshot` gave."""


def check_address(address: int) -> None:
    """`WireError` for what is no address of the bus."""
    if not 0 <= address <= U32:
        raise WireError(f"bus address {address:#x}, expected 32 bits")


class HardwareBus(Stateful):
    """The register file of the generated hardware, exact (see above); low address bits below a word are ignored."""

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
        """As at power-on."""
        self.store.reset()
        self._latch = self._hold = self._hold_strobes = self._last = 0
        self._latched = False

    def read(self, address: int) -> Reply:
        """The word at `address`, or at the address it is taken for."""
        word = self.read_word(address)
        if word.number == 0:
            self._latch = self.store.gather(word)
        elif not self._latched:
            return Reply(self._last, Response.SLVERR)
        self._latched = not word.is_last
        self._last = self._latch >> word.number * self._bits & self._ones
        return Reply(self._last, Response.OKAY)

    def write(self, address: int, value: int, strobes: int = ALL_LANES) -> Written:
        """Write it; a word that is not the last of its register only waits in the holding register."""
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
        """The word that a read of `address` means."""
        return self._reads.get(address & self._read_mask, self._last_read)

    def write_word(self, address: int) -> Word:
        """The word that a write of `address` means."""
        return self._writes.get(address & self._write_mask, self._last_write)
