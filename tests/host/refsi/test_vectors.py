"""Kernels of vector instructions on a device."""

from __future__ import annotations

import numpy as np
import pytest

from tests.device.refsi.m1 import FOLDER
from understudy.core.errors import WireError
from understudy.host.refsi.refsi import RefSi


@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
def test_a_kernel_of_vector_instructions_adds(profile: str, engine: str) -> None:
    """300 elements an instance: two groups of 128, and 44 in the last round."""
    a, b = np.arange(600, dtype=np.int32), np.arange(600, dtype=np.int32) * -1000
    with RefSi.open(profile=profile, engine=engine) as device:
        device.load_elf((FOLDER / "kernels.elf").read_bytes())
        out = device.array(np.zeros(600, np.int32))
        device.launch("k_vecadd_rvv", 2, [device.array(a), device.array(b), out, 300])
        assert (out.array == a + b).all()


@pytest.mark.parametrize("vlen", [0, 100, 32, 1 << 20])
def test_widths_that_no_device_has(vlen: int) -> None:
    with pytest.raises(WireError, match=f"64 to 65536, not {vlen}"):
        RefSi.open(family="g", profile="refsidrv", vlen=vlen)
