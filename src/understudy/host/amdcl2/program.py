"""The job of an OpenCL runtime for AMD OpenCL 2.0 binaries: load a program, set arguments, run its kernels.

    program = load("vadd.clo")
    program.kernel("vadd").run(1024, 64, [a, b, c, 1024])

Arguments: numbers and vectors (sequences) for values, NumPy arrays for pointers to memory (shared, not copied), `Local`
for pointers to LDS, `Image` and `Sampler`, bytes or arrays for structures, `DeviceQueue` for queues; integers are taken
as addresses for all kinds of pointers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Self, cast

import numpy as np

from understudy.core.errors import RuleError, UnderstudyError, WireError
from understudy.core.findings import Finding
from understudy.core.memory_check import MemoryCheck, log_of
from understudy.core.settings import JIT, NOT_COUNTED, REFERENCE
from understudy.core.shown import Rows, Shown
from understudy.core.sources import bytes_of
from understudy.core.space import Unit
from understudy.core.took import Took, told
from understudy.device.amdcl2 import rules
from understudy.device.amdcl2.device import OpenclDevice, ProgramState
from understudy.device.amdcl2.launch import pack_arguments, setup_buffer
from understudy.device.amdcl2.queue_shape import QueueShape
from understudy.device.amdcl2.settings import Settings
from understudy.device.hsa.launch.kernarg import MAX_KERNARG_BYTES
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.engine.gcn.api import CountingEngine, Engine, Statistics
from understudy.engine.gcn.moments import Moments
from understudy.host import printf_buffer
from understudy.host.amdcl2.arguments import Converter
from understudy.host.amdcl2.memory import Mappings
from understudy.host.amdcl2.objects import DeviceQueue, Image, Local, Sampler, integer
from understudy.host.amdcl2.options import (
    Size,
    check_options,
    checked_offsets,
    checked_sizes,
    engine_of,
    moment_engine,
    processor_of,
)
from understudy.host.printf_text import text_of
from understudy.image.amdcl2.arguments import Argument, Kind
from understudy.image.amdcl2.build import FIRST_KERNEL_ID
from understudy.image.amdcl2.container import Container, read_container
from understudy.image.amdcl2.container import Kernel as KernelImage
from understudy.image.amdcl2.formats import ChannelOrder, ChannelType, ImageKind
from understudy.image.amdcl2.load import LoadedProgram, loaded_bytes
from understudy.image.amdcl2.load import load as load_container
from understudy.image.amdcl2.metadata import KernelMetadata
from understudy.image.amdcl2.objects import Addressing, Filter
from understudy.image.printf_format import PrintfFormat
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

MAX_KERNEL_INDEX: Final = 0xFFFF - FIRST_KERNEL_ID
"""Largest kernel_index that goes with a kernel id of 16 bits."""


@dataclass(frozen=True, slots=True)
class Result(Took):
    """What a run took. `children` were enqueued by kernels.

    `text` is what kernels printed, `printf` the same as it stands in the printf buffer behind its header.
    `bytes` are those of the arrays that it was given, `time` the seconds of the kernel and all that it enqueued.
    `findings` are those of checks, as the program has them: counts are those of all its runs.
    """

    statistics: Statistics
    children: int
    printf: bytes
    bytes: int = 0
    time: float = field(default=0.0, compare=False)
    kernel: str = ""
    text: str = field(default="", repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False, compare=False)

    __repr__ = Took.__repr__

    @property
    def instructions(self) -> int:
        """Wave instructions retired."""
        return self.statistics.instructions

    @property
    def interpreted(self) -> int:
        """Those of them that were left to the reference engine, which is slow."""
        return self.statistics.interpreted


def load(
    source: str | Path | bytes | bytearray | memoryview,
    engine: str | Engine = JIT,
    target: Target | str | None = None,
    **settings: Any,
) -> Program:
    """The program in a file or in bytes, ready to run.

    `engine`: "jit", "reference" or an engine; `target`, perhaps by its name, in place of the processor that the file
    names; `settings` are those of the device: tier, time_limit_seconds and what else `Settings` lists. `WireError` for
    what is no such program.
    """
    return Program(read_container(bytes_of(source, "a program")), engine, target, **settings)


def _loaded(data: bytes, engine: str | Engine, target: Target, settings: Settings) -> Program:
    return Program(read_container(data), engine, target, settings)


class Program(Shown):
    """A program on a device of its own: code and data in its memory, kernels by name. For one thread at a time.

    `findings` are what checks have found so far (`check="memory"`), by site. `moments` say where events tell of
    registers, with the setting `snapshots`.
    """

    def __init__(
        self,
        container: Container,
        engine: str | Engine = JIT,
        target: Target | str | None = None,
        settings: Settings | None = None,
        **options: Any,
    ) -> None:
        self.container = container
        self.settings = chosen = Settings.of(settings, options)
        wanted = REFERENCE if engine == JIT and chosen.counts_races_too else engine
        self.moments = Moments(chosen.snapshots) if chosen.snapshots else None
        counting = chosen.count_instructions
        if self.moments is None:
            own = engine_of(wanted, chosen.tier, counting=counting)
        else:
            own = moment_engine(wanted, self.moments, counting=counting)
        processor = processor_of(target) if target is not None else container.target
        self.findings: list[Finding] = []
        self._check = check = MemoryCheck.of(chosen, self.findings)
        self._log = log = check.log if check is not None else log_of(chosen, self.findings) if chosen.checks else None
        limit, equal = chosen.time_limit_seconds, chosen.equal_stores
        self.device = OpenclDevice(
            container.bits, processor, own, limit, check, chosen.checks, log, equal, chosen.trace_waves, self.moments
        )
        self._made_of = engine, processor
        self.target, self.probes = processor, self.device.probes
        self.code: LoadedProgram = self._load()
        if log is not None:
            log.namers.append(self._complete)
        self.printf_address, self._printf = self.device.allocate(printf_buffer.SIZE_BYTES, "printf buffer")
        self._is_closed = False
        self._first = self.snapshot()

    def __reduce__(self) -> tuple[Any, ...]:
        return _loaded, (bytes(self.container.elf.data), *self._made_of, self.settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Kernels are refused from now on, and one that runs on another thread is ended (`Stopped`) and waited for.

        Arrays that `symbol` gave stay, and the engine, which others may use.
        """
        self._is_closed = True
        self.device.close()

    def __repr__(self) -> str:
        """What it is for and what it holds."""
        return f"Program({self.target.name}, {self.container.bits} bits, kernels: {', '.join(self.kernels) or 'none'})"

    def _rows(self) -> Rows:
        yield "kernel", "arguments", "code"
        for name, image in self.container.kernels.items():
            yield name, ", ".join(str(each.name) for each in self.kernel(name).arguments), f"{len(image.code):,} bytes"

    def _load(self) -> LoadedProgram:
        address, ram = self.device.allocate(loaded_bytes(self.container), "program")
        code = load_container(self.container, address)
        ram.view[: len(code.data)] = code.data
        return code

    def instruction_counts(self) -> dict[int, int]:
        """How often the instruction at each address has retired, since the program was loaded.

        For a program of the setting `count_instructions` and an engine by its name; `WireError` for another.
        """
        if not self.settings.count_instructions:
            raise WireError(NOT_COUNTED)
        counts = cast("CountingEngine", self.engine).instruction_counts()
        return counts if self.device.waits is None else self.device.waits.added(counts)

    def read_code(self, address: int, size: int) -> bytes:
        """Bytes of the device's memory."""
        return bytes(self.device.memory.read(address, size))

    @property
    def engine(self) -> Engine:
        """What runs waves; another one may take its place between two runs."""
        return self.device.engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self.device.engine = engine

    @property
    def time_limit_seconds(self) -> float | None:
        """How long one kernel may run; None: for any time."""
        return self.device.time_limit_seconds

    @time_limit_seconds.setter
    def time_limit_seconds(self, seconds: float | None) -> None:
        self.device.time_limit_seconds = seconds

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
        found = self.device.memory.plain(address, size)
        if found is None:
            raise WireError(f"symbol {name!r} has fewer than {size} bytes before the program's end")
        shared: np.ndarray = found.bytes[address - found.base : address - found.base + size]
        return shared

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> ProgramState:
        """The state between two runs, for `restore`: variables of the program, its queue, private memory.

        Arrays are not part of it: they are the device's for the time of a run only. `RuleError` while a kernel runs.
        """
        return self.device.snapshot()

    def restore(self, state: ProgramState) -> None:
        """Go back to a state that `snapshot` of this program gave; what `symbol` has given stays shared."""
        self.device.restore(state)

    def reset(self) -> None:
        """Go back to the program as it was loaded."""
        self.restore(self._first)

    def check_open(self) -> None:
        """A `RuleError` after `close`."""
        if self._is_closed:
            raise RuleError("the program was closed, expected an open one")

    # -- launches ----------------------------------------------------------------------------------------------------

    def run(self, packet: KernelDispatchPacket, uses_queue: bool, **options: Any) -> Result:
        """Run a packet, and then what it has enqueued. Where that fails, the queue begins anew with the next run."""
        self._printf.clear()
        self._printf.write(0, printf_buffer.EMPTY, _HOST)
        start, sights = perf_counter(), self.sights
        statistics, children = self.device.run(packet, uses_queue, options)
        time = perf_counter() - start
        printed = printf_buffer.written(self._printf.view)
        text = text_of(printed, self._formats, end="\n") if printed else ""
        return Result(statistics, children, printed, time=time, text=text, findings=self.found(sights))

    def found(self, sights: int) -> tuple[Finding, ...]:
        """What checks have found behind so many sights."""
        return () if self._log is None else self._log.since(sights)

    @property
    def sights(self) -> int:
        """What checks have seen so far."""
        return 0 if self._log is None else self._log.sights

    def _complete(self, finding: Finding) -> None:
        """Say in which kernel a finding is."""
        at = finding.pc
        begun = [(place, name) for name, place in self.code.kernels.items() if at is not None and place <= at]
        if begun and at is not None and at < self.code.base + len(self.code.data):
            start, finding.kernel = max(begun)
            start += self.container.kernel(finding.kernel).header.kernel_code_entry_byte_offset
            finding.at = f"{finding.kernel}+{at - start:#x}"

    @cached_property
    def _formats(self) -> dict[int, PrintfFormat]:
        """Those of all kernels, which enqueue each other: numbers are the program's."""
        return {
            number: each
            for name in self.container.kernels
            for number, each in self.container.metadata(name).formats.items()
        }

    def queue(self, shape: QueueShape | None = None) -> tuple[int, int]:
        """Addresses of the device's queue and of the slot for the kernel that the host launches.

        There is one queue: for another `shape` a new one takes its place.
        """
        device = self.device
        if device.queue is None or shape not in (None, device.queue.shape):
            device.drop_queue()
            device.place_queue(_kernel_table(self.container, self.code.kernels), shape or QueueShape())
        assert device.queue is not None
        return device.queue.address, device.queue.parent


