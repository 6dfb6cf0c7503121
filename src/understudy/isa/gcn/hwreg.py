"""Hardware registers: their ids of s_getreg and s_setreg, and bits of STATUS."""

from __future__ import annotations

from typing import Final

HW_MODE: Final = 1
HW_STATUS: Final = 2
HW_TRAPSTS: Final = 3
HW_HW_ID: Final = 4
HW_GPR_ALLOC: Final = 5
HW_LDS_ALLOC: Final = 6
HW_IB_STS: Final = 7
HW_SH_MEM_BASES: Final = 15
"""GFX9."""

# Bits of STATUS; SCC is bit 0.
EXECZ: Final = 9
VCCZ: Final = 10
IN_GROUP: Final = 11
VALID: Final = 16
