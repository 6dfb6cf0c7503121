"""Compilation of generated sources, for devices and for the host's processor.

It does not use the kernel library (the header of OpenCL C built-ins), so that compilers too old for that library work
as well.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from softcard.campaign.generators import opencl
from softcard.campaign.generators.rv64 import CALL
from softcard.core.errors import GuestFault, WireError
from softcard.core.limits import TimeLimit
from softcard.host.compiling import ZIG, Clang, CompileError, CompileTimeLimit, NoCompiler, clangs, named, run

CACHED: Final = 64
"""The number of compiled programs in the cache, which engines and checks share."""
DENORMALS: Final = ("-Xclang", "-fdenormal-fp-math-f32=ieee")
"""The compiler options that preserve denormal `float` numbers on GFX7 and GFX8 as well.

Without them, results would differ from those of constant folding, which preserves denormals on all processors.
"""
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
    """The exception for a compiler that crashed on a valid source. `where` identifies the crash."""

    def __init__(self, message: str, where: str) -> None:
        super().__init__(message)
        self.where = where


class Compiled(NamedTuple):
    """Compiled code, the compilation time in seconds, the compiler's version, and its diagnostics."""

    code: bytes
    seconds: float
    version: str
    diagnostics: str = ""


def compile_generated(
    source: bytes, language: str, agent: str, compiler: str, options: str, seconds: float | None = None
) -> Compiled:
    """Compile and link a program; `language` is ``opencl`` (for `agent`) or ``rv64``.

    Raise `CompilerCrash` if the compiler crashes or takes more than `seconds` of processor time, `CompileError` if it
    rejects the source or the options, and `NoCompiler` if the machine has no compiler.
    """
    return _compiled(source, language, agent, compiler, tuple(options.split()), seconds)


@lru_cache(CACHED)
def _compiled(
    source: bytes, language: str, agent: str, compiler: str, options: Sequence[str], seconds: float | None
) -> Compiled:
    chosen = _chosen(compiler)
    began = time.perf_counter()
    is_opencl = language == "opencl"
    words = (*OPENCL, f"-mcpu={agent}", _VERSION) if is_opencl else RV64
    link = ("-shared",) if is_opencl else RV64_LINK
    with tempfile.TemporaryDirectory(prefix="softcard-") as folder:
        Path(folder, "program").write_bytes(source)
        try:
            command = [*chosen.clang, *words, *options, "-c", "program", "-o", "program.o"]
            diagnostics = run(command, folder, chosen.name, seconds)
        except CompileError as error:
            raise _classified(error, chosen.name) from None
        except CompileTimeLimit as error:
            raise CompilerCrash(f"{chosen.name} failed: {error.message}", f"{chosen.name} took too long") from None
        run([*chosen.linker, *link, "program.o", "-o", "linked"], folder, chosen.name)
        code = Path(folder, "linked").read_bytes()
    return Compiled(code, time.perf_counter() - began, version_of(chosen), diagnostics)


def _chosen(name: str) -> Clang:
    found = named(name) if name else next(iter(clangs()), None)
    if found is None:
        if name:
            raise NoCompiler(f"compiler {name} was not found: install it, or name another one")
        raise NoCompiler("no compiler for generated programs was found: install clang and lld, or ziglang")
    return found


def _classified(error: CompileError, name: str) -> CompileError | CompilerCrash:
    """Return a `CompilerCrash` if the compiler's output in `error` shows a crash, or else `error` itself."""
    text = error.message
    if not any(each in text for each in _CRASHES):
        return error
    passes = _PASS.findall(text)
    first = next((line for line in text.splitlines() if "error in backend" in line or "LLVM ERROR" in line), "")
    where = first or (passes[-1] if passes else next(iter(text.splitlines()), ""))
    return CompilerCrash(f"{name} failed: {where}\n{text}", re.sub(r"0x[0-9a-f]+|%\S+|\d+|'@\w+'", "N", where).strip())


@lru_cache(CACHED)
def version_of(compiler: Clang) -> str:
    """Return the first line of a compiler's ``--version``."""
    done = subprocess.run([*compiler.clang, "--version"], capture_output=True, text=True, check=False)
    return next(iter(done.stdout.splitlines()), "").strip()


# ---- programs on the host's processor --------------------------------------------------------------------------------
# Generated programs on the host's processor: the same C source, compiled without optimisation.
#
# A program has one result by construction, so the host's result is the expected one for every compiler, device and
# engine; a campaign that only compares compilers cannot find an error that all of them share. Work-items are
# coroutines, each of which runs up to the next barrier.


