"""Programs: their sources and binaries, and the commands that build, compile and link them.

A binary of an executable is its code object, followed by the name and text of its source, so that messages can show
lines of programs that cache binaries. A binary of a compiled object or library is LLVM bitcode after a header.
"""

from __future__ import annotations

import json
import re
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from softcard.core.errors import SoftcardError
from softcard.host.compiling import CompileError, NoCompiler
from softcard.host.hsa.compile import (
    LINE_TABLES,
    compile_opencl,
    compile_opencl_bitcode,
    link_opencl,
    link_opencl_library,
)
from softcard.host.hsa.executable import Executable, Kernel
from softcard.host.hsa.opencl_c import opencl_link_options, opencl_options
from softcard.host.opencl import constants as cl
from softcard.host.opencl.calls import Call, Made, entry, query, text, u32, u64
from softcard.host.opencl.errors import OpenClError, require
from softcard.host.opencl.objects import Callback, Context, Device, Object

MAGIC: Final = b"softcard bitcode"
"""The first bytes of a binary that is not a code object; the type and the bitcode follow."""
ELF_MAGIC: Final = b"\x7fELF"
SOURCE_MAGIC: Final = b"softcard source\n"
"""The last bytes of a binary that ends with a source."""
_SOURCE_SIZES: Final = struct.Struct("<3I")
ARGUMENT_NAMES: Final = "-cl-kernel-arg-info"
"""The option that puts the names of arguments into code objects; messages about arguments need them."""
SOURCE_SUFFIX: Final = ".cl"
SCRIPT_SUFFIXES: Final = (".py", ".jl")
"""The suffixes of programs that have the sources of their kernels as text of several lines."""
_ADDED_BY_PYOPENCL: Final = re.compile(rb"\n\n__constant int pyopencl_defeat_cache_\w+ = 0;\Z")
"""The line that pyopencl appends to each source, so that platforms compile it anew."""
MOST_SCRIPT_BYTES: Final = 1 << 20
MOST_FILES: Final = 256
"""The number of files that are compared with a source, to find the file from which the program has read it."""


@dataclass(slots=True)
class Build:
    """The result of building a program for one device."""

    status: int = cl.BUILD_NONE
    options: str = ""
    log: str = ""
    binary: bytes = b""
    type: int = cl.PROGRAM_BINARY_TYPE_NONE
    executable: Executable | None = field(default=None, repr=False)


class Program(Object):
    """A program with a source, or with binaries."""

    kind = "program"

    def __init__(self, context: Context, handle: int, devices: Sequence[Device], source: bytes | None = None) -> None:
        super().__init__(context.platform, handle)
        self.context = context
        self.devices = tuple(devices)
        self.has_source = source is not None
        self.source = source or b""
        self.text = self.source
        """The source, also that of a binary."""
        self.builds = {each: Build() for each in devices}
        self.destructors: list[Callback] = []
        self.kernel_count = 0
        """The number of kernels that the program has of this one: they forbid building it again."""
        self.lock = threading.Lock()
        self._uses = 1
        """The number of launches that are enqueued, and 1 more until the program has released all its references."""
        self._name = ""
        self._first_line = 1

    def use_source_of(self, binary: bytes) -> None:
        """Show the lines of the source at the end of a binary, if it has one."""
        found = source_of(binary)
        if found is not None:
            self._name, self._first_line, self.text = found

    @property
    def place(self) -> tuple[str, int]:
        """The name of the source in messages, and the number of its first line there."""
        if not self._name:
            self._name, self._first_line = self.platform.source_place(self.source)
        return self._name, self._first_line

    def kernel_of(self, device: Device, name: str) -> Kernel | None:
        """Return a kernel for a device; None if the device has no executable with this kernel."""
        executable = self.executable(device)
        return None if executable is None or name not in executable.kernels else executable.kernels[name]

    def executable(self, device: Device) -> Executable | None:
        """Return the executable for a device, which is loaded first if that is necessary; None without one."""
        build = self.builds[device]
        with self.lock:
            if build.executable is None and build.type == cl.PROGRAM_BINARY_TYPE_EXECUTABLE:
                build.executable = device.gpu.load(build.binary)
                if self.text:
                    build.executable.source_name, first = self.place
                    lines = self.text.decode("utf-8", "replace").split("\n")
                    build.executable.source_lines = (*[""] * (first - 1), *lines)
            return build.executable

    def any_executable(self) -> Executable:
        """Return the executable of any device; raise `OpenClError` if no device has one."""
        for each in self.devices:
            found = self.executable(each)
            if found is not None:
                return found
        raise OpenClError(
            cl.INVALID_PROGRAM_EXECUTABLE, "the program was not built: call clBuildProgram or clLinkProgram first"
        )

    @property
    def has_launches(self) -> bool:
        """True if launches of the program's kernels have not ended."""
        return self._uses > 1

    def begin_use(self) -> None:
        """Handle the enqueueing of a launch of one of the kernels."""
        with self.lock:
            self._uses += 1

    def end_use(self) -> None:
        """Handle the end of a launch, or of the program's handle; unload the code after the last one."""
        with self.lock:
            self._uses -= 1
            if self._uses:
                return
        for build in self.builds.values():
            if build.executable is not None:
                build.executable.unload()

    def forgotten(self) -> None:
        """Unload the code when no launch uses it any more, and call the program's callbacks."""
        self.end_use()
        self.platform.call_destructors(self.destructors, self.handle)


