"""Defaults of the host: work-group sizes, call stacks, empty arrays, related processors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from softcard.core.errors import RuleError, WireError
from softcard.host.hsa.executable import fits
from softcard.host.hsa.gpu import Gpu, Kernel, demo_code
from softcard.host.hsa.launch import group_of, private_bytes


@pytest.mark.parametrize(
    ("kernel", "grid", "group"),
    [("saxpy", (100, 2, 1), (64, 1, 1)), ("saxpy", (10, 1, 1), (10, 1, 1)), ("matmul", (32, 32, 1), (16, 16, 1))],
)
def test_default_group(kernel: str, grid: tuple[int, int, int], group: tuple[int, int, int]) -> None:
    with Gpu.open() as gpu:
        assert group_of(gpu.load(demo_code()).kernel(kernel), grid, None) == group


def test_required_groups_that_cannot_be() -> None:
    image = SimpleNamespace(metadata=SimpleNamespace(required_workgroup_size=(1, 0, 1)))
    kernel: Any = SimpleNamespace(name="k", image=image)
    with pytest.raises(
        WireError, match=r"the size of work-groups that kernel k requires is \(1, 0, 1\), expected sizes of 1 or more"
    ):
        group_of(kernel, (64, 1, 1), None)


@pytest.mark.parametrize(
    ("dynamic", "stack", "expected"), [(False, None, 8), (True, None, 8 + 1024), (True, 64, 72), (False, 64, 72)]
)
def test_dynamic_stack(dynamic: bool, stack: int | None, expected: int) -> None:
    kernel = SimpleNamespace(image=SimpleNamespace(private_bytes=8, uses_dynamic_stack=dynamic))
    assert private_bytes(cast(Kernel, kernel), stack) == expected


def test_empty_arrays() -> None:
    with Gpu.open() as gpu:
        assert gpu.address(np.zeros(0)) == gpu.address(gpu.zeros((3, 0))) == 0


@pytest.mark.parametrize(
    ("code", "agent", "is_refused"),
    [
        ("gfx802", "gfx800", False),
        ("gfx804", "gfx803", False),
        ("gfx900", "gfx901", False),
        ("", "gfx700", False),
        ("gfx803", "gfx800", True),
        ("gfx900", "gfx906", True),
    ],
)
def test_equal_processors(code: str, agent: str, is_refused: bool) -> None:
    image: Any = SimpleNamespace(target=code, flagged="")
    if is_refused:
        with pytest.raises(RuleError, match=f"the code object is for {code}, but the agent is {agent}"):
            fits(image, agent)
    else:
        fits(image, agent)
