"""The server of one program that uses the OpenCL platform: ``python -m softcard.attach.opencl.server``.

Standard input is the socket through which the program's library sends its first request and further connections. Each
connection has a thread, so that a call that blocks delays no other one. Requests begin in the order of their tickets.
The process ends with the program.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path
from typing import Final, cast

from softcard.attach.host_session import NOTE_ERR, NOTE_OUT, REPLY, REQUEST
from softcard.attach.opencl.entry_points import HANDLES, INVALID, Entry, Reader, decoded, table
from softcard.attach.opencl.records import Sender
from softcard.attach.opencl.variables import REFUSALS_VARIABLE, settings
from softcard.core.checks import CHECKS, VARIABLE, checks_of
from softcard.core.diagnostics import Diagnostic, of_error
from softcard.core.errors import ModelBug, SoftcardError, WireError
from softcard.device.hsa.settings import GpuOptions
from softcard.device.kfd.node import PRODUCTS
from softcard.host.compiling import stop_all
from softcard.host.opencl import constants as cl
from softcard.host.opencl import contexts, image_commands, images, kernels, memory, programs, samplers
from softcard.host.opencl.calls import FUNCTIONS, Made, Performed, Repeat
from softcard.host.opencl.errors import OpenClError
from softcard.host.opencl.events import Command, CommandQueue, Event, finish_all
from softcard.host.opencl.objects import Arena, Callback, Context, Copy, Object, Platform
from softcard.host.opencl.programs import file_with
from softcard.report.diagnostic_text import as_text

CLEANING_S: Final = 0.1
"""The time for which the server waits for its builds to remove their files, when the program has ended during them."""
MODULES: Final = (contexts, image_commands, images, kernels, memory, programs, samplers)
"""The modules whose import registers the functions of entry points."""

VERSION: Final = 1
MAGIC: Final = 0x636C637466736F66
START, SERVE_COPIES, SERVE_CALLBACKS, RELEASED, FORGOTTEN, COPIED, GOODBYE = range(0x1000, 0x1007)
"""The requests of the library that are not calls of entry points."""
ONE_WAY: Final = 1
"""The value of a request without a reply."""
COPIES: Final = 2
"""The flag in the value of a reply with copies; a number follows from bit `NUMBER_AT` on."""
NUMBER_AT: Final = 8
DEFAULT_CHECKS: Final = ",".join(name for name, kind in CHECKS.items() if kind.guards_allocations and not kind.at_close)
"""The checks of programs whose environment selects none: those of the bounds of buffers."""
COPY, CALL_EVENT, CALL_CONTEXT, CALL_OBJECT, CALL_NATIVE, CALL_FREE, CALL_BUILT = range(1, 8)
"""The requests of the server to the library."""
_COPY: Final = struct.Struct("<9Q")
_WORDS: Final = struct.Struct("<4Q")
_EVENT: Final = struct.Struct("<2Q")
EVENT_BYTES: Final = _EVENT.size
BUFFER_BYTES: Final = 1 << 16
"""The number of bytes that a connection receives at once; several requests may arrive together."""
MOST_REPEATS: Final = 64
"""The maximum number of launches of a connection that are recognised when they come again."""
IDLE_S: Final = 20e-6
"""The time without a request after which the thread of a queue runs the commands that a connection has added."""
SWITCH_INTERVAL_S: Final = 0.0001
"""Python's thread switch interval; the default of 5 ms would delay calls while another thread runs."""


class Channel:
    """A connection on which the server sends requests to a thread of the program, one at a time."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._is_open = threading.Event()
        self._lock = threading.Lock()

    def open(self, sock: socket.socket) -> None:
        """Use a connection of the program's library."""
        self._socket = sock
        self._is_open.set()

    def ask(self, op: int, address: int, data: bytes) -> None:
        """Send a request and wait until the program has carried it out; raise `OSError` if the program has ended."""
        self._is_open.wait()
        assert self._socket is not None
        with self._lock:
            self._socket.sendall(REQUEST.pack(op, 0, address, len(data)) + data)
            left = REPLY.size
            while left:
                part = self._socket.recv(left)
                if not part:
                    raise ConnectionResetError("the program has ended")
                left -= len(part)


