"""The kernels in files of all interfaces: reading the file, and running a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from softcard.cli.exits import UsageError, usage_errors
from softcard.cli.files import MAX_CODE_BYTES, read_file
from softcard.cli.options import check_processor
from softcard.cli.running.kernel_values import Lds
from softcard.cli.running.registers_at import SNAPSHOTS, snapshot_at
from softcard.core.errors import WireError, close_to
from softcard.core.limits import default_time_limit

if TYPE_CHECKING:
    from softcard.cli.records import Report
    from softcard.cli.running.triton_kernel import TritonKernel
    from softcard.host.amdcl2 import program as amdcl2
    from softcard.host.hsa import launch as hsa
    from softcard.host.hsa.gpu import Gpu
    from softcard.host.refsi.launch import LaunchResult
    from softcard.image.elf.lines import Row
    from softcard.trace.code import Loaded


DEFAULT_GPU: Final = "gfx900"
RISCV: Final = "rv64gc"
MACHINE_RISCV: Final = 243
MACHINES_AMDCL2: Final = (0xAF5A, 0xAF5B)
GPU_SUFFIXES: Final = (".cl", ".hip")
"""The suffixes of source files that are compiled for a GPU."""
RAW_SUFFIXES: Final = (".bin", ".raw")
"""The suffixes of files that contain raw code."""
C_SUFFIXES: Final = (".c", ".cc", ".cpp", ".cxx")
"""The suffixes of source files that are compiled for RefSi's harts."""
NOT_COUNTED: Final = (
    "Instructions were not counted, since --check was on, so all functions are shown. Run without --check for counts."
)
RAW_KERNEL: Final = "kernel"
"""The name of the kernel in raw code; if the code's assembly text exports one symbol, that name is used instead."""


@dataclass(frozen=True, slots=True)
class Options:
    """The command-line options that control a kernel's run."""

    agent: str = ""
    engine: str = "jit"
    tier: str = "auto"
    exact: bool = False
    machine_model: str = "large"
    base: int = 0x1_0000
    with_lines: bool = False
    """True if debug information should have absolute source paths, so that a report finds the sources."""
    report: Report | None = None
    """The report that records the device's events and shows the executed code; None without --report."""
    check: str = ""
    suppressions: str | None = None
    equal_stores: bool = False
    time_limit: float | None = field(default_factory=default_time_limit)
    """The time limit of a kernel in seconds; None for none."""
    poison: int | None = None
    """The word that fills undefined registers and memory; None for the device's default."""
    waves: int = 0
    """The number of waves of a launch that the report shows as bars."""
    registers_at: tuple[str, ...] = ()
    """The points at which the report shows registers."""
    findings: list[Any] = field(default_factory=list, compare=False)
    """The findings of checks in all runs with these options, including failed runs."""

    @property
    def settings(self) -> dict[str, Any]:
        """The device settings about checks and limits, which every interface has."""
        limits = {"time_limit_seconds": self.time_limit}
        if not self.check:
            return limits
        how = {"suppressions": self.suppressions, "equal_stores": self.equal_stores, "on_finding": "keep"}
        return {"check": self.check, **how, **limits}

    @property
    def counts(self) -> bool:
        """True if executed instructions are counted: with a report and without checks.

        Code that checks accesses does not count instructions.
        """
        return self.report is not None and not self.check

    @property
    def traced(self) -> int:
        """The number of waves for which the device emits events."""
        return self.waves if self.report is not None else 0

    @contextmanager
    def collecting(self, findings: Callable[[], list[Any]]) -> Iterator[None]:
        """Run the block; at its end, store the result of `findings` in `self.findings`, and add it to the report.

        This is done even if the block raises an error. `findings` returns the findings of a device."""
        try:
            yield
        finally:
            self.findings[:] = findings()
            if self.report is not None:
                self.report.found(self.findings)


