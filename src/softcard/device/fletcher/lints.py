"""Lints about Fletcher hosts: accesses that the Fletcher specification allows but hardware treats differently.

In profile `hardware`, the device's register file behaves like the generated hardware, and lints report what
it does. In profile `spec`, a second register file with the hardware's behaviour repeats every access, and
lints report where its answers differ from those of the specification's registers."""

from __future__ import annotations

from typing import Final

from softcard.core.device import Telemetry
from softcard.core.rule import Rule
from softcard.core.snapshot import Stateful
from softcard.device.fletcher.bus import (
    ALL_LANES,
    CONTROL,
    STATUS,
    FieldStore,
    HardwareBus,
    Part,
    Reply,
    Response,
    Word,
)
from softcard.device.fletcher.map.layout import FletcherMap
from softcard.device.fletcher.rules import ADDRESS_HALVES, DERIVED_REGISTERS, REGISTER_WIDTH, START

CHECKS: Final = {
    "stray-read": "a read of an address without a readable register: the hardware returns another register",
    "stray-write": "a write to an address without a writable register: the hardware writes another register",
    "unlatched-word": "a later word of a wide register was read without its first word: SLVERR",
    "mixed-register-read": "a later word was read that belongs to another register than the one that was latched",
    "mixed-register-write": "a register was written together with words of another one, or of an earlier write",
    "unfinished-write": "the kernel was started while a register was written only in part",
    "start-ignored": "a start while the kernel was busy, or done and not reset",
    "wrong-rows": "a RecordBatch from which the kernel will read wrong rows: a slice, hidden nulls (profile hardware)",
    "negative-value": "a number below 0 was written to a register, which is unsigned",
    "hardware-differs": "the hardware would answer an access differently than the document demands (profile spec)",
}


class Lints:
    """The sender of lints about the host: it emits each one as an event and reports it to the host."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def report(self, check: str, message: str, rule: Rule | None = None) -> None:
        """Emit one lint: the name of its check, a message, and the rule that it concerns."""
        assert check in CHECKS
        self._telemetry.lint(check, message, rule)

    def start_ignored(self, state: str) -> None:
        """Emit a lint that a start had no effect, because the kernel was in `state`."""
        then = "expected a reset first" if state == "done" else "expected a start after the kernel is done"
        self.report("start-ignored", f"start while the kernel is {state}: nothing happens, {then}", START)


class HardwareLints:
    """The lint checks of a `HardwareBus`, called for each access with the bus word that the access selects."""

    def __init__(self, lints: Lints, word_bytes: int) -> None:
        self._lints = lints
        self._bytes = word_bytes
        self.reset()

    def reset(self) -> None:
        """Reset to the initial state, in which the bus's read latch and holding register are empty."""
        self._latched: Word | None = None
        self._writer: dict[int, Word] = {}
        """For each word of the holding register, the bus word that the host last wrote into it."""
        self._fresh: set[int] = set()
        """The words of the holding register whose strobes are still set; a commit clears them."""
        self._open: dict[tuple[Part, ...], Word] = {}
        """The registers of which some words were written, but not the last word, which commits them."""

    def read(self, address: int, word: Word, reply: Reply) -> None:
        """Check a read of `address`, which selects `word` and returned `reply`."""
        if address // self._bytes * self._bytes != word.address:
            self._lints.report(
                "stray-read",
                f"read of {address:#x}, which has no readable register: the hardware returns {word.name}",
                DERIVED_REGISTERS,
            )
        if word.number and reply.response is Response.SLVERR:
            self._lints.report(
                "unlatched-word",
                f"read of {word.name} returns SLVERR: read the first word of the register before",
                REGISTER_WIDTH,
            )
        elif word.number and self._latched is not None and self._latched.parts != word.parts:
            self._lints.report(
                "mixed-register-read",
                f"read of {word.name} returns a word of {self._latched.name}: read the first word of the register "
                "before",
                REGISTER_WIDTH,
            )
        if word.number == 0:
            self._latched = word

    def write(self, address: int, word: Word) -> None:
        """Check a write to `address`. `word` is the register word that the hardware selects for this address."""
        if address // self._bytes * self._bytes != word.address:
            self._lints.report(
                "stray-write",
                f"write to {address:#x}, which has no writable register: the hardware writes {word.name}",
                DERIVED_REGISTERS,
            )
        self._writer[word.number] = word
        if not word.is_last:
            self._fresh.add(word.number)
            self._open[word.parts] = word
            return
        for number in range(word.number):
            other = self._writer.get(number)
            if other is not None and (number not in self._fresh or other.parts != word.parts):
                self._lints.report(
                    "mixed-register-write",
                    f"write of {word.name} takes word {number} from an earlier write of {other.name}, "
                    "expected all words of the register in ascending order",
                    ADDRESS_HALVES,
                )
        self._fresh.clear()
        self._open.pop(word.parts, None)

    def started(self) -> None:
        """Emit a lint for each register of which the host has written only some words when the kernel starts."""
        for word in self._open.values():
            self._lints.report(
                "unfinished-write",
                f"start after {word.name} was written without the rest of its register, which keeps its old value",
                ADDRESS_HALVES,
            )


class Shadow(Stateful):
    """A register file with the behaviour of the generated hardware, for comparison in profile `spec`.

    It repeats every access that the host makes to the registers of the Fletcher specification.
    """

    STATE = ("_bus", "_own")

    def __init__(self, layout: FletcherMap, store: FieldStore, lints: Lints) -> None:
        self._store = store
        self._own = FieldStore(layout)
        self._bus = HardwareBus(layout, self._own)
        self._lints = lints
        self._status = [index for index, field in enumerate(layout.fields) if field.behaviour == STATUS]
        self._control = [index for index, field in enumerate(layout.fields) if field.behaviour == CONTROL]

    def set(self, address: int, value: int) -> None:
        """Set the initial value of the field at `address`, as a simulation does."""
        self._own.set(address, value)

    def reset(self) -> None:
        """Reset to the state at power-on."""
        self._bus.reset()

    def read(self, address: int, word: Word, value: int) -> None:
        """Repeat a read on this register file, and emit a lint if it does not return `value`.

        `value` is the value that the registers of the Fletcher specification returned.
        """
        for index in self._status:
            self._own.values[index] = self._store.values[index]
        reply = self._bus.read(address)
        if reply.response is Response.SLVERR:
            self._report(
                f"read of {word.name} would return SLVERR on the hardware: read the first word of the register before"
            )
        elif reply.value != value:
            self._report(f"read of {word.name} returns {value:#x}, but would return {reply.value:#x} on the hardware")

    def write(self, address: int, value: int, strobes: int = ALL_LANES) -> None:
        """Repeat a write on this register file."""
        self._bus.write(address, value, strobes)

    def started(self) -> None:
        """Emit a lint for each control field whose value differs from that of the specification's registers.

        Call this when the kernel starts.
        """
        for index in self._control:
            here, there = self._store.values[index], self._own.values[index]
            if here != there:
                name = self._store.fields[index].name
                self._report(
                    f"start with {name} = {here:#x}, but it would be {there:#x} on the hardware", ADDRESS_HALVES
                )

    def _report(self, message: str, rule: Rule = REGISTER_WIDTH) -> None:
        self._lints.report("hardware-differs", message, rule)
