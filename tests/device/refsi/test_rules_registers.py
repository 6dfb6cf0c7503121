"""Rules of the CMP registers 0 to 6."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from softcard.core.lint import Lint
from softcard.device.refsi.commands import CopyMem64, RunKernelSlice, StoreReg64, WriteReg64
from softcard.device.refsi.launch import INVALID_KTB, INVALID_PACKED_ARGS
from softcard.device.refsi.registers import DMA_BASE, TCDM_BASE, TCDM_SIZE
from tests.device.refsi.m1 import OUT, RETURN, STACK_TOP, Bench, write
from tests.device.refsi.rig import (
    HART_BLOCKS,
    KUB,
    PATTERN,
    PHYSICAL,
    SOURCE,
    TARGET,
    read_dma,
    refused,
    slice_setup,
    slices,
    transfer,
    word,
)

VALUE = 0xFEDC_BA98_7654_3210
SHARE = 0x8_0000
"""A hart's share of the blocks when four of them run."""
WITH_BLOCK: dict[str, Any] = {"kargs": (0x40, 0x10), "tsd": (8, 0x10)}
PACKED_ARGS, KTB = 2, 3
"""What k_slice stores, by place."""

# ---- CMP_SCRATCH


def test_refsi_scratch_free(bench: Bench) -> None:
    kernel = bench.kernel("k_dump", OUT, instances=4)
    assert bench.run(WriteReg64(0, VALUE), *kernel, *transfer(8), CopyMem64(8, OUT, TARGET)).ok
    assert bench.run(StoreReg64(0, OUT)).ok
    assert bench.r64(OUT) == [VALUE], "nothing else uses it"


@pytest.mark.parametrize("waits", [True, False])
def test_refsi_scratch_dma_wait(bench: Bench, waits: bool) -> None:
    bench.device.write(SOURCE, PATTERN)
    wait = [*read_dma("DMASTARTSEQ", OUT), StoreReg64(0, DMA_BASE + 16)] if waits else []
    assert bench.run(*transfer(8), *wait, CopyMem64(1, TARGET, OUT)).ok
    assert bench.device.read(OUT, 8) == (PATTERN[:8] if waits else bytes(8))


# ---- CMP_ENTRY_PT_FN


def test_refsi_entry_set(bench: Bench) -> None:
    text = "CMP_ENTRY_PT_FN is 0, expected an entry point before a kernel command"
    refused(bench, "entry-set", text, *slice_setup(bench)[1:], RunKernelSlice(0, 1, 0))
    assert bench.run(*slice_setup(bench), RunKernelSlice(0, 1, 0)).ok


def test_refsi_entry_32_bit(bench: Bench) -> None:
    text = "CMP_ENTRY_PT_FN holds 0x100010000, expected an entry point of 32 bits"
    refused(bench, "entry-32-bit", text, *bench.kernel(0x1_0001_0000))


