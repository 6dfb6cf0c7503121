"""The job of an OpenCL runtime for AMD OpenCL 2.0 binaries: load a program, set arguments, run its kernels.

    program = load("vadd.clo")
    program.kernel("vadd").run(1024, 64, [a, b, c, 1024])

Arguments: numbers and vectors (sequences) for values, NumPy arrays for pointers to memory (shared, not copied), `Local`
for pointers to LDS, `Image` and `Sampler`, bytes or arrays for structures, `DeviceQueue` for queues; integers are taken
as addresses for all kinds of pointers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from understudy.core.errors import RuleError, UnderstudyError, WireError
from understudy.core.event import Probes
from understudy.core.limits import UNSAID, Unsaid, Watch, time_limit
from understudy.core.space import Unit
from understudy.core.telemetry import Telemetry
from understudy.device.amdcl2 import rules
from understudy.device.amdcl2.launch import (
    SpecialBuffer,
    launched,
    pack_arguments,
    setup_buffer,
    special_buffer,
)
from understudy.device.amdcl2.queue_shape import QueueShape
from understudy.device.amdcl2.scheduler import Scheduler
from understudy.device.hsa.launch.first_state import Scratch, Surroundings, launch
from understudy.device.hsa.launch.kernarg import MAX_KERNARG_BYTES
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.engine.gcn.api import Engine, Statistics, wave_scratch_bytes
from understudy.host import printf_buffer
from understudy.host.amdcl2.arguments import Converter
from understudy.host.amdcl2.memory import DeviceMemory, Mappings
from understudy.host.amdcl2.objects import DeviceQueue, Image, Local, Sampler, integer
from understudy.host.amdcl2.options import (
    TIME_LIMIT,
    Size,
    check_options,
    checked_offsets,
    checked_sizes,
    engine_of,
    processor_of,
)
from understudy.host.amdcl2.queue import PlacedQueue, place_queue, release_queue
from understudy.image.amdcl2.arguments import Argument, Kind
from understudy.image.amdcl2.container import Container, read_container
from understudy.image.amdcl2.container import Kernel as KernelImage
from understudy.image.amdcl2.formats import ChannelOrder, ChannelType, ImageKind
from understudy.image.amdcl2.load import LoadedProgram, loaded_bytes
from understudy.image.amdcl2.load import load as load_container
from understudy.image.amdcl2.metadata import KernelMetadata
from understudy.image.amdcl2.objects import Addressing, Filter
from understudy.isa.gcn.state import LANES
from understudy.isa.gcn.target import Target

__all__ = [
    "Addressing",
    "ChannelOrder",
    "ChannelType",
    "DeviceQueue",
    "Filter",
    "Image",
    "ImageKind",
    "Kernel",
    "Local",
    "Program",
    "Result",
    "Sampler",
    "load",
]

SCRATCH_WAVES: Final = 256
"""Waves whose private memory is kept ready."""
SCRATCH_BYTES: Final = 1 << 28
"""What the private memory of all of them may take; at least one work-group always fits."""
MAX_WAVE_SCRATCH: Final = 8191 * 1024
"""Private memory of a wave that hardware can be asked for: 13 bits, in KiB."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run took. `children` were enqueued by kernels; `printf` is the raw printf buffer behind its header."""

    statistics: Statistics
    children: int
    printf: bytes


@dataclass(frozen=True, slots=True, eq=False)
class ProgramState:
    """A program's memory and what lies where in it, for `Program.restore`; to be kept, not to be looked into."""

    program: Program = field(repr=False)
    memory: Any = field(repr=False)
    scratch: Scratch | None
    queue: PlacedQueue | None


