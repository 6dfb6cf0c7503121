"""The gaps of the RefSi documents and our answers, and where the two profiles differ.

`spec` follows the document and reports every error. `refsidrv` behaves as the reference driver does, bit for bit; where
that one would crash or hang its host process, the buffer ends with a `ReferenceCrash` that says so.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice
from understudy.device.refsi.spec.choices import SPEC_CHOICES


def _choice(name: str, gap: str, answer: str, reason: str) -> Choice:
    return Choice(f"refsi/{name}", gap, answer, reason)


CHOICES: Final[tuple[Choice, ...]] = (
    # ---- format ----
    _choice(
        "nop",
        "opcode 0 is not listed",
        "both profiles: does nothing, its payload is skipped",
        "the reference driver has it and calls it NOP",
    ),
    _choice(
        "no-finish",
        "what a buffer without FINISH means",
        "both profiles: it runs to the end of its size and is complete",
        "the reference does so, and real hosts submit such buffers",
    ),
    _choice(
        "behind-finish",
        "what stands behind FINISH",
        "both profiles: it is never read; spec: FINISH itself must not announce payload",
        "FINISH marks the end of the buffer",
    ),
    _choice(
        "trailing-bytes",
        "a size that is no multiple of 8 bytes",
        "spec: an error before anything runs; refsidrv: the partial chunk is ignored",
        "a buffer consists of 64-bit chunks",
    ),
    _choice(
        "truncated-command",
        "a command whose payload passes the end of the buffer",
        "spec: an error; refsidrv: the chunks behind the buffer are used, zeros behind the memory",
        "the reference checks only where headers start; its memories are followed by a zeroed page",
    ),
    _choice(
        "odd-count",
        "a count that is odd",
        "spec: an error; refsidrv: half of it, rounded down",
        "count equals the number of payload chunks times two",
    ),
    _choice(
        "live-buffer",
        "a buffer that changes itself while it runs",
        "both profiles: chunks are read when their command's turn comes; the buffer's place is looked up once",
        "the reference does so",
    ),
    # ---- errors ----
    _choice(
        "abort",
        "what follows a failed command",
        "both profiles: the rest of its buffer is skipped, what was done stays, the next buffer runs",
        "the reference does so",
    ),
    _choice(
        "status",
        "how the host learns of an error",
        "every buffer has a status with command, byte offset, hart and pc; the driver call itself succeeds",
        "the reference reports nothing at all",
    ),
    _choice(
        "reference-crash",
        "what the reference does when it crashes or hangs its host",
        "refsidrv: the buffer ends with ReferenceCrash and a sentence about what would have happened",
        "a device model must not take its user down",
    ),
    _choice(
        "queue",
        "how many buffers can wait",
        "both profiles: any number; submit never blocks (the reference blocks when more than 4 wait)",
        "blocking changes nothing that a guest could see",
    ),
    # ---- registers ----
    _choice(
        "register-7",
        "ID 7 is not listed",
        "spec: an error; refsidrv: plain storage",
        "the reference has 40 registers and gives 7 no meaning",
    ),
    _choice(
        "load-window-register",
        "LOAD_REG64 into a window register",
        "spec: takes effect like WRITE_REG64; refsidrv: the value changes, the window does not",
        "the document writes 'a CMP register' in both commands",
    ),
    _choice(
        "entry-set",
        "what an entry point that was never set does",
        "spec: a kernel command with CMP_ENTRY_PT_FN 0, or an odd one, fails; refsidrv: harts start there",
        "the register is 0 at reset and must be set; no instruction lies at an odd address",
    ),
    _choice(
        "entry-high-bits",
        "reserved bits 63-32 of CMP_ENTRY_PT_FN",
        "spec: a kernel command fails if any is set; refsidrv: they are ignored",
        "a 64-bit entry point is a likely mistake",
    ),
    _choice(
        "dummy-bits",
        "DUMMY and reserved bits of the other registers",
        "both profiles: stored and read back, without effect",
        "they are said to be reserved, not to be zero",
    ),
    # ---- memory commands ----
    _choice(
        "alignment",
        "alignment of addresses in LOAD_REG64, STORE_REG64, STORE_IMM64, COPY_MEM64",
        "plain memory: any; memory-mapped registers: 8 bytes; refsidrv: also COPY_MEM64's source, and misaligned "
        "accesses of DMA registers reach the register they fall into",
        "the reference does so",
    ),
    _choice(
        "unit-id",
        "the encoding of UNIT",
        "kind in bits 31-24 (0 any, 1 external, 2 CMP, 3 hart, 4 core), index in bits 15-0",
        "the reference driver's unit IDs",
    ),
    _choice(
        "copy-range",
        "COPY_MEM64 across the end of a memory",
        "both profiles: refused before anything is copied; refsidrv: also the last 8 bytes of a window are refused",
        "the reference checks both ranges first",
    ),
    _choice(
        "cache-flags",
        "the numbers of the SYNC_CACHE flags",
        "1 data, 2 instructions; spec: other bits are an error; refsidrv: with 1 both, with anything else instructions",
        "the reference driver's header",
    ),
    # ---- kernels ----
    _choice(
        "max-harts-zero",
        "MAX_HARTS 0",
        "both profiles: all harts",
        "the reference does so",
    ),
    _choice(
        "max-harts-many",
        "MAX_HARTS above the number of harts",
        "spec: all harts; refsidrv: ReferenceCrash, whatever NUM_INSTANCES is",
        "it is a maximum; the reference dereferences a null pointer",
    ),
    _choice(
        "groups",
        "how instances are distributed",
        "both profiles: groups of H harts; hart j runs instance g * H + j of group g; a group starts when the one "
        "before has ended",
        "the reference does so; barriers need it",
    ),
    _choice(
        "interleaving",
        "how harts of a group take turns",
        "refsidrv: round robin, 5000 instructions each, ended early by a trap, ecall, wfi or return; spec: two turns "
        "of 200 000 instructions each, then 20 000 000 each side by side; from the first atomic, fence or polling loop "
        "of a hart to the next barrier turns of 50 000, ended by 250 rounds of polling",
        "the reference does so; spec: race-free kernels see no difference, harts that wait for each other get on, and "
        "what they do depends neither on threads nor on the engine",
    ),
    _choice(
        "reservation",
        "how long a load-reserved holds",
        "both profiles: for 8 bytes, until the end of the hart's turn, so that a store-conditional fails whatever "
        "another hart stored; spec: also until a transfer, a command or the host writes to those bytes",
        "the ISA manual; the reference's harts lose theirs when their turn ends and notice no transfer",
    ),
    _choice(
        "reserve-registers",
        "load-reserved and store-conditional of memory-mapped registers",
        "both profiles: access faults; other atomics read and write the register",
        "the reference's simulator refuses reservations outside memory",
    ),
    _choice(
        "start-state",
        "registers that a command does not set",
        "both profiles: keep what the last instance on that hart left, except that spec starts each one in machine "
        "mode and without a pending exception",
        "the reference does so; resetting all of a hart at every instance would hide mistakes less than it costs",
    ),
    _choice(
        "stack-top-zero",
        "CMP_STACK_TOP 0",
        "RUN_INSTANCES: sp is 0; RUN_KERNEL_SLICE: sp is the end of the hart's share of TCDM",
        "the reference does so",
    ),
    _choice(
        "ktb-place",
        "where a Kernel Thread Block lies",
        "both profiles: 0x10200000 + hart * (2 MiB / H), for all H harts of the command",
        "the reference does so; the document says only TCDM",
    ),
    _choice(
        "ktb-size",
        "thread-specific data larger than a hart's share of TCDM",
        "spec: an error; refsidrv: blocks overlap, and one that leaves TCDM fails the command",
        "each hardware thread has a separate copy",
    ),
    _choice(
        "packed-args",
        "how packed_args is computed",
        "spec: KUB_ADDR + KARGS_OFFSET, and the range must lie inside the KUB; refsidrv: KUB_ADDR",
        "the register describes where the arguments are located",
    ),
    _choice(
        "invalid-address",
        "which invalid address stands for absent packed_args and ktb",
        "spec: 0xbad0_0000_0000_0000 + 0xa000 for packed_args, + 0xb000 for ktb; refsidrv: KUB_ADDR and 0",
        "no memory can be there, and the value can be recognised in a fault",
    ),
    _choice(
        "return-address",
        "whether code at CMP_RETURN_ADDR runs",
        "both profiles: an instance ends when its pc reaches the address; nothing there is executed or needs to exist",
        "the reference does so; hosts put an exit stub there",
    ),
    _choice(
        "ecall",
        "how kernels reach the host",
        "ecall in machine mode with a7 = 0 EXIT(a0), 1 PUTSTRING(a0), 2 BARRIER(a0 = link address); resumes behind it",
        "the reference driver's host interface",
    ),
    _choice(
        "exit-code",
        "a kernel that exits with a code other than 0",
        "both profiles: all harts of the group stop and the buffer fails (refsidrv looks at 32 bits of the code)",
        "the reference does so",
    ),
    _choice(
        "kernel-fault",
        "a kernel that traps",
        "both profiles: all harts of the group stop and the buffer fails; spec: the next command finds a usable hart; "
        "refsidrv: mcause stays set, and every later kernel on that hart fails with the old fault",
        "a device that needs a power cycle helps nobody; the reference needs one",
    ),
    _choice(
        "barrier-link",
        "harts at barriers with different link addresses",
        "spec: a RuleError; refsidrv: the buffer fails and the hart is wedged as by a fault",
        "the reference identifies barriers by their link address",
    ),
    _choice(
        "barrier-return",
        "a hart that returns while others wait at a barrier",
        "spec: a RuleError; refsidrv: fails if it returned first, ends as success without them if it returned last",
        "the waiting harts can never go on",
    ),
    _choice(
        "slice-flush",
        "RUN_KERNEL_SLICE flushes caches implicitly",
        "spec: as by SYNC_CACHE with both flags; refsidrv: no flush",
        "the document says so; the reference does not",
    ),
    _choice(
        "step-limit",
        "a kernel that never ends",
        "both profiles: with a step limit the buffer fails after that many instructions of one command",
        "the reference hangs",
    ),
    # ---- windows ----
    _choice(
        "window-size-field",
        "a 32-bit SIZE field for 1 to 2^32 bytes",
        "both profiles: size = field + 1",
        "the reference does so",
    ),
    _choice(
        "window-size-bound",
        "accesses behind the end of a window",
        "spec: refused; refsidrv: direct accesses to memory pass, others are refused from the last byte on",
        "the document gives the window a size; the reference checks it on one path only, and off by one",
    ),
    _choice(
        "window-scale-fields",
        "SCALE_B 1 to 2^32 in 32 bits, SCALE_A as a list of values",
        "both profiles: SCALE_B = field + 1; SCALE_A 0 for field 0, else spec: 2^field, refsidrv: 2^(field - 1)",
        "the document's list begins with 2^1; the reference's hosts use field 1 for factor 1",
    ),
    _choice(
        "window-per-core",
        "mode PER_CORE on a device with one core",
        "spec: core 0; refsidrv: the buffer fails",
        "the document describes the mode; the reference has no cores",
    ),
    _choice(
        "window-unit",
        "who may use a PER_HART window",
        "harts only; the CMP, the host and the DMA on their behalf are refused",
        "without a hart there is no hart_id",
    ),
    _choice(
        "window-nested",
        "a window whose target lies in a window",
        "both profiles: refused",
        "the reference does so",
    ),
    _choice(
        "window-perms",
        "PERMS 0",
        "spec: PERMS 0 sets no limits, any other value permits what its bits say; refsidrv: ignored",
        "the reference's hosts never set PERMS",
    ),
    _choice(
        "window-cache",
        "when harts notice a changed window",
        "refsidrv: a 256-entry translation cache per hart keeps old pages until SYNC_CACHE with flag 1, a trap, or an "
        "aliasing page",
        "the reference's harts do so",
    ),
    # ---- DMA, counters, driver ----
    _choice(
        "dma-registers",
        "the registers of the DMA controller",
        "32 registers of 8 bytes at 0x20002000, one set per unit",
        "the reference driver's header",
    ),
    _choice(
        "dma-overrun",
        "a transfer that starts in a memory and runs over its end",
        "refsidrv: up to 4 MiB behind the end read as zeros and writes there are dropped, more is a ReferenceCrash",
        "the reference copies raw host memory; 64 KiB behind DRAM succeeded, 4 GiB crashed",
    ),
    _choice(
        "dma-overlap",
        "a transfer whose source and destination overlap",
        "refsidrv: each row is moved as if read whole first, rows in ascending order",
        "recorded from the reference",
    ),
    _choice(
        "dma-plane-stride",
        "3D without one of the strides",
        "refsidrv: planes are SIZE1 bytes apart and overlap",
        "a mistake of the reference that hosts avoid by always giving both strides",
    ),
    _choice(
        "dma-wait-future",
        "waiting for a transfer that was not started",
        "refsidrv: the store is refused",
        "recorded from the reference",
    ),
    _choice(
        "counters",
        "the performance counters",
        "64 slots of 8 bytes at 0x20100000: 0-31 those of the hart that asks, 32-63 shared storage",
        "the reference driver's header",
    ),
    _choice(
        "counter-moment",
        "which moment a counter read shows",
        "refsidrv: a hart that reads its own slot sees the count at the start of its turn; reads by others are exact",
        "the reference adds retired instructions at the end of a turn",
    ),
    _choice(
        "counter-write",
        "what writing cycle or retired-instruction counters does",
        "refsidrv: the value less one is stored and the whole current turn is still added",
        "the reference expects the writing instruction to be counted afterwards",
    ),
    _choice(
        "alloc-failure",
        "what allocation returns when it fails",
        "0 when memory is exhausted; refsidrv: 1 when asked for memory other than DRAM",
        "recorded from the reference",
    ),
    _choice(
        "device-size",
        "cores, harts and sizes of memory",
        "M1: 1 core of 4 harts, 4 MiB TCDM, 2 GiB DRAM; cores and harts can be chosen in spec",
        "the reference driver's constants; prose elsewhere says 2 cores and 4 GB",
    ),
    *SPEC_CHOICES,
)

BY_ID: Final[dict[str, Choice]] = {choice.id: choice for choice in CHOICES}
