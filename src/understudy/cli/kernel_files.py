"""One kernel of a file, whatever interface it is of: who reads it, what it takes, and running it once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from understudy.cli.engines import known_processor
from understudy.cli.exits import UsageError, of_options
from understudy.cli.files import MAX_CODE_BYTES, read_file
from understudy.cli.kernel_values import Lds
from understudy.cli.moments import SNAPSHOTS, choose_of_harts, choose_of_program, choose_of_waves
from understudy.core.errors import WireError, close_to

if TYPE_CHECKING:
    from understudy.cli.reporting import Report
    from understudy.host.amdcl2 import program as amdcl2
    from understudy.host.hsa import launch as hsa
    from understudy.host.hsa.gpu import Gpu
    from understudy.host.refsi.launch import LaunchResult
    from understudy.trace.code import Loaded

DEFAULT_GPU: Final = "gfx900"
RISCV: Final = "rv64gc"
MACHINE_RISCV: Final = 243
MACHINES_AMDCL2: Final = (0xAF5A, 0xAF5B)
GPU_SUFFIXES: Final = (".cl", ".hip")
"""Of sources that are compiled for a GPU."""
RAW_SUFFIXES: Final = (".bin", ".raw")
"""Of files that hold code and nothing else."""
C_SUFFIXES: Final = (".c", ".cc", ".cpp", ".cxx")
"""Of sources for RefSi's harts."""
RAW_KERNEL: Final = "kernel"
"""What the kernel of raw code is called, unless its assembly text exports one symbol."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a kernel is run."""

    agent: str = ""
    engine: str = "jit"
    tier: str = "auto"
    exact: bool = False
    machine_model: str = "large"
    base: int = 0x1_0000
    with_lines: bool = False
    """Whether what is compiled says which line of its source code comes from."""
    report: Report | None = None
    """What hears of the device's events, and is shown the code that ran, with counts."""
    check: str = ""
    suppressions: str | None = None
    equal_stores: bool = False
    waves: int = 0
    """Waves of a launch that a report has lanes and bars of."""
    registers_at: tuple[str, ...] = ()
    """Moments at which the report shows registers."""
    findings: list[Any] = field(default_factory=list, compare=False)
    """What checks have found in runs with these options, even in those that failed."""

    @property
    def settings(self) -> dict[str, Any]:
        """What devices of every interface are told of this; nothing where the environment is to say."""
        if not self.check:
            return {}
        return {"check": self.check, "suppressions": self.suppressions, "equal_stores": self.equal_stores}

    @property
    def counts(self) -> bool:
        """Whether instructions are counted: not beside checks, which have code of their own."""
        return self.report is not None and not self.check

    @property
    def traced(self) -> int:
        """Waves that there are to be events of."""
        return self.waves if self.report is not None else 0

    @contextmanager
    def heard(self, findings: Callable[[], list[Any]]) -> Iterator[None]:
        """Keep what a device has found, however what is done meanwhile ends."""
        try:
            yield
        finally:
            self.findings[:] = findings()
            if self.report is not None:
                self.report.found(self.findings)


