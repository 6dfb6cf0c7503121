"""Compilation of OpenCL C and HIP to code objects, by the clang in ziglang (extra `kernels`) or an installed one.

These compilers come without an OpenCL library, so Softcard's own headers are included before the source:
``softcard/data/opencl.h``, and one for each subject in ``softcard/data/opencl``. Results are cached in the folder in
which the engines cache translated code.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from softcard.core.errors import BeyondModel, WireError
from softcard.host.compiling import Clang, CompileError, NoCompiler, clangs, run
from softcard.host.hsa.opencl_c import (
    DEFAULT_STANDARD,
    BuildOptionError,
    LinkOptions,
    SourceOptions,
    arithmetic_options,
    check_headers,
    feature_options,
    header_for,
    opencl_link_options,
    opencl_options,
    sorted_options,
    standard_of,
    with_absolute_paths,
)
from softcard.host.hsa.precompiled import precompiled_header
from softcard.image.hsa import targets
from softcard.ir.object_cache import ObjectCache, default_folder

__all__ = [
    "COMPILERS",
    "DEFAULT_VERSION",
    "HIP_SOURCE",
    "LINE_TABLES",
    "SOURCE",
    "VERSIONS",
    "BuildOptionError",
    "Compiler",
    "LinkOptions",
    "compile_hip",
    "compile_opencl",
    "compile_opencl_bitcode",
    "compilers",
    "default_version",
    "link_opencl",
    "link_opencl_library",
    "opencl_link_options",
    "opencl_options",
    "text_of_file",
]

VERSIONS: Final = {"V2": 2, "V3": 3, "V4": 4, "V5": 5, "V6": 6}
DEFAULT_VERSION: Final = "V5"
"""The newest code object version that all supported compilers can write."""
WITHOUT_APERTURES: Final = "V4"
"""The default code object version for GFX7 and GFX8, which lack registers with the bases of LDS and private memory.

On these generations, functions that are not kernels need the bases to turn a private or local pointer into a generic
one. In code objects V5 and V6, every LLVM from 15 to 22 generates code that reads the bases from address 0xc0, as if
the pointer to them were null. In V4 the code reads them from the queue.
"""
_VERSION_OPTION: Final = re.compile(r"-mcode-object-version=(\w*)")
_CASTS: Final = re.compile(
    r"\baddrspacecast \(?[^\n]*\baddrspace\((?:3|5)\)[^\n]* to (?!ptr addrspace\(|[^\n]* addrspace\()"
    r"|@llvm\.amdgcn\.is\.(?:shared|private)\b"
)
"""A pattern of operations in LLVM IR text that need the base of LDS or private memory."""
_FUNCTION: Final = re.compile(r'@("[^"]+"|[\w$.]+)\(')
_KERNEL_BODY: Final = "__clang_ocl_kern_imp_"
"""The prefix of the name of the function that LLVM 22 and later make from the body of an OpenCL kernel.

The kernel calls this function, or has it inlined.
"""
PROCESSORS: Final = {"gfx800": "gfx802", "gfx804": "gfx803", "gfx901": "gfx900:xnack+"}
"""The names by which compilers know processors that they do not list.

For each processor, the name is that of another one with the same instructions.
"""
_TYPED_POINTERS: Final = ("-Xclang", "-no-opaque-pointers")
"""Options for clang 15, which drops calls of printf if pointers are opaque."""
SOURCE: Final = "kernel.cl"
"""The name of the source in diagnostics."""
_WITHOUT_FOLDER: Final = "-fdebug-compilation-dir=."
"""The option that keeps the name of the temporary folder out of debug information."""
LINE_TABLES: Final = ("-gline-tables-only", _WITHOUT_FOLDER)
"""Options for line tables that contain file names as the user gave them."""
HIP_SOURCE: Final = "kernel.hip"
_HIP: Final = "hip"
"""The name of the folder that contains ``hip/hip_runtime.h``."""
_OF_HOSTS: Final = re.compile(r"^\s*#\s*include\s*<(?!hip/hip_runtime\.h>)|\bhip[A-Z]\w*\s*\(|<<<", re.MULTILINE)
"""A pattern of code that occurs in host programs, but not in kernels."""
_NO_HOSTS: Final = (
    "kernels are compiled without the standard library and HIP's host calls: move them to their own file, or "
    "compile the file with hipcc, by --genco --offload-arch={0} for its kernels, or as a program for `softcard exec`"
)
_WARNED_OF: Final = (
    "-Wno-error=incompatible-pointer-types", "-Wno-error=int-conversion", "-Wno-error=implicit-int",
)  # fmt: skip
"""Options that turn errors of newer compilers into warnings.

