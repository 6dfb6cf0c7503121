"""OpenCL C: standards, build options, embedded headers, and programs that are compiled in parts and linked."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import WireError
from softcard.host.compiling import CompileError, run
from softcard.host.hsa import compile, precompiled
from softcard.host.hsa.compile import (
    BuildOptionError,
    compile_opencl,
    compile_opencl_bitcode,
    link_opencl,
    link_opencl_library,
    opencl_link_options,
    opencl_options,
)
from softcard.host.hsa.gpu import Gpu, Local
from softcard.ir.object_cache import ObjectCache
from tests.host.hsa.test_compile import compiler, gpu

__all__ = ["gpu"]
pytestmark = pytest.mark.oracle
STANDARDS = ("CL1.0", "CL1.1", "CL1.2", "CL2.0", "CL3.0", "CLC++", "CLC++2021")
NAMES = ("ziglang", "clang-15", "clang-16")


# ---- standards -------------------------------------------------------------------------------------------------------

PROGRAM = """
#if __OPENCL_C_VERSION__ < 120
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#if __OPENCL_C_VERSION__ < 200 && !defined(__OPENCL_CPP_VERSION__)
int ctz(int x) { return x + 1; }                       // names of later standards are the user's
int sub_group_all(int x) { return x; }
int atomic_load(int x) { return x; }
void atomic_store(int x) {}
typedef int memory_order;
#else
kernel void scan(global int *x)
{
    atomic_int *p = (atomic_int *)x;                   // a generic pointer
    atomic_fetch_add_explicit(p, work_group_scan_inclusive_add(1), memory_order_relaxed, memory_scope_device);
}
#endif
#if __OPENCL_C_VERSION__ < 120 && !defined(__OPENCL_CPP_VERSION__)
int popcount(int x) { return 77; }
#endif
kernel void k(global int *x, volatile global uint *count, local int *l)
{
    int i = get_global_id(0);
    float f = fmin(fmax(sin((float)i), 0.0f), 1.0f);
    double d = sqrt(2.0 * i);
    half h = (half)f;
    l[i] = i;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(count, 2u);
    atom_max(count + 1, (uint)l[63 - i]);
    atomic_xchg((volatile global float *)count + 2, 1.5f);
    x[i] = popcount(i) + NUMBER + (int)(d * 10) + (h > (half)0.5f);
    if (i == 7)
        printf("%d of %s\\n", i, "it");
}
"""
VERSIONS = {"CL1.0": 100, "CL1.1": 110, "CL1.2": 120, "CL2.0": 200, "CL3.0": 300, "CLC++": 100, "CLC++2021": 202100}
FEATURES = (
    "atomic_order_acq_rel", "atomic_order_seq_cst", "atomic_scope_device", "atomic_scope_all_devices",
    "generic_address_space", "images", "program_scope_global_variables", "read_write_images", "subgroups",
    "work_group_collective_functions",
)  # fmt: skip


def checks_of_macros(standard: str) -> str:
    """Return lines that are refused if a macro of the standard is missing or wrong."""
    word = "__OPENCL_CPP_VERSION__" if "++" in standard else "__OPENCL_C_VERSION__"
    conditions = [f"{word} != {VERSIONS[standard]}", "__OPENCL_VERSION__ != 300", "!defined(__IMAGE_SUPPORT__)"]
    conditions += ["!defined(cl_khr_fp64)", "!defined(cl_khr_byte_addressable_store)", "!__ENDIAN_LITTLE__"]
    later = standard not in STANDARDS[:3]
    conditions += [f"{'!' * later}defined(__opencl_c_{name})" for name in FEATURES]
    conditions += [f"{'!' * later}defined(cl_khr_subgroups)", f"{'!' * later}defined(ATOMIC_FLAG_INIT)"]
    conditions += [f"defined(__opencl_c_{name})" for name in ("pipes", "device_enqueue")]
    conditions += ["defined(cl_khr_mipmap_image)", "defined(memory_order) || defined(ctz) || defined(popcount)"]
    return "".join(f"#if {each}\n#error {each}\n#endif\n" for each in conditions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "standard"),
    [
        *(("ziglang", each) for each in STANDARDS),
        *(("clang-16", each) for each in STANDARDS[::2]),
        ("clang-15", "CL1.2"),
    ],
)
def test_standards(gpu: Gpu, name: str, standard: str) -> None:
    options = [f"-cl-std={standard}", "-DNUMBER=1000"]
    code = compile_opencl(checks_of_macros(standard) + PROGRAM, "gfx900", options=options, compiler=compiler(name))
    x, count = np.zeros(64, np.int32), np.zeros(3, np.uint32)
    result = gpu.run(code, "k", 64, 64, [x, count, Local(256)])
    i = np.arange(64)
    ones = np.array([77 if standard in ("CL1.0", "CL1.1") else each.bit_count() for each in range(64)])
    large = np.clip(np.sin(i), 0, 1).astype(np.float16) > 0.5
    assert x.tolist() == (ones + 1000 + (np.sqrt(2.0 * i) * 10).astype(int) + large).tolist()
    assert count.tolist() == [128, 63, 0x3FC00000]
    assert result.text == "7 of it\n"
    if standard not in STANDARDS[:3]:
        x[:] = 0
        gpu.run(code, "scan", 64, 64, [x])
        assert x[0] == 64 * 65 // 2


def test_constants_of_old_standards_are_floats(gpu: Gpu) -> None:
    """Before OpenCL 1.2, a constant is a double only where the source enables doubles."""
    source = "kernel void k(global float *x) { x[0] = clamp(x[0], 0.0, 1.0); }"
    x = np.array([3], np.float32)
    gpu.run(gpu.compile(source, options=["-cl-std=CL1.1"]), "k", 1, args=[x])
    assert x[0] == 1
    with pytest.raises(CompileError, match="call to 'clamp' is ambiguous"):
        gpu.compile(source, options=["-cl-std=CL1.2"])


@pytest.mark.parametrize("name", NAMES)
def test_printf_without_optimisation(gpu: Gpu, name: str) -> None:
    """clang up to 16 lost the function that printf needs."""
    code = compile_opencl(
        'kernel void k(int n) { printf("n = %d\\n", n); }', "gfx900", options=["-O0"], compiler=compiler(name)
    )
    assert gpu.run(code, "k", 1, 1, [5]).text == "n = 5\n"


def test_macros_are_defined_after_the_headers(gpu: Gpu) -> None:
    """A macro may have the name of a parameter of a built-in function, or of the function itself."""
    source = "kernel void k(global int *x) { x[0] = min(a, 2) + n(3) + TWO + __LINE__; }\n#ifdef GONE\n#error\n#endif"
    options = ["-Da=5", "-D", "n(v)=(v * 100)", "-Dmin=max", "-DTWO", "-DGONE", "-UGONE"]
    x = np.zeros(1, np.int32)
    gpu.run(gpu.compile(source, options=options), "k", 1, args=[x])
    assert x[0] == 5 + 300 + 1 + 1
    with pytest.raises(CompileError, match="<command line>:1:"):
        gpu.compile(source, options=["-Da=5", "-Dn=f g", "-DTWO"])
    with pytest.raises(CompileError, match="macro name must be an identifier"):
        gpu.compile(source, options=["-D1x=5"])


def test_warnings_are_those_of_the_source(gpu: Gpu) -> None:
    """The headers have some, which would refuse every source with -Werror."""
    options = ["-Werror", "-Wall", "-Wextra", "-cl-fast-relaxed-math"]
    gpu.compile('kernel void k(float x) { printf("%f", sin(x)); }', options=options)
    with pytest.raises(CompileError, match="-Wformat"):
        gpu.compile('kernel void k(int x) { printf("%f", x); }', options=options)
    with pytest.raises(CompileError, match="-Wunused-variable"):
        gpu.compile("kernel void k(int x) { int y; }", options=options)


ACCURATE = """
kernel void k(global const double *x, global double *out)
{
    int i = get_global_id(0);
    out[5 * i] = cos(x[i]), out[5 * i + 1] = lgamma(x[i]), out[5 * i + 2] = erf(x[i] / 8), out[5 * i + 3] = log1p(x[i]);
    out[5 * i + 4] = CONSTANT;
}
"""


@pytest.mark.slow
def test_options_do_not_change_the_accuracy_of_functions(gpu: Gpu) -> None:
    """Functions lost half their digits: to constants that became floats, or to sums in another order."""
    x, options, found = np.linspace(0.1, 12, 64), ("-cl-single-precision-constant", "-cl-unsafe-math-optimizations"), []
    for words in ([], *([each] for each in options)):
        out = np.zeros((64, 5))
        gpu.run(gpu.compile(ACCURATE, options=[*words, "-DCONSTANT=(0.1*1.0)"]), "k", 64, 64, [x, out])
        found.append(out)
    assert np.array_equal(found[1][:, :4], found[0][:, :4])
    np.testing.assert_allclose(found[2], found[0], rtol=5e-16)
    assert (found[1][:, 4] == float(np.float32(0.1))).all()


# ---- embedded headers, and parts -------------------------------------------------------------------------------------

HEADERS = {
    "one/all.h": '#pragma once\n#include "types.h"\nint other(int x);\n'
    "inline int twice(int x) { return x * 2 + EXTRA; }\n",
    "one/types.h": "typedef struct { int a, b; } both;\n",
}
FIRST = """#include "one/all.h"
kernel void k(global int *x, volatile global uint *count)
{
    both v = {get_global_id(0), 5};
    x[v.a] = other(v.a) + twice(v.b);
    atomic_add(count, 2u);
    if (v.a == 3)
        printf("%d\\n", x[v.a]);
}
"""
SECOND = """#include <one/all.h>
int other(int x) { return twice(x) + NUMBER; }
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("standard", "level"), [("CL1.2", "-O2"), ("CL2.0", "-O0")])
def test_parts_are_linked(gpu: Gpu, name: str, standard: str, level: str) -> None:
    found, made = compiler(name), []
    for source, extra in ((FIRST, 0), (SECOND, 0)):
        options = [f"-cl-std={standard}", f"-DEXTRA={extra}", "-DNUMBER=100", level]
        made.append(compile_opencl_bitcode(source, "gfx900", options=options, headers=HEADERS, compiler=found))
    library = link_opencl_library(made[1:], "gfx900", compiler=found)
    for parts in (made, [made[0], library]):
        code = link_opencl(parts, "gfx900", compiler=found)
        x, count = np.zeros(64, np.int32), np.zeros(1, np.uint32)
        result = gpu.run(code, "k", 64, 64, [x, count])
        assert x.tolist() == [2 * i + 110 for i in range(64)]
        assert count[0] == 128
        assert result.text == "116\n"
    with pytest.raises(CompileError, match="undefined hidden symbol: other"):
        link_opencl(made[:1], "gfx900", compiler=found)
    with pytest.raises(CompileError, match="symbol multiply defined"):
        link_opencl([made[0], made[0]], "gfx900", compiler=found)


