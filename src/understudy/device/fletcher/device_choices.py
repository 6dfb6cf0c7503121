"""What the Fletcher document leaves open about the device, and our answers.

Order of trust: the document, the generated hardware (its VHDL, simulated), the example kernels, the run-time library.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice


def _choice(name: str, gap: str, answer: str, reason: str) -> Choice:
    return Choice(f"fletcher/{name}", gap, answer, reason)


_OPEN: Final = "nothing decides it"
_SIMULATED: Final = "simulated: the VHDL that the generator's register tool makes of real maps answers so"

DEVICE_CHOICES: Final[tuple[Choice, ...]] = (
    # ---- the bus ----
    _choice(
        "device-profiles",
        "the generated hardware is not what the document says",
        "profile `spec` is the document: registers of 32 bits, a RuleError for every access it does not allow, and a "
        "lint where the hardware would answer differently; profile `hardware` is the generated register file, bit for "
        "bit, with lints",
        "a host program should obey the document and work on the hardware",
    ),
    _choice(
        "wide-write",
        "when a 64-bit register changes that is written in two halves",
        "spec: each half at once. hardware: with its last word; one holding register serves all registers, so that a "
        "lone high word commits, with the bits that an older low word has left there ORed in",
        _SIMULATED,
    ),
    _choice(
        "wide-read",
        "reading a 64-bit register while it changes",
        "spec: each half is read by itself. hardware: the low word latches the register; a high word answers from the "
        "latch, whatever register that was of, or with SLVERR and the word that stood on the bus before",
        _SIMULATED,
    ),
    _choice(
        "stray-access",
        "accesses where no register is, or that a register does not allow",
        "spec: a RuleError, and nothing changes. hardware: OKAY; the last register that can be read (or written) "
        "answers, and address bits in which no two registers differ are not decoded",
        _SIMULATED,
    ),
    _choice(
        "byte-strobes",
        "writes of some bytes of a register",
        "the other bytes of a control register stay; the others of a strobe register count as 0",
        _SIMULATED,
    ),
    _choice(
        "narrow-register",
        "bits above the width of a register",
        "they read as 0; writing 1s there is a RuleError in spec, and has no effect in hardware",
        _SIMULATED,
    ),
    _choice(
        "control-read",
        "what control and Profile_clear read as, which the document has as 'Read & Write'",
        "0: they are strobes, which store nothing; with a map of profile `spec` what was written last",
        "the generated hardware has no such read at all",
    ),
    _choice(
        "address-read",
        "whether the buffer addresses of the last row of the table, 'Write-only', can be read",
        "they can, like all others",
        "the generator makes all of them control fields",
    ),
    # ---- the kernel ----
    _choice(
        "several-bits",
        "several control bits in one write",
        "all of them look at the state before the write: start begins a job only if the kernel was idle (or done, and "
        "of the kind that restarts); reset comes before stop",
        "state machines of the example kernels",
    ),
    _choice(
        "start-busy",
        "start while the kernel is busy, or done",
        "ignored, with a lint; a kernel with the handshake `restartable` begins anew when it is done",
        "Sum waits for reset when it is done, StringWrite for start",
    ),
    _choice(
        "done-idle",
        "whether done comes with idle",
        "it does (status 5), but for kernels whose handshake says otherwise (status 4)",
        "Sum and StringWrite set both, StringRead done only",
    ),
    _choice(
        "stop",
        "what stop does",
        "the kernel ends after the slice it is in, nothing it does later has an effect; idle, not done; the result and "
        "status registers stay, rows that were written too",
        "no example kernel and no run-time uses it",
    ),
    _choice(
        "reset-busy",
        "reset while the kernel is busy",
        "as stop, and the result and status registers become 0; kernels without `heeds_reset` ignore it until done",
        "Sum heeds reset when it is done only; a host wants a device back that hangs",
    ),
    _choice(
        "reset-registers",
        "which registers the control reset clears",
        "the result and the kernel's status registers; index ranges, buffer addresses, custom control registers and "
        "profile counters stay",
        "reset is a wire to the kernel, the register file has its own",
    ),
    _choice(
        "job-registers",
        "when a kernel looks at registers",
        "index ranges and buffer addresses at its start, custom registers whenever its code asks",
        "the example kernels pass ranges on in the cycles after the start",
    ),
    _choice(
        "kernel-error",
        "a kernel that cannot go on: wrong addresses, ranges, offsets",
        "it stays busy for ever, until stop or reset; spec raises the error in the register access, hardware keeps it "
        "in `last_error`; nothing was written by the access that was wrong",
        "hardware reads garbage or waits for data that never come",
    ),
    _choice(
        "slices",
        "how far a kernel gets between two register accesses",
        "a synchronous device does one slice in each access while it is busy (`pacing`, `latency`); a threaded one "
        "works by itself",
        "same inputs, same trace",
    ),
    _choice(
        "write-behind",
        "several writes of one job to a RecordBatch",
        "each goes behind the rows before it, the first one to the first index; offsets begin at 0 there",
        "a writer's command writes rows in order",
    ),
    # ---- memory ----
    _choice(
        "device-addresses",
        "addresses of device memory",
        "the lowest multiple of 4 KiB from 4 GiB on that is free, with an unused page behind each allocation",
        "the run-time's own platform aligns to 4 KiB; recorded traces have such a page",
    ),
    _choice(
        "host-buffer",
        "whether a prepared host buffer is shared or copied",
        "shared, until the kernel or the host writes to it: then the device gets a copy",
        "prepare means the least effort; results come back by CopyDeviceToHost only",
    ),
    _choice(
        "changed-under-kernel",
        "the host writes to a buffer whose rows a kernel holds",
        "the kernel keeps the bytes that it has asked for; what it asks for later is new",
        "no offset changes after it was checked",
    ),
    # ---- profiling ----
    _choice(
        "stream-model",
        "how long streams take",
        "30 cycles until the first elements of a command, then elements per cycle without a wait; 5 cycles for each "
        "start; the clock stands still while no kernel works",
        "gives the simulated profile of Sum over four rows: valids 4, readies 34, transfers 4, packets 1, cycles 39",
    ),
    _choice(
        "stream-packets",
        "where `last` is",
        "once for the rows of a command; below a list or string at the end of each, with a transfer for an empty one",
        "the array readers of the generated hardware",
    ),
    _choice(
        "elements-counter",
        "the counter of elements",
        "spec counts them; in hardware it is always 0",
        "the generated profiler never increments it",
    ),
    _choice(
        "counter-width",
        "counters that overflow",
        "they wrap around at 32 bits",
        "unsigned registers of 32 bits in the generated profiler",
    ),
)
