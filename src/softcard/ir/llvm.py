"""Compilation of LLVM IR text to callable machine code of this process; independent of guest instruction sets."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from softcard.core.errors import ModelBug
from softcard.core.tracebacks import warn_caller
from softcard.ir.host import host, is_x86
from softcard.ir.loader import Loaded, load

# ---- a workaround for AVX-512 ----------------------------------------------------------------------------------------
# A workaround for an error in LLVM's code generation for AVX-512, until llvmlite has a release without it.
#
# If a mask selects between ``x & C | y & ~C`` and one of x and y, LLVM combines both selections into one masked
# VPTERNLOG, with its operands in another order than in its truth table: llvm/llvm-project#157929, fixed by #209782, but
# in no LLVM release that llvmlite uses. So the operand of the masked selection is made opaque: an empty piece of
# assembly has it as operand and result. That costs the one instruction that LLVM would have saved.


SELECT: Final = " = select <"
WITHOUT: Final = "-avx512f"
"""The attribute of functions that are compiled for hosts without AVX-512.

These hosts lack VPTERNLOG, so their functions need no workaround for it (see `with_masks_apart`).
"""
NAME: Final = r"(%[\w.$-]+)"
MADE: Final = re.compile(
    rf"^ *{NAME} = (?:(?:or|xor)(?: disjoint)? <|(?:tail )?call [^@\n]*@llvm\.copysign\.|bitcast <[^%\n]*> {NAME} to)",
    re.MULTILINE,
)
WIDTH: Final = re.compile(r'"(?:min-legal|prefer)-vector-width"="(\d+)"')
OPERAND: Final = re.compile(rf"<(\d+) x (i\d+|half|float|double)> {NAME}")
BITS: Final = {"i1": 1, "half": 16, "float": 32, "double": 64}
NARROWEST: Final = 128
WIDEST: Final = 512
"""The size in bits of the widest vector register; some functions are limited to narrower ones."""


def with_masks_apart(text: str) -> str:
    """Return the IR `text`, changed so that LLVM cannot merge a lane mask with a bitwise selection.

    The changed IR computes the same results. `text` is IR after optimisation."""
    if SELECT not in text or WITHOUT in text:
        return text
    choices, lines = _choices(text), list[str]()
    widest = min([WIDEST, *(max(int(width), NARROWEST) for width in WIDTH.findall(text))])
    for line in text.split("\n"):
        for lanes, kind, name in dict.fromkeys(OPERAND.findall(line)) if SELECT in line else ():
            if name in choices and kind != "i1":
                made = f"%apart.{len(lines)}"
                lines += _opaque(int(lanes), kind, name, made, widest)
                line = re.sub(re.escape(name) + r"(?![\w.$-])", made, line)
        lines.append(line)
    return "\n".join(lines)


def _choices(text: str) -> set[str]:
    """Return the names of IR values that may be bitwise selections: an or, a copysign, or a bitcast of one."""
    found, casts = set[str](), dict[str, str]()
    for name, source in MADE.findall(text):
        if source:
            casts[name] = source
        else:
            found.add(name)
    while more := {name for name, source in casts.items() if source in found} - found:
        found |= more
    return found


def _opaque(lanes: int, kind: str, name: str, made: str, widest: int) -> list[str]:
    """Return IR lines that define `made` as a copy of `name` through which LLVM cannot optimise.

    `lanes` and `kind` give the vector type; registers of at most `widest` bits are used.
    """
    width = BITS.get(kind) or int(kind[1:])
    whole = max(lanes, NARROWEST // width)  # at least the lanes of a register
    part = min(whole, widest // width)
    lines = [f"  {made}.i = bitcast <{lanes} x {kind}> {name} to <{lanes} x i{width}>"]

    def shuffled(one: str, other: str, of: int, places: Sequence[int], into: str) -> str:
        vector, chosen = f"<{of} x i{width}>", ", ".join(f"i32 {place}" for place in places)
        second = f"{vector} {other}" if other else f"{vector} poison"
        lines.append(f"  {into} = shufflevector {vector} {one}, {second}, <{len(places)} x i32> <{chosen}>")
        return into

    ints = f"{made}.i"
    if whole > lanes:
        ints = shuffled(ints, "", lanes, [*range(lanes), *[0] * (whole - lanes)], f"{made}.w")
    parts = []
    for number in range(whole // part):
        each, dwords = f"{made}.{number}", f"<{part * width // 32} x i32>"
        shuffled(ints, "", whole, range(number * part, (number + 1) * part), f"{each}.p")
        lines.append(f"  {each}.d = bitcast <{part} x i{width}> {each}.p to {dwords}")
        lines.append(f'  {each}.o = call {dwords} asm "", "=v,0"({dwords} {each}.d)')
        lines.append(f"  {each}.r = bitcast {dwords} {each}.o to <{part} x i{width}>")
        parts.append(f"{each}.r")
    size = part
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [shuffled(one, other, size, range(2 * size), f"{one}.{size}") for one, other in pairs]
        size *= 2
    found = parts[0] if whole == lanes else shuffled(parts[0], "", whole, range(lanes), f"{made}.n")
    return [*lines, f"  {made} = bitcast <{lanes} x i{width}> {found} to <{lanes} x {kind}>"]


# ---- compilation -----------------------------------------------------------------------------------------------------


QUICK: Final = 0
"""The compilation tier of a first use: only inlining as an optimisation, and the fastest code generation."""
SOON: Final = 1
"""The compilation tier of code that a thread waits for: cheap passes, fastest code generation."""
OPTIMISED: Final = 2
"""The compilation tier of hot code: a short list of optimisation passes, and full code generation."""

CODE: Final = "typed operands"
"""A version name of code generation, part of every cache key; a new name invalidates all cached code."""

__all__ = ["OPTIMISED", "QUICK", "SOON", "Code", "compile_ir", "host_features", "host_key", "is_x86"]

_PASSES = ("sroa", "simplify_cfg", "instruction_combine", "dead_store_elimination", "simplify_cfg")
# Not new_gvn: one of its assertions aborts the process on some large functions, and no benchmark was faster with it.
_QUICK_PASSES = ("sroa", "simplify_cfg")
# Without instcombine: it takes a quarter of the compile time of a handler and does not make it faster.
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # LLVM's lock would stay taken in a child that is forked during a compilation
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@cache
def _binding() -> Any:
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def host_features() -> frozenset[str]:
    """Return the names of this machine's instruction-set features, in LLVM's spelling."""
    return host().names


@cache
def host_key() -> str:
    """Return a digest of the host's properties that affect generated code: CPU, features, library versions."""
    import llvmlite

    found = host()
    parts = (found.triple, found.name, found.features, llvmlite.__version__, found.version, CODE)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def _machine(tier: int) -> Any:
    return _new_machine(tier)


