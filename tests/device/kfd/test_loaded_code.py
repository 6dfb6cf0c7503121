"""Code that runs on an agent: found by its packets, counted apart from what lay there before, told when it goes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from softcard import Gpu
from softcard.core.event import Event
from softcard.device.hsa.events import CodeLoaded, PacketStarted
from softcard.device.kfd.loaded_code import CodeWatch, LoadedCode
from softcard.hsa import demo_code

GRID = 1000


class Reported:
    """A device with a watch, whose host has loaded a code object; what the watch tells."""

    def __init__(self, gpu: Gpu) -> None:
        self.events: list[Event] = []
        self.ran: list[tuple[LoadedCode, Mapping[int, int]]] = []
        self.gpu = gpu
        self.code = gpu.load(demo_code("gfx900"))
        self.watch = CodeWatch(gpu.device, lambda code, executions: self.ran.append((code, executions.counts)))
        gpu.device.probes.subscribe(self.events.append, CodeLoaded, PacketStarted)

    def run(self) -> int:
        x = np.ones(GRID, np.float32)
        return self.gpu.run(self.code, "saxpy", grid=GRID, group=64, args=[2.0, x, x]).instructions


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_what_ran_is_reported_once(engine: str) -> None:
    with Gpu.open("gfx900", count_instructions=True, engine=engine) as gpu:
        there = Reported(gpu)
        first, second = there.run(), there.run()
        assert not there.ran
        there.watch.close()
        there.watch.close()
        [(code, counts)] = there.ran
        assert sum(counts.values()) == first + second
        assert (code.agent, code.base) == ("gfx900", there.code.base)
        assert code.data[:4] == b"\x7fELF"
        assert ("saxpy", there.code.kernel("saxpy").image.entry + code.base) in [each[:2] for each in code.functions]
    loaded, *packets = there.events
    assert isinstance(loaded, CodeLoaded)  # before the first packet of it
    assert loaded.kernels["saxpy"] == there.code.kernel("saxpy").address
    assert [type(each) for each in packets] == [PacketStarted, PacketStarted]


def test_code_that_goes_takes_its_counts_with_it() -> None:
    with Gpu.open("gfx900", count_instructions=True) as gpu:
        there = Reported(gpu)
        first = there.run()
        base = there.code.base
        there.watch.unmapped(base - 4096, base)  # beside it
        there.watch.unmapped(base, base + 4096)
        second, third = there.run(), there.run()
        assert [sum(counts.values()) for _, counts in there.ran] == [first]
        there.watch.close()
        assert [sum(counts.values()) for _, counts in there.ran] == [first, second + third]
    assert [type(each) for each in there.events].count(CodeLoaded) == 2


def test_code_without_a_header_is_taken_as_it_is() -> None:
    with Gpu.open("gfx900", count_instructions=True) as gpu:
        there = Reported(gpu)
        gpu.device.memory.write(there.code.base, bytes(4))  # no magic any more
        instructions = there.run()
        there.watch.close()
        kernel = there.code.kernel("saxpy")
        [(code, counts)] = there.ran
        assert (code.base, code.functions, sum(counts.values())) == (
            kernel.image.entry + there.code.base, (), instructions,
        )  # fmt: skip
        loaded = there.events[0]
        assert isinstance(loaded, CodeLoaded)
        assert loaded.kernels == {f"kernel at {kernel.address:#x}": kernel.address}


def test_uncounted_code_has_names() -> None:
    with Gpu.open("gfx900") as gpu:
        there = Reported(gpu)
        there.run()
        there.watch.close()
        [(_, counts)] = there.ran
        assert not counts
    assert isinstance(there.events[0], CodeLoaded)