def test_parts_that_use_local_memory_of_the_library(gpu: Gpu) -> None:
    """Each of two parts calls functions of work-groups, which share one array."""
    texts = (
        "int f(int); kernel void k(global int *x) { int i = get_local_id(0); x[i] = f(i) + work_group_reduce_add(i); }",
        "int f(int x) { return work_group_reduce_max(x); }",
    )
    code = link_opencl([compile_opencl_bitcode(text, "gfx900") for text in texts], "gfx900")
    x = np.zeros(128, np.int32)
    gpu.run(code, "k", 128, 128, [x])
    assert (x == 127 * 64 + 127).all()


def test_embedded_headers(gpu: Gpu) -> None:
    source = FIRST + SECOND
    options = ["-DNUMBER=100"]
    for extra in (1, 2):
        headers = {**HEADERS, "one/types.h": HEADERS["one/types.h"] + f"#define EXTRA {extra}\n"}
        x = np.zeros(1, np.int32)
        code = compile_opencl(source, "gfx900", options=options, headers=headers)
        gpu.run(code, "k", 1, 1, [x, np.zeros(1, np.uint32)])
        assert x[0] == 110 + 2 * extra
    with pytest.raises(CompileError, match=r"'one/all\.h' file not found"):
        compile_opencl(source, "gfx900", options=options)
    for name in ("/etc/x.h", "../x.h", "a//b.h", ""):
        with pytest.raises(WireError, match=f"the include name of a header is '{name}', expected a relative path"):
            compile_opencl(source, "gfx900", headers={name: ""})


