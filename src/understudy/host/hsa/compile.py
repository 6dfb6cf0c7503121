"""OpenCL C and HIP to code objects at run time: by the clang in ziglang (the `kernels` extra) or an installed one.

Neither brings an OpenCL library, so headers of ours stand in front of the source: ``understudy/data/opencl.h``, and one
for each subject in ``understudy/data/opencl``. What was compiled once is kept, next to the engines' translated code.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from understudy.core.errors import BeyondModel, WireError
from understudy.host.compiling import Clang, CompileError, NoCompiler, clangs, run
from understudy.ir.object_cache import ObjectCache, default_folder

VERSIONS: Final = {"V2": 2, "V3": 3, "V4": 4, "V5": 5, "V6": 6}
DEFAULT_VERSION: Final = "V5"
"""Newest code object version that all of these compilers write."""
PROCESSORS: Final = {"gfx800": "gfx802", "gfx804": "gfx803", "gfx901": "gfx900:xnack+"}
"""What compilers call a processor that they do not know by its own name: they have the same instructions."""
_TYPED_POINTERS: Final = ("-Xclang", "-no-opaque-pointers")
"""What clang 15 needs to see formats of printf: with opaque pointers it drops the calls."""
SOURCE: Final = "kernel.cl"
"""What diagnostics call the source."""
LINE_TABLES: Final = ("-gline-tables-only", "-fdebug-compilation-dir=.")
"""Options for code that says which line it comes from, by names as they were given."""
HIP_SOURCE: Final = "kernel.hip"
_HIP: Final = "hip"
"""The folder of ``hip/hip_runtime.h``."""
_OF_HOSTS: Final = re.compile(r"^\s*#\s*include\s*<(?!hip/hip_runtime\.h>)|\bhip[A-Z]\w*\s*\(|<<<", re.MULTILINE)
"""What programs have and kernels alone have not."""
_NO_HOSTS: Final = (
    "this compiles kernels alone, without the standard library and HIP's calls: keep them in a file of their own, or "
    "compile the file with hipcc, by --genco --offload-arch={0} for its kernels, or as a program for `understudy exec`"
)
_HEADER: Final = "opencl.h"
_PARTS: Final = "opencl"
"""The folder of what the header includes."""
_LINKED: Final = "linked.c"
"""What OpenCL C cannot say, linked with every source as bitcode."""


def text_of_file(path: str | Path, data: bytes) -> str:
    """The text of a source file; diagnostics, errors and findings name lines of the file."""
    name = os.fsencode(path).decode("utf-8", "replace")
    return f"#line 1 {json.dumps(name, ensure_ascii=False)}\n{data.decode('utf-8', 'replace')}"


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
    return tuple(_writing(each) for each in clangs())


def _writing(clang: Clang) -> Compiler:
    """A clang with the versions that it writes."""
    first = 4 if clang.number == 0 or clang.number >= 18 else 2
    last = 5 if 0 < clang.number < 19 else 6
    versions = tuple(f"V{n}" for n in range(first, last + 1))
    command = (*clang.clang, *_TYPED_POINTERS) if clang.number == 15 else clang.clang
    return Compiler(clang.name, command, clang.linker, clang.identity, versions)


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
    chosen = _chosen(version, compiler)
    words = _options(processor, version)
    what = [source, *words, *options]
    return _kept(chosen, what, lambda library: _compiled(chosen, source, version, words, options, library))


def compile_hip(
    source: str,
    processor: str,
    *,
    options: Sequence[str] = (),
    version: str = DEFAULT_VERSION,
    compiler: Compiler | None = None,
) -> bytes:
    """The linked code object of the kernels of HIP source, likewise; what is for the host is not compiled.

    ``hip/hip_runtime.h`` is ours.
    """
    chosen = _chosen(version, compiler)
    words = _options(processor, version)
    what = ["HIP", source, *words, *options]
    try:
        return _kept(chosen, what, lambda library: _compiled_hip(chosen, source, processor, version, options, library))
    except CompileError as error:
        if not _OF_HOSTS.search(source):
            raise
        raise CompileError(f"{error.message}\n{_NO_HOSTS.format(processor)}") from None


COMPILERS: Final = {".cl": compile_opencl, ".hip": compile_hip}
"""By the suffix of a source's file."""


