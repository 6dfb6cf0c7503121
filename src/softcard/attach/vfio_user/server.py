"""The vfio-user server: it listens at a socket path and serves one client after another, each in a session.

The device continues to exist between sessions."""

from __future__ import annotations

import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from softcard.attach.server import SocketServer
from softcard.attach.vfio_user import events, rules
from softcard.attach.vfio_user.access import Regions
from softcard.attach.vfio_user.dma import DmaMemory
from softcard.attach.vfio_user.events import Disconnected, DmaFailed, InterruptSignalled
from softcard.attach.vfio_user.interrupts import Intx, read_irq_set, take_signal
from softcard.attach.vfio_user.messages import (
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
from softcard.attach.vfio_user.negotiation import MAJOR, MINOR, Capabilities, Settings, agree, parse_version
from softcard.attach.vfio_user.requests import Requests, receive_replies
from softcard.attach.vfio_user.rules import reply_errno
from softcard.attach.vfio_user.wire import REPLY, Channel, Message, StreamError
from softcard.attach.vfio_user.wire import Disconnected as ConnectionLost
from softcard.core.errors import AccessFault, BeyondModel, RuleError, SoftcardError, WireError
from softcard.core.event import Event, Probes
from softcard.core.pci import PciDevice
from softcard.core.record import Record

# ---- session ---------------------------------------------------------------------------------------------------------
# One connection of a client: the handling of each message, and the errors for messages that are refused.


BACKLOG: Final = 4096
"""The maximum number of messages queued while the receiving thread itself waits for a reply."""
TAKES_FDS: Final = frozenset({Command.DMA_MAP, Command.DEVICE_SET_IRQS})
GONE: Final = "the client has disconnected"
RecordT = TypeVar("RecordT", bound=Record)


class Session:
    """A connected socket, served until either side ends it. The thread that calls `run` receives all messages."""

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
        self._broken: SoftcardError | None = None
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
        """The number of messages received so far: the `time` of the session's events."""
        return self._channel.received

    def run(self) -> SoftcardError | None:
        """Serve until the connection ends; return the error that ended it, or None for a plain disconnection."""
        try:
            while True:
                self._serve(self._next())
        except ConnectionLost:
            return self._broken
        except StreamError as error:
            return error
        finally:
            self._end()

    def disconnect(self) -> None:
        """End the session from any thread."""
        self._channel.shutdown()

    def _end(self) -> None:
        """Free everything that came from the client; the device keeps its state ("Client Disconnection")."""
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
        """Return the next message to serve. While waiting, handle signals on the unmask eventfd."""
        if self._backlog:
            return self._backlog.popleft()
        if self._broken is not None:
            raise ConnectionLost(GONE)
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
        assert message is not None  # only a call with a time-out returns None
        return message

    def _unmask_signalled(self, fd: int) -> None:
        if take_signal(fd):  # else another thread has read it
            self._intx.set_masked(False)

    def _pump(self, timeout_s: float) -> None:
        """Receive one message, for at most `timeout_s` seconds, while the receiving thread waits for a reply.

        A received command is queued for later execution, and a received reply is passed to the command that waits for
        it. If the connection ends, pending commands fail."""
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
                raise message.place(
                    StreamError(f"the client sent {BACKLOG} commands and no reply to the server's DMA command")
                )
        except ConnectionLost as error:
            self._requests.fail(error.message)
        except StreamError as error:
            self._broken = error
            self._requests.fail(error.message)

    # Serving.

    def _serve(self, message: Message) -> None:
        """Carry out one message and reply to it."""
        refusal: SoftcardError | None = None
        payload = b""
        try:
            if message.is_reply:
                self._answer(message)
                return
            payload = self._dispatch(message)
        except SoftcardError as error:
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
                f"{command_name(message.command)} came before the version negotiation: send VERSION first",
                rule=rules.VERSION_FIRST,
            )
        if handler is None:
            raise WireError(f"unknown command {message.command}", rule=rules.COMMAND).at("byte", 2, "of the header")
        if message.fds and (message.command not in TAKES_FDS or len(message.fds) > self._settings.max_msg_fds):
            most = self._settings.max_msg_fds if message.command in TAKES_FDS else 0
            raise RuleError(
                f"{command_name(message.command)} takes at most {most} file descriptors, not {len(message.fds)}",
                rule=rules.FDS,
            )
        return handler(message)

    def _answer(self, message: Message) -> None:
        """Pass the reply `message` to the pending command with the same id.

        Refuse the reply if this session sends its commands on a separate socket, or if no command has this id."""
        message.close_fds()
        try:
            if self._requests is None or self._twin is not None:
                raise RuleError("the client replied to a command that the server did not send", rule=rules.REPLY_MATCH)
            self._requests.answer(message)
        except RuleError as error:
            self.refused(message.place(error))

    def _reply(self, message: Message, payload: bytes, fds: tuple[int, ...] = ()) -> None:
        self._channel.send(message.message_id, message.command, REPLY, 0, payload, fds)

    def _refuse(self, message: Message, error: SoftcardError) -> None:
        self.refused(message.place(error))
        if message.wants_reply:
            flags = HeaderFlags.REPLY | HeaderFlags.ERROR
            self._channel.send(message.message_id, message.command, flags, reply_errno(error), b"", ())

    def refused(self, error: SoftcardError) -> None:
        """Emit the `Refused` event for a message that was refused with `error`."""
        self._emit(events.Refused(self.time, error, reply_errno(error)))

    def _emit(self, event: Event) -> None:
        if self._probes.active:
            self._probes.emit(event)

    # One method per message, in the document's order.

    def _version(self, message: Message) -> bytes:
        if self._agreed is not None:
            raise RuleError("VERSION must be sent once: the version was negotiated already", rule=rules.VERSION_ONCE)
        head, self._client = parse_version(message.payload)
        if head.major != MAJOR:
            raise StreamError(
                f"the client has protocol version {head.major}.{head.minor}, the server supports {MAJOR}.{MINOR}",
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
        """Let the device's DMA send its commands to the client on `channel`.

        `twin` is True if `channel` is a separate socket; then a new thread receives the replies."""
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
            raise RuleError(f"DMA_MAP takes at most one file descriptor, not {len(message.fds)}", rule=rules.FDS)
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
        raise BeyondModel("access to regions through file descriptors is not modelled", rule=rules.REGION_IO_FDS)

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
        raise RuleError(
            f"{command_name(message.command)} may only be sent by the server, not by the client", rule=rules.DIRECTION
        ).at("byte", 2, "of the header")

    def _reset(self, message: Message) -> bytes:
        if message.payload:
            raise WireError(f"DEVICE_RESET must have no payload, not {len(message.payload)} bytes", rule=rules.PAYLOAD)
        assert self._requests is not None
        with self._requests.failing("the device is being reset"):
            self._regions.reset()
        self._intx.set_masked(False)
        self._emit(events.DeviceReset(self.time))
        return b""

    def _region_write_multi(self, message: Message) -> bytes:
        assert self._agreed is not None
        if not self._agreed.write_multiple:
            raise RuleError(
                "REGION_WRITE_MULTI requires the capability write_multiple, which was not negotiated",
                rule=rules.WRITE_MULTI,
            )
        return self._regions.write_multi(message.payload)

    def _device_feature(self, message: Message) -> bytes:
        request = DeviceFeature.parse(message.payload)
        raise BeyondModel(f"device feature {request.feature} is not modelled", rule=rules.MIGRATION)

    def _migration_data(self, message: Message) -> bytes:
        raise BeyondModel("migration is not modelled", rule=rules.MIGRATION)


def _exactly(record: type[RecordT], message: Message) -> RecordT:
    """Return the payload as a `record`, which must have exactly the payload's size."""
    if len(message.payload) != record.size_bytes:
        raise WireError(
            f"the payload ({record.__name__}) must have {record.size_bytes} bytes, not {len(message.payload)}",
            rule=rules.PAYLOAD,
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


# ---- server ----------------------------------------------------------------------------------------------------------


class Server(SocketServer[Session]):
    """A server that connects `device` to one vfio-user client at a time.

    `serve` blocks the calling thread, which makes all calls of the device; meanwhile the device's own thread does DMA
    and drives the interrupt line. `disconnect`, which acts as a surprise removal, and `close` may be called from any
    thread and from signal handlers.
    """

    def __init__(self, device: PciDevice, settings: Settings | None = None) -> None:
        super().__init__("client")
        self._settings = settings or Settings()
        self._device = device
        self._dma = DmaMemory(self._settings, self._dma_failed, self._memory_gone)
        self._intx = Intx(self._signalled)
        self._regions = Regions(device, self._dma, self._intx, self._settings.max_data_xfer_size)
        device.connect(self._dma)
        self._cancel = device.line.observe(self._intx.set_level)
        self._intx.set_level(device.line.level)

    def close(self) -> None:
        """Stop serving: `serve` returns. The device stays open: its owner closes it."""
        self._cancel()
        super().close()

    def _begin(self, sock: socket.socket) -> Session:
        return Session(sock, self._regions, self._dma, self._intx, self._settings, self.probes)

    def _end(self, session: Session, error: SoftcardError | None) -> Disconnected:
        return Disconnected(session.time, self.sessions, error)

    def _signalled(self) -> None:
        self._emit(InterruptSignalled(self._time()))

    def _memory_gone(self) -> None:
        self._device.connect(self._dma)

    def _dma_failed(self, error: AccessFault) -> None:
        self._emit(DmaFailed(self._time(), error))
