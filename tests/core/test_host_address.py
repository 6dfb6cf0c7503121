"""Addresses of arrays are those that NumPy tells."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.core.space import host_address

READ_ONLY = np.arange(4)
READ_ONLY.setflags(write=False)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(4), np.arange(16, dtype=np.uint8)[3:], np.arange(16)[::2], np.arange(6).reshape(2, 3).T,
        np.zeros(0, np.uint32), np.zeros((0, 4), np.uint32), READ_ONLY, np.array(5),
    ],
    ids=["whole", "part", "gaps", "transposed", "empty", "no-rows", "read-only", "scalar"],
)  # fmt: skip
def test_an_address_is_that_of_the_first_element(array: np.ndarray) -> None:
    assert host_address(array) == array.ctypes.data
