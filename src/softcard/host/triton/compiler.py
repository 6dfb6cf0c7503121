"""The compiler that Triton's discovery requires of every backend; it compiles for no target.

The driver's target is an AMD GPU, whose kernels Triton's own AMD compiler compiles."""

from __future__ import annotations

from typing import Any, NoReturn

from triton.backends.compiler import BaseBackend, GPUTarget


class NoCompiler(BaseBackend):  # type: ignore[misc]
    """A compiler without targets."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Return False for every target."""
        return False

    def _none(self, *_: object) -> NoReturn:
        raise NotImplementedError("Softcard has no compiler: Triton's AMD compiler makes the kernels")

    hash = parse_options = add_stages = load_dialects = get_module_map = _none
    get_codegen_implementation: Any = _none
