"""The gaps and errors of the ROCm Code Object document as far as the device goes, and our answers.

Order of trust: the document, the HSA specifications it refers to, AMD's public runtime, what compilers
write, other models.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice


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
        "the kernel driver's values; the small model's are ours",
    ),
    _choice(
        "sh-mem-config",
        "the other fields of SH_MEM_CONFIG, and GFX9, which has no DEFAULT_MTYPE there",
        "PRIVATE_ATC on APUs, RETRY_DISABLE where there is no XNACK, all else 0",
        "the kernel driver does so",
    ),
    _choice(
        "small-model",
        "kernels of the small machine model",
        "conversions, signals and doorbells exist as library functions; waves run in the large model",
        "no known object for these agents uses it",
    ),
    _choice(
        "pcie-atomics",
        "which agents and hosts have PCIe Gen3 atomics",
        "a property of the agent that a setting overrides; all memory here is reached atomically",
        "the document names products, and says that it depends on the host",
    ),
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
        "barrier value packets are processed; indirect buffers, raw PM4 and others are error 0x100",
        "only the runtime sends the former, to hardware of its own",
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
        "memory is coherent: they order nothing that is not in order already",
        "what caches would show is the strict memory model's business",
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
)
"""All of them, by subject."""
