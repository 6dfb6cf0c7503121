"""Public names for Fletcher: platforms, kernels, register maps, and the device without a run-time library."""

from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.events import Lint
from softcard.device.fletcher.job import Job
from softcard.device.fletcher.kernel import Kernel as VirtualKernel
from softcard.device.fletcher.kernel import kernel, named_schema
from softcard.device.fletcher.kernels import BUILT_IN, find
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.map.checker import check_design
from softcard.device.fletcher.map.registers import PROFILE_COUNTERS
from softcard.device.fletcher.settings import Settings
from softcard.host.fletcher.platform import (
    Context,
    DeviceBuffer,
    Kernel,
    Platform,
    StatusError,
    empty_batch,
    unsliced,
)

__all__ = [
    "BUILT_IN",
    "PROFILE_COUNTERS",
    "Context",
    "DeviceBuffer",
    "FletcherDevice",
    "Job",
    "Kernel",
    "Lint",
    "Platform",
    "Settings",
    "StatusError",
    "VirtualKernel",
    "check_design",
    "empty_batch",
    "find",
    "fletcher_map",
    "kernel",
    "named_schema",
    "unsliced",
]
