"""What the ROCm Code Object document leaves open about the start of kernels, and our answers (`docs/hsa.md`)."""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice

LAUNCH_CHOICES: Final[tuple[Choice, ...]] = (
    Choice(
        "hsa/end-of-user-sgprs",
        "where user SGPRs end when the enable bits add up to another number than rsrc2.user_sgpr_count",
        "where the count says: what is enabled beyond it is not set, system SGPRs begin there",
        "the count is the register that hardware looks at; the enable bits are for the packet processor",
    ),
    Choice(
        "hsa/undefined-registers",
        "what registers hold that were not enabled, or lie beyond the sixteenth user SGPR, and LDS at first",
        "0, or the setting `poison`",
        "nothing decides it; a pattern shows who reads what nobody wrote",
    ),
    Choice(
        "hsa/edge-numbers",
        "how the work-items of a partial work-group at the edge of a grid are numbered",
        "lane by lane, x first, in the partial size: waves and lanes without work-items are only at the end",
        "compilers' code and the HSA specification's flattened ids agree with it",
    ),
    Choice(
        "hsa/memory-granules",
        "the granularity of LDS and of private memory",
        "LDS in steps of 512 bytes, private memory of a work-item in steps of 4 bytes and of a wave in steps of 1 KiB",
        "the fields of the registers that hardware is told in count so, from GFX7 to GFX9",
    ),
    Choice(
        "hsa/unused-dimensions",
        "grid and work-group sizes of the dimensions that setup leaves out",
        "they have to be 1: anything else, 0 as well, is error 0x2",
        "the HSA specification says that they must be",
    ),
    Choice(
        "hsa/grid-limit",
        "grids of more work-groups than anyone waits for",
        "up to 16777216 work-groups in one dispatch; more are beyond the model",
        "the table of work-groups is made before the first one runs",
    ),
)
"""Part of the choices of `understudy.device.hsa.choices`; here, where they are made."""
