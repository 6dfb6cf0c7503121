"""What LLVM makes code for: this machine's processor.

It is remembered, so that a process with nothing to compile needs no LLVM. What is remembered is known by what the
system says about the processor and by llvmlite's version.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

from understudy.ir.object_cache import ObjectCache, default_folder

PROCESSORS: Final = "/proc/cpuinfo"
VARYING: Final = ("cpu mhz", "bogomips", "apicid", "initial apicid", "core id", "physical id", "processor")
"""Lines of a processor that say nothing about what it can do."""


@dataclass(frozen=True, slots=True)
class Host:
    """A processor: its `triple`, `name` and `features` as LLVM spells them, and the `version` of LLVM."""

    triple: str
    name: str
    features: str
    version: str

    @property
    def names(self) -> frozenset[str]:
        """The features that it has."""
        return frozenset(each[1:] for each in self.features.split(",") if each[:1] == "+")


@cache
def host() -> Host:
    """This machine."""
    mark = _mark()
    objects = ObjectCache(default_folder())
    known = objects.get(mark) if mark is not None else None
    if known is not None:
        return Host(*json.loads(known))
    found = _asked()
    if mark is not None:
        parts = (found.triple, found.name, found.features, found.version)
        objects.put(mark, json.dumps(parts).encode())
    return found


def is_x86() -> bool:
    """Whether this process runs on an x86-64, whose float control register is the MXCSR."""
    return platform.machine().lower() in ("x86_64", "amd64") and sys.maxsize > 1 << 32


def _asked() -> Host:
    """What LLVM says."""
    import llvmlite.binding as binding

    features = binding.get_host_cpu_features().flatten()
    version = ".".join(map(str, binding.llvm_version_info))
    return Host(binding.get_process_triple(), binding.get_host_cpu_name(), features, version)


def _mark() -> str | None:
    """A digest of what decides what LLVM says; None where the system does not tell."""
    import llvmlite

    try:
        described = _first_processor()
    except OSError:
        return None
    version = sorted(llvmlite._version.get_versions().items())  # of the build, too
    parts = ("host", sys.version, platform.machine(), version, described)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _first_processor() -> list[str]:
    """What the system says about the first processor, or about all where they may differ."""
    data = b""
    with open(PROCESSORS, "rb", buffering=0) as file:
        while more := file.read(1 << 14):
            data += more
            if is_x86() and b"\n\n" in data:
                data = data[: data.index(b"\n\n")]
                break
    lines = data.decode("ascii", "replace").splitlines()
    return [line for line in lines if line.partition(":")[0].strip().lower() not in VARYING]
