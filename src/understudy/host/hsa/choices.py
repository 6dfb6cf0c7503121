"""What nobody prescribes about a GPU as its users see it, and our answers (`docs/hsa-host.md`)."""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice

CHOICES: Final[tuple[Choice, ...]] = (
    Choice(
        "hsa/default-group",
        "the work-group size of a launch that names none",
        "as the kernel requires, else one wave along x",
        "the smallest that uses all lanes",
    ),
    Choice(
        "hsa/group-beyond-kernel",
        "a work-group larger than the kernel was compiled for",
        "launched, and a lint tells of it; the packet processor refuses it (queue error 0x80, out of VGPRs) where the "
        "vector registers of compute_pgm_rsrc1 are more than the four SIMDs of a compute unit have for its waves",
        "hardware runs whatever its registers suffice for; public programs launch such groups",
    ),
    Choice(
        "hsa/dynamic-stack",
        "private memory of a kernel with a dynamic call stack",
        "1024 bytes for each work-item beyond the static size",
        "`stack_bytes` says otherwise",
    ),
    Choice(
        "hsa/equal-processors",
        "code for another processor than the agent",
        "refused, but gfx800 and gfx802 run each other's code, and so do gfx803 and gfx804, gfx900 and gfx901; GFX9 "
        "agents run that of gfx9-generic; with `any_target`, all of the same generation is loaded",
        "a loader refuses it too; these have the same instructions, and compilers do not know all of them by name",
    ),
    Choice(
        "hsa/empty-arrays",
        "an array without elements as an argument",
        "the null pointer",
        "there is nothing to point to",
    ),
    Choice(
        "hsa/array-elements",
        "an array whose elements have another size than what the argument points to",
        "refused, unless its elements are bytes or structures, or metadata does not name the type",
        "a kernel for float does not read doubles; `array.view(np.uint8)` says that it is meant so",
    ),
    Choice(
        "hsa/hidden-arguments",
        "hidden arguments that the rest of a runtime would fill",
        "hostcall buffer, heap, multi-grid argument and completion action are null, the default queue is that of the "
        "launch, unless `hidden` gives them; a kernel with a printf buffer gets one of 64 KiB, in the layout of AMD's "
        "OpenCL library, and `Result.printf` is what it wrote, unformatted",
        "what stands behind them are services of a runtime, of which a kernel's author may bring his own",
    ),
    Choice(
        "hsa/failed-launches",
        "what a launch that failed leaves behind",
        "packet, kernarg segment, signal and printf buffer stay; arrays that were mapped for it are taken out again",
        "the queue may be resumed; who wants that shares the arrays",
    ),
    Choice(
        "hsa/lost-launches",
        "launches that nobody has waited for when the device goes back to a state before them",
        "they are lost: waiting for one is an error, its arrays are not device memory any more",
        "a packet that is half done cannot be kept",
    ),
)
