"""`softcard doctor`: it shows this machine's capabilities, with commands that add missing ones.

On request, it also compiles code that would otherwise be compiled at first use."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from softcard import __version__
from softcard.attach import library
from softcard.cli.exits import ExitCode
from softcard.cli.files import MAX_CODE_BYTES, read_file
from softcard.cli.options import JsonOption, ResultFormat, ResultFormatOption, is_json
from softcard.cli.progress import compiled_code, progress
from softcard.cli.tables import show
from softcard.core.errors import SoftcardError
from softcard.device.acceldev import native_commands as acceldev
from softcard.device.hsa import native_packets
from softcard.device.hsa.launch.plan import read_plan
from softcard.device.hsa.memory import atomics
from softcard.device.refsi import native_commands as refsi
from softcard.device.refsi.spec import native_instances
from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import fetch_of
from softcard.engine.gcn.jit.helpers_ir import helpers
from softcard.engine.gcn.threaded.library import shared_library
from softcard.engine.gcn.tiered import runtime
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.riscv.jit import engine as riscv
from softcard.host.hsa.compile import compilers
from softcard.host.hsa.gpu import Gpu, demo_code
from softcard.host.refsi.compile import riscv_compilers
from softcard.image.hsa.code_object import read_code_object
from softcard.image.hsa.targets import read_as
from softcard.ir import llvm
from softcard.ir.host import Host, host, is_x86
from softcard.ir.native import Function, LateText, Module
from softcard.ir.object_cache import ObjectCache, PrivateFolder, default_folder
from softcard.isa.gcn.target import target

if TYPE_CHECKING:
    from softcard.cli.running.bench_cases import Bench


VECTORS = ("avx512f", "avx2", "avx", "neon", "sse4.2")
"""The names of CPU vector extensions, the widest first."""
DEMOS = ("gfx700", "gfx803", "gfx900")
"""The processors for which demo kernels are shipped."""
WARM = "softcard doctor --warm"
CLASSES: Final = ((0.5, "fast"), (0.15, "medium"), (0.0, "slow"))
"""The speed classes, each with its minimum speed relative to the machine of the recorded figures."""
BUSY: Final = 0.5
"""The load average per processor from which on a speed measurement is unreliable."""
GRACE_SECONDS: Final = 0.1
"""The time in seconds for which each engine's speed is measured."""
LEAST_FREE: Final = 64 << 20
"""The recommended minimum number of free bytes on the disk of the code cache."""


def doctor(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Code objects for GFX7 to GFX9, to compile with --warm."),
    ] = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="Compile all code that would otherwise be compiled at first use.")
    ] = False,
    as_json: JsonOption = False,
    form: ResultFormatOption = ResultFormat.TEXT,
) -> None:
    """Show what this machine can do, and the commands that add missing parts.

    Runs a kernel on each kind of engine, and rates its speed: "fast" is at least
    half of the speed of the machine in docs/performance.md, "medium" at least
    0.15 of it.

    With --warm, the code that would be compiled at first use is compiled now:
    the native functions of all devices, and the kernels in the named code
    objects, or without names in the code objects that come with Softcard.

    Exit status 1 if a required part is broken. Optional parts that are missing,
    or not compiled yet, do not count."""
    as_json = is_json(form, as_json)
    sources = [(str(file), read_file(file, MAX_CODE_BYTES)) for file in files or []]
    folder = default_folder()
    objects = ObjectCache(folder)
    begin, found, made = time.monotonic(), parts(objects), list[str]()
    if warm:
        total = sum(not part.is_there for part in found) + len(sources or DEMOS)
        with progress("compiling", total, "parts", compiled_code) as bar:
            for line in _warm(found, sources):
                made.append(line)
                if not as_json:
                    bar.print(line, sys.stdout)
                bar.advance()
        if not as_json:
            print(f"made in {time.monotonic() - begin:.1f} s\n")
    compiled = {part.name: part.is_there for part in found}  # before kernels run, which compile what they need
    handlers, optimised = _handlers(folder)
    checks = [*packages(), *_machine(host()), _cache(folder), *_engines(), *programs()]
    is_good = all(each.state is not State.BROKEN for each in checks)
    if as_json:
        document: dict[str, Any] = {
            "version": __version__,
            "good": is_good,
            "checks": [
                {
                    "what": each.what,
                    "state": each.state.value,
                    "found": each.found,
                    "needed_for": each.needed_for,
                    "adds": each.adds,
                }
                for each in checks
            ],
            "compiled": compiled,
            "handlers": {"kept": handlers, "optimised": optimised},
        }
        print(json.dumps(document | ({"made": made} if warm else {}), indent=2))
    else:
        _show(checks, compiled, handlers, optimised)
    if not is_good:
        raise typer.Exit(ExitCode.GUEST)