def binary_type(binary: bytes) -> int:
    """Return the type of a binary; raise `OpenClError` for bytes that are not a binary of this platform."""
    if binary.startswith(ELF_MAGIC):
        return cl.PROGRAM_BINARY_TYPE_EXECUTABLE
    if binary.startswith(MAGIC) and len(binary) > len(MAGIC) + 4:
        return int(struct.unpack_from("<I", binary, len(MAGIC))[0])
    raise OpenClError(cl.INVALID_BINARY, "the binary is neither a code object nor one of CL_PROGRAM_BINARIES")


def wrapped(bitcode: bytes, type: int) -> bytes:
    """Return the binary of a compiled object or library."""
    return MAGIC + u32(type) + bitcode


def bitcode_of(binary: bytes) -> bytes:
    """Return the bitcode in a binary that `wrapped` returned."""
    return binary[len(MAGIC) + 4 :]


def with_source(code: bytes, program: Program) -> bytes:
    """Return the binary of an executable: a code object with the place and the text of its source at the end."""
    name, line = program.place
    encoded = name.encode("utf-8", "surrogateescape")
    sizes = _SOURCE_SIZES.pack(len(encoded), line, len(program.source))
    return code + encoded + program.source + sizes + SOURCE_MAGIC


def source_of(binary: bytes) -> tuple[str, int, bytes] | None:
    """Return the name, the first line and the text of the source at the end of a binary; None if it has none."""
    end = len(binary) - len(SOURCE_MAGIC) - _SOURCE_SIZES.size
    if end < 0 or not binary.endswith(SOURCE_MAGIC):
        return None
    name, line, size = _SOURCE_SIZES.unpack_from(binary, end)
    start = end - size
    if start < name or not 0 < line <= MOST_SCRIPT_BYTES:
        return None
    return binary[start - name : start].decode("utf-8", "surrogateescape"), line, binary[start:end]


# ---- creation --------------------------------------------------------------------------------------------------------


@entry("clCreateProgramWithSource")
def create_program_with_source(call: Call, context: Context, source: bytes) -> Made:
    """Make a program with a source."""
    return Made(Program(context, call.made, context.devices, source))


@entry("clCreateProgramWithBinary")
def create_program_with_binary(
    call: Call, context: Context, devices: list[Device] | None, binaries: list[bytes] | None
) -> Made:
    """Make a program with binaries."""
    require(
        devices and binaries,
        cl.INVALID_VALUE,
        "clCreateProgramWithBinary: the list of binaries is empty, expected one for each device",
    )
    assert devices is not None
    assert binaries is not None
    for each in devices:
        context.device(each)
    made = Program(context, call.made, devices)
    for device, binary in zip(devices, binaries, strict=True):
        build = made.builds[device]
        build.type, build.binary = binary_type(binary), binary
        if build.type == cl.PROGRAM_BINARY_TYPE_EXECUTABLE:
            made.use_source_of(binary)
            try:
                made.executable(device)
            except SoftcardError as error:
                raise OpenClError(cl.INVALID_BINARY, f"the binary does not load on {device.agent}: {error}") from None
    return Made(made)


