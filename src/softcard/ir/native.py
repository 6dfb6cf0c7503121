"""Native functions: run-time code written once, in restricted Python, and compiled to machine code.

A function under `@native` is compiled when it is first linked (`link`). A call from Python interprets it
as Python, slowly, with equal results. All its values are unsigned words of 64 bits that wrap around. It
may use

* parameters, local names, integers, and constants of its module (``STOPPED``, ``Opcode.NOP``,
  ``sizeof(Row)``),
* ``+ - * & | ^ ~ << >>``, ``// %`` by a constant, comparisons, ``min``, ``max``, ``x if test else y``; in
  conditions also ``and``, ``or``, ``not``; shifts by 64 and more give 0; `signed` words compare and shift
  right as signed numbers,
* ``if``, ``while``, ``for`` over a ``range``, ``break``, ``continue``, ``return`` (a word, or nothing: 0),
* memory of this process: `U8` to `U64`, `V8` to `V64` and `A8` to `A64`, by address or, with
  ``U32.at(base)[index]``, as an array,
* words of a `layout` by name, through a parameter that is annotated with the layout, or through a local
  name to which the result of the layout's ``from_address`` is assigned,
* vectors of words, of dwords and of flags, with the functions of `lanes`,
* calls of other native functions and of the functions of this module.

Anything else raises a `ModelBug` with file and line, when the function is linked or first called."""

from __future__ import annotations

import ctypes
import enum
import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from types import ModuleType
from typing import Any, Final, Generic, ParamSpec, TypeVar

from softcard.core.errors import ModelBug
from softcard.ir import llvm, softfloat
from softcard.ir.native_source import layout_or_none
from softcard.ir.object_cache import ObjectCache, default_folder

_TRANSLATOR: Final = ("native_llvm.py", "native_vectors.py")
P = ParamSpec("P")
S = TypeVar("S", bound=type[ctypes.Structure])


def layout(made: S) -> S:
    """Make a `ctypes.Structure` a layout (a class decorator): it gets a 64-bit word for each annotated name."""
    made._fields_ = [(name, ctypes.c_uint64) for name in made.__annotations__]
    return made


def numbers(made: Any) -> dict[str, int]:
    """Return the index of each name's 64-bit word in the layout `made`."""
    return {name: number for number, (name, _) in enumerate(made._fields_)}


class View:
    """A view of this process's memory as unsigned words of `bits` bits, indexed by address."""

    volatile = False

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.kind: Any = getattr(ctypes, f"c_uint{bits}")

    def __getitem__(self, address: int) -> int:
        return int(self.kind.from_address(address).value)

    def __setitem__(self, address: int, value: int) -> None:
        self.kind.from_address(address).value = value

    def at(self, base: int) -> Array:
        """Return the adjacent words of this view that begin at address `base` as an array."""
        return Array(self, base)


