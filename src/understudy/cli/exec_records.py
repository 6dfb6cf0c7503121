"""What `understudy exec` writes of what devices did: a trace, a profile and a report, with the code that ran."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.cli.files import writing

if TYPE_CHECKING:
    from understudy.cli.reporting import Report
    from understudy.core.event import Event, Probes
    from understudy.device.kfd.code_files import CodeFiles
    from understudy.device.kfd.loaded_code import LoadedCode
    from understudy.device.refsi.device import RefSiDevice
    from understudy.image.elf.embedded import Files
    from understudy.trace.code import Listing

ENTRY_BYTES = 16
"""Of a kernel's code that a file must have as well to be the one that names it."""
NO_MACHINE_CODE = "Kernels of Fletcher devices are models or Python: there is no machine code to show."
NOT_COUNTED = "Instructions were not counted: {}."


class Records:
    """Writers that follow the devices of a program. `command` and `code` name files that may hold its code."""

    def __init__(
        self, stack: ExitStack, report: Report | None, trace: Path | None, profile: Path | None,
        command: tuple[str, ...], code: tuple[Path, ...],
    ) -> None:  # fmt: skip
        self._report = report
        self._followers: list[Callable[[Probes], object]] = []
        self._lock = threading.Lock()
        self._wanted: list[Callable[[Listing], None]] = [] if report is None else [report.listing]
        self._paths = [*code, *(Path(shutil.which(each) or each) for each in command[:1]), *map(Path, command[1:])]
        self._files: Files | None = None
        self._programs = 0
        if trace is not None:
            from understudy.trace import JsonlTrace

            with writing(trace):
                self._followers.append(stack.enter_context(JsonlTrace(trace)).follow)
        if profile is not None:
            from understudy.trace.speedscope import SpeedscopeTrace

            with writing(profile):
                scope = stack.enter_context(SpeedscopeTrace(profile, Path(command[0]).name if command else "device"))
            self._followers.append(scope.follow)
            self._wanted.append(scope.listing)
        if report is not None:
            self._followers.append(report.follow)

    def __bool__(self) -> bool:
        """Whether anybody follows."""
        return bool(self._followers)

    @property
    def shows_code(self) -> bool:
        """Whether instructions are to be counted."""
        return self._report is not None

    def follow(self, probes: Probes) -> None:
        """Write what is heard there from now on."""
        for follow in self._followers:
            follow(probes)

    def note(self, text: str) -> None:
        """Say in the report what it does not show, and why."""
        if self._report is not None:
            self._report.note(text)

    @property
    def files(self) -> Files:
        """Files in which the program's code may be."""
        from understudy.image.elf.embedded import Files

        with self._lock:
            if self._files is None:
                self._files = Files(self._paths)
            return self._files

    def _show(self, listing: Listing) -> None:
        if listing.functions:
            for show in self._wanted:
                show(listing)

    # ---- AMD GPUs --------------------------------------------------------------------------------------------------

    @cached_property
    def code_files(self) -> CodeFiles:
        """Code objects in those files."""
        from understudy.device.kfd.code_files import CodeFiles

        return CodeFiles(self.files)

    def gpu_code(self, code: LoadedCode, counts: Mapping[int, int]) -> None:
        """Code that an agent had loaded, and what was executed of it."""
        from understudy.trace.seen_code import listing_of_memory

        if counts:
            self._show(listing_of_memory(code, counts, f"code at {code.base:#x}", self.code_files))

    # ---- RefSi -----------------------------------------------------------------------------------------------------

    def open_refsi(self, device: RefSiDevice) -> None:
        """A program has opened a device."""
        from understudy.device.refsi.events import KernelLaunch, KernelsNamed

        def name(event: Event) -> None:
            assert isinstance(event, KernelLaunch)
            if event.entry not in named:
                named.add(event.entry)
                if found := self._kernel_at(device, event.entry):
                    device.probes.emit(KernelsNamed(event.time, {found: event.entry}))

        named: set[int] = set()
        if self:
            device.probes.subscribe(name, KernelLaunch)
        self.follow(device.probes)

    def _kernel_at(self, device: RefSiDevice, entry: int) -> str:
        """The function of a file that has the same code there; "" for none."""
        from understudy.trace.seen_code import images

        for image in images(self.files):
            name, start = image.before(entry)
            known = image.read(entry, ENTRY_BYTES) if start == entry else b""
            if known and fetch(device, entry, len(known)) == known:
                return name
        return ""

    def close_refsi(self, device: RefSiDevice) -> None:
        """It is about to be closed."""
        from understudy.trace.seen_code import listing_of_words

        words = device.executed_code() if self.shows_code else {}
        if not words:
            return
        self._programs += 1
        name = f"device {self._programs}"
        self._show(
            listing_of_words(
                words, device.instruction_counts(), name, self.files, lambda at, size: fetch(device, at, size)
            )
        )


def fetch(device: RefSiDevice, address: int, size: int) -> bytes:
    """Code as the first hart sees it now; an `UnderstudyError` where there is none."""
    port = device.memory.port(0)
    return b"".join(port.fetch(each).to_bytes(2, "little") for each in range(address, address + size, 2))
