"""What a host does that works on paper or by luck: checks against the generated hardware.

In profile `hardware` they say what the register file really did; in profile `spec` a register file of the hardware
runs beside the document's, and they say where it would have answered differently.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Rule
from understudy.core.snapshot import Stateful
from understudy.core.telemetry import Telemetry
from understudy.device.fletcher.bus import ALL_LANES, HardwareBus, Reply, Response
from understudy.device.fletcher.bus_words import CONTROL, STATUS, FieldStore, Part, Word
from understudy.device.fletcher.map.layout import FletcherMap
from understudy.device.fletcher.rules import ADDRESS_HALVES, DERIVED, REGISTER_WIDTH, START

CHECKS: Final = {
    "stray-read": "a read where no register can be read: the hardware answers with another one",
    "stray-write": "a write where no register can be written: the hardware writes another one",
    "unlatched-word": "a later word of a wide register was read without its first word: SLVERR",
    "foreign-latch": "a later word was read that belongs to another register than the one that was latched",
    "foreign-hold": "a register was written together with words of another one, or of an earlier write",
    "unfinished-write": "the kernel was started while words of a register wait for the last one",
    "start-ignored": "a start while the kernel was busy, or done and not reset",
    "other-rows": "a RecordBatch of which the kernel will see other rows: a slice, hidden nulls (profile hardware)",
    "hardware-differs": "the document's registers and the hardware's would have answered differently (profile spec)",
}


class Lints:
    """Emits lints, and has the host told of them."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def tell(self, check: str, message: str, rule: Rule | None = None) -> None:
        """Emit one."""
        assert check in CHECKS
        self._telemetry.lint(check, message, rule)

    def start_ignored(self, state: str) -> None:
        """A start that has no effect."""
        then = "expected a reset first" if state == "done" else "expected it to be done"
        self.tell("start-ignored", f"start while the kernel is {state}: nothing happens, {then}", START)


class HardwareLints:
    """Watches the accesses of a `HardwareBus`; `before_*` is called with the word that an access means."""

    def __init__(self, lints: Lints, word_bytes: int) -> None:
        self._lints = lints
        self._bytes = word_bytes
        self.reset()

    def reset(self) -> None:
        """Nothing latched, nothing held."""
        self._latched: Word | None = None
        self._writer: dict[int, Word] = {}
        """Who wrote each word of the holding register last."""
        self._fresh: set[int] = set()
        """Those whose strobes still count: a commit clears them."""
        self._open: dict[tuple[Part, ...], Word] = {}
        """Registers that wait for their last word."""

    def read(self, address: int, word: Word, reply: Reply) -> None:
        """A word was read."""
        if address // self._bytes * self._bytes != word.address:
            self._lints.tell(
                "stray-read", f"read of {address:#x}, where no register can be read: {word.name} answers", DERIVED
            )
        if word.number and reply.response is Response.SLVERR:
            self._lints.tell(
                "unlatched-word",
                f"read of {word.name}: SLVERR, expected a read of its first word before",
                REGISTER_WIDTH,
            )
        elif word.number and self._latched is not None and self._latched.parts != word.parts:
            self._lints.tell(
                "foreign-latch", f"read of {word.name} gives that word of {self._latched.name}", REGISTER_WIDTH
            )
        if word.number == 0:
            self._latched = word

    def write(self, address: int, word: Word) -> None:
        """A word was written."""
        if address // self._bytes * self._bytes != word.address:
            self._lints.tell(
                "stray-write", f"write to {address:#x}, where no register can be written: {word.name} takes it", DERIVED
            )
        self._writer[word.number] = word
        if not word.is_last:
            self._fresh.add(word.number)
            self._open[word.parts] = word
            return
        for number in range(word.number):
            other = self._writer.get(number)
            if other is not None and (number not in self._fresh or other.parts != word.parts):
                self._lints.tell(
                    "foreign-hold",
                    f"write of {word.name} takes word {number} from an earlier write of {other.name}, "
                    "expected all words of the register in ascending order",
                    ADDRESS_HALVES,
                )
        self._fresh.clear()
        self._open.pop(word.parts, None)

    def started(self) -> None:
        """The kernel starts."""
        for word in self._open.values():
            self._lints.tell(
                "unfinished-write",
                f"start while {word.name} waits for the rest of its register, which is as before",
                ADDRESS_HALVES,
            )


class Shadow(Stateful):
    """The hardware's register file beside the document's, in profile `spec`."""

    STATE = ("_bus", "_own")

    def __init__(self, layout: FletcherMap, store: FieldStore, lints: Lints) -> None:
        self._store = store
        self._own = FieldStore(layout)
        self._bus = HardwareBus(layout, self._own)
        self._lints = lints
        self._status = [index for index, field in enumerate(layout.fields) if field.behaviour == STATUS]
        self._control = [index for index, field in enumerate(layout.fields) if field.behaviour == CONTROL]

    def set(self, address: int, value: int) -> None:
        """A simulation's initialization of the field at `address`."""
        self._own.set(address, value)

    def reset(self) -> None:
        """As at power-on."""
        self._bus.reset()

    def read(self, address: int, word: Word, value: int) -> None:
        """The document's registers have answered `value`."""
        for index in self._status:
            self._own.values[index] = self._store.values[index]
        reply = self._bus.read(address)
        if reply.response is Response.SLVERR:
            self._tell(f"read of {word.name}: the hardware answers SLVERR, expected a read of its first word before")
        elif reply.value != value:
            self._tell(f"read of {word.name} is {value:#x}, {reply.value:#x} on the hardware")

    def write(self, address: int, value: int, strobes: int = ALL_LANES) -> None:
        """The same was written to the document's registers."""
        self._bus.write(address, value, strobes)

    def started(self) -> None:
        """The kernel starts: control fields should be the same."""
        for index in self._control:
            here, there = self._store.values[index], self._own.values[index]
            if here != there:
                name = self._store.fields[index].name
                self._tell(f"start with {name} = {here:#x}, {there:#x} on the hardware", ADDRESS_HALVES)

    def _tell(self, message: str, rule: Rule = REGISTER_WIDTH) -> None:
        self._lints.tell("hardware-differs", message, rule)
