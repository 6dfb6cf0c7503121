"""Options of OpenCL C: those of a host's build call, and those that a compiler gets for them."""

from __future__ import annotations

import os
import re
import shlex
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from softcard.core.errors import WireError

STANDARDS: Final = {
    "CL1.0": 100, "CL1.1": 110, "CL1.2": 120, "CL2.0": 200, "CL3.0": 300,
    "CLC++": 200, "CLC++1.0": 200, "CLC++2021": 300,
}  # fmt: skip
"""The values of the option ``-cl-std``, each with the version of OpenCL C whose functions the standard has."""
DEFAULT_STANDARD: Final = "CL2.0"
"""The standard of a source that is compiled without the option ``-cl-std``."""
BUILD_STANDARD: Final = "CL1.2"
"""The standard of a host's build call without the option: OpenCL 3.0, section 5.8.6.5."""
_STANDARD: Final = re.compile(r"-(?:cl-)?std=(.*)")
_FEATURES: Final = (
    "+__opencl_c_generic_address_space", "+__opencl_c_program_scope_global_variables", "+__opencl_c_read_write_images",
    "+__opencl_c_subgroups", "-__opencl_c_pipes", "-__opencl_c_device_enqueue",
)  # fmt: skip
"""Optional features of OpenCL C 3.0, for clang: ``+`` before those that Softcard has, ``-`` before the others."""
_ABSENT: Final = ("-cl_khr_mipmap_image", "-cl_khr_mipmap_image_writes")
_EXTENSIONS: Final = ("+cl_khr_depth_images", *_ABSENT)
"""Extensions of OpenCL C 2.0 and 3.0 for clang, in the same form."""

_WITH_VALUE: Final = frozenset({
    "-D", "-U", "-I", "-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-isysroot", "-Xclang", "-mllvm",
    "-Xpreprocessor", "-Xassembler", "-Xlinker", "-MF", "-MT", "-MQ", "-x", "-o", "-target", "-working-directory",
})  # fmt: skip
"""Options of clang whose value is the next word."""
_FOLDERS: Final = ("-isystem", "-iquote", "-idirafter", "-I")
_FILES: Final = ("-include", "-imacros")
_MACRO: Final = re.compile(r"([A-Za-z_$][\w$]*)(\([^)]*\))?(?:=(.*))?", re.DOTALL)


class BuildOptionError(WireError):
    """The error for a build option that is wrong or unknown; `option` is that option."""

    def __init__(self, message: str, option: str = "") -> None:
        super().__init__(message)
        self.option = option


# ---- options for clang -----------------------------------------------------------------------------------------------


def standard_of(options: Sequence[str]) -> int:
    """Return the version of OpenCL C whose functions a source has, such as 120; `options` are those for clang."""
    named = [found[1].upper() for option in options if (found := _STANDARD.fullmatch(option))]
    return STANDARDS.get(named[-1] if named else DEFAULT_STANDARD, STANDARDS[DEFAULT_STANDARD])


def feature_options(options: Sequence[str]) -> list[str]:
    """Return the options that make clang define the features and extensions that Softcard has.

    `options` are the other options for clang, which name the standard."""
    standard = standard_of(options)
    names = (*_FEATURES, *_EXTENSIONS) if standard >= 300 else _EXTENSIONS if standard >= 200 else _ABSENT
    return ["-Xclang", f"-cl-ext={','.join(names)}"]


_REASSOCIATING: Final = frozenset({
    "-cl-unsafe-math-optimizations", "-cl-fast-relaxed-math", "-ffast-math", "-funsafe-math-optimizations",
    "-fassociative-math",
})  # fmt: skip
"""Options that permit compilers to change the order of sums."""
_SINGLE_CONSTANTS: Final = "-cl-single-precision-constant"
_DOUBLE: Final = re.compile(r"(?<![\w.])(?:0x[0-9a-f]*\.?[0-9a-f]*p[+-]?\d+|\d+\.\d+(?:e[+-]?\d+)?)(?![\w.])")
"""A pattern of constants of type double."""
_USERS: Final = "types.h"
"""The header with constants for the user's code, such as M_PI, whose type depends on the user's options."""


def arithmetic_options(options: Sequence[str]) -> list[str]:
    """Return the option that keeps the order of sums in built-in functions if `options` permit other orders."""
    return ["-D__SOFTCARD_REASSOCIATE__"] if any(word in _REASSOCIATING for word in options) else []


