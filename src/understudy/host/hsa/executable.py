"""Code objects in device memory: executables, their kernels, their variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from understudy.core.errors import RuleError, WireError
from understudy.core.located import CodePlace, in_function
from understudy.core.shown import Rows, Shown, some
from understudy.core.sources import bytes_of
from understudy.device.hsa.agents import AGENTS, ptr64_mismatch
from understudy.device.hsa.device import HsaDevice
from understudy.device.hsa.events import CodeLoaded
from understudy.device.hsa.rules import IS_PTR64
from understudy.image.elf.layout import SHT_NOBITS
from understudy.image.elf.lines import Lines, Place, read_lines
from understudy.image.hsa import targets
from understudy.image.hsa.code_object import CodeObject, read_code_object
from understudy.image.hsa.code_object import Kernel as KernelImage
from understudy.isa.gcn.target import TARGETS

PAGE: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Kernel(Shown):
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

    def _rows(self) -> Rows:
        return self.image.rows()


class Executable(Shown):
    """A code object loaded into the memory of an agent. It stays there until `unload`."""

    def __init__(
        self, device: HsaDevice, code: CodeObject, externals: Mapping[str, int], *, any_target: bool = False
    ) -> None:
        self.code = code
        self._device = device
        fits(code, device.agent.name, any_target)
        has_code(code)
        fits_model(code, device)
        self.base = device.allocate(code.layout.size, PAGE, name="code object")
        try:
            loaded = code.load(self.base, externals)
        except BaseException:
            device.free(self.base)
            raise
        for address, data in loaded.pieces():
            device.memory.write(address, data)
        self.symbols = loaded.symbols
        self.kernels = {
            name: Kernel(self, image, loaded.kernels[name]) for name, image in code.kernels.items()
        }  # fmt: skip
        self._block = device.block(self.base)
        device.locators.known.append(self._locate)
        objects, size = loaded.kernels, code.layout.size
        device.telemetry.emit(
            lambda time: CodeLoaded(time, self.base, size, {name: objects[name] for name in code.kernels})
        )
        self.drafts: dict[Any, Any] = {}
        """What launches of its kernels share, by kernel and sizes: see `launch.Draft`."""

    def __repr__(self) -> str:
        code = self.code
        return f"<executable {code.version} for {code.target or '?'} at {self.base:#x}: {some(self.kernels)}>"

    def _rows(self) -> Rows:
        return self.code.rows()

    @property
    def agent(self) -> str:
        """The agent in whose memory it is."""
        return self._device.agent.name

    def read_code(self, address: int, size: int) -> bytes:
        """Bytes of the agent's memory."""
        return bytes(self._device.memory.read(address, size))

    @property
    def is_loaded(self) -> bool:
        """Whether it is in device memory: not after `unload`, nor where the device went back to before it."""
        return self._device.block(self.base) is self._block

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name; a `WireError` that says what is near, `RuleError` after `unload`."""
        if not self.is_loaded:
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
        labels = self.code.labels
        for name, address in self.symbols.items():
            if address not in places and address - self.base not in labels and _is_code(name):
                places[address] = name
        start = max((place for place in places if place <= pc), default=None)
        return "" if start is None else in_function(places[start], pc - start)

    def place_of(self, pc: int) -> Place | None:
        """The line that the instruction there comes from; None where nobody says."""
        return self._lines.at(pc - self.base)

    def _locate(self, pc: int) -> CodePlace | None:
        """Where in its source an instruction is, if it is in its code."""
        at = self.name_at(pc) if self.is_loaded else ""
        if not at:
            return None
        name = at.partition("+")[0]
        return CodePlace(at, name if name in self.kernels else "", str(self.place_of(pc) or ""))

    @cached_property
    def _lines(self) -> Lines:
        """Where its instructions come from."""
        return read_lines(self.code.elf)

    def unload(self) -> None:
        """Give its memory back; once is enough."""
        if self.is_loaded:
            self._device.locators.known.remove(self._locate)
            self._device.free(self.base)


def _is_code(name: str) -> bool:
    return not name.endswith((".kd", "_DYNAMIC"))


def fits(code: CodeObject, agent: str, any_target: bool = False) -> None:
    """A `RuleError` where a code object is for another processor than the agent's. One that names none fits.

    With `any_target`, one for another processor of the agent's generation fits as well.
    """
    if not code.target or targets.runs_on(code.target, agent):
        return
    known = TARGETS.get(targets.read_as(code.target))
    is_near = known is not None and known.level == AGENTS[agent].target.level
    if any_target and is_near:
        return
    fitting = [each for each in AGENTS if targets.runs_on(code.target, each)]
    stands = f" (that is {', '.join(targets.GENERIC[code.target])})" if code.target in targets.GENERIC else ""
    hints = [f"open {' or '.join(fitting)}"] if fitting else []
    hints += ["load it with any_target=True"] if is_near else []
    hint = ", or ".join(hints) or "there is no agent that runs it"
    raise RuleError(f"the code object is for {code.target}{stands}, the agent is {agent}: {hint}")


def fits_model(code: CodeObject, device: HsaDevice) -> None:
    """Whether kernels' pointers have the size that the device's machine model gives them: the choice `hsa/is-ptr64`.

    A `RuleError` in the small machine model, a lint in the large one.
    """
    for kernel in code.kernels.values():
        text = ptr64_mismatch(device.agent, device.settings.small, kernel.is_ptr64)
        if text and device.settings.small:
            raise RuleError(text, rule=IS_PTR64).at("kernel", kernel.name)
        if text:
            with device.desk:
                device.telemetry.lint("is-ptr64", f"kernel {kernel.name}: {text}", IS_PTR64)


def has_code(code: CodeObject) -> None:
    """A `RuleError` where a kernel's section has no bytes in the file: then it is one of debug information only."""
    for kernel in code.kernels.values():
        section = next((each for each in code.elf.sections if each.index == kernel.symbol.section), None)
        if section is not None and section.header.type == SHT_NOBITS:
            text = f"its code is empty, section {section.name} has no bytes in the file (debug information only?)"
            raise RuleError(text).at("kernel", kernel.name)


def read(source: bytes | bytearray | str | Path, agent: str = "") -> CodeObject:
    """A code object from its bytes or its file; the one for `agent` where the file is an offload bundle."""
    return read_code_object(bytes_of(source, "a code object"), agent)
