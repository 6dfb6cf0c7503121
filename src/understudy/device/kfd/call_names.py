"""What messages call an ioctl of the driver or of a render node."""

from __future__ import annotations

from enum import IntEnum

from understudy.device.kfd import drm, ioctls


def call_name(request: int) -> str:
    """What messages call an ioctl."""
    kind, number = request >> 8 & 0xFF, request & 0xFF
    names: type[IntEnum] | None = {ioctls.TYPE: ioctls.Number, drm.TYPE: drm.Number}.get(kind)
    known = names is not None and number in list(names)
    return names(number).name if names is not None and known else f"{request:#x}"
