"""What can be done on this machine, what a capability needs, and the command that adds what is missing."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Final

from understudy.host.hsa.compile import compilers
from understudy.host.refsi.compile import riscv_compilers

LEAST_PYTHON: Final = (3, 11)
LEAST_QEMU: Final = (10, 1)
"""The first that has the device vfio-user-pci."""
MODULES: Final = {"pyvcd": "vcd"}
"""What distributions are imported as, where that is not their name."""
EXTRAS: Final = {
    "arrow": "Fletcher: Arrow schemas and RecordBatches",
    "dask": "understudy campaign: many runs on many machines",
    "kernels": "a compiler of OpenCL C, and of C for RISC-V (ziglang)",
    "testing": "the pytest plug-in, and strategies for hypothesis",
    "vcd": "understudy trace --to vcd",
}
"""The extras of the package, and what for."""
BUNDLES: Final = frozenset({"all", "dev"})
"""Extras that are others together."""
START_SECONDS: Final = 5


class State(StrEnum):
    """How something stands."""

    OK = "ok"
    MISSING = "missing"
    """Not there, and nobody promised it."""
    BROKEN = "broken"
    """Not as it has to be."""


@dataclass(frozen=True, slots=True)
class Check:
    """Something that was looked for, what it is `needed_for`, what was `found`, and the command that `adds` it."""

    what: str
    needed_for: str
    state: State
    found: str = ""
    adds: str = ""


def packages() -> Iterator[Check]:
    """Python, the packages that a plain install brings, and those of extras."""
    is_new = sys.version_info >= LEAST_PYTHON
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", "everything", State.OK if is_new else State.BROKEN, version)
    for extra, wanted in requirements().items():
        found = [(name, least, _version(name)) for name, least in wanted]
        told = ", ".join(f"{name} {version}" if version else f"no {name}" for name, _, version in found)
        good = all(version and _numbers(version) >= _numbers(least) for _, least, version in found)
        if extra == "":
            yield Check(
                "packages", "everything", State.OK if good else State.BROKEN, told, "" if good else _pip("understudy")
            )
        else:
            state = State.OK if good else State.MISSING if any(not each for *_, each in found) else State.BROKEN
            add = "" if good else _pip(f"understudy[{extra}]")
            yield Check(f"extra {extra}", EXTRAS.get(extra, ""), state, told, add)


def requirements() -> dict[str, list[tuple[str, str]]]:
    """Names and least versions of the packages of each extra, of the plain install for ""; {} where nobody knows."""
    found: dict[str, list[tuple[str, str]]] = {}
    try:
        lines = metadata.requires("understudy") or []
    except metadata.PackageNotFoundError:  # run from its sources
        return {}
    for line in lines:
        need, _, condition = line.partition(";")
        matched = re.match(r"\s*([\w.-]+)[^>]*(?:>=\s*([\d.]+))?", need)
        extra = re.search(r"extra\s*==\s*['\"](\w+)", condition)
        name = extra[1] if extra else ""
        if matched and name not in BUNDLES and matched[1] != "understudy":
            found.setdefault(name, []).append((matched[1], matched[2] or "0"))
    return found


def programs() -> Iterator[Check]:
    """Programs of others, by what they are needed for."""
    yield _one(
        "OpenCL C, HIP", "run FILE.cl, Gpu.compile", [each.name for each in compilers()], _pip("understudy[kernels]")
    )
    use = "run FILE.c, refsi build: kernels of your own for RefSi"
    yield _one("C for RISC-V", use, [each.name for each in riscv_compilers()], _pip("understudy[kernels]"))
    given = shlex.split(os.environ.get("CC", ""))[:1]
    found = [name for name in (given or ("cc", "gcc", "clang")) if shutil.which(name)][:1]
    yield _one("C compiler", "exec, serve fletcher, serve refsi: libraries for host programs", found, _apt("gcc"))
    yield _qemu()
    tools = ("apt-get", "dpkg-deb", "tar", "make")
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    found = [name for name in tools if shutil.which(name)] + [keys] * Path(keys).exists()
    whole = ["apt, its keys"] if len(found) > len(tools) else []
    yield _one("Debian guest", "make guest-root, in a source tree", whole, _apt("make debian-archive-keyring"))
    found = [name for name in ("gdb-multiarch", "gdb") if shutil.which(name)][:1]
    yield _one("gdb", "a guest's kernel and driver, by QEMU's -s", found, _apt("gdb-multiarch"))
    rocm = ":".join((os.environ.get("PATH", ""), "/opt/rocm/bin"))
    found = [name for name in ("hipcc",) if shutil.which(name, path=rocm)]
    yield _one("HIP", "compiling HIP sources for run and inspect", found, _apt("hipcc"))
    found = [name for name in ("rocminfo",) if shutil.which(name, path=rocm)]
    yield _one("rocminfo", "a real GPU's agents, to compare with", found, _apt("rocminfo"))


def _one(what: str, needed_for: str, found: list[str], add: str) -> Check:
    return Check(what, needed_for, State.OK if found else State.MISSING, ", ".join(found), "" if found else add)


def _qemu() -> Check:
    what, needed_for = "QEMU 10.1", "serve acceldev: a device of a virtual machine"
    add = f"{_apt('-t trixie-backports qemu-system-x86')}  # or, in a source tree: make guest-root"
    program = shutil.which("qemu-system-x86_64")
    if program is None:
        return Check(what, needed_for, State.MISSING, "", add)
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=False, timeout=START_SECONDS
        )
        said = done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    version = re.search(r"version (\d+)\.(\d+)", said)
    if version is None:
        return Check(what, needed_for, State.BROKEN, f"{program}: {said.strip() or 'says no version'}", add)
    is_new = (int(version[1]), int(version[2])) >= LEAST_QEMU
    return Check(what, needed_for, State.OK if is_new else State.MISSING, version[0][8:], "" if is_new else add)


def _pip(what: str) -> str:
    return f"pip install {shlex.quote(what)}"


def _apt(what: str) -> str:
    return f"sudo apt-get install {what}"


def _version(name: str) -> str:
    """Of an installed package whose modules can be found; "" where it is not there."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
    return version if importlib.util.find_spec(MODULES.get(name, name)) is not None else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version)[:3])
