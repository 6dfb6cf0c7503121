"""The kernel's own registers, as they are given to the generator: ``c:16:cat``, ``s:64:dog``, ``c:32:fish:0x1F``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, cast

from understudy.core.errors import RuleError
from understudy.device.fletcher.rules import CUSTOM_SYNTAX

CustomBehaviour = Literal["c", "s"]

MAX_WIDTH: Final = 1 << 16
"""Wider registers are refused; no bus of ours has use for one."""

# What the generator looks for, anywhere in the text.
_PATTERN: Final = re.compile(r"([cs]):([0-9]+):([A-Za-z0-9_]+):?(0x[0-9a-fA-F]+)?")


@dataclass(frozen=True, slots=True)
class CustomText:
    """A custom register before it has an address. `width` is in bits."""

    behaviour: CustomBehaviour
    width: int
    name: str
    init: int | None


def parse_custom(text: str) -> CustomText:
    """Read ``behaviour:width:name[:init]``; `RuleError` that says what is wrong with it.

    The generator searches for the pattern and drops what stands around it; here that is an error (choice
    fletcher/custom-text).
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        found = _PATTERN.search(text)
        hint = f"; the generator would silently take {found[0]!r} of it" if found else ""
        raise _error(text, f"no <behavior>:<width>:<name>[:0x<init>] with behavior c or s{hint}")
    behaviour, width_text, name, init_text = match.groups()
    if len(width_text) > len(str(MAX_WIDTH)) or not 1 <= (width := int(width_text)) <= MAX_WIDTH:
        raise _error(text, f"width {width_text[:20]} is outside of 1..{MAX_WIDTH}")
    init = int(init_text, 16) if init_text else None
    if init is not None and init >> width:
        raise _error(text, f"init {init:#x} does not fit {width} bits")
    return CustomText(cast("CustomBehaviour", behaviour), width, name, init)


def _error(text: str, message: str) -> RuleError:
    shown = text if len(text) <= 60 else text[:60] + "..."
    return RuleError(f"custom register {shown!r}: {message}", rule=CUSTOM_SYNTAX)
