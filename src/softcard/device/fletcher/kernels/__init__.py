"""The kernels that come with Softcard: those of Fletcher's examples, and some of general use.

`find` returns a kernel by its name. A module is imported when the first of its kernels is used."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from softcard.core.errors import WireError
from softcard.device.fletcher.kernel import Kernel

BUILT_IN: Final[dict[str, str]] = {
    "sum": "examples:sum_numbers",
    "string_write": "examples:string_write",
    "string_write_as_built": "examples:STRING_WRITE_AS_BUILT",
    "prim_map": "examples:prim_map",
    "prim_map_as_built": "examples:PRIM_MAP_AS_BUILT",
    "string_read": "examples:string_read",
    "listprim": "examples:listprim",
    "soda_beer": "examples:soda_beer",
    "filter": "general:FILTER",
    "regex_count": "general:regex_count",
    "arithmetic": "general:arithmetic",
    "group_by": "general:group_by",
}
"""The built-in kernels by name: the module that defines each one, and its name in the module."""


def find(name: str) -> Kernel:
    """Return the built-in kernel called `name`; raise a `WireError` that lists all names for an unknown one."""
    place = BUILT_IN.get(name)
    if place is None:
        raise WireError(f"there is no kernel {name!r}, expected one of {', '.join(BUILT_IN)}")
    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"{__name__}.{module}"), attribute)
    assert isinstance(found, Kernel)
    return found
