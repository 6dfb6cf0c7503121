"""Gaps of the ROCm Code Object document about memory types and caches, and our answers; see `choices`."""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice


def _choice(name: str, gap: str, answer: str, reason: str) -> Choice:
    return Choice(f"hsa/{name}", gap, answer, reason)


MEMORY_CHOICES: Final[tuple[Choice, ...]] = (
    _choice(
        "memory-types",
        "which memory has which MTYPE; the document sets a default and asks V# to fit global_memory_coherence, a field"
        " that its amd_kernel_code_t does not have",
        "allocated and mapped memory is coarse-grained (NC) unless `mtype` says otherwise; queues, signals and the "
        "host API's kernel arguments are fine-grained: UC, on APUs CC; private memory is NC_NV. GFX7's and GFX8's V# "
        "with CC or UC pass the second level by whatever the memory is. GFX9's RW counts as NC",
        "AMD's driver and runtime do so; mapped arrays are what a forgotten fence shows on",
    ),
    _choice(
        "second-level",
        "what the second-level cache of an agent does",
        "it is written back, by bytes; NC is kept in it until fences at system scope, CC and UC are not; atomics "
        "happen there or in memory",
        "the drivers' fences have actions of their own to write it back and to invalidate it; a cache that is kept "
        "equal to memory cannot be told from none",
    ),
    _choice(
        "first-level",
        "what first-level caches keep",
        "lines of every memory type, until buffer_wbinvl1 or, of all but NC_NV, buffer_wbinvl1_vol, or an acquire "
        "fence at agent scope",
        "the tables ask for GLC and invalidations at system scope too; one compiler guide has it that UC is not "
        "volatile, which would break them",
    ),
    _choice(
        "eviction",
        "when lines leave caches by themselves",
        "never, and stores arrive at random",
        "the worst that can happen shows most mistakes",
    ),
    _choice(
        "unseen-stores",
        "reads of the host cannot be watched",
        "memory holds what the host would see; a finding tells where stores are that it does not see, when its wait "
        "for the packet's signal ends or when it asks for a view of them",
        "from then on a correct host may look",
    ),
    _choice(
        "scalar-cache",
        "the scalar cache",
        "scalar accesses go to the second level",
        "it is shared by few units and invalidated with their caches; compilers use it for what does not change",
    ),
)
"""From where memory lies to what its caches do."""
