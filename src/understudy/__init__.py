"""Understudy: a bench of virtual accelerators. The public names, nothing else; each is loaded when it is first used."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy import acceldev, amdcl2, fletcher, gcn, hsa, refsi, riscv
    from understudy.core.errors import (
        AccessFault,
        BeyondModel,
        GuestFault,
        ModelBug,
        Place,
        RuleError,
        UnderstudyError,
        WireError,
    )
    from understudy.core.lint import LintError, LintWarning
    from understudy.host.acceldev.acceldev import Acceldev
    from understudy.host.amdcl2.program import load
    from understudy.host.fletcher.platform import Platform
    from understudy.host.hsa.gpu import Gpu
    from understudy.host.refsi.refsi import RefSi
    from understudy.ir.slow_host import SlowHostWarning

__version__ = "0.1.0"

__all__ = [
    "Acceldev",
    "AccessFault",
    "BeyondModel",
    "Gpu",
    "GuestFault",
    "LintError",
    "LintWarning",
    "ModelBug",
    "Place",
    "Platform",
    "RefSi",
    "RuleError",
    "SlowHostWarning",
    "UnderstudyError",
    "WireError",
    "__version__",
    "acceldev",
    "amdcl2",
    "fletcher",
    "gcn",
    "hsa",
    "load",
    "refsi",
    "riscv",
]

_HOMES = {
    "core.errors": (
        *("AccessFault", "BeyondModel", "GuestFault", "ModelBug"),
        *("Place", "RuleError", "UnderstudyError", "WireError"),
    ),
    "core.lint": ("LintError", "LintWarning"),
    "ir.slow_host": ("SlowHostWarning",),
    "host.acceldev.acceldev": ("Acceldev",),
    "host.amdcl2.program": ("load",),
    "host.fletcher.platform": ("Platform",),
    "host.hsa.gpu": ("Gpu",),
    "host.refsi.refsi": ("RefSi",),
}
_INTERFACES = ("acceldev", "amdcl2", "fletcher", "gcn", "hsa", "refsi", "riscv")

if not TYPE_CHECKING:  # else every name would be there for a type checker, misspelt ones too

    def __getattr__(name: str) -> object:
        if name in _INTERFACES:
            return _import_module(f"{__name__}.{name}")
        for module, names in _HOMES.items():
            if name in names:
                value = getattr(_import_module(f"{__name__}.{module}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
