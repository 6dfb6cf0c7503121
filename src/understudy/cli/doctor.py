"""`understudy doctor`: what this machine can do, what is missing and what adds it; and making code ahead of use."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from understudy import __version__
from understudy.cli.capabilities import Check, State, packages, programs
from understudy.cli.exits import ExitCode
from understudy.cli.files import MAX_CODE_BYTES, read_file
from understudy.cli.natives import Part, parts, prepared
from understudy.cli.tables import show
from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.threaded.library import shared_library
from understudy.host.hsa.gpu import demo_code
from understudy.image.hsa.code_object import read_code_object
from understudy.image.hsa.targets import read_as
from understudy.ir.host import Host, host, is_x86
from understudy.ir.object_cache import ObjectCache, default_folder
from understudy.ir.private_folder import PrivateFolder

if TYPE_CHECKING:
    from understudy.cli.bench_cases import Bench

VECTORS = ("avx512f", "avx2", "avx", "neon", "sse4.2")
"""Features worth naming: the widest vectors that code is made for come first."""
DEMOS = ("gfx700", "gfx803", "gfx900")
"""Processors that kernels come with."""
WARM = "understudy doctor --warm"
CLASSES: Final = ((0.5, "fast"), (0.15, "medium"), (0.0, "slow"))
"""Shares of the recorded machine's speed, and what that is called."""
BUSY: Final = 0.5
"""Load of each processor from which on measuring them says little."""
MOMENT_SECONDS: Final = 0.1
"""How long to measure an engine."""
LEAST_FREE: Final = 64 << 20
"""Bytes on the disk of the cache, below which little more can be kept."""


def doctor(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Code objects of GFX7 to GFX9, for --warm.")
    ] = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="Compile what is missing: native functions of all devices, and handlers.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
) -> None:
    """Say what this machine can do, and which command adds what is missing.

    Runs a kernel on each kind of engine, and says how fast: "fast" is at least
    half of the machine in docs/performance.md, "medium" at least 0.15 of it.

    With --warm, machine code is made ahead that is made at first use otherwise:
    of all devices, and what kernels of the named code objects need, or else of
    those that come with Understudy.

    Exit status 1 where something is broken that an installation promises;
    what is merely not there, or not compiled yet, is no fault.
    """
    sources = [(str(file), read_file(file, MAX_CODE_BYTES)) for file in files or []]
    folder = default_folder()
    objects = ObjectCache(folder)
    begin, found, made = time.monotonic(), parts(objects), list[str]()
    if warm:
        for line in _warm(found, sources):
            made.append(line)
            if not as_json:
                print(line, flush=True)
        if not as_json:
            print(f"made in {time.monotonic() - begin:.1f} s\n")
    compiled = {part.name: part.is_there for part in found}  # before kernels run, which compile what they need
    handlers, optimised = _handlers(folder)
    checks = [*packages(), *_machine(host()), _cache(folder), *_engines(), *programs()]
    is_good = all(each.state is not State.BROKEN for each in checks)
    if as_json:
        document: dict[str, Any] = {
            "version": __version__,
            "good": is_good,
            "checks": [
                {
                    "what": each.what,
                    "state": each.state.value,
                    "found": each.found,
                    "needed_for": each.needed_for,
                    "adds": each.adds,
                }
                for each in checks
            ],
            "compiled": compiled,
            "handlers": {"kept": handlers, "optimised": optimised},
        }
        print(json.dumps(document | ({"made": made} if warm else {}), indent=2))
    else:
        _show(checks, compiled, handlers, optimised)
    if not is_good:
        raise typer.Exit(ExitCode.GUEST)


