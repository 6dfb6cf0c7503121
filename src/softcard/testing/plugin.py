"""The pytest plug-in: device fixtures, and sections about devices in the reports of failing tests.

pytest loads it automatically if Softcard is installed. The fixtures are `softcard_refsi`, `softcard_acceldev`,
`softcard_gpu` and `softcard_fletcher`. A marker with the name of a fixture, or the parameter of an indirect
parametrisation, gives the settings of the device, which override those of the command line. See ``docs/pytest.md``.
"""

from __future__ import annotations

import re
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Final, cast
from zlib import crc32

import pytest

from softcard.testing.options import Options, add_options

if TYPE_CHECKING:
    from softcard import Acceldev, Gpu, Platform, RefSi
    from softcard.core.diagnostics import AnyFinding
    from softcard.core.event import Probes
    from softcard.core.findings import Findings, Mark
    from softcard.core.settings import DeviceSettings
    from softcard.host.acceldev.port import LocalPort
    from softcard.testing.watch import Watch
    from softcard.trace.code import Loaded

DEVICES: Final = ("refsi", "acceldev", "gpu", "fletcher")
LONGEST_NAME: Final = 100
"""The maximum length of a test's name in the file name of its trace, since file systems accept 255 bytes."""


@dataclass
class _Opened:
    """A device that a test has opened through a fixture, and the recorder of its events.

    `findings` returns the findings of level error; the first `reported` of them have been reported already.
    `programs` returns the code that is loaded on the device.
    """

    name: str
    watch: Watch | None
    findings: Callable[[], list[AnyFinding]]
    programs: Callable[[], Iterable[Loaded]]
    device_findings: object = None
    """The device's own list of findings, to exclude it from `_AllFindings`."""
    reported: int = 0


class _AllFindings:
    """A collector of the findings of all devices of this process, including devices opened without a fixture."""

    def __init__(self) -> None:
        self._new: list[Findings] = []
        """The findings of devices that were created after the last call of `take`.

        The references are strong, since a device may be deleted before that call.
        """
        self._seen: list[tuple[weakref.ref[Findings], Mark]] = []
        """Weak references to the findings of older devices, each with the mark up to which they were returned."""

    def add(self, findings: Findings) -> None:
        """Add the (still empty) findings of a new device."""
        self._new.append(findings)

    def take(self, but: Collection[int]) -> list[Any]:
        """Return the findings of all devices of this process that occurred since the last call.

        They include findings that also occurred before. A device is left out if the `id` of its list of findings is in
        `but`."""
        from softcard.core.findings import Mark

        known = [(findings, mark) for ref, mark in self._seen if (findings := ref()) is not None]
        known += [(findings, Mark()) for findings in self._new]
        self._new, self._seen = [], []
        occurred = []
        for findings, mark in known:
            found, now = findings.since(mark)
            self._seen.append((weakref.ref(findings), now))
            occurred += [] if id(findings) in but else found
        return occurred


_OPTIONS: Final = pytest.StashKey[Options]()
_OPENED: Final = pytest.StashKey[list[_Opened]]()
_ALL_FINDINGS: Final = pytest.StashKey[_AllFindings]()
_COVERAGE: Final = pytest.StashKey[ExitStack]()
_OWN: Final = pytest.StashKey[list["AnyFinding"]]()
_REPORT: Final = pytest.StashKey[Any]()
"""The `FailureReport` of a test that has failed."""
_FAILED_BY_FINDINGS: Final = pytest.StashKey[bool]()
"""True for a test that failed because of findings, which its failure shows."""
_SUMMARY: Final = "softcard_findings"
"""The attribute of a test's report with its findings as lines of text."""
MOST_SUMMARISED: Final = 20
"""The maximum number of findings in the terminal summary; all are in the sections of their tests."""