_HOST: Final = Unit(0)


class Kernel(Shown):
    """A kernel of a program."""

    def __init__(self, program: Program, image: KernelImage) -> None:
        self.program = program
        self.image = image
        self.metadata: KernelMetadata = program.container.metadata(image.name)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(str(each.name) for each in self.arguments)})>"

    def _rows(self) -> Rows:
        yield "argument", "type", "kind"
        for each in self.arguments:
            yield each.name, each.type_name, each.kind.name

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
        program, maps = self.program, Mappings(self.program.device)
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
            sights = program.sights
            result = program.run(packet, bool(hidden["aqlwrap_pointer"]), **options)
            maps.finish()
            return told(replace(result, bytes=maps.bytes, kernel=self.name, findings=program.found(sights)))
        except UnderstudyError as error:
            raise error.at("kernel", self.name) from None
        finally:
            maps.release()

    def _converter(self, maps: Mappings) -> Converter:
        static = self.image.header.workgroup_group_segment_byte_size
        program = self.program
        return Converter(program.device, maps, static, lambda shape: program.queue(shape)[0])

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


def _kernel_table(container: Container, kernels: Mapping[str, int]) -> bytes:
    """Addresses of code objects, each as long as a pointer, by the kernel_index that their metadata has."""
    size = container.bits // 8
    places: dict[int, int] = {}
    for name, address in kernels.items():
        try:
            index = container.metadata(name).queue.kernel_index
        except WireError:
            continue  # without metadata nobody knows its number
        if index > MAX_KERNEL_INDEX:
            raise WireError(f"kernel_index {index}, expected at most {MAX_KERNEL_INDEX}").at("kernel", name)
        places[index] = address
    table = [places.get(index, 0) for index in range(max(places, default=0) + 1)]
    return b"".join(address.to_bytes(size, "little") for address in table)
