"""What the generator and vhdmmio demand of the names and places of registers: where they would stop, so do we."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from understudy.core.errors import RuleError
from understudy.device.fletcher.map.flatten import is_ignored
from understudy.device.fletcher.map.layout import FletcherMap
from understudy.device.fletcher.map.registers import address_space
from understudy.device.fletcher.rules import BUS_WORDS, NAME_LETTERS, UNIQUE_NAMES

MAX_WORDS: Final = 26
"""vhdmmio numbers the words of a register by letters."""
YAML_WORDS: Final = frozenset(
    form for word in ("yes", "no", "on", "off", "true", "false", "null") for form in (word, word.title(), word.upper())
)
"""Names that are no text in the generator's YAML file."""
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


def check_names(plan: FletcherMap) -> None:
    """`RuleError` for a name that is no identifier, or that two registers or ports would have."""
    lower: dict[str, str] = {}
    for field in plan.fields:
        if not _NAME.fullmatch(field.name):
            raise RuleError(
                f"register name {field.name!r} is no ASCII letter followed by letters, digits and _", rule=NAME_LETTERS
            )
        if field.name in YAML_WORDS:
            raise RuleError(f"register name {field.name!r} is no text in YAML", rule=NAME_LETTERS)
        other = lower.setdefault(field.name.lower(), field.name)
        if other is not field.name:
            raise RuleError(f"two registers would be called {_pair(other, field.name)}", rule=UNIQUE_NAMES)
    _unique(_kernel_ports(plan), "ports of the kernel")
    written = (f"{field.name}_write" if field.behaviour == "status" else field.name for field in plan.fields)
    _unique(written, "ports of the register file")


def _pair(one: str, other: str) -> str:
    return one if one == other else f"{one} and {other}, the same in VHDL"


def _kernel_ports(plan: FletcherMap) -> Iterator[str]:
    """Names of the generated kernel's ports: clock and reset, some registers, and three for each field."""
    yield "kcd"
    buffers = {buffer.name for buffer in plan.buffers}
    profile = plan.profile_enable if plan.profile_enable is not None else plan.offset + plan.size_bytes
    for field in plan.fields:
        if field.address < profile and field.name not in buffers:
            yield field.name
    for batch in plan.batches:
        for field in batch.schema:
            if not is_ignored(field):
                name = f"{batch.name}_{field.name}"
                yield from (name, f"{name}_cmd", f"{name}_unl")


def _unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise RuleError(f"two {what} would be called {name}", rule=UNIQUE_NAMES)
        seen.add(name)


def check_words(plan: FletcherMap) -> None:
    """`RuleError` for custom registers that are too long, or whose words another register begins in."""
    word = plan.bus_width // 8
    for custom in plan.customs:
        start = custom.address % word * 8
        words = -(-(start + custom.width) // plan.bus_width)
        if words > MAX_WORDS:
            raise RuleError(
                f"custom register {custom.name} takes {words} words of the bus, expected {MAX_WORDS} or fewer",
                rule=BUS_WORDS,
            )
        end = custom.address + address_space(custom.width)
        if words > 1 and end % word:
            follows = next(field.name for field in plan.fields if field.address == end)
            raise RuleError(
                f"{follows} at {end:#x} would begin in the last bus word of custom register {custom.name} at "
                f"{custom.address:#x}: widen or reorder the registers",
                rule=BUS_WORDS,
            )
