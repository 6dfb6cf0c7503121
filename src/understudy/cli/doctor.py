"""`understudy doctor`: what this machine has compiled, and making it ahead of use."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.exits import ExitCode
from understudy.cli.files import MAX_CODE_BYTES, read_file
from understudy.cli.natives import Part, parts, prepared
from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.threaded.library import shared_library
from understudy.host.hsa.gpu import demo_code
from understudy.image.hsa.code_object import read_code_object
from understudy.image.hsa.targets import read_as
from understudy.ir.host import Host, host
from understudy.ir.object_cache import ObjectCache, default_folder
from understudy.ir.private_folder import PrivateFolder

VECTORS = ("avx512f", "avx2", "avx", "neon", "sse4.2")
"""Features worth naming: the widest vectors that code is made for come first."""
DEMOS = ("gfx700", "gfx803", "gfx900")
"""Processors that kernels come with."""
WARM = "understudy doctor --warm"


def doctor(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Code objects of GFX7 to GFX9, for --warm.")
    ] = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="Compile what is missing: native functions of all devices, and handlers.")
    ] = False,
) -> None:
    """Say what this machine has compiled, or with --warm make it ahead.

    With --warm, also all that kernels of the code objects need that are named; without any, of those that come with
    Understudy. Exit status 1 where something is missing, or cannot be kept.
    """
    sources = [(str(file), read_file(file, MAX_CODE_BYTES)) for file in files or []]
    folder = default_folder()
    objects = ObjectCache(folder)
    begin, found = time.monotonic(), parts(objects)
    if warm:
        _warm(found, sources)
        print(f"made in {time.monotonic() - begin:.1f} s\n")
    _machine(host())
    is_kept = _folder(folder)
    missing = [part for part in found if not part.is_there]
    for part in found:
        print(f"{part.name}: {'compiled' if part.is_there else 'missing'}")
    count, optimised = _handlers(folder)
    print(f"GCN: {count} handlers of instructions in the library, {optimised} of them optimised")
    if missing or not count:
        print(f"what is missing is compiled at first use; all of it at once: {WARM}")
    if missing or not count or not is_kept:
        raise typer.Exit(ExitCode.GUEST)


def _warm(found: list[Part], sources: list[tuple[str, bytes]]) -> None:
    from understudy.ir import llvm

    for part in found:
        if not part.is_there:
            part.module.image(llvm.OPTIMISED)
            print(f"compiled {part.name}")
    for name, code in sources or [(f"demo kernels for {agent}", demo_code(agent)) for agent in DEMOS]:
        count = sum(1 for _ in prepared(code, read_as(read_code_object(code).target)))
        print(f"{count} kernels ready: {name}")


def _machine(found: Host) -> None:
    vectors = next((name for name in VECTORS if name in found.names), "none")
    print(
        f"processor: {found.name} ({found.triple}), vectors: {vectors}, {layout.chunk_lanes(found.names)} lanes at once"
    )
    print(f"LLVM: {found.version}")


def _folder(folder: Path | None) -> bool:
    """Say what is kept; whether anything can be."""
    if folder is None:
        print("cache: none, this user has no home; all is compiled in each process")
        return False
    try:
        sizes = PrivateFolder(folder).sizes()
    except FileNotFoundError:
        print(f"cache: {folder}, not there yet")
        return True
    except OSError as error:
        print(f"cache: {folder} is not used: {error}; all is compiled in each process")
        return False
    print(f"cache: {folder}, {len(sizes)} files, {sum(sizes) / 2**20:.1f} MiB")
    return True


def _handlers(folder: Path | None) -> tuple[int, int]:
    index = shared_library(folder, layout.chunk_lanes(host().names)).index
    known = [each for each in map(index.__getitem__, index) if each is not None]
    return len(known), sum(1 for each in known if each.is_optimised)