OpenCL C compilers up to clang 14 only warn about these mistakes.
"""
_GNU_INLINE: Final = "-fgnu89-inline"
"""The option that emits the definition of each `inline` function, except `extern inline` ones.

C99 emits only the latter.
"""
_UNDEFINED: Final = re.compile(r"undefined (?:\w+ )?symbol: (\w+)")
_HEADER: Final = "opencl.h"
_PARTS: Final = "opencl"
"""The name of the folder with the headers that the main header includes."""
_LINKED: Final = "linked.c"
"""The name of a C file with functions that OpenCL C cannot express, linked with every source as bitcode."""
_LINKED_ATOMICS: Final = "linked.cl"
"""The name of a file with functions that OpenCL C before 2.0 cannot express.

They are linked with sources of these versions.
"""
_MACROS: Final = "macros.h"
"""The name of the file with the macros of the options -D and -U, which is included after the main header."""
_PRECOMPILED: Final = "softcard.pch"
"""The name of the file with the precompiled form of the main header."""
_EMBEDDED: Final = "headers"
"""The name of the folder of embedded headers beside the source."""
_INCLUDES: Final = "includes.d"
"""The name of the file to which clang writes the names of included files."""
_LISTING: Final = ("-Xclang", "-dependency-file", "-Xclang", _INCLUDES, "-Xclang", "-MT", "-Xclang", "kernel")
"""Options that make clang write the file; clang's driver ignores those of its own for HIP."""
_PATHS: Final = b"["
"""The first byte of a list of paths in the cache, which differs from that of objects."""
_C99_INLINE: Final = re.compile(r"\binline\b")
_BITCODE: Final = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
"""The first bytes of LLVM bitcode, without and with a wrapper."""


def text_of_file(path: str | Path, data: bytes) -> str:
    """Return the text of a source file, preceded by a #line directive with the file's name.

    Diagnostics and findings then name the file's lines.
    """
    name = os.fsencode(path).decode("utf-8", "replace")
    return f"#line 1 {json.dumps(name, ensure_ascii=False)}\n{data.decode('utf-8', 'replace')}"


@dataclass(frozen=True, slots=True)
class Compiler:
    """A clang with the AMDGPU target and its linker, as commands.

    `identity` is a text that changes when either program is replaced. `versions` are the code object versions
    that the clang can write."""

    name: str
    clang: tuple[str, ...]
    linker: tuple[str, ...]
    identity: str
    versions: tuple[str, ...]


def compilers() -> tuple[Compiler, ...]:
    """Return the compilers of this machine that can compile OpenCL C; the first is the default of `compile_opencl`."""
    return tuple(_writing(each) for each in clangs())


def _writing(clang: Clang) -> Compiler:
    """Return a clang as a `Compiler`, with the code object versions that it can write."""
    first = 4 if clang.number == 0 or clang.number >= 18 else 2
    last = 5 if 0 < clang.number < 19 else 6
    versions = tuple(f"V{n}" for n in range(first, last + 1))
    command = (*clang.clang, *_TYPED_POINTERS) if clang.number == 15 else clang.clang
    return Compiler(clang.name, command, clang.linker, clang.identity, versions)