def _show(checks: list[Check], compiled: dict[str, bool], handlers: int, optimised: int) -> None:
    show(
        ("softcard " + __version__, "state", "found", "needed for"),
        [(each.what, each.state.value, each.found, each.needed_for) for each in checks],
    )
    print()
    for name, is_there in compiled.items():
        print(f"{name}: {'compiled' if is_there else 'not yet compiled'}")
    print(f"GCN: code for {handlers} instruction handlers is compiled, {optimised} of them optimised")
    if not handlers or not all(compiled.values()):
        print(f"missing code is compiled at first use; to compile all of it now: {WARM}")
    for title, state in (("to repair broken parts", State.BROKEN), ("to add missing parts", State.MISSING)):
        commands = dict.fromkeys(each.adds for each in checks if each.state is state and each.adds)
        if commands:
            print(f"\n{title}:")
            for each in commands:
                print(f"  {each}")


def _warm(found: list[Part], sources: list[tuple[str, bytes]]) -> Iterator[str]:
    from softcard.ir import llvm

    for part in found:
        if not part.is_there:
            part.module.image(llvm.OPTIMISED)
            yield f"compiled {part.name}"
    for name, code in sources or [(f"demo kernels for {agent}", demo_code(agent)) for agent in DEMOS]:
        try:
            count = sum(1 for _ in prepared(code, read_as(read_code_object(code).target)))
        except SoftcardError as error:
            raise (error.at("file", name) if sources else error) from None
        yield f"{count} kernels ready: {name}"


def _machine(found: Host) -> Iterator[Check]:
    """Yield the states of the machine's properties that the JIT engines depend on."""
    vectors = next((name for name in VECTORS if name in found.names), "none")
    lanes = layout.chunk_lanes(found.names)
    text = f"{found.name}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    yield Check("processor", "all engines", State.OK, text)
    yield Check("vectors", "lanes at once", State.OK, f"{vectors}, {lanes} lanes of 32 bits")
    yield Check("LLVM", "the JIT engines", State.OK, found.version)


def _cache(folder: Path | None) -> Check:
    """Return the state of the code cache: OK if machine code can be cached on disk in `folder`."""
    what, use = "cache", "machine code that is compiled once"
    if folder is None:
        text = "none, since this user has no home folder; each process compiles all code"
        return Check(what, use, State.BROKEN, text, "export XDG_CACHE_HOME=FOLDER")
    try:
        sizes = PrivateFolder(folder).sizes()
        text = f"{folder}, {len(sizes)} files, {sum(sizes) / 2**20:.1f} MiB"
    except FileNotFoundError:
        text = f"{folder}, does not exist yet"
    except OSError as error:
        text = f"{folder} is not used: {error}; each process compiles all code"
        return Check(what, use, State.BROKEN, text, "export XDG_CACHE_HOME=FOLDER  # one of your own")
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        text += f"; {there} is not writable, so no further code is cached"
        return Check(what, use, State.BROKEN, text, "export XDG_CACHE_HOME=FOLDER  # a writable one")
    free = shutil.disk_usage(there).free
    if free < LEAST_FREE:
        text += f"; the disk has {free >> 20} MiB left"
        return Check(what, use, State.BROKEN, text, f"rm -r {folder}  # or free other space")
    return Check(what, use, State.OK, text)


def _engines() -> Iterator[Check]:
    """Run a kernel on each JIT engine, and yield each engine's speed."""
    from softcard.cli.running.bench_cases import HARTS, WAVES

    if is_x86():
        yield _speed("RISC-V harts", "RefSi", HARTS)
    else:
        text = "reference engine, about a million instructions a second: the JIT engine needs an x86 host"
        yield Check("RISC-V harts", "RefSi", State.OK, text)
    yield _speed("GPU waves", "AMD HSA, AMD OpenCL 2.0", WAVES)


def _speed(what: str, use: str, bench: Bench) -> Check:
    from softcard.cli.running.bench_cases import recorded

    try:
        best = bench.measure(GRACE_SECONDS).best
    except SoftcardError as error:
        return Check(what, use, State.BROKEN, f"a kernel failed: {error}")
    share = best / recorded()["best"][bench.name]
    named = next(name for least, name in CLASSES if share >= least)
    text = f"{named}: {best:,.0f} {bench.unit}, {share:.2f} of the speed in docs/performance.md"
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return Check(what, use, State.OK, text + (" (the machine is busy)" if load > BUSY else ""))


