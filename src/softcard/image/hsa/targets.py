"""The processor of a code object, found from e_flags, ISA notes and names.

The machine numbers in e_flags, and the processors that each generic processor stands for, are those of LLVM's "User
Guide for AMDGPU Backend". V1 files have no machine number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from softcard.core.errors import WireError, close_to

MACH_MASK: Final = 0xFF
MACHINES: Final = {
    0x20: "gfx600", 0x21: "gfx601", 0x22: "gfx700", 0x23: "gfx701", 0x24: "gfx702", 0x25: "gfx703", 0x26: "gfx704",
    0x28: "gfx801", 0x29: "gfx802", 0x2A: "gfx803", 0x2B: "gfx810", 0x2C: "gfx900", 0x2D: "gfx902", 0x2E: "gfx904",
    0x2F: "gfx906", 0x30: "gfx908", 0x31: "gfx909", 0x32: "gfx90c", 0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012",
    0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032", 0x39: "gfx1033", 0x3A: "gfx602", 0x3B: "gfx705", 0x3C: "gfx805",
    0x3D: "gfx1035", 0x3E: "gfx1034", 0x3F: "gfx90a", 0x40: "gfx940", 0x41: "gfx1100", 0x42: "gfx1013", 0x43: "gfx1150",
    0x44: "gfx1103", 0x45: "gfx1036", 0x46: "gfx1101", 0x47: "gfx1102", 0x48: "gfx1200", 0x49: "gfx1250",
    0x4A: "gfx1151", 0x4B: "gfx941", 0x4C: "gfx942", 0x4E: "gfx1201", 0x4F: "gfx950", 0x51: "gfx9-generic",
    0x52: "gfx10-1-generic", 0x53: "gfx10-3-generic", 0x54: "gfx11-generic", 0x55: "gfx1152", 0x58: "gfx1153",
    0x59: "gfx12-generic", 0x5A: "gfx1251", 0x5B: "gfx12-5-generic", 0x5F: "gfx9-4-generic",
}  # fmt: skip

WITH_XNACK: Final = {"gfx901": "gfx900", "gfx903": "gfx902", "gfx905": "gfx904", "gfx907": "gfx906"}
"""The processor names in V2 objects for processors with XNACK, and the usual names of these processors.

