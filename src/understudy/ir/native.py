"""Run-time code written once, as restricted Python over 64-bit words: machine code where it is hot, Python elsewhere.

A function under `@native` is compiled when it is first linked (`link`). Called from Python it gives the same result as
Python, slowly. All its values are unsigned words of 64 bits that wrap around. It may use

* parameters, local names, integers, and constants of its module (``STOPPED``, ``Opcode.NOP``, ``sizeof(Row)``),
* ``+ - * & | ^ ~ << >>``, ``// %`` by a constant, comparisons, ``min``, ``max``, ``x if test else y``; in conditions
  also ``and``, ``or``, ``not``; shifts by 64 and more give 0; `signed` words compare and shift right as such,
* ``if``, ``while``, ``for`` over a ``range``, ``break``, ``continue``, ``return`` (a word, or nothing: 0),
* memory of this process: `U8` to `U64`, `V8` to `V64` and `A8` to `A64`, by address or, with ``U32.at(base)[index]``,
  as an array; words of a `layout` by name, where a parameter is annotated with one or a name is given its
  ``from_address``,
* calls of other native functions and of the functions of this module.

Anything else is a `ModelBug` with file and line, when the function is linked or first called.
"""

from __future__ import annotations

import ctypes
import enum
import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

from understudy.core.errors import ModelBug
from understudy.ir import llvm, softfloat
from understudy.ir.native_source import layout_or_none
from understudy.ir.object_cache import ObjectCache, default_folder

P = ParamSpec("P")
S = TypeVar("S", bound=type[ctypes.Structure])


def layout(made: S) -> S:
    """Make a `ctypes.Structure` of 64-bit words, one for each annotated name, in order."""
    made._fields_ = [(name, ctypes.c_uint64) for name in made.__annotations__]
    return made


def numbers(made: Any) -> dict[str, int]:
    """Which word of a layout each name stands for."""
    return {name: number for number, (name, _) in enumerate(made._fields_)}


class View:
    """Memory of this process as words of `bits` bits, unsigned."""

    volatile = False

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.kind: Any = getattr(ctypes, f"c_uint{bits}")

    def __getitem__(self, address: int) -> int:
        return int(self.kind.from_address(address).value)

    def __setitem__(self, address: int, value: int) -> None:
        self.kind.from_address(address).value = value

    def at(self, base: int) -> Array:
        """Words side by side from `base` on."""
        return Array(self, base)


