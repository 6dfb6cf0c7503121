"""Executables: code objects in device memory, their kernels, and their variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from softcard.core.display import RichDisplay, Rows, some
from softcard.core.errors import RuleError, WireError
from softcard.core.files import bytes_of
from softcard.core.findings import CodePlace, in_function
from softcard.device.hsa.agents import AGENTS, Agent, ptr64_mismatch
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.events import CodeLoaded
from softcard.device.hsa.rules import IS_PTR64
from softcard.host.snapshot_points import choose
from softcard.image.elf.layout import SHT_NOBITS
from softcard.image.elf.lines import Lines, Place, read_lines
from softcard.image.hsa import targets
from softcard.image.hsa.code_object import CodeObject, read_code_object
from softcard.image.hsa.code_object import Kernel as KernelImage
from softcard.isa.gcn.target import TARGETS

if TYPE_CHECKING:
    from softcard.host.coverage import DeviceCoverage
    from softcard.host.hsa.launch import LaunchTemplate

Scalar = TypeVar("Scalar", bound=np.generic)
PAGE: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Kernel(RichDisplay):
    """A kernel of an executable. `address` is the address of its descriptor (kernel_object of a dispatch packet)."""

    executable: Executable
    image: KernelImage
    address: int

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.image.name

    def __repr__(self) -> str:
        return f"<kernel {self.name} at {self.address:#x}>"

    def _rows(self) -> Rows:
        return self.image.rows()


class Executable(RichDisplay):
    """A code object in the memory of an agent, until `unload`."""

    def __init__(
        self, device: HsaDevice, code: CodeObject, externals: Mapping[str, int], *, any_target: bool = False
    ) -> None:
        self.code = code
        self.source_name, self.source_lines = "", tuple[str, ...]()
        """The name in debug information and the lines of a source that was passed as text."""
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
        self.coverage: DeviceCoverage | None = None
        """The object that records the coverage of the code; None if no coverage is recorded."""
        device.locators.known.append(self._locate)
        objects, size = loaded.kernels, code.layout.size
        device.telemetry.emit(
            lambda time: CodeLoaded(time, self.base, size, {name: objects[name] for name in code.kernels})
        )
        self.templates: dict[tuple[Kernel, int, tuple[int, int, int], tuple[int, int, int]], LaunchTemplate] = {}
        """The state that launches share, by kernel, number of dimensions, grid and group.

        See `launch.LaunchTemplate`.
        """

    def __repr__(self) -> str:
        code = self.code
        return f"<executable {code.version} for {code.target or '?'} at {self.base:#x}: {some(self.kernels)}>"

    def _rows(self) -> Rows:
        return self.code.rows()

    @property
    def agent(self) -> str:
        """The agent in whose memory the code object is."""
        return self._device.agent.name

    def read_code(self, address: int, size: int) -> bytes:
        """Return `size` bytes of the agent's memory from `address` on."""
        return bytes(self._device.memory.read(address, size))

    @property
    def is_loaded(self) -> bool:
        """True if the code object is in device memory.

        It is False after `unload`, and after the device was restored to a state from before the loading.
        """
        return self._device.block(self.base) is self._block

    def kernel(self, name: str) -> Kernel:
        """Return the kernel of that name.

        Raise a `WireError` that names similar kernels for an unknown name, and `RuleError` after `unload`.
        """
        if not self.is_loaded:
            raise RuleError("the executable was unloaded: load the code object again")
        return self.kernels[self.code.kernel(name).name]

    def address(self, name: str) -> int:
        """Return the device address of a symbol (an agent or program variable, or a function).

        Raise `WireError` for an unknown symbol."""
        if name not in self.symbols:
            raise WireError(f"the executable has no symbol {name!r}, it has {', '.join(self.symbols) or 'none'}")
        return self.symbols[name]

    @overload
    def variable(self, name: str) -> NDArray[np.uint8]: ...

    @overload
    def variable(self, name: str, dtype: type[Scalar] | np.dtype[Scalar]) -> NDArray[Scalar]: ...

    @overload
    def variable(self, name: str, dtype: DTypeLike) -> NDArray[np.generic]: ...

    def variable(self, name: str, dtype: DTypeLike = np.uint8) -> NDArray[np.generic]:
        """Return a variable as an array of type `dtype` that shares its memory.

        Raise `WireError` if its size is not a multiple of the element size."""
        address = self.address(name)
        elf = self.code.elf
        size = max((each.size for each in (*elf.symbols, *elf.dynamic_symbols) if each.name == name), default=0)
        kind = np.dtype(dtype)
        if not size or size % kind.itemsize:
            raise WireError(f"variable {name} has {size} bytes, expected a multiple of {kind.itemsize} for {kind}")
        return self._device.array(address, size // kind.itemsize, kind)

    def name_at(self, pc: int) -> str:
        """Return a text such as ``kernel+0x10`` for an address in this executable's code; "" for other addresses."""
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
        """Return the source line of the instruction at `pc`; None if it is unknown."""
        return self._lines.at(pc - self.base)

    def snapshot_at(self, points: Sequence[str]) -> None:
        """Set the points at which the device takes snapshots of registers, in addition to faults and traps.

        A point is a pc (``0x...``), SYMBOL[+OFFSET], FILE:LINE, or "end" (the end of a wave). Raise `WireError` for an
        unknown symbol or line, and for a device without the setting `snapshots`.
        """
        entries = {name: kernel.image.entry + self.base for name, kernel in self.kernels.items()}
        code = range(self.base, self.base + self.code.layout.size, 4)
        choose(self._device.tracepoints, points, {**self.symbols, **entries}, code, self.place_of)

    def _locate(self, pc: int) -> CodePlace | None:
        """Return the symbol and offset, the kernel, and the source line of the instruction at `pc`.

        Return None if `pc` is not in this executable's code, or if the code object is not loaded."""
        at = self.name_at(pc) if self.is_loaded else ""
        if not at:
            return None
        name, place = at.partition("+")[0], self.place_of(pc)
        kernel = name if name in self.kernels else ""
        if place is None:
            return CodePlace(at, kernel)
        is_own = place.file == self.source_name and 0 < place.line <= len(self.source_lines)
        text = self.source_lines[place.line - 1] if is_own else ""
        return CodePlace(at, kernel, str(place), place.frames, place.column, text)

    @cached_property
    def _lines(self) -> Lines:
        """The line table of the code object."""
        return read_lines(self.code.elf)

    def cover(self) -> None:
        """Let `coverage` record the code's executions."""
        assert self.coverage is not None
        names = ", ".join(self.kernels) or "code without kernels"
        self.coverage.load(self.base, self.code.elf, lambda: self._lines, names)

    def unload(self) -> None:
        """Free the code object's memory; further calls have no effect.

        This waits for the running kernel, even if it is one of another executable: it may have pointers to functions
        and variables of this one.
        """
        if self.is_loaded:
            if self.coverage is not None:
                self.coverage.unload(self.base)
            self._device.locators.known.remove(self._locate)
            self._device.free(self.base)


def _is_code(name: str) -> bool:
    return not name.endswith((".kd", "_DYNAMIC"))


def fits(code: CodeObject, agent: str, any_target: bool = False) -> None:
    """Raise a `RuleError` if a code object is not for the agent's processor.

    A code object that does not name a processor fits every agent. The error is also raised in two other cases: the code
    object's e_flags and notes name different processors; or it relies on a setting of xnack or sramecc that an agent
    with matrix instructions does not have. Agents without matrix instructions accept any setting. With `any_target`, a
    code object for another processor of the agent's generation fits as well; the processor is then taken from the
    notes.
    """
    if code.flagged and not any_target:
        text = (
            f"e_flags {code.elf.header.flags:#x} name {code.flagged}, but the notes name {code.target}, expected the "
            "same processor"
        )
        raise RuleError(f"{text}: compile the code again, or load it with any_target=True, which trusts the notes")
    if not code.target or targets.runs_on(code.target, agent):
        if not any_target:
            _fits_settings(code, AGENTS[agent])
        return
    known, own = TARGETS.get(targets.read_as(code.target)), AGENTS[agent].target
    is_near = known is not None and (known.level, known.matrix) == (own.level, own.matrix)
    if any_target and is_near:
        return
    fitting = [each for each in AGENTS if targets.runs_on(code.target, each)]
    stands = f" (that is {', '.join(targets.GENERIC[code.target])})" if code.target in targets.GENERIC else ""
    hints = [f"open {' or '.join(fitting)}"] if fitting else []
    hints += ["load it with any_target=True"] if is_near else []
    hint = ", or ".join(hints) or "this processor is not supported"
    raise RuleError(f"the code object is for {code.target}{stands}, but the agent is {agent}: {hint}")


def _fits_settings(code: CodeObject, agent: Agent) -> None:
    """Raise a `RuleError` if a code object relies on a setting of xnack or sramecc that the agent does not have."""
    for feature, own in agent.settings.items():
        if not targets.accepts({feature: own}, code.features):
            stated = code.features[feature]
            text = f"the code object requires {feature} {stated}, but agent {agent.name} has {feature} {own}"
            wanted = targets.target_id(agent.name, {feature: own})
            raise RuleError(f"{text}: compile it for {wanted}, or load it with any_target=True")


def fits_model(code: CodeObject, device: HsaDevice) -> None:
    """Check that the pointer size of the kernels fits the device's machine model (choice `hsa/is-ptr64`).

    If it does not, raise a `RuleError` in the small machine model, and report a lint in the large machine model.
    """
    for kernel in code.kernels.values():
        text = ptr64_mismatch(device.agent, device.settings.small, kernel.is_ptr64)
        if text and device.settings.small:
            raise RuleError(text, rule=IS_PTR64).at("kernel", kernel.name)
        if text:
            with device.desk:
                device.telemetry.lint("is-ptr64", f"kernel {kernel.name}: {text}", IS_PTR64)


def has_code(code: CodeObject) -> None:
    """Raise a `RuleError` if the section of a kernel has no contents in the file.

    Files that contain only debug information have such sections."""
    for kernel in code.kernels.values():
        section = next((each for each in code.elf.sections if each.index == kernel.symbol.section), None)
        if section is not None and section.header.type == SHT_NOBITS:
            text = (
                f"its code is missing: section {section.name} has no bytes in the file (does it have debug "
                "information only?)"
            )
            raise RuleError(text).at("kernel", kernel.name)


def read(source: bytes | bytearray | str | Path, agent: str = "") -> CodeObject:
    """Return a code object from its bytes or its file; of an offload bundle, return the entry for `agent`.

    The entry fits the agent's settings of xnack and sramecc. If a bundle has a single entry, that entry is returned for
    any agent. `fits` later reports a wrong processor, and explains how to load the code object nevertheless.
    """
    settings = AGENTS[agent].settings if agent in AGENTS else {}
    return read_code_object(bytes_of(source, "a code object"), agent, settings=settings, or_only=True)