def _handlers(folder: Path | None) -> tuple[int, int]:
    index = shared_library(folder, layout.chunk_lanes(host().names)).index
    known = [each for each in map(index.__getitem__, index) if each is not None]
    return len(known), sum(1 for each in known if each.is_optimised)


# ---- capabilities ----------------------------------------------------------------------------------------------------

LEAST_PYTHON: Final = (3, 11)
LEAST_QEMU: Final = (10, 1)
"""The first version of QEMU that has the device vfio-user-pci."""
MODULES: Final = {"pyvcd": "vcd"}
"""The import names of packages whose import name differs from the package's name."""
EXTRAS: Final = {
    "arrow": "Fletcher: Arrow schemas and RecordBatches",
    "coverage": "lines and branches of kernels in the reports of coverage.py",
    "dask": "softcard campaign: many runs on many machines",
    "kernels": "a compiler of OpenCL C, and of C for RISC-V (ziglang)",
    "opencl": "a compiler for the OpenCL platform (ziglang)",
    "testing": "the pytest plug-in, and strategies for hypothesis",
    "triton": "Triton's kernels on a simulated GPU",
    "vcd": "softcard trace --format vcd",
}
"""The purpose of each optional dependency group (extra) of the package."""
BUNDLES: Final = frozenset({"all", "dev"})
"""The extras that combine other extras."""
START_SECONDS: Final = 5


class State(StrEnum):
    """The states of a capability."""

    OK = "ok"
    MISSING = "missing"
    """The state of an optional capability that is not installed."""
    BROKEN = "broken"
    """The state of a required capability that is missing, too old or not working."""


@dataclass(frozen=True, slots=True)
class Check:
    """The state of a capability: `what` it is, what it is `needed_for`, and what was `found`, such as a version.

    `adds` is the command that installs or repairs it, or "".
    """

    what: str
    needed_for: str
    state: State
    found: str = ""
    adds: str = ""


def packages() -> Iterator[Check]:
    """Yield the states of Python, of the required packages, and of the packages of extras."""
    is_new = sys.version_info >= LEAST_PYTHON
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", "everything", State.OK if is_new else State.BROKEN, version)
    for extra, wanted in requirements().items():
        found = [(name, least, _version(name)) for name, least in wanted]
        text = ", ".join(f"{name} {version}" if version else f"no {name}" for name, _, version in found)
        good = all(version and _numbers(version) >= _numbers(least) for _, least, version in found)
        if extra == "":
            yield Check(
                "packages", "everything", State.OK if good else State.BROKEN, text, "" if good else _pip("softcard")
            )
        else:
            state = State.OK if good else State.MISSING if any(not each for *_, each in found) else State.BROKEN
            add = "" if good else _pip(f"softcard[{extra}]")
            yield Check(f"extra {extra}", EXTRAS.get(extra, ""), state, text, add)


def requirements() -> dict[str, list[tuple[str, str]]]:
    """Return the names and minimum versions of the packages of each extra; the key "" has the required packages.

    Return {} if Softcard runs from its sources, without being installed."""
    found: dict[str, list[tuple[str, str]]] = {}
    try:
        lines = metadata.requires("softcard") or []
    except metadata.PackageNotFoundError:  # Softcard runs from its sources, without being installed
        return {}
    for line in lines:
        need, _, condition = line.partition(";")
        matched = re.match(r"\s*([\w.-]+)[^>]*(?:>=\s*([\d.]+))?", need)
        extra = re.search(r"extra\s*==\s*['\"](\w+)", condition)
        name = extra[1] if extra else ""
        if matched and name not in BUNDLES and matched[1] != "softcard":
            found.setdefault(name, []).append((matched[1], matched[2] or "0"))
    return found


def programs() -> Iterator[Check]:
    """Yield the states of the external programs that Softcard uses, such as compilers, QEMU and gdb."""
    yield _one(
        "OpenCL C, HIP", "run FILE.cl, Gpu.compile", [each.name for each in compilers()], _pip("softcard[kernels]")
    )
    use = "run FILE.c, refsi build: kernels of your own for RefSi"
    yield _one("C for RISC-V", use, [each.name for each in riscv_compilers()], _pip("softcard[kernels]"))
    chosen = shlex.split(os.environ.get("CC", ""))[:1]
    found = [name for name in (chosen or ("cc", "gcc", "clang")) if shutil.which(name)]
    found += [library.ZIG] if not chosen and _version(library.ZIG) else []
    yield _one("C compiler", "exec, serve fletcher, serve refsi: libraries for host programs", found[:1], _apt("gcc"))
    yield _opencl()
    yield _qemu()
    tools = ("apt-get", "dpkg-deb", "tar", "make")
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    found = [name for name in tools if shutil.which(name)] + [keys] * Path(keys).exists()
    whole = ["apt, its keys"] if len(found) > len(tools) else []
    yield _one("Debian guest", "make guest-root, in a source tree", whole, _apt("make debian-archive-keyring"))
    found = [name for name in ("gdb-multiarch", "gdb") if shutil.which(name)][:1]
    yield _one("gdb", "a guest's kernel and driver, by QEMU's -s", found, _apt("gdb-multiarch"))
    rocm = ":".join((os.environ.get("PATH", ""), "/opt/rocm/bin"))
    found = [name for name in ("hipcc",) if shutil.which(name, path=rocm)]
    yield _one("HIP", "compiling HIP sources for run and inspect", found, _apt("hipcc"))
    found = [name for name in ("rocminfo",) if shutil.which(name, path=rocm)]
    yield _one("rocminfo", "a real GPU's agents, to compare with", found, _apt("rocminfo"))


