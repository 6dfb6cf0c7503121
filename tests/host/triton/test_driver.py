"""Kernels of the real Triton on the virtual GPU, against NumPy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.host.triton import load_kernels

k = load_kernels()

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.testing import do_bench  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

import softcard.triton  # noqa: E402
from softcard.core.errors import BeyondModel, RuleError  # noqa: E402
from softcard.host.triton import runtime  # noqa: E402
from softcard.host.triton.launcher import card  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.slow(seconds=1)]
RNG = np.random.default_rng(7)


@pytest.fixture(scope="module", autouse=True)
def closed_at_the_end() -> Iterator[None]:
    yield
    softcard.triton.gpu().close()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64])
def test_arrays_of_every_type(dtype: Any):
    x, y = (RNG.integers(0, 60, 1000).astype(dtype) for _ in range(2))
    out = np.zeros_like(x)
    k.add[(4,)](x, y, out, 1000, BLOCK=256)
    assert np.array_equal(out, x + y)


@pytest.mark.parametrize("warps", [1, 2, 8, 16])
def test_numbers_of_warps(warps: int):
    x = RNG.standard_normal((3, 700)).astype(np.float32)
    out = np.zeros_like(x)
    k.softmax[(3,)](out, x, 700, 700, BLOCK=1024, num_warps=warps)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(
    ("value", "factor"), [(1.5, 2.0), (3, -2), (3, 1 << 40), (1.5, float("inf")), (2, True)], ids=str
)
def test_numbers_of_every_kind(value: float, factor: float):
    x = np.full(64, value, np.float64 if isinstance(value, float) else np.int64)
    k.scale[(1,)](x, factor, 64, BLOCK=64)
    assert (x == value * factor).all()


@pytest.mark.parametrize(
    ("dtype", "words", "values"),
    [
        (tl.bfloat16, np.array([0x3F80, 0xC040, 0x7F80], np.uint16), [1, -3, np.inf]),
        (tl.float8e5, np.array([0x3C, 0xC2, 0x01], np.uint8), [1, -3, 2**-16]),
        (tl.float8e4b8, np.array([0x40, 0xCC, 0x01], np.uint8), [1, -3, 2**-10]),
    ],
    ids=str,
)
def test_types_that_numpy_lacks(dtype: Any, words: Any, values: Any):
    tensor, out = triton.reinterpret(softcard.triton.Tensor(words), dtype), np.zeros(3, np.float32)
    k.convert[(1,)](tensor, out, 3, BLOCK=64)
    assert out.tolist() == values
    back = np.zeros_like(words)
    k.convert[(1,)](out, triton.reinterpret(softcard.triton.Tensor(back), dtype), 3, BLOCK=64)
    assert back.tolist() == words.tolist()


def test_matrix_product():
    a, b = (RNG.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    k.matmul[(2, 2)](a, b, c, 64, 64, 64, M=32, N=32, K=32, num_stages=2, waves_per_eu=2)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-2)


def test_tensor_descriptors():
    x = RNG.standard_normal((64, 64)).astype(np.float32)
    out = np.zeros_like(x)
    source, target = (TensorDescriptor(softcard.triton.Tensor(each), [64, 64], [64, 1], [32, 32]) for each in (x, out))
    k.copy_tile[(2, 2)](source, target, M=32, N=32)
    assert np.array_equal(out, 2 * x)


def test_flags_of_tensor_descriptors_are_those_of_triton():
    fields = TensorDescriptor.__dataclass_fields__
    flags = runtime.make_launcher.keywords["flags"]
    assert flags == tuple(name for name in fields if name not in ("base", "shape", "strides", "block_shape"))


def test_tensor_descriptors_of_the_device():
    x = RNG.standard_normal((60, 64)).astype(np.float32)
    out = np.zeros_like(x)
    k.copy_described[(2, 2)](x, out, 60, 64, M=32, N=32)
    assert np.array_equal(out, 2 * x)


def test_grids_and_num_programs():
    out = np.zeros(24, np.int32)
    k.where_am_i[(4, 3, 2)](out, BLOCK=1)
    assert out.tolist() == [x + 100 * y + 10000 * z for z in range(2) for y in range(3) for x in range(4)]
    k.where_am_i[(4, 0, 2)](out[:0], BLOCK=1)


def test_inline_assembly():
    x = np.arange(64, dtype=np.int32)
    out = np.zeros_like(x)
    k.shift_by_assembly[(1,)](x, out, BLOCK=64)
    assert np.array_equal(out, x << 3)


def test_cooperative_grids_without_a_barrier():
    counter = np.zeros(1, np.int32)
    k.count_all[(8,)](counter, launch_cooperative_grid=True, num_warps=1)
    assert counter[0] == 8


@pytest.mark.parametrize("warps", [1, 4])
def test_barriers_of_cooperative_grids(warps: int):
    x, out, counter = np.zeros((3, 16), np.int32), np.zeros((3, 16), np.int32), np.zeros(1, np.int32)
    k.meet[(16,)](x, counter, out, COUNT=16, ROUNDS=3, launch_cooperative_grid=True, num_warps=warps)
    assert (out == [[120 + 16 * turn] * 16 for turn in range(3)]).all()
    assert counter[0] == 48


def test_cooperative_grids_that_do_not_fit():
    counter = np.zeros(1, np.int32)
    text = "the cooperative grid has 1,217 programs, but gfx942 can execute 1,216 at a time with 8 warps"
    with pytest.raises(RuleError, match=text):
        k.count_all[(1217,)](counter, launch_cooperative_grid=True, num_warps=8)
    assert counter[0] == 0


def test_checks_that_need_an_order_of_programs():
    counter = np.zeros(1, np.int32)
    for check, text in {"races": "a check that tracks accesses", "waits": "a check that runs waves itself"}.items():
        with pytest.raises(BeyondModel, match=f"{text} runs the work-groups of a coop"), softcard.triton.check(check):
            k.count_all[(8,)](counter, launch_cooperative_grid=True, num_warps=1)
    with pytest.raises(BeyondModel, match="engine 'reference'"), softcard.triton.check("", engine="reference"):
        k.count_all[(8,)](counter, launch_cooperative_grid=True, num_warps=1)


def test_tuples_of_arguments():
    x, y, out = np.full(1, 3, np.float32), np.full(1, 5, np.float32), np.zeros(1, np.float32)
    k.sum_of[(1,)]((x, y), (2.0, 10.0), out)
    assert out[0] == 56


def test_tables_of_pointers():
    x, y, out = np.arange(64, dtype=np.float32), np.ones(64, np.float32), np.zeros(64, np.float32)
    table = np.array([softcard.triton.address(x), softcard.triton.address(y)], np.int64)
    k.sum_of_tables[(1,)](table, out, BLOCK=64)
    assert np.array_equal(out, x + 1)


def test_device_arrays_and_strided_views():
    gpu = softcard.triton.gpu()
    x, y = gpu.array(np.arange(300, dtype=np.float32)), np.arange(600, dtype=np.float32)
    out = np.zeros((2, 300), np.float32)
    k.add[(2,)](x, y[300:], out[1], 300, BLOCK=256)
    assert np.array_equal(out[1], x + y[300:])
    assert not out[0].any()


def test_autotuner_counts_instructions():
    tuned = triton.autotune([triton.Config({"BLOCK": size}) for size in (64, 1024)], key=["n"])(k.add)
    x, y = np.ones(4096, np.float32), np.ones(4096, np.float32)
    out = np.zeros_like(x)
    tuned[lambda meta: (triton.cdiv(4096, meta["BLOCK"]),)](x, y, out, 4096)
    assert (out == 2).all()
    assert tuned.best_config.kwargs["BLOCK"] == 1024


def test_autotuner_restores_arrays():
    tuned = triton.autotune([triton.Config({"BLOCK": size}) for size in (64, 128)], key=["n"], restore_value=["x"])(
        k.scale
    )
    x = np.ones(128, np.float32)
    tuned[lambda meta: (triton.cdiv(128, meta["BLOCK"]),)](x, 3.0, 128)
    assert (x == 3).all()


def test_heuristics():
    chosen = triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["n"])})(k.add)
    x, y, out = np.ones(100, np.float32), np.ones(100, np.float32), np.zeros(100, np.float32)
    chosen[(1,)](x, y, out, 100)
    assert (out == 2).all()


def test_benchmarks_count_thousands_of_instructions():
    x = np.ones(1024, np.float32)
    run = lambda size: do_bench(lambda: k.scale[(1024 // size,)](x, 1.0, 1024, BLOCK=size))  # noqa: E731
    assert 0 < run(1024) < run(64)


def test_streams_and_events():
    interface = triton.runtime.driver.active.get_device_interface()
    x, stream = np.ones(1024, np.float32), interface.Stream()
    begin, end = interface.Event(enable_timing=True), interface.Event(enable_timing=True)
    begin.record()
    with interface.stream(stream):
        k.scale[(4,)](x, 3.0, 1024, BLOCK=256)
        assert triton.runtime.driver.active.get_current_stream(0) == stream.cuda_stream
    stream.synchronize()
    end.record()
    assert (x == 3).all()
    assert triton.runtime.driver.active.get_current_stream(0) == 0
    assert begin.elapsed_time(end) > 0.1
    assert end.query()
    assert stream.cuda_stream in card().streams


def test_hooks_of_launches():
    seen: list[Any] = []
    triton.knobs.runtime.launch_enter_hook.add(seen.append)
    try:
        k.scale[(1,)](np.ones(64, np.float32), 3.0, 64, BLOCK=64)
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(seen.append)
    assert [each.get()["name"] for each in seen] == ["scale"]


def test_libraries_of_the_device():
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    out = np.zeros_like(x)
    k.uses_a_library[(1,)](x, out, BLOCK=64)
    assert abs(out[-1] - 0.9953223) < 1e-5
