"""GCN hardware registers: their ids in s_getreg and s_setreg, and the bits of STATUS."""

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
"""The id of SH_MEM_BASES, which exists on GFX9 only."""
HW_XCC_ID: Final = 20
"""The id of XCC_ID, which exists on gfx942 and later."""

# Bits of STATUS; SCC is bit 0.
EXECZ: Final = 9
VCCZ: Final = 10
IN_GROUP: Final = 11
VALID: Final = 16
