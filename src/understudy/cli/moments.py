"""`--registers-at`: moments at which a report shows registers, from the command line's words to addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from understudy.cli.exits import UsageError
from understudy.core.errors import close_to
from understudy.engine.moments import END, FAULT

if TYPE_CHECKING:
    from understudy.core.event import Event
    from understudy.device.hsa.device import HsaDevice
    from understudy.device.kfd.code_files import CodeFiles
    from understudy.device.kfd.loaded_code import LoadedCode
    from understudy.engine.gcn.moments import Moments
    from understudy.engine.riscv.moments import HartMoments
    from understudy.host.amdcl2.program import Program as OpenclProgram
    from understudy.host.hsa.executable import Executable
    from understudy.host.refsi.program import Program
    from understudy.image.elf.lines import Place

    PlaceOf: TypeAlias = Callable[[int], Place | None]

SNAPSHOTS: Final = 64
"""Moments of a run that are kept."""


def choose_of_waves(moments: Moments | None, loaded: Executable, wanted: Sequence[str]) -> None:
    """Have a device tell of registers of waves there; where one fails or traps it does so anyway."""
    if moments is None:
        return
    entries = {name: kernel.image.entry + loaded.base for name, kernel in loaded.kernels.items()}
    code = range(loaded.base, loaded.base + loaded.code.layout.size, 4)
    _choose(moments, wanted, {**loaded.symbols, **entries}, code, loaded.place_of)


def choose_of_program(program: OpenclProgram, wanted: Sequence[str]) -> None:
    """Likewise of waves of a program of AMD OpenCL 2.0, whose files name no lines."""
    if program.moments is None:
        return
    code = program.code
    entries = {
        name: place + program.container.kernel(name).header.kernel_code_entry_byte_offset
        for name, place in code.kernels.items()
    }
    _choose(program.moments, wanted, entries, range(code.base, code.base + len(code.data), 4), lambda _: None)


def choose_of_harts(moments: HartMoments | None, program: Program, wanted: Sequence[str]) -> None:
    """Likewise of harts."""
    if moments is None:
        return
    names = {each.name: each.address for each in (program.image.symbols or {}).values() if each.name}
    segments = program.image.segments
    code = range(min(each.address for each in segments), max(each.address + len(each.data) for each in segments), 2)
    _choose(moments, wanted, names, code, program.place_of)


class MomentsOfPrograms:
    """Moments of kernels that host programs load themselves: fault, a pc, KERNEL[+OFFSET], FILE:LINE, end.

    What names and lines mean is known when a kernel first runs; lines where `files` have its code. The end is that of
    waves of kernels that have a name: those of the run-time library itself have none.
    """

    def __init__(self, wanted: Sequence[str], files: Callable[[], CodeFiles] | None = None) -> None:
        self._files = files
        self._lines: dict[tuple[str, int], bool] = {}
        """Whether there was code of it, by file and line."""
        self._seen: set[LoadedCode] = set()
        """Where lines were looked for."""
        self._at_end = END in wanted
        self._pcs: set[int] = set()
        self._names: dict[str, set[int]] = {}
        self._met: set[str] = set()
        """Kernels that ran."""
        for text in wanted:
            name, plus, offset = text.partition("+")
            if text.lower().startswith("0x"):
                self._pcs.add(_number(text, text))
            elif (place := _file_and_line(text)) is not None:
                self._lines[place] = False
            elif text not in (FAULT, END):
                self._names.setdefault(name, set()).add(_number(offset, text) if plus else 0)

    def follow(self, agent: HsaDevice) -> None:
        """Have an agent of a program tell of registers there."""
        from understudy.device.hsa.events import PacketStarted
        from understudy.device.hsa.launch.packet import KernelDispatchPacket
        from understudy.device.kfd.kernel_names import entry_offset, kernel_name

        moments, names = agent.moments, dict[int, str]()
        if moments is None:
            return
        moments.pcs.update(self._pcs)

        def hear(event: Event) -> None:
            packet = event.packet if isinstance(event, PacketStarted) else None
            if not isinstance(packet, KernelDispatchPacket):
                return
            name = names.get(packet.kernel_object)
            is_new = name is None
            if name is None:
                name = names[packet.kernel_object] = kernel_name(agent.memory, packet.kernel_object)
                self._met.add(name)
            moments.at_end = self._at_end and name != ""  # the run-time library's own kernels have none
            if is_new and name in self._names:
                entry = packet.kernel_object + entry_offset(agent.memory, packet.kernel_object)
                moments.pcs.update(entry + offset for offset in self._names[name])
            if is_new and self._lines:
                moments.pcs.update(self._of_lines(agent, packet.kernel_object))

        agent.probes.subscribe(hear, PacketStarted)

    def _of_lines(self, agent: HsaDevice, kernel_object: int) -> Iterator[int]:
        """Instructions of the code object of a kernel that begin the lines."""
        from understudy.device.kfd.loaded_code import loaded_at

        loaded = loaded_at(agent, kernel_object)
        if loaded is None or loaded in self._seen or self._files is None:
            return
        self._seen.add(loaded)
        known = self._files().of(loaded)
        if known is None:
            return
        for place in self._lines:
            for pc in _pcs_of_line(*place, range(0, len(loaded.data), 4), known.lines.at):
                self._lines[place] = True
                yield loaded.base + pc

    def missed(self) -> list[str]:
        """What to say of kernels that did not run, and of lines that none of them has."""
        met = sorted(self._met - {""})
        lines = [
            f"--registers-at {file}:{line}: no code that ran comes from that line (debug information says so: -g)"
            for (file, line), is_met in self._lines.items()
            if not is_met
        ]
        return lines + [
            f"--registers-at {name}: no such kernel ran"
            + (close_to(name, met) or f": there were {', '.join(met) or 'none'}")
            for name in self._names
            if name not in self._met
        ]


def _choose(
    moments: Moments | HartMoments, wanted: Sequence[str], names: Mapping[str, int], code: range, place: PlaceOf
) -> None:
    moments.at_end = END in wanted
    for text in wanted:
        if text not in (FAULT, END):
            moments.pcs.update(moment_addresses(text, names, code, place))


def moment_addresses(text: str, names: Mapping[str, int], code: range, place: PlaceOf) -> list[int]:
    """The instructions that PC, SYMBOL[+OFFSET] or FILE:LINE names, of code whose parts begin at the steps of a range.

    Of a line those at which its code begins: there may be several. `UsageError` where there is none.
    """
    if text.lower().startswith("0x"):
        return [_number(text, text)]
    at = _file_and_line(text)
    if at is not None:
        found = _pcs_of_line(*at, code, place)
        if not found:
            raise UsageError(f"--registers-at {text}: no instruction comes from that line")
        return found
    name, plus, offset = text.partition("+")
    if name not in names:
        near = close_to(name, names) or f": there are {', '.join(names) or 'none'}"
        raise UsageError(f"--registers-at {text}: no symbol {name!r}{near}")
    return [names[name] + (_number(offset, text) if plus else 0)]


def _file_and_line(text: str) -> tuple[str, int] | None:
    file, colon, line = text.rpartition(":")
    return (file, int(line)) if colon and line.isdecimal() else None


def _pcs_of_line(file: str, line: int, code: range, place: PlaceOf) -> list[int]:
    """Where code of a line begins."""
    found, before = [], False
    for pc in code:
        at = place(pc)
        is_there = at is not None and at.line == line and ("/" + at.file).endswith("/" + file)
        if is_there and not before:
            found.append(pc)
        before = is_there
    return found


def _number(text: str, whole: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f"--registers-at {whole}: {text!r} is no number") from None
