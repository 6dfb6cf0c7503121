"""Launches of Triton's kernels: the GPU that they run on, and the arguments that Triton passes to a launcher.

This module does not import Triton. The protocol differs between versions of Triton; `Launcher` accepts all of them from
3.2 on.
"""

from __future__ import annotations

import operator
import os
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Unpack
from weakref import WeakKeyDictionary

import numpy as np

from softcard.core.display import count
from softcard.core.errors import AccessFault, BeyondModel, RuleError, SoftcardError, WireError, close_to
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.records import QueueType
from softcard.device.hsa.settings import GpuOptions
from softcard.host.hsa.arguments import Given, Packed, layout_of
from softcard.host.hsa.gpu import DispatchOptions, Executable, Gpu, Kernel
from softcard.host.triton.tensors import Bytes, Storages, described

AGENT_VARIABLE: Final = "SOFTCARD_AGENT"
"""The environment variable with the agent on which Triton's kernels run."""
DEFAULT_AGENT: Final = "gfx942"
SUPPORTED: Final = ("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950")
"""The agents for which Triton's compiler makes kernels."""
NEAR: Final = 1 << 16
"""The largest distance in bytes between an argument's memory and a wrong access whose message names the argument."""
WAVE: Final = 64
"""The number of threads of a warp."""
SCRATCH: Final = ("global", "profile")
"""The kinds of scratch memory, in the order of their pointers."""
CONSTANT: Final = "constexpr"
COOPERATIVE: Final = -1
"""The number of the stream of cooperative launches."""
DESCRIPTOR: Final = "tensordesc"
_CODES: Final = {
    "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
    "fp16": "e", "fp32": "f", "f32": "f", "fp64": "d",
}  # fmt: skip
"""The codes of the module `struct` for types whose values it packs as `packer` does, or raises an error."""
_FLOATS: Final = {"fp16": "<e", "bf16": "<f", "fp32": "<f", "f32": "<f", "fp64": "<d"}
"""The layouts of numbers. Triton's driver makes a bf16 of the upper half of a float, without rounding."""
_INTEGERS: Final = {f"{sign}{bits}": bits for sign in "iu" for bits in (1, 8, 16, 32, 64)}


def chosen_agent() -> str:
    """Return the name of the agent that SOFTCARD_AGENT selects; raise `WireError` if Triton cannot compile for it."""
    name = os.environ.get(AGENT_VARIABLE, "") or DEFAULT_AGENT
    if name not in SUPPORTED:
        expected = f"expected one of {', '.join(SUPPORTED)}{close_to(name, SUPPORTED)}"
        raise WireError(f"{AGENT_VARIABLE} is {name!r}: Triton's kernels do not run on this agent, {expected}")
    return name


# ---- the GPU ---------------------------------------------------------------------------------------------------------


class Card:
    """A GPU for Triton's kernels, with the tensors that are its memory and the streams that are its queues."""

    def __init__(self, agent: str, **settings: Unpack[GpuOptions]) -> None:
        self.gpu = Gpu.open(agent, **settings)
        self.storages = Storages(self.gpu)
        self.is_checked = bool(self.gpu.device.checks.every)
        self.streams: dict[int, Queue] = {}
        self.unused: list[Executable] = []
        """The executables to unload before the next launch."""

    def unload(self) -> None:
        """Unload the unused executables; no kernel may be running in the calling thread."""
        while self.unused:
            try:
                executable = self.unused.pop()
            except IndexError:  # another thread unloads, too
                return
            executable.unload()

    def contains(self, address: int) -> bool:
        """Return True if there is memory of the GPU at an address."""
        return not self.gpu.device.is_closed and self.gpu.device.memory.find(address) is not None

    def check_owner(self, address: int) -> None:
        """Raise `WireError` if the memory at an address is that of another GPU only."""
        if not self.contains(address) and any(each.contains(address) for each in tuple(_CARDS)):
            text = f"the address {address:#x} is in the memory of another GPU than that of the launch"
            raise WireError(f"{text}: call softcard.triton.address in the with block that launches the kernel")

    def queue(self, stream: int | None) -> Queue | None:
        """Return the queue of a stream; None for the default stream."""
        if not stream:
            return None
        return self._queue_of(stream)

    def cooperative_queue(self) -> Queue:
        """Return a queue on which the work-groups of a launch make progress together."""
        return self._queue_of(COOPERATIVE, QueueType.COOPERATIVE)

    def _queue_of(self, stream: int, type: QueueType = QueueType.MULTI) -> Queue:
        found = self.streams.get(stream)
        if found is None or not found.is_active:
            found = self.streams[stream] = self.gpu.queue(type=type)
        return found

    def name(self, data: Bytes, name: str) -> None:
        """Name the memory of an argument, for the messages of findings."""
        guard = self.gpu.device.memory.guard
        found = None if guard is None else guard.allocations.at(self.gpu.address(data))
        if found is not None:
            found.name = name