def _show(checks: list[Check], compiled: dict[str, bool], handlers: int, optimised: int) -> None:
    show(
        ("understudy " + __version__, "state", "found", "needed for"),
        [(each.what, each.state.value, each.found, each.needed_for) for each in checks],
    )
    print()
    for name, is_there in compiled.items():
        print(f"{name}: {'compiled' if is_there else 'not yet compiled'}")
    print(f"GCN: {handlers} handlers of instructions in the library, {optimised} of them optimised")
    if not handlers or not all(compiled.values()):
        print(f"what is not compiled is so at first use; all of it at once: {WARM}")
    for title, state in (("to mend what is broken", State.BROKEN), ("to add what is missing", State.MISSING)):
        commands = dict.fromkeys(each.adds for each in checks if each.state is state and each.adds)
        if commands:
            print(f"\n{title}:")
            for each in commands:
                print(f"  {each}")


def _warm(found: list[Part], sources: list[tuple[str, bytes]]) -> Iterator[str]:
    from understudy.ir import llvm

    for part in found:
        if not part.is_there:
            part.module.image(llvm.OPTIMISED)
            yield f"compiled {part.name}"
    for name, code in sources or [(f"demo kernels for {agent}", demo_code(agent)) for agent in DEMOS]:
        count = sum(1 for _ in prepared(code, read_as(read_code_object(code).target)))
        yield f"{count} kernels ready: {name}"


def _machine(found: Host) -> Iterator[Check]:
    """What the JIT has to do with."""
    vectors = next((name for name in VECTORS if name in found.names), "none")
    lanes = layout.chunk_lanes(found.names)
    told = f"{found.name}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    yield Check("processor", "all engines", State.OK, told)
    yield Check("vectors", "lanes at once", State.OK, f"{vectors}, {lanes} lanes of 32 bits")
    yield Check("LLVM", "the JIT engines", State.OK, found.version)


def _cache(folder: Path | None) -> Check:
    """Whether machine code can be kept."""
    what, use = "cache", "code that is made once"
    if folder is None:
        told = "none, this user has no home; all is compiled in each process"
        return Check(what, use, State.BROKEN, told, "export XDG_CACHE_HOME=FOLDER")
    try:
        sizes = PrivateFolder(folder).sizes()
        told = f"{folder}, {len(sizes)} files, {sum(sizes) / 2**20:.1f} MiB"
    except FileNotFoundError:
        told = f"{folder}, not there yet"
    except OSError as error:
        told = f"{folder} is not used: {error}; all is compiled in each process"
        return Check(what, use, State.BROKEN, told, "export XDG_CACHE_HOME=FOLDER  # one of your own")
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        told += f"; {there} cannot be written to, so nothing more is kept"
        return Check(what, use, State.BROKEN, told, "export XDG_CACHE_HOME=FOLDER  # where you can write")
    free = shutil.disk_usage(there).free
    if free < LEAST_FREE:
        told += f"; the disk has {free >> 20} MiB left"
        return Check(what, use, State.BROKEN, told, f"rm -r {folder}  # or make room otherwise")
    return Check(what, use, State.OK, told)


def _engines() -> Iterator[Check]:
    """A kernel on each JIT engine, its result and its speed."""
    from understudy.cli.bench_cases import HARTS, WAVES

    if is_x86():
        yield _speed("RISC-V harts", "RefSi", HARTS)
    else:
        told = "the host is no x86: the reference engine, about a million instructions a second"
        yield Check("RISC-V harts", "RefSi", State.OK, told)
    yield _speed("GPU waves", "AMD HSA, AMD OpenCL 2.0", WAVES)


def _speed(what: str, use: str, bench: Bench) -> Check:
    from understudy.cli.bench_cases import recorded

    try:
        best = bench.measure(MOMENT_SECONDS).best
    except UnderstudyError as error:
        return Check(what, use, State.BROKEN, f"a kernel failed: {error}")
    share = best / recorded()["best"][bench.name]
    named = next(name for least, name in CLASSES if share >= least)
    told = f"{named}: {best:,.0f} {bench.unit}, {share:.2f} of docs/performance.md's"
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return Check(what, use, State.OK, told + (" (the machine is busy)" if load > BUSY else ""))


def _handlers(folder: Path | None) -> tuple[int, int]:
    index = shared_library(folder, layout.chunk_lanes(host().names)).index
    known = [each for each in map(index.__getitem__, index) if each is not None]
    return len(known), sum(1 for each in known if each.is_optimised)
