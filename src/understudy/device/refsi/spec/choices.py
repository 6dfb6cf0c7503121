"""The choices of the `spec` memory system: what the documents leave open, and our answers.

`choices.CHOICES` holds them too. Where both profiles answer, the answer names each.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice

# ---- memory map and units
TCDM_ONE = Choice(
    "refsi/tcdm-one",
    "the overview gives each core its own 4 MiB of TCDM, the driver's memory map lists one TCDM without a core",
    "there is one TCDM of 4 MiB at 0x10000000 for all cores and harts",
    "drivers see the map, not the overview; per-core contents can be had with a PER_CORE window",
)
UNIT_BY_INDEX = Choice(
    "refsi/unit-index",
    "how hart_id and core_id count when there are several cores",
    "hart_id is the device-wide number, core 0's harts first; core_id is hart_id divided by the harts per core",
    "mhartid and the driver's unit IDs count the same way",
)
MEMORY_CLAIMS = Choice(
    "refsi/memory-claims",
    "what happens where a window's virtual area covers memory, registers or another window",
    "spec: touching an address that two areas claim is an error; the windows may be set up so; refsidrv: a window "
    "whose base is taken is not reachable but counts as mapped, and closing it takes away what starts at its base",
    "the document gives such an address two meanings; the registers of a window are written one by one, so that an "
    "overlap may exist for a moment without meaning anything; the reference ignores that the address is taken",
)
# ---- windows
WINDOW_LIVE = Choice(
    "refsi/window-live",
    "in which order the registers of a window must be written, and when they take effect",
    "spec: any order; a window is at each access what its registers say at that moment; refsidrv: a change of a mapped "
    "window's BASE, TARGET, SCALE, mode or SIZE unmaps it and clears its ACTIVE bit, an ACTIVE write maps what the "
    "registers say then",
    "the document has no order; target, bounds and overlaps are therefore checked at the access, not when enabling; "
    "the reference has an order",
)
WINDOW_INTERLEAVED = Choice(
    "refsi/window-interleaved",
    "what INTERLEAVE and STRIDE mean beyond 'the target is interleaved' and 'its granularity'",
    "spec: granules of 2^STRIDE bytes are dealt out in turn: granule k of unit u of n is at TARGET + (k * n + u) * "
    "2^STRIDE, with the harts (PER_HART) or cores (PER_CORE) as units; SCALE is not used, and SHARED has only one "
    "unit; refsidrv: ignored",
    "an interleaved layout with a fixed increment per core is what the memory mapping guide describes; a 5-bit "
    "granularity up to 2 GiB must be an exponent, as SCALE_A is",
)
WINDOW_ONTO_REGISTERS = Choice(
    "refsi/window-onto-registers",
    "whether a window's target may be memory-mapped registers",
    "it may; registers keep their rules when they are reached through a window",
    "the target is any physical area, and the reference does so",
)
# ---- DMA
DMA_LATE = Choice(
    "refsi/dma-late",
    "when an asynchronous transfer reads and writes memory",
    "as late as the documents allow: when a wait names it, at a read of DMADONESEQ, when more than 1024 of its unit "
    'are outstanding, or when the device is idle (dma="late"); dma="immediate" does it at the start',
    "a program that forgets to wait works by luck on an eager controller; here it sees the old bytes",
)
DMA_POLL = Choice(
    "refsi/dma-poll",
    "when transfers make progress while a program polls DMADONESEQ",
    "each read completes the oldest outstanding transfer of that unit, then answers",
    "polling loops end, and a program can still be seen to use data that it has not polled for",
)
DMA_ORDER = Choice(
    "refsi/dma-order",
    "in which order the transfers that one wait covers are performed",
    "the newest first",
    "transfers do not have to complete in the order of their start; programs that count on it are found out",
)
DMA_SNAPSHOT = Choice(
    "refsi/dma-snapshot",
    "whether windows that change after the start move a pending transfer",
    "no: addresses are translated and checked, all of them, at the start, and nothing is copied if one is refused",
    "all registers are copied when a transfer starts; an error is reported where its cause is",
)
DMA_ONE_AREA = Choice(
    "refsi/dma-one-area",
    "whether one side of a transfer may cross from one memory or window into the next",
    "it may not",
    "areas that happen to be neighbours are different memories; the reference checks only the first byte",
)
DMA_OVERLAP_BYTES = Choice(
    "refsi/dma-overlap-bytes",
    "what the regions are that may not overlap",
    "the bytes read and the bytes written, not the gaps that strides leave; source rows may repeat (stride 0), "
    "destination rows may not overlap",
    "bytes in gaps are not touched; repeated reads have one outcome, repeated writes do not",
)
DMA_ZERO = Choice(
    "refsi/dma-zero",
    "whether a transfer with a size of 0 in a used dimension gets an ID",
    "nothing is copied, checked or started, DMASTARTSEQ keeps its value",
    "as the reference driver does",
)
DMA_UNLISTED = Choice(
    "refsi/dma-unlisted",
    "what DMA registers 12 to 31 and the unlisted bits of DMACTRL do",
    "nothing: touching them is an error",
    "the document names no such register or bit",
)
# ---- caches
CACHE_MODEL = Choice(
    "refsi/cache-model",
    "shape and policy of the harts' data caches",
    'with coherence="strict" each hart has an unlimited write-back cache of 64-byte lines with a dirty bit per byte; '
    "it writes back and invalidates only when synchronised",
    "the worst that the document allows: real caches evict now and then and so hide missing SYNC_CACHE commands",
)
CACHE_DRAM = Choice(
    "refsi/cache-dram",
    "which memory the data caches hold",
    "DRAM; TCDM and registers are not cached",
    "TCDM is as near as a cache, and kernels hand data from it to the DMA controller without any way to flush",
)
CACHE_COPY = Choice(
    "refsi/cache-copy",
    "whether COPY_MEM64 and host accesses made as a hart see that hart's cache",
    "no: they see memory through the hart's windows",
    "the driver needs no control of caches, and SYNC_CACHE is the way to see a hart's data",
)
CACHE_ATOMIC = Choice(
    "refsi/cache-atomic",
    "where atomic memory operations, load-reserved and store-conditional work",
    "in memory; the hart's own line is written back and dropped first",
    "atomics are how harts talk to each other",
)

SPEC_CHOICES: Final[tuple[Choice, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Choice)
)
"""All of them, in the order above."""
