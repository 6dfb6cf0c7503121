"""Understudy: a bench of virtual accelerators. The public names, nothing else."""

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

__version__ = "0.1.0"

__all__ = [
    "AccessFault",
    "BeyondModel",
    "GuestFault",
    "ModelBug",
    "Place",
    "RuleError",
    "UnderstudyError",
    "WireError",
    "__version__",
]
