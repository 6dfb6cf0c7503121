"""Files with code that a program has loaded: memory has neither local symbols nor debug information, files may have.

Its run-time library says what it has loaded (`loaded_list`); where it does not, files that may have it are searched.
Either has to have the same code, byte for byte.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from understudy.core.errors import UnderstudyError
from understudy.device.kfd.client import Client
from understudy.device.kfd.loaded_code import LoadedCode
from understudy.device.kfd.loaded_list import loaded_file
from understudy.image.elf.embedded import Files
from understudy.image.elf.layout import MACHINE_AMDGPU, PF_X, PT_LOAD
from understudy.image.elf.lines import Lines, read_lines
from understudy.image.hsa.elf import HsaElf

FUNCTION: Final = 2
"""STT_FUNC."""


@dataclass(frozen=True)
class FileCode:
    """A code object in a file."""

    file: str
    elf: HsaElf

    @cached_property
    def lines(self) -> Lines:
        """Where its instructions come from: addresses count from its start."""
        return read_lines(self.elf)

    def functions(self, base: int) -> list[tuple[str, int, int]]:
        """Name, address and size of each function where it lies at `base`."""
        return [
            (each.name, base + each.value, each.size)
            for each in self.elf.symbols
            if each.kind == FUNCTION and each.size and each.is_defined
        ]

    def function_at(self, address: int) -> tuple[str, int]:
        """The function that an instruction is of, and how far behind its start; "" for none."""
        return next(
            ((name, address - at) for name, at, size in self.functions(0) if at <= address < at + size), ("", 0)
        )


class CodeFiles:
    """Code objects in the files of programs. Safe from several threads."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._all: list[FileCode] | None = None
        self._known: dict[LoadedCode, FileCode | None] = {}

    def of(self, code: LoadedCode, program: Client | None = None) -> FileCode | None:
        """The one that `program` has loaded, or the first with the same code; None where there is none.

        What a program has said is known when that has ended.
        """
        if not code.functions:
            return None
        with self._lock:
            known = self._known.get(code)
            if known is None and program is not None:
                known = _loaded(code, program)
            if known is None and code not in self._known:
                known = next((each for each in self._code_objects() if _is_in(each.elf, code)), None)
            self._known[code] = known
            return known

    def _code_objects(self) -> list[FileCode]:
        if self._all is None:
            self._all = []
            for name, data in self._files.elf_files(MACHINE_AMDGPU):
                try:
                    self._all.append(FileCode(name, HsaElf(data)))
                except UnderstudyError:
                    continue
        return self._all


def _loaded(code: LoadedCode, program: Client) -> FileCode | None:
    found = loaded_file(program, code.base)
    try:
        made = None if found is None else FileCode(found[0], HsaElf(found[1]))
    except UnderstudyError:
        return None
    return made if made is not None and _is_in(made.elf, code) else None


def _is_in(elf: HsaElf, code: LoadedCode) -> bool:
    """Whether all code of a file stands in memory as in the file: addresses in it are relative."""
    parts = [each for _, each in elf.program_headers() if each.type == PT_LOAD and each.flags & PF_X]
    return bool(parts) and all(
        code.data[each.vaddr : each.vaddr + each.filesz] == elf.data[each.offset : each.offset + each.filesz]
        for each in parts
    )
