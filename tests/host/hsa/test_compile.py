"""OpenCL C compiled at run time, run, and compared with NumPy; what the header offers; what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from softcard.core.errors import AccessFault, BeyondModel, WireError
from softcard.host.compiling import CompileError, NoCompiler
from softcard.host.hsa import compile
from softcard.host.hsa.compile import Compiler, compile_opencl, compilers
from softcard.host.hsa.gpu import Gpu, Local

pytestmark = pytest.mark.oracle


def compiler(name: str) -> Compiler:
    for each in compilers():
        if each.name == name:
            return each
    pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="module")
def gpu() -> Iterator[Gpu]:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    with Gpu.open("gfx900", threads=1) as opened:
        yield opened


SQUARES = "kernel void squares(global int *out) { int i = get_global_id(0); out[i] = i * i; }"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ziglang", "clang-15", "clang-16"])
@pytest.mark.parametrize("agent", ["gfx701", "gfx801", "gfx804", "gfx901", "gfx906"])
def test_every_compiler_for_every_generation(name: str, agent: str) -> None:
    code = compile_opencl(SQUARES, agent, compiler=compiler(name))
    out = np.zeros(70, np.int32)
    with Gpu.open(agent, threads=1) as gpu:
        gpu.run(code, "squares", 70, args=[out])
    assert np.array_equal(out, np.arange(70) ** 2)


@pytest.mark.parametrize(
    ("name", "version"), [("clang-15", "V2"), ("clang-16", "V3"), ("clang-16", "V4"), ("ziglang", "V6")]
)
def test_code_object_versions(name: str, version: str) -> None:
    code = compile_opencl(SQUARES, "gfx900", version=version, compiler=compiler(name))
    out = np.zeros(64, np.int32)
    with Gpu.open("gfx900", threads=1) as gpu:
        executable = gpu.load(code)
        assert executable.code.version == version
        gpu.run(executable, "squares", 64, args=[out], offset=0)
    assert out[9] == 81


WORK_ITEMS = """
kernel void where(global ulong *out)
{
    size_t i = get_global_linear_id();
    global ulong *o = out + 12 * i;
    o[0] = get_global_id(0); o[1] = get_global_id(1); o[2] = get_local_id(0); o[3] = get_group_id(1);
    o[4] = get_global_size(0); o[5] = get_local_size(0); o[6] = get_num_groups(0); o[7] = get_global_offset(0);
    o[8] = get_work_dim(); o[9] = get_enqueued_local_size(0); o[10] = get_local_linear_id(); o[11] = get_global_size(3);
}
"""


@pytest.mark.parametrize("version", ["V4", "V5"])
def test_work_item_functions(gpu: Gpu, version: str) -> None:
    out = gpu.zeros((3, 10, 12), np.uint64)
    gpu.run(gpu.compile(WORK_ITEMS, version=version), "where", (10, 3), (4, 1), [out], offset=(100, 7))
    for y in range(3):
        for x in range(10):
            size = 2 if x >= 8 else 4
            assert out[y, x].tolist() == [100 + x, 7 + y, x % 4, y, 10, size, 3, 100, 2, 4, x % 4, 1]


MATHEMATICS = """
kernel void floats(global const float *in, global float *out, int n)
{
    size_t i = get_global_id(0);
    float x = in[i];
    float r[] = {
        fabs(x), floor(x), ceil(x), trunc(x), rint(x), sqrt(fabs(x)), fma(x, x, 1.0f), fmin(x, 1.0f), fmax(x, 1.0f),
        clamp(x, -1.0f, 2.0f), copysign(2.0f, x), round(x), mad(x, 2.0f, 1.0f), exp(x), exp2(x), log(fabs(x) + 1),
        sin(x), cos(x), pow(fabs(x), 1.5f), rsqrt(fabs(x) + 1), fmod(x, 3.0f), dot((float4)(x, 1, 2, 3), (float4)(x))
    };
    for (int k = 0; k < 22; k++)
        out[22 * i + k] = r[k];
}
"""


@pytest.mark.slow
def test_mathematics(gpu: Gpu) -> None:
    x = np.linspace(-6, 6, 64, dtype=np.float32)
    out = gpu.zeros((64, 22))
    gpu.run(gpu.compile(MATHEMATICS), "floats", 64, args=[x, out, 64])
    a = np.abs(x)
    exact = [a, np.floor(x), np.ceil(x), np.trunc(x), np.rint(x)]
    for number, expected in enumerate(exact):
        assert np.array_equal(out[:, number], expected)
    x64 = x.astype(np.float64)
    near = [
        np.sqrt(a), x64 * x64 + 1, np.minimum(x, 1), np.maximum(x, 1), np.clip(x, -1, 2), np.copysign(2, x),
        np.trunc(x + np.copysign(0.5, x)), x64 * 2 + 1, np.exp(x64), np.exp2(x64), np.log(a.astype(np.float64) + 1),
        np.sin(x64), np.cos(x64), a.astype(np.float64) ** 1.5, 1 / np.sqrt(a.astype(np.float64) + 1),
        np.fmod(x64, 3), x64 * x64 + 6 * x64,
    ]  # fmt: skip
    for number, expected in enumerate(near, len(exact)):
        np.testing.assert_allclose(out[:, number], expected, rtol=2e-5, atol=2e-5, err_msg=str(number))


ATOMICS = """
kernel void count(global int *sum, global uint *most, local int *mine, global atomic_int *next, global long *wide)
{
    int id = get_local_id(0);
    if (id == 0) mine[0] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(mine, id);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id == 0) atomic_add(sum, mine[0]);
    atomic_max(most, (uint)get_global_id(0));
    atomic_fetch_add_explicit(next, 2, memory_order_relaxed, memory_scope_device);
    atomic_inc(wide);
    atomic_cmpxchg(sum + 1, 0, 7);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["gfx700", "gfx900"])
