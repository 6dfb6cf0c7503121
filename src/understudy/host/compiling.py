"""Compilers of this machine that make kernels: those in ziglang (the `kernels` extra), and installed ones."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from understudy.core.errors import NotInstalled, WireError

CLANGS: Final = tuple(range(15, 23))
"""Versions of an installed clang that are looked for."""
TIMEOUT_SECONDS: Final = 120
ZIG: Final = "ziglang"


class CompileError(WireError):
    """A source that the compiler refused; the message holds its diagnostics."""


class NoCompiler(NotInstalled):
    """No compiler for a kernel's language was found on this machine."""


class Clang(NamedTuple):
    """A clang and its linker, as commands. `identity` changes when they do; `number` is 0 for the one in ziglang.

    `headers` is the folder of its own headers (stdint.h, ...) where it does not find them itself.
    """

    name: str
    clang: tuple[str, ...]
    linker: tuple[str, ...]
    identity: str
    number: int
    headers: str = ""


def clangs() -> tuple[Clang, ...]:
    """All that there are: ziglang's first, then the newest."""
    found = [_zig(), *(_clang(number) for number in reversed(CLANGS))]
    return tuple(each for each in found if each is not None)


def named(name: str) -> Clang | None:
    """The compiler of that name, ``ziglang`` or ``clang-NUMBER``, of any version; None where there is none."""
    if name == ZIG:
        return _zig()
    number = name.removeprefix("clang-")
    return _clang(int(number)) if number.isdecimal() and name.startswith("clang-") else None


@cache
def _zig() -> Clang | None:
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        return None
    zig = (sys.executable, "-m", "ziglang")
    headers = str(Path(found.origin).parent / "lib" / "include")
    return Clang(ZIG, (*zig, "clang"), (*zig, "ld.lld"), f"ziglang {metadata.version('ziglang')}", 0, headers)


@cache
def _clang(number: int) -> Clang | None:
    clang, linker = shutil.which(f"clang-{number}"), shutil.which(f"ld.lld-{number}")
    if clang is None or linker is None:
        return None
    stamps = " ".join(f"{path} {Path(path).stat().st_size} {Path(path).stat().st_mtime_ns}" for path in (clang, linker))
    return Clang(f"clang-{number}", (clang,), (linker,), stamps, number)


def run(command: Sequence[str], folder: str, name: str, seconds: float = TIMEOUT_SECONDS) -> str:
    """Run a compiler or linker in a folder; gives its warnings. `CompileError` with the diagnostics where it fails.

    So it does where it takes longer than `seconds`.
    """
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise CompileError(f"{name} took longer than {seconds:g} seconds") from None
    except OSError as error:
        raise NoCompiler(f"{name} cannot be started: {error.strerror}") from None
    if done.returncode:
        raise CompileError(f"{name} refused the source\n{done.stderr.strip()}")
    return done.stderr
