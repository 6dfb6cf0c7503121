"""The lints about drivers: accesses that the device accepts but that are most likely mistakes.

Each mistake is reported as a `Lint` event."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Final

from softcard.core.device import CountingTelemetry
from softcard.core.errors import SoftcardError
from softcard.core.rule import Rule
from softcard.device.acceldev import rules
from softcard.device.acceldev.commands import (
    SLOT_BYTES,
    WORD_BYTES,
    ContextConfig,
    NopCommand,
    device_command_name,
    device_command_type,
)
from softcard.device.acceldev.events import Coalesced
from softcard.device.acceldev.registers import CMDS_BUFFER_SIZE, Interrupt

CHECKS: Final = {
    "stale-feed-word": "a command uses FEED words that were not written since the last submission",
    "fence-wait-late": "CMD_FENCE_WAIT was written after its FENCE, and CMD_FENCE_LAST was not read next",
    "partial-command": "the size of a RUN is not a multiple of a command's 20 bytes",
    "register-access": "a register access of another size, unaligned, or at an address without a register",
    "queue-overrun": "a command was submitted to a full queue, and lost",
    "interrupt-coalesced": "an interrupt's event occurred again before the driver cleared it",
    "interrupt-unacknowledged": "an enabled interrupt was active when the driver disconnected, or at reset or close",
    "interrupt-storm": "INTR was read 100 times with an enabled interrupt active that was not cleared in between",
    "slot-edited": "a slot pointer changed in memory while a RUN used it",
    "context-not-zeroed": "a context was freed, and its record was not zeroed (reported by `context_freed` only)",
    "run-errored": "a RUN on a context whose record still has the error bit set",
    "never-enabled": "commands were queued and ENABLE was never set: progress was read, or the driver disconnected",
    "byte-order": "a command word has the other byte order: a NOP that would be another command after a byte swap",
    "empty-run": "a RUN of 0 bytes",
    "command-refused": "a device command was invalid, or its context's record could not be reached",
    "contexts-configs-unset": "a command used CONTEXTS_CONFIGS before it was written",
    "contexts-configs-in-use": "CONTEXTS_CONFIGS was written while commands were queued or running",
}
"""The description of every lint check, by name."""

REMEMBERED_FENCES: Final = 1024
STORM_READS: Final = 100
"""The number of reads of INTR that counts as an interrupt storm.

