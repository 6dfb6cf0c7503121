"""Rules of the ROCm Code Object document that code raises; what they say stands in ``rules.toml``."""

from understudy.core.rule import rules_of

_rule = rules_of(__package__)

PACKET_SIZE = _rule("packet-size")
PACKET_TYPES = _rule("packet-types")
DOORBELL_NOTIFIES = _rule("doorbell-notifies")
BARRIER_VALUE = _rule("barrier-value")
AGENT_DISPATCH = _rule("agent-dispatch")
VENDOR_PACKET = _rule("vendor-packet")
FENCE_SCOPES = _rule("fence-scopes")
SWIZZLE_SIZES = _rule("swizzle-sizes")
SEGMENTP_GLOBAL = _rule("segmentp-global")
PCIE_SEQUENCES = _rule("pcie-sequences")
PCIE_LOOPS = _rule("pcie-loops")
PCIE_OPTION = _rule("pcie-option")
LEGACY_LOCK = _rule("legacy-lock")
QUEUE_FULL = _rule("queue-full")
SIGNAL_HANDLE = _rule("signal-handle")
SIGNAL_WAIT = _rule("signal-wait")
SIGNAL_KINDS = _rule("signal-kinds")
LEGACY_STALE = _rule("legacy-stale")
DOORBELL_STORES_ONLY = _rule("doorbell-stores-only")
DOORBELL_WRITE_ONLY = _rule("doorbell-write-only")
DOORBELL_WIDTH = _rule("doorbell-width")
DEBUGTRAP = _rule("debugtrap")
IS_PTR64 = _rule("is-ptr64")
