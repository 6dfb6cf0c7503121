"""The files and texts in which a command records a run: findings of checks, report, trace and profile."""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from softcard import __version__
from softcard.cli.exits import UsageError, usage_errors
from softcard.cli.files import is_standard_output, write_file, writing
from softcard.cli.options import TEXT
from softcard.cli.output import exact, show_line
from softcard.core.diagnostics import DOCS_VARIABLE
from softcard.core.display import count

if TYPE_CHECKING:
    from softcard.cli.options import Format
    from softcard.core.diagnostics import AnyFinding, Diagnostic
    from softcard.core.event import Event, Probes
    from softcard.core.findings import Finding
    from softcard.device.fletcher.kernel import Kernel
    from softcard.device.kfd.code_files import CodeFiles
    from softcard.device.kfd.loaded_code import LoadedCode
    from softcard.device.refsi.device import RefSiDevice
    from softcard.engine.hooks import Executions
    from softcard.image.coverage import CodeLines, Coverage
    from softcard.image.elf.embedded import Files
    from softcard.trace.code import Listing, Loaded
    from softcard.trace.values import Record


# ---- findings --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class RunSummary:
    """The run statistics of a checked program: the numbers of kernels, instructions and `refused` launches.

    A refused launch started no kernel; `refused` is None if the number is unknown. `others` is the number of copy
    and fill kernels that the run-time library launched. `unfinished` is the number of kernels, including
    `others`, that failed or were stopped."""

    kernels: int = 0
    instructions: int | None = 0
    """The number of instructions, or None if it is unknown.

    An unfinished kernel has no count; the summary omits the number if there is such a kernel.
    """
    refused: int | None = None
    others: int = 0
    unfinished: int = 0

    def parts(self, findings: Sequence[Diagnostic]) -> list[str]:
        """Return the parts of a summary line: the kernels that ran, and the number of findings by check and kind."""
        others = f" (and {self.others:,} of the run-time library)" if self.others else ""
        kinds = sorted(Counter(each.check for each in findings).items())
        refused = "" if self.refused is None else count(self.refused, "launch", "launches")
        unfinished = f", {self.unfinished:,} did not finish" if self.unfinished else ""
        has_count = self.instructions is not None and not self.unfinished
        return [
            f"{count(self.kernels, 'kernel')} ran{others}{unfinished}",
            *([f"{refused} refused by the run-time library"] if refused else []),
            *([count(self.instructions or 0, "instruction")] if has_count else []),
            *(["findings: " + ", ".join(f"{kind} {number}" for kind, number in kinds)] if kinds else []),
        ]

    def warnings(self) -> list[str]:
        """Return warnings about reasons why "no findings" may be misleading."""
        found = []
        if self.refused:
            found.append(
                f"the run-time library refused {count(self.refused, 'launch', 'launches')}: no kernel ran "
                "for it; check hipGetLastError after each launch"
            )
        if not self.kernels:
            found.append("no kernel of the program ran, so nothing was checked")
        return found

    def verdict(self) -> str:
        """Return the last line of a run without findings, which states how much was checked."""
        if not self.kernels:
            return "checked: nothing, since no kernel ran"
        if self.unfinished:
            return (
                f"checked in part: {count(self.unfinished, 'kernel')} did not finish; there were no findings until then"
            )
        return "checked: no findings"


def print_findings(
    findings: Sequence[Finding], to: TextIO, ran: RunSummary, form: Format | None = None, program: Path = Path()
) -> None:
    """Print the findings of a run of `program`.

    As text (the default) these are diagnostics, followed by the run statistics and the number of diagnostics; in a
    workflow of GitHub, annotations follow.
    """
    from softcard.cli.tables import show_diagnostics
    from softcard.core.diagnostics import Diagnostic, diagnostics_of
    from softcard.core.findings import Level

    if form is not None and form != TEXT:
        print(formatted(form, program, findings), end="", file=to)
        return
    found = diagnostics_of(findings)
    if found:
        print(file=to)
        show_diagnostics(found, to)
        print(file=to)
    for text in ran.warnings():
        show_diagnostics([Diagnostic(Level.WARNING, "", text)], to)
    *parts, last = ran.parts(found)
    show_line(*(f"{each};" for each in parts), last, to=to)
    show_line(count(len(found), "finding") if found else ran.verdict(), to=to)
    annotate(program, found, to)


def annotate(program: Path, found: Sequence[AnyFinding], to: TextIO) -> None:
    """In a workflow of GitHub, print the annotations of findings."""
    if found and os.environ.get("GITHUB_ACTIONS") == "true":
        print(formatted("github", program, found), end="", file=to)


def formatted(form: str, program: Path, findings: Sequence[AnyFinding]) -> str:
    """Return findings as text in the format with this name, except "text"."""
    from softcard.report.diagnostic_formats import FORMATS

    return FORMATS[form](program, findings, __version__)