def _new_machine(tier: int) -> Any:
    binding = _binding()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=host().name,
        features=host().features,
        opt=tier,
        jit=True,
        codemodel="jitdefault",
    )


@dataclass(slots=True)
class CompileStatistics:
    """The number of modules that were compiled for this process, and the number of characters of their IR."""

    modules: int = 0
    characters: int = 0

    def add(self, text: str) -> None:
        """Count a module with the IR `text`."""
        self.modules += 1
        self.characters += len(text)


STATISTICS: Final = CompileStatistics()
"""The statistics of all compilations for this process, for displays of progress."""


def compile_ir(text: str, tier: int) -> bytes:
    """Return a relocatable object with the machine code of one IR module, compiled at a tier.

    Raise `ModelBug` if the IR is invalid: code generation would abort the process.
    """
    with _lock:
        made = _compiled(text, tier)
    STATISTICS.add(text)
    return made


def _compiled(text: str, tier: int) -> bytes:
    """Return the object compiled from a module.

    LLVM's lock is held until the module is freed, since freeing it calls LLVM, too.
    """
    binding = _binding()
    try:
        module = binding.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise ModelBug(f"generated code does not verify: {error}") from error
    machine = _machine(OPTIMISED if tier == OPTIMISED else QUICK)
    inline = "alwaysinline" in text
    if tier != QUICK or inline:  # without passes inlined functions would be calls, with all their values in memory
        _optimise(binding, module, machine, _PASSES if tier == OPTIMISED else _QUICK_PASSES, inline=inline)
    if tier == OPTIMISED and "avx512f" in host_features():
        made = str(module)
        apart = with_masks_apart(made)
        module = module if apart == made else binding.parse_assembly(apart)
    return bytes(machine.emit_object(module))


def _optimise(binding: Any, module: Any, machine: Any, passes: tuple[str, ...], *, inline: bool) -> None:
    options = binding.create_pipeline_tuning_options(speed_level=1)
    builder = binding.create_pass_builder(machine, options)
    if inline:
        whole = binding.create_new_module_pass_manager()
        whole.add_always_inliner_pass()
        whole.run(module, builder)
    manager = binding.create_new_function_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    for function in module.functions:
        if not function.is_declaration:
            manager.run(function, builder)


class Code:
    """An object file that is linked into this process. Its machine code lives as long as this Python object.

    `symbols` has the addresses of functions that the object calls but does not define, by name. Their code must live
    as long as this object, and a name must have the same address in all objects of the process.
    """

    def __init__(self, image: bytes, symbols: Mapping[str, int] = {}) -> None:
        self._loaded: Loaded | Linked = load(image, symbols) or Linked(image, symbols)

    def address(self, name: str) -> int:
        """Return the address of the function `name`."""
        return self._loaded.address(name)

    def function(self, name: str, result: Any, *arguments: Any, is_brief: bool = False) -> Callable[..., Any]:
        """Return the function `name` as a ctypes callable, which keeps the code alive.

        A call releases the interpreter lock. With `is_brief` it does not, for functions that take less time than
        releasing the lock.
        """
        make = ctypes.PYFUNCTYPE if is_brief else ctypes.CFUNCTYPE
        function: Any = make(result, *arguments)(self.address(name))
        function.code = self
        return function  # type: ignore[no-any-return]


class Linked:
    """An object file that LLVM's own linker has linked, for hosts whose relocations `loader` does not support."""

    def __init__(self, image: bytes, symbols: Mapping[str, int] = {}) -> None:
        binding = _binding()
        with _lock:
            for name, address in symbols.items():
                binding.add_symbol(name, address)
            # An execution engine owns its target machine and frees it: never share one.
            self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _new_machine(QUICK))
            self._engine.add_object_file(binding.object_file.ObjectFileRef.from_data(image))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Return the address of the function `name`."""
        return int(self._engine.get_function_address(name))


# ---- warning ---------------------------------------------------------------------------------------------------------
# A warning, given once, if an engine has no machine code for the host's processor.


HARTS: Final = "RISC-V kernels run on the slow reference engine, at about a million instructions a second"
WAVES: Final = "GPU code that flushes denormals, or does not round to nearest, runs on the slow reference engine"


class SlowHostWarning(UserWarning):
    """The warning that the JIT engine is slow on this host, because the host is not an x86.

    Its results are the same as on an x86."""


def warn_where_slow(what: str) -> None:
    """Warn once in a process that `what` is slow if the host's processor is not an x86."""
    if not is_x86():
        _warn(what)


@cache
def _warn(what: str) -> None:
    warn_caller(f"this host does not have an x86 processor: {what}", SlowHostWarning)