NATIVE: Final = "native"
"""The name that the host's processor has among the engines of a campaign."""
SOURCE: Final = ("-w", "-O0", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off")
_OPENCL: Final = (
    "-x", "cl", "-cl-std=CL2.0", "-cl-no-stdinc", "-include", "items.h",
    "-D__builtin_amdgcn_workitem_id_x()=native_item()", "-D__builtin_amdgcn_workgroup_id_x()=native_group()",
    "-D__builtin_amdgcn_s_barrier()=native_barrier()", "-D__builtin_amdgcn_fence(...)=",
)  # fmt: skip
_C: Final = ("-x", "c", "-std=gnu11", "-fsigned-char", "-D_start=main")
_ITEMS: Final = "unsigned native_item(void), native_group(void); void native_barrier(void);\n"
_HARNESS: Final = f"""#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#define STACK (1l << 18)
extern void k(uint64_t *out, const uint32_t *in, uint32_t *sums);
static uint64_t out[{opencl.GRID}];
static uint32_t in[{opencl.GRID}], sums[{opencl.SUMS}];
static ucontext_t items[{opencl.GROUP}], scheduler;
static char done[{opencl.GROUP}];
static unsigned group, item;
unsigned native_item(void) {{ return item; }}
unsigned native_group(void) {{ return group; }}
void native_barrier(void) {{ swapcontext(&items[item], &scheduler); }}
static void run(void) {{ k(out, in, sums); done[item] = 1; }}
int main(void) {{
    char *stacks = malloc({opencl.GROUP} * STACK);
    if (!stacks || fread(in, sizeof in, 1, stdin) != 1 || fread(sums, sizeof sums, 1, stdin) != 1)
        return 3;
    for (group = 0; group < {opencl.GRID // opencl.GROUP}; group++) {{
        unsigned left = {opencl.GROUP};
        for (item = 0; item < {opencl.GROUP}; item++) {{
            getcontext(&items[item]);
            items[item].uc_stack.ss_sp = stacks + item * STACK;
            items[item].uc_stack.ss_size = STACK;
            items[item].uc_link = &scheduler;
            done[item] = 0;
            makecontext(&items[item], run, 0);
        }}
        while (left)
            for (item = 0; item < {opencl.GROUP}; item++)
                if (!done[item]) {{
                    swapcontext(&scheduler, &items[item]);
                    left -= done[item];
                }}
    }}
    return fwrite(out, sizeof out, 1, stdout) != 1 || fwrite(sums, sizeof sums, 1, stdout) != 1;
}}
"""
"""The C program that runs an OpenCL kernel natively.

It reads the kernel's memory from standard input, and writes it to standard output.
"""
_CALL: Final = """long write(int, const void *, ulong); void _exit(int);
static long call(long number, long a, long b, long c) {
    if (number == 64) return write(a, (const void *)b, c);
    _exit(a);
}
"""
"""The two system calls that RV64 programs use, written as calls of the host's C library."""


def run_native(source: bytes, language: str, data: bytes, seconds: float) -> tuple[bytes, float, Compiled]:
    """Compile a generated program for the host's processor and run it with `data` as standard input.

    Return its output, its run time in seconds, and its compilation. `language` is ``opencl`` or ``rv64``. Raise
    `NoCompiler` if clang is missing, `CompileError` if the compilation fails, `TimeLimit` after `seconds`, and
    `GuestFault` if the program's exit status is not 0.
    """
    found = next(iter(clangs()), None)
    if found is None:
        raise NoCompiler("no compiler for native programs: pip install 'softcard[kernels]', or install clang and lld")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="softcard-") as folder:
        _compile(found, source, language, folder, seconds)
        compiled = Compiled(b"", time.perf_counter() - began, version_of(found))
        began = time.perf_counter()
        try:
            done = subprocess.run(
                [str(Path(folder, "native"))], input=data, capture_output=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            raise TimeLimit(f"the native program did not end within {seconds:g} s") from None
    if done.returncode:
        raise GuestFault(f"the native program ended with status {done.returncode}, expected 0")
    return done.stdout, time.perf_counter() - began, compiled


def _compile(compiler: Clang, source: bytes, language: str, folder: str, seconds: float) -> None:
    """Compile and link a program for the host, as the file ``native`` in `folder`."""
    text = source if language == "opencl" else source.replace(CALL.encode(), _CALL.encode())
    Path(folder, "program").write_bytes(text)
    Path(folder, "items.h").write_text(_ITEMS, "utf-8")
    words = _OPENCL if language == "opencl" else _C
    run([*compiler.clang, *SOURCE, *words, "-c", "program", "-o", "program.o"], folder, compiler.name, seconds)
    parts = ["program.o"]
    if language == "opencl":
        Path(folder, "harness.c").write_text(_HARNESS, "utf-8")
        parts.append("harness.c")
    name, linker = _linker(compiler)
    run([*linker, "-w", *parts, "-o", "native"], folder, name, seconds)


def _linker(compiler: Clang) -> tuple[str, tuple[str, ...]]:
    """Return the name and the command of the linker for the host.

    An installed `cc` is preferred to `compiler`, because ziglang would first have to build its C library."""
    installed = shutil.which("cc")
    if installed is not None:
        return "cc", (installed,)
    if compiler.name == ZIG:
        return "zig cc", (sys.executable, "-m", "ziglang", "cc")
    return compiler.name, compiler.clang
