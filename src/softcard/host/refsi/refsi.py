"""A RefSi device with a simple interface: programs from ELF files, buffers shared with NumPy, kernel launches.

>>> import numpy as np
>>> with RefSi.open() as device:
...     program = device.load_elf(demo_kernels())
...     a, b = np.arange(64, dtype=np.int32), np.full(64, 100, dtype=np.int32)
...     c = np.zeros(64, dtype=np.int32)
...     result = device.launch("vector_add", 4, [a, b, c, 16])
>>> print(c[:5], result.status.ok)
[100 101 102 103 104] True"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from contextlib import suppress
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from softcard.core.errors import SoftcardError, WireError, with_console
from softcard.core.event import Event
from softcard.core.files import bytes_of, text_of
from softcard.core.findings import Finding, FindingLog
from softcard.core.space import Unit
from softcard.device.refsi.events import ConsoleOutput
from softcard.device.refsi.interfaces import HART
from softcard.device.refsi.registers import PERF_COUNTERS_BASE, REGISTER_BYTES, Counter
from softcard.device.refsi.toolkit.builder import KUB_UNIT_BYTES, CommandBuffer
from softcard.host.coverage import device_coverage
from softcard.host.port import RefSiPort
from softcard.host.refsi.buffer import Buffer, Scalar
from softcard.host.refsi.driver import RefSiDriver
from softcard.host.refsi.launch import (
    Argument,
    Arguments,
    LaunchResult,
    check_count,
    check_signature,
    check_slice_signature,
    grid_of,
    odd_arguments,
)
from softcard.host.refsi.program import ELF_BASE, Kernel, Program, check_loaded, explained
from softcard.host.run_statistics import logged
from softcard.image.coverage import HARTS
from softcard.image.riscv.kind import loadable
from softcard.image.riscv.program import read_elf

FLOAT_BITS: Final = "float-bits"
"""The name of the lint about a float that is passed to an integer parameter."""
MAX_SLICES: Final = 1 << 16
"""The largest number of RUN commands that one launch puts into its command buffer."""


class RefSi(RefSiDriver):
    """A RefSi M1 device: the driver's functions (see `RefSiDriver`), and arrays, programs and kernel launches.

    >>> with RefSi.open(engine="reference") as device:
    ...     print(device.info.isa, device.info.harts_per_core, hex(device.allocate(256)))
    RV64GCVZbc 4 0xbffff000"""

    def __init__(self, port: RefSiPort) -> None:
        super().__init__(port)
        self._program: Program | None = None
        self._coverage = None
        with suppress(WireError):  # the device does not count instructions
            port.executions()
            self._coverage = device_coverage(self, HARTS, port.executions)

    # ---- data ----------------------------------------------------------------------------------------------------

    @overload
    def array(self, values: NDArray[Scalar], dtype: None = None) -> Buffer[Scalar]: ...

    @overload
    def array(self, values: ArrayLike, dtype: type[Scalar] | np.dtype[Scalar]) -> Buffer[Scalar]: ...

    @overload
    def array(self, values: ArrayLike, dtype: DTypeLike | None = None) -> Buffer[np.generic]: ...

    def array(self, values: ArrayLike, dtype: DTypeLike | None = None) -> Buffer[np.generic]:
        """Return a copy of an array in device memory.

        >>> with RefSi.open() as device, device.array([1, 2, 3], np.int16) as buffer:
        ...     buffer.array[0] = 7
        ...     print(device.read(buffer.address, buffer.nbytes).hex())
        070002000300
        """
        source = np.asarray(values, dtype=dtype)
        buffer = self.empty(source.shape, source.dtype)
        buffer.array[...] = source
        return buffer

    @overload
    def zeros(self, shape: int | tuple[int, ...]) -> Buffer[np.float32]: ...

    @overload
    def zeros(self, shape: int | tuple[int, ...], dtype: type[Scalar] | np.dtype[Scalar]) -> Buffer[Scalar]: ...

    @overload
    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Buffer[np.generic]: ...

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> Buffer[np.generic]:
        """Return a buffer in device memory that is filled with zeros."""
        buffer = self.empty(shape, dtype)
        buffer.array[...] = 0
        return buffer

    @overload
    def empty(self, shape: int | tuple[int, ...]) -> Buffer[np.float32]: ...

    @overload
    def empty(self, shape: int | tuple[int, ...], dtype: type[Scalar] | np.dtype[Scalar]) -> Buffer[Scalar]: ...

    @overload
    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Buffer[np.generic]: ...

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> Buffer[np.generic]:
        """Return a buffer in device memory with uninitialised contents."""
        return Buffer(self, (shape,) if isinstance(shape, int) else shape, np.dtype(dtype))

    # ---- programs ------------------------------------------------------------------------------------------------

    @property
    def program(self) -> Program | None:
        """The program that was loaded last; None if no program is loaded."""
        return self._program

    def load_elf(self, source: bytes | str | PathLike[str]) -> Program:
        """Load an ELF file into device memory; it replaces the program that was loaded before.

        `source` is the file's bytes or its path. Segments below 0x8000000 go to DRAM, and harts see them through window
        0. Window 1 gives each hart its own memory at 0x14000000, with its stack. A position-independent file is moved
        up to 0x10000. Raise `WireError` with a byte offset if the file is not a RISC-V ELF file, or needs a dynamic
        loader.
        """
        self._check_open()
        data = bytes_of(source, "a RISC-V program")
        image = loadable(read_elf(data), data, ELF_BASE)
        if self._program is not None:
            self._unload(self._program)
        self._program = made = Program(self, image, self.port.scale_encoding, data)
        if self._coverage is not None:
            self._coverage.load(made.distance, made.elf, lambda: made.lines, ", ".join(made.kernels))
        return made

    def _unload(self, program: Program) -> None:
        """Report the coverage of a program, and free its memory."""
        if self._coverage is not None and program.is_loaded:
            self._coverage.unload(program.distance)
        program.unload()

    def compile(self, source: str, language: str = ".c", *, options: Sequence[str] = ()) -> Program:
        """Compile C, C++ (`language` ".cpp") or assembly (".s", ".S") source text, and load the result.

        A RISC-V compiler must be installed, for example by ``softcard[kernels]``. All global functions of the source
        are kernels. `options` are options of the compiler, such as ``-g`` for source lines in error messages. Raise
        `CompileError` with the compiler's diagnostics if the source is wrong. To compile a file, call
        `compile_kernels`.
        """
        self._check_open()
        from softcard.host.refsi.compile import LANGUAGES, compile_kernels  # here, since few programs compile

        if language not in LANGUAGES:
            raise WireError(f"language is {language!r}, expected one of {', '.join(LANGUAGES)}")
        with TemporaryDirectory(prefix="softcard-") as folder:
            path = Path(folder, f"kernels{language}")
            path.write_text(text_of(source, "source"), encoding="utf-8")
            return self.load_elf(compile_kernels(path, options=options))

    def shutdown(self) -> None:
        """Close the device as `RefSiDriver.shutdown` does. A loaded program does not count as a memory leak."""
        if self._coverage is not None and self._port is not None:
            self._coverage.close()
        if self._program is not None and self._port is not None and self._port.log is not None:
            self._program.unload()
        super().shutdown()

    @property
    def profile(self) -> str:
        """The device's profile: "spec" or "refsidrv"."""
        return self.port.profile_name

    def kernel(self, name: str, parameters: Sequence[str] | None = None) -> Kernel:
        """Return the kernel of the loaded program whose symbol is `name`.

        `parameters` are the types of the parameters of its C function, including the instance number. Parameters of
        type f32 and f64 are passed in float registers, all others (u64, ptr, ...) in integer registers. By default
        the types are those in the debug information (-g); without it, all parameters count as integers.

        >>> with RefSi.open() as device:
        ...     program = device.load_elf(demo_kernels())
        ...     print(device.kernel("crc32", ["u64", "ptr", "ptr", "u64"]).parameters)
        ('u64', 'ptr', 'ptr', 'u64')"""
        self._check_open()
        return check_loaded(self._program).kernel(name, parameters)

    def instruction_counts(self) -> dict[int, int]:
        """Return the number of times that the instruction at each pc has retired, on all harts together.

        The pcs are addresses as harts see them. Raise `WireError` unless the device was opened with
        ``count_instructions=True``.

        >>> with RefSi.open(count_instructions=True) as device:
        ...     program = device.load_elf(demo_kernels())
        ...     result = device.launch("hello", 2, [device.array(np.frombuffer(b"hello", np.uint8))])
        ...     print(sum(device.instruction_counts().values()) == result.instructions)
        True"""
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
        """Run a kernel by the command RUN_INSTANCES and wait until it has ended.

        The kernel is called as ``kernel(instance, arguments...)``, once per instance. `instances` is the number of
        instances, or a grid (x, y) or (x, y, z). In a grid the kernel is called as ``kernel(instance, slice,
        arguments...)``: the instance counts x, and the slice is y + ny * z.

        Arguments are numbers, `Buffer` objects and NumPy arrays. Arrays are copied to the device and, if writable, back
        (see `Arguments`). If the types of the kernel's parameters are known (see `kernel`), floats are passed as in the
        C ABI, and a wrong number of arguments or a float for a pointer raises `WireError`. Caches are synchronized
        before and after the launch. Errors name the command, hart, pc and kernel; their `console` holds the text that
        kernels had printed.
        """
        chosen = self._kernel(kernel)
        count, slices = grid_of(instances)
        is_grid = isinstance(instances, Sized) and len(instances) > 1
        check_count(arguments, is_grid)
        check_signature(chosen.name, chosen.parameters, arguments, is_grid)
        if slices > MAX_SLICES:
            raise WireError(f"the grid has {slices} slices, expected at most {MAX_SLICES} in one launch")
        first = 1 + is_grid
        types = (chosen.parameters or ())[first:]
        with _Prepared(self, arguments, types) as prepared:
            for text in odd_arguments(chosen.name, types, arguments) if types else ():
                self.port.lint(FLOAT_BITS, text)
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
        """Run a kernel by the command RUN_KERNEL_SLICE: ``kernel(instance, slice, packed_args, ktb)``.

        The arguments are packed into a Kernel Uniform Block as by the RefSi reference host: each at a multiple of its
        size, with 8 bytes for pointers and Python integers. `thread_data` is copied to the Kernel Thread Block (`ktb`)
        of each hart.
        """
        chosen = self._kernel(kernel)
        check_slice_signature(chosen.name, chosen.parameters)
        if not 0 <= slices <= MAX_SLICES:
            raise WireError(f"the number of slices is {slices}, expected 0 to {MAX_SLICES} in one launch")
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
        """Return the performance counters of a hart.

        The device never resets them, so compare two readings.
        """
        size = REGISTER_BYTES * len(Counter)
        data = b"".join(
            self.read(PERF_COUNTERS_BASE + place, REGISTER_BYTES, Unit(HART, hart))
            for place in range(0, size + REGISTER_BYTES, REGISTER_BYTES)
        )
        words = np.frombuffer(data, np.uint64)
        return {counter: int(words[counter]) for counter in Counter}

    # ---- internals -----------------------------------------------------------------------------------------------

    def _kernel(self, kernel: Kernel | str) -> Kernel:
        if not isinstance(kernel, Kernel):
            return self.kernel(text_of(kernel, "a kernel's name"))
        check_loaded(kernel.program)
        return kernel

    def _prologue(self, kernel: Kernel, entry: int) -> CommandBuffer:
        program = kernel.program
        buffer = CommandBuffer(self.port.scale_encoding).sync_cache()
        return buffer.kernel(entry, stack_top=program.stack_top, return_address=program.return_address)

    def _launch(self, kernel: Kernel, buffer: CommandBuffer, arguments: Arguments) -> LaunchResult:
        with self.port.desk:  # findings are reported when arrays are back and have their kernel's name
            return self._launched(kernel, buffer, arguments)

    def _launched(self, kernel: Kernel, buffer: CommandBuffer, arguments: Arguments) -> LaunchResult:
        console = bytearray()

        def listen(event: Event) -> None:
            if isinstance(event, ConsoleOutput):
                console.extend(event.data)

        cancel = self.port.probes.subscribe(listen, ConsoleOutput)
        log = self.port.log
        occurrences = 0 if log is None else log.occurrences
        start, interpreted = perf_counter(), self.port.interpreted
        try:
            status = self.run(buffer.sync_cache().finish())
        except SoftcardError as error:
            with_console(error, bytes(console))
            for each in _found(log, occurrences, kernel.name):
                error.add_note(str(each))
            raise explained(error, kernel) from None
        finally:
            cancel()
        time, interpreted = perf_counter() - start, self.port.interpreted - interpreted
        arguments.copy_back()
        found = _found(log, occurrences, kernel.name)
        return logged(LaunchResult(kernel.name, status, bytes(console), arguments.nbytes, time, interpreted, found))


