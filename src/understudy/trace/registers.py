"""What register accesses are of, as people call it: RefSi's events have file and number, other devices' a name."""

from __future__ import annotations

from functools import cache
from typing import Final

from understudy.core.register import RegisterMap
from understudy.trace.reading import Record

KIND: Final = "register-access"


def register_of(record: Record) -> str:
    """The register's name; file and number where nobody knows one."""
    if record.get("name") is not None:
        return str(record["name"])
    file, index = str(record.get("file", "register")), record.get("index")
    return _names(file).get(index, f"{file}[{index}]") if isinstance(index, int) else f"{file}[{index}]"


@cache
def _names(file: str) -> dict[int, str]:
    from understudy.device.refsi import registers  # few traces have any

    found = next(
        (each for each in vars(registers).values() if isinstance(each, RegisterMap) and each.name == file), None
    )
    return {offset: each.element(index) for each, index, offset in found.elements()} if found else {}
