"""What all tests share.

The one environment switch of the tests is here: with ``CI=true`` every test must run, so one that is skipped there
fails instead (tools/oracles.sh has installed all that tests need), unless it is marked `heavy`. Elsewhere tests whose
outside programs are not installed are skipped with their reason.
"""

import atexit
import faulthandler
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["pytester"]

YOUNG_OBJECTS = 5_000
"""The number of new objects at which Python looks for garbage among them: with Python's 700, 3 % of all time."""
STAYING = "softcard"
"""Prefix of names of threads that may stay: the product's own end with their devices."""

# Compiled code of the tests stays out of the user's cache; processes side by side share it, as a user's do.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="softcard-tests-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

# Where Python is told to write no bytecode, each run and each command that tests start would translate everything anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# pytest-xdist sets the width of the terminal for its processes; messages in pipes would then be wrapped there only.
# GNU readline, which pytest loads, sets it too, behind Python's back, for processes that inherit the environment.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")

# Tests send Ctrl-C; a shell that starts this in the background lets its programs ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Same examples in every run, and no time limits: a slow machine is no failure.
settings.register_profile("softcard", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("softcard")


def end_pool_of_dask() -> None:
    """End the thread that Dask keeps for the whole process: a wait of a later file would wait for it for ever."""
    utils = sys.modules.get("distributed.utils")
    if utils is not None:
        pool, utils._offload_executor = utils._offload_executor, ThreadPoolExecutor(1, "Dask-Offload")
        pool.shutdown()


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Generator[None]:
    """A file's threads end with it: others' calls wait for what a thread may yet do, as they would in a program."""
    before = set(threading.enumerate())
    yield
    end_pool_of_dask()
    end = time.monotonic() + 10
    while left := [each for each in threading.enumerate() if each not in before and not each.name.startswith(STAYING)]:
        assert time.monotonic() < end, f"left behind: {left}"
        time.sleep(0.05)
    # What the file leaves stays, as in a program of its own: otherwise each search for garbage in later files would
    # go through what all files before have left.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What is collected stays: looking for garbage in it again and again would take a tenth of all time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS)


class Watchdog:
    """The limit of a test that hears no signal: its process ends, with the stacks of its threads.

    pytest has such a limit, too. It starts a thread and ends it for each test, and waits for both: 2 ms of CPU time
    where all processors are busy, more than most tests take. This one sets its timer anew at the first test after a
    twentieth of the limit. So a test has at least 19 twentieths of it.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.errors = os.dup(sys.stderr.fileno())
        self.is_due_at = 0.0

    def pytest_runtest_logstart(self) -> None:
        """Set the timer anew where that is due."""
        now = time.monotonic()
        if now >= self.is_due_at:
            faulthandler.dump_traceback_later(self.limit, file=self.errors, exit=True)
            self.is_due_at = now + self.limit / 20

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Set the timer at the next test: pytest stops all timers where a test fails."""
        self.is_due_at = 0.0

    def pytest_unconfigure(self) -> None:
        """Stop the timer."""
        faulthandler.cancel_dump_traceback_later()
        os.close(self.errors)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs all combinations, and the setting for tests that hear no signal."""
    parser.addoption("--exhaustive", action="store_true", help="run all combinations of tests marked one_in(n)")
    parser.addini("watchdog", "seconds after which a test that hears no signal ends its process", default="660")


def pytest_configure(config: pytest.Config) -> None:
    """Watch over tests that hear no signal. Standard error is the real one here."""
    config.pluginmanager.register(Watchdog(float(config.getini("watchdog"))), "watchdog")


@pytest.fixture(scope="session")
def is_exhaustive(request: pytest.FixtureRequest) -> bool:
    """True with ``--exhaustive``: tests with a number of random cases then run more of them."""
    return bool(request.config.getoption("exhaustive"))


Seeds = Callable[..., Sequence[int]]
"""The type of the fixture `seeds`."""


@pytest.fixture(scope="session")
def seeds(is_exhaustive: bool) -> Seeds:
    """Choose the seeds of random cases: ``seeds(total, some, first)``.

    All of ``range(total)`` with ``--exhaustive``, otherwise `some` of them from `first` on, and 0 after the last one.
    Tests that give each of their parameters another `first` run every seed with some of them.
    """

    def chosen(total: int, some: int, first: int = 0) -> Sequence[int]:
        return range(total) if is_exhaustive else [(first + number) % total for number in range(min(some, total))]

    return chosen


def _is_among(item: pytest.Item, counts: Counter[tuple[object, ...]]) -> bool:
    """Whether a combination is one of those that are always run: the first of each n of its test."""
    marker = item.get_closest_marker("one_in")
    if marker is None:
        return True
    test = (item.path, getattr(item, "originalname", item.name))
    counts[test] += 1
    return (counts[test] - 1) % marker.args[0] == 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every n-th of many combinations; long files (guests, many slow tests or seconds) first, not alone at the end."""
    if not config.getoption("exhaustive"):
        counts: Counter[tuple[object, ...]] = Counter()
        chosen = [(item, _is_among(item, counts)) for item in items]
        config.hook.pytest_deselected(items=[item for item, is_among in chosen if not is_among])
        items[:] = [item for item, is_among in chosen if is_among]
    seconds = Counter[Path]()
    for item in items:
        marker = item.get_closest_marker("slow")
        seconds[item.path] += 0 if marker is None else marker.kwargs.get("seconds", 2)
    items.sort(key=lambda item: (not item.path.name.startswith("test_guest"), -seconds[item.path]))


def _all_must_run() -> bool:
    return os.environ.get("CI") == "true"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failure where all that tests need must be there."""
    report = yield
    is_allowed = hasattr(report, "wasxfail") or item.get_closest_marker("heavy") is not None
    if report.skipped and _all_must_run() and not is_allowed:
        report.outcome, report.longrepr = "failed", f"CI=true: a test must not be skipped ({_reason(report)})"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse whole files that skip themselves there."""
    report = yield
    if report.skipped and _all_must_run():
        report.outcome, report.longrepr = "failed", f"CI=true: a file of tests must not be skipped ({_reason(report)})"
    return report
