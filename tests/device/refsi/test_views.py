"""Code that the host writes through a view is seen by the next buffer."""

from __future__ import annotations

import pytest

from softcard.core.space import Ram
from softcard.device.refsi.device import Views
from tests.device.refsi.m1 import OUT, Bench, entry


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_code_written_through_a_view(engine: str) -> None:
    bench = Bench("spec", engine=engine)
    view = bench.device.view(entry("k_poke"), 8)
    assert view is not None
    for _ in range(5):
        assert bench.run(*bench.kernel("k_poke", OUT, 0x11)).ok
    view[:8] = bytes.fromhex("6780000067800000")
    assert bench.run(*bench.kernel("k_poke", OUT, 0x33)).ok
    assert bench.r64(OUT)[0] == 0x11


def test_ranges_are_merged() -> None:
    views, ram = Views(), Ram(100)
    for first, last in ((10, 20), (40, 50), (20, 30), (60, 60), (45, 70)):
        views.add(ram.view[first:last])
    held = [n for n in range(100) if views.holds(ram.base_host + n, 1)]
    assert held == [*range(10, 30), *range(40, 70)]
    assert views.holds(ram.base_host, 11)
    assert not views.holds(ram.base_host + 30, 10)