def write_findings(path: Path, program: Path, findings: Sequence[AnyFinding]) -> None:
    """Write findings to a file, in the format that its suffix names."""
    from softcard.report.diagnostic_formats import SUFFIXES

    write_file(path, formatted(SUFFIXES[path.suffix], program, findings))


# ---- --report --------------------------------------------------------------------------------------------------------


class Report:
    """The collector of data for an HTML report: device events, also from several threads, and executed code."""

    def __init__(self, title: str, docs: str) -> None:
        from softcard.trace.html import HtmlTrace

        self.text = io.StringIO()
        self._trace = HtmlTrace(self.text, title, docs)
        self._lock = threading.Lock()
        self.is_empty = True

    def follow(self, probes: Probes) -> None:
        """Collect all events of a device from now on."""
        self.is_empty = False
        probes.subscribe(self._take, later=True)

    def _take(self, event: Event) -> None:
        with self._lock:
            self._trace(event)

    def code(self, loaded: Loaded, counts: Mapping[int, int] | None, name: str = "") -> None:
        """Add a program's code to the report: the instructions that were executed, or all if `counts` is None.

        `counts` maps the address of an instruction to the number of its executions."""
        self._trace.code(loaded, counts, name)

    def listing(self, listing: Listing) -> None:
        """Add `listing`, the listing of some code with execution counts, to the report."""
        with self._lock:
            self._trace.listing(listing)

    def loaded(self, kernels: Mapping[str, int]) -> None:
        """Add the names and entry addresses of loaded kernels to the report, as RefSi's events do not contain names."""
        record: Record = {"time": 0, "event": "code-loaded", "kernels": {**kernels}}
        with self._lock:
            self._trace.write(record)

    def note(self, text: str) -> None:
        """Add a note to the report about code that it cannot show, with the reason."""
        with self._lock:
            self._trace.note(text)

    def found(self, findings: Sequence[AnyFinding]) -> None:
        """Add the findings of checks to the report."""
        from softcard.core.diagnostics import diagnostics_of

        with self._lock:
            for each in diagnostics_of(findings):
                self._trace.finding(each)

    def finish(self) -> str:
        """Return the report as one HTML page."""
        with self._lock:
            self._trace.close()
        return self.text.getvalue()


@contextmanager
def reporting(path: Path | None, title: str) -> Iterator[Report | None]:
    """Provide a report, or None without a `path`.

    When the block ends, the report is written to `path` if it has events of a device, and if the block has not raised
    `UsageError`: then nothing has run."""
    if path is None:
        yield None
        return
    was_empty = False
    if not is_standard_output(path):
        with writing(path):
            path.open("ab").close()
        was_empty = not path.stat().st_size
    report = Report(title, os.environ.get(DOCS_VARIABLE, ""))
    message = "report: no device was used, no report was written"
    has_run = True
    try:
        yield report
    except UsageError:
        message, has_run = "", False
        raise
    except BaseException:
        message = ""  # the error is enough
        raise
    finally:
        if report.is_empty or not has_run:
            if was_empty:
                path.unlink()
            if message:
                print(message, file=sys.stderr)
        else:
            write_file(path, report.finish())
            print(f"report: {path}", file=sys.stderr)


@contextmanager
def covering(path: Path | None) -> Iterator[Coverage | None]:
    """Provide the object that collects coverage; at the end of the block, add it to the LCOV file at `path`.

    Without a `path`, provide None. A file that cannot be written is an error before anything runs, and after a
    `UsageError` nothing is written: then nothing has run."""
    if path is None:
        yield None
        return
    from softcard.image.coverage import Coverage

    is_new = not os.path.lexists(path)
    with writing(path):
        path.open("ab").close()
    found, has_run = Coverage(), True
    try:
        yield found
    except UsageError:
        has_run = False
        if is_new:
            path.unlink()
        raise
    finally:
        if has_run:
            with usage_errors(), writing(path):
                found.write_lcov(path)
            print(f"coverage: {found.summary()}, added to {path}", file=sys.stderr)


# ---- records of host programs ----------------------------------------------------------------------------------------

ENTRY_BYTES = 16
"""The number of bytes at a kernel's entry that must equal those in a file for the file's kernel name to be used."""
NO_SOURCE = "The kernel is a Python function whose source cannot be found: there is no code to show."
NOT_COUNTED = "Instructions were not counted: {}."


def _opened(path: Path) -> Path | TextIO:
    """Return standard output for ``-``, and otherwise `path`."""
    return exact(sys.stdout) if is_standard_output(path) else path


