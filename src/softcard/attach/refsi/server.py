"""The server of RefSi host programs: it serves one program after another at a socket path.

Each program has one session, and can open several devices, which no other program uses."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from softcard.attach.host_session import CHUNK, NOTE_ERR, NOTE_OUT, REPLY, HostSession, StreamError
from softcard.attach.refsi import events
from softcard.attach.refsi.events import Disconnected
from softcard.attach.refsi.messages import (
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
from softcard.attach.refsi.open_device import OpenDevice, Options
from softcard.attach.server import SocketServer
from softcard.core.diagnostics import Diagnostic as AnyDiagnostic
from softcard.core.errors import BeyondModel, ModelBug, SoftcardError
from softcard.core.event import Event
from softcard.core.limits import Stopped, TimeLimit
from softcard.core.lint import WARNINGS_OF_EACH, Lint
from softcard.core.space import Unit
from softcard.device.refsi.accelerator import StepLimit
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.events import BufferFinished, ConsoleOutput, Diagnostic, HartFault
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.toolkit.builder import REFSIDRV

# ---- session ---------------------------------------------------------------------------------------------------------
# The session of one host program of RefSi's driver: the devices that it opens, and its calls.
#
# Command buffers run as soon as they are submitted; the host's next request waits for them. A separate thread notices
# when the host disconnects, and ends a kernel that would run for ever.


T = TypeVar("T")
MAX_NOTE: Final = 1 << 20
"""The maximum number of bytes of one note, a message with text for the host's standard output or error."""
MAX_OWED: Final = 64 << 20
"""The maximum number of bytes of queued notes.

If a slow host exceeds it, the device waits until the host reads notes.
"""
LOUD: Final = (ReferenceCrash, BeyondModel, ModelBug, StepLimit, TimeLimit)
"""The errors that are reported with every profile.

Even the profile refsidrv reports them, since the reference driver would crash or hang.
"""
GONE: Final = getattr(select, "POLLRDHUP", 0)