def _chosen(version: str, compiler: Compiler | None) -> Compiler:
    found = compiler or _any(version)
    if version not in found.versions:
        raise BeyondModel(f"{found.name} writes code objects {', '.join(found.versions)}, not {version}")
    return found


def _kept(compiler: Compiler, what: Sequence[str], make: Callable[[Path], bytes]) -> bytes:
    """What was made before of the same; `make` gets the folder of the library, which counts as well."""
    key = hashlib.sha256(
        "\0".join([compiler.identity, *compiler.clang, _library_identity(), *what]).encode()
    ).hexdigest()
    kept = _cache()
    image = kept.get(key)
    if image is None:
        with as_file(files("understudy").joinpath("data")) as library:
            image = make(library)
        kept.put(key, image)
    return image


@cache
def _library_identity() -> str:
    """Changes when a header does."""
    data = files("understudy").joinpath("data")
    folders = data.joinpath(_PARTS), data.joinpath(_HIP, "hip")
    parts = [data.joinpath(_HEADER), *(part for each in folders for part in sorted(each.iterdir(), key=str))]
    return hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()


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


def _options(processor: str, version: str) -> list[str]:
    number = VERSIONS[version]
    return [
        "-target", "amdgcn-amd-amdhsa", f"-mcpu={PROCESSORS.get(processor, processor)}", "-nogpulib",
        "-O2", f"-mcode-object-version={number}",
    ]  # fmt: skip


def _compiled(
    compiler: Compiler, source: str, version: str, words: Sequence[str], options: Sequence[str], library: Path
) -> bytes:
    linked = _kept(compiler, [_LINKED, *words], lambda library: _bitcode(compiler, words, library))
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        Path(folder, SOURCE).write_text(source, "utf-8")
        Path(folder, "linked.bc").write_bytes(linked)
        opencl = [
            "-x", "cl", "-cl-std=CL2.0", "-cl-no-stdinc", f"-D__UNDERSTUDY_CODE_OBJECT__={VERSIONS[version]}",
            *options, "-include", str(library / _HEADER), "-Xclang", "-mlink-builtin-bitcode", "-Xclang", "linked.bc",
        ]  # fmt: skip
        run([*compiler.clang, *words, *opencl, "-c", SOURCE, "-o", "kernel.o"], folder, compiler.name)
        run([*compiler.linker, "-shared", "kernel.o", "-o", "kernel.co"], folder, compiler.name)
        return Path(folder, "kernel.co").read_bytes()


def _compiled_hip(
    compiler: Compiler, source: str, processor: str, version: str, options: Sequence[str], library: Path
) -> bytes:
    """First to bitcode: only the driver for HIP knows what is for the host, and only the other one needs no linker."""
    number, folder_of_header = VERSIONS[version], str(library / _HIP)
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        Path(folder, HIP_SOURCE).write_text(source, "utf-8")
        hip = [
            "-x", "hip", "--cuda-device-only", f"--offload-arch={PROCESSORS.get(processor, processor)}", "-nogpuinc",
            "-nogpulib", "-std=c++17", "-O2", f"-mcode-object-version={number}", "--no-gpu-bundle-output", "-emit-llvm",
            "-Xclang", "-fcuda-allow-variadic-functions", f"-D__UNDERSTUDY_CODE_OBJECT__={number}",
            "-I", folder_of_header, "-include", "hip/hip_runtime.h", *options,
        ]  # fmt: skip
        run([*compiler.clang, *hip, "-c", HIP_SOURCE, "-o", "kernel.bc"], folder, compiler.name)
        words = _options(processor, version)
        run([*compiler.clang, *words, "-x", "ir", "-c", "kernel.bc", "-o", "kernel.o"], folder, compiler.name)
        run([*compiler.linker, "-shared", "kernel.o", "-o", "kernel.co"], folder, compiler.name)
        return Path(folder, "kernel.co").read_bytes()


def _bitcode(compiler: Compiler, words: Sequence[str], library: Path) -> bytes:
    """What is linked with OpenCL C, compiled."""
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        part = str(library / _PARTS / _LINKED)
        run([*compiler.clang, *words, "-x", "c", "-c", "-emit-llvm", part, "-o", "linked.bc"], folder, compiler.name)
        return Path(folder, "linked.bc").read_bytes()
