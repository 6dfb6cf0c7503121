"""Runs a case on an engine: memory, code object, arguments, packet; and compares what came out."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softcard.core.space import Ram
from softcard.device.hsa.launch.first_state import Scratch, Surroundings, launch
from softcard.device.hsa.launch.kernarg import Hidden, pack_kernarg
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.engine.gcn.api import Dispatch, Engine, Statistics
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.image.hsa.code_object import CodeObject
from softcard.ir.object_cache import ObjectCache
from softcard.isa.gcn.target import target
from tests.gcn_kernels.toolchain import CACHE

FIRST = 0x10_0000_0000
GAP = 0x10000
SCRATCH_BYTES = 8 << 20
QUEUE_APERTURES = 0x40
STEP_LIMIT = 200_000
UNWRITTEN = 0xA5


@dataclass(frozen=True)
class In:
    """A buffer that the kernel only reads."""

    data: np.ndarray


@dataclass(frozen=True)
class Out:
    """A buffer that must hold `expected` afterwards, within `ulps` units in the last place or `absolute`."""

    expected: np.ndarray
    ulps: float = 0
    absolute: float = 0
    initial: np.ndarray | None = None
    any_order: bool = False
    """Whether the values may stand anywhere in the buffer; `expected` is sorted."""


@dataclass(frozen=True)
class Described:
    """A buffer that is reached through a descriptor: `words` gives its dwords from an address and the generation."""

    buffer: In | Out
    words: Callable[[int, int], Sequence[int]]


@dataclass(frozen=True)
class Local:
    """LDS given at launch."""

    size: int


@dataclass(frozen=True)
class Case:
    """A kernel, its grid, and its arguments with what must come out; `make` gets a random generator."""

    name: str
    source: str
    grid: tuple[int, int, int]
    group: tuple[int, int, int]
    make: Callable[[np.random.Generator], Sequence[Any]] = field(repr=False)
    targets: tuple[str, ...] = ("gfx700", "gfx803", "gfx900")
    portable: bool = True
    """Whether other OpenCL implementations can run it."""
    of: str = ""
    """The kernel, where that does not have the case's name."""

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return self.of or self.name

    def arguments(self) -> Sequence[Any]:
        """The same every time; not to be changed."""
        return _arguments(self)


@functools.cache
def _arguments(what: Case) -> Sequence[Any]:
    return what.make(np.random.default_rng(sum(what.name.encode())))


CASES: dict[str, Case] = {}


def case(source: str, grid: Any, group: Any = 64, **more: Any) -> Callable[..., Any]:
    """Register the decorated function as the case of the kernel of its name."""

    def register(make: Callable[[np.random.Generator], Sequence[Any]]) -> Any:
        CASES[make.__name__] = Case(make.__name__, source, _three(grid), _three(group), make, **more)
        return make

    return register


def _three(size: Any) -> tuple[int, int, int]:
    sizes = (size,) if isinstance(size, int) else tuple(size)
    return (*sizes, 1, 1)[:3]


