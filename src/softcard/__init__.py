"""Softcard emulates accelerators (AMD GPUs, RISC-V accelerators, a PCI device, Fletcher FPGAs), runs your
unmodified kernels, drivers and programs at JIT speed, and tells you which rule they broke, in which source
line.

This module contains only the public names. The object that a name refers to is imported when the name is
first used."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softcard import acceldev, amdcl2, fletcher, gcn, hsa, refsi, riscv
    from softcard.core import __version__
    from softcard.core.errors import (
        AccessFault,
        BeyondModel,
        GuestFault,
        ModelBug,
        Place,
        RuleError,
        SoftcardError,
        WireError,
    )
    from softcard.core.findings import FindingError
    from softcard.core.lint import FindingWarning, LintError, LintWarning
    from softcard.host.acceldev.acceldev import Acceldev
    from softcard.host.amdcl2.program import load
    from softcard.host.fletcher.platform import Platform
    from softcard.host.hsa.gpu import Gpu
    from softcard.host.refsi.refsi import RefSi
    from softcard.ir.llvm import SlowHostWarning
    from softcard.report.diagnostic_text import diagnostic_text

__all__ = [
    "Acceldev",
    "AccessFault",
    "BeyondModel",
    "FindingError",
    "FindingWarning",
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
    "SoftcardError",
    "WireError",
    "__version__",
    "acceldev",
    "amdcl2",
    "diagnostic_text",
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
        *("Place", "RuleError", "SoftcardError", "WireError"),
    ),
    "core.findings": ("FindingError",),
    "core.lint": ("FindingWarning", "LintError", "LintWarning"),
    "core": ("__version__",),
    "ir.llvm": ("SlowHostWarning",),
    "host.acceldev.acceldev": ("Acceldev",),
    "host.amdcl2.program": ("load",),
    "host.fletcher.platform": ("Platform",),
    "host.hsa.gpu": ("Gpu",),
    "host.refsi.refsi": ("RefSi",),
    "report.diagnostic_text": ("diagnostic_text",),
    "report.notebook": ("load_ipython_extension",),  # by this name IPython finds it for %load_ext softcard
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
