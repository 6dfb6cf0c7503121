"""The public interface for AMD OpenCL 2.0 programs compiled by Catalyst: read, write and run them."""

from softcard.device.amdcl2.settings import Settings
from softcard.host.amdcl2.demo import demo_program
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
from softcard.image.amdcl2.build import build_kernel
from softcard.image.amdcl2.container import read_container
from softcard.image.amdcl2.formats import supported_formats
from softcard.image.amdcl2.objects import image_object
from softcard.image.amdcl2.writer import source_of, write_container

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
    "Settings",
    "build_kernel",
    "demo_program",
    "image_object",
    "load",
    "read_container",
    "source_of",
    "supported_formats",
    "write_container",
]
