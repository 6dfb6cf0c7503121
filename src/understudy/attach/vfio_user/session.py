"""One connection of a client: what each message does, and what is refused and why."""

from __future__ import annotations

import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from understudy.attach.vfio_user import events, rules
from understudy.attach.vfio_user.access import Regions
from understudy.attach.vfio_user.dma import DmaMemory
from understudy.attach.vfio_user.intx import Intx, take_signal
from understudy.attach.vfio_user.irqs import read_irq_set
from understudy.attach.vfio_user.messages import (
    NUM_IRQS,
    NUM_REGIONS,
    Command,
    DeviceFeature,
    DeviceFlags,
    DeviceInfo,
    DmaMap,
    DmaUnmap,
    HeaderFlags,
    IrqFlags,
    IrqIndex,
    IrqInfo,
    RegionFlags,
    RegionInfo,
    SingleWrite,
    VersionHead,
    WriteMultiHead,
    command_name,
)
from understudy.attach.vfio_user.negotiation import MAJOR, MINOR, Capabilities, Settings, agree, parse_version
from understudy.attach.vfio_user.requests import Requests, receive_replies
from understudy.attach.vfio_user.rules import reply_errno
from understudy.attach.vfio_user.wire import REPLY, Channel, Disconnected, Message, StreamError
from understudy.core.errors import BeyondModel, RuleError, UnderstudyError, WireError
from understudy.core.event import Event, Probes
from understudy.core.record import Record

BACKLOG: Final = 4096
"""Messages put aside at most while the receiving thread itself waits for a reply."""
TAKES_FDS: Final = frozenset({Command.DMA_MAP, Command.DEVICE_SET_IRQS})
GONE: Final = "the client is gone"
RecordT = TypeVar("RecordT", bound=Record)


