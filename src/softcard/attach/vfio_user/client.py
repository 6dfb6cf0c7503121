"""A vfio-user client, which acts as a machine emulator for tests, benchmarks and drivers in Python.

It has no thread of its own: it serves the server's commands (DMA by messages) only while one of its calls waits, so
that a test determines the order of events.
"""

from __future__ import annotations

import mmap
import os
import select
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from softcard.attach.vfio_user import rules
from softcard.attach.vfio_user.messages import (
    Command,
    DeviceInfo,
    DmaAccess,
    DmaMap,
    DmaMapFlags,
    DmaUnmap,
    HeaderFlags,
    IrqIndex,
    IrqInfo,
    IrqSet,
    IrqSetFlags,
    MessageType,
    RegionAccess,
    RegionIndex,
    RegionInfo,
    SingleWrite,
    VersionHead,
    WriteMultiHead,
    command_name,
)
from softcard.attach.vfio_user.negotiation import MAJOR, MINOR, Capabilities, parse_version
from softcard.attach.vfio_user.wire import Channel, Disconnected, Message
from softcard.core.errors import RuleError, SoftcardError

ACCESS: Final = RegionAccess.layout
DMA_ACCESS: Final = DmaAccess.layout
READ_WRITE: Final = int(DmaMapFlags.READABLE | DmaMapFlags.WRITEABLE)
OFFER: Final = Capabilities(max_msg_fds=8, write_multiple=True, twin_socket=False)
LARGEST: Final = (1 << 20) + 64


class ServerError(SoftcardError):
    """The exception for an error reply of the server; `errno` is the reply's error number."""

    def __init__(self, command: int, errno: int) -> None:
        super().__init__(f"{command_name(command)}: the server answers {os.strerror(errno)} (errno {errno})")
        self.errno = errno


class Timeout(SoftcardError):
    """The error for a reply, command or interrupt that has not arrived in time."""


