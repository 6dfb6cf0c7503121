"""The names of the kinds of points at which snapshots of the registers of waves and harts are taken."""

from __future__ import annotations

from typing import Final

BEFORE: Final = "before"
"""The snapshot point before an instruction."""
FAULT: Final = "fault"
TRAP: Final = "trap"
END: Final = "end"
"""The snapshot point at the end of a wave, or of a kernel's instance on a hart."""
