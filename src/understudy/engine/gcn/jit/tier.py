"""The tiers of waves: how guest code becomes the host's."""

from __future__ import annotations

from enum import Enum


class Tier(Enum):
    """THREADED: a handler is called for each instruction, at once. OPTIMISED: compiled for code that is hot."""

    THREADED = "threaded"
    OPTIMISED = "optimised"
