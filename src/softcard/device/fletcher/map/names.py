"""The restrictions of the generator fletchgen and of vhdmmio on register names and addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from softcard.core.errors import RuleError
from softcard.device.fletcher.map.flatten import is_ignored
from softcard.device.fletcher.map.layout import FletcherMap
from softcard.device.fletcher.map.registers import address_space
from softcard.device.fletcher.rules import BUS_WORDS, NAME_LETTERS, UNIQUE_NAMES

MAX_WORDS: Final = 26
"""The maximum number of bus words of a register, because vhdmmio numbers them with letters."""
YAML_WORDS: Final = frozenset(
    form for word in ("yes", "no", "on", "off", "true", "false", "null") for form in (word, word.title(), word.upper())
)
"""The words that YAML does not read as text."""
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


def check_names(plan: FletcherMap) -> None:
    """Raise `RuleError` for a name that is not an identifier, or that two registers or ports would share."""
    lower: dict[str, str] = {}
    for field in plan.fields:
        if not _NAME.fullmatch(field.name):
            raise RuleError(
                f"register name {field.name!r} must be an ASCII letter followed by letters, digits and _",
                rule=NAME_LETTERS,
            )
        if field.name in YAML_WORDS:
            raise RuleError(
                f"register name {field.name!r} is a reserved word in YAML, choose another", rule=NAME_LETTERS
            )
        other = lower.setdefault(field.name.lower(), field.name)
        if other is not field.name:
            raise RuleError(f"two registers would have the name {_pair(other, field.name)}", rule=UNIQUE_NAMES)
    _unique(_kernel_ports(plan), "ports of the kernel")
    written = (f"{field.name}_write" if field.behaviour == "status" else field.name for field in plan.fields)
    _unique(written, "ports of the register file")


def _pair(one: str, other: str) -> str:
    return one if one == other else f"{one} and {other}, which are the same in VHDL"


def _kernel_ports(plan: FletcherMap) -> Iterator[str]:
    """Yield the port names of the generated kernel.

    These are clock and reset, the ports of the registers that precede the profile registers, except for the
    registers with buffer addresses, and three ports for each field."""
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
            raise RuleError(f"two {what} would have the name {name}", rule=UNIQUE_NAMES)
        seen.add(name)


def check_words(plan: FletcherMap) -> None:
    """Raise `RuleError` for custom registers that need too many bus words or share a bus word in a forbidden way.

    The last bus word of a custom register with several words must not contain the start of another register."""
    word = plan.bus_width // 8
    for custom in plan.customs:
        start = custom.address % word * 8
        words = -(-(start + custom.width) // plan.bus_width)
        if words > MAX_WORDS:
            raise RuleError(
                f"custom register {custom.name} needs {words} words of the bus, expected {MAX_WORDS} or fewer",
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