class Array:
    """Words of one view, by number."""

    def __init__(self, view: View, base: int) -> None:
        self.view = view
        self.base = base

    def __getitem__(self, index: int) -> int:
        return self.view[self.base + self.view.bits // 8 * index]

    def __setitem__(self, index: int, value: int) -> None:
        self.view[self.base + self.view.bits // 8 * index] = value


class VolatileView(View):
    """The same, where others read and write at any time: each access is made once, as it is written."""

    volatile = True


class AtomicView:
    """Aligned words that others read and write: sequentially consistent operations, which give the value before."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._view = View(bits)

    def load(self, address: int) -> int:
        """The value."""
        return self._view[address]

    def store(self, address: int, value: int) -> None:
        """Write it."""
        self._view[address] = value

    def release(self, address: int, value: int) -> None:
        """Write it after all that was written before; later reads need not wait for it."""
        self._view[address] = value

    def add(self, address: int, value: int) -> int:
        """Add."""
        return self._rmw(address, lambda old: old + value)

    def sub(self, address: int, value: int) -> int:
        """Subtract."""
        return self._rmw(address, lambda old: old - value)

    def compare_exchange(self, address: int, expected: int, value: int) -> int:
        """Write `value` where `expected` is."""
        kept = (1 << self.bits) - 1
        return self._rmw(address, lambda old: value if old == expected & kept else old)

    def _rmw(self, address: int, change: Callable[[int], int]) -> int:
        old = self._view[address]
        self._view[address] = change(old)
        return old


U8, U16, U32, U64 = map(View, (8, 16, 32, 64))
V8, V16, V32, V64 = map(VolatileView, (8, 16, 32, 64))
A8, A16, A32, A64 = map(AtomicView, (8, 16, 32, 64))


def signed(word: int) -> int:
    """A word as a signed number: only as the side of a comparison (with a constant or another one) or of ``>>``."""
    return (word ^ 1 << 63) - (1 << 63)


def lowest_bit(word: int) -> int:
    """Number of the lowest bit that is set; 64 where none is."""
    return (word & -word).bit_length() - 1 if word else 64


def add_floats(a: int, b: int) -> int:
    """Sum of two binary32s, rounded as the host is set (in Python to nearest even); NaNs are canonical."""
    return softfloat.add("s", a & 0xFFFF_FFFF, b & 0xFFFF_FFFF, softfloat.RNE)[0]


def add_doubles(a: int, b: int) -> int:
    """The same of binary64s."""
    return softfloat.add("d", a, b, softfloat.RNE)[0]


def copy(to: int, source: int, size: int) -> None:
    """Copy `size` bytes to other ones."""
    ctypes.memmove(to, source, size)


def fill(to: int, byte: int, size: int) -> None:
    """Set `size` bytes."""
    ctypes.memset(to, byte & 0xFF, size)


def fill_lines(to: int, dword: int, count: int) -> None:
    """Set `count` times 64 bytes to 16 times a dword."""
    ctypes.memmove(to, (dword & 0xFFFF_FFFF).to_bytes(4, "little") * (16 * count), 64 * count)


def largest_in_lines(at: int, count: int) -> int:
    """The largest dword of `count` times 64 bytes; 0 for none."""
    return max((ctypes.c_uint32 * (16 * count)).from_address(at), default=0)


def call(function: int, *arguments: int) -> int:
    """Call machine code at an address: words in, a word out."""
    return int(ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * len(arguments))(function)(*arguments))


def read_float_control() -> int:
    """The host's float control register, where it is the MXCSR; else 0."""
    return int(_float_control()[0]())


def write_float_control(word: int) -> None:
    """Set it."""
    _float_control()[1](word)


class Function(Generic[P]):
    """A native function, which runs as Python when it is called."""

    def __init__(self, function: Callable[P, int | None], is_inline: bool) -> None:
        self.function: Any = function
        self.name: str = self.function.__name__
        self.scope: dict[str, Any] = self.function.__globals__
        self.is_inline = is_inline
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Run it as Python."""
        return self._python(*args, **kwargs)  # type: ignore[no-any-return]

    @cached_property
    def _python(self) -> Any:
        from understudy.ir.native_python import interpreted

        return interpreted(self)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Their names."""
        code = self.function.__code__
        return code.co_varnames[: code.co_argcount]  # type: ignore[no-any-return]

    def layout(self, parameter: str) -> Any:
        """The layout at whose address a parameter points; None for plain words."""
        found = self.function.__annotations__.get(parameter)
        return layout_or_none(self.global_(found) if isinstance(found, str) else found)

    def global_(self, name: str) -> Any:
        """What a name of the module, or a builtin one, stands for; None where there is none."""
        builtins: Any = self.scope.get("__builtins__", {})
        return self.scope.get(name, builtins.get(name) if isinstance(builtins, dict) else getattr(builtins, name, None))

    def described(self, seen: set[str]) -> Iterator[str]:
        """All that decides what the function means: its code, its constants, and the same of those that it calls."""
        seen.add(self.name)
        code = self.function.__code__
        yield f"{self.name} {self.is_inline} {code.co_code.hex()} {code.co_consts} {code.co_names} {code.co_varnames}"
        yield str([(name, self.layout(name) and self.layout(name)._fields_) for name in self.parameters])
        for name in code.co_names:
            value = self.scope.get(name)
            places = [value]
            if isinstance(value, ModuleType | enum.EnumMeta):
                places = [getattr(value, other, None) for other in code.co_names]
            each: Any
            for each in places:
                if isinstance(each, Function):
                    yield from each.described(seen) if each.name not in seen else ()
                elif isinstance(each, int):
                    yield f"{name} {int(each)}"
                elif layout_or_none(each) is not None:
                    yield f"{name} {ctypes.sizeof(each)} {each._fields_}"
                elif isinstance(each, View | AtomicView):
                    yield f"{name} {type(each).__name__} {each.bits}"


def native(function: Callable[P, int | None]) -> Function[P]:
    """Make a function a native one."""
    return Function(function, is_inline=False)


def inlined(function: Callable[P, int | None]) -> Function[P]:
    """Make a function a native one that stands in place of each of its calls."""
    return Function(function, is_inline=True)


class Module:
    """Functions and what they call, with further IR `text` beside them that may call them.

    Their machine code is kept in `objects`. They are known by what they mean, so that what is kept is found without
    reading any source.
    """

    def __init__(self, objects: ObjectCache, functions: tuple[Function[Any], ...], text: str) -> None:
        self._objects = objects
        self._functions = functions
        self._text = text
        self._source = _translator()
        seen: set[str] = set()
        parts = [llvm.host_key(), sys.version, self._source, text]
        for function in functions:
            parts += function.described(seen)
        self._described = "\n".join(parts)

    def _key(self, tier: int) -> str:
        return hashlib.sha256(f"{tier}\n{self._described}".encode()).hexdigest()

    def kept(self, tier: int) -> bytes | None:
        """The object of a tier, if it is kept."""
        return self._objects.get(self._key(tier))

    def image(self, tier: int, compile_ir: Callable[[str, int], bytes] | None = None) -> bytes:
        """The object of a tier, compiled if need be."""
        image = self.kept(tier)
        if image is None:
            from understudy.ir.native_llvm import module

            image = (compile_ir or llvm.compile_ir)(module(self._functions, self._text), tier)
            if _translator() == self._source:  # else somebody changed it under this process
                self._objects.put(self._key(tier), image)
        return image


def link(objects: ObjectCache, *functions: Function[Any]) -> llvm.Code:
    """Optimised machine code of functions and what they call, kept in `objects`."""
    return llvm.Code(Module(objects, functions, "").image(llvm.OPTIMISED))


class Natives:
    """Native functions that are linked together into this process when one of them is first wanted."""

    def __init__(self, *functions: Function[Any]) -> None:
        self._functions = {each.name: each for each in functions}
        self._called: dict[str, Callable[..., int]] = {}

    @cached_property
    def code(self) -> llvm.Code:
        """All of it."""
        return link(ObjectCache(default_folder()), *self._functions.values())

    def address(self, name: str) -> int:
        """Where one of them starts."""
        return self.code.address(name)

    def function(self, name: str) -> Callable[..., int]:
        """One of them, for Python."""
        if name not in self._called:
            words = [ctypes.c_uint64] * len(self._functions[name].parameters)
            self._called[name] = self.code.function(name, ctypes.c_uint64, *words, is_brief=True)
        return self._called[name]


def _translator() -> str:
    """A digest of the translator's source."""
    loader: Any = __loader__  # type: ignore[name-defined]
    path = str(__file__).removesuffix("native.py")
    try:
        return hashlib.sha256(loader.get_data(path + "native_llvm.py")).hexdigest()
    except OSError as error:
        raise ModelBug(f"native code needs the package's sources: {error}") from error


@native
def _get_float_control() -> int:
    return read_float_control()


@native
def _set_float_control(word: int) -> None:
    write_float_control(word)


@cache
def _float_control() -> tuple[Callable[[], int], Callable[[int], int]]:
    """Machine code to read and write the register with, which Python cannot."""
    code = link(ObjectCache(), _get_float_control, _set_float_control)
    read = code.function(_get_float_control.name, ctypes.c_uint64)
    return read, code.function(_set_float_control.name, ctypes.c_uint64, ctypes.c_uint64)
