"""OpenCL C to code objects at run time: by the clang in ziglang (the `kernels` extra) or an installed one.

Neither brings an OpenCL library, so a header of ours stands in front of the source: ``understudy/data/opencl.h``. What
was compiled once is kept, next to the engines' translated code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from understudy.core.errors import BeyondModel, UnderstudyError, WireError
from understudy.ir.object_cache import ObjectCache, default_folder

VERSIONS: Final = {"V2": 2, "V3": 3, "V4": 4, "V5": 5, "V6": 6}
DEFAULT_VERSION: Final = "V5"
"""Newest code object version that all of these compilers write."""
CLANGS: Final = tuple(range(15, 23))
"""Versions of an installed clang that are looked for."""
PROCESSORS: Final = {"gfx800": "gfx802", "gfx804": "gfx803", "gfx901": "gfx900:xnack+"}
"""What compilers call a processor that they do not know by its own name: they have the same instructions."""
TIMEOUT_SECONDS: Final = 120
SOURCE: Final = "kernel.cl"
"""What diagnostics call the source."""
_HEADER: Final = "opencl.h"


class CompileError(WireError):
    """A source that the compiler refused; the message holds its diagnostics."""


class NoCompiler(UnderstudyError):
    """No compiler for OpenCL C was found on this machine."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A clang with the AMDGPU target and its linker, as commands. `identity` changes when they do.

    `versions` are the code object versions that it writes.
    """

    name: str
    clang: tuple[str, ...]
    linker: tuple[str, ...]
    identity: str
    versions: tuple[str, ...]


def compilers() -> tuple[Compiler, ...]:
    """The compilers of this machine, the one that `compile_opencl` takes first."""
    found = [_zig(), *(_clang(number) for number in reversed(CLANGS))]
    return tuple(each for each in found if each is not None)


@cache
def _zig() -> Compiler | None:
    if importlib.util.find_spec("ziglang") is None:
        return None
    zig = (sys.executable, "-m", "ziglang")
    identity = f"ziglang {metadata.version('ziglang')}"
    return Compiler("ziglang", (*zig, "clang"), (*zig, "ld.lld"), identity, ("V4", "V5", "V6"))


@cache
def _clang(number: int) -> Compiler | None:
    clang, linker = shutil.which(f"clang-{number}"), shutil.which(f"ld.lld-{number}")
    if clang is None or linker is None:
        return None
    stamps = " ".join(f"{path} {Path(path).stat().st_size} {Path(path).stat().st_mtime_ns}" for path in (clang, linker))
    first, last = (2 if number < 18 else 4), (5 if number < 19 else 6)
    return Compiler(f"clang-{number}", (clang,), (linker,), stamps, tuple(f"V{n}" for n in range(first, last + 1)))


def compile_opencl(
    source: str,
    processor: str,
    *,
    options: Sequence[str] = (),
    version: str = DEFAULT_VERSION,
    compiler: Compiler | None = None,
) -> bytes:
    """The linked code object of OpenCL C source for a processor such as ``gfx900``.

    `options` are clang's, behind ours (-O2 among them); `version` is the code object version. `CompileError` with the
    diagnostics for source that is wrong, `NoCompiler` where there is none, `BeyondModel` for a version that it cannot
    write.
    """
    chosen = compiler or _any(version)
    if version not in chosen.versions:
        raise BeyondModel(f"{chosen.name} writes code objects {', '.join(chosen.versions)}, not {version}")
    header = files("understudy").joinpath("data", _HEADER)
    words = _options(processor, version, options)
    key = hashlib.sha256("\0".join([chosen.identity, header.read_text("utf-8"), source, *words]).encode()).hexdigest()
    kept = _cache()
    image = kept.get(key)
    if image is None:
        with as_file(header) as path:
            image = _compiled(chosen, source, [*words, "-include", str(path)])
        kept.put(key, image)
    return image


@cache
def _cache() -> ObjectCache:
    folder = default_folder()
    return ObjectCache(None if folder is None else folder.with_name("objects"), limit_bytes=64 << 20)


def _any(version: str) -> Compiler:
    """The first compiler that writes that version, or the first one."""
    if version not in VERSIONS:
        raise WireError(f"no code object version {version!r}: there are {', '.join(VERSIONS)}")
    found = compilers()
    if not found:
        raise NoCompiler("no compiler for OpenCL C: pip install 'understudy[kernels]', or install clang and lld 15+")
    return next((each for each in found if version in each.versions), found[0])


def _options(processor: str, version: str, more: Sequence[str]) -> list[str]:
    number = VERSIONS[version]
    return [
        "-target", "amdgcn-amd-amdhsa", f"-mcpu={PROCESSORS.get(processor, processor)}", "-nogpulib",
        "-x", "cl", "-cl-std=CL2.0", "-cl-no-stdinc", "-O2", f"-mcode-object-version={number}",
        f"-D__UNDERSTUDY_CODE_OBJECT__={number}", *more,
    ]  # fmt: skip


def _compiled(compiler: Compiler, source: str, words: list[str]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        Path(folder, SOURCE).write_text(source, "utf-8")
        _run([*compiler.clang, *words, "-c", SOURCE, "-o", "kernel.o"], folder, compiler.name)
        _run([*compiler.linker, "-shared", "kernel.o", "-o", "kernel.co"], folder, compiler.name)
        return Path(folder, "kernel.co").read_bytes()


def _run(command: list[str], folder: str, name: str) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise CompileError(f"{name} took longer than {TIMEOUT_SECONDS} seconds") from None
    except OSError as error:
        raise NoCompiler(f"{name} cannot be started: {error.strerror}") from None
    if done.returncode:
        raise CompileError(f"{name} refused the source\n{done.stderr.strip()}")
