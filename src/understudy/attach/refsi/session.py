"""One host program of RefSi's driver at the socket: the devices that it opens, and its calls.

Command buffers run as soon as they are submitted; whatever the host asks for next waits for them. A thread of its own
sees when the host is gone, so that a kernel which would never end ends then.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from understudy.attach.host_messages import NOTE_ERR, NOTE_OUT, REPLY
from understudy.attach.host_session import CHUNK, HostSession, StreamError
from understudy.attach.refsi import events
from understudy.attach.refsi.messages import (
    FAMILIES,
    FAMILY_SHIFT,
    MAGIC,
    OP_MASK,
    UNIT_INDEX_MASK,
    UNIT_KIND_SHIFT,
    UNTIL_IDLE,
    VERSION,
    Op,
    Result,
)
from understudy.attach.refsi.opened import OpenDevice, Options
from understudy.core.errors import BeyondModel, ModelBug, UnderstudyError
from understudy.core.event import Event
from understudy.core.limits import Stopped, TimeLimit
from understudy.core.space import Unit
from understudy.device.refsi.accelerator import StepLimit
from understudy.device.refsi.device import RefSiDevice
from understudy.device.refsi.events import BufferFinished, ConsoleOutput, Diagnostic, HartFault
from understudy.device.refsi.refsidrv.devices import ReferenceCrash
from understudy.device.refsi.toolkit.builder import REFSIDRV

T = TypeVar("T")
MAX_NOTE: Final = 1 << 20
"""Bytes of one note."""
MAX_OWED: Final = 64 << 20
"""Bytes of notes that are kept for a host which reads none; then the device waits for it."""
LOUD: Final = (ReferenceCrash, BeyondModel, ModelBug, StepLimit, TimeLimit)
"""What even the profile refsidrv does not pass over in silence: the reference would not have come through."""
GONE: Final = getattr(select, "POLLRDHUP", 0)


class Session(HostSession):
    """Serves one connection. `run` returns when it has ended."""

    MAGIC = MAGIC
    VERSION = VERSION
    LIBRARY = "driver library"
    OTHER_VERSION = Result.FAILURE

    def __init__(self, sock: socket.socket, options: Options, emit: Callable[[Event], None]) -> None:
        super().__init__(sock, emit)
        self._options = options
        self._is_spec = dict(options.settings).get("profile") != REFSIDRV
        self._open_devices: dict[int, OpenDevice] = {}
        self._owed = bytearray()
        """Notes that the host has not taken yet."""
        self._running: RefSiDevice | None = None
        self._is_gone = False
        self._handlers: dict[int, Callable[[OpenDevice, int, int, int], None]] = {
            Op.SHUTDOWN: self._shut_down,
            Op.ALLOCATE: self._allocate,
            Op.FREE: self._free,
            Op.MAP: self._map,
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.SUBMIT: self._submit,
            Op.WAIT: self._wait,
            Op.EXECUTE: self._execute,
        }

    def run(self) -> UnderstudyError | None:
        """Serve until the host is gone; gives the error that ended the session, if one did."""
        watcher = threading.Thread(target=self._watch, name="hang-up", daemon=True)
        watcher.start()
        try:
            return super().run()
        finally:
            self.disconnect()
            watcher.join()

    def release(self) -> int:
        """Close what the host has left open; how many devices that were."""
        left = len(self._open_devices)
        for opened in self._open_devices.values():
            self._close(opened.device)
        self._open_devices.clear()
        return left

    def _close(self, device: RefSiDevice) -> None:
        if self._options.on_close is not None:
            self._options.on_close(device)
        device.close()
        if device.settings.checks:
            self._emit(events.Checked(self.time, tuple(device.findings)))

    # ---- a host that goes away ----

    def _watch(self) -> None:
        """Wait until the connection ends, and end what runs then."""
        ended = select.poll()
        ended.register(self._socket, GONE)
        ended.poll()
        self._is_gone = True
        running = self._running
        if running is not None:
            running.close()

    def _run(self, device: RefSiDevice, work: Callable[[], T]) -> T:
        """Do work of the device that may take any time."""
        self._running = device
        try:
            if self._is_gone:
                device.close()
            return work()
        finally:
            self._running = None

    # ---- what the host's user reads ----

    def _note(self, kind: int, data: bytes) -> None:
        """Text for the host's own output: now if it takes it, else before the next reply."""
        for start in range(0, len(data), MAX_NOTE):
            part = data[start : start + MAX_NOTE]
            self._owed += REPLY.pack(kind, len(part), 0, 0) + part
        try:
            sent = self._socket.send(self._owed, 0 if len(self._owed) > MAX_OWED else socket.MSG_DONTWAIT)
        except OSError:
            return  # there is no room now, or nobody any more
        del self._owed[:sent]

    def _tell(self, error: UnderstudyError) -> None:
        """Have the user know of an error, where the profile is one that tells."""
        if isinstance(error, Stopped) or not (self._is_spec or isinstance(error, LOUD)):
            return
        self._emit(events.Told(self.time, error))
        self._note(NOTE_ERR, f"understudy: {error.in_full()}\n".encode("utf-8", "replace"))

    def _hear(self, event: Event) -> None:
        match event:
            case ConsoleOutput():
                self._note(NOTE_OUT, event.data)
            case HartFault() | Diagnostic():
                self._note(NOTE_ERR, event.text.encode("utf-8", "replace") + b"\n")
            case BufferFinished() if event.status.error is not None:
                self._tell(event.status.error)

    def _reply(self, status: int, value: int = 0, text: str = "", data: bytes = b"") -> None:
        if self._owed:
            self._socket.sendall(self._owed)
            self._owed.clear()
        super()._reply(status, value, text, data)

    # ---- requests ----

    def _begin(self) -> None:
        """Nothing: devices are opened one by one."""

    def _serve(self, op: int, value: int, address: int, size: int) -> bool:
        number, family = op & OP_MASK, op >> FAMILY_SHIFT
        if number == Op.OPEN:
            self._open(family, value, address)
            return True
        handler, opened = self._handlers.get(number), self._open_devices.get(family)
        if handler is None:
            raise StreamError(f"request {number} is none, expected {Op.OPEN.value} to {Op.EXECUTE.value}")
        if opened is None:
            raise StreamError(f"request {number} for device {family}, which is not open")
        handler(opened, value, address, size)
        return True

    def _open(self, family: int, profile_level: int, vlen: int) -> None:
        if family not in FAMILIES or family in self._open_devices:
            raise StreamError(f"open of device {family}, expected one of {list(FAMILIES)} that is not open")
        try:
            opened = OpenDevice(FAMILIES[family], self._options, profile_level, vlen)
        except UnderstudyError as error:
            self._emit(events.Told(self.time, error))
            self._reply(Result.FAILURE, text=str(error))
            return
        opened.device.probes.subscribe(self._hear, ConsoleOutput, HartFault, Diagnostic, BufferFinished)
        if self._options.on_open is not None:
            self._options.on_open(opened.device)
        self._open_devices[family] = opened
        self._emit(events.Opened(self.time, opened.family))
        self._reply(Result.SUCCESS, opened.plain, data=opened.description)
        if opened.files:
            socket.send_fds(self._socket, [b"\0"], opened.files)

    def _shut_down(self, opened: OpenDevice, _value: int, _address: int, _size: int) -> None:
        self._close(opened.device)
        self._open_devices = {family: each for family, each in self._open_devices.items() if each is not opened}
        self._reply(Result.SUCCESS)

    def _allocate(self, opened: OpenDevice, kind: int, alignment: int, size: int) -> None:
        self._reply(Result.SUCCESS, opened.device.allocate(size, alignment, kind))

    def _free(self, opened: OpenDevice, _value: int, address: int, _size: int) -> None:
        opened.device.free(address)

    def _map(self, opened: OpenDevice, _value: int, address: int, size: int) -> None:
        found = 0
        try:
            found = opened.map(address, size)
        except UnderstudyError as error:
            self._tell(error)
        self._reply(Result.SUCCESS if found else Result.FAILURE, found)

    def _read(self, opened: OpenDevice, unit: int, address: int, size: int) -> None:
        try:
            data = opened.device.read(address, size, _unit(unit))
        except UnderstudyError as error:
            self._tell(error)
            self._reply(Result.FAILURE)
            return
        self._reply(Result.SUCCESS, data=data)

    def _write(self, opened: OpenDevice, unit: int, address: int, size: int) -> None:
        data = bytearray()
        while len(data) < size:  # only as much is taken as has come
            part = bytearray(min(CHUNK, size - len(data)))
            self._fill(memoryview(part))
            data += part
        try:
            opened.device.write(address, bytes(data), _unit(unit))
        except UnderstudyError as error:
            self._tell(error)
            self._reply(Result.FAILURE)
            return
        self._reply(Result.SUCCESS)

    def _submit(self, opened: OpenDevice, _value: int, address: int, size: int) -> None:
        """Take a command buffer, and run it. What it was is told by its event."""
        device = opened.device
        try:
            device.submit(address, size)
            self._run(device, device.drain)
            if not device.memory.is_moving:
                self._run(device, device.wait)
        except UnderstudyError as error:
            self._tell(error)

    def _wait(self, opened: OpenDevice, until: int, _address: int, _size: int) -> None:
        """Buffers have run by now; the rest is what a device that is idle has done as well."""
        device = opened.device
        try:
            if until == UNTIL_IDLE:
                self._run(device, device.wait)
        except UnderstudyError as error:
            self._tell(error)
        self._reply(Result.SUCCESS, opened.plain)

    def _execute(self, opened: OpenDevice, harts: int, entry: int, _size: int) -> None:
        device = opened.device
        try:
            error = self._run(device, partial(device.execute_kernel, entry, harts)).error
        except UnderstudyError as raised:
            error = raised
        if error is not None:
            self._tell(error)
        self._reply(Result.SUCCESS if error is None else Result.FAILURE)


def _unit(unit: int) -> Unit:
    return Unit(unit >> UNIT_KIND_SHIFT, unit & UNIT_INDEX_MASK)
