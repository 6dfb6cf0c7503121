"""A run-time library for AMD OpenCL 2.0 binaries: load a program, set arguments, run its kernels.

    program = load("vadd.clo")
    program.kernel("vadd").run(1024, 64, [a, b, c, 1024])

Arguments have these values:

- numbers, or sequences for vectors, for arguments passed by value;
- NumPy arrays for pointers to memory; the memory is shared, not copied;
- `Local` for pointers to LDS;
- `Image` and `Sampler` for images and samplers;
- bytes or arrays for structures;
- `DeviceQueue` for queues;
- integers, which are taken as addresses, for pointers of all kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Self, TypedDict, Unpack

import numpy as np

from softcard.core.display import RichDisplay, Rows
from softcard.core.errors import RuleError, SoftcardError, WireError, with_console
from softcard.core.files import bytes_of
from softcard.core.findings import CodePlace, Finding
from softcard.core.limits import checked_time_limit
from softcard.core.settings import JIT
from softcard.core.space import Unit
from softcard.core.words import U32
from softcard.device.amdcl2 import rules
from softcard.device.amdcl2.device import TIME_LIMIT, OpenclDevice, ProgramState
from softcard.device.amdcl2.launch import pack_arguments, setup_buffer
from softcard.device.amdcl2.queue_records import QueueShape
from softcard.device.amdcl2.settings import ProgramOptions, Settings
from softcard.device.hsa.launch.kernarg import MAX_KERNARG_BYTES
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.engine.gcn.api import Engine, OnHint, OnTrap, Statistics
from softcard.host import printf
from softcard.host.amdcl2.arguments import Converter, Given, Mappings
from softcard.host.amdcl2.objects import DeviceQueue, Image, Local, Sampler, integer
from softcard.host.printf import text_of
from softcard.host.run_statistics import RunStatistics, logged
from softcard.host.snapshot_points import choose
from softcard.image.amdcl2.arguments import Argument, Kind
from softcard.image.amdcl2.build import FIRST_KERNEL_ID
from softcard.image.amdcl2.container import Container, read_container
from softcard.image.amdcl2.container import Kernel as KernelImage
from softcard.image.amdcl2.formats import ChannelOrder, ChannelType, ImageKind
from softcard.image.amdcl2.load import LoadedProgram, loaded_bytes
from softcard.image.amdcl2.load import load as load_container
from softcard.image.amdcl2.metadata import KernelMetadata
from softcard.image.amdcl2.objects import Addressing, Filter
from softcard.image.printf_format import PrintfFormat
from softcard.isa.gcn.state import LANES
from softcard.isa.gcn.target import TARGETS, Target

# ---- checks of a caller's options ------------------------------------------------------------------------------------
# Checks of what a caller passes besides arguments: processor and engine, sizes, offsets, options of the engine.


Size = int | Sequence[int]
"""A size in one to three dimensions, in work-items or work-groups."""


class RunOptions(TypedDict, total=False):
    """The options of a run: those of the engine's `Dispatch`, and the time limit of each kernel in seconds."""

    step_limit: int
    turn: int
    seed: int | None
    poison: int | None
    time_limit_seconds: float | None
    on_hint: OnHint | None
    on_trap: OnTrap | None


COUNTS: Final = {"step_limit": 1, "turn": 1, "seed": 0, "poison": 0}
"""The options of a run that are integers, with the smallest valid value of each."""
CALLS: Final = ("on_hint", "on_trap")
"""The options of a run that are callables."""
MAY_BE_NONE: Final = ("seed", "poison", *CALLS)


def processor_of(target: Target | str) -> Target:
    """Return a processor, given as an object or by name; raise `WireError` for an unknown one."""
    found = TARGETS.get(target) if isinstance(target, str) else target
    if not isinstance(found, Target):
        raise WireError(f"unknown processor {target!r}, expected one of {', '.join(TARGETS)}")
    return found


def checked_sizes(size: Size, what: str) -> tuple[int, ...]:
    """Return one or several sizes as a tuple; raise `WireError` unless they are 1 to 3 integers."""
    many = isinstance(size, (Sequence, np.ndarray)) and not isinstance(size, (str, bytes, bytearray))
    given: Any = size
    found = tuple(given) if many and np.ndim(given) == 1 else (given,)
    if len(found) > 3 or not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in found):
        raise WireError(f"{what} is {size!r}, expected 1 to 3 integers")
    return tuple(int(each) for each in found)


