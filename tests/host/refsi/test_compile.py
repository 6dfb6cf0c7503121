"""C, C++ and assembly of a kernel's author, with every compiler that there is: built, run, compared with NumPy."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from softcard.cli import main
from softcard.core.errors import SoftcardError, WireError
from softcard.core.lint import LintWarning
from softcard.host.compiling import CompileError, NoCompiler
from softcard.host.refsi import compile
from softcard.host.refsi.compile import compile_kernels
from softcard.host.refsi.launch import WHOLE
from softcard.host.refsi.refsi import RefSi
from softcard.image.elf.dwarf import signatures
from softcard.image.elf.layout import SHT_SYMTAB
from softcard.image.elf.reader import ElfFile

pytestmark = pytest.mark.oracle
NAMES = ("ziglang", "clang-16", "riscv64-unknown-elf-gcc")
KERNELS = r"""
#include <math.h>
#include <string.h>
#include <softcard_refsi.h>

static int calls;
static struct { char name[80]; int n; } table[2] = {{"first", 1}, {"second", 2}};

void functions(uint64_t id, double *o, const double *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++, o += 8) {
        double v = x[i];
        o[0] = exp(v), o[1] = log(fabs(v)), o[2] = sin(v), o[3] = cos(v);
        o[4] = fmod(v, 0.7), o[5] = floor(v) + ceil(v) + trunc(v) + rint(v), o[6] = sqrt(fabs(v));
        o[7] = powf(fabs(v), 1.7f);
    }
}

void talk(uint64_t id, uint64_t *count)
{
    table[1].n = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    refsi_printf("%d|%5d|%-5d|%05d|%x|%s|%.3s|%lu|%c|%p|%%|", -7, 42, 42, -42, 255, table[1].name, "abcdef", 1ul << 63,
                 'x', (void *)0x10000);
    refsi_printf("%.3f %f %e %g %g %g %8.2f|%-8.1f|%f", 3.14159, 2.5, 12345.678, 0.1, 1e10, 1e-5, -1.005, 9.96, NAN);
    *count = calls;
}

void dma(uint64_t id, int *out, const int *in, uint64_t n)
{
    int *mine = REFSI_LOCAL;
    refsi_dma_wait(refsi_dma_copy(mine, in + id * n, 4 * n));
    for (uint64_t i = 0; i < n; i++)
        mine[i] *= 2;
    refsi_dma_wait(refsi_dma_copy_2d(out + 2 * id * n, 8 * n, mine, 4 * n, 4 * n, 1));
    refsi_barrier();
    memcpy(out + (2 * id + 1) * n, out + 2 * ((id + 1) % 4) * n, 4 * n);
    memmove((char *)out + (2 * id + 1) * 4 * n + 1, out + (2 * id + 1) * n, 3);
    if (memcmp(out + 2 * id * n, mine, 4 * n) || strlen(table[0].name) != 5)
        refsi_exit(3);
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels") / "kernels.c"
    path.write_text(KERNELS)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_kernels_of_every_compiler(name: str, source: Path) -> None:
    data = compile_kernels(source, compiler=name, options=["-Wall", "-Wextra"])
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [rng.uniform(-b, b, 200) for b in (1e-3, 10, 700, 1e6)] + [np.pi / 2 * np.arange(1, 10**6, 5000)]
    )
    x[:6] = 0.0, -0.5, 1.0, 709.9, -745.2, 2.5
    with RefSi.open() as device:
        assert sorted(device.load_elf(data).kernels) == ["dma", "functions", "talk"]
        found, count = np.zeros((len(x), 8)), np.zeros(1, np.uint64)
        device.launch("functions", 1, [found, x, len(x)])
        with np.errstate(all="ignore"):
            _compare(found, x)
        said = device.launch("talk", 1, [count]).console.decode()
        assert said == (
            "-7|   42|42   |-0042|ff|second|abc|9223372036854775808|x|0x10000|%|"
            "3.142 2.500000 1.234568e+04 0.1 1e+10 1e-05    -1.00|10.0    |nan"
        )
        assert count[0] == 1
        out = np.zeros(64, np.int32)
        device.launch("dma", 4, [out, np.arange(32, dtype=np.int32), 8])
        rows = out.reshape(4, 2, 8)
        assert (rows[:, 0].reshape(-1) == 2 * np.arange(32)).all()
        assert (rows[:, 1, 1:] == np.roll(rows[:, 0], -1, axis=0)[:, 1:]).all()
        first = np.roll(rows[:, 0], -1, axis=0)[:, 0]
        assert (rows[:, 1, 0] == first * 256 + first % 256).all()


