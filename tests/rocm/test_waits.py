"""Waits in kernels of rocRAND and rocSPARSE: none is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softcard.check.waits import codes_of, waits
from softcard.engine.gcn.waits.checker import reachable
from softcard.image.hsa.code_object import read_code_object
from tests.rocm.libraries import PROCESSORS, SMALL, members, read


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.skipif(not SMALL.exists(), reason="tools/rocm-kernels.sh has not made build/rocm-kernels")
@pytest.mark.parametrize("processor", PROCESSORS)
def test_nothing_is_missed_in_libraries(processor: str) -> None:
    instructions = 0
    for name in members(SMALL, processor)[::75]:
        [code] = codes_of(read_code_object(read(SMALL, name)))
        some = replace(code, entries=dict(list(code.entries.items())[::16]))
        instructions += sum(len(reachable([entry], code.fetch).issues) for entry in some.entries.values())
        assert [str(each) for each in waits(some)] == []
    assert instructions > 1_000