@dataclass(frozen=True, slots=True)
class RawHeader:
    """What nobody but the caller knows of raw GPU code; `user` are enable bits of its user SGPRs, without prefix."""

    vgprs: int = 256
    sgprs: int = 96
    kernarg_bytes: int = 256
    lds_bytes: int = 0
    scratch_bytes: int = 0
    user: tuple[str, ...] = ("kernarg_segment_ptr",)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run took, and what was printed."""

    took: hsa.Result | amdcl2.Result | LaunchResult
    printed: str = field(default="", repr=False)


Size = tuple[int, ...] | None
Launch = Callable[[str, Size, Size, Sequence[Any]], Outcome]
"""Runs a kernel over a grid, in groups (None: the kernel's), with arguments; arrays among these hold afterwards what
the kernel has left there."""


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A file with kernels. `opened` has them loaded on a device of these options, and gives what runs them there.

    `unit` is what is counted, and `counts_elements` whether a grid is one work-item for each element of an array, where
    nobody says. `takes_header`: the caller has said what stands in the header.
    """

    interface: str
    agent: str
    kernels: tuple[str, ...]
    opened: Callable[[Options], AbstractContextManager[Launch]]
    unit: str = "wave instructions"
    counts_elements: bool = True
    takes_header: bool = False

    def run(self, kernel: str, grid: Size, group: Size, args: Sequence[Any], how: Options) -> Outcome:
        """Run a kernel once, on a device of its own."""
        with self.opened(how) as launch:
            return launch(kernel, grid, group, args)

    def kernel(self, name: str) -> str:
        """The kernel of that name, or the only one; `UsageError` where there is no such one."""
        if name in self.kernels:
            return name
        of_cpp = [each for each in self.kernels if name and each.startswith(f"_Z{len(name)}{name}")]
        if len(of_cpp) == 1:
            return of_cpp[0]
        some = ", ".join(self.kernels[:20]) + (", ..." if len(self.kernels) > 20 else "")
        listed = f"there is {some or 'none'}" if len(self.kernels) < 2 else f"there are {some}"
        if name:
            raise UsageError(f"no kernel {name!r}{close_to(name, self.kernels) or f': {listed}'}")
        if len(self.kernels) != 1:
            raise UsageError(f"say which kernel: {listed}")
        return self.kernels[0]


def read_kernels(path: Path, options: Options, header: RawHeader) -> KernelFile:
    """The kernels of a file: of any container, OpenCL C (.cl), HIP (.hip), C, C++ (RefSi), assembly (.s), raw code.

    `UsageError` where somebody says a header of what has one.
    """
    found = _read(path, options, header)
    if header != RawHeader() and not found.takes_header:
        options_of_raw = "--vgprs, --sgprs, --kernarg, --lds, --scratch and --user-sgpr"
        raise UsageError(f"{options_of_raw} are the header of raw GPU code: {path} is not that")
    return found


def _read(path: Path, options: Options, header: RawHeader) -> KernelFile:
    data = read_file(path, MAX_CODE_BYTES)
    if path.suffix in C_SUFFIXES:
        from understudy.host.refsi.compile import compile_kernels

        shorter = () if options.with_lines else (f"-fdebug-prefix-map={Path.cwd()}/=",)  # errors name lines
        return _refsi(compile_kernels(path, options=shorter))
    name = RAW_KERNEL
    if path.suffix == ".s":
        data, options, name = _assembled(data, options)
    elif path.suffix in GPU_SUFFIXES:
        from understudy.host.hsa.compile import COMPILERS, LINE_TABLES, text_of_file

        text = text_of_file(path.absolute() if options.with_lines else path, data)
        return _hsa(COMPILERS[path.suffix](text, options.agent or DEFAULT_GPU, options=LINE_TABLES), options)
    if not data:
        raise WireError("the file is empty")
    from understudy.image.hsa.bundle import is_bundle

    if is_bundle(data):
        return _hsa(data, options)
    if data[:4] == b"\x7fELF":
        machine = int.from_bytes(data[18:20], "little")
        if machine == MACHINE_RISCV:
            return _refsi(data)
        return _opencl(data, options) if machine in MACHINES_AMDCL2 else _hsa(data, options)
    if not options.agent and path.suffix not in RAW_SUFFIXES:
        head = f"file starts with {data[:4].hex(' ')}, expected 7f 45 4c 46 (ELF)"
        raise WireError(f"{head}: say what raw code is for with --agent").at("byte", 0)
    return _raw(data, options, header, name)


def _show(how: Options, loaded: Loaded, counts: Callable[[], Mapping[int, int]]) -> None:
    """Have the report show what was executed, also by a kernel that failed."""
    if how.report is not None and how.counts:
        how.report.code(loaded, counts())


def _assembled(source: bytes, options: Options) -> tuple[bytes, Options, str]:
    """Assembly text as a file to be loaded, or as raw code where it is nothing else: then also what that is called."""
    from understudy.image.assembly.program import assemble

    made = assemble(source.decode("utf-8", "replace"), options.agent, options.base)
    is_whole = made.is_object and (made.agent != RISCV or made.exports)
    name = made.exports[0] if len(made.exports) == 1 else RAW_KERNEL
    return (made.elf() if is_whole else made.code()), replace(options, agent=made.agent), name


# ---- AMD HSA -------------------------------------------------------------------------------------------------------


def _hsa(data: bytes, options: Options) -> KernelFile:
    from understudy.device.hsa.agents import AGENTS
    from understudy.device.hsa.agents import agent as agent_of
    from understudy.host.hsa.executable import read

    if options.agent:
        with of_options():
            agent_of(options.agent)
    code = read(data, options.agent)
    agent = options.agent or (code.target if code.target in AGENTS else DEFAULT_GPU)

    @contextmanager
    def opened(how: Options) -> Iterator[Launch]:
        from understudy.host.hsa.gpu import Gpu, Local

        settings: dict[str, Any] = {"engine": how.engine, "tier": how.tier, "machine_model": how.machine_model}
        settings |= {"count_instructions": how.counts, "trace_waves": how.traced}
        settings["snapshots"] = SNAPSHOTS if how.registers_at else 0
        with (
            Gpu.open(agent, exact=how.exact, **settings, **how.settings) as gpu,
            how.heard(lambda: gpu.findings),
            ExitStack() as after,
        ):
            if how.report is not None:
                how.report.follow(gpu.device.probes)
            loaded = gpu.load(data)
            choose_of_waves(gpu.device.moments, loaded, how.registers_at)
            if how.report is not None:
                after.callback(lambda: _show(how, loaded, gpu.instruction_counts))

            def launch(kernel: str, grid: Size, group: Size, args: Sequence[Any]) -> Outcome:
                if loaded.kernels[kernel].image.metadata is None:
                    _check_typed(args)
                arrays = [gpu.array(each) if isinstance(each, np.ndarray) else each for each in args]
                _name(gpu, arrays)
                values = [Local(each.size) if isinstance(each, Lds) else each for each in arrays]
                result = gpu.run(loaded, kernel, grid or 1, group, values)
                for mine, theirs in zip(args, arrays, strict=True):
                    if isinstance(mine, np.ndarray):
                        mine[...] = theirs
                        gpu.free(theirs)
                return Outcome(result, result.text)

            yield launch

    return KernelFile(f"AMD HSA, {code.version}", agent, tuple(code.kernels), opened)


def _check_typed(values: Sequence[Any]) -> None:
    """`UsageError` for a number of which nothing says how large it is."""
    for number, each in enumerate(values):
        if type(each) in (int, float):
            kind = "f32" if isinstance(each, float) else "u32"
            text = f"argument {number} is {each}: the code has no metadata that tell its size"
            raise UsageError(f"{text}, expected a type before it, {kind}={each} for one")


def _name(gpu: Gpu, arrays: Sequence[Any]) -> None:
    """Have checks call arrays by their arguments."""
    guard = gpu.device.memory.guard
    for number, each in enumerate(arrays if guard is not None else ()):
        found = guard.allocations.at(gpu.address(each)) if guard and isinstance(each, np.ndarray) else None
        if found is not None:
            found.name = f"argument {number}, {found.name}"


# ---- AMD OpenCL 2.0 ------------------------------------------------------------------------------------------------


def _opencl(data: bytes, options: Options) -> KernelFile:
    from understudy.image.amdcl2.container import read_container

    known_processor(options.agent)
    container = read_container(data)

    @contextmanager
    def opened(how: Options) -> Iterator[Launch]:
        from understudy.host.amdcl2.objects import Local
        from understudy.host.amdcl2.program import Program

        counting = how.counts
        engine = how.engine if counting or how.registers_at else _engine(how)
        settings: dict[str, Any] = {"count_instructions": counting, "trace_waves": how.traced, **how.settings}
        settings["snapshots"] = SNAPSHOTS if how.registers_at else 0
        made = Program(container, engine, options.agent or None, **settings)
        with made as program, how.heard(lambda: program.findings), ExitStack() as after:
            choose_of_program(program, how.registers_at)
            if how.report is not None:
                how.report.follow(program.probes)
                after.callback(lambda: _show(how, program, program.instruction_counts))

            def launch(kernel: str, grid: Size, group: Size, args: Sequence[Any]) -> Outcome:
                values = [Local(each.size) if isinstance(each, Lds) else each for each in args]
                result = program.kernel(kernel).run(grid or 1, group, values)
                return Outcome(result, result.text)

            yield launch

    agent = options.agent or container.target.name
    return KernelFile("AMD OpenCL 2.0", agent, tuple(container.kernels), opened)


def _engine(options: Options) -> Any:
    """An engine by name, or one whose machine code is all of one tier."""
    if options.engine != "jit" or options.tier == "auto":
        return options.engine
    from understudy.device.hsa.compute import TIERS
    from understudy.engine.gcn.jit.engine import JitEngine

    return JitEngine(tier=TIERS[options.tier])


# ---- RefSi ---------------------------------------------------------------------------------------------------------


def _refsi(data: bytes) -> KernelFile:
    from understudy.image.riscv.program import read_elf

    kernels = read_elf(data).kernels

    @contextmanager
    def opened(how: Options) -> Iterator[Launch]:
        from understudy.host.refsi.refsi import RefSi

        if how.exact or how.machine_model != "large":
            raise UsageError("--exact and --machine-model are for AMD HSA")
        counting = how.counts
        settings: dict[str, Any] = {"engine": how.engine, "tier": how.tier, "count_instructions": counting}
        settings |= {} if how.report is None else {"trace_instances": how.waves}
        settings["snapshots"] = SNAPSHOTS if how.registers_at else 0
        with (
            RefSi.open(**settings, **how.settings) as device,
            how.heard(lambda: device.findings),
            ExitStack() as after,
        ):
            program = device.load_elf(data)
            choose_of_harts(device.port.moments, program, how.registers_at)
            if how.report is not None:
                how.report.follow(device.port.probes)
                how.report.loaded({name: program.kernel(name).entry for name in kernels})
                after.callback(lambda: _show(how, program, device.instruction_counts))

            def launch(kernel: str, grid: Size, group: Size, args: Sequence[Any]) -> Outcome:
                if group is not None:
                    raise UsageError("--group: RefSi has no work-groups, only instances (--grid)")
                for each in args:
                    if isinstance(each, Lds | tuple):
                        raise UsageError("RefSi's kernels take numbers and arrays")
                values = [0 if each is None else each for each in args]
                result = device.launch(kernel, grid if grid and len(grid) > 1 else (grid or (1,))[0], values)
                return Outcome(result, result.console.decode("utf-8", "replace"))

            yield launch

    return KernelFile("RefSi M1", RISCV, kernels, opened, "instructions", counts_elements=False)


# ---- raw code ------------------------------------------------------------------------------------------------------


def _raw(data: bytes, options: Options, header: RawHeader, name: str) -> KernelFile:
    """Code alone: the kernel begins with its first byte, and what its header would say is said by the caller."""
    if options.agent == RISCV:
        from understudy.image.assembly.program import assemble

        rows = [", ".join(map(str, data[at : at + 64])) for at in range(0, len(data), 64)]
        lines = [".text", f".globl {RAW_KERNEL}", f"{RAW_KERNEL}:", *(f".byte {row}" for row in rows)]
        return _refsi(assemble("\n".join(lines), RISCV, options.base).elf())
    if len(data) % 4:
        raise WireError(f"no raw code: {len(data)} bytes are no whole words")
    from understudy.device.hsa.agents import AGENTS
    from understudy.image.hsa.bare import bare_code_object

    agent = options.agent or DEFAULT_GPU
    if agent not in AGENTS:
        raise UsageError(f"no agent {agent!r} for raw code: there are {', '.join((RISCV, *AGENTS))}")
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
    return replace(_hsa(whole, options), takes_header=True)
