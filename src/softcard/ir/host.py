"""The processor for which LLVM compiles: that of this machine, or one with fewer features.

An environment variable selects fewer features. The features of this machine are cached, so that a process without
compilations does not load LLVM. The cache key is made from the system's description of the processor and the version of
llvmlite.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

from softcard.core.errors import WireError
from softcard.ir.object_cache import ObjectCache, default_folder

VARIABLE: Final = "SOFTCARD_HOST_LEVEL"
"""The environment variable that limits the instruction set of compiled code.

Its value is an instruction set level of the x86-64 psABI, or "native".
"""
NATIVE: Final = "native"
"""The value of the environment variable that selects all features of this machine; it is the default."""
_V1: Final = frozenset(["64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2"])
_V2: Final = _V1 | frozenset(["cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"])
_V3: Final = _V2 | frozenset(["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"])
_V4: Final = _V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
LEVELS: Final = {"x86-64": _V1, "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""The features of each level of the x86-64 psABI, in LLVM's spelling."""
ALIASES: Final = {"sse": "x86-64-v2", "avx2": "x86-64-v3", "avx512": "x86-64-v4"}
"""Other names for levels of the x86-64 psABI, taken from the widest vector extension in each."""
PROCESSORS: Final = "/proc/cpuinfo"
VARYING: Final = ("cpu mhz", "bogomips", "apicid", "initial apicid", "core id", "physical id", "processor")
"""The names of the lines of /proc/cpuinfo to ignore, because they do not describe the processor's features."""


@dataclass(frozen=True, slots=True)
class Host:
    """A processor for which code is compiled: its `triple`, `name` and `features` in LLVM's spelling.

    `version` is the version of LLVM.
    """

    triple: str
    name: str
    features: str
    version: str

    @property
    def names(self) -> frozenset[str]:
        """The names of the processor's features."""
        return frozenset(each[1:] for each in self.features.split(",") if each[:1] == "+")


@cache
def host() -> Host:
    """Return the processor for which code is compiled.

    The environment variable SOFTCARD_HOST_LEVEL may select one with fewer features (see `at_level`). Raise
    `WireError` if its value is unusable."""
    return at_level(this_machine(), os.environ.get(VARIABLE, "").strip().lower() or NATIVE)


def at_level(machine: Host, name: str) -> Host:
    """Return `machine` without the features above a microarchitecture level, such as "x86-64-v3".

    `name` is the name of the level, or "native" for all features. Raise `WireError` if the level is unknown, or
    if the machine lacks a feature of the level."""
    level = ALIASES.get(name, name)
    if level == NATIVE:
        return machine
    wanted = LEVELS.get(level)
    if wanted is None:
        raise WireError(f"{VARIABLE} is {name}, expected one of {', '.join([NATIVE, *ALIASES, *LEVELS])}")
    missing = wanted - machine.names
    if missing:
        raise WireError(
            f"{VARIABLE} is {name}, but this machine does not support {', '.join(sorted(missing))}: choose a lower "
            "level"
        )
    features = (f"{'+' if each[1:] in wanted else '-'}{each[1:]}" for each in machine.features.split(","))
    return Host(machine.triple, level, ",".join(features), machine.version)


def this_machine() -> Host:
    """Return the processor of this machine with all its features."""
    mark = _mark()
    objects = ObjectCache(default_folder())
    known = objects.get(mark) if mark is not None else None
    if known is not None:
        return Host(*json.loads(known))
    found = _query()
    if mark is not None:
        parts = (found.triple, found.name, found.features, found.version)
        objects.put(mark, json.dumps(parts).encode())
    return found


def is_x86() -> bool:
    """Return True if this process runs on an x86-64, whose float control register is the MXCSR."""
    return platform.machine().lower() in ("x86_64", "amd64") and sys.maxsize > 1 << 32


def _query() -> Host:
    """Return this machine's processor, as LLVM reports it."""
    import llvmlite.binding as binding

    features = binding.get_host_cpu_features().flatten()
    version = ".".join(map(str, binding.llvm_version_info))
    return Host(binding.get_process_triple(), binding.get_host_cpu_name(), features, version)


def _mark() -> str | None:
    """Return a digest that identifies the processor and the version of LLVM; None if the processor cannot be read."""
    import llvmlite

    try:
        described = _first_processor()
    except OSError:
        return None
    version = sorted(llvmlite._version.get_versions().items())  # the version, with that of the build
    parts = ("host", sys.version, platform.machine(), version, described)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _first_processor() -> list[str]:
    """Return the lines of /proc/cpuinfo that describe the processor's features, without lines such as the clock.

    On x86 these are the lines of the first processor. On other machines processors may differ, so the lines of
    all processors are returned."""
    data = b""
    with open(PROCESSORS, "rb", buffering=0) as file:
        while more := file.read(1 << 14):
            data += more
            if is_x86() and b"\n\n" in data:
                data = data[: data.index(b"\n\n")]
                break
    lines = data.decode("ascii", "replace").splitlines()
    return [line for line in lines if line.partition(":")[0].strip().lower() not in VARYING]
