"""The option `--registers-at`: it converts the points at which a report shows registers into addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from softcard.cli.exits import UsageError
from softcard.core.errors import WireError, close_to
from softcard.engine.hooks import END, FAULT
from softcard.host.snapshot_points import addresses_of_line, file_and_line, number_of

if TYPE_CHECKING:
    from softcard.core.event import Event
    from softcard.device.hsa.device import HsaDevice
    from softcard.device.kfd.code_files import CodeFiles
    from softcard.device.kfd.loaded_code import LoadedCode


SNAPSHOTS: Final = 64
"""The maximum number of register snapshots of a run."""


class TakesSnapshots(Protocol):
    """The interface of loaded code that records the registers at given points."""

    def snapshot_at(self, points: Sequence[str]) -> None:
        """Set the points at which registers are recorded."""


def snapshot_at(loaded: TakesSnapshots, wanted: Sequence[str]) -> None:
    """Set the points at which `loaded` records registers.

    Raise `UsageError` for a point that the code does not have.
    """
    if wanted:
        with _of_option():
            loaded.snapshot_at(wanted)


@contextmanager
def _of_option() -> Iterator[None]:
    """Turn a `WireError` about a point into a `UsageError` about the option."""
    try:
        yield
    except WireError as error:
        raise UsageError(f"--registers-at: {error.message}") from None


class ProgramSnapshots:
    """The points at which the registers of a host program's kernels are recorded.

    A point is ``fault``, a pc, KERNEL[+OFFSET], FILE:LINE or ``end``. Names and lines are resolved when a kernel first
    runs; lines need the kernel's code in `files`. ``end`` applies only to kernels with a name; kernels of the run-time
    library itself have none.
    """

    def __init__(self, wanted: Sequence[str], files: Callable[[], CodeFiles] | None = None) -> None:
        self._files = files
        self._lines: dict[tuple[str, int], bool] = {}
        """The requested (file, line) pairs, with True for those for which code was found."""
        self._seen: set[LoadedCode] = set()
        """The loaded code objects in which the requested lines have already been searched."""
        self._at_end = END in wanted
        self._pcs: set[int] = set()
        self._names: dict[str, set[int]] = {}
        self._met: set[str] = set()
        """The names of kernels that ran."""
        with _of_option():
            for text in wanted:
                self._add(text)

    def _add(self, text: str) -> None:
        """Add the point that `text` describes."""
        name, plus, offset = text.partition("+")
        if text.lower().startswith("0x"):
            self._pcs.add(number_of(text, text))
        elif (place := file_and_line(text)) is not None:
            self._lines[place] = False
        elif text not in (FAULT, END):
            self._names.setdefault(name, set()).add(number_of(offset, text) if plus else 0)

    def follow(self, agent: HsaDevice) -> None:
        """Make the agent of a host program record registers at these points.

        The agent's events are observed, since names and lines are resolved when a kernel first runs."""
        from softcard.device.hsa.events import PacketStarted
        from softcard.device.hsa.queues.packets import KernelDispatchPacket
        from softcard.device.kfd.loaded_code import entry_offset, kernel_name

        tracepoints, names = agent.tracepoints, dict[int, str]()
        if tracepoints is None:
            return
        tracepoints.pcs.update(self._pcs)

        def hear(event: Event) -> None:
            packet = event.packet if isinstance(event, PacketStarted) else None
            if not isinstance(packet, KernelDispatchPacket):
                return
            name = names.get(packet.kernel_object)
            is_new = name is None
            if name is None:
                name = names[packet.kernel_object] = kernel_name(agent.memory, packet.kernel_object)
                self._met.add(name)
            tracepoints.at_end = self._at_end and name != ""  # kernels of the run-time library have no name
            if is_new and name in self._names:
                entry = packet.kernel_object + entry_offset(agent.memory, packet.kernel_object)
                tracepoints.pcs.update(entry + offset for offset in self._names[name])
            if is_new and self._lines:
                tracepoints.pcs.update(self._of_lines(agent, packet.kernel_object))

        agent.probes.subscribe(hear, PacketStarted)

    def _of_lines(self, agent: HsaDevice, kernel_object: int) -> Iterator[int]:
        """Yield the addresses of the first instructions of the requested source lines in a kernel's code object."""
        from softcard.device.kfd.loaded_code import loaded_at

        loaded = loaded_at(agent, kernel_object)
        if loaded is None or loaded in self._seen or self._files is None:
            return
        self._seen.add(loaded)
        known = self._files().of(loaded)
        if known is None:
            return
        for place in self._lines:
            for pc in addresses_of_line(*place, range(0, len(loaded.data), 4), known.lines.at):
                self._lines[place] = True
                yield loaded.base + pc

    def missed(self) -> list[str]:
        """Return messages about requested kernels that did not run, and about lines without code."""
        met = sorted(self._met - {""})
        lines = [
            f"--registers-at {file}:{line}: no code that ran comes from that line (line information needs -g)"
            for (file, line), is_met in self._lines.items()
            if not is_met
        ]
        return lines + [
            f"--registers-at {name}: no kernel of this name ran"
            + (close_to(name, met) or f", kernels that ran: {', '.join(met) or 'none'}")
            for name in self._names
            if name not in self._met
        ]