class ProgramClient:
    """The host program; see `host.opencl.objects.Client`."""

    def __init__(self) -> None:
        self.copies = Channel()
        self.calls = Channel()

    def copy(self, copies: Sequence[Copy]) -> None:
        """Let the program perform copies."""
        self.copies.ask(COPY, 0, packed(copies))

    def call_event(self, callback: Callback, event: int, status: int) -> None:
        """Call a function of the program with an event and its status."""
        self.calls.ask(CALL_EVENT, callback[0], _WORDS.pack(callback[1], event, status & 0xFFFFFFFF, 0))

    def call_context(self, callback: Callback, text: str) -> None:
        """Call a function of the program with an error message."""
        data = _WORDS.pack(callback[1], 0, 0, 0) + text.encode("utf-8", "replace")
        self.calls.ask(CALL_CONTEXT, callback[0], data)

    def call_object(self, callback: Callback, handle: int) -> None:
        """Call a function of the program with an object."""
        self.calls.ask(CALL_OBJECT, callback[0], _WORDS.pack(callback[1], handle, 0, 0))

    def call_built(self, callback: Callback, handle: int) -> None:
        """Call a function of the program with a program that was built."""
        self.calls.ask(CALL_BUILT, callback[0], _WORDS.pack(callback[1], handle, 0, 0))

    def call_native(self, function: int, arguments: bytes) -> None:
        """Call a native kernel."""
        self.copies.ask(CALL_NATIVE, function, arguments)

    def call_free(self, callback: Callback, queue: int, pointers: Sequence[int]) -> None:
        """Call a function of the program that frees pointers."""
        data = _WORDS.pack(callback[1], queue, len(pointers), 0) + struct.pack(f"<{len(pointers)}Q", *pointers)
        self.copies.ask(CALL_FREE, callback[0], data)


def packed(copies: Sequence[Copy]) -> bytes:
    """Return copies in the library's format."""
    return b"".join(
        _COPY.pack(
            each.target, each.target_row, each.target_slice, each.source, each.source_row, each.source_slice,
            each.size, each.rows, each.slices,
        )
        for each in copies
    )  # fmt: skip


class Turns:
    """The order in which requests begin: that of their tickets."""

    def __init__(self) -> None:
        self._next = 0
        self._waiting = 0
        self._changed = threading.Condition()

    def wait(self, ticket: int) -> None:
        """Wait until all requests with lower tickets have let later ones begin."""
        if self._next != ticket:
            with self._changed:
                self._waiting += 1
                while self._next != ticket:
                    self._changed.wait()
                self._waiting -= 1

    def proceed(self) -> None:
        """Let the next request begin."""
        self._next += 1  # by the thread whose turn it is
        if self._waiting:  # a thread counts itself before it looks at the turn, so it is not missed
            with self._changed:
                self._changed.notify_all()


class ProgramCall:
    """One call of an entry point; see `host.opencl.calls.Call`."""

    __slots__ = ("_has_proceeded", "_turns", "made", "name", "platform", "repeat")

    def __init__(self, name: str, platform: Platform, turns: Turns, made: int) -> None:
        self.name = name
        self.platform = platform
        self.made = made
        self.repeat: Repeat | None = None
        self._turns = turns
        self._has_proceeded = False

    def proceed(self) -> None:
        """Let later calls begin."""
        if not self._has_proceeded:
            self._has_proceeded = True
            self._turns.proceed()


