"""Short ids of test parameters that are devices' settings, kernels or code.

pytest itself makes an id of a whole source text or of all bytes of a file, and numbers objects by their position. The
ids here stay the same when parameters are added or a kernel is compiled anew, so that ``--lf`` finds the failed tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import PurePath
from typing import Any, Final

from softcard.core.errors import SoftcardError

LONGEST_ID: Final = 60
CODE_FILES: Final = (".cl", ".hip", ".s", ".S", ".co", ".hsaco", ".elf")
"""The suffixes of files whose path becomes an id without its folders."""
_ELF: Final = b"\x7fELF"
_KERNEL: Final = re.compile(r"\b(?:(?:__)?kernel|__global__)\s+void\s+(\w+)|^\s*\.amdhsa_kernel\s+(\w+)", re.MULTILINE)
_PACKAGE: Final = __name__.partition(".")[0]


def id_of(value: object, name: str) -> str | None:
    """Return the id of a parameter called `name`; None if pytest's own id is to be used."""
    found = _id_of(value, name)
    return found[:LONGEST_ID] if found else None


def _id_of(value: object, name: str) -> str:
    if isinstance(value, Mapping):
        return _settings(value.items()) if name.startswith("softcard_") else ""
    if isinstance(value, PurePath):
        return value.name if value.suffix in CODE_FILES else ""
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, bytes | bytearray):
        return _of_file(bytes(value)) if value[:4] == _ELF else ""
    kind = type(value)
    if isinstance(value, type) or not any(each.__module__.partition(".")[0] == _PACKAGE for each in kind.__mro__):
        return ""
    own = getattr(value, "name", None)
    if isinstance(own, str):
        return own
    return _settings(_changed(value)) if is_dataclass(value) else ""


def _of_text(text: str) -> str:
    if "\n" in text or len(text) > LONGEST_ID:
        found = _KERNEL.search(text)
        if found:
            return found[1] or found[2]
    path = PurePath(text)
    return path.name if "\n" not in text and path.suffix in CODE_FILES else ""


def _of_file(data: bytes) -> str:
    """Return the processor and the first kernel of a code object; "riscv" or "elf" for other files."""
    from softcard.image.hsa.code_object import read_code_object

    try:
        code = read_code_object(data)
    except SoftcardError:
        return "riscv" if data[18:20] == b"\xf3\0" else "elf"
    names = sorted(code.kernels)
    return "-".join(filter(None, (code.target, *names[:1]))) or "elf"


def _settings(settings: Iterable[tuple[str, object]]) -> str:
    return "-".join(f"{name}={_short(value)}" for name, value in settings)


def _short(value: object) -> str:
    if isinstance(value, str | int | float | bool | None):
        return str(value)
    return _id_of(value, "") or type(value).__name__


def _changed(settings: Any) -> Iterable[tuple[str, object]]:
    """Yield the fields of a dataclass object whose values differ from the defaults."""
    for each in fields(settings):
        usual = each.default if each.default_factory is MISSING else each.default_factory()
        value = getattr(settings, each.name)
        if value != usual:
            yield each.name, value
