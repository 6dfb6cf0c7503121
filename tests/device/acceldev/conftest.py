"""A machine for every way in which user commands are executed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import Nop
from tests.device.acceldev.rig import ALL, Machine

WAYS: dict[str, dict[str, Any]] = {
    "shared": {},
    "calls": {"calls_only": True},
    "machine-code": {"listen": False},
    "reference": {"listen": False, "engine": "reference"},
    "threaded": {"listen": False, "execution": "threaded"},
}


@pytest.fixture(params=WAYS)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A started machine whose device has executed enough to use machine code, where it may."""
    made = Machine(**WAYS[request.param])
    made.run(*[Nop()] * 100, context=254)
    made.write(r.INTR, ALL)
    yield made
    made.device.close()
