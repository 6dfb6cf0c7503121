"""The names of the checks that can observe running kernels, and their selection, as in ``check="memory"``.

A check reports behaviour that hardware accepts and that is an error in a correct program. Checks do not
change results: a kernel computes the same values with and without them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from softcard.core.errors import ModelBug, WireError, close_to
from softcard.core.files import bytes_of

VARIABLE: Final = "SOFTCARD_CHECK"
"""The environment variable with the checks of devices that are created without `check`."""
_SET: Final[list[str]] = []
MEMORY: Final = "memory"
LEAKS: Final = "leaks"
INIT: Final = "init"
FIDELITY: Final = "fidelity"
WAITS: Final = "waits"
SYNC: Final = "sync"
RACES: Final = "races"
LANES: Final = "lanes"


@dataclass(frozen=True, slots=True)
class CheckKind:
    """The properties of a check. Settings and devices use these properties instead of the names of checks.

    - `text`: the description of the check in help texts.
    - `in_all`: the name "all" selects the check.
    - `requires`: the name of another check that must also be on, or "".
    - `waves`, `harts`: devices with GCN waves, or with RISC-V harts, support the check.
    - `with_snapshots`: it can be combined with snapshots of registers, which only the reference engine takes.
    - `with_strict_waves`: it can be combined with the setting that gives waves caches that may be stale.
    - `shadows_values`: the check keeps shadow bits for every value.
    - `fills_junk`: undefined memory holds junk by default.
    - `orders_accesses`: the check tracks the happens-before order of accesses.
    - `takes_equal_stores`: the setting `equal_stores` changes what the check reports.
    - `only_engine`: for harts, the check follows instructions only and needs no support by the device's memory.
    - `guards_allocations`: the check needs the exact bounds of allocations.
    - `follows_packets`: the check follows the packets of queues, and the host's waits for them.
    - `needs_own_blocks`: a program's run-time library must request each allocation from the driver on its own.
    - `needs_copy_engines`: copy engines must make all copies between the host and a device.
    - `at_close`: the check examines allocations and other state that remain when a device is closed."""

    text: str
    waves: bool = True
    harts: bool = False
    in_all: bool = True
    requires: str = ""
    with_snapshots: bool = False
    with_strict_waves: bool = False
    shadows_values: bool = False
    fills_junk: bool = False
    orders_accesses: bool = False
    takes_equal_stores: bool = False
    only_engine: bool = False
    guards_allocations: bool = False
    follows_packets: bool = False
    needs_own_blocks: bool = False
    needs_copy_engines: bool = False
    at_close: bool = False


CHECKS: Final[dict[str, CheckKind]] = {
    MEMORY: CheckKind(
        "accesses outside an allocation or after it was freed, also of LDS and private memory; double free",
        harts=True,
        with_snapshots=True,
        guards_allocations=True,
        needs_own_blocks=True,
    ),
    LEAKS: CheckKind(
        'allocations that the host had not freed when the device was closed; needs "memory"',
        harts=True,
        with_snapshots=True,
        guards_allocations=True,
        at_close=True,
    ),
    INIT: CheckKind(
        "uninitialised registers and memory that a branch, an address or the host uses",
        harts=True,
        shadows_values=True,
        fills_junk=True,
        needs_own_blocks=True,
        needs_copy_engines=True,
    ),
    FIDELITY: CheckKind(
        "values that hardware only approximates and that a branch or an address uses", shadows_values=True
    ),
    RACES: CheckKind(
        "conflicting accesses of one byte by waves, harts or the host without a happens-before order",
        harts=True,
        orders_accesses=True,
        takes_equal_stores=True,
    ),
    LANES: CheckKind(
        'needs "races", not part of "all": races between lanes of one wave, whose order the hardware fixes',
        in_all=False,
        requires=RACES,
        orders_accesses=True,
    ),
    WAITS: CheckKind(
        "GCN results that are used without a wait for them; RISC-V code that is stored and run without FENCE.I",
        harts=True,
        only_engine=True,
    ),
    SYNC: CheckKind(
        "barriers that some work-items of a group do not reach; signals and packets that wait forever",
        harts=True,
        with_snapshots=True,
        with_strict_waves=True,
        follows_packets=True,
    ),
}
"""The checks by name."""
ALL: Final = frozenset(name for name, kind in CHECKS.items() if kind.in_all)
"""The checks that "all" selects: those that never report correct machine code."""
MOST_BYTES: Final = 64 << 20
"""The maximum size, in bytes, of a suppressions file."""
KEEP: Final = "keep"
RAISE: Final = "raise"
WARN: Final = "warn"
ON_FINDING: Final = (WARN, KEEP, RAISE)
"""The ways to report findings; in any case, a device adds them to its list `findings`.

