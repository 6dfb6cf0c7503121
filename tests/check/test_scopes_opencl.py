"""Atomics and fences of each scope, as compilers emit them: right programs have no race, each cache operation counts.

Between work-groups `races` needs the operations of LLVM's memory models: from gfx942 on a write-back by the releasing
work-group, and on all processors an invalidation by the acquiring one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from softcard.host.hsa.compile import compile_opencl, compilers
from softcard.host.hsa.gpu import Gpu

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
SOURCE = Path(__file__).with_name("scopes.cl").read_text("utf-8")
KERNELS = ("message", "fences", "last", "turns", "lock", "sequential")
DEVICE, SYSTEM, GROUP = "memory_scope_device", "memory_scope_all_svm_devices", "memory_scope_work_group"
ITEMS = 512
PADDING = 0xBF800000
"""The word of ``s_nop 0``."""
WRITE_BACKS, INVALIDATIONS, OLD_INVALIDATIONS = 0xE0A0, 0xE0A4, 0xE0FC
"""The upper half of the first word of buffer_wbl2, of buffer_inv (buffer_invl2) and of buffer_wbinvl1_vol."""


@cache
def compiled(processor: str, scope: str) -> bytes:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    return compile_opencl(SOURCE, processor, options=["-cl-std=CL2.0", f"-DSCOPE={scope}"])


def without(code: bytes, operation: int) -> bytes:
    """The code object with two s_nop in place of each cache operation of one kind."""
    words = np.frombuffer(code[: len(code) & -4], np.uint32).copy()
    found = np.flatnonzero((words[:-1] >> 16 == operation) & (words[1:] == 0))
    assert len(found)
    words[found] = words[found + 1] = PADDING
    return words.tobytes() + code[len(words) * 4 :]


def found_in(processor: str, code: bytes, kernels: tuple[str, ...] = KERNELS) -> dict[str, list[str]]:
    """Return the findings of the check by kernel; verify that both engines report the same findings."""
    found = []
    for engine in ("jit", "reference"):
        with Gpu.open(processor, check="races", engine=engine) as gpu:
            loaded, each = gpu.load(code), {}
            for kernel in kernels:
                arguments = [gpu.array(np.zeros(size, np.uint32)) for size in (ITEMS, 64, ITEMS)]
                findings = gpu.run(loaded, kernel, ITEMS, 128, arguments).findings
                each[kernel] = [(finding.name, finding.insn, finding.count) for finding in findings]
            found.append(each)
    assert found[0] == found[1]
    return {kernel: [name for name, _, _ in findings] for kernel, findings in found[0].items()}


every_processor = pytest.mark.parametrize("processor", ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"])
every_scope = pytest.mark.parametrize("scope", [DEVICE, SYSTEM])


@every_processor
@every_scope
def test_right_programs_have_no_race(processor: str, scope: str) -> None:
    found = found_in(processor, compiled(processor, scope), (*KERNELS, "within"))
    assert found == {kernel: [] for kernel in found}


@pytest.mark.parametrize("processor", ["gfx942", "gfx950"])
def test_the_scope_of_the_work_group_is_enough_within_it(processor: str) -> None:
    """Before gfx942 such atomic loads and stores are the same instructions as plain ones, and count as plain."""
    code = compiled(processor, GROUP)
    assert found_in(processor, code, ("within",)) == {"within": []}
    assert all(found_in(processor, code, ("message", "turns")).values())


@pytest.mark.parametrize("processor", ["gfx942", "gfx950"])
@every_scope
@pytest.mark.parametrize("operation", [WRITE_BACKS, INVALIDATIONS])
def test_each_operation_counts_from_gfx942_on(processor: str, scope: str, operation: int) -> None:
    found = found_in(processor, without(compiled(processor, scope), operation))
    assert all(found.values()), found


@pytest.mark.parametrize("processor", ["gfx906", "gfx908", "gfx90a"])
def test_before_only_the_invalidation_counts(processor: str) -> None:
    """gfx90a writes back, and invalidates its second-level cache, for other agents only."""
    found = found_in(processor, without(compiled(processor, DEVICE), OLD_INVALIDATIONS))
    assert all(found.values()), found
    if processor == "gfx90a":
        for operation in (WRITE_BACKS, INVALIDATIONS):
            found = found_in(processor, without(compiled(processor, SYSTEM), operation))
            assert found == {kernel: [] for kernel in KERNELS}