# ---- options ---------------------------------------------------------------------------------------------------------
def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the plug-in's options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the plug-in's markers, and enable the requested checks for devices opened without a fixture."""
    options = config.stash[_OPTIONS] = Options.of(config)
    path = options.coverage
    if path is not None:
        from softcard.host.coverage import record

        if not hasattr(config, "workerinput"):  # worker processes of pytest-xdist add to the file of the first process
            path.unlink(missing_ok=True)
        stack = config.stash[_COVERAGE] = ExitStack()
        recording = stack.enter_context(record())
        stack.callback(lambda: recording.read().write_lcov(path))
    if options.check:
        from softcard.core.checks import set_default_checks
        from softcard.core.findings import OBSERVERS
        from softcard.core.settings import set_usual

        set_default_checks(",".join(options.checks))
        set_usual({"on_finding": "keep", **options.modes})  # the plug-in reports findings itself
        config.addinivalue_line("filterwarnings", "ignore::softcard.core.lint.FindingWarning")
        everywhere = config.stash[_ALL_FINDINGS] = _AllFindings()
        OBSERVERS.append(everywhere.add)
    for name in DEVICES:
        config.addinivalue_line(
            "markers", f"softcard_{name}(*arguments, **settings): how the fixture softcard_{name} opens its device"
        )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the coverage of kernels; a worker process does it before the first process shows the summary."""
    stack = session.config.stash.get(_COVERAGE, None)
    if stack is not None:
        stack.close()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Disable the checks that `pytest_configure` enabled, so that devices opened after the tests lack them."""
    everywhere = config.stash.get(_ALL_FINDINGS, None)
    if everywhere is not None:
        from softcard.core.checks import set_default_checks
        from softcard.core.findings import OBSERVERS
        from softcard.core.settings import set_usual

        set_default_checks("")
        set_usual({})
        OBSERVERS.remove(everywhere.add)


# ---- fixtures --------------------------------------------------------------------------------------------------------
@pytest.fixture
def softcard_refsi(request: pytest.FixtureRequest) -> Iterator[RefSi]:
    """Provide a RefSi M1 device, opened by `RefSi.open`."""
    from softcard import RefSi
    from softcard.refsi import Settings

    arguments, settings = _open_arguments(request, "refsi", Settings)
    device = RefSi.open(*arguments, **settings)
    log = device.port.log

    def programs() -> Iterable[Loaded]:
        return () if device.program is None else (device.program,)

    found = (lambda: ()) if log is None else (lambda: log.kept)
    yield from _watched(request, "refsi", device, device.port.probes, found, programs)


@pytest.fixture
def softcard_acceldev(request: pytest.FixtureRequest) -> Iterator[Acceldev]:
    """Provide an Acceldev with its driver, opened by `Acceldev.open`."""
    from softcard import Acceldev
    from softcard.acceldev import Settings

    arguments, settings = _open_arguments(request, "acceldev", Settings)
    device = Acceldev.open(*arguments, **settings)
    yield from _watched(request, "acceldev", device, cast("LocalPort", device.port).probes)


@pytest.fixture
def softcard_gpu(request: pytest.FixtureRequest) -> Iterator[Gpu]:
    """Provide an AMD HSA GPU, opened by `Gpu.open`; its agent is gfx900 unless the marker selects another."""
    from softcard import Gpu
    from softcard.hsa import Settings

    arguments, settings = _open_arguments(request, "gpu", Settings)
    device = Gpu.open(*arguments, **settings)
    findings = device.device.findings
    yield from _watched(request, "gpu", device, device.device.probes, lambda: findings, lambda: device.executables)


@pytest.fixture
def softcard_fletcher(request: pytest.FixtureRequest) -> Iterator[Platform]:
    """Provide an initialised Fletcher platform; its marker specifies a kernel or the name of a built-in kernel."""
    from softcard import Platform
    from softcard.fletcher import BUILT_IN, FletcherDevice, Settings, find

    (kernel, *more), settings = _open_arguments(request, "fletcher", Settings, (None,))
    if kernel is None or more:
        pytest.fail(
            "softcard_fletcher needs a kernel: add the marker softcard_fletcher(kernel) to the test, with a kernel "
            f"or the name of a built-in one: {', '.join(BUILT_IN)}",
            pytrace=False,
        )
    kernel = find(kernel) if isinstance(kernel, str) else kernel
    device = FletcherDevice(kernel.map(), kernel, **settings)
    platform = Platform(device)
    yield from _watched(request, "fletcher", platform, device.probes)


def _open_arguments(
    request: pytest.FixtureRequest, name: str, kind: type[DeviceSettings], arguments: tuple[Any, ...] = ()
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments with which the fixture `name` opens the device of a test."""
    from softcard.core.settings import KernelSettings

    options = request.config.stash[_OPTIONS]
    usual: dict[str, Any] = {"time_limit_seconds": options.time_limit, **options.modes}
    usual["on_finding"] = "keep"  # the plug-in reports findings itself
    if options.engine is not None:
        usual["engine"] = options.engine
    unchecked = kind.unchecked() if issubclass(kind, KernelSettings) else frozenset[str]()
    if checks := [each for each in options.checks if each not in unchecked]:
        usual["check"] = ",".join(checks)
    known = {each.name for each in fields(kind)}
    settings = {key: value for key, value in usual.items() if key in known}
    marker = request.node.get_closest_marker(f"softcard_{name}")
    if marker is not None:
        arguments, settings = marker.args or arguments, settings | marker.kwargs
    if hasattr(request, "param"):
        if isinstance(request.param, Mapping):
            settings |= request.param
        else:
            arguments = (request.param,)
    return arguments, settings