def _compare(found: np.ndarray, x: np.ndarray) -> None:
    """Two units in the last place at most; what harts have instructions for is exact."""
    for column, wanted in enumerate((np.exp(x), np.log(np.abs(x)), np.sin(x), np.cos(x))):
        mine = found[:, column]
        finite = np.isfinite(wanted)
        assert (np.where(finite, 0, mine) == np.where(finite, 0, wanted)).all()
        assert (np.abs(mine - wanted)[finite] <= 2 * np.spacing(np.abs(wanted[finite]))).all()
    assert (found[:, 4] == np.fmod(x, 0.7)).all()
    assert (found[:, 5] == np.floor(x) + np.ceil(x) + np.trunc(x) + np.rint(x)).all()
    assert (found[:, 6] == np.sqrt(np.abs(x))).all()
    power = np.power(np.abs(x.astype(np.float32)), np.float32(1.7))
    assert (np.abs(found[:, 7].astype(np.float32) - power) <= np.spacing(power)).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_program_holds_only_what_it_calls(name: str, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("#include <string.h>\nvoid k(unsigned long id, char *o) { o[0] = strlen(o); }\n")
    elf = ElfFile(compile_kernels(tmp_path / "k.c", compiler=name), 64)
    names = {each.name for each in elf.symbol_table(SHT_SYMTAB)}
    assert {"k", "strlen"} <= names
    assert not {"refsi_printf", "exp"} & names


@pytest.mark.parametrize("name", NAMES)
def test_other_languages(name: str, tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(
        "#include <math.h>\n#include <softcard_refsi.h>\ntemplate<class T> static T twice(T x) { return x + x; }\n"
        "struct Base { virtual int f() { return 1; } };\n"
        'extern "C" void k(unsigned long id, int *o) { Base b; o[id] = twice(int(id)) + b.f(); }\n'
    )
    (tmp_path / "k.s").write_text(".globl k\nk: li t0, 5\nsw t0, 0(a1)\nret\n")
    reported: list[str] = []
    for file, wanted in (("k.cpp", [1, 3, 5, 7]), ("k.s", [5, 0, 0, 0])):
        out = np.zeros(4, np.int32)
        with RefSi.open() as device:
            program = device.load_elf(compile_kernels(tmp_path / file, compiler=name, warn=reported.append))
            assert program.kernels == ("k",)
            device.launch("k", 4, [out])
        assert out.tolist() == wanted
    assert not reported


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("k.c", "void k( {", "ziglang refused the source\n"),
        ("k.c", "static int x;", "k.c has no kernel: make one of its functions global"),
        ("k.c", "double nobody(double x); double k(double x) { return nobody(x); }", "undefined symbol: nobody"),
        ("k.py", "", "k.py must be a source file with one of the suffixes .c, .cc"),
    ],
)
def test_what_is_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(CompileError) as caught:
        compile_kernels(tmp_path / name)
    assert message in str(caught.value)


def test_messages_name_the_file_as_the_caller_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.c").write_text("void k(unsigned long id) { int unused; }\n")
    reported: list[str] = []
    compile_kernels("k.c", options=["-Wall"], warn=reported.append)
    assert reported[0].startswith("k.c:1:32: warning: ")
    with pytest.raises(CompileError, match=r"k\.c:1:32: error: ") as caught:
        compile_kernels("k.c", options=["-Wall", "-Werror"])
    assert str(tmp_path) not in str(caught.value)


def test_compilers_that_there_are_not(monkeypatch: pytest.MonkeyPatch, source: Path) -> None:
    with pytest.raises(NoCompiler, match=r"unknown compiler 'clang-61'; did you mean .*'clang-16'"):
        compile_kernels(source, compiler="clang-61")
    monkeypatch.setattr(compile, "riscv_compilers", lambda: ())
    with pytest.raises(NoCompiler, match=r"pip install 'softcard\[kernels\]'"):
        compile_kernels(source)


