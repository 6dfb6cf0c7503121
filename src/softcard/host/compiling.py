"""Compilers of kernels on this machine: the clang in the package ziglang (extra `kernels`), and installed ones."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from softcard.core.errors import NotInstalled, SoftcardError, WireError

CLANGS: Final = tuple(range(15, 23))
"""The versions of clang that are searched for on this machine."""
TIMEOUT_SECONDS: Final = 120.0
"""The default limit of the processor time of one compiler or linker, in seconds."""
VARIABLE: Final = "SOFTCARD_COMPILE_LIMIT"
"""The environment variable that sets another processor-time limit in seconds, or "none" for no limit."""
WAITS: Final = 10.0
"""The wall-clock limit of a compiler as a multiple of its processor-time limit.

A compiler may have to wait on a busy machine, or may sleep forever.
"""
NEARLY: Final = 0.75
"""The fraction of the processor-time limit from which on a failed process counts as timed out.

The operating system measures in units of the scheduler's timer, so that the measured time may be less than the limit
(12 % less was seen).
"""
ENDED: Final = tuple(n & 0xFF for n in (-signal.SIGXCPU, 128 + signal.SIGXCPU))
"""The exit statuses of a process that the processor-time limit ended, and of a driver that passes such a status on."""
GRACE_SECONDS: Final = 5
"""The processor time in seconds that a compiler has between the termination signal and being killed."""
ZIG: Final = "ziglang"


class CompileError(WireError):
    """Raised if the compiler rejects a source; the message holds its diagnostics."""


class CompileTimeLimit(SoftcardError):
    """Raised if a compiler exceeds its processor time; the correctness of its source remains unknown."""


class NoCompiler(NotInstalled):
    """Raised if this machine has no compiler for a kernel's language."""


class Clang(NamedTuple):
    """A clang and its linker, as commands.

    `identity` is a text that changes when either program is replaced. `number` is clang's major version, or 0 for
    ziglang's clang. `headers` is the folder of clang's own headers (stdint.h, ...), if clang does not find them
    itself."""

    name: str
    clang: tuple[str, ...]
    linker: tuple[str, ...]
    identity: str
    number: int
    headers: str = ""


def clangs() -> tuple[Clang, ...]:
    """Return all compilers that are available: ziglang's clang first, then the installed ones, the newest first."""
    found = [_zig(), *(_clang(number) for number in reversed(CLANGS))]
    return tuple(each for each in found if each is not None)


def named(name: str) -> Clang | None:
    """Return the compiler with the name ``ziglang`` or ``clang-NUMBER``, or None if this machine lacks it.

    NUMBER is a major version of clang; all versions are accepted."""
    if name == ZIG:
        return _zig()
    number = name.removeprefix("clang-")
    return _clang(int(number)) if number.isdecimal() and name.startswith("clang-") else None


@cache
def _zig() -> Clang | None:
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        return None
    program = Path(found.origin).parent / "zig"  # without Python's start, which takes 20 ms
    zig = (str(program),) if program.is_file() else (sys.executable, "-m", "ziglang")
    headers = str(Path(found.origin).parent / "lib" / "include")
    return Clang(ZIG, (*zig, "clang"), (*zig, "ld.lld"), f"ziglang {metadata.version('ziglang')}", 0, headers)


@cache
def _clang(number: int) -> Clang | None:
    clang, linker = shutil.which(f"clang-{number}"), shutil.which(f"ld.lld-{number}")
    if clang is None or linker is None:
        return None
    stamps = " ".join(f"{path} {Path(path).stat().st_size} {Path(path).stat().st_mtime_ns}" for path in (clang, linker))
    return Clang(f"clang-{number}", (clang,), (linker,), stamps, number)


def default_limit() -> float | None:
    """Return the default limit of a compiler's processor time in seconds; None for no limit.

    The environment variable SOFTCARD_COMPILE_LIMIT sets it; otherwise it is two minutes. Raise `WireError` for
    an invalid value."""
    text = os.environ.get(VARIABLE, "").strip().lower()
    if not text:
        return TIMEOUT_SECONDS
    if text == "none":
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise WireError(f"{VARIABLE}={text}, expected a number of seconds above 0, or none")
    return seconds


_RUNNING: Final[set[int]] = set()
"""The process groups of the compilers that run now."""


def run(command: Sequence[str], folder: str, name: str, seconds: float | None = None) -> str:
    """Run a compiler or linker in a folder, and return its warnings; `name` is its name in messages.

    Raise `CompileError` with the diagnostics if it fails. Raise `CompileTimeLimit` if it takes more than
    `seconds` of processor time (by default `default_limit`), or more than ten times as many seconds of real
    time (the factor is the constant `WAITS`)."""
    limit = default_limit() if seconds is None else seconds
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
            )
        except OSError as error:
            raise NoCompiler(f"{name} cannot be started: {error.strerror}") from None
        _RUNNING.add(process.pid)
        try:
            used = _finished(process, limit)
        finally:
            _RUNNING.discard(process.pid)
        errors.seek(0)
        diagnostics = errors.read().decode(errors="replace")
    is_ended = used >= NEARLY * limit or process.returncode & 0xFF in ENDED if limit is not None else False
    if limit is not None and process.returncode and is_ended:
        raise CompileTimeLimit(
            f"{name} was ended after {used:.1f} seconds, expected at most {limit:g} seconds of processor time, or "
            f"{WAITS:g} times as long by the clock: if the compiler does not loop for ever on this source, set "
            f"{VARIABLE}=SECONDS to a larger limit, or {VARIABLE}=none for no limit"
        )
    if process.returncode:
        raise CompileError(f"{name} refused the source\n{diagnostics.strip()}")
    return diagnostics


def stop_all() -> bool:
    """Kill the compilers that other threads run, because this process ends; return True if there were any.

    They have sessions of their own, so they would go on. The calls of `run` in the threads raise an error.
    """
    running = tuple(_RUNNING)
    for group in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    return bool(running)


def _finished(process: subprocess.Popen[bytes], limit: float | None) -> float:
    """Wait for a process and its children; return the processor time that they took in seconds.

    First set `limit`, unless it is None, as the process's limit of processor time, which its children inherit.
    If they still run after `limit` * `WAITS` seconds of real time, kill the process group, and return that
    time. `WAITS` is a constant factor."""
    if limit is not None:
        with contextlib.suppress(OSError, ValueError):  # it has ended, or a lower hard limit stays
            whole = math.ceil(limit)
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (whole, whole + GRACE_SECONDS))
    has_ended, ending = False, os.pidfd_open(process.pid)
    try:
        waiting = select.poll()
        waiting.register(ending, select.POLLIN)
        has_ended = bool(waiting.poll(None if limit is None else limit * WAITS * 1000))
    finally:
        os.close(ending)
        if not has_ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime if has_ended or limit is None else limit * WAITS