class Session(HostSession):
    """A connection to one host program. `run` serves it and returns when the connection has ended."""

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
        """The notes (text for the host's own output) that have not been sent yet."""
        self._reported_lints: set[str] = set()
        """The texts of the lints that were reported to the user; equal lints are reported once."""
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

    def run(self) -> SoftcardError | None:
        """Serve until the host disconnects; return the error that ended the session, or None."""
        watcher = threading.Thread(target=self._watch, name="hang-up", daemon=True)
        watcher.start()
        try:
            return super().run()
        finally:
            self.disconnect()
            watcher.join()

    def release(self) -> int:
        """Close the devices that the host has not shut down; return their number."""
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
        """Wait until the connection ends, then stop the kernel if it is still running."""
        ended = select.poll()
        ended.register(self._socket, GONE)
        ended.poll()
        self._is_gone = True
        running = self._running
        if running is not None:
            running.close()

    def _run(self, device: RefSiDevice, work: Callable[[], T]) -> T:
        """Call `work`, which runs `device`, and return its result.

        If the host disconnects during the call, `_watch` closes `device`, which stops the kernel."""
        self._running = device
        try:
            if self._is_gone:
                device.close()
            return work()
        finally:
            self._running = None

    # ---- output for the host's user ----

    def _note(self, kind: int, data: bytes) -> None:
        """Send the text `data` to the host, which writes it to the output stream `kind`.

        `kind` is NOTE_OUT for standard output or NOTE_ERR for standard error. If the host does not receive the text
        at once, it is sent before the next reply."""
        for start in range(0, len(data), MAX_NOTE):
            part = data[start : start + MAX_NOTE]
            self._owed += REPLY.pack(kind, len(part), 0, 0) + part
        try:
            sent = self._socket.send(self._owed, 0 if len(self._owed) > MAX_OWED else socket.MSG_DONTWAIT)
        except OSError:
            return  # the buffer is full, or the host has disconnected
        del self._owed[:sent]

    def _report_error(self, error: SoftcardError) -> None:
        """Emit a `Told` event with an error and write the error to the host's standard error.

        Do nothing for `Stopped`. With the profile refsidrv, report only the errors in `LOUD`."""
        if isinstance(error, Stopped) or not (self._is_spec or isinstance(error, LOUD)):
            return
        self._emit(events.Told(self.time, error))
        self._note(NOTE_ERR, f"{self._shown(error)}\n".encode("utf-8", "replace"))

    def _handle_event(self, event: Event) -> None:
        match event:
            case ConsoleOutput():
                self._note(NOTE_OUT, event.data)
            case Lint():
                self._report_lint(event)
            case HartFault() | Diagnostic():
                self._note(NOTE_ERR, event.text.encode("utf-8", "replace") + b"\n")
            case BufferFinished() if event.status.error is not None:
                self._report_error(event.status.error)

    def _report_lint(self, lint: Lint) -> None:
        """Write a lint to the host's standard error as a warning.

        Do nothing if an equal lint was written before, or if WARNINGS_OF_EACH lints of the same check were written."""
        text, known = str(lint), self._reported_lints
        if text in known or sum(each.startswith(f"{lint.check}: ") for each in known) >= WARNINGS_OF_EACH:
            return
        known.add(text)
        self._note(NOTE_ERR, f"{self._shown(lint.diagnostic())}\n".encode("utf-8", "replace"))

    def _reply(
        self, status: int, value: int = 0, found: SoftcardError | AnyDiagnostic | None = None, data: bytes = b""
    ) -> None:
        self._send_owed()
        super()._reply(status, value, found, data)

    def _head(self, status: int, size: int) -> None:
        """Send the header of a reply with `status`, which says that `size` bytes of data follow.

        First, send the output for the host's user (see `_note`) that the host has not received yet."""
        self._send_owed()
        self._socket.sendall(REPLY.pack(status, 0, 0, size))

    def _send_owed(self) -> None:
        if self._owed:
            self._socket.sendall(self._owed)
            self._owed.clear()

    # ---- requests ----

    def _begin(self) -> None:
        """Do nothing: requests open the devices later."""

    def _serve(self, op: int, value: int, address: int, size: int) -> bool:
        number, family = op & OP_MASK, op >> FAMILY_SHIFT
        if number == Op.OPEN:
            self._open(family, value, address)
            return True
        handler, opened = self._handlers.get(number), self._open_devices.get(family)
        if handler is None:
            raise StreamError(f"unknown request {number}, expected {Op.OPEN.value} to {Op.EXECUTE.value}")
        if opened is None:
            raise StreamError(f"request {number} names device {family}, which is not open: send an open request first")
        handler(opened, value, address, size)
        return True

    def _open(self, family: int, profile_level: int, vlen: int) -> None:
        if family not in FAMILIES or family in self._open_devices:
            raise StreamError(f"cannot open device {family}, expected one of {list(FAMILIES)} that is not open yet")
        try:
            opened = OpenDevice(FAMILIES[family], self._options, profile_level, vlen)
        except SoftcardError as error:
            self._emit(events.Told(self.time, error))
            self._reply(Result.FAILURE, found=error)
            return
        opened.device.probes.subscribe(self._handle_event, ConsoleOutput, HartFault, Diagnostic, BufferFinished, Lint)
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
        except SoftcardError as error:
            self._report_error(error)
        self._reply(Result.SUCCESS if found else Result.FAILURE, found)

    def _read(self, opened: OpenDevice, unit: int, address: int, size: int) -> None:
        device, who = opened.device, _unit(unit)
        try:
            if size > CHUNK:
                device.check_range(address, size, who, "read")
            data = device.read(address, min(size, CHUNK), who)
        except SoftcardError as error:
            self._report_error(error)
            self._reply(Result.FAILURE)
            return
        if size <= CHUNK:
            self._reply(Result.SUCCESS, data=data)
            return
        self._head(Result.SUCCESS, size)
        self._socket.sendall(data)
        for start in range(CHUNK, size, CHUNK):
            self._socket.sendall(device.read(address + start, min(CHUNK, size - start), who))

    def _write(self, opened: OpenDevice, unit: int, address: int, size: int) -> None:
        """Receive data in chunks and write each chunk to device memory at `address`, as the hardware unit `unit`.

        If `unit` cannot write to the address range, read and discard the rest of the data."""
        device, who, left = opened.device, _unit(unit), size
        try:
            if size > CHUNK:
                device.check_range(address, size, who, "write")
            scratch = memoryview(bytearray(min(size, CHUNK)))
            while True:
                part = scratch[: min(left, CHUNK)]
                self._fill(part)
                start, left = address + size - left, left - len(part)
                device.write(start, bytes(part), who)
                if not left:
                    break
        except SoftcardError as error:
            if isinstance(error, StreamError):
                raise
            self._drop(left)
            self._report_error(error)
            self._reply(Result.FAILURE)
            return
        self._reply(Result.SUCCESS)

    def _submit(self, opened: OpenDevice, _value: int, address: int, size: int) -> None:
        """Run the command buffer at `address`, emit an event with its result, and report its errors to the user."""
        device = opened.device
        try:
            opened.define_mapped()
            device.submit(address, size)
            self._run(device, device.drain)
            if not device.memory.is_moving:
                self._run(device, device.wait)
        except SoftcardError as error:
            self._report_error(error)

    def _wait(self, opened: OpenDevice, until: int, _address: int, _size: int) -> None:
        """Wait until the device is idle if `until` is UNTIL_IDLE; otherwise reply at once.

        Command buffers need no wait, since each has run when its submission returns.
        """
        device = opened.device
        try:
            if until == UNTIL_IDLE:
                self._run(device, device.wait)
        except SoftcardError as error:
            self._report_error(error)
        self._reply(Result.SUCCESS, opened.plain)

    def _execute(self, opened: OpenDevice, harts: int, entry: int, _size: int) -> None:
        device = opened.device
        try:
            error = self._run(device, partial(device.execute_kernel, entry, harts)).error
        except SoftcardError as raised:
            error = raised
        if error is not None:
            self._report_error(error)
        self._reply(Result.SUCCESS if error is None else Result.FAILURE)


def _unit(unit: int) -> Unit:
    return Unit(unit >> UNIT_KIND_SHIFT, unit & UNIT_INDEX_MASK)


# ---- server ----------------------------------------------------------------------------------------------------------


class Server(SocketServer[Session]):
    """A server that opens RefSi devices for one host program at a time.

    The devices are closed when the program shuts them down or ends. `serve` blocks the calling thread, which makes all
    calls of the devices. `disconnect` and `close` may be called from any thread and from signal handlers.
    """

    def __init__(self, options: Options | None = None) -> None:
        super().__init__("host program")
        self._options = Options() if options is None else options

    def _begin(self, sock: socket.socket) -> Session:
        return Session(sock, self._options, self._emit)

    def _end(self, session: Session, error: SoftcardError | None) -> Disconnected:
        return Disconnected(session.time, self.sessions, error, session.release())
