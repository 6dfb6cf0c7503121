"""The gaps of the Acceldev document and our answers.

Order of trust: the document, its header, public test programs, drivers written against the original device. No
bit-exact model of the original is public, so "nothing decides it" is a reason here.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice


def _choice(name: str, gap: str, answer: str, reason: str) -> Choice:
    return Choice(f"acceldev/{name}", gap, answer, reason)


_OPEN: Final = "nothing decides it"

CHOICES: Final[tuple[Choice, ...]] = (
    # ---- the device ----
    _choice(
        "pci-class",
        "the rest of the PCI identity",
        "class 0x0b40 (co-processor), conventional PCI, INTA, no MSI, revision and subsystem 0",
        "the predecessors of the device have it; the header gives vendor 0x0666 and device 0x0019",
    ),
    _choice(
        "register-access",
        "accesses of another size, unaligned, or where no register is",
        "reads give all ones, writes are ignored, and a lint says so; with strict_access MEM_ERROR is raised, without "
        "a context; reads of FEED words 1 to 4 count among them",
        "the predecessors of the device do so",
    ),
    _choice(
        "reset-values",
        "registers after reset other than INTR_ENABLE and the queue",
        "all 0; with the setting poison INTR, CMD_FENCE_LAST, CMD_FENCE_WAIT and the FEED words hold seeded noise",
        "the start-up begins by clearing INTR: drivers may not rely on it",
    ),
    # ---- memory ----
    _choice(
        "record-truth",
        "whether the device keeps copies of slot pointers and fence counters",
        "it does not: pointers are read at use, fence_counter is read, incremented and written, BIND_SLOT writes the "
        "record",
        "drivers zero a record in memory and expect fences to restart at 1; binding by editing the record is allowed",
    ),
    _choice(
        "record-alignment",
        "alignment of CONTEXTS_CONFIGS, and its value before it was written",
        "any address is used as it is; before the first write it is 0; a lint tells of its use then",
        _OPEN,
    ),
    _choice(
        "configs-kept",
        "CONTEXTS_CONFIGS written while a command is executed",
        "the command keeps the address that it began with; a lint tells of it",
        _OPEN,
    ),
    _choice(
        "record-unreachable",
        "a context record that is not in memory",
        "MEM_ERROR; the command has no other effect",
        "the context cannot be marked as errored there",
    ),
    _choice(
        "table-address",
        "a page table address with more than 40 bits or not a multiple of 4 KiB",
        "MEM_ERROR when it is used",
        "page tables are pages, and pages use 40-bit addresses",
    ),
    _choice(
        "address-range",
        "virtual addresses of 4 MiB and more",
        "MEM_ERROR; they do not wrap around at 22 bits",
        "test programs run code beyond the end of its buffer, and fill past it, and expect an error",
    ),
    _choice(
        "buffer-end",
        "where a buffer ends",
        "at its last present page, all of it",
        "the device is told of pages only",
    ),
    _choice(
        "not-memory",
        "DMA to an address that is not memory",
        "MEM_ERROR, as for an absent page table entry",
        _OPEN,
    ),
    # ---- the queue ----
    _choice(
        "queue-depth",
        "whether the command being executed is in the queue",
        "it counts until it has finished: exactly 255 commands fit, CMD_MANUAL_FREE is 255 less those not finished",
        "the predecessors count it; the document says 255",
    ),
    _choice("feed-error", "what becomes of a command that was submitted to a full queue", "it is dropped", _OPEN),
    _choice(
        "feed-latches",
        "what FEED registers hold that were not written since the last submission",
        "the word written last; a command that uses such a word is a lint",
        "a NOP needs words 0 and 4 only, so that words stay",
    ),
    _choice(
        "enable",
        "commands submitted, or running, while ENABLE is 0",
        "they are queued; the command being executed finishes; any value but 0 goes on",
        "the predecessors of the device do so",
    ),
    _choice(
        "in-order",
        "whether commands overlap",
        "they do not: strictly in order, one RUN at a time",
        "a FENCE waits for all previous commands",
    ),
    _choice(
        "start-up",
        "what repeating the start-up resets",
        "what its writes say, nothing else: the queue and the records stay; only a PCI reset clears the queue",
        "there is no reset register",
    ),
    # ---- device commands ----
    _choice(
        "device-command",
        "device commands of other types, and contexts 255 and more",
        "CMD_ERROR; no record is touched",
        "CMD_ERROR is 'invalid device command'",
    ),
    _choice(
        "unused-bits",
        "bits 4-31 of headers that name no context, and unused words",
        "ignored",
        "the header's macros mask the type; stale words stand in unused registers",
    ),
    _choice("bind-slot-number", "BIND_SLOT with a slot of 16 and more", "CMD_ERROR; no record is touched", _OPEN),
    _choice(
        "bind-slot-errored",
        "BIND_SLOT on an errored context",
        "executed as on any other",
        "drivers unbind buffers while they close a context after an error",
    ),
    _choice(
        "run-size",
        "a RUN whose size is no multiple of 20 bytes",
        "the complete commands are executed, and a lint tells of the rest; with the setting partial_command "
        "`cmd-error` it is CMD_ERROR",
        "test programs submit sizes 4 and 0x300000 and expect success; drivers pass them on",
    ),
    _choice(
        "run-offset",
        "a RUN whose offset is no multiple of 20, or of 4",
        "any multiple of 4 works, and commands may straddle pages; others are CMD_ERROR and touch no record",
        "test programs use offsets 40 and 400, multiples of 4 only",
    ),
    _choice(
        "run-errored",
        "a RUN on an errored context",
        "it is consumed without executing anything and without an interrupt; the error lasts until software clears "
        "the record",
        "RUNs can be queued before an error occurs; drivers then fail without asking the device",
    ),
    _choice(
        "fence-order",
        "the order of a FENCE's effects",
        "CMD_FENCE_LAST, then the comparison with CMD_FENCE_WAIT, then INTR, then the line",
        "the document's numbering",
    ),
    _choice(
        "fence-late",
        "CMD_FENCE_WAIT written after its FENCE was processed",
        "no interrupt; it is a lint unless CMD_FENCE_LAST is read next",
        "values are compared when a FENCE is processed; one driver has that race",
    ),
    # ---- user commands ----
    _choice(
        "user-fetch",
        "when user commands are read",
        "each when its turn comes, all five words before it acts; a command past the last present page is MEM_ERROR",
        "the full number of words is always there",
    ),
    _choice(
        "user-error",
        "the rest of a RUN after an error",
        "not executed: the RUN ends, later FENCEs of it do not count",
        "a test program expects its wait to fail where a FENCE follows a failed FILL",
    ),
    _choice(
        "user-command",
        "user commands of other types",
        "CMD_ERROR, and the context is errored",
        "a test program expects the context to be errored and the waiter to wake",
    ),
    _choice(
        "user-type-mask",
        "bits 4-31 of a user command's header",
        "ignored",
        "the header's macro masks the type with 0xf",
    ),
    _choice(
        "interrupt-order",
        "the order of a record's update, INTR and the line",
        "the record is written first, then INTR, then the line changes",
        "drivers read status and fence_counter from memory after they have read INTR",
    ),
    _choice(
        "fill-slot",
        "FILL into a slot of 16 and more, or one that is not bound",
        "SLOT_ERROR, and the context is errored",
        "test programs do both and expect an error",
    ),
    _choice(
        "fill-partial",
        "a FILL that meets an absent page",
        "pages are written in ascending order: bytes before the absent page are filled, none behind it",
        _OPEN,
    ),
    _choice(
        "fill-translation",
        "a FILL that changes its own page table",
        "the slot and all entries it needs are read before the first byte is written",
        _OPEN,
    ),
    _choice(
        "fill-alignment",
        "FILL with a start or length that is no multiple of 4",
        "the 4 little-endian bytes of the value repeat from the start, the last repetition is cut off",
        "test programs use multiples of 4 only",
    ),
    _choice(
        "fill-nothing",
        "FILL of length 0",
        "the slot is checked, and nothing else",
        "no address is used",
    ),
    # ---- interrupts ----
    _choice(
        "intr-enable-high",
        "bits 6-31 of INTR_ENABLE and INTR",
        "INTR_ENABLE keeps what was written; in INTR only bits 0 to 5 are ever active",
        "the predecessors keep the raw value",
    ),
)

BY_ID: Final[dict[str, Choice]] = {choice.id: choice for choice in CHOICES}
