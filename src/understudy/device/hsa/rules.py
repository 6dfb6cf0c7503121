"""Sentences of the ROCm Code Object document that the device, its queues and signals obey or catch others breaking.

The order is the document's; `clause` is the heading the sentence stands under.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Fidelity, Rule
from understudy.device.hsa.code_rules import CODE_RULES


def _rule(name: str, clause: str, text: str, fidelity: Fidelity = Fidelity.EXACT) -> Rule:
    return Rule(f"hsa/{name}", clause, text, fidelity)


_CHOSEN: Final = Fidelity.CHOSEN

# Kernel dispatch
_DISPATCH: Final = "Kernel dispatch"
PACKET_SIZE = _rule("packet-size", _DISPATCH, "all AQL packets are 64 bytes")
PACKET_TYPES = _rule("packet-types", _DISPATCH, "packets are those of the HSA Platform System Architecture", _CHOSEN)
KERNEL_OBJECT = _rule("kernel-object", _DISPATCH, "a dispatch names the amd_kernel_code_t of a loaded kernel")
KERNARG_BACKING = _rule(
    "kernarg-backing", _DISPATCH, "kernels use the backing memory of the kernarg segment directly as that segment"
)
FORMAT_LAST = _rule(
    "format-last", _DISPATCH, "changing the format field from INVALID assigns the packet to the packet processor"
)
DOORBELL_NOTIFIES = _rule("doorbell-notifies", _DISPATCH, "a doorbell signal notifies the packet processor", _CHOSEN)
COMPLETION_SIGNAL = _rule(
    "completion-signal", _DISPATCH, "when the dispatch has completed, its completion signal is signalled if not 0"
)
DISPATCH_FROM_KERNEL = _rule("dispatch-from-kernel", _DISPATCH, "a dispatch may come from a kernel of an agent, too")
BARRIER_BIT = _rule("barrier-bit", _DISPATCH, "a packet with the barrier bit waits for all before it", _CHOSEN)
BARRIER_AND = _rule("barrier-and", _DISPATCH, "BARRIER_AND completes when all its signals are 0; handle 0 counts")
BARRIER_OR = _rule("barrier-or", _DISPATCH, "BARRIER_OR completes when one of its signals is 0", _CHOSEN)
BARRIER_VALUE = _rule("barrier-value", _DISPATCH, "AMD's vendor packet waits for a condition on a signal", _CHOSEN)
AGENT_DISPATCH = _rule(
    "agent-dispatch", _DISPATCH, "AGENT_DISPATCH calls what the queue's owner provides, where its features say so"
)
VENDOR_PACKET = _rule("vendor-packet", _DISPATCH, "other vendor packets are a queue error", _CHOSEN)
FENCE_SCOPES = _rule("fence-scopes", _DISPATCH, "acquire and release scopes are none, agent or system", _CHOSEN)
QUEUE_ERRORS = _rule(
    "queue-errors", _DISPATCH, "what cannot be dispatched makes the queue inactive, with a code", _CHOSEN
)
GRID_CHECKS = _rule("grid-checks", _DISPATCH, "dimensions, group sizes and LDS are checked against the agent", _CHOSEN)

# Hardware registers setup
_REGISTERS: Final = "Hardware registers setup"
DEFAULT_MTYPE = _rule("default-mtype", _REGISTERS, "SH_MEM_CONFIG.DEFAULT_MTYPE = 1 (MTYPE_NC)")
ALIGNMENT_MODE = _rule("alignment-mode", _REGISTERS, "SH_MEM_CONFIG.ALIGNMENT_MODE = 3 (UNALIGNED)")
PTR32 = _rule("ptr32", _REGISTERS, "SH_MEM_CONFIG.PTR32 = 1 in 32-bit mode and 0 in 64-bit mode")

# Initial kernel register state
_STATE: Final = "Initial kernel register state"
DISPATCH_PTR = _rule("dispatch-ptr", _STATE, "Dispatch Ptr is the address of the packet in the ring")
QUEUE_PTR = _rule("queue-ptr", _STATE, "Queue Ptr is the address of amd_queue_t")
KERNARG_PTR = _rule("kernarg-ptr", _STATE, "Kernarg Segment Ptr is copied from kernarg_address")
DISPATCH_ID = _rule("dispatch-id", _STATE, "Dispatch Id is the 64-bit id of the packet being executed")
PRIVATE_BUFFER = _rule(
    "private-buffer", _STATE, "Private Segment Buffer comes from amd_queue_t.scratch_resource_descriptor"
)

# Kernel prolog code
_SWIZZLE: Final = "Scratch memory swizzling"
SWIZZLE = _rule("swizzle", _SWIZZLE, "each lane's scratch elements are interleaved, so that lanes never meet")
SWIZZLE_SIZES = _rule("swizzle-sizes", _SWIZZLE, "the interleave size must be 2, 4, 8 or 16")
SWIZZLE_SPLIT = _rule(
    "swizzle-split", _SWIZZLE, "GFX8 and earlier: accesses larger than the element must be split into elements"
)
SWIZZLE_FOUR = _rule("swizzle-four", _SWIZZLE, "the finalizer uses value 4")

_FLAT: Final = "Flat addressing"
FLAT_SEGMENTS = _rule("flat-segments", _FLAT, "a flat address can reach global, private and group memory")
NULL_ADDRESS = _rule("null-address", _FLAT, "null is 0 for global, readonly and flat, -1 (32 bits) for the others")
STOF_GLOBAL = _rule("stof-global", _FLAT, "stof of a global address is the same value")
STOF_KERNARG = _rule("stof-kernarg", _FLAT, "stof of a kernarg address adds Kernarg Segment Ptr")
STOF_GROUP = _rule("stof-group", _FLAT, "stof of a group address combines it with or adds the group aperture")
STOF_PRIVATE = _rule("stof-private", _FLAT, "stof of a private address combines it with or adds the private aperture")
FTOS_GLOBAL = _rule("ftos-global", _FLAT, "ftos to global is the same value")
FTOS_KERNARG = _rule("ftos-kernarg", _FLAT, "ftos to kernarg subtracts Kernarg Segment Ptr")
FTOS_GROUP = _rule("ftos-group", _FLAT, "ftos to group is the low half, or subtracts the group aperture")
FTOS_PRIVATE = _rule("ftos-private", _FLAT, "ftos to private is the low half, or subtracts the private aperture")
SEGMENTP_GLOBAL = _rule("segmentp-global", _FLAT, "an address is global that lies in neither group nor private")
SEGMENTP_GROUP = _rule("segmentp-group", _FLAT, "group: the upper half (small model: upper 16 bits) is the aperture")
SEGMENTP_PRIVATE = _rule(
    "segmentp-private", _FLAT, "private: the upper half or upper 16 bits are the private aperture", _CHOSEN
)
NULL_CHECKS = _rule("null-checks", _FLAT, "addresses that may be null take an additional comparison")

_SCRATCH: Final = "Flat scratch"
FLAT_SCRATCH_LEGACY = _rule(
    "flat-scratch-legacy", _SCRATCH, "GFX7/GFX8: offset from SH_HIDDEN_PRIVATE_BASE, and bytes of a work-item", _CHOSEN
)
FLAT_SCRATCH_GFX9 = _rule("flat-scratch-gfx9", _SCRATCH, "GFX9: the 64-bit address of the backing memory")

# Dynamic call stack
_STACK: Final = "Dynamic call stack"
DYNAMIC_STACK = _rule(
    "dynamic-stack", _STACK, "private_segment_size_bytes of the packet, not of the kernel, says what is allocated"
)

# Instruction set architecture
_ISA: Final = "Instruction set architecture"
ISA_TABLE = _rule("isa-table", _ISA, "the table of vendors, architectures, versions and products")
ISA_NAME = _rule("isa-name", _ISA, "fields combine to one defining string such as AMD:AMDGPU:8:0:1")

# PCIe Gen3 Atomic Operations
_PCIE: Final = "PCIe Gen3 Atomic Operations"
PCIE_THREE = _rule("pcie-three", _PCIE, "PCIe defines FetchAdd, Swap and CAS")
PCIE_SEQUENCES = _rule("pcie-sequences", _PCIE, "system scope loads, stores, add, sub, swap and cas have sequences")
PCIE_LOOPS = _rule("pcie-loops", _PCIE, "other read-modify-write operations are a CAS loop")
PCIE_OPTION = _rule("pcie-option", _PCIE, "PCIe Gen3 atomics are supported on certain configurations only")

# AMD Queue
_QUEUE: Final = "AMD AQL Queue Object amd_queue_t"
QUEUE_HANDLE = _rule("queue-handle", "HSA AQL Queue Object hsa_queue_t", "a queue handle is a pointer to amd_queue_t")
QUEUE_LAYOUT = _rule("queue-layout", _QUEUE, "amd_queue_t is 256 bytes and begins with hsa_queue_t")
QUEUE_ALIGNMENT = _rule("queue-alignment", _QUEUE, "amd_queue_t is allocated on 64 byte alignment")
QUEUE_4_GIB = _rule("queue-4-gib", _QUEUE, "amd_queue_t must not span a 4 GiB boundary")
QUEUE_TYPES = _rule("queue-types", _QUEUE, "GFX8 and earlier support queue type SINGLE only", _CHOSEN)
INITIAL_IDS = _rule("initial-ids", _QUEUE, "write_dispatch_id and read_dispatch_id are 0 at creation")
APERTURE_FIELDS = _rule(
    "aperture-fields", _QUEUE, "group and private aperture bases are those of SH_MEM_BASES", _CHOSEN
)
MAX_CU_ID = _rule("max-cu-id", _QUEUE, "max_cu_id is the number of compute units", _CHOSEN)
MAX_WAVE_ID = _rule("max-wave-id", _QUEUE, "max_wave_id is the number of waves of a compute unit", _CHOSEN)
LEGACY_NEVER_DECREASES = _rule(
    "legacy-never-decreases", _QUEUE, "max_legacy_doorbell_dispatch_id_plus_1 is 64 bits and never decreases"
)
LEGACY_LOCK = _rule("legacy-lock", _QUEUE, "legacy_doorbell_lock is 0, and 1 while the doorbell fields are updated")
BASE_OFFSET = _rule("base-offset", _QUEUE, "read_dispatch_id_field_base_byte_offset follows read_dispatch_id")
TRAP_PRESENT = _rule("trap-present", _QUEUE, "traps are enabled by the kernel's enable_trap_handler or by the queue's")

# Queue operations
_OPERATIONS: Final = "Queue operations"
LOAD_WRITE_INDEX = _rule("load-write-index", _OPERATIONS, "Load Queue Write Index: atomic load", _CHOSEN)
STORE_WRITE_INDEX = _rule("store-write-index", _OPERATIONS, "Store Queue Write Index: atomic store", _CHOSEN)
LOAD_READ_INDEX = _rule("load-read-index", _OPERATIONS, "Load Queue Read Index: atomic load", _CHOSEN)
STORE_READ_INDEX = _rule("store-read-index", _OPERATIONS, "Store Queue Read Index: atomic store")
ADD_WRITE_INDEX = _rule("add-write-index", _OPERATIONS, "Add Queue Write Index: atomic add of write_dispatch_id")
CAS_WRITE_INDEX = _rule("cas-write-index", _OPERATIONS, "Compare-And-Swap Queue Write Index: atomic CAS of it")
QUEUE_FULL = _rule("queue-full", _OPERATIONS, "a packet may not be written before its slot was read", _CHOSEN)
WRAP_AROUND = _rule("wrap-around", _OPERATIONS, "packet n lies in slot n modulo the size of the queue")

# Signals
_SIGNALS: Final = "Signals overview"
SIGNAL_HANDLE = _rule("signal-handle", _SIGNALS, "a signal handle is a pointer to amd_signal_t")
SIGNAL_LOAD = _rule("signal-load", _SIGNALS, "Signal Load reads the current value, optionally with acquire")
SIGNAL_WAIT = _rule("signal-wait", _SIGNALS, "Signal Wait blocks until its condition holds and returns the value")
WAIT_CONDITIONS = _rule("wait-conditions", _SIGNALS, "conditions are equals, not-equals and four more", _CHOSEN)
SIGNAL_STORE = _rule("signal-store", _SIGNALS, "Signal Store, optionally with release")
SIGNAL_ATOMICS = _rule(
    "signal-atomics", _SIGNALS, "add, sub, increment, decrement, min, max, and, or, xor, exch, cas happen atomically"
)
SIGNAL_KINDS = _rule("signal-kinds", "Signal kind amd_signal_kind_t", "0 invalid, 1 user, -1 doorbell, -2 legacy")
_OBJECT: Final = "Signal object amd_signal_t"
SIGNAL_LAYOUT = _rule("signal-layout", _OBJECT, "amd_signal_t is 64 bytes")
SMALL_MODEL_VALUE = _rule("small-model-value", _OBJECT, "in the small machine model the lower 32 bits are used")
TIMESTAMPS = _rule("timestamps", _OBJECT, "start_ts and end_ts are those of the AQL packet, when profiled", _CHOSEN)
SIGNAL_QUEUE_PTR = _rule("signal-queue-ptr", _OBJECT, "queue_ptr of doorbells is the associated amd_queue_t")

_CODE: Final = "Signal kernel machine code"
WAIT_TIMEOUT = _rule("wait-timeout", _CODE, "a wait times out in reasonable time even if its condition is not met")
MAILBOX = _rule("mailbox", _CODE, "a changed signal with a mailbox stores its event id there")
SENDMSG = _rule("sendmsg", _CODE, "s_sendmsg sends the lower 8 bits of the event id")
SIGNALS_FROM_KERNELS = _rule("signals-from-kernels", _CODE, "kernels and the host change signals at the same time")
LEGACY_PLUS_ONE = _rule("legacy-plus-one", _CODE, "GFX7/GFX8 expect the index beyond the last packet")
LEGACY_SPINLOCK = _rule("legacy-spinlock", _CODE, "a legacy doorbell is stored to with its queue's lock held")
LEGACY_STALE = _rule("legacy-stale", _CODE, "a legacy doorbell never goes back", _CHOSEN)
LEGACY_SMALL = _rule("legacy-small", _CODE, "small model: min(write_dispatch_id, read_dispatch_id + hsa_queue.size)")
LEGACY_GFX7 = _rule("legacy-gfx7", _CODE, "GFX7: the index wraps at twice the queue's size and counts dwords")
DOUBLE_RING = _rule("double-ring", _CODE, "the ring buffer is twice the size of the HSA queue", _CHOSEN)
DOORBELL_STORES_ONLY = _rule(
    "doorbell-stores-only", _CODE, "load, wait and read-modify-write of doorbell signals are not supported"
)
DOORBELL_STORE = _rule("doorbell-store", _CODE, "a doorbell's store is a store of the value to the hardware doorbell")
DOORBELL_WRITE_ONLY = _rule("doorbell-write-only", _OBJECT, "doorbell memory is write-only")
DOORBELL_WIDTH = _rule("doorbell-width", _CODE, "GFX9 doorbells take 64 bits, legacy ones 32", _CHOSEN)

# Debugtrap
_TRAP: Final = "Debugtrap"
DEBUGTRAP = _rule("debugtrap", _TRAP, "debugtrap halts the wave and generates a debug exception", _CHOSEN)
DEBUGTRAP_ARGUMENT = _rule("debugtrap-argument", _TRAP, "v0 contains the 32-bit argument of debugtrap")
TRAP_HANDLER = _rule("trap-handler", _TRAP, "a handler decides whether the wave goes on", _CHOSEN)

# Exceptions
_EXCEPTIONS: Final = "Compute shader program settings 2 amd_compute_pgm_rsrc2_t"
MEMORY_VIOLATION = _rule(
    "memory-violation", _EXCEPTIONS, "illegal addresses, unmapped or read-only memory are memory violations", _CHOSEN
)
ADDRESS_WATCH = _rule("address-watch", _EXCEPTIONS, "a thread accesses an address of interest")
FP_INVALID = _rule("fp-invalid", _EXCEPTIONS, "IEEE 754 FP Invalid Operation exception")
FP_DENORMAL = _rule("fp-denormal", _EXCEPTIONS, "FP Denormal exception: a source is denormal", _CHOSEN)
FP_DIVISION = _rule("fp-division", _EXCEPTIONS, "IEEE 754 FP Division by Zero exception")
FP_OVERFLOW = _rule("fp-overflow", _EXCEPTIONS, "IEEE 754 FP Overflow exception")
FP_UNDERFLOW = _rule("fp-underflow", _EXCEPTIONS, "IEEE 754 FP Underflow exception")
FP_INEXACT = _rule("fp-inexact", _EXCEPTIONS, "IEEE 754 FP Inexact exception", _CHOSEN)
INT_DIVISION = _rule("int-division", _EXCEPTIONS, "Integer Division by Zero (v_rcp_iflag_f32 only)")
ILLEGAL_INSTRUCTION = _rule("illegal-instruction", _EXCEPTIONS, "words that are no instruction stop the wave", _CHOSEN)

RULES: Final[tuple[Rule, ...]] = (
    *(value for value in list(globals().values()) if isinstance(value, Rule)),
    *CODE_RULES,
)
"""All of them: of device, queues and signals, then of kernels, each in the document's order."""

BY_ID: Final[dict[str, Rule]] = {rule.id: rule for rule in RULES}