def checked_offsets(offset: Size, bits: int) -> tuple[int, ...]:
    """Return the global offsets in three dimensions; raise `WireError` if they do not fit `bits` bits."""
    found = (*checked_sizes(offset, "global offset"), 0, 0)[:3]
    if not all(0 <= each < 1 << bits for each in found):
        raise WireError(f"global offset is {found}, expected 0 to {(1 << bits) - 1:#x} in {bits}-bit programs")
    return found


def check_options(options: RunOptions) -> None:
    """Raise a `WireError` for an unknown option, and for an invalid value of an option."""
    given: dict[str, Any] = {**options}
    for name, value in given.items():
        if name not in COUNTS and name not in CALLS and name != TIME_LIMIT:
            raise WireError(f"unknown option {name!r}, expected one of {', '.join((*COUNTS, TIME_LIMIT, *CALLS))}")
        if name == TIME_LIMIT:
            checked_time_limit(value)
            continue
        if value is None and name in MAY_BE_NONE:
            continue
        if name in CALLS:
            if not callable(value):
                raise WireError(f"option {name} is {value!r}, expected a callable object")
        elif not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < COUNTS[name]:
            raise WireError(f"option {name} is {value!r}, expected an integer of {COUNTS[name]} or more")
    if (given.get("poison") or 0) > U32:
        raise WireError(f"option poison is {given['poison']:#x}, expected 32 bits")


# ---- programs --------------------------------------------------------------------------------------------------------


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
"""The largest kernel_index for which the kernel id fits 16 bits."""


@dataclass(frozen=True, slots=True)
class Result(RunStatistics):
    """The result of a kernel's run. `children` is the number of kernels that it enqueued.

    - `text`: the text that the kernels printed; `printf`: the raw content of the printf buffer, without its
      header.
    - `bytes`: the size of all array arguments.
    - `time`: the seconds that the kernel and all kernels that it enqueued took.
    - `findings`: the findings of checks, with counts over all runs of the program."""

    statistics: Statistics
    children: int
    printf: bytes
    bytes: int = 0
    time: float = field(default=0.0, compare=False)
    kernel: str = ""
    text: str = field(default="", repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False, compare=False)

    __repr__ = RunStatistics.__repr__

    @property
    def instructions(self) -> int:
        """The number of wave instructions retired."""
        return self.statistics.instructions

    @property
    def interpreted(self) -> int:
        """The number of instructions that the reference engine executed, which is much slower than translated code."""
        return self.statistics.interpreted


def load(
    source: str | Path | bytes | bytearray | memoryview,
    engine: str | Engine = JIT,
    target: Target | str | None = None,
    **settings: Unpack[ProgramOptions],
) -> Program:
    """Load an OpenCL 2.0 program from a file or from bytes, ready to run.

    `engine` is "jit", "reference" or an engine object. `target` is a processor, as an object or by name; by
    default it is the processor that the file names. `settings` are those of the device: tier, time_limit_seconds
    and the others that `Settings` lists. Raise `WireError` if the file is not an OpenCL 2.0 program."""
    return Program(read_container(bytes_of(source, "a program")), engine, target, **settings)


def _loaded(data: bytes, engine: str | Engine, target: Target, settings: Settings) -> Program:
    return Program(read_container(data), engine, target, settings)