def test_atomics(agent: str) -> None:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    with Gpu.open(agent, threads=2) as gpu:
        total, most, following, wide = (gpu.zeros(2, kind) for kind in (np.int32, np.uint32, np.int32, np.int64))
        gpu.run(gpu.compile(ATOMICS), "count", 512, 128, [total, most, Local(4), following, wide])
        assert total.tolist() == [4 * (127 * 128 // 2), 7]
        assert (most[0], following[0], wide[0]) == (511, 1024, 512)


VECTORS = """
kernel void vectors(global const uchar4 *in, global float4 *out, global uint *bits, global double2 *wide)
{
    size_t i = get_global_id(0);
    float4 v = convert_float4(in[i]);
    out[i] = clamp(v * 2.0f, (float4)(10.0f), (float4)(300.0f)) + max(v, v.wzyx);
    bits[i] = as_uint(v.x) ^ rotate((uint)in[i].y, 28u) ^ mul_hi(0x80000000u, (uint)in[i].z) ^ popcount((uint)in[i].w);
    wide[i] = fma((double2)(v.x, v.y), (double2)(0.5, 0.25), sqrt((double2)(v.z, v.w)));
}
"""


@pytest.mark.slow
def test_vectors(gpu: Gpu) -> None:
    data = np.random.default_rng(2).integers(0, 256, (64, 4)).astype(np.uint8)
    out, bits, wide = gpu.zeros((64, 4)), gpu.zeros(64, np.uint32), gpu.zeros((64, 2), np.float64)
    gpu.run(gpu.compile(VECTORS), "vectors", 64, args=[data, out, bits, wide])
    v = data.astype(np.float32)
    assert np.array_equal(out, np.clip(v * 2, 10, 300) + np.maximum(v, v[:, ::-1]))
    _, y, z, w = data.astype(np.uint32).T
    ones = np.array([int(each).bit_count() for each in w], np.uint32)
    assert np.array_equal(bits, v[:, 0].view(np.uint32) ^ (y << 28 | y >> 4) ^ z >> 1 ^ ones)
    assert np.array_equal(wide, v[:, :2] * np.array([0.5, 0.25]) + np.sqrt(v[:, 2:].astype(np.float64)))


def test_a_source_file_is_compiled(gpu: Gpu, tmp_path) -> None:
    (tmp_path / "squares.cl").write_text(SQUARES)
    out = np.zeros(64, np.int32)
    for _ in range(2):
        gpu.run(tmp_path / "squares.cl", "squares", 64, args=[out])
    assert out[7] == 49


def test_a_source_file_is_named_where_it_is_wrong(gpu: Gpu, tmp_path) -> None:
    """Each of two with the same text."""
    for name in ("first.cl", "second.cl"):
        (tmp_path / name).write_text("kernel void f(global int *out) {\n    out[get_global_id(0) - (1l << 34)] = 1;\n}")
        with pytest.raises(AccessFault, match=rf"at pc 0x\w+ \(f\+0x\w+, [^)]*/{name}:2\), at"):
            gpu.run(tmp_path / name, "f", 1, args=[np.zeros(64, np.int32)])
    (tmp_path / "no.cl").write_text("kernel void f(global int *x) {\n    y[0] = 1;\n}")
    with pytest.raises(CompileError, match=r"no\.cl:2:5: error: use of undeclared identifier 'y'"):
        gpu.run(tmp_path / "no.cl", "f", 1, args=[np.zeros(64, np.int32)])


def test_options_reach_the_compiler(gpu: Gpu) -> None:
    out = np.zeros(64, np.int32)
    source = "kernel void f(global int *out) { out[get_global_id(0)] = NUMBER; }"
    gpu.run(gpu.compile(source, options=["-DNUMBER=42"]), "f", 64, args=[out])
    assert (out == 42).all()


def test_the_same_source_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    first = compile_opencl(SQUARES + " // once", "gfx900")
    monkeypatch.setattr(compile, "_compiled", None)
    assert compile_opencl(SQUARES + " // once", "gfx900") == first


def test_diagnostics_name_line_and_column(gpu: Gpu) -> None:
    with pytest.raises(CompileError, match=r"kernel\.cl:2:5: error: use of undeclared identifier 'y'"):
        gpu.compile("kernel void f(global int *x) {\n    y[0] = 1;\n}")


ADDING = "kernel void add(global int *x, int n) { int i = get_global_id(0); if (i < n) x[i] += n; }"
HIP_ADDING = """
__device__ __attribute__((noinline)) void add_to(int *p, int n) { *p += n; }
__global__ void add(int *x, int n) { int i = threadIdx.x, y = x[i]; if (i < n) add_to(&y, n); x[i] = y; }
"""
CALLS = """
__attribute__((noinline)) void shift(int *p, int n) { for (int i = 0; i < 8; i++) p[i] += n; }
__attribute__((noinline)) int sum(int n)
{
    int a[8];
    for (int i = 0; i < 8; i++) a[i] = i;
    shift(a, n);
    return a[n & 7];
}
kernel void add(global int *x, int n) { int i = get_global_id(0); if (i < n) x[i] = sum(n) - 5; }
"""


@pytest.mark.parametrize(
    ("agent", "source", "language", "option"),
    [("gfx803", ADDING, ".cl", "-O0"), ("gfx803", HIP_ADDING, ".hip", "-O0"), ("gfx700", CALLS, ".cl", "-O2")],
    ids=["opencl", "hip", "calls"],
)
def test_functions_find_private_memory_on_generations_without_aperture_registers(
    agent: str, source: str, language: str, option: str
) -> None:
    """In V4, which is the default; V5 and V6 would read the bases at null, and are refused."""
    compiler("ziglang")
    x = np.zeros(64, np.int32)
    with Gpu.open(agent, threads=1) as gpu:
        code = gpu.compile(source, language, options=[option])
        assert code.code.version == "V4"
        gpu.run(code, "add", 64, 64, [x, 5])
        assert x.tolist() == [5] * 5 + [0] * 59
        message = (
            rf"ziglang miscompiles \w+ in code objects V5 for {agent}: it takes the base of LDS or private "
            rf"memory from address 0, expected from the kernel's hidden arguments; compile with V4 "
            rf"\(-mcode-object-version=4\), the default for {agent}"
        )
        with pytest.raises(BeyondModel, match=message):
            gpu.compile(source, language, options=[option, "-mcode-object-version=5"])


def test_an_option_chooses_the_code_object_version(gpu: Gpu) -> None:
    for options, version in ((["-mcode-object-version=4"], "V4"), ([], "V5")):
        code = gpu.compile(WORK_ITEMS, options=options)
        assert code.code.version == version
        out = gpu.zeros((1, 10, 12), np.uint64)
        gpu.run(code, "where", (10, 1), (5, 1), [out], offset=(100, 7))
        assert out[0, :, 0].tolist() == list(range(100, 110))
        assert out[0, 0, 8] == 2
    with pytest.raises(
        WireError, match="version V5 and the option -mcode-object-version=4 differ: give only one of them"
    ):
        gpu.compile(SQUARES, options=["-mcode-object-version=4"], version="V5")
    with pytest.raises(WireError, match="unknown code object version 'Vnone'"):
        gpu.compile(SQUARES, options=["-mcode-object-version=none"])


def test_kernels_without_such_functions_are_compiled_in_v5_for_every_generation() -> None:
    source = (
        "kernel void f(global int *x) { int a[16]; for (int i = 0; i < 16; i++) a[x[i] & 15] = i; x[0] = a[x[1]]; }"
    )
    assert compile_opencl(source, "gfx700", version="V5", compiler=compiler("ziglang"))


INLINE = """{} float f(float x) {{ return x + 1; }}
kernel void k(global float *x) {{ x[get_global_id(0)] = f(x[0]); }}"""


@pytest.mark.parametrize(("name", "words"), [("ziglang", "inline"), ("clang-15", "extern inline")])
def test_inline_functions_link_without_optimisation(gpu: Gpu, name: str, words: str) -> None:
    """As GNU C has them and as C99 has, since other compilers of OpenCL C link both."""
    x = np.zeros(1, np.float32)
    gpu.run(compile_opencl(INLINE.format(words), "gfx900", options=["-O0"], compiler=compiler(name)), "k", 1, args=[x])
    assert x[0] == 1


def test_inline_functions_that_are_not_there_are_refused(gpu: Gpu) -> None:
    source = "inline float f(float x); kernel void k(global float *x) { x[0] = f(x[0]); }"
    with pytest.raises(CompileError, match=r"undefined \w+ ?symbol: f"):
        gpu.compile(source, options=["-O0"])


WARNED_OF = """static five(void) { return 5; }
typedef struct { int a; } one; typedef struct { int b; } other;
void set(one *p) { p->a = 3; }
kernel void k(global ulong *x)
{
    global uint2 *y = x;
    ulong place = x;
    other v;
    set(&v);
    y[0] = (uint2)(v.b, place == (ulong)x);
    x[1] = five();
}
"""


def test_what_other_compilers_warn_of_is_no_error(gpu: Gpu) -> None:
    """Pointers to other types, integers as pointers, no type: unless that is asked for."""
    x = np.zeros(2, np.uint64)
    gpu.run(gpu.compile(WARNED_OF), "k", 1, args=[x])
    assert x.tolist() == [1 << 32 | 3, 5]
    with pytest.raises(CompileError, match="incompatible pointer types"):
        gpu.compile(WARNED_OF, options=["-Werror=incompatible-pointer-types"])
    with pytest.raises(CompileError, match="changes address space of pointer"):
        gpu.compile("constant int t[1] = {1}; kernel void k(global int *x) { int *p = t; x[0] = *p; }")
    with pytest.raises(CompileError, match="undeclared"):
        gpu.compile("kernel void k(global int *x) { x[0] = nobody(1); }")


def test_functions_that_nobody_has_are_refused_by_the_linker_or_before(gpu: Gpu) -> None:
    with pytest.raises(CompileError):
        gpu.compile("float erf(float x); kernel void f(global float *x) { x[0] = erf_nobody(x[1]); }")


def test_versions_that_cannot_be_written() -> None:
    with pytest.raises(BeyondModel, match="ziglang writes code objects V4, V5, V6, not V2"):
        compile_opencl(SQUARES, "gfx900", version="V2", compiler=compiler("ziglang"))
    with pytest.raises(WireError, match="unknown code object version 'V7', expected one of V2, V3, V4, V5, V6"):
        compile_opencl(SQUARES, "gfx900", version="V7")


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile, "compilers", lambda: ())
    with pytest.raises(NoCompiler, match=r"pip install 'softcard\[kernels\]', or install clang and lld 15\+$"):
        compile_opencl(SQUARES, "gfx900")


def test_a_compiler_that_cannot_be_started() -> None:
    gone = Compiler("gone", ("/nowhere/clang",), ("/nowhere/ld",), "gone", ("V5",))
    with pytest.raises(NoCompiler, match="gone cannot be started: No such file"):
        compile_opencl(SQUARES + " // gone", "gfx900", compiler=gone)
