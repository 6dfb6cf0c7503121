"""Fletcher: platforms, kernels, register maps; the bare device."""

from understudy.device.fletcher.device import FletcherDevice
from understudy.device.fletcher.events import Lint
from understudy.device.fletcher.kernel import Kernel as VirtualKernel
from understudy.device.fletcher.kernel import kernel, named_schema
from understudy.device.fletcher.kernels import BUILT_IN, find
from understudy.device.fletcher.map.build import fletcher_map
from understudy.device.fletcher.map.checker import check_design
from understudy.device.fletcher.map.registers import PROFILE_COUNTERS
from understudy.device.fletcher.settings import Settings
from understudy.host.fletcher.platform import (
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