_LOCK: Final = threading.Lock()
_CARDS: Final[list[Card]] = []
"""The GPUs: first the one that launches use by default, then those of the ``with`` blocks of `checked`."""
_BLOCKS: Final[ContextVar[tuple[Card, ...]]] = ContextVar("_BLOCKS", default=())
"""The GPUs of the ``with`` blocks of `checked` in this thread or asynchronous task, innermost last."""


def card() -> Card:
    """Return the GPU that launches use; open it at the first call, or if it was closed.

    Raise `RuleError` if it is the GPU of a ``with`` block of `checked`, and was closed.
    """
    blocks = _BLOCKS.get()
    if blocks:
        if blocks[-1].gpu.device.is_closed:
            raise RuleError("the GPU of the with block of softcard.triton.check is closed: it closes by itself")
        return blocks[-1]
    if not _CARDS or _CARDS[0].gpu.device.is_closed:
        with _LOCK:
            if not _CARDS:
                _CARDS.append(Card(chosen_agent()))
            elif _CARDS[0].gpu.device.is_closed:
                _CARDS[0] = Card(chosen_agent())
    return _CARDS[0]


@contextmanager
def checked(checks: str = "all", /, **settings: Unpack[GpuOptions]) -> Iterator[Gpu]:
    """Run the kernels of a ``with`` block on a fresh GPU with checks, and yield it; its `findings` has the findings.

    `checks` are the names of checks, with commas between them. `settings` are further settings of the GPU. The GPU is
    closed at the end of the block. Launches of other threads use the default GPU.
    """
    if not _CARDS:
        card()  # the first of the list is the GPU outside of such blocks
    settings["check"] = checks
    made = Card(chosen_agent(), **settings)
    _CARDS.append(made)
    _BLOCKS.set((*_BLOCKS.get(), made))
    try:
        with made.gpu as gpu:
            try:
                yield gpu
            finally:
                made.storages.close()  # else the memory of arguments would be a leak
    finally:
        _BLOCKS.set(tuple(each for each in _BLOCKS.get() if each is not made))
        _CARDS.remove(made)


# ---- code ------------------------------------------------------------------------------------------------------------


class Function:
    """A kernel's code object, which is loaded on each GPU at the first launch there."""

    def __init__(self, name: str, code: bytes) -> None:
        self.name = name
        self.code = code
        self._kernels: WeakKeyDictionary[Card, Kernel] = WeakKeyDictionary()
        self._latest: tuple[weakref.ref[Card], Kernel] | None = None
        """The GPU and the kernel of the latest launch."""
        self._lock = threading.Lock()

    def kernel(self, where: Card) -> Kernel:
        """Return the kernel in the memory of a GPU."""
        latest = self._latest
        if latest is not None and latest[0]() is where and latest[1].executable.is_loaded:
            return latest[1]
        with self._lock:
            found = self._kernels.get(where)
            if found is None or not found.executable.is_loaded:
                found = self._kernels[where] = where.gpu.load(self.code).kernel(self.name)
        self._latest = weakref.ref(where, self._forget), found
        return found

    def _forget(self, _: object) -> None:
        """Release the kernel of a GPU that does not exist any more."""
        self._latest = None

    def unload(self) -> None:
        """Free the kernel's memory of each GPU before the next launch there.

        Python may call this from a finalizer at any time, also in a thread that runs a kernel. Unloading waits for
        running kernels, so it would never end there. For the same reason, this function acquires no lock.
        """
        kernels, self._kernels, self._latest = self._kernels, WeakKeyDictionary(), None
        for where, kernel in list(kernels.items()):
            where.unused.append(kernel.executable)


# ---- arguments -------------------------------------------------------------------------------------------------------


