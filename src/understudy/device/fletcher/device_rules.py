"""What the Fletcher document says about what the device does; where its registers are is in `map.rules`.

The order is the document's.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Fidelity, Rule


def _rule(name: str, clause: str, text: str, fidelity: Fidelity = Fidelity.EXACT) -> Rule:
    return Rule(f"fletcher/{name}", clause, text, fidelity)


_CHOSEN: Final = Fidelity.CHOSEN

_MMIO: Final = "MMIO"
CONTROL_INFORMATION = _rule(
    "control-information", _MMIO, "status, control, buffer addresses and user arguments pass by MMIO during run-time"
)
HOST_ACCESS = _rule("host-access", _MMIO, "read and write access is from the context of the host system")
RUNTIME_SETS = _rule(
    "runtime-sets", _MMIO, "the run-time libraries set these registers automatically, given RecordBatches"
)

_DEFAULT: Final = "Default registers"
CONTROL_READ = _rule("control-read", _DEFAULT, "control may be read and written", _CHOSEN)
START = _rule("start", _DEFAULT, "control(0) signals start to the accelerator")
STOP = _rule("stop", _DEFAULT, "control(1) signals stop to the accelerator", _CHOSEN)
RESET = _rule("reset", _DEFAULT, "control(2) signals reset to the accelerator")
IDLE = _rule("idle", _DEFAULT, "status(0) signals to the host that the accelerator is idle")
BUSY = _rule("busy", _DEFAULT, "status(1) signals to the host that it is busy")
DONE = _rule("done", _DEFAULT, "status(2) signals to the host that it is done")
STATUS_READ_ONLY = _rule("status-read-only", _DEFAULT, "status is read-only")
RETURN_VALUE = _rule("return-value", _DEFAULT, "return0 and return1 hold the return value")
RETURN_READ_ONLY = _rule("return-read-only", _DEFAULT, "return0 and return1 are read-only")

_DERIVED: Final = "Schema derived registers"
INDEX_RANGE = _rule(
    "index-range", _DERIVED, "RBn_FIRSTIDX and RBn_LASTIDX are read and written: first and last index of RecordBatch n"
)
RANGE_WRITTEN = _rule("range-written", _DERIVED, "a kernel writes rows from the first to the last index", _CHOSEN)
ADDRESS_HALVES = _rule(
    "address-halves", _DERIVED, "two registers take the least- and the most-significant part of a buffer's address"
)
ADDRESS_READ = _rule(
    "address-read", _DERIVED, "buffer addresses are read and written, those of the last buffer write-only", _CHOSEN
)

_CUSTOM: Final = "Custom registers"
CUSTOM_CONTROL = _rule("custom-control", _CUSTOM, "a control register's content is controlled by host-side software")
CUSTOM_STATUS = _rule(
    "custom-status", _CUSTOM, "a status register's content is set by the kernel and sent to the host; it is read-only"
)
CUSTOM_INIT = _rule(
    "custom-init", _CUSTOM, "<init> is written to the register automatically in the initialization during simulation"
)

_PROFILE: Final = "Profiling registers"
PROFILE_ENABLE = _rule("profile-enable", _PROFILE, "writing 1 to bit 0 of Profile_enable enables the profiling")
PROFILE_CLEAR = _rule("profile-clear", _PROFILE, "writing 1 to bit 0 of Profile_clear clears the counters")
PROFILE_READ_ONLY = _rule("profile-read-only", _PROFILE, "the counters are read-only")
COUNT_ELEMENTS = _rule("count-elements", _PROFILE, "elements counts elements transferred", _CHOSEN)
COUNT_VALIDS = _rule("count-valids", _PROFILE, "valids counts cycles in which the stream was valid", _CHOSEN)
COUNT_READIES = _rule("count-readies", _PROFILE, "readies counts cycles in which the stream was ready", _CHOSEN)
COUNT_TRANSFERS = _rule(
    "count-transfers", _PROFILE, "transfers counts cycles in which the stream was handshaked", _CHOSEN
)
COUNT_PACKETS = _rule("count-packets", _PROFILE, "packets counts handshaked last signals", _CHOSEN)
COUNT_CYCLES = _rule("count-cycles", _PROFILE, "cycles counts cycles in which the profiler was enabled", _CHOSEN)

DEVICE_RULES: Final[tuple[Rule, ...]] = tuple(value for value in list(globals().values()) if isinstance(value, Rule))
"""All of them, in the document's order."""
