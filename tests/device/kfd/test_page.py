"""The page for users names everything that the driver answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from softcard.device.hsa import pm4
from softcard.device.kfd import drm, ioctls, sdma

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "hip.md"


@pytest.mark.parametrize(
    "names", [ioctls.Number, drm.Number, drm.Query, sdma.Opcode, pm4.Command], ids=lambda names: names.__qualname__
)
def test_the_page_names_what_is_answered(names: type[ioctls.Number]) -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## What the driver answers")[2].partition("\n## ")[0]
    said = set(text.split("`")[1::2])
    known = {"AMDGPU_INFO"} if names is drm.Number else set()
    assert {each.name for each in names} <= said | known