"warn" issues a `FindingWarning` when the host's call ends, "keep" does nothing more, and "raise" ends the kernel with
the first finding as an error.
"""
FINDINGS: Final = 100
"""The default of the maximum number of findings that a device stores."""
LONGEST: Final = 1000
"""The maximum number of characters of a suppression's pattern; matching a longer one may take minutes."""


def add_check(name: str, text: str, *, harts: bool) -> Callable[[], None]:
    """Add a check of harts, or one of waves; return a function that removes it.

    `text` describes in a few words what the check reports. The name "all" in a setting does not include the check. One
    check of waves and one of harts may have the same name; raise `ModelBug` for a second one of a kind.
    """
    known = CHECKS.get(name)
    if known is not None and (known.harts if harts else known.waves):
        raise ModelBug(f"a check {name!r} exists already: {known.text}")
    has_both = known is not None
    has_harts = harts or has_both
    CHECKS[name] = CheckKind(text, waves=not harts or has_both, harts=has_harts, in_all=False, only_engine=has_harts)

    def remove() -> None:
        if known is None:
            del CHECKS[name]
        else:
            CHECKS[name] = known

    return remove


def having(names: Iterable[str], has: Callable[[CheckKind], bool]) -> frozenset[str]:
    """Return the checks in `names` whose `CheckKind` satisfies the predicate `has`."""
    return frozenset(name for name in names if has(CHECKS[name]))


def as_text(checks: str | Iterable[str]) -> str:
    """Return the names of checks in `checks` as one text, such as ``"memory,leaks"``.

    `checks` is text of this form, which is returned unchanged, or an iterable of names. Raise `WireError` for
    other types."""
    if isinstance(checks, str):
        return checks
    names: list[object] = [*checks] if isinstance(checks, Iterable) else [checks]
    if not all(isinstance(name, str) for name in names):
        raise WireError(f'check is {checks!r}, expected names of checks: "memory,races" or ["memory", "races"]')
    return ",".join(map(str, names))


def checks_of(words: str | Iterable[str]) -> frozenset[str]:
    """Return the set of checks that a text like ``"memory,leaks"`` names; "all" stands for `ALL`.

    Raise `WireError` for an unknown name.
    """
    names = [word for word in (part.strip() for part in as_text(words).split(",")) if word]
    for name in names:
        if name not in CHECKS and name != "all":
            known = ", ".join([*CHECKS, "all"])
            raise WireError(f"unknown check {name!r}, expected some of {known}{close_to(name, CHECKS)}")
    return frozenset(names) - {"all"} | (ALL if "all" in names else frozenset())


def set_default_checks(words: str) -> None:
    """Set the default checks of devices created without `check`; "" removes the default.

    A device ignores the default checks that it does not support.
    """
    _SET[:] = [words] if words else []


def are_set(words: str) -> bool:
    """Return True if `words` is the text that was last passed to `set_default_checks`."""
    return [words] == _SET


def default_checks() -> str:
    """Return the checks of devices that are created without `check`.

    They come from `set_default_checks` or the environment (see `VARIABLE`); without either there are none.
    """
    if _SET:
        return _SET[0]
    words = os.environ.get(VARIABLE, "")
    try:
        checks_of(words)
    except WireError as error:
        raise WireError(f"{VARIABLE}={words}: {error.message}") from None
    return words


def read_suppressions(path: str | Path) -> tuple[tuple[str, ...], ...]:
    """Return the lines of a suppressions file, each as up to three shell-style patterns for `Finding.matches`.

    Empty lines and comments after # are ignored. Raise a `WireError` with the line number if a line has too many
    patterns or an unknown check.
    """
    try:
        lines = bytes_of(path, "a file of suppressions", MOST_BYTES).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise WireError(f"{path} is not UTF-8 text: {error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        patterns = tuple(line.partition("#")[0].split())
        if len(patterns) > 3:
            text = f"the line has {len(patterns)} patterns, expected up to three: CHECK/KIND, a kernel, a place"
            raise WireError(text).at("line", number).at("file", str(path))
        if any(len(pattern) > LONGEST for pattern in patterns):
            text = f"the line has a pattern of more than {LONGEST} characters"
            raise WireError(text).at("line", number).at("file", str(path))
        wanted = patterns[0].partition("/")[0] if patterns else "*"
        if not any(fnmatchcase(check, wanted) for check in CHECKS):
            text = f"unknown check {wanted[:80]!r}, expected one of {', '.join(CHECKS)}{close_to(wanted, CHECKS)}"
            raise WireError(text).in_operand(wanted).at("line", number).at("file", str(path))
        if patterns:
            found.append(patterns)
    return tuple(found)
