"""Why targets are missed, as far as it has been found out: the first pattern that fits a row's question and name."""

from __future__ import annotations

import re
from typing import Final

REASONS: Final = (
    (
        r"gcn: .*gain by 2 threads",
        "A launch takes 1 to 4 ms: its first turn is serial and a second thread takes 20 to 50 us to wake; "
        "two threads share the host's memory.",
    ),
    (
        r"gcn: .* vector add: all of it",
        "A wave of 21 instructions takes 33 ns on one thread: 9 to begin, 6 to 8 for each of three accesses, whose "
        "addresses are looked at on all lanes. pocl takes 0.12 to 0.27 ms, as NumPy's arrays come to lie on huge pages "
        "or not, which makes no difference here.",
    ),
    (
        r"gcn: .*rows of a .*: all of it",
        "1,024 rows are 16 waves whose lanes load 4 KiB apart: gathers of 64 cache lines.",
    ),
    (
        r"gcn: .*float4 transpose.*: one core",
        "Nothing was found that makes it faster; C needs longer on the same core (below, limit of one core).",
    ),
    (
        r"gcn: .*byte substitution in LDS: all of it",
        "Each of 64 look-ups of a wave is held against the bounds of the group's LDS; pocl's are gathers of the host.",
    ),
    (
        r"gcn: gfx803 byte substitution in LDS: one core",
        "M0 bounds the LDS of GFX7 and GFX8: each access of the table is held against it.",
    ),
    (
        r"gcn_left: s_sleep",
        "A pause gives other waves their turn, as it should: the scheduler is entered each time.",
    ),
    (
        r"gcn_left: image_sample",
        "Coordinates, weights and filters are binary64 on all 64 lanes, which keeps the last bit exact.",
    ),
    (r"gcn_left: ds_add", "One lane after the other, in the order of lanes: two may have the same address."),
    (
        r"gcn_left: global_atomic_add",
        "A locked instruction of the host for each of 64 lanes, since other threads and the host may write there.",
    ),
    (
        r"gcn_left: image_load, sRGB",
        "Each of three components is gathered out of a table of 256 numbers.",
    ),
    (
        r"gcn_left: image_store, sRGB",
        "Each of three components is looked for among 255 steps: 24 gathers and comparisons, exact to the last bit.",
    ),
    (r"gcn_left: ds_wrxchg2", "Two exchanges, which may meet: lane after lane, one after the other."),
    (
        r"campaign: .*aql",
        "As many as the target in quiet moments: runs of one hour gave 130 to 202 (before, in the same hour, 126 to "
        "143; 238 then on the machine of most other tables). A program is 17 launches, whose sizes are new each time.",
    ),
    (
        r"gcn_checks: .*(vector add|matmul|reduction): .*races",
        "Each chunk of lanes is held against four words of 8 bytes that are kept for its line of memory: some thirty "
        "instructions more for one load. A vector add, which waits for memory alone, gave 2.4 to 4.2 in two "
        "hours (before, in turns with that, 2.8 to 5.5).",
    ),
    (
        r"gcn_checks: .*(substitution|tables|gathers|rows).*races",
        "Look-ups have cells for each dword, or each byte: the check takes three to eight gathers of the host and a "
        "scatter for one. Of bytes in LDS that gave 6.3 to 9.4 in two hours (9.0 to 12.5 before).",
    ),
    (
        r"refsi_checks: .*check=waits$",
        "At its target in quiet moments. Where a loop does not know its memory beforehand, a store costs a comparison, "
        "an addition and the registers for both, which other values have to leave; a launch that takes a millisecond, "
        "some hundredths of one for what the reference engine notes at the ends of turns.",
    ),
    (
        r"refsi_checks: .*spin lock",
        "What is behind a release is told apart from what was before: each of five accesses of a round, which takes "
        "23 ns, is a new event, made by a compiled function in some 11 ns. It was 3.1 to 4.3 times as long in two "
        "hours in which the machine's speed changed by 1.6 from second to second.",
    ),
    (
        r"checks: .*check=(sync|memory)",
        "Launches of 0.5 to 2 ms, which differ by that from run to run: the best of 150 without the check were 0.99 to "
        "1.01 of the best of 150 others, those with it 0.98 to 1.00.",
    ),
    (
        r"checks: RefSi .*check=init",
        "Each load and store is done twice, the second time of marks; two of three instructions here are such.",
    ),
    (
        r"refsi_driver: matmul f32 .*refsidrv",
        "Each second element of a column lies on another page, and the profile plays the reference's translation "
        "buffer of 256 entries access by access.",
    ),
    (
        r"hsa_queue: .*arrays of the device",
        "Python writes packet, kernel arguments and signal anew for each launch.",
    ),
    (
        r"hsa_queue: .*NumPy arrays",
        "Two arrays are mapped and unmapped for each launch (52 us), and what follows from changed page tables takes "
        "as much. Keeping them mapped would hide stray accesses and hold the user's memory.",
    ),
    (
        r"campaign: .*never run before",
        "As many as the target in quiet moments: runs of one hour gave 155 to 207 (before, in the same hour, 142). "
        "Each program is translated to be run once; a third of the time is that of handlers that no program needed "
        "before.",
    ),
    (r"shell_start: ", "LLVM compiles what is not on disk; Python's start and imports take their time beside it."),
)


def reason(question: str, what: str) -> str:
    """Why this row misses its target; said so where nobody knows yet."""
    for pattern, text in REASONS:
        if re.match(pattern, f"{question}: {what}"):
            return text
    return "Not known yet."
