"""Public names for AMD OpenCL 2.0 programs: programs from containers, their kernels, images, samplers and queues."""

from softcard.host.amdcl2.program import (
    Addressing,
    ChannelOrder,
    ChannelType,
    DeviceQueue,
    Filter,
    Image,
    ImageKind,
    Kernel,
    Local,
    Program,
    Result,
    Sampler,
    load,
)

__all__ = [
    "Addressing",
    "ChannelOrder",
    "ChannelType",
    "DeviceQueue",
    "Filter",
    "Image",
    "ImageKind",
    "Kernel",
    "Local",
    "Program",
    "Result",
    "Sampler",
    "load",
]