def _watched(
    request: pytest.FixtureRequest,
    name: str,
    device: AbstractContextManager[Any],
    probes: Probes,
    found: Callable[[], Iterable[Any]] = tuple,
    programs: Callable[[], Iterable[Loaded]] = tuple,
) -> Iterator[Any]:
    watch = None

    def errors() -> list[AnyFinding]:
        return [each for each in found() if not _is_warning(each)]

    with device:
        options = request.config.stash[_OPTIONS]
        if options.trace != "off":
            from softcard.testing.watch import Watch

            path = _path(request.node, name)
            watch = Watch(name, probes, path, options.trace_format, whole=options.trace == "all")
        opened = _Opened(name, watch, errors, programs, found())
        request.node.stash.setdefault(_OPENED, []).append(opened)
        try:
            yield device
        finally:
            if watch is not None:
                watch.close()
    _warn(request.node, f"softcard {name}", [each for each in found() if _is_warning(each)])
    if late := errors()[opened.reported :]:
        _fail(request.node, "the device found when it was closed:", late)


def _is_warning(found: AnyFinding) -> bool:
    from softcard.core.findings import Level

    return getattr(found, "level", None) is Level.WARNING


def _warn(item: pytest.Item, source: str, warnings: Iterable[AnyFinding]) -> None:
    """Report findings of level warning as warnings of a test."""
    from softcard.core.diagnostics import diagnostics_of

    for each in diagnostics_of(warnings):
        item.warn(pytest.PytestWarning(f"{source}: {each}"))


def _fail(item: pytest.Item, why: str, findings: Iterable[AnyFinding]) -> None:
    """Fail a test because of findings."""
    item.stash[_FAILED_BY_FINDINGS] = True
    pytest.fail(f"{why}\n\n{_text(item, findings)}", pytrace=False)


def _text(item: pytest.Item, findings: Iterable[AnyFinding]) -> str:
    """Return findings as text that is as wide as the terminal."""
    from softcard.report.diagnostic_text import as_text

    return as_text(findings, item.config.get_terminal_writer().fullwidth)


def _path(item: pytest.Item, name: str) -> Path:
    """Return the path of a file about a test, without suffix: the trace of the device `name`, or the report.

    It is unique for each test, and the same in every run.
    """
    folder = item.config.stash[_OPTIONS].trace_dir
    if folder is None:
        factory = getattr(item.config, "_tmp_path_factory", None)  # absent with the option -p no:tmpdir
        folder = Path(gettempdir() if factory is None else factory.getbasetemp()) / "softcard"
    test = item.nodeid
    readable = re.sub(r"\W+", "-", test.rpartition("/")[2])[:LONGEST_NAME].strip("-")
    return Path(folder).absolute() / f"{readable}-{crc32(test.encode()):08x}-{name}"


