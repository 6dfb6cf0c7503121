"""Benches that end their threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.device.hsa.rig import Bench


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(*arguments: Any, **options: Any) -> Bench:
        made.append(Bench(*arguments, **options))
        return made[-1]

    yield make
    for each in made:
        each.device.close()
