"""From LLVM IR text to callable machine code of this process, and nothing else: no guest, no instruction set."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from understudy.core.errors import ModelBug
from understudy.ir.host import host, is_x86
from understudy.ir.loader import Loaded, load
from understudy.ir.masked_choices import kept_apart

QUICK: Final = 0
"""Tier for first use: no passes, fastest code generation."""
SOON: Final = 1
"""Tier for what somebody waits for: the passes that cost little, fastest code generation."""
OPTIMISED: Final = 2
"""Tier for hot code: a short pass list, full code generation."""

CODE: Final = "choices kept apart"
"""What else decides about it: another word here, and code that was kept is made anew."""

__all__ = ["OPTIMISED", "QUICK", "SOON", "Code", "compile_ir", "host_features", "host_key", "is_x86"]

_PASSES = ("sroa", "simplify_cfg", "instruction_combine", "dead_store_elimination", "simplify_cfg")
# Not new_gvn: one of its assertions ends the process on some large functions, and it made nothing measured faster.
_QUICK_PASSES = ("sroa", "simplify_cfg")
# Combining instructions takes a quarter of all the time for a handler, which runs no faster for it.
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # a child that is made amid a compilation could never compile: LLVM stays locked
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@cache
def _binding() -> Any:
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def host_features() -> frozenset[str]:
    """Names of the instruction-set features that this machine has, as LLVM spells them."""
    return host().names


@cache
def host_key() -> str:
    """A digest of everything on this machine that decides what code comes out: CPU, features, library versions."""
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


def compile_ir(text: str, tier: int) -> bytes:
    """Verify, optimise and assemble one module; gives a relocatable object.

    IR that does not verify is a `ModelBug` (it would abort the process in code generation).
    """
    with _lock:
        return _compiled(text, tier)


def _compiled(text: str, tier: int) -> bytes:
    """The same, under the lock until the module is disposed of: LLVM is locked by that too."""
    binding = _binding()
    try:
        module = binding.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise ModelBug(f"generated code does not verify: {error}") from error
    machine = _machine(OPTIMISED if tier == OPTIMISED else QUICK)
    if tier != QUICK:
        passes = _PASSES if tier == OPTIMISED else _QUICK_PASSES
        _optimise(binding, module, machine, passes, inline="alwaysinline" in text)
    if tier == OPTIMISED and "avx512f" in host_features():
        made = str(module)
        apart = kept_apart(made)
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
    """An object file linked into this process. The code lives as long as this does."""

    def __init__(self, image: bytes) -> None:
        self._loaded: Loaded | Linked = load(image) or Linked(image)

    def address(self, name: str) -> int:
        """Where function `name` starts."""
        return self._loaded.address(name)

    def function(self, name: str, result: Any, *arguments: Any, is_brief: bool = False) -> Callable[..., Any]:
        """Function `name` as a ctypes callable, which keeps the code alive.

        It runs without the interpreter lock, unless it `is_brief`: then letting it go would take longer than the call.
        """
        make = ctypes.PYFUNCTYPE if is_brief else ctypes.CFUNCTYPE
        function: Any = make(result, *arguments)(self.address(name))
        function.code = self
        return function  # type: ignore[no-any-return]


class Linked:
    """An object linked by LLVM, for hosts whose objects need more than addresses."""

    def __init__(self, image: bytes) -> None:
        binding = _binding()
        with _lock:
            # An execution engine owns its target machine and frees it: never share one.
            self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _new_machine(QUICK))
            self._engine.add_object_file(binding.object_file.ObjectFileRef.from_data(image))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where function `name` starts."""
        return int(self._engine.get_function_address(name))
