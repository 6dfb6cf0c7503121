"""When registers are taken, of waves and of harts."""

from __future__ import annotations

from typing import Final

BEFORE: Final = "before"
"""Before an instruction."""
FAULT: Final = "fault"
TRAP: Final = "trap"
END: Final = "end"
"""When a wave has ended, or an instance of a kernel on a hart."""