def header_for(options: Sequence[str], header: Path, folder: str) -> Path:
    """Return the header of the built-in functions to use with `options`: `header`, or a copy of it in `folder`.

    In the copy, the constants of functions are doubles even if options make constants of the source floats."""
    if _SINGLE_CONSTANTS not in options:
        return header
    for part in (header, *sorted((header.parent / header.stem).glob("*.h"))):
        copy = Path(folder, "library", part.relative_to(header.parent))
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = part.read_text("utf-8")
        copy.write_text(text if part.name == _USERS else _DOUBLE.sub(_bits_of_double, text), "utf-8")
    return Path(folder, "library", header.name)


def _bits_of_double(constant: re.Match[str]) -> str:
    """Return an expression for a double constant that no option makes a float."""
    text = constant[0]
    value = float.fromhex(text) if text.startswith("0x") else float(text)
    return f"__builtin_astype({struct.unpack('<Q', struct.pack('<d', value))[0]:#x}ul, double)"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options for clang, sorted by what they change.

    `macros` is the text of a file with the macros of -D and -U. `includes` name files and folders. `rest` are all
    others, which may change how the headers of the built-in functions are read."""

    macros: str
    includes: tuple[str, ...]
    rest: tuple[str, ...]


def with_absolute_paths(options: Sequence[str]) -> list[str]:
    """Return options for clang with absolute paths of folders and files of headers."""
    return [word for each in _options_of(options) for word in _path_option(*each) or each]


def _options_of(options: Sequence[str]) -> Iterator[list[str]]:
    """Yield each option with its value, if that is the next word."""
    words = iter(options)
    for word in words:
        value = next(words, None) if word in _WITH_VALUE else None
        yield [word] if value is None else [word, value]


def sorted_options(options: Sequence[str]) -> SourceOptions:
    """Return options for clang, sorted by what they change; relative folders and files become absolute."""
    macros: list[str] = []
    includes: list[str] = []
    rest: list[str] = []
    for word, *values in _options_of(options):
        line = _macro(word, *values)
        path = _path_option(word, *values)
        if line is not None:
            macros.append(line)
        elif path is not None:
            includes += path
        else:
            rest += [word, *values]
    text = "".join(f'#line 1 "<command line>"\n{line}\n' for line in macros)
    return SourceOptions(text, tuple(includes), tuple(rest))


def _macro(word: str, value: str = "") -> str | None:
    """Return the preprocessor lines of an option -D or -U; None for other and for malformed options."""
    text = word[2:] or value
    found = _MACRO.fullmatch(text) if word.startswith(("-D", "-U")) else None
    if found is None or text.endswith("\\"):
        return None
    name, parameters, body = found[1], found[2] or "", found[3]
    if word.startswith("-U"):
        return f"#undef {name}" if text == name else None
    first = "1" if body is None else body.partition("\n")[0]
    return f'#undef {name}\n#line 1 "<command line>"\n#define {name}{parameters} {first}'


def _path_option(word: str, value: str = "") -> list[str] | None:
    """Return an option that names a folder or file of headers, with an absolute path; None for other options."""
    for name in _FOLDERS:
        path = value if word == name else word.removeprefix(name) if word.startswith(name) else ""
        if path:
            return [name, os.path.abspath(path)]
    if word in _FILES and value:
        return [word, os.path.abspath(value) if os.path.exists(value) else value]
    return None


# ---- options of a host -----------------------------------------------------------------------------------------------

_PASSED: Final = frozenset({
    "-cl-single-precision-constant", "-cl-denorms-are-zero", "-cl-fp32-correctly-rounded-divide-sqrt",
    "-cl-uniform-work-group-size", "-cl-mad-enable", "-cl-no-signed-zeros", "-cl-unsafe-math-optimizations",
    "-cl-finite-math-only", "-cl-fast-relaxed-math", "-cl-kernel-arg-info", "-w", "-Werror", "-g",
})  # fmt: skip
"""Options of OpenCL that clang knows by the same name."""
_PASSED_PATTERN: Final = re.compile(
    r"-W[a-z0-9][\w+=-]*|-O[0-3sg]|-g(line-tables-only|[0-3]|dwarf(-[2-5])?)|-f(no-)?[a-z][\w=,.-]*|-m[a-z][\w=,.-]*"
)
"""Options of clang that its users pass in a build call: warnings, optimisation, debug information, code generation."""
_IGNORED: Final = re.compile(
    r"-cl-strict-aliasing|-cl-no-subgroup-ifp|-cl-nv-[\w=.-]+|-cl-intel-[\w=.-]+|-ze-[\w=.-]+|-f(no-)?bin-\w+"
    r"|-save-temps(=\S*)?|-O[45]|-Ofast"
)
"""Options that drivers accept and that change no result here."""
_LINKED: Final = frozenset({
    "-cl-denorms-are-zero", "-cl-no-signed-zeros", "-cl-unsafe-math-optimizations", "-cl-finite-math-only",
    "-cl-fast-relaxed-math", "-cl-no-subgroup-ifp",
})  # fmt: skip
"""Options of a link call that the compiled parts already have in their instructions."""


def opencl_options(text: str, folder: str | None = None) -> list[str]:
    """Return the options for clang of the options text of clBuildProgram or clCompileProgram.

    Words are separated by white space, and quotes and backslashes work as in a shell. Without ``-cl-std``, the
    standard is CL1.2. Relative folders of ``-I`` are relative to `folder`, by default the current one. Raise
    `BuildOptionError` for an option that is unknown, incomplete or has a wrong value."""
    words = iter(_words(text))
    found: list[str] = []
    standard = BUILD_STANDARD
    for word in words:
        if word in ("-D", "-U", "-I", "-s", "-x"):
            value = next(words, None)
            if value is None:
                raise BuildOptionError(f"build option {word} has no value, expected one after it", word)
        else:
            value = word[2:]
        if word.startswith(("-D", "-U")):
            _check_macro(word[:2], value)
            found.append(word[:2] + value)
        elif word.startswith("-I"):
            found += ["-I", os.path.join(folder or os.getcwd(), value)]
        elif word == "-x":
            _check_language(value)
        elif word.startswith("-cl-std="):
            standard = _checked_standard(word)
        elif word == "-cl-opt-disable":
            found.append("-O0")
        elif word == "-s" or _IGNORED.fullmatch(word):
            continue
        elif word in _PASSED or _PASSED_PATTERN.fullmatch(word):
            found.append(word)
        else:
            raise _unknown(word, "a build")
    return [f"-cl-std={standard}", *found]


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """The options of clLinkProgram: True for a library in place of an executable, and the options for clang."""

    is_library: bool
    words: tuple[str, ...]


def opencl_link_options(text: str) -> LinkOptions:
    """Return the options text of clLinkProgram as `LinkOptions`.

    Raise `BuildOptionError` for an option that is unknown, and for -enable-link-options without -create-library."""
    words = _words(text)
    is_library = "-create-library" in words
    passed: list[str] = []
    for word in words:
        if word == "-enable-link-options" and not is_library:
            raise BuildOptionError(f"build option {word} requires the option -create-library", word)
        if word in ("-create-library", "-enable-link-options") or word in _LINKED or _IGNORED.fullmatch(word):
            continue
        if not re.fullmatch(r"-O[0-3s]|-cl-opt-disable", word):
            raise _unknown(word, "a link")
        passed.append("-O0" if word == "-cl-opt-disable" else word)
    return LinkOptions(is_library, tuple(passed))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BuildOptionError(f"cannot split the build options {text!r} ({error}): close each quote", text) from None


def _unknown(word: str, call: str) -> BuildOptionError:
    return BuildOptionError(
        f"unknown option {word} of {call} call, expected those of OpenCL 3.0, section 5.8.6 or 5.8.7 (-D, -I, -cl-*, "
        f"-w, -Werror, ...)",
        word,
    )


def _check_macro(option: str, text: str) -> None:
    """Raise `BuildOptionError` if the value of -D or -U does not begin with the name of a macro."""
    if _MACRO.fullmatch(text) is None:
        raise BuildOptionError(
            f"build option {option} has the value {text!r}, expected NAME or NAME=VALUE", f"{option} {text}"
        )


def _check_language(value: str) -> None:
    if value not in ("cl", "clc"):
        raise BuildOptionError(f"build option -x has the value {value}, expected cl or clc", f"-x {value}")


def _checked_standard(option: str) -> str:
    """Return the standard that an option -cl-std names."""
    name = option.removeprefix("-cl-std=")
    if name.upper() not in STANDARDS:
        raise BuildOptionError(f"unknown standard in {option}, expected one of {', '.join(STANDARDS)}", option)
    return name.upper()


# ---- headers of a program --------------------------------------------------------------------------------------------


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise `WireError` if the include name of an embedded header leads out of the folder of headers."""
    for name in headers:
        parts = name.replace("\\", "/").split("/")
        if not name or name.startswith("/") or "\0" in name or any(part in ("", ".", "..") for part in parts):
            raise WireError(
                f"the include name of a header is {name!r}, expected a relative path such as 'common/types.h'"
            )
