"""Devices in the profile spec, which reports every broken rule."""

import pytest

from tests.device.refsi.m1 import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench("spec")


@pytest.fixture
def strict() -> Bench:
    """With data caches and instruction caches that only SYNC_CACHE synchronizes."""
    return Bench("spec", coherence="strict")