def test_the_commands(source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["refsi", "build", str(source), "-o", str(tmp_path / "k.elf"), "--option=-DUNUSED"]) == 0
    assert capfd.readouterr().out == f"{tmp_path}/k.elf: functions, talk, dma\n"
    words = ["dma", "--grid", "4", "--arg", "i32:16", "--arg", "i32:8:range", "--arg", "2"]
    for file in (tmp_path / "k.elf", source):
        assert main(["run", str(file), *words]) == 0
        assert "argument 0, int32[16]: 0 2" in capfd.readouterr().out
    for missing, reported in ((tmp_path / "none.c", "No such file or directory"), (tmp_path, "Is a directory")):
        assert main(["refsi", "build", str(missing)]) == 2
        assert capfd.readouterr().err == f"error: cannot read {missing}: {reported}\n"


def test_linking_elsewhere_says_what_to_do(source: Path) -> None:
    with RefSi.open() as device, pytest.raises((WireError, SoftcardError), match=r"--image-base=0x10000"):
        device.load_elf(_linked_at(0x800_0000, source))


def _linked_at(base: int, source: Path) -> bytes:
    data = bytearray(compile_kernels(source))
    header = int.from_bytes(data[32:40], "little")
    for number in range(int.from_bytes(data[56:58], "little")):
        place = header + 56 * number + 16
        address = int.from_bytes(data[place : place + 8], "little")
        data[place : place + 8] = (address + base).to_bytes(8, "little")
    return bytes(data)


# -- parameters that are floats