def compile_opencl(
    source: str,
    processor: str,
    *,
    options: Sequence[str] = (),
    version: str | None = None,
    headers: Mapping[str, str] | None = None,
    compiler: Compiler | None = None,
) -> bytes:
    """Return the linked code object of OpenCL C source for a processor such as ``gfx900``.

    `options` are passed to clang after Softcard's own options (-O2 and -cl-std=CL2.0 among them). `version` is the
    code object version; by default it is taken from an option ``-mcode-object-version``, else from `default_version`.
    `headers` are the texts of embedded headers, by the name with which the source includes them. Raise `CompileError`
    with the diagnostics if the source is wrong, and `NoCompiler` if a compiler was not found. Raise `BeyondModel` for a
    version that the compiler cannot write, or for which it writes wrong code.
    """
    unit = _unit(source, processor, options, version, headers)
    chosen = _chosen(unit.version, compiler)
    what = [*unit.words(), *_checked(processor, unit.version)]
    return _cached_with_includes(chosen, what, lambda library: _compiled(chosen, unit, library))


def compile_opencl_bitcode(
    source: str,
    processor: str,
    *,
    options: Sequence[str] = (),
    version: str | None = None,
    headers: Mapping[str, str] | None = None,
    compiler: Compiler | None = None,
) -> bytes:
    """Return the LLVM bitcode of one translation unit of OpenCL C, for `link_opencl` and `link_opencl_library`.

    The bitcode is not optimised: linking does that. Arguments and errors are those of `compile_opencl`."""
    unit = _unit(source, processor, options, version, headers)
    chosen = _chosen(unit.version, compiler)
    what = ["bitcode", *unit.words()]
    return _cached_with_includes(chosen, what, lambda library: _bitcode_of(chosen, unit, library))


def link_opencl(
    parts: Sequence[bytes],
    processor: str,
    *,
    options: Sequence[str] = (),
    version: str | None = None,
    compiler: Compiler | None = None,
) -> bytes:
    """Return the code object of parts that `compile_opencl_bitcode` or `link_opencl_library` returned.

    The parts must be of one processor and compiler. `options` are passed to clang after Softcard's own options (-O2
    among them). Raise `CompileError` if two parts define one symbol, or if no part defines a symbol that one of them
    uses. Raise `WireError` if a part is not bitcode. Other arguments and errors are those of `compile_opencl`."""
    version, words = _version(processor, version, options)
    chosen = _chosen(version, compiler)
    what = ["link", *_options(processor, version), *words, *_digests(parts), *_checked(processor, version)]
    return _cached(chosen, what, lambda library: _linked(chosen, parts, processor, version, words, library))


def link_opencl_library(
    parts: Sequence[bytes],
    processor: str,
    *,
    options: Sequence[str] = (),
    version: str | None = None,
    compiler: Compiler | None = None,
) -> bytes:
    """Return the LLVM bitcode of all parts, which may lack symbols, for a later `link_opencl`.

    Arguments and errors are those of `link_opencl`."""
    version, words = _version(processor, version, options)
    chosen = _chosen(version, compiler)
    base = _options(processor, version)
    what = ["library", *base, *words, *_digests(parts)]

    def make(library: Path) -> bytes:
        with tempfile.TemporaryDirectory(prefix="softcard-") as folder:
            ir = [*base, *words, *_inputs(parts, folder), "-Xclang", "-disable-llvm-passes"]
            run([*chosen.clang, *ir, "-emit-llvm", "-c", "-o", "library.bc"], folder, chosen.name)
            return Path(folder, "library.bc").read_bytes()

    return _cached(chosen, what, make)


