"""Every sentence of the RefSi documents that a device can obey or break.

Here are those of the command processor document, in its order; `clause` is the heading the sentence stands under.
`RULES` also holds those of its sister documents (see `spec.rules`).
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Fidelity, Rule
from understudy.device.refsi.spec.rules import SPEC_RULES


def _rule(name: str, clause: str, text: str, fidelity: Fidelity = Fidelity.EXACT) -> Rule:
    return Rule(f"refsi/{name}", clause, text, fidelity)


_CHOSEN: Final = Fidelity.CHOSEN

# Command Processor Reference
_CMP: Final = "Command Processor Reference"
IN_ORDER = _rule("in-order", _CMP, "commands of a buffer are executed in order by the command processor")

# General Command Format
_FORMAT: Final = "General Command Format"
CHUNKS = _rule("chunks", _FORMAT, "a packet is one 64-bit header chunk and zero or more 64-bit payload chunks")
LITTLE_ENDIAN = _rule("little-endian", _FORMAT, "chunks are encoded in little-endian order")
HEADER_RESERVED = _rule("header-reserved", _FORMAT, "bits 7-0 of a header are zero")
HEADER_OPCODE = _rule("header-opcode", _FORMAT, "bits 15-8 of a header name a command that exists")
HEADER_COUNT = _rule("header-count", _FORMAT, "bits 29-16 of a header equal the number of payload chunks, times two")
HEADER_PACKET_ID = _rule("header-packet-id", _FORMAT, "bits 31-30 of a header are 3")
ZERO_EXTENSION = _rule("zero-extension", _FORMAT, "a field stored in a larger chunk is zero-extended")

# Commands
_FINISH: Final = "FINISH command (Opcode: 1)"
FINISH_END = _rule("finish-end", _FINISH, "FINISH marks the end of the command buffer")
FINISH_SIGNAL = _rule(
    "finish-signal", _FINISH, "a 'command buffer complete' signal is sent and the next queued buffer is executed"
)

_WRITE: Final = "WRITE_REG64 command (Opcode: 2)"
WRITE_REG64 = _rule("write-reg64", _WRITE, "writes a 64-bit value to a CMP register")
REG_IDX = _rule("reg-idx", _WRITE, "REG_IDX is the index of a CMP register")

_LOAD: Final = "LOAD_REG64 command (Opcode: 3)"
LOAD_REG64 = _rule("load-reg64", _LOAD, "reads a 64-bit value from memory and writes it to a CMP register")
LOAD_ADDRESS = _rule("load-address", _LOAD, "the memory address must be accessible by the CMP")

_STORE: Final = "STORE_REG64 command (Opcode: 4)"
STORE_REG64 = _rule("store-reg64", _STORE, "reads a CMP register and writes its 64-bit value to memory")
STORE_ADDRESS = _rule("store-address", _STORE, "the memory address must be accessible by the CMP")

_IMM: Final = "STORE_IMM64 command (Opcode: 5)"
STORE_IMM64 = _rule("store-imm64", _IMM, "writes an immediate 64-bit value to memory")
STORE_IMM_ADDRESS = _rule("store-imm-address", _IMM, "the memory address must be accessible by the CMP")
STORE_IMM_32_BIT = _rule("store-imm-32-bit", _IMM, "only 32-bit destination addresses are supported")
STORE_IMM_DMA = _rule(
    "store-imm-dma", _IMM, "the DMA controller is accessed via the register interface that the cores use", _CHOSEN
)

_COPY: Final = "COPY_MEM64 command (Opcode: 6)"
COPY_MEM64 = _rule("copy-mem64", _COPY, "copies COUNT 64-bit elements from one area of memory to another")
COPY_ONE_BY_ONE = _rule("copy-one-by-one", _COPY, "elements are copied one by one")
COPY_ADDRESS = _rule("copy-address", _COPY, "SRC_ADDR can be read by UNIT, and DST_ADDR can be written", _CHOSEN)
COPY_UNIT = _rule("copy-unit", _COPY, "UNIT is the unit used for reading data from memory", _CHOSEN)

_SLICE: Final = "RUN_KERNEL_SLICE command (Opcode: 7)"
SLICE_INSTANCES = _rule("slice-instances", _SLICE, "the entry point is executed NUM_INSTANCES times")
SLICE_INSTANCE_ID = _rule("slice-instance-id", _SLICE, "instance IDs range from zero to NUM_INSTANCES - 1")
SLICE_SLICE_ID = _rule("slice-slice-id", _SLICE, "every instance is passed the same SLICE_ID")
SLICE_TSD_COPY = _rule(
    "slice-tsd-copy",
    _SLICE,
    "before the entry point is executed, thread-specific data is copied to each thread's block",
)
SLICE_DISTRIBUTION = _rule(
    "slice-distribution", _SLICE, "the CMP distributes instances between cores and hardware threads", _CHOSEN
)
SLICE_SYNCHRONOUS = _rule("slice-synchronous", _SLICE, "following commands wait until this command has finished")
SLICE_REGISTERS = _rule(
    "slice-registers",
    _SLICE,
    "ENTRY_PT_FN, KUB_DESC, KARGS_INFO, TSD_INFO, STACK_TOP and RETURN_ADDR are set to valid values before",
)
SLICE_FLUSH = _rule("slice-flush", _SLICE, "memory changes by the cores are observable before the next command")
SLICE_MAX_HARTS = _rule("slice-max-harts", _SLICE, "MAX_HARTS is the most harts that run the kernel", _CHOSEN)

_RUN: Final = "RUN_INSTANCES command (Opcode: 8)"
RUN_INSTANCES = _rule("run-instances", _RUN, "the kernel function is executed NUM_INSTANCES times")
RUN_INSTANCE_ID = _rule(
    "run-instance-id", _RUN, "the instance ID, from zero to NUM_INSTANCES - 1, is the first argument"
)
RUN_EXTRA_ARGS = _rule("run-extra-args", _RUN, "up to 7 EXTRA_ARG_x are passed in the order of their chunks")
RUN_NO_COPY = _rule("run-no-copy", _RUN, "Kernel Uniform Block and Kernel Thread Block data is not copied")
RUN_DISTRIBUTION = _rule(
    "run-distribution", _RUN, "the CMP distributes instances between cores and hardware threads", _CHOSEN
)
RUN_SYNCHRONOUS = _rule("run-synchronous", _RUN, "following commands wait until this command has finished")
RUN_REGISTERS = _rule(
    "run-registers", _RUN, "ENTRY_PT_FN, STACK_TOP and RETURN_ADDR are set to valid values before the command"
)
RUN_NO_FLUSH = _rule(
    "run-no-flush", _RUN, "memory changes are not always observable before the next command without SYNC_CACHE"
)
RUN_MAX_HARTS = _rule("run-max-harts", _RUN, "MAX_HARTS is the most harts that run the kernel", _CHOSEN)

_SYNC: Final = "SYNC_CACHE command (Opcode: 9)"
SYNC_FLUSH = _rule("sync-flush", _SYNC, "data written to the harts' caches is flushed to device memory")
SYNC_INVALIDATE = _rule("sync-invalidate", _SYNC, "data cached for reading is invalidated")
SYNC_FLAGS = _rule("sync-flags", _SYNC, "FLAGS holds CMP_CACHE_SYNC_ACC_DCACHE and CMP_CACHE_SYNC_ACC_ICACHE", _CHOSEN)
SYNC_DCACHE = _rule("sync-dcache", _SYNC, "CMP_CACHE_SYNC_ACC_DCACHE synchronizes the data cache")
SYNC_ICACHE = _rule("sync-icache", _SYNC, "CMP_CACHE_SYNC_ACC_ICACHE synchronizes the instruction cache")

# Registers
_SCRATCH: Final = "CMP_SCRATCH Register (ID: 0)"
SCRATCH_FREE = _rule("scratch-free", _SCRATCH, "CMP_SCRATCH can be used freely")
SCRATCH_DMA_WAIT = _rule(
    "scratch-dma-wait", _SCRATCH, "storing a transfer ID to the DMA register waits until that transfer is complete"
)

_ENTRY: Final = "CMP_ENTRY_PT_FN (ID: 1)"
ENTRY_SET = _rule("entry-set", _ENTRY, "the entry point must be set before any kernel command is executed")
ENTRY_32_BIT = _rule("entry-32-bit", _ENTRY, "bits 63-32 of CMP_ENTRY_PT_FN are reserved")
ENTRY_RUN_SIGNATURE = _rule(
    "entry-run-signature", _ENTRY, "RUN_INSTANCES calls kernel_entry(instance_id, arg1, ..., arg7)"
)
ENTRY_SLICE_SIGNATURE = _rule(
    "entry-slice-signature", _ENTRY, "RUN_KERNEL_SLICE calls kernel_entry(instance_id, slice_id, packed_args, ktb)"
)
ENTRY_PACKED_ARGS = _rule("entry-packed-args", _ENTRY, "packed_args is the range of CMP_KARGS_INFO in the KUB")
ENTRY_KTB = _rule("entry-ktb", _ENTRY, "ktb is an area in TCDM allocated by the CMP", _CHOSEN)

_KUB: Final = "CMP_KUB_DESC (ID: 2)"
KUB_READ_ONLY = _rule("kub-read-only", _KUB, "the KUB can be read by accelerator cores but not written to")
KUB_SIZE_ZERO = _rule(
    "kub-size-zero", _KUB, "with KUB_SIZE 0 the KUB is not used; packed_args and ktb are invalid addresses", _CHOSEN
)
KUB_RESET = _rule("kub-reset", _KUB, "CMP_KUB_DESC is zero upon reset")
KUB_SIZE_UNIT = _rule(
    "kub-size-unit", _KUB, "KUB_SIZE counts 256 bytes; arguments and thread data lie inside the KUB", _CHOSEN
)

_KARGS: Final = "CMP_KARGS_INFO (ID: 3)"
KARGS_SET = _rule("kargs-set", _KARGS, "must be set before a RUN_KERNEL_SLICE that makes use of kernel arguments")
KARGS_SIZE_ZERO = _rule("kargs-size-zero", _KARGS, "with KARGS_SIZE 0 packed_args is an invalid address", _CHOSEN)
KARGS_RESET = _rule("kargs-reset", _KARGS, "CMP_KARGS_INFO is zero upon reset")

_TSD: Final = "CMP_TSD_INFO (ID: 4)"
TSD_OWN_COPY = _rule("tsd-own-copy", _TSD, "each hardware thread has its own copy, which it can freely modify")
TSD_SIZE_ZERO = _rule("tsd-size-zero", _TSD, "with TSD_SIZE 0 ktb is an invalid address and no copy is made", _CHOSEN)
TSD_RESET = _rule("tsd-reset", _TSD, "CMP_TSD_INFO is zero upon reset")

_STACK: Final = "CMP_STACK_TOP Register (ID: 5)"
STACK_TOP = _rule("stack-top", _STACK, "harts use STACK_TOP as the top of the stack; it is the same for all harts")

_RETURN: Final = "CMP_RETURN_ADDR Register (ID: 6)"
RETURN_ADDR = _rule("return-addr", _RETURN, "a kernel entry point returns to RETURN_ADDR", _CHOSEN)

_BASE: Final = "CMP_REG_WINDOW_BASEn (IDs: 8 through 15)"
WINDOW_BASE = _rule("window-base", _BASE, "BASE_ADDR is the starting address of the window's virtual memory area")

_TARGET: Final = "CMP_REG_WINDOW_TARGETn (IDs: 16 through 23)"
WINDOW_TARGET = _rule("window-target", _TARGET, "accesses to the virtual memory area occur at TARGET_ADDR")

_MODE: Final = "CMP_REG_WINDOW_MODEn (IDs: 24 through 31)"
WINDOW_ACTIVE = _rule("window-active", _MODE, "ACTIVE controls whether the virtual memory area is accessible")
WINDOW_SHARED = _rule("window-shared", _MODE, "SHARED: BASE + offset is mapped to TARGET + offset")
WINDOW_PER_HART = _rule(
    "window-per-hart", _MODE, "PER_HART: BASE + offset is mapped to TARGET + SCALE * hart_id + offset", _CHOSEN
)
WINDOW_PER_CORE = _rule(
    "window-per-core", _MODE, "PER_CORE: BASE + offset is mapped to TARGET + SCALE * core_id + offset"
)
WINDOW_MODE_RESERVED = _rule("window-mode-reserved", _MODE, "MODE 3 is reserved")
WINDOW_INTERLEAVE = _rule(
    "window-interleave", _MODE, "INTERLEAVE: whether or not the target memory is interleaved", _CHOSEN
)
WINDOW_PERMS = _rule("window-perms", _MODE, "PERMS: bit 0 permits reading, bit 1 writing, bit 2 executing")
WINDOW_STRIDE = _rule("window-stride", _MODE, "STRIDE: granularity of the target area when it is interleaved", _CHOSEN)
WINDOW_SIZE = _rule("window-size", _MODE, "SIZE: size of the memory window, between 1 and 2^32 bytes", _CHOSEN)

_SCALE: Final = "CMP_REG_WINDOW_SCALEn (IDs: 32 through 39)"
WINDOW_SCALE = _rule("window-scale", _SCALE, "the scaling factor is the product of SCALE_A and SCALE_B")
WINDOW_SCALE_A = _rule("window-scale-a", _SCALE, "SCALE_A is one of 0, 2^1, 2^2, ..., 2^31")
WINDOW_SCALE_B = _rule("window-scale-b", _SCALE, "SCALE_B is 1 .. 2^32", _CHOSEN)

# Not in the document: the host interface of the reference driver (choice `refsi/ecall`)
_HOST: Final = "Host interface of the reference driver"
HOST_CALL = _rule("host-call", _HOST, "ecall from machine mode: a7 is 0 EXIT, 1 PUTSTRING or 2 BARRIER", _CHOSEN)
BARRIER_SAME = _rule("barrier-same", _HOST, "all harts of a group give the same link address at a barrier", _CHOSEN)
BARRIER_EVERYBODY = _rule("barrier-everybody", _HOST, "no hart of a group ends while others wait at a barrier", _CHOSEN)

RULES: Final[tuple[Rule, ...]] = (
    *(value for value in list(globals().values()) if isinstance(value, Rule)),
    *SPEC_RULES,
)
"""All of them: the command processor document's in its order, then those of its sister documents."""

BY_ID: Final[dict[str, Rule]] = {rule.id: rule for rule in RULES}
