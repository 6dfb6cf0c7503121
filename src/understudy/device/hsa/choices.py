"""The gaps and errors of the ROCm Code Object document as far as the device goes, and our answers.

Order of trust: the document, the HSA specifications it refers to, AMD's public runtime, what compilers
write, other models.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice
from understudy.device.hsa.launch.choices import LAUNCH_CHOICES
from understudy.device.hsa.memory_choices import MEMORY_CHOICES


def _choice(name: str, gap: str, answer: str, reason: str) -> Choice:
    return Choice(f"hsa/{name}", gap, answer, reason)


_RUNTIME: Final = "AMD's runtime does so"
_OPEN: Final = "nothing decides it"

CHOICES: Final[tuple[Choice, ...]] = (
    # ---- agents ----
    _choice(
        "agent-limits",
        "compute units, waves and LDS of the agents in the table",
        "those of the largest product of each row; 40 waves for each compute unit, 64 KiB of LDS, 1024 work-items in a "
        "work-group; gfx906 is added",
        "data sheets and the kernel driver's tables",
    ),
    _choice(
        "apertures",
        "the values of SH_MEM_BASES, and the garbled formula of the group aperture (erratum 5)",
        "GFX7 and GFX8: 0x20000000 and 0x20000001 as upper halves; GFX9: 0x00010000 and 0x00020000; small model: "
        "0x80000000 and 0x80010000",
        "the kernel driver's values; the small model's are ours, the driver lets them lie anywhere but at 0",
    ),
    _choice(
        "sh-mem-config",
        "the other fields of SH_MEM_CONFIG, and GFX9, which has no DEFAULT_MTYPE there",
        "PRIVATE_ATC on APUs, RETRY_DISABLE where there is no XNACK, APE1_MTYPE that of fine-grained memory, which "
        "lies in that aperture, all else 0; ADDRESS_MODE of GFX8: HSA64 or HSA32 on APUs, GPUVM64 or GPUVM32 elsewhere",
        "the kernel driver does so, and has no 32-bit mode but on APUs; the document makes no difference",
    ),
    _choice(
        "small-model",
        "what the small machine model is beyond flat addresses, signals and legacy doorbells",
        "a setting of the device: all memory lies from 16 MiB to 4 GiB, on both sides of the apertures, and there is "
        "none beyond; records keep their layouts, with upper halves 0 (else a packet's kernarg_address is error 0x20); "
        "doorbells of GFX9 still take 64 bits; what instructions do say `gcn/pointer-size` and the two behind it",
        "the document gives no second layout, and its value field of 64 bits uses the lower 32",
    ),
    _choice(
        "is-ptr64",
        "what happens to code whose is_ptr64 does not match SH_MEM_CONFIG",
        "1 in the small machine model: an executable with such a kernel is refused, a packet that names one is error "
        "0x8; 0 in the large one: a lint, the kernel runs and its pointers have 64 bits; a header that is no "
        "amd_kernel_code_t is a kernel descriptor, whose code is of the large model",
        "hardware does not look at it; assemblers leave it 0 where the text does not say, with 64-bit code; compilers "
        "write 64-bit code only, and descriptors have no such bit",
    ),
    _choice(
        "pcie-atomics",
        "which agents and hosts have PCIe Gen3 atomics",
        "a property of the agent that a setting overrides; it matters for memory that was allocated or mapped as the "
        "host's, is not cached, and belongs to no APU",
        "the document names products, and says that it depends on the host",
    ),
    _choice(
        "pcie-others",
        "what instructions do that PCIe has no transaction for",
        "an access fault before any lane has changed memory; so do all read-modify-writes where the platform has none",
        "hardware drops them without a word; a bench that did so would hide mistakes",
    ),
    _choice(
        "pcie-objects",
        "where queues and signals lie",
        "in memory that the agent reaches by every operation, fine-grained",
        "kernels may do all of them on signals; the runtime puts them into memory of the host",
    ),
    *MEMORY_CHOICES,
    # ---- the queue object ----
    _choice(
        "index-names",
        "Load and Store Queue Write Index act on read_dispatch_id in the text, Load Read Index on write_dispatch_id",
        "the write index is write_dispatch_id, the read index read_dispatch_id",
        f"erratum 1; {_RUNTIME}",
    ),
    _choice("max-ids", "max_cu_id and max_wave_id are called numbers", "they hold the number less one", _RUNTIME),
    _choice(
        "queue-types",
        "GFX8 and earlier: only queue type SINGLE",
        "all types are accepted everywhere; index operations are atomic for all of them",
        f"erratum 9; {_RUNTIME}",
    ),
    _choice(
        "queue-tail",
        "amd_queue_t from 0x8c on",
        "compute_tmpring_size, scratch_resource_descriptor, scratch_backing_memory_*, queue_properties and "
        "queue_inactive_signal as the runtime's header has them",
        "erratum 7: the text uses these fields without placing them",
    ),
    _choice("queue-size", "sizes of queues", "powers of two from 2 to 131072", "the runtime's bounds, and small ones"),
    _choice(
        "ring-address",
        "what happens when base_address, size or doorbell_signal of hsa_queue_t change",
        "nothing: the packet processor keeps what it was told at creation; indices, scratch, properties and "
        "queue_inactive_signal are read when they are needed",
        "the kernel driver hands the former to the hardware once",
    ),
    _choice(
        "hidden-private-base",
        "SH_HIDDEN_PRIVATE_BASE_VIMID",
        "the beginning of device memory on GFX7 and GFX8, 0 on GFX9; the flat scratch registers of errata 2 and 3",
        "offsets have to fit 32 bits",
    ),
    _choice(
        "scratch-size",
        "how much private memory a queue gets",
        "none at first; a packet that needs more makes room for 512 waves of its size, or is a queue error with the "
        "setting dynamic_scratch off",
        "the runtime's error handler does so, for all waves of the agent; fewer run side by side here",
    ),
    # ---- doorbells ----
    _choice(
        "doorbell-meaning",
        "which packets a doorbell makes known",
        "all up to the highest id rung; none beyond it, even if they are ready",
        "a host that forgets to ring must not get away with it",
    ),
    _choice(
        "doorbell-stale",
        "doorbells that go back",
        "a legacy doorbell's store drops ids that are not above max_legacy_doorbell_dispatch_id_plus_1; what hardware "
        "is told and makes no new packet known is ignored, with a lint",
        f"erratum 10; {_RUNTIME}",
    ),
    _choice(
        "doorbell-width",
        "stores of another width, and loads",
        "refused as an access fault",
        "the sequences store 32 bits to legacy and 64 bits to other doorbells; the memory is write-only",
    ),
    _choice(
        "double-ring",
        "the doubled ring is mentioned for GFX7 only",
        "the ring is mapped twice on GFX7 and GFX8",
        f"erratum 10; {_RUNTIME}",
    ),
    # ---- packets ----
    _choice(
        "packets-in-order",
        "how many packets of a queue are under way at once",
        "one: a packet begins when the one before has completed, whatever its barrier bit says",
        "every order that headers allow includes this one; results do not depend on chance",
    ),
    _choice(
        "one-at-a-time",
        "which work-groups and packets make progress side by side",
        "a work-group begins when one before it has ended (machine code runs as many at once as there are `threads`, "
        "the strict memory all of them), a packet when no queue has one under way; a wave that waits for a later "
        "work-group or for another queue's kernel meets `step_limit`, and the error says what waited for it",
        "HSA promises progress only to who waits for earlier work-groups; the order does not depend on chance",
    ),
    _choice(
        "slot-release",
        "when a slot may be used again",
        "at completion: the header becomes INVALID, read_dispatch_id moves on, then the completion signal changes",
        "kernels read their packet through Dispatch Ptr; who sees the signal finds the slot free",
    ),
    _choice(
        "queue-order",
        "which of several queues is served",
        "they take turns of up to `quantum` packets; with a seed, queue and number are drawn",
        _OPEN,
    ),
    _choice(
        "barrier-or-empty",
        "BARRIER_OR without signals",
        "it completes at once",
        "the specification ignores handles that are 0; there is nothing to wait for",
    ),
    _choice(
        "vendor-packets",
        "vendor packets",
        "barrier value packets are processed; PM4 commands (indirect buffers of GFX9, raw ones of GFX7 and GFX8), AIE "
        "packets and unknown formats are error 0x100, and the message says that they are not modelled",
        "only the runtime writes PM4, to clear caches and the like; document and HSA specification are silent",
    ),
    _choice(
        "reserved-fields",
        "reserved fields of packets, and fence scope 3",
        "ignored, with a lint; scope 3 counts as system",
        "hardware does not look at them",
    ),
    _choice(
        "fences",
        "acquire and release fences",
        "without the strict memory everything is in order already. With it, acquire invalidates first-level caches "
        "(agent) and the second level (system), before each look at a packet; release waits for stores to arrive "
        "(agent) and writes the second level back (system), before the completion signal changes. With scope none "
        "neither happens, and only what passes the second level by has arrived when the next packet comes",
        "HSA leaves it to other packets then; a processor that does more hides what is missing",
    ),
    _choice(
        "timestamps",
        "the unit of start_ts and end_ts, and when they are written",
        "packets completed and wave instructions retired since the device was made; before the completion signal "
        "changes, where the queue's profiling bit is set",
        "a clock that gives the same numbers every time",
    ),
    _choice(
        "failed-packets",
        "completion signals of packets that fail",
        "they stay as they are; waiting for one raises the queue's error",
        "hardware does not touch them, and a host would wait for ever",
    ),
    # ---- errors ----
    _choice(
        "error-codes",
        "which errors a packet processor reports, and how",
        "bits of queue_inactive_signal as the runtime handles them; the queue is inactive until the signal is 0 again, "
        "-1 leaves it dead",
        "the document is silent",
    ),
    _choice(
        "fault-codes",
        "codes of what the runtime has no code for",
        "a completion signal or dependency that is none: 0x20; unreachable memory: 0x20000000; step limit: 0x80000000; "
        "what is beyond the model: 0x40000000, with a message that says so",
        "the nearest one",
    ),
    _choice(
        "memory-violation",
        "memory violations where rsrc2 does not enable them",
        "reported all the same",
        "a bench that let them pass would hide mistakes",
    ),
    _choice(
        "exceptions",
        "when exceptions trap, and what raises which",
        "behind the instruction that raises one that rsrc2 enables: error 0x80000000; float operations raise the IEEE "
        "754 flags of their exact result, approximations invalid operation and division by zero only, and sources that "
        "are denormal before they are flushed the denormal exception",
        "the reference engine runs such kernels; compilers enable none of them unless asked to",
    ),
    # ---- signals ----
    _choice(
        "wait-conditions",
        "the document lists six conditions, HSA has four",
        "all six for waits of the host; packets have the first four",
        "erratum 6",
    ),
    _choice(
        "signal-orders",
        "memory orders of host operations",
        "the allowed ones are checked, all operations are sequentially consistent",
        "stronger than asked for is right",
    ),
    _choice(
        "endless-waits",
        "waits whose condition can never hold",
        "an error, where the packet that would change it is on a queue that has failed, or waits for one there; and "
        "where no thread but the waiting one could change anything",
        "a test that hangs tells nothing",
    ),
    # ---- traps ----
    _choice(
        "trap-ids",
        "s_trap numbers",
        "1 (the document's debugtrap) and 2 (later compilers' trap) stop the wave with error 0x80000000, 3 (their "
        "debugtrap) goes on; a trap handler of the host decides instead where there is one",
        "erratum 28: both tables",
    ),
    _choice(
        "trap-absent",
        "s_trap where neither kernel nor queue enables the trap handler",
        "the instruction does nothing; queues enable it unless told otherwise",
        _RUNTIME,
    ),
    _choice(
        "segmentp-private",
        "segmentp of private memory compares with the group aperture",
        "with the private one",
        "erratum 4",
    ),
    # ---- launches ----
    *LAUNCH_CHOICES,
)
"""All of them, by subject."""