def test_refsi_entry_run_signature(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_dump", OUT, 2, 3, 4, 5, 6, 7, instances=2)).ok
    assert [bench.r64(OUT + 0x400 * k + 8 * 10, 8) for k in range(2)] == [[k, OUT, 2, 3, 4, 5, 6, 7] for k in range(2)]


def test_refsi_entry_slice_signature(bench: Bench) -> None:
    assert bench.run(*slice_setup(bench, **WITH_BLOCK), RunKernelSlice(0, 2, 5)).ok
    assert [record[:4] for record in slices(bench, 2, 5)] == [
        [instance, 5, KUB + 0x40, HART_BLOCKS + SHARE * instance] for instance in range(2)
    ]


def test_refsi_entry_packed_args(bench: Bench) -> None:
    add = bench.code("ld t0, 0(a2); ld t1, 8(a2); add t0, t0, t1; lui t1, 0x50000; sd t0, 0(t1); jalr zero, 0(ra)")
    assert bench.run(*slice_setup(bench, add, kargs=(0x10, 0x10)), RunKernelSlice(0, 1, 0)).ok
    assert bench.r64(OUT) == [word(2) + word(3)]


def test_refsi_entry_ktb(bench: Bench) -> None:
    for harts in (1, 2, 4):
        assert bench.run(*slice_setup(bench, tsd=(0, 0x100)), RunKernelSlice(harts, harts, 0)).ok
        blocks = sorted(record[KTB] for record in slices(bench, harts))
        assert all(block + 0x100 <= following for block, following in pairwise(blocks))
        assert all(TCDM_BASE <= block <= TCDM_BASE + TCDM_SIZE - 0x100 for block in blocks)


# ---- CMP_KUB_DESC


def test_refsi_kub_read_only(bench: Bench) -> None:
    poke = bench.code("ld t0, 0(a2); sd a1, 0(a2); jalr zero, 0(ra)")
    text = f"write of 8 bytes at {KUB:#x} by hart 0 into the Kernel Uniform Block, which kernels must not write"
    status = refused(bench, "kub-read-only", text, *slice_setup(bench, poke, kargs=(0, 8)), RunKernelSlice(1, 1, 0))
    assert (status.hart, status.instance, status.pc) == (0, 0, poke + 4)
    assert bench.r64(KUB) == [word(0)]


def test_refsi_kub_size_zero(bench: Bench) -> None:
    assert bench.run(*slice_setup(bench, kub_size=0, **WITH_BLOCK), RunKernelSlice(0, 1, 0)).ok
    assert slices(bench, 1)[0][PACKED_ARGS : KTB + 1] == [INVALID_PACKED_ARGS, INVALID_KTB]
    assert bench.r64(HART_BLOCKS) == [0], "nothing is copied"


@pytest.mark.parametrize("offset", [0xF1, 0x100, 0xFFFFFF])
def test_refsi_kub_size_unit(bench: Bench, offset: int) -> None:
    text = (
        f"the packed arguments lie at {offset:#x}..{offset + 0x10:#x}, outside of the Kernel Uniform Block of 0x100 "
        "bytes"
    )
    refused(bench, "kub-size-unit", text, *slice_setup(bench, kargs=(offset, 0x10)), RunKernelSlice(0, 1, 0))
    assert bench.run(*slice_setup(bench, kargs=(0xF0, 0x10), tsd=(0, 0x100)), RunKernelSlice(0, 1, 0)).ok
    assert bench.run(*slice_setup(bench, kub_size=2, kargs=(0xF1, 0x10)), RunKernelSlice(0, 1, 0)).ok


def reset_clears(bench: Bench, name: str) -> bool:
    """Whether register `name` is zero after a reset."""
    number = write(name, 0).reg_idx
    assert bench.run(WriteReg64(number, VALUE)).ok
    bench.device.reset()
    assert bench.run(StoreReg64(number, OUT)).ok
    return bench.r64(OUT) == [0]


def test_refsi_kub_reset(bench: Bench) -> None:
    assert reset_clears(bench, "KUB_DESC")


# ---- CMP_KARGS_INFO


def test_refsi_kargs_set(bench: Bench) -> None:
    use = bench.code("ld t0, 8(a2); jalr zero, 0(ra)")
    text = (
        f"read of 8 bytes at {INVALID_PACKED_ARGS + 8:#x}: this is the packed_args pointer of a kernel without "
        "arguments"
    )
    status = refused(bench, "kargs-set", text, *slice_setup(bench, use), RunKernelSlice(1, 1, 0))
    assert status.pc == use
    assert bench.run(*slice_setup(bench, use, kargs=(0, 0x10)), RunKernelSlice(1, 1, 0)).ok


def test_refsi_kargs_size_zero(bench: Bench) -> None:
    assert bench.run(*slice_setup(bench, kargs=(0x40, 0), tsd=(8, 0x10)), RunKernelSlice(0, 1, 0)).ok
    assert slices(bench, 1)[0][PACKED_ARGS : KTB + 1] == [INVALID_PACKED_ARGS, HART_BLOCKS]


def test_refsi_kargs_reset(bench: Bench) -> None:
    assert reset_clears(bench, "KARGS_INFO")


# ---- CMP_TSD_INFO


def test_refsi_tsd_own_copy(bench: Bench) -> None:
    count = bench.code("ld t0, 0(a3); addi t0, t0, 1; sd t0, 0(a3); jalr zero, 0(ra)")
    assert bench.run(*slice_setup(bench, count, tsd=(0, 8)), RunKernelSlice(0, 6, 0)).ok
    assert [bench.r64(HART_BLOCKS + SHARE * hart)[0] - word(0) for hart in range(4)] == [2, 2, 1, 1]
    assert bench.r64(KUB) == [word(0)]
    text = "each of 4 harts needs 0x80001 bytes of thread-specific data, expected at most 0x80000"
    refused(
        bench, "tsd-own-copy", text, *slice_setup(bench, kub_size=0xFFFF, tsd=(0, SHARE + 1)), RunKernelSlice(0, 1, 0)
    )


def test_refsi_tsd_size_zero(bench: Bench) -> None:
    assert bench.run(*slice_setup(bench, kargs=(0x40, 0x10), tsd=(8, 0)), RunKernelSlice(0, 1, 0)).ok
    assert slices(bench, 1)[0][PACKED_ARGS : KTB + 1] == [KUB + 0x40, INVALID_KTB]
    assert bench.r64(HART_BLOCKS) == [0]
    use = bench.code("sd zero, 0(a3); jalr zero, 0(ra)")
    text = f"write of 8 bytes at {INVALID_KTB:#x}: this is the ktb pointer of a kernel without thread-specific data"
    refused(bench, "tsd-size-zero", text, *slice_setup(bench, use), RunKernelSlice(1, 1, 0))


def test_refsi_tsd_reset(bench: Bench) -> None:
    assert reset_clears(bench, "TSD_INFO")


# ---- CMP_STACK_TOP, CMP_RETURN_ADDR


def test_refsi_stack_top(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_dump", OUT, instances=4)).ok
    assert [bench.r64(OUT + 0x400 * k + 16) for k in range(4)] == [[STACK_TOP]] * 4
    push = bench.code("addi sp, sp, -16; sd a0, 8(sp); jalr zero, 0(ra)")
    assert bench.run(*bench.kernel(push, instances=4)).ok
    assert [bench.r64(0x1020_0000 + SHARE * (hart + 1) - 8) for hart in range(4)] == [[0], [1], [2], [3]]


CLEAN_UP = (
    "csrrs t0, mhartid, zero; slli t0, t0, 3; lui t1, 0x52000; add t1, t1, t0; ld t2, 0(t1); addi t2, t2, 1; "
    "sd t2, 0(t1)"
)
"""Code that counts, for each hart, how often it has run, at PHYSICAL."""
EXIT = "addi a7, zero, 0; addi a0, zero, 0; ecall"


@pytest.mark.parametrize("options", [
    {"engine": "reference"}, {"tier": "first"}, {"tier": "optimised"}, {},
    {"check": "memory,init,races,waits"},
], ids=str)  # fmt: skip
def test_refsi_return_addr_code_runs(options: dict[str, Any]) -> None:
    bench = Bench("spec", **{"engine": "jit"} | options)
    bench.device.write(PHYSICAL, bytes(64))
    nothing = bench.code("jalr zero, 0(ra)")
    back = bench.code(f"{CLEAN_UP}; {EXIT}", at=nothing + 0x100)
    status = bench.run(*bench.kernel(nothing, instances=10, back=back))
    assert status.ok, status
    assert bench.r64(PHYSICAL, 4) == [3, 3, 2, 2]
    assert status.steps == 10 * (1 + 9)  # EXIT does not retire
    assert bench.run(*bench.kernel(nothing, instances=2000, back=back)).ok
    assert bench.r64(PHYSICAL, 4) == [503, 503, 502, 502]
    refused = bench.run(*bench.kernel(nothing, back=bench.code(EXIT.replace("a0, zero, 0", "a0, zero, 3"), at=back)))
    assert refused.error is not None
    assert refused.error.message == "the kernel exited with code 0x3"
    assert refused.pc == back + 8


@pytest.mark.parametrize("text", [EXIT, "addi a0, zero, 0; addi a7, zero, 0; ecall", "c.li a7, 0; c.li a0, 0; ecall"])
def test_refsi_return_addr_of_an_exit_stub_is_not_counted(bench: Bench, text: str) -> None:
    nothing = bench.code("jalr zero, 0(ra)")
    back = bench.code(text, at=nothing + 0x100)
    assert bench.run(*bench.kernel(nothing, instances=9, back=back)).steps == 9
    bench.code("addi a7, zero, 0; ecall", at=back)  # a0 is not known: the instance's number, an exit code
    status = bench.run(*bench.kernel(nothing, instances=2, harts=1, back=back))
    assert status.error is not None
    assert status.instance == 1


def test_refsi_run_registers_that_cannot_be_valid_are_lints(bench: Bench) -> None:
    nothing = bench.code("jalr zero, 0(ra)")

    def lints(**changes: int) -> list[str]:
        bench.events.clear()
        assert bench.run(*bench.kernel(nothing, instances=4, **changes)).ok
        assert all(each.rule.id == "refsi/run-registers" for each in bench.seen(Lint))
        return [f"{each.check}: {each.message}" for each in bench.seen(Lint)]

    assert lints() == []
    end = "; instances end where they return to it, expected the address of code that ends the hart (EXIT)"
    nowhere = "hart 0 cannot execute code there (execute of 2 bytes at {:#x}: no memory there)"
    for back in (0, 0x7770_0000_0000):
        assert lints(back=back) == [f"return-address: CMP_RETURN_ADDR holds {back:#x}: {nowhere.format(back)}{end}"]
    empty = 0x6600_0000
    assert lints(back=empty) == [
        f"return-address: CMP_RETURN_ADDR holds {empty:#x}: memory there holds 0x0000 instead of code{end}"
    ]
    bench.code(EXIT, at=empty)
    assert lints(back=empty) == []
    holds = f"return-address: CMP_RETURN_ADDR holds {DMA_BASE:#x}"
    assert lints(back=DMA_BASE) == [f"{holds}: this address is in DMA, which holds registers{end}"]
    assert lints(stack=STACK_TOP - 8) == ["stack-top: CMP_STACK_TOP holds 0x1407fff8, expected a multiple of 16"]
    for top, why in [
        (0, "there is no memory below 0x0"),
        (0x2000_0000, "write of 16 bytes at 0x1ffffff0: no memory there"),
    ]:
        assert lints(stack=top) == [
            f"stack-top: CMP_STACK_TOP holds {top:#x}, but hart 0 has no memory for a stack below it ({why}): "
            "set it to the end of a memory"
        ]
    at = DMA_BASE + 0x40
    assert lints(stack=at) == [
        f"stack-top: CMP_STACK_TOP holds {at:#x}, but DMA below it holds registers: set it to the end of a memory"
    ]


def test_refsi_return_addr(bench: Bench) -> None:
    for back in (RETURN, 0x7770_0000_0000, 0):
        assert bench.run(*bench.kernel("k_dump", OUT, back=back)).ok
        assert bench.r64(OUT + 8) == [back]
    away = bench.code("jalr zero, 8(zero)")
    status = refused(bench, "memory-map", "execute of 2 bytes at 0x8: no memory there", *bench.kernel(away))
    assert (status.hart, status.pc) == (0, 8)