@entry("clCreateProgramWithBuiltInKernels")
def create_program_with_built_in_kernels(
    call: Call, context: Context, devices: list[Device] | None, names: bytes | None
) -> Made:
    """Refuse the call, because the devices do not have built-in kernels."""
    require(devices and names is not None, cl.INVALID_VALUE, "expected devices and names of kernels")
    raise OpenClError(cl.INVALID_VALUE, "the devices do not have built-in kernels: call clCreateProgramWithSource")


@entry("clCreateProgramWithIL")
def create_program_with_il(call: Call, context: Context, code: bytes | None) -> Made:
    """Refuse the call, because the devices accept only OpenCL C source and binaries."""
    raise OpenClError(
        cl.INVALID_OPERATION, "the devices accept only OpenCL C source and binaries: call clCreateProgramWithSource"
    )


@entry("clSetProgramSpecializationConstant")
def set_program_specialization_constant(call: Call, program: Program, number: int, value: bytes | None) -> None:
    """Refuse the call, because only programs in an intermediate language have specialization constants."""
    raise OpenClError(
        cl.INVALID_OPERATION, "the devices accept only OpenCL C source and binaries, so constants cannot be set"
    )


@entry("clSetProgramReleaseCallback")
def set_program_release_callback(call: Call, program: Program, notify: Callback) -> None:
    """Refuse the call, because programs cannot have program-scope objects with destructors."""
    require(notify[0], cl.INVALID_VALUE, "clSetProgramReleaseCallback: pfn_notify is NULL, expected a function")
    raise OpenClError(cl.INVALID_OPERATION, "the devices do not support clSetProgramReleaseCallback")


# ---- building --------------------------------------------------------------------------------------------------------


def _options(options: bytes | None, status: int) -> tuple[str, list[str]]:
    """Return options as text and as options of clang; raise `OpenClError` with `status` for unknown ones."""
    option_text = (options or b"").decode("utf-8", "replace")
    try:
        return option_text, [*LINE_TABLES, ARGUMENT_NAMES, *opencl_options(option_text)]
    except SoftcardError as error:
        raise OpenClError(status, str(error)) from None


def _selected(program: Program, devices: list[Device] | None) -> Sequence[Device]:
    """Return the devices to build for, by default those of the program."""
    require(devices is None or devices, cl.INVALID_VALUE, "device_list has no devices, expected NULL or devices")
    for each in devices or ():
        require(each in program.builds, cl.INVALID_DEVICE, f"device {each.agent} is not one of the program's")
    return program.devices if devices is None else devices


def _begin(program: Program, devices: list[Device] | None, notify: Callback) -> Sequence[Device]:
    """Check the arguments that building and compiling share; return the devices."""
    require(notify[0] or not notify[1], cl.INVALID_VALUE, "user_data was passed without pfn_notify")
    chosen = _selected(program, devices)
    require(not program.kernel_count, cl.INVALID_OPERATION, "the program has kernels: release them before you build it")
    require(
        not program.has_launches,
        cl.INVALID_OPERATION,
        "launches of the program have not ended: wait for them before you build it",
    )
    return chosen


def _each(
    program: Program, devices: Sequence[Device], options: str, make: Callable[[Device], tuple[int, bytes]]
) -> bool:
    """Build for each device; return True if all succeeded. `make` returns a type and a binary."""
    is_right = True
    for device in devices:
        build = program.builds[device]
        build.options = options
        if build.executable is not None:
            build.executable.unload()
            build.executable = None
        try:
            build.type, build.binary = make(device)
            build.status, build.log = cl.BUILD_SUCCESS, ""
        except NoCompiler as error:
            raise OpenClError(cl.COMPILER_NOT_AVAILABLE, str(error)) from None
        except SoftcardError as error:
            is_right = False
            build.type, build.binary, build.status = cl.PROGRAM_BINARY_TYPE_NONE, b"", cl.BUILD_ERROR
            build.log = error.message if isinstance(error, CompileError) else str(error)
    return is_right


def _run(
    call: Call, program: Program, devices: Sequence[Device], notify: Callback, status: int, work: Callable[[], bool]
) -> None:
    """Build now, or in another thread if the program has passed a callback."""
    call.proceed()
    if not notify[0]:
        require(work(), status, "building failed: see CL_PROGRAM_BUILD_LOG")
        return
    for each in devices:
        program.builds[each].status = cl.BUILD_IN_PROGRESS

    def build() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  # the program waits for the callback
            for each in devices:
                program.builds[each].status, program.builds[each].log = cl.BUILD_ERROR, str(error)
        program.platform.later(lambda: program.platform.client.call_built(notify, program.handle))

    threading.Thread(target=build, name="build", daemon=True).start()