def packer(type_name: str) -> Callable[[Any], bytes]:
    """Return the function that converts a number to the bytes of an argument of a Triton type.

    The function converts like Triton's AMD driver, and raises `WireError` for a value that is not such a number. But an
    integer that its type cannot represent is an error for every type; Triton's driver truncates integers of less than
    64 bits.
    """
    if type_name in _INTEGERS:
        return _integer_packer(type_name)
    if type_name not in _FLOATS:
        raise BeyondModel(f"arguments of type {type_name} are not supported")
    layout, first = struct.Struct(_FLOATS[type_name]), 2 if type_name == "bf16" else 0

    def pack(value: Any) -> bytes:
        try:
            return layout.pack(value)[first:]
        except OverflowError:
            if layout.size == 4:  # as in C
                return layout.pack(float("inf") if value > 0 else float("-inf"))[first:]
            raise WireError(f"{value!r:.40} is too large for a value of type {type_name}") from None
        except (struct.error, TypeError, ValueError):
            raise _misfit(value, type_name, "a number") from None

    return pack


def _integer_packer(type_name: str) -> Callable[[Any], bytes]:
    """Return the function of `packer` for an integer type.

    A signed type of less than 64 bits accepts bit patterns, for instance 0xffffffff for i32.
    """
    bits = _INTEGERS[type_name]
    size, mask = max(bits // 8, 1), (1 << bits) - 1
    low = -(1 << bits - 1) if type_name.startswith("i") else 0
    end = min(1 << bits, low + (1 << 64))

    def pack(value: Any) -> bytes:
        try:
            number = operator.index(value)
        except TypeError:
            raise _misfit(value, type_name, "an integer") from None
        if not low <= number < end:
            raise WireError(f"{number} does not fit type {type_name}, expected {low} to {end - 1}")
        return (number & mask).to_bytes(size, "little")

    return pack


def _misfit(value: Any, type_name: str, expected: str) -> WireError:
    """Return the error about an argument that is not a number of a Triton type."""
    text = f"cannot pass {type(value).__name__} {value!r:.40} for a value of type {type_name}"
    return WireError(f"{text}, expected {expected}")


FLAGS: Final = ("padding", "round_f32_to_tf32")
"""The attributes of a tensor descriptor that are flags of a kernel, in versions of Triton that have them."""


def _expanded(type_name: str, flags: Sequence[str]) -> list[tuple[str, str]]:
    """Return the (suffix, type) of the values that replace a tensor descriptor among the arguments of a kernel."""
    element, _, shape = type_name.removeprefix(DESCRIPTOR).partition("<")[2].partition("[")
    rank = shape.partition("]")[0].count(",") + 1
    sides = [f"[{axis}]" for axis in range(rank)]
    first = [(f".shape{axis}", "i64") for axis in sides] + [(f".strides{axis}", "i64") for axis in sides]
    again = [(f".shape{axis}", "i32") for axis in sides] + [(f".strides{axis}", "i64") for axis in sides]
    return [(".base", f"*{element}"), *first, *((f".{flag}", "i1") for flag in flags), *again]


def _values_of(descriptor: Any, flags: Sequence[str]) -> list[Any]:
    """Return the values of a tensor descriptor in the order of `_expanded`."""
    sizes = [*descriptor.shape, *descriptor.strides]
    return [descriptor.base, *sizes, *(getattr(descriptor, flag) in ("nan", True) for flag in flags), *sizes]


def _place(key: Any, names: list[str], default: int) -> int:
    """Return the position of an argument of a Triton function whose key in a signature is its position or its name."""
    if isinstance(key, int):
        return key
    return names.index(key) if key in names else default


class Launcher:
    """A launcher of one compiled kernel, as Triton calls it; see `__call__`.

    `source` and `metadata` are those of Triton's compiler. `version` is Triton's version, the first two numbers.
    `flags` are those of `FLAGS` that Triton's tensor descriptors have.
    """

    def __init__(self, source: Any, metadata: Any, version: tuple[int, int], flags: Sequence[str] = FLAGS) -> None:
        self._metadata = metadata
        self._threads = metadata.num_warps * metadata.warp_size
        self._shared = int(metadata.shared)
        self._is_cooperative = bool(getattr(metadata, "launch_cooperative_grid", False))
        self._version = version
        self._flags = tuple(flags)
        if getattr(metadata, "tensordesc_meta", None):
            raise BeyondModel("tensor descriptors in hardware (TDM) are not supported")
        if getattr(metadata, "num_ctas", 1) > 1:
            raise BeyondModel(f"num_ctas is {metadata.num_ctas}, expected 1: AMD GPUs have no clusters")
        names = list(getattr(getattr(source, "fn", None), "arg_names", ()))
        signature = {_place(key, names, number): each for number, (key, each) in enumerate(source.signature.items())}
        if version < (3, 3):  # the kernel lacks arguments equal to 1 or None, which the signature contains
            constants = {_place(key, names, -1) for key in getattr(source, "constants", None) or ()}
            signature = {key: CONSTANT if key in constants else each for key, each in signature.items()}
        self._types = tuple(signature.values())
        self._names = [names[key] if key < len(names) else f"argument {key}" for key in signature]
        self._slots: list[tuple[str, str, Callable[[Any], bytes] | None]] = []
        for name, type_name in zip(self._names, self._types, strict=True):
            self._add(name, type_name)
        self._is_flat = all(isinstance(each, str) and not each.startswith(DESCRIPTOR) for each in self._types)
        self._chosen = [number for number, each in enumerate(self._types) if each != CONSTANT]
        self._pointers = [number for number, (_, _, pack) in enumerate(self._slots) if pack is None]
        self._layout: struct.Struct | None = None
        """The layout of the kernel's arguments; None before the first launch, or if `_packed` cannot be used."""
        self._nulls: tuple[int, ...] = ()
        """The null pointers for scratch memory."""
        self._is_new = True

    def _add(self, name: str, type_name: Any) -> None:
        """Add the kernel's arguments for one argument of the Triton function."""
        if isinstance(type_name, tuple | list):
            for number, each in enumerate(type_name):
                self._add(f"{name}[{number}]", each)
        elif type_name.startswith(DESCRIPTOR):
            for suffix, each in _expanded(type_name, self._flags):
                self._add(name + suffix, each)
        elif type_name != CONSTANT:
            pack = None if type_name.startswith("*") else packer(type_name)
            self._slots.append((name, type_name, pack))

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: int | None,
        function: Function,
        packed: object,
        launch_metadata: Any,
        enter: Any,
        leave: Any,
        *values: Any,
    ) -> None:
        """Run the kernel over a grid of x * y * z programs, and wait for it.

        `values` are the arguments of the Triton function; the types of its signature select those of the kernel.
        `packed` is not used. `enter` and `leave` are hooks that get `launch_metadata`.
        """
        del packed
        if x * y * z == 0:
            return
        if enter is not None:
            enter(launch_metadata)
        where = card()
        if where.unused:
            where.unload()
        kernel = function.kernel(where)
        if self._is_new:
            self._plan(kernel)
        arguments: list[Given] | Packed | None = None if self._layout is None else self._packed(where, values)
        if arguments is None:
            arguments = self._arguments(where, values)
            scratch = self._scratch(kernel, x * y * z, len(arguments), stream)  # owns the memory until the kernel ends
            arguments += map(where.storages.memory, scratch)
        threads = self._threads
        options: DispatchOptions = {"group_bytes": self._shared}
        if self._is_cooperative:
            self._check_size(where, kernel, x * y * z)
            options["queue"] = where.cooperative_queue()
        elif stream:
            options["queue"] = where.queue(stream)
        try:
            result = where.gpu.run_kernel(kernel, (x * threads, y, z), (threads, 1, 1), arguments, **options)
        except AccessFault as error:
            self._name_argument(error, where, values)
            raise
        if result.text:
            sys.stdout.write(result.text)
        if leave is not None:
            leave(launch_metadata)

    def _check_size(self, where: Card, kernel: Kernel, programs: int) -> None:
        """Raise `RuleError` if the GPU cannot execute all programs of a cooperative grid at a time."""
        found = where.gpu.device.agent
        most = found.resident_groups(self._threads // WAVE, kernel.image.group_bytes + self._shared)
        if programs > most:
            has = count(programs, "program")
            text = f"the cooperative grid has {has}, but {found.name} can execute {most:,} at a time"
            raise RuleError(f"{text} with {self._threads // WAVE} warps and {self._shared} bytes of LDS each")

    def _plan(self, kernel: Kernel) -> None:
        """Find out whether `_packed` can be used for the kernel."""
        self._is_new = False
        metadata, passed = kernel.image.metadata, len(self._slots)
        if metadata is None or not self._is_flat or any(each not in _CODES for _, each, pack in self._slots if pack):
            return
        nulls = self._scratch(kernel, 0, passed, None)
        if any(self._scratch_size(kind) for kind in SCRATCH[: len(nulls)]):
            return
        codes = ["Q" if pack is None else _CODES[each] for _, each, pack in self._slots]
        self._nulls = (0,) * len(nulls)
        self._layout = layout_of(metadata, [*codes, *"Q" * len(nulls)])

    def _packed(self, where: Card, values: Sequence[Any]) -> Packed | None:
        """Return the arguments of the kernel, packed in one step.

        Return None if a value has to be converted, checked or named, or is wrong: `_arguments` does that.
        """
        if len(values) != len(self._types) or where.is_checked or len(_CARDS) > 1:
            return None
        assert self._layout is not None
        words = [values[number] for number in self._chosen]
        address = where.storages.address
        try:
            for number in self._pointers:
                words[number] = address(words[number])
            return Packed(self._layout.pack(*words, *self._nulls))
        except (struct.error, OverflowError, TypeError, SoftcardError):
            return None

    def _name_argument(self, error: AccessFault, where: Card, values: Sequence[Any]) -> None:
        """Name the argument in the message of an error about an access before or after its memory."""
        for (name, _, pack), value in zip(self._slots, self._flat(values), strict=False):
            data = 0 if pack is not None else where.storages.memory(value)
            if not isinstance(data, int):
                start = where.gpu.address(data)
                if start - NEAR <= error.address < start + data.nbytes + NEAR:
                    text = f"argument {name}, {described(value)}, {count(data.nbytes, 'byte')} at {start:#x}"
                    error.add_note(f"the address is near {text}")

    def _flat(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values of the kernel's arguments, without those of scratch memory."""
        if len(values) != len(self._types):
            return values  # Triton 3.2 passes only arguments that are not constants
        if self._is_flat:
            return [values[number] for number in self._chosen]
        return list(self._flattened(self._types, values))

    def _arguments(self, where: Card, values: Sequence[Any]) -> list[Given]:
        """Return the arguments of the kernel."""
        flat = self._flat(values)
        if len(flat) != len(self._slots):
            raise WireError(f"the kernel takes {count(len(self._slots), 'argument')}, not {len(flat)}")
        found: list[Given] = []
        storages, is_checked = where.storages, where.is_checked
        for (name, _, pack), value in zip(self._slots, flat, strict=True):
            try:
                if pack is not None:
                    found.append(pack(value))
                    continue
                if len(_CARDS) > 1 and type(value) is int and value:
                    where.check_owner(value)
                if not is_checked:
                    found.append(storages.address(value))
                    continue
                data = storages.memory(value)
            except SoftcardError as error:
                raise error.at("argument", name) from None
            if not isinstance(data, int):
                where.name(data, f"argument {name}, {described(value)}")
            found.append(data)
        return found

    def _flattened(self, types: Sequence[Any], values: Sequence[Any]) -> Iterator[Any]:
        """Yield the values of the kernel's arguments."""
        for type_name, value in zip(types, values, strict=True):
            if isinstance(type_name, tuple | list):
                yield from self._flattened(type_name, value)
            elif type_name.startswith(DESCRIPTOR):
                yield from _values_of(value, self._flags)
            elif type_name != CONSTANT:
                yield value

    def _scratch(self, kernel: Kernel, programs: int, passed: int, stream: int | None) -> list[Any]:
        """Return the scratch memory whose pointers follow the `passed` arguments of the Triton function.

        Nothing else refers to this memory, so the caller has to keep the result until the kernel ends.
        """
        explicit = () if kernel.image.metadata is None else kernel.image.metadata.explicit
        found: list[Any] = []
        for kind in SCRATCH[: max(len(explicit) - passed, 0)]:
            found.append(_allocated(kind, programs * self._scratch_size(kind), stream, self._metadata))
        return found

    def _scratch_size(self, kind: str) -> int:
        """Return the size in bytes of a program's scratch memory of a kind."""
        if kind == SCRATCH[0] and self._version < (3, 8):
            return 0  # Triton's AMD driver passes the null pointer
        return int(getattr(self._metadata, f"{kind}_scratch_size", 0))


def _allocated(kind: str, size: int, stream: int | None, metadata: Any) -> Any:
    """Return scratch memory of `size` bytes from the allocator that the user set in Triton, or a NumPy array."""
    if not size:
        return None
    from triton.runtime import _allocation

    holder = getattr(_allocation, "_allocator" if kind == "global" else "_profile_allocator", None)
    allocator = None if holder is None else holder.get()
    if allocator is None or type(allocator).__name__ == "NullAllocator":
        if kind == "global":
            raise RuleError("the kernel needs memory for descriptors: call triton.set_allocator")
        return np.zeros(size, np.uint8)
    return allocator(size, getattr(metadata, f"{kind}_scratch_align", 1), stream)
