"""What all tests share.

The one environment switch of the whole project is here: with ``CI=true`` a test marked `oracle` must run, so one that
is skipped there fails instead. Elsewhere oracles that are not installed are skipped with their reason.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Generator

import pytest
from hypothesis import settings

# Compiled code of the tests stays out of the user's cache.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="understudy-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

# Same examples in every run, and no time limits: a slow machine is no failure.
settings.register_profile("understudy", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("understudy")


def _must_run(item: pytest.Item) -> bool:
    return os.environ.get("CI") == "true" and item.get_closest_marker("oracle") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped oracle test into a failure where all oracles must be there."""
    report = yield
    if report.skipped and _must_run(item) and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"CI=true: an oracle test must not be skipped ({reason})"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse whole files that skip themselves there: nobody could tell which of their tests are oracles."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"CI=true: a file of tests must not be skipped ({reason})"
    return report
