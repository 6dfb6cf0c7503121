"""A GPU from the host: launches through AQL queues, queues and signals by hand, errors that name the kernel."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from softcard.core.errors import AccessFault, RuleError, SoftcardError, WireError
from softcard.core.event import Event
from softcard.core.lint import LintError, LintWarning
from softcard.device.hsa.events import PacketStarted
from softcard.device.hsa.queues.packets import BarrierPacket, FenceScope, KernelDispatchPacket, PacketType
from softcard.host.hsa import gpu as hsa
from softcard.host.hsa.gpu import Condition, Gpu, Local, demo_code

VECTORS = Path(__file__).parents[2] / "vectors" / "hsa-inspect"
AGENTS = ("gfx700", "gfx803", "gfx900")


@pytest.fixture(scope="module")
def gpu() -> Iterator[Gpu]:
    with Gpu.open("gfx900", threads=1) as opened:
        yield opened


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(hsa).failed == 0


# ---- one line ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("agent", AGENTS)
def test_one_line_runs_a_file(agent: str, engine: str, tmp_path: Path) -> None:
    (tmp_path / "saxpy.co").write_bytes(demo_code(agent))
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    with Gpu.open(agent, engine=engine) as gpu:
        result = gpu.run(tmp_path / "saxpy.co", "saxpy", grid=100, group=64, args=[2.0, x, y])
    assert np.array_equal(y, 2 * x + 1)
    assert result.kernel == "saxpy"
    assert result.instructions > 20


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
def test_every_demo_kernel(agent: str) -> None:
    rng = np.random.default_rng(1)
    with Gpu.open(agent, threads=1) as gpu:
        code = gpu.load(demo_code(agent))
        a, b = (rng.integers(-9, 9, (32, 32)).astype(np.float32) for _ in range(2))
        c = gpu.zeros((32, 32))
        gpu.run(code, "matmul", (32, 32), args=[a, b, c, 32])
        assert np.array_equal(c, a @ b)
        data = rng.integers(0, 256, 3000).astype(np.uint8)
        bins = np.zeros(256, np.int32)
        gpu.run(code, "histogram", 256, 128, [data, 3000, bins, Local(1024)])
        assert np.array_equal(bins, np.bincount(data, minlength=256))
        rows, out = rng.integers(-99, 99, (70, 16)).astype(np.int32), np.zeros((70, 16), np.int32)
        gpu.run(code, "sort_private", 70, args=[rows, out])
        assert np.array_equal(out, np.sort(rows, axis=1))
        steps = np.zeros((8, 8), np.uint32)
        gpu.run(code, "mandelbrot", (8, 8), (8, 8), [steps, 8, 50])
        assert steps.min() >= 1
        assert steps.max() == 50


def test_a_kernel_without_metadata() -> None:
    values = np.arange(64, dtype=np.float32)
    out = np.zeros(64, np.float32)
    tag = np.array([0, 5, 0, 0], np.uint8).tobytes()
    with Gpu.open("gfx803", threads=1) as gpu:
        args = [values, out, np.float32(1), np.int32(64), tag]
        gpu.run(VECTORS / "mesa3d.co", "scale", 64, args=args)
    # Work-item k hands on what its neighbour holds, 64 times, and the rows come out backwards.
    assert np.array_equal(out, values[::-1] + 5)


@pytest.mark.parametrize(
    ("name", "agent"),
    [("v2.co", "gfx803"), ("v3.co", "gfx700"), ("v4.co", "gfx900"), ("v5.co", "gfx906"), ("v6.co", "gfx900")],
)
def test_every_version_runs(name: str, agent: str) -> None:
    out = np.arange(70, dtype=np.int32)
    with Gpu.open(agent, threads=1) as gpu:
        gpu.run(VECTORS / name, "lookup", 70, args=[out])
    assert np.array_equal(out, np.array([2, 3, 5, 7])[np.arange(70) & 3])


def test_an_object_that_was_never_linked(gpu: Gpu) -> None:
    values = gpu.array(np.arange(64, dtype=np.int32))
    gpu.run(VECTORS / "relocatable.o", "plus", 64, args=[values, -3])
    assert np.array_equal(values, np.arange(64) - 3)


def test_global_offset_reaches_hidden_arguments(gpu: Gpu) -> None:
    x, y = np.arange(200, dtype=np.float32), np.zeros(200, np.float32)
    gpu.run(demo_code(), "saxpy", 100, args=[1, x, y], offset=50)
    assert np.array_equal(y, np.where((np.arange(200) >= 50) & (np.arange(200) < 150), x, 0))


def test_the_same_file_is_loaded_once(gpu: Gpu) -> None:
    x = gpu.zeros(64)
    gpu.run(demo_code(), "saxpy", 64, args=[1, x, x])
    before = len(gpu._loaded)
    gpu.run(demo_code(), "saxpy", 64, args=[1, x, x])
    assert len(gpu._loaded) == before


# ---- queues and signals --------------------------------------------------------------------------------------------


def test_launches_in_flight_on_a_queue_of_their_own() -> None:
    with Gpu.open("gfx900", threads=1, execution="manual") as gpu:
        kernel = gpu.load(demo_code()).kernel("saxpy")
        queue = gpu.queue(16)
        x, y = gpu.array(np.ones(64, np.float32)), gpu.zeros(64)
        launches = [gpu.dispatch(kernel, 64, args=[1, x, y], queue=queue) for _ in range(3)]
        assert [launch.index for launch in launches] == [0, 1, 2]
        assert not any(launch.is_done for launch in launches)
        assert y[0] == 0
        results = [launch.wait() for launch in launches]
        assert (y == 3).all()
        assert results[0].end <= results[1].start
        assert launches[0].wait() is results[0]


def test_a_packet_by_hand(gpu: Gpu) -> None:
    executable = gpu.load(demo_code())
    kernel = executable.kernel("saxpy")
    queue, done = gpu.queue(4), gpu.signal(1)
    x, y = gpu.array(np.arange(64, dtype=np.float32)), gpu.zeros(64)
    segments = gpu.pack(kernel, 64, 64, [3, x, y])
    assert segments.group_bytes == 0
    assert segments.kernarg[:4] == np.float32(3).tobytes()
    assert np.frombuffer(segments.kernarg, np.uint64, 2, 8).tolist() == [gpu.address(x), gpu.address(y)]
    kernarg = gpu.array(np.frombuffer(segments.kernarg, np.uint8))
    packet = KernelDispatchPacket(
        dimensions=1,
        workgroup_size_x=64,
        grid_size_x=64,
        kernel_object=kernel.address,
        kernarg_address=gpu.address(kernarg),
        completion_signal=done.address,
    )
    queue.submit(packet.pack())
    assert done.wait(Condition.EQ, 0) == 0
    assert np.array_equal(y, 3 * x)
    assert queue.load_read_index() == queue.load_write_index() == 1
    queue.destroy()
    with pytest.raises(RuleError, match="is not in device memory"):
        gpu.pack(kernel, 64, 64, [3, np.zeros(64, np.float32), y])


@pytest.mark.parametrize("execution", ["synchronous", "threaded"])
def test_launches_from_several_threads(execution: str) -> None:
    with Gpu.open("gfx900", threads=1, execution=execution) as gpu:
        code, ones = gpu.load(demo_code()), gpu.array(np.ones(64, np.float32))
        totals = [gpu.zeros(64) if number % 2 else np.zeros(64, np.float32) for number in range(4)]

        def work(total: np.ndarray) -> None:
            for _ in range(20):
                gpu.run(code, "saxpy", 64, args=[1, ones, total])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, totals))
        assert all((total == 20).all() for total in totals)


def test_a_barrier_waits_for_a_launch_on_another_queue() -> None:
    with Gpu.open("gfx803", threads=1, execution="manual") as gpu:
        kernel = gpu.load(demo_code("gfx803")).kernel("saxpy")
        first, second = gpu.queue(4), gpu.queue(4)
        x, y = gpu.array(np.ones(64, np.float32)), gpu.zeros(64)
        earlier = gpu.dispatch(kernel, 64, args=[1, x, y], queue=second)
        barrier = BarrierPacket(packet_type=PacketType.BARRIER_AND, dep_signal=(earlier.signal.address, 0, 0, 0, 0))
        first.submit(barrier.pack())
        later = gpu.dispatch(kernel, 64, args=[4, y, y], queue=first)
        later.wait()
        assert (y == 5).all()
        earlier.wait()


def test_header_bits_go_into_the_packet(gpu: Gpu) -> None:
    seen: list[PacketStarted] = []

    def listen(event: Event) -> None:
        if isinstance(event, PacketStarted):
            seen.append(event)

    x = gpu.zeros(64)
    cancel = gpu.device.probes.subscribe(listen)
    gpu.run(demo_code(), "saxpy", 64, args=[1, x, x], barrier=True, acquire=FenceScope.AGENT, release=FenceScope.NONE)
    cancel()
    packet = seen[0].packet
    assert isinstance(packet, KernelDispatchPacket)
    assert (packet.barrier, packet.acquire_scope, packet.release_scope) == (1, 1, 0)


def test_a_device_with_a_thread_of_its_own() -> None:
    with Gpu.open("gfx900", threads=1, execution="threaded") as gpu:
        x, y = gpu.array(np.arange(64, dtype=np.float32)), gpu.zeros(64)
        for _ in range(5):
            gpu.run(demo_code(), "saxpy", 64, args=[1, x, y])
        assert np.array_equal(y, 5 * x)


# ---- code ----------------------------------------------------------------------------------------------------------


def test_variables_of_an_executable(gpu: Gpu) -> None:
    executable = gpu.load(VECTORS / "v4.co")
    table = executable.variable("table", np.int32)
    assert table.tolist() == [2, 3, 5, 7]
    table[0] = 11
    out = gpu.zeros(64, np.int32)
    gpu.run(executable, "lookup", 64, args=[out])
    assert (out == 11).all()
    with pytest.raises(WireError, match="no symbol 'tabel'"):
        executable.address("tabel")
    with pytest.raises(WireError, match="expected a multiple of"):
        executable.variable("table", np.dtype("V3"))


def test_code_for_another_processor_is_refused(gpu: Gpu) -> None:
    with pytest.raises(RuleError, match="the code object is for gfx803, but the agent is gfx900"):
        gpu.load(demo_code("gfx803"))


@pytest.mark.parametrize("agent", ["gfx803", "gfx804"])
def test_processors_with_the_same_instructions_take_the_same_code(agent: str) -> None:
    with Gpu.open(agent, threads=1) as gpu:
        assert gpu.load(demo_code("gfx803")).kernels


def test_an_unloaded_executable_has_no_kernels(gpu: Gpu) -> None:
    executable = gpu.load(demo_code())
    executable.unload()
    executable.unload()
    with pytest.raises(RuleError, match="was unloaded"):
        executable.kernel("saxpy")


def test_a_file_that_is_none(gpu: Gpu, tmp_path: Path) -> None:
    with pytest.raises(WireError, match=r"cannot read .*none\.co: No such file"):
        gpu.run(tmp_path / "none.co", "saxpy", 64)
    with pytest.raises(WireError, match="expected 7f 45 4c 46"):
        gpu.load(b"nothing")


def test_code_that_is_none(gpu: Gpu) -> None:
    kernel = gpu.load(demo_code("gfx900")).kernel("saxpy")
    with pytest.raises(
        WireError, match="saxpy is a kernel, expected a code object or source: use dispatch for a kernel"
    ):
        gpu.run(kernel, "saxpy", 64)  # type: ignore[arg-type]


def test_demo_kernels_come_for_three_generations() -> None:
    assert demo_code("gfx701") == demo_code("gfx700")
    with pytest.raises(RuleError, match="no demo kernels exist for gfx1100"):
        demo_code("gfx1100")


# ---- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_a_fault_names_lane_address_pc_and_kernel(engine: str) -> None:
    with Gpu.open("gfx900", engine=engine, threads=1) as gpu:
        with pytest.raises(AccessFault) as caught:
            gpu.run(demo_code(), "broken", 64, args=[gpu.zeros(32), 20])
        text = str(caught.value)
        assert "write of 4 bytes" in text
        assert "at lane 20" in text
        assert "(broken+0x74, global_store_dword v[0:1], v2, off)" in text
        assert "at AQL packet 0, at queue 0, at kernel broken" in text


def test_after_an_error_launches_go_on_with_a_new_queue(gpu: Gpu) -> None:
    x, y = gpu.array(np.ones(64, np.float32)), gpu.zeros(64)
    for _ in range(2):
        with pytest.raises(AccessFault):
            gpu.run(demo_code(), "broken", 64, args=[x, 20])
        gpu.run(demo_code(), "saxpy", 64, args=[1, x, y])
    assert y[40] == 2


def test_a_queue_that_failed_stays_as_long_as_launches_are_waited_for() -> None:
    with Gpu.open("gfx900", threads=1, execution="manual") as gpu:
        code, x = gpu.load(demo_code()), gpu.zeros(64)
        broken = gpu.dispatch(code.kernel("broken"), 64, args=[x, 1])
        following = gpu.dispatch(code.kernel("saxpy"), 64, args=[1, x, x])
        with pytest.raises(AccessFault):
            broken.wait()
        gpu.run(code, "saxpy", 64, args=[1, x, x])
        assert len(gpu.device.queues) == 2
        with pytest.raises(
            RuleError, match="kernel saxpy was not run, since an earlier packet of its queue failed: write of 4"
        ):
            following.wait()
        assert len(gpu.device.queues) == 1


def test_errors_of_one_thread_are_no_errors_of_others() -> None:
    with Gpu.open("gfx803", threads=1) as gpu:
        code, ones = gpu.load(demo_code("gfx803")), gpu.array(np.ones(64, np.float32))

        def work(number: int) -> float:
            queue, total = gpu.queue(8), gpu.zeros(64)
            for _ in range(20):
                if number % 2:
                    with pytest.raises(AccessFault):
                        gpu.run(code, "broken", 64, args=[ones, 0])
                gpu.run(code, "saxpy", 64, args=[1, ones, total], queue=queue if number > 1 else None)
            return float(total.min())

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, range(4))) == [20] * 4


def test_waiting_again_for_a_launch_that_failed_raises_the_same_error(gpu: Gpu) -> None:
    kernel = gpu.load(demo_code()).kernel("broken")
    launch = gpu.dispatch(kernel, 64, args=[gpu.zeros(64), 1])
    texts = []
    for _ in range(2):
        with pytest.raises(AccessFault) as caught:
            launch.wait()
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_a_launch_behind_one_that_failed_never_completes(gpu: Gpu) -> None:
    executable, queue = gpu.load(demo_code()), gpu.queue(8)
    x = gpu.zeros(64)
    gpu.dispatch(executable.kernel("broken"), 64, args=[x, 1], queue=queue)
    following = gpu.dispatch(executable.kernel("saxpy"), 64, args=[1, x, x], queue=queue)
    with pytest.raises(SoftcardError, match="no memory there"):
        following.wait()
    queue.destroy()


def test_waiting_has_a_time_out() -> None:
    with Gpu.open("gfx900", threads=1, execution="manual") as gpu:
        queue, kernel = gpu.queue(4), gpu.load(demo_code()).kernel("saxpy")
        gate = gpu.signal(1)
        queue.submit(BarrierPacket(dep_signal=(gate.address, 0, 0, 0, 0)).pack())
        x = gpu.zeros(64)
        launch = gpu.dispatch(kernel, 64, args=[1, x, x], queue=queue)
        with pytest.raises(TimeoutError, match=r"kernel saxpy has not completed in 0\.01 seconds"):
            launch.wait(0.01)
        gate.store(0)
        assert launch.wait().kernel == "saxpy"


def test_a_kernel_that_does_not_end() -> None:
    with Gpu.open("gfx900", threads=1, step_limit=1000) as gpu:
        with pytest.raises(SoftcardError, match="1000 instructions") as caught:
            gpu.run(demo_code(), "mandelbrot", (8, 8), (8, 8), [gpu.zeros((8, 8), np.uint32), 8, 1 << 30])
        assert "at kernel mandelbrot" in str(caught.value)


@pytest.mark.parametrize(
    ("grid", "group", "error", "message"),
    [
        (0, None, WireError, "grid is \\(0,\\), expected sizes of 1 or more"),
        ((1, 2, 3, 4), None, WireError, "has 4 dimensions, expected 1 to 3"),
        (64.0, None, WireError, "grid is 64.0, expected a whole number, or up to three of them"),
        ((64, 1.5), None, WireError, "grid is \\(64, 1.5\\), expected a whole number, or up to three of them"),
        (64, "16", WireError, "group is '16', expected a whole number, or up to three of them"),
        (64, -1, WireError, "group is \\(-1,\\), expected sizes of 1 or more"),
        (64, 32, RuleError, "the work-group size is \\(32, 1, 1\\), but kernel matmul requires \\(16, 16, 1\\)"),
    ],
)
def test_sizes_that_cannot_be(gpu: Gpu, grid: int, group: int | None, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gpu.run(demo_code(), "matmul", grid, group, [gpu.zeros(64), gpu.zeros(64), gpu.zeros(64), 16])


def test_groups_larger_than_compiled_for(gpu: Gpu) -> None:
    """They run, as its registers suffice, and a lint tells of them."""
    x, y = gpu.array(np.ones(1024, np.float32)), gpu.zeros(1024)
    text = "the work-groups have 1024 work-items, but kernel saxpy was compiled for at most 256"
    with pytest.warns(LintWarning, match=f"group-beyond-kernel: {text}") as reported:
        gpu.run(demo_code(), "saxpy", 1024, 1024, [2, x, y])
    assert (y == 2).all()
    gpu.run(demo_code(), "saxpy", 1024, 256, [2, x, y])
    assert len(reported) == 1
    with Gpu.open("gfx900", threads=1, lints="raise") as strict:
        y = strict.zeros(1024)
        with pytest.raises(LintError, match=text):
            strict.run(demo_code(), "saxpy", 1024, 1024, [2, np.ones(1024, np.float32), y])
        assert not y.any()
        strict.run(demo_code(), "saxpy", 1024, 256, [2, np.ones(1024, np.float32), y])


def test_a_refused_launch_leaves_nothing_mapped(gpu: Gpu) -> None:
    before = [each.base for each in gpu.device.memory if each.name.startswith("array")]
    with pytest.raises(WireError, match="takes 3 arguments \\(float, float\\*, float\\*\\), not 2"):
        gpu.run(demo_code(), "saxpy", 64, args=[np.zeros(64, np.float32), np.zeros(64, np.float32)])
    assert [each.base for each in gpu.device.memory if each.name.startswith("array")] == before