def test_links_that_are_refused() -> None:
    with pytest.raises(WireError, match="the list of parts to link is empty, expected one part or more"):
        link_opencl([], "gfx900")
    with pytest.raises(WireError, match="part 0 of a link is not LLVM bitcode, expected a result of compile_opencl_b"):
        link_opencl_library([b"\x7fELF"], "gfx900")


def test_a_changed_include_is_compiled_again(gpu: Gpu, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of compiled objects returned the code of the old text, for OpenCL C and HIP."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my dir").mkdir()
    opencl = '#include "number.h"\nkernel void k(global int *x) { x[0] = NUMBER; }'
    hip = '#include "number.h"\n__global__ void k(int *x) { x[0] = NUMBER; }'
    for number in (1, 2, 1):
        (tmp_path / "my dir" / "number.h").write_text(f"#define NUMBER {number}\n")
        for source, language in ((opencl, ".cl"), (hip, ".hip")):
            x = np.zeros(1, np.int32)
            gpu.run(gpu.compile(source, language, options=["-Imy dir"]), "k", 1, args=[x])
            assert x[0] == number


# ---- precompiled headers ---------------------------------------------------------------------------------------------


class Commands:
    """The commands of compilers that `compile` runs, without a cache of objects."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.headers: list[str] = []
        monkeypatch.setattr(compile, "run", self.run)

    def run(self, command: Sequence[str], folder: str, name: str) -> str:
        """Run a compiler, and record the option by which it reads the header of OpenCL C."""
        self.headers += [each for each in command if each == "-include-pch"]
        self.headers += ["-include" for each in command if each.endswith("opencl.h")]
        return run(command, folder, name)

    def compile(self, source: str, *options: str, name: str = "ziglang") -> tuple[bytes, list[str]]:
        """Return the object of a source, and the options by which clang read the header."""
        cache = ObjectCache(None)
        self.monkeypatch.setattr(compile, "_cache", lambda: cache)
        self.headers.clear()
        made = compile_opencl(source, "gfx900", options=options, compiler=compiler(name))
        return made, [*self.headers]


LINES = 'kernel void k(global float *x) { x[0] = sin(x[N]) + atomic_add((global uint *)x, 1u); printf("%f", x[0]); }'
OPTIONS = [
    ("ziglang", ()), ("ziglang", ("-O0", "-g")), ("ziglang", ("-cl-std=CL3.0", "-cl-kernel-arg-info")),
    ("ziglang", ("-cl-std=CL1.2", "-cl-fast-relaxed-math", "-Wall", "-Werror")), ("clang-15", ("-g", "-w")),
    ("clang-16", ("-g", "-cl-denorms-are-zero")),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_a_precompiled_header_changes_no_byte(
    monkeypatch: pytest.MonkeyPatch, name: str, options: Sequence[str]
) -> None:
    commands = Commands(monkeypatch)
    made, headers = commands.compile(LINES, *options, "-DN=1", name=name)
    assert headers == ["-include-pch"]
    monkeypatch.setattr(compile, "precompiled_header", lambda *_: None)
    assert commands.compile(LINES, *options, "-DN=1", name=name) == (made, ["-include"])


def test_options_that_change_the_header_have_headers_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Sequence[str]] = []
    cache = ObjectCache(None)
    monkeypatch.setattr(precompiled, "_cache", lambda: cache)

    def write(command: Sequence[str], folder: str, name: str) -> str:
        made.append(command[1:-8])
        Path(folder, "header.pch").touch()
        return name

    monkeypatch.setattr(precompiled, "run", write)
    for words in ("", "-g -Wall", "-O0", "-O0 -w", "-cl-std=CL1.2", "-mllvm -x", "-O0 -Werror=a", "-DN=2"):
        assert precompiled.precompiled_header(("clang",), "clang", ["1"], words.split(), Path("opencl.h")) == b""
    assert made == [[], ["-O0"], ["-cl-std=CL1.2"], ["-mllvm", "-x"], ["-DN=2"]]


def test_a_broken_precompiled_header_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """If clang refuses the precompiled header, it reads the header, and its diagnostics are those of the source."""
    commands = Commands(monkeypatch)
    right = commands.compile(SHORT)[0]
    real = compile.precompiled_header
    for damage in (lambda data: data[: len(data) // 2], lambda data: b"none", lambda data: data[:5000] + bytes(5000)):
        monkeypatch.setattr(compile, "precompiled_header", lambda *given, damage=damage: damage(real(*given)))
        assert commands.compile(SHORT) == (right, ["-include-pch", "-include"])
    with pytest.raises(
        CompileError, match=r"refused the source\nkernel\.cl:1:\d+: error: use of undeclared identifier"
    ):
        commands.compile(SHORT.replace("= 1", "= one"))


SHORT = "kernel void k(global int *x) { x[0] = 1; }"


def test_the_cache_of_precompiled_headers(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Read by other processes; damaged files, and a folder that cannot be made, count as not cached."""
    commands, made = Commands(monkeypatch), []
    monkeypatch.setattr(precompiled, "run", lambda *given: made.append(given) or run(*given))

    def fresh(folder: Path) -> tuple[bytes, list[str]]:
        cache = ObjectCache(folder)
        monkeypatch.setattr(precompiled, "_cache", lambda: cache)
        return commands.compile(SHORT)

    folder = tmp_path / "headers"
    right = fresh(folder)
    assert fresh(folder) == right
    assert len(made) == 1
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert fresh(folder) == right
    assert len(made) == 2
    file.write_bytes(b"")
    file.chmod(0o400)
    (tmp_path / "file").touch()
    assert fresh(tmp_path / "file" / "headers") == right == (right[0], ["-include-pch"])


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["-cl-std=CL1.2"]),
        ("-cl-std=CL3.0 -cl-std=clc++2021", ["-cl-std=CLC++2021"]),
        ("-D A -D B=1 -DC='x y' -D\"D=\\\"s\\\"\" -U A -I inc", [
            "-cl-std=CL1.2", "-DA", "-DB=1", "-DC=x y", '-DD="s"', "-UA", "-I", "/base/inc",
        ]),
        ("-I/abs\n-w\t-Werror -g -O3 -Wall", ["-cl-std=CL1.2", "-I", "/abs", "-w", "-Werror", "-g", "-O3", "-Wall"]),
        ("-cl-opt-disable -cl-mad-enable", ["-cl-std=CL1.2", "-O0", "-cl-mad-enable"]),
        ("-cl-no-subgroup-ifp -cl-nv-verbose -fno-bin-llvmir -s k.cl -x clc -cl-strict-aliasing -save-temps=x",
         ["-cl-std=CL1.2"]),
    ],
)  # fmt: skip
def test_options_of_a_build(text: str, words: Sequence[str]) -> None:
    assert opencl_options(text, "/base") == words


