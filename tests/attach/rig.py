"""A small PCI device with a thread of its own, and a client plugged into a server for it."""

import queue
import socket
import threading
from contextlib import contextmanager

from softcard.attach.vfio_user import Client, Server, Settings, events
from softcard.core.completion import Line
from softcard.core.errors import AccessFault, WireError
from softcard.core.pci import Bar, PciIdentity

BAR_SIZE = 0x1000
INTR, SCRATCH, ADDRESS, LENGTH, VALUE, BELL, RESULT, FAULTS = 0x00, 0x04, 0x08, 0x10, 0x14, 0x18, 0x1C, 0x20
FILL, SUM, FILL_HERE, SUM_HERE, WAIT = 1, 2, 3, 4, 5


class Toy:
    """Fills and sums up memory when its bell is rung, on its own thread or (…_HERE) inside the register write.

    WAIT makes the thread wait for `gate`; INTR bit 0 is set at the end of each command, and is write-1-clear.
    """

    def __init__(self, identity: PciIdentity | None = None, bars: tuple[Bar, ...] = (Bar(0, BAR_SIZE),)) -> None:
        self.identity = identity or PciIdentity(0x1234, 0x5678, 0x0B4000, 2, 0x1AF4, 0x1100)
        self.bars = bars
        self.line = Line("INTA")
        self.gate = threading.Event()
        self.resets = 0
        self.accesses: list[tuple[str, int, int]] = []
        self.registers: dict[int, int] = {}
        self.faults: list[AccessFault] = []
        self.started = threading.Event()
        self._work: queue.Queue[int | None] = queue.Queue()
        self._thread = threading.Thread(target=self._loop, name="toy")
        self._thread.start()

    def connect(self, dma) -> None:
        self.dma = dma

    def read_bar(self, bar: int, offset: int, size: int) -> int:
        self.accesses.append(("read", offset, size))
        if bar not in {item.index for item in self.bars}:
            raise WireError(f"no bar {bar}")
        return self.registers.get(offset, (1 << 8 * size) - 1) & (1 << 8 * size) - 1

    def write_bar(self, bar: int, offset: int, size: int, value: int) -> None:
        self.accesses.append(("write", offset, size))
        if offset == INTR:
            self.registers[INTR] = self.registers.get(INTR, 0) & ~value
            self.line.set(bool(self.registers[INTR]))
        elif offset == BELL and value in (FILL_HERE, SUM_HERE):
            self._do(value - 2)
        elif offset == BELL:
            self._work.put(value)
        else:
            self.registers[offset] = value

    def _loop(self) -> None:
        while (command := self._work.get()) is not None:
            self._do(command)
            self._work.task_done()

    def _do(self, command: int) -> None:
        registers = self.registers
        address, length = registers.get(ADDRESS, 0), registers.get(LENGTH, 0)
        self.started.set()
        if command == WAIT:
            self.gate.wait()
            return
        try:
            if command == FILL:
                self.dma.write(address, bytes([registers.get(VALUE, 0) & 0xFF]) * length)
            else:
                registers[RESULT] = sum(self.dma.read(address, length))
        except AccessFault as fault:
            self.faults.append(fault)
            registers[FAULTS] = registers.get(FAULTS, 0) + 1
        registers[INTR] = registers.get(INTR, 0) | 1
        self.line.set(True)

    def reset(self) -> None:
        self._work.join()  # no DMA of earlier commands follows a reset
        self.resets += 1
        self.registers.clear()
        self.line.reset()

    def close(self) -> None:
        self.gate.set()
        self._work.put(None)
        self._thread.join()


@contextmanager
def ended(process):
    """The process, which has ended afterwards, and whose pipes are closed, whatever happened."""
    with process:
        try:
            yield process
        finally:
            process.kill()


class Rig:
    """A server with its device, the events it told, and as many clients as a test wants."""

    def __init__(self, device, settings: Settings | None) -> None:
        self.device = device
        self.server = Server(device, settings)
        self.events: list[object] = []
        self.server.probes.subscribe(self.events.append)
        self._sessions: list[tuple[threading.Thread, socket.socket]] = []

    def plug(self, *, negotiate: bool = True) -> Client:
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=self._serve, args=(theirs,), name="session")
        thread.start()
        client = Client(ours)
        self._sessions.append((thread, client))
        if negotiate:
            client.negotiate()
        return client

    def _serve(self, sock: socket.socket) -> None:
        self.server.serve_socket(sock)

    def unplug(self, client: Client) -> None:
        """Hang up and wait until the server has noticed."""
        client.close()
        self.join()

    def join(self) -> None:
        for thread, _ in self._sessions:
            thread.join(20)
            assert not thread.is_alive(), "the session does not end"

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def refusals(self) -> list[str]:
        return [str(event.error) for event in self.of(events.Refused)]

    @property
    def ended(self) -> str | None:
        """What ended the last session."""
        self.join()
        error = self.of(events.Disconnected)[-1].error
        return None if error is None else str(error)

    def close(self) -> None:
        for _, client in self._sessions:
            client.close()
        self.server.close()
        self.join()
        self.device.close()


@contextmanager
def rig(settings: Settings | None = None, device=None):
    made = Rig(device or Toy(), settings)
    try:
        yield made
    finally:
        made.device.gate.set() if isinstance(made.device, Toy) else None
        made.close()


@contextmanager
def plugged(settings: Settings | None = None, device=None, *, enabled: bool = True):
    """The rig and one client that has agreed on the version and, if not told otherwise, enabled the device."""
    with rig(settings, device) as made:
        client = made.plug()
        if enabled:
            client.enable()
        yield made, client