V2 has different numbers with and without XNACK; later versions, and e_flags, have one number for both.
"""

GENERIC: Final = {
    "gfx9-generic": ("gfx900", "gfx901", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx940", "gfx941", "gfx942", "gfx950"),
}
"""For each generic GFX9 processor, the processors that can run its code."""

EQUAL: Final = (frozenset({"gfx800", "gfx802"}), frozenset({"gfx803", "gfx804"}), frozenset({"gfx900", "gfx901"}))
"""Groups of processors with equal instructions: code for one processor of a group runs on the others."""

_READ_AS: Final = {
    "gfx703": "gfx700", "gfx704": "gfx700", "gfx705": "gfx700", "gfx805": "gfx802", "gfx903": "gfx902",
    "gfx905": "gfx904", "gfx907": "gfx906", "gfx940": "gfx942", "gfx941": "gfx942",
}  # fmt: skip

_PROCESSOR: Final = r"(gfx[0-9]+(?:-[0-9]+)?-generic|gfx[0-9a-f]+)"
_FEATURES: Final = "((?:[:+-][a-z-]+[+-]?)*)"
_ENTRY_NAME: Final = re.compile(rf"[^-]+-amdgcn-.*?-{_PROCESSOR}{_FEATURES}")
_ISA_NAME: Final = re.compile(rf"amdgcn-[^-]*-[^-]*-[^-]*-{_PROCESSOR}{_FEATURES}")
_FEATURE: Final = re.compile(r"(xnack|sramecc|sram-ecc)([+-])|\+(xnack|sram-ecc)")
_SETTINGS: Final = ("", "any", "off", "on")


def runs_on(name: str, agent: str) -> bool:
    """Return True if the processor `agent` runs code for the processor `name`.

    It does if the two processors are the same or have the same instructions, or if `name` is a generic processor
    that stands for `agent`."""
    return name == agent or agent in GENERIC.get(name, ()) or any({name, agent} <= group for group in EQUAL)


def accepts(agent: Mapping[str, str], code: Mapping[str, str]) -> bool:
    """Return True if an agent with these settings of features runs code with these features.

    Both map names of features to "on" or "off". A feature that the code does not name may have any setting; a feature
    without a setting fits any code.
    """
    return all(code.get(feature, "any") in ("any", setting) for feature, setting in agent.items())


def target_id(name: str, features: Mapping[str, str]) -> str:
    """Return the target ID of a processor with features, such as ``gfx90a:sramecc+:xnack-``."""
    signs = {"on": "+", "off": "-"}
    return ":".join((name, *(f"{feature}{signs[features[feature]]}" for feature in sorted(features))))


def of_target_id(name: str) -> tuple[str, dict[str, str]]:
    """Return the processor and the features in a target ID; the processor is "" if the target ID is invalid."""
    return of_name(f"amdgcn-amd-amdhsa--{name}")


def of_entry(name: str) -> tuple[str, dict[str, str]]:
    """Return the processor and the features in the name of a bundle entry; "" if the entry is not GPU code.

    Such a name is ``hipv4-amdgcn-amd-amdhsa--gfx906:xnack-``.
    """
    return _of_match(_ENTRY_NAME.match(name))


def read_as(name: str) -> str:
    """Return the processor that the emulator models in place of the processor `name`; often it is `name` itself.

    The result has all instructions of `name`. For example, gfx940 and gfx941 were samples of gfx942 that were
    never sold."""
    return _READ_AS.get(name, name)


def check_processor(name: str, *more: str) -> None:
    """Raise `WireError` unless `name` is a modelled AMD processor with optional features, or one of `more`."""
    from softcard.isa.gcn.target import TARGETS  # here, since readers of files need no tables of instructions

    if name not in more and read_as(of_target_id(name)[0]) not in TARGETS:
        known = (*more, *TARGETS)
        raise WireError(f"unknown agent {name!r}, expected one of {', '.join(known)}{close_to(name, known)}")


def of_version(major: int, minor: int, stepping: int) -> str:
    """Return the processor name of an ISA version, such as ``gfx803`` for 8, 0, 3."""
    return f"gfx{major}{minor}{stepping:x}"


def of_name(name: str) -> tuple[str, dict[str, str]]:
    """Return the processor and the features in an ISA name; the processor is "" if the name is invalid.

    Such a name is ``amdgcn-amd-amdhsa--gfx906:sramecc+:xnack-``.
    """
    return _of_match(_ISA_NAME.match(name))


def _of_match(match: re.Match[str] | None) -> tuple[str, dict[str, str]]:
    if match is None:
        return "", {}
    features = {}
    for each in _FEATURE.finditer(match.group(2)):
        feature = (each.group(1) or each.group(3)).replace("-", "")
        features[feature] = "off" if each.group(2) == "-" else "on"
    return match.group(1), features


def of_flags(flags: int, abi_version: int) -> tuple[str, dict[str, str]]:
    """Return the processor and the features that e_flags encode.

    ABI version 1 (V3) has one bit for each feature, later versions have two.
    """
    name = MACHINES.get(flags & MACH_MASK, "")
    if abi_version == 1:
        features = {"xnack": "on" if flags & 0x100 else "off", "sramecc": "on" if flags & 0x200 else "off"}
    elif abi_version >= 2:
        features = {"xnack": _SETTINGS[flags >> 8 & 3], "sramecc": _SETTINGS[flags >> 10 & 3]}
    else:
        features = {}
    return name, {feature: setting for feature, setting in features.items() if setting}