def _found(log: FindingLog | None, occurrences: int, kernel: str) -> tuple[Finding, ...]:
    """Return the findings that `log` has recorded since it had counted `occurrences` findings; () without a log.

    A finding that names no kernel, such as one in a function that the kernel calls, gets the name `kernel`."""
    found = () if log is None else log.since(occurrences)
    for each in found:
        each.kernel = each.kernel or kernel
    return found


class _Prepared:
    """A context manager that places a launch's arguments in device memory, and frees that memory on exit."""

    def __init__(self, device: RefSiDriver, arguments: Sequence[Argument], types: Sequence[str] = ()) -> None:
        self._arguments = Arguments(device)
        self._call_arguments = arguments
        self._types = types

    def __enter__(self) -> Arguments:
        try:
            for number, argument in enumerate(self._call_arguments):
                self._arguments.add(argument, self._types[number] if number < len(self._types) else "")
        except BaseException:
            self._arguments.release()
            raise
        return self._arguments

    def __exit__(self, *_: object) -> None:
        self._arguments.release()


def demo_kernels() -> bytes:
    """Return the ELF file of the demo kernels; ``softcard/data`` holds their source."""
    from importlib.resources import files  # here: it takes long to import

    return files("softcard").joinpath("data", "kernels.elf").read_bytes()
