"""The interrupt of a PCI device, and the client's requests for it (VFIO_USER_DEVICE_SET_IRQS)."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from softcard.attach.vfio_user import rules
from softcard.attach.vfio_user.messages import NUM_IRQS, IrqIndex, IrqSet, IrqSetFlags
from softcard.attach.vfio_user.wire import Message
from softcard.core.errors import BeyondModel, RuleError, WireError
from softcard.core.rule import Rule

# ---- interrupt INTx --------------------------------------------------------------------------------------------------
# The one level-triggered interrupt of a PCI device, carried by an eventfd, which knows edges only.
#
# A high pin signals the eventfd once and masks itself (VFIO_IRQ_INFO_AUTOMASKED); the client unmasks at the guest's end
# of interrupt, and if the pin is still high then, the eventfd is signalled again. So no interrupt is lost, and none
# repeats before the guest has handled the last.


EVENTFD_LINK = "anon_inode:[eventfd]"


def is_eventfd(fd: int) -> bool:
    """Return True if a descriptor is an eventfd."""
    return os.readlink(f"/proc/self/fd/{fd}") == EVENTFD_LINK


def signal(fd: int) -> None:
    """Signal an eventfd, unless its counter is full; a full counter means that its owner has unread signals already.

    The non-blocking flag of an eventfd applies to all its users, and its owner can change it at any time. So the flag
    is set before each use, and the eventfd is polled.
    """
    os.set_blocking(fd, False)
    try:
        if _is_ready(fd, select.POLLOUT):
            os.eventfd_write(fd, 1)
    except BlockingIOError:
        return  # another user has filled the counter since


def take_signal(fd: int) -> bool:
    """Consume the signal of an eventfd; return True if it was signalled. Like `signal`, this never blocks."""
    os.set_blocking(fd, False)
    try:
        return _is_ready(fd, select.POLLIN) and os.eventfd_read(fd) > 0
    except BlockingIOError:
        return False


def _is_ready(fd: int, for_what: int) -> bool:
    poll = select.poll()
    poll.register(fd, for_what)
    return any(events & for_what for _, events in poll.poll(0))


class Intx:
    """The pin level, mask and eventfds of an INTx interrupt.

    Any thread may call `set_level`; only the receiving thread may call the other methods.
    """

    def __init__(self, signalled: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._signalled = signalled
        self._high = False
        self._disabled = False
        self._masked = False
        self._trigger: int | None = None
        self.unmask_fd: int | None = None
        """An eventfd that the session polls: a signal on it unmasks the interrupt."""

    @property
    def masked(self) -> bool:
        """True if the interrupt is masked: the client must unmask it before the pin signals again."""
        return self._masked

    def set_level(self, high: bool) -> None:
        """Set the level of the interrupt pin.

        If the pin is high and the interrupt is neither disabled nor masked, signal the eventfd and mask the
        interrupt."""
        with self._lock:
            self._high = high
            fired = self._evaluate()
        self._notify(fired)

    def set_disabled(self, disabled: bool) -> None:
        """Apply the Interrupt Disable bit of the Command register, which keeps the pin low."""
        with self._lock:
            self._disabled = disabled
            fired = self._evaluate()
        self._notify(fired)

    def set_masked(self, masked: bool) -> None:
        """Mask or unmask the interrupt at the client's request."""
        with self._lock:
            self._masked = masked
            fired = self._evaluate()
        self._notify(fired)

    def set_trigger(self, fd: int | None) -> None:
        """Signal `fd` for interrupts, instead of the previous eventfd; with None, signal no eventfd.

        This object then owns `fd`.
        """
        with self._lock:
            if self._trigger is not None:
                os.close(self._trigger)
            self._trigger = fd
            fired = self._evaluate()
        self._notify(fired)

    def set_unmask_fd(self, fd: int | None) -> None:
        """Poll `fd` as the unmask eventfd, instead of the previous one; with None, poll none.

        This object then owns `fd`.
        """
        if self.unmask_fd is not None:
            os.close(self.unmask_fd)
        self.unmask_fd = fd

    def fire(self) -> None:
        """Signal the interrupt's eventfd at the client's request, regardless of the pin's level."""
        with self._lock:
            self._signal()
        self._notify(True)

    def disable(self) -> None:
        """Drop the eventfds and unmask the interrupt, as at the end of a session; the pin keeps its level."""
        self.set_unmask_fd(None)
        with self._lock:
            if self._trigger is not None:
                os.close(self._trigger)
            self._trigger = None
            self._masked = False

    def _evaluate(self) -> bool:
        if not self._high or self._disabled or self._masked or self._trigger is None:
            return False
        self._masked = True
        self._signal()
        return True

    def _signal(self) -> None:
        if self._trigger is not None:
            signal(self._trigger)

    def _notify(self, fired: bool) -> None:
        if fired:
            self._signalled()


