"""The registers of the Fletcher specification, of 32 bits each; a disallowed access raises a `RuleError`."""

from __future__ import annotations

from softcard.core.errors import RuleError
from softcard.core.rule import Rule
from softcard.core.snapshot import Stateful
from softcard.device.fletcher.bus import (
    ALL_LANES,
    STATUS,
    FieldStore,
    Reply,
    Response,
    Word,
    Written,
    all_words,
    lane_mask,
)
from softcard.device.fletcher.lints import Shadow
from softcard.device.fletcher.map.layout import FletcherMap
from softcard.device.fletcher.rules import (
    CONTROL_BITS,
    CUSTOM_CONTROL,
    CUSTOM_STATUS,
    DERIVED_REGISTERS,
    PROFILE_CLEAR,
    PROFILE_ENABLE,
    PROFILE_READ_ONLY,
    REGISTER_WIDTH,
    RETURN_READ_ONLY,
    STATUS_READ_ONLY,
)


class SpecBus(Stateful):
    """The registers as the Fletcher specification describes them.

    If `shadow` is given, every allowed access is repeated on `shadow`, a model of the generated hardware's
    register file, to compare the two."""

    STATE = ("_shadow",)

    def __init__(self, layout: FletcherMap, store: FieldStore, shadow: Shadow | None) -> None:
        self.store = store
        self._map = layout
        self._shadow = shadow
        self._bytes = layout.bus_width // 8
        self._bits = layout.bus_width
        self._words = all_words(layout)
        self.reset()

    def reset(self) -> None:
        """Reset to the state at power-on."""
        self.store.reset()
        if self._shadow is not None:
            self._shadow.reset()

    def read_word(self, address: int) -> Word:
        """Return the word that a read of `address` selects."""
        return self._word(address, "read")

    def write_word(self, address: int) -> Word:
        """Return the word that a write of `address` selects."""
        return self._word(address, "write")

    def _word(self, address: int, access: str) -> Word:
        """Return the register at `address`; raise `RuleError` if the Fletcher specification defines none there.

        `access` names the kind of access (read or write) in the error message."""
        found = self._words.get(address)
        if found is not None:
            return found
        if address % self._bytes:
            raise RuleError(
                f"{access} at bus address {address:#x}, which must be a multiple of {self._bytes}", rule=REGISTER_WIDTH
            )
        below = max((at for at in self._words if at < address), default=None)
        near = f"after {self._words[below].name}" if below is not None else f"below the map at {self._map.offset:#x}"
        raise RuleError(f"{access} at bus address {address:#x}, where there is no register", rule=DERIVED_REGISTERS).at(
            "address", address, near
        )

    def read(self, address: int) -> Reply:
        """Read a register; the registers control and Profile_clear read as 0."""
        word = self._word(address, "read")
        value = self.store.gather(word) >> word.number * self._bits & (1 << self._bits) - 1
        if self._shadow is not None:
            self._shadow.read(address, word, value)
        return Reply(value, Response.OKAY)

    def write(self, address: int, value: int, strobes: int = ALL_LANES) -> Written:
        """Write a register; raise `RuleError` if it is read-only, or if bits outside of its fields are set."""
        word = self._word(address, "write")
        shift, lanes = word.number * self._bits, lane_mask(strobes, self._bytes)
        self._check(word, address, value & lanes, lanes, shift)
        pulses = self.store.commit(word, (value & lanes) << shift, lanes << shift)
        if self._shadow is not None:
            self._shadow.write(address, value, strobes)
        return Written(Response.OKAY, pulses)

    def _check(self, word: Word, address: int, value: int, lanes: int, shift: int) -> None:
        ones = (1 << self._bits) - 1
        writable, read_only = word.writable >> shift & ones, word.read_only >> shift & ones
        if lanes and (not writable or (read_only & lanes and not writable & lanes)):
            raise RuleError(f"write to {word.name}, which is read-only", rule=self._read_only(word)).at(
                "register", f"{address:#x}", word.name
            )
        if value & ~writable:
            raise RuleError(
                f"write of {value:#x} to {word.name}, where bits {value & ~writable:#x} cannot be written",
                rule=self._too_wide(word),
            ).at("register", f"{address:#x}", word.name)

    def _read_only(self, word: Word) -> Rule:
        part = next(part for part in word.parts if part.behaviour == STATUS)
        if part.name in ("idle", "busy", "done"):
            return STATUS_READ_ONLY
        if part.name in ("result", "return0", "return1"):
            return RETURN_READ_ONLY
        return CUSTOM_STATUS if any(part.name == custom.name for custom in self._map.customs) else PROFILE_READ_ONLY

    def _too_wide(self, word: Word) -> Rule:
        start = word.address - word.number * self._bytes
        if start == self._map.control // self._bytes * self._bytes:
            return CONTROL_BITS
        if self._map.profile_enable is not None and start == self._map.profile_enable // self._bytes * self._bytes:
            return PROFILE_ENABLE
        if self._map.profile_clear is not None and start == self._map.profile_clear // self._bytes * self._bytes:
            return PROFILE_CLEAR
        return CUSTOM_CONTROL