# ---- failing tests ---------------------------------------------------------------------------------------------------
@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a passing test whose devices have findings; remove Softcard's own frames from tracebacks."""
    try:
        result = yield
    except Exception as error:
        from softcard.core.errors import ModelBug, SoftcardError
        from softcard.core.tracebacks import without_own_frames

        if not isinstance(error, SoftcardError) or isinstance(error, ModelBug) or item.config.getoption("fulltrace"):
            raise
        raise error.with_traceback(without_own_frames(error.__traceback__)) from error.__cause__
    finally:
        for opened in item.stash.get(_OPENED, []):
            opened.reported = len(opened.findings())
        own = item.stash[_OWN] = _found_elsewhere(item)
    found = [finding for opened in item.stash.get(_OPENED, []) for finding in opened.findings()]
    if found:
        _fail(item, "the test's own expectations hold, but the device found:", found)
    if own:
        _fail(item, "the test's own expectations hold, but a device that it opened found:", own)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test if a device that it opened without a fixture has new findings after the test."""
    result = yield
    if late := _found_elsewhere(item):
        item.stash[_OWN] = [*item.stash.get(_OWN, []), *late]
        _fail(item, "a device found when it was closed:", late)
    return result


def _found_elsewhere(item: pytest.Item) -> list[AnyFinding]:
    """Return the new errors of devices opened without a fixture; report their new warnings through pytest."""
    everywhere = item.config.stash.get(_ALL_FINDINGS, None)
    if everywhere is None:
        return []
    found = everywhere.take({id(each.device_findings) for each in item.stash.get(_OPENED, [])})
    _warn(item, "softcard", [each for each in found if _is_warning(each)])
    return [each for each in found if not _is_warning(each)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add sections to the report of a failing test: verdict, last events of its devices, trace file."""
    opened = item.stash.get(_OPENED, [])
    report = yield
    own = item.stash.get(_OWN, [])
    findings = [*(finding for each in opened for finding in each.findings()), *own]
    if findings and report.failed:
        from softcard.core.diagnostics import diagnostics_of

        setattr(report, _SUMMARY, [str(each) for each in diagnostics_of(findings)])
    is_shown = item.stash.get(_FAILED_BY_FINDINGS, False)
    item.stash[_FAILED_BY_FINDINGS] = False
    if report.failed and (opened or (own and call.when == "call")) and not is_shown:
        from softcard.testing.watch import verdict

        lints = [lint for each in opened if each.watch is not None for lint in each.watch.lints()]
        error = None if call.excinfo is None else call.excinfo.value
        width = item.config.get_terminal_writer().fullwidth
        report.sections.append(("softcard verdict", verdict(error, findings, lints, width)))
    if report.failed:
        width = item.config.get_terminal_writer().fullwidth
        for watch in (each.watch for each in opened if each.watch is not None):
            report.sections.append((f"softcard {watch.name}: last events", watch.last(width)))
            report.sections.append((f"softcard {watch.name}: trace", _shown_file(watch.write)))
            item.user_properties.append((f"softcard_{watch.name}_trace", str(watch.path)))
    if report.failed and (opened or own) and item.config.stash[_OPTIONS].report != "off":
        path = _shown_file(lambda: str(_written_report(item, report, findings)))
        report.sections.append(("softcard report", path))
        item.user_properties.append(("softcard_report", path))
    if report.when == "teardown":
        item.stash[_OPENED] = []  # events must not outlive their test
        item.stash[_OWN] = []
    return report


def _shown_file(write: Callable[[], str]) -> str:
    """Return the path of the file that `write` writes, or the reason why it cannot be written."""
    try:
        return write()
    except OSError as error:
        return f"cannot be written: {error}; name another folder with --softcard-trace-dir"


def _written_report(item: pytest.Item, report: pytest.TestReport, findings: list[AnyFinding]) -> Path:
    """Write the HTML report of a test that failed in the phase of `report`, and return its path."""
    from softcard.testing.failure_report import FailureReport

    page: FailureReport | None = item.stash.get(_REPORT, None)
    if page is None:
        page = item.stash[_REPORT] = FailureReport(item.nodeid, _path(item, "report"))
    crash = getattr(report.longrepr, "reprcrash", None)
    message = str(report.longrepr) if crash is None else str(crash.message)
    page.failed(str(report.when), next(iter(message.splitlines()), ""), report.longreprtext)
    opened = item.stash.get(_OPENED, [])
    for each in opened:
        page.code(each.programs(), each.name)
    return page.write([each.watch for each in opened if each.watch is not None], findings)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Return a short id for a parameter that is a device's settings, a kernel or code."""
    from softcard.testing.parameter_ids import id_of

    return id_of(val, argname)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the findings of all failed tests, each once, with the number of tests; show the coverage of kernels."""
    path = terminalreporter.config.stash[_OPTIONS].coverage
    if path is not None and path.exists():
        from softcard.image.coverage import Coverage

        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        terminalreporter.section("softcard coverage")
        terminalreporter.write_line(f"{Coverage.from_lcov(text, str(path)).summary()}: {path}")
    found = Counter(
        line
        for reports in terminalreporter.stats.values()
        for report in reports
        for line in dict.fromkeys(getattr(report, _SUMMARY, ()))
    )
    if not found:
        return
    terminalreporter.section("softcard findings")
    for line, tests in found.most_common(MOST_SUMMARISED):
        often = f" ({tests} tests)" if tests > 1 else ""
        terminalreporter.write_line(f"{line}{often}")
    if len(found) > MOST_SUMMARISED:
        terminalreporter.write_line(f"and {len(found) - MOST_SUMMARISED} more, which the failures above show")
