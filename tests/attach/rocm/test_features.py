"""Parts of HIP's run-time library beyond the small programs: streams, events, graphs, modules, threads, peers."""

from __future__ import annotations

import re
import signal

import pytest

from softcard.cli import main
from softcard.cli.attach.exec_rocm import environment
from softcard.core.checks import RACES
from softcard.core.errors import AccessFault, BeyondModel
from softcard.device.hsa.device import HsaDevice
from softcard.device.kfd.events import QueueFailed
from tests.attach.rocm.rig import AGENTS, TIMEOUT_S, hip_program, needs_compiler, needs_rocm, served
from tests.attach.rocm.test_programs import SDMA, all_right

pytestmark = [pytest.mark.oracle, pytest.mark.slow, needs_compiler, needs_rocm]
FEATURES = (
    "ordered", "pinned", "host_functions", "wide_atomics", "all_lds", "modules", "threads", "graphs", "boxes", "calls",
    "pointers", "halves", "groups", "values", "prefetched", "cubes", "grids", "turns",
)  # fmt: skip


def features() -> str:
    return hip_program("features")


@pytest.mark.parametrize("agent", AGENTS)
def test_features(agent: str) -> None:
    more = () if agent == "gfx803" else ("textures",)
    sdma = {"gfx906": "0", "gfx90a": "0"}.get(agent, "1")
    with served(agent, time_limit_seconds=TIMEOUT_S) as there:
        all_right(there.run(features(), *FEATURES, *more, **{SDMA: sdma}), *FEATURES, *more)
        assert not there.seen(QueueFailed)


def raced(*names: str, **variables: str) -> list[str]:
    """Return the kinds of races that are found while parts of the program run."""
    agents: list[HsaDevice] = []
    with served("gfx900", check="races", time_limit_seconds=TIMEOUT_S) as there:
        there.device.on_device = agents.append
        all_right(there.run(features(), *names, **environment(frozenset({RACES})), **variables), *names)
        return [each.kind for agent in agents for each in agent.findings]


@pytest.mark.parametrize("by_packet", ["0", "1"])
def test_values_that_streams_wait_for_order_them(by_packet: str) -> None:
    """By a kernel of the run-time library that polls the word, or by a barrier-value packet."""
    assert raced("values", "value_of_kernel", GPU_STREAMOPS_CP_WAIT=by_packet) == []


def test_values_that_are_written_too_early_order_nothing() -> None:
    assert raced("values_too_early") == ["write-read", "write-write"]


def test_the_reference_engine_runs_them() -> None:
    names = ("wide_atomics", "calls", "pointers", "halves", "groups", "cubes")
    with served("gfx900", engine="reference", time_limit_seconds=TIMEOUT_S) as there:
        all_right(there.run(features(), *names), *names)


def test_what_is_copied_between_agents() -> None:
    with served(*AGENTS, time_limit_seconds=TIMEOUT_S) as there:
        all_right(there.run(features(), "peers"), "peers")


def test_text_of_many_lanes() -> None:
    with served("gfx900", time_limit_seconds=TIMEOUT_S) as there:
        done = there.run(features(), "lines")
    said = done.stdout.splitlines()
    assert said.pop() == "lines: right", done.stderr
    expected = [f"line {i} of many: {i << 33} {i * 0.25 + 1:g}%" for i in range(0, 384, 3)]
    assert sorted(said) == sorted(expected)


def test_what_kernels_assert() -> None:
    with served("gfx900", time_limit_seconds=TIMEOUT_S) as there:
        done = there.run(features(), "asserting")
        error = there.seen(QueueFailed)[-1].error
    assert done.returncode == -signal.SIGABRT
    assert re.search(
        r"asserting_kernel\(int\): Device-side assertion `threadIdx.x < n' failed", done.stdout + done.stderr
    )
    assert "at kernel _Z16asserting_kerneli" in str(error)


def test_a_kernel_fails_in_the_time_of_a_later_one() -> None:
    with served("gfx900", time_limit_seconds=TIMEOUT_S) as there:
        done = there.run(features(), "last_turn")
        (failed,) = there.seen(QueueFailed)
    assert done.returncode == -signal.SIGABRT
    assert isinstance(failed.error, AccessFault)
    assert re.search(r"write of 4 bytes .*at work-group 0,0,0.*at kernel _Z12first_kernel", str(failed.error))


def test_tiled_images_are_refused() -> None:
    with served("gfx900", time_limit_seconds=TIMEOUT_S) as there:
        done = there.run(features(), "pictures")
        error = there.seen(QueueFailed)[-1].error
    assert done.returncode == -signal.SIGABRT
    assert isinstance(error, BeyondModel)
    assert re.search(r"image_store: swizzle mode \d+ of the image is not modelled, only 0 \(linear\) is", str(error))


def test_launches_that_the_library_refuses_are_reported(capfd: pytest.CaptureFixture[str]) -> None:
    """No packet comes of them: "no findings" alone would say that nothing is wrong."""
    assert main(["exec", "--agent", "gfx900", "--check", "memory", "--", features(), "too_large"]) == 0
    out, err = capfd.readouterr()
    assert out == "too_large: right\n"
    assert err.splitlines()[:2] == [
        "warning: the run-time library refused 1 launch: no kernel ran for it; check hipGetLastError after each launch",
        "warning: no kernel of the program ran, so nothing was checked",
    ]
    assert re.fullmatch(
        r"0 kernels ran.*; 1 launch refused by the run-time library; 0 instructions",
        err.splitlines()[2],
    )
    assert err.splitlines()[3:] == ["checked: nothing, since no kernel ran"]
    assert main(["exec", "--agent", "gfx900", "--check", "memory", "--", features(), "too_large", "calls"]) == 0
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 3, said
    assert re.fullmatch(r"1 kernel ran.*; 1 launch refused .*; [\d,]{4,} instructions", said[1])
    assert said[2] == "checked: no findings"
