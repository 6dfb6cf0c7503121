"""RefSi: devices, kernels, buffers, and the driver interface over a port."""

from understudy.host.refsi.refsi import RefSi, demo_kernels

__all__ = ["RefSi", "demo_kernels"]