@dataclass(frozen=True, slots=True)
class RawHeader:
    """The kernel header of raw GPU code, whose values the user has to give.

    `user` has the names of the enabled user SGPRs: their enable bits without the common prefix.
    """

    vgprs: int = 256
    sgprs: int = 96
    kernarg_bytes: int = 256
    lds_bytes: int = 0
    scratch_bytes: int = 0
    user: tuple[str, ...] = ("kernarg_segment_ptr",)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a kernel run, and the text that the kernel printed."""

    result: hsa.Result | amdcl2.Result | LaunchResult
    printed: str = field(default="", repr=False)


Size = tuple[int, ...] | None
Launch = Callable[[str, Size, Size, Sequence[Any]], Outcome]
"""The type of a function that runs a kernel: name, grid, group (None for the kernel's own), and arguments.

Array arguments are updated in place.
"""


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A file with kernels, and the function `opened`, which loads them on a device according to `Options`.

    The context manager that `opened` returns provides a function that runs one of the kernels. `unit` is the
    unit of instruction counts. If `counts_elements` is True, the default grid has one work-item for each
    element of the largest array. If `takes_header` is True, the user has to provide the kernel's header."""

    interface: str
    agent: str
    kernels: tuple[str, ...]
    opened: Callable[[Options], AbstractContextManager[Launch]]
    unit: str = "wave instructions"
    counts_elements: bool = True
    takes_header: bool = False

    def run(self, kernel: str, grid: Size, group: Size, args: Sequence[Any], how: Options) -> Outcome:
        """Run a kernel once, on a new device."""
        with self.opened(how) as launch:
            return launch(kernel, grid, group, args)

    def kernel(self, name: str) -> str:
        """Return the symbol of the kernel `name`, which can be a mangled C++ name; for "", that of the only kernel.

        Raise `UsageError` if the file has no such kernel."""
        if name in self.kernels:
            return name
        of_cpp = [each for each in self.kernels if name and each.startswith(f"_Z{len(name)}{name}")]
        if len(of_cpp) == 1:
            return of_cpp[0]
        some = ", ".join(self.kernels[:20]) + (", ..." if len(self.kernels) > 20 else "")
        listed = f"the file has {some or 'no kernels'}"
        if name:
            raise UsageError(f"unknown kernel {name!r}{close_to(name, self.kernels) or f': {listed}'}")
        if len(self.kernels) != 1:
            raise UsageError(f"expected the name of the kernel to run: {listed}")
        return self.kernels[0]


def read_kernels(path: Path, options: Options, header: RawHeader) -> KernelFile:
    """Read the kernels of a file.

    The file is of one of these kinds:

    - a container: a code object, an AMD OpenCL 2.0 program or a RISC-V program
    - source: OpenCL C (.cl), HIP (.hip), C or C++ (for RefSi) or assembly (.s)
    - raw code

    Raise `UsageError` if a header is given for a file that has one."""
    found = _read(path, options, header)
    if header != RawHeader() and not found.takes_header:
        options_of_raw = "--vgprs, --sgprs, --kernarg, --lds, --scratch and --user-sgpr"
        raise UsageError(f"{options_of_raw} require raw GPU code, but {path} has its own kernel headers")
    return found


def _read(path: Path, options: Options, header: RawHeader) -> KernelFile:
    check_processor(options.agent, RISCV)
    data = read_file(path, MAX_CODE_BYTES)
    if path.suffix in C_SUFFIXES:
        from softcard.host.refsi.compile import compile_kernels

        shorter = () if options.with_lines else (f"-fdebug-prefix-map={Path.cwd()}/=",)  # errors name lines
        return _refsi(compile_kernels(path, options=shorter))
    name, file = RAW_KERNEL, str(path.absolute() if options.with_lines else path)
    rows: Sequence[Row] = ()
    if path.suffix == ".s":
        data, options, name, rows = _assembled(data, options, file)
    elif path.suffix in GPU_SUFFIXES:
        from softcard.host.hsa.compile import COMPILERS, LINE_TABLES, text_of_file

        text = text_of_file(path.absolute() if options.with_lines else path, data)
        return _hsa(COMPILERS[path.suffix](text, options.agent or DEFAULT_GPU, options=LINE_TABLES), options)
    if not data:
        raise WireError("the file is empty")
    from softcard.image.hsa.bundle import is_bundle

    if is_bundle(data):
        return _hsa(data, options)
    if data[:4] == b"\x7fELF":
        machine = int.from_bytes(data[18:20], "little")
        if machine == MACHINE_RISCV:
            return _refsi(data)
        if machine in MACHINES_AMDCL2:
            return _opencl(data, options)
        from softcard.cli.running.triton_kernel import triton_kernel

        return _hsa(data, options, triton_kernel(path))
    if not options.agent and path.suffix not in RAW_SUFFIXES:
        head = f"file starts with {data[:4].hex(' ')}, expected 7f 45 4c 46 (ELF)"
        raise WireError(f"{head}: for raw code name the target with --agent").at("byte", 0)
    return _raw(data, options, header, name, file, rows)


def _show(how: Options, loaded: Loaded, counts: Callable[[], Mapping[int, int]]) -> None:
    """Add the executed code to the report at the end of the block, even if the kernel failed."""
    if how.report is not None:
        if not how.counts:
            how.report.note(NOT_COUNTED)
        how.report.code(loaded, counts() if how.counts else None)


def _assembled(source: bytes, options: Options, file: str) -> tuple[bytes, Options, str, Sequence[Row]]:
    """Assemble a source to a loadable file, with the lines of `file`, or to raw code.

    Return the code, the options with the source's agent, the kernel's name, and the positions of instructions of raw
    code, whose first byte has address 0.
    """
    from softcard.image.assembly.program import assemble

    made = assemble(source.decode("utf-8", "replace"), options.agent, options.base)
    is_whole = made.is_object and (made.agent != RISCV or made.exports)
    name = made.exports[0] if len(made.exports) == 1 else RAW_KERNEL
    chosen = replace(options, agent=made.agent)
    if is_whole:
        return made.elf(file), chosen, name, ()
    rows = list(made.rows())
    first = min((row.address for row in rows), default=0)
    return made.code(), chosen, name, [replace(row, address=row.address - first) for row in rows]


# ---- AMD HSA -------------------------------------------------------------------------------------------------------


def _hsa(data: bytes, options: Options, triton: TritonKernel | None = None) -> KernelFile:
    from softcard.device.hsa.agents import AGENTS
    from softcard.device.hsa.agents import agent as agent_of
    from softcard.image.hsa.code_object import read_code_object

    if options.agent:
        with usage_errors():
            agent_of(options.agent)
    code = read_code_object(data, options.agent, settings=AGENTS[options.agent].settings if options.agent else {})
    agent = options.agent or (code.target if code.target in AGENTS else DEFAULT_GPU)

    @contextmanager
    def opened(how: Options) -> Iterator[Launch]:
        from softcard.host.hsa.gpu import Gpu, Local

        settings: dict[str, Any] = {"engine": how.engine, "tier": how.tier, "machine_model": how.machine_model}
        settings |= {"count_instructions": how.counts, "trace_waves": how.traced}
        settings["snapshots"] = SNAPSHOTS if how.registers_at else 0
        settings["poison"] = how.poison
        with (
            Gpu.open(agent, exact=how.exact, **settings, **how.settings) as gpu,
            how.collecting(lambda: gpu.findings),
            ExitStack() as after,
        ):
            if how.report is not None:
                how.report.follow(gpu.device.probes)
            loaded = gpu.load(data)
            snapshot_at(loaded, how.registers_at)
            if how.report is not None:
                after.callback(lambda: _show(how, loaded, gpu.instruction_counts))

            def launch(kernel: str, grid: Size, group: Size, args: Sequence[Any]) -> Outcome:
                metadata, more = loaded.kernels[kernel].image.metadata, 0
                if metadata is None:
                    _check_typed(args)
                given = args
                if triton is not None:
                    if group is not None:
                        raise UsageError(f"--group is not needed: {kernel}.json gives {triton.threads} work-items")
                    given = triton.values(args, len(args) if metadata is None else len(metadata.explicit))
                    x, y, z = (*(grid or ()), 1, 1, 1)[:3]
                    grid, group, more = (x * triton.threads, y, z), (triton.threads, 1, 1), triton.shared
                arrays = [gpu.array(each) if isinstance(each, np.ndarray) else each for each in given]
                _name(gpu, arrays)
                values = [Local(each.size) if isinstance(each, Lds) else each for each in arrays]
                result = gpu.run(loaded, kernel, grid or 1, group, values, group_bytes=more)
                for mine, theirs in zip(args, arrays, strict=False):
                    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
                        mine[...] = theirs
                        gpu.free(theirs)
                return Outcome(result, result.text)

            yield launch

    interface = f"AMD HSA, {code.version}"
    return KernelFile(interface, agent, tuple(code.kernels), opened, counts_elements=triton is None)


def _check_typed(values: Sequence[Any]) -> None:
    """Raise `UsageError` if one of the kernel arguments is a number without a type."""
    for number, each in enumerate(values):
        if type(each) in (int, float):
            kind = "f32" if isinstance(each, float) else "u32"
            text = f"argument {number} is {each}, expected a number with its type, such as {kind}={each}"
            raise UsageError(f"{text}: the file has no metadata with types of arguments")


def _name(gpu: Gpu, arrays: Sequence[Any]) -> None:
    """Set the name of each device array to the name of its kernel argument, for the messages of findings."""
    guard = gpu.device.memory.guard
    for number, each in enumerate(arrays if guard is not None else ()):
        found = guard.allocations.at(gpu.address(each)) if guard and isinstance(each, np.ndarray) else None
        if found is not None:
            found.name = f"argument {number}, {found.name}"


# ---- AMD OpenCL 2.0 ------------------------------------------------------------------------------------------------


def _opencl(data: bytes, options: Options) -> KernelFile:
    from softcard.image.amdcl2.container import read_container

    check_processor(options.agent)
    container = read_container(data)

    @contextmanager
    def opened(how: Options) -> Iterator[Launch]:
        from softcard.host.amdcl2.objects import Local
        from softcard.host.amdcl2.program import Program

        settings: dict[str, Any] = {"tier": how.tier, "count_instructions": how.counts, **how.settings}
        settings["trace_waves"] = how.traced
        settings["snapshots"] = SNAPSHOTS if how.registers_at else 0
        settings["poison"] = how.poison
        made = Program(container, how.engine, options.agent or None, **settings)
        with made as program, how.collecting(lambda: program.findings), ExitStack() as after:
            snapshot_at(program, how.registers_at)
            if how.report is not None:
                how.report.follow(program.probes)
                how.report.loaded({name: program.code.kernels[name] for name in container.kernels})
                after.callback(lambda: _show(how, program, program.instruction_counts))

            def launch(kernel: str, grid: Size, group: Size, args: Sequence[Any]) -> Outcome:
                values = [Local(each.size) if isinstance(each, Lds) else each for each in args]
                result = program.kernel(kernel).run(grid or 1, group, values)
                return Outcome(result, result.text)

            yield launch

    agent = options.agent or container.target.name
    return KernelFile("AMD OpenCL 2.0", agent, tuple(container.kernels), opened)


# ---- RefSi ---------------------------------------------------------------------------------------------------------


def _refsi(data: bytes) -> KernelFile:
    from softcard.image.riscv.program import read_elf

    kernels = read_elf(data).kernels

    @contextmanager
    def opened(how: Options) -> Iterator[Launch]:
        from softcard.host.refsi.refsi import RefSi

        if how.exact or how.machine_model != "large":
            raise UsageError("--exact and --machine-model require a kernel for AMD HSA, not for RefSi")
        if how.poison is not None:
            raise UsageError("--poison requires a kernel for GPUs, not for RefSi")
        counting = how.counts
        settings: dict[str, Any] = {"engine": how.engine, "tier": how.tier, "count_instructions": counting}
        settings |= {} if how.report is None else {"trace_instances": how.waves}
        settings["snapshots"] = SNAPSHOTS if how.registers_at else 0
        with (
            RefSi.open(**settings, **how.settings) as device,
            how.collecting(lambda: device.findings),
            ExitStack() as after,
        ):
            program = device.load_elf(data)
            snapshot_at(program, how.registers_at)
            if how.report is not None:
                how.report.follow(device.port.probes)
                how.report.loaded({name: program.kernel(name).entry for name in kernels})
                after.callback(lambda: _show(how, program, device.instruction_counts))

            def launch(kernel: str, grid: Size, group: Size, args: Sequence[Any]) -> Outcome:
                if group is not None:
                    raise UsageError(
                        "--group requires a kernel for GPUs: RefSi has no work-groups, only instances (--grid)"
                    )
                for each in args:
                    if isinstance(each, Lds | tuple):
                        raise UsageError("a kernel for RefSi takes only numbers and arrays, not LDS or images")
                values = [0 if each is None else each for each in args]
                result = device.launch(kernel, grid if grid and len(grid) > 1 else (grid or (1,))[0], values)
                return Outcome(result, result.console.decode("utf-8", "replace"))

            yield launch

    return KernelFile("RefSi M1", RISCV, kernels, opened, "instructions", counts_elements=False)


# ---- raw code ------------------------------------------------------------------------------------------------------


def _raw(
    data: bytes, options: Options, header: RawHeader, name: str, file: str, rows: Sequence[Row] = ()
) -> KernelFile:
    """Return the kernel file of raw code, whose only kernel begins at the first byte; `header` is its header.

    `rows` are the positions in the text `file` of its instructions, by their offsets.
    """
    if options.agent == RISCV:
        from softcard.image.assembly.program import assemble

        parts = [", ".join(map(str, data[at : at + 64])) for at in range(0, len(data), 64)]
        lines = [".text", f".globl {RAW_KERNEL}", f"{RAW_KERNEL}:", *(f".byte {part}" for part in parts)]
        return _refsi(assemble("\n".join(lines), RISCV, options.base).elf())
    if len(data) % 4:
        raise WireError(f"the raw code has {len(data)} bytes, expected a multiple of 4")
    from softcard.device.hsa.agents import AGENTS
    from softcard.image.hsa.writer import bare_code_object

    agent = options.agent or DEFAULT_GPU
    if agent not in AGENTS:
        raise UsageError(f"unknown agent {agent!r} for raw code, expected one of {', '.join((RISCV, *AGENTS))}")
    try:
        whole = bare_code_object(
            data,
            agent,
            name=name,
            vgprs=header.vgprs,
            sgprs=header.sgprs,
            kernarg_bytes=header.kernarg_bytes,
            lds_bytes=header.lds_bytes,
            scratch_bytes=header.scratch_bytes,
            user_sgprs=header.user,
        )
    except WireError as error:
        raise UsageError(error.message) from None
    if rows:
        from softcard.image.elf.lines import DEBUG_LINE, pack_lines
        from softcard.image.elf.writer import with_section
        from softcard.image.hsa.code_object import read_code_object

        entry = read_code_object(whole, agent).kernels[name].entry
        placed = [replace(row, address=row.address + entry) for row in rows]
        whole = with_section(whole, DEBUG_LINE, pack_lines(file, placed))
    return replace(_hsa(whole, options), takes_header=True)