def compile_hip(
    source: str,
    processor: str,
    *,
    options: Sequence[str] = (),
    version: str | None = None,
    compiler: Compiler | None = None,
) -> bytes:
    """Return the linked code object of the kernels of HIP source; host code is not compiled.

    The header ``hip/hip_runtime.h`` is Softcard's own. Arguments and errors are those of `compile_opencl`.
    """
    version, options = _version(processor, version, options)
    options = with_absolute_paths(options)
    chosen = _chosen(version, compiler)
    words = _options(processor, version)
    what = ["HIP", source, *words, *options, *_checked(processor, version)]
    try:
        return _cached_with_includes(
            chosen, what, lambda library: _compiled_hip(chosen, source, processor, version, options, library)
        )
    except CompileError as error:
        if not _OF_HOSTS.search(source):
            raise
        raise CompileError(f"{error.message}\n{_NO_HOSTS.format(processor)}") from None


COMPILERS: Final = {".cl": compile_opencl, ".hip": compile_hip}
"""The compile function for each suffix of a source file."""


def default_version(processor: str) -> str:
    """Return the default code object version for a processor."""
    return DEFAULT_VERSION if _has_apertures(processor) else WITHOUT_APERTURES


def _has_apertures(processor: str) -> bool:
    """Return True if the processor has registers with the bases of LDS and private memory.

    GFX7 and GFX8 lack them.
    """
    return not processor.startswith(("gfx7", "gfx8"))


def _version(processor: str, version: str | None, options: Sequence[str]) -> tuple[str, list[str]]:
    """Return the code object version to write, and `options` without ``-mcode-object-version``.

    That option selects the version; otherwise it is `version`, or the processor's default. Raise `WireError` if
    option and `version` differ."""
    targets.check_processor(processor)
    rest = [option for option in options if not _VERSION_OPTION.fullmatch(option)]
    asked = [found[1] for option in options if (found := _VERSION_OPTION.fullmatch(option))]
    if not asked:
        return version or default_version(processor), rest
    wanted = f"V{asked[-1]}"
    if version is not None and version != wanted:
        raise WireError(
            f"version {version} and the option -mcode-object-version={asked[-1]} differ: give only one of them"
        )
    return wanted, rest


def _loses_apertures(processor: str, version: str) -> bool:
    """Return True if compiled functions other than kernels would read the aperture bases from an address near 0.

    The aperture bases are those of LDS and private memory. See `WITHOUT_APERTURES`."""
    return not _has_apertures(processor) and VERSIONS[version] >= 5


def _checked(processor: str, version: str) -> tuple[str, ...]:
    """Return words to add to the cache key of an object compiled for `processor` as code object `version`.

    If `_check_apertures` checks such objects, the words distinguish the key from those of objects that were
    cached before that check existed. Otherwise the result is empty."""
    return ("apertures",) if _loses_apertures(processor, version) else ()


def _check_apertures(processor: str, version: str, name: str, code: str) -> None:
    """Raise `BeyondModel` if a function in LLVM IR would read the aperture bases from address 0.

    `code` is the LLVM IR as text, and `name` the compiler's name in messages. Only functions that are called
    are checked: kernels get the bases from hidden arguments, and so do functions that are inlined into kernels.
    The aperture bases are those of LDS and private memory."""
    for function in code.split("\ndefine ")[1:]:
        head, _, body = function.partition("\n}")[0].partition("\n")
        found = _FUNCTION.search(head)
        if "amdgpu_kernel " in head or found is None or not _CASTS.search(body):
            continue
        called = f"@{found[1]}"
        if code.count(called) == 1 + body.count(called):
            continue  # the function is inlined in its callers
        raise BeyondModel(
            f"{name} miscompiles {found[1].removeprefix(_KERNEL_BODY)} in code objects {version} for "
            f"{processor}: it takes the base of LDS or private memory from address 0, expected from the kernel's "
            f"hidden arguments; compile with {WITHOUT_APERTURES} "
            f"(-mcode-object-version={VERSIONS[WITHOUT_APERTURES]}), the default for {processor}"
        )


def _chosen(version: str, compiler: Compiler | None) -> Compiler:
    found = compiler or _any(version)
    if version not in found.versions:
        raise BeyondModel(f"{found.name} writes code objects {', '.join(found.versions)}, not {version}")
    return found


