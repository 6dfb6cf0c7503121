"""Which checks run while kernels do, and how they are asked for: ``check="memory"`` everywhere.

A check tells of what hardware accepts and a correct program may not do. It changes no result: what a kernel does with
checks on is what it does without.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from understudy.core.errors import WireError, close_to
from understudy.core.sources import bytes_of

VARIABLE: Final = "UNDERSTUDY_CHECK"
"""Environment variable: the checks of devices that were made without `check`."""
MEMORY: Final = "memory"
LEAKS: Final = "leaks"
INIT: Final = "init"
FIDELITY: Final = "fidelity"
WAITS: Final = "waits"
SYNC: Final = "sync"
RACES: Final = "races"
LANES: Final = "lanes"
MARKED: Final = frozenset({INIT, FIDELITY})
"""Those for which marks travel with values."""
CHECKS: Final[dict[str, str]] = {
    MEMORY: "accesses beyond an allocation or after it was freed, LDS and private memory likewise; double free",
    LEAKS: "what the host allocated and had not freed when the device was closed; with memory",
    INIT: "values of registers and memory that nobody has written, where they decide something or the host reads them",
    FIDELITY: "values that hardware only approximates, where they decide something",
    RACES: "accesses of the same byte by waves, harts or the host, one of them a store, that nothing orders",
    LANES: "with races, and not among all: such accesses by lanes of one wave, which hardware makes in an order",
    WAITS: "results of GCN code that are used before they are waited for; RISC-V code that is stored without FENCE.I",
    SYNC: "barriers that not all work-items of a group reach; signals and packets that wait for what never comes",
}
"""What there is, by name."""
ALL: Final = frozenset(CHECKS) - {LANES}
"""What "all" means: nothing that is right as machine code."""
MOST_BYTES: Final = 64 << 20
"""Larger files of suppressions are refused."""
KEEP: Final = "keep"
RAISE: Final = "raise"
ON_FINDING: Final = (KEEP, RAISE)
"""What becomes of a finding: it is kept in a list; or the first one ends the kernel, as an error."""
FINDINGS: Final = 100
"""Places of findings that a device keeps."""
LONGEST: Final = 1000
"""Characters of a suppression's pattern: with more of them, matching may take minutes."""


def checks_of(words: str) -> frozenset[str]:
    """The checks that ``"memory,leaks"`` names, "all" for `ALL`; `WireError` for a word that is none."""
    names = [word for word in (part.strip() for part in words.split(",")) if word]
    for name in names:
        if name not in CHECKS and name != "all":
            known = ", ".join([*CHECKS, "all"])
            raise WireError(f"no check {name!r}, expected some of {known}{close_to(name, CHECKS)}")
    return frozenset(names) - {"all"} | (ALL if "all" in names else frozenset())


def default_checks() -> str:
    """Those of devices that were made without `check`: what the environment says (see `VARIABLE`), else none."""
    words = os.environ.get(VARIABLE, "")
    try:
        checks_of(words)
    except WireError as error:
        raise WireError(f"{VARIABLE}={words}: {error.message}") from None
    return words


def read_suppressions(path: str | Path) -> tuple[tuple[str, ...], ...]:
    """The lines of a suppressions file: each up to three patterns, as `core.findings.Finding.matches` takes them.

    Empty lines and what stands behind # mean nothing. `WireError` with the line for what is none, or names no check.
    """
    try:
        lines = bytes_of(path, "a file of suppressions", MOST_BYTES).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise WireError(f"{path} is no text: {error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        patterns = tuple(line.partition("#")[0].split())
        if len(patterns) > 3:
            text = f"{len(patterns)} patterns, expected up to three: CHECK/KIND, a kernel, a place"
            raise WireError(text).at(str(path), f"line {number}")
        if any(len(pattern) > LONGEST for pattern in patterns):
            raise WireError(f"a pattern of more than {LONGEST} characters").at(str(path), f"line {number}")
        wanted = patterns[0].partition("/")[0] if patterns else "*"
        if not any(fnmatchcase(check, wanted) for check in CHECKS):
            raise WireError(f"no check is called {wanted[:80]!r}: there are {', '.join(CHECKS)}").at(
                str(path), f"line {number}"
            )
        if patterns:
            found.append(patterns)
    return tuple(found)
