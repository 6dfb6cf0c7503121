"""Code objects in device memory: executables, their kernels, their variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from understudy.core.errors import RuleError, WireError
from understudy.device.hsa.device import HsaDevice
from understudy.image.hsa_code import CodeObject, read_code_object
from understudy.image.hsa_code import Kernel as KernelImage

PAGE: Final = 4096
EQUAL: Final = (frozenset({"gfx800", "gfx802"}), frozenset({"gfx803", "gfx804"}), frozenset({"gfx900", "gfx901"}))
"""Processors that have the same instructions: code for one of them runs on the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A kernel of an executable. `address` is that of its header: kernel_object of a dispatch packet."""

    executable: Executable
    image: KernelImage
    address: int

    @property
    def name(self) -> str:
        """Its name."""
        return self.image.name

    def __repr__(self) -> str:
        return f"<kernel {self.name} at {self.address:#x}>"


class Executable:
    """A code object loaded into the memory of an agent. It stays there until `unload`."""

    def __init__(self, device: HsaDevice, code: CodeObject, externals: Mapping[str, int]) -> None:
        self.code = code
        self._device = device
        fits(code, device.agent.name)
        self.base = device.allocate(code.layout.size, PAGE)
        try:
            loaded = code.load(self.base, externals)
        except BaseException:
            device.free(self.base)
            raise
        device.memory.write(self.base, bytes(loaded.data))
        self.symbols = dict(loaded.symbols)
        self.kernels = {
            name: Kernel(self, image, loaded.kernels[name]) for name, image in code.kernels.items()
        }  # fmt: skip
        self._is_loaded = True

    def __repr__(self) -> str:
        code = self.code
        return f"<executable {code.version} for {code.target or '?'} at {self.base:#x}: {', '.join(self.kernels)}>"

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name; a `WireError` that says what is near, `RuleError` after `unload`."""
        if not self._is_loaded:
            raise RuleError("the executable was unloaded, expected one that is in device memory")
        return self.kernels[self.code.kernel(name).name]

    def address(self, name: str) -> int:
        """Device address of a symbol: an agent or program variable, or a function."""
        if name not in self.symbols:
            raise WireError(f"the executable has no symbol {name!r}: there are {', '.join(self.symbols) or 'none'}")
        return self.symbols[name]

    def variable(self, name: str, dtype: DTypeLike = np.uint8) -> NDArray[Any]:
        """A variable as an array of all its elements, without a copy."""
        address = self.address(name)
        elf = self.code.elf
        size = max((each.size for each in (*elf.symbols, *elf.dynamic_symbols) if each.name == name), default=0)
        kind = np.dtype(dtype)
        if not size or size % kind.itemsize:
            raise WireError(f"variable {name} has {size} bytes, which are no array of {kind}")
        return self._device.array(address, size // kind.itemsize, kind)

    def name_at(self, pc: int) -> str:
        """``kernel+0x10`` for an address in its code; "" for one that is not in it."""
        if not self.base <= pc < self.base + self.code.layout.size:
            return ""
        places = {kernel.image.entry + self.base: name for name, kernel in self.kernels.items()}
        places |= {address: name for name, address in self.symbols.items() if address not in places and _is_code(name)}
        start = max((place for place in places if place <= pc), default=None)
        return "" if start is None else places[start] + (f"+{pc - start:#x}" if pc > start else "")

    def unload(self) -> None:
        """Give its memory back; once is enough."""
        if self._is_loaded:
            self._is_loaded = False
            self._device.free(self.base)


def _is_code(name: str) -> bool:
    return not name.endswith((".kd", "_DYNAMIC"))


def fits(code: CodeObject, agent: str) -> None:
    """A `RuleError` where a code object is for another processor than the agent's. One that names none fits."""
    if not code.target or code.target == agent or any({code.target, agent} <= group for group in EQUAL):
        return
    raise RuleError(f"the code object is for {code.target}, the agent is {agent}: open the one that it is for")


def read(source: bytes | bytearray | str | Path) -> CodeObject:
    """A code object from its bytes or its file."""
    if isinstance(source, bytes | bytearray):
        return read_code_object(bytes(source))
    return read_code_object(file_bytes(Path(source)))


def file_bytes(path: Path) -> bytes:
    """The bytes of a file; `WireError` where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise WireError(f"cannot read {path}: {error.strerror}") from None