class Program(RichDisplay):
    """A program on its own device: code and data in the device's memory, and kernels by name. It is not thread-safe.

    `findings` are the findings of checks so far (for example with `check="memory"`), one for each code
    location. With the setting `snapshots`, `tracepoints` are the points at which the device takes snapshots of
    registers."""

    def __init__(
        self,
        container: Container,
        engine: str | Engine = JIT,
        target: Target | str | None = None,
        settings: Settings | None = None,
        **options: Unpack[ProgramOptions],
    ) -> None:
        self.container = container
        self.settings = Settings.of(settings, options)
        self.target = processor_of(target) if target is not None else container.target
        self.device = device = OpenclDevice(container.bits, self.target, engine, self.settings)
        self.tracepoints = device.events.tracepoints
        self.probes = device.telemetry.probes
        self.desk = device.telemetry.desk
        self.findings = device.reports.findings
        self._engine_given = engine
        self.code: LoadedProgram = self._load()
        device.reports.locators.known.append(self._locate)
        self.printf_address, self._printf = device.allocate(printf.SIZE_BYTES, "printf buffer")
        self._is_closed = False
        self._first = self.snapshot()

    def __reduce__(self) -> tuple[object, ...]:
        return _loaded, (bytes(self.container.elf.data), self._engine_given, self.target, self.settings)

    def __enter__(self) -> Self:
        self.check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the program: later runs are refused, and a kernel that runs on another thread is ended (`Stopped`).

        Arrays that `symbol` returned stay valid, and so does the engine, which other programs may share.
        """
        self._is_closed = True
        self.device.close()
        self.desk.report()

    def __repr__(self) -> str:
        """Return the target and the names of the kernels."""
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
        """Return the number of times that the instruction at each address has retired since loading.

        Raise `WireError` unless the setting `count_instructions` is on and the engine was given by its name.
        """
        return self.device.compute.instruction_counts()

    def read_code(self, address: int, size: int) -> bytes:
        """Return `size` bytes of the device's memory from `address` on."""
        self.check_open()
        return bytes(self.device.memory.read(address, size))

    def snapshot_at(self, points: Sequence[str]) -> None:
        """Set the points at which the device takes snapshots of registers, in addition to faults and traps.

        A point is a pc (``0x...``), SYMBOL[+OFFSET], or "end" (the end of a wave). Raise `WireError` for an unknown
        symbol, and for a device without the setting `snapshots`.
        """
        self.check_open()
        code, entries = self.code, {name: self._entry(name) for name in self.code.kernels}
        choose(self.tracepoints, points, entries, range(code.base, code.base + len(code.data), 4), lambda _: None)

    @property
    def engine(self) -> Engine:
        """The engine that runs waves; it may be replaced between two runs."""
        return self.device.engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self.device.engine = engine

    @property
    def time_limit_seconds(self) -> float | None:
        """The time limit of a kernel in seconds; None for no limit."""
        return self.device.time_limit_seconds

    @time_limit_seconds.setter
    def time_limit_seconds(self, seconds: float | None) -> None:
        self.device.time_limit_seconds = seconds

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels."""
        return tuple(self.container.kernels)

    def kernel(self, name: str) -> Kernel:
        """Return the kernel of that name; raise `WireError` for an unknown name."""
        self.check_open()
        return Kernel(self, self.container.kernel(name))

    def symbol(self, name: str, size: int) -> np.ndarray:
        """Return an array of `size` bytes (1 or more) of the program's data, from symbol `name` on.

        It shares the device's memory.
        """
        self.check_open()
        address = self.code.symbols.get(name)
        if address is None:
            raise WireError(f"the program has no symbol {name!r}, it has {', '.join(self.code.symbols) or 'none'}")
        if integer(size, "the size of a symbol's data") < 1:
            raise WireError(f"the size of symbol {name!r} is {size} bytes, expected 1 or more")
        found = self.device.memory.plain(address, size)
        if found is None:
            raise WireError(
                f"symbol {name!r} has fewer than {size} bytes: the program's memory ends before the last of them"
            )
        shared: np.ndarray = found.bytes[address - found.base : address - found.base + size]
        return shared

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> ProgramState:
        """Return the state of the program between two runs, for `restore`: its variables, queue and private memory.

        Arrays are not included: they are mapped only during a run. Raise `RuleError` while a kernel runs.
        """
        self.check_open()
        return self.device.snapshot()

    def restore(self, state: ProgramState) -> None:
        """Restore a state that `snapshot` of this program returned.

        Arrays that `symbol` returned still share the device's memory afterwards."""
        self.check_open()
        self.device.restore(state)

    def reset(self) -> None:
        """Restore the state that the program had after loading."""
        self.restore(self._first)

    def check_open(self) -> None:
        """Raise a `RuleError` after `close`."""
        if self._is_closed:
            raise RuleError("the program was closed: open it again")

    # -- launches ----------------------------------------------------------------------------------------------------

    def run(self, packet: KernelDispatchPacket, uses_queue: bool, **options: Unpack[RunOptions]) -> Result:
        """Run the kernel of a dispatch packet, then the kernels that it enqueued; return the result.

        `uses_queue` is True if the kernel uses the device's queue. If the run fails, the next run gets a new queue."""
        self.check_open()
        self._printf.clear()
        self._printf.write(0, printf.EMPTY, _HOST)
        reports, start = self.device.reports, perf_counter()
        occurrences = reports.occurrences
        try:
            statistics, children = self.device.run(packet, uses_queue, options)
        except SoftcardError as error:
            with_console(error, self._printed()[1].encode("utf-8", "replace"))
            raise
        time = perf_counter() - start
        printed, text = self._printed()
        return Result(statistics, children, printed, time=time, text=text, findings=reports.since(occurrences))

    def _printed(self) -> tuple[bytes, str]:
        """Return the content of the printf buffer without its header, and the text that results from it."""
        printed = printf.written(self._printf.view)
        return printed, text_of(printed, self._formats, end="\n") if printed else ""

    def _locate(self, pc: int) -> CodePlace | None:
        """Return the kernel and offset of the instruction at `pc`; None for other code."""
        code = self.code
        begun = [(place, name) for name, place in code.kernels.items() if place <= pc < code.base + len(code.data)]
        if not begun:
            return None
        _, name = max(begun)
        return CodePlace(f"{name}+{pc - self._entry(name):#x}", name)

    def _entry(self, name: str) -> int:
        """Return the address of the first instruction of the kernel `name`."""
        return self.code.kernels[name] + self.container.kernel(name).header.kernel_code_entry_byte_offset

    @cached_property
    def _formats(self) -> dict[int, PrintfFormat]:
        """The printf formats of all kernels, by numbers that are unique in the program.

        The table is shared because kernels may enqueue each other.
        """
        return {
            number: each
            for name in self.container.kernels
            for number, each in self.container.metadata(name).formats.items()
        }

    def queue(self, shape: QueueShape | None = None) -> tuple[int, int]:
        """Return two addresses: the device's queue, and its slot for the kernel that the host itself launches.

        The device has one queue. If `shape` is given and differs from the queue's shape, a new queue replaces it."""
        self.check_open()
        device = self.device
        if device.queue is None or shape not in (None, device.queue.shape):
            device.drop_queue()
            device.place_queue(_kernel_table(self.container, self.code.kernels), shape or QueueShape())
        assert device.queue is not None
        return device.queue.address, device.queue.parent