class ExecRecords:
    """The trace, profile and report writers of a program's devices.

    `command` and `code` name files that may contain the program's kernels. The coverage of kernels is added to
    `coverage`, unless it is None.
    """

    def __init__(
        self, stack: ExitStack, report: Report | None, trace: Path | None, profile: Path | None,
        command: tuple[str, ...], code: tuple[Path, ...], coverage: Coverage | None = None,
    ) -> None:  # fmt: skip
        self._report = report
        self._coverage = coverage
        self._followers: list[Callable[[Probes], object]] = []
        self._lock = threading.Lock()
        self._wanted: list[Callable[[Listing], None]] = [] if report is None else [report.listing]
        self._paths = [*code, *(Path(shutil.which(each) or each) for each in command[:1]), *map(Path, command[1:])]
        self._files: Files | None = None
        self._programs = 0
        if trace is not None:
            from softcard.trace import JsonlTrace

            with writing(trace):
                self._followers.append(stack.enter_context(JsonlTrace(_opened(trace))).follow)
        if profile is not None:
            from softcard.trace.speedscope import SpeedscopeTrace

            with writing(profile):
                scope = stack.enter_context(
                    SpeedscopeTrace(_opened(profile), Path(command[0]).name if command else "device")
                )
            self._followers.append(scope.follow)
            self._wanted.append(scope.listing)
        if report is not None:
            self._followers.append(report.follow)

    def __bool__(self) -> bool:
        """Return True if a trace, a profile, a report or coverage is written."""
        return bool(self._followers) or self._coverage is not None

    @property
    def shows_code(self) -> bool:
        """True if a report that shows code, or coverage, is written; executed instructions then have to be counted."""
        return self._report is not None or self._coverage is not None

    def follow(self, probes: Probes) -> None:
        """Record the events of a device in the trace, the profile and the report, by subscribing to its `probes`."""
        for follow in self._followers:
            follow(probes)

    def note(self, text: str) -> None:
        """Add a note to the report about something that it does not show, with the reason."""
        if self._report is not None:
            self._report.note(text)

    @property
    def files(self) -> Files:
        """The files that may contain the program's kernels."""
        from softcard.image.elf.embedded import Files

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
        """The code objects in the files that may contain the program's kernels."""
        from softcard.device.kfd.code_files import CodeFiles

        return CodeFiles(self.files)

    def gpu_code(self, code: LoadedCode, executions: Executions) -> None:
        """Add code that was loaded by an agent to the report and to the coverage, with its executions."""
        from softcard.trace.executed_code import listing_of_memory

        if not executions.counts:
            return
        name = f"code at {code.base:#x}"
        if self._wanted:
            self._show(listing_of_memory(code, executions.counts, name, self.code_files))
        if self._coverage is not None:
            from softcard.image.coverage import CodeLines

            known = self.code_files.of(code)
            lines = None if known is None else CodeLines(known.elf, known.lines, code.agent)
            self._cover(lines, executions, code.base, name if known is None else f"{known.file}, {name}")

    def _cover(self, code: CodeLines | None, executions: Executions, base: int, name: str) -> None:
        """Add code at address `base` to the coverage; `code` is None if no file contains it."""
        assert self._coverage is not None
        if code is None or not code.functions:
            self._coverage.without_lines.add(name)
        else:
            self._coverage.add_code(code, executions, base)

    # ---- Fletcher --------------------------------------------------------------------------------------------------

    def python_kernel(self, kernel: Kernel) -> None:
        """Add the source of a Fletcher device's kernel, a Python function, to the report."""
        if self._report is None:
            return
        from softcard.trace.code import listing_of

        listing = listing_of(kernel, None)
        if not listing.functions:
            self._report.note(NO_SOURCE)
        self._show(listing)

    # ---- RefSi -----------------------------------------------------------------------------------------------------

    def open_refsi(self, device: RefSiDevice) -> None:
        """Begin to record the events of a RefSi device that a program has opened."""
        from softcard.device.refsi.events import KernelLaunch, KernelsNamed

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
        """Return the name of the function at address `entry`, or "".

        The name comes from a file whose code at `entry` equals the code in the device's memory."""
        from softcard.trace.executed_code import images

        for image in images(self.files):
            name, start = image.before(entry)
            known = image.read(entry, ENTRY_BYTES) if start == entry else b""
            if known and fetch(device, entry, len(known)) == known:
                return name
        return ""

    def close_refsi(self, device: RefSiDevice) -> None:
        """Add the code that a device has executed to the report and to the coverage.

        Call this before the device is closed."""
        from softcard.trace.executed_code import executable_of, listing_of_words

        words = device.executed_code() if self.shows_code else {}
        if not words:
            return
        self._programs += 1
        name = f"device {self._programs}"
        if self._wanted:
            self._show(
                listing_of_words(
                    words, device.instruction_counts(), name, self.files, lambda at, size: fetch(device, at, size)
                )
            )
        if self._coverage is not None:
            from softcard.image.coverage import HARTS, CodeLines
            from softcard.image.elf.lines import read_lines

            _, _, elf = executable_of(words, self.files)
            code = None if elf is None else CodeLines(elf, read_lines(elf), HARTS)
            self._cover(code, device.executions(), 0, f"the program on {name}")


def fetch(device: RefSiDevice, address: int, size: int) -> bytes:
    """Return `size` bytes of code as the first hart sees them; raise `SoftcardError` for unmapped addresses."""
    port = device.memory.port(0)
    return b"".join(port.fetch(each).to_bytes(2, "little") for each in range(address, address + size, 2))