# ---- VFIO_USER_DEVICE_SET_IRQS ---------------------------------------------------------------------------------------


DATA_FLAGS: Final = (IrqSetFlags.DATA_NONE, IrqSetFlags.DATA_BOOL, IrqSetFlags.DATA_EVENTFD)
ACTION_FLAGS: Final = (IrqSetFlags.ACTION_MASK, IrqSetFlags.ACTION_UNMASK, IrqSetFlags.ACTION_TRIGGER)


@dataclass(frozen=True, slots=True)
class IrqAction:
    """A SET_IRQS action on INTx, decoded from a message.

    `action` is the action flag. `performed` is True if the message requests to perform the action immediately.
    `disables` is True if the action disables the interrupt. `takes_fd` is True if it installs the eventfd `fd`."""

    action: IrqSetFlags
    performed: bool = False
    disables: bool = False
    takes_fd: bool = False
    fd: int | None = None
    """The eventfd to install, which this object owns; None removes the present one."""

    def apply(self, intx: Intx) -> None:
        """Carry out the action."""
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
    """Return the action requested by a SET_IRQS message, and take ownership of the message's descriptor."""
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
                raise _broken(
                    rules.IRQ_RANGE,
                    "count",
                    f"count 0 (disable interrupts) must have ACTION_TRIGGER, not {action.name}",
                )
            return IrqAction(action, disables=bool(count))
        return IrqAction(action, performed=True)
    if data is IrqSetFlags.DATA_BOOL:
        return IrqAction(action, performed=any(message.payload[IrqSet.size_bytes :]))
    if action is IrqSetFlags.ACTION_MASK:
        raise BeyondModel(
            "an eventfd that is signalled when the guest masks an interrupt is not modelled", rule=rules.MASK_EVENTFD
        )
    return IrqAction(action, takes_fd=bool(request.count), fd=_eventfd(message))


def _flags(request: IrqSet) -> tuple[IrqSetFlags, IrqSetFlags]:
    """Return the data flag and the action flag of a request; raise an error unless it has exactly one of each."""
    data = [flag for flag in DATA_FLAGS if request.flags & flag]
    action = [flag for flag in ACTION_FLAGS if request.flags & flag]
    if len(data) != 1 or len(action) != 1 or request.flags & ~int(IrqSetFlags.DATA | IrqSetFlags.ACTION):
        raise _broken(
            rules.IRQ_FLAGS, "flags", f"flags must be one DATA flag and one ACTION flag, not {request.flags:#x}"
        )
    return data[0], action[0]


def _check_range(request: IrqSet, has_interrupt: bool) -> int:
    """Return the number of interrupts of the requested type.

    Raise `RuleError` if the type does not exist, or if the requested range exceeds that number."""
    if request.index >= NUM_IRQS:
        raise _broken(rules.IRQ_INDEX, "index", f"index must be 0 to {NUM_IRQS - 1}, not {request.index}")
    count = int(request.index == IrqIndex.INTX and has_interrupt)
    if request.start + request.count > count:
        raise _broken(
            rules.IRQ_RANGE,
            "start",
            f"start and count must select some of the {count} interrupts of type {request.index}, "
            f"not {request.count} from number {request.start} on",
        )
    return count


def _check_data(request: IrqSet, data: IrqSetFlags, message: Message) -> None:
    """Raise an error unless the message has the booleans or descriptors that its data flag requires."""
    booleans = len(message.payload) - IrqSet.size_bytes
    wanted = request.count if data is IrqSetFlags.DATA_BOOL else 0
    if booleans != wanted:
        raise WireError(f"SET_IRQS must have {wanted} bytes of booleans, not {booleans}", rule=rules.IRQ_DATA).at(
            "byte", IrqSet.size_bytes
        )
    most = request.count if data is IrqSetFlags.DATA_EVENTFD else 0
    if len(message.fds) > most:
        raise RuleError(
            f"SET_IRQS must have at most {most} file descriptors with these flags, not {len(message.fds)}",
            rule=rules.IRQ_FD,
        )


def _eventfd(message: Message) -> int | None:
    """Return the message's eventfd and take ownership of it; None if the message has no descriptor."""
    if not message.fds:
        return None
    if not is_eventfd(message.fds[0]):
        raise RuleError("the file descriptor of SET_IRQS must be an eventfd", rule=rules.IRQ_FD)
    fd = message.take_fd()
    assert fd is not None
    return fd


def _broken(rule: Rule, field: str, text: str) -> RuleError:
    return rules.broken(rule, IrqSet, field, text)