class Session:
    """Serves one connected socket until either side ends it. The thread that calls `run` receives everything."""

    def __init__(
        self, sock: socket.socket, regions: Regions, dma: DmaMemory, intx: Intx, settings: Settings, probes: Probes
    ) -> None:
        self._regions = regions
        self._dma = dma
        self._intx = intx
        self._settings = settings
        self._probes = probes
        self._channel = Channel(sock, settings.max_data_xfer_size + WriteMultiHead.size_bytes + SingleWrite.size_bytes)
        self._client = Capabilities()
        self._agreed: Capabilities | None = None
        self._requests: Requests | None = None
        self._twin: tuple[Channel, threading.Thread] | None = None
        self._backlog: deque[Message] = deque()
        self._broken: UnderstudyError | None = None
        self._handlers: dict[int, Callable[[Message], bytes]] = {
            Command.VERSION: self._version,
            Command.DMA_MAP: self._dma_map,
            Command.DMA_UNMAP: self._dma_unmap,
            Command.DEVICE_GET_INFO: self._device_info,
            Command.DEVICE_GET_REGION_INFO: self._region_info,
            Command.DEVICE_GET_REGION_IO_FDS: self._region_io_fds,
            Command.DEVICE_GET_IRQ_INFO: self._irq_info,
            Command.DEVICE_SET_IRQS: self._set_irqs,
            Command.REGION_READ: self._region_read,
            Command.REGION_WRITE: self._region_write,
            Command.DMA_READ: self._wrong_way,
            Command.DMA_WRITE: self._wrong_way,
            Command.DEVICE_RESET: self._reset,
            Command.REGION_WRITE_MULTI: self._region_write_multi,
            Command.DEVICE_FEATURE: self._device_feature,
            Command.MIG_DATA_READ: self._migration_data,
            Command.MIG_DATA_WRITE: self._migration_data,
        }

    @property
    def time(self) -> int:
        """Messages received so far: the clock of the events."""
        return self._channel.received

    def run(self) -> UnderstudyError | None:
        """Serve until the connection ends; gives the error that ended it, None for a plain disconnection."""
        try:
            while True:
                self._serve(self._next())
        except Disconnected:
            return self._broken
        except StreamError as error:
            return error
        finally:
            self._end()

    def disconnect(self) -> None:
        """End the session from any thread."""
        self._channel.shutdown()

    def _end(self) -> None:
        """Free all that came from the client; the device keeps its state ("Client Disconnection")."""
        if self._requests is not None:
            self._requests.fail(GONE)
        self._dma.attach(None)
        self._dma.clear()
        self._intx.disable()
        self._channel.shutdown()
        if self._twin is not None:
            channel, thread = self._twin
            channel.shutdown()
            thread.join()
            channel.close()
        while self._backlog:
            self._backlog.popleft().close_fds()
        self._channel.close()

    # Receiving.

    def _next(self) -> Message:
        """The next message to serve; meanwhile, signals on the unmask eventfd are heeded."""
        if self._backlog:
            return self._backlog.popleft()
        if self._broken is not None:
            raise Disconnected(GONE)
        while self._intx.unmask_fd is not None and not self._channel.has_message:
            poll = select.poll()
            poll.register(self._channel, select.POLLIN)
            poll.register(self._intx.unmask_fd, select.POLLIN)
            ready = {fd for fd, _ in poll.poll()}
            if self._intx.unmask_fd in ready:
                self._unmask_signalled(self._intx.unmask_fd)
            if self._channel.fileno() in ready:
                break
        message = self._channel.receive()
        assert message is not None  # it was not given a time-out
        return message

    def _unmask_signalled(self, fd: int) -> None:
        if take_signal(fd):  # else somebody else has read it
            self._intx.set_masked(False)

    def _pump(self, timeout_s: float) -> None:
        """The receiving thread waits for a reply: put commands aside, hand on replies, remember the end."""
        assert self._requests is not None
        try:
            message = self._channel.receive(timeout_s)
            if message is None:
                return
            if message.is_reply:
                self._answer(message)
            elif len(self._backlog) < BACKLOG:
                self._backlog.append(message)
            else:
                message.close_fds()
                raise message.place(StreamError(f"{BACKLOG} messages came while a DMA reply was due"))
        except Disconnected as error:
            self._requests.fail(error.message)
        except StreamError as error:
            self._broken = error
            self._requests.fail(error.message)

    # Serving.

    def _serve(self, message: Message) -> None:
        """Deal with one message and reply to it."""
        refusal: UnderstudyError | None = None
        payload = b""
        try:
            if message.is_reply:
                self._answer(message)
                return
            payload = self._dispatch(message)
        except UnderstudyError as error:
            refusal = error
        finally:
            if message.fds:
                message.close_fds()
        if refusal is not None:
            self._refuse(message, refusal)
            if isinstance(refusal, StreamError):
                raise refusal
        elif message.wants_reply and message.command != Command.VERSION:  # which replies itself, with a descriptor
            self._reply(message, payload)

    def _dispatch(self, message: Message) -> bytes:
        handler = self._handlers.get(message.command)
        if self._agreed is None and message.command != Command.VERSION:
            raise StreamError(
                f"{command_name(message.command)} came before the version was agreed on", rule=rules.VERSION_FIRST
            )
        if handler is None:
            raise WireError(f"there is no command {message.command}", rule=rules.COMMAND).at("byte", 2, "of the header")
        if message.fds and (message.command not in TAKES_FDS or len(message.fds) > self._settings.max_msg_fds):
            most = self._settings.max_msg_fds if message.command in TAKES_FDS else 0
            raise RuleError(f"{len(message.fds)} file descriptors came, {most} at most may", rule=rules.FDS)
        return handler(message)

    def _answer(self, message: Message) -> None:
        """A reply came, which is right only if a command of ours is under way on this socket."""
        message.close_fds()
        try:
            if self._requests is None or self._twin is not None:
                raise RuleError("a reply to a command that is not under way", rule=rules.REPLY_MATCH)
            self._requests.answer(message)
        except RuleError as error:
            self.refused(message.place(error))

    def _reply(self, message: Message, payload: bytes, fds: tuple[int, ...] = ()) -> None:
        self._channel.send(message.message_id, message.command, REPLY, 0, payload, fds)

    def _refuse(self, message: Message, error: UnderstudyError) -> None:
        self.refused(message.place(error))
        if message.wants_reply:
            flags = HeaderFlags.REPLY | HeaderFlags.ERROR
            self._channel.send(message.message_id, message.command, flags, reply_errno(error), b"", ())

    def refused(self, error: UnderstudyError) -> None:
        """Tell the observers what was wrong."""
        self._emit(events.Refused(self.time, error, reply_errno(error)))

    def _emit(self, event: Event) -> None:
        if self._probes.active:
            self._probes.emit(event)

    # One method per message, in the document's order.

    def _version(self, message: Message) -> bytes:
        if self._agreed is not None:
            raise RuleError("the version is agreed on already", rule=rules.VERSION_ONCE)
        head, self._client = parse_version(message.payload)
        if head.major != MAJOR:
            raise StreamError(
                f"the client speaks version {head.major}.{head.minor}, this server {MAJOR}.{MINOR}",
                rule=rules.VERSION_MAJOR,
            ).at("byte", VersionHead.offset_of("major"))
        agreed = agree(self._client, self._settings)
        reply = VersionHead(major=MAJOR, minor=min(head.minor, MINOR)).pack() + agreed.as_json()
        if agreed.twin_socket:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            with theirs:
                self._start_requests(Channel(ours, self._settings.max_data_xfer_size + SingleWrite.size_bytes), True)
                self._reply(message, reply, (theirs.fileno(),))
        else:
            self._start_requests(self._channel, False)
            self._reply(message, reply)
        self._agreed = agreed
        xfer = min(self._client.max_data_xfer_size, self._settings.max_data_xfer_size)
        self._emit(events.Negotiated(self.time, f"{head.major}.{min(head.minor, MINOR)}", xfer, agreed.twin_socket))
        return b""

    def _start_requests(self, channel: Channel, twin: bool) -> None:
        """From now on the device's DMA can use messages."""
        limit = min(self._client.max_data_xfer_size, self._settings.max_data_xfer_size)
        receiver = None if twin else threading.get_ident()
        self._requests = Requests(channel, limit, self._settings.dma_reply_timeout_s, self._pump, receiver)
        self._dma.attach(self._requests)
        if twin:
            thread = threading.Thread(
                target=receive_replies, args=(channel, self._requests, self.refused), name="vfio-user replies"
            )
            self._twin = (channel, thread)
            thread.start()

    def _dma_map(self, message: Message) -> bytes:
        request = _exactly(DmaMap, message)
        _check_argsz(request.argsz, DmaMap.size_bytes, DmaMap, exact=True)
        if len(message.fds) > 1:
            raise RuleError(f"one file descriptor at most belongs to a window, not {len(message.fds)}", rule=rules.FDS)
        assert self._agreed is not None
        fd = message.fds[0] if message.fds else None
        window, reason = self._dma.map(request, fd, self._agreed.max_dma_maps)
        self._emit(events.Mapped(self.time, window.base, window.size, window.flags, window.view is not None, reason))
        return b""

    def _dma_unmap(self, message: Message) -> bytes:
        request = _exactly(DmaUnmap, message)
        _check_argsz(request.argsz, DmaUnmap.size_bytes, DmaUnmap)
        for window in self._dma.unmap(request):
            self._emit(events.Unmapped(self.time, window.base, window.size))
        return message.payload

    def _device_info(self, message: Message) -> bytes:
        request = _exactly(DeviceInfo, message)
        _check_argsz(request.argsz, DeviceInfo.size_bytes, DeviceInfo)
        _check_zero(request, "flags", "num_regions", "num_irqs")
        return DeviceInfo(
            argsz=DeviceInfo.size_bytes,
            flags=DeviceFlags.RESET | DeviceFlags.PCI,
            num_regions=NUM_REGIONS,
            num_irqs=NUM_IRQS,
        ).pack()

    def _region_info(self, message: Message) -> bytes:
        request = _exactly(RegionInfo, message)
        _check_argsz(request.argsz, RegionInfo.size_bytes, RegionInfo)
        _check_zero(request, "flags", "cap_offset", "size", "offset")
        if request.index >= NUM_REGIONS:
            raise _bad_index(RegionInfo, request.index, NUM_REGIONS)
        size = self._regions.size_of(request.index)
        return RegionInfo(
            argsz=RegionInfo.size_bytes,
            flags=RegionFlags.READ | RegionFlags.WRITE if size else 0,
            index=request.index,
            cap_offset=0,
            size=size,
            offset=0,
        ).pack()

    def _region_io_fds(self, message: Message) -> bytes:
        raise BeyondModel("regions are not accessed through file descriptors", rule=rules.REGION_IO_FDS)

    def _irq_info(self, message: Message) -> bytes:
        request = _exactly(IrqInfo, message)
        _check_argsz(request.argsz, IrqInfo.size_bytes, IrqInfo)
        _check_zero(request, "flags", "count")
        if request.index >= NUM_IRQS:
            raise _bad_index(IrqInfo, request.index, NUM_IRQS)
        is_intx = request.index == IrqIndex.INTX and self._regions.has_interrupt
        return IrqInfo(
            argsz=IrqInfo.size_bytes,
            flags=IrqFlags.EVENTFD | IrqFlags.MASKABLE | IrqFlags.AUTOMASKED if is_intx else 0,
            index=request.index,
            count=int(is_intx),
        ).pack()

    def _set_irqs(self, message: Message) -> bytes:
        action = read_irq_set(message, self._regions.has_interrupt)
        action.apply(self._intx)
        return b""

    def _region_read(self, message: Message) -> bytes:
        return self._regions.read(message.payload)

    def _region_write(self, message: Message) -> bytes:
        return self._regions.write(message.payload)

    def _wrong_way(self, message: Message) -> bytes:
        raise RuleError(f"{command_name(message.command)} goes from the server to the client", rule=rules.DIRECTION).at(
            "byte", 2, "of the header"
        )

    def _reset(self, message: Message) -> bytes:
        if message.payload:
            raise WireError(f"DEVICE_RESET has no payload, not {len(message.payload)} bytes", rule=rules.PAYLOAD)
        assert self._requests is not None
        with self._requests.failing("the device is being reset"):
            self._regions.reset()
        self._intx.set_masked(False)
        self._emit(events.DeviceReset(self.time))
        return b""

    def _region_write_multi(self, message: Message) -> bytes:
        assert self._agreed is not None
        if not self._agreed.write_multiple:
            raise RuleError("write_multiple was not agreed on", rule=rules.WRITE_MULTI)
        return self._regions.write_multi(message.payload)

    def _device_feature(self, message: Message) -> bytes:
        request = DeviceFeature.parse(message.payload)
        raise BeyondModel(f"device feature {request.feature} is not offered", rule=rules.MIGRATION)

    def _migration_data(self, message: Message) -> bytes:
        raise BeyondModel("migration is not offered", rule=rules.MIGRATION)


