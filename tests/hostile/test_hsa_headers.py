"""Kernel headers and metadata with extreme numbers, from the file to the end of a launch."""

from __future__ import annotations

import pytest

from softcard.host.hsa.gpu import Gpu
from tests.hostile import headers


@pytest.mark.slow
@pytest.mark.parametrize("version", ["V1", "V2", "V3", "V5", "mesa3d"])
def test_headers_of_any_kind(version: str) -> None:
    with Gpu.open("gfx900", engine="reference", step_limit=1000) as gpu:
        said = [headers.check_file(gpu, name, data) for name, data in headers.files(version)]
    assert any(said)
    assert not all(said)
