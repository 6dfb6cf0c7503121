"""The options of the pytest plug-in: each is an option of the command line and one of the configuration file.

The command line takes precedence. Both accept the same values.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pytest

MODES: Final = {"lints": {"lints": "raise"}, "coherence": {"coherence": "strict"}}
"""The names that the option "check" accepts in addition to names of checks, and their device settings."""
TIME_LIMIT_SECONDS: Final = 60.0


def _checks(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, (each.strip() for each in text.split(","))))
    from softcard.core.checks import CHECKS
    from softcard.core.errors import close_to

    known = (*MODES, *CHECKS, "all")
    for name in names:
        if name not in known:
            raise ArgumentTypeError(f"unknown check {name}, expected some of {', '.join(known)}{close_to(name, known)}")
    return names


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ArgumentTypeError(f"{text} is not a time limit, expected a number of seconds above 0")
    return seconds


@dataclass(frozen=True, slots=True)
class _Option:
    """An option: its name without prefix, its help text, and its values.

    The values are `choices`, or what `parse` makes of a text. `default` is the value of an option that is not set.
    """

    name: str
    text: str
    default: Any
    choices: tuple[str, ...] = ()
    parse: Callable[[str], Any] = str
    metavar: str = ""
    ini_type: Literal["string", "args"] = "string"

    @property
    def ini(self) -> str:
        """The name in a configuration file."""
        return f"softcard_{self.name}"

    @property
    def flag(self) -> str:
        """The name on the command line."""
        return f"--softcard-{self.name.replace('_', '-')}"

    def value_of(self, config: pytest.Config) -> Any:
        """Return the value from the command line, or else from the configuration file, or else the default.

        Raise `pytest.UsageError` for an invalid value in the configuration file.
        """
        given = config.getoption(self.flag)
        if given is not None:
            return given
        found = config.getini(self.ini)
        text = ",".join(found) if isinstance(found, list) else str(found)
        if not text:
            return self.default
        where = f"{config.inipath or 'the option -o'}: {self.ini}"
        if self.choices and text not in self.choices:
            raise pytest.UsageError(f"{where} is {text!r}, expected one of {', '.join(self.choices)}")
        try:
            value = self.parse(text)
        except ArgumentTypeError as error:
            raise pytest.UsageError(f"{where}: {error}") from None
        if isinstance(value, Path) and config.inipath is not None:
            return config.inipath.parent / value
        return value


_OPTIONS: Final = (
    _Option("engine", "engine that runs kernels (default: jit)", None, ("jit", "reference")),
    _Option(
        "check",
        f"checks to switch on, separated by commas: {', '.join(MODES)}, memory, init, ..., all",
        (),
        parse=_checks,
        metavar="CHECKS",
        ini_type="args",
    ),
    _Option(
        "trace",
        "tests to keep traces of: failed ones (default), all, or none (off, fastest)",
        "failed",
        ("failed", "all", "off"),
    ),
    _Option(
        "trace_dir",
        "folder for traces and reports (default: softcard/ in pytest's folder for temporary files)",
        None,
        parse=Path,
        metavar="DIR",
    ),
    _Option(
        "trace_format",
        "format of traces (default: jsonl; chrome is for Perfetto, html is a report for the browser)",
        "jsonl",
        ("jsonl", "chrome", "text", "html"),
    ),
    _Option(
        "report",
        "tests to write an HTML report of, with code and findings: failed ones (default), or none (off)",
        "failed",
        ("failed", "off"),
    ),
    _Option(
        "coverage",
        "LCOV file for the lines and branches of kernels that the tests have run (default: none)",
        None,
        parse=Path,
        metavar="FILE",
    ),
    _Option(
        "time_limit",
        f"time limit of one kernel, in seconds (default: {TIME_LIMIT_SECONDS:g})",
        TIME_LIMIT_SECONDS,
        parse=_seconds,
        metavar="SECONDS",
    ),
)


@dataclass(frozen=True, slots=True)
class Options:
    """The values of the plug-in's options in one run of pytest; the help texts describe them."""

    engine: str | None
    check: tuple[str, ...]
    trace: str
    trace_dir: Path | None
    trace_format: str
    report: str
    coverage: Path | None
    time_limit: float

    @classmethod
    def of(cls, config: pytest.Config) -> Options:
        """Return the options of a run; raise `pytest.UsageError` for an invalid one in the configuration file."""
        return cls(**{each.name: each.value_of(config) for each in _OPTIONS})

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of checks in `check`, without `MODES`."""
        return tuple(each for each in self.check if each not in MODES)

    @property
    def modes(self) -> dict[str, str]:
        """The device settings for the `MODES` in `check`."""
        return {name: value for each in self.check if each in MODES for name, value in MODES[each].items()}


def add_options(parser: pytest.Parser) -> None:
    """Register the options for the command line and for configuration files."""
    group = parser.getgroup("softcard", "Softcard: simulated accelerators for tests")
    for each in _OPTIONS:
        form: dict[str, Any] = {"choices": each.choices} if each.choices else {"type": each.parse}
        if each.metavar:
            form["metavar"] = each.metavar
        group.addoption(each.flag, help=each.text, **form)
        parser.addini(each.ini, f"like {each.flag}: {each.text}", type=each.ini_type, default="")
