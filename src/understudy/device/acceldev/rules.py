"""Every sentence of the Acceldev document that a device can obey or break.

The order is the document's; `clause` is the heading the sentence stands under.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Fidelity, Rule


def _rule(name: str, clause: str, text: str, fidelity: Fidelity = Fidelity.EXACT) -> Rule:
    return Rule(f"acceldev/{name}", clause, text, fidelity)


_CHOSEN: Final = Fidelity.CHOSEN

# Acceldev Device
_DEVICE: Final = "Acceldev Device"
PCI_DEVICE = _rule("pci-device", _DEVICE, "the device is attached to the computer via the PCI bus", _CHOSEN)
MAIN_MEMORY = _rule("main-memory", _DEVICE, "the device has no memory of its own and uses main memory with DMA")
VIRTUAL_ADDRESSES = _rule(
    "virtual-addresses", _DEVICE, "virtual addresses and page tables overcome memory fragmentation"
)
CONTEXTS = _rule("contexts", _DEVICE, "there are ACCELDEV_MAX_CONTEXTS (255) independent contexts")
ISOLATION = _rule(
    "isolation", _DEVICE, "users cannot access system memory or other contexts, whatever commands they send"
)
CONTEXT_ERROR = _rule(
    "context-error", _DEVICE, "invalid or failing user commands mark the context as errored and raise an interrupt"
)
FAIRNESS = _rule("fairness", _DEVICE, "one context may occupy the device and prevent others from running")
ONE_BAR = _rule("one-bar", _DEVICE, "the device is controlled by MMIO registers in its only BAR, BAR0")
ONE_LINE = _rule("one-line", _DEVICE, "the device uses a single PCI interrupt line")
BAR_SIZE = _rule("bar-size", _DEVICE, "the MMIO area is 64 KiB in size; only some of it is used for registers")
REGISTER_ACCESS = _rule(
    "register-access",
    _DEVICE,
    "registers are 32-bit, little-endian, accessed by aligned 32-bit reads and writes",
    _CHOSEN,
)

# Buffers and Paging
_PAGING: Final = "Buffers and Paging"
SLOTS = _rule("slots", _PAGING, "each context can have ACCELDEV_NUM_BUFFERS (16) buffers bound")
BINDING = _rule("binding", _PAGING, "buffers are configured using ACCELDEV_CONTEXTS_CONFIGS and BIND_SLOT")
CONTEXTS_64_BIT = _rule("contexts-64-bit", _PAGING, "ACCELDEV_CONTEXTS_CONFIGS uses 64-bit contiguous memory")
PHYSICAL_40_BIT = _rule("physical-40-bit", _PAGING, "buffers and page tables use 40-bit physical addresses", _CHOSEN)
VIRTUAL_22_BIT = _rule("virtual-22-bit", _PAGING, "virtual addresses in a buffer have 22 bits", _CHOSEN)
PAGE_SIZE = _rule("page-size", _PAGING, "pages are of size ACCELDEV_PAGE_SIZE (4 KiB)")
SINGLE_LEVEL = _rule("single-level", _PAGING, "page tables are single-level")
TABLE_ADDRESS = _rule("table-address", _PAGING, "the device gets a 64-bit physical address of a page table", _CHOSEN)
PAGE_INDEX = _rule("page-index", _PAGING, "bits 12-21 of the virtual address select the page table entry")
PAGE_OFFSET = _rule("page-offset", _PAGING, "bits 0-11 of the virtual address are the offset within the page")
TABLE_SIZE = _rule("table-size", _PAGING, "page tables are 4 KiB: 1024 entries of one 32-bit little-endian word")
PTE_PRESENT = _rule("pte-present", _PAGING, "using an entry whose bit 0 PRESENT is not set raises a MEM_ERROR")
PTE_PA = _rule("pte-pa", _PAGING, "bits 4-31 PA are bits 12-39 of the page's physical address; bits 0-11 are zero")

# Sending Commands
_SENDING: Final = "Sending Commands"
USER_COMMANDS_BY_RUN = _rule(
    "user-commands-by-run", _SENDING, "user commands are sent by running a code buffer via RUN"
)

# Device Commands
_FEEDING: Final = "Device Commands"
DEVICE_COMMAND_WORDS = _rule(
    "device-command-words", _FEEDING, "a device command is ACCELDEV_DEVICE_CMD_WORDS (5) 32-bit little-endian words"
)
MANUAL_FREE = _rule(
    "manual-free", _FEEDING, "CMD_MANUAL_FREE shows how many full commands may be queued before a FEED_ERROR"
)
QUEUE_SIZE = _rule("queue-size", _FEEDING, "the queue holds CMDS_BUFFER_SIZE (255) commands", _CHOSEN)
QUEUE_RESET = _rule("queue-reset", _FEEDING, "the queue is empty after a device reset")
MANUAL_FEED = _rule("manual-feed", _FEEDING, "CMD_MANUAL_FEED is five write-only registers for command words", _CHOSEN)
SUBMIT = _rule("submit", _FEEDING, "writing the last word at BAR0 + 0x009c submits the command")
FEED_ERROR = _rule("feed-error", _FEEDING, "submitting when the queue is full raises a FEED_ERROR interrupt", _CHOSEN)

_NOP: Final = "Device Commands: NOP Command"
DEVICE_NOP = _rule("device-nop", _NOP, "NOP (0x0) does nothing and can be used to fill the queue")
NOP_WORDS = _rule("nop-words", _NOP, "to submit a NOP only the 0th and 4th words need to be written")

_FENCE: Final = "Device Commands: FENCE Command"
DEVICE_FENCE = _rule("device-fence", _FENCE, "FENCE (0x3) waits for completion of all previous commands")
FENCE_SETS_LAST = _rule("fence-sets-last", _FENCE, "FENCE sets CMD_FENCE_LAST to VAL", _CHOSEN)
FENCE_COMPARES_WAIT = _rule(
    "fence-compares-wait", _FENCE, "if VAL == CMD_FENCE_WAIT, FENCE triggers the FENCE_WAIT interrupt", _CHOSEN
)
CMD_FENCE_LAST = _rule("cmd-fence-last", _FENCE, "CMD_FENCE_LAST is a 32-bit read/write register")
CMD_FENCE_WAIT = _rule("cmd-fence-wait", _FENCE, "CMD_FENCE_WAIT is a 32-bit read/write register")

_RUN: Final = "Device Commands: RUN command"
RUN = _rule("run", _RUN, "RUN (0x1) schedules user commands on the context in bits 4-31 of its header")
RUN_TABLE = _rule("run-table", _RUN, "the 1st and 2nd words are the code buffer's page table address")
RUN_OFFSET = _rule("run-offset", _RUN, "the 3rd word is the offset in bytes of the first command", _CHOSEN)
RUN_SIZE = _rule("run-size", _RUN, "the 4th word is the size in bytes of the commands to process", _CHOSEN)

_BIND: Final = "Device Commands: BIND_SLOT Command"
BIND_SLOT = _rule("bind-slot", _BIND, "BIND_SLOT (0x2) binds a data buffer to a slot of a context")
BIND_SLOT_NUMBER = _rule("bind-slot-number", _BIND, "the 1st word is the slot number", _CHOSEN)
BIND_SLOT_TABLE = _rule("bind-slot-table", _BIND, "the 2nd and 3rd words are the data buffer's page table address")
BIND_BY_CONFIGS = _rule(
    "bind-by-configs", _BIND, "binding by the configs works, and is unsafe while the device may use the buffers"
)
UNBIND = _rule("unbind", _BIND, "a buffer is unbound by binding a new one or the page table address 0")

# User Commands
_USER: Final = "User Commands"
USER_COMMAND_WORDS = _rule(
    "user-command-words", _USER, "a user command is ACCELDEV_USER_CMD_WORDS (5) aligned little-endian words", _CHOSEN
)
USER_COMMAND_FULL = _rule("user-command-full", _USER, "the full number of words is there even if a command is shorter")
USER_COMMANDS = _rule("user-commands", _USER, "supported are NOP (0x0), FENCE (0x1) and FILL (0x2)", _CHOSEN)
USER_NOP = _rule("user-nop", _USER, "a user NOP does nothing")

_USER_FENCE: Final = "User Commands: FENCE Command"
USER_FENCE = _rule("user-fence", _USER_FENCE, "a user FENCE waits for previous user commands to finish")
USER_FENCE_COUNTER = _rule(
    "user-fence-counter", _USER_FENCE, "a user FENCE increments fence_counter in the context config", _CHOSEN
)
USER_FENCE_TRIGGER = _rule(
    "user-fence-trigger", _USER_FENCE, "a user FENCE triggers the USER_FENCE_WAIT interrupt", _CHOSEN
)

_FILL: Final = "User Commands: FILL Command"
FILL = _rule("fill", _FILL, "FILL fills part of a buffer with a value", _CHOSEN)
FILL_VALUE = _rule("fill-value", _FILL, "the 1st word is the 32-bit value", _CHOSEN)
FILL_SLOT = _rule("fill-slot", _FILL, "the 2nd word is the buffer slot", _CHOSEN)
FILL_START = _rule("fill-start", _FILL, "the 3rd word is the start offset in bytes", _CHOSEN)
FILL_LENGTH = _rule("fill-length", _FILL, "the 4th word is the length in bytes", _CHOSEN)

# Control Registers
_CONTROL: Final = "Control Registers"
ENABLE = _rule("enable", _CONTROL, "ENABLE controls whether commands are processed; if 0, they are not", _CHOSEN)
CONTEXTS_CONFIGS = _rule(
    "contexts-configs", _CONTROL, "CONTEXTS_CONFIGS is the address of the contexts' records, lower half first"
)
CONTEXTS_ARRAY = _rule(
    "contexts-array", _CONTROL, "the records are an array of acceldev_context_on_device_config, one per context"
)

# Interrupts
_INTERRUPTS: Final = "Interrupts"
SIX_INTERRUPTS = _rule("six-interrupts", _INTERRUPTS, "six internal interrupts are multiplexed into one PCI interrupt")
INTR_FENCE_WAIT = _rule("intr-fence-wait", _INTERRUPTS, "FENCE_WAIT: completion of a FENCE command")
INTR_FEED_ERROR = _rule("intr-feed-error", _INTERRUPTS, "FEED_ERROR: command queue full")
INTR_CMD_ERROR = _rule("intr-cmd-error", _INTERRUPTS, "CMD_ERROR: invalid device command", _CHOSEN)
INTR_MEM_ERROR = _rule("intr-mem-error", _INTERRUPTS, "MEM_ERROR: invalid memory access")
INTR_SLOT_ERROR = _rule("intr-slot-error", _INTERRUPTS, "SLOT_ERROR: request for inactive slot", _CHOSEN)
INTR_USER_FENCE_WAIT = _rule("intr-user-fence-wait", _INTERRUPTS, "USER_FENCE_WAIT: user FENCE command triggered")
INTR_ACTIVE = _rule(
    "intr-active", _INTERRUPTS, "an interrupt becomes active on its event and inactive by writing 1 to its INTR bit"
)
INTR_ENABLED = _rule("intr-enabled", _INTERRUPTS, "INTR_ENABLE sets which interrupts are enabled, at any time", _CHOSEN)
LINE_LEVEL = _rule(
    "line-level", _INTERRUPTS, "the PCI line is signalled if and only if an interrupt is both enabled and active"
)
INTR_READ = _rule("intr-read", _INTERRUPTS, "reading INTR gives 1 for active, 0 for inactive interrupts")
INTR_WRITE = _rule("intr-write", _INTERRUPTS, "writing INTR resets all interrupts for which 1s are written")
INTR_ENABLE_BITS = _rule("intr-enable-bits", _INTERRUPTS, "INTR_ENABLE has the bit layout of INTR; 1 enables")
INTR_ENABLE_RESET = _rule(
    "intr-enable-reset", _INTERRUPTS, "upon reset INTR_ENABLE is 0, so that no PCI interrupt is signalled"
)

# Starting the Device
_STARTING: Final = "Starting the Device"
START_UP = _rule(
    "start-up", _STARTING, "the device starts by INTR, INTR_ENABLE, ACCELDEV_CONTEXTS_CONFIGS and ENABLE in that order"
)
START_UP_FENCES = _rule(
    "start-up-fences", _STARTING, "CMD_FENCE_LAST and CMD_FENCE_WAIT may be set as the last step of starting"
)
SHUT_DOWN = _rule("shut-down", _STARTING, "writing 0 to ENABLE and INTR_ENABLE shuts the device down")
RECOVERY = _rule("recovery", _STARTING, "after an error the device is reset by repeating the start-up", _CHOSEN)

RULES: Final[tuple[Rule, ...]] = tuple(value for value in list(globals().values()) if isinstance(value, Rule))
"""All of them, in the document's order."""

BY_ID: Final[dict[str, Rule]] = {rule.id: rule for rule in RULES}