def _text(program: Program) -> str:
    """Return the source, after a directive with its name."""
    name, line = program.place
    return f"#line {line} {json.dumps(name, ensure_ascii=False)}\n{program.source.decode('utf-8', 'replace')}"


@entry("clBuildProgram")
def build_program(
    call: Call, program: Program, devices: list[Device] | None, options: bytes | None, notify: Callback
) -> None:
    """Compile and link a program, or link its binaries."""
    chosen = _begin(program, devices, notify)
    option_text, words = _options(options, cl.INVALID_BUILD_OPTIONS)

    def make(device: Device) -> tuple[int, bytes]:
        build = program.builds[device]
        if program.has_source:
            binary = with_source(compile_opencl(_text(program), device.agent, options=words), program)
        elif build.type == cl.PROGRAM_BINARY_TYPE_EXECUTABLE:
            binary = build.binary
        elif build.binary:
            binary = link_opencl([bitcode_of(build.binary)], device.agent)
        else:
            raise OpenClError(cl.INVALID_BINARY, f"the program has no source, and no binary for {device.agent}")
        return cl.PROGRAM_BINARY_TYPE_EXECUTABLE, binary

    _run(call, program, chosen, notify, cl.BUILD_PROGRAM_FAILURE, lambda: _each(program, chosen, option_text, make))


@entry("clCompileProgram")
def compile_program(
    call: Call,
    program: Program,
    devices: list[Device] | None,
    options: bytes | None,
    headers: list[Program] | None,
    names: list[bytes] | None,
    notify: Callback,
) -> None:
    """Compile a program to an object that clLinkProgram links."""
    chosen = _begin(program, devices, notify)
    require(program.has_source, cl.INVALID_OPERATION, "the program was not made from source, so it cannot be compiled")
    require(
        (headers is None) == (names is None) and headers != [],
        cl.INVALID_VALUE,
        "clCompileProgram: headers and their names must be passed together",
    )
    option_text, words = _options(options, cl.INVALID_COMPILER_OPTIONS)
    texts = {
        name.decode("utf-8", "replace"): each.source.decode("utf-8", "replace")
        for name, each in zip(names or (), headers or (), strict=True)
    }

    def make(device: Device) -> tuple[int, bytes]:
        code = compile_opencl_bitcode(_text(program), device.agent, options=words, headers=texts)
        return cl.PROGRAM_BINARY_TYPE_COMPILED_OBJECT, wrapped(code, cl.PROGRAM_BINARY_TYPE_COMPILED_OBJECT)

    _run(call, program, chosen, notify, cl.COMPILE_PROGRAM_FAILURE, lambda: _each(program, chosen, option_text, make))


@entry("clLinkProgram")
def link_program(
    call: Call,
    context: Context,
    devices: list[Device] | None,
    options: bytes | None,
    parts: list[Program] | None,
    notify: Callback,
) -> Made:
    """Link compiled objects and libraries to a new program."""
    require(notify[0] or not notify[1], cl.INVALID_VALUE, "user_data was passed without pfn_notify")
    require(parts, cl.INVALID_VALUE, "clLinkProgram: the list of programs is empty, expected one or more")
    require(devices is None or devices, cl.INVALID_VALUE, "device_list has no devices, expected NULL or devices")
    assert parts is not None
    option_text = (options or b"").decode("utf-8", "replace")
    try:
        linking = opencl_link_options(option_text)
    except SoftcardError as error:
        raise OpenClError(cl.INVALID_LINKER_OPTIONS, str(error)) from None
    for each in devices or ():
        context.device(each)
    linkable = (cl.PROGRAM_BINARY_TYPE_COMPILED_OBJECT, cl.PROGRAM_BINARY_TYPE_LIBRARY)
    chosen = [
        device
        for device in devices or context.devices
        if all(device in each.builds and each.builds[device].type in linkable for each in parts)
    ]
    require(chosen, cl.INVALID_OPERATION, "no device has compiled objects of all programs: compile them first")
    made = Program(context, call.made, chosen)

    def make(device: Device) -> tuple[int, bytes]:
        codes = [bitcode_of(each.builds[device].binary) for each in parts]
        if linking.is_library:
            library = link_opencl_library(codes, device.agent)
            return cl.PROGRAM_BINARY_TYPE_LIBRARY, wrapped(library, cl.PROGRAM_BINARY_TYPE_LIBRARY)
        return cl.PROGRAM_BINARY_TYPE_EXECUTABLE, link_opencl(codes, device.agent, options=linking.words)

    call.proceed()
    if notify[0]:
        call.platform.add(made)  # before the callback can use it
        _run(call, made, chosen, notify, 0, lambda: _each(made, chosen, option_text, make))
        return Made(made)
    is_right = _each(made, chosen, option_text, make)
    return Made(made, int(not is_right), cl.SUCCESS if is_right else cl.LINK_PROGRAM_FAILURE)


