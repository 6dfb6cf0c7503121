"""Which processor a code object is for: e_flags, ISA notes and names.

The machine numbers of e_flags are those of LLVM's AMDGPU ELF header; V1 files have none.
"""

from __future__ import annotations

import re
from typing import Final

MACH_MASK: Final = 0xFF
MACHINES: Final = {
    0x20: "gfx600", 0x21: "gfx601", 0x22: "gfx700", 0x23: "gfx701", 0x24: "gfx702", 0x25: "gfx703", 0x26: "gfx704",
    0x28: "gfx801", 0x29: "gfx802", 0x2A: "gfx803", 0x2B: "gfx810", 0x2C: "gfx900", 0x2D: "gfx902", 0x2E: "gfx904",
    0x2F: "gfx906", 0x30: "gfx908", 0x31: "gfx909", 0x32: "gfx90c", 0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012",
    0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032", 0x39: "gfx1033", 0x3A: "gfx602", 0x3B: "gfx705", 0x3C: "gfx805",
    0x3D: "gfx1035", 0x3E: "gfx1034", 0x3F: "gfx90a", 0x40: "gfx940", 0x41: "gfx1100", 0x42: "gfx1013", 0x4C: "gfx942",
}  # fmt: skip

WITH_XNACK: Final = {"gfx901": "gfx900", "gfx903": "gfx902", "gfx905": "gfx904", "gfx907": "gfx906"}
"""V2 objects give the processor with XNACK a number of its own; later ones, and e_flags, do not."""

_ISA_NAME: Final = re.compile(r"amdgcn-[^-]*-[^-]*-[^-]*-(gfx[0-9a-f]+)((?:[:+-][a-z-]+[+-]?)*)")
_FEATURE: Final = re.compile(r"(xnack|sramecc|sram-ecc)([+-])|\+(xnack|sram-ecc)")
_SETTINGS: Final = ("", "any", "off", "on")


def of_version(major: int, minor: int, stepping: int) -> str:
    """``gfx803`` for 8, 0, 3."""
    return f"gfx{major}{minor}{stepping:x}"


def of_name(name: str) -> tuple[str, dict[str, str]]:
    """Processor and features of an ISA name such as ``amdgcn-amd-amdhsa--gfx906:sramecc+:xnack-``; "" if it is none."""
    match = _ISA_NAME.match(name)
    if match is None:
        return "", {}
    features = {}
    for each in _FEATURE.finditer(match.group(2)):
        feature = (each.group(1) or each.group(3)).replace("-", "")
        features[feature] = "off" if each.group(2) == "-" else "on"
    return match.group(1), features


def of_flags(flags: int, abi_version: int) -> tuple[str, dict[str, str]]:
    """Processor and features of e_flags; `abi_version` 1 (V3) has a bit for each feature, later ones have two."""
    name = MACHINES.get(flags & MACH_MASK, "")
    if abi_version == 1:
        features = {"xnack": "on" if flags & 0x100 else "off", "sramecc": "on" if flags & 0x200 else "off"}
    elif abi_version >= 2:
        features = {"xnack": _SETTINGS[flags >> 8 & 3], "sramecc": _SETTINGS[flags >> 10 & 3]}
    else:
        features = {}
    return name, {feature: setting for feature, setting in features.items() if setting}
