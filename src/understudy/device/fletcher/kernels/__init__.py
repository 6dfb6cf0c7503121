"""The kernels that come with Understudy: those of Fletcher's examples, and some of general use.

`find` gives one by name. Modules load with their kernel only.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from understudy.core.errors import WireError
from understudy.device.fletcher.kernel import Kernel

BUILT_IN: Final[dict[str, str]] = {
    "sum": "sum:sum_numbers",
    "string_write": "string_write:string_write",
    "string_write_as_built": "string_write:STRING_WRITE_AS_BUILT",
    "prim_map": "prim_map:prim_map",
    "prim_map_as_built": "prim_map:PRIM_MAP_AS_BUILT",
    "string_read": "printers:string_read",
    "listprim": "printers:listprim",
    "soda_beer": "soda_beer:soda_beer",
    "filter": "filter_rows:FILTER",
    "regex_count": "regex_count:regex_count",
    "arithmetic": "arithmetic:arithmetic",
    "group_by": "group_by:group_by",
}
"""Module and name of each kernel."""


def find(name: str) -> Kernel:
    """The built-in kernel called `name`; `WireError` with all names if there is none."""
    place = BUILT_IN.get(name)
    if place is None:
        raise WireError(f"there is no kernel {name!r}, expected one of {', '.join(BUILT_IN)}")
    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"{__name__}.{module}"), attribute)
    assert isinstance(found, Kernel)
    return found