# ---- queries ---------------------------------------------------------------------------------------------------------


@entry("clGetProgramInfo")
def get_program_info(call: Call, program: Program, name: int) -> bytes:
    """Answer a query of a program. The binaries follow one another, each after its size."""
    binaries = [program.builds[each].binary for each in program.devices]

    def names() -> list[str]:
        return sorted(program.any_executable().kernels)

    return query(
        name,
        {
            cl.PROGRAM_CONTEXT: lambda: u64(program.context.handle),
            cl.PROGRAM_NUM_DEVICES: lambda: u32(len(program.devices)),
            cl.PROGRAM_DEVICES: lambda: u64(*(each.handle for each in program.devices)),
            cl.PROGRAM_SOURCE: lambda: text(program.source),
            cl.PROGRAM_IL: lambda: b"",
            cl.PROGRAM_BINARY_SIZES: lambda: u64(*map(len, binaries)),
            cl.PROGRAM_BINARIES: lambda: b"".join(u64(len(each)) + each for each in binaries),
            cl.PROGRAM_NUM_KERNELS: lambda: u64(len(names())),
            cl.PROGRAM_KERNEL_NAMES: lambda: text(";".join(names())),
            cl.PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT: lambda: u32(0),
            cl.PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT: lambda: u32(0),
        },
        "clGetProgramInfo",
    )


@entry("clGetProgramBuildInfo")
def get_program_build_info(call: Call, program: Program, device: Device, name: int) -> bytes:
    """Answer a query about building a program for a device."""
    build = program.builds.get(device)
    if build is None:
        raise OpenClError(cl.INVALID_DEVICE, f"device {device.agent} is not one of the program's")
    found = build
    return query(
        name,
        {
            cl.PROGRAM_BUILD_STATUS: lambda: u32(found.status),
            cl.PROGRAM_BUILD_OPTIONS: lambda: text(found.options),
            cl.PROGRAM_BUILD_LOG: lambda: text(found.log),
            cl.PROGRAM_BINARY_TYPE: lambda: u32(found.type),
            cl.PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE: lambda: u64(0),
        },
        "clGetProgramBuildInfo",
    )


def file_with(source: bytes, folder: Path, words: Sequence[str] = ()) -> tuple[str, int]:
    """Return the path of the file that has a source, and the number of its first line there; "" and 0 if none is found.

    The source is a whole file with the suffix .cl in `folder` or its subfolders, or a part of a script: of one in
    `words`, the program's command line, or of one in the folders. The path is relative to `folder`.
    """
    file_count, source = 0, _ADDED_BY_PYOPENCL.sub(b"", source)
    scripts = [path for each in words if (path := folder / each).suffix in SCRIPT_SUFFIXES]
    for path in (*scripts, *_files(folder, (SOURCE_SUFFIX, *SCRIPT_SUFFIXES))):
        file_count += 1
        if file_count > MOST_FILES:
            break
        try:
            size = path.stat().st_size
            if size == len(source) or (path.suffix in SCRIPT_SUFFIXES and len(source) < size <= MOST_SCRIPT_BYTES):
                before, found, _ = path.read_bytes().partition(source)
                if found:
                    name = path.relative_to(folder) if path.is_relative_to(folder) else path
                    return str(name), 1 + before.count(b"\n")
        except OSError:
            continue
    return "", 0


def _files(folder: Path, suffixes: Sequence[str]) -> Iterator[Path]:
    """Yield the files with certain suffixes in a folder and in two levels of subfolders."""
    for levels in ("", "*/", "*/*/"):
        for suffix in suffixes:
            with suppress(OSError):
                yield from folder.glob(f"{levels}*{suffix}")