class Array:
    """Adjacent words of this process's memory, accessed by index; made by `View.at`."""

    def __init__(self, view: View, base: int) -> None:
        self.view = view
        self.base = base

    def __getitem__(self, index: int) -> int:
        return self.view[self.base + self.view.bits // 8 * index]

    def __setitem__(self, index: int, value: int) -> None:
        self.view[self.base + self.view.bits // 8 * index] = value


class VolatileView(View):
    """Memory that other threads read and write at any time: each access is made exactly once."""

    volatile = True


class AtomicView:
    """A view of aligned words that other threads read and write.

    The operations are sequentially consistent, except `release`; those that change a word return its old value.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._view = View(bits)

    def load(self, address: int) -> int:
        """Return the value at `address`."""
        return self._view[address]

    def store(self, address: int, value: int) -> None:
        """Store `value` at `address`."""
        self._view[address] = value

    def release(self, address: int, value: int) -> None:
        """Store `value` with release order: it becomes visible after all earlier writes.

        Later reads may be executed before it.
        """
        self._view[address] = value

    def add(self, address: int, value: int) -> int:
        """Add `value` to the word at `address`; return the old value."""
        return self._rmw(address, lambda old: old + value)

    def sub(self, address: int, value: int) -> int:
        """Subtract `value` from the word at `address`; return the old value."""
        return self._rmw(address, lambda old: old - value)

    def compare_exchange(self, address: int, expected: int, value: int) -> int:
        """Store `value` if the word at `address` is `expected`; return the old value in any case."""
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
    """Return a word read as a signed number.

    In a native function, it may only be an operand of ``>>`` or of a comparison with a constant or another signed word.
    """
    return (word ^ 1 << 63) - (1 << 63)


def unlikely(condition: int) -> int:
    """Return `condition`, the test of an ``if`` that is rarely true.

    In machine code the path on which the condition is false is the fall-through path."""
    return condition


def lowest_bit(word: int) -> int:
    """Return the number of the lowest bit of a word that is 1; 64 for the word 0."""
    return (word & -word).bit_length() - 1 if word else 64


def add_floats(a: int, b: int) -> int:
    """Return the sum of two binary32 numbers, rounded in the host's mode; NaNs are canonical.

    In Python the rounding is to nearest even.
    """
    return softfloat.add("s", a & 0xFFFF_FFFF, b & 0xFFFF_FFFF, softfloat.RNE)[0]


def add_doubles(a: int, b: int) -> int:
    """Return the sum of two binary64 numbers, rounded in the host's mode; NaNs are canonical.

    In Python the rounding is to nearest even.
    """
    return softfloat.add("d", a, b, softfloat.RNE)[0]


def fma_floats(a: int, b: int, c: int) -> int:
    """Return a * b + c of binary32 numbers with one rounding, in the host's mode; NaNs are canonical.

    In Python the rounding is to nearest even.
    """
    return softfloat.fma("s", a & 0xFFFF_FFFF, b & 0xFFFF_FFFF, c & 0xFFFF_FFFF, softfloat.RNE)[0]


def fma_doubles(a: int, b: int, c: int) -> int:
    """Return a * b + c of binary64 numbers with one rounding, in the host's mode; NaNs are canonical.

    In Python the rounding is to nearest even.
    """
    return softfloat.fma("d", a, b, c, softfloat.RNE)[0]


def copy(to: int, source: int, size: int) -> None:
    """Copy `size` bytes of memory from address `source` to address `to`; the ranges must not overlap."""
    ctypes.memmove(to, source, size)


def fill(to: int, byte: int, size: int) -> None:
    """Set `size` bytes of memory from address `to` on to the value `byte`."""
    ctypes.memset(to, byte & 0xFF, size)


def fill_lines(to: int, dword: int, count: int) -> None:
    """Fill `count` lines of 64 bytes from address `to` on with copies of a dword."""
    ctypes.memmove(to, (dword & 0xFFFF_FFFF).to_bytes(4, "little") * (16 * count), 64 * count)


def largest_in_lines(at: int, count: int) -> int:
    """Return the largest dword in `count` lines of 64 bytes from address `at` on; 0 if `count` is 0."""
    return max((ctypes.c_uint32 * (16 * count)).from_address(at), default=0)


def call(function: int, *arguments: int) -> int:
    """Call the machine code at address `function`; arguments and result are 64-bit words."""
    return int(ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * len(arguments))(function)(*arguments))


def read_float_control() -> int:
    """Return the MXCSR, x86's float control register; 0 on other hosts."""
    return int(_float_control()[0]())


def write_float_control(word: int) -> None:
    """Set the MXCSR, x86's float control register; do nothing on other hosts."""
    _float_control()[1](word)


class Function(Generic[P]):
    """A native function.

    A call from Python interprets its source; `link` compiles it to machine code."""

    def __init__(self, function: Callable[P, int | None], is_inline: bool) -> None:
        self.function: Any = function
        self.name: str = self.function.__name__
        self.scope: dict[str, Any] = self.function.__globals__
        self.is_inline = is_inline
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Run the function as interpreted Python."""
        return self._python(*args, **kwargs)  # type: ignore[no-any-return]

    @cached_property
    def _python(self) -> Any:
        from softcard.ir.native_python import interpreted

        return interpreted(self)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        code = self.function.__code__
        return code.co_varnames[: code.co_argcount]  # type: ignore[no-any-return]

    def layout(self, parameter: str) -> Any:
        """Return the layout at the address that a parameter holds; None if the parameter is a plain word."""
        return layout_or_none(self.annotation(parameter))

    def annotation(self, parameter: str) -> Any:
        """Return the class with which a parameter is annotated; None if the module does not define its name."""
        found = self.function.__annotations__.get(parameter)
        return self.global_(found) if isinstance(found, str) else found

    def global_(self, name: str) -> Any:
        """Return the value of a global or builtin name of the function's module; None if it is undefined."""
        builtins: Any = self.scope.get("__builtins__", {})
        return self.scope.get(name, builtins.get(name) if isinstance(builtins, dict) else getattr(builtins, name, None))

    def described(self, seen: set[str]) -> Iterator[str]:
        """Yield texts of everything that determines the function's result: code, constants and callees.

        Functions whose names are in `seen` are left out.
        """
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
    """Make a Python function a native function (a decorator)."""
    return Function(function, is_inline=False)


def inlined(function: Callable[P, int | None]) -> Function[P]:
    """Make a Python function a native function that is inlined into each caller (a decorator)."""
    return Function(function, is_inline=True)


class Module:
    """Native functions and their callees as one LLVM module, with further IR `text` that may call them.

    Their machine code is cached in `objects`. The cache key is made from Python's code objects, so that cached code is
    found without reading source files.
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

    def cached(self, tier: int) -> bytes | None:
        """Return the cached object that was compiled at `tier`; None if it is not cached."""
        return self._objects.get(self._key(tier))

    def image(self, tier: int, compile_ir: Callable[[str, int], bytes] | None = None) -> bytes:
        """Return the object compiled at `tier`; if it is not cached, compile it with `compile_ir`."""
        image = self.cached(tier)
        if image is None:
            from softcard.ir.native_llvm import module

            image = (compile_ir or llvm.compile_ir)(module(self._functions, self._text), tier)
            if _translator() == self._source:  # otherwise the source was changed while this process runs
                self._objects.put(self._key(tier), image)
        return image


def link(objects: ObjectCache, *functions: Function[Any]) -> llvm.Code:
    """Return optimised machine code of functions and their callees, cached in `objects`."""
    return llvm.Code(Module(objects, functions, "").image(llvm.OPTIMISED))


class Natives:
    """Native functions that are linked together into this process at the first use of one of them."""

    def __init__(self, *functions: Function[Any]) -> None:
        self.functions = functions
        self._functions = {each.name: each for each in functions}
        self._called: dict[str, Callable[..., int]] = {}

    @cached_property
    def code(self) -> llvm.Code:
        """The machine code of all functions."""
        return link(ObjectCache(default_folder()), *self._functions.values())

    def address(self, name: str) -> int:
        """Return the address of the function called `name`."""
        return self.code.address(name)

    def function(self, name: str) -> Callable[..., int]:
        """Return the function called `name`, callable from Python."""
        if name not in self._called:
            words = [ctypes.c_uint64] * len(self._functions[name].parameters)
            self._called[name] = self.code.function(name, ctypes.c_uint64, *words, is_brief=True)
        return self._called[name]


def _translator() -> str:
    """Return a digest of the sources of the translator from Python to LLVM IR."""
    loader: Any = __loader__  # type: ignore[name-defined]
    path = str(__file__).removesuffix("native.py")
    try:
        return hashlib.sha256(b"".join(loader.get_data(path + name) for name in _TRANSLATOR)).hexdigest()
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
    """Return two machine code functions: one reads the MXCSR register, one writes it.

    Python cannot access the register.
    """
    code = link(ObjectCache(), _get_float_control, _set_float_control)
    read = code.function(_get_float_control.name, ctypes.c_uint64)
    return read, code.function(_set_float_control.name, ctypes.c_uint64, ctypes.c_uint64)