def _exactly(record: type[RecordT], message: Message) -> RecordT:
    """The payload as `record`, which it must fill."""
    if len(message.payload) != record.size_bytes:
        raise WireError(
            f"{record.__name__} takes {record.size_bytes} bytes, not {len(message.payload)}", rule=rules.PAYLOAD
        ).at("byte", min(len(message.payload), record.size_bytes), "of the payload")
    return record.parse(message.payload)


def _check_argsz(argsz: int, needed: int, record: type[Record], exact: bool = False) -> None:
    if argsz < needed or (exact and argsz != needed):
        raise RuleError(f"argsz must be {needed}{'' if exact else ' or more'}, not {argsz}", rule=rules.ARGSZ).at(
            "byte", record.offset_of("argsz")
        )


def _check_zero(request: Record, *names: str) -> None:
    for name in names:
        value = getattr(request, name)
        if value:
            raise RuleError(f"{name} of a request must be 0, not {value:#x}", rule=rules.ZERO).at(
                "byte", request.offset_of(name)
            )


def _bad_index(record: type[Record], index: int, count: int) -> RuleError:
    rule = rules.REGION_INDEX if record is RegionInfo else rules.IRQ_INDEX
    return RuleError(f"index must be 0 to {count - 1}, not {index}", rule=rule).at("byte", record.offset_of("index"))