class Memory:
    """A range of the client's memory at address `base`; `view` holds its bytes.

    `fd` is the file descriptor of the memory if it is shared, or else None."""

    def __init__(self, base: int, size: int, *, shared: bool, sealed: bool = True) -> None:
        self.base = base
        self.size = size
        self.fd: int | None = None
        if shared:
            self.fd = os.memfd_create("guest", os.MFD_CLOEXEC | (os.MFD_ALLOW_SEALING if sealed else 0))
            os.ftruncate(self.fd, size)
            self.view = memoryview(mmap.mmap(self.fd, size))
        else:
            self.view = memoryview(bytearray(size))

    def close(self) -> None:
        """Close the file descriptor; `view` stays valid."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


class Client:
    """A connection to a vfio-user server. A call waits at most `timeout_s`; error replies raise `ServerError`."""

    def __init__(self, sock: socket.socket, timeout_s: float = 10.0) -> None:
        self.channel = Channel(sock, LARGEST)
        self.twin: Channel | None = None
        self.server = Capabilities()
        self.timeout_s = timeout_s
        self.windows: dict[int, Memory] = {}
        self.dma_served = 0
        """The number of DMA commands of the server that this client has served so far."""
        self._next_id = 0
        self._irq: int | None = None

    @classmethod
    def connect(cls, path: str | Path, timeout_s: float = 10.0) -> Client:
        """Connect to a listening server and agree on the version."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(str(path))
        except OSError as error:
            sock.close()
            raise Disconnected(
                f"cannot connect to a server at {path}: {error.strerror or error}"
            ) from None  # too long a path has no strerror
        client = cls(sock, timeout_s)
        client.negotiate()
        return client

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and free all memory and descriptors."""
        self.channel.shutdown()
        self.channel.close()
        if self.twin is not None:
            self.twin.close()
        for memory in self.windows.values():
            memory.close()
        if self._irq is not None:
            os.close(self._irq)
            self._irq = None

    # Any message.

    def send(
        self, command: int, payload: bytes = b"", fds: Sequence[int] = (), *, posted: bool = False, flags: int = 0
    ) -> int:
        """Send a command and return its message id; with `posted`, the command requests no reply."""
        self._next_id = (self._next_id + 1) & 0xFFFF
        flags |= HeaderFlags.NO_REPLY if posted else 0
        self.channel.send(self._next_id, command, int(flags), 0, payload, fds)
        return self._next_id

    def call(self, command: int, payload: bytes = b"", fds: Sequence[int] = ()) -> bytes:
        """Send a command and return the payload of its reply."""
        return self.wait_reply(self.send(command, payload, fds)).payload

    def wait_reply(self, message_id: int) -> Message:
        """Return the reply to the command `message_id`, and serve the server's DMA commands meanwhile."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            if self.twin is not None:
                self._wait_either(deadline)
            message = self.channel.receive(None if self.twin is not None else max(0.0, deadline - time.monotonic()))
            if message is None:
                raise Timeout(f"no reply to message id {message_id:#x} within {self.timeout_s:g} s")
            if not message.is_reply:
                self._serve(self.channel, message)
                continue
            if message.message_id != message_id:
                raise RuleError(
                    f"expected a reply to message id {message_id:#x}, got one to {message.message_id:#x}",
                    rule=rules.REPLY_MATCH,
                )
            if message.flags & HeaderFlags.ERROR:
                raise ServerError(message.command, message.errno)
            return message

    def serve_dma(self, timeout_s: float) -> bool:
        """Wait for one command of the server and serve it; return True if one came."""
        channel = self.twin or self.channel
        message = channel.receive(timeout_s)
        if message is None:
            return False
        self._serve(channel, message)
        return True

    def _wait_either(self, deadline: float) -> None:
        """Serve the server's commands, which arrive on a separate socket, until the main socket is readable."""
        assert self.twin is not None
        while not self.channel.has_message:
            poll = select.poll()
            poll.register(self.channel, select.POLLIN)
            poll.register(self.twin, select.POLLIN)
            ready = {fd for fd, _ in poll.poll(max(0.0, deadline - time.monotonic()) * 1000)}
            if not ready:
                raise Timeout(f"the server sent nothing for {self.timeout_s:g} s")
            if self.channel.fileno() in ready:
                return
            self.serve_dma(0.0)

    def _serve(self, channel: Channel, message: Message) -> None:
        """Reply to a DMA_READ or DMA_WRITE command by accessing the memory that was mapped for the server."""
        message.close_fds()
        self.dma_served += 1
        address, count = DMA_ACCESS.unpack_from(message.payload)
        memory = self._window(address, count)
        flags, errno, payload = int(MessageType.REPLY), 0, message.payload[: DMA_ACCESS.size]
        if memory is None:
            flags, errno, payload = flags | int(HeaderFlags.ERROR), 14, b""  # EFAULT
        elif message.command == Command.DMA_READ:
            start = address - memory.base
            payload += bytes(memory.view[start : start + count])
        else:
            memory.view[address - memory.base : address - memory.base + count] = message.payload[DMA_ACCESS.size :]
        channel.send(message.message_id, message.command, flags, errno, payload, ())

    def _window(self, address: int, count: int) -> Memory | None:
        for memory in self.windows.values():
            if memory.base <= address and address + count <= memory.base + memory.size:
                return memory
        return None

    # The messages, in the document's order.

    def negotiate(self, offer: Capabilities = OFFER) -> Capabilities:
        """Send VERSION with the capabilities `offer`; return the capabilities in the server's reply."""
        payload = VersionHead(major=MAJOR, minor=MINOR).pack() + offer.as_json()
        reply = self.wait_reply(self.send(Command.VERSION, payload))
        _, self.server = parse_version(reply.payload)
        if self.server.twin_socket:
            fd = reply.take_fd()
            if fd is None:
                raise RuleError("the reply offers twin_socket but has no file descriptor", rule=rules.FDS)
            self.twin = Channel(socket.socket(fileno=fd), LARGEST)
        reply.close_fds()
        return self.server

    def map(self, memory: Memory, flags: int = READ_WRITE, offset: int = 0) -> None:
        """Send DMA_MAP, which lets the device access `memory`.

        If the memory is shared, the message carries its file descriptor."""
        request = DmaMap(argsz=DmaMap.size_bytes, flags=flags, offset=offset, address=memory.base, size=memory.size)
        self.call(Command.DMA_MAP, request.pack(), () if memory.fd is None else (memory.fd,))
        self.windows[memory.base] = memory

    def new_memory(self, base: int, size: int, *, shared: bool = True, sealed: bool = True) -> Memory:
        """Create memory of `size` bytes at address `base` and map it for the server.

        With `shared`, the memory is a file that the server can map. With `sealed`, the file is created so that it
        permits seals, which the server can add."""
        memory = Memory(base, size, shared=shared, sealed=sealed)
        self.map(memory)
        return memory

    def unmap(self, address: int, size: int) -> None:
        """Send DMA_UNMAP for `size` bytes at `address`."""
        self.call(Command.DMA_UNMAP, DmaUnmap(argsz=DmaUnmap.size_bytes, flags=0, address=address, size=size).pack())
        memory = self.windows.pop(address, None)
        if memory is not None:
            memory.close()

    def device_info(self) -> DeviceInfo:
        """Send DEVICE_GET_INFO and return the reply."""
        request = DeviceInfo(argsz=DeviceInfo.size_bytes, flags=0, num_regions=0, num_irqs=0)
        return DeviceInfo.parse(self.call(Command.DEVICE_GET_INFO, request.pack()))

    def region_info(self, index: int) -> RegionInfo:
        """Send DEVICE_GET_REGION_INFO and return the reply."""
        request = RegionInfo(argsz=RegionInfo.size_bytes, flags=0, index=index, cap_offset=0, size=0, offset=0)
        return RegionInfo.parse(self.call(Command.DEVICE_GET_REGION_INFO, request.pack()))

    def irq_info(self, index: int) -> IrqInfo:
        """Send DEVICE_GET_IRQ_INFO and return the reply."""
        request = IrqInfo(argsz=IrqInfo.size_bytes, flags=0, index=index, count=0)
        return IrqInfo.parse(self.call(Command.DEVICE_GET_IRQ_INFO, request.pack()))

    def set_irqs(
        self,
        flags: int,
        *,
        index: int = IrqIndex.INTX,
        start: int = 0,
        count: int = 1,
        data: bytes = b"",
        fds: Sequence[int] = (),
    ) -> None:
        """Send DEVICE_SET_IRQS for `count` interrupts of type `index`, the first of which has number `start`.

        `flags` has the data flag and the action flag. `data` has the booleans and `fds` the eventfds, if any."""
        argsz = IrqSet.size_bytes + len(data)
        request = IrqSet(argsz=argsz, flags=int(flags), index=index, start=start, count=count)
        self.call(Command.DEVICE_SET_IRQS, request.pack() + data, fds)

    def read(self, region: int, offset: int, count: int) -> bytes:
        """Send REGION_READ and return the bytes."""
        reply = self.call(Command.REGION_READ, ACCESS.pack(offset, region, count))
        return reply[ACCESS.size :]

    def write(self, region: int, offset: int, data: bytes, *, posted: bool = False) -> None:
        """Send REGION_WRITE and wait for the reply.

        With `posted`, return at once; the server then sends no reply, not even for an error."""
        message_id = self.send(Command.REGION_WRITE, ACCESS.pack(offset, region, len(data)) + data, posted=posted)
        if not posted:
            self.wait_reply(message_id)

    def write_multi(self, writes: Sequence[tuple[int, int, int, int]]) -> int:
        """Send REGION_WRITE_MULTI of (region, offset, size, value) tuples; return the number of completed writes."""
        payload = WriteMultiHead(wr_cnt=len(writes)).pack()
        for region, offset, size, value in writes:
            payload += SingleWrite(offset=offset, region=region, count=size, data=value).pack()
        return WriteMultiHead.parse(self.call(Command.REGION_WRITE_MULTI, payload)).wr_cnt

    def reset(self) -> None:
        """Send DEVICE_RESET."""
        self.call(Command.DEVICE_RESET)

    # Calls for drivers.

    def read_u32(self, offset: int, bar: int = 0) -> int:
        """Return the 32-bit register at `offset` of BAR `bar`."""
        return int.from_bytes(self.read(bar, offset, 4), "little")

    def write_u32(self, offset: int, value: int, bar: int = 0, *, posted: bool = False) -> None:
        """Write the 32-bit register at `offset` of BAR `bar`; for `posted`, see `write`."""
        self.write(bar, offset, value.to_bytes(4, "little"), posted=posted)

    def enable(self, command: int = 0x6) -> None:
        """Write the PCI Command register; by default, enable memory space and bus master."""
        self.write(RegionIndex.CONFIG, 4, command.to_bytes(2, "little"))

    def enable_interrupt(self) -> None:
        """Send the server an eventfd, which it signals for INTx interrupts."""
        if self._irq is None:
            self._irq = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.set_irqs(IrqSetFlags.DATA_EVENTFD | IrqSetFlags.ACTION_TRIGGER, fds=(self._irq,))

    def unmask(self) -> None:
        """Unmask the interrupt, as an interrupt handler does before it returns. The device can then signal it again."""
        self.set_irqs(IrqSetFlags.DATA_NONE | IrqSetFlags.ACTION_UNMASK)

    def interrupts(self) -> int:
        """Return how many times the eventfd was signalled since the last call."""
        assert self._irq is not None, "interrupts are not enabled: call enable_interrupt first"
        try:
            return os.eventfd_read(self._irq)
        except BlockingIOError:
            return 0

    def wait_interrupt(self, timeout_s: float = 10.0) -> None:
        """Wait until the eventfd is signalled, and serve DMA meanwhile; raise `Timeout` after `timeout_s` seconds."""
        assert self._irq is not None, "interrupts are not enabled: call enable_interrupt first"
        channel = self.twin or self.channel
        deadline = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        poll.register(self._irq, select.POLLIN)
        while not self.interrupts():
            if channel.has_message:
                self.serve_dma(0.0)
                continue
            ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            if not ready:
                raise Timeout(f"no interrupt within {timeout_s:g} s")
            if any(fd == channel.fileno() for fd, _ in ready):
                self.serve_dma(0.0)
