"""Limits of time: where they come from, and what they say."""

from __future__ import annotations

import time

import pytest

from softcard.core.errors import WireError
from softcard.core.limits import (
    UNATTENDED_SECONDS,
    Stopped,
    TimeLimit,
    Watch,
    default_time_limit,
    past_steps,
    past_time,
)
from softcard.core.settings import KernelSettings


def attend(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a user's own process. No fixture: pytest sets its variable anew before the test itself."""
    for name in ("SOFTCARD_TIME_LIMIT", "PYTEST_CURRENT_TEST", "CI"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"PYTEST_CURRENT_TEST": "tests/x.py::y (call)"}, UNATTENDED_SECONDS),
        ({"CI": "true"}, UNATTENDED_SECONDS),
        ({"CI": "1"}, UNATTENDED_SECONDS),
        ({"CI": "false"}, None),
        ({"SOFTCARD_TIME_LIMIT": "2.5"}, 2.5),
        ({"SOFTCARD_TIME_LIMIT": " 7 ", "CI": "true"}, 7.0),
        ({"SOFTCARD_TIME_LIMIT": "None", "CI": "true"}, None),
        ({"SOFTCARD_TIME_LIMIT": "", "CI": "true"}, UNATTENDED_SECONDS),
    ],
)
def test_the_environment_says_the_default(
    environment: dict[str, str], seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend(monkeypatch)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_time_limit() == Watch().time_limit_seconds == KernelSettings().time_limit_seconds == seconds
    given = [KernelSettings(time_limit_seconds=each).time_limit_seconds for each in (None, 3)]
    assert given == [None, 3.0]


@pytest.mark.parametrize(
    ("text", "message"), [("soon", "expected a number of seconds above 0, or none"), ("0", "above 0")]
)
def test_a_default_that_is_none_is_refused(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTCARD_TIME_LIMIT", text)
    with pytest.raises(WireError, match=message):
        default_time_limit()


def test_both_limits_are_named_whichever_is_met() -> None:
    assert past_steps(100, None) == "100 instructions (step_limit; time_limit_seconds is None)"
    assert past_steps(100, 2.5) == "100 instructions (step_limit; time_limit_seconds is 2.5)"
    assert past_time(3.0, 100) == "3 s (time_limit_seconds; step_limit is 100)"
    assert past_time(3.0, None) == "3 s (time_limit_seconds; step_limit is None)"


def test_who_polls_is_notified() -> None:
    now = time.monotonic()
    Watch(None).poll(now - 1e9, str, None)
    Watch(60).poll(now, str, None)
    with pytest.raises(TimeLimit, match=r"did not end within 60 s \(.*step_limit is 9\): it slept"):
        Watch(60).poll(now - 61, lambda: "it slept", 9)
    with pytest.raises(Stopped, match="the device was closed while the kernel ran: it slept"):
        Watch(60, "the device was closed").poll(now - 61, lambda: "it slept", 9)
