"""Rules of the Acceldev document that code raises; what they say stands in ``rules.toml``."""

from understudy.core.rule import rules_of

_rule = rules_of(__package__)

CONTEXT_ERROR = _rule("context-error")
REGISTER_ACCESS = _rule("register-access")
PHYSICAL_40_BIT = _rule("physical-40-bit")
VIRTUAL_22_BIT = _rule("virtual-22-bit")
TABLE_ADDRESS = _rule("table-address")
TABLE_SIZE = _rule("table-size")
PTE_PRESENT = _rule("pte-present")
PTE_PA = _rule("pte-pa")
MANUAL_FEED = _rule("manual-feed")
FEED_ERROR = _rule("feed-error")
FENCE_COMPARES_WAIT = _rule("fence-compares-wait")
RUN_OFFSET = _rule("run-offset")
RUN_SIZE = _rule("run-size")
BIND_SLOT_NUMBER = _rule("bind-slot-number")
BIND_BY_CONFIGS = _rule("bind-by-configs")
USER_COMMANDS = _rule("user-commands")
FILL_SLOT = _rule("fill-slot")
CONTEXTS_CONFIGS = _rule("contexts-configs")
CONTEXTS_ARRAY = _rule("contexts-array")
INTR_CMD_ERROR = _rule("intr-cmd-error")
INTR_ACTIVE = _rule("intr-active")
INTR_WRITE = _rule("intr-write")
START_UP = _rule("start-up")
