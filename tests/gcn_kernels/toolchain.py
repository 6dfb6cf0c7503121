"""Compilers of OpenCL C for the kernels of tests/vectors/gcn, with a cache of what they made.

Objects lie in build/gcn-kernels, named after what decides them: source, prelude, options, compiler version. Where
tools/oracles.sh has been run, that folder is the same for all working trees of a user.
"""

import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "vectors" / "gcn"
CACHE = ROOT / "build" / "gcn-kernels"
FLAGS = "// Flags:"
TRIPLES = {"hsa": "amdgcn-amd-amdhsa", "mesa3d": "amdgcn-mesa-mesa3d"}


@dataclass(frozen=True)
class Compiler:
    """A clang and its linker, as commands."""

    name: str
    clang: tuple[str, ...]
    linker: tuple[str, ...]

    @functools.cached_property
    def version(self) -> str:
        return subprocess.run([*self.clang, "--version"], capture_output=True, text=True, check=True).stdout


@functools.cache
def compiler(name: str) -> Compiler:
    """The compiler of that name; skips the test where it is not installed."""
    if name == "zig":
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("ziglang is not installed")
        zig = (sys.executable, "-m", "ziglang")
        return Compiler(name, (*zig, "clang"), (*zig, "ld.lld"))
    number = name.removeprefix("clang-")
    linker = f"ld.lld-{number}"
    for program in (name, linker):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return Compiler(name, (name,), (linker,))


def build(
    source: str, gfx: str, *options: str, name: str = "clang-16", system: str = "hsa", link: bool = True
) -> bytes:
    """The code object of a source file of tests/vectors/gcn. `options` go to the compiler."""
    path = SOURCES / source
    text = path.read_text()
    made_by = compiler(name)
    flags = next((line.removeprefix(FLAGS).split() for line in text.splitlines() if line.startswith(FLAGS)), [])
    if source.endswith(".cl"):
        flags += ["-x", "cl", "-cl-std=CL2.0", "-cl-no-stdinc"]
    words = ["-target", TRIPLES[system], f"-mcpu={gfx}", "-nogpulib", *flags, *options]
    prelude = (SOURCES / "prelude.h").read_text()
    key = hashlib.sha256("\0".join([made_by.version, prelude, text, str(link), *words]).encode()).hexdigest()[:24]
    kept = CACHE / f"{path.stem}-{gfx}-{key}.co"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = kept.with_suffix(f".{os.getpid()}.o")
        _run([*made_by.clang, *words, "-c", str(path), "-o", str(made)])
        if link:
            linked = made.with_suffix(".linked")
            _run([*made_by.linker, "-shared", str(made), "-o", str(linked)])
            made.unlink()
            made = linked
        made.rename(kept)
    return kept.read_bytes()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-2000:]}"