@pytest.mark.parametrize(
    ("text", "option", "message"),
    [
        ("-D A -foo! -w", "-foo!", "unknown option -foo! of a build call, expected those of OpenCL 3.0"),
        ("kernel.cl", "kernel.cl", "unknown option kernel.cl of a build call"),
        ("-cl-std=CL4.0", "-cl-std=CL4.0", "unknown standard in -cl-std=CL4.0, expected one of CL1.0, CL1.1"),
        ("-w -D", "-D", "build option -D has no value, expected one after it"),
        ("-D 1=2", "-D 1=2", "build option -D has the value '1=2', expected NAME or NAME=VALUE"),
        ("-x spir", "-x spir", "build option -x has the value spir, expected cl or clc"),
        ("-D 'A", "-D 'A", 'cannot split the build options "-D \'A" (No closing quotation): close each quote'),
    ],
)
def test_wrong_options_of_a_build(text: str, option: str, message: str) -> None:
    with pytest.raises(BuildOptionError, match=re.escape(message)) as caught:
        opencl_options(text)
    assert caught.value.option == option


def test_options_of_a_link() -> None:
    found = opencl_link_options("-create-library -enable-link-options -cl-fast-relaxed-math -cl-nv-verbose")
    assert (found.is_library, found.words) == (True, ())
    assert opencl_link_options("-cl-opt-disable -O3").words == ("-O0", "-O3")
    with pytest.raises(BuildOptionError, match="build option -enable-link-options requires the option -create-library"):
        opencl_link_options("-enable-link-options")
    with pytest.raises(BuildOptionError, match="unknown option -DA of a link call"):
        opencl_link_options("-DA")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_the_specification_is_accepted(name: str) -> None:
    text = (
        "-D A=1 -I /nowhere -cl-single-precision-constant -cl-denorms-are-zero -cl-fp32-correctly-rounded-divide-sqrt "
        "-cl-opt-disable -cl-uniform-work-group-size -cl-no-subgroup-ifp -cl-mad-enable -cl-no-signed-zeros "
        "-cl-unsafe-math-optimizations -cl-finite-math-only -cl-fast-relaxed-math -w -Werror -cl-kernel-arg-info -g"
    )
    for standard in ("", "-cl-std=CL3.0 "):
        words = opencl_options(standard + text)
        assert compile_opencl(
            "kernel void k(global int *x) { x[0] = A; }", "gfx900", options=words, compiler=compiler(name)
        )


