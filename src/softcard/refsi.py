"""The public interface of RefSi M1 and G1: devices, command buffers, kernels."""

from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.settings import Settings
from softcard.device.refsi.toolkit.builder import CommandBuffer
from softcard.device.refsi.toolkit.lint import lint
from softcard.device.refsi.toolkit.listing import listing
from softcard.host.refsi.compile import compile_kernels
from softcard.host.refsi.refsi import RefSi, demo_kernels
from softcard.image.riscv.program import read_elf

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
