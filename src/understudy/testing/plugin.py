"""The plug-in of pytest: a device for each test that asks for one, and what is to be seen when the test fails.

pytest loads it by itself wherever Understudy is installed. Fixtures are `understudy_refsi`, `understudy_acceldev`,
`understudy_gpu` and `understudy_fletcher`; a marker of the same name, or the parameter of an indirect parametrisation,
says how the device is opened. What the command line says holds where neither does. See ``docs/pytest.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast
from zlib import crc32

import pytest

if TYPE_CHECKING:
    from understudy import Acceldev, Gpu, Platform, RefSi
    from understudy.core.event import Probes
    from understudy.core.settings import DeviceSettings
    from understudy.host.acceldev.port import LocalPort
    from understudy.testing.watch import Watch

DEVICES: Final = ("refsi", "acceldev", "gpu", "fletcher")
MODES: Final = {"lints": {"lints": "raise"}, "coherence": {"coherence": "strict"}}
"""What ``--understudy-check`` can name beside checks, and the settings that it stands for on devices that have them."""
TIME_LIMIT_SECONDS: Final = 60.0
LONGEST_NAME: Final = 100
"""Letters of a test's name in that of its trace: file systems take 255 bytes."""


@dataclass
class _Opened:
    """A device of a test, and who watches it. `findings` gives what it found, of which the test was told of `told`."""

    watch: Watch | None
    findings: Callable[[], list[str]]
    told: int = 0


_OPENED: Final = pytest.StashKey[list[_Opened]]()


# ---- the command line ------------------------------------------------------------------------------------------------
def pytest_addoption(parser: pytest.Parser) -> None:
    """The plug-in's options."""
    group = parser.getgroup("understudy", "Understudy, a bench of virtual accelerators")
    group.addoption("--understudy-engine", choices=("jit", "reference"), help="engine that runs kernels (jit)")
    group.addoption(
        "--understudy-check",
        type=_checks,
        default=(),
        metavar="CHECKS",
        help=f"checks to switch on, separated by commas: {', '.join(MODES)}, memory, init, ..., all",
    )
    group.addoption(
        "--understudy-trace",
        choices=("failed", "all", "off"),
        default="failed",
        help="keep traces of tests that fail (the default), of all, or of none; off is fastest",
    )
    group.addoption(
        "--understudy-trace-dir",
        type=Path,
        metavar="DIR",
        help="folder of traces (understudy/ in pytest's folder for temporary files)",
    )
    group.addoption(
        "--understudy-trace-format",
        choices=("jsonl", "chrome", "text", "html"),
        default="jsonl",
        help="how traces are written (jsonl; chrome is what Perfetto opens, html a page to look at)",
    )
    group.addoption(
        "--understudy-time-limit",
        type=_seconds,
        default=TIME_LIMIT_SECONDS,
        metavar="SECONDS",
        help=f"how long one kernel may run ({TIME_LIMIT_SECONDS:g})",
    )


def _checks(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, (each.strip() for each in text.split(","))))
    from understudy.core.checks import CHECKS
    from understudy.core.errors import close_to

    known = (*MODES, *CHECKS, "all")
    for name in names:
        if name not in known:
            raise _wrong(f"no such check: {name}, expected some of {', '.join(known)}{close_to(name, known)}")
    return names


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise _wrong(f"{text}, expected a number of seconds above 0")
    return seconds


def _wrong(message: str) -> Exception:
    from argparse import ArgumentTypeError

    return ArgumentTypeError(message)


def pytest_configure(config: pytest.Config) -> None:
    """The plug-in's markers."""
    for name in DEVICES:
        config.addinivalue_line(
            "markers", f"understudy_{name}(*arguments, **settings): how the fixture understudy_{name} opens its device"
        )


# ---- fixtures --------------------------------------------------------------------------------------------------------
@pytest.fixture
def understudy_refsi(request: pytest.FixtureRequest) -> Iterator[RefSi]:
    """A RefSi M1 device, opened by `RefSi.open`."""
    from understudy import RefSi
    from understudy.refsi import Settings

    arguments, settings = _asked(request, "refsi", Settings)
    device = RefSi.open(*arguments, **settings)
    log = device.port.log
    yield from _watched(request, "refsi", device, device.port.probes, lambda: () if log is None else log.kept)


@pytest.fixture
def understudy_acceldev(request: pytest.FixtureRequest) -> Iterator[Acceldev]:
    """An Acceldev with its driver, opened by `Acceldev.open`."""
    from understudy import Acceldev
    from understudy.acceldev import Settings

    arguments, settings = _asked(request, "acceldev", Settings)
    device = Acceldev.open(*arguments, **settings)
    yield from _watched(request, "acceldev", device, cast("LocalPort", device.port).probes)


@pytest.fixture
def understudy_gpu(request: pytest.FixtureRequest) -> Iterator[Gpu]:
    """A GPU of AMD HSA, opened by `Gpu.open`: gfx900 where the marker names no other agent."""
    from understudy import Gpu
    from understudy.hsa import Settings

    arguments, settings = _asked(request, "gpu", Settings)
    device = Gpu.open(*arguments, **settings)
    findings = device.device.findings
    yield from _watched(request, "gpu", device, device.device.probes, lambda: findings)


