"""C, C++ and assembly to programs for RefSi's harts: flags and a linker's line that work, and a small run-time library.

``understudy/data/refsi`` holds the library and its headers: ``understudy_refsi.h``, ``string.h`` and ``math.h``.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from understudy.core.errors import close_to
from understudy.host.compiling import CompileError, NoCompiler, clangs, run
from understudy.host.refsi.program import ELF_BASE
from understudy.image.riscv.hiding import hidden_but, thread_local_bytes
from understudy.image.riscv.kind import loadable
from understudy.image.riscv.program import read_elf

LANGUAGES: Final = {
    ".c": "c",
    ".cc": "c++",
    ".cpp": "c++",
    ".cxx": "c++",
    ".s": "assembler",
    ".S": "assembler-with-cpp",
}
"""By the source's suffix: what compilers call its language."""
GNU_PREFIXES: Final = ("riscv64-unknown-elf-", "riscv64-elf-", "riscv64-linux-gnu-")
ARCHITECTURE: Final = "rv64gc"
MACHINE: Final = ("-mabi=lp64d", "-mno-relax")
COMMON: Final = (
    "-mcmodel=medany", "-O2", "-g", "-ffp-contract=off", "-fno-math-errno", "-ffreestanding",
    "-fno-pic", "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-common",
)  # fmt: skip
CPLUSPLUS: Final = ("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-use-cxa-atexit")
LINKED: Final = ("-static", "--no-relax", "--build-id=none", "-e", "0", "-z", "max-page-size=4096")
_HEADERS: Final = "-isystem"
PICOLIBC: Final = Path("/usr/lib/picolibc/riscv64-unknown-elf")
"""Where Debian's package picolibc-riscv64-unknown-elf puts it."""
LIBRARY: Final = Path("lib", "release", "rv64imafdc", "lp64d", "libc.a")


@dataclass(frozen=True, slots=True)
class RiscvCompiler:
    """A compiler and linker for RV64 as commands, with the flags that only they need."""

    name: str
    compile: tuple[str, ...]
    link: tuple[str, ...]
    headers: str = ""


@cache
def riscv_compilers() -> tuple[RiscvCompiler, ...]:
    """The compilers of this machine, the one that `compile_kernels` takes first."""
    found = []
    for clang in clangs():
        words = (*clang.clang, "--target=riscv64-unknown-elf")
        found.append(RiscvCompiler(clang.name, words, (*clang.linker, f"--image-base={ELF_BASE:#x}"), clang.headers))
    for prefix in GNU_PREFIXES:
        gcc, linker = shutil.which(prefix + "gcc"), shutil.which(prefix + "ld")
        if gcc is not None and linker is not None:
            found.append(RiscvCompiler(prefix + "gcc", (gcc,), (linker, f"-Ttext-segment={ELF_BASE:#x}")))
    return tuple(found)


def compile_kernels(
    source: str | Path,
    *,
    compiler: str = "",
    march: str = ARCHITECTURE,
    options: Sequence[str] = (),
    warn: Callable[[str], object] | None = None,
) -> bytes:
    """The ELF file of a C, C++ or assembly file, as `RefSi.load_elf` takes it: all its global functions are kernels.

    `compiler` names one of `riscv_compilers` (by default the first), `march` the instruction set (``rv64gcv_zvl512b``
    for vector code); `options` stand behind ours, and `warn` is told the compiler's warnings. `CompileError` with the
    diagnostics for a source that is wrong, `NoCompiler` where there is none. What our library has not is taken from
    picolibc where that is installed.
    """
    path = Path(source).absolute()
    language = LANGUAGES.get(path.suffix)
    if language is None:
        raise CompileError(f"{path.name} is no source for kernels, expected a name in {', '.join(LANGUAGES)}")
    chosen = _chosen(compiler)
    with (
        as_file(files("understudy").joinpath("data", "refsi")) as library,
        tempfile.TemporaryDirectory(prefix="understudy-") as folder,
    ):
        words = [*chosen.compile, f"-march={march}", *MACHINE]
        headers = [_HEADERS, str(library), *((_HEADERS, chosen.headers) if chosen.headers else ())]
        libc = PICOLIBC.joinpath(LIBRARY)
        if libc.exists():
            headers += [_HEADERS, str(PICOLIBC / "include")]
        mine = {"c": [*COMMON, *headers], "c++": [*COMMON, *CPLUSPLUS, *headers], "assembler": []}.get(
            language, headers
        )
        here = f"-fdebug-prefix-map={folder}=."  # nobody finds it there later
        told = run(
            [*words, *mine, here, *options, "-x", language, "-c", str(path), "-o", "kernels.o"], folder, chosen.name
        )
        if told and warn is not None:
            warn(told.rstrip())
        run([*words, *COMMON, *headers, "-c", str(library / "runtime.c"), "-o", "runtime.o"], folder, chosen.name)
        parts = ["kernels.o", "runtime.o", *([str(libc)] if libc.exists() else [])]
        try:
            run([*chosen.link, *LINKED, *parts, "-o", "kernels.elf"], folder, chosen.name)
        except CompileError as error:
            raise CompileError(error.message + _missing(error.message, libc.exists())) from None
        data = hidden_but(Path(folder, "kernels.elf").read_bytes(), Path(folder, "kernels.o").read_bytes())
    _check(data, path.name)
    return data


def _chosen(name: str) -> RiscvCompiler:
    found = riscv_compilers()
    if not found:
        raise NoCompiler(
            "no compiler for RISC-V: pip install 'understudy[kernels]', or install clang and lld 15+, or "
            f"{GNU_PREFIXES[0]}gcc"
        )
    for each in found:
        if name in ("", each.name):
            return each
    names = [each.name for each in found]
    listed = f": there are {', '.join(names)}"
    raise NoCompiler(f"no compiler {name!r}{close_to(name, names) or listed}")


def _missing(told: str, has_libc: bool) -> str:
    """Where what the linker does not find may come from."""
    if not re.search("undefined (symbol|reference)", told):
        return ""
    if has_libc:
        return (
            "\nharts have no heap, files or thread-local variables: of picolibc link functions that need none "
            "(mathematics, strings, sorting); refsi_printf prints"
        )
    return (
        "\nwhat our run-time library has not (pow, tan, qsort, ...) comes from picolibc, which is not installed: "
        "apt install picolibc-riscv64-unknown-elf"
    )


def _check(data: bytes, name: str) -> None:
    """What was linked can be loaded, and has something to run."""
    if thread_local_bytes(data):
        raise CompileError(
            f"{name} needs thread-local variables (as errno, which strtol and others of a C library set), "
            "and nothing gives harts any: use a function that sets none"
        )
    if not loadable(read_elf(data), data, ELF_BASE).kernels:
        raise CompileError(f"{name} has no kernel: no function in it is global")
