"""Acceldev: the device, contexts, buffers and the queue, as its Linux driver offers them."""

from understudy.host.acceldev.acceldev import CODE, DATA, Acceldev, Buffer, Context, DriverError

__all__ = ["CODE", "DATA", "Acceldev", "Buffer", "Context", "DriverError"]
