"""HIP source compiled at run time: indices, shared memory, atomics, shuffles, mathematics, printf, names of kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softcard.cli.running.kernel_files import Options, RawHeader, read_kernels
from softcard.core.errors import WireError
from softcard.host.compiling import CompileError
from softcard.host.hsa.compile import compile_hip, compilers
from softcard.host.hsa.gpu import Gpu

pytestmark = pytest.mark.oracle

SOURCE = r"""
#include <hip/hip_runtime.h>
template <typename T> __device__ T twice(T v) { return v + v; }

__global__ void saxpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
__global__ __launch_bounds__(64) void blocks(float *y, int *count, double *d, unsigned long long *mask)
{
    __shared__ float mine[64];
    int i = threadIdx.x;
    mine[i] = y[i];
    __syncthreads();
    y[i] = twice(mine[63 - i]) + __shfl_xor(mine[i], 1) * 100.0f + __shfl_down(mine[i], 2, 8) * 10000.0f;
    atomicAdd(count, i);
    atomicMax(count + 1, i);
    atomicAdd(d, 0.5);
    d[1 + i] = tanh(d[1 + i]) + (double)fmaxf(sinf(0.0f), gridDim.x);
    unsigned long odd = __ballot(i & 1);
    if (i == 0)
        mask[0] = odd, mask[1] = atomicCAS(mask + 2, 5ull, 7ull);
}
extern "C" __global__ void prints(int n)
{
    if (threadIdx.x >= n)
        printf("%s %d: %5.1f\n", "item", (int)threadIdx.x, threadIdx.x / 2.0);
}
void on_the_host() {}
"""


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("agent", ["gfx900", "gfx700", "gfx803"])
def test_kernels(agent: str, engine: str) -> None:
    if not any(each.name != "clang-15" for each in compilers()):
        pytest.skip("no compiler for HIP is installed")
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    values, count, mask = (np.arange(64) % 7).astype(np.float32), np.zeros(2, np.int32), np.array([0, 0, 5], np.uint64)
    d, lane = np.linspace(0, 1, 65), np.arange(64)
    with Gpu.open(agent, threads=1, engine=engine) as gpu:
        code = gpu.compile(SOURCE, ".hip")
        gpu.run(code, "saxpy", 100, 32, [2.0, x, y, 100])
        found = values.copy()
        gpu.run(code, "blocks", 64, 64, [found, count, d, mask])
        text = gpu.run(code, "prints", 64, 64, [62]).text
    assert np.array_equal(y, 2 * x + 1)
    down = np.where(lane % 8 + 2 < 8, np.roll(values, -2), values)
    assert np.array_equal(found, 2 * values[::-1] + 100 * values[lane ^ 1] + 10000 * down)
    assert (count.tolist(), d[0], mask.tolist()) == ([2016, 63], 32.0, [0xAAAAAAAAAAAAAAAA, 5, 7])
    np.testing.assert_allclose(d[1:], np.tanh(np.linspace(0, 1, 65)[1:]) + 1, rtol=1e-15)
    assert text == "item 62:  31.0\nitem 63:  31.5\n"


def test_a_file_and_its_kernels_names(tmp_path: Path) -> None:
    if not compilers():
        pytest.skip("no compiler for HIP is installed")
    file = tmp_path / "add.hip"
    ints, floats = (
        "__global__ void {}({} *x) {{ x[threadIdx.x] += {}; }}\n".format,
        "__global__ void add(float *x) {}\n",
    )
    file.write_text(ints("add", "int", 1) + floats + ints("addition", "int", 2))
    out = np.zeros(4, np.int32)
    with Gpu.open("gfx900", threads=1) as gpu:
        gpu.run(file, "_Z3addPi", 4, args=[out])
        gpu.run(file, "addition", 4, args=[out])
        assert out.tolist() == [3] * 4
        with pytest.raises(WireError, match="no kernel 'add'"):
            gpu.run(file, "add", 4, args=[out])
        with pytest.raises(WireError, match=r"language is '.c', expected .cl or .hip"):
            gpu.compile("", ".c")
    kernels = read_kernels(file, Options(), RawHeader())
    assert kernels.kernel("addition") == "_Z8additionPi"
    kernels.run("_Z8additionPi", (4,), None, [out], Options())
    assert out.tolist() == [5] * 4


def test_diagnostics_name_line_and_column() -> None:
    if not compilers():
        pytest.skip("no compiler for HIP is installed")
    with pytest.raises(CompileError, match=r"kernel\.hip:2:16: error: use of undeclared identifier 'y'"):
        compile_hip("__global__ void f(int *x) {\n    x[0] = 1 + y;\n}", "gfx900")


@pytest.mark.parametrize(
    "line", ["#include <no/such>", "int main() { return hipMalloc(0, 1); }", "void f() { k<<<1, 1>>>(); }"]
)
def test_a_whole_program_is_refused_with_what_to_do(line: str) -> None:
    if not compilers():
        pytest.skip("no compiler for HIP is installed")
    with pytest.raises(CompileError, match=r"kernels are compiled without .* --genco --offload-arch=gfx803 for its"):
        compile_hip(f"#include <hip/hip_runtime.h>\n__global__ void k() {{}}\n{line}\n", "gfx803")
    with pytest.raises(CompileError) as caught:
        compile_hip("#include <hip/hip_runtime.h>\n__global__ void k() { no(); }\n", "gfx803")
    assert "kernels alone" not in str(caught.value)
