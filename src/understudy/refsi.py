"""RefSi M1 and G1: devices, command buffers, kernels."""

from understudy.device.refsi.device import RefSiDevice
from understudy.device.refsi.settings import Settings
from understudy.device.refsi.toolkit.builder import CommandBuffer
from understudy.device.refsi.toolkit.lint import lint
from understudy.device.refsi.toolkit.listing import listing
from understudy.host.refsi.compile import compile_kernels
from understudy.host.refsi.refsi import RefSi, demo_kernels
from understudy.image.riscv.program import read_elf

__all__ = [
    "CommandBuffer",
    "RefSi",
    "RefSiDevice",
    "Settings",
    "compile_kernels",
    "demo_kernels",
    "lint",
    "listing",
    "read_elf",
]