FLOATS = """
typedef const float real;
void mix(unsigned long id, double *o, real a, int n, double b, volatile float c, long last)
{
    o += 5 * id, o[0] = a, o[1] = n, o[2] = b, o[3] = c, o[4] = last;
}
void grid(unsigned long x, unsigned long y, float a, double *o) { o[2 * y + x] = a + x; }
"""
MIX = ("u64", "ptr", "f32", "i32", "f64", "f32", "i64")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("debug", ["-gdwarf-5", "-gdwarf-4", "-g0"])
def test_floats_are_passed_as_c_does(name: str, debug: str, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(FLOATS)
    data = compile_kernels(tmp_path / "k.c", compiler=name, options=[debug])
    with RefSi.open() as device:
        device.load_elf(data)
        mix, grid = device.kernel("mix"), device.kernel("grid")
        assert (mix.parameters is None) == (debug == "-g0")
        if mix.parameters is None:
            mix, grid = device.kernel("mix", MIX), device.kernel("grid", ("u64", "u64", "f32", "ptr"))
        out = np.zeros((4, 5))
        for a, b, c in ((1.5, 0.1, np.float32(0.1)), (2, np.float32(0.1), -3)):
            device.launch(mix, 4, [out, a, -7, b, c, -8])
            assert (out == [a, -7, b, np.float32(c), -8]).all()
        square = np.zeros(4)
        device.launch(grid, (2, 2), [0.5, square])
        assert square.tolist() == [0.5, 1.5, 0.5, 1.5]
        with pytest.raises(WireError, match=r"a Buffer cannot be passed for a parameter of type f32.*at argument 1"):
            device.launch(mix, 1, [out, device.zeros(4), 1, 2.0, 2.0, 3])


def test_debug_information_of_any_bytes(source: Path) -> None:
    data = compile_kernels(source)
    wanted = signatures(data)
    assert wanted["dma"] == ("u64", "ptr", "ptr", "u64")
    known = {"word", "...", "ptr", "f32", "f64", *WHOLE}
    elf = ElfFile(data, 64)
    rng = np.random.default_rng(5)
    for name in (".debug_info", ".debug_abbrev", ".debug_str"):
        start, size = elf.extent(elf.section(name))
        for _ in range(60):
            bad = bytearray(data)
            for place in rng.integers(start, start + size, 3):
                bad[place] = rng.integers(256)
            assert all(set(types) <= known for types in signatures(bytes(bad)).values())


KINDS = """
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
struct pair { int64_t a, b; };
enum colour { RED };
typedef const volatile int32_t *place;
void alone(void) {}
void any() {}
void kinds(uint64_t i, int8_t a, unsigned short b, bool c, enum colour d, place e, float f, double g, char h) {}
void whole(uint64_t i, struct pair p, int32_t *out) { *out = p.a + p.b; }
void many(uint64_t i, int32_t *out, int n, ...) { va_list l; va_start(l, n); *out = va_arg(l, int) + n; va_end(l); }
void k(uint64_t i, int32_t a, int32_t *x, int32_t *y) { y[i] = a * x[i]; }
void bits(uint64_t i, uint32_t a, uint32_t *x) { x[i] = a; }
void of_grid(uint64_t i, uint64_t j, int32_t *x) { x[i] = j; }
"""


@pytest.fixture(scope="module")
def kinds() -> bytes:
    if not NAMES:
        pytest.skip("no compiler for RV64 is installed")
    with TemporaryDirectory() as folder:
        path = Path(folder, "kinds.c")
        path.write_text(KINDS, "utf-8")
        return compile_kernels(path, options=["-std=gnu11"])


def test_parameters_have_types(kinds: bytes) -> None:
    found = signatures(kinds)
    letters = {"u8", "i8"}
    assert found["kinds"][:8] == ("u64", "i8", "u16", "u8", found["kinds"][4], "ptr", "f32", "f64")
    assert found["kinds"][4] in ("i32", "u32")
    assert found["kinds"][8] in letters
    assert (found["alone"], found.get("any"), found["whole"]) == ((), None, ("u64", "word", "ptr"))
    assert found["many"] == ("u64", "ptr", "i32", "...")


@pytest.mark.parametrize(("name", "grid", "arguments", "reported"), [
    ("k", 4, 2, "kernel k takes 3 arguments after the instance (i32, ptr, ptr), but the launch passes 2"),
    ("k", 4, 5, "kernel k takes 3 arguments after the instance (i32, ptr, ptr), but the launch passes 5"),
    ("alone", 4, 1, "kernel alone takes 0 arguments after the instance, but the launch passes 1"),
    ("many", 4, 1,
     "kernel many takes at least 2 arguments after the instance (ptr, i32, ...), but the launch passes 1"),
    ("of_grid", (4, 2), 2, "takes 1 argument after the instance and the slice (ptr), but the launch passes 2"),
])  # fmt: skip
def test_as_many_arguments_as_the_kernel_takes(
    kinds: bytes, name: str, grid: Any, arguments: int, reported: str
) -> None:
    with RefSi.open() as device:
        device.load_elf(kinds)
        with pytest.raises(WireError, match=re.escape(reported)):
            device.launch(name, grid, [0] * arguments)
        with pytest.raises(WireError, match=r"kernel kinds takes 9 parameters .*, but RUN_KERNEL_SLICE passes 4"):
            device.launch_slices("kinds", 1)


def test_what_is_right_is_passed(kinds: bytes) -> None:
    with RefSi.open(lints="raise") as device:
        device.load_elf(kinds)
        x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
        device.launch("alone", 4)
        device.launch("any", 4, [1, 2, 3])
        device.launch("k", 4, [np.int32(3), x, y])
        assert y.tolist() == [0, 3, 6, 9]
        device.launch("whole", 1, [30, 4, y])  # a structure takes two registers
        assert y[0] == 34
        device.launch("many", 1, [y, 5, 6])
        assert y[0] == 11
        device.launch("of_grid", (4, 2), [y])
        assert y.tolist() == [1] * 4
        device.launch(device.kernel("k", ["u64", "ptr"]), 0, [x])  # whoever names parameters knows better


def test_arguments_of_another_type_than_parameters(kinds: bytes) -> None:
    with RefSi.open() as device:
        device.load_elf(kinds)
        x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
        for wrong in (np.float32(1), 2.5):
            name = type(wrong).__name__
            reported = (
                f"a {name} cannot be passed for a pointer, expected an array, a Buffer or an address, at argument 1"
            )
            with pytest.raises(WireError, match=reported):
                device.launch("k", 4, [3, wrong, y])
        with pytest.raises(
            WireError, match="a ndarray cannot be passed for a parameter of type i32, expected a number"
        ):
            device.launch("k", 4, [x, x, y])
        bits = np.zeros(4, np.uint32)
        reported = (
            "float-bits: argument 0 of kernel bits is a float32 for a parameter of type u32, which receives the bits of"
        )
        with pytest.warns(LintWarning, match=reported):
            device.launch("bits", 4, [np.float32(1), bits])
        assert bits.tolist() == [0x3F80_0000] * 4


PICOLIBC = pytest.mark.skipif(not compile.PICOLIBC.exists(), reason="needs picolibc-riscv64-unknown-elf")
FUNCTIONS = r"""
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <stdint.h>
static int by(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
void functions(uint64_t id, double *o, const double *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        double v = x[i];
        *o++ = pow(fabs(v), 1.7), *o++ = tan(v), *o++ = atan2(v, 2), *o++ = sinh(v / 1000), *o++ = cbrt(v);
        *o++ = log2(fabs(v)), *o++ = hypot(v, 3), *o++ = log1p(fabs(v)), *o++ = exp2(v / 1000), *o++ = lround(v);
    }
}
void sorted(uint64_t id, double *o, uint64_t n) { qsort(o, n, sizeof *o, by); }
void upper(uint64_t id, char *text) { text[id] = toupper(text[id]); }
"""


@PICOLIBC
@pytest.mark.parametrize("name", ["ziglang", "riscv64-unknown-elf-gcc"])
def test_what_our_library_has_not_comes_from_picolibc(name: str, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(FUNCTIONS)
    x = np.concatenate([np.random.default_rng(2).uniform(-b, b, 20) for b in (1e-3, 10.0, 700.0)])
    found, text = np.zeros((len(x), 10)), np.frombuffer(b"Ab9z", np.uint8).copy()
    with RefSi.open(engine="reference") as device:
        program = device.load_elf(compile_kernels(tmp_path / "k.c", compiler=name))
        assert sorted(program.kernels) == ["functions", "sorted", "upper"]
        device.launch("functions", 1, [found, x, len(x)])
        order = x.copy()
        device.launch("sorted", 1, [order, len(x)])
        device.launch("upper", 4, [text])
    assert (order == np.sort(x)).all()
    assert bytes(text) == b"AB9Z"
    size = np.abs(x)
    wanted = [np.power(size, 1.7), np.tan(x), np.arctan2(x, 2), np.sinh(x / 1000), np.cbrt(x), np.log2(size)]
    wanted += [np.hypot(x, 3), np.log1p(size), np.exp2(x / 1000)]
    for column, each in enumerate(wanted):
        assert (np.abs(found[:, column] - each) <= 2 * np.spacing(np.abs(each))).all(), column
    assert (found[:, 9] == np.sign(x) * np.floor(size + 0.5)).all()


@PICOLIBC
@pytest.mark.parametrize(
    ("body", "reported"),
    [
        (
            "*o = strtol(s, 0, 10)",
            r"k\.c needs thread-local variables \(such as errno, .*use functions without such variables",
        ),
        ("*o = *(long *)malloc(8)", "undefined symbol: __heap_start(.|\n)*harts have no heap, files or thread-local"),
    ],
)
def test_what_no_hart_has(body: str, reported: str, tmp_path: Path) -> None:
    source = f"#include <stdlib.h>\nvoid k(unsigned long id, const char *s, long *o) {{ {body}; }}\n"
    (tmp_path / "k.c").write_text(source)
    with pytest.raises(CompileError, match=reported):
        compile_kernels(tmp_path / "k.c", compiler="ziglang")


@pytest.mark.parametrize("name", ["ziglang", "riscv64-unknown-elf-gcc"])
def test_without_picolibc_it_is_said_what_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile, "PICOLIBC", tmp_path)
    (tmp_path / "k.c").write_text("#include <math.h>\nvoid k(unsigned long id, double *o) { *o = pow(*o, 2.5); }\n")
    reported = r"pow(.|\n)*come from picolibc, which is missing: apt install picolibc-riscv64-unknown-elf"
    with pytest.raises(CompileError, match=reported):
        compile_kernels(tmp_path / "k.c", compiler=name)


def test_a_device_compiles_text() -> None:
    with RefSi.open() as device:
        device.compile("void put(unsigned long n, long *x) { x[n] = n + N; }", options=["-DN=5"])
        x = np.zeros(4, np.int64)
        device.launch("put", 4, [x])
        assert x.tolist() == [5, 6, 7, 8]
        with pytest.raises(CompileError, match=r"kernels\.cpp"):
            device.compile("void put(", ".cpp")
        with pytest.raises(WireError, match=r"language is '\.rs', expected one of \.c, \.cc"):
            device.compile("", ".rs")
        with pytest.raises(WireError, match="source must be text, not a bytes"):
            device.compile(b"void f() {}")  # type: ignore[arg-type]
