"""AMD HSA: GPUs, code objects, AQL queues, signals; the bare device and its packets."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from understudy.device.hsa.device import HsaDevice
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.device.hsa.memory_model import lower
from understudy.device.hsa.packets import BarrierPacket, FenceScope
from understudy.device.hsa.settings import Settings
from understudy.host.hsa.gpu import (
    AGENTS,
    Condition,
    Executable,
    Gpu,
    Kernel,
    Launch,
    Local,
    Queue,
    Result,
    Signal,
    demo_code,
)
from understudy.image.hsa.records import DescriptorProperties, KernelDescriptor, Rsrc1, Rsrc2

if TYPE_CHECKING:
    from understudy.image.hsa.writer import KernelSource, write_code_object
    from understudy.report.hsa_code import describe

__all__ = [
    "AGENTS",
    "BarrierPacket",
    "Condition",
    "DescriptorProperties",
    "Executable",
    "FenceScope",
    "Gpu",
    "HsaDevice",
    "Kernel",
    "KernelDescriptor",
    "KernelDispatchPacket",
    "KernelSource",
    "Launch",
    "Local",
    "Queue",
    "Result",
    "Rsrc1",
    "Rsrc2",
    "Settings",
    "Signal",
    "demo_code",
    "describe",
    "lower",
    "write_code_object",
]

_LATER = {
    "KernelSource": "image.hsa.writer",
    "describe": "report.hsa_code",
    "write_code_object": "image.hsa.writer",
}
"""What programs that run kernels seldom need, and takes long to load."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(_import_module(f"understudy.{_LATER[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
