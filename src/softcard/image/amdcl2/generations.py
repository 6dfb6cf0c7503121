"""Driver generations and devices of AMD OpenCL 2.0 files: container structures, processors, and their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from softcard.core.errors import WireError
from softcard.isa.gcn.target import GFX7, GFX8, GFX9, TARGETS, Target


class Generation(Enum):
    """The generation of drivers that write containers of one structure.

    The value of a generation is the number of its first driver."""

    CATALYST_15_7 = 180005
    """Catalyst 15.7: a stub, a code object and the code of each kernel, one after another."""
    CRIMSON = 191205
    """Crimson: an inner ELF file without a null symbol; the data sections come first."""
    CRIMSON_16_4 = 200406
    """Crimson 16.4: an inner ELF file with a null symbol; metadata has the field work_group_size_hint."""

    @property
    def has_inner_elf(self) -> bool:
        """True if .text holds an ELF file."""
        return self is not Generation.CATALYST_15_7


def generation_of(driver: int) -> Generation:
    """Return the generation of the driver with the number `driver`, such as 200406."""
    return max((each for each in Generation if each.value <= driver), key=lambda g: g.value, default=_OLDEST)


_OLDEST: Final = Generation.CATALYST_15_7
GPU_PRO: Final = 203603
"""The first driver (AMDGPU-PRO) that writes further bytes after the text of the producer note."""
NAMED_ARCHITECTURE: Final = 223600
"""The first driver whose metadata has GFX7, GFX8 or GFX9 as its second name; older ones write ``generic``."""

_ALWAYS: Final = {
    "spectre": 1, "spooky": 2, "kalindi": 3, "mullins": 4, "bonaire": 6, "hawaii": 7, "iceland": 8, "tonga": 9,
}  # fmt: skip
# fmt: off
_SINCE: Final[tuple[tuple[int, Mapping[str, int]], ...]] = (
    (0,      {"fiji": 16, "carrizo": 15}),
    (191205, {"fiji": 17, "carrizo": 16}),
    (200406, {"fiji": 16, "carrizo": 15, "stoney": 17, "ellesmere": 12, "baffin": 13}),
    (203603, {"fiji": 14, "carrizo": 13, "stoney": 15, "ellesmere": 17, "baffin": 16}),
    (223600, {"fiji": 13, "carrizo": 12, "stoney": 14, "ellesmere": 16, "baffin": 15, "gfx804": 18, "gfx900": 17}),
    (226400, {"fiji": 14, "carrizo": 13, "stoney": 15, "ellesmere": 17, "baffin": 16, "gfx804": 18, "gfx900": 19,
              "gfx901": 20}),
    (234800, {"fiji": 15, "carrizo": 14, "stoney": 16, "ellesmere": 18, "baffin": 17, "gfx804": 19, "gfx900": 20,
              "gfx901": 21}),
    (244200, {"fiji": 13, "carrizo": 12, "stoney": 14, "ellesmere": 16, "baffin": 15, "gfx804": 18, "gfx900": 17,
              "gfx901": 19}),
    (248200, {"fiji": 13, "carrizo": 12, "stoney": 14, "ellesmere": 18, "baffin": 16, "gfx804": 20, "gfx900": 19,
              "gfx901": 21}),
    (252700, {"fiji": 13, "carrizo": 12, "stoney": 14, "ellesmere": 18, "baffin": 16, "gfx804": 21, "gfx900": 20,
              "gfx901": 23, "gfx902": 24, "gfx903": 25, "gfx904": 26, "gfx905": 27}),
    (258000, {"fiji": 13, "carrizo": 12, "stoney": 14, "ellesmere": 18, "baffin": 16, "gfx804": 21, "gfx900": 20,
              "gfx901": 23, "gfx902": 24, "gfx903": 25, "gfx904": 26, "gfx905": 27, "gfx906": 28, "gfx907": 29}),
)
# fmt: on

DRIVERS: Final = tuple(since for since, _ in _SINCE if since)
"""The numbers of the drivers that changed the processor numbers in e_flags."""

ISA_VERSIONS: Final[Mapping[str, tuple[int, int, int]]] = MappingProxyType({
    "spectre": (7, 0, 0), "spooky": (7, 0, 0), "kalindi": (7, 0, 0), "mullins": (7, 0, 0), "bonaire": (7, 0, 0),
    "hawaii": (7, 0, 1), "iceland": (8, 0, 0), "tonga": (8, 0, 0), "carrizo": (8, 0, 1), "fiji": (8, 0, 3),
    "ellesmere": (8, 0, 4), "baffin": (8, 0, 4), "gfx804": (8, 0, 4), "stoney": (8, 1, 0), "gfx900": (9, 0, 0),
    "gfx901": (9, 0, 1), "gfx902": (9, 0, 2), "gfx903": (9, 0, 3), "gfx904": (9, 0, 4), "gfx905": (9, 0, 5),
    "gfx906": (9, 0, 6), "gfx907": (9, 0, 7),
})  # fmt: skip
"""The ISA version (major, minor, stepping) of each device that a container can name."""
_NOTED: Final[Mapping[str, tuple[tuple[int, tuple[int, int, int]], ...]]] = MappingProxyType({
    "fiji": ((0, (8, 0, 1)), (200406, (8, 0, 4))),
})  # fmt: skip
"""The ISA versions that drivers write into the ISA note of a device in place of the device's own version.

Values are pairs of the first driver that writes a version, and the version.
"""


def noted_version(device: str, driver: int) -> tuple[int, int, int]:
    """Return the ISA version that a driver writes into the ISA note of a file for a device.

    It may differ from the device's own version.
    """
    found = ISA_VERSIONS[device]
    for since, version in _NOTED.get(device, ()):
        if since <= driver:
            found = version
    return found


def device_codes(driver: int) -> dict[str, int]:
    """Return the processor number of each device in the e_flags that `driver` writes."""
    found: dict[str, int] = dict(_ALWAYS)
    for since, codes in _SINCE:
        if since <= driver:
            found = _ALWAYS | dict(codes)
    return found


def device_of(code: int, driver: int) -> str:
    """Return the device whose processor number in the e_flags of `driver` is `code`; "" if no device has it."""
    return next((name for name, each in device_codes(driver).items() if each == code), "")


def level_of(device: str) -> int:
    """Return the GCN generation of a device: 7, 8 or 9; raise `WireError` for an unknown device."""
    try:
        return ISA_VERSIONS[device][0]
    except KeyError:
        raise WireError(f"unknown device {device!r}, expected one of {', '.join(ISA_VERSIONS)}") from None


def target_of(version: tuple[int, int, int]) -> Target:
    """Return the processor with the ISA version `version`: major version, minor version and stepping.

    If no processor has this version, return one with the same major version. Raise `WireError` if the major
    version is not 7, 8 or 9."""
    major, minor, stepping = version
    exact = TARGETS.get(f"gfx{major}{minor}{stepping:x}")
    if exact is not None:
        return exact
    if major not in (GFX7, GFX8, GFX9):
        raise WireError(f"ISA version {major}.{minor}.{stepping} is not supported: the first number must be 7, 8 or 9")
    return next(target for target in TARGETS.values() if target.level == major)
