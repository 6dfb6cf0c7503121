"""Public names of Fletcher's run-time library: platforms, contexts and kernels, named as in the original library."""

from softcard.host.fletcher.platform import (
    Context,
    DeviceBuffer,
    Kernel,
    Platform,
    StatusError,
    empty_batch,
    unsliced,
)

__all__ = ["Context", "DeviceBuffer", "Kernel", "Platform", "StatusError", "empty_batch", "unsliced"]
