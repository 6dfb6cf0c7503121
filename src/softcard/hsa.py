"""Public names for AMD HSA: GPUs, code objects, AQL queues, signals, and a device that takes AQL packets directly."""

from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.memory.memory_model import lower
from softcard.device.hsa.queues.packets import BarrierPacket, FenceScope, KernelDispatchPacket
from softcard.device.hsa.settings import Settings
from softcard.host.hsa.gpu import (
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
from softcard.image.assembly.files import assemble_code_object
from softcard.image.hsa.records import DescriptorProperties, KernelDescriptor, Rsrc1, Rsrc2
from softcard.image.hsa.writer import KernelSource, bare_code_object, write_code_object
from softcard.report.hsa_code import describe

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
