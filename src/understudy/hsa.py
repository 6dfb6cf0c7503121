"""AMD HSA: GPUs, code objects, AQL queues, signals; the bare device and its packets."""

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
from understudy.image.assembly.files import assemble_code_object
from understudy.image.hsa.bare import bare_code_object
from understudy.image.hsa.records import DescriptorProperties, KernelDescriptor, Rsrc1, Rsrc2
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
    "assemble_code_object",
    "bare_code_object",
    "demo_code",
    "describe",
    "lower",
    "write_code_object",
]