# ---- values of the functions of extensions ---------------------------------------------------------------------------

Array = np.ndarray[Any, Any]
TYPES: dict[str, Any] = {
    "char": np.int8, "uchar": np.uint8, "short": np.int16, "ushort": np.uint16, "int": np.int32, "uint": np.uint32,
    "long": np.int64, "ulong": np.uint64, "half": np.float16, "float": np.float32, "double": np.float64,
}  # fmt: skip
WAVES = ((0, 64), (64, 96))
"""The first and the last work-item of each sub-group of a work-group of 96."""
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
Model = Callable[[Array, int], Any]


def some_values(kind: str) -> Array:
    """Return 96 values of a type: integers with all bits, and numbers whose products keep in range."""
    random, dtype = np.random.default_rng(5), TYPES[kind]
    if kind in ("half", "float", "double"):
        return random.choice([0.5, 1.0, 2.0, -1.0, 1.5, 0.75], 96).astype(dtype)
    return random.integers(0, 1 << 63, 96, np.uint64).astype(dtype)


def first_of(name: str, kind: str) -> Any:
    """Return the result of an operation for no values."""
    limits = np.finfo(TYPES[kind]) if kind in ("half", "float", "double") else np.iinfo(TYPES[kind])
    least, most = (-np.inf, np.inf) if isinstance(limits, np.finfo) else (limits.min, limits.max)
    found = {"mul": 1, "min": most, "max": least, "and": -1}.get(name, 0)
    return np.array(found).astype(TYPES[kind])[()]


