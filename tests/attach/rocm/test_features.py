"""Parts of HIP's run-time library beyond the small programs: streams, events, graphs, modules, threads, peers."""

from __future__ import annotations

import re
import signal

import pytest

from tests.attach.rocm.rig import PATIENCE_S, hip_program, needs_compiler, needs_rocm, served
from tests.attach.rocm.test_programs import SDMA, all_right
from understudy.core.errors import AccessFault, BeyondModel
from understudy.device.kfd.events import QueueFailed
from understudy.device.kfd.node import PRODUCTS

pytestmark = [pytest.mark.oracle, pytest.mark.slow, needs_compiler, needs_rocm]
FEATURES = (
    "ordered", "pinned", "host_functions", "wide_atomics", "all_lds", "modules", "threads", "graphs", "boxes", "calls",
    "halves", "groups", "values", "prefetched", "cubes", "grids", "turns",
)  # fmt: skip


def features() -> str:
    return hip_program("features")


@pytest.mark.parametrize("agent", PRODUCTS)
def test_features(agent: str) -> None:
    more = () if agent == "gfx803" else ("textures",)
    sdma = {"gfx803": "1", "gfx900": "1", "gfx906": "0"}[agent]
    with served(agent, time_limit_seconds=PATIENCE_S) as there:
        all_right(there.run(features(), *FEATURES, *more, **{SDMA: sdma}), *FEATURES, *more)
        assert not there.seen(QueueFailed)


def test_the_reference_engine_runs_them() -> None:
    names = ("wide_atomics", "calls", "halves", "groups", "cubes")
    with served("gfx900", engine="reference", time_limit_seconds=PATIENCE_S) as there:
        all_right(there.run(features(), *names), *names)


def test_what_is_copied_between_agents() -> None:
    with served(*PRODUCTS, time_limit_seconds=PATIENCE_S) as there:
        all_right(there.run(features(), "peers"), "peers")


def test_text_of_many_lanes() -> None:
    with served("gfx900", time_limit_seconds=PATIENCE_S) as there:
        done = there.run(features(), "lines")
    said = done.stdout.splitlines()
    assert said.pop() == "lines: right", done.stderr
    expected = [f"line {i} of many: {i << 33} {i * 0.25 + 1:g}%" for i in range(0, 384, 3)]
    assert sorted(said) == sorted(expected)


def test_what_kernels_assert() -> None:
    with served("gfx900", time_limit_seconds=PATIENCE_S) as there:
        done = there.run(features(), "asserting")
        error = there.seen(QueueFailed)[-1].error
    assert done.returncode == -signal.SIGABRT
    assert re.search(
        r"asserting_kernel\(int\): Device-side assertion `threadIdx.x < n' failed", done.stdout + done.stderr
    )
    assert "at kernel _Z16asserting_kerneli" in str(error)


def test_a_kernel_fails_in_the_time_of_a_later_one() -> None:
    with served("gfx900", time_limit_seconds=PATIENCE_S) as there:
        done = there.run(features(), "last_turn")
        (failed,) = there.seen(QueueFailed)
    assert done.returncode == -signal.SIGABRT
    assert isinstance(failed.error, AccessFault)
    assert re.search(r"write of 4 bytes .*at work-group 0,0,0.*at kernel _Z12first_kernel", str(failed.error))


def test_tiled_images_are_refused() -> None:
    with served("gfx900", time_limit_seconds=PATIENCE_S) as there:
        done = there.run(features(), "pictures")
        error = there.seen(QueueFailed)[-1].error
    assert done.returncode == -signal.SIGABRT
    assert isinstance(error, BeyondModel)
    assert re.search(r"image_store: swizzle mode \d+ of the image is not modelled: it must be 0, linear", str(error))