class Bench:
    """Memory with a code object in it."""

    def __init__(self, gfx: str, code: CodeObject) -> None:
        self.target = target(gfx)
        self.code = code
        self.memory = GpuMemory()
        self.next = FIRST
        self.rams: list[Ram] = []
        self.loaded = code.load(self.next)
        self.allocate(len(self.loaded.data), self.loaded.data)
        address = self.allocate(SCRATCH_BYTES)
        self.scratch = Scratch(address, SCRATCH_BYTES, hidden_base=address & ~0xFFFF_FFFF)
        self.queue = self.allocate(256)
        self.around = Surroundings(self.target, self.memory, queue=self.queue, scratch=self.scratch)
        for number, base in enumerate((self.around.shared_base, self.around.private_base)):
            self.memory.write(self.queue + QUEUE_APERTURES + 4 * number, (base >> 32).to_bytes(4, "little"))

    def allocate(self, size: int, data: bytes | bytearray | None = None) -> int:
        """Memory with nothing behind it."""
        ram = Ram(-(-max(size, 1) // 4096) * 4096)
        address = self.next
        self.memory.map(address, ram)
        self.rams.append(ram)
        self.next = -(-(address + ram.size + GAP) // GAP) * GAP
        if data is not None:
            ram.view[: len(data)] = data
        return address

    def dispatch(
        self,
        name: str,
        grid: tuple[int, int, int],
        group: tuple[int, int, int],
        arguments: Sequence[Any],
        **options: Any,
    ) -> tuple[Dispatch, list[np.ndarray]]:
        """What to run, and views of the buffers among the arguments."""
        kernel = self.code.kernel(name)
        values: list[Any] = []
        views: list[np.ndarray] = []
        lds = kernel.group_bytes
        for argument in arguments:
            if isinstance(argument, Local):
                lds = -(-lds // 16) * 16
                values.append(lds)
                lds += argument.size
            elif isinstance(argument, Described):
                view, address = self.buffer(argument.buffer)
                views.append(view)
                words = np.array(argument.words(address, self.target.level), np.uint32).tobytes()
                values.append(self.allocate(len(words), words))
            elif isinstance(argument, In | Out):
                view, address = self.buffer(argument)
                views.append(view)
                values.append(address)
            else:
                values.append(argument)
        address = self.next
        packet = self.allocate(64)
        fields = dict(zip(("workgroup_size_x", "workgroup_size_y", "workgroup_size_z"), group, strict=True))
        fields |= dict(zip(("grid_size_x", "grid_size_y", "grid_size_z"), grid, strict=True))
        draft = KernelDispatchPacket(**fields)
        hidden = Hidden(shared_base=self.around.shared_base, private_base=self.around.private_base, queue=self.queue)
        segment = self.kernarg(kernel, values, draft, hidden)
        packed = KernelDispatchPacket(
            **fields,
            kernel_object=self.loaded.kernels[name],
            kernarg_address=self.allocate(len(segment), segment),
            group_segment_size=lds,
            private_segment_size=kernel.private_bytes,
        )
        self.memory.write(packet, packed.pack())
        options = {"step_limit": STEP_LIMIT} | options
        return launch(self.around, packed, address, **options), views

    def kernarg(self, kernel: Any, values: list[Any], packet: KernelDispatchPacket, hidden: Hidden) -> bytes:
        """By metadata, or where there is none as C would lay the values out."""
        if kernel.metadata is not None:
            return pack_kernarg(kernel.metadata, kernel.kernarg_bytes, values, packet, hidden)
        data = b""
        for value in values:
            raw = value.tobytes() if isinstance(value, np.generic) else int(value).to_bytes(8, "little")
            data = data.ljust(-(-len(data) // len(raw)) * len(raw), b"\0") + raw
        return data.ljust(max(kernel.kernarg_bytes, 16), b"\0")

    def buffer(self, argument: In | Out) -> tuple[np.ndarray, int]:
        """Memory for a buffer, exactly as large, and what it holds before the launch."""
        shape = argument.data if isinstance(argument, In) else argument.expected
        address = self.allocate(shape.nbytes)
        view = np.frombuffer(self.rams[-1].view, np.uint8)[: shape.nbytes]
        initial = argument.data if isinstance(argument, In) else argument.initial
        view[:] = UNWRITTEN if initial is None else np.frombuffer(initial.tobytes(), np.uint8)
        return view.view(shape.dtype).reshape(shape.shape), address


def cached_engine(**options: Any) -> JitEngine:
    """A JIT engine whose machine code is kept beside the kernels, for the next run of the tests."""
    return JitEngine(cache=ObjectCache(CACHE / "machine-code"), **options)


def run(engine: Engine, gfx: str, code: CodeObject, what: Case, **options: Any) -> tuple[list[np.ndarray], Statistics]:
    """All buffers after a run of a case, in the order of the arguments."""
    bench = Bench(gfx, code)
    dispatch, views = bench.dispatch(what.kernel, what.grid, what.group, what.arguments(), **options)
    statistics = engine.run(dispatch)
    # By bytes, so that the padding of structures is copied too.
    return [np.frombuffer(view.tobytes(), view.dtype).reshape(view.shape) for view in views], statistics


def check(what: Case, got: Sequence[np.ndarray], who: str) -> None:
    """Compare with the model of the case."""
    plain = [each.buffer if isinstance(each, Described) else each for each in what.arguments()]
    buffers = [argument for argument in plain if isinstance(argument, In | Out)]
    for number, (argument, array) in enumerate(zip(buffers, got, strict=True)):
        if isinstance(argument, In):
            assert array.tobytes() == argument.data.tobytes(), f"{who}: buffer {number} was only to be read"
        else:
            compare(argument, array, f"{who}: buffer {number}")


def compare(argument: Out, got: np.ndarray, where: str) -> None:
    """One buffer: the same bits but for NaN, or near enough."""
    expected = argument.expected
    if argument.any_order:
        got = np.sort(got)
    if expected.dtype.kind != "f":
        wrong = (
            expected != got
            if expected.dtype.names is None
            else np.array([a != b for a, b in zip(expected, got, strict=True)])
        )
    else:
        bits = f"u{expected.dtype.itemsize}"
        same = (expected.view(bits) == got.view(bits)) | (np.isnan(expected) & np.isnan(got))
        if argument.ulps or argument.absolute:
            with np.errstate(all="ignore"):
                room = np.spacing(np.abs(expected)).astype(np.float64) * argument.ulps + argument.absolute
                same |= np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= room
        wrong = ~same
    if wrong.any():
        first = tuple(int(n[0]) for n in np.nonzero(wrong))
        count = int(wrong.sum())
        raise AssertionError(
            f"{where}: {count} of {math.prod(expected.shape)} differ, first at {first}: "
            f"{got[first]!r}, expected {expected[first]!r}"
        )
