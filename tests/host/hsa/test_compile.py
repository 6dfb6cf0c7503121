"""OpenCL C compiled at run time, run, and compared with NumPy; what the header offers; what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from understudy.core.errors import AccessFault, BeyondModel, WireError
from understudy.host.compiling import CompileError, NoCompiler
from understudy.host.hsa import compile
from understudy.host.hsa.compile import Compiler, compile_opencl, compilers
from understudy.host.hsa.gpu import Gpu, Local

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


def test_functions_that_nobody_has_are_refused_by_the_linker_or_before(gpu: Gpu) -> None:
    with pytest.raises(CompileError):
        gpu.compile("float erf(float x); kernel void f(global float *x) { x[0] = erf_nobody(x[1]); }")


def test_versions_that_cannot_be_written() -> None:
    with pytest.raises(BeyondModel, match="ziglang writes code objects V4, V5, V6, not V2"):
        compile_opencl(SQUARES, "gfx900", version="V2", compiler=compiler("ziglang"))
    with pytest.raises(WireError, match="no code object version 'V7': there are V2, V3, V4, V5, V6"):
        compile_opencl(SQUARES, "gfx900", version="V7")


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile, "compilers", lambda: ())
    with pytest.raises(NoCompiler, match=r"pip install 'understudy\[kernels\]', or install clang and lld 15\+$"):
        compile_opencl(SQUARES, "gfx900")


def test_a_compiler_that_cannot_be_started() -> None:
    gone = Compiler("gone", ("/nowhere/clang",), ("/nowhere/ld",), "gone", ("V5",))
    with pytest.raises(NoCompiler, match="gone cannot be started: No such file"):
        compile_opencl(SQUARES + " // gone", "gfx900", compiler=gone)
