"""The errors of a queue: the bits of queue_inactive_signal, their meaning, and the errors that set them.

The ROCm Code Object specification does not describe the bits. Their values and meanings are those that AMD's
runtime expects."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

from softcard.core.errors import AccessFault, BeyondModel, GuestFault, RuleError, SoftcardError, WireError
from softcard.core.rule import Rule
from softcard.device.hsa.launch.plan import DispatchRefused
from softcard.isa.gcn.insn import IllegalInstruction


class QueueError(IntFlag):
    """The error bits of a queue's queue_inactive_signal."""

    INSUFFICIENT_SCRATCH = 0x1
    INVALID_DIMENSION = 0x2
    INVALID_GROUP_MEMORY = 0x4
    INVALID_CODE = 0x8
    INVALID_PACKET = 0x20
    GROUP_TOO_LARGE = 0x40
    OUT_OF_VGPRS = 0x80
    INVALID_VENDOR_PACKET = 0x100
    SCRATCH_RECLAIM = 0x200
    INSUFFICIENT_SCRATCH_WAVE32 = 0x400
    MEMORY_APERTURE_VIOLATION = 0x2000_0000
    ILLEGAL_INSTRUCTION = 0x4000_0000
    EXCEPTION = 0x8000_0000


class Status(IntEnum):
    """The values of hsa_status_t with which a queue's error callback is called."""

    SUCCESS = 0x0
    ERROR_INVALID_ARGUMENT = 0x1001
    ERROR_INVALID_ALLOCATION = 0x1003
    ERROR_OUT_OF_RESOURCES = 0x1008
    ERROR_INVALID_PACKET_FORMAT = 0x1009
    ERROR_INCOMPATIBLE_ARGUMENTS = 0x100D
    ERROR_INVALID_ISA = 0x100F
    ERROR_INVALID_CODE_OBJECT = 0x1010
    ERROR_EXCEPTION = 0x1016
    ERROR_ILLEGAL_INSTRUCTION = 42
    ERROR_MEMORY_APERTURE_VIOLATION = 41


_STATUS: Final = (
    (QueueError.INSUFFICIENT_SCRATCH | QueueError.INSUFFICIENT_SCRATCH_WAVE32, Status.ERROR_OUT_OF_RESOURCES),
    (QueueError.INVALID_DIMENSION, Status.ERROR_INCOMPATIBLE_ARGUMENTS),
    (QueueError.INVALID_GROUP_MEMORY, Status.ERROR_INVALID_ALLOCATION),
    (QueueError.INVALID_CODE, Status.ERROR_INVALID_CODE_OBJECT),
    (QueueError.INVALID_PACKET | QueueError.INVALID_VENDOR_PACKET, Status.ERROR_INVALID_PACKET_FORMAT),
    (QueueError.GROUP_TOO_LARGE, Status.ERROR_INVALID_ARGUMENT),
    (QueueError.OUT_OF_VGPRS, Status.ERROR_INVALID_ISA),
    (QueueError.MEMORY_APERTURE_VIOLATION, Status.ERROR_MEMORY_APERTURE_VIOLATION),
    (QueueError.ILLEGAL_INSTRUCTION, Status.ERROR_ILLEGAL_INSTRUCTION),
    (QueueError.EXCEPTION, Status.ERROR_EXCEPTION),
)  # fmt: skip


def status_of(code: int) -> Status:
    """Return the hsa_status_t for `code`, the error bits of a queue.

    If several bits are set, AMD's runtime reports the first one in its own order, and so does this function.
    """
    for bits, status in _STATUS:
        if code & bits:
            return status
    return Status.SUCCESS


class PacketRefused(RuleError):
    """The error for a packet that the packet processor rejects; `code` is the `QueueError` to report."""

    def __init__(self, message: str, code: QueueError, rule: Rule | None = None) -> None:
        super().__init__(message, rule=rule)
        self.code = code


def code_of(error: SoftcardError) -> QueueError:
    """Return the `QueueError` for an error of a launch or of a wave.

    It is EXCEPTION for faults of waves that are neither a bad access nor a bad instruction: traps, exceptions and step
    limits.
    """
    if isinstance(error, (DispatchRefused, PacketRefused)):
        return QueueError(error.code)
    if isinstance(error, AccessFault):
        return QueueError.MEMORY_APERTURE_VIOLATION
    if isinstance(error, (IllegalInstruction, WireError, BeyondModel)):
        return QueueError.ILLEGAL_INSTRUCTION
    if isinstance(error, GuestFault):
        return QueueError.EXCEPTION
    return QueueError.INVALID_PACKET