def folded(name: str, kind: str, values: Any) -> Any:
    """Return the result of an operation for values in their order."""
    with np.errstate(over="ignore"):
        return functools.reduce(OPERATIONS[name], values, first_of(name, kind))


def uniform_functions(kind: str) -> list[tuple[str, Model]]:
    """Return expressions of functions that all work-items call, with their models: of a wave's values and a lane."""
    found: list[tuple[str, Model]] = [
        ("sub_group_shuffle(v, me ^ 3u)", lambda w, j: w[j ^ 3]),
        ("sub_group_shuffle_xor(v, 17u)", lambda w, j: w[j ^ 17]),
        ("(other = sub_group_shuffle_up(v, 2u), me < 2 ? v : other)", lambda w, j: w[j - 2] if j >= 2 else w[j]),
        ("(other = sub_group_shuffle_down(v, 5u), me + 5 < size ? other : v)",
         lambda w, j: w[j + 5] if j + 5 < len(w) else w[j]),
        ("(other = sub_group_rotate(v, 63), size == 64 ? other : v)", lambda w, j: w[j - 1] if len(w) == 64 else w[j]),
        ("sub_group_clustered_rotate(v, -3, 8u)", lambda w, j: w[(j & ~7) | (j - 3) & 7]),
        ("sub_group_broadcast(v, 5u)", lambda w, j: w[5]),
        (f"sub_group_broadcast(({kind}3)(v, 1, v), 6u).z", lambda w, j: w[6]),
        ("sub_group_non_uniform_all_equal(v)", lambda w, j: 0),
        (f"sub_group_non_uniform_all_equal(({kind})1)", lambda w, j: 1),
    ]  # fmt: skip
    for name in ("add", "min", "max"):
        found.append((f"sub_group_reduce_{name}(v)", lambda w, j, name=name: folded(name, kind, w)))
        found.append((f"sub_group_scan_inclusive_{name}(v)", lambda w, j, name=name: folded(name, kind, w[: j + 1])))
        found.append((f"sub_group_scan_exclusive_{name}(v)", lambda w, j, name=name: folded(name, kind, w[:j])))
    return found


