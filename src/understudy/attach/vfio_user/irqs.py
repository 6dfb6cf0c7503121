"""VFIO_USER_DEVICE_SET_IRQS: which action it asks for, fully checked before anything changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.attach.vfio_user import rules
from understudy.attach.vfio_user.intx import Intx, is_eventfd
from understudy.attach.vfio_user.messages import NUM_IRQS, IrqIndex, IrqSet, IrqSetFlags
from understudy.attach.vfio_user.wire import Message
from understudy.core.errors import BeyondModel, RuleError, WireError
from understudy.core.rule import Rule

DATA_FLAGS: Final = (IrqSetFlags.DATA_NONE, IrqSetFlags.DATA_BOOL, IrqSetFlags.DATA_EVENTFD)
ACTION_FLAGS: Final = (IrqSetFlags.ACTION_MASK, IrqSetFlags.ACTION_UNMASK, IrqSetFlags.ACTION_TRIGGER)


@dataclass(frozen=True, slots=True)
class IrqAction:
    """What to do with INTx: an action flag and whether it is performed now, disables all, or takes an eventfd."""

    action: IrqSetFlags
    performed: bool = False
    disables: bool = False
    takes_fd: bool = False
    fd: int | None = None
    """The descriptor, ours from now on; None de-assigns."""

    def apply(self, intx: Intx) -> None:
        """Do it."""
        if self.disables:
            intx.disable()
        elif self.takes_fd and self.action is IrqSetFlags.ACTION_TRIGGER:
            intx.set_trigger(self.fd)
        elif self.takes_fd:
            intx.set_unmask_fd(self.fd)
        elif self.performed and self.action is IrqSetFlags.ACTION_TRIGGER:
            intx.fire()
        elif self.performed:
            intx.set_masked(self.action is IrqSetFlags.ACTION_MASK)


def read_irq_set(message: Message, has_interrupt: bool) -> IrqAction:
    """The action in a SET_IRQS message; takes its descriptor."""
    request = IrqSet.parse(message.payload)
    if request.argsz < len(message.payload):
        raise _broken(
            rules.ARGSZ, "argsz", f"argsz must be {len(message.payload)}, the payload's size, not {request.argsz}"
        )
    data, action = _flags(request)
    count = _check_range(request, has_interrupt)
    _check_data(request, data, message)
    if data is IrqSetFlags.DATA_NONE:
        if not request.count:
            if action is not IrqSetFlags.ACTION_TRIGGER:
                raise _broken(rules.IRQ_RANGE, "count", "count 0 disables interrupts, with ACTION_TRIGGER only")
            return IrqAction(action, disables=bool(count))
        return IrqAction(action, performed=True)
    if data is IrqSetFlags.DATA_BOOL:
        return IrqAction(action, performed=any(message.payload[IrqSet.size_bytes :]))
    if action is IrqSetFlags.ACTION_MASK:
        raise BeyondModel("no eventfd is signalled when the guest masks", rule=rules.MASK_EVENTFD)
    return IrqAction(action, takes_fd=bool(request.count), fd=_eventfd(message))


def _flags(request: IrqSet) -> tuple[IrqSetFlags, IrqSetFlags]:
    """The one data flag and the one action flag."""
    data = [flag for flag in DATA_FLAGS if request.flags & flag]
    action = [flag for flag in ACTION_FLAGS if request.flags & flag]
    if len(data) != 1 or len(action) != 1 or request.flags & ~int(IrqSetFlags.DATA | IrqSetFlags.ACTION):
        raise _broken(
            rules.IRQ_FLAGS, "flags", f"flags must name one kind of data and one action, not {request.flags:#x}"
        )
    return data[0], action[0]


def _check_range(request: IrqSet, has_interrupt: bool) -> int:
    """How many interrupts the type has."""
    if request.index >= NUM_IRQS:
        raise _broken(rules.IRQ_INDEX, "index", f"index must be 0 to {NUM_IRQS - 1}, not {request.index}")
    count = int(request.index == IrqIndex.INTX and has_interrupt)
    if request.start + request.count > count:
        raise _broken(
            rules.IRQ_RANGE,
            "start",
            f"interrupt type {request.index} has {count} interrupts, not {request.count} from {request.start} on",
        )
    return count


def _check_data(request: IrqSet, data: IrqSetFlags, message: Message) -> None:
    """Booleans and descriptors must be there as the flags say."""
    booleans = len(message.payload) - IrqSet.size_bytes
    wanted = request.count if data is IrqSetFlags.DATA_BOOL else 0
    if booleans != wanted:
        raise WireError(f"{wanted} bytes of booleans must follow, not {booleans}", rule=rules.IRQ_DATA).at(
            "byte", IrqSet.size_bytes
        )
    most = request.count if data is IrqSetFlags.DATA_EVENTFD else 0
    if len(message.fds) > most:
        raise RuleError(f"{most} file descriptors at most must come, not {len(message.fds)}", rule=rules.IRQ_FD)


def _eventfd(message: Message) -> int | None:
    """The message's eventfd, taken over."""
    if not message.fds:
        return None
    if not is_eventfd(message.fds[0]):
        raise RuleError("the file descriptor must be an eventfd", rule=rules.IRQ_FD)
    fd = message.take_fd()
    assert fd is not None
    return fd


def _broken(rule: Rule, field: str, text: str) -> RuleError:
    return rules.broken(rule, IrqSet, field, text)
