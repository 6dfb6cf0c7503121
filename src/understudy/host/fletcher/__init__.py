"""Fletcher: platforms, contexts and kernels, as its run-time names them."""

from understudy.host.fletcher.platform import (
    Context,
    DeviceBuffer,
    Kernel,
    Platform,
    StatusError,
    empty_batch,
    unsliced,
)

__all__ = ["Context", "DeviceBuffer", "Kernel", "Platform", "StatusError", "empty_batch", "unsliced"]