def _cached(compiler: Compiler, what: Sequence[str], make: Callable[[Path], bytes]) -> bytes:
    """Return a compiled object from the cache; if it is not cached, call `make` and cache its result.

    The cache key consists of `compiler`, the headers, and `what`, the words that identify the source and the
    options. The argument of `make` is the folder of the headers."""
    key, cache = _key(compiler, what), _cache()
    image = cache.get(key)
    if image is None:
        with as_file(files("softcard").joinpath("data")) as library:
            image = make(library)
        cache.put(key, image)
    return image


def _key(compiler: Compiler, what: Sequence[str]) -> str:
    """Return the cache key of an object that `compiler` makes; the words `what` identify source and options."""
    text = "\0".join([compiler.identity, *compiler.clang, _library_identity(), *what])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _cached_with_includes(
    compiler: Compiler, what: Sequence[str], make: Callable[[Path], tuple[bytes, list[str]]]
) -> bytes:
    """Return a compiled object as `_cached` does, unless a file that its source includes has changed.

    `make` returns the object and the paths of these files. For an object with such files, the cache has their paths,
    and the object by a key that also depends on their content."""
    key, cache = _key(compiler, what), _cache()
    image = cache.get(key)
    if image is not None and image.startswith(_PATHS):
        image = cache.get(_key_with_files(key, json.loads(image)))
    if image is None:
        with as_file(files("softcard").joinpath("data")) as library:
            image, paths = make(library)
        cache.put_all({key: json.dumps(paths).encode(), _key_with_files(key, paths): image} if paths else {key: image})
    return image


def _key_with_files(key: str, paths: Sequence[str]) -> str:
    """Return a cache key that depends on `key` and the content of files."""
    digest = hashlib.sha256(key.encode())
    for path in paths:
        try:
            digest.update(hashlib.sha256(Path(path).read_bytes()).digest())
        except OSError:
            digest.update(b"missing")
    return digest.hexdigest()


def _included(folder: str, library: Path) -> list[str]:
    """Return the absolute paths of the files that a source in `folder` included, without those of `library`."""
    text = Path(folder, _INCLUDES).read_text("utf-8", "surrogateescape").replace("\\\n", " ")
    words = re.findall(r"(?:\\.|[^\s\\])+", text.partition(": ")[2])
    paths = {re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in words}
    own = (library, Path(folder))
    return sorted(path for path in paths if os.path.isabs(path) and not any(map(Path(path).is_relative_to, own)))


@cache
def _library_identity() -> str:
    """Return a hash that changes when one of the headers for OpenCL C or HIP does."""
    data = files("softcard").joinpath("data")
    folders = data.joinpath(_PARTS), data.joinpath(_HIP, "hip")
    parts = [data.joinpath(_HEADER), *(part for each in folders for part in sorted(each.iterdir(), key=str))]
    return hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()


@cache
def _cache() -> ObjectCache:
    folder = default_folder()
    return ObjectCache(None if folder is None else folder.with_name("objects"), limit_bytes=64 << 20)


def _any(version: str) -> Compiler:
    """Return the first compiler that can write code object version `version`; if none can, the first compiler.

    Raise `WireError` for an unknown version, and `NoCompiler` if there is no compiler."""
    if version not in VERSIONS:
        raise WireError(f"unknown code object version {version!r}, expected one of {', '.join(VERSIONS)}")
    found = compilers()
    if not found:
        raise NoCompiler(
            "no compiler for OpenCL C was found: pip install 'softcard[kernels]', or install clang and lld 15+"
        )
    return next((each for each in found if version in each.versions), found[0])


