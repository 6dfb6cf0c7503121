"""Code that is executed without FENCE.I since it was stored."""

from __future__ import annotations

import pytest

from tests.engine.riscv.rig import CODE, DATA, Rig
from tests.engine.riscv.test_selfmodifying import word
from understudy.core.findings import Finding
from understudy.engine.riscv.code_stores import CodeStoreEngine
from understudy.host.refsi.refsi import RefSi
from understudy.image.assembly.program import assemble

PATCH = "addi x7, x0, 5"


def checked(coherent: bool = True) -> tuple[Rig, list[Finding]]:
    found: list[Finding] = []
    return Rig(CodeStoreEngine(found.append, coherent)), found


@pytest.mark.parametrize("coherent", [True, False])
def test_a_patch_without_a_fence_is_told_with_both_places(coherent: bool) -> None:
    rig, found = checked(coherent)
    end = rig.place("sw x8, 0(x11)\naddi x0, x0, 0\naddi x7, x0, 1")
    rig.run(end, x8=word(PATCH), x11=CODE + 8)
    [each] = found
    assert (each.place, each.other) == (f"pc {CODE + 8:#x}, hart 0", f"pc {CODE:#x}, hart 0")
    assert each.message == "addi t2,zero,5 is executed without a FENCE.I since it was stored"
    assert each.rule is not None
    assert each.rule.id == "riscv/fence-i"
    assert each.suggestion == "fence.i of hart 0 before it"


@pytest.mark.parametrize("coherent", [True, False])
def test_with_a_fence_nothing_is_told(coherent: bool) -> None:
    rig, found = checked(coherent)
    end = rig.place("sw x8, 0(x11)\nfence.i\naddi x7, x0, 1")
    assert rig.run(end, x8=word(PATCH), x11=CODE + 8).x[7] == 5
    assert found == []


def test_a_fence_before_the_store_is_none() -> None:
    rig, found = checked()
    end = rig.place("fence.i\nsw x8, 0(x11)\naddi x7, x0, 1")
    rig.run(end, x8=word(PATCH), x11=CODE + 8)
    assert len(found) == 1


def test_new_code_in_memory_that_was_never_executed_needs_one_too() -> None:
    for fence, count in (("addi x0, x0, 0", 1), ("fence.i", 0)):
        rig, found = checked()
        end = rig.place(f"sw x8, 0(x11)\nsw x9, 4(x11)\n{fence}\njalr x1, 0(x11)")
        rig.run(end, x8=word("addi x7, x7, 3"), x9=word("jalr x0, 0(x1)"), x11=DATA)
        assert len({each.pc for each in found}) == 2 * count


def test_the_fence_of_another_hart_does_not_count() -> None:
    rig, found = checked()
    end = rig.place("addi x7, x0, 1", CODE + 0x100)
    rig.place("sw x8, 0(x11)\nfence.i", CODE)
    rig.run(CODE + 8, x8=word(PATCH), x11=CODE + 0x100)
    rig.run(end, pc=CODE + 0x100, hart=rig.new_hart(1))
    [each] = found
    assert (each.place, each.other) == (f"pc {CODE + 0x100:#x}, hart 1", f"pc {CODE:#x}, hart 0")


def test_atomics_and_data_beside_code() -> None:
    rig, found = checked()
    end = rig.place("amoswap.w x0, x8, (x11)\nsw x8, 0(x12)\naddi x7, x0, 1\naddi x0, x0, 0\naddi x0, x0, 0")
    rig.run(end, x8=word(PATCH), x11=CODE + 8, x12=CODE + 0x40)
    assert [each.pc for each in found] == [CODE + 8]


SOURCE = """
.text
.globl patch
patch:
    la t0, place
    lw t1, replacement
    sw t1, 0(t0)
    {}
    j place
.p2align 2
replacement:
    addi a1, zero, 700
.p2align 2
place:
    addi a1, zero, 100
    ret
"""


@pytest.mark.parametrize(("fence", "count"), [("nop", 1), ("fence.i", 0)])
@pytest.mark.parametrize(("profile", "check"), [("spec", "waits"), ("spec", "all"), ("refsidrv", "waits")])
def test_kernels_of_refsi(fence: str, count: int, profile: str, check: str) -> None:
    with RefSi.open(check=check, profile=profile, count_instructions=True) as device:
        device.load_elf(assemble(SOURCE.format(fence), "rv64gc", 0x1_0000).elf())
        device.launch("patch", 1, [])
        assert [each.name for each in device.findings] == ["waits/fence-i"] * count
        assert sum(device.instruction_counts().values()) >= 8
