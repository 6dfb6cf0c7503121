"""Compilation of C, C++ and assembly to programs for RefSi's harts, with a small run-time library.

``softcard/data/refsi`` holds the library and its headers: ``softcard_refsi.h``, ``string.h`` and ``math.h``.
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

from softcard.core.errors import close_to
from softcard.host.compiling import CompileError, NoCompiler, clangs, run
from softcard.host.refsi.program import ELF_BASE
from softcard.image.elf.embedded import archive
from softcard.image.riscv.kind import loadable
from softcard.image.riscv.program import hidden_but, read_elf, thread_local_bytes

LANGUAGES: Final = {
    ".c": "c",
    ".cc": "c++",
    ".cpp": "c++",
    ".cxx": "c++",
    ".s": "assembler",
    ".S": "assembler-with-cpp",
}
"""The language that a source suffix selects, as the value of the compilers' option ``-x``."""
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
"""The directory of picolibc, a C library, in Debian's package picolibc-riscv64-unknown-elf."""
LIBRARY: Final = Path("lib", "release", "rv64imafdc", "lp64d", "libc.a")


@dataclass(frozen=True, slots=True)
class RiscvCompiler:
    """A compiler and a linker for RV64, as commands.

    The commands include the flags that this compiler needs and others do not."""

    name: str
    compile: tuple[str, ...]
    link: tuple[str, ...]
    headers: str = ""


@cache
def riscv_compilers() -> tuple[RiscvCompiler, ...]:
    """Return the RISC-V compilers of this machine; the first is the default of `compile_kernels`."""
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
    """Return an ELF file for `RefSi.load_elf`, compiled from C, C++ or assembly.

    All global functions of the source are kernels. `compiler` is the name of one of `riscv_compilers` (by default the
    first), and `march` the instruction set (``rv64gcv_zvl512b`` for vector code). `options` are added after the options
    of this module, and `warn` is called with the compiler's warnings. Raise `CompileError` with the diagnostics if the
    source is wrong, and `NoCompiler` if no compiler is installed. Functions that the run-time library lacks are taken
    from picolibc if it is installed.
    """
    path = Path(source).absolute()
    language = LANGUAGES.get(path.suffix)
    if language is None:
        raise CompileError(f"{path.name} must be a source file with one of the suffixes {', '.join(LANGUAGES)}")
    chosen = _chosen(compiler)
    with (
        as_file(files("softcard").joinpath("data", "refsi")) as library,
        tempfile.TemporaryDirectory(prefix="softcard-") as folder,
    ):
        words = [*chosen.compile, f"-march={march}", *MACHINE]
        headers = [_HEADERS, str(library), *((_HEADERS, chosen.headers) if chosen.headers else ())]
        libc = PICOLIBC.joinpath(LIBRARY)
        if libc.exists():
            headers += [_HEADERS, str(PICOLIBC / "include")]
        mine = {"c": [*COMMON, *headers], "c++": [*COMMON, *CPLUSPLUS, *headers], "assembler": []}.get(
            language, headers
        )
        here = f"-fdebug-prefix-map={folder}=."  # the temporary folder is gone later
        command = [*words, *mine, here, *options, "-x", language, "-c", str(path), "-o", "kernels.o"]
        try:
            warnings = run(command, folder, chosen.name)
        except CompileError as error:
            raise CompileError(error.message.replace(f"{path}:", f"{source}:")) from None
        if warnings and warn is not None:
            warn(warnings.rstrip().replace(f"{path}:", f"{source}:"))
        Path(folder, "runtime.a").write_bytes(_library(chosen, march))
        # in a group, since functions of picolibc may need more of our library
        parts = ["--start-group", "runtime.a", *([str(libc)] if libc.exists() else []), "--end-group"]
        try:
            run([*chosen.link, *LINKED, "kernels.o", *parts, "-o", "kernels.elf"], folder, chosen.name)
        except CompileError as error:
            raise CompileError(error.message + _missing(error.message, libc.exists())) from None
        data = hidden_but(Path(folder, "kernels.elf").read_bytes(), Path(folder, "kernels.o").read_bytes())
    _check(data, path.name)
    return data


@cache
def _library(compiler: RiscvCompiler, march: str) -> bytes:
    """Return the run-time library as an archive, compiled for `march`.

    As it is an archive, the linker takes only the functions that a program calls.
    """
    with (
        as_file(files("softcard").joinpath("data", "refsi")) as library,
        tempfile.TemporaryDirectory(prefix="softcard-") as folder,
    ):
        headers = [_HEADERS, str(library), *((_HEADERS, compiler.headers) if compiler.headers else ())]
        sources = sorted(library.glob("*.c"))
        words = [*compiler.compile, f"-march={march}", *MACHINE, *COMMON, *headers]
        run([*words, "-c", *map(str, sources)], folder, compiler.name)
        objects = [Path(folder, source.stem + ".o") for source in sources]
        return archive({each.name: each.read_bytes() for each in objects})


def _chosen(name: str) -> RiscvCompiler:
    found = riscv_compilers()
    if not found:
        raise NoCompiler(
            "no compiler for RISC-V was found: pip install 'softcard[kernels]', or install clang and lld 15+, or "
            f"{GNU_PREFIXES[0]}gcc"
        )
    for each in found:
        if name in ("", each.name):
            return each
    names = [each.name for each in found]
    listed = f", expected one of {', '.join(names)}"
    raise NoCompiler(f"unknown compiler {name!r}{close_to(name, names) or listed}")


def _missing(diagnostics: str, has_libc: bool) -> str:
    """Return advice about the symbols that the linker did not find, for its `diagnostics`.

    `has_libc` is True if picolibc is installed, so that its functions were linked.
    """
    if not re.search("undefined (symbol|reference)", diagnostics):
        return ""
    if has_libc:
        return (
            "\nharts have no heap, files or thread-local variables: of picolibc link functions that need none "
            "(mathematics, strings, sorting); refsi_printf prints"
        )
    return (
        "\nfunctions that our run-time library lacks (pow, tan, qsort, ...) come from picolibc, which is missing: "
        "apt install picolibc-riscv64-unknown-elf"
    )


def _check(data: bytes, name: str) -> None:
    """Raise an error unless the linked file `data`, called `name` in messages, can be loaded and has a kernel."""
    if thread_local_bytes(data):
        raise CompileError(
            f"{name} needs thread-local variables (such as errno, which strtol of a C library sets), "
            "which harts do not have: use functions without such variables"
        )
    if not loadable(read_elf(data), data, ELF_BASE).kernels:
        raise CompileError(f"{name} has no kernel: make one of its functions global")
