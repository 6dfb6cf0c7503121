"""Generated sources to code: with no library in front of them, and with compilers older than the library knows."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from understudy.core.errors import WireError
from understudy.host.compiling import TIMEOUT_SECONDS, Clang, CompileError, NoCompiler, clangs, named, run

KEPT: Final = 64
"""What was compiled last stays at hand: engines and checks share it."""
DENORMALS: Final = ("-Xclang", "-fdenormal-fp-math-f32=ieee")
"""`float` has denormal numbers on GFX7 and GFX8 too, as constant folding has them everywhere."""
OPENCL: Final = (
    "-x", "cl", "-cl-std=CL2.0", "-cl-no-stdinc", "-target", "amdgcn-amd-amdhsa", "-nogpulib", "-w",
    "-ffp-contract=off", *DENORMALS,
)  # fmt: skip
RV64: Final = (
    "-x", "c", "-std=gnu11", "--target=riscv64-unknown-elf", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany",
    "-mno-relax", "-ffreestanding", "-fsigned-char", "-ffp-contract=off", "-fno-pic", "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables", "-w",
)  # fmt: skip
RV64_LINK: Final = ("-static", "--no-relax", "-e", "_start", "-z", "max-page-size=4096")
_VERSION: Final = "-mcode-object-version=4"
_CRASHES: Final = (
    "PLEASE submit a bug report", "LLVM ERROR", "error in backend", "Stack dump", "frontend command failed",
)  # fmt: skip
_PASS: Final = re.compile(r"\d+\.\s+(Running pass .*)")


class CompilerCrash(WireError):
    """A compiler that failed by itself, on a source that is right. `where` is the same for the same crash."""

    def __init__(self, message: str, where: str) -> None:
        super().__init__(message)
        self.where = where


class Compiled(NamedTuple):
    """Code, how long making it took, which compiler did, and what it told."""

    code: bytes
    seconds: float
    version: str
    told: str = ""


def compile_generated(
    source: bytes, language: str, agent: str, compiler: str, options: str, seconds: float = TIMEOUT_SECONDS
) -> Compiled:
    """A program, linked: `language` is ``opencl`` (for `agent`) or ``rv64``.

    `CompilerCrash`, also where it takes longer than `seconds`; `CompileError` for a source, or options, that are
    refused; `NoCompiler`.
    """
    return _compiled(source, language, agent, compiler, tuple(options.split()), seconds)


@lru_cache(KEPT)
def _compiled(
    source: bytes, language: str, agent: str, compiler: str, options: Sequence[str], seconds: float
) -> Compiled:
    chosen = _chosen(compiler)
    began = time.perf_counter()
    is_opencl = language == "opencl"
    words = (*OPENCL, f"-mcpu={agent}", _VERSION) if is_opencl else RV64
    link = ("-shared",) if is_opencl else RV64_LINK
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        Path(folder, "program").write_bytes(source)
        try:
            command = [*chosen.clang, *words, *options, "-c", "program", "-o", "program.o"]
            told = run(command, folder, chosen.name, seconds)
        except CompileError as error:
            raise _judged(error, chosen.name) from None
        run([*chosen.linker, *link, "program.o", "-o", "linked"], folder, chosen.name)
        code = Path(folder, "linked").read_bytes()
    return Compiled(code, time.perf_counter() - began, version_of(chosen), told)


def _chosen(name: str) -> Clang:
    found = named(name) if name else next(iter(clangs()), None)
    if found is None:
        raise NoCompiler(f"no compiler {name or 'for generated programs: clang and lld, or ziglang'}")
    return found


def _judged(error: CompileError, name: str) -> CompileError | CompilerCrash:
    """A crash, where it was one."""
    text = error.message
    if not any(each in text for each in _CRASHES) and "took longer than" not in text:
        return error
    passes = _PASS.findall(text)
    first = next((line for line in text.splitlines() if "error in backend" in line or "LLVM ERROR" in line), "")
    where = first or (passes[-1] if passes else next(iter(text.splitlines()), ""))
    return CompilerCrash(f"{name} failed: {where}\n{text}", re.sub(r"0x[0-9a-f]+|%\S+|\d+|'@\w+'", "N", where).strip())


@lru_cache(KEPT)
def version_of(compiler: Clang) -> str:
    """What a compiler calls itself."""
    done = subprocess.run([*compiler.clang, "--version"], capture_output=True, text=True, check=False)
    return next(iter(done.stdout.splitlines()), "").strip()