@pytest.fixture
def understudy_fletcher(request: pytest.FixtureRequest) -> Iterator[Platform]:
    """A Fletcher platform, initialised; the marker gives its kernel, or the name of a built-in one."""
    from understudy import Platform
    from understudy.fletcher import BUILT_IN, FletcherDevice, Settings, find

    (kernel, *more), settings = _asked(request, "fletcher", Settings, (None,))
    if kernel is None or more:
        pytest.fail(
            "understudy_fletcher needs its platform's kernel: @pytest.mark.understudy_fletcher(kernel), "
            f"or the name of one of {', '.join(BUILT_IN)}",
            pytrace=False,
        )
    kernel = find(kernel) if isinstance(kernel, str) else kernel
    device = FletcherDevice(kernel.map(), kernel, **settings)
    platform = Platform(device)
    yield from _watched(request, "fletcher", platform, device.probes)


def _asked(
    request: pytest.FixtureRequest, name: str, kind: type[DeviceSettings], arguments: tuple[Any, ...] = ()
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments that a test wants its device opened with."""
    config = request.config
    options: dict[str, Any] = {"time_limit_seconds": config.getoption("--understudy-time-limit")}
    if engine := config.getoption("--understudy-engine"):
        options["engine"] = engine
    wanted = config.getoption("--understudy-check")
    for mode in (each for each in wanted if each in MODES):
        options |= MODES[mode]
    if checks := [each for each in wanted if each not in MODES and each not in getattr(kind, "UNCHECKED", ())]:
        options["check"] = ",".join(checks)
    known = {each.name for each in fields(kind)}
    settings = {key: value for key, value in options.items() if key in known}
    marker = request.node.get_closest_marker(f"understudy_{name}")
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
) -> Iterator[Any]:
    watch = None

    def findings(*, warnings: bool = False) -> list[str]:
        from understudy.core.findings import Level

        return [str(each) for each in found() if (getattr(each, "level", None) is Level.WARNING) is warnings]

    with device:
        traced = request.config.getoption("--understudy-trace")
        if traced != "off":
            from understudy.testing.watch import Watch

            form = request.config.getoption("--understudy-trace-format")
            watch = Watch(name, probes, _path(request, name), form, whole=traced == "all")
        opened = _Opened(watch, findings)
        request.node.stash.setdefault(_OPENED, []).append(opened)
        try:
            yield device
        finally:
            if watch is not None:
                watch.close()
    for warning in findings(warnings=True):
        request.node.warn(pytest.PytestWarning(f"understudy {name}: {warning}"))
    if late := findings()[opened.told :]:
        pytest.fail("when it was closed the device found:\n" + "\n".join(late), pytrace=False)


def _path(request: pytest.FixtureRequest, name: str) -> Path:
    """Where the trace of a test's device is written, without its suffix: the same in every run, a test's own."""
    folder = request.config.getoption("--understudy-trace-dir")
    if folder is None:
        folder = request.getfixturevalue("tmp_path_factory").getbasetemp() / "understudy"
    test = request.node.nodeid
    readable = re.sub(r"\W+", "-", test.rpartition("/")[2])[:LONGEST_NAME].strip("-")
    return Path(folder).absolute() / f"{readable}-{crc32(test.encode()):08x}-{name}"


# ---- what failed -----------------------------------------------------------------------------------------------------
@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that passes on a device that found something fails; errors of devices end where the test called them."""
    try:
        result = yield
    except Exception as error:
        from understudy.core.errors import ModelBug, UnderstudyError

        if not isinstance(error, UnderstudyError) or isinstance(error, ModelBug) or item.config.getoption("fulltrace"):
            raise
        raise error.with_traceback(_without_own_frames(error.__traceback__)) from error.__cause__
    finally:
        for opened in item.stash.get(_OPENED, []):
            opened.told = len(opened.findings())
    found = [finding for opened in item.stash.get(_OPENED, []) for finding in opened.findings()]
    if found:
        pytest.fail("the test's own expectations hold, but the device found:\n" + "\n".join(found), pytrace=False)
    return result


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Without what lies inside of Understudy: it says nothing that the error does not."""
    if trace is None:
        return None
    rest = _without_own_frames(trace.tb_next)
    if str(trace.tb_frame.f_globals.get("__name__")).startswith("understudy."):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say what the devices of a failing test did last, which clause was broken, and where the trace is."""
    opened = item.stash.get(_OPENED, [])
    report = yield
    if not opened:
        return report
    if report.failed:
        from understudy.testing.watch import verdict

        watches = [each.watch for each in opened if each.watch is not None]
        lints = [lint for watch in watches for lint in watch.lints()]
        findings = [finding for each in opened for finding in each.findings()]
        error = None if call.excinfo is None else call.excinfo.value
        report.sections.append(("understudy verdict", verdict(error, findings, lints)))
        for watch in watches:
            report.sections.append((f"understudy {watch.name}: last events", watch.last()))
            report.sections.append((f"understudy {watch.name}: trace", watch.write()))
            item.user_properties.append((f"understudy_{watch.name}_trace", str(watch.path)))
    if report.when == "teardown":
        del item.stash[_OPENED]  # events must not outlive their test
    return report