The reads count while an enabled interrupt is active and the driver clears none.
"""


class Lints:
    """The lint checks of one device, with the earlier register accesses and commands that they depend on."""

    def __init__(self, telemetry: CountingTelemetry) -> None:
        self._telemetry = telemetry
        self.reset()

    def reset(self) -> None:
        """Forget all earlier accesses and commands."""
        self._fresh_words = 0
        self._fences: deque[int] = deque(maxlen=REMEMBERED_FENCES)
        self._queued_fences: Counter[int] = Counter()
        self._late: int | None = None
        self._reported_coalesced = 0
        self._reported_gone = 0
        self._unanswered = 0
        self._raised_at: dict[Interrupt, int] = {}
        self.configs_written = False
        self._unset_at = -1
        """The device's time at which a command used CONTEXTS_CONFIGS although it was not set; -1 if none did."""
        self.is_started = False
        """True if the driver has set ENABLE, or if a lint has already reported that it did not."""

    def report(self, check: str, message: str, rule: Rule | None = None) -> None:
        """Emit a lint with `message`, as an event and to the host; `check` is one of the names in `CHECKS`."""
        assert check in CHECKS
        self._telemetry.lint(check, message, rule)

    # ---- registers -----------------------------------------------------------------------------------------------

    def odd_access(self, write: bool, size: int, offset: int, why: str) -> None:
        """Emit a lint for an access to BAR0 that no register accepts; `why` is the reason, for the message."""
        verb = "write" if write else "read"
        self.report("register-access", f"{verb} of {size} bytes at BAR0 + {offset:#06x}: {why}", rules.REGISTER_ACCESS)

    def register_access(self, name: str, write: bool) -> None:
        """Check an access to register `name` before it takes effect.

        Emit the lint "fence-wait-late" if the last write of CMD_FENCE_WAIT came too late, unless this is a read of
        CMD_FENCE_LAST.
        """
        if self._late is None:
            return
        late, self._late = self._late, None
        if write or name != "CMD_FENCE_LAST":
            self.report(
                "fence-wait-late",
                f"CMD_FENCE_WAIT was set to {late:#x} after the FENCE with this VAL was processed: no interrupt will "
                "be "
                "raised, expected a write before the FENCE is submitted, or a read of CMD_FENCE_LAST after the write",
                rules.FENCE_COMPARES_WAIT,
            )

    def fence_wait_written(self, value: int) -> None:
        """Record that CMD_FENCE_WAIT now holds `value`."""
        if value in self._fences and not self._queued_fences[value]:
            self._late = value

    def configs(self, busy: bool) -> None:
        """Record a write of one half of CONTEXTS_CONFIGS; emit a lint if `busy`: if commands are queued or running."""
        self.configs_written = True
        if busy:
            self.report(
                "contexts-configs-in-use",
                "CONTEXTS_CONFIGS was written while commands were queued or running",
                rules.CONTEXTS_CONFIGS,
            )

    def enable_written(self, word: int) -> None:
        """Record that ENABLE now holds `word`."""
        self.is_started |= bool(word)

    def progress_read(self, name: str, queued: int) -> None:
        """Emit a lint if `queued` commands wait because ENABLE was never set.

        The driver reads register `name`, which shows the progress of commands."""
        if queued and not self.is_started:
            self.never_enabled(queued, f"when {name} was read")

    def never_enabled(self, queued: int, when: str) -> None:
        """Emit a lint, once, that `queued` commands are not executed because ENABLE was never set.

        `when` describes the occasion, for the message.
        """
        if queued and not self.is_started:
            self.is_started = True
            self.report(
                "never-enabled",
                f"{_commands(queued)} queued and ENABLE was never set {when}: nothing is executed, expected a write of "
                "1 to ENABLE at start-up",
                rules.START_UP,
            )

    # ---- the queue -----------------------------------------------------------------------------------------------

    def feed(self, index: int) -> None:
        """Record that the driver wrote FEED word number `index`."""
        self._fresh_words |= 1 << index

    def submitted(self, feed: Sequence[int]) -> None:
        """Emit lints for a submitted device command that has stale words or the wrong byte order.

        `feed` has the command's five words. A word is stale if the command uses it and the driver did not write it
        since the last submission."""
        kind = device_command_type(feed)
        fresh, self._fresh_words = self._fresh_words, 0
        stale = [str(word) for word in (kind.WORDS_USED if kind else (0,)) if not fresh >> word & 1]
        if stale:
            self.report(
                "stale-feed-word",
                f"{device_command_name(feed)} uses FEED word {', '.join(stale)}, which was not written since the "
                "last submission",
                rules.MANUAL_FEED,
            )
        swapped = (int.from_bytes(feed[0].to_bytes(WORD_BYTES, "little"), "big"), *feed[1:])
        if kind is NopCommand and feed[0] and device_command_type(swapped) not in (None, NopCommand):
            self.report(
                "byte-order",
                f"the header {feed[0]:#010x} is a NOP, but would be {device_command_name(swapped)} in big-endian "
                "order: "
                "expected 32-bit writes of little-endian words",
                rules.DEVICE_COMMAND_WORDS,
            )

    def overrun(self, name: str) -> None:
        """Emit a lint that the command `name` was dropped because the queue was full."""
        self.report(
            "queue-overrun",
            f"{name} was submitted while all {CMDS_BUFFER_SIZE} entries of the queue were in use, and is lost: read "
            "CMD_MANUAL_FREE first",
            rules.FEED_ERROR,
        )

    def fence_queued(self, value: int) -> None:
        """Record that a FENCE with `value` entered the queue."""
        self._queued_fences[value] += 1

    def fence_last_written(self) -> None:
        """Record that a driver has set CMD_FENCE_LAST, so that the values of its fences start anew."""
        self._fences.clear()

    def fence_processed(self, value: int, awaited: bool) -> None:
        """Record that a device FENCE with `value` took effect.

        `awaited` is True if the fence raised an interrupt; a driver may then wait for the same value again.
        """
        self._queued_fences[value] -= 1
        if self._queued_fences[value] <= 0:
            del self._queued_fences[value]
        if not awaited:
            self._fences.append(value)
        elif value in self._fences:
            self._fences = deque((each for each in self._fences if each != value), self._fences.maxlen)

    # ---- interrupts ----------------------------------------------------------------------------------------------

    def raised(self, interrupt: Interrupt, coalesced: bool) -> None:
        """Record that `interrupt` was requested; emit a lint if it was active already (`coalesced`)."""
        if not coalesced:
            self._raised_at[interrupt] = self._telemetry.time
        elif not self._reported_coalesced & interrupt.value:
            self._reported_coalesced |= interrupt.value
            message = (
                f"{interrupt.name} occurred again while active since command {self._raised_at.get(interrupt, 0)}: "
                "the driver sees one interrupt for several events"
            )
            # For probes only: correct drivers cause it as well, and cannot avoid it.
            self._telemetry.emit(
                lambda time: Coalesced(time, "interrupt-coalesced", message, rules.INTR_ACTIVE, interrupt)
            )

    def has_reported_coalesced(self, interrupt: Interrupt) -> bool:
        """Return True if a lint has reported this interrupt as coalesced since the driver last cleared it.

        Further requests of the interrupt cause no such lint until the driver clears it.
        """
        return bool(self._reported_coalesced & interrupt.value)

    def cleared(self, interrupts: Interrupt) -> None:
        """Record that the driver acknowledged interrupts."""
        self._reported_coalesced &= ~interrupts
        self._reported_gone &= ~interrupts
        self._unanswered = 0
        for interrupt in interrupts:
            self._raised_at.pop(interrupt, None)

    def intr_read(self, pending: Interrupt) -> None:
        """Record a read of INTR while enabled interrupts are active; emit a lint for an interrupt storm.

        A storm is `STORM_READS` such reads between which the driver clears no interrupt. `pending` are the
        interrupts that are both active and enabled."""
        self._unanswered += 1
        if self._unanswered == STORM_READS:
            self.report(
                "interrupt-storm",
                f"INTR was read {STORM_READS} times while {_names(pending)} stayed active, expected the driver to "
                "write what it has read back to INTR",
                rules.INTR_WRITE,
            )

    def gone(self, unseen: Interrupt, when: str) -> None:
        """Emit a lint, once, for each interrupt in `unseen` when the driver stops using the device.

        `unseen` are the enabled interrupts that the driver has not acknowledged; `when` describes the occasion.
        """
        new = unseen & ~self._reported_gone
        self._reported_gone |= new
        for interrupt in new:
            self.report(
                "interrupt-unacknowledged",
                f"{interrupt.name} has been active since command {self._raised_at.get(interrupt, 0)} and was never "
                f"cleared before {when}",
                rules.INTR_WRITE,
            )

    # ---- contexts ------------------------------------------------------------------------------------------------

    def configs_used(self) -> None:
        """Emit a lint if a command uses a context's record although the driver never wrote CONTEXTS_CONFIGS."""
        if not self.configs_written:
            self.configs_written = True
            self._unset_at = self._telemetry.time
            self.report(
                "contexts-configs-unset",
                "a context's record is used, but CONTEXTS_CONFIGS was never written",
                rules.START_UP,
            )

    def run_errored(self, context: int) -> None:
        """Emit a lint for a RUN without effect, because the error bit of context number `context` is set."""
        self.report(
            "run-errored",
            f"RUN on context {context} does nothing: the error bit of its record is set, expected a driver that clears "
            "the bit when it opens the context",
            rules.CONTEXT_ERROR,
        )

    def refused(self, name: str, interrupt: Interrupt, error: SoftcardError) -> None:
        """Emit a lint for a device command whose only effect was to raise `interrupt`, because of `error`."""
        if self._unset_at == self._telemetry.time:
            return  # the cause is reported already
        self.report(
            "command-refused", f"{name} is not executed, it only raises {interrupt.name}: {error.message}", error.rule
        )

    def empty_run(self, context: int) -> None:
        """Emit a lint for a RUN of 0 bytes in context number `context`."""
        self.report(
            "empty-run",
            f"RUN of 0 bytes on context {context} executes nothing, expected the bytes of its commands",
            rules.RUN_SIZE,
        )

    def swapped_code(self, context: int, first: int, last: int) -> None:
        """Emit a lint about NOPs in a RUN that are FENCE or FILL commands in big-endian order.

        They are among the user commands `first` to `last`.
        """
        self.report(
            "byte-order",
            f"among user commands {first} to {last} of a RUN on context {context} are NOPs that are FENCE or FILL in "
            "big-endian order, expected little-endian words",
            rules.USER_COMMAND_WORDS,
        )

    def partial(self, size: int, command_bytes: int) -> None:
        """Emit a lint for a RUN of `size` bytes if that is not a multiple of the size of a command."""
        self.report(
            "partial-command",
            f"RUN of {size} bytes: the last {size % command_bytes} bytes are not a complete command of "
            f"{command_bytes} bytes and "
            "are not executed",
            rules.RUN_SIZE,
        )

    def slots_after_run(self, context: int, before: bytes, after: bytes, used: int) -> None:
        """Emit a lint for each slot that a RUN used and whose value in the context's record changed during the RUN.

        `before` and `after` are the bytes of all slots; `used` is a bit mask of the slots whose buffers the RUN
        filled."""
        for slot in _members(used):
            place = slice(slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES)
            if before[place] != after[place]:
                old, new = (int.from_bytes(each[place], "little") for each in (before, after))
                self.report(
                    "slot-edited",
                    f"slot {slot} of context {context} changed from {old:#x} to {new:#x} in memory while a RUN used "
                    "it, "
                    "expected a BIND_SLOT command",
                    rules.BIND_BY_CONFIGS,
                )

    def freed(self, context: int, record: ContextConfig) -> None:
        """Emit a lint if `record`, the record of a freed context, is not all zeros."""
        bound = sum(1 for table in record.buffers_slots if table)
        if record.fence_counter or record.status or bound:
            self.report(
                "context-not-zeroed",
                f"the record of context {context} holds fence_counter {record.fence_counter}, status "
                f"{record.status:#x} "
                f"and {bound} bound slots when it was freed, expected zeros",
                rules.CONTEXTS_ARRAY,
            )


def _commands(count: int) -> str:
    return "1 command was" if count == 1 else f"{count} commands were"


def _names(interrupts: Interrupt) -> str:
    return ", ".join(str(each.name) for each in interrupts)


def _members(mask: int) -> Iterable[int]:
    return (index for index in range(mask.bit_length()) if mask >> index & 1)
