"""First machine states of RefSi kernels: what the command processor writes before an instance runs.

Pure functions from the decoded registers and command fields to a `KernelPlan`. Sources: "RUN_KERNEL_SLICE command
(Opcode: 7)", "RUN_INSTANCES command (Opcode: 8)", CMP_ENTRY_PT_FN, CMP_KUB_DESC, CMP_KARGS_INFO, CMP_TSD_INFO,
CMP_STACK_TOP and CMP_RETURN_ADDR of the command processor document; where that is silent, the reference driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.core.errors import RuleError
from understudy.isa.riscv.state import PC, Hart

RA: Final = 1
SP: Final = 2
A0: Final = 10
KUB_SIZE_UNIT: Final = 256
STACK_ALIGNMENT: Final = 16
MASK64: Final = (1 << 64) - 1

INVALID_PACKED_ARGS: Final = 0xBAD0_0000_0000_A000
"""packed_args where a kernel has none (choice `refsi/invalid-address`): no address space reaches so far."""
INVALID_KTB: Final = 0xBAD0_0000_0000_B000
"""ktb where a kernel has none, likewise."""


class OutsideKub(RuleError):
    """Arguments or thread-specific data reach over the end of the Kernel Uniform Block."""


class BlockTooLarge(RuleError):
    """Thread-specific data does not fit a hart's share of TCDM."""


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """`size` bytes to copy from `source` to `target` on behalf of hart `hart` before anything runs."""

    hart: int
    source: int
    target: int
    size: int


@dataclass(frozen=True, slots=True)
class HartPlan:
    """What one hart gets in every instance it runs: sp, and a1 onwards."""

    stack_top: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """One kernel command: `instances` calls of `entry` in groups of ``len(harts)``, after `copies` have been made.

    `kub` is the (address, size in bytes) that harts may only read meanwhile, if there is one.
    """

    entry: int
    return_address: int
    instances: int
    harts: tuple[HartPlan, ...]
    copies: tuple[BlockCopy, ...] = ()
    kub: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RunInstances:
    """What RUN_INSTANCES and its registers say; `harts` is how many to use."""

    entry: int
    return_address: int
    stack_top: int
    instances: int
    harts: int
    extra_args: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelSlice:
    """What RUN_KERNEL_SLICE and its registers say; `kub_size` counts 256 bytes, other sizes and offsets bytes.

    `shares` is the (address, size) of memory that is shared out evenly among the harts for blocks and stacks.
    """

    entry: int
    return_address: int
    stack_top: int
    instances: int
    harts: int
    slice_id: int
    kub_addr: int
    kub_size: int
    kargs_offset: int
    kargs_size: int
    tsd_offset: int
    tsd_size: int
    shares: tuple[int, int]


def plan_instances(run: RunInstances) -> KernelPlan:
    """RUN_INSTANCES, in both profiles: a0 = instance ID, a1.. = extra arguments, nothing is copied."""
    each = HartPlan(run.stack_top, run.extra_args)
    return KernelPlan(run.entry, run.return_address, run.instances, (each,) * run.harts)


def plan_slice(run: KernelSlice) -> KernelPlan:
    """RUN_KERNEL_SLICE as the document says: a1 = slice ID, a2 = packed_args, a3 = ktb.

    `OutsideKub` and `BlockTooLarge` where registers contradict each other. CMP_STACK_TOP 0 means the end of the
    hart's share (choice `refsi/stack-top-zero`).
    """
    size = run.kub_size * KUB_SIZE_UNIT
    packed_args, has_block = INVALID_PACKED_ARGS, False
    if size:
        if run.kargs_size:
            _inside("the packed arguments", run.kargs_offset, run.kargs_size, size)
            packed_args = run.kub_addr + run.kargs_offset
        if run.tsd_size:
            _inside("the thread-specific data", run.tsd_offset, run.tsd_size, size)
            has_block = True
    share = run.shares[1] // run.harts & -STACK_ALIGNMENT
    if has_block and run.tsd_size > share:
        raise BlockTooLarge(
            f"{run.tsd_size:#x} bytes of thread-specific data for each of {run.harts} harts, "
            f"expected at most {share:#x}"
        )
    kub = (run.kub_addr, size) if size else None
    return _shared_out(run, share, packed_args, has_block, INVALID_KTB, kub)


def plan_slice_refsidrv(run: KernelSlice) -> KernelPlan:
    """RUN_KERNEL_SLICE as the reference driver does it: a2 = KUB_ADDR, a3 = ktb or 0; no size but TSD_SIZE counts."""
    return _shared_out(run, run.shares[1] // run.harts, run.kub_addr, run.tsd_size > 0, 0, None)


def _shared_out(
    run: KernelSlice, share: int, packed_args: int, has_block: bool, no_block: int, kub: tuple[int, int] | None
) -> KernelPlan:
    harts, copies = [], []
    for hart in range(run.harts):
        block = run.shares[0] + hart * share
        if has_block:
            copies.append(BlockCopy(hart, run.kub_addr + run.tsd_offset, block, run.tsd_size))
        args = (run.slice_id, packed_args, block if has_block else no_block)
        harts.append(HartPlan(run.stack_top or block + share, args))
    return KernelPlan(run.entry, run.return_address, run.instances, tuple(harts), tuple(copies), kub)


def _inside(what: str, offset: int, size: int, limit: int) -> None:
    if offset + size > limit:
        raise OutsideKub(f"{what} lie at {offset:#x}..{offset + size:#x} of a Kernel Uniform Block of {limit:#x} bytes")


def start_registers(plan: KernelPlan, hart: int, instance: int) -> dict[int, int]:
    """The integer registers that hart `hart` of the command gets before it runs `instance`: ra, sp, a0 and on."""
    each = plan.harts[hart]
    return {RA: plan.return_address, SP: each.stack_top, A0: instance} | {
        A0 + number: value for number, value in enumerate(each.args, 1)
    }


def start(state: Hart, plan: KernelPlan, hart: int, instance: int) -> None:
    """Put the start of `instance` into `state`; everything else stays (choice `refsi/start-state`)."""
    words, each = state.words, plan.harts[hart]  # what `start_registers` gives, without a dict for every instance
    words[PC], words[RA], words[SP], words[A0] = plan.entry, plan.return_address, each.stack_top & MASK64, instance
    for number, value in enumerate(each.args, A0 + 1):
        words[number] = value & MASK64
