"""What drivers do that the device accepts and that is most likely a mistake. Each finding is a `Lint` event."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Final

from understudy.core.rule import Rule
from understudy.core.telemetry import CountingTelemetry
from understudy.device.acceldev import rules
from understudy.device.acceldev.commands import SLOT_BYTES, ContextConfig, device_command_name, device_command_type
from understudy.device.acceldev.events import Coalesced
from understudy.device.acceldev.registers import CMDS_BUFFER_SIZE, Interrupt

CHECKS: Final = {
    "stale-feed-word": "a command uses FEED words that were not written since the last submission",
    "fence-wait-late": "CMD_FENCE_WAIT was written after its FENCE, and CMD_FENCE_LAST was not read next",
    "partial-command": "the size of a RUN is no multiple of a command's 20 bytes",
    "odd-access": "a register access of another size, unaligned, or where no register is",
    "queue-overrun": "a command was submitted to a full queue, and lost",
    "interrupt-coalesced": "an interrupt's event occurred again before the driver cleared it",
    "interrupt-unacknowledged": "an interrupt, once enabled, was active when the driver left, or at reset or close",
    "interrupt-storm": "INTR was read 100 times with an enabled interrupt active that was not cleared in between",
    "slot-edited": "a slot pointer changed in memory while a RUN used it",
    "context-not-zeroed": "a context was freed, and its record was not zeroed (told by `context_freed` only)",
    "run-errored": "a RUN on a context whose record still has the error bit set",
    "contexts-configs-unset": "a command used CONTEXTS_CONFIGS before it was written",
    "contexts-configs-live": "CONTEXTS_CONFIGS was written while commands were queued or running",
}
"""Every check by name, and what it finds."""

REMEMBERED_FENCES: Final = 1024
STORM_READS: Final = 100
"""Reads of INTR without an answer, after which it is a storm: a line stays high and its handler is called again."""


class Lints:
    """The memory of the checks: what happened before and matters now."""

    def __init__(self, telemetry: CountingTelemetry) -> None:
        self._telemetry = telemetry
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._fresh_words = 0
        self._fences: deque[int] = deque(maxlen=REMEMBERED_FENCES)
        self._queued_fences: Counter[int] = Counter()
        self._late: int | None = None
        self._told_coalesced = 0
        self._told_gone = 0
        self._unanswered = 0
        self._raised_at: dict[Interrupt, int] = {}
        self.configs_written = False

    def report(self, check: str, message: str, rule: Rule | None = None) -> None:
        """Emit a finding, and have the host told; `check` is one of `CHECKS`."""
        assert check in CHECKS
        self._telemetry.lint(check, message, rule)

    # ---- registers -----------------------------------------------------------------------------------------------

    def odd_access(self, write: bool, size: int, offset: int, why: str) -> None:
        """A register access that no register takes."""
        verb = "write" if write else "read"
        self.report("odd-access", f"{verb} of {size} bytes at BAR0 + {offset:#06x}: {why}", rules.REGISTER_ACCESS)

    def register_access(self, name: str, write: bool) -> None:
        """Any register access, before it takes effect."""
        if self._late is None:
            return
        late, self._late = self._late, None
        if write or name != "CMD_FENCE_LAST":
            self.report(
                "fence-wait-late",
                f"CMD_FENCE_WAIT was set to {late:#x} after that FENCE was processed: no interrupt comes, expected "
                "it to be written before the FENCE is submitted, or a read of CMD_FENCE_LAST after it",
                rules.FENCE_COMPARES_WAIT,
            )

    def fence_wait_written(self, value: int) -> None:
        """CMD_FENCE_WAIT holds `value` now."""
        if value in self._fences and not self._queued_fences[value]:
            self._late = value

    def configs(self, busy: bool) -> None:
        """Half of CONTEXTS_CONFIGS is written."""
        self.configs_written = True
        if busy:
            self.report(
                "contexts-configs-live",
                "CONTEXTS_CONFIGS was written while commands were queued or running",
                rules.CONTEXTS_CONFIGS,
            )

    # ---- the queue -----------------------------------------------------------------------------------------------

    def feed(self, index: int) -> None:
        """FEED word `index` was written."""
        self._fresh_words |= 1 << index

    def submitted(self, feed: Sequence[int]) -> None:
        """The FEED words were submitted."""
        kind = device_command_type(feed)
        fresh, self._fresh_words = self._fresh_words, 0
        stale = [str(word) for word in (kind.WORDS_USED if kind else (0,)) if not fresh >> word & 1]
        if stale:
            self.report(
                "stale-feed-word",
                f"{device_command_name(feed)} uses FEED word {', '.join(stale)}, not written since the last submission",
                rules.MANUAL_FEED,
            )

    def overrun(self, name: str) -> None:
        """A command was dropped."""
        self.report(
            "queue-overrun",
            f"{name} was submitted while all {CMDS_BUFFER_SIZE} places were taken, and is lost",
            rules.FEED_ERROR,
        )

    def fence_queued(self, value: int) -> None:
        """A FENCE entered the queue."""
        self._queued_fences[value] += 1

    def fence_last_written(self) -> None:
        """A driver sets CMD_FENCE_LAST: it numbers its fences anew."""
        self._fences.clear()

    def fence_processed(self, value: int, awaited: bool) -> None:
        """A FENCE took effect; `awaited` ones have interrupted, so that their value may be awaited again."""
        self._queued_fences[value] -= 1
        if self._queued_fences[value] <= 0:
            del self._queued_fences[value]
        if not awaited:
            self._fences.append(value)
        elif value in self._fences:
            self._fences = deque((each for each in self._fences if each != value), self._fences.maxlen)

    # ---- interrupts ----------------------------------------------------------------------------------------------

    def raised(self, interrupt: Interrupt, coalesced: bool) -> None:
        """An interrupt's event occurred."""
        if not coalesced:
            self._raised_at[interrupt] = self._telemetry.time
        elif not self._told_coalesced & interrupt.value:
            self._told_coalesced |= interrupt.value
            message = (
                f"{interrupt.name} occurred again while active since command {self._raised_at.get(interrupt, 0)}: "
                "one interrupt may stand for many events"
            )
            # For probes only: it befalls right drivers too, and they cannot avoid it.
            self._telemetry.emit(
                lambda time: Coalesced(time, "interrupt-coalesced", message, rules.INTR_ACTIVE, interrupt)
            )

    def is_told_coalesced(self, interrupt: Interrupt) -> bool:
        """Whether it is active and was told to have occurred again: there is no more to tell until it is cleared."""
        return bool(self._told_coalesced & interrupt.value)

    def cleared(self, interrupts: Interrupt) -> None:
        """The driver acknowledged interrupts."""
        self._told_coalesced &= ~interrupts
        self._told_gone &= ~interrupts
        self._unanswered = 0
        for interrupt in interrupts:
            self._raised_at.pop(interrupt, None)

    def intr_read(self, pending: Interrupt) -> None:
        """The driver looked at INTR while interrupts were both active and enabled: those `pending`."""
        self._unanswered += 1
        if self._unanswered == STORM_READS:
            self.report(
                "interrupt-storm",
                f"INTR was read {STORM_READS} times while {_names(pending)} stayed active, expected the driver to "
                "write what it has read back to INTR",
                rules.INTR_WRITE,
            )

    def gone(self, unseen: Interrupt, when: str) -> None:
        """The device stops being used; `unseen` are the interrupts both active and enabled. Each is told once."""
        new = unseen & ~self._told_gone
        self._told_gone |= new
        for interrupt in new:
            self.report(
                "interrupt-unacknowledged",
                f"{interrupt.name} has been active since command {self._raised_at.get(interrupt, 0)} and was never "
                f"cleared before {when}",
                rules.INTR_WRITE,
            )

    # ---- contexts ------------------------------------------------------------------------------------------------

    def configs_used(self) -> None:
        """A command looks up a record."""
        if not self.configs_written:
            self.configs_written = True
            self.report(
                "contexts-configs-unset",
                "a context's record is used, but CONTEXTS_CONFIGS was never written",
                rules.START_UP,
            )

    def run_errored(self, context: int) -> None:
        """A RUN was consumed without effect."""
        self.report(
            "run-errored",
            f"RUN on context {context} does nothing: the error bit of its record is set, expected it to be cleared "
            "when the context is opened",
            rules.CONTEXT_ERROR,
        )

    def partial(self, size: int, command_bytes: int) -> None:
        """A RUN's size leaves a rest."""
        self.report(
            "partial-command",
            f"RUN of {size} bytes: {size % command_bytes} bytes behind the last complete command of {command_bytes} "
            "are not executed",
            rules.RUN_SIZE,
        )

    def slots_after_run(self, context: int, before: bytes, after: bytes, used: int) -> None:
        """A RUN ended; `before` and `after` are its record's slots, `used` the mask of those it filled."""
        for slot in _members(used):
            place = slice(slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES)
            if before[place] != after[place]:
                old, new = (int.from_bytes(each[place], "little") for each in (before, after))
                self.report(
                    "slot-edited",
                    f"slot {slot} of context {context} changed from {old:#x} to {new:#x} while a RUN used it, "
                    "expected BIND_SLOT",
                    rules.BIND_BY_CONFIGS,
                )

    def freed(self, context: int, record: ContextConfig) -> None:
        """Somebody who knows says that a context was freed."""
        bound = sum(1 for table in record.buffers_slots if table)
        if record.fence_counter or record.status or bound:
            self.report(
                "context-not-zeroed",
                f"record of context {context} holds fence_counter {record.fence_counter}, status {record.status:#x} "
                f"and {bound} bound slots when it was freed, expected zeros",
                rules.CONTEXTS_ARRAY,
            )


def _names(interrupts: Interrupt) -> str:
    return ", ".join(str(each.name) for each in interrupts)


def _members(mask: int) -> Iterable[int]:
    return (index for index in range(mask.bit_length()) if mask >> index & 1)
