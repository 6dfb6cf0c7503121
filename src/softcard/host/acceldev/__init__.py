"""Public names of Acceldev's host side: the device, contexts, buffers and the queue, as in its Linux driver."""

from softcard.host.acceldev.acceldev import CODE, DATA, Acceldev, Buffer, Context, DriverError

__all__ = ["CODE", "DATA", "Acceldev", "Buffer", "Context", "DriverError"]