def _options(processor: str, version: str) -> list[str]:
    number = VERSIONS[version]
    return [
        "-target", "amdgcn-amd-amdhsa", f"-mcpu={PROCESSORS.get(processor, processor)}", "-nogpulib",
        "-O2", f"-mcode-object-version={number}",
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Unit:
    """A translation unit of OpenCL C: its source, and all inputs of the compilation except the compiler."""

    source: str
    processor: str
    version: str
    options: SourceOptions
    headers: Mapping[str, str]
    is_part: bool = False
    """True for a unit that is linked with others."""

    def words(self) -> list[str]:
        """Return the words that identify the unit in the cache."""
        embedded = [word for name in sorted(self.headers) for word in ("header", name, self.headers[name])]
        option_words = [*self.options.rest, "macros", self.options.macros, *self.options.includes]
        return [self.source, *_options(self.processor, self.version), *option_words, *embedded]


def _unit(
    source: str, processor: str, options: Sequence[str], version: str | None, headers: Mapping[str, str] | None
) -> _Unit:
    version, words = _version(processor, version, options)
    check_headers(headers or {})
    return _Unit(source, processor, version, sorted_options(words), dict(headers or {}))


@dataclass(frozen=True, slots=True)
class _Workplace:
    """A folder in which a unit is compiled: with its source, its embedded headers, and a file of its macros.

    `words` are clang's arguments for the unit, without headers, input and output. `header` is the path of Softcard's
    header, and `includes` are the arguments for all other headers. `is_precompiled` is True if the folder has the
    precompiled form of `header`."""

    compiler: Compiler
    folder: str
    words: tuple[str, ...]
    header: str
    includes: tuple[str, ...]
    is_precompiled: bool

    def compile(self, output: str, *more: str) -> None:
        """Compile the source to the file `output`; `more` are further arguments for clang.

        If clang refuses the source with the precompiled header, the header itself decides, and the diagnostics are
        those of this second run."""
        if self.is_precompiled:
            try:
                self._run(output, *more, "-include-pch", _PRECOMPILED)
            except CompileError:
                pass
            else:
                return
        self._run(output, *more, "-include", self.header)

    def _run(self, output: str, *more: str) -> None:
        words = [*self.compiler.clang, *self.words, *more, *self.includes, *_LISTING, SOURCE, "-o", output]
        run(words, self.folder, self.compiler.name)


def _workplace(compiler: Compiler, unit: _Unit, library: Path, folder: str) -> _Workplace:
    """Write the files of a unit to `folder`, and return it; `library` is the folder of Softcard's headers."""
    unit_options = unit.options
    Path(folder, SOURCE).write_text(unit.source, "utf-8")
    Path(folder, _MACROS).write_text(unit_options.macros, "utf-8")
    for name, text in unit.headers.items():
        path = Path(folder, _EMBEDDED, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    base = [
        *_options(unit.processor, unit.version), "-x", "cl", f"-cl-std={DEFAULT_STANDARD}", "-cl-no-stdinc",
        f"-D__SOFTCARD_CODE_OBJECT__={VERSIONS[unit.version]}", *(["-D__SOFTCARD_PART__"] if unit.is_part else []),
        *_WARNED_OF, _WITHOUT_FOLDER, "-fno-crash-diagnostics", *feature_options(unit_options.rest),
        *arithmetic_options(unit_options.rest), *unit_options.rest,
    ]  # fmt: skip
    embedded = ("-I", _EMBEDDED) if unit.headers else ()
    includes = ("-include", _MACROS, *embedded, *unit_options.includes)
    header, found = header_for(unit_options.rest, library / _HEADER, folder), None
    if header == library / _HEADER:
        identity = [compiler.identity, _library_identity()]
        found = precompiled_header(compiler.clang, compiler.name, identity, base, header)
    if found is not None:
        Path(folder, _PRECOMPILED).write_bytes(found)
    return _Workplace(compiler, folder, tuple(base), str(header), includes, found is not None)


def _compiled(compiler: Compiler, unit: _Unit, library: Path) -> tuple[bytes, list[str]]:
    """Return the code object of a unit, and the paths of the files that it includes."""
    with tempfile.TemporaryDirectory(prefix="softcard-") as folder:
        place = _workplace(compiler, unit, library, folder)
        linked = _builtins(compiler, _options(unit.processor, unit.version), standard_of(unit.options.rest), folder)
        if _loses_apertures(unit.processor, unit.version):
            place.compile("kernel.ll", *linked, "-S", "-emit-llvm")
            text = Path(folder, "kernel.ll").read_text("utf-8", "replace")
            _check_apertures(unit.processor, unit.version, compiler.name, text)
        place.compile("kernel.o", *linked, "-c")
        try:
            _link(compiler, folder)
        except CompileError as error:
            missing = _UNDEFINED.findall(error.message)
            if not any(re.search(rf"\binline\b[^;{{}}]*\b{name}\s*\(", unit.source) for name in missing):
                raise
            place.compile("kernel.o", *linked, "-c", _GNU_INLINE)
            try:
                _link(compiler, folder)
            except CompileError:
                raise error from None
        return Path(folder, "kernel.co").read_bytes(), _included(folder, library)


def _builtins(compiler: Compiler, words: Sequence[str], standard: int, folder: str) -> list[str]:
    """Write the bitcode of Softcard's built-in functions to `folder`; return the options that link it.

    `words` are the arguments for clang, and `standard` the lowest version of OpenCL C of the sources."""
    names = [_LINKED, *([_LINKED_ATOMICS] if standard < 200 else [])]
    options: list[str] = []
    for name in names:
        bitcode = _cached(compiler, [name, *words], partial(_bitcode, compiler, name, words))
        Path(folder, f"{name}.bc").write_bytes(bitcode)
        options += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", f"{name}.bc"]
    return options


def _bitcode_of(compiler: Compiler, unit: _Unit, library: Path) -> tuple[bytes, list[str]]:
    """Return the bitcode of a unit, which is not optimised, and the paths of the files that it includes.

    Functions that C99 calls inline get the linkage of C++'s: a part that does not inline them emits them, and linking
    drops copies."""
    whole = ("-Xclang", "-disable-llvm-passes", "-emit-llvm")
    unit = replace(unit, is_part=True)
    with tempfile.TemporaryDirectory(prefix="softcard-") as folder:
        if not any(_C99_INLINE.search(text) for text in (unit.source, *unit.headers.values())):
            _workplace(compiler, unit, library, folder).compile("kernel.bc", *whole, "-c")
        else:
            # -O0 would omit the bodies of these functions.
            rest = tuple("-O1" if word == "-O0" else word for word in unit.options.rest)
            unit = replace(unit, options=replace(unit.options, rest=rest))
            _workplace(compiler, unit, library, folder).compile("kernel.ll", *whole, "-S")
            path = Path(folder, "kernel.ll")
            text = path.read_text("utf-8", "surrogateescape")
            text = re.sub(r"^define available_externally\b", "define linkonce_odr", text, flags=re.MULTILINE)
            path.write_text(text, "utf-8", "surrogateescape")
            base = _options(unit.processor, unit.version)
            ir = [*compiler.clang, *base, "-x", "ir", *whole, "-c", "kernel.ll", "-o", "kernel.bc"]
            run(ir, folder, compiler.name)
        return Path(folder, "kernel.bc").read_bytes(), _included(folder, library)


def _digests(parts: Sequence[bytes]) -> list[str]:
    """Return a digest of each part; raise `WireError` if `parts` is empty or a part is not bitcode."""
    if not parts:
        raise WireError("the list of parts to link is empty, expected one part or more")
    for number, part in enumerate(parts):
        if not part.startswith(_BITCODE):
            raise WireError(f"part {number} of a link is not LLVM bitcode, expected a result of compile_opencl_bitcode")
    return [hashlib.sha256(part).hexdigest() for part in parts]


def _inputs(parts: Sequence[bytes], folder: str) -> list[str]:
    """Write the parts of a link to `folder`; return the arguments that make clang add them to an empty module.

    Clang up to version 16 ignores such parts if its input is bitcode."""
    others: list[str] = []
    for number, part in enumerate(parts):
        Path(folder, f"part{number}.bc").write_bytes(part)
        others += ["-Xclang", "-mlink-bitcode-file", "-Xclang", f"part{number}.bc"]
    Path(folder, "empty.c").touch()
    return ["-x", "c", *others, "empty.c"]


def _linked(
    compiler: Compiler, parts: Sequence[bytes], processor: str, version: str, words: Sequence[str], library: Path
) -> bytes:
    """Return the code object of the parts of a link; `words` are the user's options for clang."""
    base = _options(processor, version)
    with tempfile.TemporaryDirectory(prefix="softcard-") as folder:
        builtins = _builtins(compiler, base, 0, folder)
        # After the parts: each built-in function becomes internal when it is linked, and later parts do not find it.
        ir = [*compiler.clang, *base, *words, *_inputs(parts, folder), *builtins]
        if _loses_apertures(processor, version):
            run([*ir, "-S", "-emit-llvm", "-o", "kernel.ll"], folder, compiler.name)
            text = Path(folder, "kernel.ll").read_text("utf-8", "replace")
            _check_apertures(processor, version, compiler.name, text)
        run([*ir, "-c", "-o", "kernel.o"], folder, compiler.name)
        _link(compiler, folder)
        return Path(folder, "kernel.co").read_bytes()


def _link(compiler: Compiler, folder: str) -> None:
    """Link the object file kernel.o in `folder` to the code object kernel.co."""
    run([*compiler.linker, "-shared", "kernel.o", "-o", "kernel.co"], folder, compiler.name)


def _compiled_hip(
    compiler: Compiler, source: str, processor: str, version: str, options: Sequence[str], library: Path
) -> tuple[bytes, list[str]]:
    """Compile HIP to LLVM IR text and the text to an object file.

    Return the linked code object, and the paths of the files that the source includes.

    Two clang drivers are needed: only the one for HIP removes host code, and only the one for OpenCL C works
    without HIP's linker."""
    number, folder_of_header = VERSIONS[version], str(library / _HIP)
    with tempfile.TemporaryDirectory(prefix="softcard-") as folder:
        Path(folder, HIP_SOURCE).write_text(source, "utf-8")
        hip = [
            "-x", "hip", "--cuda-device-only", f"--offload-arch={PROCESSORS.get(processor, processor)}", "-nogpuinc",
            "-nogpulib", "-std=c++17", "-O2", f"-mcode-object-version={number}", "--no-gpu-bundle-output", "-emit-llvm",
            "-Xclang", "-fcuda-allow-variadic-functions", f"-D__SOFTCARD_CODE_OBJECT__={number}",
            "-I", folder_of_header, "-include", "hip/hip_runtime.h", *options,
        ]  # fmt: skip
        run([*compiler.clang, *hip, *_LISTING, "-S", HIP_SOURCE, "-o", "kernel.ll"], folder, compiler.name)
        if _loses_apertures(processor, version):
            _check_apertures(processor, version, compiler.name, Path(folder, "kernel.ll").read_text("utf-8", "replace"))
        words = _options(processor, version)
        run([*compiler.clang, *words, "-x", "ir", "-c", "kernel.ll", "-o", "kernel.o"], folder, compiler.name)
        _link(compiler, folder)
        return Path(folder, "kernel.co").read_bytes(), _included(folder, library)


def _bitcode(compiler: Compiler, name: str, words: Sequence[str], library: Path) -> bytes:
    """Return the LLVM bitcode of a file of Softcard's functions that are linked with OpenCL C sources.

    `words` are the arguments for clang, and `library` is the folder that contains the headers."""
    language = ("-x", "cl", f"-cl-std={DEFAULT_STANDARD}", "-cl-no-stdinc") if name.endswith(".cl") else ("-x", "c")
    part = str(library / _PARTS / name)
    with tempfile.TemporaryDirectory(prefix="softcard-") as folder:
        run([*compiler.clang, *words, *language, "-c", "-emit-llvm", part, "-o", "linked.bc"], folder, compiler.name)
        return Path(folder, "linked.bc").read_bytes()
