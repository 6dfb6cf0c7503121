"""The initial machine states of RefSi kernels: the registers set before an instance runs.

The command processor sets these registers. Pure functions compute a `KernelPlan` from decoded registers and
command fields. The sources are these sections of the RefSi M1 specification: "RUN_KERNEL_SLICE command
(Opcode: 7)", "RUN_INSTANCES command (Opcode: 8)", CMP_ENTRY_PT_FN, CMP_KUB_DESC, CMP_KARGS_INFO,
CMP_TSD_INFO, CMP_STACK_TOP and CMP_RETURN_ADDR. The reference driver defines everything that the
specification leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.core.errors import RuleError
from softcard.isa.riscv.state import PC, Hart

RA: Final = 1
SP: Final = 2
A0: Final = 10
KUB_SIZE_UNIT: Final = 256
STACK_ALIGNMENT: Final = 16
MASK64: Final = (1 << 64) - 1

INVALID_PACKED_ARGS: Final = 0xBAD0_0000_0000_A000
"""The value of packed_args for a kernel without arguments: an address outside of any address space.

See the choice `refsi/invalid-address`.
"""
INVALID_KTB: Final = 0xBAD0_0000_0000_B000
"""The value of the argument ktb for a kernel without thread-specific data (choice `refsi/invalid-address`)."""


class OutsideKub(RuleError):
    """The error that arguments or thread-specific data exceed the Kernel Uniform Block."""


class BlockTooLarge(RuleError):
    """The error that thread-specific data does not fit a hart's share of TCDM."""


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """A copy of `size` bytes from `source` to `target`, made before any instance runs.

    In profile refsidrv, it is made with the view of memory that hart `hart` has."""

    hart: int
    source: int
    target: int
    size: int


@dataclass(frozen=True, slots=True)
class HartPlan:
    """The registers with which one hart starts every instance: sp, and a1 onwards."""

    stack_top: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """One kernel command: `instances` calls of `entry` in groups of ``len(harts)``, after `copies` were made.

    `kub` is the (address, size in bytes) of memory that is read-only for harts during the command, or None.
    """

    entry: int
    return_address: int
    instances: int
    harts: tuple[HartPlan, ...]
    copies: tuple[BlockCopy, ...] = ()
    kub: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RunInstances:
    """The fields of RUN_INSTANCES and the registers that it uses.

    `harts` is the number of harts that run the instances."""

    entry: int
    return_address: int
    stack_top: int
    instances: int
    harts: int
    extra_args: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelSlice:
    """The fields of RUN_KERNEL_SLICE and the registers that it uses.

    `kub_size` is in units of 256 bytes, other sizes and offsets are in bytes. `shares` is the (address, size) of
    memory that is divided evenly among the harts, for thread-specific data and stacks."""

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
    """Return the plan of RUN_INSTANCES, which is the same in both profiles.

    The arguments are a0 = instance ID, and a1 and following = extra arguments. Nothing is copied."""
    each = HartPlan(run.stack_top, run.extra_args)
    return KernelPlan(run.entry, run.return_address, run.instances, (each,) * run.harts)


def plan_slice(run: KernelSlice) -> KernelPlan:
    """Return the plan of RUN_KERNEL_SLICE according to the RefSi M1 specification.

    The arguments are a1 = slice ID, a2 = packed_args, a3 = ktb (the address of the hart's thread-specific data).
    Raise `OutsideKub` or `BlockTooLarge` if registers contradict each other. CMP_STACK_TOP 0 stands for the end
    of the hart's share (choice `refsi/stack-top-zero`)."""
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
            f"each of {run.harts} harts needs {run.tsd_size:#x} bytes of thread-specific data, "
            f"expected at most {share:#x}"
        )
    kub = (run.kub_addr, size) if size else None
    return _shared_out(run, share, packed_args, has_block, INVALID_KTB, kub)


def plan_slice_refsidrv(run: KernelSlice) -> KernelPlan:
    """Return the plan of RUN_KERNEL_SLICE according to the reference driver: a2 = KUB_ADDR, a3 = ktb or 0.

    The driver ignores all sizes in registers except for TSD_SIZE."""
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
        raise OutsideKub(
            f"{what} lie at {offset:#x}..{offset + size:#x}, outside of the Kernel Uniform Block of {limit:#x} bytes"
        )


def start_registers(plan: KernelPlan, hart: int, instance: int) -> dict[int, int]:
    """Return the integer registers (ra, sp, a0 and following) of hart `hart` before it runs `instance`."""
    each = plan.harts[hart]
    return {RA: plan.return_address, SP: each.stack_top, A0: instance} | {
        A0 + number: value for number, value in enumerate(each.args, 1)
    }


def start(state: Hart, plan: KernelPlan, hart: int, instance: int) -> None:
    """Set the registers in `state` for the start of `instance`.

    Other registers keep their values (choice `refsi/start-state`)."""
    words, each = state.words, plan.harts[hart]  # as in `start_registers`, without a dict for every instance
    words[PC], words[RA], words[SP], words[A0] = plan.entry, plan.return_address, each.stack_top & MASK64, instance
    for number, value in enumerate(each.args, A0 + 1):
        words[number] = value & MASK64