def load(
    source: str | Path | bytes | bytearray | memoryview,
    engine: str | Engine = "jit",
    target: Target | str | None = None,
    *,
    time_limit_seconds: float | Unsaid | None = UNSAID,
) -> Program:
    """The program in a file or in bytes, ready to run.

    `engine`: "jit", "reference" or an engine; `target`, perhaps by its name, in place of the processor that the file
    names; `time_limit_seconds`: how long one kernel may run, None for any time (the default is
    `core.limits.default_time_limit`'s). `WireError` for what is no such program.
    """
    if isinstance(source, (str, Path)):
        path = Path(source)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise WireError(f"{path}: {error.strerror}") from None
    else:
        try:
            data = bytes(memoryview(source))
        except TypeError:
            raise WireError(f"a program is a path or its bytes, not {type(source).__name__}") from None
    return Program(read_container(data), engine, target, time_limit_seconds=time_limit_seconds)


class Program:
    """A program on a device of its own: code and data in its memory, kernels by name. For one thread at a time."""

    def __init__(
        self,
        container: Container,
        engine: str | Engine = "jit",
        target: Target | str | None = None,
        *,
        time_limit_seconds: float | Unsaid | None = UNSAID,
    ) -> None:
        self.container = container
        self.time_limit_seconds = time_limit(time_limit_seconds)
        self.target = processor_of(target) if target is not None else container.target
        self.engine: Engine = engine_of(engine)
        self.memory = DeviceMemory(container.bits)
        self.probes = Probes()
        self.code: LoadedProgram = self._load()
        self._printf_address, self._printf = self.memory.allocate(printf_buffer.SIZE_BYTES, "printf buffer")
        self._special_address, self._special = self.memory.allocate(SpecialBuffer.size_bytes, "special buffer")
        self._packet_address, self._packet = self.memory.allocate(KernelDispatchPacket.size_bytes, "setup buffer")
        self._scratch: Scratch | None = None
        self._queue: PlacedQueue | None = None
        self._total = Statistics()
        self._is_running = self._is_closed = False
        self._first = self.snapshot()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Kernels are refused from now on. Arrays that `symbol` gave stay, and the engine, which others may use."""
        self._check_idle("a close")
        self._is_closed = True

    def __repr__(self) -> str:
        """What it is for and what it holds."""
        return f"Program({self.target.name}, {self.container.bits} bits, kernels: {', '.join(self.kernels) or 'none'})"

    def _load(self) -> LoadedProgram:
        address, ram = self.memory.allocate(loaded_bytes(self.container), "program")
        code = load_container(self.container, address)
        ram.view[: len(code.data)] = code.data
        return code

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return tuple(self.container.kernels)

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name; `WireError` where there is none."""
        return Kernel(self, self.container.kernel(name))

    def symbol(self, name: str, size: int) -> np.ndarray:
        """`size` bytes, 1 or more, of the program's data from a symbol on, shared with the device."""
        address = self.code.symbols.get(name)
        if address is None:
            raise WireError(f"program has no symbol {name!r}: there are {', '.join(self.code.symbols) or 'none'}")
        if integer(size, "the size of a symbol's data") < 1:
            raise WireError(f"symbol {name!r}: expected 1 byte or more, not {size}")
        found = self.memory.gpu.plain(address, size)
        if found is None:
            raise WireError(f"symbol {name!r} has fewer than {size} bytes before the program's end")
        shared: np.ndarray = found.bytes[address - found.base : address - found.base + size]
        return shared

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> ProgramState:
        """The state between two runs, for `restore`: variables of the program, its queue, private memory.

        Arrays are not part of it: they are the device's for the time of a run only. `RuleError` while a kernel runs.
        """
        self._check_idle("a snapshot")
        return ProgramState(self, self.memory.snapshot(), self._scratch, self._queue)

    def restore(self, state: ProgramState) -> None:
        """Go back to a state that `snapshot` of this program gave; what `symbol` has given stays shared."""
        self._check_idle("a restore")
        if state.program is not self:
            raise RuleError("the state is another program's, expected one that snapshot() of this program gave")
        self.memory.restore(state.memory)
        self._scratch, self._queue = state.scratch, state.queue

    def reset(self) -> None:
        """Go back to the program as it was loaded."""
        self.restore(self._first)

    def _check_idle(self, what: str) -> None:
        if self._is_running:
            raise RuleError(f"{what} while a kernel runs, expected it between two runs")

    def check_open(self) -> None:
        """A `RuleError` after `close`."""
        if self._is_closed:
            raise RuleError("the program was closed, expected an open one")

    # -- launches ----------------------------------------------------------------------------------------------------

    def dispatch(self, packet: KernelDispatchPacket, address: int, **options: Any) -> Statistics:
        """Run a packet that lies at `address` to its end. `options` are those of `Kernel.run`.

        Private memory and LDS are those of the packet and of the kernel's header: the copy in memory stays as it is.
        """
        packet = launched(self.memory.gpu, packet)
        around = Surroundings(
            target=self.target,
            memory=self.memory.gpu,
            queue=self._special_address,
            scratch=self._scratch_for(packet),
        )
        descriptor = around.scratch.resource_descriptor(self.target.level) if around.scratch else (0, 0, 0, 0)
        location = (around.scratch.address, around.scratch.size_bytes) if around.scratch else (0, 0)
        special = special_buffer(
            around.shared_base, around.private_base, descriptor, location, packet.private_segment_size
        )
        self._special.view[: special.size_bytes] = special.pack()
        more = dict(options)
        watch = Watch(more.pop(TIME_LIMIT, self.time_limit_seconds))
        statistics = self.engine.run(launch(around, packet, address, watch=watch, **more))
        self._total.add(statistics)
        return statistics

    def _scratch_for(self, packet: KernelDispatchPacket) -> Scratch | None:
        """Private memory for a launch: kept as long as it is large enough."""
        if not packet.private_segment_size:
            return None
        wave = wave_scratch_bytes(packet.private_segment_size)
        if wave > MAX_WAVE_SCRATCH:
            text = f"{packet.private_segment_size} bytes of private memory for each work-item"
            raise WireError(f"{text}, expected at most {MAX_WAVE_SCRATCH // LANES}")
        items = packet.workgroup_size_x * packet.workgroup_size_y * packet.workgroup_size_z
        group = wave * -(-items // LANES)
        size = max(group, min(wave * SCRATCH_WAVES, SCRATCH_BYTES) // group * group)
        if self._scratch is None or self._scratch.size_bytes < size:
            if self._scratch is not None:
                self.memory.release(self._scratch.address)
            self._scratch = None
            address, _ = self.memory.allocate(size, "private memory")
            self._scratch = Scratch(address, size, address & ~0xFFFF_FFFF)
        return self._scratch

    def run(self, packet: KernelDispatchPacket, hidden: Mapping[str, int], **options: Any) -> Result:
        """Run a packet, and then what it has enqueued. Where that fails, the queue begins anew with the next run."""
        self._printf.clear()
        self._printf.write(0, printf_buffer.EMPTY, _HOST)
        self._packet.view[: packet.size_bytes] = packet.pack()
        self._total = Statistics()
        self._is_running, ended = True, False
        try:
            children = self._run(packet, hidden, options)
            ended = True
        finally:
            self._is_running = False
            if hidden["aqlwrap_pointer"] and not ended:
                self._drop_queue()  # what was left in it would stop later runs
        return Result(self._total, children, printf_buffer.written(self._printf.view))

    def _run(self, packet: KernelDispatchPacket, hidden: Mapping[str, int], options: dict[str, Any]) -> int:
        """Run a packet and what it has enqueued; the number of the latter."""
        self.dispatch(packet, self._packet_address, **options)
        if not hidden["aqlwrap_pointer"]:
            return 0

        def child(packet: KernelDispatchPacket, address: int) -> int:
            return self.dispatch(packet, address, **options).instructions

        telemetry = Telemetry(self.probes, lambda: self._total.instructions)
        pointer_bytes = self.container.bits // 8
        scheduler = Scheduler(self.memory.gpu, hidden["vqueue_pointer"], child, telemetry, pointer_bytes)
        return scheduler.drain(hidden["aqlwrap_pointer"])

    def queue(self, shape: QueueShape | None = None) -> tuple[int, int]:
        """Addresses of the device's queue and of the slot for the kernel that the host launches.

        There is one queue: for another `shape` a new one takes its place.
        """
        if self._queue is None or shape not in (None, self._queue.shape):
            self._drop_queue()
            self._queue = place_queue(self.memory, self.container, self.code.kernels, shape or QueueShape())
        return self._queue.address, self._queue.parent

    def _drop_queue(self) -> None:
        """Give the queue up, with whatever waits in it."""
        if self._queue is not None:
            release_queue(self.memory, self._queue)
        self._queue = None

    @property
    def printf_address(self) -> int:
        """Where the printf buffer lies."""
        return self._printf_address


_HOST: Final = Unit(0)


class Kernel:
    """A kernel of a program."""

    def __init__(self, program: Program, image: KernelImage) -> None:
        self.program = program
        self.image = image
        self.metadata: KernelMetadata = program.container.metadata(image.name)

    @property
    def name(self) -> str:
        """Its name in OpenCL C."""
        return self.image.name

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that a caller gives."""
        return tuple(slot.argument for slot in self.metadata.layout.user)

    def run(
        self,
        global_size: Size,
        local_size: Size | None = None,
        args: Iterable[Any] = (),
        global_offset: Size = (0, 0, 0),
        **options: Any,
    ) -> Result:
        """Run the kernel over `global_size` work-items in work-groups of `local_size`, and wait.

        Groups at the edge may be partial. Without `local_size` the kernel's own required size is taken, or 64 in x.
        `options` are those of the engine's `Dispatch`: step_limit, turn, seed, poison, on_hint, on_trap; and
        time_limit_seconds in place of the program's, for this kernel and for each that it enqueues. `WireError` for
        arguments, sizes and options that do not fit, `RuleError` where the kernel was compiled for another size.
        """
        program, maps = self.program, Mappings(self.program.memory)
        program.check_open()
        try:
            layout = self.metadata.layout
            check_options(options)
            grid, group = self._sizes(global_size, local_size)
            values, lds = self._converter(maps).convert(layout.user, args)
            hidden = self._hidden(global_offset)
            size = max(layout.size, self.image.header.kernarg_segment_byte_size, 16)
            if size > MAX_KERNARG_BYTES:
                raise WireError(f"an argument buffer of {size} bytes, expected at most {MAX_KERNARG_BYTES}")
            kernarg, _ = maps.copy(pack_arguments(layout, values, hidden, size), "kernel arguments")
            entry = program.code.kernels[self.name]
            packet = setup_buffer(grid, group, self.image.header, entry, kernarg, lds)
            result = program.run(packet, hidden, **options)
            maps.finish()
            return result
        except UnderstudyError as error:
            raise error.at("kernel", self.name) from None
        finally:
            maps.release()

    def _converter(self, maps: Mappings) -> Converter:
        static = self.image.header.workgroup_group_segment_byte_size
        program = self.program
        return Converter(program.memory, maps, program.target.level, static, lambda shape: program.queue(shape)[0])

    def _sizes(self, global_size: Size, local_size: Size | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        grid = checked_sizes(global_size, "global size")
        required = self.metadata.required_work_group_size
        if local_size is None:
            first = min(LANES, max(grid[0], 1)) if grid else 1
            group = required[: len(grid)] if required else (first, *[1] * (len(grid) - 1))
        else:
            group = checked_sizes(local_size, "local size")
        if required and (*group, 1, 1)[:3] != required:
            text = f"kernel {self.name} was compiled for work-groups of {required}, not {group}"
            raise RuleError(text, rule=rules.REQUIRED_SIZE)
        return grid, group

    def _hidden(self, global_offset: Size) -> dict[str, int]:
        """The values of the setup arguments."""
        offsets = checked_offsets(global_offset, self.program.container.bits)
        needs_queue = self.metadata.uses_enqueue or any(a.kind is Kind.QUEUE for a in self.arguments)
        queue, parent = self.program.queue() if needs_queue else (0, 0)
        hidden = {f"global_offset_{axis}": offset for axis, offset in enumerate(offsets)}
        return hidden | {
            "printf_buffer": self.program.printf_address if self.metadata.has_printf else 0,
            "vqueue_pointer": queue,
            "aqlwrap_pointer": parent,
        }
