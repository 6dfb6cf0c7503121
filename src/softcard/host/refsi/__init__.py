"""Public names of the RefSi host library: devices, kernels, buffers and the driver interface."""

from softcard.host.refsi.refsi import RefSi, demo_kernels

__all__ = ["RefSi", "demo_kernels"]
