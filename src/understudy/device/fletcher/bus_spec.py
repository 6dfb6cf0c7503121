"""The registers as the document has them: 32 bits each, every access it does not allow is a `RuleError`."""

from __future__ import annotations

from understudy.core.errors import RuleError
from understudy.core.rule import Rule
from understudy.core.snapshot import Stateful
from understudy.device.fletcher.bus import ALL_LANES, Reply, Response, Written
from understudy.device.fletcher.bus_words import STATUS, FieldStore, Word, all_words, lane_mask
from understudy.device.fletcher.lints import Shadow
from understudy.device.fletcher.map.layout import FletcherMap
from understudy.device.fletcher.rules import (
    CONTROL_BITS,
    CUSTOM_CONTROL,
    CUSTOM_STATUS,
    DERIVED,
    PROFILE_CLEAR,
    PROFILE_ENABLE,
    PROFILE_READ_ONLY,
    REGISTER_WIDTH,
    RETURN_READ_ONLY,
    STATUS_READ_ONLY,
)


class SpecBus(Stateful):
    """The document's registers. `shadow`, if there is one, is told of every access that was allowed."""

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
        """As at power-on."""
        self.store.reset()
        if self._shadow is not None:
            self._shadow.reset()

    def read_word(self, address: int) -> Word:
        """The word that a read of `address` means."""
        return self._word(address, "read")

    def write_word(self, address: int) -> Word:
        """The word that a write of `address` means."""
        return self._word(address, "write")

    def _word(self, address: int, access: str) -> Word:
        """The register at `address`; `RuleError` where there is none."""
        found = self._words.get(address)
        if found is not None:
            return found
        if address % self._bytes:
            raise RuleError(
                f"{access} of bus address {address:#x}, expected a multiple of {self._bytes}", rule=REGISTER_WIDTH
            )
        below = max((at for at in self._words if at < address), default=None)
        near = f"behind {self._words[below].name}" if below is not None else f"below the map at {self._map.offset:#x}"
        raise RuleError(f"{access} of bus address {address:#x}, where no register is", rule=DERIVED).at(
            "address", address, near
        )

    def read(self, address: int) -> Reply:
        """Read a register; control and Profile_clear read as 0."""
        word = self._word(address, "read")
        value = self.store.gather(word) >> word.number * self._bits & (1 << self._bits) - 1
        if self._shadow is not None:
            self._shadow.read(address, word, value)
        return Reply(value, Response.OKAY)

    def write(self, address: int, value: int, strobes: int = ALL_LANES) -> Written:
        """Write a register; `RuleError` if it is read-only, or for bits that are no part of it."""
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
