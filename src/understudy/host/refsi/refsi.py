"""A RefSi device as its users see it: programs from ELF files, buffers shared with NumPy, kernel launches.

>>> import numpy as np
>>> with RefSi.open() as device:
...     program = device.load_elf(demo_kernels())
...     a, b = np.arange(64, dtype=np.int32), np.full(64, 100, dtype=np.int32)
...     c = np.zeros(64, dtype=np.int32)
...     result = device.launch("vector_add", 4, [a, b, c, 16])
>>> print(c[:5], result.status.ok)
[100 101 102 103 104] True
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from understudy.core.errors import UnderstudyError, WireError
from understudy.core.event import Event
from understudy.core.findings import Finding, FindingLog
from understudy.core.sources import bytes_of, text_of
from understudy.core.space import Unit
from understudy.core.took import told
from understudy.device.refsi.events import ConsoleOutput
from understudy.device.refsi.interfaces import HART
from understudy.device.refsi.registers import PERF_COUNTERS_BASE, REGISTER_BYTES, Counter
from understudy.device.refsi.toolkit.builder import KUB_UNIT_BYTES, CommandBuffer
from understudy.host.port import RefSiPort
from understudy.host.refsi.buffer import Buffer
from understudy.host.refsi.driver import RefSiDriver
from understudy.host.refsi.faults import explained
from understudy.host.refsi.launch import Argument, Arguments, LaunchResult, check_count, grid_of
from understudy.host.refsi.program import ELF_BASE, Kernel, Program, check_loaded
from understudy.image.riscv.kind import loadable
from understudy.image.riscv.program import read_elf

MAX_SLICES: Final = 1 << 16
"""Most RUN commands that one launch puts into its command buffer."""


class RefSi(RefSiDriver):
    """A RefSi M1 device: the driver's functions (see `RefSiDriver`) and what a runtime adds to them.

    >>> with RefSi.open(engine="reference") as device:
    ...     print(device.info.isa, device.info.harts_per_core, hex(device.allocate(256)))
    RV64GCVZbc 4 0xbffff000
    """

    def __init__(self, port: RefSiPort) -> None:
        super().__init__(port)
        self._program: Program | None = None

    # ---- data ----------------------------------------------------------------------------------------------------

    def array(self, values: ArrayLike, dtype: DTypeLike | None = None) -> Buffer:
        """A copy of an array in device memory.

        >>> with RefSi.open() as device, device.array([1, 2, 3], np.int16) as buffer:
        ...     buffer.array[0] = 7
        ...     print(device.read(buffer.address, buffer.nbytes).hex())
        070002000300
        """
        source = np.asarray(values, dtype=dtype)
        buffer = self.empty(source.shape, source.dtype)
        buffer.array[...] = source
        return buffer

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> Buffer:
        """An array of zeros in device memory."""
        buffer = self.empty(shape, dtype)
        buffer.array[...] = 0
        return buffer

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> Buffer:
        """An array in device memory with whatever was there before."""
        return Buffer(self, (shape,) if isinstance(shape, int) else shape, dtype)

    # ---- programs ------------------------------------------------------------------------------------------------

    def load_elf(self, source: bytes | str | PathLike[str]) -> Program:
        """Put an ELF file (its bytes, or its path) into device memory; it replaces the one before.

        Segments below 0x8000000 go to DRAM and are seen through window 0; window 1 gives each hart its own memory at
        0x14000000, with its stack. A position-independent file is moved up to 0x10000. `WireError` with a byte offset
        for what is no RISC-V ELF file, or of a kind that cannot run without a dynamic loader.
        """
        data = bytes_of(source, "a RISC-V program")
        image = loadable(read_elf(data), data, ELF_BASE)
        if self._program is not None:
            self._program.unload()
        self._program = Program(self, image, self.profile, data)
        return self._program

    def compile(self, source: str, language: str = ".c", *, options: Sequence[str] = ()) -> Program:
        """Compile C, C++ (`language` ".cpp") or assembly (".s", ".S"), and load it; needs ``understudy[kernels]`` or a
        RISC-V compiler.

        All its global functions are kernels. `options` are the compiler's, ``-g`` for lines in reports among them.
        `CompileError` with its diagnostics. Files are compiled by `compile_kernels`.
        """
        from understudy.host.refsi.compile import LANGUAGES, compile_kernels  # here, since few programs compile

        if language not in LANGUAGES:
            raise WireError(f"language {language!r}, expected one of {', '.join(LANGUAGES)}")
        with TemporaryDirectory(prefix="understudy-") as folder:
            path = Path(folder, f"kernels{language}")
            path.write_text(text_of(source, "source"), encoding="utf-8")
            return self.load_elf(compile_kernels(path, options=options))

    def shutdown(self) -> None:
        """See `RefSiDriver.shutdown`. Where leaks are looked for, a program that is loaded is none."""
        if self._program is not None and self._port is not None and self._port.log is not None:
            self._program.unload()
        super().shutdown()

    @property
    def profile(self) -> str:
        """The device's profile; it decides how windows are encoded."""
        return self.port.profile_name

    def kernel(self, name: str, parameters: Sequence[str] | None = None) -> Kernel:
        """A kernel of the loaded program by its symbol.

        `parameters` are the types of its C function's parameters, the instance's first: f32 and f64 travel in float
        registers, all others (u64, ptr, ...) in integer ones. By default they are what debug information (-g) says, and
        where there is none, integers.

        >>> with RefSi.open() as device:
        ...     program = device.load_elf(demo_kernels())
        ...     print(device.kernel("crc32", ["u64", "ptr", "ptr", "u64"]).parameters)
        ('u64', 'ptr', 'ptr', 'u64')
        """
        return check_loaded(self._program).kernel(name, parameters)

    def instruction_counts(self) -> dict[int, int]:
        """How often the instruction at each pc has retired, on all harts: pcs are those that harts see.

        `WireError` where the device was not opened with ``count_instructions=True``.

        >>> with RefSi.open(count_instructions=True) as device:
        ...     program = device.load_elf(demo_kernels())
        ...     result = device.launch("hello", 2, [device.array(np.frombuffer(b"hello", np.uint8))])
        ...     print(sum(device.instruction_counts().values()) == result.instructions)
        True
        """
        return self.port.instruction_counts()

    # ---- launches ------------------------------------------------------------------------------------------------

    def launch(
        self,
        kernel: Kernel | str,
        instances: int | Sequence[int],
        arguments: Sequence[Argument] = (),
        *,
        max_harts: int = 0,
    ) -> LaunchResult:
        """Run a kernel by RUN_INSTANCES and wait: ``kernel(instance, arguments...)`` once per instance.

        `instances` is a number, or a grid (x, y) or (x, y, z): then kernels are called with
        ``(instance, slice, arguments...)`` where the instance counts x, and the slice is y + ny * z. Arguments are
        numbers, `Buffer` objects and NumPy arrays, which are copied in and (if writable) out; see `Arguments`. Where
        the types of the kernel's parameters are known (see `kernel`), floats are passed as the C ABI does.
        Caches are synchronized before and after. Errors name the command, hart, pc and kernel.
        """
        chosen = self._kernel(kernel)
        count, slices = grid_of(instances)
        is_grid = isinstance(instances, Sized) and len(instances) > 1
        check_count(arguments, is_grid)
        if slices > MAX_SLICES:
            raise WireError(f"a grid of {slices} slices, expected at most {MAX_SLICES} in one launch")
        first = 1 + is_grid
        with _Prepared(self, arguments, (chosen.parameters or ())[first:]) as prepared:
            buffer = self._prologue(chosen, chosen.program.entry(chosen, first + len(prepared.values)))
            for number in range(slices):
                extra = (number, *prepared.values) if is_grid else prepared.values
                buffer.run_instances(count, *extra, max_harts=max_harts)
            return self._launch(chosen, buffer, prepared)

    def launch_slices(
        self,
        kernel: Kernel | str,
        instances: int,
        slices: int = 1,
        arguments: Sequence[Argument] = (),
        *,
        thread_data: bytes = b"",
        max_harts: int = 0,
    ) -> LaunchResult:
        """Run a kernel by RUN_KERNEL_SLICE: ``kernel(instance, slice, packed_args, ktb)``.

        The arguments are packed into a Kernel Uniform Block as the reference host does: each at a multiple of its
        size, pointers and Python integers of 8 bytes. `thread_data` is copied to each hart's Kernel Thread Block.
        """
        chosen = self._kernel(kernel)
        if not 0 <= slices <= MAX_SLICES:
            raise WireError(f"{slices} slices, expected 0 to {MAX_SLICES} in one launch")
        with _Prepared(self, arguments) as prepared:
            packed = prepared.packed()
            offset = -(-len(packed) // REGISTER_BYTES) * REGISTER_BYTES
            block = packed.ljust(offset, b"\0") + thread_data
            with self.array(np.frombuffer(block.ljust(KUB_UNIT_BYTES, b"\0"), np.uint8)) as uniform:
                buffer = self._prologue(chosen, chosen.entry)
                buffer.uniform_block(
                    uniform.address, uniform.nbytes, kargs=(0, len(packed)), tsd=(offset, len(thread_data))
                )
                for number in range(slices):
                    buffer.run_kernel_slice(instances, number, max_harts=max_harts)
                return self._launch(chosen, buffer, prepared)

    def counters(self, hart: int = 0) -> dict[Counter, int]:
        """The performance counters of a hart. The device never resets them: take differences."""
        size = REGISTER_BYTES * len(Counter)
        data = b"".join(
            self.read(PERF_COUNTERS_BASE + place, REGISTER_BYTES, Unit(HART, hart))
            for place in range(0, size + REGISTER_BYTES, REGISTER_BYTES)
        )
        words = np.frombuffer(data, np.uint64)
        return {counter: int(words[counter]) for counter in Counter}

    # ---- help ----------------------------------------------------------------------------------------------------

    def _kernel(self, kernel: Kernel | str) -> Kernel:
        if not isinstance(kernel, Kernel):
            return self.kernel(text_of(kernel, "a kernel's name"))
        check_loaded(kernel.program)
        return kernel

    def _prologue(self, kernel: Kernel, entry: int) -> CommandBuffer:
        program = kernel.program
        buffer = CommandBuffer(self.profile).sync_cache()
        return buffer.kernel(entry, stack_top=program.stack_top, return_address=program.return_address)

    def _launch(self, kernel: Kernel, buffer: CommandBuffer, arguments: Arguments) -> LaunchResult:
        console = bytearray()

        def listen(event: Event) -> None:
            if isinstance(event, ConsoleOutput):
                console.extend(event.data)

        cancel = self.port.probes.subscribe(listen, ConsoleOutput)
        log = self.port.log
        sights = 0 if log is None else log.sights
        start, interpreted = perf_counter(), self.port.interpreted
        try:
            status = self.run(buffer.sync_cache().finish())
        except UnderstudyError as error:
            for each in _found(log, sights, kernel.name):
                error.add_note(str(each))
            raise explained(error, kernel) from None
        finally:
            cancel()
        time, interpreted = perf_counter() - start, self.port.interpreted - interpreted
        arguments.copy_back()
        found = _found(log, sights, kernel.name)
        return told(LaunchResult(kernel.name, status, bytes(console), arguments.nbytes, time, interpreted, found))


def _found(log: FindingLog | None, sights: int, kernel: str) -> tuple[Finding, ...]:
    """What checks have seen since; functions that kernels call are told of as theirs."""
    found = () if log is None else log.since(sights)
    for each in found:
        each.kernel = each.kernel or kernel
    return found


class _Prepared:
    """The arguments of a launch for as long as it takes."""

    def __init__(self, device: RefSiDriver, arguments: Sequence[Argument], types: Sequence[str] = ()) -> None:
        self._arguments = Arguments(device)
        self._given = arguments
        self._types = types

    def __enter__(self) -> Arguments:
        try:
            for number, argument in enumerate(self._given):
                self._arguments.add(argument, self._types[number] if number < len(self._types) else "")
        except BaseException:
            self._arguments.release()
            raise
        return self._arguments

    def __exit__(self, *_: Any) -> None:
        self._arguments.release()


def demo_kernels() -> bytes:
    """The ELF file of the kernels that come with Understudy; ``understudy/data`` holds their source."""
    from importlib.resources import files  # takes longer to load than most programs want

    return files("understudy").joinpath("data", "kernels.elf").read_bytes()