_HOST: Final = Unit(0)


class Kernel(RichDisplay):
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
        """The kernel's name in OpenCL C."""
        return self.image.name

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that a caller passes, in order, without those that the run-time library fills in."""
        return tuple(slot.argument for slot in self.metadata.layout.user)

    def run(
        self,
        global_size: Size,
        local_size: Size | None = None,
        args: Iterable[Given] = (),
        global_offset: Size = (0, 0, 0),
        **options: Unpack[RunOptions],
    ) -> Result:
        """Run the kernel over `global_size` work-items in work-groups of `local_size`, and wait for its end.

        Work-groups at the edge may be partial. Without `local_size`, the size that the kernel requires is used, or else
        64 in x. `options` are those of the engine's `Dispatch` (step_limit, turn, seed, poison, on_hint, on_trap) and
        time_limit_seconds, which replaces the program's limit for this kernel and for each kernel that it enqueues.
        Raise `WireError` for arguments, sizes and options that do not fit. Raise `RuleError` if the kernel was compiled
        for another work-group size.
        """
        with self.program.desk:
            return self._run(global_size, local_size, args, global_offset, options)

    def _run(
        self,
        global_size: Size,
        local_size: Size | None,
        args: Iterable[Given],
        global_offset: Size,
        options: RunOptions,
    ) -> Result:
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
                raise WireError(f"the argument buffer has {size} bytes, expected at most {MAX_KERNARG_BYTES}")
            kernarg = maps.copy(pack_arguments(layout, values, hidden, size), "kernel arguments")
            entry = program.code.kernels[self.name]
            packet = setup_buffer(grid, group, self.image.header, entry, kernarg, lds)
            occurrences = program.device.reports.occurrences
            result = program.run(packet, bool(hidden["aqlwrap_pointer"]), **options)
            maps.finish()
            findings = program.device.reports.since(occurrences)
            return logged(replace(result, bytes=maps.bytes, kernel=self.name, findings=findings))
        except SoftcardError as error:
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
        """Return the values of the kernel's setup arguments by name.

        These are the arguments that the run-time library fills in, not the caller."""
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
    """Return the bytes of an array of the addresses in `kernels`, indexed by the metadata's kernel_index.

    Each address has the pointer width of the container. An index without a kernel has the address 0."""
    size = container.bits // 8
    places: dict[int, int] = {}
    for name, address in kernels.items():
        try:
            index = container.metadata(name).queue.kernel_index
        except WireError:
            continue  # without metadata its number is unknown
        if index > MAX_KERNEL_INDEX:
            raise WireError(f"kernel_index is {index}, expected at most {MAX_KERNEL_INDEX}").at("kernel", name)
        places[index] = address
    table = [places.get(index, 0) for index in range(max(places, default=0) + 1)]
    return b"".join(address.to_bytes(size, "little") for address in table)