def divergent_functions(kind: str) -> list[tuple[str, Model]]:
    """Return the same of functions that only some work-items call: those with numbers 0 or 2 modulo 3."""

    def active(w: Array, low: int = 0, high: int = 64) -> Array:
        return np.array([w[j] for j in range(len(w)) if j % 3 != 1 and low <= j < high], TYPES[kind])

    found: list[tuple[str, Model]] = [
        ("sub_group_broadcast_first(v)", lambda w, j: w[0]),
        ("sub_group_non_uniform_broadcast(v, 9u)", lambda w, j: w[9]),
        (f"sub_group_non_uniform_broadcast(({kind}2)(1, v), 11u).y", lambda w, j: w[11]),
        ("sub_group_non_uniform_all_equal(v)", lambda w, j: 0),
    ]
    for name in ("add", "mul", "min", "max") if kind in ("half", "float", "double") else OPERATIONS:
        start = f"sub_group_non_uniform_{{}}_{name}(v)"
        found += [
            (start.format("reduce"), lambda w, j, name=name: folded(name, kind, active(w))),
            (start.format("scan_inclusive"), lambda w, j, name=name: folded(name, kind, active(w, 0, j + 1))),
            (start.format("scan_exclusive"), lambda w, j, name=name: folded(name, kind, active(w, 0, j))),
            (f"sub_group_clustered_reduce_{name}(v, 8u)",
             lambda w, j, name=name: folded(name, kind, active(w, j & ~7, (j & ~7) + 8))),
        ]  # fmt: skip
    return found