def _opencl() -> Check:
    """Return the places in which the OpenCL platform is installed, for programs that set no variables."""
    from softcard.attach.opencl import installing

    found = [name for name, place in installing.places() if place.icd.is_file()]
    return _one("OpenCL platform", "OpenCL programs without exec", found, "softcard opencl install --pyopencl")


def _one(what: str, needed_for: str, found: list[str], add: str) -> Check:
    return Check(what, needed_for, State.OK if found else State.MISSING, ", ".join(found), "" if found else add)


def _qemu() -> Check:
    what, needed_for = "QEMU 10.1", "serve acceldev: a device of a virtual machine"
    add = f"{_apt('-t trixie-backports qemu-system-x86')}  # or, in a source tree: make guest-root"
    program = shutil.which("qemu-system-x86_64")
    if program is None:
        return Check(what, needed_for, State.MISSING, "", add)
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=False, timeout=START_SECONDS
        )
        output = done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        output = str(error)
    version = re.search(r"version (\d+)\.(\d+)", output)
    if version is None:
        return Check(what, needed_for, State.BROKEN, f"{program}: {output.strip() or 'prints no version'}", add)
    is_new = (int(version[1]), int(version[2])) >= LEAST_QEMU
    return Check(what, needed_for, State.OK if is_new else State.MISSING, version[0][8:], "" if is_new else add)


def _pip(what: str) -> str:
    return f"pip install {shlex.quote(what)}"


def _apt(what: str) -> str:
    return f"sudo apt-get install {what}"


def _version(name: str) -> str:
    """Return the version of an installed package whose modules can be imported; "" otherwise."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
    return version if importlib.util.find_spec(MODULES.get(name, name)) is not None else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version)[:3])


# ---- compilation ahead of use ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A module of native functions that are compiled together. `name` describes their purpose."""

    name: str
    module: Module

    @property
    def is_there(self) -> bool:
        """True if the optimised code of these functions is in the cache."""
        return self.module.cached(llvm.OPTIMISED) is not None


def parts(objects: ObjectCache) -> list[Part]:
    """Return the native functions of all devices, grouped into modules that are compiled separately."""

    def part(name: str, functions: tuple[Function[Any], ...], text: str | LateText = "") -> Part:
        return Part(name, Module(objects, functions, text))

    lanes = layout.chunk_lanes(llvm.host_features())
    return [
        part("RefSi: commands", (refsi.commands,)),
        part("RefSi: instances of kernels", (native_instances.instances,)),
        part("RISC-V: running translated code", riscv.FUNCTIONS),
        part("Acceldev: user commands", (acceldev.commands,)),
        part("AMD HSA: packets", (native_packets.consume,)),
        part("AMD HSA: completion of packets", (native_packets.retire, native_packets.count_down)),
        part("AMD HSA: atomics of the host", atomics.FUNCTIONS),
        part("GCN: waves and their memory", runtime.FUNCTIONS, helpers(lanes)),
    ]


def prepared(code: bytes, agent: str) -> Iterator[str]:
    """Compile all kernels of a code object with the optimised tier; yield each kernel's name when it is compiled."""
    with Gpu.open(agent) as gpu:
        engine = gpu.device.engine
        assert isinstance(engine, JitEngine)
        memory, processor = gpu.device.memory, target(agent)
        space = engine.code(processor, memory)
        for kernel in gpu.load(code).kernels.values():
            plan = read_plan(memory, kernel.address, processor)
            pc = kernel.address + plan.entry_offset
            try:
                spans = [(pc, memory.read(pc, 12))]
            except SoftcardError:
                continue
            with engine.lock:
                engine.install(space, (pc, plan.mode), fetch_of(processor, spans))
            yield kernel.name
        engine.library.optimise()
        while engine.library.is_optimising:
            time.sleep(0.01)
            engine.library.adopt()