class Server:
    """The server of one program. `control` is the socket of its first request and of its new connections."""

    def __init__(self, control: socket.socket, environment: Mapping[str, str]) -> None:
        self._control = control
        self._environment = environment
        self._entries = {each.number: each for each in table().entries.values()}
        self._turns = Turns()
        self._client = ProgramClient()
        self._sender = Sender(environment)
        self._due: dict[int, Command] = {}
        """The commands that the program performs, by the numbers that the replies to its calls had."""
        self._due_count = 0
        self._due_lock = threading.Lock()
        self.shows_refusals = bool(environment.get(REFUSALS_VARIABLE))
        """True if calls that are refused are reported on the program's standard error."""

    def serve(self) -> None:
        """Serve the program until it ends."""
        self._platform = self._start()
        self._control.sendall(REPLY.pack(0, 0, 0, 0))
        while True:
            data, files, _, _ = socket.recv_fds(self._control, 1, 1)
            if not data:
                break
            for file in files:
                session = Session(self, socket.socket(fileno=file))
                threading.Thread(target=session.run, name="connection", daemon=True).start()
        self._end()

    def _start(self) -> Platform:
        """Read the first request, which has the addresses of the program's memory, and return the platform."""
        op, version, magic, size = REQUEST.unpack(receive(self._control, REQUEST.size))
        if (op, version, magic) != (START, VERSION, MAGIC):
            raise WireError(
                f"the first request is {op:#x} of version {version}, expected {START:#x} of version {VERSION}: install "
                "the OpenCL platform again"
            )
        words = struct.unpack(f"<{size // 8}Q", receive(self._control, size))
        base, room, slot_count, handle, devices, device_size, *numbers = words
        files = [socket.recv_fds(self._control, 1, 1)[1][0] for _ in range(2)]
        arena, slots = mmap(files[0], room), mmap(files[1], slot_count * 64)
        for file in files:
            os.close(file)
        options = gpu_options(self._environment)
        names = list(PRODUCTS)  # in the order of the generated table
        places = [(devices + place * device_size, names[number]) for place, number in enumerate(numbers)]
        return Platform(
            self._client, Arena(arena, base), memoryview(slots), places, handle, options, self._show, self._find_file
        )

    def _show(self, found: Diagnostic) -> str:
        self._sender.send(found)
        return as_text([found])

    def _find_file(self, source: bytes) -> tuple[str, int]:
        pid = struct.unpack("3i", self._control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return file_with(source, Path(os.readlink(f"/proc/{pid}/cwd")), [os.fsdecode(each) for each in words])
        except OSError:
            return "", 0

    def _end(self) -> None:
        """Write the diagnostics that the program has not received to standard error, and end this process."""
        for is_error, text in self._platform.take_texts():
            if is_error:
                sys.stderr.buffer.write(text)
        sys.stderr.flush()
        if stop_all():
            time.sleep(CLEANING_S)
        self._sender.close()
        os._exit(0)

    # ---- requests ------------------------------------------------------------------------------------------------

    def find(self, handle: int, kind: str) -> Object:
        """Return an object of the program; raise `OpenClError` if no object of this kind has the handle."""
        try:
            return self._platform.find(handle, kind)
        except KeyError:
            raise OpenClError(INVALID[kind], f"{handle:#x} is not a valid {kind}") from None

    def entry(self, op: int) -> Entry:
        """Return the entry point with a number; raise `WireError` for an unknown number."""
        found = self._entries.get(op)
        if found is None:
            raise WireError(f"the OpenCL library has sent the unknown request {op:#x}")
        return found

    def due(self, command: Command | None) -> int:
        """Return a new number for a command that the program performs; 0 for None."""
        if command is None:
            return 0
        with self._due_lock:
            self._due_count += 1
            self._due[self._due_count] = command
            return self._due_count

    def performed(self, number: int) -> None:
        """Complete a command that the program has performed."""
        self._due.pop(number).complete()

    def join(self, kind: int, sock: socket.socket) -> None:
        """Use a connection for requests to the program."""
        (self._client.copies if kind == SERVE_COPIES else self._client.calls).open(sock)

    @property
    def platform(self) -> Platform:
        """The state of the program."""
        return self._platform

    @property
    def turns(self) -> Turns:
        """The order of requests."""
        return self._turns


class Session:
    """A connection of the program: it carries out requests one by one."""

    def __init__(self, server: Server, sock: socket.socket) -> None:
        self._server = server
        self._socket = sock
        self._touched: dict[CommandQueue, None] = {}
        """The queues to which commands were added since the connection was idle."""
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._start = self._end = 0
        """The places of the bytes in the buffer that were received and not yet parsed."""
        self._repeats: dict[bytes, Repeat] = {}
        """The launches that may come again, by their request without the event at its end."""

    def run(self) -> None:
        """Serve until the connection ends, or becomes one for requests to the program."""
        try:
            while (request := self._next()) is not None:
                op, value, ticket, data = request
                if op in (SERVE_COPIES, SERVE_CALLBACKS):
                    self._server.join(op, self._socket)
                    return
                self._carry_out(op, value, ticket, data)
        except (OSError, EOFError):
            return  # the program has ended, which the control connection shows too

    def _next(self) -> tuple[int, int, int, bytes] | None:
        """Return the op, the value, the ticket and the data of the next request; None at the end of the connection."""
        while True:
            start, count = self._start, self._end - self._start
            if count >= REQUEST.size:
                op, value, ticket, size = REQUEST.unpack_from(self._buffer, start)
                whole = REQUEST.size + size
                if count >= whole:
                    self._start += whole
                    return op, value, ticket, bytes(self._buffer[start + REQUEST.size : start + whole])
                if whole > BUFFER_BYTES:
                    data = bytes(self._buffer[start + REQUEST.size : self._end])
                    self._start = self._end = 0
                    return op, value, ticket, data + receive(self._socket, whole - count)
            if start:
                self._buffer[:count] = bytes(self._buffer[start : self._end])
                self._start, self._end = 0, count
            got = self._receive()
            if not got:
                return None
            self._end += got

    def _receive(self) -> int:
        """Receive bytes after those in the buffer; return their number. Let queues run if none come at once."""
        room = self._buffer[self._end :]
        deadline = time.perf_counter() + IDLE_S
        while True:
            try:
                return self._socket.recv_into(room, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass
            if time.perf_counter() > deadline:
                for queue in self._touched:
                    queue.flush()
                self._touched.clear()
                return self._socket.recv_into(room)

    def _carry_out(self, op: int, value: int, ticket: int, data: bytes) -> None:
        self._server.turns.wait(ticket)
        if op >= START:
            self._manage(op, value == ONE_WAY, data)
        elif value != ONE_WAY or not self._repeat(data):
            self._call(self._server.entry(op), value == ONE_WAY, data)

    def _repeat(self, data: bytes) -> bool:
        """Carry out a launch that is like an earlier one; return False if the request must be decoded."""
        known = self._repeats.get(data[:-EVENT_BYTES])
        if known is None:
            return False
        try:
            queue = known.repeat(_EVENT.unpack_from(data, len(data) - EVENT_BYTES))
        except SoftcardError:
            queue = None  # the decoded call reports the error
        if queue is None:
            return False
        self._touched[queue] = None
        self._server.turns.proceed()
        return True

    def _manage(self, op: int, is_one_way: bool, data: bytes) -> None:
        """Carry out a request of the library that is not a call of an entry point."""
        platform, words, rest = self._server.platform, struct.unpack(f"<{len(data) // 8}Q", data), None
        with self._reported(f"request {op:#x}"):
            try:
                if op == RELEASED:
                    platform.release(words[0])
                elif op == FORGOTTEN:
                    rest = platform.forget(words[0])
                elif op == COPIED:
                    self._server.performed(words[0])
            finally:
                self._server.turns.proceed()
            if rest is not None:
                rest()
            if op == GOODBYE:
                finish_all(platform)
                platform.report_leaks()
        if not is_one_way:
            self._reply(0)

    @contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        """Report an unexpected error in the block, so that a bug does not end the connection."""
        try:
            yield
        except Exception:  # noqa: BLE001
            self._server.platform.report(of_error(ModelBug(f"{name} failed: {traceback.format_exc()}")))

    def _call(self, entry: Entry, is_one_way: bool, data: bytes) -> None:
        platform = self._server.platform
        made = int.from_bytes(data[-8:], "little") if entry.result in HANDLES else 0
        call = ProgramCall(entry.name, platform, self._server.turns, made)
        status, value, reply = 0, 0, b""
        arguments: dict[str, object] = {}
        try:
            arguments = decoded(entry, Reader(data, self._server.find))
            result = FUNCTIONS[entry.name](call, **arguments)
            status, value, reply = self._result(result)
            if call.repeat is not None:
                if len(self._repeats) >= MOST_REPEATS:
                    self._repeats.clear()
                self._repeats[data[:-EVENT_BYTES]] = call.repeat
        except OpenClError as error:
            status = error.status
            self._refused(entry.name, arguments, error)
        except SoftcardError as error:
            status = cl.OUT_OF_RESOURCES
            platform.report(of_error(error))
        except Exception:  # noqa: BLE001  # a bug must neither end the program nor let it wait for ever
            status = cl.OUT_OF_RESOURCES
            platform.report(of_error(ModelBug(f"{entry.name} failed: {traceback.format_exc()}")))
        finally:
            call.proceed()
        queue = arguments.get("queue")
        if isinstance(queue, CommandQueue):
            self._touched[queue] = None
        if not is_one_way:
            self._reply(status, value, reply)
        elif status:
            fail(queue, cast(tuple[int, int], arguments.get("event", (0, 0))), status)

    def _refused(self, name: str, arguments: Mapping[str, object], error: OpenClError) -> None:
        """Pass the reason of a refusal to the context's callback, and to standard error if the environment requests it.

        Programs make calls that they expect to be refused, so standard error does not get the reason by default."""
        context = next((found for each in arguments.values() if (found := context_of(each)) is not None), None)
        if context is not None:
            context.report(f"{name}: {error}")
        if self._server.shows_refusals:
            self._server.platform.report(of_error(error.at("call", name)))

    def _result(self, result: object) -> tuple[int, int, bytes]:
        """Return the status, the value and the data of the reply for the result of a function."""
        match result:
            case Made():
                self._server.platform.add(result.made)
                data = bytes(8) + packed(result.copies) if result.copies else b""
                return result.status, result.number << NUMBER_AT | (COPIES if data else 0), data
            case Performed():
                words = struct.pack(f"<{len(result.words)}Q", *result.words)
                if result.command is None:
                    return 0, 0, words
                number = struct.pack("<Q", self._server.due(result.command))
                return 0, COPIES, number + packed(result.copies) + words
            case bytes():
                return 0, 0, result
            case tuple():
                return 0, 0, struct.pack(f"<{len(result)}Q", *result)
            case int():
                return 0, result << NUMBER_AT, b""
        return 0, 0, b""

    def _reply(self, status: int, value: int = 0, data: bytes = b"") -> None:
        notes = b"".join(
            REPLY.pack(NOTE_ERR if is_error else NOTE_OUT, len(text), 0, 0) + text
            for is_error, text in self._server.platform.take_texts()
        )
        self._socket.sendall(notes + REPLY.pack(status & 0xFFFFFFFF, 0, value, len(data)) + data)


def gpu_options(environment: Mapping[str, str]) -> GpuOptions:
    """Return the settings of the GPUs; raise `WireError` for a variable with an invalid value.

    A kernel may run for any number of instructions, as on a card; only the time limit ends it.
    """
    options: GpuOptions = {"step_limit": None, "on_finding": "keep", **settings(environment)}
    options["check"] = environment.get(VARIABLE, DEFAULT_CHECKS)
    checks_of(options["check"])  # here, since a device is opened only when a kernel runs
    return options


def context_of(found: object) -> Context | None:
    """Return the context of an argument; None if it has none."""
    context = found if isinstance(found, Context) else getattr(found, "context", None)
    return context if isinstance(context, Context) else None


def fail(queue: object, event: tuple[int, int], status: int) -> None:
    """Complete the event of a command without a reply that was refused."""
    if isinstance(queue, CommandQueue) and event[0]:
        made = Event(queue, *event, status=cl.QUEUED)
        queue.platform.add(made)
        with queue.platform.changed:
            made.set_status(status)


def receive(sock: socket.socket, size: int) -> bytes:
    """Return exactly `size` bytes; raise `EOFError` if the connection ends before."""
    data = sock.recv(size)
    if len(data) == size:
        return data
    parts = [data]
    left = size - len(data)
    while left:
        data = sock.recv(left)
        if not data:
            raise EOFError
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def main() -> None:
    """Serve the program at the other end of standard input."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    control = socket.socket(fileno=os.dup(0))
    try:
        Server(control, os.environ).serve()
    except (SoftcardError, OSError) as error:
        found = error if isinstance(error, SoftcardError) else WireError(f"the OpenCL server failed: {error}")
        sys.stderr.write(as_text([of_error(found)]) + "\n")
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    from softcard.attach.opencl import server  # this code is not the user's, whose module is __main__ in messages

    server.main()