def kernel_of_type(kind: str) -> str:
    """Return a kernel that stores the results of all functions of a type, one row per work-item."""
    uniform, divergent = uniform_functions(kind), divergent_functions(kind)
    lines = [f"    o[{n}] = {expression};\n" for n, (expression, _) in enumerate(uniform)]
    more = [f"        o[{n}] = {expression};\n" for n, (expression, _) in enumerate(divergent, len(uniform))]
    return f"""kernel void k_{kind}(global const {kind} *x, global {kind} *o)
{{
    int i = get_global_id(0);
    {kind} v = x[i], other;
    uint me = get_sub_group_local_id(), size = get_sub_group_size();
    o += {len(uniform) + len(divergent)} * i;
{"".join(lines)}    if (me % 3 != 1) {{
{"".join(more)}    }}
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "engine", "name", "kinds"),
    [
        ("gfx900", "jit", "ziglang", ["char", "int", "half", "double"]),
        ("gfx906", "reference", "ziglang", ["uchar"]),
        ("gfx700", "jit", "clang-15", ["short", "float"]),
        ("gfx803", "reference", "clang-16", ["uint"]),
        ("gfx942", "jit", "ziglang", ["long", "ushort", "ulong"]),
    ],
)
def test_functions_of_sub_groups(agent: str, engine: str, name: str, kinds: list[str]) -> None:
    source = "".join(map(kernel_of_type, kinds))
    code = compile_opencl(source, agent, options=["-cl-std=CL3.0"], compiler=compiler(name))
    wrong = []
    with Gpu.open(agent, threads=1, engine=engine) as gpu:
        loaded = gpu.load(code)
        for kind in kinds:
            functions, x = uniform_functions(kind) + divergent_functions(kind), some_values(kind)
            out, expected = (np.zeros((96, len(functions)), TYPES[kind]) for _ in range(2))
            gpu.run(loaded, f"k_{kind}", 96, 96, [x, out])
            for low, high in WAVES:
                for j in range(high - low):
                    for n, (_, model) in enumerate(functions):
                        if n < len(uniform_functions(kind)) or j % 3 != 1:
                            expected[low + j, n] = model(x[low:high], j)
            wrong += [f"{kind}: {functions[n][0]}" for n in range(len(functions)) if (out != expected)[:, n].any()]
    assert not wrong, "\n".join(wrong)


# ---- all functions of the specification ------------------------------------------------------------------------------

LEFT_OUT = re.compile(
    r"\b(clock_read_\w+|(capture|create|release|retain|set)_\w*event\w*|enqueue_marker|get_default_queue|ndrange_\dD|"
    r"is_valid_\w+|get_image_num_\w+|printf)\(|msaa|intel|arm_|read_image\w+\(read_\w+ \w+, sampler_t, float\d?, float|"
    r"write_image\w+\(\w+ \w+, int\d?, int,"
)
"""A pattern of declarations of functions that are left out: device enqueue, mipmaps, samples, clocks, other vendors."""
TYPE = re.compile(
    r"(\w+_t|(u?(char|short|int|long)|half|float|double)\d*|void|cl_mem_fence_flags|memory_\w+|atomic_\w+)$"
)
ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)")


def declarations(clang: str) -> list[tuple[str, str, list[str]]]:
    """Return the declarations in the header of OpenCL C that comes with clang: result, name, types of parameters."""
    folder = subprocess.run([clang, "-print-resource-dir"], capture_output=True, text=True, check=True).stdout.strip()
    header = Path(folder, "include", "opencl-c.h")
    if not header.exists():
        pytest.skip(f"{header} is not installed")
    words = ["-target", "spir64", "-x", "cl", "-cl-std=CL3.0", "-cl-no-stdinc", "-Xclang", "-cl-ext=+all", "-E", "-P"]
    named = ["-D__opencl_c_named_address_space_builtins=1", "-Dcl_amd_media_ops=1", "-Dcl_amd_media_ops2=1"]
    text = subprocess.run([clang, *words, *named, str(header)], capture_output=True, text=True, check=True).stdout
    found: dict[tuple[str, str, str], None] = {}
    for statement in re.sub(r"^#.*$", "", ATTRIBUTE.sub("", text), flags=re.MULTILINE).split(";"):
        parts = re.fullmatch(r"([\w *]+?)\b(\w+) ?\(([^()]*)\)", " ".join(statement.split()))
        if parts and not parts[1].startswith("typedef"):
            found[parts[1].strip(), parts[2], parts[3]] = None
    return [(result, name, [_unnamed(each.strip()) for each in given.split(",")]) for result, name, given in found]


def _unnamed(parameter: str) -> str:
    """Return a parameter without its name, if it has one."""
    parts = re.fullmatch(r"(.+[\s*])(\w+)", parameter)
    return (
        parts[1].strip() if parts and not TYPE.match(parts[2]) and parts[2] not in ("const", "volatile") else parameter
    )


@pytest.mark.parametrize(("name", "standard"), [("ziglang", "CL3.0"), ("clang-16", "CL2.0")])
def test_every_name_of_the_specification_is_there(is_exhaustive: bool, name: str, standard: str) -> None:
    """Calls of the functions that clang's own header declares: one of a name and some more, or all (13,900)."""
    clang = next(filter(None, (shutil.which(f"clang-{number}") for number in (19, 16))), None)
    if clang is None:
        pytest.skip("clang with its header of OpenCL C is not installed")
    lines, names = [], set[str]()
    for number, (result, function, types) in enumerate(declarations(clang)):
        if LEFT_OUT.search(f"{function}({', '.join(types)}"):
            continue
        if function in names and number % 16 and not is_exhaustive:
            continue
        names.add(function)
        types = [each for each in types if each not in ("", "void")]
        values = ", ".join(f"a{n}" for n in range(len(types)))
        given = ", ".join(f"{each} a{n}" for n, each in enumerate(types)) or "void"
        lines.append(f"{result} t{number}({given}) {{ {'return ' * (result != 'void')}{function}({values}); }}\n")
    assert len(names) > 900
    options = [f"-cl-std={standard}", "-fsyntax-only", "-ferror-limit=0", "-w"]
    with pytest.raises(FileNotFoundError):  # the source is right, and clang writes no object
        compile_opencl_bitcode("".join(lines), "gfx900", options=options, compiler=compiler(name))
