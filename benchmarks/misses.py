"""The known reasons for missed targets: the first pattern that matches a row's question and name."""

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
        "A wave of 21 instructions takes 33 ns on one thread: 9 to begin, and 6 to 8 for each of three accesses, which "
        "check the addresses of all lanes. pocl takes 0.12 to 0.27 ms, depending on whether NumPy's arrays lie on huge "
        "pages; Softcard does not depend on it.",
    ),
    (
        r"gcn: .*rows of a .*: all of it",
        "1,024 rows are 16 waves whose lanes load 4 KiB apart: gathers of 64 cache lines.",
    ),
    (
        r"gcn: .*float4 transpose.*: one core",
        "No way to make it faster was found; C takes longer on the same core (benchmarks/gcn_limits.py).",
    ),
    (
        r"gcn: .*byte substitution in LDS: all of it",
        "Each of the 64 table lookups of a wave is compared with the bounds of the group's LDS; pocl uses gathers of "
        "the host without that check.",
    ),
    (
        r"gcn: gfx803 byte substitution in LDS: one core",
        "M0 bounds the LDS of GFX7 and GFX8: each access to the table is compared with it.",
    ),
    (
        r"gcn_left: s_sleep",
        "A pause lets other waves run, as it should: each one enters the scheduler.",
    ),
    (
        r"gcn_left: image_sample",
        "Coordinates, weights and filters are binary64 on all 64 lanes, which keeps the last bit exact.",
    ),
    (r"gcn_left: ds_add", "Lanes execute one by one, in order: two of them may have the same address."),
    (
        r"gcn_left: global_atomic_add",
        "Each of 64 lanes takes a locked instruction of the host, since other threads and the host may write there.",
    ),
    (
        r"gcn_left: image_load, sRGB",
        "Each of three components is gathered from a table of 256 numbers.",
    ),
    (
        r"gcn_left: image_store, sRGB",
        "Each of three components is searched among 255 steps: 24 gathers and comparisons, exact to the last bit.",
    ),
    (
        r"gcn_left: ds_wrxchg2",
        "The two exchanges may have the same address: lanes execute one by one, first one exchange, then the other.",
    ),
    (
        r"campaign: .*aql",
        "The target is met when the machine is quiet: runs within one hour gave 130 to 202 (and 238 on the machine of "
        "most other tables). A program makes 17 launches, each of a size that no launch had before.",
    ),
    (
        r"gcn_checks: .*(vector add|matmul|reduction): .*races",
        "Each lane vector is compared with four shadow words of its line of memory: some thirty more instructions for "
        "one load. A vector add, which is bound by memory, gave 2.4 to 4.2 within two hours.",
    ),
    (
        r"gcn_checks: .*(substitution|tables|gathers|rows).*races",
        "Table lookups have a shadow cell for each dword or byte: the check takes three to eight gathers of the host "
        "and a scatter for each lookup. Bytes in LDS gave 6.3 to 9.4 within two hours.",
    ),
    (
        r"refsi_checks: .*check=waits$",
        "The target is met when the machine is quiet. In a loop whose addresses are not known before its first round, "
        "a store costs a comparison, an addition and registers for both. A launch of a millisecond also pays some "
        "hundredths of one for what the reference engine records at the end of each time slice.",
    ),
    (
        r"refsi_checks: .*spin lock",
        "Each release begins a new epoch, so each of the five accesses of a round is a new event. A round takes 23 ns "
        "without the check, and a compiled function takes some 11 ns for each event. Two hours gave 3.1 to 4.3, while "
        "the machine's speed changed by a factor of 1.6 from second to second.",
    ),
    (
        r"checks: .*check=(sync|memory)",
        "Noise: these launches take 0.5 to 2 ms and differ by that much from run to run. The best of 150 launches with "
        "the check took 0.98 to 1.00 times the best of 150 without it.",
    ),
    (
        r"checks: RefSi .*check=init",
        "Each load and store also accesses shadow memory; two of three instructions here are loads or stores.",
    ),
    (
        r"refsi_driver: matmul f32 .*refsidrv",
        "Every second element of a column lies on another page, and the profile models each access to the reference's "
        "translation buffer of 256 entries.",
    ),
    (
        r"hsa_queue: .*arrays of the device",
        "Python writes the packet, the kernel arguments and the signal of each launch.",
    ),
    (
        r"hsa_queue: .*NumPy arrays",
        "Each launch maps and unmaps two arrays (52 us), and handling the changed page tables takes as long again. "
        "Leaving them mapped would hide stray accesses and keep the user's memory alive.",
    ),
    (
        r"campaign: .*never run before",
        "The target is met when the machine is quiet: runs within one hour gave 155 to 207. Each program is translated "
        "and run once; a third of the time goes to handlers that no earlier program needed.",
    ),
    (r"shell_start: ", "LLVM compiles what is not on disk; the start of Python and imports take the rest."),
)


def reason(question: str, what: str) -> str:
    """Return why this row misses its target, "Not known yet." if no pattern matches."""
    for pattern, text in REASONS:
        if re.match(pattern, f"{question}: {what}"):
            return text
    return "Not known yet."
