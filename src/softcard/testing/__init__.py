"""Tools for tests of drivers, runtimes, compilers and host programs: a pytest plug-in, and hypothesis strategies.

See ``docs/pytest.md``. Strategies need hypothesis, which is imported when the first of them is used.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softcard.testing.strategies.acceldev import acceldev_buffers
    from softcard.testing.strategies.aql import aql_packets
    from softcard.testing.strategies.code_objects import code_objects
    from softcard.testing.strategies.drawn import Drawn
    from softcard.testing.strategies.fletcher import fletcher_schemas
    from softcard.testing.strategies.gcn import gcn_kernels
    from softcard.testing.strategies.programs import generated_programs
    from softcard.testing.strategies.refsi import refsi_buffers, refsi_commands
    from softcard.testing.strategies.riscv import riscv_kernels

__all__ = [
    "Drawn",
    "acceldev_buffers",
    "aql_packets",
    "code_objects",
    "fletcher_schemas",
    "gcn_kernels",
    "generated_programs",
    "refsi_buffers",
    "refsi_commands",
    "riscv_kernels",
]

_HOMES = {
    "Drawn": "drawn",
    "acceldev_buffers": "acceldev",
    "aql_packets": "aql",
    "code_objects": "code_objects",
    "fletcher_schemas": "fletcher",
    "gcn_kernels": "gcn",
    "generated_programs": "programs",
    "refsi_buffers": "refsi",
    "refsi_commands": "refsi",
    "riscv_kernels": "riscv",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            _import_module("hypothesis")
        except ModuleNotFoundError:
            text = "strategies need hypothesis: pip install 'softcard[testing]'"
            raise ImportError(text, name="hypothesis") from None
        return getattr(_import_module(f"{__name__}.strategies.{_HOMES[name]}"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
